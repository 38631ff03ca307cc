"""Work and precision of the Runge-Kutta methods, by form of the constraints.

    python benchmarks/collocation.py [--problems NAME ...] [--tolerances 1e-4 1e-6 ...] [--markdown]

For every method, form and tolerance: accepted and rejected steps, Newton iterations a step (those of projection and
multipliers included), the errors of q, v and lam at the end, and the time of the fastest of several warm runs.
"""

# ruff: noqa: E402  (thread counts have to be set before NumPy is imported)

from __future__ import annotations

import os

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import dalembert as da
from dalembert.integrators.base import Integrator
from dalembert.status import OptionError
from dalembert.table import markdown_table, print_table

METHODS: tuple[Integrator, ...] = (
    da.Radau(2), da.Radau(3), da.Radau(5), da.Lobatto(3), da.Lobatto(4, family="IIIA"), da.Gauss(2), da.Gauss(3),
)  # fmt: skip
FORMS = ("index-1", "index-2", "index-3")
SPANS = {"pendulum": (0.0, 10.0)}  # others: their own
COLUMNS = ["method", "form", "tolerance", "steps", "rejected", "iterations", "q error", "v error", "lam error", "ms"]
ROUNDS = 5


def measure(name: str, method: Integrator, form: str, tolerance: float) -> list[Any]:
    """One row of the table."""
    problem = da.problems()[name]
    span = SPANS.get(name, problem.t_span)
    options: dict[str, Any] = {"rtol": tolerance, "atol": tolerance, **problem.options}
    runs = [
        da.solve(problem.system, span, problem.q0, problem.v0, method=method, formulation=form, **options)
        for _ in range(ROUNDS)
    ]
    sol, stats = runs[0], runs[0].stats
    head = [method.describe(), form, tolerance, stats.steps, stats.rejected]
    if not sol.success:
        return [*head, None, None, None, None, None]
    exact = problem.reference(span[1]) if problem.reference is not None else {}
    end = [float(np.abs(getattr(sol, x)[-1] - exact[x]).max()) if x in exact else None for x in ("q", "v", "lam")]
    iterations = stats.newton_iterations / (stats.steps + stats.rejected)
    return [*head, iterations, *end, 1e3 * min(r.stats.wall_time for r in runs)]


def rows(name: str, tolerances: Sequence[float]) -> Iterator[list[Any]]:
    """All methods on all forms that they take."""
    for method in METHODS:
        for form in FORMS:
            try:
                for tolerance in tolerances:
                    yield measure(name, method, form, tolerance)
            except OptionError:  # refused, with a reason that the documentation gives
                continue


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Work and precision of the Runge-Kutta methods.")
    parser.add_argument("--problems", nargs="+", default=["pendulum", "andrews", "car-axis"], metavar="NAME")
    parser.add_argument("--tolerances", nargs="+", type=float, default=[1e-4, 1e-6, 1e-8, 1e-10])
    parser.add_argument("--markdown", action="store_true", help="print Markdown tables")
    options = parser.parse_args(arguments)
    for name in options.problems:
        table = list(rows(name, options.tolerances))
        if options.markdown:
            print(f"\n{name}\n\n{markdown_table(COLUMNS, table, digits=2)}")
        else:
            print_table(name, COLUMNS, table, digits=2)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
