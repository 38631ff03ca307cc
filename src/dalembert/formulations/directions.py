"""Stabilising directions D: along which a multiplier may push the state back onto the constraints."""

from __future__ import annotations

from typing import Any

import casadi as ca
import numpy as np

from dalembert.formulations.base import At
from dalembert.model.point import Point
from dalembert.model.system import System
from dalembert.status import OptionError
from dalembert.tracing import to_sx

Direction = str | tuple[tuple[float, ...], ...]

GRADIENT = ("G^T", "C^T")  # orthogonal to the constraints
INERTIAL = ("M^-1 G^T", "B")  # the way the multipliers accelerate the system
SINGULAR = 1e-10  # smallest singular value of C D with rows and columns of length 1


def check_direction(owner: str, given: Any) -> Direction:
    """Validate the argument D: a name or a constant (nv, m) matrix; returns something hashable."""
    if isinstance(given, str):
        if given not in (*GRADIENT, *INERTIAL):
            raise OptionError(f"{owner}(D={given!r}): give a matrix or one of {', '.join((*GRADIENT, *INERTIAL))}.")
        return given
    try:
        matrix = np.asarray(given, dtype=float)
    except (TypeError, ValueError):
        raise OptionError(
            f"{owner}(D={given!r}): give a matrix or one of {', '.join((*GRADIENT, *INERTIAL))}."
        ) from None
    if matrix.ndim == 1:
        matrix = matrix[:, None]
    if matrix.ndim != 2 or not np.all(np.isfinite(matrix)):
        raise OptionError(f"{owner}(D=...): give a finite matrix with a column for each constraint.")
    return tuple(map(tuple, matrix.tolist()))


def direction(owner: str, D: Direction, point: Point, multiplier: str) -> ca.SX:
    """D (nv, m) at a point, for the constraints that belong to ``multiplier`` ("lam" or "mu")."""
    C = point.G if multiplier == "lam" else point.K
    if D in GRADIENT:
        return C.T
    if D in INERTIAL:
        return point.acceleration_by_lam if multiplier == "lam" else point.acceleration_by_mu
    matrix = to_sx(np.array(D))
    if matrix.shape != (C.shape[1], C.shape[0]):
        raise OptionError(
            f"{owner}(D=...): the matrix has shape {matrix.shape}, expected {(C.shape[1], C.shape[0])}: a row for each "
            f"velocity, a column for each constraint."
        )
    return matrix


def direction_rate(D: Direction, point: Point) -> ca.SX:
    """Time derivative of D (nv, nlam) along the motion at a point, for the constraints that belong to lam."""
    if D in GRADIENT:
        return point.G_dot.T
    if D in INERTIAL:
        return point.acceleration_by_lam_dot
    return ca.SX.zeros(point.system.nv, point.system.nlam)


def turning_rate(C: ca.SX, C_dot: ca.SX) -> ca.SX:
    """How fast the space spanned by the rows of C turns, in radians per unit of time (an upper bound)."""
    gram = C @ C.T
    normal = C_dot - C_dot @ C.T @ ca.solve(gram, C)
    return ca.sqrt(ca.trace(normal.T @ ca.solve(gram, normal)))


def check_regular(owner: str, D: Direction, system: System, at: At, multiplier: str) -> None:
    """Refuse a D for which C D is singular at the initial state, C = G ("lam") or K ("mu")."""
    if D in GRADIENT:
        return  # C itself was found to have full rank
    C = at("G" if multiplier == "lam" else "K")
    if D in INERTIAL:
        matrix = at("acceleration_by_lam" if multiplier == "lam" else "acceleration_by_mu")
        if not np.all(np.isfinite(matrix)):
            raise OptionError(f"{owner}(D={D!r}): the mass matrix is singular, so there is no M^-1; use D='G^T'.")
    else:
        matrix = np.array(D)
    product = unit(C) @ unit(matrix.T).T
    s = np.linalg.svd(product, compute_uv=False)
    if not s[-1] > SINGULAR:
        labels = system.names["constraints" if multiplier == "lam" else "velocity_constraints"]
        weakest = labels[int(np.abs(np.linalg.svd(product)[0][:, -1]).argmax())]
        raise OptionError(
            f"{owner}(D=...): G D is singular at the start (smallest singular value {s[-1]:.2g}): D cannot move "
            f"the state back onto the constraint {weakest!r}. Use D='G^T', or columns that are not tangent to it."
        )


def unit(rows: np.ndarray) -> np.ndarray:
    """Rows scaled to length 1; zero ones stay."""
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(norms > 0, norms, 1.0)
