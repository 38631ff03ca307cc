"""SO(3): rotation matrices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dalembert.spaces import rotation as rot
from dalembert.spaces.group import Group
from dalembert.spaces.space import Check
from dalembert.status import OptionError

NAMES = tuple(f"R[{i},{j}]" for i in range(3) for j in range(3))


def rotation_check(R: np.ndarray) -> Check:
    """Residual of R^T R = I and det R = 1."""
    residual = float(np.abs(rot.transpose(R) @ R - rot.EYE).max())
    (a, b, c), (d, e, f), (g, h, i) = R.tolist()
    if not residual < 1.0 or a * (e * i - f * h) + b * (f * g - d * i) + c * (d * h - e * g) > 0.0:
        return Check(residual, f"R is not a rotation: |R^T R - I| = {residual:.3g}" if residual else "")
    return Check(2.0, "R is not a rotation: its determinant is negative (a reflection)")


def nearest_rotation(R: Any) -> Any:
    """Polar factor; refuses numbers that have none."""
    if R.dtype != object and not np.all(rot.determinant(R) > 0.0):
        raise OptionError("R has no nearest rotation: its determinant is not positive.")
    return rot.polar(R)


@dataclass(frozen=True)
class SO3(Group):
    """Rotations of space, stored as the matrix R row by row; v is the angular velocity in the body frame, R' = R v~.

    Part: ``R`` (3, 3), which takes body coordinates to inertial ones. `log` gives the rotation vector, |v| <= pi.

    Examples
    --------
    >>> G = SO3()
    >>> G.log(G.exp([0.1, 0.2, 0.3]))
    array([0.1, 0.2, 0.3])
    """

    nq: ClassVar[int] = 9
    nv: ClassVar[int] = 3
    names = NAMES
    velocity_names: ClassVar[tuple[str, ...]] = ("Omega[0]", "Omega[1]", "Omega[2]")
    part_names: ClassVar[tuple[str, ...]] = ("R",)

    @property
    def identity(self) -> np.ndarray:
        return np.eye(3).ravel()

    def _part(self, q: Any, name: str) -> Any:
        return rot.unflatten(q)

    def _store(self, array: np.ndarray) -> Any:
        return array.ravel() if array.shape == (3, 3) else None

    def _compose(self, a: Any, b: Any) -> Any:
        return rot.flatten(rot.unflatten(a) @ rot.unflatten(b))

    def _inverse(self, q: Any) -> Any:
        return rot.flatten(rot.transpose(rot.unflatten(q)))

    def _exp(self, v: Any) -> Any:
        return rot.flatten(rot.exponential(v))

    def _log(self, q: Any) -> Any:
        return rot.logarithm(rot.unflatten(q))

    def _tangent(self, v: Any) -> Any:
        return rot.tangent(v)

    def _tangent_inverse(self, v: Any) -> Any:
        return rot.tangent_inverse(v)

    def _Ad(self, q: Any) -> Any:
        return rot.unflatten(q)

    def _ad(self, v: Any) -> Any:
        return rot.skew(v)

    def _hat(self, v: Any) -> Any:
        return rot.skew(v)

    def _vee(self, V: Any) -> Any:
        return rot.unskew(V)

    def _rate(self, q: Any, v: Any) -> Any:
        return rot.flatten(rot.unflatten(q) @ rot.skew(v))

    def _retract(self, q: Any, d: Any) -> Any:
        return rot.flatten(rot.unflatten(q) @ rot.cayley(d))

    def _equations(self, q: Any) -> Any:
        return rot.orthogonality(rot.unflatten(q))

    def _defects(self, q: Any) -> Any:
        return rot.defects(rot.unflatten(q))

    def _correct(self, q: Any) -> Any:
        return rot.flatten(rot.correction(rot.unflatten(q)))

    def _project(self, q: Any) -> Any:
        return rot.flatten(nearest_rotation(rot.unflatten(q)))

    def _check(self, q: np.ndarray) -> Check:
        return rotation_check(rot.unflatten(q))
