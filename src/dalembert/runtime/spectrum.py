"""Eigenvalues of the motion linearised at a state, as far as they are large: a few steps of Arnoldi's method."""

from __future__ import annotations

import numpy as np

from dalembert.numerics.compiled import arnoldi
from dalembert.numerics.newton import N_COUNTERS
from dalembert.runtime.assembly import Workspace

KRYLOV = 10  # dimension, at most
STEP = 1e-7  # of the difference quotients


def spectrum(work: Workspace, t: float, row: np.ndarray) -> np.ndarray:
    """Largest eigenvalues (complex) of the index-1 form y' = f(y), y = (motion, v, r), at a row.

    Nothing has to be compiled for it. On small systems the spectrum is complete. Rates of r count if the row has them.
    Empty where the accelerations cannot be solved for.
    """
    system, layout = work.assembly.system, work.assembly.layout
    nm = system.nv if system.nq else 0
    nr = system.nr if layout.has("r_dot") else 0
    n = nm + system.nv + nr
    rows = np.stack([row, row])
    if n == 0 or work.complete(t, rows[0]) != 0:
        return np.zeros(0, dtype=complex)
    q = rows[0][layout.slice("q")]
    move = np.eye(nm)
    if nm and not system.space.flat:
        move = np.stack([np.asarray(system.space.rate(q, e), dtype=float).ravel() for e in move], axis=1)
    at = np.array([layout.slice(x).start if layout.has(x) else 0 for x in ("q", "v", "a", "r", "r_dot")])
    m = min(n, KRYLOV)
    basis, H = np.zeros((m + 1, n)), np.zeros((m + 1, m))
    basis[0] = np.cos(1.7 * np.arange(1, n + 1) ** 2)  # no direction of a mechanism
    basis[0] /= np.linalg.norm(basis[0])
    stage = work.multipliers
    size = 1.0 + max(np.abs(rows[0][layout.slice(name)]).max(initial=0.0) for name in ("q", "v"))
    found = arnoldi()(
        stage, float(t), rows, np.ascontiguousarray(move), at, np.array([len(q), nm, system.nv, nr]),
        STEP * size, work.multiplier_tolerance,
        np.zeros(stage.real.size + 1), np.zeros(N_COUNTERS, dtype=np.int64), basis, H,
    )  # fmt: skip
    return np.linalg.eigvals(H[:found, :found]).astype(complex) if found > 0 else np.zeros(0, dtype=complex)
