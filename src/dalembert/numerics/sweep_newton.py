"""Sweeps that are iterations of Newton's method: all rates of a step at once, in terms of eigenvectors; see `sweeps`.

[HW96] E. Hairer, G. Wanner, Solving Ordinary Differential Equations II, Springer 1996, IV.8.
"""

from __future__ import annotations

import numpy as np

from dalembert.numerics.hermite import AT_V, N_R, N_V
from dalembert.numerics.native import LANES, call_kernel, inner, mix
from dalembert.numerics.newton import FACTORIZATIONS
from dalembert.numerics.runstate import (
    ESTIMATE_SCALE,
    IN_A_ROW,
    JACOBIAN_AT,
    LANE_WORK,
    LANES_AT,
    LAST_RATE,
    N_FACTORS,
    N_JACOBIAN,
    NEWTON_FACTOR,
    NEWTON_JACOBIAN,
    NEWTON_SOLVE,
    NEWTON_WORK,
    STEPS,
)
from dalembert.numerics.sweep_errors import what_is_missed
from dalembert.numerics.sweep_formula import BACK, EIGENVALUES, G4, G5, G6, G7, THERE

BETWEEN = 1  # row of Run.weights for these
ENOUGH, FEWEST = 0.03, 2  # expected change of a sweep after which automatic steps make no other one; sweeps at least
# derivatives of an earlier step serve if the last sweeps contracted by this, and that step was not so many steps ago
GOOD, OLDEST = 0.02, 20
# Sweeps that contract more slowly do not tell what they lead to, and are made to the end; those that change so much, in
# units of the tolerance, and do not contract, end the step.
SLOW_NEWTON, HOPELESS_NEWTON = 0.2, 1e2
# Newton's method ends where a step will be rejected, or is much better than it has to be, and another iteration would
# not change that: errors, in units of the tolerance, and the part of them that it may change
FAR_OFF, SMALL, KNOWN = 10.0, 1e-3, 0.01
CONTINUE, ONE_MORE, END_NOW, TO_BE_DAMPED = 0, 1, 2, 3


