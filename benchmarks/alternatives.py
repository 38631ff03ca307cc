"""What was not built, and why: Adams methods, extrapolation, Radau methods whose order changes on the way.

    python benchmarks/alternatives.py [--dry]

Writes alternatives.md and alternatives.json.

1. Evaluations of the accelerations (index-1 form as an ODE, not projected) for an error E = max |y - exact| / (1 +
   |exact|) at the end of 1e-4, 1e-7 and 1e-10, read off log-log curves: Dormand and Prince's order 8 (DOP853) and
   VODE's Adams formulas of orders 1 to 12 with functional iteration, both of SciPy with automatic steps; and, by
   constant steps, order 8 and Gragg's midpoint rule extrapolated to the orders 8, 10 and 12 with the sequence 2, 4, ...
2. Radau IIA with 2 to 5 stages on index 1, for problems that are stiff or have implicit accelerations. The time span is
   cut into pieces of equal numbers of steps by three stages. "Changing" takes for every piece the number of stages that
   is the cheapest there, as if it were known and the change cost nothing: no control of the order could do better.

[HNW93] E. Hairer, S. P. Norsett, G. Wanner, Solving Ordinary Differential Equations I, Springer 1993, II.9.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from peers.models import MODELS, Model
from scipy.integrate import ode, solve_ivp

import dalembert as da
from dalembert.analysis.compare import front, time_at
from dalembert.integrators.explicit import tableau
from dalembert.table import markdown_table, print_table

RESULTS = Path(__file__).resolve().parent / "results"
LEVELS = (1e-4, 1e-7, 1e-10)
TOLERANCES = 10.0 ** -np.arange(3.0, 14.0)
MOST = 100_000  # evaluations
Rates = Callable[[float, np.ndarray], np.ndarray]

STIFF = ("truck", "slider-crank-flexible", "jay-negrut-5.1", "friction-pendulum", "contact-point", "sliding-ladder")
STAGES, PIECES, ROUNDS, LONG = (2, 3, 4, 5), 8, 20, 0.1


# ---------------------------------------------------------------------- evaluations
def automatic_order_8(f: Rates, y0: np.ndarray, end: float, tol: float) -> np.ndarray:
    return np.asarray(solve_ivp(f, (0.0, end), y0, method="DOP853", rtol=tol, atol=tol).y[:, -1])


def adams(f: Rates, y0: np.ndarray, end: float, tol: float) -> np.ndarray:
    solver = ode(f).set_integrator("vode", method="adams", with_jacobian=False, rtol=tol, atol=tol, nsteps=MOST)
    solver.set_initial_value(y0, 0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # says in words what `successful` tells
        out = np.asarray(solver.integrate(end))
    return out if solver.successful() else np.full_like(out, np.nan)


def order_8(f: Rates, y0: np.ndarray, end: float, n: int) -> np.ndarray:
    """Constant steps; the last stage of a step is the first of the next."""
    t8, h, y = tableau(8), end / n, y0.copy()
    k = np.zeros((len(t8.c), y.size))
    k[-1] = f(0.0, y)
    for i in range(n):
        k[0] = k[-1]
        for j in range(1, len(t8.c)):
            k[j] = f((i + t8.c[j]) * h, y + h * (t8.A[j, :j] @ k[:j]))
        y = y + h * (t8.b @ k)
    return y


def extrapolated(columns: int) -> Callable[[Rates, np.ndarray, float, int], np.ndarray]:
    """Gragg's rule with 2, 4, ..., 2 k substeps, extrapolated in h^2 to order 2 k [HNW93, II.9]."""

    def run(f: Rates, y0: np.ndarray, end: float, n: int) -> np.ndarray:
        h, y = end / n, y0.copy()
        for i in range(n):
            first, rows = f(i * h, y), []
            for m in range(2, 2 * columns + 1, 2):
                step = h / m
                old, new = y, y + step * first
                for j in range(1, m):
                    old, new = new, old + 2 * step * f(i * h + j * step, new)
                rows.append(new)
            for level in range(1, columns):  # Aitken-Neville
                rows = [b + (b - a) / (((j + 1 + level) / (j + 1)) ** 2 - 1) for j, (a, b) in enumerate(pairwise(rows))]
            y = rows[0]
        return y

    return run


METHODS: dict[str, tuple[Callable[..., np.ndarray], bool]] = {
    "order 8": (automatic_order_8, False),
    "Adams": (adams, False),
    "order 8, constant": (order_8, True),
    **{f"extrapolation {2 * k}, constant": (extrapolated(k), True) for k in (4, 5, 6)},
}


def evaluations(model: Model) -> dict[str, list[str]]:
    """Evaluations for each level of error, by method."""
    kernel, count = model.ode_kernel, 0

    def f(t: float, y: np.ndarray) -> np.ndarray:
        nonlocal count
        count += 1
        return np.asarray(kernel(np.append(t, y)))

    exact = solve_ivp(f, (0.0, model.t_end), model.y0, method="DOP853", rtol=3e-14, atol=1e-15).y[:, -1]
    out = {}
    for name, (method, constant) in METHODS.items():
        points = []
        for x in [round(10 * 1.5**i) for i in range(20)] if constant else TOLERANCES:
            count = 0
            with np.errstate(all="ignore"):  # what has left the constraints too far may go anywhere; it does not count
                y = method(f, model.y0, model.t_end, x)
            error = float(np.max(np.abs(y - exact) / (1 + np.abs(exact))))
            if np.isfinite(error) and error < 0.3:
                points.append((error, float(count)))
            if count > MOST or error < 1e-11:
                break
        found = [time_at(front(points), level) for level in LEVELS] if points else []
        out[name] = [f"{bound}{n:.0f}" for n, bound in found] or ["-"] * len(LEVELS)
    return out


