"""Dense output: the solution between two steps, put onto the constraints, with its multipliers.

[HNW93] E. Hairer, S. P. Norsett, G. Wanner, Solving Ordinary Differential Equations I, Springer 1993, II.5, II.6.
[EJNT86] W. H. Enright, K. R. Jackson, S. P. Norsett, P. G. Thomsen, Interpolants for Runge-Kutta formulas, ACM TOMS 12
         (1986) 193-218.
[HW96] E. Hairer, G. Wanner, Solving Ordinary Differential Equations II, Springer 1996, VII.6.

Multistep methods of first order: the polynomial through past rows that the method itself is made of.

All others (flat spaces): Hermite interpolation between the two ends of a step, s = (t - t0) / h,

    v(s) = cubic through v0, a0, v1, a1  +  30 s^2 (1 - s)^2 E,     E = (q1 - q0)/h - (v0 + v1)/2 - h (a0 - a1)/12
    q(s) = q0 + h int_0^s v                                         the quintic through q, v, a of both ends

with a solved for at the ends. Errors are O(h^6) in q and O(h^5) in v. Methods of higher order, and dynamic states r (of
which only r, r' are known at the ends), get `INNER` more conditions by bootstrapping [EJNT86]: the interpolant is
evaluated inside of the step, put onto the constraints, its accelerations are solved for there, and

    q(s) + sum_i B_i(s) d_i,   B_i = s^3 (1-s)^3 p_i,  B_i''(s_j) = delta_ij,   d_i = h^2 (a_i - q''(s_i))

takes them up; every sweep gains an order, to O(h^10) in q. Sweeps that do not contract (steps much longer than the
fastest motion) are dropped.

On index 3 the velocities at the ends are off by M^-1 G^T (.) [HW96, VII.6]: projected in the metric of the mass matrix
they are as accurate as the positions. See `projection.between_steps`.
"""

from __future__ import annotations

import numpy as np
from numpy.polynomial import Polynomial

from dalembert.numerics.interpolation import lagrange_weights
from dalembert.numerics.native import inner
from dalembert.numerics.newton import CONVERGED
from dalembert.numerics.runstate import (
    INNER_POINTS,
    MULTIPLIER_TOLERANCE,
    N_DENSE,
    NODES,
    PREPARED,
    STAGE_TOLERANCE,
    combine,
    copy,
)
from dalembert.numerics.stage import run_stage

INNER = 4
SWEEPS = 3
CONTRACTION = 0.3  # of the changes from sweep to sweep, at least
SETTLED = 1e-3  # changes of this size, in units of the tolerance, need no further sweep
ALGEBRAIC = 3  # degree of the polynomial for what is neither q, v nor r, where these are Hermite
EPS = float(np.finfo(float).eps)

# positions in Run.places: Hermite or not, where blocks begin, and their sizes
HERMITE, AT_Q, AT_V, AT_A, N_V, AT_R, AT_R_DOT, N_R = range(8)
N_PLACES = 8
# rows of Run.dense: both ends, a trial, then the corrections d_i (in the places of q and r)
LEFT, RIGHT, TRIAL, CORRECTIONS = range(4)
N_DENSE_ROWS = CORRECTIONS + INNER


def _factors(power: int, derivative: int) -> np.ndarray:
    """Coefficients (INNER, INNER) of p_i: (s (1-s))^power p_i has the ``derivative`` delta_ij at the points j."""
    u = Polynomial([0.0, 1.0, -1.0]) ** power
    points = np.arange(1, INNER + 1) / (INNER + 1)
    values = [[(u * Polynomial.basis(j)).deriv(derivative)(s) for j in range(INNER)] for s in points]
    return np.ascontiguousarray(np.linalg.inv(np.array(values)).T)


# Equidistant points: at Gauss or Lobatto points the conditions would depend on each other, as int B'' = 0.
POINTS = np.arange(1, INNER + 1) / (INNER + 1)
FACTORS_Q = _factors(3, 2)
FACTORS_R = _factors(2, 1)


