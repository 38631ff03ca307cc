"""Evaluating a model at an instant, inside a larger expression.

A step equation, a projection or a consistency condition mentions the model at one or more instants. `Environment`
hands out a `Point` for each; it remembers which black boxes (if any) have to be called where.
"""

from __future__ import annotations

from typing import Any

import casadi as ca
import numpy as np

from dalembert.model.symbols import NAMES, Variables
from dalembert.model.system import System

# expressions of the model that can be read from a point
_QUANTITIES = frozenset(
    [
        "mass",
        "force",
        "free_force",
        "reaction",
        "balance",
        "g",
        "g_dot",
        "g_ddot",
        "G",
        "k",
        "k_dot",
        "K",
        "h",
        "phi",
        "dynamics",
        "auxiliary",
        "energy",
        "contact_rate",
        "g_dot_q",
        "acceleration_by_lam",
        "acceleration_by_lam_dot",
        "acceleration_by_mu",
        "G_dot",
        "K_dot",
    ]
)


class Point:
    """The model at one instant: ``point.balance``, ``point.g``, ``point.G``, ... as expressions.

    Variables that were not given are NaN, so that using one by mistake cannot pass unnoticed.
    """

    def __init__(self, system: System, variables: Variables, coefficients: ca.SX) -> None:
        self.system = system
        self.variables = variables
        self._coefficients = coefficients

    def __getattr__(self, name: str) -> ca.SX:
        if name in NAMES:
            return getattr(self.variables, name)
        if name not in _QUANTITIES:
            raise AttributeError(f"a point of the model has no {name!r}")
        value = self.system.function(name)(*self.variables.as_tuple(), self._coefficients)
        setattr(self, name, value)
        return value


class Environment:
    """Parameters, and the instants at which a group of expressions evaluates the model."""

    def __init__(self, system: System, p: ca.SX, data: ca.SX | None = None) -> None:
        self.system = system
        self.p = p
        self.data = ca.SX.zeros(0, 1) if data is None else data  # numbers of the formulation, see Formulation.data_size
        self.coefficients: list[ca.SX] = []
        self.arguments: list[ca.SX] = []

    def at(self, **given: Any) -> Point:
        """A point of the model; names as in `symbols.NAMES`, parameters are added."""
        sizes = self.system.sizes
        values = {n: ca.SX(np.full((sizes[n], 1), np.nan)) for n in NAMES}
        values["p"] = self.p
        for name, x in given.items():
            if x is not None:
                values[name] = x
        variables = Variables(**values)
        n = self.system.coefficients.numel()
        coefficients = ca.SX.sym(f"blackbox{len(self.coefficients)}", n)
        if n:
            find = ca.Function("arguments", list(self.system.symbols.as_tuple()), [self.system.arguments])
            self.coefficients.append(coefficients)
            self.arguments.append(find(*variables.as_tuple()))
        return Point(self.system, variables, coefficients)
