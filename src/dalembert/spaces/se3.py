"""SE(3): rigid motions of space.

[BCA12] O. Bruels, A. Cardona, M. Arnold, Lie group generalized-alpha time integration of constrained flexible
        multibody systems, Mechanism and Machine Theory 48 (2012) 121-137: operators on SE(3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dalembert.spaces import rotation as rot
from dalembert.spaces import so3
from dalembert.spaces.arrays import numbers
from dalembert.spaces.group import Group
from dalembert.spaces.space import Check
from dalembert.status import OptionError


def _blocks(A: Any, B: Any) -> Any:
    """[[A, B], [0, A]] (..., 6, 6): what every operator on se(3) looks like."""
    bottom = np.concatenate([np.zeros(A.shape), A], axis=-1)
    return np.concatenate([np.concatenate([A, B], axis=-1), bottom], axis=-2)


@dataclass(frozen=True)
class SE3(Group):
    """Rigid motions of space: position x (3,) and rotation matrix R, row by row.

    Parts: ``x`` (3,), ``R`` (3, 3). Velocities v = (u, Omega) are those seen by the body: x' = R u, R' = R Omega~.

    Examples
    --------
    >>> G = SE3()
    >>> q = G.flatten(([1.0, 2.0, 3.0], np.eye(3)))
    >>> G.log(q)
    array([1., 2., 3., 0., 0., 0.])
    """

    nq: ClassVar[int] = 12
    nv: ClassVar[int] = 6
    names = ("x[0]", "x[1]", "x[2]", *so3.NAMES)
    velocity_names: ClassVar[tuple[str, ...]] = ("u[0]", "u[1]", "u[2]", "Omega[0]", "Omega[1]", "Omega[2]")
    part_names: ClassVar[tuple[str, ...]] = ("x", "R")

    @property
    def identity(self) -> np.ndarray:
        return np.concatenate([np.zeros(3), np.eye(3).ravel()])

    def _part(self, q: Any, name: str) -> Any:
        return q[..., :3] if name == "x" else rot.unflatten(q[..., 3:])

    def _from_sequence(self, parts: list[Any], value: Any, label: str) -> Any:
        return self._from_parts(dict(zip(self.part_names, parts, strict=True)), label) if len(parts) == 2 else value

    def _from_parts(self, parts: dict[str, Any], label: str) -> Any:
        if set(parts) != {"x", "R"}:
            raise OptionError(f"{label} has the parts {', '.join(map(repr, parts))}; {self} is given by x and R.")
        x, R = numbers(f"{label}: x", parts["x"]), numbers(f"{label}: R", parts["R"])
        if x.shape != (3,) or R.shape != (3, 3):
            raise OptionError(f"{label} has parts of shapes {x.shape} and {R.shape}; give x (3,) and R (3, 3).")
        return np.concatenate([x, R.ravel()])

    def _join(self, x: Any, R: Any) -> Any:
        return np.concatenate([x, rot.flatten(R)], axis=-1)

    def _split(self, q: Any) -> tuple[Any, Any]:
        return q[..., :3], rot.unflatten(q[..., 3:])

    def _compose(self, a: Any, b: Any) -> Any:
        (x, R), (y, S) = self._split(a), self._split(b)
        return self._join(x + rot.apply(R, y), R @ S)

    def _inverse(self, q: Any) -> Any:
        x, R = self._split(q)
        Rt = rot.transpose(R)
        return self._join(-rot.apply(Rt, x), Rt)

    def _exp(self, v: Any) -> Any:
        u, w = v[..., :3], v[..., 3:]
        return self._join(rot.apply(rot.transpose(rot.tangent(w)), u), rot.exponential(w))  # [BCA12]: x = T(w)^T u

    def _log(self, q: Any) -> Any:
        x, R = self._split(q)
        w = rot.logarithm(R)
        return np.concatenate([rot.apply(rot.transpose(rot.tangent_inverse(w)), x), w], axis=-1)

    def _tangent(self, v: Any) -> Any:
        u, w = v[..., :3], v[..., 3:]
        return _blocks(rot.tangent(w), rot.tangent_coupling(u, w))

    def _tangent_inverse(self, v: Any) -> Any:
        u, w = v[..., :3], v[..., 3:]
        return _blocks(rot.tangent_inverse(w), rot.tangent_inverse_coupling(u, w))

    def _Ad(self, q: Any) -> Any:
        x, R = self._split(q)
        return _blocks(R, rot.skew(x) @ R)

    def _ad(self, v: Any) -> Any:
        return _blocks(rot.skew(v[..., 3:]), rot.skew(v[..., :3]))

    def _hat(self, v: Any) -> Any:
        top = np.concatenate([rot.skew(v[..., 3:]), v[..., :3, None]], axis=-1)
        return np.concatenate([top, np.zeros((*v.shape[:-1], 1, 4))], axis=-2)

    def _vee(self, V: Any) -> Any:
        return np.concatenate([V[..., :3, 3], rot.unskew(V[..., :3, :3])], axis=-1)

    def _rate(self, q: Any, v: Any) -> Any:
        _, R = self._split(q)
        return self._join(rot.apply(R, v[..., :3]), R @ rot.skew(v[..., 3:]))

    def _retract(self, q: Any, d: Any) -> Any:
        x, R = self._split(q)
        return self._join(x + rot.apply(R, d[..., :3]), R @ rot.cayley(d[..., 3:]))

    def _equations(self, q: Any) -> Any:
        return rot.orthogonality(self._split(q)[1])

    def _defects(self, q: Any) -> Any:
        return rot.defects(self._split(q)[1])

    def _correct(self, q: Any) -> Any:
        x, R = self._split(q)
        return self._join(x, rot.correction(R))

    def _project(self, q: Any) -> Any:
        x, R = self._split(q)
        return self._join(x, so3.nearest_rotation(R))

    def _check(self, q: np.ndarray) -> Check:
        return so3.rotation_check(self._split(q)[1])
