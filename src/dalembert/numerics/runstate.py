"""The state of a run, as plain arrays: what the compiled loop reads and writes.

Because everything is in arrays, a run can stop at any step, be looked at, and go on.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import types

from dalembert.numerics.memory import Parts, Record
from dalembert.numerics.native import inlined
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

EXACT = 99  # order of rows that no step has made
MOST_TROUBLE = 3  # reductions of the step close together after which a method on a regular grid begins anew
MOST_ITERATIONS = 10  # of Newton in a step
MOST_CHANGE = 0.25  # of the leading coefficient before the matrix is renewed

HISTORY = 12  # past rows kept: order 6 needs 8 for the estimate of order 7, modified BDF of order 5 looks back 10
# What a coefficient function writes: two numbers for the step equations, then the weights of past rows in the
# predictor and in two combinations that enter the step equations, then (new row first) those of the error estimates of
# orders k-1, k, k+1, for each of these the factor that makes an estimate for q one for v, (new row first) the weights
# of positions in a correction of the velocities, and the largest growth of the step that is stable (0: the usual).
N_NUMBERS = 2
PREDICTOR = N_NUMBERS
FIRST = PREDICTOR + HISTORY
SECOND = FIRST + HISTORY
ESTIMATE = SECOND + HISTORY
VELOCITY = ESTIMATE + 3 * (HISTORY + 1)
REFINE = VELOCITY + 3
GROWTH = REFINE + HISTORY + 1
N_COEFFICIENTS = GROWTH + 1
WINDOW = 9  # rows that a point of a regular grid is made from, at most
N_WORK = HISTORY * WINDOW + 2 * HISTORY  # work space behind the coefficients

EVENT_PIECES = 4  # of a step in which events are looked for where they need not be monotone
EVENT_ROWS = 5 + EVENT_PIECES - 1
EVENTS_PER_STEP = 2 * EVENT_PIECES  # of one function, at most

# positions in Run.real
(
    T, H, T_END, H_MAX, NEWTON_TOLERANCE, REUSE, STAGE_TOLERANCE, H_ACCEPTED, MULTIPLIER_TOLERANCE, STALL, FACTORED_AT,
    ESTIMATE_SCALE, SPACING, ROUNDING, FORMER_ERROR, ESTIMATED, CONTRACTION, LAST_RATE, LENGTH, ALLOWED, MOST_RTOL,
    MOST_ATOL, LOW_TERMS, HIGH_TERMS, HELD_LOW, HELD_HIGH, FASTEST, SPARED, MISSED,
    MOST_H, LAST_CHANGE, REACH, SHARE,
) = range(33)  # fmt: skip
N_ORDERS = 8  # orders 0 to 7, whose estimates are weighted by real[SHARE], real[SHARE + 1], ...
N_REAL = SHARE + N_ORDERS
# positions in Run.whole
(
    ORDER, NODES, AT_ORDER, STEPS, REJECTED, FAILURES, STORED, NEXT_EVAL, PROJECTIONS, IN_A_ROW, LAST_CAUSE,
    MAX_ORDER, FIXED, N_STAGES, OWN_MULTIPLIERS, N_EVAL, N_STEP, STEP_LIMIT, PROJECT_ERROR, N_EVENTS, EVENTS_STORED,
    TERMINAL, STORE_STEPS, CHUNK_END, COEFFICIENTS, EVENT_KERNEL, MONITOR, CHANGE_DATA, N_PAST, START, UPDATE, ERROR,
    RESERVE, SINCE_CHANGE, REGULAR, GRID_ORDER, SEEDED, BARRED_UNTIL, PENALTY, TROUBLE, GUARDED, RESPONSE, N_DENSE,
    PREPARED, INNER_POINTS, ROUGH_STEPS, N_LAST, EXPLICIT, PROJECT_STEPS, STARTING,
    FORGETS, LANE_KERNEL, AMBIENT, SWEEPS, N_MOVED, HELD, MADE, SWEPT, LANE_WORK, KINKED, ALARMED, LINE,
    OPENS, START_ORDER, LANES_AT, LOOKS, EXPECTED, FOUND, REJECTED_AT,
    DONE, NEWTON_JACOBIAN, NEWTON_FACTOR, NEWTON_SOLVE, N_JACOBIAN, N_FACTORS, NEWTON_WORK, N_OWN, JACOBIAN_AT,
) = range(78)  # fmt: skip
N_WHOLE = 78
NOT_OPENED = -1  # what the loop returns if Python has to look closer at where a run starts


class RunArrays(NamedTuple):
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
    weights: np.ndarray  # (2, max(n, n_step)): of the error test (row), of Newton (unknowns)
    weight_of: np.ndarray  # (2, n_step): row entry whose weight an unknown takes, and the power of h it is times
    # (3, n): row entry an error estimate is made from; 1 if it is q for v; entry with more of its digits, or -1. Such
    # entries have 2 instead of 1
    source: np.ndarray
    orders: np.ndarray  # (HISTORY + 1,): order of the step that made each row
    counters: np.ndarray
    event_values: np.ndarray  # (EVENT_ROWS, 2 n_events): values and rates, see `numerics.locate`
    event_rules: np.ndarray  # (2, n_events): direction, remaining count before the run ends (0: never)
    finished: np.ndarray  # (n,): the last row with its multipliers and accelerations
    watched: np.ndarray  # [quality, rate], then t, p and the data of the formulation
    dense: np.ndarray  # the interpolant of the last step, see `numerics.dense`
    places: np.ndarray  # blocks of the row that it is made from
    rank: np.ndarray  # memory of the watch on the rank of the constraints, see `numerics.rank`
    ranked: np.ndarray
    formula: np.ndarray  # of a method whose stages are iterated, and its work space: see `numerics.sweeps`
    lanes: np.ndarray
    # (2, n): 1 for numbers of a rotation; number of the block of unknowns that are scaled together, from 1 on
    opening: np.ndarray


class Run:
    """The arrays of a run.

    Those of `RunArrays`, attributes that are made when they are asked for, are parts of one block of memory. Beside it:
    prescribed step sizes, empty if they are free, output times, and rows (m, n) that begin the run instead of steps,
    SEEDED of them used.
    """

    real: np.ndarray
    whole: np.ndarray
    nodes: np.ndarray
    rows: np.ndarray
    slots: np.ndarray
    rtol: np.ndarray
    atol: np.ndarray
    places: np.ndarray
    counters: np.ndarray
    event_values: np.ndarray
    event_rules: np.ndarray
    watched: np.ndarray
    rank: np.ndarray
    ranked: np.ndarray

    def __init__(
        self, parts: Parts, steps: np.ndarray, t_eval: np.ndarray, seeds: np.ndarray, block: np.ndarray | None = None
    ) -> None:
        self._parts, self.block = parts, parts.fresh() if block is None else block
        self.steps, self.t_eval, self.seeds = steps, t_eval, seeds

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """Words of the block that have to be copied for another run like this one."""
        return self._parts.ranges

    def with_memory(self, block: np.ndarray) -> Run:
        """The one whose block this is."""
        return Run(self._parts, self.steps, self.t_eval, self.seeds, block)

    def copy(self) -> Run:
        """With a block of memory of its own: what is computed from it changes nothing of this one."""
        return self.with_memory(self.block.copy())

    def __getattr__(self, name: str) -> np.ndarray:
        if name not in _PART:
            raise AttributeError(f"a run has no array {name!r}")
        array = self._parts.view(self.block, _PART[name])
        setattr(self, name, array)
        return array


_PART = {name: k for k, name in enumerate(RunArrays._fields)}


class Output(NamedTuple):
    """What is stored."""

    t: np.ndarray
    rows: np.ndarray
    order: np.ndarray
    event_t: np.ndarray
    event_index: np.ndarray
    event_rows: np.ndarray


_f8, _i8 = types.float64[::1], types.int64[::1]
_m8, _im = types.float64[:, ::1], types.int64[:, ::1]
RUN_TYPE = Record(
    RunArrays,
    [
        _f8, _i8, _f8, _m8, _i8, _f8, _f8, _m8, _f8, _f8, _i8, _i8, _f8, _m8, _im, _im, _i8, _i8, _m8, _im, _f8, _f8,
        _m8, _i8, _f8, _i8, _f8, _f8, _im,
    ],
)  # fmt: skip
OUTPUT_TYPES = _f8, _m8, _i8, _f8, _i8, _m8


@inlined
def copy(source, target):  # type: ignore[no-untyped-def]
    for i in range(source.size):
        target[i] = source[i]


@inlined
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


@inlined
def combine_changes(run, weights, first, count, out, n):  # type: ignore[no-untyped-def]
    """out[:n] = sum of weights[first + i] * (row[1 + i] - row[1]): exactly zero for what does not change.

    Weights that sum to -c0 would do so up to rounding only, and at constant steps always to the same side.
    """
    last = run.rows[run.slots[1]]
    for j in range(n):
        out[j] = 0.0
    for i in range(1, count):
        w = weights[first + i]
        if w != 0.0:
            row = run.rows[run.slots[1 + i]]
            for j in range(n):
                out[j] += w * (row[j] - last[j])
