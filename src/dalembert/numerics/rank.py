"""Does the motion pass a position where the constraints lose rank? Watched after every step.

C = [G; K], rows scaled by D, with the decomposition C = sum sigma_i nu_i x_i^T (x_i orthonormal in the metric of the
mass matrix). Along a smooth motion singular values and vectors can be followed smoothly, and then a sigma that passes
through zero changes its sign [BBMN91]: with nu held, the vector of least length with C x = nu turns round. It is known
from the equations of the projection of velocities, factorised at every step, in the metric of that projection; where
there are none, from those for accelerations and multipliers:

    M x + C^T y = 0,   C x = nu        =>   y = -(C M^-1 C^T)^-1 nu,   x = C^+ nu,   1 / |x| ~ sigma,

whose y is also a step of inverse iteration towards the nu of the smallest sigma. So one back substitution a step does,
with the nu of the last step, to compare x with the x of the last step, and another one with the nu it leads to, if that
is not the same. Lengths and angles of x are Euclidean if the projection is; else those in the metric of the diagonal of
M: bodies that spin do not turn x round as long as the motion of their centres dominates it.

A zero at which sigma does not change its sign is suspected where the parabola through its last three values comes down
close to zero.

Where little changes, not every step is looked at, since a factorisation may be needed for it: between two looks sigma
may be expected to change by a tenth of itself and x to turn by 0.3, at the largest rate seen lately, so that the looks
come closer and closer together on the way to a zero, and not too late after a moment of rest. What happened between two
looks is judged from the last row seen.

Long steps turn bodies, and x with them, by more than a right angle. Where the way from look to look can be
interpolated, x is then followed along it in smaller pieces before anything is suspected. Suspicions are looked into by
`runtime.singular`, outside of the compiled loop.

[BBMN91] A. Bunse-Gerstner, R. Byers, V. Mehrmann, N. K. Nichols, Numerical computation of an analytic singular value
         decomposition of a matrix valued function, Numer. Math. 60 (1991) 1-39.
"""

from __future__ import annotations

import numpy as np

from dalembert.numerics.dense import convert, enter_chart
from dalembert.numerics.hermite import AT_Q, AT_V, HERMITE, LEFT, LIFT, RIGHT, TRIAL, cubic
from dalembert.numerics.hermite import N_V as SIZE_V
from dalembert.numerics.native import inlined, inner, view
from dalembert.numerics.newton import (
    AT_DX,
    AT_F,
    CONVERGED,
    N_COUNTERS,
    TRUST_LIMIT,
    N,
    back_substitute,
    data,
    factorize,
    unknowns,
)
from dalembert.numerics.runstate import T, copy
from dalembert.numerics.stage import INDEX, N_INDEX

# positions in Run.ranked: constraints watched (0: none), velocities, stage whose equations are used (see `watch_rank`),
# where y and x begin among its unknowns, 1 if its metric is Euclidean, what is suspected, how many steps were seen, how
# many went by since, which of the rows kept is the newest, then counters (not those of the run)
COUNT, N_V, STAGE, AT_Y, AT_X, EUCLIDEAN, SUSPECT, SEEN, PASSED, NEWEST, COUNTED = range(11)
N_RANKED = COUNTED + N_COUNTERS
TURNED, TOUCHES, SINGULAR_STEP = 1, 2, 3  # values of SUSPECT
# positions in Run.rank: the last two sigmas, a rate of change, how long not to look, SIGHTS times, then D (m), nu (m),
# what is mixed in (m), scratch (m), x (nv), diagonal of the metric (nv), the rows of those times, a ring
SIGHTS = 3
SIGMA, OLDER_SIGMA, RATE, REST, TIMES = range(5)
PARTS = TIMES + SIGHTS
MIXED = 0.1  # of a fixed vector is mixed into nu: inverse iteration would stay with a singular vector for ever
SETTLED = 0.99  # cosine between the nu of two steps that need not be told apart
# A first look, from a nu that has nothing to do with the constraints, may find a sigma far above the smallest one. One
# that falls below this part of it at the second look, by a better nu, says nothing about the motion.
UNRELATED = 0.5
NEAR_ZERO = 0.05  # of the sigmas beside it, where a parabola counts as touching zero
CHANGE, TURN, MOST_PASSED = 0.1, 0.3, 8  # of sigma (relative) and x (angle) from look to look; steps not looked at
MEMORY = 0.8  # of the rate, from look to look
PIECES = 6  # of the way between two looks on which x is followed
SMALLER = 0.3  # a sigma that falls below this part of those at the ends may be on its way to zero


