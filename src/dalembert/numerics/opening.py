"""What a run starts from, compiled: a first step size, past rows, tolerances of a row.

[HNW93] E. Hairer, S. P. Norsett, G. Wanner, Solving Ordinary Differential Equations I, Springer 1993, II.4.
"""

from __future__ import annotations

import numpy as np

from dalembert.numerics.native import call_kernel, inner
from dalembert.numerics.newton import CONVERGED
from dalembert.numerics.rank import COUNT, EUCLIDEAN, PARTS
from dalembert.numerics.rank import N_V as WATCHED_V
from dalembert.numerics.runstate import (
    ALLOWED,
    GUARDED,
    H_MAX,
    LINE,
    MOST_ATOL,
    MOST_RTOL,
    MULTIPLIER_TOLERANCE,
    N_STAGES,
    OPENS,
    STAGE_TOLERANCE,
    START_ORDER,
    T_END,
    H,
    T,
    copy,
)
from dalembert.numerics.screen import measure, row_scales
from dalembert.numerics.stage import run_stage
from dalembert.numerics.work import _settle

# positions in the array of blocks: where q, v and a begin, their numbers, and the kernel of q' (0: q' = v)
Q, V, A, N_Q, N_V, RATE, TURNING = range(7)
N_BLOCKS = 7
# Of a run, and of an estimate that is shorter than it (a longer one knows little of the motion to come): a first step
# that is too long costs more than a few that are too short.
LARGEST_PART, LARGEST_OF_ALL, SURE_PART = 6e-2, 0.5, 0.5
TURN = 1.5  # of a body (velocities are rates there) in a first step
NOISE = 1e-10  # at smaller tolerances differences of high order may be rounding, not a sign of instability


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


def _first_step(work, t, span, max_step, order, row, rtol, atol, tolerance):  # type: ignore[no-untyped-def]
    """First step of a method of some order, signed.

    Of order 1: 0.1 of the error that second derivatives allow. Of higher order: what they suggest for its derivatives
    [HNW93, II.4]; bodies turn by no more than TURN.
    """
    model, data, index, blocks = work.model, work.model.data, work.model.differential, work.model.blocks
    data[0] = t
    n, m = row.size, blocks[N_Q] + blocks[N_V]
    d1, trial, d2, extra = model.trial[0, :n], model.trial[1, :n], model.trial[2, :n], model.trial[3]
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
    moved = t + direction * guess
    if run_stage(work.multipliers, moved, trial, extra, tolerance, 0.0, model.counters) != CONVERGED:
        return direction * min(guess, 1e-6 * length)
    slope(trial, data, blocks, d2)
    for i in range(n):
        d2[i] = (d2[i] - d1[i]) / guess
    curvature = _size(d2, row, rtol, atol, index, m, extra, trial)
    h = np.sqrt(0.1 / curvature) if curvature > 0.0 else 1e-3 * length
    if order > 1 and curvature > 0.0:
        h = max(h, (0.01 / max(rate, curvature)) ** (1.0 / (order + 1)))
        fastest = 0.0
        for i in range(blocks[N_V]):
            fastest = max(fastest, abs(row[blocks[V] + i]))
        if blocks[TURNING] == 1 and h * fastest > TURN:
            h = TURN / fastest
    part = 1e-2 if order == 1 else LARGEST_PART
    if order > 1 and h < length:
        part = max(part, min(SURE_PART * h / length, LARGEST_OF_ALL))
    return direction * min(h, part * length, max_step)


def _open(run, work, h, row, begun, rtol, atol, scale):  # type: ignore[no-untyped-def]
    """Everything that a run starts from and that depends on its start, in place; 0, or 1 if the watch on the rank still
    needs scales of the constraints.

    ``begun``: the row as the method begins with it. ``scale``: of the constraints, if they are known; else of size 0.
    """
    work.model.data[0] = run.real[T]
    lay_out(run, work.model, h, row, begun, rtol, atol)
    m = run.ranked[COUNT]
    known = m == 0 or (measure(work.model, row) and set_scales(run, work.model))
    if scale.size == m:
        copy(scale, run.rank[PARTS : PARTS + m])
        return 0
    return 0 if known else 1


@inner
def lay_out(run, model, h, row, begun, rtol, atol):  # type: ignore[no-untyped-def]
    """The first step size, parameters, past rows and tolerances."""
    run.real[H] = h
    for i in range(model.data.size):
        model.parameters[i] = model.data[i]
        run.watched[2 + i] = model.data[i]
    lay_out_rows(run, model, run.real[T], h, begun)
    lay_out_peaks(run, row)
    spread_tolerances(run, model.differential, rtol, atol)


