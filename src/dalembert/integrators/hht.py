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

Departures. Dynamic states r' = f_d follow the formula for z. On a group y1 is reached by the motion h z0 + h^2/2 [...],
and (3.5) and midpoints are motions likewise. The error estimate is ours: the leading terms of the local error,
h^3 (beta + alpha/2 - 1/6) y''' and h^3 (1/12 - alpha/2 - alpha^2) z''', derivatives by differences of the velocities.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import casadi as ca
import numpy as np

from dalembert.formulations.base import At, Formulation, Unknown
from dalembert.formulations.overdetermined import Overdetermined
from dalembert.integrators.base import Integrator, StepData, StepEquations, register
from dalembert.integrators.stages import last_row_function
from dalembert.model.point import Environment, Point
from dalembert.model.system import System
from dalembert.numerics.layout import Layout
from dalembert.status import ModelError, OptionError

# variant -> how the force of the holonomic constraints enters
VARIANTS = {
    "standard": "R1 at y1, (3.4)",
    "explicit": "R1 at y0 + h z0, (3.5)",
    "midpoint": "(R0 + R1)/2 in z1 replaced by r((y0 + y1)/2, L), b = 0",
    "midpoint-explicit": "the same with y1 = y0 + h z0",
    "lunk-simeon": "(1 - b) R0 + b R1 in y1 replaced by ((1 - b) r0 + b r1) L0",
}
# unknowns of a step: the row block in whose units they count, and the power of h that makes them an increment of it
_UNITS = {
    "f": ("v", 1), "R0": ("v", 2), "R1": ("v", 2), "RX": ("v", 2), "S": ("v", 1), "r_dot": ("r", 1),
    "w": ("w", 0), "s": ("s", 0), "lam0": ("lam", 0), "lam1": ("lam", 0), "mu0": ("mu", 0),
}  # fmt: skip


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

    # ------------------------------------------------------------------ coefficients
    @property
    def nm_beta(self) -> float:
        return float((1 - self.alpha) ** 2 / 4)

    @property
    def nm_gamma(self) -> float:
        return 0.5 - float(self.alpha)

    @property
    def error_constants(self) -> tuple[float, float]:
        """Leading constants of the local errors of y and z, of h^3 y''' and h^3 z'''.

        With b the difference of L0 and L1 grows like 1/(1 - 2b), and so does what the turning of G makes of it.
        """
        a, growth = float(self.alpha), max(1.0, 1 / abs(1 - 2 * float(self.b)))
        return self.nm_beta + a / 2 - 1 / 6, (1 / 12 - a / 2 - a**2) * growth

    # ------------------------------------------------------------------ how it is run
    @property
    def equations_key(self) -> tuple[Any, ...]:
        return (type(self), float(self.alpha), float(self.b), self.variant, self.rescale)

    def order_range(self, fixed: bool) -> tuple[int, int]:
        return 2, 2

    def estimate_scale(self, system: System, formulation: Formulation, tolerance: float) -> float:
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
        for role in ("force", "dynamics", "auxiliary"):
            for name in ("a", "lam", "mu"):
                if _depends(getattr(system, role), getattr(x, name)):
                    raise OptionError(
                        f"method 'hht' needs {role} without {name!r} (forces of constraints are given by "
                        "constraint_force); use Radau, BDF or ModifiedBDF."
                    )
        if self.variant == "lunk-simeon" and _depends(ca.jacobian(system.reaction, x.lam), x.lam):
            raise OptionError("HHT(variant='lunk-simeon') needs a constraint_force linear in lam; use 'standard'.")

    # ------------------------------------------------------------------ the row and the unknowns
    def unknowns(self, system: System, formulation: Formulation) -> list[Unknown]:
        both = formulation.name == "overdetermined"
        nv, nlam, nmu = system.nv, system.nlam, system.nmu
        sizes = {
            "f": nv, "r_dot": system.nr, "w": system.nw, "s": system.ns,
            "R0": nv if both and nlam else 0,
            "R1": nv if both and nlam else 0,
            "RX": nv if both and nlam and self.variant == "lunk-simeon" and self.b != 0 else 0,
            "S": nv if nmu or (nlam and not both) else 0,
            "lam0": nlam, "lam1": nlam if both else 0, "mu0": nmu,
        }  # fmt: skip
        return [Unknown(name, size, False) for name, size in sizes.items() if size]

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
        f = np.linalg.solve(mass, at("force").ravel())
        dynamics = at("dynamics").ravel()
        return {"a_alpha": f, "_f": np.append(f, dynamics), "_mean": np.append(at("a").ravel(), dynamics)}

    def weight_map(self, system: System, layout: Layout, formulation: Formulation) -> np.ndarray:
        parts = []
        for u in self.unknowns(system, formulation):
            block, power = _UNITS[u.name]
            index = layout.indices((block,))[: u.size]
            parts.append(np.array([index, np.full(u.size, power)]))
        return np.ascontiguousarray(np.concatenate(parts, axis=1), dtype=np.int64)

    def coefficient_function(self) -> int:
        return last_row_function()

    # ------------------------------------------------------------------ the step
    def equations(
        self, formulation: Formulation, env: Environment, layout: Layout, x: ca.SX, data: StepData
    ) -> StepEquations:
        system, h, t1 = env.system, data.h, data.t
        nv, move = system.nv, system.space.move
        unknowns = self.unknowns(system, formulation)
        old = layout.split(data.first)
        z = {name: ca.SX.zeros(0, 1) for name in _UNITS}
        z.update(Layout(tuple((u.name, u.size) for u in unknowns)).split(x))
        both = formulation.name == "overdetermined"
        midpoint = self.variant.startswith("midpoint")

        # accelerations, and rates of dynamic states behind them
        nm_beta, nm_gamma = self.nm_beta, self.nm_gamma
        last, before = old["_h"][0], old["_h"][1]  # sizes of the last steps, 0 where there was none
        f0, f1 = old["_f"], ca.vertcat(z["f"], z["r_dot"])
        a0 = f0 + self.alpha * (h if self.rescale else last) * old["_f_dot"]  # (2.3)
        a1 = (1 + self.alpha) * f1 - self.alpha * f0  # (3.4c)
        nothing = ca.SX.zeros(nv, 1)
        R0, R1, S = (z[name] if z[name].numel() else nothing for name in ("R0", "R1", "S"))
        in_y = R0 if midpoint else (1 - self.b) * R0 + self.b * (z["RX"] if z["RX"].numel() else R1)
        in_z = R1 if midpoint else (R0 + R1) / 2
        rate = (1 - nm_gamma) * a0 + nm_gamma * a1 + ca.vertcat(in_z + S, ca.SX.zeros(system.nr, 1))
        y0, z0 = old["q"], old["v"]
        motion = h * z0 + h**2 / 2 * (((1 - 2 * nm_beta) * a0 + 2 * nm_beta * a1)[:nv] + in_y + S)  # (3.4a)
        y1, z1, r1 = ca.SX(move(y0, motion)), z0 + h * rate[:nv], old["r"] + h * rate[nv:]  # (3.4b)

        def force(label: str, vector: str, reaction: str, **where: Any) -> list[tuple[str, ca.SX, int]]:
            """M R = force of the constraints, there."""
            if not z[vector].numel():
                return []
            point = env.at(**where)
            pull = -point.K.T @ point.mu if reaction == "K" else point.reaction
            return [(label, point.mass @ z[vector] - pull, 0)]

        zeros = {"lam": ca.SX.zeros(system.nlam, 1), "mu": ca.SX.zeros(system.nmu, 1)}
        half: dict[str, Any] = {
            "t": t1 - h / 2, "q": ca.SX(move(y0, h / 2 * z0)), "v": (z0 + z1) / 2, "s": (old["s"] + z["s"]) / 2,
        }  # fmt: skip
        at_1: dict[str, Any] = {"t": t1, "v": z1, "s": z["s"], "mu": zeros["mu"]}
        if midpoint:
            centre = half if self.variant == "midpoint-explicit" else {**half, "q": ca.SX(move(y0, motion / 2))}
            second = force("constraint force (middle)", "R1", "R", **centre, lam=z["lam1"], mu=zeros["mu"])
        else:
            there = ca.SX(move(y0, h * z0)) if self.variant == "explicit" else y1  # (3.5) or (3.4d)
            second = force("constraint force (new)", "R1", "R", **at_1, q=there, lam=z["lam1"])
        point: Point = env.at(t=t1, q=y1, v=z1, r=r1, w=z["w"], s=z["s"])
        blocks = [
            ("force", point.mass @ z["f"] - point.force, 0),
            *force(
                "constraint force (old)", "R0", "R", t=t1 - h, q=y0, v=z0, s=old["s"], lam=z["lam0"], mu=zeros["mu"]
            ),
            *second,
            *force("constraint force (Lunk-Simeon)", "RX", "R", **at_1, q=y1, lam=z["lam0"]),
            *force("velocity constraint force", "S", "K" if both else "R", **half, lam=z["lam0"], mu=z["mu0"]),
            ("dynamics", z["r_dot"] - point.dynamics, 0),
            ("auxiliary", point.auxiliary, 0),
            ("contact", point.h, -2),
        ]
        if both:  # (3.4e)
            blocks += [("constraints", 2 * point.g, -2), ("constraints'", point.g_dot, -1)]
            blocks += [("velocity constraints", point.k, -1)]
        else:  # section 6
            blocks += [(e.label, e.expr, -1) for e in formulation.constraint_equations(point)]
        blocks = [block for block in blocks if block[1].numel()]

        # derivatives of (z, r) by divided differences over this step and the last ones
        jerk = 2 * (rate - old["_mean"]) / (h + last)
        snap = 3 * (jerk - old["_jerk"]) / (h + last + before)
        of_y, of_z = self.error_constants
        lam = (z["lam0"] + z["lam1"]) / 2 if both and not midpoint else z["lam1"] if both else z["lam0"]
        new = {
            "q": y1, "v": z1, "r": r1, "w": z["w"], "s": z["s"], "lam": lam, "mu": z["mu0"], "a": rate[:nv],
            "a_alpha": a1[:nv], "_f": f1, "_f_dot": (f1 - f0) / h, "_mean": rate, "_jerk": jerk,
            "_h": ca.vertcat(h, last),
        }  # fmt: skip
        wrong = {
            "q": ca.SX(system.space.rate(y1, of_y * h**3 * jerk[:nv])),
            "v": of_z * h**3 * snap[:nv],
            "r": of_z * h**3 * snap[nv:],
        }
        begin = f0 + h * old["_f_dot"]
        normal = (old["a"] - f0[:nv]) if system.nlam + system.nmu else nothing  # of all constraints together
        holonomic = normal if system.nlam else nothing
        guess = {
            "f": begin[:nv], "r_dot": begin[nv:], "w": old["w"], "s": old["s"], "R0": holonomic, "R1": holonomic,
            "RX": holonomic, "S": nothing if both and system.nlam else normal,
            "lam0": old["lam"], "lam1": old["lam"], "mu0": old["mu"],
        }  # fmt: skip
        names = [name for name, _ in layout.blocks]
        columns = [ca.SX.ones(u.size, 1) * (h**2 if u.name == "s" else 1) for u in unknowns]
        return StepEquations(
            labels=[label for label, expr, _ in blocks for _ in range(expr.numel())],
            residual=ca.densify(ca.vertcat(*[expr for _, expr, _ in blocks])),
            rows=ca.vertcat(*[ca.SX.ones(expr.numel(), 1) * h**power for _, expr, power in blocks]),
            columns=ca.vertcat(*columns),
            update=ca.densify(ca.vertcat(*[new[name] for name in names])),
            start=ca.densify(ca.vertcat(*[guess[u.name] for u in unknowns])),
            every=True,
            error=ca.densify(ca.vertcat(*[wrong.get(name, ca.SX.zeros(size, 1)) for name, size in layout.blocks])),
        )


def _depends(expression: ca.SX, symbols: ca.SX) -> bool:
    return bool(expression.numel() and symbols.numel() and ca.depends_on(expression, symbols))
