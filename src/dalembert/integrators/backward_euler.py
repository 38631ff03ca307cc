"""Backward Euler: the BDF of order 1, with a fixed step or under error control.

[AP93] U. Ascher, L. Petzold, Stability of computational methods for constrained dynamics systems (1993), section 4.

Every derivative becomes (x_n - x_{n-1})/h; everything else, matrices and multipliers included, is taken at t_n.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dalembert.formulations.base import Formulation
from dalembert.integrators.base import register
from dalembert.integrators.multistep import BackwardDifferences
from dalembert.model.system import System
from dalembert.numerics.projection import Projection

MEETING = 1e-4  # tolerance at which errors of steps are as large as it


@register
@dataclass(frozen=True)
class BackwardEuler(BackwardDifferences):
    """First order, strongly damping; the method of choice for showing what a formulation does."""

    name: ClassVar[str] = "backward-euler"
    summary: ClassVar[str] = "backward Euler, order 1"
    default_formulation: ClassVar[str] = "index-1"
    smallest_rtol: ClassVar[float] = 1e-9  # the error of a step, tol^2 / MEETING, would be rounding errors

    def order_range(self, fixed: bool) -> tuple[int, int]:
        return 1, 1

    def estimate_scale(
        self, system: System, formulation: Formulation, tolerance: float, projection: Projection | None = None
    ) -> float:
        """Local errors h^2 add up to global ones of h: tol^2 / MEETING in place of tol makes errors follow tol."""
        return MEETING / min(tolerance, MEETING)

    def describe(self) -> str:
        return "backward Euler"
