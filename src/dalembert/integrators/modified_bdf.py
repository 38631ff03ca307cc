"""BDF for second-order systems solved directly: M q'' = f - G^T lam, 0 = g, without doubling the unknowns.

[W05] L. Wunderlich, Numerical treatment of second order differential-algebraic systems, diploma thesis, TU Berlin 2005,
      chapter 3 (method idea: J. Sand).

Unknowns are q_n and lam_n; v_n and a_n are affine in q_n. Three ways of making a_n (modified_bdf_formulas.py):

"regular": formulas of constant steps. Orders 1 to 5: BDF applied twice, a_n = (alpha * alpha) q / h^2 over q_n, ...,
q_{n-2k}. Order 6: BDF twice would be stable within 18 degrees of the negative axis only; its formula has six more
past points than it needs, which are used for stability (38 degrees). When the step changes, past positions are
interpolated to the new grid by polynomials of degree k+2: no poles. Steps are kept for k+1 steps and grow by no more
than `GROWTH_LIMITS`: interpolating and taking k+1 steps, over and over, then leaves no growing parasitic solutions.
Reported velocities are of order k+1, BDF_{k+1} q. What rounding takes from positions is stored beside them
(`positions.lost_digits`): differences over h^2 would show it. For automatic steps.

"interpolant": v_n = p'(t_n), a_n = p''(t_n) for the polynomial p through q_n, ..., q_{n-k-1}. No poles, no memory of
orders; order k in q, v and lam under any change of steps that keeps the recursion stable. Its error is about twice that
of "regular", and order 5 is not stable for stiff systems; but it bears steps that change all the time. For prescribed
steps.

"thesis": v_n by ordinary BDF of order k, a_n = sum_j b_j v_{n-j} with b chosen such that a_n is exact for polynomials
q of degree k+1, given how each stored v was made [W05, (3.8)-(3.12)]. Its coefficients have poles after step
reductions: it is offered with prescribed steps only, for the tables of the thesis.

On a group (prescribed steps) the new position is reached by a motion, q_n = q_{n-1} exp(y), and formulas are applied
to stored numbers, as in `positions`: v_n is the tangential part of D q, a_n that of D^2 q less the part of q'' that v
alone makes. Errors of D^2 are those of rotating numbers: of order k, but larger than those of BDF for bodies that spin.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import casadi as ca
import numpy as np

from dalembert.formulations.base import Formulation, Unknown
from dalembert.integrators.base import Integrator, StepData, StepEquations, register
from dalembert.integrators.modified_bdf_formulas import HIGHEST, coefficient_address
from dalembert.integrators.positions import (
    LOW,
    kept_positions,
    lost_digits,
    motion_weights,
    new_position,
    start_values,
    step_unknowns,
    tangential,
)
from dalembert.model.point import Environment
from dalembert.model.system import System
from dalembert.numerics.layout import Layout
from dalembert.numerics.projection import Projection
from dalembert.numerics.runstate import HISTORY, N_ORDERS
from dalembert.numerics.step import STIFF_ORDER
from dalembert.status import OptionError

ADDING_UP, GROWING = 8.0, 0.175  # ADDING_UP tol^-GROWING: weight of what a step may add to the error
# Smallest error of a step that estimates can tell from rounding, without the part along constraints and with it
FINEST, COARSER = 8e-12, 8e-11
LOW_ORDERS = 0.6  # that weight in runs of orders up to 3, whose start is as careful as that of others
CAREFUL = 64.0
# DAMPED[k] tol^-GROWING_DAMPED is that weight for order k where damping forgets errors. Measured such that the largest
# errors of the truck, over the whole run, are below the tolerance.
DAMPED, GROWING_DAMPED = np.array([0.2, 0.2, 0.2, 0.2, 1.1]), 0.21


@register
@dataclass(frozen=True)
class ModifiedBDF(Integrator):
    """Second-order BDF: half the unknowns, accurate multipliers under step changes, on index 3 (default) and on the
    second-order forms of index 1 and 2, Gear, Gupta and Leimkuhler, and minimal extension.

    Parameters
    ----------
    max_order
        Largest order, 1 to 6. None (default): 6 for automatic steps, 5 for prescribed ones; 6 needs a regular grid.
    variant
        None (default): "regular" for automatic steps, "interpolant" for prescribed ones. Or "thesis". See the head of
        the file.
    start
        With a fixed step: "accurate" starting values of full order, or "ramp": orders 1, 2, ... from the first step.
    """

    max_order: int | None = None
    variant: Literal["regular", "interpolant", "thesis"] | None = None
    start: Literal["accurate", "ramp"] = "accurate"
    name: ClassVar[str] = "modified-bdf"
    summary: ClassVar[str] = "BDF for second-order systems, orders 1 to 5, variable step and order"
    default_formulation: ClassVar[str] = "index-3"
    self_starting: ClassVar[bool] = False
    on_groups: ClassVar[bool] = True
    smallest_rtol: ClassVar[float] = 5e-12  # second differences of q carry rounding errors eps/h^2
    faithful_rtol: ClassVar[float] = 1e-9  # below, `estimate_scale` ends at FINEST
    takes: ClassVar[frozenset[str]] = frozenset(
        {"index-1", "index-2", "index-3", "stabilized-index-2", "minimal-extension"}
    )

    def __post_init__(self) -> None:
        k = self.max_order
        if k is not None and (isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= HIGHEST):
            raise OptionError(f"ModifiedBDF(max_order={k!r}): orders 1 to {HIGHEST} are usable.")
        variants = (None, "regular", "interpolant", "thesis")
        for option, allowed in (("variant", variants), ("start", ("accurate", "ramp"))):
            value = getattr(self, option)
            if value not in allowed:
                raise OptionError(f"ModifiedBDF({option}={value!r}): choose {', '.join(map(repr, allowed))}.")
        if self.variant != "thesis" and self.start == "ramp":
            raise OptionError("ModifiedBDF(start='ramp') needs variant='thesis': the others want more past points.")

        if k == HIGHEST and self.variant in ("interpolant", "thesis"):
            raise OptionError(
                f"ModifiedBDF(max_order={k}, variant={self.variant!r}): its orders are 1 to {HIGHEST - 1}."
            )

    @property
    def highest(self) -> int:
        """Largest order of a run."""
        if self.max_order is not None:
            return self.max_order
        return HIGHEST if self.variant == "regular" else HIGHEST - 1

    @property
    def equations_key(self) -> tuple[Any, ...]:
        return (type(self), self.variant)

    def estimate_scale(
        self, system: System, formulation: Formulation, tolerance: float, projection: Projection | None = None
    ) -> float:
        """Local errors h^7 add up over a number of steps that grows like tol^(-1/7), with changes of the step a little
        faster; factor and exponent are measured, such that the errors of motions without damping stay below the
        tolerance. Steps so small that second differences are rounding errors would not help. Runs of low orders are
        not made for accuracy: the usual measure of local errors."""
        if self.highest <= STIFF_ORDER:
            return LOW_ORDERS * CAREFUL
        finest = FINEST if projection is not None and projection.error == "projected" else COARSER
        return max(1.0, min(ADDING_UP * tolerance**-GROWING, tolerance / finest))

    def order_shares(self, tolerance: float) -> np.ndarray:
        """Low orders are for systems with damping, high ones for motions that add errors up."""
        if self.highest <= STIFF_ORDER:
            return np.full(N_ORDERS, 1.0 / CAREFUL)
        shares, below = np.ones(N_ORDERS), min(self.highest, DAMPED.size)
        shares[:below] = DAMPED[:below] * tolerance ** (GROWING - GROWING_DAMPED) / ADDING_UP
        return shares

    @property
    def reserve(self) -> int:  # type: ignore[override]
        return {"regular": min(HISTORY - HIGHEST - 1, self.highest), "interpolant": 1}.get(self.variant or "", 0)

    @property
    def regular(self) -> bool:  # type: ignore[override]
        return self.variant == "regular"

    @property
    def own_multipliers(self) -> bool:  # type: ignore[override]
        """On a regular grid velocities are of one order more than what the step's multipliers belong to."""
        return self.variant != "regular"

    def order_range(self, fixed: bool) -> tuple[int, int]:
        return (self.highest if fixed else 1), self.highest

    @property
    def hermite_order(self) -> int:  # type: ignore[override]
        """Stored points are not the regular ones that its formulas are made of."""
        return self.highest

    def describe(self) -> str:
        return f"modified BDF (orders 1-{self.highest}{', ' + self.variant if self.variant else ''})"

    def check(self, system: System, formulation: Formulation) -> None:
        super().check(system, formulation)
        if not system.nq:
            raise OptionError("ModifiedBDF integrates second-order systems; this one is of first order. Use BDF.")
        if not system.space.flat:
            self._check_group(system)

    def _check_group(self, system: System) -> None:
        if self.variant == "regular":
            raise OptionError(
                f"ModifiedBDF on {system.space} needs prescribed steps: past positions on a regular grid would not be "
                "elements of the group. Give the steps with h=, or use BDF."
            )
        if self.variant == "thesis":
            raise OptionError(f"ModifiedBDF(variant='thesis') is for Euclidean spaces; on {system.space} leave it out.")

    def for_run(self, fixed: bool, changing: bool = False) -> ModifiedBDF:
        if self.variant is None and fixed and self.max_order == HIGHEST:
            raise OptionError(
                f"ModifiedBDF(max_order={HIGHEST}) with prescribed steps: orders 1 to {HIGHEST - 1} bear steps that "
                f"change; if all are equal, variant='regular' has order {HIGHEST}."
            )
        if self.variant is None:
            return replace(self, variant="interpolant" if fixed else "regular")
        if self.variant != "regular" and not fixed:
            reason = "poles where steps shrink" if self.variant == "thesis" else "no stability where steps keep growing"
            raise OptionError(
                f"ModifiedBDF(variant={self.variant!r}) has {reason}; give the steps with h=, or leave variant out."
            )
        return self

    def unknowns(self, system: System, formulation: Formulation) -> list[Unknown]:
        return step_unknowns(system, formulation.second_order_unknowns(system), self.moves(system))

    def moves(self, system: System) -> bool:
        return self.compensates(system) or super().moves(system)

    def compensates(self, system: System) -> bool:
        """Formulas of constant steps are differences of positions over h^2: their rounding errors would be felt."""
        return self.variant == "regular" and system.space.flat

    def carried(self, system: System, formulation: Formulation) -> list[Unknown]:
        kept = kept_positions(formulation.second_order_unknowns(system), self.moves(system))
        low = [Unknown(LOW, system.nq, False, controlled=False)] if self.compensates(system) else []
        return [*kept, Unknown("v", system.nv, False, index=1), *low]

    def weight_map(self, system: System, layout: Layout, formulation: Formulation) -> np.ndarray | None:
        return motion_weights(system, layout, self.unknowns(system, formulation), self.moves(system))

    def derivatives(
        self, layout: Layout, now: dict[str, ca.SX], data: StepData, motion: ca.SX | None
    ) -> tuple[ca.SX, ca.SX, dict[str, ca.SX]]:
        """q', q'' and the derivatives of the other unknowns at the new time.

        ``motion``: change of the position, more accurate than the difference of rounded ones.
        """
        c0, c1 = data.c[0], data.c[1]
        # of motions, past rows come as changes from the last one
        change = {name: x - (data.last[layout.slice(name)] if data.last.numel() else 0) for name, x in now.items()}
        first, second = ({name: part[layout.slice(name)] for name in now} for part in (data.first, data.second))
        if motion is not None:
            change["q"] = motion
            first["q"] += data.first[layout.slice(LOW)]
            second["q"] += data.second[layout.slice(LOW)]
        rate = {name: c0 * change[name] + first[name] for name in now}
        v = rate.pop("q")
        if self.variant == "thesis":
            return v, c1 * v + data.second[layout.slice("v")], rate  # [W05, (3.6)]
        return v, c1 * change["q"] + second["q"], rate

    def equations(
        self, formulation: Formulation, env: Environment, layout: Layout, x: ca.SX, data: StepData
    ) -> StepEquations:
        system, unknowns = env.system, self.unknowns(env.system, formulation)
        now = {u.name: ca.vec(x[layout.slice(u.name)]) for u in unknowns}
        now["q"] = new_position(system, layout, now, data)
        motion = now.pop("y", None)
        compensated = motion if self.compensates(system) else None
        q_dot, q_ddot, rate = self.derivatives(layout, now, data, compensated)
        v, a = tangential(system, now["q"], q_dot, q_ddot)
        blocks, velocity = formulation.second_order(env, data.t, now, v, a, rate)
        c0 = data.c[0]  # scaled such that the matrix tends to [M G^T; G 0] as h -> 0
        return StepEquations(
            labels=[e.label for e in blocks for _ in range(e.expr.numel())],
            residual=ca.densify(ca.vertcat(*[e.expr for e in blocks])),
            rows=ca.vertcat(*[ca.SX.ones(e.expr.numel(), 1) * c0 ** (e.row - 1) for e in blocks]),
            columns=ca.vertcat(*[ca.SX.ones(u.size, 1) * c0 ** (u.column + 1) for u in unknowns]),
            # "thesis" makes a_n from the difference quotients v, which it has to remember as they are
            update=ca.densify(
                ca.vertcat(
                    x,
                    now["q"] if self.moves(system) else ca.SX.zeros(0, 1),
                    v if self.variant == "thesis" else velocity,
                    ca.SX.zeros(0, 1) if compensated is None else lost_digits(layout, now["q"], compensated, data),
                )
            ),
            start=start_values(system, layout, data, unknowns, self.moves(system)),
        )

    def coefficient_function(self) -> int:
        return coefficient_address(self.variant or "regular")
