"""Stabilised index 2: position and velocity constraints together (Gear, Gupta, Leimkuhler).

[GGL85] C. W. Gear, B. Leimkuhler, G. K. Gupta, Automatic integration of Euler-Lagrange equations with constraints,
        J. Comput. Appl. Math. 12-13 (1985) 77-90.
[AP93]  U. Ascher, L. Petzold, Stability of computational methods for constrained dynamics systems (1993), (4.15).

    q' = v + D eta,   M v' = f - G^T lam,   0 = g,   0 = G v + g_t                                       [AP93, (S)]

eta vanishes on the exact solution. D = G^T is the classical choice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import casadi as ca
import numpy as np

from dalembert.formulations.base import At, Equation, Formulation, Unknown, mechanical_unknowns, register
from dalembert.formulations.directions import check_direction, check_regular, direction
from dalembert.model.point import Point
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
