"""What `consistent` is to keep, and how willingly the rest may change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dalembert.model.system import System
from dalembert.numerics.projection import Projection
from dalembert.status import OptionError


@dataclass(frozen=True, eq=False)
class Wishes:
    """What may change, and how willingly.

    ``positions``, ``velocities``: indices of stored numbers and of velocities that stay. ``weight``: None (identity),
    "mass" or a matrix (nv, nv).
    """

    positions: tuple[int, ...] = ()
    velocities: tuple[int, ...] = ()
    weight: Any = None
    max_iterations: int = 200


def wishes_of(system: System, fixed: Any, weights: Any, max_iterations: Any) -> Wishes:
    """The arguments of `consistent`, checked."""
    names = [] if fixed is None else [fixed] if isinstance(fixed, (str, int, np.integer)) else list(fixed)
    positions, velocities = [], []
    for name in names:
        if isinstance(name, (int, np.integer)) and not isinstance(name, bool) and 0 <= name < system.nq:
            positions.append(int(name))
        elif name in system.names["q"] and system.nq:
            positions.append(system.names["q"].index(name))
        elif name in system.velocity_names:
            velocities.append(system.velocity_names.index(name))
        else:
            raise OptionError(
                f"fixed: {name!r} is no coordinate; coordinates are {', '.join(system.names['q'])}, velocities "
                f"{', '.join(system.velocity_names)}."
            )
    if isinstance(max_iterations, bool) or not isinstance(max_iterations, (int, np.integer)) or max_iterations < 1:
        raise OptionError(f"max_iterations={max_iterations!r}: give a positive whole number.")
    if isinstance(weights, dict):
        unknown = [n for n in weights if n not in system.motion_names]
        if unknown:
            raise OptionError(f"weights: there is no {unknown[0]!r}; names are {', '.join(system.motion_names)}.")
        weights = [weights.get(n, 1.0) for n in system.motion_names]
    try:
        weight = Projection(weight=weights).weight
    except OptionError as problem:
        raise OptionError(str(problem).replace("Projection(weight=", "consistent(weights=")) from None
    if weight is not None and not isinstance(weight, str) and len(weight) != system.nv:
        raise OptionError(f"weights: {len(weight)} numbers given, the system has {system.nv} velocities.")
    return Wishes(tuple(positions), tuple(velocities), weight, int(max_iterations))
