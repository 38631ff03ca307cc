"""Equations of motion from kinetic and potential energy.

    d/dt (dL/dv) - dL/dq = Q - G^T lam - K^T mu,   L = T(t,q,v) - V(t,q)

so that M = T_vv and f = Q + L_q - (T_v)_q v - (T_v)_t. On a Lie group, with dL/dq along q exp(d) and q' = q v~, the
left side becomes d/dt (dL/dv) - ad_v^T dL/dv - dL/dq (Euler-Poincare equations), which adds ad_v^T T_v to f.

J. E. Marsden, T. S. Ratiu, Introduction to Mechanics and Symmetry, Springer 1999, chapter 13.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import casadi as ca

from dalembert.model.blackbox import argument_names
from dalembert.model.system import ModelFunction, System
from dalembert.spaces import Group, Space
from dalembert.status import ModelError


class Lagrangian(System):
    """A system given by its energies (Euler-Lagrange equations), otherwise like `System`.

    Parameters
    ----------
    q
        Names of the coordinates, their number, or a `dalembert.spaces.Space`.
    kinetic
        T(t, q, v, p), quadratic in v.
    potential
        V(t, q, p).
    force
        Generalised forces that have no potential (friction, actuators), default none.
    constraints, velocity_constraints, parameters, ...
        As for `System`.

    Examples
    --------
    >>> import dalembert as da
    >>> da.Lagrangian(
    ...     q=["x", "y"],
    ...     kinetic=lambda v, p: 0.5 * p.m * (v @ v),
    ...     potential=lambda q, p: p.m * p.g * q[1],
    ...     constraints=lambda q, p: {"rod": q @ q - p.L**2},
    ...     parameters={"m": 1.0, "g": 9.81, "L": 1.0},
    ... )
    Lagrangian(q=[x, y], constraints=[rod], parameters=[m, g, L])
    """

    def __init__(
        self,
        q: int | Sequence[str] | Space,
        kinetic: ModelFunction,
        potential: ModelFunction = None,
        constraints: ModelFunction = None,
        force: ModelFunction = None,
        velocity_constraints: ModelFunction = None,
        constraint_force: ModelFunction = None,
        invariants: ModelFunction = None,
        *,
        parameters: Mapping[str, Any] | None = None,
        name: str = "system",
        **more: Any,
    ) -> None:
        self._kinetic, self._potential = kinetic, potential
        super().__init__(
            q,
            mass=0.0,
            force=force,
            constraints=constraints,
            velocity_constraints=velocity_constraints,
            constraint_force=constraint_force,
            invariants=invariants,
            parameters=parameters,
            name=name,
            **more,
        )
        if self.energy is None:
            self.energy = self._lagrange_energy

    def _mass(self, given: ModelFunction) -> ca.SX:
        """Overrides the mass of `System`; the force follows in `_vector`."""
        x = self._symbols
        T = self._energy("kinetic", self._kinetic, ("t", "q", "v", "p"))
        V = self._energy("potential", self._potential, ("t", "q", "p"))
        self._lagrange_energy = T + V
        momentum = ca.gradient(T, x["v"])
        mass = ca.jacobian(momentum, x["v"])
        if ca.depends_on(mass, x["v"]):
            raise ModelError("kinetic is not quadratic in v: the mass matrix it gives depends on the velocities.")
        rate = self.space.rate(x["q"], x["v"])
        along = ca.jacobian(rate, x["v"])  # how the stored numbers move with v
        self._inertial = (
            along.T @ ca.gradient(T - V, x["q"])
            - ca.jtimes(momentum, x["q"], rate)
            - ca.jtimes(momentum, x["t"], ca.SX(1))
        )
        if isinstance(self.space, Group) and not self.space.flat:
            self._inertial += self.space.ad(x["v"]).T @ momentum
        return ca.sparsify(mass)

    def _vector(self, role: str, given: ModelFunction, n: int, *, second: bool = False) -> ca.SX:
        out = super()._vector(role, given, n, second=second)
        return out + self._inertial if role == "force" else out

    def _energy(self, role: str, given: ModelFunction, allowed: tuple[str, ...]) -> ca.SX:
        if given is None:
            return ca.SX(0)
        if not callable(given):
            raise ModelError(f"{role} must be a function of {', '.join(allowed)}.")
        for a in argument_names(given):
            if a not in allowed:
                raise ModelError(f"{role} asks for {a!r}; the names it can ask for are {', '.join(allowed)}.")
        value = given(**{a: self._argument(a) for a in argument_names(given)})
        out = self._to_sx(role, value)
        if out.numel() != 1:
            raise ModelError(f"{role} returned {out.numel()} numbers, expected one.")
        return out
