"""What a call of `solve` does before its first step and after its last one: quickly, and the same as ever."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest
from numba import njit, types

import dalembert as da
from dalembert.numerics import memory as memory_module
from dalembert.numerics.call import call_with
from dalembert.numerics.compiled import compile_with_blocks, unfold
from dalembert.numerics.memory import SMALL, Bundle, Parts, Record, Reference, Several, refer
from dalembert.numerics.opening import pairwise_sum
from dalembert.numerics.screen import DOUBTFUL, VIOLATED, measure, row_scales
from dalembert.numerics.work import WORK_TYPE
from dalembert.runtime import direct as direct_module
from dalembert.runtime import run as run_module
from dalembert.runtime.assemble import make_layout
from dalembert.runtime.assembly import Workspace
from dalembert.runtime.prepare import assembly_for, first_step
from dalembert.runtime.run import Options
from dalembert.runtime.singular import scales
from dalembert.runtime.start import initial_row
from dalembert.status import OptionError


def work_of(system: da.System, q0: Any, v0: Any = None) -> tuple[Workspace, np.ndarray]:
    """A work space and a row of it."""
    method, formulation, p = da.BDF(), da.Index1(), system.parameters.vector(None)
    row = initial_row(system, make_layout(system, method, formulation), **system.initial_values(q0, v0))
    return assembly_for(system, method, formulation, da.Projection(), 0.0, 1.0, row, p).workspace(p), row


@pytest.mark.parametrize("n", [1, 7, 8, 9, 127, 128, 129, 255, 300, 1100, 5000])
def test_sums_have_the_digits_of_numpy(n: int) -> None:
    total = njit(lambda x, stack: pairwise_sum(x, x.size, stack))
    x = np.random.default_rng(n).standard_normal(n) ** 2
    assert total(x, np.zeros(100)) == x.sum()


class Pair(NamedTuple):
    a: np.ndarray
    b: np.ndarray


class Both(NamedTuple):
    pair: Pair
    pairs: tuple[Pair, Pair]
    whole: np.ndarray
    table: np.ndarray


def _weighted(both, i, factor):  # type: ignore[no-untyped-def]
    both.whole[1] += 5
    sums = both.pair.a[0] + 10 * both.pair.b[0] + 100 * both.pairs[0].a[0] + 1000 * both.pairs[i].b[0]
    return factor * (sums + 10000 * both.table[1, 2] + 100000 * both.table.size)


def both(size: int = 1) -> Both:
    shared = np.full(size, 6.0)
    pairs = Pair(np.array([3.0]), shared), Pair(np.array([5.0]), shared)
    return Both(Pair(np.array([1.0]), np.array([2.0])), pairs, np.array([7, 8]), np.arange(6.0).reshape(2, 3))


def test_compiled_functions_take_structures_as_blocks() -> None:
    f8 = types.float64[::1]
    pair = Record(Pair, [f8, f8])
    kind = Record(Both, [pair, Several(pair, 2), types.int64[::1], types.float64[:, ::1]])
    entry = compile_with_blocks(_weighted, types.float64(kind, types.int64, types.float64))
    parts = Parts(both())
    block = parts.fresh()
    assert block.size == 3 * 8 + 1 + 1 + 1 + 1 + 1 + 2 + 6  # descriptors; what appears twice is there once
    assert entry(block, 1, 2.0) == 2.0 * (1 + 20 + 300 + 6000 + 50000 + 600000)
    views = parts.views(block)
    assert views.whole.tolist() == [7, 13]
    assert views.table[1, 2] == 5.0
    views.pairs[0].b[0] = -1.0
    assert views.pairs[1].b[0] == -1.0
    assert parts.fresh()[-8:].view(np.int64)[:2].tolist() == [7, 8]  # the template is as it was


def test_large_blocks_are_not_copied_where_nothing_is_to_be_read() -> None:
    arrays = both(SMALL)
    parts = Parts(arrays, [(arrays.pairs[0].b, 2)])
    views = parts.views(parts.fresh())
    assert views.pairs[0].b[:2].tolist() == [6.0, 6.0]
    assert views.table.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]


class Outer(NamedTuple):
    near: Both
    far: np.ndarray
    pair: Pair


def _all_of(outer):  # type: ignore[no-untyped-def]
    outer.pair.b[0] += 1.0
    return _added(outer.near, 1) + 1e7 * outer.far[1] + 1e8 * outer.pair.b[0]


_added = njit(lambda both, i: both.pair.a[0] + 10 * both.pairs[i].b[0])


def test_bundles_hold_blocks_and_refer_to_arrays_elsewhere() -> None:
    f8 = types.float64[::1]
    pair = Record(Pair, [f8, f8])
    kind = Record(Both, [pair, Several(pair, 2), types.int64[::1], types.float64[:, ::1]])
    entry = compile_with_blocks(_all_of, types.float64(Record(Outer, [Reference(kind), f8, pair])))
    near, far, last = Parts(both()), np.array([3.0, 4.0]), np.array([2.0])
    bundle = Bundle([near.template.shape, far.shape, (0,), last.shape], {})
    folded = bundle.folded([near.template, far, None, last])
    for _ in range(2):
        block = np.full(bundle.size, np.nan)
        unfold()(folded, block)
        elsewhere = np.array([9.0])
        refer(block, 2, [elsewhere])
        assert entry(block) == 1 + 60 + 4e7 + 3e8
        assert near.views(block[bundle.places[0]]).table[1, 2] == 5.0
        assert block[bundle.places[3]].tolist() == [3.0]  # in this block only


def test_folded_blocks_have_only_what_is_to_be_read() -> None:
    bundle = Bundle([(4,), (2,), (3,)], {0: [(0, 1), (3, 4)], 1: ()})
    folded = bundle.folded([np.arange(4.0), None, np.arange(5.0, 8.0)])
    assert folded.size == 1 + 2 * 4 + bundle.places[0].start + 2 + 3
    block = np.full(bundle.size, np.nan)
    unfold()(folded, block)
    assert np.array_equal(block[bundle.places[0]], [0.0, np.nan, np.nan, 3.0], equal_nan=True)
    assert np.isnan(block[bundle.places[1]]).all()
    assert block[bundle.places[2]].tolist() == [5.0, 6.0, 7.0]


# ---------------------------------------------------------------------- screens of a start
def test_a_good_start_leaves_no_doubt(pendulum_with: Callable[..., da.System]) -> None:
    work, row = work_of(pendulum_with(), [0.6, 0.8], [0.8, -0.6])
    assert work.settle(0.0, row, 1e-8) == 0


@pytest.mark.parametrize(("q0", "v0"), [([0.6, 0.9], [0.0, 0.0]), ([0.6, 0.8], [1.0, 0.0])])
def test_violated_constraints_are_seen(pendulum_with: Callable[..., da.System], q0: Any, v0: Any) -> None:
    work, row = work_of(pendulum_with(), q0, v0)
    assert work.settle(0.0, row, 1e-8) == VIOLATED
    assert work.settle(0.0, row, -1.0) == 0


@pytest.mark.parametrize(
    "changes",
    [
        {"mass": [1.0, 0.0]},
        {"mass": [1.0, -1.0]},
        {"mass": [[1.0, 0.5], [0.2, 1.0]]},
        {"constraints": lambda q: [q[0] ** 2 + q[1] ** 2 - 1.0, 2.0 * (q[0] ** 2 + q[1] ** 2) - 2.0]},
        {"constraints": lambda q: [(q[0] ** 2 + q[1] ** 2 - 1.0) ** 2]},
        {"constraints": lambda q: [np.sqrt(q[0] - 2.0) + q[1]]},
    ],
    ids=["no inertia", "negative", "not symmetric", "redundant", "no gradient", "not a number"],
)
def test_what_is_not_clearly_regular_is_looked_at(pendulum_with: Callable[..., da.System], changes: Any) -> None:
    work, row = work_of(pendulum_with(**changes), [0.6, 0.8], [0.8, -0.6])
    assert work.settle(0.0, row, 1e-8) & DOUBTFUL


def _scales(work, row, out, metric):  # type: ignore[no-untyped-def]
    return int(measure(work.model, row) and row_scales(work.model, False, out, metric))


@cache
def compiled_scales() -> Callable[..., int]:
    f8 = types.float64[::1]
    return compile_with_blocks(_scales, types.int64(WORK_TYPE, f8, f8, f8))


@pytest.mark.parametrize("name", ["andrews", "slider-crank", "heavy-top", "rolling-disc"])
def test_scales_of_constraints_are_those_of_the_eigenvalues(name: str) -> None:
    problem = da.problems()[name]
    work, row = work_of(problem.system, problem.q0, problem.v0)
    out, metric = np.empty(problem.system.nlam + problem.system.nmu), np.empty(problem.system.nv)
    assert compiled_scales()(work.block, row, out, metric)
    assert out == pytest.approx(scales(work, 0.0, row), rel=1e-10)


def test_scales_with_a_singular_mass_matrix_are_left_to_eigenvalues(pendulum_with: Callable[..., da.System]) -> None:
    work, row = work_of(pendulum_with(mass=[1.0, 0.0]), [0.6, 0.8], [0.8, -0.6])
    assert not compiled_scales()(work.block, row, np.empty(1), np.empty(2))


@pytest.mark.parametrize("name", ["pendulum", "andrews", "slider-crank", "four-bar"])
@pytest.mark.parametrize("end", [3.0, -0.5])
@pytest.mark.parametrize("method", [da.BDF(), da.Iterated()], ids=lambda method: method.name)
def test_first_step_is_hairers(name: str, end: float, method: Any) -> None:
    """The formula in NumPy, digit by digit."""
    problem = da.problems()[name]
    system = problem.system
    work, row = work_of(system, problem.q0, problem.v0)
    work.complete(0.0, row)
    n = system.nq + system.nv
    options = Options(0.0, end, np.linspace(1e-6, 1e-4, n), np.full(n, 1e-7), 0.0)
    layout, span, direction = work.assembly.layout, abs(end), np.sign(end)
    index = layout.indices(("q", "v"))
    scale = 1.0 / (options.atol + options.rtol * np.abs(row[index]) + 1e-300)

    def rates(x: np.ndarray) -> np.ndarray:
        return np.concatenate([x[layout.slice("v")], x[layout.slice("a")]])

    def norm(x: np.ndarray) -> float:
        return float(np.sqrt(np.mean((x * scale) ** 2)))

    d1 = rates(row)
    guess = min(1e-4 * span, 1e-3 / (norm(d1) * 1e-4)) if norm(d1) > 0 else 1e-4 * span
    trial = row.copy()
    trial[index] = row[index] + direction * guess * d1
    assert work.complete(direction * guess, trial) == 0
    curvature = norm((rates(trial) - d1) / guess)
    h, part = float(np.sqrt(0.1 / curvature)), 1e-2
    if method.start_order > 1:
        h = max(h, (0.01 / max(norm(d1), curvature)) ** (1 / (method.start_order + 1)))
        part = max(6e-2, min(0.5 * h / span, 0.5)) if h < span else 6e-2
    assert first_step(None, work, method, row, options) == pytest.approx(direction * min(h, part * span), rel=1e-15)


# ---------------------------------------------------------------------- runs do not know of each other
def swing(problem: Any, angle: float, **options: Any) -> da.Solution:
    q0 = [np.cos(angle), np.sin(angle)]
    return da.solve(problem.system, (0.0, 1.0), q0, [0.0, 0.0], initial="project", **options)


def chooses_steps(method: str) -> bool:
    try:
        da.methods()[method]().for_run(False)
    except OptionError:
        return False
    return True


FLAT = "general-linear", "modified-bdf"  # the methods that, with steps of their own, do not serve groups
PAIRS = [(method, "pendulum") for method in ("auto", *sorted(da.methods()))]
PAIRS += [(method, "heavy-top") for method, _ in PAIRS if method not in FLAT]


@pytest.mark.parametrize(("method", "name"), PAIRS)
def test_nothing_is_read_that_was_not_written(method: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory that is not copied from a template is as it comes: a run from NaN has the same digits."""
    problem = da.problems()[name]
    end = problem.t_span[0] + 0.02 * (problem.t_span[1] - problem.t_span[0])
    options = {**problem.options, "method": method, "rtol": 1e-5, "atol": 1e-5}
    if method != "auto" and not chooses_steps(method):
        options["h"] = 1e-3

    def solve(**further: Any) -> da.Solution:
        q0, v0 = np.asarray(problem.q0, dtype=float), np.asarray(problem.v0, dtype=float)
        return da.solve(problem.system, (problem.t_span[0], end), q0, v0, **options, **further)

    def poisoned(block: np.ndarray, ranges: Any) -> np.ndarray:
        out = np.full(block.size, np.nan)
        for a, b in ranges:
            out[a:b] = block[a:b]
        return out

    def seen() -> list[np.ndarray]:
        sol, points = solve(), solve(t_eval=[0.3 * end, end])
        within = sol(np.linspace(problem.t_span[0], end, 7)) if sol.dense else points
        return [getattr(x, part) for x in (sol, points, within) for part in ("t", "q", "v", "a", "lam")]

    seen()  # compiles
    kept = seen()
    with monkeypatch.context() as patch:
        patch.setattr(memory_module, "duplicate", poisoned)
        patch.setattr(direct_module, "empty", lambda shape, dtype=float: np.full(shape, np.nan).view(dtype))
        assert all(np.array_equal(x, y) for x, y in zip(kept, seen(), strict=True))


