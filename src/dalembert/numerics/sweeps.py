"""Stages of a collocation method by iteration, all of them at once in the lanes of vector registers.

[HS90] P. J. van der Houwen, B. P. Sommeijer, Parallel iteration of high-order Runge-Kutta methods with stepsize
       control, J. Comput. Appl. Math. 29 (1990) 111-127.

A method brings a formula (`FORMULA` numbers: nodes c, weights b and bA, the matrices A and A^2 of collocation) and a
kernel that evaluates accelerations and rates at `LANES` states in one pass (see `compiler.lanes`). A sweep is

    V = v + h A a,   Q = q + h c v + h^2 A^2 a,   a = a(t + c h, Q, V)

Where q' is not v, on a group, the rates k = q' of the stored numbers are iterated, too: Q = q + h A k; and so are those
of r. Sweeps begin with the polynomials through the rates of the last step, extrapolated; each of them gains an order,
up to that of the collocation method. (Terms of high degree that would only grow are left out.) In the first step,
where there is nothing to extrapolate, there are `LANES` - 1 more of them.

Prescribed steps make a given number of sweeps. Automatic ones make fewer, if the last ones would change little: as many
as are expected by what they have changed in the last step, then one by one. Where the last step does not tell, because
it was much shorter or longer, it is asked after every sweep. The next step is chosen by the error that the usual number
would have left, which falls with the order that this gives.

Two estimates of the error are added. What the last sweep has changed; if that is too large although sweeps contract, a
few more are made, which is less than to begin the step anew. And what the polynomials miss, which sweeps do not show:
of a rate with Legendre coefficients g_0 .. g_7 over the step Radau's quadrature misses g_15 and what follows, about

    h g_7 R^2,   R = (g_6^2 + g_7^2) / (g_4^2 + g_5^2)

if coefficients go on to fall as they do. (With all sweeps that change anything, errors of four mechanisms are 0.01 to
0.2 times that, from 2e-7 down to 2e-12: benchmarks/iterated.py.) Where a force changes within a step, as friction
does that is smoothed by tanh, they do not, and R may be small by chance: it counts as no smaller than it would be if
they had fallen from the rate itself to g_6 and g_7 at an even pace. (tests/test_iterated.py has sixty models like
that, whose errors were up to 2800 tolerances. Newton's method, whose rates may be large and cancel, does without.)
Kinks of the functions of a model end that: then h max(g_7, g_6/2) counts. (g_7 alone is small by chance for some
positions of a kink, and steps that are tried again and again find them; so errors are below the estimate, wherever a
kink is: tests/test_iterated.py.) The first node lies behind the beginning of the step: a force that jumps between
them is noticed by the values of two polynomials where they meet, which then differ by much more than g_6 and g_7;
where a run begins, by that of one and rates there.

Sweeps that are iterations of Newton's method (`sweep_newton`) converge from anywhere near, so that extrapolations are
cut where their terms stop to fall, and end as soon as it is clear that the step is good, or hopeless. What polynomials
miss of the large rates of stiff systems is damped as these iterations damp it.
"""

from __future__ import annotations

import numpy as np

from dalembert.numerics.hermite import AT_Q, AT_R, AT_V, N_R, N_V
from dalembert.numerics.native import LANES, call_kernel, inlined, inner, lagrange_lanes, mix
from dalembert.numerics.newton import CONVERGED, NOT_FINITE, RESIDUALS, USER_ERROR, data
from dalembert.numerics.runstate import (
    AMBIENT,
    CONTRACTION,
    DONE,
    ESTIMATE_SCALE,
    FIXED,
    FORMER_ERROR,
    HELD,
    HELD_HIGH,
    HELD_LOW,
    HIGH_TERMS,
    KINKED,
    LANE_KERNEL,
    LANE_WORK,
    LANES_AT,
    LAST_CHANGE,
    LAST_RATE,
    LENGTH,
    LOW_TERMS,
    MADE,
    MISSED,
    N_MOVED,
    N_NUMBERS,
    N_OWN,
    N_PAST,
    NEWTON_SOLVE,
    NEWTON_WORK,
    REJECTED_AT,
    SPARED,
    STEPS,
    SWEEPS,
    SWEPT,
    T_END,
    copy,
)
from dalembert.numerics.sweep_errors import (
    beyond_rounding,
    conclude,
    last_squared_changes,
    squared_changes,
    squared_size,
)
from dalembert.numerics.sweep_formula import (
    AA,
    BARYCENTRIC,
    BEGINNING,
    END,
    LAST,
    A,
    C,
    keep_falling,
    leave_out,
)
from dalembert.numerics.sweep_newton import (
    BETWEEN,
    CONTINUE,
    END_NOW,
    ENOUGH,
    FEWEST,
    HOPELESS_NEWTON,
    ONE_MORE,
    SLOW_NEWTON,
    TO_BE_DAMPED,
    correct_rates,
    damp,
    prepare_newton,
    tells,
)

