"""Projected invariants: the underlying ODE with the constraints re-imposed as invariants.

[AP93] U. Ascher, L. Petzold, Stability of computational methods for constrained dynamics systems (1993), (3.25)-(3.28),
       (4.7), (4.14), (4.16), (4.17).

With the acceleration a(t, q, v) of the index-1 form,

    Pa (levels = 1):  q' = v + D eta,                  v' = a,            0 = g
    Pb (levels = 2):  q' = v + D eta,                  v' = a + D tau,    0 = g,  0 = g'
    Pc (balanced):    q' = v + D eta + L^T tau,        v' = a + D tau,    0 = g,  0 = g',    L = dg'/dq

Velocity constraints are re-imposed likewise: v' = a + D tau, 0 = k. D = G^T keeps its good behaviour where M^-1 G^T
is large or turns fast, which is what this form is for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import casadi as ca
import numpy as np

from dalembert.formulations.base import At, Equation, Formulation, Unknown, mechanical_unknowns, register
from dalembert.formulations.directions import check_direction, check_regular, direction
from dalembert.model.point import Environment, Point
from dalembert.model.system import System
from dalembert.status import OptionError


@register
@dataclass(frozen=True)
class ProjectedInvariants(Formulation):
    """Index-1 accelerations, constraints re-imposed along D.

    Parameters
    ----------
    levels
        1: positions (Pa); 2: positions and velocities (Pb, Pc).
    D
        "G^T" (default), "M^-1 G^T" or a constant matrix; a pair gives one for each level.
    balanced
        With levels = 2: the velocity multiplier also moves positions along L^T = (dg'/dq)^T (Pc).
    """

    levels: int = 2
    D: Any = "G^T"
    balanced: bool = False
    name: ClassVar[str] = "projected-invariants"
    summary: ClassVar[str] = "index-1 accelerations with the constraints re-imposed along a direction D"

    def __post_init__(self) -> None:
        if self.levels not in (1, 2):
            raise OptionError(
                f"ProjectedInvariants(levels={self.levels!r}): a mechanical system has 2 levels, positions and "
                f"velocities; give 1 or 2."
            )
        if self.balanced and self.levels != 2:
            raise OptionError("ProjectedInvariants(balanced=True) needs levels=2: it couples the two levels.")
        pair = (
            isinstance(self.D, (tuple, list))
            and len(self.D) == 2
            and (any(isinstance(d, str) for d in self.D) or all(np.ndim(d) == 2 for d in self.D))
        )
        given = tuple(self.D) if pair else (self.D, self.D)
        object.__setattr__(self, "D", tuple(check_direction("ProjectedInvariants", d) for d in given))

    @property
    def satisfies(self) -> frozenset[str]:  # type: ignore[override]
        return frozenset({"position"} if self.levels == 1 else {"position", "velocity"})

    def describe(self) -> str:
        label = {1: "Pa", 2: "Pc" if self.balanced else "Pb"}[self.levels]
        names = ["user" if not isinstance(d, str) else d for d in self.D]
        return f"projected-invariants ({label}, D = {names[0] if names[0] == names[1] else ', '.join(names)})"

    def _sizes(self, system: System) -> tuple[int, int]:
        """Numbers of eta and tau."""
        if self.levels > 1 and not system.nq:
            raise OptionError(
                "ProjectedInvariants(levels=2): a system of order 1 has one level of constraints; use levels=1."
            )
        return system.nlam, (system.nlam if self.levels == 2 else 0) + system.nmu

    def unknowns(self, system: System) -> list[Unknown]:
        n_eta, n_tau = self._sizes(system)
        out = [
            *mechanical_unknowns(system, velocity_index=1, multiplier_index=1),
            Unknown("acc", system.nv, False, column=1, controlled=False),
            Unknown("eta", n_eta, False, index=2, controlled=False),
            Unknown("tau", n_tau, False, column=1, index=2, controlled=False),
        ]
        # Pc: tau moves positions and velocities alike, so that both are scaled like positions
        lower = ("v", "w", "lam", "mu", "acc", "tau") if self.balanced and n_eta else ()
        return [replace(u, column=u.column - 1) if u.name in lower else u for u in out]

    def equations(
        self, env: Environment, t: ca.SX, x: Mapping[str, ca.SX], x_dot: Mapping[str, ca.SX]
    ) -> list[Equation]:
        rows = super().equations(env, t, x, x_dot)
        if not (self.balanced and env.system.nlam):
            return rows
        same = ("kinematics", "constraints", "contact", "dynamics")
        return [row if row.label in same else replace(row, row=row.row + 1) for row in rows]

    def start(self, system: System, at: At) -> dict[str, np.ndarray]:
        for D in dict.fromkeys(self.D[: self.levels] if system.nlam else ()):
            check_regular("ProjectedInvariants", D, system, at, "lam")
        if system.nmu:
            check_regular("ProjectedInvariants", self.D[0], system, at, "mu")
        return {"acc": at("a")}

    def constraint_equations(self, point: Point) -> list[Equation]:
        velocities = [Equation("constraints'", point.g_dot)] if self.levels == 2 else []
        return [
            Equation("constraints''", point.g_ddot, row=-1),
            Equation("velocity constraints'", point.k_dot, row=-1),
            Equation("constraints", point.g, row=1),
            *velocities,
            Equation("velocity constraints", point.k),
        ]

    def acceleration(self, x: Mapping[str, ca.SX], x_dot: Mapping[str, ca.SX]) -> ca.SX:
        return x["acc"]

    def velocity(self, point: Point, x: Mapping[str, ca.SX]) -> ca.SX:
        system = point.system
        out = x["v"]
        if system.nlam:
            out = out + direction("ProjectedInvariants", self.D[0], point, "lam") @ x["eta"]
        if self.balanced and system.nlam:
            out = out + point.g_dot_q.T @ x["tau"][: system.nlam]
        return out

    def additional_equations(
        self, env: Environment, point: Point, x: Mapping[str, ca.SX], x_dot: Mapping[str, ca.SX]
    ) -> list[Equation]:
        system = point.system
        push = ca.SX.zeros(system.nv, 1)
        first = 0
        if self.levels == 2 and system.nlam:
            push = push + direction("ProjectedInvariants", self.D[1], point, "lam") @ x["tau"][: system.nlam]
            first = system.nlam
        if system.nmu:
            push = push + direction("ProjectedInvariants", self.D[0], point, "mu") @ x["tau"][first:]
        return [Equation("acceleration", x_dot["v"] - x["acc"] - push, row=-1)]
