"""One step: predictor, Newton, projection, error estimate, and the choice of the next order and size."""

from __future__ import annotations

import numpy as np

from dalembert.numerics.control import (
    BIAS_DOWN,
    BIAS_SAME,
    BIAS_UP,
    GROW_LEAST,
    GROW_LIMIT,
    SHRINK_LIMIT,
    factor_for,
    weighted_norm,
)
from dalembert.numerics.hermite import AT_V, N_V
from dalembert.numerics.native import call_coefficients, call_kernel, inlined, inner
from dalembert.numerics.newton import (
    AT_D,
    AT_F,
    AT_X,
    CONVERGED,
    DIVERGED,
    FACTORIZATIONS,
    RESIDUALS,
    at,
    back_substitute,
    data,
    forget,
    newton,
    unknowns,
)
from dalembert.numerics.newton import NOT_FINITE as NEWTON_NOT_FINITE
from dalembert.numerics.newton import SINGULAR as NEWTON_SINGULAR
from dalembert.numerics.newton import USER_ERROR as NEWTON_USER_ERROR
from dalembert.numerics.runstate import (
    AT_ORDER,
    BARRED_UNTIL,
    COEFFICIENTS,
    DATA_OUTDATED,
    ERROR,
    ESTIMATE,
    ESTIMATE_SCALE,
    ESTIMATED,
    EXPLICIT,
    FACTORED_AT,
    FIRST,
    FIXED,
    FORGETS,
    GROWTH,
    GUARDED,
    HISTORY,
    IN_A_ROW,
    LANE_KERNEL,
    MAX_ORDER,
    MONITOR,
    MOST_AGEING,
    MOST_CHANGE,
    MOST_ITERATIONS,
    MULTIPLIER_TOLERANCE,
    N_LAST,
    N_NUMBERS,
    N_PAST,
    N_STAGES,
    N_STEP,
    NEWTON_FAILED,
    NEWTON_TOLERANCE,
    NODES,
    NOT_FINITE,
    ORDER,
    OWN_MULTIPLIERS,
    PENALTY,
    PREDICTOR,
    PREPARED,
    PROJECT_ERROR,
    PROJECT_STEPS,
    PROJECTION_FAILED,
    PROJECTIONS,
    REACH,
    REFINE,
    REGULAR,
    RESERVE,
    RESPONSE,
    REUSE,
    ROUGH_STEPS,
    ROUNDING,
    SECOND,
    SHARE,
    SINCE_CHANGE,
    SINGULAR,
    STAGE_TOLERANCE,
    STALL,
    START,
    STEPS,
    TROUBLE,
    UPDATE,
    USER_ERROR,
    VELOCITY,
    WORST_QUALITY,
    T,
    combine,
    combine_changes,
    copy,
)
from dalembert.numerics.stage import project_estimate, run_stage
from dalembert.numerics.sweeps import evaluate_stages as sweeps

# Orders beyond 3 are unstable for weakly damped oscillations that the steps do not resolve. What they then amplify has
# differences that do not fall with their order; such orders are left, and not tried again for a while.
STIFF_ORDER = 3
ROUGH, ROUGH_GRID = 1.2, 1.0  # ratio of differences of a solution that steps do not resolve, and on a regular grid
LEAST_PENALTY, MOST_PENALTY = 40, 10_000
RELUCTANT = 1.25  # gain of the step by a lower order that is worth new points of the grid
ALARMING = 0.5  # error that makes a new grid smaller before it has proved itself
KEPT = 0.9  # smaller reductions of the step are not worth a new grid


