"""The pendulum in Cartesian coordinates: with period 2, and as a benchmark of long runs.

[E93]    E. Eich, SIAM J. Numer. Anal. 30 (1993), section 3.3.
[GDLC06] M. Gonzalez, D. Dopico, U. Lugris, J. Cuadrado, A benchmarking system for MBS simulation software, Multibody
         Syst. Dyn. 16 (2006) 179-190; problem A01 of the IFToMM multibody benchmark library.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.special import ellipj, ellipk

from dalembert.model.system import System
from dalembert.problems.base import Problem, Published, register

GRAVITY = float(4 * ellipk(0.5) ** 2)  # makes the period of the release from the horizontal exactly 2

# t, x, y [GDLC06]; its 4001 rows agree with the exact solution within 7.1e-7, the rounding of the table
TABLE_A01 = (
    (0.5, -0.391049, -0.92037), (1.0, 0.986292, -0.165011), (2.0, -0.793566, -0.608484), (5.0, -0.942305, -0.334754),
    (10.0, -0.275087, -0.961419), (20.0, 0.996907, -0.0785881), (100.0, -0.181513, -0.983388),
    (200.0, 0.999439, -0.0334942), (500.0, -0.75456, -0.656231), (1000.0, 0.68323, -0.730203),
    (1500.0, 0.999993, -0.00381092), (2000.0, 0.814603, -0.580019),
)  # fmt: skip
PUBLISHED_A01 = Published(
    t=[row[0] for row in TABLE_A01],
    values={"q": [row[1:] for row in TABLE_A01]},
    within={"q": 7.2e-7},
    origin="reference file of the IFToMM benchmark A01",
)


def exact(t: Any, gravity: float = GRAVITY) -> Mapping[str, np.ndarray]:
    """Release from rest at the horizontal by Jacobi's elliptic functions; t scalar or (n,)."""
    t = np.asarray(t, dtype=float)
    k, w = np.sqrt(0.5), np.sqrt(gravity)
    period = 4 * ellipk(0.5) / w
    sn, cn, dn, _ = ellipj(ellipk(0.5) - w * np.mod(t, period), 0.5)
    S = k * sn
    x, y = 2 * S * dn, 2 * S**2 - 1
    rate = -2 * k * w * cn
    v = np.stack([-y * rate, x * rate], axis=-1)
    lam = (v**2).sum(axis=-1) - gravity * y
    return {"q": np.stack([x, y], axis=-1), "v": v, "lam": lam[..., None]}


def _system(name: str, gravity: float) -> System:
    return System(
        q=["x", "y"],
        mass=lambda p: [p.m, p.m],
        force=lambda p: [0, -p.m * p.g],
        constraints=lambda q, p: {"rod": (q[0] ** 2 + q[1] ** 2 - p.L**2) / 2},
        energy=lambda q, v, p: p.m * (0.5 * (v @ v) + p.g * q[1]),
        parameters={"m": 1.0, "g": gravity, "L": 1.0},
        name=name,
    )


@register("pendulum")
def pendulum() -> Problem:
    return Problem(
        name="pendulum",
        description="Cartesian pendulum of period 2, released from the horizontal",
        source="Eich 1993, section 3.3",
        system=_system("pendulum", GRAVITY),
        q0=np.array([1.0, 0.0]),
        v0=np.array([0.0, 0.0]),
        t_span=(0.0, 100.0),
        reference=exact,
    )


def exact_a01(t: Any) -> Mapping[str, np.ndarray]:
    """The mirror image, released at x = -1 as in the data of the benchmark (its text says x = 1)."""
    state, mirror = exact(t, 9.81), np.array([-1.0, 1.0])
    return {"q": mirror * state["q"], "v": mirror * state["v"], "lam": state["lam"]}


@register("pendulum-a01")
def pendulum_a01() -> Problem:
    return Problem(
        name="pendulum-a01",
        description="Cartesian pendulum over 2000 s, released from the horizontal on the left: nearly 1000 swings",
        source="Gonzalez et al. 2006, IFToMM A01; exact solution by elliptic functions",
        system=_system("pendulum-a01", 9.81),
        q0=np.array([-1.0, 0.0]),
        v0=np.array([0.0, 0.0]),
        t_span=(0.0, 2000.0),
        reference=exact_a01,
        reference_digits=12,
        published=PUBLISHED_A01,
    )
