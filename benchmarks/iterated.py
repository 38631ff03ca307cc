"""Iterated Radau IIA: what lanes cost, what its polynomials miss, and how many sweeps pay.

    python benchmarks/iterated.py [--out DIRECTORY]

Writes iterated.md. Three tables:

1. Accelerations of the models of `benchmarks/collection.py` at 1 state, and at 4 and 8 in one call of a kernel, fused
   as the sweeps have it.
2. Constant steps, swept until nothing changes: the error at the end beside the sum over all steps of the estimate that
   error control adds for what sweeps do not show, h |g_7| R^2, R = (g_6^2 + g_7^2) / (g_4^2 + g_5^2), g_n the Legendre
   coefficients of the accelerations over a step; both relative to the largest velocity at the end, at least 1.
3. Microseconds of whole runs, fastest of several, by the number of sweeps, at equal tolerance: models of the collection
   on flat spaces, and all problems on groups.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import casadi as ca
import numba
import numpy as np
from numpy.polynomial import legendre
from peers.models import MODELS, Model

import dalembert as da
from dalembert.compiler import KernelSpec, compile_kernels
from dalembert.integrators.iterated import radau_formula
from dalembert.numerics import sweep_formula
from dalembert.numerics.native import LANES, call_kernel
from dalembert.table import markdown_table, print_table

CALLS, ROUNDS = 20_000, 7
STEPS = {"pendulum": (100, 140), "slider-crank": (8, 10, 14), "andrews": (28, 40, 60), "car-axis": (40, 60, 80)}
SETTLED, MOST = 1e-14, 60
SWEEPS, TOLERANCES, RUNS = (4, 5, 6, 7), (1e-4, 1e-7, 1e-10), 60


@numba.njit
def call_often(address, n, a, b, out):  # type: ignore[no-untyped-def]
    for _ in range(n):
        call_kernel(address, a.ctypes.data, b.ctypes.data, out.ctypes.data)


def lanes(model: Model) -> list[Any]:
    """Nanoseconds for 1, 4 and 8 states, and the largest of these times over the first."""
    x, out = ca.vertcat(model.t, model.y), ca.densify(model.ode)
    kernels = compile_kernels([KernelSpec(f"{n}", x, ca.SX(0, 1), out, lanes=n, fused=n > 1) for n in (1, 4, 8)])
    away = 0.05 * np.random.default_rng(0).standard_normal((x.numel(), 8))
    states = np.concatenate([[0.0], model.y0])[:, None] + away
    found = []
    for n, kernel in ((n, kernels[f"{n}"]) for n in (1, 4, 8)):
        a, result = np.ascontiguousarray(states[:, :n]).ravel(), np.zeros(kernel.n_out)
        best = np.inf
        for _ in range(ROUNDS):
            begin = time.perf_counter()
            call_often(kernel.address, CALLS, a, np.zeros(1), result)
            best = min(best, time.perf_counter() - begin)
        found.append(1e9 * best / CALLS)
    return [model.name, kernels["1"].n_instructions, *found, found[-1] / found[0]]


class Missed:
    """Collocation with constant steps on a flat space."""

    def __init__(self, model: Model) -> None:
        f = radau_formula()
        self.model, self.c = model, f[sweep_formula.C : sweep_formula.C + LANES]
        self.A, self.AA = (f[i : i + LANES**2].reshape(LANES, LANES).T for i in (sweep_formula.A, sweep_formula.AA))
        self.end = f[sweep_formula.END :].reshape(LANES, LANES)
        s, x = model.system, model.system.symbols
        self.ode = ca.Function("ode", [model.t, model.y], [model.ode]).map(LANES)
        self.levels = ca.Function("levels", [x.t, x.q, x.v], [model._numeric(e) for e in (s.g, s.g_dot, s.G)])
        P = legendre.legvander(2 * self.c - 1, LANES - 1)
        self.coefficients = (self.end[:, 0, None] * P * (2 * np.arange(LANES) + 1)).T

    def project(self, t: float, q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        for _ in range(3):
            g, _, G = (np.array(x) for x in self.levels(t, q, v))
            q = q - np.linalg.pinv(G) @ g.ravel()
        _, g_dot, G = (np.array(x) for x in self.levels(t, q, v))
        return q, v - np.linalg.pinv(G) @ g_dot.ravel()

    def run(self, n: int) -> list[Any]:
        model, nq, h = self.model, self.model.system.nq, self.model.t_end / n
        q, v, a, total = model.q0, model.v0, None, 0.0
        for i in range(n):
            t = i * h
            if a is None:
                y = np.tile(np.concatenate([q, v]), (LANES, 1))
                a = np.array(self.ode(np.full((1, LANES), t), y.T)).T[:, nq:]
            for _ in range(MOST):
                y = np.hstack([q + h * self.c[:, None] * v + h * h * self.AA @ a, v + h * self.A @ a])
                a, old = np.array(self.ode((t + self.c * h)[None], y.T)).T[:, nq:], a
                if np.abs(a - old).max() <= SETTLED * np.abs(a).max():
                    break
            g = np.linalg.norm(self.coefficients @ a, axis=1)
            total += h * g[7] * ((g[6] ** 2 + g[7] ** 2) / (g[4] ** 2 + g[5] ** 2)) ** 2
            q, v = q + h * v + h * h * self.end[:, 1] @ a, v + h * self.end[:, 0] @ a
            q, v = self.project(t + h, q, v)
        estimate = total / max(1.0, float(np.abs(model.exact["v"]).max()))
        error = model.error(q, v)
        return [model.name, n, error, estimate, error / estimate]


def by_sweeps(name: str, system: da.System, t_end: float, q0: Any, v0: Any) -> list[Any]:
    """Microseconds of runs with so many sweeps, over the tolerances (geometric mean), and the best number."""
    found = []
    for n in SWEEPS:
        logarithms = []
        for tol in TOLERANCES:
            runs = [
                da.solve(
                    system, (0.0, t_end), q0, v0, method=da.Iterated(n), rtol=tol, atol=tol, t_eval=[t_end]
                ).stats.wall_time
                for _ in range(RUNS)
            ]
            logarithms.append(np.log(1e6 * min(runs)))
        found.append(float(np.exp(np.mean(logarithms))))
    return [name, "flat" if system.space.flat else "group", *found, SWEEPS[int(np.argmin(found))]]


def models() -> list[Model]:
    """Those with explicit accelerations, small enough to be written out."""
    return [model for make in MODELS.values() if (model := make()).explicit and not model.large]


def sweeps_table() -> list[list[Any]]:
    rows = [by_sweeps(m.name, m.system, m.t_end, m.q0, m.v0) for m in models() if m.system.space.flat]
    problems = [p for p in da.problems().values() if not p.system.space.flat]
    return rows + [by_sweeps(p.name, p.system, p.t_span[1], p.q0, p.v0) for p in problems]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    args = parser.parse_args()
    tables = [
        ("Accelerations in lanes", ["model", "instructions", "1 state, ns", "4 states", "8 states", "8 over 1"],
         [lanes(model) for model in models()]),
        ("What polynomials miss", ["model", "steps", "error", "sum of estimates", "ratio"],
         [Missed(MODELS[name]()).run(n) for name, counts in STEPS.items() for n in counts]),
        ("Sweeps", ["model", "space", *(f"{n} sweeps, us" for n in SWEEPS), "best"], sweeps_table()),
    ]  # fmt: skip
    text = ["# Iterated Radau IIA", "", "Made by `benchmarks/iterated.py`; its head says how.", ""]
    for title, head, rows in tables:
        print_table(title, head, rows)
        text += [f"## {title}", "", markdown_table(head, rows, digits=3), ""]
    (args.out / "iterated.md").write_text("\n".join(text), encoding="utf-8")


if __name__ == "__main__":
    main()
