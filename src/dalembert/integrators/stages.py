"""What methods share whose unknowns are the accelerations and multipliers of several stages.

They are kept stage by stage, each in the order of `STAGE`.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import casadi as ca
import numpy as np
from numba import carray, cfunc

from dalembert.formulations.base import Formulation, Unknown
from dalembert.model.point import Point
from dalembert.model.system import System
from dalembert.numerics.compiled import COEFFICIENT_SIGNATURE, compile_cached
from dalembert.numerics.layout import Layout
from dalembert.numerics.runstate import FIRST, N_COEFFICIENTS, PREDICTOR, SECOND

# what a stage solves for, with the power of h that its updates have in the units of the row entry named
STAGE = (("a", "v", 1), ("r_dot", "r", 1), ("w", "w", 0), ("s", "s", 0), ("lam", "lam", 0), ("mu", "mu", 0))


def stage_unknowns(system: System, stages: int) -> list[Unknown]:
    """Blocks of unknowns, stage by stage."""
    sizes = {**system.sizes, "r_dot": system.nr}
    return [Unknown(f"{name}{i}", sizes[name], False) for i in range(stages) for name, _, _ in STAGE]


def stage_weights(layout: Layout, stages: int) -> np.ndarray:
    """(2, n): the weight map of these unknowns, see `Integrator.weight_map`."""
    index = {block: layout.indices((block,)) for _, block, _ in STAGE}
    parts = [np.array([index[block], np.full(index[block].size, power)]) for _, block, power in STAGE]
    return np.ascontiguousarray(np.concatenate(parts * stages, axis=1), dtype=np.int64)


def split_stages(system: System, x: ca.SX, stages: int) -> list[dict[str, ca.SX]]:
    """The unknowns of each stage by name."""
    sizes = {**system.sizes, "r_dot": system.nr}
    out, position = [], 0
    for _ in range(stages):
        part = {}
        for name, _, _ in STAGE:
            part[name] = ca.reshape(x[position : position + sizes[name]], sizes[name], 1)  # 1 x 0 if x is scalar
            position += sizes[name]
        out.append(part)
    return out


def stage_equations(formulation: Formulation, point: Point, r_dot: ca.SX) -> list[tuple[str, ca.SX, Any]]:
    """Label, expression and power of h that scales the row, of the equations of one stage.

    Positions depend on the stage accelerations through h^2, velocities through h: constraint rows divided by these
    leave [M G^T; G 0] as h -> 0. Contact coordinates follow positions, see `stage_columns`.
    """
    blocks: list[tuple[str, ca.SX, Any]] = [
        ("balance", point.balance, 0),
        ("dynamics", r_dot - point.dynamics, 0),
        ("auxiliary", point.auxiliary, 0),
        ("contact", point.h, -2),
        # rows of a first-order form are scaled by c0^row, that is by h^-(row+1) here
        *[(e.label, e.expr, -(e.row + 1)) for e in formulation.constraint_equations(point)],
    ]
    return [block for block in blocks if block[1].numel()]


def write_stages(
    formulation: Formulation, points: list[Point], stage: list[dict[str, ca.SX]], h: ca.SX
) -> tuple[list[str], ca.SX, ca.SX]:
    """Labels, residual and scaling of the rows, stage by stage."""
    labels: list[str] = []
    residuals, rows = [], []
    for i, (point, z) in enumerate(zip(points, stage, strict=True)):
        for label, expr, power in stage_equations(formulation, point, z["r_dot"]):
            labels += [f"{label} (stage {i + 1})"] * expr.numel()
            residuals.append(expr)
            rows.append(ca.SX.ones(expr.numel(), 1) * h**power)
    return labels, ca.densify(ca.vertcat(*residuals)), ca.vertcat(*rows)


def past_row(layout: Layout, past: ca.SX) -> dict[str, ca.SX]:
    """Blocks of a combination of past rows; zero where steps leave nothing behind."""
    return layout.split(ca.vertcat(past, ca.SX.zeros(layout.n - past.numel(), 1)))


def stage_columns(system: System, stages: int, h: ca.SX) -> ca.SX:
    """Scaling of the columns: contact coordinates change by h^2 where accelerations change by 1."""
    sizes = {**system.sizes, "r_dot": system.nr}
    one = [ca.SX.ones(sizes[name], 1) * (h**2 if name == "s" else 1) for name, _, _ in STAGE]
    return ca.vertcat(*one * stages)


def last_row_function() -> int:
    """Address of the coefficient function of a method that sees the last row as it is.

    The row before it, as ``second``, and c[1] = 1 / (size of the last step) may serve start values; 0 if there is none.
    """
    return int(_compiled().address)


def _last_row(k, available, nodes_address, orders_address, out_address):  # type: ignore[no-untyped-def]
    nodes = carray(nodes_address, (3,), np.float64)
    out = carray(out_address, (N_COEFFICIENTS,), np.float64)
    out[:] = 0.0
    out[PREDICTOR] = 1.0
    out[FIRST] = 1.0
    if available > 2:  # rows 1 and 2 were made by a step
        out[1] = 1.0 / (nodes[1] - nodes[2])
        out[SECOND + 1] = 1.0
    return 0


@cache
def _compiled() -> Any:
    return compile_cached(cfunc, COEFFICIENT_SIGNATURE, _last_row)
