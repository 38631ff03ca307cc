"""What linear multistep methods on first-order forms share: the step equations and the BDF coefficients.

[BCP96] K. Brenan, S. Campbell, L. Petzold, Numerical Solution of Initial-Value Problems in DAEs, SIAM 1996, ch. 5.
"""

from __future__ import annotations

from functools import cache
from typing import Any, ClassVar

import casadi as ca
import numpy as np
from numba import carray, cfunc

from dalembert.formulations.base import Formulation, Unknown
from dalembert.integrators.base import Integrator, StepData, StepEquations
from dalembert.integrators.positions import (
    kept_positions,
    motion_weights,
    new_position,
    start_values,
    step_unknowns,
)
from dalembert.model.point import Environment
from dalembert.model.system import System
from dalembert.numerics.compiled import COEFFICIENT_SIGNATURE, compile_cached
from dalembert.numerics.interpolation import difference_weights, lagrange_weights
from dalembert.numerics.layout import Layout
from dalembert.numerics.native import inner
from dalembert.numerics.runstate import ESTIMATE, FIRST, HISTORY, N_COEFFICIENTS, PREDICTOR

HIGHEST = 6  # BDF of higher orders is not stable
BORROWED = 0.4  # small enough for that order to be preferred to the one below


class BackwardDifferences(Integrator):
    """A method that replaces x' by the derivative of the polynomial through the new and past points."""

    on_groups: ClassVar[bool] = True

    def unknowns(self, system: System, formulation: Formulation) -> list[Unknown]:
        return step_unknowns(system, formulation.unknowns(system), self.moves(system))

    def carried(self, system: System, formulation: Formulation) -> list[Unknown]:
        return kept_positions(formulation.unknowns(system), self.moves(system))

    def weight_map(self, system: System, layout: Layout, formulation: Formulation) -> np.ndarray | None:
        return motion_weights(system, layout, self.unknowns(system, formulation), self.moves(system))

    def equations(
        self, formulation: Formulation, env: Environment, layout: Layout, x: ca.SX, data: StepData
    ) -> StepEquations:
        system, unknowns = env.system, self.unknowns(env.system, formulation)
        now = {u.name: x[layout.slice(u.name)] for u in unknowns}
        if system.nq:
            now["q"] = new_position(system, layout, now, data)
        # on groups past rows come as changes from the last one: c0 + sum w_i = 0
        base = {
            u.name: 0 if system.space.flat else data.last[layout.slice(u.name)] for u in formulation.unknowns(system)
        }
        rate = {
            u.name: data.c[0] * (now[u.name] - base[u.name]) + data.first[layout.slice(u.name)]
            for u in formulation.unknowns(system)
            if u.differential
        }  # [BCP96, (5.1.4)] with the coefficients of the variable grid
        blocks = formulation.equations(env, data.t, now, rate)
        rows = ca.vertcat(*[ca.SX.ones(e.expr.numel(), 1) * data.c[0] ** e.row for e in blocks])
        return StepEquations(
            labels=[e.label for e in blocks for _ in range(e.expr.numel())],
            residual=ca.densify(ca.vertcat(*[e.expr for e in blocks])),
            rows=rows,
            columns=ca.vertcat(*[ca.SX.ones(u.size, 1) * data.c[0] ** u.column for u in unknowns]),
            update=None if system.space.flat else ca.densify(ca.vertcat(x, now["q"])),
            start=start_values(system, layout, data, unknowns, self.moves(system)),
        )

    def coefficient_function(self) -> int:
        return coefficient_address()


@inner
def _fill(k, available, nodes, out, borrowing):  # type: ignore[no-untyped-def]
    """Coefficients of order k on the grid nodes[0] (new), nodes[1], ...; layout as in `numerics.runstate`.

    borrowing: the order whose steps are held by `BORROWED` times the estimate of the order below; 0 if there is none.
    """
    out[:] = 0.0
    t = nodes[0]
    # predictor: the polynomial of degree k through the last k+1 points, extrapolated
    count = min(k + 1, available)
    lagrange_weights(t, nodes, 1, count, out[PREDICTOR:])
    # derivative at t of the polynomial through nodes 0..k
    c0 = 0.0
    for i in range(1, k + 1):
        c0 += 1.0 / (t - nodes[i])
        weight = 1.0 / (nodes[i] - t)
        for j in range(1, k + 1):
            if j != i:
                weight *= (t - nodes[j]) / (nodes[i] - nodes[j])
        out[FIRST + i - 1] = weight
    out[0] = c0
    # local error of order j, the residual of the formula times h:
    # h x[t_n, ..., t_{n-j-1}] prod_{i=1..j} (t_n - t_{n-i});
    # it exceeds the error of x_n by h c0 = 1 + 1/2 + ... + 1/j on a uniform grid, as usual [BCP96, 5.2]
    for which in range(3):
        j = k - 1 + which
        if j < 1 or j + 1 > available:
            continue
        start = ESTIMATE + which * (HISTORY + 1)
        scale = t - nodes[1]
        if j == borrowing:
            j, scale = j - 1, BORROWED * scale
        difference_weights(nodes, j + 2, out[start:])
        for i in range(1, j + 1):
            scale *= t - nodes[i]
        for i in range(j + 2):
            out[start + i] *= scale
    return 0


def _coefficients(k, available, nodes_address, orders_address, out_address):  # type: ignore[no-untyped-def]
    nodes = carray(nodes_address, (HISTORY + 1,), np.float64)
    return _fill(k, available, nodes, carray(out_address, (N_COEFFICIENTS,), np.float64), 0)


def _borrowing_coefficients(k, available, nodes_address, orders_address, out_address):  # type: ignore[no-untyped-def]
    nodes = carray(nodes_address, (HISTORY + 1,), np.float64)
    return _fill(k, available, nodes, carray(out_address, (N_COEFFICIENTS,), np.float64), HIGHEST)


@cache
def _compiled(borrowing: bool) -> Any:
    return compile_cached(cfunc, COEFFICIENT_SIGNATURE, _borrowing_coefficients if borrowing else _coefficients)


def coefficient_address(borrowing: bool = False) -> int:
    """Address of the coefficient function. ``borrowing``: order `HIGHEST` is held by the estimate of the one below."""
    return int(_compiled(borrowing).address)
