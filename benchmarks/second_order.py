"""Modified BDF on the second-order index-3 equations, beside BDF on first-order forms and Radau IIA.

    python benchmarks/second_order.py [--problems NAME ...] [--rounds N] [--keep-times] [--out DIRECTORY]

Writes second_order.md and second_order.json:

- modified BDF beside BDF on the stabilized index-2 form: steps of both at the same rtol with their errors in units of
  rtol, and the steps of both for an error of the motion that is rtol, and for the one that modified BDF has at rtol;
- runs: steps, rejected steps, largest errors of q, v and lam at the steps of the whole run, each over 1 + its largest
  value, in units of rtol = atol, time of a step (fastest of several warm runs). The points that the starter of
  ModifiedBDF makes count as steps; how many steps it took for them is the column behind;
- steps at equal error: those of ModifiedBDF over those of the other method;
- time of a step in long runs of which only the end is stored;
- stability: angles, error constants, and limits for the growth of steps, computed from the coefficients that runs use.

Steps for an error are interpolated (both logarithmic; nothing is extrapolated) on the curve of all tolerances, less the
runs that another one beats in both; for the motion (the larger of q and v) and for lam.

Steps and errors do not depend on how busy a machine is, times do: --keep-times measures the former anew and takes the
latter from the results that are there.
"""

# ruff: noqa: E402  (thread counts have to be set before NumPy is imported)

from __future__ import annotations

import os

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import argparse
import json
import platform
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import dalembert as da
from dalembert.analysis import formulas
from dalembert.analysis.compare import front, time_at
from dalembert.integrators.base import Integrator
from dalembert.integrators.modified_bdf_formulas import GROWTH_LIMITS
from dalembert.table import format_number, markdown_table, print_table

PROBLEMS = ("particle-on-circle", "particle-8.1.1", "pendulum", "slider-crank", "truck")
SPANS = {"pendulum": (0.0, 4.0)}  # others: their own
SHOWN = (1e-4, 1e-6, 1e-8)
TOLERANCES = tuple(float(10.0**-k) for k in np.arange(1.0, 12.1, 0.5))  # of the curves
DIRECT, STABILIZED = "ModifiedBDF(), index-3", "BDF(5), stabilized-index-2"
METHODS: dict[str, tuple[Integrator, str]] = {
    DIRECT: (da.ModifiedBDF(), "index-3"),
    "BDF(5), index-1": (da.BDF(5), "index-1"),
    STABILIZED: (da.BDF(5), "stabilized-index-2"),
    "BDF(6), stabilized-index-2": (da.BDF(6), "stabilized-index-2"),
    "BDF(5, control='step'), stabilized-index-2": (da.BDF(5, control="step"), "stabilized-index-2"),
    "BDF(5), index-3": (da.BDF(5), "index-3"),
    "Radau(3), index-3": (da.Radau(3), "index-3"),
}
ROUNDS = 7
TARGETS = {"particle-8.1.1": 3.0, "truck": 30.0}  # us a step


@cache
def reference(name: str) -> Callable[[np.ndarray], dict[str, np.ndarray]]:
    """Exact q, v, lam at any times; where the problem has them at some times only, by an explicit run at 1e-13."""
    problem = da.problems()[name]
    assert problem.reference is not None
    if not problem.reference_times:
        return problem.reference
    fine = da.solve(
        problem.system, problem.t_span, problem.q0, problem.v0, method=da.Explicit(8), rtol=1e-13, atol=1e-13
    )
    times = np.array(problem.reference_times)
    for what, value in problem.reference(times).items():  # type: ignore[arg-type]
        found = getattr(fine(times), what)
        assert np.abs(found - value).max() < 1e-11 * (1 + np.abs(value).max()), (name, what)
    return lambda t: {what: getattr(fine(t), what) for what in ("q", "v", "lam")}


def run(name: str, method: str, tol: float, rounds: int) -> dict[str, Any]:
    """One run, repeated for its time; no rounds: no time."""
    problem = da.problems()[name]
    integrator, form = METHODS[method]
    if tol < integrator.smallest_rtol:
        refused = {"steps": 0, "starter": 0, "rejected": 0, "failed": "REFUSED"}
        return {"problem": name, "method": method, "tol": tol, **refused}
    sols = [
        da.solve(
            problem.system, SPANS.get(name, problem.t_span), problem.q0, problem.v0, method=integrator,
            formulation=form, rtol=tol, atol=tol,
        )
        for _ in range(max(rounds, 1))
    ]  # fmt: skip
    sol = sols[0]
    out = {
        "problem": name, "method": method, "tol": tol, "steps": sol.stats.steps, "starter": sol.stats.starting_steps,
        "rejected": sol.stats.rejected,
    }  # fmt: skip
    if not sol.success:
        return {**out, "failed": sol.status.name}
    exact = reference(name)(sol.t)
    for what in ("q", "v", "lam"):
        largest = np.abs(getattr(sol, what) - exact[what]).max() / (1 + np.abs(exact[what]).max())
        out[what] = float(largest) / tol
    if rounds:
        out["us_per_step"] = 1e6 * min(s.stats.wall_time for s in sols) / sol.stats.steps
    return out


