"""General linear methods for second-order systems: stages like Runge-Kutta, past values like a multistep method.

[W05] L. Wunderlich, Numerical treatment of second order differential-algebraic systems (2005), appendix A.
[S97] S. Schneider, Convergence of general linear methods on differential-algebraic systems of index 3, BIT 37 (1997).

The method is a `Tableau` (glm_tableaus.py). The external vector y^[n] is carried in the row, unscaled: positions,
velocities, accelerations at t_n + tau h. A step then needs the last row only:

    Q_i = sum_j q_past_ij h^d_j y_j + h^2 sum_j q_stages_ij A_j,       V_i likewise, times 1/h      [W05, (A.22)]
    M A_i = f(Q_i, V_i, L_i) - G^T L_i,      0 = g(Q_i)  (or what the formulation puts there)       [W05, (A.21)]

The stage multipliers L_i are unknowns and the last ones are lam at the end of the step. [W05, (A.20)] carries lam and
lam' along by the formulas for q instead, which only renames the L_i. Constraint rows are divided by h^2.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import casadi as ca
import numpy as np

from dalembert.formulations.base import Formulation, Unknown
from dalembert.integrators.base import Integrator, StepData, StepEquations, register
from dalembert.integrators.glm import multistep_radau
from dalembert.integrators.glm_tableaus import Tableau
from dalembert.integrators.stages import (
    STAGE,
    last_row_function,
    past_row,
    split_stages,
    stage_columns,
    stage_unknowns,
    stage_weights,
    write_stages,
)
from dalembert.model.point import Environment
from dalembert.model.system import System
from dalembert.numerics.layout import Layout
from dalembert.status import OptionError

SOURCES = ("q", "v", "a")  # row blocks that the derivatives 0, 1, 2 of an external value are taken from


@register
@dataclass(frozen=True)
class GeneralLinear(Integrator):
    """A general linear method with constant coefficients; needs a fixed step ``h``.

    Parameters
    ----------
    method
        The coefficients, e.g. ``da.glm.multistep_radau(steps=2, stages=2)`` (the default),
        ``da.glm.from_bdf(3)``, or a ``da.glm.Tableau`` of your own.

    Examples
    --------
    >>> import dalembert as da
    >>> p = da.problems()["particle-8.1.1"]
    >>> method = da.GeneralLinear(da.glm.multistep_radau(steps=2, stages=2))
    >>> da.solve(p.system, (0, 1), p.q0, p.v0, method=method, h=0.1).success
    True
    """

    method: Tableau = field(default_factory=lambda: multistep_radau(2, 2))
    name: ClassVar[str] = "general-linear"
    summary: ClassVar[str] = "general linear method given by its coefficients, fixed step"
    default_formulation: ClassVar[str] = "index-3"
    takes: ClassVar[frozenset[str]] = frozenset({"index-1", "index-2", "index-3", "baumgarte"})
    in_row: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not isinstance(self.method, Tableau):
            raise OptionError(
                f"GeneralLinear(method={self.method!r}): give a da.glm.Tableau, e.g. da.glm.multistep_radau(2, 2)."
            )
        if not self.method.ends_with_a_stage:
            raise OptionError(
                f"GeneralLinear({self.method.name!r}): the last stage must be the end of the step (c = 1, the same "
                "formulas for position and velocity), for multipliers are taken there."
            )

    # ------------------------------------------------------------------ how it is run
    @property
    def equations_key(self) -> tuple[Any, ...]:
        return (type(self), self.method.key)

    @property
    def one_step(self) -> bool:  # type: ignore[override]
        """Everything is known at the start: positions, velocities and accelerations at t_n."""
        return self.method.steps_back == 0

    @property
    def self_starting(self) -> bool:  # type: ignore[override]
        return self.one_step

    @property
    def reserve(self) -> int:  # type: ignore[override]
        """Starting rows are order + reserve: the grid points that the external vector reaches to."""
        return self.method.steps_back + 1 - self.method.order

    def order_range(self, fixed: bool) -> tuple[int, int]:
        return self.method.order, self.method.order

    @property
    def hermite_order(self) -> int:  # type: ignore[override]
        return self.method.order

    def describe(self) -> str:
        return f"general linear ({self.method.name})"

    def check(self, system: System, formulation: Formulation) -> None:
        super().check(system, formulation)
        if not system.nq:
            raise OptionError(f"{self.name!r} integrates second-order systems; this one is of first order. Use BDF.")
        what, radius = f"GeneralLinear({self.method.name!r})", self.method.radius_at_infinity
        if formulation.name == "index-3" and system.nlam and not radius < 1 - 1e-6:  # [S97], [W05, theorem A.0.11]
            raise OptionError(
                f"{what} is not strictly stable at infinity: spectral radius {radius:.6g}, must be below 1 for the "
                "multipliers of index 3. Use formulation='index-1', or other coefficients."
            )
        on_velocities = formulation.name == "index-2" or (formulation.name == "index-3" and system.nmu)
        if on_velocities and not self.method.stable_for_velocity_constraints:
            raise OptionError(f"{what} is not stable for constraints on velocities. Use formulation='index-1'.")
        if system.nr and not self.method.first_order_part:
            raise OptionError(
                f"{what} makes velocities from past positions or accelerations: it has no formula for dynamic states "
                "r. Use a method whose velocities depend on past velocities only, e.g. da.glm.multistep_radau(2, 2)."
            )

    def for_run(self, fixed: bool, changing: bool = False) -> GeneralLinear:
        if not fixed:
            raise OptionError(
                "GeneralLinear has constant coefficients and no error estimate: give the step size with h=. With "
                "error control use Radau, ModifiedBDF or BDF."
            )
        return self

    def check_steps(self, steps: np.ndarray, span: float) -> None:
        if self.one_step:
            return
        least = max(self.method.order, self.method.steps_back + 1)
        if steps.size < least:
            raise OptionError(f"h: {self.describe()} needs at least {least} steps, there are {steps.size}; reduce h.")
        last = span - steps[:-1].sum()
        if not np.allclose(np.append(steps[:-1], last), steps[0], rtol=1e-9, atol=0.0):
            raise OptionError(
                f"h: {self.describe()} has past values and constant coefficients: all steps must be equal, also the "
                f"last. Take h = {abs(span)} / n with a whole number n."
            )

    # ------------------------------------------------------------------ the row
    @property
    def blocks(self) -> list[str]:
        """Row block of each external value."""
        return [
            SOURCES[d] if tau == 0.0 else f"_y{j}" for j, (d, tau) in enumerate(self.method.external)
        ]  # those at t_n are q, v and a themselves: a projection of the row moves what the next step sees

    def _dynamic_blocks(self) -> dict[int, str]:
        """External velocities -> row block that holds r in their place."""
        pairs = enumerate(self.method.external)
        return {j: "r" if tau == 0.0 else f"_r{j}" for j, (d, tau) in pairs if d == 1}

    def unknowns(self, system: System, formulation: Formulation) -> list[Unknown]:
        return stage_unknowns(system, self.method.stages)

    def carried(self, system: System, formulation: Formulation) -> list[Unknown]:
        index = {u.name: u for u in formulation.unknowns(system)}
        out = [index[n] for n in ("q", "v", "r", "w", "s", "lam", "mu")]
        out.append(Unknown("a", system.nv, False, controlled=False))
        for block, (d, tau) in zip(self.blocks, self.method.external, strict=True):
            if tau != 0.0:
                out.append(Unknown(block, system.sizes[SOURCES[d]], False, controlled=False))
        for block in self._dynamic_blocks().values():
            if block != "r":
                out.append(Unknown(block, system.nr, False, controlled=False))
        return out

    def recalled(self) -> list[tuple[str, str, float]]:
        external = zip(self.blocks, self.method.external, strict=True)
        out = [(block, SOURCES[d], tau) for block, (d, tau) in external if tau != 0.0]
        return out + [(b, "r", self.method.external[j][1]) for j, b in self._dynamic_blocks().items() if b != "r"]

    def weight_map(self, system: System, layout: Layout, formulation: Formulation) -> np.ndarray:
        return stage_weights(layout, self.method.stages)

    def coefficient_function(self) -> int:
        return last_row_function()

    # ------------------------------------------------------------------ the step
    def equations(
        self, formulation: Formulation, env: Environment, layout: Layout, x: ca.SX, data: StepData
    ) -> StepEquations:
        system, m, h = env.system, self.method, data.h
        old = past_row(layout, data.first)
        stage = split_stages(system, x, m.stages)
        kinds = [d for d, _ in m.external]
        y = [old[block] for block in self.blocks]
        dynamic = self._dynamic_blocks()

        def formula(past: np.ndarray, stages: np.ndarray, derivative: int) -> ca.SX:
            """A derivative of q from the external vector and the stage accelerations."""
            terms = [float(w) * h ** (d - derivative) * z for w, d, z in zip(past, kinds, y, strict=True) if w]
            terms += [float(w) * h ** (2 - derivative) * z["a"] for w, z in zip(stages, stage, strict=True) if w]
            return sum(terms, ca.SX.zeros(system.nv, 1))

        def dynamics(past: np.ndarray, stages: np.ndarray) -> ca.SX:
            """r by the formula for velocities."""
            terms = [float(past[j]) * old[block] for j, block in dynamic.items() if past[j]]
            terms += [float(w) * h * z["r_dot"] for w, z in zip(stages, stage, strict=True) if w]
            return sum(terms, ca.SX.zeros(system.nr, 1))

        points = [
            env.at(
                t=data.t - h + float(m.c[i]) * h,
                q=formula(m.q_past[i], m.q_stages[i], 0), v=formula(m.v_past[i], m.v_stages[i], 1), a=z["a"],
                r=dynamics(m.v_past[i], m.v_stages[i]), w=z["w"], s=z["s"], lam=z["lam"], mu=z["mu"],
            )
            for i, z in enumerate(stage)
        ]  # fmt: skip
        labels, residual, rows = write_stages(formulation, points, stage, h)
        new = {n: stage[-1][n] for n in ("w", "s", "lam", "mu", "a")}
        for j, block in enumerate(self.blocks):  # [W05, (A.20)]
            new[block] = formula(m.y_past[j], m.y_stages[j], kinds[j])
        for j, block in dynamic.items():
            new[block] = dynamics(m.y_past[j], m.y_stages[j])
        start = {"r_dot": ca.SX.zeros(system.nr, 1), **{n: old[n] for n in ("a", "w", "s", "lam", "mu")}}
        names = [u.name for u in self.carried(system, formulation)]
        return StepEquations(
            labels=labels,
            residual=residual,
            rows=rows,
            columns=stage_columns(system, m.stages, h),
            update=ca.densify(ca.vertcat(*[new[n] for n in names])),
            start=ca.densify(ca.vertcat(*[start[n] for _ in range(m.stages) for n, _, _ in STAGE])),
        )