MOST_MORE = 3  # sweeps beyond those planned
# between steps, where nothing is extrapolated: more, until changes are this part of the tolerance
MOST_BETWEEN, PART = 10, 1e-3
# Where changes stay larger than the first, or contract slowly and are larger than the second, it is half of the way
# first, so often for one point: what such sweeps lead to in the end may be another solution of the equations.
FAR_BETWEEN, ROUNDED_BETWEEN, MOST_HALVED = 0.01, 1e-4, 20
LOOSEST_BETWEEN = 1e-4  # tolerance: by one that is larger than the motion, sweeps have converged wherever they are
HOPELESS = 1e3  # an error that they will not make small
UNSURE = 0.2  # of a step that differs from the last one by this part, it is not known how many sweeps it needs
LATELY = 10  # steps
# The second sweep of a step changes as much as the first one, and so much, in units of the tolerance and of what it
# changes. At tight tolerances the former alone says little: sweeps may contract from there on.
HOPELESS_CHANGE, NO_CONTRACTION, LARGE = 1e4, 0.8, 0.05
MEMORY = 5.0  # steps, about, in the means of contractions and step sizes
NEGLIGIBLE = 4e-5  # an error, below which steps grow as much as they may: (8 * 4e-5)^(-1/15) = 1.7
SLOW, IRRELEVANT = 0.5, 1e-3  # contraction that leaves more than the last change; changes that may be rounding


def lanes_size(n_moved: int, nv: int, nr: int, n_own: int, ambient: bool, n_data: int) -> tuple[int, int]:
    """Numbers in Run.lanes besides the formula: work spaces for steps and for points between them, and for the latter x
    and d, with room to move for `align`; and those of one work space."""
    size = work_size(n_moved, nv, nr, n_own, ambient)
    return LANES + 2 * size + 2 * (n_moved + nv + nr) + n_own + n_data, size


