"""Is a row fit to start from? Screened by compiled code, before the first step of every run.

A short run takes less time than a dozen calls of NumPy. What has to be found out about a start is therefore written out
as one kernel for each system, without its zeros, and decided here where bounds leave no doubt; where there is doubt,
`runtime.start` looks closer and has the words for it.

Regular matrices: the smallest eigenvalue of A, symmetric positive definite, is not below 1 / trace(A^-1). The diagonal
of A^-1 is found from A = L D L^T without the rest of it [T73]: for Z = A^-1, from the last column to the first, and
only where L is not zero,

    Z_ij = -sum_{k > j} Z_ik L_kj (i > j),   Z_jj = 1 / D_j - sum_{k > j} L_kj Z_kj

and S A S with a diagonal S, which scales A to a unit diagonal, has the trace of its inverse sum_i A_ii Z_ii.

[T73] K. Takahashi, J. Fagan, M. S. Chen, Formation of a sparse bus impedance matrix and its application to short
      circuit study, 8th PICA Conference (1973) 63-69.
"""

from __future__ import annotations

import casadi as ca
import numpy as np

from dalembert.numerics.native import call_kernel, inner

# what `fit` finds
DOUBTFUL, VIOLATED = DOUBTS = 1, 2
# a mass matrix with unit diagonal, or C C^T with rows of C of unit length, is regular beyond doubt if the trace of its
# inverse is below; singular values down to a thousandth pass, the limit is at 1e-10
CLEARLY_REGULAR = 1e6
NOT_CLAMPED = 1e12  # ratio of eigenvalues of the mass matrix up to which all of them count
SKEW, SMALL_ROW = 1e-10, 1e-6  # as in `runtime.start`
LARGEST = 40_000  # products in the factorisations of a system that is screened; larger ones are looked at closer

# positions in the array of sizes: velocities, constraints of both kinds, kernels of (row, [t, p]): what is measured
# (0: nothing), what vanishes for elements of a group (0: there is none), and how many numbers the last one has
NV, M, MEASURES, DEFECTS, N_DEFECTS = range(5)
ELEMENT = 1e-15  # defects that are rounding errors
# What is measured: a sum of all magnitudes, finite if all are; of M the largest entry, that of M - M^T, the smallest
# pivot, the trace of its inverse scaled to a unit diagonal, and trace(M) trace(M^-1); of C the squares of the smallest
# and largest length of a row, the smallest pivot of C C^T, the trace of its inverse, scaled; the largest violation of a
# constraint, relative to the size of its terms; then squares of the lengths of rows of C, Euclidean (m) and in the
# metric of M^-1 (m), and the diagonal of M (nv)
(TOTAL, LARGEST_MASS, SKEWNESS, PIVOT, TRACE, SPREAD, SHORTEST, LONGEST, ROW_PIVOT, ROW_TRACE, OFF, LENGTHS) = range(12)


def n_measures(nv: int, m: int) -> int:
    return LENGTHS + 2 * m + nv


