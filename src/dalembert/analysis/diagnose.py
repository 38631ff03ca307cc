"""The doctor: what a system is like, and which formulation and method suit it.

[AP93] U. Ascher, L. Petzold, Stability of computational methods for constrained dynamics systems (1993), section 3.3.

A short trial run at a loose tolerance shows the motion; the system is linearised at samples of it (`rates`), and the
largest rates, relative to that of the motion itself, decide (`advice`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from dalembert.analysis.advice import advise
from dalembert.analysis.rates import SINGULAR, Matrices, Rates, matrices, rates
from dalembert.driver import solve
from dalembert.formulations import Formulation, Index1, ProjectedInvariants, StabilizedIndex2
from dalembert.integrators import BDF, Integrator
from dalembert.model.system import System
from dalembert.runtime.assemble import make_layout
from dalembert.runtime.start import dependent_rows, initial_row, point_values, solve_contact
from dalembert.runtime.subset import surplus_rows, without
from dalembert.solution import Solution
from dalembert.status import OptionError
from dalembert.table import format_number

SAMPLES = 12  # of the trial run, equidistant in steps, and as many equidistant in time
TRIAL_TOLERANCE = 1e-4
TRIAL_STEPS = 20_000
ILL_CONDITIONED = 1e10
PARTS = ("q", "v", "a", "r", "w", "s", "lam", "mu")


@dataclass(frozen=True)
class Diagnosis:
    """What `diagnose` found.

    Attributes
    ----------
    degrees_of_freedom, index
        Free velocities; differentiation index of the equations as they stand.
    rank, redundant, remove
        Rank of the constraints; names of those that depend on each other; a choice of them that can be left out.
    condition
        Condition number of G M^-1 G^T (rows scaled) at its worst along the motion; infinite with redundant constraints.
    mass_spread
        Largest eigenvalue of the mass matrix over the smallest, at its worst.
    rates, stiff, oscillates
        Largest rates along the motion; whether the forces are stiff, and whether they oscillate fast.
    case, reason
        Case 1 to 4 of Ascher & Petzold (0: unconstrained), and what it means.
    formulation, method, recommendation
        What to give to `solve`, and the same in a sentence with the reason and its reference.
    basis
        What all this was found from.
    warnings
        What may go wrong.
    """

    degrees_of_freedom: int
    index: int
    rank: int
    redundant: tuple[str, ...]
    remove: tuple[str, ...]
    condition: float
    mass_spread: float
    rates: Rates
    stiff: bool
    oscillates: bool
    case: int
    reason: str
    formulation: Formulation
    method: Integrator
    recommendation: str
    basis: str
    warnings: tuple[str, ...] = field(default=())

    def as_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON (infinite numbers become None)."""
        out = {name: getattr(self, name) for name in self.__dataclass_fields__}
        out["rates"] = {name: _finite(x) for name, x in asdict(self.rates).items()}
        out["condition"], out["mass_spread"] = _finite(self.condition), _finite(self.mass_spread)
        out["formulation"], out["method"] = repr(self.formulation), repr(self.method)
        return {name: list(x) if isinstance(x, tuple) else x for name, x in out.items()}

    def facts(self) -> list[tuple[str, str]]:
        """What was found, as label and text."""
        r = self.rates

        def relative(x: float) -> str:
            return f"{format_number(x / r.motion if x > 1e-9 * r.motion else 0.0, 3)} times as fast"

        out = [("degrees of freedom", str(self.degrees_of_freedom)), ("differentiation index", str(self.index))]
        if self.case or self.redundant:
            out.append(("rank of the constraints", str(self.rank)))
            if self.redundant:
                out.append(("redundant", f"{', '.join(map(repr, self.redundant))} depend on each other"))
            out.append(("cond(G M^-1 G^T)", format_number(self.condition, 3)))
        out += [
            ("spread of the mass matrix", format_number(self.mass_spread, 3)),
            ("rate of the motion", f"{format_number(r.motion, 3)} per unit of time"),
        ]
        if self.case:
            out += [("constraints turn", relative(r.turning)), ("F C'", relative(r.FC)), ("R'S", relative(r.RS))]
        return [
            *out,
            ("forces decay", relative(r.frozen)),
            ("forces oscillate", relative(r.frequency)),
            ("found from", self.basis),
            ("case", f"{self.case}: {self.reason}"),
            ("advice", self.recommendation),
            *[("warning", w) for w in self.warnings],
        ]

    def __str__(self) -> str:
        return "\n".join(f"{label:27s}{text}" for label, text in self.facts())


