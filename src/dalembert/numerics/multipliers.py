"""Accelerations and multipliers that belong to given positions and velocities.

    M a = f + R(lam) - K^T mu,   0 = g''(t, q, v, a),   0 = k'(t, q, v, a),   0 = d,   0 = h

and r' = f_d, where rows have a place for it. Linear in (a, lam, mu) unless the force depends on the multipliers, as
friction does.
"""

from __future__ import annotations

import casadi as ca

from dalembert.numerics.nonlinear import Nonlinear
from dalembert.numerics.stage import StageData, StageSystem

BLOCKS = ("w", "s", "lam", "mu", "a")


def multiplier_stage(data: StageData) -> StageSystem:
    """The stage that solves for w, s, lam, mu, a (and r') at the q, v, r of a row."""
    system = data.system
    env = data.environment()
    old = data.old
    y = {b: ca.SX.sym(b, system.sizes[b]) for b in BLOCKS}
    point = env.at(t=data.t, q=old["q"], v=old["v"], r=old["r"], **y)
    residual = ca.vertcat(point.auxiliary, point.h, point.g_ddot, point.k_dot, point.balance)
    blocks: tuple[str, ...] = BLOCKS
    if data.layout.has("r_dot"):
        y["r_dot"], blocks = ca.SX.sym("r_dot", system.nr), (*BLOCKS, "r_dot")
        residual = ca.vertcat(residual, y["r_dot"] - point.dynamics)
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