@inlined
def set_weights(run, h, reference):  # type: ignore[no-untyped-def]
    """Weights 1/(atol + rtol |y|) of the error test, and from them those of Newton's updates, if there are any.

    Projected velocities carry rounding errors of the largest one: nothing smaller is asked of any of them.
    """
    size, n, last, weights = abs(h), run.whole[N_PAST], run.rows[run.slots[1]], run.weights[0]
    first, behind, noise = run.places[AT_V], run.places[AT_V] + run.places[N_V], 0.0
    if run.real[ROUNDING] > 0.0:
        for i in range(first, behind):
            noise = max(noise, run.real[ROUNDING] * abs(last[i]))
    # in simple loops, which become vector instructions
    atol, rtol, controlled, power = run.atol, run.rtol, run.controlled, run.power
    for i in range(n):
        largest = max(abs(reference[i]), abs(last[i]))
        weights[i] = atol[i] + rtol[i] * largest
    for i in range(first, min(behind, n)):
        weights[i] = max(weights[i], noise)
    for i in range(n):
        w = 1.0 / weights[i]
        weights[i] = w if controlled[i] == 1 else 0.0
    for i in range(n):
        if power[i] > 0:
            weights[i] *= size ** power[i]
    for j in range(run.whole[N_STEP] if run.whole[EXPLICIT] == 0 else 0):
        i = run.weight_of[0, j]
        w = run.weights[0, i]
        if w == 0.0:  # not in the error test: relative to the largest value so far
            w = 1.0 / (run.atol[i] + run.rtol[i] * run.peak[i])
            w *= size ** run.power[i] if run.power[i] > 0 else 1.0
        run.weights[1, j] = w * size ** run.weight_of[1, j] if run.weight_of[1, j] != 0 else w


@inner
def correct(run, stages, t, row):  # type: ignore[no-untyped-def]
    """Project a row onto the constraints, in place."""
    extra = run.scratch[2]
    for i in range(run.whole[N_STAGES]):
        code = run_stage(stages[i], t, row, extra, run.real[STAGE_TOLERANCE], 0.0, run.counters)
        if code != CONVERGED:
            return code
    return CONVERGED


@inner
def solve_multipliers(run, multipliers, t, row):  # type: ignore[no-untyped-def]
    """Solve for what belongs to a row and the step itself does not make, in place."""
    trial = run.scratch[1]
    copy(row, trial)
    code = run_stage(multipliers, t, trial, run.scratch[2], run.real[MULTIPLIER_TOLERANCE], 0.0, run.counters)
    for i in range(run.whole[N_PAST] if run.whole[OWN_MULTIPLIERS] == 1 else 0, row.size):
        row[i] = trial[i]
    return code


@inlined
def complete(run, multipliers, t, row):  # type: ignore[no-untyped-def]
    """Give a row the multipliers and accelerations that belong to it, in place."""
    if run.whole[OWN_MULTIPLIERS] == 1 and run.whole[N_PAST] == row.size:  # the step itself makes everything
        return CONVERGED
    return solve_multipliers(run, multipliers, t, row)


@inlined
def look_after(run, t, row):  # type: ignore[no-untyped-def]
    """Quality and rate of ageing of the formulation's data at a row, into watched[0] and watched[1]."""
    run.watched[2] = t
    start = run.watched.ctypes.data
    return call_kernel(run.whole[MONITOR], row.ctypes.data, start + 16, start)


@inlined
def still_good(run, t, row, h):  # type: ignore[no-untyped-def]
    """True if the formulation's data serves for the step that made this row."""
    if run.whole[MONITOR] == 0:
        return True
    look_after(run, t, row)
    return run.watched[0] >= WORST_QUALITY and run.watched[1] * abs(h) <= MOST_AGEING


@inner
def cause_of(code, otherwise):  # type: ignore[no-untyped-def]
    """Status for a failed solve."""
    if code == NEWTON_NOT_FINITE:
        return NOT_FINITE
    if code == NEWTON_SINGULAR:
        return SINGULAR
    if code == NEWTON_USER_ERROR:
        return USER_ERROR
    return otherwise


@inlined
def evaluate_stages(run, x, d, last, h):  # type: ignore[no-untyped-def]
    """The stages of an explicit method, which are its start values."""
    if run.whole[LANE_KERNEL] != 0:
        if run.whole[FIXED] == 0 and (run.whole[STEPS] == 0 or run.whole[IN_A_ROW] > 0):
            set_weights(run, h, last)  # those of what was given up are no measure for changes
        return sweeps(run, d, x, h)
    run.counters[RESIDUALS] += run.whole[EXPLICIT]
    if call_kernel(run.whole[START], d.ctypes.data, last.ctypes.data, x.ctypes.data) < 0:
        return NEWTON_USER_ERROR
    total = 0.0
    for i in range(x.size):
        total += x[i]
    return CONVERGED if np.isfinite(total) else NEWTON_NOT_FINITE


