"""Dense output: the solution between two steps, put onto the constraints, with its multipliers.

[HNW93] E. Hairer, S. P. Norsett, G. Wanner, Solving Ordinary Differential Equations I, Springer 1993, II.5, II.6.
[EJNT86] W. H. Enright, K. R. Jackson, S. P. Norsett, P. G. Thomsen, Interpolants for Runge-Kutta formulas, ACM TOMS 12
         (1986) 193-218.
[HW96] E. Hairer, G. Wanner, Solving Ordinary Differential Equations II, Springer 1996, VII.6.

Multistep methods of first order: the polynomial through past rows that the method itself is made of.

All others: Hermite interpolation between the two ends of a step, s = (t - t0) / h,

    q(s) = the quintic through q, v, a of both ends,     v(s) = q'(s) / h

with a solved for at the ends. Errors are O(h^6) in q and O(h^5) in v. One-step methods of high order, whose steps are
long, and dynamic states r, of which only r and r' are known at the ends, get `INNER` more conditions by bootstrapping
[EJNT86]: the interpolant is evaluated inside of the step, put onto the constraints, and its accelerations there are
taken up by

    q(s) = quintic + sum_i B_i(s) d_i,    B_i = s^3 (1-s)^3 p_i,  B_i''(s_j) = delta_ij,  d_i = h^2 a_i - quintic''(s_i)
    v(s) = cubic(v, a) + sum_i C_i(s) e_i,  C_i = s^2 (1-s)^2 p_i,  C_i'(s_j) = delta_ij,  e_i = h a_i - cubic'(s_i)

and r like v. Every sweep gains an order, to O(h^12) in q and O(h^10) in v. Here v is not q': errors of q, divided by h,
would be larger than those of v. Sweeps that do not contract (steps longer than the fastest motion) are dropped.

On a group all of this is done in the chart of the step, q = q_0 exp(y), with y, y', y'' in the places of q, v, a:
v = T(y) y' and a = T(y) y'' + T' y' lead there and back. The branch of y is the one that continues the motion, see
`integrators.positions.local_form`.

Methods whose stages are iterated (`numerics.sweeps`) make a step of their own to every point, from the left end. That
is as accurate as their steps, whose polynomials are not, and takes less time than the sweeps above.

On index 3 the velocities at the ends are off by M^-1 G^T (.) [HW96, VII.6]: projected in the metric of the mass matrix
they are as accurate as the positions. See `projection.between_steps`.
"""

from __future__ import annotations

import numpy as np

from dalembert.numerics.hermite import (
    AT_A,
    AT_Q,
    AT_R,
    AT_R_DOT,
    AT_V,
    CORRECTIONS,
    GUESS,
    HERMITE,
    INNER,
    LEFT,
    LIFT,
    LOCAL,
    N_R,
    N_V,
    ORIGIN,
    POINTS,
    RIGHT,
    TRIAL,
    WORK,
    cubic,
    hermite,
    quintic,
)
from dalembert.numerics.interpolation import lagrange_weights, stored_points
from dalembert.numerics.native import call_kernel, inner
from dalembert.numerics.newton import CONVERGED
from dalembert.numerics.runstate import (
    HISTORY,
    INNER_POINTS,
    LANE_KERNEL,
    MULTIPLIER_TOLERANCE,
    N_DENSE,
    NODES,
    PREPARED,
    STAGE_TOLERANCE,
    combine,
    copy,
)
from dalembert.numerics.stage import run_stage
from dalembert.numerics.sweeps import step_to

SWEEPS = 12
CONTRACTION = 0.7  # of the changes from sweep to sweep, at least
SETTLED = 1e-6  # changes of this size, in units of the tolerance, need no further sweep
HARMLESS = 1e-2  # changes of this size need not contract: they may be rounding
ALGEBRAIC = 3  # degree of the polynomial for what is neither q, v nor r, where these are Hermite


@inner
def settle(run, stages, multipliers, t, row):  # type: ignore[no-untyped-def]
    """Put a row onto the constraints and solve for all that follows from q, v and r there, in place."""
    extra = run.scratch[2]
    for i in range(run.whole[N_DENSE]):
        code = run_stage(stages[i], t, row, extra, run.real[STAGE_TOLERANCE], 0.0, run.counters)
        if code != CONVERGED:
            return code
    return run_stage(multipliers, t, row, extra, run.real[MULTIPLIER_TOLERANCE], 0.0, run.counters)


@inner
def convert(run, kernel, row):  # type: ignore[no-untyped-def]
    """Positions, velocities and accelerations of a row out of or into the chart of the step, in place; groups only."""
    if run.places[kernel] != 0:
        dense = run.dense
        call_kernel(run.places[kernel], row.ctypes.data, dense[ORIGIN].ctypes.data, dense[WORK].ctypes.data)
        copy(dense[WORK], row)


