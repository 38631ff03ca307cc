"""Baumgarte's stabilisation: a damped combination of the constraint and its derivatives.

[B72]  J. Baumgarte, Stabilization of constraints and integrals of motion in dynamical systems (1972).
[AP93] U. Ascher, L. Petzold, Stability of computational methods for constrained dynamics systems (1993), (3.1)-(3.10).

    g'' + 2 alpha g' + beta^2 g = 0,   k' + alpha k = 0,      alpha = beta = gamma for (tau + gamma)^2 [AP93, (3.10)]

Constraint errors decay with rate gamma; gamma = 0 is the index-1 form. Too small a gamma lets errors grow where the
constraints turn fast, too large a one makes the problem stiff.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dalembert.formulations.base import Equation, Formulation, Unknown, check_rate, mechanical_unknowns, register
from dalembert.model.point import Point
from dalembert.model.system import System


@register
@dataclass(frozen=True)
class Baumgarte(Formulation):
    """Stabilised acceleration-level constraints.

    Parameters
    ----------
    gamma
        Rate (1/time) of the double root, >= 0.
    alpha, beta
        Damping and frequency separately: g'' + 2 alpha g' + beta^2 g = 0; both default to gamma.
    """

    gamma: float = 1.0
    alpha: float | None = None
    beta: float | None = None
    on_groups: ClassVar[bool] = True
    name: ClassVar[str] = "baumgarte"
    summary: ClassVar[str] = "g'' + 2 gamma g' + gamma^2 g = 0; errors decay with rate gamma, to be chosen"

    def __post_init__(self) -> None:
        for name in ("gamma", "alpha", "beta"):
            value = getattr(self, name)
            if value is not None or name == "gamma":
                check_rate(
                    "Baumgarte", name, value, f"constraint errors grow; give {name} >= 0 (0 is the index-1 form)."
                )

    def describe(self) -> str:
        if self.alpha is None and self.beta is None:
            return f"baumgarte (gamma = {self.gamma:g})"
        a, b = self._rates
        return f"baumgarte (alpha = {a:g}, beta = {b:g})"

    @property
    def _rates(self) -> tuple[float, float]:
        alpha = self.gamma if self.alpha is None else self.alpha
        beta = self.gamma if self.beta is None else self.beta
        return alpha, beta

    def unknowns(self, system: System) -> list[Unknown]:
        return mechanical_unknowns(system, velocity_index=1, multiplier_index=1)

    def constraint_equations(self, point: Point) -> list[Equation]:
        alpha, beta = self._rates
        g = point.g_ddot + 2 * alpha * point.g_dot + beta**2 * point.g  # [AP93, (3.2)] with m = 2
        k = point.k_dot + alpha * point.k  # m = 1
        return [Equation("constraints''", g, row=-1), Equation("velocity constraints'", k, row=-1)]
