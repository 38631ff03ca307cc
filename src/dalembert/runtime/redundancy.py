"""Constraints that repeat each other: found at the start, left out of the run, and given their share of the reactions.

C = [G; K] of rank r < m at the start. A run is made with r independent rows C_i = C[kept]; the motion is the same. The
force of the constraints, C_i^T x, is distributed among all of them by the multipliers of smallest norm,

    min |lam|  subject to  C^T lam = C_i^T x :      lam = A (A^T A)^-1 (C_i C_i^T) x,   A = C C_i^T,

since C = T C_i with T = A (C_i C_i^T)^-1. A component of lam is unique if and only if the kernel of C^T (spanned by
the left singular vectors that belong to the singular value zero) has no such component.

[GK13] F. Gonzalez, J. Kovecses, Use of penalty formulations in dynamic simulation and analysis of redundantly
       constrained multibody systems, Multibody Syst. Dyn. 29 (2013) 57-76: reactions that are unique, and others.
[W13] M. Wojtyra, J. Fraczek, Comparison of selected methods of handling redundant constraints in multibody systems
      simulations, J. Comput. Nonlinear Dyn. 8 (2013) 021007: minimum-norm reactions, elimination of constraints.

Rows that depend on each other at one singular position only are something else, and refused: states beside the start,
put onto the kept constraints, have to satisfy the others too, with the same rank.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import casadi as ca
import numpy as np

from dalembert.model.system import System
from dalembert.numerics.layout import Layout
from dalembert.runtime.consistency import nearest
from dalembert.runtime.levels import Levels, group_function, levels_along, levels_of
from dalembert.runtime.start import dependent_rows, point_values, refuse_violations, violated
from dalembert.runtime.subset import surplus_rows, without
from dalembert.status import InconsistentError, RedundantError

BESIDE = 1e-2  # how far beside the start dependence has to hold, too, relative to the size of the positions
BESIDE_TIME = 1e-3  # of the time span
IMPLIED = 1e-9  # relative residual of a constraint that the others imply
PROBES = 3


@dataclass(frozen=True, eq=False)
class Redundancy:
    """The surplus constraints of a system.

    Attributes
    ----------
    system, reduced
        With all constraints, and with independent ones only.
    kept
        Rows of [constraints; velocity constraints] that are in ``reduced``.
    surplus, undetermined
        Names: of the constraints left out, and of all those whose multipliers are not unique.
    """

    system: System
    reduced: System
    kept: tuple[int, ...]
    surplus: tuple[str, ...]
    undetermined: tuple[str, ...]

    def warning(self) -> str:
        """For people."""
        return (
            f"redundant constraints: {', '.join(map(repr, self.surplus))} follow from the others and were left out; "
            f"the multipliers of {', '.join(map(repr, self.undetermined))} are not unique, those of smallest norm are "
            f"returned."
        )

    def spread(
        self, t: np.ndarray, parts: dict[str, np.ndarray], p: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, Levels]:
        """lam (nt, nlam) and mu (nt, nmu) of all constraints from those of the kept ones, and the levels of all."""
        levels = levels_along(self.system, t, {n: parts[n] for n in ("q", "v", "s", "r", "w")}, p)
        C, kept = levels.C, list(self.kept)
        force = np.einsum("tij,ti->tj", C[:, kept], np.hstack([parts["lam"], parts["mu"]]))
        # (C^T)^+ by singular values: near singular positions products of C with itself would lose twice the digits
        U, s, Vt = np.linalg.svd(C, full_matrices=False)
        r = len(kept)
        lam = np.einsum("tir,tr->ti", U[:, :, :r], np.einsum("trj,tj->tr", Vt[:, :r], force) / s[:, :r])
        return lam[:, : self.system.nlam], lam[:, self.system.nlam :], levels

    def expression(self, part: dict[str, ca.SX]) -> dict[str, ca.SX]:
        """The same with symbols: lam and mu of all constraints at the variables in ``part``, for event functions."""
        full, kept = self.system, list(self.kept)
        zeros = {n: ca.SX.zeros(size, 1) for n, size in full.sizes.items()}
        given = [part[n] if n in ("t", "q", "v", "s", "p") else zeros[n] for n in full.sizes]
        C = group_function(full, "levels")(*given, ca.SX.zeros(full.coefficients.numel(), 1))[3]
        own = C[kept, :]
        A = C @ own.T
        lam = A @ ca.solve(A.T @ A, (own @ own.T) @ ca.vertcat(part["lam"], part["mu"]))
        return {"lam": lam[: full.nlam], "mu": lam[full.nlam :]}


def find_redundancy(
    system: System, layout: Layout, p: np.ndarray, t: float, span: float, row: np.ndarray, tolerance: float | None
) -> Redundancy | None:
    """The surplus constraints at a row, which must be consistent (within a tolerance, if given); None if there is none.

    Refuses dependent constraints that cannot be left out: at a singular position, or if forces depend on multipliers
    that are not determined.
    """
    if system.nlam + system.nmu < 2:
        return None
    levels = levels_of(system, point_values(system, layout, t, row, p))
    C = levels.C
    norms = np.linalg.norm(C, axis=1)
    if not levels.finite or np.any(norms == 0.0):
        return None  # refused with a message of its own
    dependent, _ = dependent_rows(C / norms[:, None])
    if not dependent:
        return None
    if tolerance is not None:
        q, v = row[layout.slice("q")], row[layout.slice("v")]
        refuse_violations(violated(system, vars(levels), C, q, v, tolerance))
    labels = [*system.names["constraints"], *system.names["velocity_constraints"]]
    rows = tuple(surplus_rows(C))
    found = Redundancy(
        system,
        reduced_system(system, rows),
        tuple(i for i in range(len(labels)) if i not in rows),
        tuple(labels[i] for i in rows),
        tuple(labels[i] for i in dependent),
    )
    found.reduced.all_multipliers = found.expression
    _refuse_loads(system, dependent, found.undetermined)
    _refuse_position(found, layout, p, t, span, row, C, rows)
    return found


def reduced_system(system: System, rows: tuple[int, ...]) -> System:
    """The system without some rows, built once and kept with the system, so that what is compiled for it is kept."""
    cache: dict[tuple[int, ...], System] = system.__dict__.setdefault("_reduced", {})
    if rows not in cache:
        cache[rows] = without(system, rows)
    return cache[rows]


def _refuse_loads(system: System, dependent: list[int], names: tuple[str, ...]) -> None:
    """Forces may depend on multipliers only if these are unique, and have to enter as G^T lam."""
    x = system.symbols
    multipliers = ca.vertcat(x.lam, x.mu)[dependent]
    what = ", ".join(map(repr, names))
    if system._constraint_force is not None:
        raise RedundantError(f"redundant constraints: {what} depend on each other, and constraint_force needs them "
                             f"independent. Remove what is too much.")  # fmt: skip
    loads = {"force": system.force, "dynamics": system.dynamics, "auxiliary": system.auxiliary}
    for role, expr in loads.items():
        if ca.depends_on(expr, multipliers):
            raise RedundantError(
                f"redundant constraints: the multipliers of {what} are not unique, but {role} depends on them (as "
                f"friction does). Remove the constraints that are too many, or model their compliance."
            )


def _refuse_position(
    found: Redundancy, layout: Layout, p: np.ndarray, t: float, span: float, row: np.ndarray, C: np.ndarray,
    rows: tuple[int, ...],
) -> None:  # fmt: skip
    """Refuse a singular position: beside it the surplus constraints say something of their own."""
    system, reduced, random = found.system, found.reduced, np.random.default_rng(1743)
    own = reduced_layout(layout, system, reduced)
    kernel = np.linalg.svd(C)[2][len(found.kept) :]
    at_q, at_v = own.slice("q"), own.slice("v")
    start = np.zeros(own.n)
    for name, _ in own.blocks:
        if name not in ("lam", "mu"):
            start[own.slice(name)] = row[layout.slice(name)]
    size = BESIDE * (1.0 + np.abs(row[layout.slice("q")]).max(initial=0.0))
    for probe in range(PROBES):
        beside, when = start.copy(), t + (BESIDE_TIME * span if probe else 0.0)
        direction = kernel.T @ random.normal(size=len(kernel))
        direction *= size / max(float(np.linalg.norm(direction)), 1e-300)
        if system.nq:
            beside[at_q] = np.asarray(system.space.move(start[at_q], direction), dtype=float).ravel()
        beside[at_v] += random.normal(size=system.nv) * (1.0 + np.abs(start[at_v]).max(initial=0.0))
        try:
            nearest(reduced, own, p, when, beside)
        except InconsistentError:
            continue
        values = point_values(reduced, own, when, beside, p)
        values["lam"], values["mu"] = np.zeros(system.nlam), np.zeros(system.nmu)
        levels = levels_of(system, values)
        norms = np.linalg.norm(levels.C, axis=1)
        residuals = np.abs(np.concatenate([levels.g, levels.g_dot, levels.k])) / np.concatenate(
            [norms[: system.nlam] * (1 + np.abs(values["q"]).max(initial=0.0)),
             norms * (1 + np.abs(values["v"]).max(initial=0.0))]
        )  # fmt: skip
        _, surplus = dependent_rows(levels.C / norms[:, None])
        if surplus == len(rows) and residuals.max() > IMPLIED and when != t:
            raise InconsistentError(
                f"the constraints {', '.join(map(repr, found.undetermined))} depend on each other and agree at "
                f"t = {t:g}, but not at t = {when:g}: they move apart. Remove or correct one of them."
            )
        if residuals.max() > IMPLIED or surplus < len(rows):
            raise RedundantError(
                f"the constraints {', '.join(map(repr, found.undetermined))} depend on each other at the initial "
                f"values, but not beside them: this is a singular position (branches of the motion meet there), and "
                f"what follows is not determined. Start beside it."
            )


def reduced_layout(layout: Layout, system: System, reduced: System) -> Layout:
    """The layout of rows without the multipliers that were left out."""
    return Layout(tuple((n, reduced.sizes[n] if n in ("lam", "mu") else size) for n, size in layout.blocks))


def refusal(found: Redundancy) -> str:
    """What `solve` says with redundant="refuse"."""
    names = ", ".join(map(repr, found.undetermined))
    return (
        f"redundant constraints: {names} depend on each other at the initial values, so their multipliers are not "
        f"determined. Remove {len(found.surplus)} of them, or use redundant='resolve' to leave out "
        f"{', '.join(map(repr, found.surplus))} and get the multipliers of smallest norm."
    )


def spread_state(found: Redundancy, state: Any, p: np.ndarray) -> Any:
    """A `State` (with or without a time axis) of the reduced system with the multipliers of all constraints."""
    scalar = np.ndim(state.t) == 0
    t = np.atleast_1d(state.t)
    parts = {n: np.atleast_2d(getattr(state, n)) if scalar else getattr(state, n)
             for n in ("q", "v", "s", "r", "w", "lam", "mu")}  # fmt: skip
    lam, mu, _ = found.spread(t, parts, p)
    return replace(state, lam=lam[0] if scalar else lam, mu=mu[0] if scalar else mu)
