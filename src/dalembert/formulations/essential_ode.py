"""The essential underlying ODE: u = R(t) x with R B = 0, for systems whose constraints are linear with known R(t).

[AP93] U. Ascher, L. Petzold, Stability of computational methods for constrained dynamics systems (1993), (2.8)-(2.14).

    m = 1:  u = R x,  u' = R x' + R' x
    m = 2:  u = R x,  w = R x' + R' x,  u' = w,  w' = R x'' + 2 R' x' + R'' x

x follows from u (and w) and the constraints; x^(m) is the acceleration of the index-1 form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import casadi as ca
import numpy as np

from dalembert.formulations.base import At, Equation, Formulation, Unknown, mechanical_unknowns, register
from dalembert.formulations.directions import unit
from dalembert.model.blackbox import argument_names
from dalembert.model.point import Environment, Point
from dalembert.model.system import System
from dalembert.status import OptionError
from dalembert.tracing import Namespace, Sym, to_sx, vector


@register
@dataclass(frozen=True)
class EssentialODE(Formulation):
    """Integrate u = R(t) x.

    Parameters
    ----------
    R
        Function of ``t`` and ``p`` (by name) returning the (nv - number of constraints, nv) matrix.
    """

    R: Callable[..., Any] | None = field(default=None, hash=False)  # what is no function is refused with a system
    name: ClassVar[str] = "essential-ode"
    summary: ClassVar[str] = "essential underlying ODE in u = R(t) x, for a given smooth R"
    self_contained: ClassVar[bool] = False
    satisfies: ClassVar[frozenset[str]] = frozenset({"position", "velocity"})

    def _check(self, system: System) -> None:
        if self.R is None or not callable(self.R):
            raise OptionError(
                "the essential underlying ODE needs a smooth R(t) with R B = 0: EssentialODE(R=lambda t, p: ...). "
                "Where none is known, StateSpace() chooses constant ones."
            )
        unknown = [a for a in argument_names(self.R) if a not in ("t", "p")]
        if unknown:
            raise OptionError(f"EssentialODE(R=...): R asks for {unknown[0]!r}; it can ask for t and p.")
        if system.nmu and system.nlam:
            raise OptionError("EssentialODE: give a system with one kind of constraint, or use StateSpace().")
        if system.nmu and system.nq:
            raise OptionError(
                "EssentialODE: velocity constraints do not fix positions, so that u = R q has too few rows for them. "
                "Use StateSpace()."
            )

    def unknowns(self, system: System) -> list[Unknown]:
        self._check(system)
        n = system.nv - system.nlam - system.nmu
        mechanical = mechanical_unknowns(system, velocity_index=1, multiplier_index=1)
        states = [Unknown("u", n, True, column=-1 if system.nq else 0, controlled=False)]
        if system.nq:
            states.append(Unknown("u_dot", n, True, controlled=False))
        algebraic = [
            Unknown(u.name, u.size, False, column=u.column, controlled=u.controlled) if u.name in ("q", "v") else u
            for u in mechanical
        ]
        return [*algebraic, *states, Unknown("acc", system.nv, False, column=1, controlled=False)]

    def _matrix(self, env: Environment, t: ca.SX) -> tuple[ca.SX, ca.SX, ca.SX]:
        """R, R', R'' at t."""
        assert self.R is not None
        time = ca.SX.sym("t")
        values = {"t": Sym(time), "p": Namespace(env.system.parameters.unflatten(vector(env.p)))}
        R = to_sx(self.R(**{a: values[a] for a in argument_names(self.R)}))
        shape = (env.system.nv - env.system.nlam - env.system.nmu, env.system.nv)
        if R.shape != shape:
            raise OptionError(f"EssentialODE(R=...): R has shape {R.shape}, expected {shape}.")
        first = ca.reshape(ca.jacobian(ca.vec(R), time), *shape)
        second = ca.reshape(ca.jacobian(ca.vec(first), time), *shape)
        return ca.substitute(R, time, t), ca.substitute(first, time, t), ca.substitute(second, time, t)

    def start(self, system: System, at: At) -> dict[str, np.ndarray]:
        env = Environment(system, ca.SX(at("p")))
        R, R1, _ = (ca.evalf(x).full() for x in self._matrix(env, ca.SX(float(at("t")))))
        B, C = (at("acceleration_by_lam"), at("G")) if system.nlam else (at("acceleration_by_mu"), at("K"))
        if not (np.all(np.isfinite(R)) and np.all(np.isfinite(R1))):
            raise OptionError("EssentialODE(R=...): R or its derivative is not finite at the start; give a smooth R.")
        product = np.abs(unit(R) @ unit(B.T).T)
        if product.max(initial=0.0) > 1e-8:
            i, j = np.unravel_index(int(product.argmax()), product.shape)
            raise OptionError(
                f"EssentialODE(R=...): R B is not zero at the start: row {i} of R times column {j} of B = M^-1 G^T is "
                f"{product[i, j]:.2g} (both of length 1). Give R with R B = 0, or use StateSpace()."
            )
        s = np.linalg.svd(np.vstack([unit(R), unit(C)]), compute_uv=False)
        if not s[-1] > 1e-8 * s[0]:
            raise OptionError(
                "EssentialODE(R=...): [R; G] is singular at the start, so that u = R x does not fix the state. Give R "
                "independent rows."
            )
        q, v = at("q"), at("v")
        if not system.nq:
            return {"u": R @ v, "acc": at("a")}
        return {"u": R @ q, "u_dot": R @ v + R1 @ q, "acc": at("a")}

    def acceleration(self, x: Mapping[str, ca.SX], x_dot: Mapping[str, ca.SX]) -> ca.SX:
        return x["acc"]

    def kinematics(
        self, env: Environment, point: Point, x: Mapping[str, ca.SX], x_dot: Mapping[str, ca.SX]
    ) -> list[Equation]:
        R, R1, R2 = self._matrix(env, point.variables.t)
        a = x["acc"]
        if not env.system.nq:
            return [
                Equation("coordinates", x["u"] - R @ x["v"]),
                Equation("essential ODE", x_dot["u"] - R @ a - R1 @ x["v"], row=-1),
            ]
        q, v = x["q"], x["v"]
        return [
            Equation("coordinates", x["u"] - R @ q, row=1),
            Equation("velocities", x["u_dot"] - R @ v - R1 @ q),
            Equation("essential kinematics", x_dot["u"] - x["u_dot"]),
            Equation("essential ODE", x_dot["u_dot"] - R @ a - 2 * R1 @ v - R2 @ q, row=-1),
            Equation("constraints", point.g, row=1),
        ]

    def constraint_equations(self, point: Point) -> list[Equation]:
        return [
            Equation("constraints'", point.g_dot),
            Equation("velocity constraints", point.k),
            Equation("constraints''", point.g_ddot, row=-1),
            Equation("velocity constraints'", point.k_dot, row=-1),
        ]