def against(counts: dict[str, dict[str, list[str]]], methods: Sequence[str], other: str) -> str:
    """Range of the ratios of the best of some methods to another one, where both reach an error and no better one."""
    ratios = []
    for by in counts.values():
        for i in range(len(LEVELS)):
            mine = [float(by[m][i]) for m in methods if by[m][i].isdigit()]
            if mine and by[other][i].isdigit():
                ratios.append(min(mine) / float(by[other][i]))
    return f"{min(ratios):.2f} to {max(ratios):.2f}"


# ---------------------------------------------------------------------- stages
def stages(name: str) -> list[dict[str, Any]]:
    """Milliseconds by number of stages, and with the best number for each piece."""
    problem = da.problems()[name]

    def run(method: Any, tol: float) -> tuple[da.Solution, float]:
        best = np.inf
        for _ in range(ROUNDS):
            sol = da.solve(
                problem.system, problem.t_span, problem.q0, problem.v0, method=method, rtol=tol, atol=tol,
                formulation=None if method == "auto" else "index-1", **problem.options,
            )  # fmt: skip
            best = min(best, 1e3 * sol.stats.wall_time)
            if best > 20.0:
                break
        return sol, best

    found = {(s, tol): run(da.Radau(stages=s), tol) for s in STAGES for tol in LEVELS}
    rows = []
    for tol in LEVELS:
        cost = {}
        for s in STAGES:  # of a step, without what a run costs besides
            loose, tight = found[s, LEVELS[0]], found[s, LEVELS[-1]]
            cost[s] = (tight[1] - loose[1]) / (tight[0].stats.steps - loose[0].stats.steps)
        edges = np.interp(np.linspace(0, 1, PIECES + 1), np.linspace(0, 1, found[3, tol][0].t.size), found[3, tol][0].t)
        work = {}
        for s in STAGES:
            t = found[s, tol][0].t
            work[s] = cost[s] * np.diff(np.interp(edges, t, np.arange(t.size)))
        best = min(STAGES, key=lambda s: float(np.sum(work[s])))
        changing = float(np.sum(np.min([work[s] for s in STAGES], axis=0)))
        auto = run("auto", tol)[0]
        rows.append({
            "problem": name, "tol": tol, **{f"{s} stages": float(np.sum(work[s])) for s in STAGES}, "best": best,
            "changing": changing, "gain": float(np.sum(work[best])) / changing,
            "auto": " -> ".join(x.method.removeprefix("explicit ") for x in auto.stats.segments),
        })  # fmt: skip
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description="What was not built, and why.")
    parser.add_argument("--dry", action="store_true", help="print only")
    options = parser.parse_args()
    models = {name: make() for name, make in MODELS.items()}
    counts = {name: evaluations(model) for name, model in models.items() if not (model.stiff or model.large)}
    lines = [[name, method, *cells] for name, by in counts.items() for method, cells in by.items()]
    head = ["problem", "method", *[f"{level:.0e}" for level in LEVELS]]
    print_table("evaluations for an error", head, lines)
    found = [row for name in STIFF for row in stages(name)]
    columns = list(found[0])
    cells = [[row[c] for c in columns] for row in found]
    print_table("ms of the steps by number of stages", columns, cells, digits=3)
    extrapolation = [name for name in METHODS if name.startswith("extrapolation")]
    long = max(row["gain"] for row in found if row["changing"] > LONG)
    text = ["# What was not built, and why", "", "Made by `benchmarks/alternatives.py`; its head says how.", ""]
    text += ["## Evaluations for an error", "", markdown_table(head, lines), ""]
    text += [
        "- Extrapolation, by the best of the three orders, needs "
        f"{against(counts, extrapolation, 'order 8, constant')} times the evaluations of order 8, all by constant "
        "steps.",
        f"- Adams formulas need {against(counts, ['Adams'], 'order 8')} times the evaluations of order 8, one or two a "
        "step, and compute a predictor, a corrector and differences of up to twelve past steps beside them. With the "
        "same compiled accelerations LSODA (Adams) takes longer than DOP853 for every error on every problem: see the "
        "columns numbalsoda in [peers.md](peers.md).", "",
        "## Radau IIA: milliseconds of the steps by number of stages", "", markdown_table(columns, cells, digits=3), "",
        f"Changing the number of stages within a run would gain a factor of {long:.2f} over the best fixed one at "
        f"most, in runs of more than {LONG} ms ({max(row['gain'] for row in found):.2f} in shorter ones, which cost "
        "more before their first step), if each change were free. The automatic choice takes 3 or 5 by tolerance and "
        "size.",
    ]  # fmt: skip
    if not options.dry:
        results = {"evaluations": counts, "stages": found}
        (RESULTS / "alternatives.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        (RESULTS / "alternatives.md").write_text("\n".join(text) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
