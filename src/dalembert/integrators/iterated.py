"""Gauss collocation by iteration: eight stages at once, in the lanes of vector registers.

[HS90] P. J. van der Houwen, B. P. Sommeijer, Parallel iteration of high-order Runge-Kutta methods with stepsize
       control, J. Comput. Appl. Math. 29 (1990) 111-127.
[HW96] E. Hairer, G. Wanner, Solving Ordinary Differential Equations II, Springer 1996, IV.5.
[M98]  H. Munthe-Kaas, Runge-Kutta methods on Lie groups, BIT 38 (1998) 92-111.

    V_i = v + h sum_j a_ij A_j,   y_i = h c_i v + h^2 sum_jk a_ij a_jk A_k,   Q_i = q + y_i
    [M G^T; G 0] (A_i, L_i) = (f, gamma)(t + c_i h, Q_i, V_i)

on the index-1 form; on a group Q_i = q exp(y_i), y_i = h sum_j a_ij T(y_j)^-1 V_j. Stages do not wait for each other:
all of them are evaluated in one pass, which takes little longer than one of them. Sweeps start from the polynomial
through the accelerations of the last step. That makes errors of order 8 in the accelerations, and every sweep gains
one: with m sweeps positions, velocities and multipliers are of order 8 + m, at most 16, that of the collocation method.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import casadi as ca
import numpy as np
from numpy.polynomial import legendre

from dalembert.formulations.base import Formulation, Unknown
from dalembert.integrators.base import Integrator, StepData, StepEquations, register
from dalembert.integrators.explicit_stages import motion_rate, moved
from dalembert.integrators.stages import last_row_function
from dalembert.model.point import Environment
from dalembert.model.system import System
from dalembert.numerics.layout import Layout
from dalembert.numerics.native import LANES
from dalembert.status import OptionError

MOST_SWEEPS = 8  # more would not raise the order


@cache
def gauss_formula() -> np.ndarray:
    """c, barycentric weights, A, A^2, and what makes the end of a step, as `numerics.sweeps` takes them.

    By the discrete orthogonality of Legendre's polynomials at their zeros, which loses no digits:
    l_k(x) = b_k sum_n (2n + 1) P_n(c_k) P_n(x), shifted to [0, 1].
    """
    x, w = legendre.leggauss(LANES)
    c, b = (1 + x) / 2, w / 2
    P = legendre.legvander(x, LANES)  # (nodes, degrees 0 .. LANES)
    integrals = np.empty((LANES, LANES))  # of P_n from 0 to c_i
    integrals[:, 0] = c
    for n in range(1, LANES):
        integrals[:, n] = (P[:, n + 1] - P[:, n - 1]) / (2 * (2 * n + 1))
    degrees = 2 * np.arange(LANES) + 1
    A = integrals @ (degrees[:, None] * P[:, :LANES].T * b)
    barycentric = 1 / np.array([np.prod(c[k] - np.delete(c, k)) for k in range(LANES)])
    for q in range(1, LANES + 1):  # C(s) [HW96, IV (5.2)]
        if not np.allclose(A @ c ** (q - 1), c**q / q, atol=1e-15, rtol=1e-14):
            raise ValueError(f"stage condition C({q}) is violated")
    end = np.zeros((LANES, LANES))
    end[:, 0], end[:, 1] = b, b @ A
    return np.concatenate([c, barycentric, A.T.ravel(), (A @ A).T.ravel(), end.ravel()])


@register
@dataclass(frozen=True)
class Iterated(Integrator):
    """Gauss collocation with eight stages, iterated: for nonstiff systems, the fastest of the methods there.

    Constraints are projected after every step. Accelerations of all stages are computed at once, by vector
    instructions. Stages are iterated a fixed number of times in each step, and a few times more where that saves it.

    Parameters
    ----------
    sweeps
        Iterations of a step, 1 to 8; the order is 8 + ``sweeps``.

    Examples
    --------
    >>> import dalembert as da
    >>> problem = da.problems()["pendulum"]
    >>> sol = da.solve(problem.system, (0, 1), problem.q0, problem.v0, method=da.Iterated(), rtol=1e-10, atol=1e-10)
    >>> sol.stats.method
    'iterated Gauss (8 stages, order 11)'
    """

    sweeps: int = 3
    name: ClassVar[str] = "iterated"
    summary: ClassVar[str] = "Gauss collocation of 8 stages at once, iterated, for nonstiff systems, variable step"
    default_formulation: ClassVar[str] = "index-1"
    takes: ClassVar[frozenset[str]] = frozenset({"index-1", "overdetermined"})
    in_row: ClassVar[bool] = False
    one_step: ClassVar[bool] = True
    on_groups: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not (isinstance(self.sweeps, int) and 1 <= self.sweeps <= MOST_SWEEPS) or isinstance(self.sweeps, bool):
            raise OptionError(f"Iterated(sweeps={self.sweeps!r}): give a whole number from 1 to {MOST_SWEEPS}.")

    @property
    def order(self) -> int:
        return LANES + self.sweeps

    @property
    def equations_key(self) -> tuple[Any, ...]:
        return (type(self),)

    @property
    def explicit_stages(self) -> int:  # type: ignore[override]
        return LANES

    @property
    def hermite_order(self) -> int:  # type: ignore[override]
        return self.order

    @property
    def start_order(self) -> int:  # type: ignore[override]
        return self.order

    def order_range(self, fixed: bool) -> tuple[int, int]:
        """The order of the error estimate."""
        return self.order - 1, self.order - 1

    def describe(self) -> str:
        return f"iterated Gauss ({LANES} stages, order {self.order})"

    def formula(self) -> np.ndarray:
        return gauss_formula()

    def unknowns(self, system: System, formulation: Formulation) -> list[Unknown]:
        """What the sweeps compute: the motion y, the changes of v and r, and their errors."""
        sizes = {"y": system.nv if system.nq else 0, "dv": system.nv, "dr": system.nr}
        return [Unknown(f"{of}{name}", size, False) for of in ("", "error_") for name, size in sizes.items()]

    def carried(self, system: System, formulation: Formulation) -> list[Unknown]:
        return [u for u in formulation.unknowns(system) if u.name in ("q", "v", "r")]

    def weight_map(self, system: System, layout: Layout, formulation: Formulation) -> np.ndarray:
        return np.zeros((2, sum(u.size for u in self.unknowns(system, formulation))), dtype=np.int64)

    def equations(
        self, formulation: Formulation, env: Environment, layout: Layout, x: ca.SX, data: StepData
    ) -> StepEquations:
        system, h = env.system, data.h
        if data.accelerate is None:
            raise OptionError(
                "method 'iterated' needs accelerations and multipliers that follow from a linear system; this model "
                "has friction, auxiliary variables, contact coordinates or black boxes, or is too large for compiled "
                "elimination. Use BDF or Radau."
            )
        sizes = [u.size for u in self.unknowns(system, formulation)]
        y, dv, dr, e_y, e_v, e_r = ca.vertsplit(x, np.cumsum([0, *sizes]).tolist())
        old = {u.name: data.first[layout.slice(u.name)] for u in self.carried(system, formulation)}
        new = moved(system, old, {"k": y, "a": dv, "r_dot": dr})
        error = {"q": ca.SX(system.space.rate(new["q"], e_y)) if system.nq else old["q"], "v": e_v, "r": e_r}

        c, stage_y, stage_v, stage_r = (ca.SX.sym(n, k) for n, k in zip("cyvr", [1, *sizes[:3]], strict=True))
        stage = moved(system, old, {"k": stage_y, "a": stage_v - old["v"], "r_dot": stage_r - old["r"]})
        rates = data.accelerate(data.t - h + c * h, stage["q"], stage_v, stage_r, data.p)
        motion = None if system.space.flat or not system.nq else ca.densify(motion_rate(system, stage_y, stage_v))

        def row(parts: dict[str, ca.SX]) -> ca.SX:
            return ca.densify(ca.vertcat(*[parts[u.name] for u in self.carried(system, formulation)]))

        return StepEquations(
            labels=["stages"] * int(x.numel()),
            residual=x,  # nothing to solve: the sweeps compute it
            rows=ca.SX.ones(x.numel(), 1),
            columns=ca.SX.ones(x.numel(), 1),
            update=row(new),
            error=row(error),
            lanes=(ca.vertcat(c, stage_y, stage_v, stage_r), ca.densify(ca.vertcat(*rates))),
            motion=motion,
        )

    def coefficient_function(self) -> int:
        return last_row_function()
