"""A pendulum whose pivot is shaken: constraints that depend on time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dalembert.model.system import System
from dalembert.problems.base import Problem, register
from dalembert.problems.minimal import minimal_coordinates

M, G, L, AMPLITUDE, OMEGA = 1.3, 9.81, 0.8, 0.25, 3.0
ANGLE, RATE = 0.9, -0.4  # of the rod from the downward vertical, at the start


def _pivot(t: float) -> tuple[float, float, float]:
    """Position, velocity and acceleration of the pivot."""
    s, c = np.sin(OMEGA * t), np.cos(OMEGA * t)
    return AMPLITUDE * s, AMPLITUDE * OMEGA * c, -AMPLITUDE * OMEGA**2 * s


def _rates(t: float, y: np.ndarray) -> Any:
    th, om = y
    return om, -(G * np.sin(th) + _pivot(t)[2] * np.cos(th)) / L


def _state(t: float, y: np.ndarray) -> Mapping[str, Any]:
    th, om = y
    s, c = np.sin(th), np.cos(th)
    x, v, a = _pivot(t)
    lam = M * (G * c - a * s + L * om**2) / L  # balance along the rod; the rod pulls with the force lam L
    return {"q": [x + L * s, -L * c], "v": [v + L * om * c, L * om * s], "lam": [lam]}


@register("moving-pivot")
def moving_pivot() -> Problem:
    system = System(
        q=["x", "y"],
        mass=lambda p: [p.m, p.m],
        force=lambda p: [0, -p.m * p.g],
        constraints=lambda t, q, p: {"rod": ((q[0] - p.A * np.sin(p.w * t)) ** 2 + q[1] ** 2 - p.L**2) / 2},
        parameters={"m": M, "g": G, "L": L, "A": AMPLITUDE, "w": OMEGA},
        name="moving-pivot",
    )
    start = _state(0.0, np.array([ANGLE, RATE]))
    return Problem(
        name="moving-pivot",
        description="pendulum whose pivot moves as A sin(w t): a rheonomic constraint",
        source="textbook mechanics; reference in the angle of the rod, DOP853",
        system=system,
        q0=np.array(start["q"]),
        v0=np.array(start["v"]),
        t_span=(0.0, 10.0),
        reference=minimal_coordinates(_rates, [ANGLE, RATE], 0.0, _state),
        reference_digits=11,
    )
