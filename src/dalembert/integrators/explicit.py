"""Explicit Runge-Kutta methods on the index-1 form: accelerations and multipliers solved for in every stage.

[DP80]  J. R. Dormand, P. J. Prince, A family of embedded Runge-Kutta formulae, J. Comput. Appl. Math. 6 (1980) 19-26.
[HNW93] E. Hairer, S. P. Norsett, G. Wanner, Solving Ordinary Differential Equations I, Springer 1993, II.5, II.10.
[HW96]  E. Hairer, G. Wanner, Solving Ordinary Differential Equations II, Springer 1996.
[M98]   H. Munthe-Kaas, Runge-Kutta methods on Lie groups, BIT 38 (1998) 92-111.

    V_i = v + h sum_j a_ij A_j,   y_i = h sum_j a_ij T(y_j)^-1 V_j,   Q_i = q exp(y_i)       (T = 1 if q is a vector)
    [M G^T; G 0] (A_i, L_i) = (f, gamma)(t_i, Q_i, V_i)

Nothing is iterated: the linear systems are straight-line code with pivots chosen in advance. Coefficients are SciPy's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any, ClassVar, Literal

import casadi as ca
import numpy as np
from scipy.integrate import DOP853, RK45

from dalembert.formulations.base import At, Formulation, Unknown
from dalembert.integrators.base import Integrator, StepData, StepEquations, register
from dalembert.integrators.explicit_stages import (
    Rates,
    change,
    implicit_accelerations,
    motion_rate,
    moved,
    rate_unknowns,
    split_rates,
    stacked,
)
from dalembert.integrators.stages import last_row_function
from dalembert.model.point import Environment
from dalembert.model.system import System
from dalembert.numerics.layout import Layout
from dalembert.numerics.projection import Projection
from dalembert.status import OptionError

# Errors of order 8 fall faster than they promise as long as runs have few steps: estimates held at tol would make them
# fall like tol^1.1. They are held at tol (SAME / tol)^GIVEN_BACK; measured by benchmarks/proportionality.py
SAME, GIVEN_BACK = 1e-6, 0.07
# carried along in the row: |h lambda| of the fastest motion, a mean over about so many steps, of values up to a limit
STIFFNESS, MEMORY, MOST_RATE = "_stiffness", 5.0, 20.0


@dataclass(frozen=True, eq=False)
class ExplicitTableau:
    """A (s, s) strictly lower triangular, b (s,), c (s,); the last stage is the end of the step.

    ``estimates``: rows of weights of h k_j; one: the error; two, e5 and e3: e5 |e5| / sqrt(e5^2 + 0.01 e3^2), of order
    ``order`` - 1 [HNW93, II.10.(10.19)].
    """

    A: np.ndarray
    b: np.ndarray
    c: np.ndarray
    estimates: np.ndarray
    order: int

    def __post_init__(self) -> None:
        if np.abs(np.triu(self.A)).max() > 0 or not np.allclose(self.A.sum(axis=1), self.c, atol=1e-13):
            raise ValueError("not an explicit method, or row sums of A differ from c")
        for q in range(1, self.order + 1):  # quadrature conditions B(order) [HNW93, II.7]
            if not np.isclose(self.b @ self.c ** (q - 1), 1 / q, atol=1e-12):
                raise ValueError(f"quadrature condition B({q}) is violated")


@cache
def tableau(order: int) -> ExplicitTableau:
    """Dormand and Prince's methods of order 5 and 8, with the end of the step as a further stage."""
    source: Any = RK45 if order == 5 else DOP853
    s = len(source.B)
    A = np.zeros((s + 1, s + 1))
    A[:s, : source.A.shape[1]] = source.A[:s, :s]
    A[s, :s] = source.B
    c = np.append(source.C[:s], 1.0)
    b = np.append(source.B, 0.0)
    estimates = np.array([source.E]) if order == 5 else np.array([source.E5, source.E3])
    return ExplicitTableau(A, b, c, estimates, order)


