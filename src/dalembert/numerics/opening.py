"""What a run starts from, compiled: a first step size, past rows, tolerances of a row.

[HNW93] E. Hairer, S. P. Norsett, G. Wanner, Solving Ordinary Differential Equations I, Springer 1993, II.4.
"""

from __future__ import annotations

import numpy as np

from dalembert.numerics.native import call_kernel, inner
from dalembert.numerics.newton import CONVERGED
from dalembert.numerics.runstate import copy
from dalembert.numerics.stage import run_stage

# positions in the array of blocks: where q, v and a begin, their numbers, and the kernel of q' (0: q' = v)
Q, V, A, N_Q, N_V, RATE = range(6)
N_BLOCKS = 6
CAUTION = 0.2  # a first step that is too long costs more than a few that are too short


@inner
def _block_sum(x, begin, n):  # type: ignore[no-untyped-def]
    """Sum of x[begin : begin + n], n <= 128, in the order of `numpy.sum`."""
    if n < 8:
        total = 0.0
        for i in range(n):
            total += x[begin + i]
        return total
    r0, r1, r2, r3 = x[begin], x[begin + 1], x[begin + 2], x[begin + 3]
    r4, r5, r6, r7 = x[begin + 4], x[begin + 5], x[begin + 6], x[begin + 7]
    i = 8
    while i < n - n % 8:
        r0 += x[begin + i]
        r1 += x[begin + i + 1]
        r2 += x[begin + i + 2]
        r3 += x[begin + i + 3]
        r4 += x[begin + i + 4]
        r5 += x[begin + i + 5]
        r6 += x[begin + i + 6]
        r7 += x[begin + i + 7]
        i += 8
    total = ((r0 + r1) + (r2 + r3)) + ((r4 + r5) + (r6 + r7))
    while i < n:
        total += x[begin + i]
        i += 1
    return total


@inner
def pairwise_sum(x, n, stack):  # type: ignore[no-untyped-def]
    """Sum of x[:n] in the order of `numpy.sum`, so that step sizes have the same digits wherever they are computed.

    Halves are summed one after the other down to blocks. Their tree is walked through without recursion (Numba cannot
    keep that on disk): ``stack`` holds the length of the right half, negative once it is under way, and the left sum.
    """
    top, begin, length = 0, 0, n
    while True:
        while length > 128:
            half = length // 2
            half -= half % 8
            stack[2 * top] = length - half
            length = half
            top += 1
        value = _block_sum(x, begin, length)
        begin += length
        while top > 0 and stack[2 * top - 2] < 0.0:
            top -= 1
            value = stack[2 * top + 1] + value
        if top == 0:
            return value
        stack[2 * top - 1] = value
        length = int(stack[2 * top - 2])
        stack[2 * top - 2] = -1.0


@inner
def slope(row, data, blocks, out):  # type: ignore[no-untyped-def]
    """Time derivative of the differential part of a row, zero elsewhere."""
    for i in range(out.size):
        out[i] = 0.0
    if blocks[RATE] != 0:
        call_kernel(blocks[RATE], row.ctypes.data, data.ctypes.data, out.ctypes.data + 8 * blocks[Q])
    else:
        for i in range(blocks[N_Q]):
            out[blocks[Q] + i] = row[blocks[V] + i]
    for i in range(blocks[N_V]):
        out[blocks[V] + i] = row[blocks[A] + i]


@inner
def _size(x, row, rtol, atol, index, n, squares, stack):  # type: ignore[no-untyped-def]
    """Root mean square of x over the first n entries of ``index``, in units of the tolerance."""
    if n == 0:
        return 0.0
    for k in range(n):
        i = index[k]
        y = x[i] * (1.0 / (atol[k] + rtol[k] * abs(row[i]) + 1e-300))
        squares[k] = y * y
    return np.sqrt(pairwise_sum(squares, n, stack) / n)


