"""Stabilised index 2: position and velocity constraints together (Gear, Gupta, Leimkuhler).

[GGL85] C. W. Gear, B. Leimkuhler, G. K. Gupta, Automatic integration of Euler-Lagrange equations with constraints,
        J. Comput. Appl. Math. 12-13 (1985) 77-90.
[AP93]  U. Ascher, L. Petzold, Stability of computational methods for constrained dynamics systems (1993), (4.15).

    q' = v + D eta,   M v' = f - G^T lam,   0 = g,   0 = G v + g_t                                       [AP93, (S)]

eta vanishes on the exact solution. D = G^T is the classical choice.

[W05]   L. Wunderlich, Numerical treatment of second order differential-algebraic systems (2005), (7.19).

The second-order form has u = q' - D eta in the place of v (eta has the other sign in [W05]):

    M u' = f(q, u, lam) - G^T lam,   u' = q'' - D' eta - D eta',   0 = g,   0 = G u + g_t                      (7.19)

eta is the error of the discrete q' across the constraints. Its derivative must not be larger than the error of q'': a
method whose q' is one order more accurate than its q'' is fine (modified BDF, "interpolant"); one whose q'' corrects
the errors of q' is not (modified BDF, "thesis"): lam loses an order at every change of step size.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import casadi as ca
import numpy as np

from dalembert.formulations.base import (
    SECOND_ORDER,
    At,
    Equation,
    Formulation,
    Unknown,
    mechanical_unknowns,
    register,
)
from dalembert.formulations.directions import check_direction, check_regular, direction, direction_rate
from dalembert.model.point import Environment, Point
from dalembert.model.system import System


@register
@dataclass(frozen=True)
class StabilizedIndex2(Formulation):
    """Positions and velocities both on the constraints, with one more multiplier.

    Parameters
    ----------
    D
        "G^T" (default), "M^-1 G^T" or a constant (nv, nlam) matrix with G D regular.
    """

    D: Any = "G^T"
    on_groups: ClassVar[bool] = True
    name: ClassVar[str] = "stabilized-index-2"
    summary: ClassVar[str] = "position and velocity constraints with an additional multiplier (GGL)"
    satisfies: ClassVar[frozenset[str]] = frozenset({"position", "velocity"})
    own_multipliers: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "D", check_direction("StabilizedIndex2", self.D))

    def describe(self) -> str:
        return f"stabilized-index-2 (D = {self.D if isinstance(self.D, str) else 'user'})"

    def unknowns(self, system: System) -> list[Unknown]:
        eta = Unknown("eta", system.nlam, False, index=2, controlled=False)
        return [*mechanical_unknowns(system, velocity_index=1, multiplier_index=2), eta]

    def start(self, system: System, at: At) -> dict[str, np.ndarray]:
        if system.nlam:
            check_regular("StabilizedIndex2", self.D, system, at, "lam")
        return {}

    def constraint_equations(self, point: Point) -> list[Equation]:
        return [
            Equation("constraints'", point.g_dot),
            Equation("velocity constraints", point.k),
            Equation("constraints", point.g, row=1),
        ]

    def velocity(self, point: Point, x: Mapping[str, ca.SX]) -> ca.SX:
        if not point.system.nlam:
            return x["v"]
        return x["v"] + direction("StabilizedIndex2", self.D, point, "lam") @ x["eta"]

    def second_order(
        self, env: Environment, t: ca.SX, x: Mapping[str, ca.SX], v: ca.SX, a: ca.SX, x_dot: Mapping[str, ca.SX]
    ) -> tuple[list[Equation], ca.SX]:
        if not env.system.nlam:
            return super().second_order(env, t, x, v, a, x_dot)
        point = env.at(t=t, v=v, a=a, **{n: x[n] for n in SECOND_ORDER})
        D = direction("StabilizedIndex2", self.D, point, "lam")
        u = v - D @ x["eta"]
        u_dot = a - direction_rate(self.D, point) @ x["eta"] - D @ x_dot["eta"]
        return super().second_order(env, t, x, u, u_dot, x_dot)  # [W05, (7.19)]
