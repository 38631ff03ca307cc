"""Constraints that say the same thing twice: which ones, and the system without the surplus."""

from __future__ import annotations

import copy
from collections.abc import Collection
from functools import cached_property

import casadi as ca
import numpy as np

from dalembert.model.symbols import symbol
from dalembert.model.system import System
from dalembert.runtime.start import RANK_TOLERANCE

# made from the equations
CACHES = (
    "_functions", "_assemblies", "_reduced", "_not_explicit", "_implicit", "_ingredients", "_layouts", "_checked",
    "_choices", "_contact",
)  # fmt: skip


def surplus_rows(C: np.ndarray) -> list[int]:
    """Rows that depend on those above them; without them C has full rank."""
    norms = np.linalg.norm(C, axis=1)
    basis = np.zeros((0, C.shape[1]))
    out = []
    for i, (row, norm) in enumerate(zip(C, norms, strict=True)):
        rest = row / norm if norm > 0 else row
        for _ in range(2):  # twice is enough (Kahan)
            rest = rest - basis.T @ (basis @ rest)
        size = np.linalg.norm(rest)
        if size > 10 * RANK_TOLERANCE:
            basis = np.vstack([basis, rest / size])
        else:
            out.append(i)
    return out


def without(system: System, rows: Collection[int]) -> System:
    """The system without some rows of [constraints; velocity constraints]; their multipliers are zero."""
    keep = {
        "lam": [i for i in range(system.nlam) if i not in rows],
        "mu": [i for i in range(system.nmu) if system.nlam + i not in rows],
    }
    cached = {n for c in type(system).__mro__ for n, x in vars(c).items() if isinstance(x, cached_property)}
    out = copy.copy(system)
    out.__dict__ = {name: x for name, x in system.__dict__.items() if name not in cached and name not in CACHES}
    old, new = [], []
    out._symbols = dict(system._symbols)
    for name, kept in keep.items():
        out._symbols[name] = symbol(name, len(kept))
        full = ca.SX.zeros(system._symbols[name].numel(), 1)
        for j, i in enumerate(kept):
            full[i] = out._symbols[name][j]
        old.append(system._symbols[name])
        new.append(full)

    def rewritten(expr: ca.SX) -> ca.SX:
        return ca.substitute([expr], old, new)[0]

    for name in ("force", "dynamics", "auxiliary"):
        setattr(out, name, rewritten(getattr(system, name)))
    if system._constraint_force is not None:
        out._constraint_force = rewritten(system._constraint_force)
    out._arguments = [rewritten(x) for x in system._arguments]
    out.g, out.k = (
        ca.vertcat(ca.SX.zeros(0, 1), *[expr[i] for i in keep[name]])
        for expr, name in ((system.g, "lam"), (system.k, "mu"))
    )
    out.names = dict(system.names)
    for multiplier, role in (("lam", "constraints"), ("mu", "velocity_constraints")):
        out.names[role] = out.names[multiplier] = tuple(system.names[role][i] for i in keep[multiplier])
    return out
