"""The step equations of HHT-alpha; formulas, sources and equation numbers at the head of hht.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import casadi as ca

from dalembert.formulations.base import Formulation, Unknown
from dalembert.integrators.base import StepData, StepEquations
from dalembert.integrators.stages import past_row
from dalembert.model.point import Environment, Point
from dalembert.model.system import System
from dalembert.numerics.layout import Layout

# variant -> how the force of the holonomic constraints enters
VARIANTS = {
    "standard": "R1 at y1, (3.4)",
    "explicit": "R1 at y0 + h z0, (3.5)",
    "midpoint": "(R0 + R1)/2 in z1 replaced by r((y0 + y1)/2, L), b = 0",
    "midpoint-explicit": "the same with y1 = y0 + h z0",
    "lunk-simeon": "(1 - b) R0 + b R1 in y1 replaced by ((1 - b) r0 + b r1) L0",
}
# unknowns of a step: the row block in whose units they count, and the power of h that makes them an increment of it
UNITS = {
    "f": ("v", 1), "R0": ("v", 2), "R1": ("v", 2), "RX": ("v", 2), "S": ("v", 1), "r_dot": ("r", 1),
    "w": ("w", 0), "s": ("s", 0), "lam0": ("lam", 0), "lam1": ("lam", 0), "mu0": ("mu", 0),
}  # fmt: skip


@dataclass(frozen=True)
class Scheme:
    """The coefficients of the method."""

    alpha: float
    b: float
    variant: str
    rescale: bool

    @property
    def nm_beta(self) -> float:
        return (1 - self.alpha) ** 2 / 4

    @property
    def nm_gamma(self) -> float:
        return 0.5 - self.alpha

    @property
    def error_constants(self) -> tuple[float, float]:
        """Leading constants of the local errors of y and z, of h^3 y''' and h^3 z'''.

        With b the difference of L0 and L1 grows like 1/(1 - 2b), and so does what the turning of G makes of it.
        """
        growth = max(1.0, 1 / abs(1 - 2 * self.b))
        return self.nm_beta + self.alpha / 2 - 1 / 6, (1 / 12 - self.alpha / 2 - self.alpha**2) * growth


def step_unknowns(scheme: Scheme, system: System, formulation: Formulation) -> list[Unknown]:
    """Blocks of unknowns of a step, those that there are."""
    both = formulation.name == "overdetermined"
    nv, nlam, nmu = system.nv, system.nlam, system.nmu
    sizes = {
        "f": nv, "r_dot": system.nr, "w": system.nw, "s": system.ns,
        "R0": nv if both and nlam else 0,
        "R1": nv if both and nlam else 0,
        "RX": nv if both and nlam and scheme.variant == "lunk-simeon" and scheme.b != 0 else 0,
        "S": nv if nmu or (nlam and not both) else 0,
        "lam0": nlam, "lam1": nlam if both else 0, "mu0": nmu,
    }  # fmt: skip
    return [Unknown(name, size, False) for name, size in sizes.items() if size]


def step_equations(
    scheme: Scheme, formulation: Formulation, env: Environment, layout: Layout, x: ca.SX, data: StepData
) -> StepEquations:
    """F(x; d) = 0 for one step."""
    system, h, t1 = env.system, data.h, data.t
    nv, move = system.nv, system.space.move
    unknowns = step_unknowns(scheme, system, formulation)
    old = past_row(layout, data.first)
    z = {name: ca.SX.zeros(0, 1) for name in UNITS}
    z.update(Layout(tuple((u.name, u.size) for u in unknowns)).split(x))
    both = formulation.name == "overdetermined"
    midpoint = scheme.variant.startswith("midpoint")

    def behind(rates: ca.SX) -> ca.SX:
        """Rates of the dynamic states, which stand behind accelerations."""
        return ca.reshape(rates[nv:], system.nr, 1)  # 1 x 0 if there is one acceleration and nothing else

    nm_beta, nm_gamma = scheme.nm_beta, scheme.nm_gamma
    last, before = old["_h"][0], old["_h"][1]  # sizes of the last steps, 0 where there was none
    f0, f1 = old["_f"], ca.vertcat(z["f"], z["r_dot"])
    a0 = f0 + scheme.alpha * (h if scheme.rescale else last) * old["_f_dot"]  # (2.3)
    a1 = (1 + scheme.alpha) * f1 - scheme.alpha * f0  # (3.4c)
    nothing = ca.SX.zeros(nv, 1)
    R0, R1, S = (z[name] if z[name].numel() else nothing for name in ("R0", "R1", "S"))
    in_y = R0 if midpoint else (1 - scheme.b) * R0 + scheme.b * (z["RX"] if z["RX"].numel() else R1)
    in_z = R1 if midpoint else (R0 + R1) / 2
    rate = (1 - nm_gamma) * a0 + nm_gamma * a1 + ca.vertcat(in_z + S, ca.SX.zeros(system.nr, 1))
    y0, z0 = old["q"], old["v"]
    motion = h * z0 + h**2 / 2 * (((1 - 2 * nm_beta) * a0 + 2 * nm_beta * a1)[:nv] + in_y + S)  # (3.4a)
    y1, z1, r1 = ca.SX(move(y0, motion)), z0 + h * rate[:nv], old["r"] + h * behind(rate)  # (3.4b)

    def force(label: str, vector: str, reaction: str, **where: Any) -> list[tuple[str, ca.SX, int]]:
        """M R = force of the constraints there, and what applied forces (friction) owe to the multipliers."""
        if not z[vector].numel():
            return []
        point = env.at(**where)
        pull = -point.K.T @ point.mu if reaction == "K" else point.reaction
        if loaded(system):
            pull += point.force - point.free_force
        return [(label, point.mass @ z[vector] - pull, 0)]

    zeros = {"lam": ca.SX.zeros(system.nlam, 1), "mu": ca.SX.zeros(system.nmu, 1)}
    half: dict[str, Any] = {
        "t": t1 - h / 2, "q": ca.SX(move(y0, h / 2 * z0)), "v": (z0 + z1) / 2, "s": (old["s"] + z["s"]) / 2,
        "r": (old["r"] + r1) / 2, "w": (old["w"] + z["w"]) / 2,
    }  # fmt: skip
    at_0: dict[str, Any] = {"t": t1 - h, "q": y0, "v": z0, **{n: old[n] for n in ("r", "w", "s")}, "mu": zeros["mu"]}
    at_1: dict[str, Any] = {"t": t1, "v": z1, "r": r1, "w": z["w"], "s": z["s"], "mu": zeros["mu"]}
    psi = {"lam": zeros["lam"] if both else z["lam0"], "mu": z["mu0"]}
    if midpoint:
        centre = half if scheme.variant == "midpoint-explicit" else {**half, "q": ca.SX(move(y0, motion / 2))}
        second = force("constraint force (middle)", "R1", "R", **centre, lam=z["lam1"], mu=zeros["mu"])
    else:
        there = ca.SX(move(y0, h * z0)) if scheme.variant == "explicit" else y1  # (3.5) or (3.4d)
        second = force("constraint force (new)", "R1", "R", **at_1, q=there, lam=z["lam1"])
    point: Point = env.at(t=t1, q=y1, v=z1, r=r1, w=z["w"], s=z["s"])
    blocks = [
        ("force", point.mass @ z["f"] - (point.free_force if loaded(system) else point.force), 0),
        *force("constraint force (old)", "R0", "R", **at_0, lam=z["lam0"]),
        *second,
        *force("constraint force (Lunk-Simeon)", "RX", "R", **at_1, q=y1, lam=z["lam0"]),
        *force("velocity constraint force", "S", "K" if both else "R", **half, **psi),
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
    of_y, of_z = scheme.error_constants
    lam = (z["lam0"] + z["lam1"]) / 2 if both and not midpoint else z["lam1"] if both else z["lam0"]
    new = {
        "q": y1, "v": z1, "r": r1, "w": z["w"], "s": z["s"], "lam": lam, "mu": z["mu0"], "a": rate[:nv],
        "a_alpha": a1[:nv], "_f": f1, "_f_dot": (f1 - f0) / h, "_mean": rate, "_jerk": jerk,
        "_h": ca.vertcat(h, last),
    }  # fmt: skip
    wrong = {
        "q": ca.SX(system.space.rate(y1, of_y * h**3 * jerk[:nv])),
        "v": of_z * h**3 * snap[:nv],
        "r": of_z * h**3 * behind(snap),
    }
    begin = f0 + h * old["_f_dot"]
    normal = (old["a"] - f0[:nv]) if system.nlam + system.nmu else nothing  # of all constraints together
    holonomic = normal if system.nlam else nothing
    guess = {
        "f": begin[:nv], "r_dot": behind(begin), "w": old["w"], "s": old["s"], "R0": holonomic, "R1": holonomic,
        "RX": holonomic, "S": nothing if both and system.nlam else normal,
        "lam0": old["lam"], "lam1": old["lam"], "mu0": old["mu"],
    }  # fmt: skip
    kept = [(name, size) for name, size in layout.blocks if name in new]  # the rest is solved for afterwards
    columns = [ca.SX.ones(u.size, 1) * (h**2 if u.name == "s" else 1) for u in unknowns]
    return StepEquations(
        labels=[label for label, expr, _ in blocks for _ in range(expr.numel())],
        residual=ca.densify(ca.vertcat(*[expr for _, expr, _ in blocks])),
        rows=ca.vertcat(*[ca.SX.ones(expr.numel(), 1) * h**power for _, expr, power in blocks]),
        columns=ca.vertcat(*columns),
        update=ca.densify(ca.vertcat(*[new[name] for name, _ in kept])),
        start=ca.densify(ca.vertcat(*[guess[u.name] for u in unknowns])),
        # L0, L1 and s begin with errors O(h): where they enter nonlinearly an old matrix takes long to remove them
        every=nonlinear(system) or system.ns > 0,
        error=ca.densify(ca.vertcat(*[wrong.get(name, ca.SX.zeros(size, 1)) for name, size in kept])),
    )


def nonlinear(system: System) -> bool:
    """True if the constraint force is not linear in lam."""
    return depends(ca.jacobian(system.reaction + system.force, system.symbols.lam), system.symbols.lam)


def loaded(system: System) -> bool:
    """True if applied forces depend on the multipliers, as friction does."""
    return depends(system.force, system.symbols.lam) or depends(system.force, system.symbols.mu)


def depends(expression: ca.SX, symbols: ca.SX) -> bool:
    return bool(expression.numel() and symbols.numel() and ca.depends_on(expression, symbols))
