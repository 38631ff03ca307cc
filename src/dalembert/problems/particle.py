"""Two particles on the unit circle with exact solutions.

[W05] L. Wunderlich, Numerical treatment of second order differential-algebraic systems, diploma thesis, TU Berlin
      (2005), examples 2.4.7 and 8.1.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dalembert.model.system import System
from dalembert.problems.base import Problem, register


def exact_accelerated(t: Any) -> Mapping[str, np.ndarray]:
    """q = (sin t^2, cos t^2); [W05] writes +lam q with the constraint's half gradient, hence lam = -4 t^2 there."""
    t = np.asarray(t, dtype=float)
    sin, cos = np.sin(t**2), np.cos(t**2)
    q = np.stack([sin, cos], axis=-1)
    v = np.stack([2 * t * cos, -2 * t * sin], axis=-1)
    return {"q": q, "v": v, "lam": (4 * t**2)[..., None]}


@register("particle-on-circle")
def particle_on_circle() -> Problem:
    system = System(
        q=["x", "y"],
        mass=[1.0, 1.0],
        force=lambda q: [2 * q[1], -2 * q[0]],
        constraints=lambda q: {"circle": (q @ q - 1) / 2},
        name="particle-on-circle",
    )
    start = exact_accelerated(1.0)
    return Problem(
        name="particle-on-circle",
        description="particle driven around the unit circle ever faster, q = (sin t^2, cos t^2), lam = 4 t^2",
        source="Wunderlich 2005, example 2.4.7 (sign of lam reversed: M v' = f - G^T lam here)",
        system=system,
        q0=start["q"],
        v0=start["v"],
        t_span=(1.0, 2.0),
        reference=exact_accelerated,
    )


def exact_steady(t: Any) -> Mapping[str, np.ndarray]:
    """q = (sin t, cos t), lam = sin t cos t."""
    t = np.asarray(t, dtype=float)
    sin, cos = np.sin(t), np.cos(t)
    return {"q": np.stack([sin, cos], axis=-1), "v": np.stack([cos, -sin], axis=-1), "lam": (sin * cos)[..., None]}


@register("particle-8.1.1")
def particle_steady() -> Problem:
    system = System(
        q=["x", "y"],
        mass=[1.0, 1.0],
        force=lambda q, v: [-q[0] - 2 * q[0] * v[0] * v[1], -v[0] + 2 * q[0] * q[1] ** 2],
        constraints=lambda q: {"circle": q @ q - 1},
        name="particle-8.1.1",
    )
    start = exact_steady(0.0)
    return Problem(
        name="particle-8.1.1",
        description="particle on the unit circle, forces depend on the velocity; q = (sin t, cos t), lam = sin t cos t",
        source="Wunderlich 2005, example 8.1.1",
        system=system,
        q0=start["q"],
        v0=start["v"],
        t_span=(0.0, 1.0),
        reference=exact_steady,
    )