@inlined
def early(run):  # type: ignore[no-untyped-def]
    """True if errors are known before the projection, which steps that are to be repeated do not need."""
    return run.whole[EXPLICIT] > 0 and run.whole[FIXED] == 0 and run.whole[PROJECT_ERROR] == 0


@inlined
def attempt(run, step, stages, h, k):  # type: ignore[no-untyped-def]
    """One step of order k and size h into row 0. Returns CONVERGED or a cause (a Status value).

    A row whose error was found too large early is not projected.
    """
    n = run.whole[N_STEP]
    c = run.coefficients
    new = run.rows[run.slots[0]]
    run.orders[0] = k
    t = run.nodes[0]
    n_past, start = run.whole[N_PAST], 2 + N_NUMBERS
    x, d = unknowns(step), data(step)
    d[0] = t
    d[1] = h
    for i in range(n_past, new.size):  # accelerations are solved for where they are wanted, never extrapolated
        new[i] = 0.0
    if run.whole[EXPLICIT] > 0:  # sees the last row and nothing else
        last = run.rows[run.slots[1]]
        for i in range(n_past):
            d[start + i] = last[i]
        code = evaluate_stages(run, x, d, last, h)
    else:
        nodes, orders = run.nodes.ctypes.data, run.orders.ctypes.data
        if call_coefficients(run.whole[COEFFICIENTS], k, run.whole[NODES], nodes, orders, c.ctypes.data) != 0:
            return NEWTON_FAILED
        past = min(run.whole[NODES], HISTORY)
        for i in range(N_NUMBERS):
            d[2 + i] = c[i]
        if run.whole[N_LAST] > 0:
            combine_changes(run, c, FIRST, past, d[start:], n_past)
            combine_changes(run, c, SECOND, past, d[start + n_past :], n_past)
        else:
            combine(run, c, FIRST, past, 1, d[start:], n_past)
            combine(run, c, SECOND, past, 1, d[start + n_past :], n_past)
        for i in range(run.whole[N_LAST]):
            d[start + 2 * n_past + i] = run.rows[run.slots[1], i]
        combine(run, c, PREDICTOR, past, 1, new, n_past)
        set_weights(run, h, new)
        leading = c[0] if c[0] != 0.0 else 1.0 / h
        if not abs(leading / run.real[FACTORED_AT] - 1.0) <= MOST_CHANGE:
            forget(step)
            run.real[FACTORED_AT] = leading
        code = DIVERGED
    before = run.counters[FACTORIZATIONS]
    for _ in range(2 if run.whole[EXPLICIT] == 0 else 0):
        if run.whole[START] != 0:
            call_kernel(run.whole[START], d.ctypes.data, new.ctypes.data, x.ctypes.data)
        else:
            for i in range(n):
                x[i] = new[i]
        code = newton(
            step,
            run.weights[1],
            run.real[NEWTON_TOLERANCE],
            run.real[STALL],
            MOST_ITERATIONS,
            run.real[REUSE],
            False,
            run.counters,
        )
        # an old matrix may be to blame: once more with a fresh one
        if code != DIVERGED or run.counters[FACTORIZATIONS] != before:
            break
    if code != CONVERGED:
        return cause_of(code, NEWTON_FAILED)
    if run.whole[UPDATE] != 0:
        call_kernel(run.whole[UPDATE], x.ctypes.data, d.ctypes.data, new.ctypes.data)
    else:
        for i in range(n):
            new[i] = x[i]
    if run.whole[REGULAR] == 1:
        refine(run, new)
    if early(run):
        set_weights(run, h, new)
        run.real[ESTIMATED] = error_of(run, step, stages, 1, 0)
        if not run.real[ESTIMATED] <= 1.0:
            return CONVERGED
    if run.whole[N_STAGES] > 0 and run.whole[PROJECT_STEPS] == 1:
        run.whole[PROJECTIONS] += 1
        code = correct(run, stages, t, new)
        if code != CONVERGED:
            return cause_of(code, PROJECTION_FAILED)
    return CONVERGED if still_good(run, t, new, h) else DATA_OUTDATED


