"""Implicit Runge-Kutta methods for second-order systems: accelerations and multipliers of the stages are the unknowns.

[W05]  L. Wunderlich, Numerical treatment of second order differential-algebraic systems (2005), (6.15).
[HW96] E. Hairer, G. Wanner, Solving Ordinary Differential Equations II, Springer 1996, IV.8, VII.4, VII.6.
[RADAU] E. Hairer, G. Wanner, Stiff differential equations solved by Radau methods, J. Comput. Appl. Math. 111 (1999).
[RADAU5] E. Hairer, G. Wanner, the code RADAU5 of [HW96, IV.8]: FNEWT = max(10 u / RTOL, min(0.03, sqrt(RTOL))).

    Q_i = q + h c_i v + h^2 sum_j (A A)_ij A_j,    V_i = v + h sum_j A_ij A_j
    M A_i = f(Q_i, V_i, L_i) - G^T L_i,            0 = g(Q_i)        (or what the formulation puts in its place)
    q+ = q + h v + h^2 sum_j (b A)_j A_j,          v+ = v + h sum_j b_j A_j

Constraint rows are divided by h^2 and stage multipliers are unknowns: the matrix stays well conditioned as h -> 0.

Stabilized index 2 (GGL) has q' = v + D eta and constraints on positions and velocities. With one more unknown for each
stage,

    Q_i = q + h c_i v + h^2 sum_j (A A)_ij A_j + h sum_j A_ij D_j eta_j,    0 = g(Q_i),    0 = G(Q_i) V_i + g_t

D_j belongs to the position without eta, so that Q_i is known by the unknowns; eta is zero on the exact solution, and
any D with G D regular will do. On a group D_j is that of the local positions, T^-1 D.

Error estimate. With y = (q, v, r) and the weights e of the tableau the raw estimate r = h (e_0 y'_old + sum_j e_j y'_j)
[HW96, IV (8.15)] is large in stiff components and along G^T, where it says nothing about the solution. [HW96, IV
(8.19)] filters it with (I - h gamma J)^-1. Here the matrix at hand is that of all stages, and the filter is
b^T (I - h A x J)^-1 (1 x r), which is 1 at h J = 0 and O(1/(h J)) for h J -> infinity as theirs is, for any number of
stages: r is given to the step as a perturbation of (q, v, r)_old, and the changes dQ_i, dV_i, dR_i of its stages, which
satisfy the linearised constraints, are averaged with the weights b.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import casadi as ca
import numpy as np

from dalembert.formulations.base import Formulation, Unknown
from dalembert.integrators.base import Integrator, StepData, StepEquations
from dalembert.integrators.positions import back_to_local, lifted, local_origin
from dalembert.integrators.stages import (
    STAGE,
    added_unknowns,
    last_row_function,
    past_row,
    split_stages,
    stage_columns,
    stage_unknowns,
    stage_weights,
    write_stages,
)
from dalembert.integrators.tableaus import Tableau
from dalembert.model.point import Environment
from dalembert.model.system import System
from dalembert.numerics.layout import Layout
from dalembert.numerics.projection import Projection
from dalembert.status import OptionError

_STATE = ("q", "v", "r")
PUSH = "push"  # of a stage: what moves its position besides its velocity
USUAL_STAGES, MOST_STAGES = 3, 5
EPS = float(np.finfo(float).eps)
# tolerance at which the rule for the errors of a run takes over from that for errors of steps, by index: the latter,
# with slopes p/(p+1), does for large tolerances, but not with v of the order of the stages
MEETING = {1: 1e-6, 2: 1e-6, 3: 1e-4}
FINEST = 20 * EPS  # estimates below are rounding errors
LEFT, LEFT_OF_PROJECTED = 10 * EPS, 0.1 * EPS  # least that Newton is asked to leave
LARGEST = 120  # unknowns of the equations that take errors apart


@dataclass(frozen=True)
class CollocationMethod(Integrator):
    """What the collocation methods share."""

    stages: int | None = 3
    in_row: ClassVar[bool] = False
    one_step: ClassVar[bool] = True
    default_formulation: ClassVar[str] = "index-3"
    on_groups: ClassVar[bool] = True
    fewest: ClassVar[int] = 1
    # formulations that the family cannot integrate, and why
    unfit: ClassVar[dict[str, str]] = {}

    @property
    @abstractmethod
    def tableau(self) -> Tableau:
        """The coefficients."""

    def __post_init__(self) -> None:
        s = self.stages
        if isinstance(s, bool) or not isinstance(s, int) or not self.fewest <= s <= MOST_STAGES:
            raise OptionError(
                f"{type(self).__name__}(stages={self.stages!r}): give {self.fewest} to {MOST_STAGES} stages."
            )

    @property
    def count(self) -> int:
        """Number of stages of a run."""
        return USUAL_STAGES if self.stages is None else self.stages

    @property
    def equations_key(self) -> tuple[Any, ...]:
        return (type(self), self.count)

    def order_range(self, fixed: bool) -> tuple[int, int]:
        """The order of the error estimate: it is what the step sizes follow."""
        return self.tableau.estimate_order, self.tableau.estimate_order

    @property
    def hermite_order(self) -> int:  # type: ignore[override]
        return self.tableau.order

    def orders(self, system: System, formulation: Formulation, projection: Projection | None = None) -> dict[str, int]:
        """Orders of convergence of q, v and lam: p, or the stage order n [HW96, VII.4, Table 4.1; VII.6].

        A singular A (explicit first or last stage) is for index 1 only, where everything has order p.
        """
        p, n = self.tableau.order, self.tableau.stage_order
        if self.gains(system, formulation, projection):
            return {"q": p, "v": p, "lam": p}
        index = _index(system, formulation)
        if index == 3:
            return {"q": p, "v": n, "lam": n - 1}
        return {"q": p, "v": p, "lam": p if index == 1 else n}

    def own_projection(self, system: System, formulation: Formulation) -> Projection | None:
        """Onto all constraints in the metric of the mass matrix, if that gives v or lam its full order.

        On index 3 steps leave v with errors along M^-1 G^T, because of which its estimates count times h only. That is
        too little where things turn fast: on groups that part is taken out of the estimates, and they count in full.
        """
        own = Projection(weight="mass", invariants=False)
        if not self.gains(system, formulation, own):
            return None
        if _meets_all(formulation):
            return own
        counts = system.nmu > 0 or system.nv + system.nlam > LARGEST or bool(system.calls)
        return own if system.space.flat or counts else replace(own, error="projected")

    def gains(self, system: System, formulation: Formulation, projection: Projection | None) -> bool:
        """Does a projection raise orders?

        On the stabilized form steps end on the constraints, up to what Newton's method leaves. Multipliers are then
        those of the projected state; those of the last stage are of order n.

        On index 3 errors of stage multipliers move velocities off the constraints, along M^-1 G^T: O(h^n) at the end of
        every step, without adding up. A projection along M^-1 G^T takes out that and nothing else, and leaves v with
        the order of q; any other direction leaves errors that add up to O(h^(n-1)) in q and v. Reactions besides
        -G^T lam (friction, say) push elsewhere.
        """
        if projection is None or not self.tableau.stiffly_accurate or not system.nlam:
            return False
        if _meets_all(formulation):
            return projection.steps
        if _index(system, formulation) != 3:
            return False
        wanted = projection.steps and projection.weight == "mass" and "velocity" in projection.levels
        return wanted and system.pushes_along_constraints

    def estimate_scale(
        self, system: System, formulation: Formulation, tolerance: float, projection: Projection | None = None
    ) -> float:
        """Errors of a run that follow the tolerance: estimates h^(k+1) below c tol^((k+1)/p) make h^p follow tol.

        p is the lower of the orders of q and v. The constant is that of [RADAU], which lets the errors of steps follow
        tol, at some tolerance; larger ones are taken as there. No more than four orders beyond the estimate are counted
        on: problems are not as smooth as 2s would have them.
        """
        k, meeting = self.tableau.estimate_order, MEETING[_index(system, formulation)]
        own, kept = (min(x["q"], x["v"]) for x in (self.orders(system, formulation, y) for y in (None, projection)))
        if projection is not None and projection.error == "projected":
            own, meeting = kept, MEETING[1]
        of_steps, of_run = (k + 1) / (min(own, k + 3) + 1) - 1, (k + 1) / min(kept, k + 4) - 1
        if tolerance >= meeting or of_steps == of_run:
            return 1.0 / max(1.0, 0.1 * tolerance**of_steps)
        allowed = max(1.0, 0.1 * meeting**of_steps) * (tolerance / meeting) ** of_run
        return 1.0 / max(allowed, FINEST / tolerance)

    def newton_share(self, tolerance: float, projection: Projection | None = None) -> float:
        """Errors of the step are far below the estimate: what Newton leaves would be all there is. As in [RADAU5].

        Where errors of v count in full and Newton's updates of them times h, see `own_projection`, less has to be left.
        """
        least = LEFT_OF_PROJECTED if projection is not None and projection.error == "projected" else LEFT
        return max(least / tolerance, min(super().newton_share(tolerance), tolerance**0.5))

    def describe(self) -> str:
        return f"{self.name} ({self.count} stage{'s' if self.count > 1 else ''})"

    def check(self, system: System, formulation: Formulation) -> None:
        if formulation.name in self.unfit:
            raise OptionError(
                f"method {self.describe()!r} does not serve the formulation {formulation.name!r}: "
                f"{self.unfit[formulation.name]}"
            )
        super().check(system, formulation)
        if not system.nq:
            raise OptionError(f"{self.name!r} integrates second-order systems; this one is of first order. Use BDF.")
        if system.nlam and self.orders(system, formulation)["lam"] < 1:
            raise OptionError(
                f"method {self.describe()!r} does not serve the formulation {formulation.name!r}: multipliers have the "
                f"order (stage order) - 1 = 0 there, errors that do not fall with the step [Hairer & Wanner, Solving "
                f"ODEs II, VII.6]. Use more stages, or formulation='index-2'."
            )

    def unknowns(self, system: System, formulation: Formulation) -> list[Unknown]:
        return stage_unknowns(system, len(self.tableau.c), added_unknowns(system, formulation))

    def carried(self, system: System, formulation: Formulation) -> list[Unknown]:
        index = {u.name: u for u in formulation.unknowns(system)}
        blocks = [index[n] for n in ("q", "v", "r", "w", "s", "lam", "mu", *added_unknowns(system, formulation))]
        return [*blocks, Unknown("a", system.nv, False, controlled=False)]

    def weight_map(self, system: System, layout: Layout, formulation: Formulation) -> np.ndarray:
        return stage_weights(layout, len(self.tableau.c), added_unknowns(system, formulation))

    def equations(
        self, formulation: Formulation, env: Environment, layout: Layout, x: ca.SX, data: StepData
    ) -> StepEquations:
        system, tableau, h, t0 = env.system, self.tableau, data.h, data.t - data.h
        old, added = past_row(layout, data.first), added_unknowns(system, formulation)
        stage = split_stages(system, x, len(tableau.c), added)
        points = []
        local = {**old, "q": local_origin(system, old["q"])}
        push = self._pushes(formulation, env, old["q"], local, stage, data)
        push(stage)
        for i, c in enumerate(tableau.c):
            y = lifted(system, old["q"], {**self._state(tableau.A[i], float(c), local, stage, h), "a": stage[i]["a"]})
            points.append(env.at(t=t0 + float(c) * h, **y, **{n: stage[i][n] for n in ("w", "s", "lam", "mu")}))
        labels, residual, scale = write_stages(formulation, points, stage, h)
        end = lifted(system, old["q"], {**self._state(tableau.b, 1.0, local, stage, h), "a": stage[-1]["a"]})
        new = {**end, **{n: stage[-1][n] for n in ("w", "s", "lam", "mu", *added)}}

        def row(parts: dict[str, ca.SX]) -> ca.SX:
            """What a step leaves of a row, with zeros where nothing is given."""
            whole = ca.vertcat(*[parts.get(n, ca.SX.zeros(size, 1)) for n, size in layout.blocks])
            return ca.densify(whole[: data.first.numel()])

        # the raw estimate, as a perturbation of the old row; then its average over the stages, see the head
        raw = self._raw_estimate(env, t0, old, stage, h)
        dx = ca.SX.sym("dx", x.numel())
        change = split_stages(system, dx, len(tableau.c), added)
        push(change)
        nothing = {n: ca.SX.zeros(local[n].shape) for n in _STATE}
        moved = [self._state(tableau.A[i], float(c), {**nothing, **raw}, change, h) for i, c in enumerate(tableau.c)]
        average = {n: _sum(tableau.b, moved, n) for n in _STATE}
        raw["q"], average["q"] = (ca.SX(system.space.rate(old["q"], x["q"])) for x in (raw, average))
        return StepEquations(
            labels=labels,
            residual=residual,
            rows=scale,
            columns=stage_columns(system, len(tableau.c), h, added),
            update=row(new),
            start=self._start(system, layout, data, added),
            error=ca.densify(ca.jtimes(scale * residual, data.first, row(raw))),
            response=(dx, row(average)),
            cautious=True,
        )

    def _state(
        self, weights: np.ndarray, c: float, old: dict[str, ca.SX], stage: list[dict[str, ca.SX]], h: ca.SX
    ) -> dict[str, ca.SX]:
        """q, v, r after the part c of the step, for one row of weights of the stages."""
        pushed = h * _sum(weights, stage, PUSH) if PUSH in stage[0] else 0.0
        return {
            "q": old["q"] + h * c * old["v"] + h**2 * _sum(weights @ self.tableau.A, stage, "a") + pushed,
            "v": old["v"] + h * _sum(weights, stage, "a"),
            "r": old["r"] + h * _sum(weights, stage, "r_dot"),
        }

    def _pushes(
        self, formulation: Formulation, env: Environment, q0: ca.SX, local: dict[str, ca.SX],
        stage: list[dict[str, ca.SX]], data: StepData,
    ) -> Callable[[list[dict[str, ca.SX]]], None]:  # fmt: skip
        """Puts D eta of the stages beside their eta: the part of q' that is not v; nothing where q' = v."""
        system, h, t0 = env.system, data.h, data.t - data.h
        names = [name for name, size in added_unknowns(system, formulation).items() if size]
        if not names:
            return lambda parts: None
        directions = []
        for i, c in enumerate(self.tableau.c):
            there = self._state(self.tableau.A[i], float(c), local, stage, h)  # before anything is pushed
            y = lifted(system, q0, {**there, "a": stage[i]["a"]})
            point = env.at(t=t0 + float(c) * h, **y, **{n: stage[i][n] for n in ("w", "s", "lam", "mu")})
            eta = {name: ca.SX.sym(name, stage[i][name].numel()) for name in names}
            moved = formulation.velocity(point, {"v": ca.SX.zeros(system.nv, 1), **eta})
            matrix = ca.jacobian(moved, ca.vertcat(*eta.values()))
            directions.append(back_to_local(system, there["q"], matrix))

        def push(parts: list[dict[str, ca.SX]]) -> None:
            for part, matrix in zip(parts, directions, strict=True):
                part[PUSH] = matrix @ ca.vertcat(*[part[name] for name in names])

        return push

    def _raw_estimate(
        self, env: Environment, t0: ca.SX, old: dict[str, ca.SX], stage: list[dict[str, ca.SX]], h: ca.SX
    ) -> dict[str, ca.SX]:
        """h (e_0 y'_old + sum_j e_j y'_j) for y = (q, v, r); in that of q the old velocities cancel, as sum e = 0."""
        e0, e = float(self.tableau.estimate[0]), self.tableau.estimate[1:]
        raw = {
            "q": h**2 * _sum(e @ self.tableau.A, stage, "a") + (h * _sum(e, stage, PUSH) if PUSH in stage[0] else 0.0),
            "v": h * (e0 * old["a"] + _sum(e, stage, "a")),
        }
        if env.system.nr:
            r_dot = env.at(t=t0, **{n: old[n] for n in ("q", "v", "a", "r", "w", "s", "lam", "mu")}).dynamics
            raw["r"] = h * (e0 * r_dot + _sum(e, stage, "r_dot"))
        return raw

    def _start(self, system: System, layout: Layout, data: StepData, added: Mapping[str, int]) -> ca.SX:
        """The last step continued: the parabola with its accelerations at both ends and its change of velocity.

        data.c[1] is 1 / (size of the last step), 0 if there was none: then all stages start at the old values.
        """
        old, older, inverse = past_row(layout, data.first), past_row(layout, data.second), data.c[1]
        b = 3 * (old["a"] + older["a"]) - 6 * (old["v"] - older["v"]) * inverse
        a = b + old["a"] - older["a"]
        out = []
        for c in self.tableau.c:
            tau = float(c) * data.h * inverse  # in units of the last step
            part = {n: old[n] + tau * (old[n] - older[n]) for n in ("w", "s", "lam", "mu")}
            part["a"] = old["a"] + tau * (a + tau * b)
            part["r_dot"] = (old["r"] - older["r"]) * inverse
            out += [*[part[n] for n, _, _ in STAGE], *[ca.SX.zeros(size, 1) for size in added.values()]]
        return ca.densify(ca.vertcat(*out))

    def coefficient_function(self) -> int:
        return last_row_function()


def _meets_all(formulation: Formulation) -> bool:
    """True if steps satisfy the constraints of positions and of velocities."""
    return formulation.satisfies >= {"position", "velocity"}


def _index(system: System, formulation: Formulation) -> int:
    """Index of the multipliers in the form solved; 1 without any. Found out once: short runs ask for it, too."""
    if not system.nlam + system.nmu:
        return 1
    known: dict[Formulation, int] = system.__dict__.setdefault("_indices", {})
    if formulation not in known:
        index = {u.name: u.index for u in formulation.unknowns(system)}["lam"]
        known[formulation] = index if system.nlam else min(index, 2)
    return known[formulation]


def _sum(weights: np.ndarray, stage: list[dict[str, ca.SX]], name: str) -> ca.SX:
    return sum((float(w) * stage[j][name] for j, w in enumerate(weights)), ca.SX.zeros(stage[0][name].shape))
