"""One step: predictor, Newton, projection, error estimate, and the choice of the next order and size."""

from __future__ import annotations

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
from dalembert.numerics.native import call_coefficients, call_kernel, inner
from dalembert.numerics.newton import CONVERGED, DIVERGED, FACTORIZATIONS, data, forget, newton, unknowns
from dalembert.numerics.newton import NOT_FINITE as NEWTON_NOT_FINITE
from dalembert.numerics.newton import SINGULAR as NEWTON_SINGULAR
from dalembert.numerics.newton import USER_ERROR as NEWTON_USER_ERROR
from dalembert.numerics.runstate import (
    AT_ORDER,
    COEFFICIENTS,
    DATA_OUTDATED,
    FACTORED_AT,
    HISTORY,
    IN_A_ROW,
    MAX_ORDER,
    MONITOR,
    MOST_AGEING,
    MOST_CHANGE,
    MOST_ITERATIONS,
    MULTIPLIER_TOLERANCE,
    N_STAGES,
    N_STEP,
    NEWTON_FAILED,
    NEWTON_TOLERANCE,
    NODES,
    NOT_FINITE,
    ORDER,
    OWN_MULTIPLIERS,
    PROJECT_ERROR,
    PROJECTION_FAILED,
    PROJECTIONS,
    REUSE,
    SINGULAR,
    STAGE_TOLERANCE,
    STALL,
    STEPS,
    USER_ERROR,
    WORST_QUALITY,
    T,
    combine,
    copy,
)
from dalembert.numerics.stage import project_estimate, run_stage


@inner
def set_weights(run, h, reference):  # type: ignore[no-untyped-def]
    """Weights 1/(atol + rtol |y|) of the error test and of Newton's updates."""
    size = abs(h)
    for i in range(run.whole[N_STEP]):
        w = 1.0 / (run.atol[i] + run.rtol[i] * max(abs(reference[i]), abs(run.rows[run.slots[1], i])))
        loose = 1.0 / (run.atol[i] + run.rtol[i] * run.peak[i])
        scale = size ** run.power[i] if run.power[i] > 0 else 1.0
        run.weights[0, i] = w * scale if run.controlled[i] == 1 else 0.0
        run.weights[1, i] = w * scale if run.controlled[i] == 1 else loose * scale


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
def complete(run, multipliers, t, row):  # type: ignore[no-untyped-def]
    """Solve for the multipliers and accelerations that belong to a row, in place."""
    n = row.size
    if run.whole[OWN_MULTIPLIERS] == 0:
        return run_stage(multipliers, t, row, run.scratch[2], run.real[MULTIPLIER_TOLERANCE], 0.0, run.counters)
    trial = run.scratch[1]
    copy(row, trial)
    code = run_stage(multipliers, t, trial, run.scratch[2], run.real[MULTIPLIER_TOLERANCE], 0.0, run.counters)
    for i in range(run.whole[N_STEP], n):  # accelerations only
        row[i] = trial[i]
    return code


@inner
def look_after(run, t, row):  # type: ignore[no-untyped-def]
    """Quality and rate of ageing of the formulation's data at a row, into watched[0] and watched[1]."""
    run.watched[2] = t
    start = run.watched.ctypes.data
    return call_kernel(run.whole[MONITOR], row.ctypes.data, start + 16, start)


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


