"""Methods for nonstiff systems: work and precision of explicit, half-explicit, iterated and BDF runs; long runs.

    python benchmarks/nonstiff.py [--problems NAME ...] [--tolerances 1e-4 ...] [--dry]

Runs with atol = rtol = tol; E = max_i |y_i - exact_i| / (1 + |exact_i|) over positions and velocities at the end, exact
being `Explicit(8)` at tol = 3e-14. Times are those of the fastest of several warm runs, only the end stored; the
methods take turns. Absolute times depend on the machine and on what else it does; ratios hold better.
"""

# ruff: noqa: E402  (thread counts have to be set before NumPy is imported)

from __future__ import annotations

import os

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import argparse
import json
import platform
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import dalembert as da
from dalembert.integrators.base import Integrator
from dalembert.table import markdown_table, print_table

RESULTS = Path(__file__).resolve().parent / "results"
METHODS: tuple[Integrator, ...] = (da.HalfExplicit(5), da.Explicit(5), da.Explicit(8), da.Iterated(), da.BDF())
SPANS = {"pendulum": (0.0, 10.0)}  # others: their own
PROBLEMS = ("pendulum", "slider-crank", "andrews", "heavy-top", "rolling-sphere")
TOLERANCES = (1e-4, 1e-6, 1e-8, 1e-10)
ROUNDS = 15
COLUMNS = ["problem", "tol", "method", "steps", "rejected", "E", "ms", "largest |g|", "largest |G v + g_t|, |k|"]

PERIODS, CHUNK = 5000, 50  # of the pendulum, whose period is 2
LONG: tuple[tuple[Integrator, dict[str, Any]], ...] = (
    (da.Rattle(2), {"h": 0.02}),
    (da.Rattle(4), {"h": 0.02}),
    (da.Rattle(6), {"h": 0.02}),
    (da.HalfExplicit(5), {"rtol": 1e-6, "atol": 1e-6}),
    (da.Explicit(8), {"rtol": 1e-6, "atol": 1e-6}),
    (da.Iterated(), {"rtol": 1e-6, "atol": 1e-6}),
)
LONG_COLUMNS = ["method", "step", "steps", "s", "energy error, first 50 periods", "last 50 periods", "largest |g|"]


def solve(name: str, method: Integrator, tol: float) -> da.Solution:
    problem = da.problems()[name]
    span = SPANS.get(name, problem.t_span)
    options: dict[str, Any] = {**problem.options, "rtol": tol, "atol": tol, "t_eval": [span[1]]}
    sol = da.solve(problem.system, span, problem.q0, problem.v0, method=method, **options)
    if not sol.success:
        raise RuntimeError(f"{name}, {method.describe()}: {sol.message}")
    return sol


@cache
def exact(name: str) -> np.ndarray:
    sol = solve(name, da.Explicit(8), 3e-14)
    return np.concatenate([sol.q[-1], sol.v[-1]])


def runs(name: str, tol: float) -> list[dict[str, Any]]:
    """One row for each method."""
    times: dict[str, float] = {}
    last: dict[str, da.Solution] = {}
    for _ in range(ROUNDS):
        for method in METHODS:
            sol = last[method.describe()] = solve(name, method, tol)
            times[method.describe()] = min(times.get(method.describe(), np.inf), sol.stats.wall_time)
    out = []
    for label, sol in last.items():
        y = np.concatenate([sol.q[-1], sol.v[-1]])
        error = float(np.max(np.abs(y - exact(name)) / (1 + np.abs(exact(name)))))
        largest = sol.drift.largest
        out.append({"problem": name, "tol": tol, "method": label, "steps": sol.stats.steps,
                    "rejected": sol.stats.rejected, "E": error, "ms": 1e3 * times[label],
                    "position": largest["position"],
                    "velocity": max(largest["velocity"], largest["nonholonomic"])})  # fmt: skip
    return out


def long_run(method: Integrator, options: dict[str, Any]) -> dict[str, Any]:
    """Energy over many periods of the pendulum, in the first and in the last of them."""
    problem = da.problems()["pendulum"]
    end = 2.0 * PERIODS
    grid = np.linspace(0, end, 20 * PERIODS + 1)
    sol = da.solve(problem.system, (0, end), problem.q0, problem.v0, method=method, t_eval=grid, **options)
    if not sol.success:
        raise RuntimeError(f"{method.describe()}: {sol.message}")
    error, n = np.abs(sol.energy - sol.energy[0]), 20 * CHUNK
    step = f"h = {options['h']:g}" if "h" in options else f"tol = {options['rtol']:.0e}"
    return {"method": method.describe(), "step": step, "steps": sol.stats.steps, "s": sol.stats.wall_time,
            "first": float(error[:n].max()), "last": float(error[-n:].max()),
            "position": sol.drift.largest["position"]}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", nargs="*", default=list(PROBLEMS))
    parser.add_argument("--tolerances", nargs="*", type=float, default=list(TOLERANCES))
    parser.add_argument("--dry", action="store_true", help="print, do not write the results")
    given = parser.parse_args()
    found = [row for name in given.problems for tol in given.tolerances for row in runs(name, tol)]
    long = [long_run(*case) for case in LONG]
    cells, long_cells = [list(row.values()) for row in found], [list(row.values()) for row in long]
    print_table("work and precision", COLUMNS, cells, digits=2)
    print_table(f"pendulum, {PERIODS} periods", LONG_COLUMNS, long_cells, digits=2)
    if not given.dry:
        text = json.dumps({"machine": platform.machine(), "runs": found, "long": long}, indent=1)
        (RESULTS / "nonstiff.json").write_text(text + "\n", encoding="utf-8")
        about = (__doc__ or "").split("[--dry]")[1].strip()
        page = [f"# {(__doc__ or '').splitlines()[0]}", about, markdown_table(COLUMNS, cells, digits=2)]
        page += [f"## Pendulum, {PERIODS} periods", markdown_table(LONG_COLUMNS, long_cells, digits=2)]
        (RESULTS / "nonstiff.md").write_text("\n\n".join(page) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
