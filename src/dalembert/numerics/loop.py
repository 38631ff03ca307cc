"""The loop for implicit steps, compiled once for all methods, models and formulations.

What a method brings: a coefficient function (for a multistep method the weights of past rows) and the nonlinear
system of its step. What the loop does for all of them: predictor, Newton, projection, error test, step and order
control, multipliers, output, events. It returns to Python now and then (to draw a progress bar, to see Ctrl-C, to
grow the output); all its state is in the arrays of `Run`, so it goes on where it left off.
"""

from __future__ import annotations

import numpy as np

from dalembert.numerics.call import CALL_TYPE
from dalembert.numerics.control import NEWTON_SHRINK, RETRY_SAFETY, SHRINK_LIMIT, factor_for
from dalembert.numerics.dense import between
from dalembert.numerics.locate import watch
from dalembert.numerics.memory import record_at, unfold
from dalembert.numerics.native import inlined, merged
from dalembert.numerics.newton import CONVERGED
from dalembert.numerics.newton import USER_ERROR as NEWTON_USER_ERROR
from dalembert.numerics.opening import open_here, put_motion
from dalembert.numerics.rank import SUSPECT, begin_watch, smallest_now, watch_rank
from dalembert.numerics.regular import regrid
from dalembert.numerics.runstate import (
    ALARMED,
    ALLOWED,
    AT_ORDER,
    CHANGE_DATA,
    CHUNK_END,
    DATA_OUTDATED,
    ESTIMATED,
    EVENT,
    EVENTS_PER_STEP,
    EVENTS_STORED,
    EXACT,
    EXPECTED,
    FAILURES,
    FIXED,
    FOUND,
    H_ACCEPTED,
    H_MAX,
    IN_A_ROW,
    LANE_KERNEL,
    LAST_CAUSE,
    LENGTH,
    LOOKS,
    MAX_STEPS,
    MONITOR,
    MOST_AGEING,
    MOST_H,
    MOST_TROUBLE,
    MULTIPLIERS_FAILED,
    N_EVAL,
    N_EVENTS,
    N_PAST,
    NEWTON_SOLVE,
    NEXT_EVAL,
    NODES,
    NOT_FINITE,
    NOT_OPENED,
    OPENS,
    ORDER,
    OWN_MULTIPLIERS,
    PROJECTION_FAILED,
    REACH,
    REGULAR,
    REJECTED,
    REJECTED_AT,
    RENEW_QUALITY,
    RESERVE,
    RUNNING,
    SEEDED,
    STEP_LIMIT,
    STEP_TOO_SMALL,
    STEPS,
    STORE_STEPS,
    STORED,
    SUCCESS,
    T_END,
    TERMINAL,
    TROUBLE,
    USER_ERROR,
    H,
    T,
    copy,
)
from dalembert.numerics.step import (
    accept,
    attempt,
    cause_of,
    choose,
    complete,
    early,
    error_of,
    set_weights,
    still_good,
)
from dalembert.numerics.stiffness import judge_start
from dalembert.numerics.sweeps import error_to_control

SHORT = 0.5  # of the last steps: one that is shorter makes us look for a loss of rank ahead
SWEEPS_SHRINK = 0.5  # after sweeps that diverge
# Newton's method converges far beyond where polynomials follow the motion: errors of steps that fail, over a transition
# that is shorter than they are, fall little before they end ahead of it. They are halved, and the next one is as long,
# which ends where this one did.
NEWTON_HALF = 0.5
# A step whose sweeps diverged does not tell how long it may be: the next ones grow up to this part of it, then slowly.
FAR_ENOUGH, SLOWLY = 0.75, 1.2
CLOSE = 0.1  # smallest singular value of the constraints, scaled by their sizes at the start, that means one


@inlined
def store(run, output, t, row, order):  # type: ignore[no-untyped-def]
    i = run.whole[STORED]
    output.t[i] = t
    copy(row, output.rows[i])
    output.order[i] = order
    run.whole[STORED] = i + 1


def _advance(block, folded, q0, v0):  # type: ignore[no-untyped-def]
    """`_integrate` what a block is the call of; that is made here, if it is given folded."""
    if folded.size > 0:
        unfold_here(folded, block)
    return integrate(call_at(block.ctypes.data), q0, v0)


