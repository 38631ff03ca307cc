"""Does the error at the end fall in proportion to the tolerance? For every method with automatic steps.

    python benchmarks/proportionality.py [--problems NAME ...] [--methods TEXT ...] [--most-steps N] [--dry]

Runs with atol = rtol = tol, two to a decade. E = max_i |y_i - exact_i| / (1 + |exact_i|) over positions and velocities:
the error in units of the tolerance's weights, at the end of the run, and largest at 40 equidistant times ("run").
Slopes are those of log E against log tol by least squares; 1 is proportional, between 0.8 and 1.2 counts as that. Exact
are the values of `Explicit(8)` at tol = 3e-14, whose distance from the published or closed solution at the end is
printed too. Methods of low order are measured as far as their steps stay below a limit.
"""

# ruff: noqa: E402  (thread counts have to be set before NumPy is imported)

from __future__ import annotations

import os

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import argparse
import json
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import dalembert as da
from dalembert.integrators.base import Integrator
from dalembert.status import OptionError
from dalembert.table import markdown_table, print_table

RESULTS = Path(__file__).resolve().parent / "results"
PROBLEMS = ("andrews", "car-axis", "slider-crank", "pendulum")
SPANS = {"pendulum": (0.0, 10.0)}  # others: their own
TOLERANCES = 10.0 ** -np.arange(4.0, 12.01, 0.5)
WIDE, FULL = 1e-10, 1e-12  # smallest tolerances of the two slopes
FEWEST = 5  # points that a slope needs
MORE: dict[type[Integrator], int] = {da.BackwardEuler: 20}  # times the limit of steps: ten times as many a decade
POINTS = 40
GOOD = (0.8, 1.2)
COLUMNS = ["method", "to 1e-10", "to 1e-12", "run, to 1e-10", "E/tol 1e-4", "1e-7", "1e-10", "1e-12", "steps", "until",
           "in range"]  # fmt: skip

NOTES = """
## Why slopes are what they are

A run of N = O(1/h) steps with local errors of O(h^(p+1)) ends with an error of O(h^p). Holding local errors at tol
gives slope p/(p+1); what has to be held at tol, times a constant, is h^p.

- **Explicit and half-explicit methods** compare a step of order p with one of order p - 1 and go on with the better
  one. The difference, O(h^p), is held at tol: slope 1. Runs of order 8 have too few steps for errors to fall like h^8:
  on the slider-crank (17 to 112 for the whole range) they fall like h^12 from 20 to 28 steps by constant steps, h^11 to
  40 and h^10 to 56, and are 3e-13 where h^8 begins (80 steps). Held at tol its estimates would give slopes of 1.0 to
  1.2; so they are held at tol (1e-6 / tol)^0.07 (`Explicit(control="step")`: at tol).
- **Iterated Radau IIA** holds the last change of its sweeps, O(h^13), at tol, and goes on with order 13: slope 1.
  Tolerances above 1e-2 are taken as 1e-2.
- **Backward Euler** holds its estimate, O(h^2), at 1e4 tol^2: slope 1, and ten times the steps for every digit.
- **BDF** changes its order. Of fixed order k it would have to hold its estimate at tol^(1 + 1/k); the orders that it
  chooses rise as tolerances fall, which makes errors fall faster, too. It takes half of that, tol^(1 + 1/10) for
  orders up to 5, below tol = 1e-4, and a thirteenth of it, so that runs without damping keep the tolerance; of orders
  up to 3, which damped motions use, five times as much. Estimates below 1e-14, or below 30 units in the last place of
  the largest velocity, are rounding errors.
- **Modified BDF** weighs its estimates by 8 tol^-0.175, as far as second differences of positions can tell them from
  rounding errors: what a step may add ends at 8e-12, and errors do not follow the tolerance below 1e-9.
- **Gauss, Radau and Lobatto methods** hold an estimate of lower order k at c tol^((k+1)/p), with p the lower of the
  orders of q and v, below tol = 1e-6 (above: c tol^((k+1)/(p+1)), slope p/(p+1)), on index 3 below 1e-4. On index 3 the
  steps themselves have v of the order of the stages only, O(h^s) for Radau; but that error lies along M^-1 G^T, and the
  projection in the metric of the mass matrix takes it out: v has the order of q, 5 with three stages of Radau, 4 with
  three of Lobatto IIIC. Where reactions push along other directions (friction), nothing is projected, p is the order of
  the stages, and small tolerances are expensive: use index 1 or 2 there.
- **Generalized-alpha and HHT** hold local errors below tol^(3/2), so that the error at the end follows tol: slope 1.
"""


def automatic() -> Iterator[Integrator]:
    """Every registered method that chooses its steps itself; those named in the documentation with their orders."""
    for cls in da.methods().values():
        given: Sequence[dict[str, Any]] = [{}]
        if cls in (da.Explicit, da.HalfExplicit):
            given = [{"order": order} for order in ((5, 8) if cls is da.Explicit else (3, 5))]
        for options in given:
            method = cls(**options)
            try:
                method.for_run(False)
            except OptionError:
                continue
            yield method