@register
@dataclass(frozen=True)
class Explicit(Integrator):
    """Explicit Runge-Kutta methods for nonstiff systems, with the constraints projected after every step.

    Parameters
    ----------
    order
        5 (Dormand and Prince's 5(4)) or 8 (their 8(5,3), DOP853).
    control
        What is held at the tolerance: the error at the end of a "run" (default), or the estimate of every "step", as
        Dormand and Prince's codes do. Order 8: see `GIVEN_BACK`; order 5 makes no difference.
    """

    order: int = 8
    control: Literal["run", "step"] = "run"
    name: ClassVar[str] = "explicit"
    summary: ClassVar[str] = "explicit Runge-Kutta of order 5 or 8 for nonstiff systems, variable step"
    default_formulation: ClassVar[str] = "index-1"
    takes: ClassVar[frozenset[str]] = frozenset({"index-1", "overdetermined"})
    in_row: ClassVar[bool] = False
    one_step: ClassVar[bool] = True
    on_groups: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.order not in (5, 8) or isinstance(self.order, bool):
            raise OptionError(f"Explicit(order={self.order!r}): there are methods of order 5 and 8.")
        if self.control not in ("run", "step"):
            raise OptionError(f"Explicit(control={self.control!r}): choose 'run' or 'step'.")

    @property
    def equations_key(self) -> tuple[Any, ...]:
        return (type(self), self.order)

    @property
    def explicit_stages(self) -> int:  # type: ignore[override]
        return len(tableau(self.order).c)

    @property
    def hermite_order(self) -> int:  # type: ignore[override]
        return self.order

    def order_range(self, fixed: bool) -> tuple[int, int]:
        """The order of the error estimate."""
        return self.order - 1, self.order - 1

    def estimate_scale(
        self, system: System, formulation: Formulation, tolerance: float, projection: Projection | None = None
    ) -> float:
        return (tolerance / SAME) ** GIVEN_BACK if self.order == 8 and self.control == "run" else 1.0

    def as_starter(self) -> Explicit:
        return replace(self, control="step")

    def describe(self) -> str:
        return f"explicit Runge-Kutta (order {self.order})"

    def unknowns(self, system: System, formulation: Formulation) -> list[Unknown]:
        """What the stages compute: accelerations, rates of the motion y, rates of r."""
        return rate_unknowns(system, self.explicit_stages)

    def carried(self, system: System, formulation: Formulation) -> list[Unknown]:
        state = [u for u in formulation.unknowns(system) if u.name in ("q", "v", "r")]
        rates = (("a", system.nv), ("_r_dot", system.nr), (STIFFNESS, 1))
        return [*state, *[Unknown(name, size, False, controlled=False) for name, size in rates]]

    def start_carried(self, system: System, formulation: Formulation, at: At) -> dict[str, np.ndarray]:
        return {"_r_dot": at("dynamics").ravel()} if system.nr else {}

    def weight_map(self, system: System, layout: Layout, formulation: Formulation) -> np.ndarray:
        return np.zeros((2, sum(u.size for u in self.unknowns(system, formulation))), dtype=np.int64)

    def equations(
        self, formulation: Formulation, env: Environment, layout: Layout, x: ca.SX, data: StepData
    ) -> StepEquations:
        system, h, t0 = env.system, data.h, data.t - data.h
        if data.accelerate is None:
            raise implicit_accelerations(self.name)
        coefficients = tableau(self.order)
        old = {u.name: data.first[layout.slice(u.name)] for u in self.carried(system, formulation)}
        made: list[Rates] = []
        for a_i, c_i in zip(coefficients.A, coefficients.c, strict=True):
            state = moved(system, old, change(made, a_i, h), passing=True) if made else old
            made.append(self._stage(env, data, t0 + float(c_i) * h, state, len(made)))
        given = split_rates(system, x, self.explicit_stages)
        new = moved(system, old, change(given, coefficients.b, h))
        errors = [change(given, weights, h) for weights in coefficients.estimates]
        error = errors[0] if len(errors) == 1 else {n: _damped(errors[0][n], errors[1][n]) for n in errors[0]}
        if system.nq:
            error["q"] = ca.SX(system.space.rate(new["q"], error.pop("k")))
        rate = self._rate(given, coefficients, h)

        def row(parts: dict[str, ca.SX]) -> ca.SX:
            blocks = [(u.name, u.size) for u in self.carried(system, formulation)]
            return ca.densify(ca.vertcat(*[parts.get(n, ca.SX.zeros(size, 1)) for n, size in blocks]))

        return StepEquations(
            labels=["stages"] * int(x.numel()),
            residual=x,  # nothing to solve: the start values are the stages
            rows=ca.SX.ones(x.numel(), 1),
            columns=ca.SX.ones(x.numel(), 1),
            update=row({
                **new, "a": given[-1]["a"], "_r_dot": given[-1]["r_dot"],
                STIFFNESS: old[STIFFNESS] + (rate - old[STIFFNESS]) / MEMORY,
            }),
            start=ca.densify(stacked(made)),
            error=row({**{n: e for n, e in error.items() if n in ("q", "r")}, "v": error["a"], "r": error["r_dot"]}),
        )  # fmt: skip

    def _rate(self, stages: list[Rates], coefficients: ExplicitTableau, h: ca.SX) -> ca.SX:
        """h |f(y_s) - f(y_{s-1})| / |y_s - y_{s-1}| of the last two stages, both at t + h [HW96, IV.2.(2.1)]."""
        apart = change(stages, coefficients.A[-1] - coefficients.A[-2], h)
        rates = ca.vertcat(*[stages[-1][name] - stages[-2][name] for name in apart])
        rate = h * ca.norm_2(rates) / (ca.norm_2(ca.vertcat(*apart.values())) + 1e-300)
        return ca.fmin(ca.fabs(rate), MOST_RATE)

    def _stage(self, env: Environment, data: StepData, t: ca.SX, state: dict[str, ca.SX], i: int) -> Rates:
        """Accelerations and rates at a stage; the first one is the end of the last step."""
        system = env.system
        q, v, r = (state[n] for n in ("q", "v", "r"))
        assert data.accelerate is not None
        if i == 0:
            return {"a": state["a"], "k": v if system.nq else ca.SX.zeros(0, 1), "r_dot": state["_r_dot"]}
        a, r_dot = data.accelerate(t, q, v, r, data.p)
        return {"a": a, "k": motion_rate(system, state["y"], v), "r_dot": r_dot}

    def coefficient_function(self) -> int:
        return last_row_function()


def _damped(e5: ca.SX, e3: ca.SX) -> ca.SX:
    return e5 * ca.fabs(e5) / ca.sqrt(e5**2 + 0.01 * e3**2 + 1e-300)
