"""State space: as many differential equations as degrees of freedom, in local coordinates u = R q.

[AP93] U. Ascher, L. Petzold, Stability of computational methods for constrained dynamics systems (1993), (3.15)-(3.17).

With a constant matrix R for which [R; G] is regular, and the acceleration a(t, q, v) of the index-1 form,

    R (q' - v) = 0,  0 = g        R (v' - a) = 0,  0 = g',  0 = k

Because R is constant within a segment, discretising u = R q is the same as multiplying the discrete equations by R, so
that q and v stay the unknowns and a change of R needs no change of variables. R is chosen orthogonal to the
constraints, and anew before [R; G] becomes singular.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import casadi as ca
import numpy as np

from dalembert.formulations.base import At, Equation, Formulation, Unknown, mechanical_unknowns, register
from dalembert.formulations.directions import turning_rate, unit
from dalembert.model.point import Environment, Point
from dalembert.model.system import System
from dalembert.status import OptionError


@register
@dataclass(frozen=True)
class StateSpace(Formulation):
    """Local coordinates, re-chosen automatically.

    Parameters
    ----------
    R
        None: chosen at the start and re-chosen whenever the constraints have turned too far. A constant
        ((nv - number of constraints), nv) matrix: kept for the whole run, singular points included.
    """

    R: Any = None
    name: ClassVar[str] = "state-space"
    summary: ClassVar[str] = "local coordinates u = R q, re-chosen before they become singular"
    satisfies: ClassVar[frozenset[str]] = frozenset({"position", "velocity"})

    def __post_init__(self) -> None:
        if self.R is not None:
            try:
                matrix = np.atleast_2d(np.asarray(self.R, dtype=float))
            except (TypeError, ValueError):
                matrix = np.full((1, 1), np.nan)
            if matrix.ndim != 2 or not np.all(np.isfinite(matrix)):
                raise OptionError("StateSpace(R=...): give a finite matrix with a row for each degree of freedom.")
            object.__setattr__(self, "R", tuple(map(tuple, matrix.tolist())))

    def describe(self) -> str:
        return "state-space" + (" (R given)" if self.R is not None else "")

    def _shapes(self, system: System) -> tuple[tuple[int, int], tuple[int, int]]:
        """Shapes of the matrices for positions and velocities."""
        nv = system.nv
        positions = nv - system.nlam if system.nq else 0
        return (positions, nv), (nv - system.nlam - system.nmu, nv)

    def unknowns(self, system: System) -> list[Unknown]:
        acceleration = Unknown("acc", system.nv, False, column=1, controlled=False)
        return [*mechanical_unknowns(system, velocity_index=1, multiplier_index=1), acceleration]

    def start(self, system: System, at: At) -> dict[str, np.ndarray]:
        return {"acc": at("a")}

    def data_size(self, system: System) -> int:
        (a, n), (b, _) = self._shapes(system)
        return (a + b) * n

    @property
    def monitors(self) -> bool:
        return self.R is None

    def choose_data(self, system: System, C: np.ndarray) -> np.ndarray:
        (a, n), (b, _) = self._shapes(system)
        if self.R is None:
            return np.concatenate([_complement(C[: system.nlam])[:a].ravel(order="F"), _complement(C).ravel(order="F")])
        R = np.array(self.R)
        if R.shape != (b, n):
            raise OptionError(
                f"StateSpace(R=...) has shape {R.shape}, expected {(b, n)}: degrees of freedom, velocities."
            )
        if a not in (0, b):
            raise OptionError("StateSpace(R=...) cannot serve a system with both kinds of constraints; leave R out.")
        s = np.linalg.svd(np.vstack([unit(R), unit(C)]), compute_uv=False)
        if s[-1] < 1e-8 * s[0]:
            raise OptionError(
                "StateSpace(R=...): [R; G] is singular at the start, so R q does not fix the positions. Choose rows of "
                "R that are independent of the constraint gradients, or leave R out."
            )
        return np.concatenate([R.ravel(order="F")] * (2 if a else 1))

    def _matrices(self, env: Environment) -> tuple[ca.SX, ca.SX]:
        (a, n), (b, _) = self._shapes(env.system)
        return ca.reshape(env.data[: a * n], a, n), ca.reshape(env.data[a * n :], b, n)

    def monitor(self, env: Environment, point: Point) -> ca.SX:
        """[cos^2 of the largest angle between the constraints now and when R was chosen, rate of turning]."""
        Rq, Rv = self._matrices(env)
        pairs = [(ca.vertcat(point.G, point.K), ca.vertcat(point.G_dot, point.K_dot), Rv)]
        if point.system.nmu and point.system.nlam:
            pairs.append((point.G, point.G_dot, Rq))
        value, rate = ca.SX(1), ca.SX(0)
        for C, C_dot, R in pairs:
            gram = C @ C.T
            overlap = C @ R.T
            value = ca.fmin(value, 1 - ca.trace(overlap.T @ ca.solve(gram, overlap)))
            rate = ca.fmax(rate, turning_rate(C, C_dot))
        return ca.vertcat(value, rate)

    def acceleration(self, x: Mapping[str, ca.SX], x_dot: Mapping[str, ca.SX]) -> ca.SX:
        return x["acc"]

    def kinematics(
        self, env: Environment, point: Point, x: Mapping[str, ca.SX], x_dot: Mapping[str, ca.SX]
    ) -> list[Equation]:
        Rq, Rv = self._matrices(env)
        rows = [] if not env.system.nq else [Equation("kinematics", Rq @ (x_dot["q"] - x["v"]))]
        return [
            *rows,
            Equation("constraints", point.g, row=1),
            Equation("acceleration", Rv @ (x_dot["v"] - x["acc"]), row=-1),
        ]

    def constraint_equations(self, point: Point) -> list[Equation]:
        return [
            Equation("constraints'", point.g_dot),
            Equation("velocity constraints", point.k),
            Equation("constraints''", point.g_ddot, row=-1),
            Equation("velocity constraints'", point.k_dot, row=-1),
        ]


def _complement(C: np.ndarray) -> np.ndarray:
    """Orthonormal rows that span the complement of the rows of C."""
    if not len(C):
        return np.eye(C.shape[1])
    _, s, Vt = np.linalg.svd(C)
    return Vt[len(s) :]