@cache
def exact(name: str) -> tuple[np.ndarray, float]:
    """(q, v) as exactly as they can be had (times, n), and their distance from the published end (NaN without one)."""
    problem = da.problems()[name]
    sol = solve(name, da.Explicit(8), 3e-14)
    y = np.hstack([sol.q, sol.v])
    if problem.reference is None:
        return y, float("nan")
    published = problem.reference(sol.t[-1])
    z = np.concatenate([np.ravel(published["q"]), np.ravel(published["v"])])
    return y, float(np.max(np.abs(y[-1] - z) / (1 + np.abs(z))))


def solve(name: str, method: Integrator, tol: float, most: int = 1_000_000) -> da.Solution:
    problem = da.problems()[name]
    span = SPANS.get(name, problem.t_span)
    options: dict[str, Any] = {**problem.options, "rtol": tol, "atol": tol}
    times = np.linspace(*span, POINTS + 1)[1:]
    return da.solve(
        problem.system, span, problem.q0, problem.v0, method=method, max_steps=most, t_eval=times, **options
    )


def errors(name: str, method: Integrator, most: int) -> tuple[list[tuple[float, float, float]], list[int], str]:
    """(tol, E at the end, E of the run) and steps, from tolerance to tolerance, and why there are not more of them."""
    y, _ = exact(name)
    found, steps = [], []
    for tol in TOLERANCES:
        try:
            sol = solve(name, method, float(tol), most)
        except OptionError:
            return found, steps, "smallest it takes"
        if not sol.success:
            return found, steps, "steps" if sol.stats.steps >= most else sol.status.name.lower()
        e = np.max(np.abs(np.hstack([sol.q, sol.v]) - y) / (1 + np.abs(y)), axis=1)
        found.append((float(tol), float(e[-1]), float(e.max())))
        steps.append(sol.stats.steps)
    return found, steps, ""


def slope(points: Sequence[tuple[float, float]], smallest: float) -> float | None:
    """Of log E against log tol down to a tolerance."""
    kept = [p for p in points if p[0] >= 0.99 * smallest and p[1] > 0]
    if len(kept) < FEWEST:
        return None
    x, y = np.log(np.array(kept)).T
    return float(np.polyfit(x, y, 1)[0])


def row(name: str, method: Integrator, most: int) -> list[Any]:
    found, steps, why = errors(name, method, most)
    if not found:
        return [method.describe(), *[None] * (len(COLUMNS) - 3), why, None]
    smallest = found[-1][0]
    at_end, of_run = [p[:2] for p in found], [(p[0], p[2]) for p in found]
    slopes = [slope(at_end, WIDE), slope(at_end, FULL) if smallest < 1.01 * FULL else None, slope(of_run, WIDE)]

    def at(tol: float) -> float | None:
        return next((e / t for t, e in at_end if abs(np.log(t / tol)) < 0.01), None)

    cells = [None if x is None else f"{x:.2f}" for x in slopes]
    until = f"{smallest:.0e}" + (f" ({why})" if why else "")
    good = None if slopes[0] is None else GOOD[0] <= slopes[0] <= GOOD[1]
    ratios = [at(10.0**-k) for k in (4, 7, 10, 12)]
    return [method.describe(), *cells, *ratios, f"{steps[0]}-{steps[-1]}", until, good]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", nargs="*", default=list(PROBLEMS))
    parser.add_argument("--methods", nargs="*", default=[], help="only those whose description contains one of these")
    parser.add_argument("--most-steps", type=int, default=100_000)
    parser.add_argument("--dry", action="store_true", help="print, do not write the results")
    given = parser.parse_args()
    text = [f"# {(__doc__ or '').splitlines()[0]}\n\n{(__doc__ or '').split('[--dry]')[1].strip()}"]
    slopes = []
    for name in given.problems:
        rows = [
            row(name, method, given.most_steps * MORE.get(type(method), 1))
            for method in automatic()
            if not given.methods or any(part in method.describe() for part in given.methods)
        ]
        slopes += [{"problem": name, "method": r[0], "slope": r[1], "run": r[3]} for r in rows]
        title = f"{name}: slopes of the error at the end (distance of the exact end from the published one "
        title += f"{exact(name)[1]:.0e})"
        print_table(title, COLUMNS, rows, digits=2)
        text.append(f"\n## {title}\n\n{markdown_table(COLUMNS, rows, digits=2)}")
    if not given.dry:
        (RESULTS / "proportionality.md").write_text("\n".join([*text, NOTES.rstrip()]) + "\n", encoding="utf-8")
        (RESULTS / "proportionality.json").write_text(json.dumps(slopes, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
