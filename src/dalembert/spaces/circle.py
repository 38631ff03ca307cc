"""S^1 with the angle as its stored number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dalembert.spaces.euclidean import as_names
from dalembert.spaces.group import Group


@dataclass(frozen=True)
class Circle(Group):
    """The circle: an angle, modulo 2 pi.

    The angle is stored as it comes and not wrapped: it grows by 2 pi with every turn, so that trajectories are smooth
    and can be interpolated. Angles that differ by turns are the same element: `log` and `difference` are in
    [-pi, pi), the shortest way; `project` wraps. Use `SO2` where turns must not cost digits.

    Examples
    --------
    >>> float(Circle().difference([0.1], [0.1 + 2 * np.pi + 0.5])[0])
    0.5
    """

    name: str = "angle"

    nq: ClassVar[int] = 1
    nv: ClassVar[int] = 1

    def __post_init__(self) -> None:
        as_names("Circle", [self.name], "")

    @property
    def names(self) -> tuple[str, ...]:  # type: ignore[override]
        return (self.name,)

    @property
    def flat(self) -> bool:
        return True

    @property
    def part_names(self) -> tuple[str, ...]:
        return (self.name,)

    def _part(self, q: Any, name: str) -> Any:
        return q[..., 0][()]

    def _compose(self, a: Any, b: Any) -> Any:
        return a + b

    def _inverse(self, q: Any) -> Any:
        return -q

    def _exp(self, v: Any) -> Any:
        return v

    def _log(self, q: Any) -> Any:
        return q - 2.0 * np.pi * np.floor((q + np.pi) / (2.0 * np.pi))

    _project = _log

    def _tangent(self, v: Any) -> Any:
        return np.ones((*v.shape, 1))

    _tangent_inverse = _tangent

    def _Ad(self, q: Any) -> Any:
        return self._tangent(q)

    def _ad(self, v: Any) -> Any:
        return np.zeros((*v.shape, 1))

    def _rate(self, q: Any, v: Any) -> Any:
        return v
