"""Work and precision: every method with every formulation on one problem, side by side.

Errors are measured against a reference of the caller's, or against tight runs of our own. Of these there are two, by
methods of different families, so that no method is compared with itself; their disagreement is reported, for below it
errors mean nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from dalembert.driver import solve
from dalembert.formulations.base import Formulation, as_formulation, formulations
from dalembert.integrators import BDF, Explicit, Gauss, Radau
from dalembert.integrators.base import Integrator, as_method, methods
from dalembert.model.system import System
from dalembert.solution import Solution
from dalembert.status import OptionError, Status

TOLERANCES = (1e-4, 1e-6, 1e-8)
QUANTITIES = ("q", "v", "lam", "mu")
SAMPLES = 20  # times of comparison, where the reference is known everywhere
LEFT_OUT = ("backward-euler",)  # of first order: only on request
PROBE = 2000  # steps after which the time that the rest needs is guessed
TIGHT = ((Explicit(8), None, 1e-12), (Gauss(stages=4), None, 1e-11), (Radau(stages=5), "index-1", 1e-11),
         (BDF(), None, 1e-11))  # fmt: skip

Reference = Callable[[Any], Mapping[str, Any]]
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Trial:
    """One method on one formulation at one tolerance.

    ``errors``: by quantity, the largest deviation at the times of comparison relative to the largest value of the
    reference there. ``seconds``: the fastest of several runs, None if the run did not get to the end; then ``failure``
    says why.
    """

    method: str
    formulation: str
    rtol: float
    steps: int = 0
    errors: Mapping[str, float] = field(default_factory=dict)
    seconds: float | None = None
    failure: str = ""

    @property
    def error(self) -> float:
        """The worst of all quantities."""
        return max(self.errors.values(), default=math.inf)


@dataclass(frozen=True)
class Comparison:
    """What `compare` found: all trials, what was refused (pair -> reason), and how good the reference is."""

    trials: list[Trial]
    refused: dict[tuple[str, str], str]
    reference: str
    accuracy: float

    def curves(self) -> dict[tuple[str, str], list[tuple[float, float]]]:
        """Work-precision curves (error, seconds) of all pairs, see `front`."""
        pairs = dict.fromkeys((t.method, t.formulation) for t in self.trials)
        points = {
            pair: front([(t.error, t.seconds) for t in self.trials if (t.method, t.formulation) == pair and t.seconds])
            for pair in pairs
        }
        return {pair: curve for pair, curve in points.items() if curve}

    @property
    def best(self) -> tuple[str, str] | None:
        """The pair that reaches ``accuracy`` in the shortest time; None if none does."""
        times = {pair: time_at(curve, self.accuracy) for pair, curve in self.curves().items()}
        reached = {pair: t for pair, (t, bound) in times.items() if bound != ">"}
        return min(reached, key=lambda pair: reached[pair]) if reached else None

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        best = self.best
        return {
            "reference": self.reference,
            "accuracy": self.accuracy,
            "best": None if best is None else {"method": best[0], "formulation": best[1]},
            "trials": [asdict(t) | {"errors": _finite(t.errors)} for t in self.trials],
            "refused": [{"method": m, "formulation": f, "reason": why} for (m, f), why in self.refused.items()],
        }


def front(points: Sequence[tuple[float, float | None]]) -> list[tuple[float, float]]:
    """The (error, seconds) worth having, fastest first: no other point is both faster and more accurate.

    Examples
    --------
    >>> front([(1e-3, 1.0), (1e-2, 2.0), (1e-5, 4.0)])
    [(0.001, 1.0), (1e-05, 4.0)]
    """
    out: list[tuple[float, float]] = []
    usable = [(max(e, 1e-17), s) for e, s in points if s is not None and math.isfinite(e)]
    for error, seconds in sorted(usable, key=lambda point: (point[1], point[0])):
        if not out or error < out[-1][0]:
            out.append((error, seconds))
    return out


def time_at(curve: Sequence[tuple[float, float]], error: float) -> tuple[float, str]:
    """Seconds for an error, interpolated (log-log) on a `front`, and a mark.

    The mark is "" for an interpolated value; ">": the error was not reached, the most accurate point is taken; "<": all
    points are more accurate, the fastest is taken.

    Examples
    --------
    >>> seconds, mark = time_at([(1e-2, 1.0), (1e-6, 100.0)], 1e-4)
    >>> round(seconds, 6), mark
    (10.0, '')
    """
    wanted, errors, seconds = math.log(error), [math.log(e) for e, _ in curve], [math.log(s) for _, s in curve]
    if wanted > errors[0]:
        return curve[0][1], "<"
    if wanted < errors[-1]:
        return curve[-1][1], ">"
    # np.interp wants ascending abscissae; a front has descending errors
    return math.exp(float(np.interp(wanted, errors[::-1], seconds[::-1]))), ""


def compare(
    system: System,
    t_span: Sequence[float],
    q0: Any = None,
    v0: Any = None,
    *,
    methods: Sequence[str | Integrator] | None = None,
    formulations: Sequence[str | Formulation] | None = None,
    tolerances: Sequence[float] = TOLERANCES,
    reference: Reference | None = None,
    reference_times: Sequence[float] | None = None,
    accuracy: float = 1e-4,
    time_limit: float = 10.0,
    rounds: int = 3,
    parameters: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Comparison:
    """Run all suitable pairs of method and formulation on a problem, with rtol = atol.

    Parameters
    ----------
    system, t_span, q0, v0, parameters, options
        As for `dalembert.solve`.
    methods, formulations
        Which; default all that choose their steps (without backward Euler), in all their `variants`, and all that each
        method takes.
    tolerances
        Values of rtol = atol.
    reference, reference_times
        Function t (n,) -> {"q": (n, nq), ...}, and the times where it is known (default: everywhere). Without one, two
        tight runs by methods of different families serve.
    accuracy
        Relative error for which the best pair is sought.
    time_limit
        Seconds that a run may take; longer ones are not finished.
    rounds
        Runs of each, of which the fastest counts.
    progress
        Function of (what comes next, number done, number in all).

    Examples
    --------
    >>> import dalembert as da
    >>> from dalembert.analysis.compare import compare
    >>> p = da.problems()["pendulum"]
    >>> found = compare(p.system, (0, 1), p.q0, p.v0, methods=["bdf"], formulations=["index-1"], reference=p.reference)
    >>> found.best
    ('bdf', 'index-1')
    """
    for name, x in (("accuracy", accuracy), ("time_limit", time_limit)):
        if not (np.isfinite(x) and x > 0):
            raise OptionError(f"{name}={x!r} must be a positive number.")
    if rounds < 1:
        raise OptionError(f"rounds={rounds!r}: at least one run is needed.")
    if not len(tolerances):
        raise OptionError("tolerances is empty: give at least one value of rtol.")
    pairs, refused = _pairs(system, methods, formulations)
    if not pairs:
        reasons = "; ".join(dict.fromkeys(refused.values()))
        raise OptionError(f"no pair of method and formulation suits this system: {reasons or 'none was given'}.")
    bench = _Bench(system, t_span, q0, v0, parameters, options, time_limit, rounds)
    tell = progress or (lambda what, done, total: None)
    total = len(pairs) * len(tolerances)
    tell("reference", 0, total)
    times = np.asarray(reference_times, dtype=float) if reference_times is not None else bench.samples()
    exact, words = ({"": reference(times)}, "given") if reference is not None else bench.own_reference(times)
    trials: list[Trial] = []
    for i, (method, formulation) in enumerate(pairs):
        for j, rtol in enumerate(tolerances):
            tell(f"{method.label}, {formulation.name}, rtol {rtol:g}", i * len(tolerances) + j, total)
            other = next((x for family, x in exact.items() if family != method.name), None)
            trial = bench.trial(method, formulation, float(rtol), times, other or next(iter(exact.values())))
            if isinstance(trial, str):
                refused[(method.label, formulation.name)] = trial
                break
            trials.append(trial)
    tell("done", total, total)
    return Comparison(trials, refused, words, accuracy)


def _pairs(
    system: System, chosen: Sequence[Any] | None, forms: Sequence[Any] | None
) -> tuple[list[tuple[Integrator, Formulation]], dict[tuple[str, str], str]]:
    """Pairs that can be built, and why the others cannot."""
    every = [kind for name, kind in sorted(methods().items()) if name not in LEFT_OUT]
    some = [kind(**options) for kind in every for options in ({}, *kind.variants)] if chosen is None else chosen
    pairs, refused = [], {}
    for given in some:
        method = as_method(given)
        wanted = sorted(method.takes) if forms is None else forms
        for form in wanted:
            try:
                formulation = as_formulation(form, method.default_formulation)
                method.for_run(False).check(system, formulation)
            except OptionError as problem:
                refused[(method.label, form if isinstance(form, str) else form.name)] = str(problem)
                if isinstance(form, str) and form not in formulations():
                    raise
                continue
            pairs.append((method, formulation))
    return pairs, refused


@dataclass(frozen=True)
class _Bench:
    """The problem, and how runs on it are timed."""

    system: System
    t_span: Sequence[float]
    q0: Any
    v0: Any
    parameters: Mapping[str, Any] | None
    options: Mapping[str, Any]
    time_limit: float
    rounds: int

    def samples(self) -> np.ndarray:
        t0, t1 = (float(t) for t in self.t_span)
        return np.linspace(t0, t1, SAMPLES + 1)[1:]

    def run(self, method: Integrator, formulation: Any, rtol: float, times: np.ndarray, most: int | None) -> Solution:
        return solve(
            self.system, self.t_span, self.q0, self.v0, method=method, formulation=formulation, rtol=rtol, atol=rtol,
            t_eval=times, max_steps=most, parameters=self.parameters, **self.options,
        )  # fmt: skip

    def own_reference(self, times: np.ndarray) -> tuple[dict[str, dict[str, np.ndarray]], str]:
        """Tight runs by two families, and a sentence on how well they agree."""
        found: dict[str, dict[str, np.ndarray]] = {}
        for method, formulation, rtol in TIGHT:
            try:
                sol = self.run(method, formulation, rtol, times, None)
            except OptionError:
                continue
            if sol.success:
                found[method.name] = {name: x for name in QUANTITIES if (x := getattr(sol, name)).size}
            if len(found) == 2:
                break
        if not found:
            raise RuntimeError("no tight run reached the end, so that there is nothing to compare with.")
        names = list(found)
        if len(found) == 1:
            return found, f"a tight run by {names[0]}, not confirmed by a second method"
        a, b = found.values()
        apart = max(_errors(a, b).values())
        return found, f"tight runs by {names[0]} and {names[1]}, which agree to {apart:.1e}"

    def trial(
        self, method: Integrator, formulation: Formulation, rtol: float, times: np.ndarray, exact: Mapping[str, Any]
    ) -> Trial | str:
        """One trial, or the reason why the pair cannot be used on this system."""
        name = (method.label, formulation.name, rtol)
        try:
            sol = self.run(method, formulation, rtol, times, PROBE)
            if sol.status == Status.MAX_STEPS:
                most = int(PROBE * self.time_limit / max(sol.stats.wall_time, 1e-6))
                if most > PROBE:
                    sol = self.run(method, formulation, rtol, times, most)
        except OptionError as problem:
            return str(problem)
        if not sol.success:
            slow = sol.status == Status.MAX_STEPS
            why = f"more than {self.time_limit:g} s" if slow else sol.status.name.lower().replace("_", " ")
            return Trial(*name, steps=sol.stats.steps, failure=why)
        seconds = sol.stats.wall_time
        used = seconds
        for _ in range(self.rounds - 1):
            if used > self.time_limit:
                break
            again = self.run(method, formulation, rtol, times, None).stats.wall_time
            seconds, used = min(seconds, again), used + again
        found = {x: getattr(sol, x) for x in exact if x in QUANTITIES}
        return Trial(*name, steps=sol.stats.steps, errors=_errors(found, exact), seconds=seconds)


def _errors(found: Mapping[str, np.ndarray], exact: Mapping[str, Any]) -> dict[str, float]:
    """Largest deviation relative to the largest value, by quantity."""
    return dict(_each_error(found, exact))


def _each_error(found: Mapping[str, np.ndarray], exact: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for name, x in found.items():
        if name in exact and x.size:
            right = np.asarray(exact[name], dtype=float).reshape(x.shape)
            off, size = float(np.abs(x - right).max()), float(np.abs(right).max())
            yield name, off / size if size > 0 else off


def _finite(errors: Mapping[str, float]) -> dict[str, float | None]:
    return {name: x if math.isfinite(x) else None for name, x in errors.items()}
