"""A disc rolling in a parabolic bowl: constraints that need the contact point.

The contact is at (s, kappa s^2 / 2); the line from there to the centre is normal to the bowl, which determines s. All
of it closes in s, which serves as the minimal coordinate of the reference.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dalembert.model.system import System
from dalembert.problems.base import Problem, register
from dalembert.problems.minimal import minimal_coordinates, multipliers

M, J, R, KAPPA, G = 1.5, 0.06, 0.3, 1.2, 9.81
START = np.array([1.0, 0.3])  # s, s'


def _geometry(s: float) -> tuple[float, float, float]:
    """w = sqrt(1 + f'^2), b = 1 - R * curvature, b'."""
    w = np.sqrt(1 + (KAPPA * s) ** 2)
    return w, 1 - R * KAPPA / w**3, 3 * R * KAPPA**3 * s / w**5


def _rates(t: float, y: np.ndarray) -> Any:
    s, u = y
    w, b, b_s = _geometry(s)
    mass = M + J / R**2  # the centre moves at speed b w s', the disc turns at b w s' / R
    inertia = mass * (b * w) ** 2
    inertia_s = 2 * mass * (b * b_s * w**2 + (b * KAPPA) ** 2 * s)
    return u, -(inertia_s * u**2 / 2 + M * G * KAPPA * s * b) / inertia


def _state(t: float, y: np.ndarray) -> Mapping[str, Any]:
    s, u = y
    w, b, b_s = _geometry(s)
    slope = KAPPA * s
    arc = (s * w + np.arcsinh(slope) / KAPPA) / 2
    q = [s - R * slope / w, KAPPA * s**2 / 2 + R / w, arc / R - np.arctan(slope)]
    q_s = np.array([b, b * slope, b * w / R])
    q_ss = np.array([b_s, b_s * slope + b * KAPPA, (b_s * w + b * KAPPA * slope / w) / R])
    a = q_s * _rates(t, y)[1] + q_ss * u**2
    # total derivatives: s_x = 1 / (w^2 b), s_y = slope / (w^2 b) from the contact equation
    touch = [-slope / w**2, 1 / w**2, 0.0]
    roll = [-1 / w, -slope / w, R]
    return {"q": q, "v": q_s * u, "s": [s], "lam": multipliers([M, M, J], [0.0, -M * G, 0.0], [touch, roll], a)}


def _constraints(q: Any, s: Any, p: Any) -> Any:
    x, slope = s[0], p.kappa * s[0]
    w = np.sqrt(1 + slope**2)
    arc = (x * w + np.arcsinh(slope) / p.kappa) / 2
    return {
        "touch": q[1] - p.kappa * x**2 / 2 - p.R / w,
        "roll": p.R * q[2] - arc + p.R * np.arctan(slope),
    }


@register("contact-point")
def contact_point() -> Problem:
    system = System(
        q=["x", "y", "phi"],
        mass=lambda p: [p.m, p.m, p.J],
        force=lambda p: [0, -p.m * p.g, 0],
        constraints=_constraints,
        s=["s"],
        contact=lambda q, s, p: [q[0] - s[0] + (q[1] - p.kappa * s[0] ** 2 / 2) * p.kappa * s[0]],
        energy=lambda q, v, p: 0.5 * (p.m * (v[0] ** 2 + v[1] ** 2) + p.J * v[2] ** 2) + p.m * p.g * q[1],
        parameters={"m": M, "J": J, "R": R, "kappa": KAPPA, "g": G},
        name="contact-point",
    )
    start = _state(0.0, START)
    return Problem(
        name="contact-point",
        description="disc rolling without slip in a parabolic bowl, with the contact point as a coordinate",
        source="textbook mechanics; reference in the contact coordinate, DOP853",
        system=system,
        q0=np.array(start["q"]),
        v0=np.array(start["v"]),
        t_span=(0.0, 5.0),
        reference=minimal_coordinates(_rates, START, 0.0, _state),
        reference_digits=11,
        options={"s0": np.array([START[0]])},
    )
