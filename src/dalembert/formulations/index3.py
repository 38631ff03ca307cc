"""Index 3: the constraints as they are.

[W05] L. Wunderlich, Numerical treatment of second order differential-algebraic systems (2005), chapter 2.

Positions satisfy the constraints; velocities only to the accuracy of the method. A multistep method loses the
order of the multipliers at every change of step size, so this form is offered for comparison.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dalembert.formulations.base import Equation, Formulation, Unknown, mechanical_unknowns, register
from dalembert.model.point import Point
from dalembert.model.system import System


@register
@dataclass(frozen=True)
class Index3(Formulation):
    """Position-level constraints, no index reduction."""

    on_groups: ClassVar[bool] = True
    name: ClassVar[str] = "index-3"
    summary: ClassVar[str] = "constraints at position level; multipliers lose accuracy when the step changes"
    satisfies: ClassVar[frozenset[str]] = frozenset({"position"})
    own_multipliers: ClassVar[bool] = True

    def unknowns(self, system: System) -> list[Unknown]:
        # without position constraints velocities are as well determined as in an ODE
        return mechanical_unknowns(system, velocity_index=2 if system.nlam else 1, multiplier_index=3)

    def constraint_equations(self, point: Point) -> list[Equation]:
        return [Equation("constraints", point.g, row=1), Equation("velocity constraints", point.k)]
