"""Attitudes of rigid bodies by a second way: unit quaternions and the angular velocity, integrated by SciPy."""

from __future__ import annotations

from typing import Any

import numpy as np


def matrix_of(p: Any) -> np.ndarray:
    """Rotation matrix (3, 3) of a quaternion (4,), scalar first, of any length."""
    w, x, y, z = np.asarray(p, dtype=float) / np.linalg.norm(p)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def quaternion_rate(p: np.ndarray, omega: np.ndarray) -> np.ndarray:
    """p' (4,) = p (0, Omega) / 2 for the angular velocity in the body frame."""
    scalar, vector = p[0], p[1:]
    return 0.5 * np.concatenate([[-vector @ omega], scalar * omega + np.cross(vector, omega)])
