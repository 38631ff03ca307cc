"""An elastic pendulum on two progressive springs in series: an algebraic auxiliary variable.

The knot between the springs has no mass; w is the elongation of the upper one, found from the equality of forces.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dalembert.model.system import System
from dalembert.problems.base import Problem, register
from dalembert.problems.minimal import minimal_coordinates

P = {"m": 0.5, "g": 9.81, "L": 1.0, "k1": 30.0, "c1": 200.0, "k2": 60.0, "c2": 50.0}
START = np.array([1.25, 0.6, 0.0, 0.5])  # length, angle from the downward vertical, their rates


def _share(e: float) -> float:
    """Elongation of the upper spring for a total elongation e, by Newton (the equation is monotone)."""
    w = e / 2
    for _ in range(100):
        d = e - w
        step = (P["k1"] * w + P["c1"] * w**3 - P["k2"] * d - P["c2"] * d**3) / (
            P["k1"] + 3 * P["c1"] * w**2 + P["k2"] + 3 * P["c2"] * d**2
        )
        w -= step
        if abs(step) <= 1e-16 * max(abs(e), 1e-3):
            break
    return w


def _rates(t: float, y: np.ndarray) -> Any:
    rho, th, u, om = y
    w = _share(rho - P["L"])
    pull = P["k1"] * w + P["c1"] * w**3
    return (
        u, om, rho * om**2 - pull / P["m"] + P["g"] * np.cos(th), -(2 * u * om + P["g"] * np.sin(th)) / rho
    )  # fmt: skip


def _state(t: float, y: np.ndarray) -> Mapping[str, Any]:
    rho, th, u, om = y
    s, c = np.sin(th), np.cos(th)
    return {
        "q": [rho * s, -rho * c],
        "v": [u * s + rho * om * c, -u * c + rho * om * s],
        "w": [_share(rho - P["L"])],
    }


def _force(q: Any, w: Any, p: Any) -> Any:
    pull = p.k1 * w[0] + p.c1 * w[0] ** 3
    return np.array([0, -p.m * p.g]) - pull * q / np.linalg.norm(q)


def _equilibrium(q: Any, w: Any, p: Any) -> Any:
    lower = np.linalg.norm(q) - p.L - w[0]
    return [p.k1 * w[0] + p.c1 * w[0] ** 3 - p.k2 * lower - p.c2 * lower**3]


@register("auxiliary")
def series_springs() -> Problem:
    system = System(
        q=["x", "y"],
        mass=lambda p: [p.m, p.m],
        force=_force,
        w=["knot"],
        auxiliary=_equilibrium,
        parameters=P,
        name="auxiliary",
    )
    start = _state(0.0, START)
    return Problem(
        name="auxiliary",
        description="elastic pendulum on two progressive springs in series, the massless knot found from equilibrium",
        source="textbook mechanics; reference in polar coordinates, DOP853",
        system=system,
        q0=np.array(start["q"]),
        v0=np.array(start["v"]),
        t_span=(0.0, 5.0),
        reference=minimal_coordinates(_rates, START, 0.0, _state),
        reference_digits=11,
        options={"w0": np.array(start["w"])},
    )
