"""Four linear problems on which formulations part ways, all with the exact solution (1, 1) e^t.

[AP93] U. Ascher, L. Petzold, Stability of computational methods for constrained dynamics systems,
       SIAM J. Sci. Comput. 14 (1993), Examples 1 to 4 of section 4.

    1, 2:  x' = A x + B y + q,            0 = C x + r      first order, index 2
    3, 4:  p' = v,  M v' = f - G^T lam,   0 = C p + r      mechanical, index 3;  G = C

Large nu makes the constraints turn fast (1, 4), or the coefficients of the solution's own dynamics large (2, 3): the
paper goes up to 1000, the default 1 is benign. The solution does not depend on the parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dalembert.model.hessenberg import Hessenberg
from dalembert.model.system import System
from dalembert.problems.base import Problem, register

SOURCE = "U. Ascher, L. Petzold, SIAM J. Sci. Comput. 14 (1993), Example {}"
T_SPAN = (0.0, 1.0)


def exact_order_1(t: Any) -> Mapping[str, np.ndarray]:
    """x (stored as ``v``) and y (stored as ``mu``) of Examples 1 and 2, for every nu."""
    t = np.asarray(t, dtype=float)
    e = np.exp(t)
    return {"v": np.stack([e, e], axis=-1), "mu": (-e / (2 - t))[..., None]}


def exact_order_2(t: Any) -> Mapping[str, np.ndarray]:
    """p, v and lam of Examples 3 and 4, for every nu and c."""
    t = np.asarray(t, dtype=float)
    e = np.exp(t)
    x = np.stack([e, e], axis=-1)
    return {"q": x, "v": x.copy(), "lam": (e / (2 - t))[..., None]}


def _turning(t: Any, p: Any) -> tuple[Any, Any]:
    """C of Examples 1 and 4."""
    return np.sin(p.nu * t), np.cos(p.nu * t)


def _example_1() -> Hessenberg:
    def f(t: Any, x: Any, y: Any, p: Any) -> list[Any]:
        C, e = _turning(t, p), np.exp(t)
        return [-x[i] + C[i] * y[0] + (2 + C[i] / (2 - t)) * e for i in range(2)]

    def g(t: Any, x: Any, p: Any) -> list[Any]:
        s, c = _turning(t, p)
        return [s * x[0] + c * x[1] - (s + c) * np.exp(t)]

    return Hessenberg(order=1, x=["x1", "x2"], f=f, g=g, parameters={"nu": 1.0}, name="ascher-petzold-1")


def _example_2() -> Hessenberg:
    def f(t: Any, y: Any, p: Any) -> list[Any]:
        e = np.exp(t)
        return [p.nu * (2 - t) * y[0] + (1 + p.nu) * e, (p.nu - 1) * y[0] + (1 + (p.nu - 1) / (2 - t)) * e]

    def g(t: Any, x: Any) -> list[Any]:
        return [(t + 2) * x[0] + (t**2 - 4) * x[1] - (t**2 + t - 2) * np.exp(t)]

    return Hessenberg(order=1, x=["x1", "x2"], f=f, g=g, parameters={"nu": 1.0}, name="ascher-petzold-2")


def _example_3() -> System:
    def mass(t: Any, p: Any) -> list[list[Any]]:
        nu = p.nu
        scale = 1 / ((2 + t) * nu**2)
        side = -nu * (2 * nu - 1) * scale
        return [[(nu**2 + (nu - 1) ** 2) / (2 - t) * scale, side], [side, 2 * nu**2 * (2 - t) * scale]]

    def force(t: Any, v: Any, p: Any) -> list[Any]:
        nu, c, e = p.nu, p.c, np.exp(t)
        q1 = (1 - nu * t + 3 * nu**2 * t) / (nu**2 * (4 - t**2)) * e
        q2 = (1 - c - 3 * nu * t) / (nu * (2 + t)) * e
        return [q1, c / ((2 + t) * nu) * v[1] + q2]

    return System(
        q=["p1", "p2"],
        mass=mass,
        force=force,
        constraints=lambda t, q: [q[0] + (t - 2) * q[1] + (1 - t) * np.exp(t)],
        parameters={"nu": 1.0, "c": 1.0},
        name="ascher-petzold-3",
    )


def _example_4() -> System:
    def force(t: Any, v: Any, p: Any) -> list[Any]:
        C, e, rate = _turning(t, p), np.exp(t), p.nu**2
        return [-rate * v[i] + (1 + rate + C[i] / (2 - t)) * e for i in range(2)]

    def constraint(t: Any, q: Any, p: Any) -> list[Any]:
        s, c = _turning(t, p)
        return [s * q[0] + c * q[1] - (s + c) * np.exp(t)]

    return System(
        q=["p1", "p2"], mass=[1.0, 1.0], force=force, constraints=constraint, parameters={"nu": 1.0},
        name="ascher-petzold-4",
    )  # fmt: skip


def _order_1(number: int, description: str, system: System) -> Problem:
    return Problem(
        name=system.name, description=description, source=SOURCE.format(number), system=system, q0=np.ones(2),
        v0=None,  # a system of order 1 has no velocities
        t_span=T_SPAN, reference=exact_order_1,
    )  # fmt: skip


def _order_2(number: int, description: str, system: System) -> Problem:
    return Problem(
        name=system.name, description=description, source=SOURCE.format(number), system=system, q0=np.ones(2),
        v0=np.ones(2), t_span=T_SPAN, reference=exact_order_2,
    )  # fmt: skip


@register("ascher-petzold-1")
def example_1() -> Problem:
    return _order_1(1, "index-2 model problem whose constraint turns fast, with slow dynamics", _example_1())


@register("ascher-petzold-2")
def example_2() -> Problem:
    return _order_1(2, "index-2 model problem, stiff through its variable coefficients", _example_2())


@register("ascher-petzold-3")
def example_3() -> Problem:
    return _order_2(3, "two coordinates, mass matrix with widely spread eigenvalues, moving constraint", _example_3())


@register("ascher-petzold-4")
def example_4() -> Problem:
    return _order_2(4, "unit masses, strong damping, constraint that turns fast", _example_4())
