"""Generalized-alpha for constrained mechanical systems, on Lie groups.

[CH93]  J. Chung, G. M. Hulbert, J. Appl. Mech. 60 (1993) 371-375: the parameters.
[ACB15] M. Arnold, A. Cardona, O. Bruels, Order reduction in time integration caused by velocity projection, J. Mech.
        Sci. Technol. 29 (2015): index-3 method (3), starting values, what a velocity projection does.
[ABC15] M. Arnold, O. Bruels, A. Cardona, Error analysis of generalized-alpha Lie group time integration methods for
        constrained mechanical systems, Numer. Math. 129 (2015) 149-179: stabilized index-2 method.
[BG06]  O. Bruels, J.-C. Golinval, The generalized-alpha method in mechatronic applications, ZAMM 86 (2006) 748-758:
        first-order states by the same formulas as velocities.

    q1 = q exp(h Dq~),   Dq = v + D(q) eta + (1/2 - beta) h a + beta h a1                       [ACB15, (3a), (3b)]
    v1 = v + (1 - gamma) h a + gamma h a1                                                       (3c)
    (1 - alpha_m) a1 + alpha_m a = (1 - alpha_f) v1' + alpha_f v'                               (3d)
    M v1' = f - G^T lam1,   0 = g(q1)   and, for the stabilized method,   0 = G(q1) v1 + g_t    (3e), (3f)

The index-3 method has no eta. Unknowns of a step are z, lam1 and eta, with

    v1' = z - D(q) eta / (h beta'),   beta' = beta (1 - alpha_f) / (1 - alpha_m),

so that q1 depends on z alone. With g divided by h^2, G v by h and eta counted in units of 1/h the matrix of Newton's
method is, up to terms of order h, the one of [ACB15], regular in the limit h -> 0 (gamma' as beta'):

    [ M         G^T   -M D / beta'           ]
    [ beta' G   0     0                      ]
    [ gamma' G  0     -gamma' G D / beta'    ]

Starting values: see `alpha_start`. A projection of v onto G v = 0 later on (``project_at``) excites the same error of
order 1 in lam that a start with G v_0 = 0 excites in the index-3 method.

Change of step. a_n - v_n' = Delta h v'' + O(h^2) belongs to the step h that made it; in a step of another size it is
scaled by the ratio sigma of the steps. Where steps change, the index-3 method does the same with the part of v_n across
the constraints: v_n + G^T kappa takes its place, with kappa such that G v_n = h^2 G r is multiplied by sigma^2. Without
it lam would lose an order at every change.

Rounding. The index-3 method finds lam from g(q1) / h^2, and its memory adds up what rounding leaves there. On the heavy
top with rho = 0.9 that is 4e-5 of lam at h = 1e-5, some 20 eps / h^2; tolerances that want such steps are out of reach.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import casadi as ca
import numpy as np

from dalembert.formulations.base import Formulation, Unknown
from dalembert.integrators.alpha_parameters import AlphaParameters, number
from dalembert.integrators.alpha_start import RATES, start_row
from dalembert.integrators.alpha_step import advance, guess, last_rows, local_error, projected, split
from dalembert.integrators.base import Integrator, Model, StepData, StepEquations, register
from dalembert.integrators.positions import along_the_group
from dalembert.integrators.stages import past_row
from dalembert.model.point import Environment
from dalembert.model.system import System
from dalembert.numerics.layout import Layout
from dalembert.numerics.projection import Projection
from dalembert.status import OptionError

START = ("shifted", "unperturbed", "consistent")

# share of the allowed error, times the tolerance, at which Newton's updates of automatic steps may end: a fifth of it
# stops at 1e-7 on Jay & Negrut's example 5.2; errors of runs are the same
LAST_UPDATE = 4e-7


@register
@dataclass(frozen=True)
class GeneralizedAlpha(Integrator):
    """Second order in q, v and lam; high frequencies are damped by the factor ``rho`` a step.

    Parameters
    ----------
    rho
        Spectral radius at infinite frequency, 0 (most damping) to 1 (none), for the parameters of Chung and Hulbert.
    start
        "shifted": a_0 = v'(t_0 + Delta h) and, in the index-3 method, the velocity that its steps will have.
        "unperturbed": the same a_0, v_0 as given. "consistent": a_0 = v_0', v_0 as given.
    project_at
        Times after which v is projected onto the velocity constraints, at the end of the step that reaches them. This
        reduces the order of the index-3 method and is there to show it.
    alpha_m, alpha_f, nm_beta, nm_gamma
        Parameters of the family instead of ``rho``. If not given: 0, 0, (1 + alpha_f - alpha_m)^2 / 4 and
        1/2 + alpha_f - alpha_m. See also `newmark` and `hht`.

    Examples
    --------
    >>> import dalembert as da
    >>> top = da.problems()["heavy-top"]
    >>> da.solve(top.system, (0, 0.1), q0=top.q0, v0=top.v0, method=da.GeneralizedAlpha(0.8), h=1e-3).success
    True
    """

    rho: float | None = 0.9
    start: str = "shifted"
    project_at: tuple[float, ...] = ()
    alpha_m: float | None = None
    alpha_f: float | None = None
    nm_beta: float | None = None
    nm_gamma: float | None = None
    # velocities of the index-3 method are adjusted when the step changes; the steps are not prescribed
    adjusts: bool = field(default=False, repr=False)
    automatic: bool = field(default=False, repr=False)

    name: ClassVar[str] = "generalized-alpha"
    summary: ClassVar[str] = "generalized-alpha (Newmark, HHT, Chung-Hulbert), order 2, damping as wanted, Lie groups"
    default_formulation: ClassVar[str] = "stabilized-index-2"
    takes: ClassVar[frozenset[str]] = frozenset({"index-3", "stabilized-index-2"})
    in_row: ClassVar[bool] = False
    one_step: ClassVar[bool] = True
    hermite_order: ClassVar[int | None] = 2
    on_groups: ClassVar[bool] = True
    keeps_constraints: ClassVar[bool] = True
    dense_order: ClassVar[int | None] = 3

    def __post_init__(self) -> None:
        if self.start not in START:
            raise OptionError(f"GeneralizedAlpha(start={self.start!r}): choose one of {', '.join(START)}.")
        given = self.project_at if isinstance(self.project_at, Iterable) else (self.project_at,)
        object.__setattr__(self, "project_at", tuple(number("project_at", x) for x in given))
        self.parameters  # noqa: B018 - refuses what makes no sense

    @cached_property
    def parameters(self) -> AlphaParameters:
        """The coefficients."""
        own = (self.alpha_m, self.alpha_f, self.nm_beta, self.nm_gamma)
        if all(x is None for x in own):
            rho = number("GeneralizedAlpha: rho", self.rho)
            if not 0 <= rho <= 1:
                raise OptionError(
                    f"GeneralizedAlpha(rho={rho:g}): the factor by which high frequencies are damped in a step must "
                    f"lie between 0 (most damping) and 1 (none)."
                )
            return AlphaParameters.chung_hulbert(rho)
        if self.rho is not None and self.rho != type(self).rho:
            raise OptionError("GeneralizedAlpha: give rho, or alpha_m, alpha_f, nm_beta and nm_gamma, not both.")
        m, f = (number(n, x) if x is not None else 0.0 for n, x in (("alpha_m", own[0]), ("alpha_f", own[1])))
        plain = AlphaParameters.second_order
        if self.nm_gamma is None:
            return plain(m, f, self.nm_beta)
        gamma = number("nm_gamma", self.nm_gamma)
        return AlphaParameters(m, f, (0.5 + gamma) ** 2 / 4 if self.nm_beta is None else self.nm_beta, gamma)

    @classmethod
    def newmark(cls, nm_beta: float = 0.25, nm_gamma: float = 0.5, **options: Any) -> GeneralizedAlpha:
        """Newmark's method: alpha_m = alpha_f = 0; of order 2 for nm_gamma = 1/2 only, which does not damp."""
        return cls(alpha_m=0.0, alpha_f=0.0, nm_beta=nm_beta, nm_gamma=nm_gamma, **options)

    @classmethod
    def hht(cls, alpha: float = -0.1, **options: Any) -> GeneralizedAlpha:
        """The method of Hilber, Hughes and Taylor in this family: alpha_m = 0, alpha_f = -alpha, -1/3 <= alpha <= 0."""
        if not -1 / 3 <= number("alpha", alpha) <= 0:
            raise OptionError(f"GeneralizedAlpha.hht(alpha={alpha:g}): give a number between -1/3 and 0.")
        return cls(alpha_m=0.0, alpha_f=-alpha, **options)

    @property
    def equations_key(self) -> tuple[Any, ...]:
        return (type(self), self.parameters, self.project_at, self.adjusts, self.automatic)

    def describe(self) -> str:
        c = self.parameters
        if c == AlphaParameters.chung_hulbert(self.rho if self.rho is not None else 0.9):
            return f"{self.name} (rho = {self.rho:g})"
        return f"{self.name} (alpha_m = {c.alpha_m:g}, alpha_f = {c.alpha_f:g}, beta = {c.nm_beta:g})"

    def order_range(self, fixed: bool) -> tuple[int, int]:
        return 2, 2

    def estimate_scale(
        self, system: System, formulation: Formulation, tolerance: float, projection: Projection | None = None
    ) -> float:
        """Local errors h^3 add up to global ones of h^2: tol^(3/2) / 2 in place of tol makes errors follow tol."""
        return 2.0 / np.sqrt(min(tolerance, 1.0))

    def newton_share(self, tolerance: float, projection: Projection | None = None) -> float:
        """Updates are not asked to be smaller than rounding leaves them with the short steps of small tolerances."""
        return max(super().newton_share(tolerance, projection), LAST_UPDATE / tolerance)

    def for_run(self, fixed: bool, changing: bool = False) -> GeneralizedAlpha:
        return replace(self, adjusts=changing or not fixed, automatic=not fixed)

    def weakness(self, system: System, formulation: Formulation) -> str:
        if formulation.name != "index-3" or not (system.nlam and self.automatic):
            return ""
        return (
            " The index-3 form finds multipliers from second differences of positions, with rounding errors of some "
            "eps / h^2 that the estimate of the error takes for errors of the step; small tolerances are out of its "
            "reach. Use formulation='stabilized-index-2', or a larger rtol."
        )

    def check(self, system: System, formulation: Formulation) -> None:
        super().check(system, formulation)
        if not system.nq:
            raise OptionError(f"{self.name!r} integrates second-order systems; this one is of first order. Use BDF.")
        if formulation.name == "index-3" and system.nlam and self.parameters.radius > 1 - 1e-12:
            raise OptionError(
                f"method {self.describe()!r} is unstable on the formulation 'index-3': errors across the constraints "
                f"are not damped, and multipliers grow without bound. Use rho < 1, or formulation='stabilized-index-2'."
            )

    # ------------------------------------------------------------------ rows and unknowns
    def unknowns(self, system: System, formulation: Formulation) -> list[Unknown]:
        stabilized = any(u.name == "eta" for u in formulation.unknowns(system))
        sizes = {**system.sizes, "_r_dot": system.nr, "eta": system.nlam if stabilized else 0}
        sizes["kappa"] = system.nlam if self.adjusts and not stabilized else 0
        return [Unknown(n, sizes[n], False) for n in ("a", "_r_dot", "w", "s", "lam", "mu", "eta", "kappa")]

    def carried(self, system: System, formulation: Formulation) -> list[Unknown]:
        blocks = {u.name: u for u in formulation.unknowns(system)}
        parts = [Unknown("q", system.nq, True), Unknown("v", system.nv, True), Unknown("r", system.nr, True)]
        parts += [blocks[n] for n in ("w", "s", "lam", "mu", "eta") if n in blocks]
        for name, rates in RATES.items():
            parts += [Unknown(rate, system.sizes[name], False, controlled=False) for rate in rates]
        return parts

    def weight_map(self, system: System, layout: Layout, formulation: Formulation) -> np.ndarray:
        # with fixed steps Newton goes to rounding level, and positions determine z to rounding / h^2
        deep = 2 if system.nlam and not self.automatic else 1
        measure = {"a": ("v", deep), "_r_dot": ("r", 1), "kappa": ("lam", 1)}
        parts = []
        for u in self.unknowns(system, formulation):
            block, power = measure.get(u.name, (u.name, 0))
            if u.size:
                index = layout.indices((block,))
                parts.append(np.array([index, np.full(index.size, power)]))
        return np.ascontiguousarray(np.concatenate(parts, axis=1), dtype=np.int64)

    # ------------------------------------------------------------------ the step
    def equations(
        self, formulation: Formulation, env: Environment, layout: Layout, x: ca.SX, data: StepData
    ) -> StepEquations:
        system, h, t0 = env.system, data.h, data.t - data.h
        old, older = past_row(layout, data.first), past_row(layout, data.second)
        ratio = h * data.c[1]  # of this step to the last one
        now = split(self.unknowns(system, formulation), x)
        before = env.at(t=t0, **{n: old[n] for n in ("q", "v", "a", "r", "w", "s", "lam", "mu")})
        z, step = now["a"], self.parameters.nm_beta * (1 - self.parameters.alpha_f) / (1 - self.parameters.alpha_m) * h

        def pushed(eta: ca.SX) -> ca.SX:
            """D(q) eta / (h beta')."""
            return formulation.velocity(before, {"v": ca.SX.zeros(system.nv, 1), "eta": eta}) / step

        blocks: list[tuple[str, ca.SX, Any]] = []
        if now["kappa"].numel():
            old["v"] = old["v"] + before.G.T @ now["kappa"]
            blocks = [("velocities", before.G @ before.G.T @ now["kappa"] - (ratio**2 - 1) * before.g_dot, -1)]
        now["a"] = z - pushed(now["eta"])
        new = {n: now[n] for n in ("w", "s", "lam", "mu")}
        for name, (rate, _, slope) in RATES.items():
            new |= advance(self.parameters, name, old, now[rate], ratio, h)
            new[slope] = (now[rate] - old[rate]) / h
        # (3b): z in the place of v1' has the effect of eta
        beta, a = self.parameters.nm_beta, old["a"] + ratio * (old["_a"] - old["a"])
        a1 = advance(self.parameters, "v", old, z, ratio, h)["_a"]
        motion = h * (old["v"] + h * ((0.5 - beta) * a + beta * a1))
        new["q"] = ca.SX(system.space.move(old["q"], motion))  # (3a)
        if now["eta"].numel():
            new["eta"] = now["eta"]

        differentiate = bool(system.calls)
        q = new["q"] if differentiate else ca.SX.sym("q", system.nq)
        point = env.at(t=data.t, q=q, **{n: new[n] for n in ("v", "a", "r", "w", "s", "lam", "mu")})
        blocks += [
            ("balance", point.balance, 0),  # (3e)
            ("dynamics", now["_r_dot"] - point.dynamics, 0),
            ("auxiliary", point.auxiliary, 0),
            ("contact", point.h, 0),
            # rows of a first-order form are scaled by c0^row, that is by h^-(row+1) here
            *[(e.label, e.expr, -(e.row + 1)) for e in formulation.constraint_equations(point)],  # (3f)
        ]
        blocks = [b for b in blocks if b[1].numel()]

        def row(parts: dict[str, ca.SX]) -> ca.SX:
            """A row with zeros where nothing is given."""
            whole = ca.vertcat(*[parts.get(n, ca.SX.zeros(size, 1)) for n, size in layout.blocks])
            return ca.densify(whole[: data.first.numel()])

        residual, jacobian = ca.densify(ca.vertcat(*[expr for _, expr, _ in blocks])), None
        if not differentiate:
            residual, jacobian = along_the_group(system, residual, x, q, new["q"], motion)
        n_small = now["eta"].numel() + now["kappa"].numel()
        error = local_error(self.parameters, system, old, new, data)
        if self.project_at:
            new["v"] = projected(env.at(**{n: new[n] for n in ("q", "v")}, t=data.t), self.project_at, data.t, h)
        return StepEquations(
            labels=[label for label, expr, _ in blocks for _ in range(expr.numel())],
            residual=residual,
            rows=ca.vertcat(*[ca.SX.ones(expr.numel(), 1) * h**power for _, expr, power in blocks]),
            columns=ca.vertcat(ca.SX.ones(x.numel() - n_small, 1), ca.SX.ones(n_small, 1) * h),
            update=row(new),
            start=guess(self.unknowns(system, formulation), old, older, ratio, h, pushed),
            error=row(error),
            jacobian=jacobian,
        )

    def begin(
        self,
        system: System,
        formulation: Formulation,
        layout: Layout,
        t: float,
        h: float,
        row: np.ndarray,
        model: Model,
    ) -> None:
        perturbed = self.start == "shifted" and formulation.name == "index-3"
        start_row(self.parameters, system, layout, t, h, row, model, self.start != "consistent", perturbed)

    def coefficient_function(self) -> int:
        return int(last_rows().address)