def diagnose(
    system: System,
    q0: Any = None,
    v0: Any = None,
    t_span: Sequence[float] = (0.0, 1.0),
    *,
    parameters: Mapping[str, Any] | None = None,
    r0: Any = None,
    w0: Any = None,
    s0: Any = None,
) -> Diagnosis:
    """Examine a system along a trial run and recommend a formulation and a method.

    Parameters
    ----------
    system, q0, v0, t_span, parameters, r0, w0, s0
        As for `solve`. Inconsistent initial values are projected. Redundant constraints are named, and what else there
        is to say is found without them.

    Examples
    --------
    >>> import dalembert as da
    >>> problem = da.problems()["pendulum"]
    >>> found = da.diagnose(problem.system, problem.q0, problem.v0, (0, 2))
    >>> found.case, found.formulation
    (1, StabilizedIndex2(D='G^T'))
    """
    if not isinstance(system, System):
        raise OptionError(f"system is a {type(system).__name__}; build one with da.System(...) or da.Lagrangian(...).")
    p = system.parameters.vector(parameters)
    start = {"q0": q0, "v0": v0, "r0": r0, "w0": w0, "s0": s0}
    C, around = _constraints_at_start(system, t_span, p, **start)
    surplus = surplus_rows(C)
    reduced = without(system, surplus) if surplus else system
    trial = _trial(reduced, t_span, parameters, start)
    moving, motion = _rate_of_motion(trial)
    samples = [matrices(reduced, values) for values in _samples(trial, p)]
    order = 2 if system.nq else 1
    found = [rates(m, motion, order) for m in samples]
    worst = Rates(*[max(getattr(r, f) for r in found) for f in Rates.__dataclass_fields__])

    labels = [*system.names["constraints"], *system.names["velocity_constraints"]]
    warnings = []
    remove: list[str] = []
    if surplus:
        full = [matrices(system, _padded(values, system, reduced)).C for values in _samples(trial, p)]
        everywhere = all(surplus_rows(x) for x in full)
        vanishing = [i for i in surplus if np.linalg.norm(C[i]) <= SINGULAR * np.linalg.norm(around[i])]
        rest = [labels[i] for i in surplus if i not in vanishing]
        remove = rest if everywhere else []
        warnings += _about_redundancy([labels[i] for i in vanishing], rest, everywhere)
    if not moving and trial.success:
        warnings.append("the system is at rest: rates are compared with the length of the time span.")
    dependent = [labels[i] for i in _dependent(C)]
    return _judge(system, reduced, worst, samples, trial, dependent, remove, warnings)


def _constraints_at_start(
    system: System, t_span: Sequence[float], p: np.ndarray, **given: Any
) -> tuple[np.ndarray, np.ndarray]:
    """[G; K] at the initial values as they are given, and a little beside them."""
    layout = make_layout(system, BDF(), Index1())
    row = initial_row(system, layout, **system.initial_values(**given))
    try:
        t0 = float(t_span[0])
    except (TypeError, ValueError, IndexError):
        raise OptionError(f"t_span={t_span!r}: give the start and the end time, (t0, t1).") from None
    if not system.nlam + system.nmu:
        return np.zeros((0, system.nv)), np.zeros((0, system.nv))
    solve_contact(system, t0, row, layout, p)
    beside = row + 1e-3 * (1.0 + np.abs(row))
    here, there = (matrices(system, point_values(system, layout, t0, x, p)).C for x in (row, beside))
    if not np.all(np.isfinite(here)):
        return np.zeros((0, system.nv)), there  # `solve` has the better message
    return here, there


def _dependent(C: np.ndarray) -> list[int]:
    """Rows that take part in a linear dependence."""
    norms = np.linalg.norm(C, axis=1, keepdims=True)
    return dependent_rows(C / np.where(norms > 0, norms, 1.0))[0] if len(C) else []


def _trial(
    system: System, t_span: Sequence[float], parameters: Mapping[str, Any] | None, start: dict[str, Any]
) -> Solution:
    """A run at a loose tolerance; where one form fails another is tried, and the longest run counts."""
    forms: list[Formulation] = [Index1()]
    if system.nlam + system.nmu:
        forms = [ProjectedInvariants(levels=2 if system.nlam else 1), Index1(), StabilizedIndex2()]
        forms = [form for form in forms if system.space.flat or form.on_groups]
    best: Solution | None = None
    for form in forms:
        trial = solve(
            system, t_span, parameters=parameters, initial="project", formulation=form, rtol=TRIAL_TOLERANCE,
            atol=TRIAL_TOLERANCE, max_steps=TRIAL_STEPS, **start,
        )  # fmt: skip
        if best is None or abs(trial.t[-1] - trial.t[0]) > abs(best.t[-1] - best.t[0]):
            best = trial
        if trial.success:
            break
    assert best is not None
    return best


def _rate_of_motion(trial: Solution) -> tuple[bool, float]:
    """Whether there is motion, and its rate: root mean square of v' over that of v, in time.

    Not slower than the time span, and not faster than the trial's steps.
    """
    span = abs(float(trial.t[-1] - trial.t[0]))
    if trial.t.size < 2 or span == 0.0:
        v, a = float(np.linalg.norm(trial.v[0])), float(np.linalg.norm(trial.a[0]))
        return True, a / v if a > 0 and v > 0 else 1.0
    steps = np.abs(np.diff(trial.t))
    squares = [(x**2).sum(axis=1) for x in (trial.v, trial.a)]
    v2, a2 = (float(steps @ (x[1:] + x[:-1])) / (2 * span) for x in squares)
    size = 1.0 + float(np.abs(trial.q).max(initial=0.0)) if trial.q.size else 0.0
    if math.sqrt(v2) * span <= 1e-9 * size or v2 == 0.0:
        return False, 1.0 / span
    return True, float(np.clip(math.sqrt(a2 / v2), 1.0 / span, trial.t.size / span))


