"""The constraints of a system as numbers, at one state: what initial values and reactions are found from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np

from dalembert.model.symbols import NAMES
from dalembert.model.system import System
from dalembert.runtime.rounding import rounding

CHUNK = 256  # states evaluated by one call


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


def _energy(system: System) -> list[ca.SX]:
    """E and dE/dt along the motion."""
    energy = ca.SX.zeros(1, 1) if system.energy is None else system.energy
    return [energy, system.time_derivative(energy) + ca.jtimes(energy, system.symbols.r, system.dynamics)]


def _equations(system: System) -> list[ca.SX]:
    """What a solution is checked with: M v' - f - R, the size of its terms, q', r', equations without derivatives."""
    x = system.symbols
    multipliers = ca.fabs(ca.vertcat(system.G, system.K)).T @ ca.fabs(ca.vertcat(x.lam, x.mu))
    terms = ca.fabs(system.mass) @ ca.fabs(x.a) + ca.fabs(system.force) + ca.fabs(system.reaction) + multipliers
    algebraic = ca.vertcat(system.auxiliary, system.h)
    return [system.balance, terms, system.space.rate(x.q, x.v), system.dynamics, algebraic]


_GROUPS: dict[str, Callable[[System], list[ca.SX]]] = {
    "levels": lambda s: [s.g, s.g_dot, s.k, ca.vertcat(s.G, s.K)],
    "equations": _equations,
    "energy": _energy,
    "rounding": lambda s: [rounding(s.balance, [*s.symbols.as_tuple(), s.coefficients])],
    # M a = f - C^T (lam, mu), C a = -(what is left of g'', k' at a = 0)
    "reactions": lambda s: [s.mass, s.force, ca.vertcat(s.G, s.K), ca.vertcat(s.g_ddot, s.k_dot)],
}


def group_function(system: System, group: str) -> ca.Function:
    """CasADi function of (t, q, v, a, r, w, s, lam, mu, p, coefficients) for a group of expressions."""
    cache: dict[str, ca.Function] = system.__dict__.setdefault("_functions", {})
    key = f"group {group}"  # expressions of the model are kept there, too
    if key not in cache:
        cache[key] = ca.Function(
            group, [*system.symbols.as_tuple(), system.coefficients], [ca.densify(x) for x in _GROUPS[group](system)]
        )
    return cache[key]


def levels_along(system: System, t: np.ndarray, parts: Mapping[str, np.ndarray], p: np.ndarray) -> Levels:
    """`levels_of` at many states: t (nt,), parts name -> (nt, n); all fields get a time axis first."""
    g, g_dot, k, C = along(system, "levels", t, parts, p)
    return Levels(g[..., 0], g_dot[..., 0], k[..., 0], C)


def along(
    system: System, group: str, t: np.ndarray, parts: Mapping[str, np.ndarray], p: np.ndarray
) -> list[np.ndarray]:
    """A group of expressions at many states: each (nt, rows, columns)."""
    n = len(t)
    zeros = {name: np.zeros((n, size)) for name, size in system.sizes.items() if name not in ("t", "p")}
    given = {**zeros, **{k: x for k, x in parts.items() if x.shape[1] == system.sizes[k]}}
    function = group_function(system, group)
    if system.calls or n < 2:
        rows = [several(system, group, {"t": t[i], "p": p, **{k: x[i] for k, x in given.items()}}) for i in range(n)]
        empty = [np.zeros((0, *function.size_out(i))) for i in range(function.n_out())]
        return [np.array([row[i] for row in rows]) if rows else empty[i] for i in range(function.n_out())]
    many, size = function.map(CHUNK), -(-n // CHUNK) * CHUNK
    filled = np.minimum(np.arange(size), n - 1)
    columns = [
        np.tile(p[:, None], size) if name == "p" else (np.asarray(t)[None] if name == "t" else given[name].T)[:, filled]
        for name in NAMES
    ]
    chunks = []
    for start in range(0, size, CHUNK):
        out = many(*[x[:, start : start + CHUNK] for x in columns], np.zeros((0, CHUNK)))
        arrays = [np.asarray(x.full(), dtype=float) for x in (out if isinstance(out, tuple) else (out,))]
        chunks.append([x.reshape(x.shape[0], CHUNK, x.shape[1] // CHUNK).transpose(1, 0, 2) for x in arrays])
    return [np.concatenate(x)[:n] for x in zip(*chunks, strict=True)]
