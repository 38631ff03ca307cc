"""Generalized-alpha with fixed steps, beside Exudyn: microseconds a step, one process, same models, same steps.

    python benchmarks/alpha.py

Chains of point masses on rods (1, 10, 100 links, horizontal at first) and the heavy top of Arnold, Cardona and Bruels
(2015), rho = 0.9. Runs take turns; the fastest of several counts. Nothing is stored but the end. Times are processor
times, which other work on the machine disturbs least; those of our runs are less that of a run of one step, since they
include all checks of the input.
"""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from peers import exudyn_alpha as exudyn

import dalembert as da
from dalembert.table import markdown_table, print_table

HERE = Path(__file__).resolve().parent
ROUNDS = 5
MASS, INERTIA = 15.0, np.diag([0.234375, 0.46875, 0.234375])
X, OMEGA0 = np.array([0.0, 1.0, 0.0]), np.array([0.0, 150.0, -4.61538])


def chain(links: int) -> tuple[da.System, Any, Any]:
    """Point masses on rods, horizontal."""
    length = 1.0 / links

    def rods(q: Any) -> list[Any]:
        x, y = q[0::2], q[1::2]
        first = [(x[0] ** 2 + y[0] ** 2 - length**2) / 2]
        rest = [((x[i] - x[i - 1]) ** 2 + (y[i] - y[i - 1]) ** 2 - length**2) / 2 for i in range(1, links)]
        return first + rest

    system = da.System(
        q=2 * links,
        mass=np.full(2 * links, length),
        force=np.tile([0.0, -9.81 * length], links),
        constraints=rods,
        name=f"{links} links",
    )
    q0 = np.zeros(2 * links)
    q0[0::2] = length * np.arange(1, links + 1)
    return system, q0, np.zeros(2 * links)


def top() -> tuple[da.System, Any, Any]:
    mass = np.diag([MASS, MASS, MASS, *np.diag(INERTIA)])
    gravity = np.array([0.0, 0.0, -9.81])
    system = da.System(
        q=da.spaces.R3xSO3(),
        mass=mass,
        force=lambda v: np.concatenate([MASS * gravity, -np.cross(v[3:], INERTIA @ v[3:])]),
        constraints=lambda q: -q.x + q.R @ X,
        name="heavy top",
    )
    return system, (X, np.eye(3)), np.concatenate([-np.cross(X, OMEGA0), OMEGA0])


@dataclass(frozen=True)
class Case:
    name: str
    ours: Callable[[], tuple[da.System, Any, Any]]
    theirs: Callable[[], Any]
    end: float
    steps: int


CASES = [
    Case("pendulum", lambda: chain(1), lambda: exudyn.chain(1), 2.0, 20_000),
    Case("heavy top", top, lambda: exudyn.heavy_top(MASS, INERTIA, X, OMEGA0), 1.0, 10_000),
    Case("chain, 10 links", lambda: chain(10), lambda: exudyn.chain(10), 0.5, 5_000),
    Case("chain, 100 links", lambda: chain(100), lambda: exudyn.chain(100), 0.5, 10_000),
]


def measure(case: Case) -> dict[str, Any]:
    system, q0, v0 = case.ours()
    method = da.GeneralizedAlpha(rho=0.9)

    def run(steps: int) -> float:
        end, begin = case.end * steps / case.steps, time.process_time()
        sol = da.solve(system, (0, end), q0, v0, method=method, h=case.end / case.steps, t_eval=[end])
        if not sol.success:
            raise RuntimeError(f"{case.name}: {sol.message}")
        if sol.stats.lapack_factorizations > 0.01 * steps:
            raise RuntimeError(f"{case.name}: {sol.stats.lapack_factorizations} matrices were left to LAPACK")
        return time.process_time() - begin

    run(1)
    before = min(run(1) for _ in range(ROUNDS))
    ours, theirs = [], []
    for _ in range(ROUNDS):
        ours.append(1e6 * (run(case.steps) - before) / (case.steps - 1))
        if exudyn.available():
            theirs.append(1e6 * exudyn.run(case.theirs(), case.end, case.steps)[0] / case.steps)
    row = {"model": case.name, "unknowns": system.nv + system.nlam, "dalembert": min(ours)}
    if theirs:
        row |= {"Exudyn": min(theirs), "ratio": min(theirs) / min(ours)}
    return row


def main() -> int:
    rows = [measure(case) for case in CASES]
    columns = list(rows[0])
    cells = [[row[k] for k in columns] for row in rows]
    print_table("generalized-alpha, us per step", columns, cells, digits=3)
    results = HERE / "results"
    text = json.dumps({"machine": platform.machine(), "rows": rows}, indent=1)
    (results / "alpha.json").write_text(text + "\n", encoding="utf-8")
    (results / "alpha.md").write_text(
        f"# {__doc__.splitlines()[0]}\n\n{markdown_table(columns, cells, digits=3)}\n", encoding="utf-8"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
