"""Backward differentiation formulas of orders 1 to 6 with variable steps, for first-order DAEs F(t, x, x') = 0.

[BCP96] K. Brenan, S. Campbell, L. Petzold, Numerical Solution of Initial-Value Problems in DAEs, SIAM 1996, ch. 5.
[E93]   E. Eich, Convergence results for a coordinate projection method, SIAM J. Numer. Anal. 30 (1993) 1467-1482.

The derivative at t_n is that of the polynomial through t_n, ..., t_{n-k}, whatever the spacing (variable
coefficients): x'_n = c0 x_n + sum_i w_i x_{n-i}. Past values are projected ones [E93, (2.4)].
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from dalembert.formulations.base import Formulation
from dalembert.integrators.base import TIGHT, register
from dalembert.integrators.multistep import HIGHEST, BackwardDifferences, coefficient_address
from dalembert.model.system import System
from dalembert.numerics.projection import Projection
from dalembert.numerics.step import STIFF_ORDER
from dalembert.spaces import Space
from dalembert.status import OptionError

USUAL_ORDER = 5
# What steps may add, such that the errors of motions without damping (pendulum, slider crank) stay below the tolerance
# at the end of runs: measured by benchmarks/second_order.py
ADDING_UP = 13.0
USUAL = 1e-4  # tolerance below which the number of steps, which grows as tolerances fall, counts
FINEST = 1e-14  # smallest error of a step that is asked for
# Weights of the estimates of orders 0 to 7: low ones are for stiff systems, whose damping forgets errors, high ones for
# motions that add them up.
SHARES = np.array([1.0, 0.2, 0.2, 0.2, 0.45, 1.0, 1.0, 1.0])
ROUNDING = 30.0  # units in the last place of the largest velocity: measured on Andrews' mechanism, whose are 1 to 1000


@register
@dataclass(frozen=True)
class BDF(BackwardDifferences):
    """Backward differentiation formulas, variable step, variable order.

    Parameters
    ----------
    max_order
        Largest order the controller may use, 1 to 6. With a fixed step it is the order of the run. None (default): 5,
        and 6 for automatic steps on a group at tolerances up to 1e-8 (`GroupBDF`).
    start
        With a fixed step: "accurate" starting values of full order, or "ramp": orders 1, 2, ... from the first step.
    control
        What automatic steps hold at the tolerance: the error that the "run" adds up (default), or that of every
        "step", as codes like DASSL do: fewer steps, larger errors.

    References
    ----------
    Brenan, Campbell, Petzold (SIAM 1996); with projection: Eich (SIAM J. Numer. Anal. 30, 1993).
    """

    max_order: int | None = None
    start: Literal["accurate", "ramp"] = "accurate"
    control: Literal["run", "step"] = "run"
    name: ClassVar[str] = "bdf"
    summary: ClassVar[str] = "BDF, orders 1 to 6, variable step and order"
    default_formulation: ClassVar[str] = "index-1"

    def __post_init__(self) -> None:
        k = self.max_order
        if k is not None and (isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= HIGHEST):
            raise OptionError(f"BDF(max_order={self.max_order!r}): BDF is stable for orders 1 to 6 only.")
        if self.control not in ("run", "step"):
            raise OptionError(f"BDF(control={self.control!r}): choose 'run' or 'step'.")

    @property
    def highest(self) -> int:
        """Largest order of a run."""
        return USUAL_ORDER if self.max_order is None else self.max_order

    def order_range(self, fixed: bool) -> tuple[int, int]:
        return (self.highest if fixed else 1), self.highest

    def for_space(self, space: Space, formulation: Formulation, tolerance: float) -> BDF:
        # at looser tolerances order 5 does better with stiff forces; multipliers of index 3 are second differences, in
        # which order 6 has more of the rounding errors
        fit = tolerance <= TIGHT and not space.flat and formulation.name != "index-3"
        return GroupBDF(start=self.start) if fit and self.max_order is None and self.control == "run" else self

    def estimate_scale(
        self, system: System, formulation: Formulation, tolerance: float, projection: Projection | None = None
    ) -> float:
        """Local errors h^(k+1) held at tol add up to tol^(k/(k+1)); at tol^(1 + 1/k) they would add up to tol.

        With orders above 2 half of that is taken, because orders rise when tolerances fall, and errors fall faster by
        that. Estimates below `FINEST` are rounding errors.
        """
        if self.control == "step":
            return 1.0
        exponent = (1.0 if self.highest <= 2 else 0.5) / self.highest
        return max(1.0, min(ADDING_UP * max(1.0, USUAL / tolerance) ** exponent, tolerance / FINEST))

    def order_shares(self, tolerance: float) -> np.ndarray:
        """Where there are high orders for motions without damping, low ones need not be made for them."""
        if self.control == "step" or self.highest <= STIFF_ORDER:
            return np.ones_like(SHARES)
        return SHARES / SHARES[self.highest]

    def as_starter(self) -> BDF:
        return replace(self, control="step")

    @property
    def rounding(self) -> float:  # type: ignore[override]
        return ROUNDING if self.control == "run" else 0.0

    def describe(self) -> str:
        return f"BDF (orders 1-{self.highest})"


@dataclass(frozen=True)
class GroupBDF(BDF):
    """BDF with automatic steps on a group at tight tolerances: order 6, with the steps of order 5.

    The numbers that describe a turning body turn with it, and the errors of steps, (h Omega)^(k+1), point the same way
    all the time. They add up faster than elsewhere, and at tight tolerances from less than estimates can tell from
    rounding errors. Order 6 has less of them, but its own estimates would be too small to hold them.
    """

    @property
    def highest(self) -> int:
        return HIGHEST

    @property
    def equations_key(self) -> tuple[Any, ...]:
        return (BDF,)

    def newton_share(self, tolerance: float, projection: Projection | None = None) -> float:
        """What Newton's method leaves points the same way all the time, too."""
        return 0.1 * super().newton_share(tolerance, projection)

    def coefficient_function(self) -> int:
        return coefficient_address(borrowing=True)
