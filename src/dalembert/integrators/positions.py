"""Positions on a group as unknowns of a step: the new one is reached from the last one by a motion, q = q_last exp(y).

Past positions enter as the numbers that store them. A difference formula applied to these numbers, D q, is not quite
tangent to the group; its tangential part, the velocity nearest to it, has the order of the formula.
"""

from __future__ import annotations

from collections.abc import Mapping

import casadi as ca
import numpy as np

from dalembert.formulations.base import Unknown
from dalembert.integrators.base import StepData
from dalembert.model.system import System
from dalembert.numerics.layout import Layout
from dalembert.spaces.group import Group

LOW = "low"  # block of the row with the digits of positions that rounding takes from them


def step_unknowns(system: System, unknowns: list[Unknown], moves: bool) -> list[Unknown]:
    """The unknowns with the motion ``y`` in place of positions, if that is how a new one is reached."""
    if not moves:
        return unknowns
    motion = [Unknown("y", system.nv, False, column=u.column, controlled=False) for u in unknowns if u.name == "q"]
    return [*motion, *[u for u in unknowns if u.name != "q"]]


def kept_positions(unknowns: list[Unknown], moves: bool) -> list[Unknown]:
    """Positions as blocks of the row that are not unknowns."""
    return [u for u in unknowns if u.name == "q"] if moves else []


def new_position(system: System, layout: Layout, now: Mapping[str, ca.SX], data: StepData) -> ca.SX:
    """q at the new time."""
    if "y" not in now:
        return now["q"]
    last = data.last[layout.slice("q")]
    if system.space.flat:
        return last + (data.last[layout.slice(LOW)] + now["y"])
    return ca.SX(system.space.move(last, now["y"]))


def lost_digits(layout: Layout, q: ca.SX, motion: ca.SX, data: StepData) -> ca.SX:
    """What rounding takes from the sum q of the last position and the motion, such that the two are exact to twice the
    digits (compensated summation). Simplified, it would be zero."""
    simplify = ca.GlobalOptions.getSimplificationOnTheFly()
    ca.GlobalOptions.setSimplificationOnTheFly(False)
    try:
        return (data.last[layout.slice("q")] - q) + (data.last[layout.slice(LOW)] + motion)
    finally:
        ca.GlobalOptions.setSimplificationOnTheFly(simplify)


def tangential(system: System, q: ca.SX, first: ca.SX, second: ca.SX) -> tuple[ca.SX, ca.SX]:
    """v and v' from approximations of q' and q'' of the stored numbers.

    q' = B(q) v, q'' = B(q) v' + (dB/dq q') v: on a group the second term follows from v and is taken out.
    """
    space = system.space
    if space.flat:
        return first, second
    v = space.velocity(q, first)
    at, along = ca.SX.sym("q", system.nq), ca.SX.sym("v", system.nv)
    rate = ca.SX(space.rate(at, along))
    turning = ca.substitute(ca.jtimes(rate, at, rate), ca.vertcat(at, along), ca.vertcat(q, v))
    return v, space.velocity(q, second - turning)


def start_values(system: System, layout: Layout, data: StepData, unknowns: list[Unknown], moves: bool) -> ca.SX | None:
    """First guess of the unknowns; None if it is the extrapolated row as it is."""
    if not moves:
        return None
    last, predicted = data.last[layout.slice("q")], data.predicted[layout.slice("q")]
    motion = predicted - last if system.space.flat else system.space.velocity(last, predicted - last)
    parts = [motion if u.name == "y" else data.predicted[layout.slice(u.name)] for u in unknowns]
    return ca.densify(ca.vertcat(*parts))


def motion_weights(system: System, layout: Layout, unknowns: list[Unknown], moves: bool) -> np.ndarray | None:
    """Weight map (see `Integrator.weight_map`): motions count in the units of the stored numbers that they change."""
    if not moves:
        return None
    index = {u.name: layout.indices((u.name,)) for u in unknowns}
    index["y"] = layout.indices(("q",))[system.space.measured_by]
    rows = np.concatenate([index[u.name] for u in unknowns])
    return np.ascontiguousarray([rows, np.zeros_like(rows)], dtype=np.int64)