def measures(mass: ca.SX, C: ca.SX, levels: ca.SX, n_holonomic: int, q: ca.SX | None, v: ca.SX) -> ca.SX | None:
    """What is asked about a start; None if the matrices are so large that it is not.

    Parameters
    ----------
    mass, C
        Mass matrix (nv, nv) and constraint matrix [G; K] (m, nv).
    levels
        Residuals g (of ``n_holonomic`` constraints), g', k, and whatever else is to be finite.
    q, v
        Coordinates, one for each velocity (None: they are no such list), and velocities.
    """
    m = C.shape[0]
    mass = ca.sparsify(mass)
    symmetric = ca.project(mass, mass.sparsity() + mass.T.sparsity())
    C = ca.sparsify(C)
    products = ca.sparsify(C @ C.T)
    if _work(symmetric.sparsity()) + _work(products.sparsity()) > LARGEST:
        return None
    M_factors, C_factors = _Factors(symmetric), _Factors(products)
    inverse, row_inverse = M_factors.inverse_diagonal(), C_factors.inverse_diagonal()
    diagonal, lengths = ca.densify(ca.diag(mass)), ca.densify(ca.diag(products))
    skew = ca.sparsify(mass - mass.T)
    everything = [*_entries(mass), *_entries(C), *_entries(ca.densify(levels))]
    head = {
        TOTAL: _sum([ca.fabs(x) for x in everything]),
        LARGEST_MASS: _most(ca.fmax, [ca.fabs(x) for x in _entries(mass)]),
        SKEWNESS: _most(ca.fmax, [ca.fabs(x) for x in _entries(skew)]),
        PIVOT: _most(ca.fmin, M_factors.pivots),
        TRACE: ca.dot(diagonal, inverse),
        SPREAD: ca.sum1(diagonal) * ca.sum1(inverse),
        SHORTEST: _most(ca.fmin, ca.vertsplit(lengths)) if m else ca.SX(1.0),
        LONGEST: _most(ca.fmax, ca.vertsplit(lengths)) if m else ca.SX(1.0),
        ROW_PIVOT: _most(ca.fmin, C_factors.pivots) if m else ca.SX(1.0),
        ROW_TRACE: ca.dot(lengths, row_inverse) if m else ca.SX(0.0),
        OFF: _most(ca.fmax, _violations(C, levels, n_holonomic, q, v)),
    }
    in_metric = [M_factors.square(C[i, :].T) for i in range(m)]
    return ca.densify(ca.vertcat(*[head[i] for i in range(LENGTHS)], lengths, *in_metric, diagonal))


def _violations(C: ca.SX, levels: ca.SX, n_holonomic: int, q: ca.SX | None, v: ca.SX) -> list[ca.SX]:
    """|residual| over the size of its terms, or 1 if they are small; see `runtime.start.violated`."""
    sizes, m, out = ca.fabs(C), C.shape[0], []
    of_q = sizes @ (ca.SX.ones(v.numel(), 1) if q is None else ca.fabs(q))
    of_v = sizes @ ca.fabs(v)
    for i in range(m):
        if i < n_holonomic:
            out.append(ca.fabs(levels[i]) / ca.fmax(1.0, of_q[i]))
        out.append(ca.fabs(levels[n_holonomic + i]) / ca.fmax(1.0, of_v[i]))
    return out


def _entries(matrix: ca.SX) -> list[ca.SX]:
    """Those that are not zero by structure."""
    return [matrix.nz[i] for i in range(matrix.nnz())]


def _sum(terms: list[ca.SX]) -> ca.SX:
    total = ca.SX(0.0)
    for x in terms:
        total += x
    return total


def _most(choose, terms):  # type: ignore[no-untyped-def]
    """The largest or smallest of expressions, 0 if there are none."""
    found = terms[0] if terms else ca.SX(0.0)
    for x in terms[1:]:
        found = choose(found, x)
    return found


def _work(pattern: ca.Sparsity) -> int:
    """Products in the factorisation of a symmetric matrix."""
    above, _ = pattern.ldl(True)
    return int((np.bincount(above.row(), minlength=1) ** 2).sum())


class _Factors:
    """A(order, order) = L D L^T of a symmetric matrix, as expressions."""

    def __init__(self, A: ca.SX) -> None:
        D, above, self.order = ca.ldl(A, True)
        self.pivots = ca.vertsplit(ca.densify(D)) if A.numel() else []
        self.reciprocals = [1 / x for x in self.pivots]
        self.columns: list[dict[int, ca.SX]] = [{} for _ in self.pivots]  # of L: k -> L_kj, k > j
        for j, k, x in zip(*above.sparsity().get_triplet(), _entries(above), strict=True):
            self.columns[j][k] = x

    def inverse_diagonal(self) -> ca.SX:
        """Of A^-1, in the order of A: see the head of this file."""
        n = len(self.pivots)
        Z: dict[tuple[int, int], ca.SX] = {}
        for j in reversed(range(n)):
            column = self.columns[j]
            for i in column:
                Z[i, j] = -_sum([Z[max(i, k), min(i, k)] * x for k, x in column.items()])
            Z[j, j] = self.reciprocals[j] - _sum([x * Z[k, j] for k, x in column.items()])
        out = ca.SX.zeros(n, 1)
        for j, at in enumerate(self.order):
            out[at] = Z[j, j]
        return out

    def square(self, x: ca.SX) -> ca.SX:
        """x^T A^-1 x of a sparse vector."""
        given = {i: x[i] for i in x.sparsity().row()}
        y = [given.get(at) for at in self.order]
        total = ca.SX(0.0)
        for j, column in enumerate(self.columns):
            at_j = y[j]
            if at_j is None:
                continue
            total += at_j * at_j * self.reciprocals[j]
            for k, L in column.items():
                before = y[k]
                y[k] = -L * at_j if before is None else before - L * at_j
        return total


