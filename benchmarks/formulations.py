"""Every formulation on thirteen systems with BDF: what the advice of `diagnose` costs against the best of them.

    python benchmarks/formulations.py [--problems NAME ...] [--rounds N] [--out DIRECTORY]

Writes formulations.md, formulations.json and formulations.png. Time is wall time for an error of 1e-5: the largest
error of positions and velocities at eight checkpoints, relative to the largest position and velocity, interpolated on
each form's work-precision curve. The reference comes from two different formulations at a tight tolerance.
"""

# ruff: noqa: E402  (thread counts have to be set before NumPy is imported)

from __future__ import annotations

import os

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import argparse
import json
import math
import platform
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import dalembert as da
from dalembert.formulations import Formulation
from dalembert.table import markdown_table

TARGET = 1e-5  # relative error at which times are compared
ENOUGH = TARGET / 20  # a form that is this accurate needs no tighter tolerance
TOLERANCES = tuple(float(10.0**-k) for k in np.arange(3, 10.1, 0.5))
REFERENCE_TOLERANCE = 1e-10
AGREEMENT = 1e-7  # of the two references
CHECKPOINTS = 8
ROUNDS = 7
BUDGET = 2.0  # seconds that a form may use up on a problem
MAX_STEPS = 30_000
GRAVITY = 9.81
INERTIAL = "M^-1 G^T"


# ---------------------------------------------------------------------- the systems
@dataclass
class Case:
    """A system with a start and a time span."""

    name: str
    text: str
    system: da.System
    q0: Any
    v0: Any
    t_span: tuple[float, float]
    options: dict[str, Any] = field(default_factory=dict)


def from_collection(name: str, text: str, t_end: float | None = None, **parameters: float) -> Case:
    """A problem of the package, perhaps with other parameters."""
    p = da.problems()[name]
    span = (p.t_span[0], p.t_span[1] if t_end is None else t_end)
    options = {**p.options, **({"parameters": parameters} if parameters else {})}
    return Case(name, text, p.system, p.q0, p.v0, span, options)


def _tip(q: Any, v: Any, reach: float) -> tuple[Any, Any, Any]:
    """Lever, position and velocity of a point of a planar body (x, y, phi) at a distance along its axis."""
    c, s = np.cos(q[2]), np.sin(q[2])
    lever = np.array([reach * c, reach * s])
    return lever, np.array([q[0], q[1]]) + lever, np.array([v[0] - lever[1] * v[2], v[1] + lever[0] * v[2]])


def bushing() -> Case:
    """A pinned bar that carries a second one in a bushing, a stiff spring with strong damping."""

    def force(q: Any, v: Any, p: Any) -> Any:
        arm1, x1, u1 = _tip(q[:3], v[:3], 0.5)
        arm2, x2, u2 = _tip(q[3:], v[3:], -0.4)
        F = p.k * (x2 - x1) + p.c * (u2 - u1)
        torque1, torque2 = arm1[0] * F[1] - arm1[1] * F[0], arm2[0] * F[1] - arm2[1] * F[0]
        return [F[0], F[1] - GRAVITY, torque1, -F[0], -F[1] - 0.8 * GRAVITY, -torque2]

    system = da.System(
        q=["x1", "y1", "phi1", "x2", "y2", "phi2"],
        mass=[1.0, 1.0, 1 / 12, 0.8, 0.8, 0.8 * 0.64 / 12],
        force=force,
        constraints=lambda q: {"pin x": q[0] - 0.5 * np.cos(q[2]), "pin y": q[1] - 0.5 * np.sin(q[2])},
        parameters={"k": 1e6, "c": 4e3},
        name="bushing",
    )
    a, b = -0.8, -1.2
    q0 = [0.5 * np.cos(a), 0.5 * np.sin(a), a, np.cos(a) + 0.4 * np.cos(b), np.sin(a) + 0.4 * np.sin(b), b]
    return Case("stiff-bushing", "two bars joined by a stiff, damped bushing", system, q0, np.zeros(6), (0.0, 2.0))


