"""R^n: positions are added."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import casadi as ca
import numpy as np

from dalembert.spaces.group import Group
from dalembert.spaces.space import Array, Space
from dalembert.status import ModelError


@dataclass(frozen=True)
class Euclidean(Group):
    """R^n.

    Parameters
    ----------
    names
        Names of the coordinates, or their number: then an element has the one part ``x`` (n,), else one part for each
        name.

    Examples
    --------
    >>> Euclidean(("x", "y")).nq
    2
    >>> Euclidean(3).names
    ('x[0]', 'x[1]', 'x[2]')
    """

    names: Any
    _vector: bool = field(init=False, repr=False)

    def __post_init__(self) -> None:
        given = self.names
        vector = isinstance(given, int)
        names = as_names("Euclidean", given, "")
        if vector:
            names = tuple(f"x[{i}]" for i in range(len(names)))
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "_vector", vector)

    @property
    def nq(self) -> int:
        return len(self.names)

    @property
    def nv(self) -> int:
        return len(self.names)

    @property
    def flat(self) -> bool:
        return True

    @property
    def part_names(self) -> tuple[str, ...]:
        return ("x",) if self._vector else tuple(self.names)

    def _part(self, q: Any, name: str) -> Any:
        return q if self._vector else q[..., self.names.index(name)][()]

    def element(self, q: Any) -> Any:
        """The array itself."""
        return q

    def flatten(self, value: Any, label: str = "q0") -> Any:
        return value

    # symbols of large systems take the direct way
    def move(self, q: Array, d: Array) -> Array:
        return q + d if isinstance(q, ca.SX) else super().move(q, d)

    def difference(self, q0: Array, q1: Array) -> Array:
        return q1 - q0 if isinstance(q0, ca.SX) else super().difference(q0, q1)

    def rate(self, q: Array, v: Array) -> Array:
        return v if isinstance(v, ca.SX) else super().rate(q, v)

    def _compose(self, a: Any, b: Any) -> Any:
        return a + b

    def _inverse(self, q: Any) -> Any:
        return -q

    def _exp(self, v: Any) -> Any:
        return v

    def _log(self, q: Any) -> Any:
        return q

    def _tangent(self, v: Any) -> Any:
        return np.broadcast_to(np.eye(self.nv), (*v.shape, self.nv))

    _tangent_inverse = _tangent

    def _Ad(self, q: Any) -> Any:
        return self._tangent(q)

    def _ad(self, v: Any) -> Any:
        return np.zeros((*v.shape, self.nv))

    def _rate(self, q: Any, v: Any) -> Any:
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
    if isinstance(q, type) and issubclass(q, Space):
        raise ModelError(f"q={q.__name__} is a class; write q={q.__name__}().")
    return q if isinstance(q, Space) else Euclidean(as_names("q", q, "q"))
