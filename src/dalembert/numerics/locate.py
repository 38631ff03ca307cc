"""Events: sign changes found after a step, located on its interpolant, stored in the order of time.

[FC80] F. N. Fritsch, R. E. Carlson, Monotone piecewise cubic interpolation, SIAM J. Numer. Anal. 17 (1980) 238-246.
[DJ72] M. Dowell, P. Jarratt, A modified regula falsi method, BIT 11 (1971) 168-174 (the Illinois algorithm).

An event function is looked at with its time derivative at both ends of a step. If the cubic through these is monotone
[FC80] or far from zero, its signs at the ends tell all; if not, the step is looked at in pieces, and where the function
comes near to zero and goes away again within a piece, its extremum is searched for. So both zeros of a function that
dips below zero within a step are found.
"""

from __future__ import annotations

import numpy as np

from dalembert.numerics.dense import between
from dalembert.numerics.native import call_kernel, inner, merged
from dalembert.numerics.newton import CONVERGED
from dalembert.numerics.runstate import (
    EVENT_KERNEL,
    EVENT_PIECES,
    EVENTS_STORED,
    LAST_CAUSE,
    N_EVENTS,
    NOT_FINITE,
    TERMINAL,
    USER_ERROR,
    copy,
)

# rows of event_values: ends of the step, a point tried, how far from zero rounding errors reach, the start of the step
# before, points between the pieces
BEFORE, AFTER, TRIAL, NOISE, PREVIOUS, INSIDE = 0, 1, 2, 3, 4, 5
GOLDEN = 0.6180339887498949
MOST_DIPS = 20  # points tried in the search for an extremum
RESOLUTION = 2.2e-16  # of time
FINEST = 1e-16  # of a step, where time itself is near zero
SIGN_ONLY = 1e-290  # a value this small is the sign with which an event leaves a zero
SIMULTANEOUS = 1e-14  # events that are no further apart, relative to time, happen at once


@inner
def crosses(before, after, direction):  # type: ignore[no-untyped-def]
    """A sign change in the direction asked for; leaving an exact zero does not count twice."""
    up = before < 0.0 and after >= 0.0
    down = before > 0.0 and after <= 0.0
    return (up and direction >= 0) or (down and direction <= 0)


@inner
def evaluate_events(run, row, parameters, which):  # type: ignore[no-untyped-def]
    """Event functions and their rates at a row into event_values[which]; parameters[0] is the time."""
    out = run.event_values[which]
    if call_kernel(run.whole[EVENT_KERNEL], row.ctypes.data, parameters.ctypes.data, out.ctypes.data) < 0:
        run.whole[LAST_CAUSE] = USER_ERROR


@inner
def evaluate_at(run, stages, multipliers, parameters, order, t, which):  # type: ignore[no-untyped-def]
    """The same at a time within the last step; leaves the row in scratch[0]. False if there is no solution."""
    row = run.scratch[0]
    if between(run, stages, multipliers, order, t, row) != CONVERGED:
        return False
    parameters[0] = t
    evaluate_events(run, row, parameters, which)
    return True


@inner
def locate(run, stages, multipliers, parameters, order, i, left, f_left, right, f_right):  # type: ignore[no-untyped-def]
    """Time of event i between two times of different sign, to the precision of t: the first one behind the zero.

    Illinois algorithm [DJ72] on the interpolant, with bisection where that does not halve the interval in two steps.
    Leaves the row at the event in scratch[0]. Returns NaN if there is no solution.
    """
    finest = FINEST * abs(run.nodes[1] - run.nodes[2])
    side, width, tries = 0, abs(right - left), 0
    for _ in range(200):
        if abs(right - left) <= max(RESOLUTION * max(abs(left), abs(right)), finest) or f_right == 0.0:
            break
        t = right - f_right * (right - left) / (f_right - f_left)
        if abs(f_left) < SIGN_ONLY:
            t = 0.5 * (left + right)
        elif tries == 2:
            tries = 0
            if abs(right - left) > 0.5 * width:
                t = 0.5 * (left + right)
            width = abs(right - left)
        tries += 1
        if not (min(left, right) < t < max(left, right)):
            t = 0.5 * (left + right)
            if t in (left, right):
                break
        if not evaluate_at(run, stages, multipliers, parameters, order, t, TRIAL):
            return np.nan
        f = run.event_values[TRIAL, i]
        if (f < 0.0) == (f_left < 0.0) and f != 0.0:
            left, f_left = t, f
            if side == -1:
                f_right *= 0.5  # an end that stays loses half of its weight
            side = -1
        else:
            right, f_right = t, f
            if side == 1:
                f_left *= 0.5
            side = 1
    return right if between(run, stages, multipliers, order, right, run.scratch[0]) == CONVERGED else np.nan