def chain() -> Case:
    """Masses 1, 1e-4, 1 on three rods, in air."""
    masses = np.array([1.0, 1e-4, 1.0])

    def rods(q: Any) -> Any:
        ends = [np.zeros(2), *[q[2 * i : 2 * i + 2] for i in range(3)]]
        return {f"rod {i}": ((ends[i + 1] - ends[i]) @ (ends[i + 1] - ends[i]) - 1) / 2 for i in range(3)}

    system = da.System(
        q=[f"{c}{i}" for i in range(3) for c in "xy"],
        mass=np.repeat(masses, 2),
        force=lambda v, p: np.array([x for m in masses for x in (0.0, -GRAVITY * m)]) - p.c * v,
        constraints=rods,
        parameters={"c": 0.2},
        name="chain",
    )
    angles = np.full(3, 0.8)
    q0 = np.cumsum(np.stack([np.sin(angles), -np.cos(angles)], axis=1), axis=0).ravel()
    return Case("heavy-light-chain", "chain of masses 1, 1e-4, 1 in air", system, q0, np.zeros(6), (0.0, 1.5))


def shaft() -> Case:
    """A bead on a spring in a tube on a shaft at 50 rad/s."""
    system = da.System(
        q=["x", "y"],
        mass=[1.0, 1.0],
        force=lambda q, v, p: -p.k * q - p.c * v + np.array([0.0, -GRAVITY]),
        constraints=lambda t, q, p: {"tube": np.cos(p.w * t) * q[1] - np.sin(p.w * t) * q[0]},
        parameters={"w": 50.0, "k": 2600.0, "c": 1.0},
        name="shaft",
    )
    return Case("fast-shaft", "bead on a spring in a tube that spins at 50 rad/s", system, [0.3, 0.0], [0.0, 15.0],
                (0.0, 2.0))  # fmt: skip


def three_cranks(left_out: Sequence[str] = ()) -> Case:
    """Three equal cranks on one coupler: one of the twelve joint equations follows from the others."""

    def end(bar: Any, reach: float) -> Any:
        return np.array([bar[0] + reach * np.cos(bar[2]), bar[1] + reach * np.sin(bar[2])])

    def joints(q: Any) -> Any:
        bars = [q[3 * i : 3 * i + 3] for i in range(4)]
        out = {f"foot {k}": end(bars[k], -0.5) - np.array([float(k), 0.0]) for k in range(3)}
        out |= {f"top {k}": end(bars[3], k - 1.0) - end(bars[k], 0.5) for k in range(3)}
        rows = {f"{name} {c}": x[i] for name, x in out.items() for i, c in enumerate("xy")}
        return {name: x for name, x in rows.items() if name not in left_out}

    system = da.System(
        q=[f"{c}{i}" for i in range(4) for c in ("x", "y", "phi")],
        mass=[1.0, 1.0, 1 / 12] * 3 + [2.0, 2.0, 2 * 4 / 12],
        force=[0.0, -GRAVITY, 0.0] * 3 + [0.0, -2 * GRAVITY, 0.0],
        constraints=joints,
        name="three cranks",
    )
    a = 1.0
    q0 = [x for k in range(3) for x in (k + 0.5 * np.cos(a), 0.5 * np.sin(a), a)] + [1 + np.cos(a), np.sin(a), 0.0]
    return Case("redundant-four-bar", "three cranks on one coupler, without the redundant row", system, q0,
                np.zeros(12), (0.0, 0.35))  # fmt: skip


def reduced_four_bar() -> Case:
    """The three cranks without what `diagnose` says can go."""
    full = three_cranks()
    return three_cranks(da.diagnose(full.system, full.q0, full.v0, full.t_span).remove)


