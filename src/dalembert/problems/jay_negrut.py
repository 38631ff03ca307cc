"""The test problems of Jay & Negrut for HHT-alpha.

[JN07] L. O. Jay, D. Negrut, Extensions of the HHT-alpha method to differential-algebraic equations in mechanics,
       Electron. Trans. Numer. Anal. 26 (2007) 190-208, sections 5.1 and 5.2.

5.1 has a constraint force nonlinear in its multiplier. 5.2 is a rod on a stiff, damped torsion spring; its motion is
that of the angle alone, 4/3 m L^2 theta'' + c theta' + k (theta - 3 pi/2) + m g L cos(theta) = 0, which gives the
reference to twelve digits.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from dalembert.model.system import System
from dalembert.problems.base import Problem, register

ROD = {"m": 5.0, "L": 2.0, "k": 3000.0, "c": 100.0, "g": 9.81}
ANGLE, TURN = 1.5 * np.pi, 10.0  # start


def exact_first(t: Any) -> Mapping[str, np.ndarray]:
    """[JN07, 5.1], checked by substitution."""
    t = np.asarray(t, dtype=float)
    y1, y2 = np.exp(t), np.exp(-2 * t)
    return {
        "q": np.stack([y1, y2], axis=-1),
        "v": np.stack([y1, -2 * y2], axis=-1),
        "lam": np.exp(-t)[..., None],
    }


@register("jay-negrut-5.1")
def first() -> Problem:
    system = System(
        q=["y1", "y2"],
        mass=[1.0, 1.0],
        force=lambda q, v: [
            q[0] * v[1] + 2 * q[1] * v[0],
            q[1] * v[1] / 2 - 2 * q[0] * v[0] * q[1] * v[1],
        ],
        constraints=lambda q: {"g": q[0] ** 2 * q[1] - 1},
        constraint_force=lambda t, q, lam: [np.exp(t) * q[0] * lam[0], q[1] * lam[0] ** 2],
        name="jay-negrut-5.1",
    )
    start = exact_first(0.0)
    return Problem(
        name="jay-negrut-5.1",
        description="two coordinates, one constraint whose force is nonlinear in its multiplier",
        source="Jay & Negrut 2007, section 5.1",
        system=system,
        q0=start["q"],
        v0=start["v"],
        t_span=(0.0, 1.0),
        reference=exact_first,
    )


@cache
def _angle() -> Any:
    """theta and theta' as functions of time, by the equation of the angle."""
    from scipy.integrate import solve_ivp

    m, L, k, c, g = (ROD[name] for name in ("m", "L", "k", "c", "g"))

    def rate(_: float, x: np.ndarray) -> list[float]:
        return [x[1], -(c * x[1] + k * (x[0] - ANGLE) + m * g * L * np.cos(x[0])) / (4 / 3 * m * L**2)]

    return solve_ivp(rate, (0.0, 4.1), [ANGLE, TURN], method="DOP853", rtol=1e-13, atol=1e-14, dense_output=True).sol


def reference_rod(t: Any) -> Mapping[str, np.ndarray]:
    """Positions, velocities and multipliers from the angle."""
    t = np.asarray(t, dtype=float)
    theta, turn = _angle()(t)
    m, L, k, c, g = (ROD[name] for name in ("m", "L", "k", "c", "g"))
    s, co = np.sin(theta), np.cos(theta)
    swing = -(c * turn + k * (theta - ANGLE) + m * g * L * co) / (4 / 3 * m * L**2)
    ax, ay = L * (-s * swing - co * turn**2), L * (co * swing - s * turn**2)
    return {
        "q": np.stack([L * co, L * s, theta], axis=-1),
        "v": np.stack([-L * s * turn, L * co * turn, turn], axis=-1),
        "lam": np.stack([-m * ax, -m * (ay + g)], axis=-1),
    }


@register("jay-negrut-5.2")
def rod() -> Problem:
    system = System(
        q=["x", "y", "theta"],
        mass=lambda p: [p.m, p.m, p.m * p.L**2 / 3],
        force=lambda q, v, p: [0, -p.m * p.g, -p.c * v[2] - p.k * (q[2] - ANGLE)],
        constraints=lambda q, p: {"x": q[0] - p.L * np.cos(q[2]), "y": q[1] - p.L * np.sin(q[2])},
        parameters=ROD,
        name="jay-negrut-5.2",
    )
    start = reference_rod(0.0)
    return Problem(
        name="jay-negrut-5.2",
        description="rod as a pendulum with a stiff torsion spring and a damper, in redundant coordinates",
        source="Jay & Negrut 2007, section 5.2",
        system=system,
        q0=start["q"],
        v0=start["v"],
        t_span=(0.0, 4.0),
        reference=reference_rod,
        reference_digits=11,
    )
