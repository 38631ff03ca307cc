"""The first points of a multistep run that begins with its full order, made by another method.

The compiled loop takes these rows in place of its first steps, so that events and output see them like any others.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.polynomial import chebyshev

from dalembert.integrators.base import Integrator
from dalembert.numerics import runstate
from dalembert.numerics.layout import Layout
from dalembert.numerics.step import LEAST_PENALTY, STIFF_ORDER
from dalembert.status import Status

if TYPE_CHECKING:
    from dalembert.runtime.run import Options, Result, Starter

# Tolerances of the starting values of a fixed-step run: the first that rounding errors of the model allow. At rest,
# with large forces in balance, velocities are not known to 1e-14.
START_TOLERANCES = (1e-12, 1e-10, 1e-8)
TOO_TIGHT = (Status.NEWTON_FAILED, Status.STEP_TOO_SMALL)
CAREFUL = 0.02  # tolerance of the starting values of an automatic run, in units of what its steps may add, ...
TIGHTEST = 1e-12  # ... but not below
SMOOTH = 0.3  # differences of the first points, in units of what a step may add: resolved
NOISE = 20.0  # not more than the starter's own errors
Grid = tuple[np.ndarray, np.ndarray]  # times, and rows at them
UNRESOLVED = 1.0  # h |lambda|; it is below 0.4 for motions that steps follow, above 2 for the truck
UNFIT = 16.0  # weight of estimates of orders 5 and 6 where there are such modes, which they do not bear for long
LONGER = 0.35  # see `_first_step`
ROOM = 2.0  # a starter that gets half as far as the first points could is not asked for more
UNIT = np.linspace(-1.0, 1.0, 30)  # points of its solution that a polynomial is fitted to


def fixed_seeds(
    starter: Starter, method: Integrator, row: np.ndarray, layout: Layout, options: Options, run: runstate.Run
) -> tuple[Status, runstate.Run]:
    """Grid points of a run with prescribed steps, by a variable-step run at a tight tolerance."""
    assert options.steps is not None
    order = min(int(run.whole[runstate.ORDER]), len(options.steps))
    k = min(order + int(run.whole[runstate.RESERVE]), len(options.steps))
    if k < 2:
        return Status.RUNNING, run
    grid = options.t0 + np.cumsum(options.steps[: k - 1])
    direction = float(np.sign(options.steps[0]))
    moments = _moments(method, np.append(options.t0, grid))
    times = direction * np.unique(direction * np.concatenate([grid, moments[moments != options.t0]]))
    for tolerance in START_TOLERANCES:
        tight = _plain(
            options, t1=float(grid[-1]), rtol=np.full_like(options.rtol, tolerance),
            atol=np.full_like(options.atol, 1e-2 * tolerance), t_eval=times, steps=None,
            first_step=direction * min(1e-7 * abs(options.t1 - options.t0), 1e-3 * abs(float(options.steps[0]))),
        )  # fmt: skip
        made = starter.run(row, layout, tight)
        if made.status not in TOO_TIGHT:
            break
    if not made.status.ok:
        return made.status, run
    rows = made.rows[np.isin(times, grid)]
    if starter.finish is not None:
        for t, new in zip(grid, rows, strict=True):
            starter.finish(t, new)
    for (block, other, _), when in zip(method.recalled(), moments, strict=True):
        past = row if when == options.t0 else made.rows[times == when][0]
        rows[-1, layout.slice(block)] = past[layout.slice(other)]
    run.whole[runstate.NODES] = k
    return Status.RUNNING, _load(run, options.t0, row, grid, rows)


def _moments(method: Integrator, grid: np.ndarray) -> np.ndarray:
    """Times that the method's past values belong to, seen from the last point of an equidistant grid."""
    offsets = np.array([offset for _, _, offset in method.recalled()])
    whole = np.floor(offsets).astype(np.int64)  # on grid points exactly, otherwise behind one of them
    return grid[whole - 1] + (offsets - whole) * (grid[1] - grid[0])