MULTIPLIERS = 3  # number of the stage of multipliers, behind those of the steps


def memory(m: int, nv: int, n: int, stage: int, at_y: int, at_x: int, euclidean: bool) -> tuple[np.ndarray, np.ndarray]:
    """Arrays Run.rank and Run.ranked for m constraints, rows of n; m = 0 watches nothing."""
    rank, ranked = np.zeros(PARTS + 4 * m + 2 * nv + SIGHTS * n), np.zeros(N_RANKED, dtype=np.int64)
    rank[PARTS + m : PARTS + 2 * m] = 1.0 / np.sqrt(max(m, 1))
    generic = 0.5 + (np.arange(m) * 0.6180339887498949) % 1.0  # no two alike
    rank[PARTS + 2 * m : PARTS + 3 * m] = MIXED * generic / max(float(np.linalg.norm(generic)), 1e-300)
    rank[PARTS + 4 * m + nv : PARTS + 4 * m + 2 * nv] = 1.0
    ranked[:SUSPECT] = [m, nv, stage, at_y, at_x, euclidean]
    return rank, ranked


def _rows(rank: np.ndarray, ranked: np.ndarray) -> np.ndarray:
    return rank[PARTS + 4 * ranked[COUNT] + 2 * ranked[N_V] :].reshape(SIGHTS, -1)


def sight(rank: np.ndarray, ranked: np.ndarray, age: int) -> tuple[float, np.ndarray]:
    """Time and row of a look: 0 the last one, 1 the one before it, 2."""
    return float(rank[TIMES + age]), _rows(rank, ranked)[(ranked[NEWEST] + age) % SIGHTS].copy()


def forget(rank: np.ndarray, ranked: np.ndarray, t: float, row: np.ndarray) -> None:
    """Begin again at a row, in place: what was seen before is not to be compared with it."""
    x = PARTS + 4 * ranked[COUNT]
    rank[x : x + ranked[N_V]] = 0.0
    rank[RATE] = rank[REST] = ranked[SEEN] = 0
    rank[TIMES:PARTS] = t
    _rows(rank, ranked)[:] = row


@view
def seen(run, age):  # type: ignore[no-untyped-def]
    """Row of a look, see `sight`."""
    n = run.finished.size
    begin = PARTS + 4 * run.ranked[COUNT] + 2 * run.ranked[N_V] + ((run.ranked[NEWEST] + age) % SIGHTS) * n
    return run.rank[begin : begin + n]


@inner
def begin_watch(run, solvers, projected):  # type: ignore[no-untyped-def]
    """A first look, before the first step, which may pass a loss of rank: what lies behind is the start.

    ``projected``: have the stages of the steps just been factorised there?
    """
    if run.ranked[COUNT] == 0 or run.ranked[SEEN] > 0:
        return
    t, row = run.real[T], run.rows[run.slots[1]]
    for age in range(SIGHTS):
        run.rank[TIMES + age] = t
        copy(row, seen(run, age))
    look(run, solvers[run.ranked[STAGE]], t, row, projected and run.ranked[STAGE] != MULTIPLIERS)


@inner
def least_vector(run, nw):  # type: ignore[no-untyped-def]
    """Solve M x + C^T y = 0, C x = nu into the update of a stage's system. Returns |x|."""
    m, nv, n = run.ranked[COUNT], run.ranked[N_V], nw.whole[N]
    F, x, metric = nw.whole[AT_F], nw.whole[AT_DX] + run.ranked[AT_X], PARTS + 4 * m + nv
    for i in range(n):
        nw.real[F + i] = 0.0
    for i in range(m):
        nw.real[F + run.ranked[AT_Y] + i] = run.rank[PARTS + m + i] / run.rank[PARTS + i]
    back_substitute(nw)
    size = 0.0
    for i in range(nv):
        size += run.rank[metric + i] * nw.real[x + i] ** 2
    return np.sqrt(size)