@inner
def hermite(left, right, dense, places, corrected, s, h, out):  # type: ignore[no-untyped-def]
    """q, v, a, r, r' at t0 + s h into their places of a row."""
    u, du = s * (1.0 - s), 1.0 - 2.0 * s
    s2, s3, s4 = s * s, s * s * s, s * s * s * s
    for j in range(places[N_V]):
        iq, iv, ia = places[AT_Q] + j, places[AT_V] + j, places[AT_A] + j
        q0, v0, a0 = left[iq], left[iv], h * left[ia]
        q1, v1, a1 = right[iq], right[iv], h * right[ia]
        defect = (q1 - q0) - 0.5 * h * (v0 + v1) - h * (a0 - a1) / 12.0  # h E
        q = q0 + h * (v0 * (s - s3 + 0.5 * s4) + v1 * (s3 - 0.5 * s4))
        q += h * (a0 * (0.5 * s2 - 2.0 * s3 / 3.0 + 0.25 * s4) + a1 * (0.25 * s4 - s3 / 3.0))
        q += defect * s3 * (10.0 - 15.0 * s + 6.0 * s2)
        if abs(defect) <= 8.0 * EPS * max(abs(q0), abs(q1)):  # rounding: velocities alone know better
            defect = 0.0
        hv = h * (v0 * (1.0 - 3.0 * s2 + 2.0 * s3) + v1 * (3.0 * s2 - 2.0 * s3))
        hv += h * (a0 * (s - 2.0 * s2 + s3) + a1 * (s3 - s2)) + defect * 30.0 * u * u
        hha = h * (6.0 * u * (v1 - v0) + a0 * (1.0 - 4.0 * s + 3.0 * s2) + a1 * (3.0 * s2 - 2.0 * s))
        hha += defect * 60.0 * u * du
        if corrected:
            for i in range(INNER):
                p, dp, ddp = polynomial(FACTORS_Q[i], s)
                d = dense[CORRECTIONS + i, iq]
                w, dw, ddw = u * u * u, 3.0 * u * u * du, 6.0 * u * (du * du - u)
                q += d * w * p
                hv += d * (dw * p + w * dp)
                hha += d * (ddw * p + 2.0 * dw * dp + w * ddp)
        out[iq], out[iv], out[ia] = q, hv / h, hha / (h * h)
    for j in range(places[N_R]):
        ir, id_ = places[AT_R] + j, places[AT_R_DOT] + j
        r0, r1, b0, b1 = left[ir], right[ir], h * left[id_], h * right[id_]
        r = r0 + (r1 - r0) * (3.0 * s2 - 2.0 * s3) + b0 * (s - 2.0 * s2 + s3) + b1 * (s3 - s2)
        hr = 6.0 * u * (r1 - r0) + b0 * (1.0 - 4.0 * s + 3.0 * s2) + b1 * (3.0 * s2 - 2.0 * s)
        if corrected:
            for i in range(INNER):
                p, dp, ddp = polynomial(FACTORS_R[i], s)
                d = dense[CORRECTIONS + i, ir]
                r += d * u * u * p
                hr += d * (2.0 * u * du * p + u * u * dp)
        out[ir], out[id_] = r, hr / h


@inner
def polynomial(factors, s):  # type: ignore[no-untyped-def]
    """Value, first and second derivative."""
    p, dp, ddp = 0.0, 0.0, 0.0
    for k in range(INNER - 1, -1, -1):
        ddp = ddp * s + 2.0 * dp
        dp = dp * s + p
        p = p * s + factors[k]
    return p, dp, ddp


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
def prepare(run, stages, multipliers, t0, left, t1, right):  # type: ignore[no-untyped-def]
    """Ends and corrections of the interpolant of one step, into run.dense."""
    dense = run.dense
    copy(left, dense[LEFT])
    copy(right, dense[RIGHT])
    code = settle(run, stages, multipliers, t0, dense[LEFT])
    if code == CONVERGED:
        code = settle(run, stages, multipliers, t1, dense[RIGHT])
    if code != CONVERGED or run.whole[INNER_POINTS] == 0:
        return code
    dense[CORRECTIONS:] = 0.0
    h, last = t1 - t0, np.inf
    for _ in range(SWEEPS):
        change = sweep(run, stages, multipliers, t0, h)
        if not change <= CONTRACTION * last:  # NaN too: no solution there
            dense[CORRECTIONS:] = 0.0
            break
        if change <= SETTLED:
            break
        last = change
    return CONVERGED


