"""The underlying ODE: accelerations and multipliers eliminated.

[AP93] U. Ascher, L. Petzold, Stability of computational methods for constrained dynamics systems (1993), (3.5).

    q' = v,   v' = a(t, q, v)   with [M G^T; G 0][a; lam] = [f; gamma]

The same solutions as the index-1 form, drift included, with fewer unknowns; what an explicit method integrates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import casadi as ca

from dalembert.formulations.base import Equation, Formulation, Unknown, mechanical_unknowns, register
from dalembert.model.point import Environment, Point
from dalembert.model.system import System
from dalembert.status import OptionError

ALGEBRAIC = ("lam", "mu")


@register
@dataclass(frozen=True)
class UnderlyingODE(Formulation):
    """q' = v, v' = a(t, q, v); drifts unless projected (projection is the default)."""

    name: ClassVar[str] = "underlying-ode"
    summary: ClassVar[str] = "index-1 form with the multipliers eliminated; drifts unless projected (the default)"
    satisfies: ClassVar[frozenset[str]] = frozenset({"acceleration"})
    projects: ClassVar[bool] = True

    def unknowns(self, system: System) -> list[Unknown]:
        everything = mechanical_unknowns(system, velocity_index=1, multiplier_index=1)
        return [u for u in everything if u.name not in ALGEBRAIC]

    def equations(
        self, env: Environment, t: ca.SX, x: Mapping[str, ca.SX], x_dot: Mapping[str, ca.SX]
    ) -> list[Equation]:
        system = env.system
        z = {n: ca.SX.sym(n, system.sizes[n]) for n in ("a", *ALGEBRAIC)}
        if env.system.calls:
            raise OptionError("the underlying ODE needs a model without black boxes; use the index-1 formulation.")
        point = env.at(t=t, **{n: x[n] for n in ("q", "v", "r", "w", "s")}, **z)
        unknown = ca.vertcat(*z.values())
        residual = ca.vertcat(point.balance, point.g_ddot, point.k_dot)
        matrix = ca.jacobian(residual, unknown)
        if ca.depends_on(matrix, unknown):
            raise OptionError(
                "the underlying ODE cannot be written down: forces are nonlinear in the multipliers or accelerations. "
                "Use the index-1 formulation."
            )
        zero = ca.SX.zeros(unknown.numel(), 1)
        answer = -ca.solve(ca.densify(matrix), ca.densify(ca.substitute(residual, unknown, zero)))

        def eliminated(expr: ca.SX) -> ca.SX:
            return ca.substitute(expr, unknown, answer)

        rows = [
            Equation("kinematics", x_dot["q"] - system.space.rate(x["q"], x["v"])),
            Equation("acceleration", x_dot["v"] - answer[: system.nv], row=-1),
            Equation("dynamics", x_dot["r"] - eliminated(point.dynamics), row=-1),
            Equation("auxiliary", eliminated(point.auxiliary), row=-1),
            Equation("contact", point.h),
        ]
        return [row for row in rows if row.expr.numel()]

    def constraint_equations(self, point: Point) -> list[Equation]:
        return []
