"""The Newton loop, compiled once for everything implicit in the package.

Simplified Newton: the factorisation is kept as long as the iteration contracts well. Convergence is judged either by
the size of the next update (steps) or by the residual rows reaching their rounding level (projection).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import types

from dalembert.numerics.memory import Record
from dalembert.numerics.native import call_getrf, call_getrs, call_kernel, inner, view

# results of newton()
CONVERGED, DIVERGED, NOT_FINITE, SINGULAR, USER_ERROR = 0, 1, 2, 3, -1

# positions in `counters`
RESIDUALS, FACTORIZATIONS, ITERATIONS, LAPACK = 0, 1, 2, 3
N_COUNTERS = 4

# Growth of the compiled elimination. Beyond the first limit its result counts only if the next update confirms it, and
# LAPACK takes over if that is not small; beyond the second LAPACK does it anyway.
TRUST_LIMIT, GROWTH_LIMIT = 1e6, 1e10
REFINE_LIMIT = 10.0  # beyond it a linear system gets a step of iterative refinement
SLOW = 0.1  # contraction rate beyond which the matrix is renewed within the iteration

# positions in Newton.whole: addresses, sizes, and where the parts of Newton.real begin
(
    RESIDUAL, MATRIX, FACTOR, SOLVE, GETRF, GETRS, N, N_DATA, N_LU, NNZ, LINEAR, EVERY, POLISH,
    AT_X, AT_D, AT_F, AT_DX, AT_LU, AT_DENSE, INFO, ONE, LETTER, CAUTIOUS, PATTERN,
) = range(24)  # fmt: skip
# positions in Newton.real before the parts: is there a factorisation, is it LAPACK's, last contraction rate, and that
# of a matrix fresh from this very step
FACTORIZED, BY_LAPACK, RATE, FRESH_RATE = 0, 1, 2, 3
N_MEMORY = 4
ROUNDED = 1e-10  # updates after which a residual that is a little larger than expected is rounding
POLISHED = 0.01  # what one more iteration could change is this part of the tolerance: it is not needed
AGING = 1.3  # a contraction rate grows by this factor a step until it is measured again


class Newton(NamedTuple):
    """Kernels (by address), sizes and work space of one nonlinear system; see `numerics.nonlinear`.

    real: memory, x (n), d (nd), F (n), dx (n), lu, dense (n, n) column by column.
    whole: the entries above (INFO, ONE, LETTER: arguments of LAPACK), then rows and columns of the nonzeros (2 nnz),
    then LAPACK's pivots (n, 32 bit).
    """

    whole: np.ndarray
    real: np.ndarray


NEWTON_TYPE = Record(Newton, [types.int64[::1], types.float64[::1]])


@view
def unknowns(nw):  # type: ignore[no-untyped-def]
    """View of x (n,)."""
    return nw.real[nw.whole[AT_X] : nw.whole[AT_X] + nw.whole[N]]


@view
def data(nw):  # type: ignore[no-untyped-def]
    """View of d (nd,)."""
    return nw.real[nw.whole[AT_D] : nw.whole[AT_D] + nw.whole[N_DATA]]


@inner
def forget(nw):  # type: ignore[no-untyped-def]
    """The factorisation no longer fits; the next solve makes a new one."""
    nw.real[FACTORIZED] = 0.0


@inner
def at(nw, part):  # type: ignore[no-untyped-def]
    """Address of a part of nw.real."""
    return nw.real.ctypes.data + 8 * nw.whole[part]


@inner
def trusted(nw):  # type: ignore[no-untyped-def]
    """True if the factorisation is as good as LAPACK's without proof."""
    return nw.real[BY_LAPACK] == 1.0 or nw.real[nw.whole[AT_LU] + nw.whole[N_LU] - 1] < TRUST_LIMIT


