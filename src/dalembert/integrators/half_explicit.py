"""Half-explicit Runge-Kutta methods: stages explicit, multipliers from the velocity constraints further on.

[BH93]  V. Brasey, E. Hairer, Half-explicit Runge-Kutta methods for differential-algebraic systems of index 2, SIAM J.
        Numer. Anal. 30 (1993) 538-552.
[M97]   A. Murua, Partitioned half-explicit Runge-Kutta methods for differential-algebraic systems of index 2, Computing
        59 (1997) 43-61.
[HW96]  E. Hairer, G. Wanner, Solving Ordinary Differential Equations II, Springer 1996, VII.6.
[M98]   H. Munthe-Kaas, Runge-Kutta methods on Lie groups, BIT 38 (1998) 92-111.

Two states belong to stage i: the forces act at Q_i, V_i, the constraints hold at Qb_i, Vb_i (see the tableaus),

    V_i  = v + h sum_{j<i}  a_ij A_j,    y_i  = h sum_{j<i}  a_ij T(y_j)^-1 V_j,    Q_i  = q exp(y_i)
    Vb_i = v + h sum_{j<=i} ab_ij A_j,   yb_i = h sum_{j<=i} ab_ij T(y_j)^-1 V_j,   Qb_i = q exp(yb_i)

where T = 1 and q exp(y) = q + y if q is a vector. Qb_i does not depend on A_i, so that

    M(Q_i) A_i = f(Q_i, V_i) - G(Q_i)^T L_i - K(Q_i)^T N_i,     0 = G(Qb_i) Vb_i + g_t,     0 = k(Qb_i, Vb_i)

is linear in A_i, L_i, N_i: straight-line code with pivots chosen in advance, nothing is iterated. The step ends at the
last Qb, Vb, that is on the velocity constraints. Second derivatives of g are only needed at the ends of steps, where
accelerations and multipliers are solved for: they are the first stage of the next step [M97], and are reported.

Index 3: positions (and after them velocities) are projected at the end of every step, which changes them by O(h^(p+1)).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import casadi as ca
import numpy as np

from dalembert.formulations.base import At, Formulation, Unknown
from dalembert.formulations.index2 import Index2
from dalembert.integrators.base import Integrator, StepData, StepEquations, register
from dalembert.integrators.explicit_stages import (
    Rates,
    change,
    implicit_accelerations,
    motion_rate,
    moved,
    rate_sizes,
    rate_unknowns,
    split_rates,
    stacked,
)
from dalembert.integrators.half_explicit_tableaus import half_explicit_tableau
from dalembert.integrators.stages import last_row_function
from dalembert.model.point import Environment
from dalembert.model.system import System
from dalembert.numerics.layout import Layout
from dalembert.numerics.multipliers import BLOCKS
from dalembert.numerics.projection import LEVELS, Projection
from dalembert.status import OptionError

ORDERS = (1, 3, 5)


@register
@dataclass(frozen=True)
class HalfExplicit(Integrator):
    """Half-explicit Runge-Kutta methods for nonstiff systems: steps end on the velocity constraints.

    Parameters
    ----------
    order
        5 (Murua's PHEM56, six stages), 3 (Brasey and Hairer's, three stages) or 1 (half-explicit Euler).

    Examples
    --------
    >>> import dalembert as da
    >>> problem = da.problems()["andrews"]
    >>> sol = da.solve(problem.system, problem.t_span, problem.q0, problem.v0, method=da.HalfExplicit(5), rtol=1e-8)
    >>> sol.drift.largest["position"] < 1e-13
    True
    """

    order: int = 5
    name: ClassVar[str] = "half-explicit"
    summary: ClassVar[str] = "half-explicit Runge-Kutta of order 1, 3 or 5 for nonstiff systems, variable step"
    default_formulation: ClassVar[str] = "index-3"
    takes: ClassVar[frozenset[str]] = frozenset({"index-2", "index-3"})
    in_row: ClassVar[bool] = False
    one_step: ClassVar[bool] = True
    on_groups: ClassVar[bool] = True
    own_multipliers: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.order not in ORDERS or isinstance(self.order, bool):
            raise OptionError(f"HalfExplicit(order={self.order!r}): there are methods of order 1, 3 and 5.")

    @property
    def equations_key(self) -> tuple[Any, ...]:
        return (type(self), self.order)

    @property
    def explicit_stages(self) -> int:  # type: ignore[override]
        """With the end of the step."""
        return len(half_explicit_tableau(self.order).c) + 1

    @property
    def hermite_order(self) -> int:  # type: ignore[override]
        return self.order

    def order_range(self, fixed: bool) -> tuple[int, int]:
        """The order of the error estimate."""
        order = half_explicit_tableau(self.order).estimate_order
        return order, order

    def satisfies(self, formulation: Formulation) -> frozenset[str]:
        return frozenset({"velocity"})

    def projects(self, formulation: Formulation) -> bool:
        return formulation.name == "index-3"

    def check_projection(self, formulation: Formulation, given: Projection | None) -> None:
        kept = given is not None and given.steps and set(given.levels) >= set(LEVELS)
        if self.projects(formulation) and not kept:
            raise OptionError(
                f"projection={given}: method 'half-explicit' keeps the positions of the index-3 form on the "
                "constraints by projecting every step onto both levels. Use formulation='index-2' to do without."
            )

    def describe(self) -> str:
        return f"half-explicit Runge-Kutta (order {self.order})"

    def check(self, system: System, formulation: Formulation) -> None:
        super().check(system, formulation)
        if isinstance(formulation, Index2) and formulation.gamma != 0:
            raise OptionError(
                f"Index2(gamma={formulation.gamma:g}): method 'half-explicit' takes the velocity constraints as they "
                "are. Use formulation='index-3' to keep positions on the constraints."
            )

    def unknowns(self, system: System, formulation: Formulation) -> list[Unknown]:
        """What the stages compute: rates of every stage and of the end, then the error estimates of v and r."""
        estimates = [Unknown("error_v", system.nv, False), Unknown("error_r", system.nr, False)]
        return [*rate_unknowns(system, self.explicit_stages), *estimates]

    def carried(self, system: System, formulation: Formulation) -> list[Unknown]:
        state = [Unknown("q", system.nq, True), Unknown("v", system.nv, True), Unknown("r", system.nr, True)]
        rates = [
            Unknown("a", system.nv, False, controlled=False),
            Unknown("_r_dot", system.nr, False, controlled=False),
        ]
        return [*state, *rates]

    def start_carried(self, system: System, formulation: Formulation, at: At) -> dict[str, np.ndarray]:
        return {"_r_dot": at("dynamics").ravel()} if system.nr else {}

    def weight_map(self, system: System, layout: Layout, formulation: Formulation) -> np.ndarray:
        return np.zeros((2, sum(u.size for u in self.unknowns(system, formulation))), dtype=np.int64)

    def equations(
        self, formulation: Formulation, env: Environment, layout: Layout, x: ca.SX, data: StepData
    ) -> StepEquations:
        if data.eliminate is None or env.system.ns:
            raise implicit_accelerations(self.name)
        system, h, t0 = env.system, data.h, data.t - data.h
        tableau = half_explicit_tableau(self.order)
        old = {u.name: data.first[layout.slice(u.name)] for u in self.carried(system, formulation)}
        made = self._stages(env, data, old)
        ended = moved(system, old, change(made, tableau.b, h))
        weights = np.append(tableau.b, 0.0) - tableau.estimate
        partial, k = change(made, weights, h), motion_rate(system, ended["y"], ended["v"])
        hw = h * float(weights[-1])
        estimates = [partial["k"] + hw * k, partial["a"], partial["r_dot"], hw]
        a, r_dot, *errors = _end_function(env, data)(t0 + h, *[ended[n] for n in ("q", "v", "r")], data.p, *estimates)
        made.append({"a": a, "k": k, "r_dot": r_dot})

        given = split_rates(system, x, self.explicit_stages)
        new = moved(system, old, change(given, tableau.b, h))
        n = int(x.numel())
        _, error_v, error_r = ca.vertsplit(x, [0, n - system.nv - system.nr, n - system.nr, n])
        estimate = {"v": error_v, "r": error_r}
        if system.nq:
            estimate["q"] = ca.SX(system.space.rate(new["q"], change(given, weights, h)["k"]))
        blocks = [(u.name, u.size) for u in self.carried(system, formulation)]

        def row(parts: dict[str, ca.SX]) -> ca.SX:
            return ca.densify(ca.vertcat(*[parts.get(name, ca.SX.zeros(size, 1)) for name, size in blocks]))

        return StepEquations(
            labels=["stages"] * int(x.numel()),
            residual=x,  # nothing to solve: the start values are the stages
            rows=ca.SX.ones(x.numel(), 1),
            columns=ca.SX.ones(x.numel(), 1),
            update=row({**new, "a": given[-1]["a"], "_r_dot": given[-1]["r_dot"]}),
            start=ca.densify(ca.vertcat(stacked(made), *errors)),
            error=row(estimate),
        )

    def _stages(self, env: Environment, data: StepData, old: dict[str, ca.SX]) -> list[Rates]:
        """A_i, T(y_i)^-1 V_i and r'_i of all stages."""
        system, h, t0 = env.system, data.h, data.t - data.h
        tableau, solve = half_explicit_tableau(self.order), _stage_function(env, data)
        zero: Rates = {"a": ca.SX.zeros(system.nv, 1), "r_dot": ca.SX.zeros(system.nr, 1)}
        made: list[Rates] = []
        for i, (a_i, ab_i) in enumerate(zip(tableau.A, tableau.Ab, strict=True)):
            state = moved(system, old, change(made, a_i, h)) if made else {**old, "y": ca.SX.zeros(system.nv, 1)}
            q, v, r = (state[n] for n in ("q", "v", "r"))
            t = t0 + float(tableau.c[i]) * h
            k = motion_rate(system, state["y"], v)
            if ab_i[i] == 0:  # the first stage is the end of the last step
                made.append({"a": old["a"], "k": k, "r_dot": old["_r_dot"]})
                continue
            ahead = moved(system, old, change([*made, {**zero, "k": k}], ab_i, h))  # as far as A_i is not needed
            tb = t0 + float(tableau.cb[i]) * h
            a, r_dot = solve(t, q, v, r, data.p, tb, ahead["q"], ahead["v"], float(ab_i[i]) * h)
            made.append({"a": a, "k": k, "r_dot": r_dot})
        return made

    def coefficient_function(self) -> int:
        return last_row_function()


