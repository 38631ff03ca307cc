"""Eigenvalues of the motion linearised at a state, as far as they are large: a few steps of Arnoldi's method."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dalembert.numerics.compiled import arnoldi
from dalembert.numerics.opening import RATE
from dalembert.runtime.assembly import Workspace

KRYLOV = 8  # dimension, at most
STEP = 1e-7  # of the difference quotients


def spectrum(work: Workspace, t: float, row: np.ndarray, at_least: float = 0.0, known: bool = False) -> np.ndarray:
    """Largest eigenvalues (complex) of the index-1 form y' = f(y), y = (motion, v, r), at a row.

    Nothing has to be compiled for it. On small systems the spectrum is complete. Rates of r count if the row has them.
    Empty where the accelerations cannot be solved for, or if all eigenvalues are smaller than ``at_least``. ``known``:
    the row has its accelerations.
    """
    where = _where(work)
    n = where.start.size
    if n == 0:
        return np.zeros(0, dtype=complex)
    rows, m = np.empty((2, row.size)), min(n, KRYLOV)
    rows[0] = row
    rate = int(work.assembly.blocks[RATE])
    move = where.move.copy() if rate else where.move
    basis, H = np.zeros((m + 1, n)), np.zeros((m + 1, m))
    basis[0] = where.start
    found = arnoldi()(
        work.block, float(t), rows, move, where.at, where.sizes, rate, STEP, at_least, int(known),
        work.assembly.multiplier_tolerance, basis, H,
    )  # fmt: skip
    if found <= 0:
        return np.zeros(0, dtype=complex)
    return np.linalg.eigvals(H[:found, :found]).astype(complex)


@dataclass(frozen=True, eq=False)
class _Where:
    """Places and sizes of the blocks of a row, as `arnoldi` wants them, and its first vector."""

    at: np.ndarray
    sizes: np.ndarray
    move: np.ndarray
    start: np.ndarray


def _where(work: Workspace) -> _Where:
    assembly = work.assembly
    if "_where" not in assembly.__dict__:
        system, layout = assembly.system, assembly.layout
        nm, nr = system.nv if system.nq else 0, system.nr if layout.has("r_dot") else 0
        n = nm + system.nv + nr
        at = np.array([layout.slice(x).start if layout.has(x) else 0 for x in ("q", "v", "a", "r", "r_dot")])
        start = np.cos(1.7 * np.arange(1, n + 1) ** 2)  # no direction of a mechanism
        assembly.__dict__["_where"] = _Where(
            at, np.array([system.nq, nm, system.nv, nr]), np.eye(nm, system.nq),
            start / max(float(np.linalg.norm(start)), 1e-300),
        )  # fmt: skip
    out: _Where = assembly.__dict__["_where"]
    return out
