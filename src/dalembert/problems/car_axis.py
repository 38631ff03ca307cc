"""The car axis: a stiff oscillation with constraints that depend on time.

[MM08] F. Mazzia, C. Magherini, Test Set for Initial Value Problem Solvers, release 2.4 (2008), problem caraxis.

The source writes +G^T lam; here it is -G^T lam, so the multipliers change sign.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dalembert.model.system import System
from dalembert.problems.base import Problem, Published, register

P = {"eps": 0.01, "M": 10.0, "L": 1.0, "L0": 0.5, "r": 0.1, "w": 10.0, "g": 1.0}

# [MM08], the set with 21 digits
END = {
    "q": np.array([0.04934557842754028, 0.49698946023017115, 1.0417425248854215, 0.37391102726536124]),
    "v": np.array([-0.07705836840409723, 0.007446866587237785, 0.017556815753723223, 0.7703410437792519]),
    "lam": np.array([0.004736886590848933, 0.0011046803312573436]),
}

# digits confirmed by integrations of our own
PUBLISHED = Published(
    t=3.0,
    values=END,
    digits={"q": [12.4, 12.4, 13, 13], "v": [11, 9.2, 10.8, 12], "lam": [11.5, 11.5]},
    origin="Mazzia & Magherini 2008",
)


def _support(t: Any, p: Any) -> Any:
    y = p.r * np.sin(p.w * t)
    return np.sqrt(p.L**2 - y**2), y


def _force(t: Any, q: Any, p: Any) -> Any:
    xb, yb = _support(t, p)
    left, right = q[:2], q[2:] - np.array([xb, yb])
    left_length, right_length = np.linalg.norm(left), np.linalg.norm(right)
    weight = np.array([0.0, 1.0]) * (p.M * p.eps**2 / 2 * p.g)
    return np.concatenate(
        [(p.L0 - left_length) / left_length * left - weight, (p.L0 - right_length) / right_length * right - weight]
    )


def _constraints(t: Any, q: Any, p: Any) -> Any:
    xb, yb = _support(t, p)
    return {
        "rolling": q[0] * xb + q[1] * yb,
        "axle": (q[0] - q[2]) ** 2 + (q[1] - q[3]) ** 2 - p.L**2,
    }


def _reference(t: Any) -> Mapping[str, np.ndarray]:
    if np.ndim(t) == 0:
        return END
    return {name: np.tile(x, (np.size(t), 1)) for name, x in END.items()}


@register("car-axis")
def car_axis() -> Problem:
    system = System(
        q=["xl", "yl", "xr", "yr"],
        mass=lambda p: [p.M * p.eps**2 / 2] * 4,
        force=_force,
        constraints=_constraints,
        parameters=P,
        name="car-axis",
    )
    return Problem(
        name="car-axis",
        description="axle on two stiff springs, its right support on a bumpy road: rheonomic, fast oscillation",
        source="Mazzia & Magherini 2008, problem caraxis (lam = -lambda of the source)",
        system=system,
        q0=np.array([0.0, 0.5, 1.0, 0.5]),
        v0=np.array([-0.5, 0.0, -0.5, 0.0]),
        t_span=(0.0, 3.0),
        reference=_reference,
        reference_times=(3.0,),
        reference_digits=9,
        published=PUBLISHED,
    )
