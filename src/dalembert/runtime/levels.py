"""The constraints of a system as numbers, at one state: what initial values and reactions are found from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np

from dalembert.model.symbols import NAMES
from dalembert.model.system import System


@dataclass(frozen=True)
class Levels:
    """Residuals of the constraints and their matrix at a state.

    ``g``, ``g_dot`` (nlam,), ``k`` (nmu,), and ``C`` = [G; K] (nlam + nmu, nv).
    """

    g: np.ndarray
    g_dot: np.ndarray
    k: np.ndarray
    C: np.ndarray

    @property
    def finite(self) -> bool:
        return all(bool(np.all(np.isfinite(x))) for x in (self.g, self.g_dot, self.k, self.C))


def levels_of(system: System, values: dict[str, Any]) -> Levels:
    """Residuals and matrix of the constraints; ``values`` as made by `start.point_values`."""
    g, g_dot, k, C = several(system, "levels", values)
    return Levels(g.ravel(), g_dot.ravel(), k.ravel(), C)


def several(system: System, group: str, values: dict[str, Any]) -> list[np.ndarray]:
    """A group of expressions (see `_GROUPS`) at numbers, through CasADi itself."""
    coefficients = np.zeros(system.coefficients.numel())
    if system.calls:
        find = ca.Function("arguments", list(system.symbols.as_tuple()), [system.arguments])
        system.fill(np.asarray(find(*[values[n] for n in NAMES])).ravel(), coefficients)
    out = group_function(system, group)(*[values[n] for n in NAMES], coefficients)
    return [np.asarray(x.full(), dtype=float) for x in out]


_GROUPS = {
    "levels": lambda s: [s.g, s.g_dot, s.k, ca.vertcat(s.G, s.K)],
    # M a = f - C^T (lam, mu), C a = -(what is left of g'', k' at a = 0)
    "reactions": lambda s: [s.mass, s.force, ca.vertcat(s.G, s.K), ca.vertcat(s.g_ddot, s.k_dot)],
}


def group_function(system: System, group: str) -> ca.Function:
    """CasADi function of (t, q, v, a, r, w, s, lam, mu, p, coefficients) for a group of expressions."""
    cache: dict[str, ca.Function] = system.__dict__.setdefault("_functions", {})
    if group not in cache:
        cache[group] = ca.Function(
            group, [*system.symbols.as_tuple(), system.coefficients], [ca.densify(x) for x in _GROUPS[group](system)]
        )
    return cache[group]


def levels_along(system: System, t: np.ndarray, parts: Mapping[str, np.ndarray], p: np.ndarray) -> Levels:
    """`levels_of` at many states: t (nt,), parts name -> (nt, n); all fields get a time axis first."""
    n = len(t)
    zeros = {name: np.zeros((n, size)) for name, size in system.sizes.items() if name not in ("t", "p")}
    given = {**zeros, **{k: x for k, x in parts.items() if x.shape[1] == system.sizes[k]}}
    if system.calls or n < 2:
        rows = [levels_of(system, {"t": t[i], "p": p, **{k: x[i] for k, x in given.items()}}) for i in range(n)]
        shape = (0, system.nlam + system.nmu, system.nv)
        C = np.array([x.C for x in rows]) if rows else np.zeros(shape)
        g, g_dot, k = (np.array([getattr(x, f) for x in rows]) for f in ("g", "g_dot", "k"))
        return Levels(g, g_dot, k, C)
    columns = [
        np.asarray(t)[None] if name == "t" else np.tile(p[:, None], n) if name == "p" else given[name].T
        for name in NAMES
    ]
    out = group_function(system, "levels").map(n)(*columns, np.zeros((0, n)))
    g, g_dot, k, C = (np.asarray(x.full(), dtype=float) for x in out)
    return Levels(g.T, g_dot.T, k.T, C.reshape(C.shape[0], n, system.nv).transpose(1, 0, 2))