@inner
def measure(model, row):  # type: ignore[no-untyped-def]
    """Put what is measured at a row into model.screen; False if it is not, or there is no such kernel."""
    sizes = model.sizes
    if sizes[MEASURES] == 0:
        return False
    data = model.data.ctypes.data
    return call_kernel(sizes[MEASURES], row.ctypes.data, data, model.screen.ctypes.data) == 0


@inner
def fit(model, row, tolerance):  # type: ignore[no-untyped-def]
    """Does this row determine the motion, and does it satisfy the constraints? 0, or what is in doubt.

    At the time in model.data; ``tolerance`` < 0: constraints need not be met.
    """
    sizes, found = model.sizes, model.screen
    if tolerance >= 0.0 and sizes[DEFECTS] != 0:
        call_kernel(sizes[DEFECTS], row.ctypes.data, model.data.ctypes.data, found.ctypes.data)
        for i in range(sizes[N_DEFECTS]):
            if not abs(found[i]) <= ELEMENT:
                return DOUBTFUL
    if not measure(model, row) or not np.isfinite(found[TOTAL]):
        return DOUBTFUL
    mass = found[SKEWNESS] <= SKEW * found[LARGEST_MASS] and found[PIVOT] > 0.0 and found[TRACE] <= CLEARLY_REGULAR
    rows = found[SHORTEST] > SMALL_ROW * SMALL_ROW * found[LONGEST]
    rows = rows and found[ROW_PIVOT] > 0.0 and found[ROW_TRACE] <= CLEARLY_REGULAR
    if not (mass and rows):
        return DOUBTFUL
    return VIOLATED if tolerance >= 0.0 and not found[OFF] <= tolerance else 0


@inner
def row_scales(model, euclidean, scale, metric):  # type: ignore[no-untyped-def]
    """scale_i = 1 / |C_i|, Euclidean or in the metric of M^-1, 1 where this is no number; metric_i = M_ii; from what
    was measured. False if the mass matrix is in doubt and its metric is asked for."""
    found, nv, m = model.screen, model.sizes[NV], model.sizes[M]
    lengths = found[LENGTHS : LENGTHS + m] if euclidean else found[LENGTHS + m : LENGTHS + 2 * m]
    for i in range(m):
        scale[i] = 1.0 / np.sqrt(lengths[i]) if lengths[i] > 0.0 and lengths[i] < np.inf else 1.0
    if euclidean:
        return True
    diagonal, largest = found[LENGTHS + 2 * m :], 0.0
    for i in range(nv):
        largest = max(largest, abs(diagonal[i]))
    for i in range(nv):
        metric[i] = max(abs(diagonal[i]), 1e-12 * largest)
    return found[PIVOT] > 0.0 and found[SPREAD] <= NOT_CLAMPED and largest > 0.0


def _resolvable(rtol, atol, row, index, smallest):  # type: ignore[no-untyped-def]
    """1 if floating point resolves these tolerances of the entries ``index`` of a row, else 0."""
    for k in range(index.size):
        r, a, size = rtol[k], atol[k], abs(row[index[k]])
        if (r == 0.0 and a == 0.0) or (r > 0.0 and r < smallest and a < smallest) or a + r * size < smallest * size:
            return 0
    return 1