@inner
def attempt(run, step, stages, h, k):  # type: ignore[no-untyped-def]
    """One step of order k and size h into row 0. Returns CONVERGED or a cause (a Status value)."""
    n = run.whole[N_STEP]
    c = run.coefficients
    new = run.rows[run.slots[0]]
    nodes = run.nodes.ctypes.data
    if call_coefficients(run.whole[COEFFICIENTS], k, run.whole[NODES], nodes, c.ctypes.data) != 0:
        return NEWTON_FAILED
    t = run.nodes[0]
    past = min(run.whole[NODES], HISTORY)
    psi = run.scratch[0]
    combine(run, c, 1, past, 1, new, n)  # predictor
    combine(run, c, 1 + HISTORY, past, 1, psi, n)
    for i in range(n, new.size):  # accelerations are solved for where they are wanted, never extrapolated
        new[i] = 0.0
    x, d = unknowns(step), data(step)
    d[0] = t
    d[1] = h
    d[2] = c[0]
    for i in range(n):
        d[3 + i] = psi[i]
        x[i] = new[i]
    set_weights(run, h, new)
    if not abs(c[0] / run.real[FACTORED_AT] - 1.0) <= MOST_CHANGE:
        forget(step)
        run.real[FACTORED_AT] = c[0]
    before = run.counters[FACTORIZATIONS]
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
    if code == DIVERGED and run.counters[FACTORIZATIONS] == before:  # an old matrix may be to blame
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
    if code != CONVERGED:
        return cause_of(code, NEWTON_FAILED)
    for i in range(n):
        new[i] = x[i]
    if run.whole[N_STAGES] > 0:
        run.whole[PROJECTIONS] += 1
        code = correct(run, stages, t, new)
        if code != CONVERGED:
            return cause_of(code, PROJECTION_FAILED)
    if run.whole[MONITOR] != 0:
        look_after(run, t, new)
        if not (run.watched[0] >= WORST_QUALITY and run.watched[1] * abs(h) <= MOST_AGEING):
            return DATA_OUTDATED
    return CONVERGED


@inner
def error_of(run, stages, which):  # type: ignore[no-untyped-def]
    """Weighted local error of order k - 1 + which."""
    past = min(run.whole[NODES], HISTORY)
    combine(
        run, run.coefficients, 1 + 2 * HISTORY + which * (HISTORY + 1), past + 1, 0, run.estimate, run.whole[N_STEP]
    )
    if run.whole[PROJECT_ERROR] == 1:
        for i in range(run.whole[N_STAGES]):
            project_estimate(stages[i], run.estimate)
    return weighted_norm(run.estimate, run.weights[0], 0, run.whole[N_STEP])


@inner
def accept(run):  # type: ignore[no-untyped-def]
    """Row 0 becomes row 1; the oldest ring position becomes the new row 0."""
    last = run.slots[HISTORY]
    for i in range(HISTORY, 0, -1):
        run.slots[i] = run.slots[i - 1]
        run.nodes[i] = run.nodes[i - 1]
    run.slots[0] = last
    run.real[T] = run.nodes[1]
    if run.whole[NODES] < HISTORY:
        run.whole[NODES] += 1
    run.whole[STEPS] += 1
    run.whole[AT_ORDER] += 1
    run.whole[IN_A_ROW] = 0
    row = run.rows[run.slots[1]]
    for i in range(row.size):
        run.peak[i] = max(run.peak[i], abs(row[i]))


@inner
def choose(run, stages, error):  # type: ignore[no-untyped-def]
    """Order and size of the next step; called before `accept`."""
    k = run.whole[ORDER]
    best, ratio = k, factor_for(error, k, BIAS_SAME)
    if run.whole[AT_ORDER] > k:  # the estimates of other orders want k+1 steps at this one
        if k > 1:
            down = factor_for(error_of(run, stages, 0), k - 1, BIAS_DOWN)
            if down > ratio:
                best, ratio = k - 1, down
        if k < run.whole[MAX_ORDER] and run.whole[NODES] >= k + 2:
            up = factor_for(error_of(run, stages, 2), k + 1, BIAS_UP)
            if up > ratio:
                best, ratio = k + 1, up
        if best != k:
            run.whole[ORDER] = best
            run.whole[AT_ORDER] = -1
    if ratio >= GROW_LEAST or ratio < 1.0:
        return min(GROW_LIMIT, max(SHRINK_LIMIT, ratio))
    return 1.0
