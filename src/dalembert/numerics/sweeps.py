"""Stages of a collocation method by iteration, all of them at once in the lanes of vector registers.

[HS90] P. J. van der Houwen, B. P. Sommeijer, Parallel iteration of high-order Runge-Kutta methods with stepsize
       control, J. Comput. Appl. Math. 29 (1990) 111-127.

A method brings a formula (`FORMULA` numbers: nodes c, weights b and bA, the matrices A and A^2 of collocation) and a
kernel that evaluates accelerations and rates at `LANES` states in one pass (see `compiler.lanes`). A sweep is

    V = v + h A a,   y = h c v + h^2 A^2 a,   a = a(t + c h, q exp(y), V)

on a group y = h A k, k = T(y)^-1 V, instead, iterated by itself. Sweeps begin with the polynomial through the
accelerations of the last step, extrapolated; each of them gains an order, up to that of the collocation method. In the
first step, where there is nothing to extrapolate, there are `LANES` - 1 more of them.

What the last sweep has changed is the estimate of the error. If it is too large although sweeps contract, a few more
are made: that is less than to begin the step anew.
"""

from __future__ import annotations

import numpy as np

from dalembert.numerics.control import weighted_norm
from dalembert.numerics.hermite import AT_R, AT_V, N_R, N_V
from dalembert.numerics.native import LANES, call_kernel, inner, lane_dot, mix
from dalembert.numerics.newton import CONVERGED, NOT_FINITE, RESIDUALS, USER_ERROR
from dalembert.numerics.runstate import (
    ESTIMATE_SCALE,
    FORMER_ERROR,
    HELD,
    LANE_KERNEL,
    MADE,
    MOTION_KERNEL,
    N_MOVED,
    N_NUMBERS,
    STEPS,
    SWEEPS,
    SWEPT,
)

# positions in Run.formula: c, b, bA, barycentric weights of the nodes; A and A^2 column by column
C, B, BA, BARYCENTRIC, A, AA = (*range(0, 4 * LANES, LANES), 4 * LANES, 4 * LANES + LANES * LANES)
FORMULA = AA + LANES * LANES
MOST_MORE = 3  # sweeps beyond those planned
INNER_FIRST, INNER_LATER = 5, 2  # of y alone, on groups, before the first evaluation of a step and before later ones


def work_size(n_moved: int, nv: int, nr: int) -> int:
    """Numbers in Run.lanes: a matrix, the arguments of the kernel, three sets of rates, the rates of y."""
    return LANES * (LANES + 1 + 2 * n_moved + nv + nr + 3 * (nv + nr))


@inner
def extrapolate(formula, ratio, out):  # type: ignore[no-untyped-def]
    """out[k, j] = l_k(1 + ratio c_j), Lagrange's polynomials of the nodes of the last step at those of the new one."""
    for j in range(LANES):
        x, product = 1.0 + ratio * formula[C + j], 1.0
        for k in range(LANES):
            product *= x - formula[C + k]
        for k in range(LANES):
            out[LANES * k + j] = product * formula[BARYCENTRIC + k] / (x - formula[C + k])


@inner
def put(values, first, n, out, start):  # type: ignore[no-untyped-def]
    """The same numbers in all lanes."""
    for i in range(n):
        for j in range(LANES):
            out[start + LANES * i + j] = values[first + i]


@inner
def move(run, d, h, y, V, k, count):  # type: ignore[no-untyped-def]
    """y = h A k, k = T(y)^-1 V, so many times."""
    w, f, ny = run.lanes, run.formula.ctypes.data, run.whole[N_MOVED]
    start = w.ctypes.data
    for _ in range(count):
        call_kernel(run.whole[MOTION_KERNEL], start + 8 * LANES * LANES, d.ctypes.data, start + 8 * k)
        for i in range(ny):
            mix(start + 8 * (k + LANES * i), f + 8 * A, 0.0, 0.0, f, h, start + 8 * (y + LANES * i))


@inner
def estimate(run, h, new, old, n, e, weights, first):  # type: ignore[no-untyped-def]
    """What a sweep has changed in the velocities, into e; in units of the tolerance."""
    b = run.formula.ctypes.data + 8 * B
    start = run.lanes.ctypes.data
    for i in range(n):
        at = 8 * LANES * i
        e[i] = h * (lane_dot(start + 8 * new + at, b) - lane_dot(start + 8 * old + at, b))
    return run.real[ESTIMATE_SCALE] * weighted_norm(e, weights, first, n)