CASES: dict[str, Callable[[], Case]] = {
    "stiff-bushing": bushing,
    "heavy-light-chain": chain,
    "fast-shaft": shaft,
    "fast-constraint": lambda: from_collection(
        "ascher-petzold-4", "constraint that turns 100 times faster than the motion", nu=100.0
    ),
    "friction": lambda: from_collection("friction-pendulum", "bead on a hoop with dry friction", 3.0, v_s=0.02),
    "four-bar": lambda: from_collection("four-bar", "two four-bar mechanisms in a row"),
    "redundant-four-bar": reduced_four_bar,
    "slider-crank": lambda: from_collection("slider-crank", "slider crank with spring and damper"),
    "andrews": lambda: from_collection("andrews", "Andrews' squeezing mechanism"),
    "car-axis": lambda: from_collection("car-axis", "car axis on stiff springs"),
    "skate": lambda: from_collection("knife-edge", "skate on a slope (nonholonomic)"),
    "double-pendulum": lambda: from_collection("double-pendulum", "double pendulum"),
    "uneven-masses": lambda: from_collection("ascher-petzold-3", "mass matrix with a spread of 2.5e5", nu=100.0),
}


def candidates(system: da.System) -> dict[str, Formulation]:
    """All self-contained formulations, with the options that matter."""
    forms: list[Formulation] = [
        da.Index1(), da.Index2(), da.Index3(), *[da.Baumgarte(gamma) for gamma in (1.0, 10.0, 100.0)],
        da.StabilizedIndex2(), da.StabilizedIndex2(INERTIAL), da.StateSpace(), da.Overdetermined(), da.UnderlyingODE(),
        *[da.ProjectedInvariants(levels=1, D=D) for D in ("G^T", INERTIAL)],
    ]  # fmt: skip
    if system.nq:
        forms += [da.ProjectedInvariants(levels=2, D=D, balanced=b) for D in ("G^T", INERTIAL) for b in (False, True)]
    return {form.describe(): form for form in forms}


# ---------------------------------------------------------------------- measuring
@dataclass
class Curve:
    """A form on a problem: (tolerance, error, seconds, steps), and what follows for the target."""

    form: str
    points: list[tuple[float, float, float, int]] = field(default_factory=list)
    start: float | None = None  # seconds of a run of one step
    failure: str | None = None

    @property
    def front(self) -> list[tuple[float, float]]:
        """(error, seconds) of the runs that no faster one beats, fastest first."""
        out: list[tuple[float, float]] = []
        for _, error, seconds, _ in sorted(self.points, key=lambda x: x[2]):
            if not out or error < out[-1][0]:
                out.append((error, seconds))
        return out

    def seconds(self, target: float = TARGET) -> float:
        """Time for an error, log-log on the front; infinite if it was not reached."""
        front = self.front
        if not front or front[-1][0] > target:
            return math.inf
        if front[0][0] <= target:
            return front[0][1]
        x, y = (np.log([p[i] for p in front]) for i in (0, 1))
        return float(np.exp(np.interp(math.log(target), x[::-1], y[::-1])))


@dataclass
class Result:
    """A problem: the diagnosis and all curves."""

    name: str
    text: str
    case: int
    advised: str
    reference_error: float
    curves: dict[str, Curve]

    @property
    def best(self) -> str:
        return min(self.curves, key=lambda form: self.curves[form].seconds())

    @property
    def start(self) -> float:
        """What a run costs before its steps, in every form."""
        return min(c.start for c in self.curves.values() if c.start is not None)

    def ratio(self, without: float = 0.0) -> float:
        """Time of the advised form over that of the best, perhaps without the cost of the start.

        NaN if a start took longer than the best of the runs: the machine was busy.
        """
        best = self.curves[self.best].seconds() - without
        return (self.curves[self.advised].seconds() - without) / best if best > 0.0 else math.nan


