"""The doctor: what a system is like, and which formulation and method suit it.

[AP93] U. Ascher, L. Petzold, Stability of computational methods for constrained dynamics systems (1993), section 3.3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from dalembert.analysis.rates import Matrices, Rates, matrices, rates
from dalembert.driver import solve
from dalembert.formulations import Formulation, Index1, ProjectedInvariants, StabilizedIndex2
from dalembert.integrators import BDF, Integrator
from dalembert.model.system import System
from dalembert.runtime.start import dependent_rows
from dalembert.solution import Solution
from dalembert.status import OptionError

FAST = 30.0  # a rate this many times that of the motion counts as fast
SAMPLES = 12
TRIAL_TOLERANCE = 1e-4

CASES = {
    0: "no constraints: an ordinary differential equation",
    1: "nothing is fast besides the motion itself",
    2: "the constraints turn fast compared with the motion",
    3: "stiff forces, slowly varying constraints",
    4: "stiffness from the changing geometry: the multipliers act in directions that the constraints hardly see",
}


@dataclass(frozen=True)
class Diagnosis:
    """What `diagnose` found.

    Attributes
    ----------
    degrees_of_freedom, index
        Free velocities; differentiation index of the equations as they stand.
    rank, redundant
        Rank of the constraints; names of constraints that depend on each other.
    condition
        Condition number of G M^-1 G^T (rows scaled) at its worst along the motion.
    mass_spread
        Largest eigenvalue of the mass matrix over the smallest.
    rates, stiff
        Largest rates along the motion; whether the forces are stiff.
    case, reason
        Case 1 to 4 of Ascher & Petzold (0: unconstrained), and why.
    formulation, method, recommendation
        What to use, and the same in a sentence with its reference.
    warnings
        What may go wrong.
    """

    degrees_of_freedom: int
    index: int
    rank: int
    redundant: tuple[str, ...]
    condition: float
    mass_spread: float
    rates: Rates
    stiff: bool
    case: int
    reason: str
    formulation: Formulation
    method: Integrator
    recommendation: str
    warnings: tuple[str, ...] = field(default=())

    def as_dict(self) -> dict[str, Any]:
        """Plain data."""
        out = {name: getattr(self, name) for name in self.__dataclass_fields__}
        out["rates"] = asdict(self.rates)
        out["formulation"], out["method"] = self.formulation.describe(), self.method.describe()
        out["redundant"], out["warnings"] = list(self.redundant), list(self.warnings)
        return out

    def facts(self) -> list[tuple[str, str]]:
        """What was found, as label and text."""
        r = self.rates
        redundant = f"; redundant: {', '.join(self.redundant)}" if self.redundant else ""
        return [
            ("degrees of freedom", str(self.degrees_of_freedom)),
            ("differentiation index", str(self.index)),
            ("constraint rank", f"{self.rank}{redundant}"),
            ("cond(G M^-1 G^T)", f"{self.condition:.3g}"),
            ("spread of the mass matrix", f"{self.mass_spread:.3g}"),
            ("rate of the motion", f"{r.motion:.3g} per unit of time"),
            ("constraints turn", f"{r.turning / r.motion:.3g} times as fast"),
            ("F C'", f"{r.FC / r.motion:.3g} times as fast"),
            ("R'S", f"{r.RS / r.motion:.3g} times as fast"),
            ("forces decay", f"{r.frozen / r.motion:.3g} times as fast"),
            ("forces oscillate", f"{r.frequency / r.motion:.3g} times as fast"),
            ("case", f"{self.case}: {self.reason}"),
            ("advice", self.recommendation),
            *[("warning", w) for w in self.warnings],
        ]

    def __str__(self) -> str:
        return "\n".join(f"{label:26s}{text}" for label, text in self.facts())


def diagnose(
    system: System,
    q0: Any = None,
    v0: Any = None,
    t_span: Sequence[float] = (0.0, 1.0),
    *,
    parameters: Mapping[str, Any] | None = None,
    **start: Any,
) -> Diagnosis:
    """Examine a system along a trial run and recommend a formulation and a method.

    Parameters
    ----------
    system, q0, v0, t_span, parameters
        As for `solve`; r0, w0, s0 likewise. Inconsistent initial values are projected.

    Examples
    --------
    >>> import dalembert as da
    >>> problem = da.problems()["pendulum"]
    >>> da.diagnose(problem.system, problem.q0, problem.v0, (0, 2)).case
    1
    """
    constrained = system.nlam + system.nmu > 0
    trial = solve(
        system, t_span, q0, v0, parameters=parameters, initial=start.pop("initial", "project"),
        formulation=ProjectedInvariants(levels=2 if system.nq else 1) if constrained else None,
        rtol=TRIAL_TOLERANCE, atol=TRIAL_TOLERANCE, max_steps=200_000, **start,
    )  # fmt: skip
    if trial.t.size < 4:
        raise OptionError(f"the trial run got nowhere: {trial.message}")
    found, middles = _along(system, trial, system.parameters.vector(parameters))
    worst = Rates(*[max(getattr(r, f) for r in found) for f in Rates.__dataclass_fields__])
    return _judge(system, worst, middles, trial)


def _along(system: System, trial: Solution, p: np.ndarray) -> tuple[list[Rates], list[Matrices]]:
    """Rates and matrices at samples of a trial run."""
    span = abs(trial.t[-1] - trial.t[0])
    motion = float(np.sqrt(np.mean(trial.a**2) / max(float(np.mean(trial.v**2)), 1e-300)))
    motion = max(min(motion, trial.t.size / span), 1.0 / span)
    steps = np.abs(np.diff(trial.t))
    found, middles = [], []
    for i in np.unique(np.linspace(1, trial.t.size - 2, SAMPLES).astype(int)):
        t, dt = float(trial.t[i]), 1e-4 * float(min(steps[i - 1], steps[i]))
        at = []
        for when in (t - dt, t, t + dt):
            state = trial(when)
            parts = {n: getattr(state, n) for n in ("q", "v", "a", "r", "w", "s", "lam", "mu")}
            at.append(matrices(system, {"t": when, "p": p, **parts}))
        found.append(rates(at[0], at[1], at[2], dt, motion, order=2 if system.nq else 1))
        middles.append(at[1])
    return found, middles


def _judge(system: System, worst: Rates, middles: list[Matrices], trial: Solution) -> Diagnosis:
    C = middles[0].C
    labels = [*system.names["constraints"], *system.names["velocity_constraints"]]
    norms = np.linalg.norm(C, axis=1, keepdims=True)
    dependent = dependent_rows(C / np.where(norms > 0, norms, 1))[0] if len(C) else []
    rank = int(np.linalg.matrix_rank(C)) if len(C) else 0
    condition = max(_scaled_condition(m) for m in middles)
    eigenvalues = [np.abs(np.linalg.eigvalsh(m.M)) for m in middles]
    fast = worst.turning > FAST * worst.motion
    geometry = max(worst.RS, worst.FC) > FAST * worst.motion and not fast
    stiff = worst.frozen > FAST * worst.motion
    case = 0 if not len(C) else 2 if fast else 4 if geometry else 3 if stiff else 1
    formulation, why = _choose(case, system)
    method = BDF()
    warnings = []
    if condition > 1e10:
        warnings.append(f"the constraints are nearly dependent (condition {condition:.1g}): reactions lose digits.")
    if worst.frequency > FAST * worst.motion and not stiff:
        warnings.append("fast undamped oscillations: the step size follows them, or BDF damps them away.")
    if not trial.success:
        warnings.append(f"the trial run did not reach the end: {trial.message}")
    return Diagnosis(
        degrees_of_freedom=system.nv - rank,
        index=3 if system.nlam else 2 if system.nmu else 1 if system.nw + system.ns else 0,
        rank=rank,
        redundant=tuple(labels[i] for i in dependent),
        condition=condition,
        mass_spread=max(float(e.max() / max(e.min(), 1e-300)) for e in eigenvalues),
        rates=worst,
        stiff=stiff,
        case=case,
        reason=CASES[case] + ("; forces are stiff" if stiff and case != 3 else ""),
        formulation=formulation,
        method=method,
        recommendation=f"{method.describe()} on {formulation.describe()}: {why}",
        warnings=tuple(warnings),
    )


def _choose(case: int, system: System) -> tuple[Formulation, str]:
    """Formulation for a case, with the reason and its reference."""
    if case == 0:
        return Index1(), "there is nothing to reformulate."
    if case == 1:
        return Index1(), (
            "every form works; index 1 with projection is the cheapest with exact constraints "
            "(Eich 1993; Ascher & Petzold 1993, case 1)."
        )
    if case == 3:
        return StabilizedIndex2(), (
            "the stiff part is reproduced by every discretisation, so the index-2 form without further differentiation "
            "is the simplest (Ascher & Petzold 1993, case 3)."
        )
    levels = 2 if system.nq else 1
    return ProjectedInvariants(levels=levels, balanced=case == 2 and levels == 2), (
        "index-2 forms would treat the fast geometry explicitly; re-imposing the constraints along D = G^T does not "
        f"(Ascher & Petzold 1993, case {case})."
    )


def _scaled_condition(m: Matrices) -> float:
    if not len(m.C):
        return 1.0
    gram = m.C @ m.B
    d = np.sqrt(np.abs(np.diag(gram)))
    d[d == 0] = 1.0
    return float(np.linalg.cond(gram / np.outer(d, d)))