@inner
def iterate(run, d, x, h):  # type: ignore[no-untyped-def]
    """Changes of (y, v, r) in a step and their errors, into x. Returns a code of newton()."""
    w, start, f = run.lanes, run.lanes.ctypes.data, run.formula.ctypes.data
    nv, nr, ny = run.places[N_V], run.places[N_R], run.whole[N_MOVED]
    n, group = nv + nr, run.whole[MOTION_KERNEL] != 0
    last = 2 + N_NUMBERS  # the last row in d
    at_v, at_r = last + run.places[AT_V], last + run.places[AT_R]
    c = LANES * LANES
    y = c + LANES
    V = y + LANES * ny
    r = V + LANES * nv
    ring = r + LANES * nr
    k = ring + 3 * LANES * n
    if run.whole[SWEPT] > 0 and run.whole[SWEPT] == run.whole[STEPS]:  # the last attempt was accepted
        run.whole[HELD] = run.whole[MADE]
    run.whole[SWEPT] = run.whole[STEPS] + 1
    held = run.whole[HELD]
    first = 1 if held == 0 else held % 3 + 1
    second = first % 3 + 1
    new, old = ring + LANES * n * (first - 1), ring + LANES * n * (second - 1)
    planned = run.whole[SWEEPS]
    if held > 0:
        before = ring + LANES * n * (held - 1)
        extrapolate(run.formula, h / (run.nodes[1] - run.nodes[2]), w)
        for i in range(n):
            at = LANES * i
            mix(start + 8 * (before + at), start, 0.0, 0.0, f, 1.0, start + 8 * (new + at))
        for j in range(LANES):
            w[c + j] = run.formula[C + j]
    else:  # rates at the beginning of the step
        for j in range(LANES):
            w[c + j] = 0.0
        for j in range(LANES * ny):
            w[y + j] = 0.0
        put(d, at_v, nv, w, V)
        put(d, at_r, nr, w, r)
        if call_kernel(run.whole[LANE_KERNEL], start + 8 * c, d.ctypes.data, start + 8 * new) < 0:
            return USER_ERROR
        for j in range(LANES):
            w[c + j] = run.formula[C + j]
        planned += LANES - 1
    weights, e = run.weights[0], run.estimate
    error, former, done = 0.0, 0.0, 0
    run.real[FORMER_ERROR] = 0.0
    most = planned
    while done < most:
        for i in range(nv):
            at = LANES * i
            mix(start + 8 * (new + at), f + 8 * A, d[at_v + i], 0.0, f, h, start + 8 * (V + at))
            if not group and ny > 0:
                mix(start + 8 * (new + at), f + 8 * AA, 0.0, h * d[at_v + i], f, h * h, start + 8 * (y + at))
        for i in range(nr):
            at = LANES * i
            mix(start + 8 * (new + LANES * nv + at), f + 8 * A, d[at_r + i], 0.0, f, h, start + 8 * (r + at))
        if group:
            if done == 0:
                for i in range(ny):
                    mix(start + 8 * (V + LANES * i), f + 8 * A, 0.0, 0.0, f, h, start + 8 * (y + LANES * i))
            move(run, d, h, y, V, k, INNER_FIRST if done == 0 else INNER_LATER)
        new, old = old, new
        first, second = second, first
        if call_kernel(run.whole[LANE_KERNEL], start + 8 * c, d.ctypes.data, start + 8 * new) < 0:
            return USER_ERROR
        done += 1
        if done >= planned - 1:
            former, error = error, estimate(run, h, new, old, nv, e, weights, run.places[AT_V])
            if done == planned and error > 1.0:
                run.real[FORMER_ERROR] = error
                most = planned + MOST_MORE
            if done >= planned and not (error > 1.0 and error * (error / former) ** (most - done) <= 1.0):
                break
    run.whole[MADE] = first
    run.counters[RESIDUALS] += LANES * done
    total = 0.0
    if group:
        for i in range(nv):
            at = LANES * i
            mix(start + 8 * (new + at), f + 8 * A, d[at_v + i], 0.0, f, h, start + 8 * (V + at))
        move(run, d, h, y, V, k, INNER_LATER)
        call_kernel(run.whole[MOTION_KERNEL], start + 8 * c, d.ctypes.data, start + 8 * k)
    for i in range(ny):
        at = 8 * LANES * i
        change = lane_dot(start + 8 * new + at, f + 8 * BA)
        if group:
            x[i] = h * lane_dot(start + 8 * k + at, f + 8 * B)
        else:
            x[i] = h * (d[at_v + i] + h * change)
        x[ny + n + i] = h * h * (change - lane_dot(start + 8 * old + at, f + 8 * BA))
    for i in range(n):
        at = 8 * LANES * i
        change = lane_dot(start + 8 * new + at, f + 8 * B)
        x[ny + i] = h * change
        x[2 * ny + n + i] = h * (change - lane_dot(start + 8 * old + at, f + 8 * B))
        total += change
    return CONVERGED if np.isfinite(total) else NOT_FINITE