class Bench:
    """Runs one problem with one form after the other."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.times = np.linspace(*case.t_span, CHECKPOINTS + 1)[1:]
        runs = [self.run(form, REFERENCE_TOLERANCE, 10 * MAX_STEPS) for form in (da.Index1(), da.StabilizedIndex2())]
        for run in runs:
            if not run.success:
                raise RuntimeError(f"{case.name}: no reference. {run.message}")
        self.size = [max(float(np.abs(x).max(initial=0.0)), 1e-300) for x in (runs[0].q, runs[0].v)]
        self.reference = self.scaled(runs[0])
        self.agreement = float(np.abs(self.scaled(runs[1]) - self.reference).max())
        if not self.agreement < AGREEMENT:
            raise RuntimeError(f"{case.name}: the two references differ by {self.agreement:.1e}")

    def run(self, form: Formulation, tol: float, max_steps: int = MAX_STEPS) -> da.Solution:
        c = self.case
        return da.solve(
            c.system, c.t_span, c.q0, c.v0, method=da.BDF(), formulation=form, rtol=tol, atol=tol, t_eval=self.times,
            initial="project", max_steps=max_steps, **c.options,
        )  # fmt: skip

    def scaled(self, run: da.Solution) -> np.ndarray:
        return np.hstack([run.q / self.size[0], run.v / self.size[1]])

    def error(self, run: da.Solution) -> float:
        return float(np.abs(self.scaled(run) - self.reference).max())

    def curves(self, forms: dict[str, Formulation], rounds: int) -> dict[str, Curve]:
        """All forms take turns, so that a busy moment of the machine hits all of them; the fastest turn counts."""
        curves = {name: Curve(name) for name in forms}
        for name, form in forms.items():  # compile, and find the tolerances worth timing
            curve, spent = curves[name], 0.0
            for tol in TOLERANCES:
                try:
                    run = self.run(form, tol)
                except ValueError as problem:
                    curve.failure = str(problem)
                    break
                spent += run.stats.wall_time
                if run.success:
                    curve.points.append((tol, self.error(run), math.inf, run.stats.steps))
                    if curve.points[-1][1] < ENOUGH:
                        break
                elif curve.failure is None:
                    curve.failure = f"at {tol:.0e}: {run.message}"
                if spent > BUDGET:
                    break
        spent_by = dict.fromkeys(forms, 0.0)
        for _ in range(rounds):
            for name, form in forms.items():
                curve = curves[name]
                if not curve.points or spent_by[name] > BUDGET:
                    continue
                for i, (tol, error, seconds, steps) in enumerate(curve.points):
                    took = self.run(form, tol).stats.wall_time
                    spent_by[name] += took
                    curve.points[i] = (tol, error, min(seconds, took), steps)
                once = self.run(form, curve.points[0][0], 1).stats.wall_time
                curve.start = once if curve.start is None else min(curve.start, once)
        return curves


def study(name: str, rounds: int = ROUNDS) -> Result:
    """One problem: advice, reference, all forms."""
    case = CASES[name]()
    found = da.diagnose(case.system, case.q0, case.v0, case.t_span, **case.options)
    bench = Bench(case)
    forms = candidates(case.system)
    advised = found.formulation.describe()
    forms.setdefault(advised, found.formulation)
    return Result(name, case.text, found.case, advised, bench.agreement, bench.curves(forms, rounds))


# ---------------------------------------------------------------------- reporting
def report(results: Sequence[Result]) -> str:
    """The Markdown report."""
    rows = [
        [r.name, r.text, r.case, r.advised, _ms(r.curves[r.advised].seconds()), r.best,
         _ms(r.curves[r.best].seconds()), f"{r.ratio():.2f}", f"{r.ratio(r.start):.2f}"]
        for r in results
    ]  # fmt: skip
    forms = list(dict.fromkeys(form for r in results for form in r.curves))
    every = []
    for form in forms:
        cells = []
        for r in results:
            curve = r.curves.get(form)
            seconds = math.inf if curve is None else curve.seconds()
            mark = "**" if form == r.advised else ""
            cells.append(f"{mark}{seconds / r.curves[r.best].seconds():.2f}{mark}" if seconds < math.inf else "")
        every.append([form, *cells])
    advised = [r.ratio() for r in results]
    alone = [r.ratio(r.start) for r in results]
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    return "\n".join(
        [
            "# What the advice of `diagnose` costs",
            "",
            f"BDF on every formulation, wall time for a relative error of {TARGET:g}: largest error of positions and",
            f"velocities at {CHECKPOINTS} checkpoints, interpolated on each form's work-precision curve (log-log, best",
            "runs only). rtol = atol. Fastest of several warm runs, the forms take turns; compilation is not counted.",
            f"References by two formulations at {REFERENCE_TOLERANCE:g}, which agree to "
            f"{max(r.reference_error for r in results):.0e} or better.",
            "",
            f"Machine: {machine}.",
            "",
            "## The advised form against the best of all",
            "",
            markdown_table(
                ["system", "what", "case", "advised", "ms", "best", "ms", "ratio", "ratio, steps only"], rows
            ),
            "",
            f"Largest ratio {max(advised):.2f}, geometric mean {math.exp(np.mean(np.log(advised))):.2f}. A run costs",
            f"{1e3 * min(r.start for r in results):.2f} ms or more before its steps, in every form; without that: "
            f"largest {max(alone):.2f}, mean {math.exp(np.mean(np.log(alone))):.2f}.",
            "",
            "## All forms",
            "",
            "Time over that of the best form; bold: advised; empty: the accuracy was not reached within "
            f"{MAX_STEPS} steps, or the",
            "form does not apply.",
            "",
            markdown_table(["form", *[r.name for r in results]], every),
            "",
        ]
    )


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.3f}"


def draw(results: Sequence[Result], path: Path) -> None:
    """Every form's time over the best, by problem."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8.5, 5.5), layout="constrained")
    for i, r in enumerate(results):
        best = r.curves[r.best].seconds()
        others = [c.seconds() / best for f, c in r.curves.items() if f != r.advised and c.seconds() < math.inf]
        axes.plot(others, [i] * len(others), "o", color="0.7", markersize=5, label="other forms" if i == 0 else None)
        axes.plot([r.ratio()], [i], "D", color="C3", markersize=8, label="advised" if i == 0 else None)
        lost = sum(c.seconds() == math.inf for c in r.curves.values())
        if lost:
            axes.annotate(f"{lost} not", (1.0, i), xycoords=("axes fraction", "data"), xytext=(4, -3),
                          textcoords="offset points", fontsize=8, color="0.4")  # fmt: skip
    axes.axvline(2, color="0.5", linewidth=0.8, linestyle=":")
    axes.set_xscale("log")
    axes.set_yticks(range(len(results)), [f"{r.name} (case {r.case})" for r in results])
    axes.invert_yaxis()
    axes.set_xlabel(f"time for an error of {TARGET:g}, over the best form (right: forms that did not reach it)")
    axes.set_title("What the advice of diagnose costs")
    axes.grid(True, axis="x", alpha=0.3)
    axes.legend(loc="upper right")
    figure.savefig(path, dpi=150)
    plt.close(figure)


