"""`method="auto"` beside pairs of method and formulation picked by hand, on every problem of the collection.

    python benchmarks/automatic.py [--problems NAME ...] [--rounds N] [--out DIRECTORY]

Writes automatic.md and automatic.json. All runs at the same rtol = atol; time of the whole call of `solve`, fastest of
several warm runs, the pairs taking turns. A pair counts if its error at the end is not larger than ten times that of
"auto" or the tolerance, whichever is larger. Errors are measured against the most accurate pair at 1e-12. If problems
are given, what the files say about others stays.
"""

# ruff: noqa: E402  (thread counts have to be set before NumPy is imported)

from __future__ import annotations

import os

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import argparse
import json
import platform
import time
from pathlib import Path
from typing import Any

import numpy as np

import dalembert as da
from dalembert.integrators.base import Integrator
from dalembert.status import OptionError
from dalembert.table import markdown_table, print_table

TOLERANCES = (1e-4, 1e-7, 1e-10)
AUTO = "auto"
PAIRS: dict[str, tuple[str | Integrator, str | None]] = {
    AUTO: ("auto", None),
    "Iterated": (da.Iterated(), "index-1"),
    "Iterated, Newton": (da.Iterated(newton=True), "index-1"),
    "Explicit(5)": (da.Explicit(5), "index-1"),
    "Explicit(8)": (da.Explicit(8), "index-1"),
    "BDF, index-1": (da.BDF(), "index-1"),
    "BDF, stabilized-index-2": (da.BDF(), "stabilized-index-2"),
    "BDF, index-3": (da.BDF(), "index-3"),
    "Radau(3), index-1": (da.Radau(3), "index-1"),
    "Radau(3), index-3": (da.Radau(3), "index-3"),
    "Radau(5), index-1": (da.Radau(5), "index-1"),
    "Radau(5), index-3": (da.Radau(5), "index-3"),
}
REFERENCES = ("Explicit(8)", "Radau(5), index-1", "BDF, index-1")
MOST_STEPS = 100_000
TARGET = 2.0
SHORT, AGAIN = 5.0, 10  # ms, and how many times shorter runs are repeated in every turn


def solve(name: str, pair: str, tol: float) -> da.Solution | None:
    """A run, or None where the pair does not apply or fails."""
    problem = da.problems()[name]
    method, form = PAIRS[pair]
    try:
        sol = da.solve(
            problem.system, problem.t_span, problem.q0, problem.v0, method=method, formulation=form, rtol=tol,
            atol=tol, max_steps=MOST_STEPS, **problem.options,
        )  # fmt: skip
    except OptionError:
        return None
    return sol if sol.success else None


def end(sol: da.Solution) -> np.ndarray:
    return np.concatenate([sol.q[-1], sol.v[-1]])


def measure(name: str, tol: float, exact: np.ndarray, rounds: int) -> dict[str, Any]:
    """Times and errors of all pairs."""
    found: dict[str, dict[str, Any]] = {}
    for turn in range(rounds):
        for pair in PAIRS:
            if turn and pair not in found:
                continue
            if turn > 1 and found[pair]["ms"] > 500.0:
                continue
            begin = time.perf_counter()
            sol = solve(name, pair, tol)
            ms = 1e3 * (time.perf_counter() - begin)
            if sol is None:
                continue
            for _ in range(AGAIN if turn and ms < SHORT else 0):  # what else the machine does weighs more in short runs
                begin = time.perf_counter()
                solve(name, pair, tol)
                ms = min(ms, 1e3 * (time.perf_counter() - begin))
            if turn == 0:
                error = float(np.abs(end(sol) - exact).max() / (1 + np.abs(exact).max()))
                used = " -> ".join(s.method for s in sol.stats.segments)
                found[pair] = {"ms": ms, "error": error, "steps": sol.stats.steps, "used": used}
            elif turn == 1 or ms < found[pair]["ms"]:  # the first run may have compiled something
                found[pair]["ms"] = ms
    auto = found[AUTO]
    bound = 10 * max(auto["error"], tol)
    fit = {pair: x for pair, x in found.items() if pair != AUTO and x["error"] <= bound}
    best = min(fit, key=lambda pair: fit[pair]["ms"])
    return {
        "problem": name, "tol": tol, "auto": auto["used"], "auto ms": auto["ms"], "auto error": auto["error"],
        "best": best, "best ms": fit[best]["ms"], "ratio": auto["ms"] / fit[best]["ms"], "pairs": found,
    }  # fmt: skip


def reference(name: str) -> np.ndarray:
    for pair in REFERENCES:
        sol = solve(name, pair, 1e-12) or solve(name, pair, 1e-11)
        if sol is not None:
            return end(sol)
    raise RuntimeError(f"no reference for {name}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", nargs="*")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    args = parser.parse_args()
    rows = []
    for name in args.problems or list(da.problems()):
        exact = reference(name)
        for tol in TOLERANCES:
            rows.append(measure(name, tol, exact, args.rounds))
            r = rows[-1]
            print(f"{name:24s} {tol:.0e}  auto {r['auto ms']:8.3f} ms ({r['auto']})  best {r['best ms']:8.3f} ms "
                  f"({r['best']})  ratio {r['ratio']:.2f}", flush=True)  # fmt: skip
    known = args.out / "automatic.json"
    if args.problems and known.exists():
        rows += [r for r in json.loads(known.read_text()) if r["problem"] not in args.problems]
        order = list(da.problems())
        rows.sort(key=lambda r: (order.index(r["problem"]), -r["tol"]))
    columns = ["problem", "rtol", "auto used", "auto, ms", "error", "best by hand", "ms", "ratio"]
    cells = [
        [r["problem"], f"{r['tol']:.0e}", r["auto"], r["auto ms"], r["auto error"], r["best"], r["best ms"], r["ratio"]]
        for r in rows
    ]
    print_table("auto and the best by hand", columns, cells, digits=3)
    ratios = np.array([r["ratio"] for r in rows])
    above = [f"{r['problem']} at {r['tol']:.0e} ({r['ratio']:.2f})" for r in rows if r["ratio"] > TARGET]
    text = (
        f"# The automatic choice of the method\n\nMade by `benchmarks/automatic.py`; its head says how.\n\n"
        f"Machine: {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}.\n\n"
        f"{markdown_table(columns, cells, digits=3)}\n\nLargest ratio {ratios.max():.2f}, geometric mean "
        f"{np.exp(np.log(ratios).mean()):.2f}. Above {TARGET:g}: {', '.join(above) or 'none'}.\n"
    )
    args.out.mkdir(exist_ok=True)
    (args.out / "automatic.md").write_text(text)
    (args.out / "automatic.json").write_text(json.dumps(rows, indent=1) + "\n")
    print(text.splitlines()[-1])


if __name__ == "__main__":
    main()