def as_group(system: System) -> Group:
    """The space of a system that is not flat."""
    if not isinstance(system.space, Group):
        raise TypeError(f"{system.space} is no group")
    return system.space


def along_the_group(
    system: System, residual: ca.SX, x: ca.SX, q: ca.SX, q_new: ca.SX, motion: ca.SX
) -> tuple[ca.SX, ca.SX]:
    """Residual and its derivative with q = q_new(x) put in: q changes by q (T(y) dy)~ if the motion y changes by dy."""
    along, tangent = ca.jacobian(residual, q), ca.jacobian(motion, x)
    if not system.space.flat:
        e = ca.SX.sym("e", system.nv)
        along = along @ ca.jacobian(ca.SX(system.space.rate(q, e)), e)
        tangent = ca.SX(as_group(system).tangent(motion)) @ tangent
    return tuple(ca.substitute([residual, ca.jacobian(residual, x) + along @ tangent], [q], [q_new]))  # type: ignore[return-value]


# A one-step method may treat positions near q_0 as a vector space: q = q_0 exp(y), v = T(y) y', v' = T y'' + T' y'.
def local_origin(system: System, q0: ca.SX) -> ca.SX:
    """Where local positions begin: at zero on a group, at the position itself if it is a vector."""
    return q0 if system.space.flat else ca.SX.zeros(system.nv, 1)


def lifted(system: System, q0: ca.SX, local: Mapping[str, ca.SX]) -> dict[str, ca.SX]:
    """Position, velocity and acceleration of local ones ``q``, ``v``, ``a`` = y, y', y''; the rest as it is."""
    space = system.space
    if not isinstance(space, Group) or space.flat:
        return dict(local)
    velocity, turning = _velocity(space, local["q"], local["v"])
    return {
        **local,
        "q": ca.SX(space.move(q0, local["q"])),
        "v": velocity,
        "a": ca.SX(space.tangent(local["q"])) @ local["a"] + turning,
    }


def back_to_local(system: System, y: ca.SX, velocities: ca.SX) -> ca.SX:
    """Rates of y of velocities (columns): T(y)^-1 v."""
    space = system.space
    if not isinstance(space, Group) or space.flat:
        return velocities
    return ca.SX(space.tangent_inverse(y)) @ velocities


def _velocity(space: Group, y: ca.SX, rate: ca.SX) -> tuple[ca.SX, ca.SX]:
    """v = T(y) y' and the part T' y' of its derivative."""
    at, along = ca.SX.sym("y", space.nv), ca.SX.sym("rate", space.nv)
    velocity = ca.SX(space.tangent(at)) @ along
    both, given = ca.vertcat(at, along), ca.vertcat(y, rate)
    return tuple(ca.substitute([velocity, ca.jtimes(velocity, at, along)], [both], [given]))  # type: ignore[return-value]


def local_form(system: System, q0: ca.SX, there: Mapping[str, ca.SX], guess: ca.SX) -> dict[str, ca.SX]:
    """y, y', y'' of a position, velocity and acceleration: `lifted` undone.

    y = log(q_0^-1 q) has several values where rotations are concerned; the one near the guess is meant: q is met by
    steps y += T(y)^-1 log((q_0 exp(y))^-1 q), which converge like Newton's.
    """
    space = as_group(system)
    y = guess
    for _ in range(3):
        at = ca.SX.sym("y", space.nv)
        missing = ca.SX(space.difference(space.move(q0, at), there["q"]))
        y = ca.substitute(at + ca.SX(space.tangent_inverse(at)) @ missing, at, y)
    back = ca.SX(space.tangent_inverse(y))
    rate = back @ there["v"]
    return {"q": y, "v": rate, "a": back @ (there["a"] - _velocity(space, y, rate)[1])}
