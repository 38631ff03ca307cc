"""The free asymmetric rigid body, rotating near its unstable axis: on SO(3), on unit quaternions, and in Euler
parameters, four coordinates p with the constraint |p| = 1, from its energy.

T = Omega^T J Omega / 2 with Omega = 2 vec(p* p') is homogeneous of degree 2 in p and in p', and T_{p'} is normal to p:
p^T (d/dt T_{p'} - T_p) = -4 T = -p^T G^T lam with G = 2 p^T, so that lam = 2 T.

[LL76] L. Landau, E. Lifshitz, Mechanics, 3rd ed., 1976, section 37: the angular velocity by elliptic functions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ellipj

from dalembert import spaces
from dalembert.model.lagrangian import Lagrangian
from dalembert.model.system import System
from dalembert.problems.base import Problem, register
from dalembert.problems.minimal import minimal_coordinates
from dalembert.problems.rotations import matrix_of, quaternion_rate

INERTIA = np.array([1.0, 2.0, 3.0])
OMEGA0 = np.array([0.6, 0.0, 1.2])
Y0 = np.concatenate([[1.0, 0.0, 0.0, 0.0], OMEGA0])


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


def _problem(name: str, system: System, where: str, start: dict[str, np.ndarray], state: Any) -> Problem:
    return Problem(
        name=name,
        description=f"free asymmetric rigid body {where}",
        source="Landau & Lifshitz, Mechanics, section 37; attitude in quaternions, DOP853",
        system=system,
        q0=start["q"],
        v0=start["v"],
        t_span=(0.0, 20.0),
        reference=minimal_coordinates(_rates, Y0, 0.0, state),
        reference_digits=11,
    )


def _on_group(name: str, space: spaces.Space, where: str, attitude: Any) -> Problem:
    system = System(
        q=space,
        mass=np.diag(INERTIA),
        force=lambda v: -np.cross(v, INERTIA * v),
        energy=lambda v: 0.5 * v @ (INERTIA * v),
        name=name,
    )

    def state(t: float, y: np.ndarray) -> dict[str, np.ndarray]:
        return {"q": attitude(y[:4]), "v": y[4:]}

    return _problem(name, system, where, state(0.0, Y0), state)


@register("rigid-body")
def rigid_body() -> Problem:
    return _on_group("rigid-body", spaces.SO3(), "on SO(3)", lambda p: matrix_of(p).ravel())


@register("rigid-body-quaternion")
def rigid_body_quaternion() -> Problem:
    return _on_group(
        "rigid-body-quaternion", spaces.UnitQuaternions(), "on unit quaternions", lambda p: p / np.linalg.norm(p)
    )


def _angular_velocity(p: Any, p_dot: Any) -> Any:
    """2 vec(p* p'), p* being the conjugate."""
    return 2 * (p[0] * p_dot[1:] - p_dot[0] * p[1:] - np.cross(p[1:], p_dot[1:]))


@register("rigid-body-euler-parameters")
def rigid_body_euler_parameters() -> Problem:
    name = "rigid-body-euler-parameters"
    system = Lagrangian(
        q=["p0", "p1", "p2", "p3"],
        kinetic=lambda q, v: 0.5 * _angular_velocity(q, v) @ (INERTIA * _angular_velocity(q, v)),
        potential=lambda: 0.0,
        constraints=lambda q: {"unit": q @ q - 1},
        name=name,
    )

    def state(t: float, y: np.ndarray) -> dict[str, np.ndarray]:
        p, omega = y[:4] / np.linalg.norm(y[:4]), y[4:]
        return {"q": p, "v": quaternion_rate(p, omega), "lam": np.array([omega @ (INERTIA * omega)])}

    where = "in Euler parameters, four coordinates with a constraint"
    return _problem(name, system, where, state(0.0, Y0), state)
