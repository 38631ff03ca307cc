"""Rolling and skating: constraints on velocities only, with exact solutions.

[B15] A. M. Bloch, Nonholonomic Mechanics and Control, 2nd ed., Springer 2015, section 1.
[NF72] Ju. I. Neimark, N. A. Fufaev, Dynamics of Nonholonomic Systems, AMS 1972.

Both books write the constraint force as +A^T lam; here it is -K^T mu, so that mu = -lam.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from dalembert.model.system import System
from dalembert.problems.base import Problem, register

KNIFE = {"m": 1.25, "J": 0.13, "g": 9.81, "alpha": 0.6}
TURN = 1.1  # rate of turn of the knife edge
DISC = {"m": 1.3, "R": 0.7, "I_flip": 0.4, "I_roll": 0.9}
TURN_DISC, ROLL = 2.0, 1.5
SPHERE = {"m": 0.8, "R": 0.3, "I": 0.4 * 0.8 * 0.3**2, "Omega": 3.0}
CENTRE, SPEED = (0.5, -0.2), (0.3, 0.4)


def exact_knife_edge(t: Any) -> Mapping[str, np.ndarray]:
    """Cycloid across the slope [B15, section 1.6]."""
    t = np.asarray(t, dtype=float)
    w, pull = TURN, KNIFE["g"] * np.sin(KNIFE["alpha"])
    s, c = np.sin(w * t), np.cos(w * t)
    q = [pull / (2 * w**2) * s**2, pull / (2 * w**2) * (w * t - np.sin(2 * w * t) / 2), w * t]
    v = [pull / w * s * c, pull / w * s**2, w + 0 * t]
    mu = 2 * KNIFE["m"] * pull * s
    return {"q": np.stack(q, axis=-1), "v": np.stack(v, axis=-1), "mu": mu[..., None]}


@register("knife-edge")
def knife_edge() -> Problem:
    system = System(
        q=["x", "y", "phi"],
        mass=lambda p: [p.m, p.m, p.J],
        force=lambda p: [p.m * p.g * np.sin(p.alpha), 0, 0],
        velocity_constraints=lambda q, v: {"edge": v[0] * np.sin(q[2]) - v[1] * np.cos(q[2])},
        energy=lambda q, v, p: (
            0.5 * (p.m * (v[0] ** 2 + v[1] ** 2) + p.J * v[2] ** 2) - p.m * p.g * np.sin(p.alpha) * q[0]
        ),
        parameters=KNIFE,
        name="knife-edge",
    )
    start = exact_knife_edge(0.0)
    return Problem(
        name="knife-edge",
        description="knife edge (skate) on an inclined plane, x down the slope: it drifts sideways on a cycloid",
        source="Bloch 2015, section 1.6; Neimark & Fufaev 1972 (mu = -lambda of the books)",
        system=system,
        q0=start["q"],
        v0=start["v"],
        t_span=(0.0, 10.0),
        reference=exact_knife_edge,
    )


def exact_rolling_disc(t: Any) -> Mapping[str, np.ndarray]:
    """Circle of radius R roll/turn, at constant rates."""
    t = np.asarray(t, dtype=float)
    speed = ROLL * DISC["R"]
    s, c = np.sin(TURN_DISC * t), np.cos(TURN_DISC * t)
    q = [speed / TURN_DISC * s, speed / TURN_DISC * (1 - c), TURN_DISC * t, ROLL * t]
    v = [speed * c, speed * s, TURN_DISC + 0 * t, ROLL + 0 * t]
    mu = [DISC["m"] * TURN_DISC * speed * s, -DISC["m"] * TURN_DISC * speed * c]
    return {"q": np.stack(q, axis=-1), "v": np.stack(v, axis=-1), "mu": np.stack(mu, axis=-1)}


@register("rolling-disc")
def rolling_disc() -> Problem:
    system = System(
        q=["x", "y", "phi", "theta"],
        mass=lambda p: [p.m, p.m, p.I_flip, p.I_roll],
        velocity_constraints=lambda q, v, p: {
            "x": v[0] - p.R * v[3] * np.cos(q[2]),
            "y": v[1] - p.R * v[3] * np.sin(q[2]),
        },
        parameters=DISC,
        name="rolling-disc",
    )
    start = exact_rolling_disc(0.0)
    return Problem(
        name="rolling-disc",
        description="upright disc (heading phi, roll theta) rolling without slip in a circle",
        source="Bloch 2015, vertical rolling disc (mu = -lambda of the book)",
        system=system,
        q0=start["q"],
        v0=start["v"],
        t_span=(0.0, 5.0),
        reference=exact_rolling_disc,
    )


def exact_rolling_sphere(t: Any) -> Mapping[str, np.ndarray]:
    """The centre runs on a circle at the rate Omega I / (I + m R^2), 2/7 Omega for a solid sphere [NF72]."""
    t = np.asarray(t, dtype=float)
    m, R, inertia, turn = (SPHERE[name] for name in ("m", "R", "I", "Omega"))
    w = turn * inertia / (inertia + m * R**2)
    (x0, y0), (u, v) = CENTRE, SPEED
    s, c = np.sin(w * t), np.cos(w * t)
    x, y = x0 + (s * u - (1 - c) * v) / w, y0 + ((1 - c) * u + s * v) / w
    vx, vy = c * u - s * v, s * u + c * v
    over_x = x0 * t + ((1 - c) / w * u - (t - s / w) * v) / w  # integrals of x and y
    over_y = y0 * t + ((t - s / w) * u + (1 - c) / w * v) / w
    spin = (turn * x0 - v) / R + 0 * t  # about the vertical: any constant
    return {
        "q": np.stack([x, y, (turn * over_x - (y - y0)) / R, (x - x0 + turn * over_y) / R, spin * t], axis=-1),
        "v": np.stack([vx, vy, (turn * x - vy) / R, (vx + turn * y) / R, spin], axis=-1),
        "mu": np.stack([m * w * vy, -m * w * vx], axis=-1),
    }


@register("rolling-sphere")
def rolling_sphere() -> Problem:
    """Turns are about axes fixed in space; a homogeneous sphere has no orientation that matters."""
    system = System(
        q=["x", "y", "turn_x", "turn_y", "turn_z"],
        mass=lambda p: [p.m, p.m, p.I, p.I, p.I],
        velocity_constraints=lambda q, v, p: {
            "x": v[0] - p.R * v[3] + p.Omega * q[1],
            "y": v[1] + p.R * v[2] - p.Omega * q[0],
        },
        parameters=SPHERE,
        name="rolling-sphere",
    )
    start = exact_rolling_sphere(0.0)
    return Problem(
        name="rolling-sphere",
        description="homogeneous sphere rolling without slip on a turntable: its centre runs on a circle",
        source="Neimark & Fufaev 1972 (mu = -lambda of the book)",
        system=system,
        q0=start["q"],
        v0=start["v"],
        t_span=(0.0, 10.0),
        reference=exact_rolling_sphere,
    )


def _pull(t: Any, x: Any, y: Any, phi: Any, vx: Any, vy: Any, w: Any) -> list[Any]:
    """Forces on the forced knife edge, of time, positions and velocities."""
    return [np.cos(t) - 0.5 * vx - 0.4 * x, 0.3 * np.sin(y) - 0.2 * vy, 0.5 * np.cos(2 * t) - 0.1 * w - 0.3 * phi]


@cache
def _reduced_knife_edge() -> Any:
    """Position, heading phi, speed u along the edge and rate of turn as functions of time."""
    from scipy.integrate import solve_ivp

    def rate(t: float, z: np.ndarray) -> list[float]:
        x, y, phi, u, w = z
        c, s = np.cos(phi), np.sin(phi)
        fx, fy, torque = _pull(t, x, y, phi, u * c, u * s, w)
        return [u * c, u * s, w, fx * c + fy * s, torque]

    return solve_ivp(
        rate, (0.0, 5.5), [0.2, -0.1, 0.4, 0.8, 1.1], method="DOP853", rtol=1e-13, atol=1e-14, dense_output=True
    ).sol


def reference_forced_knife_edge(t: Any) -> Mapping[str, np.ndarray]:
    """From the reduced equations, v = u (cos phi, sin phi)."""
    t = np.asarray(t, dtype=float)
    x, y, phi, u, w = _reduced_knife_edge()(t)
    c, s = np.cos(phi), np.sin(phi)
    fx, fy, _ = _pull(t, x, y, phi, u * c, u * s, w)
    return {
        "q": np.stack([x, y, phi], axis=-1),
        "v": np.stack([u * c, u * s, w], axis=-1),
        "mu": (s * fx - c * fy + u * w)[..., None],
    }


@register("forced-knife-edge")
def forced_knife_edge() -> Problem:
    system = System(
        q=["x", "y", "phi"],
        mass=[1.0, 1.0, 1.0],
        force=lambda t, q, v: _pull(t, q[0], q[1], q[2], v[0], v[1], v[2]),
        velocity_constraints=lambda q, v: {"edge": v[0] * np.sin(q[2]) - v[1] * np.cos(q[2])},
        name="forced-knife-edge",
    )
    start = reference_forced_knife_edge(0.0)
    return Problem(
        name="forced-knife-edge",
        description="knife edge with forces of time, position and velocity",
        source="of this collection; reference from the reduced equations",
        system=system,
        q0=start["q"],
        v0=start["v"],
        t_span=(0.0, 5.0),
        reference=reference_forced_knife_edge,
        reference_digits=11,
    )
