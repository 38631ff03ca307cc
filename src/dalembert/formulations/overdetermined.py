"""The overdetermined system: step, then project.

[AP93] U. Ascher, L. Petzold, Stability of computational methods for constrained dynamics systems (1993), (3.18)-(3.24),
       (4.18)-(4.22).

The index-1 equations make the step; the result is moved onto the position constraints in the metric W, and, if asked
for, its velocities onto the velocity constraints. W = I corresponds to D = G^T of the projected invariants, W = M to
D = M^-1 G^T, as long as forces do not depend on the positions within the step.

`HHT` meets both sets of constraints within its step instead, and does not project.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from dalembert.formulations.base import Equation, Formulation, Unknown, mechanical_unknowns, register
from dalembert.model.point import Point
from dalembert.model.system import System
from dalembert.numerics.projection import Projection
from dalembert.status import OptionError


@register
@dataclass(frozen=True)
class Overdetermined(Formulation):
    """Index-1 step followed by projection with a weight.

    Parameters
    ----------
    weight
        Metric W of the projection: None (identity), "mass" or a matrix.
    velocity_projection
        Project the velocities at the end of the step, too.
    """

    weight: Any = None
    velocity_projection: bool = True
    on_groups: ClassVar[bool] = True
    name: ClassVar[str] = "overdetermined"
    summary: ClassVar[str] = "index-1 step, then projection with weight W"
    projects: ClassVar[bool] = True

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "weight", Projection(weight=self.weight).weight)  # checked, and hashable
        except OptionError as problem:
            raise OptionError(str(problem).replace("Projection(", "Overdetermined(")) from None

    @property
    def projection_options(self) -> dict[str, Any]:
        levels = ("position", "velocity") if self.velocity_projection else ("position",)
        return {"coupling": "sequential", "weight": self.weight, "levels": levels}

    def unknowns(self, system: System) -> list[Unknown]:
        return mechanical_unknowns(system, velocity_index=1, multiplier_index=1)

    def constraint_equations(self, point: Point) -> list[Equation]:
        return [Equation("constraints''", point.g_ddot, row=-1), Equation("velocity constraints'", point.k_dot, row=-1)]
