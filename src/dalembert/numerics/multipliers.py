"""Accelerations and multipliers that belong to given positions and velocities.

    M a = f + R(lam) - K^T mu,   0 = g''(t, q, v, a),   0 = k'(t, q, v, a),   0 = d,   0 = h

and r' = f_d, where rows have a place for it. Linear in (a, lam, mu) unless the force depends on the multipliers, as
friction does.
"""

from __future__ import annotations

from collections.abc import Mapping

import casadi as ca

from dalembert.model.point import Environment
from dalembert.model.system import System
from dalembert.numerics.nonlinear import Nonlinear
from dalembert.numerics.stage import StageData, StageSystem

BLOCKS = ("w", "s", "lam", "mu", "a")


def acceleration_equations(env: Environment, given: Mapping[str, ca.SX], y: Mapping[str, ca.SX]) -> ca.SX:
    """What is to vanish for y, the blocks of `BLOCKS` (and r_dot), at ``given`` t, q, v and r."""
    point = env.at(**given, **{b: y[b] for b in BLOCKS})
    residual = ca.vertcat(point.auxiliary, point.h, point.g_ddot, point.k_dot, point.balance)
    return ca.vertcat(residual, y["r_dot"] - point.dynamics) if "r_dot" in y else residual


def implicit_accelerations(system: System) -> bool:
    """True if accelerations and multipliers do not follow from a linear system."""
    if "_implicit" not in system.__dict__:
        env = Environment(system, ca.SX.sym("p", system.parameters.size))
        given = {name: ca.SX.sym(name, size) for name, size in [("t", 1), *((b, system.sizes[b]) for b in "qvr")]}
        y = {b: ca.SX.sym(b, system.sizes[b]) for b in BLOCKS}
        x = ca.vertcat(*y.values())
        jacobian = ca.jacobian(acceleration_equations(env, given, y), x)
        system.__dict__["_implicit"] = bool(env.coefficients) or ca.depends_on(jacobian, x)
    return bool(system.__dict__["_implicit"])


def multiplier_stage(data: StageData) -> StageSystem:
    """The stage that solves for w, s, lam, mu, a (and r') at the q, v, r of a row."""
    system = data.system
    env = data.environment()
    old = data.old
    y = {b: ca.SX.sym(b, system.sizes[b]) for b in BLOCKS}
    blocks: tuple[str, ...] = BLOCKS
    if data.layout.has("r_dot"):
        y["r_dot"], blocks = ca.SX.sym("r_dot", system.nr), (*BLOCKS, "r_dot")
    residual = acceleration_equations(env, {"t": data.t, **{b: old[b] for b in "qvr"}}, y)
    x = ca.vertcat(*[y[b] for b in blocks])
    jacobian = ca.jacobian(residual, x)
    linear = not env.coefficients and not ca.depends_on(jacobian, x)
    return StageSystem(
        blocks,
        Nonlinear(
            name="multipliers",
            x=x,
            d=data.d,
            residual=ca.densify(residual),
            jacobian=ca.sparsify(jacobian),
            columns=ca.SX.ones(x.numel(), 1),
            row_tolerance=ca.SX.zeros(x.numel(), 1),
            env=env,
            linear=linear,
            every=not linear,
        ),
        by_rows=False,
        keep=False,
        layout=data.layout,
    )
