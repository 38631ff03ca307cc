"""Eigenvalues of the motion linearised at a state, as far as they are large: a few steps of Arnoldi's method.

The state is y = (motion, v, r), its rate that of the index-1 form; difference quotients make the products with vectors.
On small systems the spectrum is complete.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numba import types

from dalembert.numerics.memory import Record
from dalembert.numerics.native import call_geev, call_kernel, inner, lapack_address
from dalembert.numerics.newton import CONVERGED
from dalembert.numerics.stage import run_stage

KRYLOV = 8  # dimension, at most
STEP = 1e-7  # of the difference quotients, in units of the state
FAR_BELOW = 0.03  # two products that grow by so much less than what is looked for show that there is nothing of it
NO_DIGITS = 1e-6  # of difference quotients below this part of their size
SCRATCH = 8  # rows of work space for LAPACK

# positions in Krylov.whole: where q, v, a, r and r_dot begin in a row, how many numbers q, motions, v and r have, the
# address of a kernel for q' (0: it is v), how many eigenvalues were found, and what LAPACK's dgeev wants
AT_Q, AT_V, AT_A, AT_R, AT_R_DOT, N_Q, N_M, N_V, N_R, RATE_KERNEL, FOUND, GEEV, N, LDA, LWORK, ONE, LETTER, INFO = (
    range(18)
)


class Krylov(NamedTuple):
    """Numbers and work space."""

    whole: np.ndarray  # see above
    rows: np.ndarray  # (2, n): the row, and a copy that is moved
    move: np.ndarray  # (nm, nq): how small motions change the positions
    basis: np.ndarray  # (m + 1, size of y)
    H: np.ndarray  # (m + 1, m)
    eigenvalues: np.ndarray  # (2 + SCRATCH, m): real and imaginary parts


_m8 = types.float64[:, ::1]
KRYLOV_TYPE = Record(Krylov, [types.int64[::1], *[_m8] * 5])


def krylov_space(starts: Sequence[int], nq: int, nm: int, nv: int, nr: int, rate: int, n: int) -> Krylov:
    """Work space for rows of n numbers; see `Krylov.whole` for the others."""
    size = nm + nv + nr
    m = min(size, KRYLOV)
    whole = np.array([*starts, nq, nm, nv, nr, rate, 0, lapack_address("dgeev"), 0, m, SCRATCH * m, 1, ord("N"), 0])
    return Krylov(
        whole, np.zeros((2, n)), np.zeros((nm, nq)), np.zeros((m + 1, size)), np.zeros((m + 1, m)),
        np.zeros((2 + SCRATCH, m)),
    )  # fmt: skip


@inner
def _rate(row, i, whole):  # type: ignore[no-untyped-def]
    """Component i of y'."""
    nm, nv = whole[N_M], whole[N_V]
    if i < nm:
        return row[whole[AT_V] + i]
    if i < nm + nv:
        return row[whole[AT_A] + i - nm]
    return row[whole[AT_R_DOT] + i - nm - nv]


@inner
def bound(H, m, x, y):  # type: ignore[no-untyped-def]
    """No eigenvalue of H[:m, :m] is larger: |H^4|^(1/4), of the Frobenius norm; x and y (m,) are overwritten.

    Positions and velocities have units of their own, by which norms of H itself are far too large.
    """
    total = 0.0
    for column in range(m):
        for i in range(m):
            x[i] = H[i, column]
        for _ in range(3):
            for i in range(m):
                y[i] = 0.0
                for k in range(m):
                    y[i] += H[i, k] * x[k]
            for i in range(m):
                x[i] = y[i]
        for i in range(m):
            total += x[i] * x[i]
    return total**0.125


@inner
def find_eigenvalues(work, t, row, at_least, known, tolerance):  # type: ignore[no-untyped-def]
    """The largest ones at a row, into ``work.krylov``; how many there are.

    None where the accelerations cannot be solved for (to ``tolerance``), or if all are smaller than ``at_least``.
    ``known`` = 1: the row has its accelerations.
    """
    krylov = work.krylov
    whole, H, out = krylov.whole, krylov.H, krylov.eigenvalues
    for i in range(row.size):
        krylov.rows[0, i] = row[i]
    m = _arnoldi(work, t, at_least, known, tolerance) if H.shape[1] > 0 else 0
    whole[FOUND] = 0
    if m == 0 or bound(H, m, out[0], out[1]) < at_least:
        return 0
    whole[N] = m
    start, scratch = whole.ctypes.data, out[2].ctypes.data
    # rows of H are columns for LAPACK: the transpose has the same eigenvalues
    call_geev(
        whole[GEEV], start + 8 * LETTER, start + 8 * LETTER, start + 8 * N, H.ctypes.data, start + 8 * LDA,
        out[0].ctypes.data, out[1].ctypes.data, scratch, start + 8 * ONE, scratch, start + 8 * ONE, scratch,
        start + 8 * LWORK, start + 8 * INFO,
    )  # fmt: skip
    whole[FOUND] = m if whole[INFO] == 0 else 0
    return whole[FOUND]


