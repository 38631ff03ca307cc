"""A rigid slider crank with a spring-damper and a constant force.

[S] R. Serban, example program idaSlCrank_dns of SUNDIALS (A. C. Hindmarsh et al., ACM TOMS 31 (2005) 363-396).

Crank angle q, slider position x, rod angle p. The spring joins the midpoints of crank and rod.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dalembert.model.system import System
from dalembert.problems.base import Problem, Published, register
from dalembert.problems.minimal import minimal_coordinates, multipliers

P = {"a": 0.5, "J1": 1.0, "m2": 1.0, "J2": 2.0, "k": 1.0, "c": 1.0, "l0": 1.0, "F": 1.0}
START = np.array([np.pi / 2, 0.0])  # crank angle and its rate

# t, q, x, p as printed by the program (rtol = atol = 1e-6): good for 5e-5
PUBLISHED = (
    (0.25, 1.5548, 0.87406, -0.52352), (0.5, 1.5069, 0.89855, -0.52242), (1.0, 1.3154, 1.0015, -0.50497),
    (1.5, 1.0016, 1.1765, -0.43472), (2.0, 0.57904, 1.3803, -0.27715), (2.5, 0.072238, 1.498, -0.036096),
    (3.0, -0.44711, 1.4272, 0.2179), (3.5, -0.8875, 1.2374, 0.39819), (4.0, -1.2064, 1.0623, 0.48609),
    (4.5, -1.3883, 0.96149, 0.51404), (5.0, -1.43, 0.93903, 0.5179), (6.0, -1.108, 1.1176, 0.46386),
    (7.0, -0.31828, 1.4626, 0.15711), (8.0, 0.64422, 1.3536, -0.305), (9.0, 1.2363, 1.0456, -0.49189),
    (10.0, 1.2757, 1.0236, -0.49881),
)  # fmt: skip


def _force(q: Any, v: Any, p: Any) -> Any:
    (crank, x, rod), (w, u, o), a = q, v, p.a
    both = np.cos(rod) + a * np.cos(crank)
    length = np.sqrt(x**2 - x * both + (1 + a**2) / 4 + a / 2 * np.cos(rod - crank))
    rate = (
        2 * x * u - u * both + x * (np.sin(rod) * o + a * np.sin(crank) * w) - a / 2 * np.sin(rod - crank) * (o - w)
    ) / (2 * length)
    h = (p.k * (length - p.l0) + p.c * rate) / length
    return [
        -h * a / 2 * (np.sin(rod - crank) / 2 + x * np.sin(crank)),
        h * (both / 2 - x) + p.F,
        -h / 2 * (x * np.sin(rod) - a / 2 * np.sin(rod - crank)) - p.F * np.sin(rod),
    ]


class _Constants:
    """The parameters by attribute, for the force law outside of a system."""

    a, k, c, l0, F = (P[n] for n in ("a", "k", "c", "l0", "F"))


_MASS = np.array([P["J1"], P["m2"], P["J2"]])


def _motion(y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(q, v, a) of all three coordinates from the crank angle, its rate and the projected equation of motion."""
    crank, w = y
    a = P["a"]
    s, c = np.sin(crank), np.cos(crank)
    rod = np.arcsin(-a * s)
    sr, cr = np.sin(rod), np.cos(rod)
    rod_1 = -a * c / cr  # derivatives with respect to the crank angle
    rod_2 = (a * s + sr * rod_1**2) / cr
    tangent = np.array([1.0, -sr * rod_1 - a * s, rod_1])
    second = np.array([0.0, -sr * rod_2 - cr * rod_1**2 - a * c, rod_2])
    q, v = np.array([crank, cr + a * c, rod]), tangent * w
    force = np.array(_force(q, v, _Constants))
    w_dot = tangent @ (force - _MASS * second * w**2) / (tangent @ (_MASS * tangent))
    return q, v, tangent * w_dot + second * w**2


def _rates(t: float, y: np.ndarray) -> Any:
    return y[1], _motion(y)[2][0]


def _state(t: float, y: np.ndarray) -> Mapping[str, Any]:
    q, v, a = _motion(y)
    G = [[P["a"] * np.sin(q[0]), 1.0, np.sin(q[2])], [-P["a"] * np.cos(q[0]), 0.0, -np.cos(q[2])]]
    return {"q": q, "v": v, "lam": multipliers(_MASS, _force(q, v, _Constants), G, a)}


@register("slider-crank")
def slider_crank() -> Problem:
    system = System(
        q=["crank", "x", "rod"],
        mass=lambda p: [p.J1, p.m2, p.J2],
        force=_force,
        constraints=lambda q, p: {
            "slider x": q[1] - np.cos(q[2]) - p.a * np.cos(q[0]),
            "slider y": -np.sin(q[2]) - p.a * np.sin(q[0]),
        },
        parameters=P,
        name="slider-crank",
    )
    start = _state(0.0, START)
    return Problem(
        name="slider-crank",
        description="rigid slider crank with a spring-damper between crank and rod and a constant force",
        source="SUNDIALS example idaSlCrank_dns (Serban); reference in the crank angle, DOP853",
        system=system,
        q0=start["q"],
        v0=start["v"],
        t_span=(0.0, 10.0),
        reference=minimal_coordinates(_rates, START, 0.0, _state),
        reference_digits=11,
        published=Published(
            t=[row[0] for row in PUBLISHED],
            values={"q": [row[1:] for row in PUBLISHED]},
            within={"q": 5.4e-5},
            origin="SUNDIALS: IDA, rtol = atol = 1e-6, stabilized index 2",
        ),
    )
