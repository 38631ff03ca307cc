"""Powers of a propagation matrix: spectral radius and power-boundedness, also of defective matrices."""

from __future__ import annotations

import numpy as np

SQUARINGS, BOUND = 24, 1e5  # powers 2, 4, ..., 2^24 of a power-bounded matrix stay below this


def spectral_radius(matrix: np.ndarray) -> float:
    """The limit of |M^N|^(1/N): unlike computed eigenvalues it does not suffer from defective ones."""
    if not matrix.size:
        return 0.0
    power, log = matrix, 0.0
    for _ in range(SQUARINGS + 1):
        size = float(np.linalg.norm(power))
        if size == 0.0:
            return 0.0
        power, log = (power / size) @ (power / size), 2.0 * (log + np.log(size))
    return float(np.exp(log / 2.0 ** (SQUARINGS + 1)))


def power_bounded(matrix: np.ndarray) -> bool:
    """Whether |M^N| stays bounded: no eigenvalue outside the unit circle, none on it that is defective."""
    power = matrix
    for _ in range(SQUARINGS):
        if matrix.size and not np.linalg.norm(power) < BOUND:
            return False
        power = power @ power
    return True
