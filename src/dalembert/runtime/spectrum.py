"""Eigenvalues of the motion linearised at a state, as far as they are large: a few Arnoldi steps."""

from __future__ import annotations

import numpy as np

from dalembert.runtime.assembly import Workspace

KRYLOV = 8  # dimension, at most


def spectrum(work: Workspace, t: float, row: np.ndarray) -> np.ndarray:
    """Largest eigenvalues (complex) of the index-1 form y' = f(y), y = (motion, v, r), at a row.

    Products of the Jacobian with vectors are difference quotients, so nothing has to be compiled. On small systems the
    spectrum is complete. Rates of r count if the row has them.
    """
    system, layout = work.assembly.system, work.assembly.layout
    q, v, a, r = (layout.slice(name) for name in ("q", "v", "a", "r"))
    nq = system.nv if system.nq else 0
    nr = system.nr if layout.has("r_dot") else 0
    n = nq + system.nv + nr
    base = row.copy()
    if n == 0 or work.complete(t, base) != 0:
        return np.zeros(0, dtype=complex)

    def rates(x: np.ndarray) -> np.ndarray:
        return np.concatenate([x[v][:nq], x[a], x[layout.slice("r_dot")] if nr else x[:0]])

    d0 = rates(base)
    size = 1.0 + max(np.abs(base[q]).max(initial=0.0), np.abs(base[v]).max(initial=0.0))

    def product(x: np.ndarray) -> np.ndarray:
        eps = 1e-7 * size / np.linalg.norm(x)
        there = base.copy()
        if nq:
            there[q] = np.asarray(system.space.move(base[q], eps * x[:nq]), dtype=float)
        there[v] += eps * x[nq : nq + system.nv]
        if nr:
            there[r] += eps * x[nq + system.nv :]
        if work.complete(t, there) != 0:
            return np.full(n, np.nan)
        return (rates(there) - d0) / eps

    m = min(n, KRYLOV)
    basis = np.zeros((m + 1, n))
    H = np.zeros((m + 1, m))
    start = np.random.default_rng(1743).standard_normal(n)
    basis[0] = start / np.linalg.norm(start)
    for j in range(m):
        w = product(basis[j])
        if not np.all(np.isfinite(w)):
            return np.zeros(0, dtype=complex)
        before = np.linalg.norm(w)
        for _ in range(2):
            c = basis[: j + 1] @ w
            w = w - basis[: j + 1].T @ c
            H[: j + 1, j] += c
        H[j + 1, j] = np.linalg.norm(w)
        if H[j + 1, j] <= 1e-6 * before:  # difference quotients have no more digits
            return np.linalg.eigvals(H[: j + 1, : j + 1])
        basis[j + 1] = w / H[j + 1, j]
    return np.linalg.eigvals(H[:m, :m])
