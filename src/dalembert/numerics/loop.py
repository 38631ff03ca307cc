"""The loop for implicit steps, compiled once for all methods, models and formulations.

What a method brings: a coefficient function (for a multistep method the weights of past rows) and the nonlinear
system of its step. What the loop does for all of them: predictor, Newton, projection, error test, step and order
control, multipliers, output, events. It returns to Python now and then (to draw a progress bar, to see Ctrl-C, to
grow the output); all its state is in the arrays of `Run`, so it goes on where it left off.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import types

from dalembert.numerics.control import (
    BIAS_DOWN,
    BIAS_SAME,
    BIAS_UP,
    GROW_LEAST,
    GROW_LIMIT,
    NEWTON_SHRINK,
    RETRY_SAFETY,
    SHRINK_LIMIT,
    factor_for,
    weighted_norm,
)
from dalembert.numerics.interpolation import lagrange_weights
from dalembert.numerics.native import call_coefficients, call_kernel, inner
from dalembert.numerics.newton import CONVERGED, DIVERGED, FACTORIZATIONS, NEWTON_TYPE, data, newton, unknowns
from dalembert.numerics.newton import NOT_FINITE as NEWTON_NOT_FINITE
from dalembert.numerics.newton import SINGULAR as NEWTON_SINGULAR
from dalembert.numerics.newton import USER_ERROR as NEWTON_USER_ERROR
from dalembert.numerics.stage import STAGE_TYPE, project_estimate, run_stage
from dalembert.status import Status

# what the loop returns: members of Status
SUCCESS = int(Status.SUCCESS)
EVENT = int(Status.EVENT)
RUNNING = int(Status.RUNNING)
MAX_STEPS = int(Status.MAX_STEPS)
STEP_TOO_SMALL = int(Status.STEP_TOO_SMALL)
SINGULAR = int(Status.SINGULAR)
NEWTON_FAILED = int(Status.NEWTON_FAILED)
PROJECTION_FAILED = int(Status.PROJECTION_FAILED)
NOT_FINITE = int(Status.NOT_FINITE)
USER_ERROR = int(Status.USER_ERROR)
MULTIPLIERS_FAILED = int(Status.MULTIPLIERS_FAILED)
DATA_OUTDATED = int(Status.DATA_OUTDATED)

# data of a formulation: renewed below RENEW; a step that leaves it below WORST, or ages it too much, is repeated
RENEW_QUALITY, WORST_QUALITY, MOST_AGEING = 0.7, 0.2, 0.7

MOST_ITERATIONS = 10  # of Newton in a step

HISTORY = 9  # past rows kept: order 6 needs 6 for the step and 8 for the estimate of order 7
N_COEFFICIENTS = 1 + 2 * HISTORY + 3 * (HISTORY + 1)

# positions in Run.real
T, H, T_END, H_MAX, NEWTON_TOLERANCE, REUSE, STAGE_TOLERANCE, H_ACCEPTED, MULTIPLIER_TOLERANCE, STALL = range(10)
N_REAL = 10
# positions in Run.whole
(
    ORDER, NODES, AT_ORDER, STEPS, REJECTED, FAILURES, STORED, NEXT_EVAL, PROJECTIONS, IN_A_ROW, LAST_CAUSE,
    MAX_ORDER, FIXED, N_STAGES, OWN_MULTIPLIERS, N_EVAL, N_STEP, STEP_LIMIT, PROJECT_ERROR, N_EVENTS, EVENTS_STORED,
    TERMINAL, STORE_STEPS, CHUNK_END, COEFFICIENTS, EVENT_KERNEL, MONITOR, CHANGE_DATA,
) = range(28)  # fmt: skip
N_WHOLE = 28


class Run(NamedTuple):
    """State, options and work space of a run."""

    real: np.ndarray  # see T, H, ... above
    whole: np.ndarray  # see ORDER, ... above
    nodes: np.ndarray  # (HISTORY + 1,): new time, then past times, newest first
    rows: np.ndarray  # (HISTORY + 1, n): a ring of rows
    slots: np.ndarray  # (HISTORY + 1,): slots[i] is the ring position of row i, 0 the new one
    coefficients: np.ndarray
    estimate: np.ndarray  # (n,)
    scratch: np.ndarray  # (3, n)
    rtol: np.ndarray  # (n,)
    atol: np.ndarray  # (n,)
    power: np.ndarray  # (n,): error and update are weighted by h^power
    controlled: np.ndarray  # (n,): 1 if in the error test
    peak: np.ndarray  # (n,): largest magnitude so far
    weights: np.ndarray  # (2, n): of the error test, of Newton
    steps: np.ndarray  # prescribed step sizes, empty if free
    t_eval: np.ndarray
    counters: np.ndarray
    event_values: np.ndarray  # (3, n_events): before, after, at a trial point
    event_rules: np.ndarray  # (2, n_events): direction, remaining count before the run ends (0: never)
    watched: np.ndarray  # [quality, rate], then t, p and the data of the formulation


class Output(NamedTuple):
    """What is stored."""

    t: np.ndarray
    rows: np.ndarray
    order: np.ndarray
    event_t: np.ndarray
    event_index: np.ndarray
    event_rows: np.ndarray


_f8, _i8 = types.float64[::1], types.int64[::1]
_m8 = types.float64[:, ::1]
RUN_TYPE = types.NamedTuple(
    [
        _f8,
        _i8,
        _f8,
        _m8,
        _i8,
        _f8,
        _f8,
        _m8,
        _f8,
        _f8,
        _i8,
        _i8,
        _f8,
        _m8,
        _f8,
        _f8,
        _i8,
        _m8,
        types.int64[:, ::1],
        _f8,
    ],
    Run,
)
OUTPUT_TYPE = types.NamedTuple([_f8, _m8, _i8, _f8, _i8, _m8], Output)


@inner
def copy(source, target):  # type: ignore[no-untyped-def]
    for i in range(source.size):
        target[i] = source[i]


@inner
def combine(run, weights, first, count, start, out, n):  # type: ignore[no-untyped-def]
    """out[:n] = sum of weights[first + i] * row[start + i]."""
    for j in range(n):
        out[j] = 0.0
    for i in range(count):
        w = weights[first + i]
        if w != 0.0:
            row = run.rows[run.slots[start + i]]
            for j in range(n):
                out[j] += w * row[j]


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
def interpolate(run, order, t, out):  # type: ignore[no-untyped-def]
    """Row at t by the polynomial of the last accepted step (rows 1 .. order+1)."""
    w = run.coefficients
    count = min(order, run.whole[NODES] - 1) + 1
    lagrange_weights(t, run.nodes, 1, count, w)
    combine(run, w, 0, count, 1, out, out.size)


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


@inner
def store(run, output, t, row, order):  # type: ignore[no-untyped-def]
    i = run.whole[STORED]
    output.t[i] = t
    copy(row, output.rows[i])
    output.order[i] = order
    run.whole[STORED] = i + 1


@inner
def crosses(before, after, direction):  # type: ignore[no-untyped-def]
    """A sign change in the direction asked for; leaving an exact zero does not count twice."""
    up = before < 0.0 and after >= 0.0
    down = before > 0.0 and after <= 0.0
    return (up and direction >= 0) or (down and direction <= 0)


@inner
def evaluate_events(run, row, parameters, which):  # type: ignore[no-untyped-def]
    """Event functions at a row into event_values[which]; parameters[0] is the time."""
    out = run.event_values[which]
    if call_kernel(run.whole[EVENT_KERNEL], row.ctypes.data, parameters.ctypes.data, out.ctypes.data) < 0:
        run.whole[LAST_CAUSE] = USER_ERROR


@inner
def locate(run, stages, multipliers, parameters, index, order):  # type: ignore[no-untyped-def]
    """Time of event ``index`` within the last step, by bisection safeguarded regula falsi on the interpolant.

    Leaves the row at the event in scratch[0]. Returns the time (NaN if the row could not be completed).
    """
    left, right = run.nodes[2], run.nodes[1]
    f_left, f_right = run.event_values[0, index], run.event_values[1, index]
    row = run.scratch[0]
    side = 0
    for _ in range(200):
        if abs(right - left) <= 4e-16 * max(abs(left), abs(right)) or f_right == 0.0:
            break
        t = right - f_right * (right - left) / (f_right - f_left)
        if not (min(left, right) < t < max(left, right)):
            t = 0.5 * (left + right)
            if t in (left, right):
                break
        interpolate(run, order, t, row)
        if correct(run, stages, t, row) != CONVERGED or complete(run, multipliers, t, row) != CONVERGED:
            return np.nan
        parameters[0] = t
        evaluate_events(run, row, parameters, 2)
        f = run.event_values[2, index]
        if (f < 0.0) == (f_left < 0.0) and f != 0.0:
            left, f_left = t, f
            if side == -1:
                f_right *= 0.5  # Illinois: an end that stays loses half of its weight
            side = -1
        else:
            right, f_right = t, f
            if side == 1:
                f_left *= 0.5
            side = 1
    interpolate(run, order, right, row)
    if correct(run, stages, right, row) != CONVERGED:
        return np.nan
    if complete(run, multipliers, right, row) != CONVERGED:
        return np.nan
    return right


@inner
def watch(run, stages, multipliers, parameters, output, order):  # type: ignore[no-untyped-def]
    """Find, sort and store the events of the last step. Returns the terminal time, or NaN."""
    n = run.whole[N_EVENTS]
    row = run.rows[run.slots[1]]
    parameters[0] = run.nodes[1]
    evaluate_events(run, row, parameters, 1)
    first = run.whole[EVENTS_STORED]
    for i in range(n):
        if not crosses(run.event_values[0, i], run.event_values[1, i], run.event_rules[0, i]):
            continue
        t = locate(run, stages, multipliers, parameters, i, order)
        if np.isnan(t):
            t = run.nodes[1]
            copy(row, run.scratch[0])
        j = run.whole[EVENTS_STORED]  # insertion sort in the direction of time
        forward = run.nodes[1] >= run.nodes[2]
        while j > first and ((output.event_t[j - 1] > t) == forward) and output.event_t[j - 1] != t:
            output.event_t[j] = output.event_t[j - 1]
            output.event_index[j] = output.event_index[j - 1]
            copy(output.event_rows[j - 1], output.event_rows[j])
            j -= 1
        output.event_t[j] = t
        output.event_index[j] = i
        copy(run.scratch[0], output.event_rows[j])
        run.whole[EVENTS_STORED] += 1
    stop = np.nan
    for j in range(first, run.whole[EVENTS_STORED]):
        i = output.event_index[j]
        if run.event_rules[1, i] > 0:
            run.event_rules[1, i] -= 1
            if run.event_rules[1, i] == 0:
                stop = output.event_t[j]
                run.whole[TERMINAL] = j
                run.whole[EVENTS_STORED] = j + 1  # later ones lie behind the end
                break
    for i in range(n):
        if run.event_values[1, i] != 0.0 or run.event_values[0, i] == 0.0:
            run.event_values[0, i] = run.event_values[1, i]
        else:  # a zero exactly at the end of a step was counted now; take it as crossed
            run.event_values[0, i] = -run.event_values[0, i]
    return stop


def _integrate(run, step, stages, multipliers, parameters, output):  # type: ignore[no-untyped-def]
    """Advance until the end, a terminal event, a failure, or until Python is wanted (RUNNING)."""
    forward = run.real[T_END] >= run.real[T]
    while True:
        t, t_end = run.real[T], run.real[T_END]
        if t == t_end:
            return SUCCESS
        if run.whole[STEPS] >= run.whole[STEP_LIMIT]:
            return MAX_STEPS
        if run.whole[STEPS] >= run.whole[CHUNK_END]:
            return RUNNING
        room = output.t.size - run.whole[STORED]
        if room < 2 or output.event_t.size - run.whole[EVENTS_STORED] <= run.whole[N_EVENTS]:
            return RUNNING
        fixed = run.whole[FIXED] == 1
        if fixed:
            h = run.steps[run.whole[STEPS]]
            t_new = t_end if run.whole[STEPS] + 1 == run.steps.size else t + h
            h = t_new - t
        else:
            h = run.real[H]
            if abs(h) > run.real[H_MAX]:
                h = run.real[H_MAX] if forward else -run.real[H_MAX]
            left = t_end - t
            if abs(h) >= abs(left) * (1.0 - 1e-9):
                h = left
            elif abs(h) * 2.0 > abs(left):  # two equal steps rather than a sliver at the end
                h = 0.5 * left
            t_new = t_end if h == left else t + h
            h = t_new - t
            if abs(h) <= 4e-16 * max(abs(t), abs(t_new)) or h == 0.0:
                cause = run.whole[LAST_CAUSE]
                return cause if cause != 0 else STEP_TOO_SMALL
        run.nodes[0] = t_new
        k = min(run.whole[ORDER], run.whole[NODES])
        result = attempt(run, step, stages, h, k)
        new = run.rows[run.slots[0]]
        if result != CONVERGED:
            if result == USER_ERROR or fixed:
                return result
            run.whole[FAILURES] += 1
            run.whole[IN_A_ROW] += 1
            run.whole[LAST_CAUSE] = result
            run.real[H] = h * NEWTON_SHRINK
            if run.whole[IN_A_ROW] >= 3:
                run.whole[ORDER] = 1
                run.whole[AT_ORDER] = 0
            continue
        ratio = 1.0
        if not fixed:
            run.whole[ORDER] = k
            set_weights(run, h, new)
            error = error_of(run, stages, 1)
            if not error <= 1.0:
                run.whole[REJECTED] += 1
                run.whole[IN_A_ROW] += 1
                run.whole[LAST_CAUSE] = 0 if np.isfinite(error) else NOT_FINITE
                if run.whole[IN_A_ROW] <= 2 and np.isfinite(error):
                    ratio = max(SHRINK_LIMIT, RETRY_SAFETY * factor_for(error, k, 1.5))
                else:
                    ratio = NEWTON_SHRINK
                    run.whole[ORDER] = max(1, k - 1) if run.whole[IN_A_ROW] < 5 else 1
                    run.whole[AT_ORDER] = 0
                run.real[H] = h * min(ratio, 0.9)
                continue
            ratio = choose(run, stages, error)
            run.real[H] = h * ratio
        if run.whole[STORE_STEPS] == 1 or run.whole[N_EVENTS] > 0:
            code = complete(run, multipliers, t_new, new)
            if code != CONVERGED:
                run.whole[LAST_CAUSE] = cause_of(code, MULTIPLIERS_FAILED)
                if fixed or code == NEWTON_USER_ERROR:
                    return run.whole[LAST_CAUSE]
                run.whole[FAILURES] += 1
                run.whole[IN_A_ROW] += 1
                run.real[H] = h * NEWTON_SHRINK
                continue
        run.real[H_ACCEPTED] = h
        accept(run)
        if run.whole[MONITOR] != 0:
            rate = run.watched[1]
            if rate * abs(run.real[H]) > 0.9 * MOST_AGEING:
                run.real[H] *= 0.9 * MOST_AGEING / (rate * abs(run.real[H]))
            if run.watched[0] < RENEW_QUALITY:
                run.whole[CHANGE_DATA] = 1
        run.whole[LAST_CAUSE] = 0
        stop = np.nan
        if run.whole[N_EVENTS] > 0:
            stop = watch(run, stages, multipliers, parameters, output, k)
            if run.whole[LAST_CAUSE] == USER_ERROR:
                return USER_ERROR
        limit = stop if not np.isnan(stop) else t_new
        while run.whole[NEXT_EVAL] < run.whole[N_EVAL]:
            when = run.t_eval[run.whole[NEXT_EVAL]]
            if (when > limit) == forward and when != limit:
                break
            if output.t.size - run.whole[STORED] < 2:
                return RUNNING
            row = run.scratch[0]
            if when == t_new:
                copy(run.rows[run.slots[1]], row)
            else:
                interpolate(run, k, when, row)
                code = correct(run, stages, when, row)
                if code != CONVERGED:
                    return cause_of(code, PROJECTION_FAILED)
            code = complete(run, multipliers, when, row)
            if code != CONVERGED:
                return cause_of(code, MULTIPLIERS_FAILED)
            store(run, output, when, row, k)
            run.whole[NEXT_EVAL] += 1
        if run.whole[STORE_STEPS] == 1:
            if not np.isnan(stop):
                store(run, output, stop, output.event_rows[run.whole[TERMINAL]], k)
            else:
                store(run, output, t_new, run.rows[run.slots[1]], k)
        if not np.isnan(stop):
            return EVENT
        if run.whole[CHANGE_DATA] == 1:
            return RUNNING


SIGNATURE = types.int64(
    RUN_TYPE, NEWTON_TYPE, types.UniTuple(STAGE_TYPE, 3), STAGE_TYPE, types.float64[::1], OUTPUT_TYPE
)