def plain(results: Sequence[Result]) -> list[dict[str, Any]]:
    """The results for JSON."""

    def finite(x: Any) -> Any:
        return None if isinstance(x, float) and not math.isfinite(x) else x

    return [
        {
            **{k: v for k, v in asdict(r).items() if k != "curves"},
            "best": r.best,
            "ratio": finite(r.ratio()),
            "ratio_steps_only": finite(r.ratio(r.start)),
            "forms": [
                {**asdict(c), "seconds": finite(c.seconds()), "points": [list(map(finite, p)) for p in c.points]}
                for c in r.curves.values()
            ],
        }
        for r in results
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, compare, write."""
    parser = argparse.ArgumentParser(description="All formulations on all systems, and what the advice costs.")
    parser.add_argument("--problems", nargs="+", choices=list(CASES), default=list(CASES), metavar="NAME")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args(arguments)
    results = []
    for name in options.problems:
        r = study(name, options.rounds)
        results.append(r)
        print(
            f"{name:20s} case {r.case}  advised {r.advised:36s} {_ms(r.curves[r.advised].seconds())} ms   "
            f"best {r.best:36s} {_ms(r.curves[r.best].seconds())} ms   ratio {r.ratio():.2f} "
            f"(steps only {r.ratio(r.start):.2f})",
            flush=True,
        )
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "formulations.md").write_text(report(results), encoding="utf-8")
    text = json.dumps({"target": TARGET, "problems": plain(results)}, indent=1, allow_nan=False)
    (options.out / "formulations.json").write_text(text + "\n", encoding="utf-8")
    draw(results, options.out / "formulations.png")
    print(f"written: {', '.join(f'formulations.{e}' for e in ('md', 'json', 'png'))} in {options.out}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
