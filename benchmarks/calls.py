"""What a warm call costs besides its steps, on short runs of problems of the collection.

    python benchmarks/calls.py [--models NAME ...] [--rounds N]

Every call of `solve` has other tolerances and another end time than the one before; beside it is a call of what
`prepare` returns, with its end read, too. Times are the fastest of many calls, in microseconds; beside them that of a
loop in plain Python, to compare machines with.
"""

# ruff: noqa: E402  (thread counts have to be set before NumPy is imported)

from __future__ import annotations

import os

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import argparse
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from peers.models import MODELS, Model

import dalembert as da
from dalembert.table import print_table

METHODS: dict[str, tuple[Any, str | None]] = {
    "Iterated": (da.Iterated(), None),
    "Explicit(8)": (da.Explicit(8), None),
    "BDF": (da.BDF(), None),
    "Radau(3), index-2": (da.Radau(stages=3), "index-2"),
    "auto": ("auto", None),
}
SHORT = 1e-3  # of the time span of the problem


def measure(model: Model, method: Any, formulation: str | None, rounds: int) -> list[Any]:
    """Steps, and microseconds of the call, of what comes before the run, of the run, and of a prepared call."""
    best = np.full(3, np.inf)
    steps = 0
    for i in range(rounds):
        vary = 1.0 + 1e-3 * i
        start = time.perf_counter()
        sol = da.solve(
            model.system, (0.0, SHORT * vary * model.t_end), model.q0, model.v0, method=method,
            formulation=formulation, rtol=1e-5 / vary, atol=1e-5 / vary, t_eval=[SHORT * vary * model.t_end],
        )  # fmt: skip
        whole = time.perf_counter() - start
        if not sol.success:
            raise RuntimeError(sol.message)
        if i:
            best = np.minimum(best, [whole, sol.stats.compile_time, sol.stats.wall_time])
        steps = sol.stats.steps
    run = da.prepare(
        model.system, (0.0, SHORT * model.t_end), method=method, formulation=formulation, rtol=1e-5, atol=1e-5,
        t_eval=[SHORT * model.t_end],
    )  # fmt: skip
    prepared = np.inf
    for i in range(rounds + 1):
        start = time.perf_counter()
        sol = run(model.q0, model.v0)
        reached = sol.success and sol.q[-1] is not None and sol.v[-1] is not None
        prepared = min(prepared, time.perf_counter() - start) if i and reached else prepared
    return [steps, *(1e6 * best), 1e6 * prepared]


def reference() -> float:
    """Milliseconds of a loop in plain Python."""
    best = np.inf
    for _ in range(20):
        start, total = time.perf_counter(), 0
        for i in range(20_000):
            total += i * i % 7
        best = min(best, time.perf_counter() - start)
    return 1e3 * float(best)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="What a warm call costs besides its steps.")
    chosen = [name for name in MODELS if name != "car-axis"]
    parser.add_argument("--models", nargs="+", default=chosen, choices=list(MODELS), metavar="NAME")
    parser.add_argument("--rounds", type=int, default=300)
    options = parser.parse_args(arguments)
    print(f"20 000 turns of a loop in Python: {reference():.2f} ms")
    lines = []
    for name in options.models:
        model = MODELS[name]()
        if not model.explicit:
            print(f"{name}: left out, accelerations are implicit")
            continue
        for label, (method, formulation) in METHODS.items():
            lines.append([name, label, *measure(model, method, formulation, options.rounds)])
    head = ["problem", "method", "steps", "solve [us]", "before the run", "run", "prepared"]
    print_table("warm calls", head, lines, digits=3)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