@inlined
def change(run, row, j):  # type: ignore[no-untyped-def]
    """What entry j of an estimate is made from, less its value in the last row: sums of differences want no more, and
    would round more. With the digits that are stored apart."""
    last, i, low = run.rows[run.slots[1]], run.source[0, j], run.source[2, j]
    return (row[i] - last[i]) + (row[low] - last[low]) if low >= 0 else row[i] - last[i]


@inner
def refine(run, new):  # type: ignore[no-untyped-def]
    """Add to the velocities of the new row what a formula of one order more makes of the positions."""
    for i in range(HISTORY + 1):
        w = run.coefficients[REFINE + i]
        if w != 0.0:
            row = run.rows[run.slots[i]]
            for j in range(run.whole[N_PAST]):
                if run.source[1, j] == 1:
                    new[j] += w * change(run, row, j)


@inlined
def share(run, order):  # type: ignore[no-untyped-def]
    """Weight of an order's estimate. All count in full where nothing forgets errors, and in a start that goes through
    the orders."""
    forgets = run.whole[FORGETS] == 1 and (run.whole[REGULAR] == 1 or run.whole[NODES] >= HISTORY)
    return run.real[SHARE + order] if run.whole[ERROR] == 0 and forgets else 1.0


@inlined
def error_of(run, step, stages, which, ago):  # type: ignore[no-untyped-def]
    """Weighted local error of order k - 1 + which; or, from differences of rows on a regular grid, some steps ago."""
    n, past = run.whole[N_PAST], min(run.whole[NODES], HISTORY)
    e = run.estimate
    if run.whole[RESPONSE] != 0:  # a right side for the matrix of the step, then what its solution means for the row
        call_kernel(run.whole[ERROR], at(step, AT_X), at(step, AT_D), at(step, AT_F))
        back_substitute(step)
        call_kernel(run.whole[RESPONSE], at(step, AT_X), at(step, AT_D), e.ctypes.data)
    elif run.whole[ERROR] != 0:
        call_kernel(run.whole[ERROR], at(step, AT_X), at(step, AT_D), e.ctypes.data)
    else:
        c, first = run.coefficients, ESTIMATE + which * (HISTORY + 1)
        for j in range(n):
            e[j] = 0.0
        for i in range(past + 1):
            w = c[first + i]
            if w != 0.0:
                row = run.rows[run.slots[i + ago]]
                for j in range(n):
                    e[j] += w * (change(run, row, j) if run.whole[REGULAR] == 1 else row[run.source[0, j]])
        for j in range(n):
            if run.source[1, j] == 1:
                e[j] *= c[VELOCITY + which]
    if run.whole[PROJECT_ERROR] == 1:
        for i in range(run.whole[N_STAGES]):
            project_estimate(stages[i], run.estimate)
    return run.real[ESTIMATE_SCALE] * share(run, run.whole[ORDER] - 1 + which) * weighted_norm(e, run.weights[0], 0, n)


@inlined
def accept(run):  # type: ignore[no-untyped-def]
    """Row 0 becomes row 1; the oldest ring position becomes the new row 0."""
    last = run.slots[HISTORY]
    for i in range(HISTORY, 0, -1):
        run.slots[i] = run.slots[i - 1]
        run.nodes[i] = run.nodes[i - 1]
        run.orders[i] = run.orders[i - 1]
    run.slots[0] = last
    run.real[T] = run.nodes[1]
    if run.whole[NODES] < HISTORY:
        run.whole[NODES] += 1
    run.whole[STEPS] += 1
    run.whole[AT_ORDER] += 1
    run.whole[IN_A_ROW] = run.whole[PREPARED] = 0
    if run.whole[LANE_KERNEL] == 0:  # iterated stages have no use for them
        row, peak = run.rows[run.slots[1]], run.peak
        for i in range(row.size):
            peak[i] = max(peak[i], abs(row[i]))


