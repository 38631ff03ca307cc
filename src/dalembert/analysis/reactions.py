"""Reactions at a state: multipliers of smallest norm, and which of them are unique.

    M a + C^T lam = f,   C a = gamma,   C = [G; K] of any rank (singular value decomposition)

[W13] M. Wojtyra, J. Fraczek, Comparison of selected methods of handling redundant constraints in multibody systems
      simulations, J. Comput. Nonlinear Dyn. 8 (2013) 021007.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np

from dalembert.model.system import System
from dalembert.runtime.levels import several
from dalembert.runtime.start import RANK_TOLERANCE
from dalembert.solution import State
from dalembert.status import OptionError


@dataclass(frozen=True, eq=False)
class Reactions:
    """Accelerations and multipliers at a state.

    Attributes
    ----------
    a : (nv,)
    lam, mu : (nlam,), (nmu,)
        Of smallest norm (of both together).
    names
        Of the constraints and velocity constraints.
    unique : (nlam + nmu,) bool
        Which multipliers are determined.
    rank
        Of C.
    C : (nlam + nmu, nv)
        [G; K].
    kernel : (nlam + nmu, nlam + nmu - rank)
        Orthonormal directions in which the multipliers can be changed without changing any force.
    """

    a: np.ndarray
    lam: np.ndarray
    mu: np.ndarray
    names: tuple[str, ...]
    unique: np.ndarray
    rank: int
    C: np.ndarray
    kernel: np.ndarray


def reactions(system: System, state: State, *, parameters: Mapping[str, Any] | None = None) -> Reactions:
    """Reactions at a state (of `consistent`, or ``sol(t)``), for constraints of any rank.

    Examples
    --------
    >>> import dalembert as da
    >>> rods = da.System(q=["x", "y"], mass=[1, 1], force=[0, -1],
    ...                  constraints=lambda q: {"a": q[1], "b": q[1], "c": q[0]})
    >>> found = da.reactions(rods, da.consistent(rods, [0, 0]))
    >>> found.lam, found.unique
    (array([-0.5, -0.5,  0. ]), array([False, False,  True]))
    """
    if not isinstance(system, System):
        raise OptionError(f"system is a {type(system).__name__}; build one with da.System(...) or da.Lagrangian(...).")
    if not isinstance(state, State) or np.ndim(state.t):
        raise OptionError("state: give a State at one time, from da.consistent(...) or sol(t) with a number t.")
    x = system.symbols
    if system._constraint_force is not None or ca.depends_on(system.force, ca.vertcat(x.lam, x.mu)):
        raise OptionError("reactions: the forces depend on the multipliers (friction, constraint_force); use sol.lam.")
    sizes = system.sizes
    values = {n: getattr(state, n) for n in ("t", "q", "v", "r", "w", "s")}
    values |= {n: np.zeros(sizes[n]) for n in ("a", "lam", "mu")}
    values["p"] = system.parameters.vector(parameters)
    M, f, C, rest = several(system, "reactions", values)
    norms = np.linalg.norm(C, axis=1)
    U, s, Vt = np.linalg.svd(C / np.where(norms > 0, norms, 1.0)[:, None])
    rank = int((s > RANK_TOLERANCE * s.max(initial=0.0)).sum())
    # the kernel of C^T itself, not of that with scaled rows
    left = U[:, rank:] / np.where(norms > 0, norms, 1.0)[:, None]
    kernel = np.linalg.qr(left)[0] if left.shape[1] else left
    Z = Vt[rank:].T
    a = np.linalg.lstsq(C, -rest.ravel(), rcond=RANK_TOLERANCE)[0] if len(C) else np.zeros(system.nv)
    a = a + Z @ np.linalg.solve(Z.T @ M @ Z, Z.T @ (f.ravel() - M @ a))
    force = np.linalg.lstsq(C.T, f.ravel() - M @ a, rcond=RANK_TOLERANCE)[0] if len(C) else np.zeros(0)
    unique = np.abs(kernel).max(axis=1, initial=0.0) < 1e-8
    names = (*system.names["constraints"], *system.names["velocity_constraints"])
    return Reactions(a, force[: system.nlam], force[system.nlam :], names, unique, rank, C, kernel)