def regular_seeds(
    starter: Starter, row: np.ndarray, layout: Layout, options: Options, run: runstate.Run
) -> runstate.Run:
    """Points on a regular grid whose spacing suits the method's largest order, from the run's time on.

    They lie on a polynomial fitted to the starter's solution, put back onto the constraints: differences of the
    starter's own points would show its errors. Close to the end of the run they are the starter's, and reach it. Where
    the time is too short, or the starter does not get far enough, the run begins with order 1 instead.
    """
    k, t0 = int(run.whole[runstate.MAX_ORDER]), float(run.real[runstate.T])
    direction = float(np.sign(options.t1 - t0))
    run.whole[runstate.TROUBLE] = run.whole[runstate.CHANGE_DATA] = run.whole[runstate.SEEDED] = 0
    run.whole[runstate.IN_A_ROW] = 0
    run.real[runstate.SPACING] = 0.0
    run.slots[:] = np.arange(runstate.HISTORY + 1)
    run.nodes[1], run.rows[1] = t0, row
    h = float(run.real[runstate.H])
    careful = _plain(options, t0=t0, rtol=_tighter(options.rtol, run), atol=_tighter(options.atol, run), t_eval=None)
    grid: Grid | None = None
    for attempt, most in starter.attempts():
        first = direction * _first_step(attempt, options, run)
        made = attempt.run(row, layout, replace(careful, max_steps=most, first_step=first))
        run.counters[:] += made.state.counters
        run.whole[runstate.PROJECTIONS] += made.state.whole[runstate.PROJECTIONS]
        run.whole[runstate.STARTING] += made.state.whole[runstate.STEPS]
        grid = _grid_to_the_end(attempt, made, t0, options.t1, layout, run)
        if grid is not None:
            break
        reach = abs(float(made.t[-1]) - t0)
        span = min(reach, (k + 2) * options.max_step)
        if made.t.size > (1 if attempt.method.one_step else k + 3):
            grid, room = _fit(attempt, made, t0, direction * span, layout, run)
            if grid is not None and (span < reach or made.status is Status.SUCCESS or room <= ROOM):
                break
    if grid is None:
        _parabola(run, t0, row, h, layout)
        run.whole[runstate.ORDER], run.whole[runstate.AT_ORDER] = 1, 0
        run.seeds = np.zeros((0, layout.n))
        return run
    times, rows = grid
    run.real[runstate.H] = times[0] - t0
    _suit(run, times, t0, attempt.fastest(made))
    return _load(run, t0, row, times, starter.settle(times, rows, layout))


def _suit(run: runstate.Run, times: np.ndarray, t0: float, fastest: float | None) -> None:
    """Begin with the order that suits h |lambda|, if the latter is known.

    Orders beyond 3 are not for modes that steps do not resolve. If there are none, and were none before, nothing is
    known to forget errors.
    """
    k = int(run.whole[runstate.MAX_ORDER])
    before = run.real[runstate.SHARE + STIFF_ORDER + 2] == UNFIT  # short steps of a start anew may resolve them
    found = fastest is not None and fastest * abs(float(times[0]) - t0) > UNRESOLVED
    stiff = (found or before) and k > STIFF_ORDER
    run.whole[runstate.ORDER], run.whole[runstate.AT_ORDER] = STIFF_ORDER if stiff else k, 0
    if not stiff and fastest is not None and k > STIFF_ORDER and run.whole[runstate.STEPS] == 0:
        run.whole[runstate.FORGETS] = 0
    if stiff:
        run.whole[runstate.FORGETS] = 1
        run.real[runstate.SHARE + STIFF_ORDER + 2 :] = UNFIT
        run.whole[runstate.PENALTY] = max(LEAST_PENALTY, int(run.whole[runstate.PENALTY]))
        run.whole[runstate.BARRED_UNTIL] = run.whole[runstate.STEPS] + times.size + run.whole[runstate.PENALTY]


def _first_step(starter: Starter, options: Options, run: runstate.Run) -> float:
    """BDF begins with order 1, like the run. Steps of order 8 are longer from the first one on, by about the ratio of
    tol^(1/8) and tol^(1/2); when a run begins anew, they are at least as long as its last one."""
    h, last = abs(float(run.real[runstate.H])), abs(float(run.real[runstate.H_ACCEPTED]))
    given = abs(options.first_step)
    if not starter.method.one_step:
        return min(h, given)
    tolerance = float(np.max(options.rtol))
    wanted = max(h, last) if last > 0.0 else given * tolerance**-LONGER
    return min(wanted, options.max_step, abs(options.t1 - float(run.real[runstate.T])))


def _grid_to_the_end(
    starter: Starter, made: Result, t0: float, t1: float, layout: Layout, run: runstate.Run
) -> Grid | None:
    """The starter's points, if it got to the end and not more than a grid of the last spacing was left to do.

    A finer grid, with steps behind it, would show rounding errors.
    """
    k, left = int(run.whole[runstate.MAX_ORDER]), t1 - t0
    if made.status is not Status.SUCCESS or abs(left) > (k + 2) * abs(float(run.real[runstate.H_ACCEPTED])):
        return None
    times = t0 + left * (1 + _grid(k)) / 2
    return times, starter.sample(made, times, layout)


