"""Configuration spaces: what a position is, and how a velocity moves it.

A space has ``nq`` stored numbers and ``nv`` degrees of motion. All derivatives along the space are taken through
`Space.move`, the curve through q in the direction of a tangent vector, so that nothing else in the package needs to
know whether positions can be added. On a Euclidean space ``move(q, d) = q + d``; on a Lie group it is
``compose(q, exp(d))``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import casadi as ca

from dalembert.status import ModelError


class Space(ABC):
    """A configuration space with named coordinates."""

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
    def move(self, q: ca.SX, d: ca.SX) -> ca.SX:
        """Position reached from ``q`` (nq,) along the tangent vector ``d`` (nv,): compose(q, exp(d))."""

    @abstractmethod
    def difference(self, q1: ca.SX, q0: ca.SX) -> ca.SX:
        """Tangent vector ``d`` (nv,) with ``move(q0, d) = q1``: log(inverse(q0) q1)."""

    @abstractmethod
    def rate(self, q: ca.SX, v: ca.SX) -> ca.SX:
        """Time derivative (nq,) of the stored numbers when the velocity is ``v`` (nv,)."""

    @property
    def flat(self) -> bool:
        """True if positions can be added and interpolated number by number."""
        return False


@dataclass(frozen=True)
class Euclidean(Space):
    """R^n.

    Examples
    --------
    >>> Euclidean(("x", "y")).nq
    2
    """

    names: tuple[str, ...]

    @property
    def nq(self) -> int:
        return len(self.names)

    @property
    def nv(self) -> int:
        return len(self.names)

    @property
    def flat(self) -> bool:
        return True

    def move(self, q: ca.SX, d: ca.SX) -> ca.SX:
        return q + d

    def difference(self, q1: ca.SX, q0: ca.SX) -> ca.SX:
        return q1 - q0

    def rate(self, q: ca.SX, v: ca.SX) -> ca.SX:
        return v


def as_names(what: str, given: int | Sequence[str] | None, prefix: str) -> tuple[str, ...]:
    """Turn a count or a list of names into a tuple of distinct names."""
    if given is None:
        return ()
    if isinstance(given, bool) or (isinstance(given, int) and given < 0):
        raise ModelError(f"{what}={given!r}: give a count >= 0 or a list of names.")
    if isinstance(given, int):
        return tuple(f"{prefix}{i}" for i in range(given))
    if isinstance(given, str):
        given = [given]
    try:
        names = tuple(given)
    except TypeError:
        raise ModelError(f"{what}={given!r}: give a count >= 0 or a list of names.") from None
    if not all(isinstance(n, str) for n in names):
        raise ModelError(f"{what}={given!r}: names must be strings.")
    twice = sorted({n for n in names if names.count(n) > 1})
    if twice:
        raise ModelError(f"{what}: the name {twice[0]!r} is used twice; names must differ.")
    return names


def as_space(q: int | Sequence[str] | Space) -> Space:
    """The space meant by the argument ``q`` of a system."""
    return q if isinstance(q, Space) else Euclidean(as_names("q", q, "q"))