def newton_size(n: int, n_jacobian: int, n_factors: int) -> int:
    """Numbers in the work space of Newton's method: h times eigenvalues, derivatives, factors, right side, solution,
    changes."""
    return LANES + -(-n_jacobian // LANES) * LANES + n_factors + 3 * LANES * n


@inner
def newton_work(run, which):  # type: ignore[no-untyped-def]
    """Where the work space of Newton's method begins in Run.lanes."""
    behind = run.whole[NEWTON_WORK] if which == BETWEEN else 0
    return run.whole[LANES_AT] + run.formula.size + 2 * run.whole[LANE_WORK] + behind


@inner
def prepare_newton(run, in_d, h, which):  # type: ignore[no-untyped-def]
    """Factorise (1 - z D - z^2 K), z = h times the eigenvalues of A, with derivatives D, K at the beginning of the step
    or, while sweeps contract well with them, of an earlier one. Returns < 0 if these fail.

    (Those in the middle of a step, by predicted rates, contract better; but where a system is stiff there and not
    elsewhere, what is left of iterations and errors looks smaller than it is.)
    """
    begin = newton_work(run, which)
    for j in range(LANES):
        run.lanes[begin + j] = h * run.formula[EIGENVALUES + j]
    at_z = run.lanes.ctypes.data + 8 * begin
    at_jacobian = at_z + 8 * LANES
    at_factors = at_jacobian + 8 * LANES * (-(-run.whole[N_JACOBIAN] // LANES))
    run.counters[FACTORIZATIONS] += 1
    now, last = run.whole[STEPS] + 1, run.whole[JACOBIAN_AT]
    good = now - last < OLDEST and run.real[LAST_RATE] < GOOD and run.whole[IN_A_ROW] == 0
    if which == BETWEEN or last == 0 or not (now == last or good):
        if which != BETWEEN:
            run.whole[JACOBIAN_AT] = now
        if call_kernel(run.whole[NEWTON_JACOBIAN], in_d, in_d, at_jacobian) < 0:
            return -1
    return call_kernel(run.whole[NEWTON_FACTOR], at_z, at_jacobian, at_factors)


@inner
def correct_rates(run, old, new, in_d, which):  # type: ignore[no-untyped-def]
    """Rates that a sweep has made of old ones: replaced, in place, by those of a step of Newton's method.

    In terms of eigenvectors of A there is a system of its own for each of them, four at a time in lanes.
    """
    n = new.size // LANES
    factors = newton_work(run, which) + LANES
    factors += LANES * (-(-run.whole[N_JACOBIAN] // LANES))
    right = factors + run.whole[N_FACTORS]  # the kernel takes both, one behind the other
    solution, change = right + LANES * n, right + 2 * LANES * n
    start, f = run.lanes.ctypes.data, run.lanes.ctypes.data + 8 * run.whole[LANES_AT]
    changes = run.lanes[change : change + LANES * n]
    for i in range(LANES * n):
        changes[i] = new[i] - old[i]
    mix(n, start + 8 * change, f + 8 * THERE, 1.0, in_d, 0.0, 0.0, f, start + 8 * right)
    call_kernel(run.whole[NEWTON_SOLVE], start + 8 * factors, in_d, start + 8 * solution)
    mix(n, start + 8 * solution, f + 8 * BACK, 1.0, in_d, 0.0, 0.0, f, start + 8 * change)
    for i in range(LANES * n):
        new[i] = old[i] + changes[i]


@inner
def damp(run, h, ends, expected, gap, kinked, weights, in_d, which, errors, missed):  # type: ignore[no-untyped-def]
    """What is missed of the rates of v (and r), as it shows in a step: (1 - z D - z^2 K)^-1 times that.

    Rates of stiff systems are large, and errors of velocities and positions that go with them are not. Of four values
    of z the one counts that leaves the most; nothing grows. Returns the weighted sum of squares for v, which was
    ``missed``, and corrects the errors.
    """
    nv, nr = run.places[N_V], run.places[N_R]
    n, factors = nv + nr, newton_work(run, which) + LANES * (1 + -(-run.whole[N_JACOBIAN] // LANES))
    right = factors + run.whole[N_FACTORS]
    solution, before = right + LANES * n, right + 2 * LANES * n
    start, half, size = run.lanes.ctypes.data, LANES // 2, abs(h)
    for i in range(n):
        at = LANES * i
        high, low = ends[at + G7] ** 2 + ends[at + G6] ** 2, ends[at + G5] ** 2 + ends[at + G4] ** 2
        x = size * what_is_missed(ends, expected, at, high, low, gap, kinked)
        run.lanes[before + i] = x
        for j in range(half):
            run.lanes[right + at + j] = x if ends[at + G7] >= 0.0 else -x
            run.lanes[right + at + half + j] = 0.0
    call_kernel(run.whole[NEWTON_SOLVE], start + 8 * factors, in_d, start + 8 * solution)
    t0 = t1 = t2 = t3 = 0.0
    for i in range(nv):
        x = run.lanes[solution + LANES * i : solution + LANES * (i + 1)]
        weight = weights[run.places[AT_V] + i] ** 2
        t0 += weight * (x[0] * x[0] + x[4] * x[4])
        t1 += weight * (x[1] * x[1] + x[5] * x[5])
        t2 += weight * (x[2] * x[2] + x[6] * x[6])
        t3 += weight * (x[3] * x[3] + x[7] * x[7])
    most, one = (t0, 0) if t0 > t1 else (t1, 1)
    if t2 > most:
        most, one = t2, 2
    if t3 > most:
        most, one = t3, 3
    if not most < missed:
        return missed
    for i in range(n):
        at = solution + LANES * i + one
        errors[i] += np.sqrt(run.lanes[at] ** 2 + run.lanes[at + half] ** 2) - run.lanes[before + i]
    return most


@inner
def tells(run, left, squares, damped):  # type: ignore[no-untyped-def]
    """What the weighted sum of squares of what is missed of v tells of a step, if ``left`` is what another iteration
    would change: CONTINUE, END_NOW if that is enough or the step hopeless, or ONE_MORE; or TO_BE_DAMPED, if it is not
    ``damped`` and that may decide."""
    missed = run.real[ESTIMATE_SCALE] * np.sqrt(squares / max(run.places[N_V], 1))
    if missed > FAR_OFF and not damped:
        return TO_BE_DAMPED
    known = left <= KNOWN * missed
    if (known and (left <= ENOUGH or missed > FAR_OFF)) or (left <= ENOUGH and missed < SMALL):
        return END_NOW
    return ONE_MORE if left <= ENOUGH else CONTINUE