def _first_step(  # type: ignore[no-untyped-def]
    multipliers, t, span, max_step, order, row, data, rtol, atol, index, blocks, tolerance, counters, work
):
    """First step of a method of some order, signed.

    Of order 1: 0.1 of the error that second derivatives allow. Of higher order: what they suggest for its derivatives
    [HNW93, II.4], with some caution. ``work`` (4, n + extra unknowns).
    """
    n, m = row.size, blocks[N_Q] + blocks[N_V]
    d1, trial, d2, extra = work[0, :n], work[1, :n], work[2, :n], work[3]
    direction, length = (1.0 if span > 0.0 else -1.0), abs(span)
    slope(row, data, blocks, d1)
    rate, small = _size(d1, row, rtol, atol, index, m, extra, trial), 0.0
    for k in range(rtol.size):
        small = max(small, rtol[k])
    small = min(max(small, 1e-10), 1e-3)
    guess = 1e-4 * length
    if rate > 0.0:
        guess = min(guess, 1e-3 / (rate * small))
    guess = max(guess, 1e-12 * length)
    for i in range(n):
        trial[i] = row[i] + direction * guess * d1[i]
    if run_stage(multipliers, t + direction * guess, trial, extra, tolerance, 0.0, counters) != CONVERGED:
        return direction * min(guess, 1e-6 * length)
    slope(trial, data, blocks, d2)
    for i in range(n):
        d2[i] = (d2[i] - d1[i]) / guess
    curvature = _size(d2, row, rtol, atol, index, m, extra, trial)
    h = np.sqrt(0.1 / curvature) if curvature > 0.0 else 1e-3 * length
    if order > 1 and curvature > 0.0:
        h = max(h, CAUTION * (0.01 / max(rate, curvature)) ** (1.0 / (order + 1)))
    return direction * min(h, (1e-2 if order == 1 else 3e-2) * length, max_step)


def _lay_out(  # type: ignore[no-untyped-def]
    t,
    h,
    line,
    row,
    begun,
    data,
    blocks,
    rtol,
    atol,
    index,
    bounded,
    together,
    fixed,
    nodes,
    rows,
    peak,
    row_rtol,
    row_atol,
):
    """Past rows, largest magnitudes and tolerances before the first step, in place; returns the loosest tolerance.

    All past rows are the start, ``begun``; ``line`` = 1: but for the one before it, which gives the first predictor its
    slope. Tolerances ``rtol``, ``atol`` of the entries ``index`` are spread over the row; all others take the tightest,
    and those of bounded entries (of a rotation) count in absolute terms. ``together``: number of the block of unknowns
    that are scaled together, from 1 on. ``fixed``: tolerances of prescribed steps, not to be exceeded.
    """
    n, past = row.size, nodes.size
    for k in range(past):
        nodes[k] = t - h * (k - 1.0)
        copy(begun, rows[k])
    if line == 1:
        slope(begun, data, blocks, rows[2])
        for i in range(n):
            rows[2, i] = begun[i] - h * rows[2, i]
    # a multiplier that starts at zero has no scale: that of its block keeps Newton from chasing rounding errors
    largest = row_rtol  # of each block, for the moment
    for i in range(n):
        largest[i] = 0.0
    for i in range(n):
        if together[i] > 0:
            largest[together[i] - 1] = max(largest[together[i] - 1], abs(row[i]))
    for i in range(n):
        peak[i] = largest[together[i] - 1] if together[i] > 0 else abs(row[i])
    tightest_r, tightest_a, loosest = np.inf, np.inf, 0.0
    for k in range(rtol.size):
        tightest_r, tightest_a = min(tightest_r, rtol[k]), min(tightest_a, atol[k])
        loosest = max(loosest, max(rtol[k], atol[k]))
    for i in range(n):
        row_rtol[i], row_atol[i] = tightest_r, tightest_a
    for k in range(index.size):
        row_rtol[index[k]], row_atol[index[k]] = rtol[k], atol[k]
    for i in range(n):
        if bounded[i] == 1:
            row_atol[i] += row_rtol[i]
            row_rtol[i] = 0.0
        row_rtol[i], row_atol[i] = min(row_rtol[i], fixed[0]), min(row_atol[i], fixed[1])
    return loosest


def _motion_rate(rows, slots, nodes, at_v, at_a, nv, turning):  # type: ignore[no-untyped-def]
    """|a| / |v| over the past rows, a from differences of v if the rows do not have it (``at_a`` < 0).

    ``turning`` = 1: velocities are rates themselves, and the largest of them counts, too.
    """
    squares, speeds, largest = 0.0, 0.0, 0.0
    for k in range(1, slots.size):
        row = rows[slots[k]]
        for i in range(nv):
            v = row[at_v + i]
            speeds += v * v
            largest = max(largest, abs(v))
            if at_a >= 0:
                squares += row[at_a + i] ** 2
            elif k + 1 < slots.size:
                squares += ((v - rows[slots[k + 1], at_v + i]) / (nodes[k] - nodes[k + 1])) ** 2
    rate = np.sqrt(squares / (speeds + 1e-300))
    return max(rate, largest) if turning == 1 else rate
