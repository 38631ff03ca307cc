"""Pieces of a step of generalized-alpha: formulas, first guess, error estimate, coefficient function.

[ACB15] M. Arnold, A. Cardona, O. Bruels, Order reduction in time integration caused by velocity projection, J. Mech.
        Sci. Technol. 29 (2015).
[BG06]  O. Bruels, J.-C. Golinval, The generalized-alpha method in mechatronic applications, ZAMM 86 (2006) 748-758:
        first-order states by the same formulas as velocities.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import casadi as ca
import numpy as np
from numba import carray, cfunc

from dalembert.formulations.base import Unknown
from dalembert.integrators.alpha_parameters import AlphaParameters
from dalembert.integrators.alpha_start import RATES
from dalembert.integrators.base import StepData
from dalembert.integrators.positions import as_group
from dalembert.model.point import Point
from dalembert.model.system import System
from dalembert.numerics.compiled import COEFFICIENT_SIGNATURE, compile_cached
from dalembert.numerics.runstate import FIRST, GROWTH, N_COEFFICIENTS, PREDICTOR, SECOND

# Scaled by the ratio of the steps, errors across the constraints grow as long as the steps do: by 1.35 a step if they
# double (rho = 0.9, stabilized), not at all (0.95) if they grow by this factor.
MOST_GROWTH = 1.25


def split(unknowns: list[Unknown], x: ca.SX) -> dict[str, ca.SX]:
    """Unknowns by name."""
    out, position = {}, 0
    for u in unknowns:
        out[u.name] = ca.reshape(x[position : position + u.size], u.size, 1)
        position += u.size
    return out


def advance(
    c: AlphaParameters, name: str, old: dict[str, ca.SX], rate_new: ca.SX, ratio: ca.SX, h: ca.SX
) -> dict[str, ca.SX]:
    """(3c) and (3d) for velocities, and in the same way for first-order states [BG06]."""
    rate, auxiliary, _ = RATES[name]
    a = old[rate] + ratio * (old[auxiliary] - old[rate])  # as a step of this size would have left it
    a1 = ((1 - c.alpha_f) * rate_new + c.alpha_f * old[rate] - c.alpha_m * a) / (1 - c.alpha_m)  # (3d)
    return {
        name: old[name] + h * ((1 - c.nm_gamma) * a + c.nm_gamma * a1),  # (3c)
        rate: rate_new,
        auxiliary: a1,
    }


def guess(
    unknowns: list[Unknown], old: dict[str, ca.SX], older: dict[str, ca.SX], ratio: ca.SX,
    h: ca.SX, pushed: Callable[[ca.SX], ca.SX],
) -> ca.SX:  # fmt: skip
    """Rates continued along their parabola, the rest along lines."""
    parts = {}
    for u in unknowns:
        if not u.size:
            continue
        if u.name == "kappa":
            parts[u.name] = ca.SX.zeros(u.size, 1)
            continue
        line = old[u.name] + ratio * (old[u.name] - older[u.name])
        for rate, _, slope in RATES.values():
            if u.name == rate:  # the mean slopes of two steps give the curvature
                bend = 0.5 * (1 + ratio) * (old[slope] - older[slope])
                line = old[rate] + h * (old[slope] + ratio * bend)
        parts[u.name] = line
    if "eta" in parts:
        parts["a"] += pushed(parts["eta"])
    return ca.densify(ca.vertcat(*parts.values()))


def local_error(
    c: AlphaParameters, system: System, old: dict[str, ca.SX], new: dict[str, ca.SX], data: StepData
) -> dict[str, ca.SX]:
    """Local errors: C h^3 v'' + h^3/12 [v, v'] of positions, C h^3 v''' of velocities and first-order states.

    v''' is the difference of the mean v'' of this step and of the last one.
    """
    h = data.h
    between = 0.5 * (h + 1.0 / data.c[1])  # from the middle of the last step to the middle of this one
    motion = c.position_error * h**3 * new["_a_dot"]
    if not system.space.flat:
        motion += h**3 / 12 * (ca.SX(as_group(system).ad(new["v"])) @ new["a"])
    out = {"q": ca.SX(system.space.rate(new["q"], motion))}
    for name, (_, _, slope) in RATES.items():
        out[name] = c.velocity_error * h**3 * (new[slope] - old[slope]) / between
    return out


def projected(point: Point, times: Sequence[float], t: ca.SX, h: ca.SX) -> ca.SX:
    """v on the velocity constraints, nearest by the masses, if t is the grid point of such a time."""
    if not point.system.nlam:
        return point.v
    W = point.acceleration_by_lam  # M^-1 G^T
    there = point.v - W @ ca.solve(point.G @ W, point.g_dot)
    chosen: Any = 0
    for when in times:
        chosen = ca.logic_or(chosen, ca.fabs(t - when) < 0.5 * ca.fabs(h))
    return ca.if_else(chosen, there, point.v)


def _last_rows(k, available, nodes_address, orders_address, out_address):  # type: ignore[no-untyped-def]
    """The last row as it is, the one before it for the first guess, and 1 / (size of the last step).

    Before the first step this is the size it was planned with: if it is reduced, a_0 is scaled as at any other change.
    """
    nodes = carray(nodes_address, (3,), np.float64)
    out = carray(out_address, (N_COEFFICIENTS,), np.float64)
    out[:] = 0.0
    out[PREDICTOR] = 1.0
    out[FIRST] = 1.0
    out[SECOND + 1] = 1.0
    out[1] = 1.0 / (nodes[1] - nodes[2])
    out[GROWTH] = MOST_GROWTH
    return 0


@cache
def last_rows() -> Any:
    """The coefficient function."""
    return compile_cached(cfunc, COEFFICIENT_SIGNATURE, _last_rows)
