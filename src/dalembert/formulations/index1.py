"""Index 1: the constraints differentiated twice.

[AP93] U. Ascher, L. Petzold, Stability of computational methods for constrained dynamics systems (1993).
[E93]  E. Eich, Convergence results for a coordinate projection method (1993), (3.15), (3.16), (3.19).

Accelerations and multipliers follow from [M G^T; G 0][v'; lam] = [f; gamma]. Positions and velocities drift off the
constraints (quadratically in time for g) unless they are projected back, which is why projection is the default here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dalembert.formulations.base import Equation, Formulation, Unknown, mechanical_unknowns, register
from dalembert.model.point import Point
from dalembert.model.system import System


@register
@dataclass(frozen=True)
class Index1(Formulation):
    """Acceleration-level constraints; integrate, then project."""

    on_groups: ClassVar[bool] = True
    name: ClassVar[str] = "index-1"
    summary: ClassVar[str] = "constraints at acceleration level; drifts unless projected (projection is the default)"
    satisfies: ClassVar[frozenset[str]] = frozenset({"acceleration"})
    projects: ClassVar[bool] = True

    def unknowns(self, system: System) -> list[Unknown]:
        return mechanical_unknowns(system, velocity_index=1, multiplier_index=1)

    def constraint_equations(self, point: Point) -> list[Equation]:
        return [Equation("constraints''", point.g_ddot, row=-1), Equation("velocity constraints'", point.k_dot, row=-1)]
