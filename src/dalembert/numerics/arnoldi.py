"""Arnoldi's method on the linearised motion, with difference quotients for the products with vectors.

The state is y = (motion, v, r); ``rows`` (2, n) are the row, yet without its accelerations, and a copy to be moved.
``move`` (nm, nq): how small motions change the positions (with a kernel ``rate`` for q' this is yet to be found out).
``at`` holds the positions in the row of q, v, a, r and r_dot, ``sizes`` their numbers (nq, nm, nv, nr).
"""

from __future__ import annotations

import numpy as np

from dalembert.numerics.native import call_kernel, inner
from dalembert.numerics.newton import CONVERGED
from dalembert.numerics.stage import run_stage

FAR_BELOW = 0.03  # two products that grow by so much less than what is looked for show that there is nothing of it
NO_DIGITS = 1e-6  # of difference quotients below this part of their size


@inner
def _rate(row, i, at, sizes):  # type: ignore[no-untyped-def]
    """Component i of y'."""
    nm, nv = sizes[1], sizes[2]
    if i < nm:
        return row[at[1] + i]
    if i < nm + nv:
        return row[at[2] + i - nm]
    return row[at[4] + i - nm - nv]


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


def _arnoldi(work, t, rows, move, at, sizes, rate, step, at_least, known, tolerance, basis, H):  # type: ignore[no-untyped-def]
    """As `arnoldi`; 0 if no eigenvalue is as large as ``at_least``."""
    m = arnoldi(work, t, rows, move, at, sizes, rate, step, at_least, known, tolerance, basis, H)
    return 0 if m > 0 and bound(H, m, rows[1], basis[H.shape[1]]) < at_least else m


@inner
def arnoldi(  # type: ignore[no-untyped-def]
    work, t, rows, move, at, sizes, rate, step, at_least, known, tolerance, basis, H
):
    """Orthonormal basis and Hessenberg matrix, in place, from basis[0]; returns the dimension, or -1.

    ``step``: of the difference quotients, in units of the state. ``at_least``: size of eigenvalues
    that matter; where there is clearly none, the dimension is 2. ``known`` = 1: the row has its accelerations.
    """
    stage, data, extra, counters = work.multipliers, work.model.data, work.model.extra, work.model.counters
    row, there = rows[0], rows[1]
    data[0] = t
    nq, nm, nv, nr = sizes[0], sizes[1], sizes[2], sizes[3]
    n, m = nm + nv + nr, H.shape[1]
    if known == 0 and run_stage(stage, t, row, extra, tolerance, 0.0, counters) != CONVERGED:
        return -1
    largest, growth = 0.0, 1.0
    for i in range(nq):
        largest = max(largest, abs(row[at[0] + i]))
    for i in range(nv):
        largest = max(largest, abs(row[at[1] + i]))
    eps = step * (1.0 + largest)
    if rate != 0:
        for i in range(row.size):
            there[i] = row[i]
        for k in range(nm):
            for i in range(nv):
                there[at[1] + i] = 1.0 if i == k else 0.0
            call_kernel(rate, there.ctypes.data, data.ctypes.data, move[k].ctypes.data)
    for j in range(m):
        x, w = basis[j], basis[j + 1]
        for i in range(row.size):
            there[i] = row[i]
        for i in range(nq):
            for k in range(nm):
                there[at[0] + i] += eps * move[k, i] * x[k]
        for i in range(nv):
            there[at[1] + i] += eps * x[nm + i]
        for i in range(nr):
            there[at[3] + i] += eps * x[nm + nv + i]
        if run_stage(stage, t, there, extra, tolerance, 0.0, counters) != CONVERGED:
            return -1
        before = 0.0
        for i in range(n):
            w[i] = (_rate(there, i, at, sizes) - _rate(row, i, at, sizes)) / eps
            before += w[i] * w[i]
        if not np.isfinite(before):
            return -1
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