@inner
def other_error(run, step, stages, which, ago):  # type: ignore[no-untyped-def]
    """The error of another order, or some steps ago: looked at now and then only."""
    return error_of(run, step, stages, which, ago)


@inner
def choose_order(run, step, stages, error, ratio):  # type: ignore[no-untyped-def]
    """Order of the next step, of those whose estimates are known, and the ratio of steps that goes with it."""
    k = run.whole[ORDER]
    best, rough = k, False
    ago = min(k // 2, HISTORY - k - 2) if run.whole[REGULAR] == 1 else 0
    if ago > 0:  # differences that are small for a moment, as at a turning point, must not change the grid
        ratio = min(ratio, factor_for(other_error(run, step, stages, 1, ago), k, BIAS_SAME))
    if k > 1:
        lower = other_error(run, step, stages, 0, 0)
        if ago > 0:
            lower = max(lower, other_error(run, step, stages, 0, ago))
        down = factor_for(lower, k - 1, BIAS_DOWN)
        # differences of a solution that the step resolves fall from order to order
        compare = (k + 1) / k * share(run, k - 1) / share(run, k)
        limit = ROUGH_GRID if run.whole[REGULAR] == 1 else ROUGH
        grows = k > STIFF_ORDER and run.whole[GUARDED] == 1 and error * compare > limit * lower
        run.whole[ROUGH_STEPS] = run.whole[ROUGH_STEPS] + 1 if grows else 0
        rough = run.whole[ROUGH_STEPS] >= 2
        if down > ratio * (RELUCTANT if run.whole[REGULAR] == 1 else 1.0) or rough:
            best, ratio = k - 1, down
            if rough and run.whole[REGULAR] == 1 and run.whole[FORGETS] == 1:
                best = STIFF_ORDER  # every order takes its time to show that it is not stable
    if rough:
        run.whole[PENALTY] = min(MOST_PENALTY, max(LEAST_PENALTY, 2 * run.whole[PENALTY]))
        run.whole[BARRED_UNTIL] = run.whole[STEPS] + run.whole[PENALTY]
    barred = k >= STIFF_ORDER and run.whole[STEPS] < run.whole[BARRED_UNTIL]
    if k < run.whole[MAX_ORDER] and run.whole[NODES] >= k + 2 + run.whole[RESERVE] and not (barred or rough):
        up = factor_for(other_error(run, step, stages, 2, 0), k + 1, BIAS_UP)
        if up > ratio:
            best, ratio = k + 1, up
    if best != k:
        run.whole[ORDER] = best
        run.whole[AT_ORDER] = -1
    return ratio


@inlined
def choose(run, step, stages, error):  # type: ignore[no-untyped-def]
    """Order and size of the next step; called before `accept`."""
    if run.whole[ERROR] != 0:  # failures may have lowered it
        run.whole[ORDER] = run.whole[MAX_ORDER]
    k = run.whole[ORDER]
    ratio = factor_for(error, k, BIAS_SAME)
    steady = run.whole[AT_ORDER] > k and (run.whole[REGULAR] == 0 or run.whole[SINCE_CHANGE] > k)
    if run.whole[ERROR] == 0 and steady:  # estimates of other orders want k+1 steps at this one
        ratio = choose_order(run, step, stages, error, ratio)
    if (ratio >= GROW_LEAST or error < ALARMING) and run.whole[REGULAR] == 1 and run.whole[SINCE_CHANGE] <= k:
        ratio = 1.0  # a new grid every step would not be stable, and its first differences are those of interpolation
    run.whole[SINCE_CHANGE] += 1
    if run.whole[SINCE_CHANGE] > k:
        run.whole[TROUBLE] = 0
    if ratio >= GROW_LEAST or ratio < (KEPT if run.whole[REGULAR] == 1 else 1.0):
        run.whole[SINCE_CHANGE] = 0
        run.real[REACH] = 1.0
        limit = run.coefficients[GROWTH] if run.coefficients[GROWTH] > 0.0 else GROW_LIMIT
        return min(limit, max(SHRINK_LIMIT, ratio))
    run.real[REACH] = ratio  # not worth a change now, but it is if it saves a step at the end
    return 1.0