def _samples(trial: Solution, p: np.ndarray) -> list[dict[str, Any]]:
    """States of a trial run: name -> numbers."""
    last = trial.t.size - 1
    by_step = np.linspace(0, last, SAMPLES).round().astype(int)
    times = np.linspace(trial.t[0], trial.t[-1], SAMPLES)
    by_time = [int(np.abs(trial.t - t).argmin()) for t in times]
    return [
        {"t": float(trial.t[i]), "p": p, **{n: getattr(trial, n)[i] for n in PARTS}}
        for i in np.unique([*by_step, *by_time])
    ]


def _padded(values: dict[str, Any], system: System, reduced: System) -> dict[str, Any]:
    """The same state for the system with its surplus constraints, whose multipliers are zero."""
    out = dict(values)
    for name, role in (("lam", "constraints"), ("mu", "velocity_constraints")):
        full = np.zeros(len(system.names[role]))
        full[[system.names[role].index(x) for x in reduced.names[role]]] = values[name]
        out[name] = full
    return out


def _about_redundancy(vanishing: Sequence[str], rest: Sequence[str], everywhere: bool) -> list[str]:
    """What to do about constraints that depend on others at the start."""
    out = []
    if vanishing:
        out.append(
            f"the gradient of {', '.join(map(repr, vanishing))} vanishes at the initial values (a squared distance, or "
            f"a singular position): rewrite it. The analysis leaves it out."
        )
    names = ", ".join(map(repr, rest))
    if rest and everywhere:
        out.append(
            f"redundant constraints: their multipliers are not unique, and `solve` returns those of smallest norm. "
            f"Remove {names} to make them unique; the motion stays the same. The analysis was made without."
        )
    elif rest:
        out.append(
            f"the constraints lose rank at the initial values, but not along the motion: this is a singular position, "
            f"not redundancy. Start beside it. The analysis was made without {names}."
        )
    return out


def _judge(
    system: System,
    reduced: System,
    worst: Rates,
    samples: list[Matrices],
    trial: Solution,
    dependent: Sequence[str],
    remove: Sequence[str],
    warnings: list[str],
) -> Diagnosis:
    """Put it together: ``reduced`` is the system without its surplus constraints."""
    advice = advise(reduced, worst)
    condition = math.inf if reduced is not system else max(_condition(m.gram) for m in samples)
    rank = reduced.nlam + reduced.nmu
    if advice.oscillates:
        warnings.append(
            "fast oscillations that are hardly damped: steps must follow them, or suppress them, for which BDF of "
            "orders above 2 is not stable; at loose tolerances try BDF(max_order=2)."
        )
    if reduced is system and condition > ILL_CONDITIONED:
        warnings.append(
            f"the constraints are nearly dependent (condition {condition:.1g}): reactions lose digits there, and the "
            f"step size shrinks."
        )
    if system.black_boxes:
        warnings.append(f"black boxes ({', '.join(system.black_boxes)}): rates are good to a few digits only.")
    if not trial.success:
        warnings.append(f"the trial run did not reach the end. {trial.message}")
    reached = f"to t = {format_number(trial.t[-1])}, {trial.stats.steps} steps"
    how = f"a trial run ({trial.stats.formulation}, tolerance {TRIAL_TOLERANCE:g}) {reached}, {len(samples)} states"
    return Diagnosis(
        degrees_of_freedom=system.nv - rank,
        index=3 if system.nlam else 2 if system.nmu else 1 if system.nw + system.ns else 0,
        rank=rank,
        redundant=tuple(dependent),
        remove=tuple(remove),
        condition=condition,
        mass_spread=max(_spread(m.M) for m in samples),
        rates=worst,
        stiff=advice.stiff,
        oscillates=advice.oscillates,
        case=advice.case,
        reason=advice.reason,
        formulation=advice.formulation,
        method=advice.method,
        recommendation=f"{advice.method.describe()} on {advice.formulation.describe()}: {advice.because}.",
        basis=how,
        warnings=tuple(warnings),
    )


def _condition(gram: np.ndarray) -> float:
    return float(np.linalg.cond(gram)) if gram.size else 1.0


def _spread(M: np.ndarray) -> float:
    """Ratio of the eigenvalues of the symmetric part; infinite if one is zero."""
    values = np.abs(np.linalg.eigvalsh((M + M.T) / 2))
    return float(values.max() / values.min()) if values.min() > SINGULAR**1.25 * values.max() else math.inf


def _finite(x: float) -> float | None:
    return float(x) if math.isfinite(x) else None