@inner
def dip(run, stages, multipliers, parameters, order, i, left, right, sign):  # type: ignore[no-untyped-def]
    """A time at which event i, of this sign at both ends, has the other one; NaN if none is found (golden section)."""
    x, y = right - GOLDEN * (right - left), left + GOLDEN * (right - left)
    if not evaluate_at(run, stages, multipliers, parameters, order, x, TRIAL):
        return np.nan
    f_x = sign * run.event_values[TRIAL, i]
    if not evaluate_at(run, stages, multipliers, parameters, order, y, TRIAL):
        return np.nan
    f_y = sign * run.event_values[TRIAL, i]
    for _ in range(MOST_DIPS):
        if f_x <= 0.0:
            return x
        if f_y <= 0.0:
            return y
        if f_x < f_y:
            right, y, f_y = y, x, f_x
            x = right - GOLDEN * (right - left)
            t = x
        else:
            left, x, f_x = x, y, f_y
            y = left + GOLDEN * (right - left)
            t = y
        if not evaluate_at(run, stages, multipliers, parameters, order, t, TRIAL):
            return np.nan
        if t == x:
            f_x = sign * run.event_values[TRIAL, i]
        else:
            f_y = sign * run.event_values[TRIAL, i]
    return np.nan


@inner
def plain(run, i):  # type: ignore[no-untyped-def]
    """True if the signs of event i at the ends of the step tell all.

    So it is if the cubic through values and rates is monotone [FC80], or stays away from zero: it leaves the interval
    between its ends by less than 4/27 of each slope. Where rates are not known, the parabola through the start of the
    step before has to be monotone, or to stay away by as much as it changes.
    """
    n, h = run.whole[N_EVENTS], run.nodes[1] - run.nodes[2]
    before, after = run.event_values[BEFORE, i], run.event_values[AFTER, i]
    change, nearest = after - before, min(abs(before), abs(after))
    first, last = h * run.event_values[BEFORE, n + i], h * run.event_values[AFTER, n + i]
    if np.isnan(first) or np.isnan(last):
        bend = change - (before - run.event_values[PREVIOUS, i]) * h / (run.nodes[2] - run.nodes[3])
        return nearest > abs(change) + abs(bend) if before * after > 0.0 else abs(bend) < abs(change)
    if before * after > 0.0 and nearest > 0.25 * (abs(first) + abs(last)):
        return True
    return first * change >= 0.0 and last * change >= 0.0 and max(abs(first), abs(last)) <= 3.0 * abs(change)


@merged
def look_inside(run, stages, multipliers, parameters, order):  # type: ignore[no-untyped-def]
    """Event functions between the pieces of the step. False if there is no solution."""
    h = run.nodes[1] - run.nodes[2]
    for j in range(1, EVENT_PIECES):
        t = run.nodes[2] + h * j / EVENT_PIECES
        if not evaluate_at(run, stages, multipliers, parameters, order, t, INSIDE + j - 1):
            return False
    return True


@inner
def place(j):  # type: ignore[no-untyped-def]
    """Row of event_values that holds the end of piece j (0: the start of the step)."""
    return BEFORE if j == 0 else (AFTER if j == EVENT_PIECES else INSIDE + j - 1)


@inner
def turns(run, i, j):  # type: ignore[no-untyped-def]
    """True if event i, of one sign at both ends of piece j, may come near to zero and go away again within it."""
    n = run.whole[N_EVENTS]
    direction = 1.0 if run.nodes[1] >= run.nodes[2] else -1.0
    sign = 1.0 if run.event_values[place(j), i] > 0.0 else -1.0
    first, last = run.event_values[place(j - 1), n + i], run.event_values[place(j), n + i]
    if not (np.isnan(first) or np.isnan(last)):
        return direction * sign * first < 0.0 and direction * sign * last > 0.0
    return lowest(run, i, j - 1) or lowest(run, i, j)


@inner
def lowest(run, i, j):  # type: ignore[no-untyped-def]
    """True if event i is nearer to zero at the end of piece j than at its neighbours."""
    if j == 0 or j == EVENT_PIECES:
        return False
    here = abs(run.event_values[place(j), i])
    return here < abs(run.event_values[place(j - 1), i]) and here <= abs(run.event_values[place(j + 1), i])