@inner
def improve(run, nw):  # type: ignore[no-untyped-def]
    """A step of inverse iteration, by what `least_vector` has found: nu becomes y / |y|, with what is mixed in. Returns
    False, and changes nothing, if nu is as good as it was."""
    m, at_y = run.ranked[COUNT], nw.whole[AT_DX] + run.ranked[AT_Y]
    nu, mix, fresh = PARTS + m, PARTS + 2 * m, PARTS + 3 * m
    ahead, length, kept, total = 0.0, 0.0, 0.0, 0.0
    for i in range(m):
        y = nw.real[at_y + i] / run.rank[PARTS + i]
        ahead += y * run.rank[nu + i]
        length += y * y
    scale = (1.0 if ahead >= 0.0 else -1.0) / np.sqrt(length)
    for i in range(m):
        new = scale * nw.real[at_y + i] / run.rank[PARTS + i] + run.rank[mix + i]
        kept += new * run.rank[nu + i]
        total += new * new
        run.rank[fresh + i] = new
    total = np.sqrt(total)
    if kept >= SETTLED * total:
        return False
    for i in range(m):
        run.rank[nu + i] = run.rank[fresh + i] / total
    return True


@inner
def interpolate(run, age, s, h, out):  # type: ignore[no-untyped-def]
    """Row at a part s of the way of length h to a look from the one before it: positions by Hermite's cubic, on groups
    by a steady motion (in the chart of `dense`, which has both rows)."""
    n, places = out.size, run.places
    new, old = seen(run, age), seen(run, age + 1)
    for i in range(n):
        out[i] = (1.0 - s) * old[i] + s * new[i]
    for j in range(places[SIZE_V]):
        iq, iv = places[AT_Q] + j, places[AT_V] + j
        if places[LIFT] != 0:
            out[iq] = s * run.dense[RIGHT, iq]
        else:
            out[iq] = cubic(old[iq], h * old[iv], new[iq], h * new[iv], s)[0]
    convert(run, LIFT, out)


@inner
def followed(run, stage, age, least):  # type: ignore[no-untyped-def]
    """True if x can be followed to a look from the one before it without turning round, sigma staying above ``least``.

    Leaves the factorisation and x of the last look where they were not.
    """
    if run.places[HERMITE] == 0 or run.places[AT_Q] == run.places[AT_V]:  # no way between, or no positions
        return False
    nv, nw, row, before = run.ranked[N_V], stage.newton, run.dense[TRIAL], run.scratch[1]
    metric = PARTS + 4 * run.ranked[COUNT] + nv
    t, h = run.rank[TIMES + age + 1], run.rank[TIMES + age] - run.rank[TIMES + age + 1]
    if run.places[LIFT] != 0:
        copy(seen(run, age + 1), run.dense[LEFT])
        copy(seen(run, age), run.dense[RIGHT])
        enter_chart(run, h)
    for piece in range(PIECES + 1):
        s = piece / PIECES
        interpolate(run, age, s, h, row)
        if not prepared(run, stage, t + s * h, row):
            return False
        size, along, x = least_vector(run, nw), 0.0, nw.whole[AT_DX] + run.ranked[AT_X]
        for i in range(nv):
            along += run.rank[metric + i] * nw.real[x + i] * before[i]
            before[i] = nw.real[x + i]
        if not ((piece == 0 or along > 0.0) and size * least < 1.0):
            return False
    return True


@inner
def prepared(run, stage, t, row):  # type: ignore[no-untyped-def]
    """Factorise the equations of a stage at a row; False if that fails."""
    nw = stage.newton
    x, d = unknowns(nw), data(nw)
    d[0] = t
    for i in range(row.size):
        d[1 + i] = row[i]
    for i in range(stage.whole[N_INDEX]):
        x[i] = row[stage.whole[INDEX + i]]
    return factorize(nw, TRUST_LIMIT, run.ranked[COUNTED:]) == CONVERGED


@inner
def remember(run, t, row):  # type: ignore[no-untyped-def]
    """Keep a row that is looked at, and those of the looks before it."""
    for age in range(SIGHTS - 1, 0, -1):
        run.rank[TIMES + age] = run.rank[TIMES + age - 1]
    run.rank[TIMES] = t
    run.ranked[NEWEST] = (run.ranked[NEWEST] + SIGHTS - 1) % SIGHTS
    copy(row, seen(run, 0))