_first, _settled = inner(_first_step), inner(_settle)


@inner
def open_here(run, work, row, rtol, atol):  # type: ignore[no-untyped-def]
    """A run from its initial values on: the row made complete, a first step unless one is given, and the rest.

    False if any of that needs a closer look.
    """
    t, h, span = run.real[T], run.real[H], run.real[T_END] - run.real[T]
    tolerance, total = run.real[MULTIPLIER_TOLERANCE], 0.0
    for i in range(row.size):
        total += abs(row[i])
    if not np.isfinite(total):
        return False
    stages, allowed = run.whole[N_STAGES], run.real[ALLOWED]
    if _settled(work, stages, t, row, allowed, run.real[STAGE_TOLERANCE], tolerance) != 0:
        return False
    if h == 0.0:
        order = run.whole[START_ORDER]
        h = _first(work, t, span, run.real[H_MAX], order, row, rtol, atol, tolerance)
    run.whole[OPENS] = 0
    work.model.data[0] = t
    lay_out(run, work.model, h, row, row, rtol, atol)
    return run.ranked[COUNT] == 0 or set_scales(run, work.model)  # as measured before the row was completed


@inner
def set_scales(run, model):  # type: ignore[no-untyped-def]
    """Scales of the constraints and the metric for the watch on the rank; False if the mass matrix is in doubt."""
    m, nv = run.ranked[COUNT], run.ranked[WATCHED_V]
    metric = PARTS + 4 * m + nv
    euclidean = run.ranked[EUCLIDEAN] == 1
    return row_scales(model, euclidean, run.rank[PARTS : PARTS + m], run.rank[metric : metric + nv])


@inner
def put_motion(blocks, q, v, row):  # type: ignore[no-untyped-def]
    """A row with positions and velocities only; without velocities (v is empty) they are zero."""
    for i in range(row.size):
        row[i] = 0.0
    for i in range(q.size):
        row[blocks[Q] + i] = q[i]
    for i in range(v.size):
        row[blocks[V] + i] = v[i]


@inner
def lay_out_rows(run, model, t, h, begun):  # type: ignore[no-untyped-def]
    """Past rows: all are the start, but for the one before it, which (LINE) gives the first predictor its slope."""
    for k in range(run.nodes.size):
        run.nodes[k] = t - h * (k - 1.0)
        copy(begun, run.rows[k])
    if run.whole[LINE] == 1:
        slope(begun, model.data, model.blocks, run.rows[2])
        for i in range(begun.size):
            run.rows[2, i] = begun[i] - h * run.rows[2, i]


@inner
def lay_out_peaks(run, row):  # type: ignore[no-untyped-def]
    """Largest magnitudes so far. A multiplier that starts at zero has no scale: that of its block keeps Newton from
    chasing rounding errors."""
    n, together = row.size, run.opening[1]
    largest = run.rtol  # of each block, for the moment
    for i in range(n):
        largest[i] = 0.0
    for i in range(n):
        if together[i] > 0:
            largest[together[i] - 1] = max(largest[together[i] - 1], abs(row[i]))
    for i in range(n):
        run.peak[i] = largest[together[i] - 1] if together[i] > 0 else abs(row[i])


@inner
def spread_tolerances(run, index, rtol, atol):  # type: ignore[no-untyped-def]
    """Tolerances ``rtol``, ``atol`` of the entries ``index``, over the row; all others take the tightest.

    Those of bounded entries (of a rotation) count in absolute terms. Those of prescribed steps are not to be exceeded.
    """
    n, bounded = run.rtol.size, run.opening[0]
    tightest_r, tightest_a = np.inf, np.inf
    for k in range(rtol.size):
        tightest_r, tightest_a = min(tightest_r, rtol[k]), min(tightest_a, atol[k])
    run.whole[GUARDED] = int(tightest_r >= NOISE)
    for i in range(n):
        run.rtol[i], run.atol[i] = tightest_r, tightest_a
    for k in range(index.size):
        run.rtol[index[k]], run.atol[index[k]] = rtol[k], atol[k]
    for i in range(n):
        if bounded[i] == 1:
            run.atol[i] += run.rtol[i]
            run.rtol[i] = 0.0
        run.rtol[i], run.atol[i] = min(run.rtol[i], run.real[MOST_RTOL]), min(run.atol[i], run.real[MOST_ATOL])