@inner
def factorize(nw, limit, counters):  # type: ignore[no-untyped-def]
    """Factorise at (x, d), with compiled elimination if its growth is below the limit.

    Returns CONVERGED, SINGULAR, NOT_FINITE or USER_ERROR.
    """
    n, n_lu, nnz = nw.whole[N], nw.whole[N_LU], nw.whole[NNZ]
    lu = nw.real[nw.whole[AT_LU] : nw.whole[AT_DENSE]]
    counters[FACTORIZATIONS] += 1
    nw.real[FACTORIZED] = 0.0
    if n_lu > 0:
        if call_kernel(nw.whole[FACTOR], at(nw, AT_X), at(nw, AT_D), at(nw, AT_LU)) < 0:
            return USER_ERROR
        if lu[n_lu - 1] < limit:  # False for NaN too
            nw.real[FACTORIZED], nw.real[BY_LAPACK] = 1.0, 0.0
            return CONVERGED
    # the pivots chosen in advance do not serve here (or there are none): partial pivoting
    if call_kernel(nw.whole[MATRIX], at(nw, AT_X), at(nw, AT_D), at(nw, AT_LU)) < 0:
        return USER_ERROR
    counters[LAPACK] += 1
    dense = nw.real[nw.whole[AT_DENSE] : nw.whole[AT_DENSE] + n * n]
    dense[:] = 0.0
    total = 0.0
    for i in range(nnz):
        dense[nw.whole[PATTERN + i] + n * nw.whole[PATTERN + nnz + i]] = lu[i]
        total += lu[i]
    if not np.isfinite(total):
        return NOT_FINITE
    m = nw.whole.ctypes.data + 8 * N  # little-endian: the low half of a 64-bit integer is the 32-bit one
    info = nw.whole.ctypes.data + 8 * INFO
    pivots = nw.whole.ctypes.data + 8 * (PATTERN + 2 * nnz)
    call_getrf(nw.whole[GETRF], m, m, at(nw, AT_DENSE), m, pivots, info)
    for i in range(n):  # an exact zero is rare in floating point; a hopeless pivot is not
        largest = 0.0
        for j in range(i, n):
            largest = max(largest, abs(dense[i + n * j]))
        if not abs(dense[i + n * i]) > 1e-15 * largest:
            return SINGULAR
    nw.real[FACTORIZED], nw.real[BY_LAPACK] = 1.0, 1.0
    return CONVERGED


@inner
def back_substitute(nw):  # type: ignore[no-untyped-def]
    """dx = -columns * J^-1 F."""
    if nw.real[BY_LAPACK] == 0.0:
        call_kernel(nw.whole[SOLVE], at(nw, AT_LU), at(nw, AT_F), at(nw, AT_DX))
        return
    n, nnz = nw.whole[N], nw.whole[NNZ]
    F, dx, lu = nw.whole[AT_F], nw.whole[AT_DX], nw.whole[AT_LU]
    for i in range(n):
        nw.real[dx + i] = nw.real[F + i]
    m = nw.whole.ctypes.data + 8 * N
    info = nw.whole.ctypes.data + 8 * INFO
    pivots = nw.whole.ctypes.data + 8 * (PATTERN + 2 * nnz)
    letter = nw.whole.ctypes.data + 8 * LETTER
    one = nw.whole.ctypes.data + 8 * ONE
    call_getrs(nw.whole[GETRS], letter, m, one, at(nw, AT_DENSE), m, pivots, at(nw, AT_DX), m, info)
    for i in range(n):
        nw.real[dx + i] *= -nw.real[lu + nnz + i]


@inner
def rows_beyond(F, bounds, factor):  # type: ignore[no-untyped-def]
    """How many rows are larger than their bounds times a factor, or no numbers; without branches, for vectors."""
    count = 0
    for i in range(F.size):
        count += int(bounds[i] >= 0.0) & int(not abs(F[i]) <= bounds[i] * factor)
    return count


