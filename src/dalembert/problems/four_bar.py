"""The N four-bar mechanism: many bars, one degree of freedom.

[GDLC06] M. Gonzalez, D. Dopico, U. Lugris, J. Cuadrado, A benchmarking system for MBS simulation software, Multibody
         Syst. Dyn. 16 (2006) 179-190; problem A02 of the IFToMM multibody benchmark library.

N+1 upright bars on pivots 1 m apart, joined at their tops by N bars, all of mass 1 and length 1. When the bars lie
down (angle pi/2) the constraints lose rank; the time span here ends before.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dalembert.model.system import System
from dalembert.problems.base import Problem, register
from dalembert.problems.minimal import Rates, minimal_coordinates, multipliers

N = 2
LENGTH, MASS, GRAVITY = 1.0, 1.0, 9.81
START = np.array([0.0, 1.0])  # angle from upright, its rate

# N = 40: t and the top of the first bar, ADAMS [GDLC06]; good for about 5e-6
PUBLISHED_40 = ((0.25, 0.276071, 0.961137), (0.5, 0.687926, 0.725781), (0.75, 0.990062, -0.140633),
                (1.0, -0.115357, -0.993324), (2.0, 0.0344663, 0.999406), (5.0, -0.540191, -0.841543))  # fmt: skip


def reduced(n: int) -> Rates:
    """Equation of motion of the common angle of the upright bars."""
    factor = ((n + 1) / 2 + n) / ((n + 1) / 3 + n) * GRAVITY / LENGTH
    return lambda t, y: (y[1], factor * np.sin(y[0]))


def _joints(q: Any, n: int) -> Any:
    """Residuals of the joints: feet, then left and right end of every horizontal bar."""
    bars = [q[3 * i : 3 * i + 3] for i in range(2 * n + 1)]

    def end(i: int, side: int) -> Any:
        x, y, phi = bars[i]
        return np.array([x + side * LENGTH / 2 * np.cos(phi), y + side * LENGTH / 2 * np.sin(phi)])

    out = {f"foot {k}": end(k, -1) - np.array([k * LENGTH, 0.0]) for k in range(n + 1)}
    for k in range(n):
        out[f"left {k}"] = end(n + 1 + k, -1) - end(k, 1)
        out[f"right {k}"] = end(n + 1 + k, 1) - end(k + 1, 1)
    return out


def _jacobian(q: np.ndarray) -> np.ndarray:
    """dg/dq, (2(3N+1), 3(2N+1))."""
    G = np.zeros((2 * (3 * N + 1), 3 * (2 * N + 1)))

    def add(row: int, bar: int, side: int, sign: float) -> None:
        phi = q[3 * bar + 2]
        block = np.array([[1.0, 0.0, -side * LENGTH / 2 * np.sin(phi)], [0.0, 1.0, side * LENGTH / 2 * np.cos(phi)]])
        G[2 * row : 2 * row + 2, 3 * bar : 3 * bar + 3] += sign * block

    for k in range(N + 1):
        add(k, k, -1, 1.0)
    for k in range(N):
        row = N + 1 + 2 * k
        add(row, N + 1 + k, -1, 1.0)
        add(row, k, 1, -1.0)
        add(row + 1, N + 1 + k, 1, 1.0)
        add(row + 1, k + 1, 1, -1.0)
    return G


def _bars(f: Any, g: Any) -> np.ndarray:
    """All coordinates from those of an upright bar (relative to its foot) and of a horizontal one (to the origin)."""
    return np.concatenate([np.tile(f, N + 1), np.tile(g, N)])


def _state(t: float, y: np.ndarray) -> Mapping[str, Any]:
    th, om = y
    s, c, half = np.sin(th), np.cos(th), LENGTH / 2
    acc = reduced(N)(t, y)[1]
    q = _bars([half * s, half * c, np.pi / 2 - th], [LENGTH * s, LENGTH * c, 0.0])
    q[0 : 3 * (N + 1) : 3] += LENGTH * np.arange(N + 1)
    q[3 * (N + 1) :: 3] += LENGTH * (np.arange(N) + 0.5)
    speed, x, z = om * np.array([c, -s, 0.0]), acc * c - om**2 * s, -acc * s - om**2 * c
    v = _bars([half * speed[0], half * speed[1], -om], LENGTH * speed)
    a = _bars([half * x, half * z, -acc], [LENGTH * x, LENGTH * z, 0.0])
    weight = np.tile([0.0, -MASS * GRAVITY, 0.0], 2 * N + 1)
    return {"q": q, "v": v, "lam": multipliers(np.tile(_INERTIA, 2 * N + 1), weight, _jacobian(q), a)}


_INERTIA = np.array([MASS, MASS, MASS * LENGTH**2 / 12])


@register("four-bar")
def four_bar() -> Problem:
    bars = 2 * N + 1
    system = System(
        q=[f"{c}{i}" for i in range(bars) for c in ("x", "y", "phi")],
        mass=np.tile(_INERTIA, bars),
        force=lambda p: [0, -MASS * p.g, 0] * bars,
        constraints=lambda q: _joints(q, N),
        parameters={"g": GRAVITY},
        name="four-bar",
    )
    start = _state(0.0, START)
    return Problem(
        name="four-bar",
        description="two four-bar mechanisms in a row falling from upright: 15 coordinates, 14 constraints",
        source="Gonzalez et al. 2006, IFToMM A02 with N = 2; reference in the common angle, DOP853",
        system=system,
        q0=start["q"],
        v0=start["v"],
        t_span=(0.0, 0.6),
        reference=minimal_coordinates(reduced(N), START, 0.0, _state),
        reference_digits=11,
    )