def _fit(
    starter: Starter, made: Result, t0: float, span: float, layout: Layout, run: runstate.Run
) -> tuple[Grid | None, float]:
    """Times and rows of a regular grid on the starter's solution, or None if no spacing is fine enough; and how many
    times longer it could be as far as differences are concerned.

    Differences of order k+2 fall with the spacing until they are those of the starter's errors. They need not be below
    the tolerance there: the points are taken from a polynomial of lower degree, whose differences of that order vanish.
    """
    k = int(run.whole[runstate.MAX_ORDER])
    fitted = layout.indices(("q", "r"))
    highest = _fitted_polynomial(k, k + 2)[0]
    tried: list[tuple[float, float, np.ndarray]] = []
    for _ in range(40):
        points = starter.sample(made, t0 + span * (1 + UNIT) / 2, layout)
        size = _last_difference(highest @ points[:, layout.slice("q")], points, layout, k, abs(span) / (k + 2), run)
        tried.append((size, span, points))
        smallest = min(x for x, _, _ in tried)
        if size <= SMOOTH or size > 10 * smallest:
            break
        span *= min(0.85, max(0.5, (SMOOTH / size) ** (1.0 / (k + 2))))
    if smallest > NOISE:
        return None, 1.0
    size, best, kept = next(x for x in tried if x[0] <= max(SMOOTH, 2 * smallest))  # noise is no reason for short steps
    times = t0 + best * (1 + _grid(k)) / 2
    rows = starter.sample(made, times, layout)
    rows[:, fitted] = _fitted_polynomial(k, k + 2 if smallest <= SMOOTH else k + 1)[1] @ kept[:, fitted]
    return (times, rows), float((SMOOTH / max(size, 1e-300)) ** (1.0 / (k + 2)))


def _grid(k: int) -> np.ndarray:
    """The k+2 seeds on [-1, 1], whose left end is the start."""
    return np.linspace(-1.0, 1.0, k + 3)[1:]


@cache
def _fitted_polynomial(k: int, degree: int) -> tuple[np.ndarray, np.ndarray]:
    """Least squares through values at UNIT: weights of the highest derivative (30,), and of the seeds (k+2, 30)."""
    fit = np.linalg.pinv(chebyshev.chebvander(UNIT, degree))
    derivative = chebyshev.chebder([0.0] * degree + [1.0], degree)[0]
    return derivative * fit[-1], chebyshev.chebvander(_grid(k), degree) @ fit


def _last_difference(
    derivative: np.ndarray, points: np.ndarray, layout: Layout, k: int, h: float, run: runstate.Run
) -> float:
    """nabla^(k+2) / (k+1) of positions a step h apart, in units of what a step may add to errors of q and of v."""
    slope = np.abs(derivative) * (2.0 / (k + 2)) ** (k + 2)
    worst = 0.0
    for name, scale in (("q", 1.0), ("v", 1.0 / h)):
        part = layout.slice(name)
        allowed = run.atol[part] + run.rtol[part] * np.abs(points[:, part]).max(axis=0)
        worst = max(worst, float((slope * scale / (k + 1) / allowed).max(initial=0.0)))
    return worst * float(run.real[runstate.ESTIMATE_SCALE])


def _tighter(tolerance: np.ndarray, run: runstate.Run) -> np.ndarray:
    part = CAREFUL / max(1.0, float(run.real[runstate.ESTIMATE_SCALE]))
    return np.maximum(part * tolerance, np.minimum(tolerance, TIGHTEST))


def _plain(options: Options, **changes: object) -> Options:
    """The options of a starter: no events, they are looked for when its points are used."""
    none = np.zeros((2, 0), dtype=np.int64)
    return replace(options, event_kernel=0, event_rules=none, leaving=(), **changes)  # type: ignore[arg-type]


def _parabola(run: runstate.Run, t0: float, row: np.ndarray, h: float, layout: Layout) -> None:
    """Past points on the parabola of position, velocity and acceleration."""
    run.nodes[1:] = t0 - h * np.arange(runstate.HISTORY)
    run.rows[1:] = row
    tau = (t0 - run.nodes[1:])[:, None]
    q, v, a = (layout.slice(x) for x in ("q", "v", "a"))
    run.rows[1:, q] += -tau * row[v] + 0.5 * tau**2 * row[a]
    run.rows[1:, v] -= tau * row[a]


def _load(run: runstate.Run, t0: float, row: np.ndarray, times: np.ndarray, rows: np.ndarray) -> runstate.Run:
    """Put the seeds in place, and their polynomial behind the start, for the dense output of the first steps."""
    h = times[0] - t0
    steps = np.arange(1, runstate.HISTORY)
    values = np.vstack([row, rows])
    if np.allclose(times, t0 + h * np.arange(1, times.size + 1), rtol=0.0, atol=1e-9 * abs(h)):
        weights = _backwards(values.shape[0])
    else:
        weights = _lagrange(np.append(t0, times), t0 - steps * h)
    run.rows[1 + steps], run.nodes[1 + steps] = weights @ values, t0 - steps * h
    run.seeds = np.ascontiguousarray(rows)
    return run


@cache
def _backwards(n: int) -> np.ndarray:
    """Weights of n points a step apart at the steps before them."""
    return _lagrange(np.arange(float(n)), -np.arange(1.0, runstate.HISTORY))


def _lagrange(nodes: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Weights (times, nodes) of the polynomial through values at the nodes."""
    others = [np.delete(nodes, j) for j in range(nodes.size)]
    return np.array([[np.prod((t - x) / (nodes[j] - x)) for j, x in enumerate(others)] for t in times])