@inner
def sweep(run, stages, multipliers, t0, h):  # type: ignore[no-untyped-def]
    """Corrections anew, point by point. Returns their largest change in units of the tolerance, NaN if it failed."""
    dense, places = run.dense, run.places
    row, change = dense[TRIAL], 0.0
    for i in range(INNER):
        s, d = POINTS[i], dense[CORRECTIONS + i]
        for j in range(row.size):
            row[j] = (1.0 - s) * dense[LEFT, j] + s * dense[RIGHT, j]
        hermite(dense[LEFT], dense[RIGHT], dense, places, True, s, h, row)
        # what the corrected interpolant has there: d_i is added to it
        for j in range(places[N_V]):
            d[places[AT_A] + j] = row[places[AT_A] + j]
        for j in range(places[N_R]):
            d[places[AT_R_DOT] + j] = row[places[AT_R_DOT] + j]
        if settle(run, stages, multipliers, t0 + s * h, row) != CONVERGED:
            return np.nan
        for j in range(places[N_V]):
            iq, ia = places[AT_Q] + j, places[AT_A] + j
            x = h * h * (row[ia] - d[ia])
            d[iq] += x
            change = max(change, abs(x) / (run.atol[iq] + run.rtol[iq] * run.peak[iq]))
        for j in range(places[N_R]):
            ir, id_ = places[AT_R] + j, places[AT_R_DOT] + j
            x = h * (row[id_] - d[id_])
            d[ir] += x
            change = max(change, abs(x) / (run.atol[ir] + run.rtol[ir] * run.peak[ir]))
    return change


@inner
def between(run, stages, multipliers, order, t, out):  # type: ignore[no-untyped-def]
    """Complete row at t within the last accepted step (between nodes 2 and 1). Returns a code of newton()."""
    w, hermitian = run.coefficients, run.places[HERMITE] == 1
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
def lagrange(nodes, rows, last, order, t, weights, out):  # type: ignore[no-untyped-def]
    """Polynomial through the stored rows up to ``last``; near the start, where these are too few, later ones too."""
    count = min(order, nodes.size - 1) + 1
    first = max(0, last - count + 1)
    lagrange_weights(t, nodes, first, count, weights)
    for m in range(out.size):
        out[m] = 0.0
        for j in range(count):
            out[m] += weights[j] * rows[first + j, m]


def _evaluate(run, stages, multipliers, nodes, rows, orders, times, out):  # type: ignore[no-untyped-def]
    """Rows at ``times`` from stored steps: interpolate, project, complete. Returns the number of failures."""
    hermitian, ready, failures = run.places[HERMITE] == 1, -1, 0
    for i in range(times.size):
        t, row = times[i], out[i]
        low = find_step(nodes, t)
        if nodes[low] == t:
            copy(rows[low], row)
            continue
        low = max(low, 1)
        order = min(orders[low], ALGEBRAIC) if hermitian else orders[low]
        lagrange(nodes, rows, low, order, t, run.coefficients, row)
        if hermitian:
            if ready != low:
                code = prepare(run, stages, multipliers, nodes[low - 1], rows[low - 1], nodes[low], rows[low])
                if code != CONVERGED:
                    failures += 1
                    continue
                ready = low
            h = nodes[low] - nodes[low - 1]
            s = (t - nodes[low - 1]) / h
            hermite(run.dense[LEFT], run.dense[RIGHT], run.dense, run.places, run.whole[INNER_POINTS] > 0, s, h, row)
        if settle(run, stages, multipliers, t, row) != CONVERGED:
            failures += 1
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
        order = min(orders[low], ALGEBRAIC) if hermitian else orders[low]
        lagrange(nodes, rows, low, order, t, weights, row)
        if hermitian:
            h = nodes[low] - nodes[low - 1]
            hermite(rows[low - 1], rows[low], rows, places, False, (t - nodes[low - 1]) / h, h, row)
    return 0