def _stage_function(env: Environment, data: StepData) -> ca.Function:
    """A_i and r'_i: forces at (t, q, v, r), constraints at (tb, qb, vb + hb A_i)."""
    system, sym = env.system, ca.SX.sym
    t, q, v, r = sym("t"), sym("q", system.nq), sym("v", system.nv), sym("r", system.nr)
    tb, qb, vb, hb = sym("tb"), sym("qb", system.nq), sym("vb", system.nv), sym("hb")
    y = {name: sym(name, system.sizes[name]) for name in BLOCKS}
    r_dot = sym("r_dot", system.nr)
    point = env.at(t=t, q=q, v=v, r=r, **y)
    ahead = env.at(t=tb, q=qb, v=vb + hb * y["a"])
    residual = ca.vertcat(
        point.auxiliary, point.h, ahead.g_dot / hb, ahead.k / hb, point.balance, r_dot - point.dynamics
    )
    x = ca.vertcat(*y.values(), r_dot)
    matrix = ca.jacobian(residual, x)
    if ca.depends_on(matrix, x):
        raise OptionError(
            "method 'half-explicit' needs velocity constraints that are linear in the velocities. Use Explicit, BDF or "
            "Radau."
        )
    assert data.eliminate is not None
    solution = data.eliminate(matrix)(-ca.substitute(residual, x, ca.SX.zeros(x.numel(), 1)))
    return ca.Function("stage", [t, q, v, r, data.p, tb, qb, vb, hb], _rates(system, solution))