@inner
def _begin(work, whole, row, there, basis, H, move):  # type: ignore[no-untyped-def]
    """The first vector, which is no direction of a mechanism, and how small motions change the positions."""
    nm, nv, size = whole[N_M], whole[N_V], 0.0
    first = basis[0]
    for i in range(first.size):
        first[i] = np.cos(1.7 * (i + 1.0) ** 2)
        size += first[i] * first[i]
    for i in range(first.size):
        first[i] /= np.sqrt(size)
    for j in range(H.shape[1]):
        for i in range(H.shape[0]):
            H[i, j] = 0.0
    for i in range(row.size):
        there[i] = row[i]
    for k in range(nm):
        for i in range(whole[N_Q]):
            move[k, i] = 1.0 if i == k else 0.0
        if whole[RATE_KERNEL] != 0:
            for i in range(nv):
                there[whole[AT_V] + i] = 1.0 if i == k else 0.0
            call_kernel(whole[RATE_KERNEL], there.ctypes.data, work.model.data.ctypes.data, move[k].ctypes.data)


@inner
def _arnoldi(work, t, at_least, known, tolerance):  # type: ignore[no-untyped-def]
    """Orthonormal basis and Hessenberg matrix; returns the dimension, 0 if there is none.

    Where there is clearly no eigenvalue of size ``at_least``, it is 2.
    """
    krylov, stage, model = work.krylov, work.multipliers, work.model
    whole, basis, H, move = krylov.whole, krylov.basis, krylov.H, krylov.move
    row, there, extra, counters = krylov.rows[0], krylov.rows[1], model.extra, model.counters
    model.data[0] = t
    nq, nm, nv, nr = whole[N_Q], whole[N_M], whole[N_V], whole[N_R]
    at_q, at_v, at_r = whole[AT_Q], whole[AT_V], whole[AT_R]
    n, m = nm + nv + nr, H.shape[1]
    if known == 0 and run_stage(stage, t, row, extra, tolerance, 0.0, counters) != CONVERGED:
        return 0
    largest, growth = 0.0, 1.0
    for i in range(nq):
        largest = max(largest, abs(row[at_q + i]))
    for i in range(nv):
        largest = max(largest, abs(row[at_v + i]))
    eps = STEP * (1.0 + largest)
    _begin(work, whole, row, there, basis, H, move)
    for j in range(m):
        x, w = basis[j], basis[j + 1]
        for i in range(row.size):
            there[i] = row[i]
        for i in range(nq):
            for k in range(nm):
                there[at_q + i] += eps * move[k, i] * x[k]
        for i in range(nv):
            there[at_v + i] += eps * x[nm + i]
        for i in range(nr):
            there[at_r + i] += eps * x[nm + nv + i]
        if run_stage(stage, t, there, extra, tolerance, 0.0, counters) != CONVERGED:
            return 0
        before = 0.0
        for i in range(n):
            w[i] = (_rate(there, i, whole) - _rate(row, i, whole)) / eps
            before += w[i] * w[i]
        if not np.isfinite(before):
            return 0
        growth *= before
        for _ in range(2):  # Gram-Schmidt, twice
            for k in range(j + 1):
                c = 0.0
                for i in range(n):
                    c += basis[k, i] * w[i]
                for i in range(n):
                    w[i] -= c * basis[k, i]
                H[k, j] += c
        size = 0.0
        for i in range(n):
            size += w[i] * w[i]
        size, before = np.sqrt(size), np.sqrt(before)
        if size <= NO_DIGITS * before:
            return j + 1
        H[j + 1, j] = size
        for i in range(n):
            w[i] /= size
        # positions and velocities have units of their own: two products together tell the size of eigenvalues
        if j == 1 and np.sqrt(np.sqrt(growth)) < FAR_BELOW * at_least:
            return 2
    return m
