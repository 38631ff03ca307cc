"""A particle on a paraboloid, circling at constant height.

[W05] L. Wunderlich, Numerical treatment of second order differential-algebraic systems, diploma thesis, TU Berlin
      (2005), example 7.2.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dalembert.model.system import System
from dalembert.problems.base import Problem, register

RATE = np.sqrt(2.0)  # of circles at any height: -RATE^2 = 2 lam and 0 = -lam - 1 in [W05]


def exact(t: Any) -> Mapping[str, np.ndarray]:
    """q = (cos wt, sin wt, 1), lam = 1; [W05] has lam = -1 and gives the equations only."""
    t = np.asarray(t, dtype=float)
    sin, cos, one = np.sin(RATE * t), np.cos(RATE * t), np.ones_like(t)
    return {
        "q": np.stack([cos, sin, one], axis=-1),
        "v": np.stack([-RATE * sin, RATE * cos, 0 * one], axis=-1),
        "lam": one[..., None],
    }


@register("paraboloid")
def paraboloid() -> Problem:
    system = System(
        q=["x", "y", "z"],
        mass=[1.0, 1.0, 1.0],
        force=[0.0, 0.0, -1.0],
        constraints=lambda q: {"surface": q[0] ** 2 + q[1] ** 2 - q[2]},
        name="paraboloid",
    )
    start = exact(0.0)
    return Problem(
        name="paraboloid",
        description="particle on the paraboloid z = x^2 + y^2 under gravity 1, circling at height 1 with rate sqrt(2)",
        source="Wunderlich 2005, example 7.2.2 (sign of lam reversed; the solution is ours)",
        system=system,
        q0=start["q"],
        v0=start["v"],
        t_span=(0.0, 10.0),
        reference=exact,
    )