@pytest.mark.parametrize("method", ["explicit", "bdf", "radau"])
def test_solutions_share_no_memory(pendulum: Any, method: str) -> None:
    first = swing(pendulum, 0.0, method=method, t_eval=[0.5, 1.0])
    kept = {name: x.copy() for name, x in first.parts.items()}
    second = swing(pendulum, -0.4, method=method, t_eval=[0.5, 1.0])
    assert not any(np.shares_memory(first.parts[name], second.parts[name]) for name in kept)
    assert all(np.array_equal(first.parts[name], x) for name, x in kept.items())


@pytest.mark.parametrize("method", ["auto", "bdf"])
def test_parameters_of_a_later_run_are_seen(method: str, pendulum_with: Callable[..., da.System]) -> None:
    """A run with others in between changes nothing, and has the solution of a system built with them."""
    force, g = (lambda p: [0.0, -p.g]), 9.81
    system = pendulum_with(force=force, parameters={"g": g})
    start = (0.0, 0.5), [1.0, 0.0], [0.0, 0.0]
    first = da.solve(system, *start, method=method)
    other = da.solve(system, *start, method=method, parameters={"g": 2.0 * g})
    again = da.solve(system, *start, method=method)
    built = da.solve(pendulum_with(force=force, parameters={"g": 2.0 * g}), *start, method=method)
    assert np.array_equal(first.q, again.q)
    assert np.array_equal(first.lam, again.lam)
    assert other.q[-1] == pytest.approx(built.q[-1], abs=1e-12)
    assert np.abs(other.q[-1] - first.q[-1]).max() > 0.1
    assert (first.parameters, other.parameters) == ({"g": g}, {"g": 2.0 * g})


