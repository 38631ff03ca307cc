"""RATTLE on Lie groups: one symmetric, symplectic step for systems with a constant mass matrix.

[BM09]  N. Bou-Rabee, J. E. Marsden, Hamilton-Pontryagin integrators on Lie groups, Found. Comput. Math. 9 (2009)
        197-219: variational integrators with a retraction, here the exponential.
[LL09]  T. Lee, M. Leok, N. H. McClamroch, Lagrangian mechanics and variational integrators on two-spheres, Int. J.
        Numer. Meth. Eng. 79 (2009) 1147-1174, and T. Lee's thesis (2008): constraints and rigid bodies.
[MV91]  J. Moser, A. P. Veselov, Discrete versions of some classical integrable systems, Commun. Math. Phys. 139 (1991)
        217-243: the free rigid body.

The discrete Lagrangian h/2 (l(q_0, w) + l(q_1, w)), q_1 = q_0 exp(h w), with l(q, v) = v^T M v / 2 - U(q) and the
constraints of both ends gives, with y = h w, the tangent operator T and the force F that is left when the gyroscopic
part is taken out of f, F = f - ad_v^T M v  [BM09, (4.4)-(4.8)]:

    M v_a = M v_0 + h/2 (F(q_0) - G(q_0)^T lam),   M v_a = T(-y)^-T M y / h
    q_1 = q_0 exp(y),   0 = g(q_1)
    M v_b = T(y)^-T M y / h,   M v_1 = M v_b + h/2 (F(q_1) - G(q_1)^T nu),   0 = g'(q_1, v_1)

v_a and v_b are the velocities in the frames of q_0 and q_1. Between the kicks M v_b = Ad_exp(y)^T M v_a: the momentum
in space does not change at all. Where the group is a vector space, T = 1 and this is RATTLE.
"""

from __future__ import annotations

import casadi as ca

from dalembert.integrators.positions import as_group
from dalembert.model.point import Environment, Point
from dalembert.model.system import System
from dalembert.status import OptionError

# Positions are unknowns besides the motions that lead there: substeps of a composition see the last one alone.
PARTS = ("va", "vb", "y", "q", "lam", "v", "nu")


def check_mass(system: System) -> None:
    """Refuse mass matrices that change along the motion."""
    if ca.depends_on(system.mass, ca.vertcat(system.symbols.t, system.symbols.q)):
        raise OptionError(
            f"Rattle on {system.space} needs a constant mass matrix; this one depends on t or q. Use velocities of the "
            "body frame, in which it is constant, or Gauss, which is symmetric too."
        )


def lie_guess(system: System, q: ca.SX, y: ca.SX) -> dict[str, ca.SX]:
    """Start values of the motion and the position."""
    return {"y": y, "q": ca.SX(system.space.move(q, y))}


def lie_substep(
    env: Environment, t: ca.SX, h: ca.SX, q: ca.SX, v: ca.SX, part: dict[str, ca.SX]
) -> list[tuple[str, ca.SX]]:
    """Equations of one substep, see the head."""
    group, y = as_group(env.system), part["y"]
    first = env.at(t=t, q=q, v=part["va"])
    last = env.at(t=t + h, q=part["q"], v=part["vb"])
    end = env.at(t=t + h, q=part["q"], v=part["v"])
    momentum = first.mass @ y / h
    return [
        ("half kick", first.mass @ (part["va"] - v) - h / 2 * _force(env, first, part["lam"])),
        ("momentum at the start", first.mass @ part["va"] - ca.SX(group.tangent_inverse(-y)).T @ momentum),
        ("momentum at the end", last.mass @ part["vb"] - ca.SX(group.tangent_inverse(y)).T @ momentum),
        ("position", (part["q"] - ca.SX(group.move(q, y))) / h),
        ("constraints", last.g / h),
        ("half kick", last.mass @ (part["v"] - part["vb"]) - h / 2 * _force(env, last, part["nu"])),
        ("constraints'", end.g_dot),
    ]


def _force(env: Environment, point: Point, lam: ca.SX) -> ca.SX:
    """f - ad_v^T M v - G^T lam at a point."""
    here = env.at(t=point.t, q=point.q, v=point.v, a=ca.SX.zeros(point.v.shape), lam=lam)
    gyroscopic = ca.SX(as_group(env.system).ad(point.v)).T @ (point.mass @ point.v)
    return -here.balance - gyroscopic  # the balance M a - f + G^T lam at a = 0
