"""Are there modes that implicit steps could pass over? What `method="auto"` asks before a run, and on the way."""

from __future__ import annotations

import numpy as np

from dalembert.numerics.arnoldi import find_eigenvalues
from dalembert.numerics.native import inner
from dalembert.numerics.opening import N_V, TURNING, A, V
from dalembert.numerics.runstate import FASTEST, MULTIPLIER_TOLERANCE, N_PAST, STEPS, T_END, T

NOTHING, DAMPED, HIDDEN = 0, 1, 2  # answers: no; modes that die out by themselves; undamped ones that are not excited
MUCH_FASTER = 8.0  # than the motion
DAMPED_PART = 0.1  # -Re lambda / |lambda| from which on a fast mode dies out by itself
HIDDEN_RATIO = 50.0  # times as fast as the motion: an undamped mode that is not excited
MANY_TIMES = 1000.0  # in a run: a damped mode that fast is stiff before the first step is made


@inner
def rate_of_motion(run, work):  # type: ignore[no-untyped-def]
    """|a| / |v| over the last steps, a from differences of v where past rows do not have it; a rotation at constant
    speed is motion, too."""
    blocks, rows, slots = work.model.blocks, run.rows, run.slots
    at_v, at_a, nv = blocks[V], blocks[A], blocks[N_V]
    # the row of the start is complete, and all that there is
    count = 2 if run.whole[STEPS] == 0 else slots.size
    known = run.whole[STEPS] == 0 or at_a < run.whole[N_PAST]
    squares, speeds, largest = 0.0, 0.0, 0.0
    for k in range(1, count):
        row = rows[slots[k]]
        for i in range(nv):
            v = row[at_v + i]
            speeds += v * v
            largest = max(largest, abs(v))
            if known:
                squares += row[at_a + i] ** 2
            elif k + 1 < slots.size:
                squares += ((v - rows[slots[k + 1], at_v + i]) / (run.nodes[k] - run.nodes[k + 1])) ** 2
    rate = np.sqrt(squares / (speeds + 1e-300))
    return max(rate, largest) if blocks[TURNING] == 1 else rate


@inner
def judge(run, work, slow, at_least, known):  # type: ignore[no-untyped-def]
    """What kind of modes there are that are faster than ``slow``; the largest |lambda| is left in real[FASTEST].

    ``at_least``: size of eigenvalues that matter. ``known`` = 1: the last row has its accelerations.
    """
    row, tolerance = run.rows[run.slots[1]], run.real[MULTIPLIER_TOLERANCE]
    found = find_eigenvalues(work, run.real[T], row, at_least, known, tolerance)
    real, imaginary = work.krylov.eigenvalues[0], work.krylov.eigenvalues[1]
    fastest, growing = 0.0, 0.0
    for i in range(found):
        fastest, growing = max(fastest, np.hypot(real[i], imaginary[i])), max(growing, real[i])
    run.real[FASTEST] = fastest
    # a motion that grows is not stiff, nor is the way back to it
    slow = max(slow, MUCH_FASTER * growing)
    if not fastest > slow:
        return NOTHING
    hidden = HIDDEN_RATIO * max(rate_of_motion(run, work), growing)
    answer = NOTHING
    for i in range(found):
        size = np.hypot(real[i], imaginary[i])
        if size > slow and real[i] < -DAMPED_PART * size:
            return DAMPED
        if size > slow and size > hidden:
            answer = HIDDEN
    return answer


@inner
def judge_start(run, work):  # type: ignore[no-untyped-def]
    """The same before the first step."""
    slow = MANY_TIMES / abs(run.real[T_END] - run.real[T])
    return judge(run, work, slow, slow, 1)
