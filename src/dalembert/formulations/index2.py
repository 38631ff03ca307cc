"""Index 2: the constraints differentiated once.

[AP93] U. Ascher, L. Petzold, Stability of computational methods for constrained dynamics systems (1993).

Velocities satisfy G v + g_t = 0 at every step; positions drift linearly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dalembert.formulations.base import Equation, Formulation, Unknown, check_rate, mechanical_unknowns, register
from dalembert.model.point import Point
from dalembert.model.system import System


@register
@dataclass(frozen=True)
class Index2(Formulation):
    """Velocity-level constraints.

    Parameters
    ----------
    gamma
        Damping of position errors: g' + gamma g = 0 [AP93, (3.11)]; 0 is the plain velocity constraint.
    """

    gamma: float = 0.0

    on_groups: ClassVar[bool] = True
    name: ClassVar[str] = "index-2"
    summary: ClassVar[str] = "constraints at velocity level; velocities are exact, positions drift slowly"
    own_multipliers: ClassVar[bool] = True

    @property
    def satisfies(self) -> frozenset[str]:  # type: ignore[override]
        return frozenset({"velocity"} if self.gamma == 0 else ())

    def unknowns(self, system: System) -> list[Unknown]:
        return mechanical_unknowns(system, velocity_index=1, multiplier_index=2)

    def constraint_equations(self, point: Point) -> list[Equation]:
        return [Equation("constraints'", point.g_dot + self.gamma * point.g), Equation("velocity constraints", point.k)]

    def __post_init__(self) -> None:
        check_rate("Index2", "gamma", self.gamma, "position errors grow; give gamma >= 0.")

    def describe(self) -> str:
        return "index-2" if self.gamma == 0 else f"index-2 (gamma = {self.gamma:g})"
