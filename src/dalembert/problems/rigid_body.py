"""The free asymmetric rigid body on SO(3): Euler's equations, rotating near its unstable axis.

[LL76] L. Landau, E. Lifshitz, Mechanics, 3rd ed., 1976, section 37: the angular velocity by elliptic functions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ellipj

from dalembert import spaces
from dalembert.model.system import System
from dalembert.problems.base import Problem, register
from dalembert.problems.minimal import minimal_coordinates
from dalembert.problems.rotations import matrix_of, quaternion_rate

INERTIA = np.array([1.0, 2.0, 3.0])
OMEGA0 = np.array([0.6, 0.0, 1.2])


def angular_velocity(t: Any) -> np.ndarray:
    """Omega (..., 3) from the start (Omega_1, 0, Omega_3) [LL76, (37.10)], for M^2 > 2 E I_2."""
    (i1, i2, i3), (w1, _, w3) = INERTIA, OMEGA0
    energy2, momentum2 = i1 * w1**2 + i3 * w3**2, (i1 * w1) ** 2 + (i3 * w3) ** 2
    tau = np.asarray(t) * np.sqrt((i3 - i2) * (momentum2 - energy2 * i1) / (i1 * i2 * i3))
    k2 = (i2 - i1) * (energy2 * i3 - momentum2) / ((i3 - i2) * (momentum2 - energy2 * i1))
    sn, cn, dn, _ = ellipj(tau, k2)
    w2 = np.sqrt((energy2 * i3 - momentum2) / (i2 * (i3 - i2)))
    return np.stack([w1 * cn, w2 * sn, w3 * dn], axis=-1)


def _rates(t: float, y: np.ndarray) -> np.ndarray:
    p, omega = y[:4], y[4:]
    return np.concatenate([quaternion_rate(p, omega), -np.cross(omega, INERTIA * omega) / INERTIA])


@register("rigid-body")
def rigid_body() -> Problem:
    system = System(
        q=spaces.SO3(),
        mass=np.diag(INERTIA),
        force=lambda v: -np.cross(v, INERTIA * v),
        energy=lambda v: 0.5 * v @ (INERTIA * v),
        name="rigid-body",
    )
    y0 = np.concatenate([[1.0, 0.0, 0.0, 0.0], OMEGA0])
    return Problem(
        name="rigid-body",
        description="free asymmetric rigid body on SO(3)",
        source="Landau & Lifshitz, Mechanics, section 37; attitude in quaternions, DOP853",
        system=system,
        q0=np.eye(3).ravel(),
        v0=OMEGA0,
        t_span=(0.0, 20.0),
        reference=minimal_coordinates(_rates, y0, 0.0, lambda t, y: {"q": matrix_of(y[:4]).ravel(), "v": y[4:]}),
        reference_digits=11,
    )