@pytest.mark.parametrize("method", ["auto", "bdf", "radau"])
def test_two_threads_may_solve_one_system(pendulum: Any, method: str) -> None:
    angles = np.linspace(-1.0, 1.0, 24)
    alone = [swing(pendulum, x, method=method) for x in angles]
    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(lambda x: swing(pendulum, x, method=method), angles))
    assert all(np.array_equal(a.q, b.q) and np.array_equal(a.lam, b.lam) for a, b in zip(alone, together, strict=True))


@pytest.mark.parametrize("method", ["auto", "bdf"])
def test_a_solution_is_freed_when_it_is_dropped(pendulum: Any, method: str) -> None:
    """No cycle of references keeps its arrays until the garbage collector comes."""
    gc.collect()
    gc.disable()
    try:
        sol = swing(pendulum, 0.0, method=method)
        gone = weakref.ref(sol)
        del sol
        assert gone() is None
    finally:
        gc.enable()


def test_statistics_are_those_of_the_run_whenever_they_are_read(pendulum: Any) -> None:
    first, second = (swing(pendulum, 0.0, method="explicit") for _ in range(2))
    before = first.stats
    second(np.linspace(0.0, 1.0, 50))  # dense output projects and solves, too
    counted = ("steps", "residuals", "factorizations", "newton_iterations", "projections")
    assert all(getattr(before, name) == getattr(second.stats, name) for name in counted)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = first.nothing


def test_slices_of_a_run_take_the_memory_of_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Automatic runs look at themselves now and then: nothing is to be laid out anew for that, but where room ends."""
    problem = da.problems()["pendulum"]
    made: list[int] = []

    def counted(call: Any) -> np.ndarray:
        made.append(call.output.t.size)
        return call_with(call)

    monkeypatch.setattr(run_module, "call_with", counted)
    for tol, grows in ((1e-4, False), (1e-10, True)):
        for _ in range(2):  # the first one compiles, and begins in Python
            made.clear()
            sol = da.solve(problem.system, problem.t_span, problem.q0, problem.v0, rtol=tol, atol=tol)
        assert sol.success
        assert (sol.stats.steps > run_module.FIRST_ROOM) == grows
        assert bool(made) == grows
        assert len(made) == len(set(made))
