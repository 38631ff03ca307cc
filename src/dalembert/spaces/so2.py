"""SO(2): rotations of the plane as unit complex numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dalembert.spaces.group import Group
from dalembert.spaces.rotation import dot
from dalembert.spaces.space import Check
from dalembert.status import OptionError


def times(a: Any, b: Any) -> Any:
    """Product of complex numbers (..., 2)."""
    return np.stack(
        [a[..., 0] * b[..., 0] - a[..., 1] * b[..., 1], a[..., 0] * b[..., 1] + a[..., 1] * b[..., 0]], axis=-1
    )


def quarter(z: Any) -> Any:
    """z turned by a right angle, J z."""
    return np.stack([-z[..., 1], z[..., 0]], axis=-1)


def conjugate(z: Any) -> Any:
    return z * np.array([1.0, -1.0])


def matrix(z: Any) -> Any:
    """The matrix a I + b J of a complex number z = a + i b."""
    return np.stack([z, quarter(z)], axis=-1)


def correction(z: Any) -> Any:
    """One Newton step for z / |z|."""
    return 0.5 * z * (3.0 - dot(z, z))


def normalised(z: Any) -> Any:
    if z.dtype != object and np.any(dot(z, z) == 0.0):
        raise OptionError("z is zero: it has no direction, so that there is no nearest rotation.")
    return z / np.sqrt(dot(z, z))


def unit(z: np.ndarray) -> Check:
    residual = float(np.abs(dot(z, z) - 1.0).max())
    return Check(residual, f"z = (cos, sin) is not of length 1: |z|^2 - 1 = {residual:.3g}" if residual else "")


def from_matrix(R: np.ndarray) -> np.ndarray | None:
    """z of a rotation matrix (2, 2); a matrix that is none gives a z that is not of length 1."""
    if R.shape != (2, 2):
        return None
    if np.abs(R[0] - [R[1, 1], -R[1, 0]]).max() > 1e-8:
        raise OptionError(f"R={R.tolist()} is not a rotation matrix [[cos, -sin], [sin, cos]].")
    return R[:, 0].copy()


@dataclass(frozen=True)
class SO2(Group):
    """Rotations of the plane, stored as z = (cos, sin). Parts: ``z`` (2,), ``R`` (2, 2).

    Examples
    --------
    >>> G = SO2()
    >>> G.log(G.compose(G.exp([0.5]), G.exp([0.25])))
    array([0.75])
    """

    nq: ClassVar[int] = 2
    nv: ClassVar[int] = 1
    names = ("z[0]", "z[1]")
    velocity_names: ClassVar[tuple[str, ...]] = ("omega",)
    part_names: ClassVar[tuple[str, ...]] = ("z", "R")

    @property
    def identity(self) -> np.ndarray:
        return np.array([1.0, 0.0])

    def _part(self, q: Any, name: str) -> Any:
        return q if name == "z" else matrix(q)

    def _store(self, array: np.ndarray) -> Any:
        return from_matrix(array)

    def _compose(self, a: Any, b: Any) -> Any:
        return times(a, b)

    def _inverse(self, q: Any) -> Any:
        return conjugate(q)

    def _exp(self, v: Any) -> Any:
        return np.concatenate([np.cos(v), np.sin(v)], axis=-1)

    def _log(self, q: Any) -> Any:
        return np.arctan2(q[..., 1:], q[..., :1])

    def _tangent(self, v: Any) -> Any:
        return np.ones((*v.shape, 1))

    _tangent_inverse = _tangent

    def _Ad(self, q: Any) -> Any:
        return np.ones((*q.shape[:-1], 1, 1))

    def _ad(self, v: Any) -> Any:
        return np.zeros((*v.shape, 1))

    def _hat(self, v: Any) -> Any:
        return v[..., None] * np.array([[0.0, -1.0], [1.0, 0.0]])

    def _vee(self, V: Any) -> Any:
        return (V[..., 1, :1] - V[..., 0, 1:]) / 2.0

    def _rate(self, q: Any, v: Any) -> Any:
        return v * quarter(q)

    def _equations(self, q: Any) -> Any:
        return dot(q, q) - 1.0

    def _correct(self, q: Any) -> Any:
        return correction(q)

    def _project(self, q: Any) -> Any:
        return normalised(q)

    def _check(self, q: np.ndarray) -> Check:
        return unit(q)
