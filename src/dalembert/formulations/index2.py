"""Index 2: the constraints differentiated once.

[AP93] U. Ascher, L. Petzold, Stability of computational methods for constrained dynamics systems (1993).

Velocities satisfy G v + g_t = 0 at every step; positions drift linearly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dalembert.formulations.base import Equation, Formulation, Unknown, mechanical_unknowns, register
from dalembert.model.point import Point
from dalembert.model.system import System


@register
@dataclass(frozen=True)
class Index2(Formulation):
    """Velocity-level constraints."""

    name: ClassVar[str] = "index-2"
    summary: ClassVar[str] = "constraints at velocity level; velocities are exact, positions drift slowly"
    satisfies: ClassVar[frozenset[str]] = frozenset({"velocity"})
    own_multipliers: ClassVar[bool] = True

    def unknowns(self, system: System) -> list[Unknown]:
        return mechanical_unknowns(system, velocity_index=1, multiplier_index=2)

    def constraint_equations(self, point: Point) -> list[Equation]:
        return [Equation("constraints'", point.g_dot), Equation("velocity constraints", point.k)]