def work_size(n_moved: int, nv: int, nr: int, n_own: int, ambient: bool) -> int:
    """Numbers in a work space: a matrix, the arguments of the kernel, three sets of rates, an end, velocities, and room
    for terms of extrapolations."""
    implicit = n_own > 0
    n = nv + nr + (n_moved if ambient else 0) + (n_own - nv if implicit else 0)
    vectors = LANES + 1 + n_moved + nv + nr + (5 if implicit else 4) * n + 1 + max(nv, LANES)
    return LANES * (vectors + -(-(nv + (n_moved if ambient else 0)) // LANES))


@inner
def align(run):  # type: ignore[no-untyped-def]
    """Begin Run.lanes, with the formula, where vectors do not cross the lines of the cache.

    Run.lanes are nowhere in particular, and copies of a run elsewhere; where it began is in Run.whole.
    """
    beyond = run.lanes.ctypes.data % (8 * LANES)
    begin = (8 * LANES - beyond) // 8 % LANES
    run.whole[LANES_AT] = begin
    copy(run.formula, run.lanes[begin : begin + run.formula.size])


@inner
def put(values, first, n, out, start):  # type: ignore[no-untyped-def]
    """The same numbers in all lanes."""
    for i in range(n):
        for j in range(LANES):
            out[start + LANES * i + j] = values[first + i]


@inner
def evaluate_stages(run, d, x, h):  # type: ignore[no-untyped-def]
    """Changes of (q, v, r) in a step and their errors, into x. Returns a code of newton()."""
    planned, ratio = 0, h / (run.nodes[1] - run.nodes[2])
    if run.whole[SWEPT] > 0 and run.whole[SWEPT] == run.whole[STEPS]:  # the last attempt was accepted
        run.whole[HELD] = run.whole[MADE]
        if run.whole[FIXED] == 0:
            planned = needed(run, ratio)
        run.real[HELD_LOW], run.real[HELD_HIGH] = run.real[LOW_TERMS], run.real[HIGH_TERMS]
        run.real[CONTRACTION] += (run.real[LAST_RATE] - run.real[CONTRACTION]) / MEMORY
        run.real[LENGTH] += (abs(run.nodes[1] - run.nodes[2]) - run.real[LENGTH]) / MEMORY
    run.whole[SWEPT] = run.whole[STEPS] + 1
    run.real[FORMER_ERROR] = 0.0
    usual = run.whole[SWEEPS] if run.whole[HELD] > 0 else run.whole[SWEEPS] + LANES - 1
    planned = usual if planned == 0 else planned
    if run.whole[LANES_AT] < 0:
        align(run)
    begin = run.whole[LANES_AT] + run.formula.size
    w = run.lanes[begin : begin + run.whole[LANE_WORK]]
    code, run.whole[MADE], run.real[LAST_RATE], _ = iterate(
        run, w, d, x, h, run.whole[HELD], planned, usual, abs(ratio - 1.0) > UNSURE, MOST_MORE, 1.0, 0
    )
    return code


@inner
def needed(run, ratio):  # type: ignore[no-untyped-def]
    """How many sweeps a step is likely to need, by the last one, which was so many times shorter.

    After m sweeps changes of the velocities are of order 9 + m.
    """
    longer, m = max(ratio, 1.0), run.whole[DONE]
    change, rate = run.real[LAST_CHANGE] * longer ** (9 + m), run.real[LAST_RATE] * longer * longer
    if not rate < SLOW:
        return run.whole[SWEEPS]
    while m > FEWEST and change <= ENOUGH * rate:
        change /= rate
        m -= 1
    while m < run.whole[SWEEPS] and change > ENOUGH:
        change *= rate
        m += 1
    return min(m, run.whole[SWEEPS])


@inner
def step_to(run, multipliers, t0, row, t, out):  # type: ignore[no-untyped-def]
    """q, v and r at t by a step from a row at t0, into a row; by several, where sweeps for one do not contract. Returns
    a code of newton()."""
    nv, nr, ny, past = run.places[N_V], run.places[N_R], run.whole[N_MOVED], run.whole[N_PAST]
    if run.whole[LANES_AT] < 0:
        align(run)
    begin = run.whole[LANES_AT] + run.formula.size + 2 * run.whole[LANE_WORK]
    w = run.lanes[begin - run.whole[LANE_WORK] : begin]
    begin += 2 * run.whole[NEWTON_WORK]
    half, n_own = ny + nv + nr, run.whole[N_OWN]
    x = run.lanes[begin : begin + 2 * half + n_own]
    d, known = run.lanes[begin + x.size : run.lanes.size - LANES + run.whole[LANES_AT]], data(multipliers.newton)
    for i in range(N_NUMBERS):  # not used, but they are to be numbers: see `mix`
        d[2 + i] = 0.0
    for i in range(past):
        d[2 + N_NUMBERS + i] = row[i]
    parameters = 2 + N_NUMBERS + 2 * past
    for i in range(d.size - parameters):
        d[parameters + i] = known[1 + row.size + i]
    for i in range(past):  # nothing of the run: whoever asks, the answer is the same
        size = min(run.atol[i] + run.rtol[i] * abs(row[i]), LOOSEST_BETWEEN * (1.0 + abs(row[i])))
        run.weights[BETWEEN, i] = 1.0 / size
    state = d[2 + N_NUMBERS : 2 + N_NUMBERS + past]
    former, planned = run.real[FORMER_ERROR], run.whole[SWEEPS] + LANES - 1
    reached, h, halved = t0, t - t0, 0
    while reached != t:
        end = t if abs(h) >= abs(t - reached) else reached + h
        d[0], d[1] = end, end - reached
        code, _, rate, error = iterate(run, w, d, x, d[1], 0, planned, planned, False, MOST_BETWEEN, PART, BETWEEN)
        good = code == CONVERGED and error <= (FAR_BETWEEN if rate < SLOW else ROUNDED_BETWEEN)
        if not good and code != USER_ERROR and halved < MOST_HALVED:
            h = 0.5 * (end - reached)
            halved += 1
            continue
        if code != CONVERGED:
            run.real[FORMER_ERROR] = former
            return code
        for i in range(ny):
            state[run.places[AT_Q] + i] += x[i]
        for i in range(nv):
            state[run.places[AT_V] + i] += x[ny + i]
        for i in range(nr):
            state[run.places[AT_R] + i] += x[ny + nv + i]
        for i in range(n_own):
            state[half + i] = x[2 * half + i]
        reached, h = end, 2.0 * h
    run.real[FORMER_ERROR] = former
    for i in range(past):
        out[i] = state[i]
    return CONVERGED


@inner
def give_up(run, x, nv, nr, ny, done):  # type: ignore[no-untyped-def]
    """No step, and errors far beyond the tolerance. Returns a code of newton()."""
    half = ny + nv + nr
    for i in range(x.size):
        x[i] = 0.0
    for i in range(nv):
        x[half + ny + i] = HOPELESS_CHANGE / run.weights[0, run.places[AT_V] + i]
    run.counters[RESIDUALS] += LANES * done
    return CONVERGED


@inlined
def error_to_control(run, error):  # type: ignore[no-untyped-def]
    """The error that a step would have had with as many sweeps as are usual, by which the next one is chosen."""
    if run.whole[LANE_KERNEL] == 0:
        return error
    return max(error * run.real[SPARED], min(error, run.real[MISSED]), run.real[FORMER_ERROR])


@inner
def iterate(run, w, d, x, h, held, planned, usual, unsure, more, goal, which):  # type: ignore[no-untyped-def]
    """Sweeps over the stages of a step: ``planned`` ones (or fewer, if that is ``unsure`` and they suffice), then until
    changes are below the goal, as far as those that are ``usual`` and so many ``more``.

    ``which``: row of Run.weights that these are measured by. ``held``: number (1 to 3) of the set of rates of the step
    before, 0 if there is none. Returns a code of newton(), the number of the set of rates made, the last contraction of
    changes, and what is left of these.
    """
    start, f, in_d = w.ctypes.data, run.lanes.ctypes.data + 8 * run.whole[LANES_AT], d.ctypes.data
    nv, nr, ny, ambient = run.places[N_V], run.places[N_R], run.whole[N_MOVED], run.whole[AMBIENT] == 1
    half = ny + nv + nr
    n_own = run.whole[N_OWN]  # > 0: accelerations are implicit, and unknowns together with so many others
    others = n_own - nv if n_own > 0 else 0
    n = nv + nr + (ny if ambient else 0) + others
    row = 2 + N_NUMBERS  # the last row in d
    at_q, at_v, at_r = row + run.places[AT_Q], row + run.places[AT_V], row + run.places[AT_R]
    c = LANES * LANES  # behind the matrix: the arguments c, r, V and y (Q if it is ambient) of the kernel
    r = c + LANES
    V = r + LANES * nr
    y = V + LANES * nv
    known = y + LANES * ny  # rates one sweep ago, if these are implicit
    ring = known + (LANES * n if n_own > 0 else 0)  # of three sets of rates: of v, r, and of Q if it is ambient; others
    end = ring + 3 * LANES * n
    before = end + LANES * n  # the end of the step one sweep ago: velocities, and positions if they are ambient
    spare = before + -(-(nv + (ny if ambient else 0)) // LANES) * LANES
    newton, first = run.whole[NEWTON_SOLVE] != 0, held % 3 + 1
    second = first % 3 + 1
    new, old = ring + LANES * n * (first - 1), ring + LANES * n * (second - 1)
    if held > 0:
        ratio = h / (run.nodes[1] - run.nodes[2])
        lagrange_lanes(ratio, f, f + 8 * BARYCENTRIC, start)
        if newton:
            held_at = ring + LANES * n * (held - 1)
            keep_falling(run, w, ratio, held_at, run.weights[which, run.places[AT_V] :], in_d, spare)
        else:
            leave_out(run, w, ratio, end)
        mix(n, start + 8 * (ring + LANES * n * (held - 1)), start, 1.0, in_d, 0.0, 0.0, f, start + 8 * new)
    elif n_own > 0:  # those at the beginning of the step, r' apart, which the first sweep finds
        at_own = row + ny + nv + nr
        put(d, at_own + others, nv, w, new)
        for j in range(LANES * nr):
            w[new + LANES * nv + j] = 0.0
        put(d, at_own, others, w, new + LANES * (nv + nr))
    else:  # rates at the beginning of the step
        for j in range(LANES):
            w[c + j] = 0.0
        for j in range(LANES * ny):
            w[y + j] = 0.0
        put(d, at_r, nr, w, r)
        put(d, at_v, nv, w, V)
        if ambient:
            put(d, at_q, ny, w, y)
        if call_kernel(run.whole[LANE_KERNEL], start + 8 * c, in_d, start + 8 * new) < 0:
            return USER_ERROR, 0, 0.0, 0.0
    if newton and prepare_newton(run, in_d, h, which) < 0:
        return USER_ERROR, 0, 0.0, 0.0
    for j in range(LANES):
        w[c + j] = run.formula[C + j]
    done, most, former, error, rate = 0, usual, 0.0, 0.0, 0.0
    automatic = which == 0 and run.whole[FIXED] == 0
    # sweeps after which it is asked where they lead: all of a first step, or of one much longer or shorter than the
    # last; else the first ones if others failed lately
    unsure = unsure or held == 0
    asked = planned if unsure or newton else 2 if run.whole[STEPS] - run.whole[REJECTED_AT] < LATELY else -1
    asked = asked if automatic else -1
    slow, hopeless = (SLOW_NEWTON, HOPELESS_NEWTON) if newton else (SLOW, HOPELESS_CHANGE)
    # by the polynomial of the last step, whose last stage is where they meet; or what rates are where a run begins
    met = held if held > 0 else second % 3 + 1
    gap, kinked, expected = run.formula[C], run.whole[KINKED] == 1, ring + LANES * n * (met - 1) + LAST
    for j in range(LANES * n if held == 0 else 0):
        w[expected - LAST + j] = w[new + j]
    of_v, behind = LANES * nv, end + LANES * n
    told, damped, total_of_v, low, high, rough = CONTINUE, False, 0.0, 0.0, 0.0, 0.0
    weights, unit = run.weights[which], run.real[ESTIMATE_SCALE] / np.sqrt(max(nv + (ny if ambient else 0), 1))
    while done < most:
        mix(nv, start + 8 * new, f + 8 * A, h, in_d + 8 * at_v, 1.0, 0.0, f, start + 8 * V)
        if nr > 0:
            mix(nr, start + 8 * (new + LANES * nv), f + 8 * A, h, in_d + 8 * at_r, 1.0, 0.0, f, start + 8 * r)
        if ambient:
            mix(ny, start + 8 * (new + LANES * (nv + nr)), f + 8 * A, h, in_d + 8 * at_q, 1.0, 0.0, f, start + 8 * y)
        else:
            mix(ny, start + 8 * new, f + 8 * AA, h * h, in_d + 8 * at_v, 0.0, h, f, start + 8 * y)
        if (done <= asked or done >= planned - 2) and done < planned:  # the last stage is the end of the step
            total = squared_changes(w[V:y], w[before : before + nv], weights[run.places[AT_V] :])
            if ambient:
                total += squared_changes(w[y:known], w[before + nv : before + nv + ny], weights[run.places[AT_Q] :])
            if done > 0:
                former, error = error, unit * np.sqrt(total)
            if done >= 2 and done <= asked:
                rate = error / former if former > 0.0 else 0.0
                if newton and rate < slow:
                    mix(n, start + 8 * new, f + 8 * END, 1.0, in_d, 0.0, 0.0, f, start + 8 * end)
                    total_of_v, low, high, rough = conclude(
                        h, w[end : end + of_v], w[V:y], d[at_v : at_v + nv], w[expected:], gap, kinked, 1.0,
                        weights[run.places[AT_V] :], x[ny : ny + nv], x[half + ny : half + ny + nv], not newton,
                    )  # fmt: skip
                    damped = n_own > 0
                    told = tells(run, error * rate, rough, damped)
                    if told == TO_BE_DAMPED:
                        rough, damped = damp(
                            run, h, w[end:], w[expected:], gap, kinked, weights, in_d, which, x[half + ny :], rough
                        ), True  # fmt: skip
                        told = tells(run, error * rate, rough, damped)
                    if told == END_NOW:
                        error *= rate
                        break
                    planned = done + 1 if told == ONE_MORE else planned
                elif unsure and rate < SLOW and error * rate <= ENOUGH:
                    planned = done + 1
                elif held > 0 and done == 2 and error > hopeless and rate > NO_CONTRACTION:
                    size = squared_size(w[before : before + nv], weights[run.places[AT_V] :])
                    if error > LARGE * unit * np.sqrt(size):
                        return give_up(run, x, nv, nr, ny, done), 0, 1.0, error
        new, old = old, new
        first, second = second, first
        for j in range(LANES * n if n_own > 0 else 0):
            w[known + j] = w[old + j]
        if call_kernel(run.whole[LANE_KERNEL], start + 8 * c, in_d, start + 8 * new) < 0:
            return USER_ERROR, 0, 0.0, 0.0
        if newton:
            correct_rates(run, w[old : old + LANES * n], w[new : new + LANES * n], in_d, which)
        done += 1
        if done < planned:
            continue
        mix(n, start + 8 * new, f + 8 * END, 1.0, in_d, 0.0, 0.0, f, start + 8 * end)
        total = last_squared_changes(h, w[end:], w[V:y], d[at_v : at_v + nv], weights[run.places[AT_V] :])
        if ambient:
            of_q = w[end + LANES * (nv + nr) :]
            total += last_squared_changes(h, of_q, w[y:known], d[at_q : at_q + ny], weights[run.places[AT_Q] :])
        former, error = error, unit * np.sqrt(total)
        rate = error / former if former > 0.0 else 0.0
        limit = goal if done >= usual else ENOUGH * goal
        if not (error > limit or (rate > slow and error > IRRELEVANT)) or not error < HOPELESS:
            break
        if done == usual:
            run.real[FORMER_ERROR] = error
            most = usual + more
        if error * rate ** (most - done) > goal:
            break
    run.counters[RESIDUALS] += LANES * done
    # what is left of changes that contract slowly is more than the last of them
    worse = 1.0 if not rate > SLOW or error <= IRRELEVANT else rate / (1.0 - rate) if rate < 0.999 else HOPELESS
    if told != END_NOW or (nr > 0 and damped and n_own == 0):  # which goes for v and r together
        total_of_v, low, high, rough = conclude(
            h, w[end : end + of_v], w[V:y], d[at_v : at_v + nv], w[expected:], gap, kinked, worse,
            weights[run.places[AT_V] :], x[ny : ny + nv], x[half + ny : half + ny + nv], not newton,
        )  # fmt: skip
        damped = n_own > 0
    total = total_of_v
    if nr > 0:
        total += conclude(
            h, w[end + of_v : behind], w[r:V], d[at_r : at_r + nr], w[expected + of_v :],
            gap if held > 0 or n_own == 0 else 0.0, kinked, worse,
            weights[run.places[AT_R] :], x[ny + nv : half], x[half + ny + nv :], not newton,
        )[0]  # fmt: skip
    harmless = NEGLIGIBLE if d[0] != run.real[T_END] else 1.0  # there it says whether the step is accepted, and no more
    if newton and not damped and which == 0 and run.real[ESTIMATE_SCALE] * np.sqrt(rough / max(nv, 1)) > harmless:
        rough = damp(run, h, w[end:], w[expected:], gap, kinked, weights, in_d, which, x[half + ny :], rough)
    if which == 0:
        run.real[LOW_TERMS], run.real[HIGH_TERMS] = low, high
        run.real[MISSED] = run.real[ESTIMATE_SCALE] * np.sqrt(rough / max(nv, 1))
        run.real[SPARED] = rate ** (usual - done) if done < usual else 1.0
        run.whole[DONE], run.real[LAST_CHANGE] = done, error
    if ambient:
        of_q = end + LANES * (nv + nr)
        total += conclude(
            h, w[of_q:behind], w[y:known], d[at_q : at_q + ny], w[of_q + BEGINNING :], 0.0, kinked, worse,
            weights[run.places[AT_Q] :], x[:ny], x[half : half + ny], not newton,
        )[0]  # fmt: skip
    else:
        ends, lasts, begins, out, errors = w[end:behind], w[y:known], d[at_v : at_v + nv], x[:ny], x[half : half + ny]
        for i in range(ny):
            out[i] = h * (begins[i] + h * ends[LANES * i + 1])
            last = lasts[LANES * i + LAST]
            errors[i] = worse * beyond_rounding(out[i] - last, last)
            total += out[i]
    for i in range(others):
        x[2 * half + i] = w[new + LANES * (nv + nr + i) + LAST]
    for i in range(nv if n_own > 0 else 0):
        x[2 * half + others + i] = w[new + LANES * i + LAST]
    return (CONVERGED if np.isfinite(total) else NOT_FINITE), first, rate, worse * error
