"""`method="auto"`: a method for the system and the tolerances, and another one when stiffness comes or goes.

Iterated Radau steps on the index-1 form are the fastest as long as the motion itself limits them; explicit ones where
functions of the model have kinks, or are evaluated lane by lane. What tells that it does not: an estimate of |h lambda|
(from the contraction of sweeps, or carried along by explicit steps [HW96, IV.2]) comes near the limit, or lambda is
many times the rate of the motion, |a|/|v|. Then, and only then, the spectrum of the linearised motion is looked at;
damped eigenvalues that fast mean stiffness, and Radau IIA (BDF for large systems and on groups) takes over. It hands
back when its steps are so short that the others would cost less. Explicit steps also take over where iterated ones
become short close to a position where the constraints lose rank: they step across it.

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
from dalembert.integrators.iterated import Iterated
from dalembert.integrators.radau import CarefulRadau, Radau
from dalembert.model.system import System
from dalembert.numerics import runstate
from dalembert.numerics.compiled import arnoldi, motion_rate
from dalembert.numerics.newton import FACTORIZATIONS, ITERATIONS, RESIDUALS
from dalembert.numerics.opening import A, V
from dalembert.numerics.projection import Projection
from dalembert.runtime.assembly import Workspace, make_layout
from dalembert.runtime.ingredients import kinked, lane_by_lane
from dalembert.runtime.prepare import LARGEST_EXPLICIT, as_projection, not_explicit
from dalembert.runtime.segments import Segment, Start, carry_on
from dalembert.runtime.spectrum import spectrum
from dalembert.runtime.start import initial_row
from dalembert.status import Status

LOOK_AFTER = 32  # steps; then after twice as many, and so on
# |h lambda|: 2/3 of the stability limit of DOP853 on the negative real axis, 6.1; of iterated Radau, where a sweep
# leaves lambda^2 (h A)^2 of what the one before it has changed, a contraction of 0.8: where tolerances are loose, the
# motion itself makes steps that long
NEAR_LIMIT, MOST_SLOW = 4.0, 9.0
RADIUS = 0.097  # spectral radius of A
MUCH_FASTER = 8.0  # than the motion
DAMPED = 0.1  # -Re lambda / |lambda| from which on a fast mode dies out by itself
MANY_TIMES = 1000.0  # in a run: a damped mode that fast is stiff before the first step is made
HIDDEN = 50.0  # times as fast as the motion: an undamped mode that is not excited
LOOSE = 1e-5  # tolerance from which on dynamic states are left to order 5, and implicit accelerations to BDF
LARGEST_RADAU, LARGEST_LOOSE = 30, 8  # unknowns of a stage up to which Radau IIA pays, and with those at LOOSE
# the same for five stages instead of three, by what makes implicit steps necessary (implicit accelerations, damped
# modes, or undamped ones that are not excited), and the tolerance up to which they pay
FIVE = {"implicit": (8, LOOSE), "damped": (16, LOOSE), "hidden": (16, 1.0)}
GAIN = 2.0  # by which another method has to be cheaper
NONSTIFF = (Explicit, Iterated)


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
    _need: str = "implicit"  # what implicit steps are for, see FIVE

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
            return self._implicit(form, f"auto: {why}")
        return Choice(self._explicit(), form, "auto: not stiff as far as is known")

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
        loose = self._need == "implicit" and self.rtol >= LOOSE
        if fit and system.space.flat and n <= (LARGEST_LOOSE if loose else LARGEST_RADAU):
            largest, loosest = FIVE[self._need]
            method = Radau(stages=3)
            if n <= largest and self.rtol < loosest:
                # order 7 is enough for motions that loose tolerances let pass over vibrations, and costs less a step
                stages = 4 if self._need == "hidden" and self.rtol >= LOOSE else 5
                method = CarefulRadau() if self._need == "damped" else Radau(stages)
        return Choice(method, formulation, reason)

    # ------------------------------------------------------------------ during the run
    def watch(self, method: Integrator, formulation: Formulation) -> dict[str, Any]:
        """Fields of a `Start` that is to be watched; none if there is no other method to change to."""
        why = self.system.__dict__.get("_not_explicit", {}).get("why")
        if self.fixed or formulation.name not in Explicit.takes or why:
            return {}
        motion_rate(), arnoldi()  # compiled once per machine: not part of the run's time
        return {"pause": self._stiff if isinstance(method, NONSTIFF) else self._relaxed, "look_every": LOOK_AFTER}

    def _stiff(self, run: runstate.Run, work: Workspace) -> bool:
        """True if explicit steps are shorter than the motion asks for."""
        t, row = float(run.real[runstate.T]), run.rows[run.slots[1]]
        if run.whole[runstate.STEPS] == 0:
            if self._patience > 1:  # implicit steps have just been given up
                return False
            slow = MANY_TIMES / abs(float(run.real[runstate.T_END]) - t)
            found = spectrum(work, t, row, slow, known=True)
            if not found.size:
                return False
            slow = max(slow, MUCH_FASTER * found.real.max(initial=0.0))
            fast = found[np.abs(found) > slow]
            return fast.size > 0 and self._needs(_damped(fast), np.abs(fast) > HIDDEN * _rate_of_motion(run, work))
        if run.whole[runstate.ALARMED] and run.whole[runstate.LANE_KERNEL]:
            self._need = "singular"
            return True
        if self._waits():
            return False
        motion = _rate_of_motion(run, work)
        z, h, limit = _fastest(run, work)
        if z < limit and z < MUCH_FASTER * motion * h:
            return False
        if z < 2.0 * self._judged[0] * h and motion > 0.5 * self._judged[1]:  # nothing new
            return False
        found = spectrum(work, t, row)
        size = np.abs(found)
        self._judged = float(size.max(initial=0.0)), motion
        fast = (size * h > limit) | (size > MUCH_FASTER * motion)
        self._limit = float(np.clip(size.max(initial=0.0) * h, 0.1, limit))
        return self._needs(_damped(found) & fast, size > HIDDEN * motion)

    def _needs(self, damped: np.ndarray, hidden: np.ndarray) -> bool:
        """True if there are modes that implicit steps pass over, and what kind they are."""
        if np.any(damped):
            self._need = "damped"
        elif self._hidden and np.any(hidden):
            self._need = "hidden"
        else:
            return False
        return True

    def _relaxed(self, run: runstate.Run, work: Workspace) -> bool:
        """True if explicit steps would cost less than the implicit ones do."""
        if run.whole[runstate.STEPS] == 0 or self._waits():
            return False
        row = run.rows[run.slots[1]]
        fastest = np.abs(spectrum(work, float(run.real[runstate.T]), row)).max(initial=0.0)
        h = abs(float(run.nodes[1] - run.nodes[4])) / 3.0
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
        first_step = abs(float(last.result.state.real[runstate.H])) if last.steps else None
        if self._need == "singular":
            # order 5 gets across more often than order 8, whose stages are further apart: see tests/test_redundant.py
            choice = Choice(Explicit(5), form, "auto: close to a position where the constraints lose rank")
            first_step, self._need = float(last.result.state.real[runstate.LENGTH]), "implicit"
        elif isinstance(last.start.method, NONSTIFF):
            choice = self._implicit(form, "auto: stiff")
        else:
            choice = Choice(self._explicit(), form, "auto: no longer stiff")
            self._hidden = False  # no damping has made them vanish since: they do matter at this tolerance
        self._looks, self._patience = 0, 2 * self._patience
        method = choice.method.for_space(self.system.space, form, self.loosest)
        projection = as_projection(self.projection, last.start.system, form, method)
        watch = self.watch(method, form)
        return carry_on(
            last, method=method, formulation=form, projection=projection, reason=choice.reason,
            first_step=first_step, **watch,
        )  # fmt: skip


def _fastest(run: runstate.Run, work: Workspace) -> tuple[float, float, float]:
    """|h lambda| of the fastest motion, as far as steps have noticed it, their size h, and how large it may be."""
    layout, real = work.assembly.layout, run.real
    if layout.has(STIFFNESS):
        z = run.rows[run.slots[1]].item(layout.slice(STIFFNESS).start)
        return z, abs(real.item(runstate.H_ACCEPTED)), NEAR_LIMIT
    return math.sqrt(real.item(runstate.CONTRACTION)) / RADIUS, real.item(runstate.LENGTH), MOST_SLOW


def _rate_of_motion(run: runstate.Run, work: Workspace) -> float:
    """|a| / |v| over the last steps; a rotation at constant speed is motion, too."""
    assembly = work.assembly
    at_v, at_a = assembly.blocks.item(V), assembly.blocks.item(A)
    carried = at_a < assembly.n_past
    rates: float = motion_rate()(
        run.rows, run.slots, run.nodes, at_v, at_a if carried else -1, assembly.system.nv,
        0 if assembly.system.space.flat else 1,
    )  # fmt: skip
    return rates


def _damped(eigenvalues: np.ndarray) -> np.ndarray:
    return np.asarray(eigenvalues.real < -DAMPED * np.abs(eigenvalues))


def _cost_of_an_explicit_step(work: Workspace) -> float:
    """Instructions, about: the accelerations of twelve stages."""
    parts = [kernel for name, kernel in work.assembly.kernels.items() if name.startswith("multipliers.")]
    return 12.0 * sum(kernel.n_instructions for kernel in parts)


def _cost_of_a_step(run: runstate.Run, work: Workspace) -> float:
    """Instructions executed for an implicit step, on the average so far."""
    kernels, counters = work.assembly.kernels, run.counters
    n = work.assembly.n_step

    def length(name: str, otherwise: float) -> float:
        return kernels[name].n_instructions if name in kernels else otherwise

    total = (
        counters[RESIDUALS] * length("step.residual", 0.0)
        + counters[FACTORIZATIONS] * length("step.factor", n**3 / 3)
        + counters[ITERATIONS] * length("step.solve", 2.0 * n**2)
    )
    return float(total) / max(int(run.whole[runstate.STEPS]), 1)
