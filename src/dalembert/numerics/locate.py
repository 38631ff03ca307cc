"""Events: sign changes found after a step, located on its interpolant, stored in the order of time."""

from __future__ import annotations

import numpy as np

from dalembert.numerics.dense import between
from dalembert.numerics.native import call_kernel, inner
from dalembert.numerics.newton import CONVERGED
from dalembert.numerics.runstate import (
    EVENT_KERNEL,
    EVENTS_STORED,
    LAST_CAUSE,
    N_EVENTS,
    TERMINAL,
    USER_ERROR,
    copy,
)


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
        if between(run, stages, multipliers, order, t, row) != CONVERGED:
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
    return right if between(run, stages, multipliers, order, right, row) == CONVERGED else np.nan


@inner
def watch(run, stages, multipliers, parameters, output, order):  # type: ignore[no-untyped-def]
    """Find, sort and store the events of the last step. Returns the terminal time, or NaN."""
    n = run.whole[N_EVENTS]
    row = run.finished
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
