"""Stabilising directions D: along which a multiplier may push the state back onto the constraints."""

from __future__ import annotations

from typing import Any

import casadi as ca
import numpy as np

from dalembert.model.point import Point
from dalembert.model.tracing import to_sx
from dalembert.status import OptionError

Direction = str | tuple[tuple[float, ...], ...]

GRADIENT = ("G^T", "C^T")  # orthogonal to the constraints
INERTIAL = ("M^-1 G^T", "B")  # the way the multipliers accelerate the system


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
