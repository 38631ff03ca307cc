"""A system with some of its constraints released: the same coordinates and parameters, fewer equations.

A released constraint is not enforced and has no force: its multiplier is zero wherever the model asks for it (in
friction that depends on it, say). Multipliers of a variant are numbered without it; `widen` puts them back
to their places.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from functools import cached_property

import casadi as ca
import numpy as np

from dalembert.model.symbols import symbol
from dalembert.model.system import System
from dalembert.status import OptionError

KINDS = {"lam": "constraints", "mu": "velocity_constraints"}  # multiplier -> role of its constraints
_CACHES = (
    "_functions", "_assemblies", "_nearest", "_not_explicit", "_implicit", "_ingredients", "_layouts", "_variants",
    "_checked", "_choices", "_contact",
)  # fmt: skip
_REWRITTEN = ("force", "dynamics", "auxiliary", "_constraint_force")


def constraint_names(system: System, name: str) -> frozenset[str]:
    """The constraints meant by a name: that of a single one, or of a group ("pin" for "pin[0]", "pin[1]")."""
    known = [x for role in KINDS.values() for x in system.names[role]]
    found = frozenset(x for x in known if x == name or x.startswith(f"{name}["))
    if not found:
        raise OptionError(f"there is no constraint {name!r} in this system (it has: {', '.join(known) or 'none'}).")
    return found


def chosen(system: System, names: str | Iterable[str]) -> frozenset[str]:
    """The constraints meant by the argument ``released`` of `solve`."""
    given = [names] if isinstance(names, str) else list(names)
    return frozenset().union(*(constraint_names(system, name) for name in given))


def with_released(system: System, released: Iterable[str]) -> System:
    """The variant without these constraints (full names), built once; the system itself if there are none."""
    full = full_system(system)
    key = frozenset(released)
    if not key:
        return full
    cache: dict[frozenset[str], System] = full.__dict__.setdefault("_variants", {})
    if key not in cache:
        cache[key] = _build(full, key)
    return cache[key]


def full_system(system: System) -> System:
    """The system with all constraints that a variant was made from."""
    full: System = system.__dict__.get("_full", system)
    return full


def released_names(system: System) -> frozenset[str]:
    """Constraints that are released in a variant."""
    names: frozenset[str] = system.__dict__.get("_released", frozenset())
    return names


def active(system: System, kind: str) -> np.ndarray:
    """Positions of the multipliers ``kind`` ("lam" or "mu") of a variant among those of the full system."""
    names = full_system(system).names[KINDS[kind]]
    gone = released_names(system)
    return np.array([i for i, x in enumerate(names) if x not in gone], dtype=np.int64)


def widen(system: System, kind: str, x: np.ndarray) -> np.ndarray:
    """Columns of a variant (..., n) at their places in the full system, zero where a constraint is released."""
    full = len(full_system(system).names[KINDS[kind]])
    if x.shape[-1] == full:
        return x
    out = np.zeros((*x.shape[:-1], full))
    out[..., active(system, kind)] = x
    return out


def widen_symbols(system: System, kind: str, x: ca.SX) -> ca.SX:
    """The same for a column of symbols."""
    out = ca.SX.zeros(len(full_system(system).names[KINDS[kind]]), 1)
    for j, i in enumerate(active(system, kind)):
        out[int(i)] = x[j]
    return out


def _build(full: System, released: frozenset[str]) -> System:
    unknown = released - {x for role in KINDS.values() for x in full.names[role]}
    if unknown:
        constraint_names(full, min(unknown))
    new = copy.copy(full)
    derived = [n for c in type(full).__mro__ for n, x in vars(c).items() if isinstance(x, cached_property)]
    new.__dict__ = {n: x for n, x in full.__dict__.items() if n not in (*derived, *_CACHES)}
    new.__dict__.update(_full=full, _released=released, names=dict(full.names), _symbols=dict(full._symbols))
    old, here = [], []
    for kind, role in KINDS.items():
        at = active(new, kind)
        names = tuple(full.names[role][i] for i in at)
        new.names[role] = new.names[kind] = names
        new._symbols[kind] = symbol(kind, len(names))
        old.append(full._symbols[kind])
        here.append(widen_symbols(new, kind, new._symbols[kind]))
    new.g = full.g[active(new, "lam").tolist()] if new.names["lam"] else ca.SX.zeros(0, 1)
    new.k = full.k[active(new, "mu").tolist()] if new.names["mu"] else ca.SX.zeros(0, 1)

    def rewritten(expr: ca.SX) -> ca.SX:
        return ca.substitute(expr, ca.vertcat(*old), ca.vertcat(*here))

    for name in _REWRITTEN:
        expr = full.__dict__[name]
        new.__dict__[name] = None if expr is None else rewritten(expr)
    new._arguments = [rewritten(x) for x in full._arguments]
    return new
