"""Dry friction: forces that depend on the multipliers.

Coulomb's law with the sign of the sliding velocity smoothed, |F| = mu |N| tanh(v / v_s). On the ladder the friction
changes the normal forces, so that accelerations and multipliers are coupled.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dalembert.model.system import System
from dalembert.problems.base import Problem, register
from dalembert.problems.minimal import minimal_coordinates

BEAD = {"m": 0.7, "g": 9.81, "R": 1.2, "mu": 0.15, "v_s": 0.2}
BEAD_ANGLE, BEAD_RATE = 1.1, 0.0


def _bead_friction(th: float, om: float) -> tuple[float, float]:
    """Normal force (towards the centre) and the tangential friction force at an angle from the lowest point."""
    normal = BEAD["m"] * (BEAD["g"] * np.cos(th) + BEAD["R"] * om**2)
    return normal, -BEAD["mu"] * abs(normal) * np.tanh(BEAD["R"] * om / BEAD["v_s"])


def _bead_rates(t: float, y: np.ndarray) -> Any:
    th, om = y
    _, friction = _bead_friction(th, om)
    return om, -BEAD["g"] / BEAD["R"] * np.sin(th) + friction / (BEAD["m"] * BEAD["R"])


def _bead_state(t: float, y: np.ndarray) -> Mapping[str, Any]:
    th, om = y
    s, c, R = np.sin(th), np.cos(th), BEAD["R"]
    return {"q": [R * s, -R * c], "v": [R * om * c, R * om * s], "lam": [_bead_friction(th, om)[0] / R]}


def _bead_force(q: Any, v: Any, lam: Any, p: Any) -> Any:
    tangent = np.array([-q[1], q[0]]) / p.R
    normal = np.abs(lam[0]) * p.R
    return np.array([0, -p.m * p.g]) - p.mu * normal * np.tanh((v @ tangent) / p.v_s) * tangent


@register("friction-pendulum")
def friction_pendulum() -> Problem:
    system = System(
        q=["x", "y"],
        mass=lambda p: [p.m, p.m],
        force=_bead_force,
        constraints=lambda q, p: {"hoop": (q @ q - p.R**2) / 2},
        parameters=BEAD,
        name="friction-pendulum",
    )
    start = _bead_state(0.0, np.array([BEAD_ANGLE, BEAD_RATE]))
    return Problem(
        name="friction-pendulum",
        description="bead on a hoop with dry friction proportional to the normal force R |lam|",
        source="textbook mechanics; reference in the angle of the bead, DOP853",
        system=system,
        q0=np.array(start["q"]),
        v0=np.array(start["v"]),
        t_span=(0.0, 5.0),
        reference=minimal_coordinates(_bead_rates, [BEAD_ANGLE, BEAD_RATE], 0.0, _bead_state),
        reference_digits=11,
    )


LADDER = {"m": 2.0, "g": 9.81, "l": 1.5, "J": 1.5, "mu": 0.25, "v_s": 0.1}  # of length 2 l
LADDER_ANGLE = 1.1  # of the ladder from the floor


def _ladder_solve(th: float, om: float) -> np.ndarray:
    """(th'', normal force of the wall, normal force of the floor), both pushing (positive)."""
    m, g, half, J, mu, v_s = (LADDER[n] for n in ("m", "g", "l", "J", "mu", "v_s"))
    s, c = np.sin(th), np.cos(th)
    # the ends slide along the wall with 2 l th' cos th, along the floor with -2 l th' sin th
    wall = -mu * np.tanh(2 * half * om * c / v_s)
    floor = -mu * np.tanh(-2 * half * om * s / v_s)
    A = [
        [-m * half * s, -1.0, -floor],
        [m * half * c, -wall, -1.0],
        [J, -half * s - wall * half * c, half * c + floor * half * s],
    ]
    return np.linalg.solve(A, [m * half * c * om**2, m * half * s * om**2 - m * g, 0.0])


def _ladder_rates(t: float, y: np.ndarray) -> Any:
    return y[1], _ladder_solve(y[0], y[1])[0]


def _ladder_state(t: float, y: np.ndarray) -> Mapping[str, Any]:
    th, om = y
    half, s, c = LADDER["l"], np.sin(th), np.cos(th)
    _, wall, floor = _ladder_solve(th, om)
    return {"q": [half * c, half * s, th], "v": [-half * s * om, half * c * om, om], "lam": [-wall, -floor]}


def _ladder_force(q: Any, v: Any, lam: Any, p: Any) -> Any:
    s, c = np.sin(q[2]), np.cos(q[2])
    wall = -p.mu * np.abs(lam[0]) * np.tanh((v[1] + p.l * c * v[2]) / p.v_s)
    floor = -p.mu * np.abs(lam[1]) * np.tanh((v[0] - p.l * s * v[2]) / p.v_s)
    return [floor, wall - p.m * p.g, p.l * (c * wall - s * floor)]


@register("sliding-ladder")
def sliding_ladder() -> Problem:
    system = System(
        q=["x", "y", "theta"],
        mass=lambda p: [p.m, p.m, p.J],
        force=_ladder_force,
        constraints=lambda q, p: {"wall": q[0] - p.l * np.cos(q[2]), "floor": q[1] - p.l * np.sin(q[2])},
        parameters=LADDER,
        name="sliding-ladder",
    )
    start = _ladder_state(0.0, np.array([LADDER_ANGLE, 0.0]))
    return Problem(
        name="sliding-ladder",
        description="ladder sliding down a wall, dry friction at both ends: normal forces and friction are coupled",
        source="textbook mechanics; reference in the angle of the ladder, DOP853",
        system=system,
        q0=np.array(start["q"]),
        v0=np.array(start["v"]),
        t_span=(0.0, 0.7),
        reference=minimal_coordinates(_ladder_rates, [LADDER_ANGLE, 0.0], 0.0, _ladder_state),
        reference_digits=11,
    )