@inner
def look(run, stage, t, row, factorized):  # type: ignore[no-untyped-def]
    """Compare the smallest sigma and its vector at a row with those of the last look."""
    m, nv = run.ranked[COUNT], run.ranked[N_V]
    run.ranked[PASSED] = 0
    remember(run, t, row)
    nw = stage.newton
    if not factorized and not prepared(run, stage, t, row):
        run.ranked[SUSPECT], run.ranked[SEEN] = SINGULAR_STEP, 0
        return
    at_y, at_x = nw.whole[AT_DX] + run.ranked[AT_Y], nw.whole[AT_DX] + run.ranked[AT_X]
    old, metric = PARTS + 4 * m, PARTS + 4 * m + nv
    size = least_vector(run, nw)
    turned, length = 0.0, 0.0
    for i in range(nv):
        turned += run.rank[metric + i] * nw.real[at_x + i] * run.rank[old + i]
    for i in range(m):
        length += abs(nw.real[at_y + i] / run.rank[PARTS + i])
    if not (size < np.inf and length < np.inf and length > 0.0):
        run.ranked[SUSPECT], run.ranked[SEEN] = SINGULAR_STEP, 0
        return
    if turned < 0.0:
        if not followed(run, stage, 0, SMALLER * min(run.rank[SIGMA], 1.0 / size)):
            run.ranked[SUSPECT] = TURNED
        prepared(run, stage, t, row)
        least_vector(run, nw)
    near = size * run.rank[SIGMA]  # the old sigma over the new one
    angle = np.sqrt(2.0 * max(0.0, 1.0 - turned * run.rank[SIGMA] / size))
    improved = improve(run, nw)
    if improved:
        size = least_vector(run, nw)
    sigma = 1.0 / size
    for i in range(nv):
        run.rank[old + i] = nw.real[at_x + i]
    since = abs(t - run.rank[TIMES + 1])
    if run.ranked[SEEN] > 0:
        pace = (max(near, 1.0 / near) - 1.0) / CHANGE + angle / TURN
        run.rank[RATE] = max(pace / since, MEMORY * run.rank[RATE])
        run.rank[REST] = min(2.0 * since, 1.0 / run.rank[RATE] if run.rank[RATE] > 0.0 else np.inf)
    if run.ranked[SEEN] >= 2 and run.ranked[SUSPECT] == 0:
        s0, s1, t0, t1 = run.rank[OLDER_SIGMA], run.rank[SIGMA], run.rank[TIMES + 2], run.rank[TIMES + 1]
        if s1 < s0 and s1 <= sigma:
            left, right = (s1 - s0) / (t1 - t0), (sigma - s1) / (t - t1)
            bend = (right - left) / (t - t0)
            slope = left + bend * (t1 - t0)  # of the parabola at t1
            if s1 - slope * slope / (4.0 * bend) < NEAR_ZERO * min(s0, sigma):
                least = SMALLER * s1
                if not (followed(run, stage, 1, least) and followed(run, stage, 0, least)):
                    run.ranked[SUSPECT] = TOUCHES
    unrelated = run.ranked[SEEN] == 1 and improved and sigma < UNRELATED * run.rank[SIGMA]
    run.rank[OLDER_SIGMA], run.rank[SIGMA] = run.rank[SIGMA], sigma
    run.ranked[SEEN] += 0 if unrelated else 1


@inner
def smallest_now(run, solvers, t, row):  # type: ignore[no-untyped-def]
    """An estimate of the smallest singular value at an accepted row; infinite if nothing is watched."""
    if run.ranked[COUNT] == 0:
        return np.inf
    if run.rank[TIMES] != t:
        look(run, solvers[run.ranked[STAGE]], t, row, False)
    return run.rank[SIGMA]


@inlined
def watch_rank(run, solvers, t, row, projected, completed):  # type: ignore[no-untyped-def]
    """Look at an accepted row; what is suspected is left in run.ranked[SUSPECT].

    ``solvers``: the stages of the steps, then that of the multipliers. ``projected``, ``completed``: have the former,
    or the latter, just been factorised at the row?
    """
    if run.ranked[COUNT] == 0:
        return
    run.ranked[PASSED] += 1
    if run.ranked[PASSED] > MOST_PASSED or abs(t - run.rank[TIMES]) >= run.rank[REST]:
        factorized = completed if run.ranked[STAGE] == MULTIPLIERS else projected
        look(run, solvers[run.ranked[STAGE]], t, row, factorized)