@inner
def newton(nw, weights, tolerance, stall, max_iterations, reuse, by_rows, counters):  # type: ignore[no-untyped-def]
    """Solve F(x; d) = 0 from the start value in x.

    weights (n,): updates are measured as the largest |dx_i| * weights_i; entries of 0 are ignored.
    tolerance: converged when the next update would be smaller, theta/(1-theta) |dx| <= tolerance.
    stall: an update below this size need not shrink any further.
    reuse: keep the old factorisation if its last contraction rate was below this.
    by_rows: converged when every row is at its rounding level instead.
    """
    n = nw.whole[N]
    if n == 0:
        return CONVERGED
    x = unknowns(nw)
    F = nw.real[nw.whole[AT_F] : nw.whole[AT_F] + n]
    dx = nw.real[nw.whole[AT_DX] : nw.whole[AT_DX] + n]
    linear = nw.whole[LINEAR] == 1
    growth = nw.whole[AT_LU] + max(nw.whole[N_LU], 1) - 1
    fresh = nw.real[FACTORIZED] == 0.0 or nw.real[RATE] >= reuse
    limit = TRUST_LIMIT if by_rows else GROWTH_LIMIT
    if fresh:
        code = factorize(nw, limit, counters)
        if code != CONVERGED:
            return code
    every = nw.whole[EVERY] == 1
    polish, polished = nw.whole[POLISH] == 1, False
    renew = False
    previous = 0.0
    grown = 1.0  # how much larger than at the start the unknowns have become: rounding grows with them
    for iteration in range(max_iterations):
        if (every and iteration > 0) or renew:  # full Newton or Gauss-Newton; or the matrix is too old
            code = factorize(nw, TRUST_LIMIT if renew else limit, counters)
            if code != CONVERGED:
                return code
            renew = False
        if call_kernel(nw.whole[RESIDUAL], at(nw, AT_X), at(nw, AT_D), at(nw, AT_F)) < 0:
            return USER_ERROR
        counters[RESIDUALS] += 1
        if by_rows:
            start = nw.whole[AT_LU] + (nw.whole[N_LU] if nw.real[BY_LAPACK] == 0.0 else nw.whole[NNZ]) + n
            bounds = nw.real[start : start + n]
            beyond = rows_beyond(F, bounds, 1.0)
            if beyond > 0 and previous <= ROUNDED:
                beyond = rows_beyond(F, bounds, grown)
            if beyond == 0:
                return CONVERGED
        back_substitute(nw)
        counters[ITERATIONS] += 1
        size = 0.0
        total = 0.0
        for i in range(n):
            x[i] += dx[i]
            total += dx[i]
            size = max(size, abs(dx[i]) * weights[i])
            grown = max(grown, abs(x[i]) * weights[i])
        if not np.isfinite(total):
            nw.real[FACTORIZED] = 0.0
            return NOT_FINITE
        if by_rows:
            # at the rounding level the updates stop shrinking: nothing more to gain
            if iteration >= 2 and size >= 0.5 * previous and size <= 1e-10 * grown:
                return CONVERGED
        elif linear and fresh and trusted(nw):
            if iteration > 0 or nw.real[BY_LAPACK] == 1.0 or nw.real[growth] < REFINE_LIMIT:
                return CONVERGED  # else one step of iterative refinement
        elif iteration == 0:
            # with a fresh matrix the rate is that of the last steps; an old one has to prove itself
            proven = fresh and not polish and trusted(nw)
            if proven and size * min(0.3, nw.real[FRESH_RATE]) <= 0.1 * tolerance:
                nw.real[FRESH_RATE] *= AGING
                return CONVERGED
        else:
            theta = size / previous if previous > 0.0 else 0.0
            nw.real[RATE] = theta
            if fresh and iteration == 1:
                nw.real[FRESH_RATE] = theta + 1e-6
            if theta >= 0.9 and fresh and iteration > 1:
                if size <= max(1e-13, stall):  # rounding, or the noise of difference quotients
                    return CONVERGED
                nw.real[FACTORIZED] = 0.0
                return DIVERGED
            if polished and stall > 1.0 and size <= 10.0 * tolerance:
                return CONVERGED
            # the first updates of an old matrix may contract much better than what it leaves in the end
            rate = max(theta, SLOW) if nw.whole[CAUTIOUS] == 1 and not fresh else theta
            if (theta < 0.9 and size * rate / (1.0 - rate) <= tolerance) or size <= 1e-15:
                # prescribed steps (a large stall) ask for rounding level anyhow, and the last update tells what one
                # more iteration could change; else constraints that nothing projects would be left at the tolerance
                small = stall > 1.0 and (size <= tolerance or size * theta <= POLISHED * tolerance)
                if not polish or polished or small:
                    return CONVERGED
                polished = True
            if theta > SLOW:  # updates of an old matrix may be small for no good reason
                renew = True
                fresh = True
        previous = size
    nw.real[FACTORIZED] = 0.0
    if by_rows and previous <= 1e-14:
        return CONVERGED
    return DIVERGED
