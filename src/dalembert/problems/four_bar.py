"""The N four-bar mechanism: many bars, one degree of freedom.

[GDLC06] M. Gonzalez, D. Dopico, U. Lugris, J. Cuadrado, A benchmarking system for MBS simulation software, Multibody
         Syst. Dyn. 16 (2006) 179-190; problem A02 of the IFToMM multibody benchmark library.

N+1 upright bars on pivots 1 m apart, joined at their tops by N bars, all of mass 1 and length 1. When the bars lie
down (angle pi/2, first at t = 0.66) the constraints lose rank; the time span here ends before.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from dalembert.model.system import System
from dalembert.problems.base import Problem, Published, register
from dalembert.problems.minimal import Rates, minimal_coordinates, multipliers

LENGTH, MASS, GRAVITY = 1.0, 1.0, 9.81
INERTIA = np.array([MASS, MASS, MASS * LENGTH**2 / 12])
START = np.array([0.0, 1.0])  # angle from upright, its rate
END = 0.6

# N = 40: t and the top of the first bar, ADAMS [GDLC06]; good for about 5e-6
PUBLISHED_40 = (
    (0.25, 0.276071, 0.961137), (0.5, 0.687926, 0.725781), (0.75, 0.990062, -0.140633), (1.0, -0.115357, -0.993324),
    (1.5, -0.622202, 0.782857), (2.0, 0.0344663, 0.999406), (5.0, -0.540191, -0.841543), (10.0, 0.180513, 0.983573),
    (15.0, -0.999878, -0.0156064), (20.0, 0.410902, 0.911679),
)  # fmt: skip
# N = 2: the top of the first bar at t = 10, after 13 singular positions, and its velocity. Runs of generalized-alpha
# with h = 1e-3, 5e-4, 2.5e-4, 1.25e-4 extrapolated to h = 0 (J. Gerstmayr, Exudyn, test model fourBarMechanismIftomm);
# the reduced equation confirms 2e-8 and 4e-8
PUBLISHED_2 = {"t": 10.0, "top": np.array([0.3284581, 0.9445185]), "speed": np.array([1.4230514, -0.4948688])}


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


def _jacobian(q: np.ndarray, N: int) -> np.ndarray:
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


def _bars(N: int, f: Any, g: Any) -> np.ndarray:
    """All coordinates from those of an upright bar (relative to its foot) and of a horizontal one (to the origin)."""
    return np.concatenate([np.tile(f, N + 1), np.tile(g, N)])


def _state(N: int, t: float, y: np.ndarray) -> Mapping[str, Any]:
    th, om = y
    s, c, half = np.sin(th), np.cos(th), LENGTH / 2
    acc = reduced(N)(t, y)[1]
    q = _bars(N, [half * s, half * c, np.pi / 2 - th], [LENGTH * s, LENGTH * c, 0.0])
    q[0 : 3 * (N + 1) : 3] += LENGTH * np.arange(N + 1)
    q[3 * (N + 1) :: 3] += LENGTH * (np.arange(N) + 0.5)
    speed, x, z = om * np.array([c, -s, 0.0]), acc * c - om**2 * s, -acc * s - om**2 * c
    v = _bars(N, [half * speed[0], half * speed[1], -om], LENGTH * speed)
    a = _bars(N, [half * x, half * z, -acc], [LENGTH * x, LENGTH * z, 0.0])
    weight = np.tile([0.0, -MASS * GRAVITY, 0.0], 2 * N + 1)
    return {"q": q, "v": v, "lam": multipliers(np.tile(INERTIA, 2 * N + 1), weight, _jacobian(q, N), a)}


def four_bars(N: int, name: str) -> Problem:
    """A row of N four-bar mechanisms.

    Examples
    --------
    >>> four_bars(3, "three").system.nq
    21
    """
    bars = 2 * N + 1
    system = System(
        q=[f"{c}{i}" for i in range(bars) for c in ("x", "y", "phi")],
        mass=np.tile(INERTIA, bars),
        force=lambda p: [0, -MASS * p.g, 0] * bars,
        constraints=lambda q: _joints(q, N),
        parameters={"g": GRAVITY},
        name=name,
    )
    state = partial(_state, N)
    start = state(0.0, START)
    return Problem(
        name=name,
        description=f"{N} four-bar mechanisms in a row falling from upright: {system.nq} coordinates, {system.nlam} "
        "constraints, one degree of freedom",
        source=f"Gonzalez et al. 2006, IFToMM A02 with N = {N}; reference in the common angle, DOP853",
        system=system,
        q0=start["q"],
        v0=start["v"],
        t_span=(0.0, END),
        reference=minimal_coordinates(reduced(N), START, 0.0, state),
        reference_digits=11,
        published=_published(N) if N == 40 else None,
    )


def _published(N: int) -> Published:
    """The table up to the end of the span, as the centre of the first bar."""
    rows = [row for row in PUBLISHED_40 if row[0] <= END]
    q = np.full((len(rows), 3 * (2 * N + 1)), np.nan)
    q[:, :2] = np.array(rows)[:, 1:] / 2
    return Published(
        t=[row[0] for row in rows], values={"q": q}, within={"q": 5e-7}, origin="ADAMS, reference file of IFToMM A02"
    )


@register("four-bar")
def four_bar() -> Problem:
    return four_bars(2, "four-bar")


@register("four-bar-40")
def four_bar_40() -> Problem:
    return four_bars(40, "four-bar-40")
