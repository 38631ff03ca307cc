"""The pendulum with period 2 in Cartesian coordinates.

[E93] E. Eich, SIAM J. Numer. Anal. 30 (1993), section 3.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.special import ellipj, ellipk

from dalembert.model.system import System
from dalembert.problems.base import Problem, register

GRAVITY = float(4 * ellipk(0.5) ** 2)  # makes the period of the release from the horizontal exactly 2


def exact(t: Any, gravity: float = GRAVITY) -> Mapping[str, np.ndarray]:
    """Release from rest at the horizontal by Jacobi's elliptic functions; t scalar or (n,)."""
    t = np.asarray(t, dtype=float)
    k, w = np.sqrt(0.5), np.sqrt(gravity)
    period = 4 * ellipk(0.5) / w
    sn, cn, dn, _ = ellipj(ellipk(0.5) - w * np.mod(t, period), 0.5)
    S = k * sn
    x, y = 2 * S * dn, 2 * S**2 - 1
    rate = -2 * k * w * cn
    v = np.stack([-y * rate, x * rate], axis=-1)
    lam = (v**2).sum(axis=-1) - gravity * y
    return {"q": np.stack([x, y], axis=-1), "v": v, "lam": lam[..., None]}


@register("pendulum")
def pendulum() -> Problem:
    system = System(
        q=["x", "y"],
        mass=lambda p: [p.m, p.m],
        force=lambda p: [0, -p.m * p.g],
        constraints=lambda q, p: {"rod": (q[0] ** 2 + q[1] ** 2 - p.L**2) / 2},
        energy=lambda q, v, p: p.m * (0.5 * (v @ v) + p.g * q[1]),
        parameters={"m": 1.0, "g": GRAVITY, "L": 1.0},
        name="pendulum",
    )
    return Problem(
        name="pendulum",
        description="Cartesian pendulum of period 2, released from the horizontal",
        source="Eich 1993, section 3.3",
        system=system,
        q0=np.array([1.0, 0.0]),
        v0=np.array([0.0, 0.0]),
        t_span=(0.0, 100.0),
        reference=exact,
    )
