"""What a configuration space offers, and how one code serves numbers and symbols.

[ACB15] M. Arnold, A. Cardona, O. Bruels (2015): Lie group setting, q' = q v~, tangent operator.
[BCA12] O. Bruels, A. Cardona, M. Arnold, Lie group generalized-alpha time integration of constrained flexible
        multibody systems, Mechanism and Machine Theory 48 (2012) 121-137: the operators on SE(3).
[SDA18] J. Sola, J. Deray, D. Atchuthan, A micro Lie theory for state estimation in robotics, arXiv:1812.01537.

A group writes its formulas once, as plain NumPy on the last axes (methods with a leading underscore). Numbers pass
through as they are; symbols become an array of `tracing.Sym` on the way in and CasADi expressions on the way out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import casadi as ca
import numpy as np

from dalembert.status import ModelError, OptionError
from dalembert.tracing import SymArray, to_sx, vector

if TYPE_CHECKING:
    from dalembert.spaces.product import Product

Array = Any  # numbers (..., n), an array of Sym (n,), or a CasADi column (n, 1); results are of the same kind


class Check(NamedTuple):
    """How far stored numbers are from being an element, and what is wrong with them in words."""

    residual: float
    message: str


class MissingPart(ModelError, AttributeError):
    """A model function asks for a part that an element does not have."""


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
    def part_names(self) -> tuple[str, ...]:
        """Names of the readable parts of an element."""
        raise NotImplementedError

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
        return _on(self._compose, (a, self.nq, "a"), (b, self.nq, "b"))

    def inverse(self, q: Array) -> Array:
        """q^-1."""
        return _on(self._inverse, (q, self.nq, "q"))

    def exp(self, v: Array) -> Array:
        """Element reached from the identity after unit time with the constant velocity ``v``."""
        return _on(self._exp, (v, self.nv, "v"))

    def log(self, q: Array) -> Array:
        """The smallest ``v`` with exp(v) = q."""
        return _on(self._log, (q, self.nq, "q"))

    def tangent(self, v: Array) -> Array:
        """T(v) = dexp_{-v} (nv, nv): d/dt exp(v(t)) = exp(v) (T(v) v')~."""
        return _on(self._tangent, (v, self.nv, "v"))

    def tangent_inverse(self, v: Array) -> Array:
        """T(v)^-1 (nv, nv)."""
        return _on(self._tangent_inverse, (v, self.nv, "v"))

    def Ad(self, q: Array) -> Array:
        """Ad_q (nv, nv): q exp(v) q^-1 = exp(Ad_q v)."""
        return _on(self._Ad, (q, self.nq, "q"))

    def ad(self, v: Array) -> Array:
        """ad_v (nv, nv): ad_v w = [v, w]."""
        return _on(self._ad, (v, self.nv, "v"))

    def hat(self, v: Array) -> Array:
        """v~, the matrix of the Lie algebra that belongs to ``v``."""
        return _on(self._hat, (v, self.nv, "v"))

    def vee(self, V: Array) -> Array:
        """The vector v of a matrix v~ (..., n, n)."""
        if isinstance(V, ca.SX):
            from dalembert.tracing import matrix

            return to_sx(self._vee(matrix(V)))
        return self._vee(_array(V))

    def move(self, q: Array, d: Array) -> Array:
        """q exp(d), put back onto the group to rounding: any number of moves stays there."""
        return _on(self._move, (q, self.nq, "q"), (d, self.nv, "d"))

    def difference(self, q0: Array, q1: Array) -> Array:
        """log(q0^-1 q1)."""
        return _on(lambda a, b: self._log(self._compose(self._inverse(a), b)), (q0, self.nq, "q0"), (q1, self.nq, "q1"))

    def rate(self, q: Array, v: Array) -> Array:
        """Derivative (nq,) of the stored numbers for q' = q v~."""
        return _on(self._rate, (q, self.nq, "q"), (v, self.nv, "v"))

    def equations(self, q: Array) -> Array:
        """nq - nv expressions that vanish on the group."""
        return _on(self._equations, (q, self.nq, "q"))

    def project(self, q: Array) -> Array:
        """The element nearest to the stored numbers ``q``."""
        return _on(self._project, (q, self.nq, "q"))

    def check(self, q: Any) -> Check:
        """How far the numbers ``q`` (nq,) are from being an element, and what is wrong with them in words."""
        return self._check(_sized(_array(q), self.nq, "q"))

    def part(self, q: Any, name: str) -> Any:
        """One readable part of the element stored as the array ``q`` (..., nq)."""
        if name not in self.part_names:
            raise MissingPart(f"an element of {self} has no part {name!r}; it has {', '.join(self.part_names)}.")
        return self._part(q, name)

    def parts(self, q: Array) -> dict[str, Array]:
        """The readable parts of an element by name."""

        def read(name: str) -> Array:
            return _on(lambda x: self.part(x, name), (q, self.nq, "q"))

        return {name: read(name) for name in self.part_names}

    def element(self, q: Any) -> Any:
        """The element stored as the array ``q`` (..., nq), with readable parts."""
        return Element(self, _array(q))

    def flatten(self, value: Any, label: str = "q0") -> Any:
        """Stored numbers from flat ones, from an element, from the parts in order or from a dict of parts."""
        if isinstance(value, Element):
            return value.flat
        if isinstance(value, Mapping):
            return self._from_parts(dict(value), label)
        names = self.part_names
        try:
            array = np.asarray(value, dtype=float)
        except (TypeError, ValueError):  # parts of different shapes
            array = None
        if array is not None and (array.shape == (self.nq,) or not names):
            return array
        if array is not None and array.ndim != 1:
            flat = self._store(array)
            if flat is not None:
                return flat
        try:
            parts = list(value)
        except TypeError:
            return value
        return self._from_sequence(parts, value, label)

    def _from_sequence(self, parts: list[Any], value: Any, label: str) -> Any:
        return value

    def _from_parts(self, parts: dict[str, Any], label: str) -> Any:
        """Stored numbers from a dict of parts; of a group with one part, that part."""
        if len(parts) == 1:
            (name, value), *_ = parts.items()
            if name in self.part_names:
                array = numbers(f"{label}[{name!r}]", value)
                flat = array if array.shape == (self.nq,) else self._store(array)
                if flat is not None:
                    return flat
                raise OptionError(f"{label}[{name!r}] has shape {array.shape}; it does not describe {self}.")
        raise OptionError(
            f"{label} has the parts {', '.join(map(repr, parts))}; {self} is given by {' or '.join(self.part_names)}."
        )

    def _store(self, array: np.ndarray) -> Any:
        """Stored numbers from a matrix form, None if it is none."""
        return None

    def _move(self, q: Any, d: Any) -> Any:
        return self._correct(self._compose(q, self._exp(d)))

    def __mul__(self, other: Any) -> Product:
        from dalembert.spaces.product import Product

        if not isinstance(other, Group):
            return NotImplemented
        return Product(self, other)


def _on(function: Callable[..., Any], *arguments: tuple[Any, int, str]) -> Any:
    """Call a formula with arrays of the right length; CasADi in, CasADi out."""
    symbolic = any(isinstance(x, ca.SX) for x, _, _ in arguments)
    out = function(*[_sized(_array(x), n, name) for x, n, name in arguments])
    return to_sx(out) if symbolic else out


def _array(x: Any) -> Any:
    if isinstance(x, Element):
        return x.flat
    if isinstance(x, ca.SX):
        return vector(ca.densify(x))
    if isinstance(x, ca.DM):
        return np.asarray(x.full()).ravel()
    if isinstance(x, SymArray):
        return x
    array = np.asarray(x)
    return array.view(SymArray) if array.dtype == object else array.astype(float, copy=False)


def _sized(x: Any, n: int, name: str) -> Any:
    if x.ndim == 0 and n == 1:
        return x[None]
    if x.ndim == 0 or x.shape[-1] != n:
        raise OptionError(f"{name} has shape {x.shape}: its last axis must have {n} numbers.")
    return x


def numbers(label: str, value: Any) -> np.ndarray:
    """An array of numbers, refused by name if it is none."""
    try:
        return np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise OptionError(f"{label}={value!r} is not an array of numbers.") from None
