"""A leaning disc that rolls without slip on a level plane, on R^3 x SO(3): steady motion in a circle.

[NF72] Ju. I. Neimark, N. A. Fufaev, Dynamics of Nonholonomic Systems, AMS 1972, chapter I: the rolling disc.
[B15] A. M. Bloch, Nonholonomic Mechanics and Control, 2nd ed., Springer 2015, section 1.4.

The axis n = R e_3 of the disc makes the angle alpha with the vertical e_z; u = (e_z - cos(alpha) n) / sin(alpha) points
from the point of contact to the centre x. That the disc touches the plane is a constraint on positions, that the point
of contact is at rest one on velocities:

    0 = x_z - r sqrt(1 - n_z^2),    0 = x' - r omega x u  (horizontal parts)

In steady motion the disc precesses about e_z at the rate P and has the angular velocity omega = w n + P sin(alpha) u.
The balance of angular momentum about the centre, with the moments of inertia A (across) and C (about the axis), is

    A P^2 sin(alpha) cos(alpha) - (C + m r^2) w P sin(alpha) - m g r cos(alpha) = 0
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dalembert import spaces
from dalembert.model.system import System
from dalembert.problems.base import Problem, register

M, RADIUS, GRAVITY = 1.2, 0.5, 9.81
ACROSS, ALONG = M * RADIUS**2 / 4, M * RADIUS**2 / 2
MASS = np.array([M, M, M, ACROSS, ACROSS, ALONG])
ALPHA, PRECESSION = np.pi / 2 - 0.3, 1.0
SIN, COS = float(np.sin(ALPHA)), float(np.cos(ALPHA))
# the relation of steady motion, solved for w
SPIN = (ACROSS * PRECESSION**2 * SIN * COS - M * GRAVITY * RADIUS * COS) / ((ALONG + M * RADIUS**2) * PRECESSION * SIN)


def energy(q: Any, v: Any) -> Any:
    """Of motion and height."""
    return 0.5 * v @ (MASS * v) + M * GRAVITY * q.x[2]


def slip(q: Any, v: Any) -> Any:
    """Velocity (3,) of the point of contact."""
    n = q.R[:, 2]
    u = (np.array([0.0, 0.0, 1.0]) - n[2] * n) / np.sqrt(1 - n[2] ** 2)
    return v[:3] - RADIUS * np.cross(q.R @ v[3:], u)


def system(name: str = "leaning-disc", keep_energy: bool = False) -> System:
    """The disc; with ``keep_energy`` the energy is an invariant that projections keep."""
    return System(
        q=spaces.R3xSO3(),
        mass=MASS,
        force=lambda v: np.concatenate([[0.0, 0.0, -M * GRAVITY], -np.cross(v[3:], MASS[3:] * v[3:])]),
        constraints=lambda q: {"touch": q.x[2] - RADIUS * np.sqrt(1 - q.R[2, 2] ** 2)},
        velocity_constraints=lambda q, v: {"roll": slip(q, v)[:2]},
        energy=energy,
        invariants=(lambda q, v: energy(q, v)) if keep_energy else None,
        name=name,
    )


def rolling_velocity(q: np.ndarray, omega: np.ndarray) -> np.ndarray:
    """v (6,) of a disc at the position q (12,) that rolls with the angular velocity (3,) of its own frame."""
    R = q[3:].reshape(3, 3)
    n = R[:, 2]
    u = (np.array([0.0, 0.0, 1.0]) - n[2] * n) / np.sqrt(1 - n[2] ** 2)
    return np.concatenate([RADIUS * np.cross(R @ omega, u), omega])


def _about_z(angle: float) -> np.ndarray:
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])


def _steady(t: float) -> dict[str, np.ndarray]:
    turn = _about_z(PRECESSION * t)
    leaning = np.array([[-COS, 0.0, SIN], [0.0, -1.0, 0.0], [SIN, 0.0, COS]])  # columns u, n x u, n
    R = turn @ leaning @ _about_z((SPIN - PRECESSION * COS) * t)
    outward = turn[:, 0]
    x = -RADIUS * SPIN / PRECESSION * outward + np.array([0.0, 0.0, RADIUS * SIN])
    omega = R.T @ (SPIN * turn @ leaning[:, 2] + PRECESSION * SIN * turn @ leaning[:, 0])
    q = np.concatenate([x, R.ravel()])
    pull = M * RADIUS * SPIN * PRECESSION * outward  # mass times acceleration
    return {"q": q, "v": rolling_velocity(q, omega), "lam": np.array([-M * GRAVITY]), "mu": -pull[:2]}


def steady(t: Any) -> Mapping[str, np.ndarray]:
    """Steady motion in a circle of radius r w / P at any times."""
    if np.ndim(t) == 0:
        return _steady(float(t))
    rows = [_steady(float(s)) for s in np.asarray(t)]
    return {name: np.array([row[name] for row in rows]) for name in ("q", "v", "lam", "mu")}


@register("leaning-disc")
def leaning_disc() -> Problem:
    start = steady(0.0)
    return Problem(
        name="leaning-disc",
        description="disc leaning inwards and rolling without slip in a circle, on R^3 x SO(3)",
        source="Neimark & Fufaev 1972, steady motion of the disc",
        system=system(),
        q0=start["q"],
        v0=start["v"],
        t_span=(0.0, 10.0),
        reference=steady,
        reference_digits=14,
    )
