"""Collocation for second-order systems: accelerations and multipliers of the stages are the unknowns.

[W05]  L. Wunderlich, Numerical treatment of second order differential-algebraic systems (2005), (6.15).
[HW96] E. Hairer, G. Wanner, Solving Ordinary Differential Equations II, Springer 1996, IV.8, VII.

    Q_i = q + h c_i v + h^2 sum_j (A A)_ij A_j,    V_i = v + h sum_j A_ij A_j
    M A_i = f(Q_i, V_i, L_i) - G^T L_i,            0 = g(Q_i)        (or what the formulation puts in its place)
    q+ = q + h v + h^2 sum_j (b A)_j A_j,          v+ = v + h sum_j b_j A_j

Constraint rows are divided by h^2 and stage multipliers are unknowns: the matrix stays well conditioned as h -> 0.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import casadi as ca
import numpy as np
from numba import carray, cfunc

from dalembert.formulations.base import Formulation, Unknown
from dalembert.integrators.base import Integrator, StepData, StepEquations
from dalembert.integrators.tableaus import Collocation
from dalembert.model.point import Environment
from dalembert.model.system import System
from dalembert.numerics.compiled import COEFFICIENT_SIGNATURE, compile_cached
from dalembert.numerics.layout import Layout
from dalembert.numerics.runstate import FIRST, N_COEFFICIENTS, PREDICTOR
from dalembert.status import OptionError

# what a stage solves for, with the power of h that its updates have in the units of the row entry named
_STAGE = (("a", "v", 1), ("r_dot", "r", 1), ("w", "w", 0), ("s", "s", 0), ("lam", "lam", 0), ("mu", "mu", 0))


@dataclass(frozen=True)
class CollocationMethod(Integrator):
    """What the collocation methods share."""

    stages: int = 3
    in_row: ClassVar[bool] = False
    one_step: ClassVar[bool] = True
    default_formulation: ClassVar[str] = "index-3"
    takes: ClassVar[frozenset[str]] = frozenset({"index-1", "index-2", "index-3", "baumgarte"})

    @property
    @abstractmethod
    def tableau(self) -> Collocation:
        """The coefficients."""

    @property
    def equations_key(self) -> tuple[Any, ...]:
        return (type(self), self.stages)

    def order_range(self, fixed: bool) -> tuple[int, int]:
        return self.stages, self.stages

    def describe(self) -> str:
        return f"{self.name} ({self.stages} stage{'s' if self.stages > 1 else ''})"

    def check(self, system: System, formulation: Formulation) -> None:
        super().check(system, formulation)
        if not system.nq:
            raise OptionError(f"{self.name!r} integrates second-order systems; this one is of first order. Use BDF.")

    def unknowns(self, system: System, formulation: Formulation) -> list[Unknown]:
        sizes = {**system.sizes, "r_dot": system.nr}
        return [Unknown(f"{n}{i}", sizes[n], False) for i in range(self.stages) for n, _, _ in _STAGE]

    def carried(self, system: System, formulation: Formulation) -> list[Unknown]:
        index = {u.name: u for u in formulation.unknowns(system)}
        blocks = [index[n] for n in ("q", "v", "r", "w", "s", "lam", "mu")]
        return [*blocks, Unknown("a", system.nv, False, controlled=False)]

    def weight_map(self, system: System, layout: Layout) -> np.ndarray:
        parts = []
        for _ in range(self.stages):
            for _, row_block, power in _STAGE:
                index = layout.indices((row_block,))
                parts.append(np.array([index, np.full(index.size, power)]))
        return np.concatenate(parts, axis=1).astype(np.int64)

    def equations(
        self, formulation: Formulation, env: Environment, layout: Layout, x: ca.SX, data: StepData
    ) -> StepEquations:
        system, tableau, h = env.system, self.tableau, data.h
        s = self.stages
        old = layout.split(ca.vertcat(data.first, ca.SX.zeros(layout.n - data.first.numel(), 1)))
        stage = self._split(system, x)
        t0 = data.t - h
        A, b = tableau.A, tableau.b
        AA, bA = A @ A, b @ A

        def sum_of(weights: np.ndarray, name: str) -> ca.SX:
            return sum((float(w) * stage[j][name] for j, w in enumerate(weights)), ca.SX.zeros(stage[0][name].shape))

        labels, residuals, rows = [], [], []
        for i in range(s):
            Q = old["q"] + h * float(tableau.c[i]) * old["v"] + h**2 * sum_of(AA[i], "a")
            V = old["v"] + h * sum_of(A[i], "a")
            R = old["r"] + h * sum_of(A[i], "r_dot")
            z = stage[i]
            point = env.at(
                t=t0 + float(tableau.c[i]) * h, q=Q, v=V, a=z["a"], r=R, w=z["w"], s=z["s"], lam=z["lam"], mu=z["mu"]
            )
            blocks = [
                ("balance", point.balance, 0),
                ("dynamics", z["r_dot"] - point.dynamics, 0),
                ("auxiliary", point.auxiliary, 0),
                ("contact", point.h, 0),
                # rows of a first-order form are scaled by c0^row, that is by h^-(row+1) here
                *[(e.label, e.expr, -(e.row + 1)) for e in formulation.constraint_equations(point)],
            ]
            for label, expr, power in blocks:
                if expr.numel():
                    labels += [f"{label} (stage {i + 1})"] * expr.numel()
                    residuals.append(expr)
                    rows.append(ca.SX.ones(expr.numel(), 1) * h**power)
        q = old["q"] + h * old["v"] + h**2 * sum_of(bA, "a")
        v = old["v"] + h * sum_of(b, "a")
        r = old["r"] + h * sum_of(b, "r_dot")
        last = stage[-1]
        e = tableau.embedded
        # local error of v by the embedded quadrature; positions follow over one step
        error_v = h * (float(e[0]) * old["a"] + sum_of(e[1:] - b, "a"))
        error_r = h * (sum_of(e[1:] - b, "r_dot") + float(e[0]) * stage[0]["r_dot"])
        new = {
            "q": q,
            "v": v,
            "r": r,
            "w": last["w"],
            "s": last["s"],
            "lam": last["lam"],
            "mu": last["mu"],
            "a": last["a"],
        }
        zero = {name: ca.SX.zeros(expr.shape) for name, expr in new.items()}
        error = {**zero, "q": h * error_v, "v": error_v, "r": error_r}
        start = {"a": old["a"], "r_dot": ca.SX.zeros(system.nr, 1), **{n: old[n] for n in ("w", "s", "lam", "mu")}}
        names = [u.name for u in self.carried(system, formulation)]
        return StepEquations(
            labels=labels,
            residual=ca.densify(ca.vertcat(*residuals)),
            rows=ca.vertcat(*rows),
            columns=ca.SX.ones(x.numel(), 1),
            update=ca.densify(ca.vertcat(*[new[n] for n in names])),
            start=ca.densify(ca.vertcat(*[start[n] for _ in range(s) for n, _, _ in _STAGE])),
            error=ca.densify(ca.vertcat(*[error[n] for n in names])),
        )

    def _split(self, system: System, x: ca.SX) -> list[dict[str, ca.SX]]:
        sizes = {**system.sizes, "r_dot": system.nr}
        out, position = [], 0
        for _ in range(self.stages):
            part = {}
            for name, _, _ in _STAGE:
                part[name] = x[position : position + sizes[name]]
                position += sizes[name]
            out.append(part)
        return out

    def coefficient_function(self) -> int:
        return int(_compiled().address)


def _old_row(k, available, nodes_address, orders_address, out_address):  # type: ignore[no-untyped-def]
    """A one-step method sees the last row as it is."""
    out = carray(out_address, (N_COEFFICIENTS,), np.float64)
    out[:] = 0.0
    out[PREDICTOR] = 1.0
    out[FIRST] = 1.0
    return 0


@cache
def _compiled() -> Any:
    return compile_cached(cfunc, COEFFICIENT_SIGNATURE, _old_row)
