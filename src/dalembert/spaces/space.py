"""What every configuration space offers: how positions are stored, moved and compared."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import casadi as ca
import numpy as np

Array = Any  # numbers (..., n), an array of Sym (n,), or a CasADi column (n, 1); results are of the same kind


class Check(NamedTuple):
    """How far stored numbers are from being an element, and what is wrong with them in words."""

    residual: float
    message: str


class Space(ABC):
    """A configuration space: ``nq`` stored numbers with ``names``, ``nv`` directions of motion."""

    names: tuple[str, ...]

    @property
    @abstractmethod
    def nq(self) -> int:
        """How many numbers store a position."""

    @property
    @abstractmethod
    def nv(self) -> int:
        """How many numbers store a velocity."""

    @abstractmethod
    def move(self, q: Array, d: Array) -> Array:
        """Position reached from ``q`` (nq,) along the tangent vector ``d`` (nv,): q exp(d)."""

    @abstractmethod
    def difference(self, q0: Array, q1: Array) -> Array:
        """Tangent vector ``d`` (nv,) with ``move(q0, d) = q1``: log(q0^-1 q1)."""

    @abstractmethod
    def rate(self, q: Array, v: Array) -> Array:
        """Time derivative (nq,) of the stored numbers when the velocity is ``v`` (nv,)."""

    def velocity(self, q: Any, q_dot: Any) -> Any:
        """The velocity (nv,) whose rate is nearest to the derivative ``q_dot`` (nq,) of the stored numbers; symbols.

        Velocities v change stored numbers by B(q) v. The columns of B are orthogonal, with lengths that are the same
        at all elements, so that v = D^-1 B^T q_dot with D = B^T B at the identity.
        """
        if self.flat:
            return q_dot
        v, x = ca.SX.sym("v", self.nv), ca.SX.sym("x", self.nq)
        B = ca.jacobian(ca.SX(self.rate(x, v)), v)
        unit = np.asarray(ca.Function("unit", [x], [B])(self.identity).full())
        there = ca.substitute(B, x, q)
        return (there.T @ q_dot) / ca.SX(np.diag(unit.T @ unit))

    @property
    def unbounded(self) -> np.ndarray:
        """(nq,): True for stored numbers that grow with the distance, as coordinates do; False for rotations."""
        if self.flat:
            return np.ones(self.nq, dtype=bool)
        return np.abs(np.asarray(self.move(self.identity, np.full(self.nv, 1e3)))) > 1.5

    @property
    def measured_by(self) -> np.ndarray:
        """(nv,): for each direction of motion the stored number that it changes most, at the identity."""
        moved = [np.abs(np.asarray(self.rate(self.identity, e))) for e in np.eye(self.nv)]
        return np.array([int(np.argmax(x)) for x in moved], dtype=np.int64)

    @property
    def flat(self) -> bool:
        """True if positions can be added and interpolated number by number."""
        return False

    @property
    def velocity_names(self) -> tuple[str, ...]:
        """Names of the velocity components."""
        return tuple(f"{name}'" for name in self.names)

    @property
    def identity(self) -> np.ndarray:
        """The neutral element (nq,)."""
        return np.zeros(self.nq)

    def element(self, q: Any) -> Any:
        """What a model function receives for the stored numbers ``q`` (nq,): here the array itself."""
        return q

    def flatten(self, value: Any, label: str = "q0") -> Any:
        """Stored numbers of a position given by a user in any of the forms the space knows."""
        return value

    def equations(self, q: Array) -> Array:
        """nq - nv expressions that vanish for stored numbers that are an element."""
        return q[:0]

    def check(self, q: Any) -> Check:
        """Residual of being an element, and a message (empty if there is nothing to say)."""
        return Check(0.0, "")

    def project(self, q: Array) -> Array:
        """The element nearest to the stored numbers ``q``."""
        return q
