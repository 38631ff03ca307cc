"""The double pendulum twice: with constraints in Cartesian coordinates, and by its energies in two angles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dalembert.model.lagrangian import Lagrangian
from dalembert.model.system import System
from dalembert.problems.base import Problem, register
from dalembert.problems.minimal import minimal_coordinates, multipliers

P = {"m1": 1.0, "m2": 0.7, "L1": 1.0, "L2": 0.8, "g": 9.81}
START = np.array([1.2, -0.4, 0.0, 0.5])  # angles from the downward vertical, their rates
T_END = 3.0  # the motion is chaotic: nearby solutions part quickly


def _accelerations(y: np.ndarray) -> np.ndarray:
    th1, th2, u1, u2 = y
    m1, m2, L1, L2, g = P.values()
    s, c = np.sin(th1 - th2), np.cos(th1 - th2)
    mass = [[(m1 + m2) * L1**2, m2 * L1 * L2 * c], [m2 * L1 * L2 * c, m2 * L2**2]]
    force = [
        -m2 * L1 * L2 * s * u2**2 - (m1 + m2) * g * L1 * np.sin(th1),
        m2 * L1 * L2 * s * u1**2 - m2 * g * L2 * np.sin(th2),
    ]
    return np.linalg.solve(mass, force)


def _rates(t: float, y: np.ndarray) -> Any:
    return [y[2], y[3], *_accelerations(y)]


def _cartesian(t: float, y: np.ndarray) -> Mapping[str, Any]:
    m1, m2, L1, L2, g = P.values()
    (s1, s2), (c1, c2) = np.sin(y[:2]), np.cos(y[:2])
    u1, u2 = y[2:]
    a1, a2 = _accelerations(y)
    r1, r2 = np.array([L1 * s1, -L1 * c1]), np.array([L2 * s2, -L2 * c2])  # the rods
    v1, v2 = u1 * L1 * np.array([c1, s1]), u2 * L2 * np.array([c2, s2])
    b1, b2 = a1 * L1 * np.array([c1, s1]) - u1**2 * r1, a2 * L2 * np.array([c2, s2]) - u2**2 * r2
    G = np.array([[*r1, 0.0, 0.0], [*-r2, *r2]])
    lam = multipliers([m1, m1, m2, m2], [0.0, -m1 * g, 0.0, -m2 * g], G, [*b1, *(b1 + b2)])
    return {"q": [*r1, *(r1 + r2)], "v": [*v1, *(v1 + v2)], "lam": lam}


@register("double-pendulum")
def double_pendulum() -> Problem:
    system = System(
        q=["x1", "y1", "x2", "y2"],
        mass=lambda p: [p.m1, p.m1, p.m2, p.m2],
        force=lambda p: [0, -p.m1 * p.g, 0, -p.m2 * p.g],
        constraints=lambda q, p: {
            "upper rod": (q[:2] @ q[:2] - p.L1**2) / 2,
            "lower rod": ((q[2:] - q[:2]) @ (q[2:] - q[:2]) - p.L2**2) / 2,
        },
        energy=lambda q, v, p: (
            0.5 * p.m1 * (v[:2] @ v[:2]) + 0.5 * p.m2 * (v[2:] @ v[2:]) + p.g * (p.m1 * q[1] + p.m2 * q[3])
        ),
        parameters=P,
        name="double-pendulum",
    )
    start = _cartesian(0.0, START)
    return Problem(
        name="double-pendulum",
        description="double pendulum in Cartesian coordinates, two rods as constraints",
        source="textbook mechanics; reference in two angles, DOP853",
        system=system,
        q0=np.array(start["q"]),
        v0=np.array(start["v"]),
        t_span=(0.0, T_END),
        reference=minimal_coordinates(_rates, START, 0.0, _cartesian),
        reference_digits=11,
    )


def _kinetic(q: Any, v: Any, p: Any) -> Any:
    cross = p.m2 * p.L1 * p.L2 * np.cos(q[0] - q[1]) * v[0] * v[1]
    return 0.5 * (p.m1 + p.m2) * (p.L1 * v[0]) ** 2 + 0.5 * p.m2 * (p.L2 * v[1]) ** 2 + cross


@register("double-pendulum-angles")
def double_pendulum_angles() -> Problem:
    system = Lagrangian(
        q=["theta1", "theta2"],
        kinetic=_kinetic,
        potential=lambda q, p: -p.g * ((p.m1 + p.m2) * p.L1 * np.cos(q[0]) + p.m2 * p.L2 * np.cos(q[1])),
        parameters=P,
        name="double-pendulum-angles",
    )
    return Problem(
        name="double-pendulum-angles",
        description="double pendulum in two angles, from its energies; no constraints",
        source="textbook mechanics; reference by DOP853",
        system=system,
        q0=START[:2].copy(),
        v0=START[2:].copy(),
        t_span=(0.0, T_END),
        reference=minimal_coordinates(_rates, START, 0.0, lambda t, y: {"q": y[:2], "v": y[2:]}),
        reference_digits=11,
    )
