"""Unit quaternions: the double cover of SO(3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dalembert.spaces import rotation as rot
from dalembert.spaces.group import Group
from dalembert.spaces.so3 import rotation_check
from dalembert.spaces.space import Check
from dalembert.spaces.stumpff import stumpff
from dalembert.status import OptionError

_CONJUGATE = np.array([1.0, -1.0, -1.0, -1.0])


def times(a: Any, b: Any) -> Any:
    """Hamilton's product of quaternions (..., 4), scalar part first."""
    a0, b0, av, bv = a[..., :1], b[..., :1], a[..., 1:], b[..., 1:]
    cross = rot.apply(rot.skew(av), bv)
    return np.concatenate([a0 * b0 - rot.dot(av, bv), a0 * bv + b0 * av + cross], axis=-1)


def rotation_matrix(p: Any) -> Any:
    """R = I + 2 p0 p~ + 2 p~^2 for a unit quaternion."""
    W = rot.skew(p[..., 1:])
    return rot.EYE + 2.0 * p[..., :1, None] * W + 2.0 * (W @ W)


@dataclass(frozen=True)
class UnitQuaternions(Group):
    """Rotations of space as unit quaternions p = (p0, p1, p2, p3); v is the angular velocity in the body frame.

    Parts: ``p`` (4,), ``R`` (3, 3). p' = p (0, v) / 2, so that velocities, T and ad are those of `SO3`. p and -p are
    the same rotation but two elements: `log` tells them apart, |v| <= 2 pi.

    Examples
    --------
    >>> G = UnitQuaternions()
    >>> G.log(G.exp([0.1, 0.2, 0.3]))
    array([0.1, 0.2, 0.3])
    """

    nq: ClassVar[int] = 4
    nv: ClassVar[int] = 3
    names = ("p[0]", "p[1]", "p[2]", "p[3]")
    velocity_names: ClassVar[tuple[str, ...]] = ("Omega[0]", "Omega[1]", "Omega[2]")
    part_names: ClassVar[tuple[str, ...]] = ("p", "R")

    @property
    def identity(self) -> np.ndarray:
        return np.array([1.0, 0.0, 0.0, 0.0])

    def _part(self, q: Any, name: str) -> Any:
        return q if name == "p" else rotation_matrix(q)

    def _store(self, array: np.ndarray) -> Any:
        """The quaternion with p0 >= 0 of a rotation matrix."""
        if array.shape != (3, 3):
            return None
        check = rotation_check(array)
        if not check.residual < 1e-8:
            raise OptionError(f"{check.message}.")
        p = rot.quaternion_column(array)
        return p / np.linalg.norm(p)

    def _compose(self, a: Any, b: Any) -> Any:
        return times(a, b)

    def _inverse(self, q: Any) -> Any:
        return q * _CONJUGATE

    def _exp(self, v: Any) -> Any:
        c0, c1, _ = stumpff(rot.dot(v, v) / 4.0, 2)
        return np.concatenate([c0, 0.5 * c1 * v], axis=-1)

    def _log(self, q: Any) -> Any:
        return rot.quaternion_logarithm(q)

    def _tangent(self, v: Any) -> Any:
        return rot.tangent(v)

    def _tangent_inverse(self, v: Any) -> Any:
        return rot.tangent_inverse(v)

    def _Ad(self, q: Any) -> Any:
        return rotation_matrix(q)

    def _ad(self, v: Any) -> Any:
        return rot.skew(v)

    def _hat(self, v: Any) -> Any:
        """The matrix of w -> w (0, v) / 2."""
        half = 0.5 * v
        zero = 0.0 * half[..., :1]
        top = np.concatenate([zero, -half], axis=-1)[..., None, :]
        return np.concatenate([top, np.concatenate([half[..., None], -rot.skew(half)], axis=-1)], axis=-2)

    def _vee(self, V: Any) -> Any:
        return 2.0 * V[..., 1:, 0]

    def _rate(self, q: Any, v: Any) -> Any:
        p0, p, half = q[..., :1], q[..., 1:], 0.5 * v
        return np.concatenate([-rot.dot(p, half), p0 * half + rot.apply(rot.skew(p), half)], axis=-1)

    def _retract(self, q: Any, d: Any) -> Any:
        p = q + self._rate(q, d)
        return p / np.sqrt(1.0 + 0.25 * rot.dot(d, d))

    def _equations(self, q: Any) -> Any:
        return rot.dot(q, q) - 1.0

    def _correct(self, q: Any) -> Any:
        return 0.5 * q * (3.0 - rot.dot(q, q))

    def _project(self, q: Any) -> Any:
        if q.dtype != object and np.any(rot.dot(q, q) == 0.0):
            raise OptionError("p is zero: a quaternion of length 0 is no rotation, and there is no nearest one.")
        return q / np.sqrt(rot.dot(q, q))

    def _check(self, q: np.ndarray) -> Check:
        residual = float(np.abs(rot.dot(q, q) - 1.0).max())
        return Check(residual, f"p is not a unit quaternion: |p|^2 - 1 = {residual:.3g}" if residual else "")
