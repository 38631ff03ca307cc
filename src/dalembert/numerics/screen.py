"""Is a row fit to start from? Screened by compiled code, before the first step of every run.

A short run takes less time than a dozen calls of NumPy. What has to be found out about a start is therefore decided
here where bounds leave no doubt; where there is doubt, `runtime.start` looks closer and has the words for it.

Regular matrices: for A = L L^T symmetric positive definite trace(A^-1) = |L^-1|_F^2, and its smallest eigenvalue is not
below 1 / trace(A^-1).
"""

from __future__ import annotations

import numpy as np

from dalembert.numerics.native import call_kernel, inner

# what `fit` finds
DOUBTFUL, VIOLATED = DOUBTS = 1, 2
# a mass matrix with unit diagonal, or C C^T with rows of C of unit length, is regular beyond doubt if the trace of its
# inverse is below; singular values down to a thousandth pass, the limit is at 1e-10
CLEARLY_REGULAR = 1e6
NOT_CLAMPED = 1e12  # ratio of eigenvalues of the mass matrix up to which all of them count
SKEW, SMALL_ROW = 1e-10, 1e-6  # as in `runtime.start`

# positions in the array of sizes: velocities, constraints, velocity constraints, residuals of all levels, where q and v
# begin in the row (q: -1 if positions are no list of coordinates), kernels of (row, [t, p]): levels, matrices, what
# vanishes for elements of a group (0: there is none), and how many numbers the last one has
NV, NLAM, NMU, N_LEVELS, AT_Q, AT_V, LEVELS, MATRICES, DEFECTS, N_DEFECTS = range(10)
ELEMENT = 1e-15  # defects that are rounding errors


def work_size(nv: int, m: int, n_levels: int, n_defects: int) -> int:
    """Numbers that `fit` and `row_scales` need to work with."""
    return n_defects + n_levels + 2 * nv * (nv + m) + 2 * nv * nv + m * m + 4 * (nv + m)


@inner
def cholesky(a, n, first):  # type: ignore[no-untyped-def]
    """L in the lower triangle of a (n, n), row by row, in place, with reciprocals on the diagonal; False if there is
    none. first (n,): ends of its rows.

    Mass matrices and C C^T of chains of bodies have short rows.
    """
    for i in range(n):
        j = 0
        while j < i and a[i * n + j] == 0.0:
            j += 1
        first[i] = j
    for i in range(n):
        begin = int(first[i])
        for j in range(begin, i + 1):
            s = a[i * n + j]
            for k in range(max(begin, int(first[j])), j):
                s -= a[i * n + k] * a[j * n + k]
            if j < i:
                a[i * n + j] = s * a[j * n + j]
            elif s > 0.0 and s < np.inf:
                a[i * n + i] = 1.0 / np.sqrt(s)
            else:
                return False
    return True


@inner
def forward(a, n, first, x, begin):  # type: ignore[no-untyped-def]
    """x = L^-1 x in place, for x that is zero before ``begin``. Returns |x|^2."""
    total = 0.0
    for i in range(begin, n):
        s = x[i]
        for k in range(max(begin, int(first[i])), i):
            s -= a[i * n + k] * x[k]
        x[i] = s * a[i * n + i]
        total += x[i] * x[i]
    return total


@inner
def inverse_trace(a, n, first, x):  # type: ignore[no-untyped-def]
    """trace(A^-1) from `cholesky`; x (n,) is overwritten."""
    total = 0.0
    for j in range(n):
        for i in range(n):
            x[i] = 0.0
        x[j] = 1.0
        total += forward(a, n, first, x, j)
    return total


@inner
def evaluate_matrices(model, row):  # type: ignore[no-untyped-def]
    """M and C = [G; K], column by column, at the beginning of model.screen; False if the kernel failed."""
    sizes, entries, work = model.sizes, model.entries, model.screen
    nv, m = sizes[NV], sizes[NLAM] + sizes[NMU]
    size = nv * (nv + m)
    if call_kernel(sizes[MATRICES], row.ctypes.data, model.data.ctypes.data, work.ctypes.data + 8 * size) != 0:
        return False
    for i in range(size):
        work[i] = 0.0
    for i in range(entries.size):
        work[entries[i]] = work[size + i]
    return True


@inner
def _regular_mass(work, nv, a, first, x):  # type: ignore[no-untyped-def]
    """True if M, scaled to a unit diagonal, is symmetric and positive definite beyond doubt."""
    largest, skew = 0.0, 0.0
    for i in range(nv):
        for j in range(nv):
            largest = max(largest, abs(work[i + nv * j]))
            skew = max(skew, abs(work[i + nv * j] - work[j + nv * i]))
    if not skew <= SKEW * largest:
        return False
    for i in range(nv):
        d = abs(work[i * (nv + 1)])
        if not d > 0.0:
            return False
        x[i] = 1.0 / np.sqrt(d)
        for j in range(i + 1):
            a[i * nv + j] = work[i + nv * j] * (x[i] * x[j])
    return cholesky(a, nv, first) and inverse_trace(a, nv, first, x) <= CLEARLY_REGULAR


