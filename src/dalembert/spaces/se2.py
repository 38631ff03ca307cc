"""SE(2): rigid motions of the plane."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dalembert.spaces import so2
from dalembert.spaces.arrays import numbers
from dalembert.spaces.group import Group
from dalembert.spaces.space import Check
from dalembert.spaces.stumpff import stumpff
from dalembert.status import OptionError


def _affine(A: Any, b: Any, corner: Any) -> Any:
    """The matrix [[A, b], [0, corner]] (..., 3, 3) from A (..., 2, 2), b (..., 2), corner (..., 1)."""
    zero = 0.0 * b[..., None, :]
    top = np.concatenate([A, b[..., None]], axis=-1)
    return np.concatenate([top, np.concatenate([zero, corner[..., None]], axis=-1)], axis=-2)


@dataclass(frozen=True)
class SE2(Group):
    """Rigid motions of the plane: position x (2,) and z = (cos, sin) of the orientation.

    Parts: ``x`` (2,), ``z`` (2,), ``R`` (2, 2). Velocities v = (u, omega) are those seen by the body: x' = R u.

    Examples
    --------
    >>> G = SE2()  # drive a quarter of a circle of radius 1
    >>> G.element(G.exp([np.pi / 2, 0.0, np.pi / 2])).x
    array([1., 1.])
    """

    nq: ClassVar[int] = 4
    nv: ClassVar[int] = 3
    names = ("x[0]", "x[1]", "z[0]", "z[1]")
    velocity_names: ClassVar[tuple[str, ...]] = ("u[0]", "u[1]", "omega")
    part_names: ClassVar[tuple[str, ...]] = ("x", "z", "R")

    @property
    def identity(self) -> np.ndarray:
        return np.array([0.0, 0.0, 1.0, 0.0])

    def _part(self, q: Any, name: str) -> Any:
        return q[..., :2] if name == "x" else q[..., 2:] if name == "z" else so2.matrix(q[..., 2:])

    def _from_sequence(self, parts: list[Any], value: Any, label: str) -> Any:
        return self._from_parts(dict(zip(("x", "R"), parts, strict=True)), label) if len(parts) == 2 else value

    def _from_parts(self, parts: dict[str, Any], label: str) -> Any:
        if set(parts) not in ({"x", "R"}, {"x", "z"}):
            raise OptionError(f"{label} has the parts {', '.join(map(repr, parts))}; {self} is given by x and R or z.")
        x, turn = numbers(f"{label}: x", parts["x"]), numbers(f"{label}: R", parts.get("R", parts.get("z")))
        z = so2.from_matrix(turn) if turn.ndim == 2 else turn
        if x.shape != (2,) or z is None or z.shape != (2,):
            raise OptionError(f"{label} has parts of shapes {x.shape} and {turn.shape}; give x (2,) and R (2, 2).")
        return np.concatenate([x, z])

    def _compose(self, a: Any, b: Any) -> Any:
        return np.concatenate([a[..., :2] + so2.times(a[..., 2:], b[..., :2]), so2.times(a[..., 2:], b[..., 2:])], -1)

    def _inverse(self, q: Any) -> Any:
        back = so2.conjugate(q[..., 2:])
        return np.concatenate([-so2.times(back, q[..., :2]), back], axis=-1)

    def _exp(self, v: Any) -> Any:
        omega = v[..., 2:]
        _, c1, c2 = stumpff(omega * omega, 2)
        x = so2.times(np.concatenate([c1, omega * c2], axis=-1), v[..., :2])
        return np.concatenate([x, np.cos(omega), np.sin(omega)], axis=-1)

    def _log(self, q: Any) -> Any:
        omega = np.arctan2(q[..., 3:], q[..., 2:3])
        _, c1, c2 = stumpff(omega * omega, 2)
        # 1 / (c1 + i omega c2), whose squared modulus is 2 c2
        back = np.concatenate([c1 / (2.0 * c2), -0.5 * omega], axis=-1)
        return np.concatenate([so2.times(back, q[..., :2]), omega], axis=-1)

    def _tangent(self, v: Any) -> Any:
        u, omega = v[..., :2], v[..., 2:]
        _, c1, c2, c3 = stumpff(omega * omega, 3)
        turn = np.concatenate([c1, -omega * c2], axis=-1)
        coupling = so2.times(np.concatenate([c2, -omega * c3], axis=-1), so2.quarter(u))
        return _affine(so2.matrix(turn), coupling, 1.0 + 0.0 * omega)

    def _tangent_inverse(self, v: Any) -> Any:
        u, omega = v[..., :2], v[..., 2:]
        _, c1, c2, c3 = stumpff(omega * omega, 3)
        back = np.concatenate([c1 / (2.0 * c2), 0.5 * omega], axis=-1)
        coupling = so2.times(np.concatenate([c2, -omega * c3], axis=-1), so2.quarter(u))
        return _affine(so2.matrix(back), -so2.times(back, coupling), 1.0 + 0.0 * omega)

    def _Ad(self, q: Any) -> Any:
        return _affine(so2.matrix(q[..., 2:]), -so2.quarter(q[..., :2]), 1.0 + 0.0 * q[..., :1])

    def _ad(self, v: Any) -> Any:
        omega = v[..., 2:]
        turn = so2.matrix(np.concatenate([0.0 * omega, omega], axis=-1))
        return _affine(turn, -so2.quarter(v[..., :2]), 0.0 * omega)

    def _hat(self, v: Any) -> Any:
        omega = v[..., 2:]
        return _affine(so2.matrix(np.concatenate([0.0 * omega, omega], axis=-1)), v[..., :2], 0.0 * omega)

    def _vee(self, V: Any) -> Any:
        return np.concatenate([V[..., :2, 2], (V[..., 1, :1] - V[..., 0, 1:2]) / 2.0], axis=-1)

    def _rate(self, q: Any, v: Any) -> Any:
        z = q[..., 2:]
        return np.concatenate([so2.times(z, v[..., :2]), v[..., 2:] * so2.quarter(z)], axis=-1)

    def _equations(self, q: Any) -> Any:
        return so2.dot(q[..., 2:], q[..., 2:]) - 1.0

    def _correct(self, q: Any) -> Any:
        return np.concatenate([q[..., :2], so2.correction(q[..., 2:])], axis=-1)

    def _project(self, q: Any) -> Any:
        return np.concatenate([q[..., :2], so2.normalised(q[..., 2:])], axis=-1)

    def _check(self, q: np.ndarray) -> Check:
        return so2.unit(q[..., 2:])
