"""`method="auto"`: a method for the system and the tolerances, and another one when stiffness comes or goes.

Iterated Radau steps on the index-1 form are the fastest as long as the motion itself limits them; explicit ones where
functions of the model have kinks, or are evaluated lane by lane. What tells that it does not: an estimate of |h lambda|
(from the contraction of sweeps, or carried along by explicit steps [HW96, IV.2]) comes near the limit, or lambda is
many times the rate of the motion, |a|/|v|. Then, and only then, the spectrum of the linearised motion is looked at;
damped eigenvalues that fast mean stiffness, and Newton's method for the same stages (Radau IIA of fewer stages or BDF
for large systems, BDF on groups) takes over. It hands back when its steps are so short that the others would cost less.
Explicit steps also take over where iterated ones become short close to a position where the constraints lose rank: they
step across it. Where accelerations are implicit, Newton's method makes all of the run.

[HW96] E. Hairer, G. Wanner, Solving Ordinary Differential Equations II, Springer 1996.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dalembert.formulations.base import Formulation, as_formulation
from dalembert.formulations.index1 import Index1
from dalembert.integrators.base import Integrator
from dalembert.integrators.bdf import BDF
from dalembert.integrators.explicit import STIFFNESS, Explicit
from dalembert.integrators.iterated import LARGEST_NEWTON, Iterated
from dalembert.integrators.radau import Radau
from dalembert.model.system import System
from dalembert.numerics import runstate
from dalembert.numerics.compiled import judge, rate_of_motion
from dalembert.numerics.multipliers import implicit_accelerations
from dalembert.numerics.native import LANES
from dalembert.numerics.newton import FACTORIZATIONS, ITERATIONS, RESIDUALS
from dalembert.numerics.projection import Projection
from dalembert.numerics.stiffness import MANY_TIMES, MUCH_FASTER
from dalembert.runtime.assemble import make_layout
from dalembert.runtime.assembly import Workspace
from dalembert.runtime.ingredients import kinked, lane_by_lane
from dalembert.runtime.prepare import LARGEST_EXPLICIT, as_projection, newton_in_lanes, not_explicit
from dalembert.runtime.segments import Segment, Start, carry_on
from dalembert.runtime.start import initial_row
from dalembert.status import Status

LOOK_AFTER = 32  # steps; then after twice as many, and so on
# |h lambda|: 2/3 of the stability limit of DOP853 on the negative real axis, 6.1; of iterated Radau, where a sweep
# leaves lambda^2 (h A)^2 of what the one before it has changed, a contraction of 0.8: where tolerances are loose, the
# motion itself makes steps that long
NEAR_LIMIT, MOST_SLOW = 4.0, 9.0
RADIUS = 0.097  # spectral radius of A
LOOSE = 1e-5  # tolerance from which on dynamic states are left to order 5, and implicit accelerations to BDF
LARGEST_RADAU = 30  # unknowns of a stage up to which Radau IIA pays
VECTOR = 2.5  # instructions for numbers that take as long as one for all lanes
GAIN = 2.0  # by which another method has to be cheaper
KINDS = ("", "damped", "hidden")  # answers of `numerics.stiffness`
STIFF, NOT_STIFF = "auto: stiff", "auto: not stiff as far as is known"


@dataclass(frozen=True, eq=False)
class Choice:
    """A method, a formulation, and why."""

    method: Integrator
    formulation: Formulation
    reason: str


@dataclass(eq=False)
class Automatic:
    """Chooses the method of one run, watches it and changes it."""

    system: System
    formulation: str | Formulation | None
    projection: str | Projection | None
    rtol: float
    fixed: bool = False
    loosest: float = 1e-3  # of all tolerances
    _limit: float = 0.0  # |h lambda| that explicit steps can have here
    _patience: int = 1
    _looks: int = 0
    _hidden: bool = True  # undamped modes that are not excited are worth a try of implicit steps
    _judged: tuple[float, float] = (0.0, 0.0)  # largest |lambda| and rate of the motion when it was looked at last
    _need: str = "implicit"  # what implicit steps are for: accelerations, or KINDS
    _expected: str = ""  # what was found before the first step of the last run, if that began by implicit steps

    def __post_init__(self) -> None:
        # accuracy, too, limits |h lambda| of order 8, whatever the amplitude: an estimate until steps have shown it
        self._limit = min(NEAR_LIMIT, 8.0 * self.rtol ** (1 / 8))

    def first(self, t: float, values: Mapping[str, Any], p: np.ndarray) -> Choice:
        """What to begin with, at these initial values."""
        form = as_formulation(self.formulation, "index-1")
        if self.fixed:
            return Choice(BDF(), form, "auto: prescribed steps")
        if form.name not in Explicit.takes:
            return Choice(BDF(), form, f"auto: the formulation {form.name} was asked for")

        def row() -> np.ndarray:
            return initial_row(self.system, make_layout(self.system, BDF(), Index1()), **values)

        why = not_explicit(self.system, t, row, p)
        if why:
            if implicit_accelerations(self.system) and newton_in_lanes(self.system, t, row, p):
                return Choice(Iterated(newton=True), form, f"auto: {why}")
            return self._implicit(form, f"auto: {why}")
        # a run of the same system is likely to begin as the last one did; before its first step we look whether it does
        self._expected = self.system.__dict__.get("_begins_stiff", "")
        if self._expected:
            self._need = self._expected
            return self._implicit(form, STIFF)
        return Choice(self._explicit(), form, NOT_STIFF)

    def _explicit(self) -> Explicit | Iterated:
        system = self.system
        if system.nv + system.nlam + system.nmu > LARGEST_EXPLICIT or not (lane_by_lane(system) or kinked(system)):
            return Iterated()
        # between the longest steps of order 8 there is too little to interpolate first-order equations with
        return Explicit(order=8 if system.nq and (not system.nr or self.rtol < LOOSE) else 5)

    def _implicit(self, formulation: Formulation, reason: str) -> Choice:
        """For stiff systems, and those whose accelerations are implicit."""
        system = self.system
        n = system.nv + system.nlam + system.nmu + system.nw + system.ns
        method: Integrator = BDF()
        fit = system.nq and not system.nr and not system.calls and formulation.name in Radau.takes
        if self._need != "implicit" and system.nq and system.space.flat and system.nv + system.nr <= LARGEST_NEWTON:
            return Choice(Iterated(newton=True), formulation, reason)
        loose = self._need == "implicit" and self.rtol >= LOOSE
        if fit and system.space.flat and n <= LARGEST_RADAU and not loose:
            method = Radau(stages=3)
        return Choice(method, formulation, reason)

    # ------------------------------------------------------------------ during the run
    def watch(self, method: Integrator, formulation: Formulation) -> dict[str, Any]:
        """Fields of a `Start` that is to be watched; none if there is no other method to change to."""
        why = self.system.__dict__.get("_not_explicit", {}).get("why")
        if self.fixed or formulation.name not in Explicit.takes or why:
            return {}
        rate_of_motion(), judge()  # compiled once per machine: not part of the run's time
        if _for_nonstiff(method):
            return {"pause": self._stiff, "look_every": LOOK_AFTER}
        # what is hidden at the start of a run with loose tolerances is likely to remain so
        later = 2 if self._need == "hidden" and self.rtol >= LOOSE else 1
        return {"pause": self._relaxed, "look_every": later * LOOK_AFTER, "expected": KINDS.index(self._expected)}

    def _stiff(self, run: runstate.Run, work: Workspace) -> bool:
        """True if explicit steps are shorter than the motion asks for."""
        if run.whole.item(runstate.STEPS) == 0:
            # unless implicit steps have just been given up
            self._need = self._at_start(run, work) if self._patience == 1 else ""
            return self._need != ""
        if run.whole[runstate.ALARMED] and run.whole[runstate.LANE_KERNEL]:
            self._need = "singular"
            return True
        if self._waits():
            return False
        motion = rate_of_motion()(run.block, work.block)
        z, h, limit = _fastest(run, work)
        if z < limit and z < MUCH_FASTER * motion * h:
            return False
        if z < 2.0 * self._judged[0] * h and motion > 0.5 * self._judged[1]:  # nothing new
            return False
        self._need = KINDS[judge()(run.block, work.block, min(limit / h, MUCH_FASTER * motion), 0.0, 0)]
        fastest = run.real.item(runstate.FASTEST)
        self._judged, self._limit = (fastest, motion), min(max(fastest * h, 0.1), limit)
        if self._need == "hidden" and not self._hidden:
            self._need = ""
        return self._need != ""

    def _at_start(self, run: runstate.Run, work: Workspace) -> str:
        """What implicit steps are needed for before the first step; "" if they are not."""
        if run.whole.item(runstate.LOOKS):  # compiled code has found out
            kind = run.whole.item(runstate.FOUND)
        else:
            slow = MANY_TIMES / abs(run.real.item(runstate.T_END) - run.real.item(runstate.T))
            kind = judge()(run.block, work.block, slow, slow, 1)
        self.system.__dict__["_begins_stiff"] = KINDS[kind]
        return KINDS[kind]

    def _relaxed(self, run: runstate.Run, work: Workspace) -> bool:
        """True if explicit steps would cost less than the implicit ones do."""
        steps, t, t_end = run.whole.item(runstate.STEPS), run.real.item(runstate.T), run.real.item(runstate.T_END)
        if self._expected:  # because of another run
            if steps == 0 and self._at_start(run, work) != self._expected:
                return True
            self._expected, self._patience = "", 2
        if steps == 0 or (self._need != "hidden" and self._waits()):
            return False
        h = abs(run.nodes.item(1) - run.nodes.item(4)) / 3.0
        if abs(t_end - t) < LOOK_AFTER * h:  # soon over
            return False
        judge()(run.block, work.block, 0.0, 0.0, 0)
        fastest = run.real.item(runstate.FASTEST)
        return GAIN * _cost_of_an_explicit_step(work) * fastest / self._limit < _cost_of_a_step(run, work) / h

    def _waits(self) -> bool:
        """After each change twice as many looks go by before the next one."""
        self._looks += 1
        return self._looks < self._patience

    def follow(self, segments: Sequence[Segment]) -> Start | None:
        """The next segment after one that was paused: the same state with the other method."""
        last = segments[-1]
        if last.result.status != Status.RUNNING:
            return None
        form = last.start.formulation
        # before its first step the other method knew no more than this one will
        first_step = abs(float(last.result.state.real[runstate.H])) if last.steps else last.start.first_step
        if self._expected:  # what is not there
            choice, self._expected = Choice(self._explicit(), form, NOT_STIFF), ""
        else:
            self._looks, self._patience = 0, 2 * self._patience
            if self._need == "singular":
                # order 5 gets across more often than order 8, whose stages are further apart, see
                # tests/test_redundant.py
                choice = Choice(Explicit(5), form, "auto: close to a position where the constraints lose rank")
                first_step, self._need = float(last.result.state.real[runstate.LENGTH]), "implicit"
            elif _for_nonstiff(last.start.method):
                choice = self._implicit(form, STIFF)
            else:
                choice = Choice(self._explicit(), form, "auto: no longer stiff")
                self._hidden = False  # no damping has made them vanish since: they do matter at this tolerance
        method = choice.method.for_space(self.system.space, form, self.loosest)
        projection = as_projection(self.projection, last.start.system, form, method)
        watch = self.watch(method, form)
        return carry_on(
            last, method=method, formulation=form, projection=projection, reason=choice.reason,
            first_step=first_step, **watch,
        )  # fmt: skip


def _for_nonstiff(method: Integrator) -> bool:
    return isinstance(method, Explicit) or (isinstance(method, Iterated) and not method.newton)


def _fastest(run: runstate.Run, work: Workspace) -> tuple[float, float, float]:
    """|h lambda| of the fastest motion, as far as steps have noticed it, their size h, and how large it may be."""
    layout, real = work.assembly.layout, run.real
    if layout.has(STIFFNESS):
        z = run.rows[run.slots[1]].item(layout.slice(STIFFNESS).start)
        return z, abs(real.item(runstate.H_ACCEPTED)), NEAR_LIMIT
    return math.sqrt(real.item(runstate.CONTRACTION)) / RADIUS, real.item(runstate.LENGTH), MOST_SLOW


def _cost_of_an_explicit_step(work: Workspace) -> float:
    """Instructions, about: the accelerations of twelve stages."""
    kernels, parts = work.assembly.kernels, ("residual", "matrix", "factor", "solve")
    return 12.0 * sum(kernels[name].n_instructions for x in parts if (name := f"multipliers.{x}") in kernels)


def _cost_of_a_step(run: runstate.Run, work: Workspace) -> float:
    """Instructions executed for an implicit step, on the average so far."""
    kernels, counters = work.assembly.kernels, run.counters
    n = work.assembly.n_step

    def length(name: str, otherwise: float) -> float:
        return kernels[name].n_instructions if name in kernels else otherwise

    if "lanes.solve" in kernels:
        attempts = run.whole.item(runstate.STEPS) + run.whole.item(runstate.REJECTED)
        total = VECTOR * (
            counters[RESIDUALS] / LANES * (length("lanes", 0.0) + 0.5 * length("lanes.solve", 0.0))
            + attempts * (length("lanes.jacobian", 0.0) / VECTOR + 0.5 * length("lanes.factor", 0.0))
        )
        return float(total) / max(run.whole.item(runstate.STEPS), 1)
    total = (
        counters[RESIDUALS] * length("step.residual", 0.0)
        + counters[FACTORIZATIONS] * length("step.factor", n**3 / 3)
        + counters[ITERATIONS] * length("step.solve", 2.0 * n**2)
    )
    return float(total) / max(int(run.whole[runstate.STEPS]), 1)
