"""A spring in series with a damper (Maxwell element): a force with a state of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.linalg import expm

from dalembert.model.system import System
from dalembert.problems.base import Problem, register

M1, M2, K, C, K0, D = 1.0, 0.6, 20.0, 3.0, 8.0, 0.5
START = np.array([0.3, -0.2, 0.1])  # x1, x1', elongation of the spring of the Maxwell element

_RATES = np.array([[0.0, 1.0, 0.0], [-K0 / (M1 + M2), 0.0, -K / (M1 + M2)], [0.0, 1.0, -K / C]])


def exact(t: Any) -> Mapping[str, np.ndarray]:
    """Both masses move together: a linear system of three states, solved by the matrix exponential."""
    t = np.asarray(t, dtype=float)
    y = np.array([expm(_RATES * x) @ START for x in t.ravel()]).reshape(*t.shape, 3)
    x, v, r = (y[..., i] for i in range(3))
    a = -(K0 * x + K * r) / (M1 + M2)
    lam = -K0 * x - M2 * a  # what the bar carries: m2 x2'' = -k0 (x2 - d) - lam
    return {
        "q": np.stack([x, x + D], axis=-1), "v": np.stack([v, v], axis=-1), "r": r[..., None], "lam": lam[..., None]
    }  # fmt: skip


@register("spring-damper-series")
def spring_damper_series() -> Problem:
    system = System(
        q=["x1", "x2"],
        mass=lambda p: [p.m1, p.m2],
        force=lambda q, r, p: [-p.k * r[0], -p.k0 * (q[1] - p.d)],
        constraints=lambda q, p: {"bar": q[1] - q[0] - p.d},
        r=["elongation"],
        dynamics=lambda v, r, p: [v[0] - p.k / p.c * r[0]],
        parameters={"m1": M1, "m2": M2, "k": K, "c": C, "k0": K0, "d": D},
        name="spring-damper-series",
    )
    start = exact(0.0)
    return Problem(
        name="spring-damper-series",
        description="two masses joined by a rigid bar, held by a spring and by a spring and damper in series",
        source="textbook mechanics; exact by the matrix exponential",
        system=system,
        q0=start["q"],
        v0=start["v"],
        t_span=(0.0, 5.0),
        reference=exact,
        reference_digits=14,
        options={"r0": start["r"]},
    )