@inner
def onwards(run, i, before, after):  # type: ignore[no-untyped-def]
    """The value that the next piece or step begins with.

    A zero at the end has been counted: it is taken as crossed. An event that starts at zero has no sign (0) until it
    has left it by more than rounding errors.
    """
    if before == 0.0:
        return after if abs(after) > run.event_values[NOISE, i] else 0.0
    return after if after != 0.0 else -before


@inner
def store_event(run, output, i, t, first):  # type: ignore[no-untyped-def]
    """Insert the event at t, whose row is in scratch[0], among those of this step, in the direction of time."""
    j = run.whole[EVENTS_STORED]
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


@inner
def bracketed(run, stages, multipliers, parameters, output, order, i, first, left, f_left, right, f_right):  # type: ignore[no-untyped-def]
    """Locate and store event i if it crosses zero between two times."""
    if not crosses(f_left, f_right, run.event_rules[0, i]):
        return
    t = locate(run, stages, multipliers, parameters, order, i, left, f_left, right, f_right)
    if np.isnan(t):  # no interpolant: the end of the step has to do
        t = run.nodes[1]
        copy(run.finished, run.scratch[0])
    store_event(run, output, i, t, first)


@merged
def search(run, stages, multipliers, parameters, output, order, i, first):  # type: ignore[no-untyped-def]
    """Find event i in the pieces of the step."""
    h = run.nodes[1] - run.nodes[2]
    left, f_left = run.nodes[2], run.event_values[BEFORE, i]
    for j in range(1, EVENT_PIECES + 1):
        right = run.nodes[1] if j == EVENT_PIECES else run.nodes[2] + h * j / EVENT_PIECES
        f_right = run.event_values[place(j), i]
        sign = 1.0 if f_left > 0.0 else -1.0
        if sign * f_left > 0.0 and sign * f_right > 0.0 and turns(run, i, j):
            t = dip(run, stages, multipliers, parameters, order, i, left, right, sign)
            if not np.isnan(t):
                evaluate_at(run, stages, multipliers, parameters, order, t, TRIAL)
                f = run.event_values[TRIAL, i]
                bracketed(run, stages, multipliers, parameters, output, order, i, first, left, f_left, t, f)
                bracketed(run, stages, multipliers, parameters, output, order, i, first, t, f, right, f_right)
        else:
            bracketed(run, stages, multipliers, parameters, output, order, i, first, left, f_left, right, f_right)
        left, f_left = right, onwards(run, i, f_left, f_right)


@inner
def watch(run, stages, multipliers, parameters, output, order):  # type: ignore[no-untyped-def]
    """Find, sort and store the events of the last step. Returns the time at which to stop, or NaN."""
    n = run.whole[N_EVENTS]
    parameters[0] = run.nodes[1]
    evaluate_events(run, run.finished, parameters, AFTER)
    for i in range(n):
        if np.isnan(run.event_values[AFTER, i]):
            run.whole[LAST_CAUSE] = NOT_FINITE
            return np.nan
    first = run.whole[EVENTS_STORED]
    looked, inside = False, False
    for i in range(n):
        if plain(run, i):
            before, after = run.event_values[BEFORE, i], run.event_values[AFTER, i]
            t0, t1 = run.nodes[2], run.nodes[1]
            bracketed(run, stages, multipliers, parameters, output, order, i, first, t0, before, t1, after)
            continue
        if not looked:
            looked, inside = True, look_inside(run, stages, multipliers, parameters, order)
        if inside:
            search(run, stages, multipliers, parameters, output, order, i, first)
        else:
            before, after = run.event_values[BEFORE, i], run.event_values[AFTER, i]
            t0, t1 = run.nodes[2], run.nodes[1]
            bracketed(run, stages, multipliers, parameters, output, order, i, first, t0, before, t1, after)
    stop = np.nan
    for j in range(first, run.whole[EVENTS_STORED]):
        i = output.event_index[j]
        if not np.isnan(stop) and abs(output.event_t[j] - stop) > SIMULTANEOUS * abs(stop):
            run.whole[EVENTS_STORED] = j  # what lies behind the end did not happen
            break
        if run.event_rules[1, i] > 0:
            run.event_rules[1, i] -= 1
            if run.event_rules[1, i] == 0 and np.isnan(stop):
                stop = output.event_t[j]
                run.whole[TERMINAL] = j
    for i in range(n):
        run.event_values[PREVIOUS, i] = run.event_values[BEFORE, i]
        run.event_values[BEFORE, n + i] = run.event_values[AFTER, n + i]
        run.event_values[BEFORE, i] = onwards(run, i, run.event_values[BEFORE, i], run.event_values[AFTER, i])
    return stop