@inner
def _regular_rows(C, m, nv, a, norms, first, x):  # type: ignore[no-untyped-def]
    """True if the rows of C, scaled to unit length, are independent beyond doubt."""
    small, large = np.inf, 0.0
    for i in range(m):
        norms[i] = 0.0
        for j in range(nv):
            norms[i] += C[i + m * j] ** 2
        norms[i] = np.sqrt(norms[i])
        small, large = min(small, norms[i]), max(large, norms[i])
    if not small > SMALL_ROW * large:
        return False
    for i in range(m):
        norms[i] = 1.0 / norms[i]
        for k in range(i + 1):
            s = 0.0
            for j in range(nv):
                s += C[i + m * j] * C[k + m * j]
            a[i * m + k] = s * (norms[i] * norms[k])
    return cholesky(a, m, first) and inverse_trace(a, m, first, x) <= CLEARLY_REGULAR


@inner
def _violated(levels, C, sizes, row, tolerance):  # type: ignore[no-untyped-def]
    """True if a constraint is not met, relative to the size of its terms; see `runtime.start.violated`."""
    nv, nlam, m = sizes[NV], sizes[NLAM], sizes[NLAM] + sizes[NMU]
    for i in range(m):
        q_size, v_size = 0.0, 0.0
        for j in range(nv):
            c = abs(C[i + m * j])
            q_size += c * abs(row[sizes[AT_Q] + j]) if sizes[AT_Q] >= 0 else c
            v_size += c * abs(row[sizes[AT_V] + j])
        if i < nlam and not abs(levels[i]) <= tolerance * max(1.0, q_size):
            return True
        if not abs(levels[nlam + i]) <= tolerance * max(1.0, v_size):
            return True
    return False


@inner
def fit(model, row, tolerance):  # type: ignore[no-untyped-def]
    """Does this row determine the motion, and does it satisfy the constraints? 0, or what is in doubt.

    At the time in model.data; ``tolerance`` < 0: constraints need not be met.
    """
    sizes, work = model.sizes, model.screen
    nv, m = sizes[NV], sizes[NLAM] + sizes[NMU]
    if tolerance >= 0.0 and sizes[DEFECTS] != 0:
        call_kernel(sizes[DEFECTS], row.ctypes.data, model.data.ctypes.data, work.ctypes.data)
        for i in range(sizes[N_DEFECTS]):
            if not abs(work[i]) <= ELEMENT:
                return DOUBTFUL
    at = 2 * nv * (nv + m)
    values = work[at : at + sizes[N_LEVELS]]
    at += sizes[N_LEVELS]
    if call_kernel(sizes[LEVELS], row.ctypes.data, model.data.ctypes.data, values.ctypes.data) != 0:
        return DOUBTFUL
    if not evaluate_matrices(model, row):
        return DOUBTFUL
    total = 0.0
    for i in range(nv * (nv + m)):
        total += abs(work[i])
    for i in range(values.size):
        total += abs(values[i])
    if not np.isfinite(total):
        return DOUBTFUL
    norms, first, x = work[at : at + m], work[at + m : at + nv + 2 * m], work[at + nv + 2 * m : at + 2 * nv + 3 * m]
    a = work[at + 2 * nv + 3 * m :]
    C = work[nv * nv : nv * (nv + m)]
    if not (_regular_mass(work, nv, a, first, x) and _regular_rows(C, m, nv, a, norms, first, x)):
        return DOUBTFUL
    return VIOLATED if tolerance >= 0.0 and _violated(values, C, sizes, row, tolerance) else 0


@inner
def row_scales(model, row, out):  # type: ignore[no-untyped-def]
    """out_i = 1 / |C_i| in the metric of M^-1, 1 where this is no number; False if the mass matrix is in doubt."""
    sizes, work = model.sizes, model.screen
    nv, m = sizes[NV], sizes[NLAM] + sizes[NMU]
    if not evaluate_matrices(model, row):
        return False
    at = nv * (nv + m)
    first, x, a = work[at : at + nv], work[at + nv : at + 2 * nv], work[at + 2 * nv :]
    trace = 0.0
    for i in range(nv):
        trace += work[i * (nv + 1)]
        for j in range(i + 1):
            a[i * nv + j] = 0.5 * (work[i + nv * j] + work[j + nv * i])
    if not (cholesky(a, nv, first) and trace * inverse_trace(a, nv, first, x) <= NOT_CLAMPED):
        return False
    for i in range(m):
        for j in range(nv):
            x[j] = work[nv * nv + i + m * j]
        size = np.sqrt(forward(a, nv, first, x, 0))
        out[i] = 1.0 / size if size > 0.0 and size < np.inf else 1.0
    return True


def _resolvable(rtol, atol, row, index, smallest):  # type: ignore[no-untyped-def]
    """1 if floating point resolves these tolerances of the entries ``index`` of a row, else 0."""
    for k in range(index.size):
        r, a, size = rtol[k], atol[k], abs(row[index[k]])
        if (r == 0.0 and a == 0.0) or (r > 0.0 and r < smallest and a < smallest) or a + r * size < smallest * size:
            return 0
    return 1
