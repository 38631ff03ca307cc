"""What explicit and half-explicit Runge-Kutta methods share: stages as rates, and states made from them.

[M98] H. Munthe-Kaas, Runge-Kutta methods on Lie groups, BIT 38 (1998) 92-111.

A stage is known by its rates: the accelerations a, the rate k = T(y)^-1 v of the motion y that leads to its position
q exp(y) (k = v if q is a vector), and r'.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import casadi as ca
import numpy as np

from dalembert.formulations.base import Unknown
from dalembert.model.system import System
from dalembert.spaces.group import Group
from dalembert.status import OptionError

RATES = ("a", "k", "r_dot")
Rates = dict[str, ca.SX]


def implicit_accelerations(method: str) -> OptionError:
    """The refusal of a model whose accelerations cannot be computed stage by stage."""
    return OptionError(
        f"method {method!r} needs accelerations and multipliers that follow from a linear system; this model has "
        "friction, auxiliary variables, contact coordinates or black boxes, or is too large for compiled elimination. "
        "Use BDF or Radau, or Iterated(newton=True) for small systems without black boxes."
    )


def rate_sizes(system: System) -> dict[str, int]:
    """Sizes of the rates of a stage."""
    return {"a": system.nv, "k": system.nv if system.nq else 0, "r_dot": system.nr}


def rate_unknowns(system: System, stages: int) -> list[Unknown]:
    """Blocks of unknowns: the rates, stage by stage."""
    return [Unknown(f"{name}{i}", size, False) for i in range(stages) for name, size in rate_sizes(system).items()]


def split_rates(system: System, x: ca.SX, stages: int) -> list[Rates]:
    """The rates of the stages, which x begins with."""
    edges = np.cumsum([0, *list(rate_sizes(system).values()) * stages])
    blocks = [ca.reshape(x[a:b], b - a, 1) for a, b in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)]
    return [dict(zip(RATES, blocks[i : i + len(RATES)], strict=True)) for i in range(0, len(blocks), len(RATES))]


def stacked(stages: Sequence[Rates]) -> ca.SX:
    """The rates of the stages one below the other."""
    return ca.vertcat(*[stage[name] for stage in stages for name in RATES])


def change(stages: Sequence[Rates], weights: np.ndarray, h: ca.SX) -> Rates:
    """h times the weighted sum of the rates, block by block."""
    pairs = list(zip(weights, stages, strict=False))
    return {
        name: h * sum((float(w) * stage[name] for w, stage in pairs if w), ca.SX.zeros(stages[0][name].shape))
        for name in RATES
    }


def moved(system: System, old: Mapping[str, ca.SX], by: Rates, passing: bool = False) -> dict[str, ca.SX]:
    """q, v, r after a change, and the motion y that leads to q.

    ``passing``: of a stage, from which no other move begins; rounding may leave it a little off a group.
    """
    q, space = old["q"], system.space
    if passing and isinstance(space, Group) and not space.flat:
        q = ca.SX(space.compose(q, space.exp(by["k"])))
    elif system.nq:
        q = ca.SX(space.move(q, by["k"]))
    return {"q": q, "v": old["v"] + by["a"], "r": old["r"] + by["r_dot"], "y": by["k"]}


def motion_rate(system: System, y: ca.SX, v: ca.SX) -> ca.SX:
    """Rate of the motion y at velocity v [M98]."""
    if not system.nq:
        return ca.SX.zeros(0, 1)
    if isinstance(system.space, Group):
        return ca.SX(system.space.tangent_inverse(y)) @ v
    return v
