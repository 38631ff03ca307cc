"""HHT-alpha for constrained systems: positions and velocities both on the constraints, of second order.

[JN07] L. O. Jay, D. Negrut, Extensions of the HHT-alpha method to differential-algebraic equations in mechanics,
       Electron. Trans. Numer. Anal. 26 (2007) 190-208.
[LS06] C. Lunk, B. Simeon, Solving constrained mechanical systems by the family of Newmark and alpha-methods,
       ZAMM 86 (2006) 772-784.
[HHT77] H. Hilber, T. Hughes, R. Taylor, Improved numerical dissipation for time integration algorithms in structural
       dynamics, Earthquake Engng. Struct. Dyn. 5 (1977) 283-292.

With y' = z, z' = f(t, y, z) + r(t, y, lam) + s(t, y, z, mu), where M f = F, M r = R (= -G^T lam), M s = -K^T mu:

    y1 = y0 + h z0 + h^2/2 [(1 - 2 beta) a0 + 2 beta a1 + (1 - b) R0 + b R1 + S]                       [JN07, (3.4a)]
    z1 = z0 + h [(1 - gamma) a0 + gamma a1 + (R0 + R1) / 2 + S]                                        [JN07, (3.4b)]
    a1 = (1 + alpha) f(t1, y1, z1) - alpha f(t0, y0, z0)                                               [JN07, (3.4c)]
    R0 = r(t0, y0, L0), R1 = r(t1, y1, L1),  S = s(t0 + h/2, y0 + h/2 z0, (z0 + z1) / 2, mu)     [JN07, (3.4d), 6]
    0 = g(t1, y1) = g'(t1, y1, z1) = k(t1, y1, z1)                                                     [JN07, (3.4e)]

L0, L1 and mu belong to the step. This is what the method makes of the formulation "overdetermined"; other methods
step on index 1 and project instead. On "index-2" holonomic constraints are treated as section 6 treats k: on velocities
only, with their force in S.

a_n is f at t_n + alpha h, so a0 - f0 = alpha h f'. With f' = (f1 - f0) / h of the last step carried in the row, the
correction (2.3) for a change of the step size is a0 = f0 + alpha h f' with the h of the step to come.

The vectors f1, R0, R1, S are unknowns (M f1 = F, ...: no inverse is formed), constraints are divided by h^2/2 and h:
the multiplier block tends to [[1-b, b, 1], [1/2, 1/2, 1]] x (constraints times M^-1 constraints^T), regular for b not
1/2. L0 and L1 are of first order only; the multipliers reported are those of (3.2) at (y_n, z_n), of order 2.

Departures. Where F depends on multipliers, as friction does, f is made of F(lam = mu = 0), and r (or s) of the rest;
r then depends on z, which is taken where y is. Dynamic states r' = f_d follow the formula for z. On a group y1 is
reached by the motion h z0 + h^2/2 [...], and (3.5) and midpoints are motions likewise. The error estimate is ours: the
leading terms of the local error, h^3 (beta + alpha/2 - 1/6) y''' and h^3 (1/12 - alpha/2 - alpha^2) z''', with
derivatives by differences of the velocities.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import casadi as ca
import numpy as np

from dalembert.formulations.base import At, Formulation, Unknown
from dalembert.formulations.overdetermined import Overdetermined
from dalembert.integrators.base import Integrator, StepData, StepEquations, register
from dalembert.integrators.hht_step import (
    UNITS,
    VARIANTS,
    Scheme,
    depends,
    loaded,
    nonlinear,
    step_equations,
    step_unknowns,
)
from dalembert.integrators.stages import last_row_function
from dalembert.model.point import Environment
from dalembert.model.system import System
from dalembert.numerics.layout import Layout
from dalembert.numerics.projection import Projection
from dalembert.status import ModelError, OptionError


@register
@dataclass(frozen=True)
class HHT(Integrator):
    """HHT-alpha of Jay & Negrut: order 2 in q, v and lam, numerical damping by alpha.

    Parameters
    ----------
    alpha
        -1/3 (most damping of high frequencies) to 0 (none, the trapezoidal rule).
    b
        Weight of the two constraint forces in the positions, anything but 1/2; the paper recommends 0.
    variant
        "standard" (3.4), "explicit" (3.5), "midpoint", "midpoint-explicit" or "lunk-simeon".
    rescale
        Correct a_n when the step size changes, (2.3). Without it such steps are of first order only.

    Examples
    --------
    >>> import dalembert as da
    >>> p = da.problems()["pendulum"]
    >>> sol = da.solve(p.system, (0, 1), p.q0, p.v0, method=da.HHT(alpha=-0.1), h=0.01)
    >>> sol.success
    True
    """

    alpha: float = -0.1
    b: float = 0.0
    variant: str = "standard"
    rescale: bool = True
    name: ClassVar[str] = "hht"
    summary: ClassVar[str] = "HHT-alpha, order 2 with numerical damping, constraints on positions and velocities"
    default_formulation: ClassVar[str] = "overdetermined"
    takes: ClassVar[frozenset[str]] = frozenset({"overdetermined", "index-2"})
    in_row: ClassVar[bool] = False
    one_step: ClassVar[bool] = True
    hermite_order: ClassVar[int | None] = 2
    on_groups: ClassVar[bool] = True
    own_multipliers: ClassVar[bool] = False

    def __post_init__(self) -> None:
        for name in ("alpha", "b"):
            value = getattr(self, name)
            real = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
            if not real or not np.isfinite(value):
                raise OptionError(f"HHT({name}={value!r}): give a finite number.")
        if not -1 / 3 - 1e-15 <= self.alpha <= 0:
            raise OptionError(
                f"HHT(alpha={self.alpha!r}): give -1/3 <= alpha <= 0; outside stiff forces make it unstable."
            )
        if self.b == 0.5:
            raise OptionError(
                "HHT(b=0.5): positions and velocities would see the same mean of the two constraint forces, which "
                "cannot meet both constraints; give another b, 0 is recommended."
            )
        if self.variant not in VARIANTS:
            raise OptionError(f"HHT(variant={self.variant!r}): give one of {', '.join(map(repr, VARIANTS))}.")
        if self.variant.startswith("midpoint") and self.b != 0:
            raise OptionError(f"HHT(b={self.b!r}, variant={self.variant!r}): the midpoint variants have b = 0.")
        if not isinstance(self.rescale, bool):
            raise OptionError(f"HHT(rescale={self.rescale!r}): give True or False.")

    @property
    def scheme(self) -> Scheme:
        """The coefficients."""
        return Scheme(float(self.alpha), float(self.b), self.variant, self.rescale)

    # ------------------------------------------------------------------ how it is run
    @property
    def equations_key(self) -> tuple[Any, ...]:
        return (type(self), self.scheme)

    def order_range(self, fixed: bool) -> tuple[int, int]:
        return 2, 2

    def estimate_scale(
        self, system: System, formulation: Formulation, tolerance: float, projection: Projection | None = None
    ) -> float:
        """Local errors h^3 below 2 tol^(3/2) make the errors of a run, h^2, follow tol (below it, as measured)."""
        return max(1.0, 0.5 / np.sqrt(tolerance))

    def satisfies(self, formulation: Formulation) -> frozenset[str]:
        return frozenset({"position", "velocity"}) if formulation.name == "overdetermined" else formulation.satisfies

    def describe(self) -> str:
        options = [f"alpha = {self.alpha:g}", f"b = {self.b:g}"]
        options += [self.variant] if self.variant != "standard" else []
        return f"hht ({', '.join(options + ([] if self.rescale else ['a not rescaled']))})"

    def check(self, system: System, formulation: Formulation) -> None:
        super().check(system, formulation)
        if not system.nq:
            raise OptionError(f"{self.name!r} integrates second-order systems; this one is of first order. Use BDF.")
        if isinstance(formulation, Overdetermined) and formulation != Overdetermined():
            raise OptionError(
                f"method 'hht' meets the constraints of {formulation} within the step and does not project: leave out "
                "weight and velocity_projection."
            )
        if formulation.name == "index-2" and (self.variant != "standard" or self.b != 0):
            raise OptionError(
                f"HHT(b={self.b!r}, variant={self.variant!r}): b and the variants are for position constraints; with "
                "formulation='index-2' leave them out."
            )
        x = system.symbols
        for role, names in (("force", ("a",)), ("dynamics", ("a", "lam", "mu")), ("auxiliary", ("a", "lam", "mu"))):
            for name in names:
                if depends(getattr(system, role), getattr(x, name)):
                    raise OptionError(f"method 'hht' needs {role} without {name!r}; use Radau, BDF or ModifiedBDF.")
        if loaded(system) and "force" in system.black_boxes:
            raise OptionError(
                "method 'hht' splits a force that depends on multipliers, which it cannot do with a black box; use "
                "Radau, BDF or ModifiedBDF, or write the force so that it can be traced."
            )
        if loaded(system) and system.nlam and system.nmu and formulation.name == "overdetermined":
            raise OptionError(
                "method 'hht' takes forces that depend on multipliers with constraints of one kind only, positions or "
                "velocities; use formulation='index-2', or Radau, BDF or ModifiedBDF."
            )
        if self.variant == "lunk-simeon" and nonlinear(system):
            raise OptionError("HHT(variant='lunk-simeon') needs a constraint_force linear in lam; use 'standard'.")

    # ------------------------------------------------------------------ the row and the unknowns
    def unknowns(self, system: System, formulation: Formulation) -> list[Unknown]:
        return step_unknowns(self.scheme, system, formulation)

    def carried(self, system: System, formulation: Formulation) -> list[Unknown]:
        of = {u.name: u for u in formulation.unknowns(system)}
        if formulation.name == "overdetermined":  # L0 - L1 is seen by positions only, mu by velocities
            of["lam"], of["mu"] = replace(of["lam"], index=3), replace(of["mu"], index=2)
        rates = system.nv + system.nr
        return [
            *[of[name] for name in ("q", "v", "r", "w", "s", "lam", "mu")],
            Unknown("a", system.nv, False, controlled=False),  # mean of the step, until it is solved for
            Unknown("a_alpha", system.nv, False, controlled=False),  # a_n of the paper
            *[Unknown(name, rates, False, controlled=False) for name in ("_f", "_f_dot", "_mean", "_jerk")],
            Unknown("_h", 2, False, controlled=False),
        ]

    def start_carried(self, system: System, formulation: Formulation, at: At) -> dict[str, np.ndarray]:
        """a0 = f(t0, y0, z0); differences begin with the accelerations at the start."""
        mass = at("mass").reshape(system.nv, system.nv)
        if np.linalg.cond(mass) > 1e12:
            raise ModelError("method 'hht' needs a regular mass matrix: f = M^-1 F. Use Radau, BDF or ModifiedBDF.")
        f = np.linalg.solve(mass, at("free_force" if loaded(system) else "force").ravel())
        dynamics = at("dynamics").ravel()
        return {"a_alpha": f, "_f": np.append(f, dynamics), "_mean": np.append(at("a").ravel(), dynamics)}

    def weight_map(self, system: System, layout: Layout, formulation: Formulation) -> np.ndarray:
        parts = []
        for u in self.unknowns(system, formulation):
            block, power = UNITS[u.name]
            index = layout.indices((block,))[: u.size]
            parts.append(np.array([index, np.full(u.size, power)]))
        return np.ascontiguousarray(np.concatenate(parts, axis=1), dtype=np.int64)

    def coefficient_function(self) -> int:
        return last_row_function()

    # ------------------------------------------------------------------ the step
    def equations(
        self, formulation: Formulation, env: Environment, layout: Layout, x: ca.SX, data: StepData
    ) -> StepEquations:
        return step_equations(self.scheme, formulation, env, layout, x, data)