@inner
def enter_chart(run, h):  # type: ignore[no-untyped-def]
    """Both ends in the chart that has its origin at the left one: there y = 0, y' = v, y'' = a."""
    dense, places = run.dense, run.places
    if places[LIFT] == 0:
        return
    copy(dense[LEFT], dense[ORIGIN])
    for j in range(places[N_V]):
        iv, ia = places[AT_V] + j, places[AT_A] + j
        dense[LEFT, places[AT_Q] + j] = 0.0
        mean = 0.5 * (dense[LEFT, iv] + dense[RIGHT, iv])
        dense[GUESS, places[AT_Q] + j] = h * (mean + h * (dense[LEFT, ia] - dense[RIGHT, ia]) / 12.0)
    convert(run, LOCAL, dense[RIGHT])


@inner
def prepare(run, stages, multipliers, t0, left, t1, right):  # type: ignore[no-untyped-def]
    """Ends and corrections of the interpolant of one step, into run.dense."""
    dense = run.dense
    copy(left, dense[LEFT])
    copy(right, dense[RIGHT])
    code = settle(run, stages, multipliers, t0, dense[LEFT])
    if code == CONVERGED:
        code = settle(run, stages, multipliers, t1, dense[RIGHT])
    if code != CONVERGED:
        return code
    h, last = t1 - t0, np.inf
    enter_chart(run, h)
    if run.whole[INNER_POINTS] == 0:
        return code
    begin(dense, run.places, h)
    for _ in range(SWEEPS):
        change = sweep(run, stages, multipliers, t0, h)
        if not change <= max(CONTRACTION * last, HARMLESS):  # NaN too: no solution there
            begin(dense, run.places, h)
            break
        if change <= SETTLED or change > CONTRACTION * last:
            break
        last = change
    return CONVERGED


@inner
def begin(dense, places, h):  # type: ignore[no-untyped-def]
    """Corrections that make v the derivative of the quintic, to begin with."""
    dense[CORRECTIONS : CORRECTIONS + INNER] = 0.0
    left, right = dense[LEFT], dense[RIGHT]
    for i in range(INNER):
        for j in range(places[N_V]):
            iv, ia = places[AT_V] + j, places[AT_A] + j
            a = quintic(left, right, places, j, POINTS[i], h)[2]
            slope = cubic(left[iv], h * left[ia], right[iv], h * right[ia], POINTS[i])[1]
            dense[CORRECTIONS + i, iv] = a / h - slope


@inner
def correct_rate(run, i, rate, point, value, h):  # type: ignore[no-untyped-def]
    """Let entry i have the derivative ``value`` at a point. Returns the change in units of the tolerance."""
    dense = run.dense
    d0, d1 = h * dense[LEFT, rate], h * dense[RIGHT, rate]
    slope = cubic(dense[LEFT, i], d0, dense[RIGHT, i], d1, POINTS[point])[1]
    return replace(run, point, i, h * value - slope)


@inner
def replace(run, point, i, value):  # type: ignore[no-untyped-def]
    change = abs(value - run.dense[CORRECTIONS + point, i])
    run.dense[CORRECTIONS + point, i] = value
    return change / (run.atol[i] + run.rtol[i] * run.peak[i])


@inner
def sweep(run, stages, multipliers, t0, h):  # type: ignore[no-untyped-def]
    """Corrections anew, point by point. Returns their largest change in units of the tolerance, NaN if it failed."""
    dense, places = run.dense, run.places
    row, change = dense[TRIAL], 0.0
    for i in range(INNER):
        s = POINTS[i]
        for j in range(row.size):
            row[j] = (1.0 - s) * dense[LEFT, j] + s * dense[RIGHT, j]
        hermite(dense[LEFT], dense[RIGHT], dense, places, True, s, h, row)
        if places[LIFT] != 0:
            copy(row, dense[GUESS])
        convert(run, LIFT, row)
        if settle(run, stages, multipliers, t0 + s * h, row) != CONVERGED:
            return np.nan
        convert(run, LOCAL, row)
        for j in range(places[N_V]):
            ia = places[AT_A] + j
            a = quintic(dense[LEFT], dense[RIGHT], places, j, s, h)[2]
            change = max(change, replace(run, i, places[AT_Q] + j, h * h * row[ia] - a))
            change = max(change, correct_rate(run, places[AT_V] + j, ia, i, row[ia], h))
        for j in range(places[N_R]):
            id_ = places[AT_R_DOT] + j
            change = max(change, correct_rate(run, places[AT_R] + j, id_, i, row[id_], h))
    return change


@inner
def alone(run, stages, multipliers, t0, row, t, out):  # type: ignore[no-untyped-def]
    """Complete row at t by a step from a row at t0. Returns a code of newton()."""
    copy(row, out)
    code = step_to(run, multipliers, t0, row, t, out)
    return settle(run, stages, multipliers, t, out) if code == CONVERGED else code