def error(row: dict[str, Any], what: str) -> float:
    """Error of the motion or of lam, not in units of the tolerance."""
    return float(row["tol"] * (max(row["q"], row["v"]) if what == "motion" else row["lam"]))


def steps_at(
    runs: Sequence[dict[str, Any]], problem: str, method: str, what: str, target: float
) -> tuple[float | None, str]:
    """Steps that a method needs for an error, and a mark: "<=" if all its runs are more accurate; None if none is."""
    curve = [r for r in runs if (r["problem"], r["method"]) == (problem, method) and "failed" not in r]
    steps, mark = time_at(front([(error(r, what), r["steps"]) for r in curve]), target)
    return (None, "") if mark == ">" else (steps, "<=" if mark else "")


def shown(runs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Runs of ModifiedBDF at the tolerances shown."""
    return [r for r in runs if r["method"] == DIRECT and r["tol"] in SHOWN and "failed" not in r]


def ratios(runs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Steps of ModifiedBDF at the tolerances shown over those of the other methods at equal error."""
    out = []
    for row in shown(runs):
        for method in METHODS:
            if method == DIRECT:
                continue
            line = {"problem": row["problem"], "tol": row["tol"], "method": method}
            for what in ("motion", "lam"):
                other, mark = steps_at(runs, row["problem"], method, what, error(row, what))
                line[what] = None if other is None or mark else row["steps"] / other
            out.append(line)
    return out


def beside_stabilized(runs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """ModifiedBDF beside BDF on the stabilized index-2 form, at the same rtol and at equal error of the motion."""
    out = []
    for direct in shown(runs):
        name, tol = direct["problem"], direct["tol"]
        plain = next(r for r in runs if (r["problem"], r["method"], r["tol"]) == (name, STABILIZED, tol))
        out.append({
            "problem": name, "tol": tol, "steps": [direct["steps"], plain["steps"]],
            "motion": [max(r["q"], r["v"]) for r in (direct, plain)], "lam": [direct["lam"], plain["lam"]],
            "for_rtol": [steps_at(runs, name, m, "motion", tol) for m in (DIRECT, STABILIZED)],
            "for_error": [
                (direct["steps"], ""), steps_at(runs, name, STABILIZED, "motion", error(direct, "motion"))
            ],
        })  # fmt: skip
    return out


def speed(rounds: int) -> list[dict[str, Any]]:
    """Time of a step in long runs, only the end stored."""
    tight = {"rtol": 1e-6, "atol": 1e-6}
    cases: list[tuple[str, float, dict[str, Any]]] = [
        ("particle-8.1.1", 10.0, {"h": 1e-4}), ("pendulum", 100.0, tight), ("truck", 20.0, {"h": 1e-3}),
        ("truck", 20.0, tight),
    ]  # fmt: skip
    out = []
    for name, t_end, options in cases:
        problem = da.problems()[name]
        sols = [
            da.solve(
                problem.system, (0.0, t_end), problem.q0, problem.v0, method=da.ModifiedBDF(), t_eval=[t_end],
                **options,
            )
            for _ in range(rounds)
        ]  # fmt: skip
        steps = sols[0].stats.steps
        out.append({
            "problem": name, "steps": "h = 1e-04" if options.get("h") == 1e-4 else "h = 1e-03" if "h" in options else
            "automatic, rtol = 1e-06", "count": steps, "success": bool(sols[0].success),
            "us_per_step": 1e6 * min(s.stats.wall_time for s in sols) / steps, "target": TARGETS.get(name),
        })  # fmt: skip
    return out


def stability() -> list[dict[str, Any]]:
    """Angles, error constants and growth limits of the formulas."""
    out = []
    for k in range(1, 7):
        row: dict[str, Any] = {"k": k}
        for variant in ("regular", "interpolant") if k < 6 else ("regular",):
            angle = formulas.angle(variant, k)  # type: ignore[arg-type]
            constants = formulas.error_constants(variant, k)  # type: ignore[arg-type]
            row[variant] = {"angle": None if np.isnan(angle) else angle, "C_v": constants[0], "C_a": constants[1]}
        out.append({**row, "growth_limit": formulas.growth_limit(k), "growth_allowed": float(GROWTH_LIMITS[k])})
    return out


def with_old_times(results: dict[str, Any], old: dict[str, Any]) -> dict[str, Any]:
    """Results with the times of earlier ones; a run that they do not have has none."""
    key = ("problem", "method", "tol")
    times = {tuple(r[x] for x in key): r.get("us_per_step") for r in old["runs"]}
    runs = [r if "failed" in r else {**r, "us_per_step": times.get(tuple(r[x] for x in key))} for r in results["runs"]]
    return {**results, "machine": old["machine"], "runs": runs, "speed": old["speed"]}


def beside_table(rows: Sequence[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Header and cells of `beside_stabilized`: ModifiedBDF / BDF."""
    header = ["problem", "rtol", "steps", "q, v / rtol", "lam / rtol", "steps for an error of q, v of rtol",
              "steps for the error that ModifiedBDF has"]  # fmt: skip

    def both(numbers: Sequence[Any]) -> str:
        return " / ".join(format_number(x, 2) for x in numbers)

    def counts(found: Sequence[tuple[float | None, str]]) -> str:
        return " / ".join(f"{mark} {format_number(n if n is None else round(n))}".strip() for n, mark in found)

    cells = [
        [r["problem"], f"{r['tol']:.0e}", both(r["steps"]), both(r["motion"]), both(r["lam"]), counts(r["for_rtol"]),
         counts(r["for_error"])]
        for r in rows
    ]  # fmt: skip
    return header, cells


def tables(results: dict[str, Any]) -> list[tuple[str, list[str], list[list[Any]]]]:
    """(title, header, rows) of all tables."""
    runs = [r for r in results["runs"] if r["tol"] in SHOWN]
    lines = [
        [r["problem"], r["method"], f"{r['tol']:.0e}", r["steps"], r["starter"], r["rejected"],
         *(r.get(x) for x in ("q", "v", "lam", "us_per_step"))]
        for r in runs
    ]  # fmt: skip
    header = [
        "problem", "method", "rtol", "steps", "starter", "rejected", "q / rtol", "v / rtol", "lam / rtol", "us a step",
    ]  # fmt: skip
    angles = [
        [s["k"], *(s.get(v, {}).get(x) for v in ("regular", "interpolant") for x in ("angle", "C_v", "C_a")),
         s["growth_limit"],
         s["growth_allowed"]]
        for s in results["stability"]
    ]  # fmt: skip
    return [
        (f"{DIRECT} / {STABILIZED}", *beside_table(results["beside_stabilized"])),
        ("Runs", header, lines),
        (
            "Steps of ModifiedBDF over those of other methods at equal error",
            ["problem", "rtol", "other method", "error of the motion", "error of lam"],
            [[r["problem"], f"{r['tol']:.0e}", r["method"], r["motion"], r["lam"]] for r in results["ratios"]],
        ),
        (
            "Time of a step, long runs",
            ["problem", "steps", "number", "us a step", "aim"],
            [[r["problem"], r["steps"], r["count"], r["us_per_step"], r["target"]] for r in results["speed"]],
        ),
        (
            "Formulas",
            ["k", "regular: angle", "C_v", "C_a", "interpolant: angle", "C_v", "C_a", "growth limit", "growth allowed"],
            angles,
        ),
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description="Modified BDF beside BDF and Radau IIA.")
    parser.add_argument("--problems", nargs="+", default=list(PROBLEMS), choices=PROBLEMS, metavar="NAME")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument(
        "--keep-times", action="store_true", help="steps and errors only; times are those of the results"
    )
    parser.add_argument("--out", type=Path, default=Path(__file__).resolve().parent / "results")
    options = parser.parse_args(arguments)
    rounds = 0 if options.keep_times else options.rounds
    file = options.out / "second_order.json"
    old = json.loads(file.read_text(encoding="utf-8")) if options.keep_times else None
    runs = [
        run(name, method, tol, rounds if tol in SHOWN else min(rounds, 1))
        for name in options.problems
        for method in METHODS
        for tol in TOLERANCES
    ]
    results = {
        "machine": platform.processor() or platform.machine(), "runs": runs, "ratios": ratios(runs),
        "beside_stabilized": beside_stabilized(runs), "speed": [] if old else speed(5 * rounds),
        "stability": stability(),
    }  # fmt: skip
    if old:
        results = with_old_times(results, old)
    text = ["# Modified BDF beside BDF and Radau IIA", "", "Made by `benchmarks/second_order.py`; its head says how."]
    for title, header, rows in tables(results):
        print_table(title, header, rows, digits=3)
        text += ["", f"## {title}", "", markdown_table(header, rows, digits=3)]
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "second_order.md").write_text("\n".join(text) + "\n", encoding="utf-8")
    file.write_text(json.dumps(results, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
