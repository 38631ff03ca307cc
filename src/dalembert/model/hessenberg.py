"""The model DAE of theory: x^(m) = f(t, x, ..., y), 0 = g(t, x), of order m = 1 or 2.

[AP93] U. Ascher, L. Petzold, Stability of computational methods for constrained dynamics systems (1993), (1.1).

Order 2 is a mechanical system with unit mass in which y enters through f: index 3. Order 1 has no positions: x takes
the place of the velocities and g that of the velocity constraints: index 2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import casadi as ca
import numpy as np

from dalembert.model.system import ModelFunction, System
from dalembert.spaces import Euclidean, Space, as_names
from dalembert.status import ModelError


class _Velocities(Space):
    """No positions, n velocities: the state space of a first-order system."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names

    @property
    def nq(self) -> int:
        return 0

    @property
    def nv(self) -> int:
        return len(self.names)

    @property
    def flat(self) -> bool:
        return True

    def move(self, q: ca.SX, d: ca.SX) -> ca.SX:
        return q

    def difference(self, q0: ca.SX, q1: ca.SX) -> ca.SX:
        return ca.SX.zeros(self.nv, 1)

    def rate(self, q: ca.SX, v: ca.SX) -> ca.SX:
        return q


class Hessenberg(System):
    """x^(m) = f(t, x, ..., y), 0 = g(t, x).

    Parameters
    ----------
    order
        1 or 2.
    x
        Names of the states, or their number.
    f
        Right-hand side (n,): asks for any of ``t, x, y, p``, for order 2 also ``v`` (the velocity x').
    g
        Constraints: ask for ``t, x, p``. There must be as many as components of y; G f_y must be regular.
    parameters, name
        As for `System`.

    The solution of `solve` has x in ``sol.q`` and x' in ``sol.v`` for order 2, x in ``sol.v`` for order 1; y is
    ``sol.lam`` for order 2, ``sol.mu`` for order 1. The initial x is given as ``q0``.

    Examples
    --------
    >>> import dalembert as da
    >>> da.Hessenberg(order=1, x=2, f=lambda x, y: [x[1] - y[0], -x[0]], g=lambda t, x: [x[0] - 1.0])
    Hessenberg(q=[x0, x1], velocity_constraints=[k0])
    """

    _ALIASES: ClassVar[dict[int, Mapping[str, str]]] = {
        1: {"t": "t", "x": "v", "y": "mu", "p": "p"},
        2: {"t": "t", "x": "q", "v": "v", "y": "lam", "p": "p"},
    }

    def __init__(
        self,
        order: int,
        x: int | Sequence[str],
        f: ModelFunction,
        g: ModelFunction,
        *,
        parameters: Mapping[str, Any] | None = None,
        name: str = "system",
    ) -> None:
        if order not in (1, 2):
            raise ModelError(f"order={order!r}: Hessenberg systems of order 1 and 2 are supported.")
        self.order = order
        self.aliases = self._ALIASES[order]
        names = as_names("x", x, "x")
        mass = np.ones(len(names))
        if order == 1:
            super().__init__(_Velocities(names), mass, f, velocity_constraints=g, parameters=parameters, name=name)
        else:
            super().__init__(Euclidean(names), mass, f, constraints=g, parameters=parameters, name=name)
        self._constraint_force = ca.SX.zeros(self.nv, 1)

    @property
    def reaction(self) -> ca.SX:
        """The multipliers act through f; there is no force besides."""
        return ca.SX.zeros(self.nv, 1)

    @property
    def velocity_names(self) -> tuple[str, ...]:
        """x itself for order 1, x' for order 2."""
        return self.space.names if self.order == 1 else super().velocity_names

    def initial_values(self, q0: Any, v0: Any, r0: Any = None, w0: Any = None, s0: Any = None) -> dict[str, Any]:
        if self.order == 2:
            return super().initial_values(q0, v0, r0, w0, s0)
        if v0 is not None:
            raise ModelError("v0 is given, but a system of order 1 has no velocities; x is set by q0.")
        return {"v": q0, "r": r0, "w": w0, "s": s0}
