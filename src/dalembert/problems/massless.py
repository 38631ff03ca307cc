"""A pendulum on a massless rod that carries a torque: a singular mass matrix.

The angle of the rod is a coordinate without inertia. Together with the constraints the motion is still determined:
the mass matrix is regular on the motions that they allow.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dalembert.model.system import System
from dalembert.problems.base import Problem, register
from dalembert.problems.minimal import minimal_coordinates

P = {"m": 1.4, "g": 9.81, "L": 0.9, "k": 2.5, "c": 0.2}
START = np.array([1.3, 0.4])  # angle from the downward vertical, its rate


def _rates(t: float, y: np.ndarray) -> Any:
    th, om = y
    torque = -P["k"] * th - P["c"] * om
    return om, (torque - P["m"] * P["g"] * P["L"] * np.sin(th)) / (P["m"] * P["L"] ** 2)


def _state(t: float, y: np.ndarray) -> Mapping[str, Any]:
    th, om = y
    s, c, L, m = np.sin(th), np.cos(th), P["L"], P["m"]
    om_dot = _rates(t, y)[1]
    # the constraint x - L sin(phi) = 0 acts on the bob with -lam
    lam = [-m * L * (om_dot * c - om**2 * s), -m * P["g"] - m * L * (om_dot * s + om**2 * c)]
    return {"q": [L * s, -L * c, th], "v": [L * om * c, L * om * s, om], "lam": lam}


@register("singular-mass")
def singular_mass() -> Problem:
    system = System(
        q=["x", "y", "phi"],
        mass=lambda p: [p.m, p.m, 0],
        force=lambda q, v, p: [0, -p.m * p.g, -p.k * q[2] - p.c * v[2]],
        constraints=lambda q, p: {"x": q[0] - p.L * np.sin(q[2]), "y": q[1] + p.L * np.cos(q[2])},
        parameters=P,
        name="singular-mass",
    )
    start = _state(0.0, START)
    return Problem(
        name="singular-mass",
        description="pendulum on a massless rod with a spring and a damper in its joint: the mass matrix is singular",
        source="textbook mechanics; reference in the angle of the rod, DOP853",
        system=system,
        q0=np.array(start["q"]),
        v0=np.array(start["v"]),
        t_span=(0.0, 5.0),
        reference=minimal_coordinates(_rates, START, 0.0, _state),
        reference_digits=11,
    )
