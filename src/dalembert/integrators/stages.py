"""What methods share whose unknowns are the accelerations and multipliers of several stages.

They are kept stage by stage, each in the order of `STAGE`.
"""

from __future__ import annotations

from collections.abc import Mapping
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

NONE: Mapping[str, int] = {}
# what a stage solves for, with the power of h that its updates have in the units of the row entry named
STAGE = (("a", "v", 1), ("r_dot", "r", 1), ("w", "w", 0), ("s", "s", 0), ("lam", "lam", 0), ("mu", "mu", 0))


def added_unknowns(system: System, formulation: Formulation) -> dict[str, int]:
    """Unknowns that a formulation adds to those of the model, which push positions, and their sizes."""
    return {u.name: u.size for u in formulation.unknowns(system) if u.name not in {"q", "v", *system.sizes}}


def stage_sizes(system: System, added: Mapping[str, int]) -> dict[str, int]:
    """What a stage solves for, and how much of it."""
    sizes = {**system.sizes, "r_dot": system.nr}
    return {**{name: sizes[name] for name, _, _ in STAGE}, **added}


def stage_unknowns(system: System, stages: int, added: Mapping[str, int] = NONE) -> list[Unknown]:
    """Blocks of unknowns, stage by stage."""
    sizes = stage_sizes(system, added)
    return [Unknown(f"{name}{i}", size, False) for i in range(stages) for name, size in sizes.items()]


def stage_weights(layout: Layout, stages: int, added: Mapping[str, int] = NONE) -> np.ndarray:
    """(2, n): the weight map of these unknowns, see `Integrator.weight_map`."""
    blocks = [(block, power) for _, block, power in STAGE] + [(name, 1) for name in added]
    index = {block: layout.indices((block,)) for block, _ in blocks}
    parts = [np.array([index[block], np.full(index[block].size, power)]) for block, power in blocks]
    return np.ascontiguousarray(np.concatenate(parts * stages, axis=1), dtype=np.int64)


def split_stages(system: System, x: ca.SX, stages: int, added: Mapping[str, int] = NONE) -> list[dict[str, ca.SX]]:
    """The unknowns of each stage by name."""
    sizes = stage_sizes(system, added)
    out, position = [], 0
    for _ in range(stages):
        part = {}
        for name, size in sizes.items():
            part[name] = ca.reshape(x[position : position + size], size, 1)  # 1 x 0 if x is scalar
            position += size
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


def stage_columns(system: System, stages: int, h: ca.SX, added: Mapping[str, int] = NONE) -> ca.SX:
    """Scaling of the columns: contact coordinates change by h^2 where accelerations change by 1, and what pushes
    positions, as velocities do, by h."""
    power = {"s": 2, **dict.fromkeys(added, 1)}
    sizes = stage_sizes(system, added)
    one = [ca.SX.ones(size, 1) * h ** power.get(name, 0) for name, size in sizes.items()]
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