def _end_function(env: Environment, data: StepData) -> ca.Function:
    """At the end of a step (t, q, v, r): accelerations, r', and the error estimates of v and r.

    The estimate of the motion is e_y; those of the stages alone are h sum_i w_i (A_i, r'_i) = e, s, and the end adds
    its part, of weight hw = h w_end. The comparison velocities are moved onto the constraints at their own positions
    [M97], as a multiplier would do it: e + d with M d = -G^T nu and G (e + d) + (G v + g_t)_q e_y = 0, k alike.
    """
    system, sym = env.system, ca.SX.sym
    t, q, v, r = sym("t"), sym("q", system.nq), sym("v", system.nv), sym("r", system.nr)
    e_y, e, s, hw = sym("e_y", rate_sizes(system)["k"]), sym("e", system.nv), sym("s", system.nr), sym("hw")
    y = {name: sym(name, system.sizes[name]) for name in BLOCKS}
    r_dot = sym("r_dot", system.nr)
    point = env.at(t=t, q=q, v=v, r=r, **y)
    before, conditions = ca.vertcat(point.auxiliary, point.h), ca.vertcat(point.g_ddot, point.k_dot)
    residual = ca.vertcat(before, conditions, point.balance, r_dot - point.dynamics)
    x = ca.vertcat(*y.values(), r_dot)
    zero = ca.SX.zeros(x.numel(), 1)
    assert data.eliminate is not None
    solve = data.eliminate(ca.substitute(ca.jacobian(residual, x), x, zero))
    a, r1 = _rates(system, solve(-ca.substitute(residual, x, zero)))
    error_v, error_r = e + hw * a, s + hw * r1
    across = ca.jacobian(conditions, y["a"]) @ error_v
    if system.nq:
        across += ca.jtimes(ca.vertcat(point.g_dot, point.k), q, ca.SX(system.space.rate(q, e_y)))
    behind = x.numel() - before.numel() - across.numel()
    right = ca.vertcat(ca.SX.zeros(before.numel(), 1), -across, ca.SX.zeros(behind, 1))
    d, d_r = _rates(system, solve(right))
    return ca.Function("end", [t, q, v, r, data.p, e_y, e, s, hw], [a, r1, error_v + d, error_r + d_r])


def _rates(system: System, solution: ca.SX) -> list[ca.SX]:
    """The accelerations and r' in the solution of one of the linear systems."""
    start = sum(system.sizes[name] for name in BLOCKS[:-1])
    return list(ca.vertsplit(solution, [0, start, start + system.nv, solution.numel()])[1:])
