"""The spherical pendulum in Cartesian coordinates: a point mass on a sphere, away from the poles."""

from __future__ import annotations

import numpy as np

from dalembert.model.system import System
from dalembert.problems.base import Problem, register
from dalembert.problems.minimal import minimal_coordinates

GRAVITY = 9.81
START = np.array([1.1, 0.0, 0.0, 2.5])  # angle from the downward vertical and azimuth, then their rates


def _rates(t: float, y: np.ndarray) -> list[float]:
    theta, _, theta_dot, phi_dot = y
    s, c = np.sin(theta), np.cos(theta)
    return [theta_dot, phi_dot, s * c * phi_dot**2 - GRAVITY * s, -2.0 * theta_dot * phi_dot * c / s]


def _state(t: float, y: np.ndarray) -> dict[str, np.ndarray]:
    theta, phi, theta_dot, phi_dot = y
    outward = np.array([np.cos(phi), np.sin(phi), 0.0])
    around = np.array([-np.sin(phi), np.cos(phi), 0.0])
    q = np.sin(theta) * outward - np.cos(theta) * np.array([0.0, 0.0, 1.0])
    v = theta_dot * (np.cos(theta) * outward + np.sin(theta) * np.array([0.0, 0.0, 1.0]))
    v = v + phi_dot * np.sin(theta) * around
    return {"q": q, "v": v, "lam": np.array([v @ v - GRAVITY * q[2]])}


@register("spherical-pendulum")
def spherical_pendulum() -> Problem:
    system = System(
        q=["x", "y", "z"],
        mass=lambda p: [p.m] * 3,
        force=lambda p: [0, 0, -p.m * p.g],
        constraints=lambda q, p: {"sphere": (q @ q - p.L**2) / 2},
        energy=lambda q, v, p: p.m * (0.5 * (v @ v) + p.g * q[2]),
        parameters={"m": 1.0, "g": GRAVITY, "L": 1.0},
        name="spherical-pendulum",
    )
    start = _state(0.0, START)
    return Problem(
        name="spherical-pendulum",
        description="point mass on a sphere in Cartesian coordinates",
        source="textbook problem; reference in spherical angles, DOP853",
        system=system,
        q0=start["q"],
        v0=start["v"],
        t_span=(0.0, 10.0),
        reference=minimal_coordinates(_rates, START, 0.0, _state),
        reference_digits=11,
    )
