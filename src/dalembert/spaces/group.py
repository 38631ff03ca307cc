"""What a configuration space that is a Lie group offers.

[ACB15] M. Arnold, A. Cardona, O. Bruels, Order reduction in time integration caused by velocity projection, J. Mech.
        Sci. Technol. 29 (2015): Lie group setting, q' = q v~.
[BCA12] O. Bruels, A. Cardona, M. Arnold, Lie group generalized-alpha time integration of constrained flexible
        multibody systems, Mechanism and Machine Theory 48 (2012) 121-137: the operators on SE(3).
[SDA18] J. Sola, J. Deray, D. Atchuthan, A micro Lie theory for state estimation in robotics, arXiv:1812.01537.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import casadi as ca
import numpy as np

from dalembert.spaces.arrays import array, call, numbers, sized
from dalembert.spaces.space import Array, Check, Space
from dalembert.status import ModelError, OptionError
from dalembert.tracing import matrix, to_sx

if TYPE_CHECKING:
    from dalembert.spaces.product import Product


class MissingPart(ModelError, AttributeError):
    """A model function asks for a part that an element does not have."""


class Element:
    """An element of a group with readable parts: ``q.x``, ``q.R``; ``q[i]`` and ``q.flat`` are the stored numbers."""

    __slots__ = ("flat", "space")

    def __init__(self, space: Group, flat: Any) -> None:
        self.space = space
        self.flat = flat

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self.space.part(self.flat, name)

    def __getitem__(self, index: Any) -> Any:
        return self.flat[index]

    def __len__(self) -> int:
        return len(self.flat)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.flat)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.flat, dtype=dtype)

    def __repr__(self) -> str:
        return f"Element({', '.join(self.space.part_names)})"


class Group(Space):
    """A configuration space that is a Lie group.

    All operations take and return numbers (..., n) or symbols, see `Array`.

    Examples
    --------
    >>> from dalembert import spaces
    >>> G = spaces.SO3()
    >>> q = G.move(G.identity, [0.0, 0.0, np.pi / 2])
    >>> G.element(q).R @ [1.0, 0.0, 0.0]
    array([0., 1., 0.])
    """

    # ------------------------------------------------------------------ what a group defines
    @property
    @abstractmethod
    def part_names(self) -> tuple[str, ...]:
        """Names of the readable parts of an element."""

    @abstractmethod
    def _part(self, q: Any, name: str) -> Any: ...

    @abstractmethod
    def _compose(self, a: Any, b: Any) -> Any: ...

    @abstractmethod
    def _inverse(self, q: Any) -> Any: ...

    @abstractmethod
    def _exp(self, v: Any) -> Any: ...

    @abstractmethod
    def _log(self, q: Any) -> Any: ...

    @abstractmethod
    def _tangent(self, v: Any) -> Any: ...

    @abstractmethod
    def _tangent_inverse(self, v: Any) -> Any: ...

    @abstractmethod
    def _Ad(self, q: Any) -> Any: ...

    @abstractmethod
    def _ad(self, v: Any) -> Any: ...

    @abstractmethod
    def _rate(self, q: Any, v: Any) -> Any: ...

    def _equations(self, q: Any) -> Any:
        return q[..., :0]

    def _defects(self, q: Any) -> Any:
        return self._equations(q)

    def _correct(self, q: Any) -> Any:
        """Remove a deviation from the group that is of the size of rounding errors."""
        return q

    def _project(self, q: Any) -> Any:
        return q

    def _check(self, q: np.ndarray) -> Check:
        return Check(0.0, "")

    def _hat(self, v: Any) -> Any:
        raise OptionError(f"{self} has no matrix form; hat and vee are for SO2, SO3, SE2, SE3 and UnitQuaternions.")

    def _vee(self, V: Any) -> Any:
        return self._hat(V)

    # ------------------------------------------------------------------ what it offers
    def compose(self, a: Array, b: Array) -> Array:
        """Product a b of two elements."""
        return call(self._compose, (a, self.nq, "a"), (b, self.nq, "b"))

    def inverse(self, q: Array) -> Array:
        """q^-1."""
        return call(self._inverse, (q, self.nq, "q"))

    def exp(self, v: Array) -> Array:
        """Element reached from the identity after unit time with the constant velocity ``v``."""
        return call(self._exp, (v, self.nv, "v"))

    def log(self, q: Array) -> Array:
        """The smallest ``v`` with exp(v) = q."""
        return call(self._log, (q, self.nq, "q"))

    def tangent(self, v: Array) -> Array:
        """T(v) = dexp_{-v} (nv, nv): d/dt exp(v(t)) = exp(v) (T(v) v')~."""
        return call(self._tangent, (v, self.nv, "v"))

    def tangent_inverse(self, v: Array) -> Array:
        """T(v)^-1 (nv, nv)."""
        return call(self._tangent_inverse, (v, self.nv, "v"))

    def Ad(self, q: Array) -> Array:
        """Ad_q (nv, nv): q exp(v) q^-1 = exp(Ad_q v)."""
        return call(self._Ad, (q, self.nq, "q"))

    def ad(self, v: Array) -> Array:
        """ad_v (nv, nv): ad_v w = [v, w]."""
        return call(self._ad, (v, self.nv, "v"))

    def hat(self, v: Array) -> Array:
        """v~, the matrix of the Lie algebra that belongs to ``v``."""
        return call(self._hat, (v, self.nv, "v"))

    def vee(self, V: Array) -> Array:
        """The vector v of a matrix v~ (..., n, n)."""
        if isinstance(V, ca.SX):
            return to_sx(self._vee(matrix(V)))
        return self._vee(array(V))

    def move(self, q: Array, d: Array) -> Array:
        """q exp(d), put back onto the group to rounding: any number of moves stays there.

        Products alone leave it by about 1e-16 a move and, for a constant velocity, always to the same side: 4e-10 after
        10^7 moves on SO(3). One Newton step for the nearest element keeps the deviation at 2e-16.
        """
        return call(self._move, (q, self.nq, "q"), (d, self.nv, "d"))

    def retract(self, q: Array, d: Array) -> Array:
        """An element that is q exp(d) to first order in ``d``, without sines: for corrections."""
        return call(self._retract, (q, self.nq, "q"), (d, self.nv, "d"))

    def difference(self, q0: Array, q1: Array) -> Array:
        """log(q0^-1 q1)."""
        return call(
            lambda a, b: self._log(self._compose(self._inverse(a), b)), (q0, self.nq, "q0"), (q1, self.nq, "q1")
        )

    def rate(self, q: Array, v: Array) -> Array:
        """Derivative (nq,) of the stored numbers for q' = q v~."""
        return call(self._rate, (q, self.nq, "q"), (v, self.nv, "v"))

    def equations(self, q: Array) -> Array:
        """nq - nv expressions that vanish on the group."""
        return call(self._equations, (q, self.nq, "q"))

    def defects(self, q: Array) -> Array:
        """Expressions that vanish for elements and for nothing else (`equations` vanish for reflections, too)."""
        return call(self._defects, (q, self.nq, "q"))

    def correct(self, q: Array) -> Array:
        """One step of Newton's method from numbers ``q`` close to the group towards the element nearest to them."""
        return call(self._correct, (q, self.nq, "q"))

    def project(self, q: Array) -> Array:
        """The element nearest to the stored numbers ``q``."""
        return call(self._project, (q, self.nq, "q"))

    def check(self, q: Any) -> Check:
        """How far the numbers ``q`` (nq,) are from being an element, and what is wrong with them in words."""
        return self._check(sized(array(q), self.nq, "q"))

    def part(self, q: Any, name: str) -> Any:
        """One readable part of the element stored as the array ``q`` (..., nq)."""
        if name not in self.part_names:
            raise MissingPart(f"an element of {self} has no part {name!r}; it has {', '.join(self.part_names)}.")
        return self._part(q, name)

    def parts(self, q: Array) -> dict[str, Array]:
        """The readable parts of an element by name."""

        def read(name: str) -> Array:
            return call(lambda x: self.part(x, name), (q, self.nq, "q"))

        return {name: read(name) for name in self.part_names}

    def element(self, q: Any) -> Any:
        """The element stored as the array ``q`` (..., nq), with readable parts."""
        return Element(self, array(q))

    def flatten(self, value: Any, label: str = "q0") -> Any:
        """Stored numbers from flat ones, from an element, from the parts in order or from a dict of parts."""
        if isinstance(value, Element):
            return value.flat
        if isinstance(value, Mapping):
            return self._from_parts(dict(value), label)
        try:
            x = np.asarray(value, dtype=float)
        except (TypeError, ValueError):  # parts of different shapes
            x = None
        if x is not None and x.shape == (self.nq,):
            return x
        if x is not None and x.ndim > 1:
            flat = self._store(x)
            if flat is not None:
                return flat
        return self._from_sequence(list(value), value, label) if isinstance(value, (list, tuple)) else value

    def _from_sequence(self, parts: list[Any], value: Any, label: str) -> Any:
        return value

    def _from_parts(self, parts: dict[str, Any], label: str) -> Any:
        """Stored numbers from a dict of parts; of a group with one part, that part."""
        if len(parts) == 1:
            (name, value), *_ = parts.items()
            if name in self.part_names:
                x = np.atleast_1d(numbers(f"{label}[{name!r}]", value))
                flat = x if x.shape == (self.nq,) else self._store(x)
                if flat is not None:
                    return flat
                raise OptionError(f"{label}[{name!r}] has shape {x.shape}; it does not describe {self}.")
        raise OptionError(
            f"{label} has the parts {', '.join(map(repr, parts))}; {self} is given by {' or '.join(self.part_names)}."
        )

    def _store(self, array: np.ndarray) -> Any:
        """Stored numbers from a matrix form, None if it is none."""
        return None

    def _difference(self, q0: Any, q1: Any) -> Any:
        return self._log(self._compose(self._inverse(q0), q1))

    def _move(self, q: Any, d: Any) -> Any:
        return self._correct(self._compose(q, self._exp(d)))

    def _retract(self, q: Any, d: Any) -> Any:
        return self._move(q, d)

    def __mul__(self, other: Any) -> Product:
        from dalembert.spaces.product import Product

        if not isinstance(other, Group):
            return NotImplemented
        return Product(self, other)