def _integrate(call, q0, v0):  # type: ignore[no-untyped-def]
    """Advance until the end, a terminal event, a failure, or until Python is wanted (RUNNING).

    A run that is not open yet begins with a row of initial values and their tolerances (else these are not looked at),
    and ends there if it LOOKS whether it is stiff, and it is not as EXPECTED. Positions and velocities may be given
    beside it; then it has only them.
    """
    run, work, output = call.run, call.work, call.output
    row0, steps, t_eval, seeds = call.row, call.steps, call.t_eval, call.seeds
    opens = run.whole[OPENS] == 1
    if opens:
        if q0.size > 0:
            put_motion(work.model.blocks, q0, v0, row0)
        if not open_here(run, work, row0, call.rtol, call.atol):
            return NOT_OPENED
        first = t_eval.size > 0 and t_eval[0] == run.real[T]
        if first or run.whole[STORE_STEPS] == 1:
            store(run, output, run.real[T], row0, run.whole[ORDER])
        run.whole[NEXT_EVAL] = int(first)
        if run.whole[LOOKS] == 1:
            run.whole[FOUND] = judge_start(run, work)
            if run.whole[FOUND] != run.whole[EXPECTED]:
                return RUNNING
    step, stages, dense, multipliers = work.step, work.stages, work.dense, work.multipliers
    parameters, solvers = work.model.parameters, (stages[0], stages[1], stages[2], multipliers)
    forward = run.real[T_END] >= run.real[T]
    if run.whole[STEPS] == 0:
        begin_watch(run, solvers, opens and run.real[ALLOWED] >= 0.0)
    while True:
        t, t_end = run.real[T], run.real[T_END]
        if t == t_end:
            return SUCCESS
        if run.whole[STEPS] >= run.whole[STEP_LIMIT]:
            return MAX_STEPS
        if run.whole[STEPS] >= run.whole[CHUNK_END]:
            return RUNNING
        room = output.t.size - run.whole[STORED]
        if room < 2 or output.event_t.size - run.whole[EVENTS_STORED] <= EVENTS_PER_STEP * run.whole[N_EVENTS]:
            return RUNNING
        fixed = run.whole[FIXED] == 1
        seeded = run.whole[SEEDED] < seeds.shape[0]
        if run.whole[TROUBLE] >= MOST_TROUBLE and not fixed and not seeded:
            run.whole[CHANGE_DATA] = 2
            return RUNNING
        if fixed:
            h = steps[run.whole[STEPS]]
            t_new = t_end if run.whole[STEPS] + 1 == steps.size else t + h
            h = t_new - t
        elif seeded:
            h = run.real[H]
            t_new = t_end if abs(t_end - t - h) <= 1e-6 * abs(h) else t + h
        else:
            h = run.real[H]
            if abs(h) > run.real[H_MAX]:
                h = run.real[H_MAX] if forward else -run.real[H_MAX]
            left = t_end - t
            reach = max(min(abs(h) * run.real[REACH], run.real[H_MAX]), abs(h) * (1.0 + 1e-9))
            if reach >= abs(left):
                h = left
            elif abs(h) * 2.0 > abs(left):  # two equal steps rather than a sliver at the end
                h = 0.5 * left
            t_new = t_end if h == left else t + h
            h = t_new - t
            if abs(h) <= max(4e-16 * max(abs(t), abs(t_new)), 1e-25 * abs(t_end)) or h == 0.0:
                cause = run.whole[LAST_CAUSE]
                return cause if cause != 0 else STEP_TOO_SMALL
        run.nodes[0] = t_new
        k = min(run.whole[ORDER], run.whole[NODES] - run.whole[RESERVE])
        new = run.rows[run.slots[0]]
        if seeded:
            copy(seeds[run.whole[SEEDED]], new)
            run.orders[0] = EXACT
            result = CONVERGED if still_good(run, t_new, new, h) else DATA_OUTDATED
        else:
            if run.whole[REGULAR] == 1:
                regrid(run, h, k)
            result = attempt(run, step, stages, h, k)
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
        if not fixed and not seeded:
            run.whole[ORDER] = k
            if early(run):
                error = run.real[ESTIMATED]
            else:
                set_weights(run, h, new)
                error = error_of(run, step, stages, 1, 0)
            if not error <= 1.0:
                run.whole[REJECTED] += 1
                run.real[REACH] = 1.0
                run.whole[REJECTED_AT] = run.whole[STEPS]
                run.real[MOST_H] = FAR_ENOUGH * abs(h) if run.whole[NEWTON_SOLVE] == 0 else 0.0
                run.whole[IN_A_ROW] += 1
                run.whole[LAST_CAUSE] = 0 if np.isfinite(error) else NOT_FINITE
                if run.whole[IN_A_ROW] <= 2 and np.isfinite(error):
                    least = SHRINK_LIMIT if run.whole[LANE_KERNEL] == 0 else SWEEPS_SHRINK
                    ratio = max(least, RETRY_SAFETY * factor_for(error, k, 1.5))
                    if run.whole[NEWTON_SOLVE] != 0:
                        ratio = NEWTON_HALF
                else:
                    ratio = NEWTON_SHRINK
                    run.whole[ORDER] = max(1, k - 1) if run.whole[IN_A_ROW] < 5 else 1
                    run.whole[AT_ORDER] = 0
                run.real[H] = h * min(ratio, 0.9)
                continue
            ratio = choose(run, step, stages, error_to_control(run, error))
            if run.whole[LANE_KERNEL] != 0 and run.real[MOST_H] > 0.0:
                ratio = min(ratio, max(run.real[MOST_H] / abs(h), 1.0))
                run.real[MOST_H] *= SLOWLY
            if run.whole[NEWTON_SOLVE] != 0 and run.whole[IN_A_ROW] > 0:
                ratio = min(ratio, 1.0)
            run.real[H] = h * ratio
        if run.whole[STORE_STEPS] == 1 or run.whole[N_EVENTS] > 0:
            # a copy: what is reported must not change what the next steps see
            copy(new, run.finished)
            code = complete(run, multipliers, t_new, run.finished)
            if code != CONVERGED:
                run.whole[LAST_CAUSE] = cause_of(code, MULTIPLIERS_FAILED)
                if fixed or seeded or code == NEWTON_USER_ERROR:
                    return run.whole[LAST_CAUSE]
                run.whole[FAILURES] += 1
                run.whole[IN_A_ROW] += 1
                run.real[H] = h * NEWTON_SHRINK
                continue
        run.real[H_ACCEPTED] = h
        run.whole[SEEDED] += int(seeded)
        accept(run)
        completed = run.whole[STORE_STEPS] == 1 or run.whole[N_EVENTS] > 0
        completed = completed and (run.whole[OWN_MULTIPLIERS] == 0 or run.whole[N_PAST] < run.finished.size)
        watch_rank(run, solvers, t_new, run.rows[run.slots[1]], not seeded, completed)
        # accelerations of stages, which are not on the constraints, grow without bound where these lose rank
        short = run.whole[LANE_KERNEL] != 0 and abs(h) < SHORT * run.real[LENGTH] and run.whole[ALARMED] == 0
        if short and smallest_now(run, solvers, t_new, run.rows[run.slots[1]]) < CLOSE:
            run.whole[ALARMED] = 1
        if run.whole[MONITOR] != 0:
            rate = run.watched[1]
            if rate * abs(run.real[H]) > 0.9 * MOST_AGEING:
                run.real[H] *= 0.9 * MOST_AGEING / (rate * abs(run.real[H]))
            if run.watched[0] < RENEW_QUALITY:
                run.whole[CHANGE_DATA] = 1
        run.whole[LAST_CAUSE] = 0
        stop = np.nan
        if run.whole[N_EVENTS] > 0:
            stop = watch(run, dense, multipliers, parameters, output, k)
            if run.whole[LAST_CAUSE] != 0:  # an event function failed
                return run.whole[LAST_CAUSE]
        limit = stop if not np.isnan(stop) else t_new
        while run.whole[NEXT_EVAL] < run.whole[N_EVAL]:
            when = t_eval[run.whole[NEXT_EVAL]]
            if (when > limit) == forward and when != limit:
                break
            if output.t.size - run.whole[STORED] < 2:
                return RUNNING
            row = run.scratch[0]
            if when == t_new:
                copy(run.rows[run.slots[1]], row)
                code = complete(run, multipliers, when, row)
                if code != CONVERGED:
                    return cause_of(code, MULTIPLIERS_FAILED)
            else:
                code = between(run, dense, multipliers, k, when, row)
                if code != CONVERGED:
                    return cause_of(code, PROJECTION_FAILED)
            store(run, output, when, row, k)
            run.whole[NEXT_EVAL] += 1
        if run.whole[STORE_STEPS] == 1:
            mark = -run.whole[SEEDED] if seeded else k
            if not np.isnan(stop):
                store(run, output, stop, output.event_rows[run.whole[TERMINAL]], mark)
            else:
                store(run, output, t_new, run.finished, mark)
        if not np.isnan(stop):
            return EVENT
        if run.whole[CHANGE_DATA] == 1 or run.ranked[SUSPECT] != 0:
            return RUNNING
        if run.whole[ALARMED] == 1:
            return RUNNING


unfold_here, integrate, call_at = merged(unfold), merged(_integrate), record_at(CALL_TYPE)