@inner
def between(run, stages, multipliers, order, t, out):  # type: ignore[no-untyped-def]
    """Complete row at t within the last accepted step (between nodes 2 and 1). Returns a code of newton()."""
    w, hermitian = run.coefficients, run.places[HERMITE] == 1
    if run.whole[LANE_KERNEL] != 0:
        return alone(run, stages, multipliers, run.nodes[2], run.rows[run.slots[2]], t, out)
    if hermitian and run.whole[PREPARED] == 0:
        older, newer = run.rows[run.slots[2]], run.rows[run.slots[1]]
        code = prepare(run, stages, multipliers, run.nodes[2], older, run.nodes[1], newer)
        if code != CONVERGED:
            return code
        run.whole[PREPARED] = 1
    count = min(min(order, ALGEBRAIC) if hermitian else order, run.whole[NODES] - 1) + 1
    lagrange_weights(t, run.nodes, 1, count, w)
    combine(run, w, 0, count, 1, out, out.size)
    if hermitian:
        h = run.nodes[1] - run.nodes[2]
        s = (t - run.nodes[2]) / h
        hermite(run.dense[LEFT], run.dense[RIGHT], run.dense, run.places, run.whole[INNER_POINTS] > 0, s, h, out)
        convert(run, LIFT, out)
    return settle(run, stages, multipliers, t, out)


@inner
def find_step(nodes, t):  # type: ignore[no-untyped-def]
    """First node at or behind t."""
    forward = nodes[-1] >= nodes[0]
    low, high = 0, nodes.size - 1
    while low < high:
        middle = (low + high) // 2
        if (nodes[middle] < t) if forward else (nodes[middle] > t):
            low = middle + 1
        else:
            high = middle
    return low


@inner
def lagrange(nodes, rows, last, orders, most, t, weights, out):  # type: ignore[no-untyped-def]
    """Polynomial through the stored rows up to ``last``, of a degree up to ``most``.

    Near the start, where these are too few, later ones are taken too.
    """
    if orders[last] < 0 and most > ALGEBRAIC:
        first, count = stored_points(orders, last)
    else:
        count = min(min(abs(orders[last]), most), nodes.size - 1) + 1
        first = max(0, last - count + 1)
    lagrange_weights(t, nodes, first, count, weights)
    for m in range(out.size):
        out[m] = 0.0
        for j in range(count):
            out[m] += weights[j] * rows[first + j, m]


def _evaluate(run, work, nodes, rows, orders, times, out):  # type: ignore[no-untyped-def]
    """Rows at ``times`` from stored steps: interpolate, project, complete. Returns the number of failures, which are
    rows of NaN."""
    stages, multipliers = work.dense, work.multipliers
    hermitian, ready, failures = run.places[HERMITE] == 1, -1, 0
    for i in range(times.size):
        t, row = times[i], out[i]
        low = find_step(nodes, t)
        if nodes[low] == t:
            copy(rows[low], row)
            continue
        low = max(low, 1)
        if run.whole[LANE_KERNEL] != 0:
            if alone(run, stages, multipliers, nodes[low - 1], rows[low - 1], t, row) != CONVERGED:
                failures += 1
                row[:] = np.nan
            continue
        lagrange(nodes, rows, low, orders, ALGEBRAIC if hermitian else HISTORY, t, run.coefficients, row)
        if hermitian:
            if ready != low:
                code = prepare(run, stages, multipliers, nodes[low - 1], rows[low - 1], nodes[low], rows[low])
                if code != CONVERGED:
                    failures += 1
                    row[:] = np.nan
                    continue
                ready = low
            h = nodes[low] - nodes[low - 1]
            s = (t - nodes[low - 1]) / h
            hermite(run.dense[LEFT], run.dense[RIGHT], run.dense, run.places, run.whole[INNER_POINTS] > 0, s, h, row)
            convert(run, LIFT, row)
        if settle(run, stages, multipliers, t, row) != CONVERGED:
            failures += 1
            row[:] = np.nan
    return failures


def _interpolate(places, nodes, rows, orders, times, weights, out):  # type: ignore[no-untyped-def]
    """The same without a model: stored rows are taken as they are, and so is what lies between them."""
    hermitian = places[HERMITE] == 1
    for i in range(times.size):
        t, row = times[i], out[i]
        low = find_step(nodes, t)
        if nodes[low] == t:
            copy(rows[low], row)
            continue
        low = max(low, 1)
        lagrange(nodes, rows, low, orders, ALGEBRAIC if hermitian else HISTORY, t, weights, row)
        if hermitian:
            h = nodes[low] - nodes[low - 1]
            hermite(rows[low - 1], rows[low], rows, places, False, (t - nodes[low - 1]) / h, h, row)
    return 0
