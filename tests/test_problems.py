"""Every problem of the collection against its reference, by the default method and by the other formulations."""

from functools import cache
from typing import Any

import numpy as np
import pytest

import dalembert as da
from dalembert.problems import Problem, four_bar, slider_crank
from dalembert.problems.minimal import minimal_coordinates
from dalembert.runtime.ingredients import kinked

ALL = list(da.problems())
# 485 unknowns are long to compile; the wheelset makes 100,000 steps
LONG = ("four-bar-40", "wheelset")
NAMES = [pytest.param(name, marks=pytest.mark.slow) if name in LONG else name for name in ALL]


def among(names: list[str]) -> list[Any]:
    """Parameters of a test, long ones marked."""
    return [x for x, name in zip(NAMES, ALL, strict=True) if name in names]


WITH_REFERENCE = among([name for name in ALL if da.problems()[name].reference is not None])
SPAN = 10.0  # longer problems are followed for this long
SAMPLES = 8

# One bound for all problems, in units of the tolerance and relative to the size of the quantity: a run of n steps, each
# with a local error below tol, may be off by a part of n tol, plus what solution and multipliers amplify. Measured:
# below 40 in most problems; the worst are the car axis (605 at n = 3500) and the oscillator (178 at n = 890).
BASE, PER_STEP = 100.0, 0.25
# On SE(3) positions follow from velocities in a frame that turns 24 times; BDF is off by 1736 tol at n = 4226.
# The leaning disc has velocities of size 4, and a change of its rates by d moves it by 10 d within 10 s.
# Forces in the elastic rod are a stiffness of 4e7 times displacements that tolerances measure against 1: multipliers
# are off by 74,000 tol at n = 13,000.
# The sphere makes 21 steps in 10 s: multipliers, with coefficients of size 4, are off by 110 tol.
AMPLIFIED = {"heavy-top-se3": 2.0, "leaning-disc": 40.0, "slider-crank-flexible": 40.0, "rolling-sphere": 2.0}
ROUNDING = 2e-14


def span(problem: Problem) -> tuple[float, float]:
    t0, t1 = problem.t_span
    return (t0, t1) if problem.reference_times else (t0, min(t1, t0 + SPAN))


@cache
def times(name: str) -> tuple[float, ...]:
    """Times of comparison, the end included."""
    problem = da.problems()[name]
    if problem.reference_times is not None:
        return problem.reference_times
    return tuple(np.linspace(*span(problem), SAMPLES + 1)[1:])


@cache
def reference(name: str) -> dict[str, np.ndarray]:
    return dict(da.problems()[name].reference(np.array(times(name))))


@cache
def run(name: str, tol: float, formulation: str | None = None) -> da.Solution:
    problem = da.problems()[name]
    sol = da.solve(
        problem.system, span(problem), q0=problem.q0, v0=problem.v0, rtol=tol, atol=tol, formulation=formulation,
        **problem.options,
    )  # fmt: skip
    assert sol.success, sol.message
    return sol


def bound(sol: da.Solution, tol: float) -> float:
    return (BASE + PER_STEP * sol.stats.steps) * tol * AMPLIFIED.get(sol.system_name, 1.0)


def size(sol: da.Solution, what: str) -> float:
    """Scale of a quantity along a run: tolerances are absolute below 1; multipliers count relative to their peak."""
    peak = float(np.abs(getattr(sol, what)).max(initial=0.0))
    return peak if what in ("lam", "mu") else max(1.0, peak)


def errors(name: str, sol: da.Solution, state: object) -> dict[str, float]:
    return {
        what: float(np.abs(getattr(state, what) - x).max()) / size(sol, what) for what, x in reference(name).items()
    }


def test_collection_describes_itself() -> None:
    collection = da.problems()
    assert len(collection) == len(ALL) >= 20
    for name in ALL:
        problem = collection[name]
        assert problem.name == name
        assert problem.description
        assert problem.source
        assert problem.system.name == name
        assert collection[name] is problem  # built once
    with pytest.raises(KeyError, match="knife-edge"):
        collection["no such problem"]


@pytest.mark.parametrize("name", NAMES)
def test_initial_values_are_consistent(name: str) -> None:
    """To rounding level: projecting them moves nothing, and the multipliers are those of the reference."""
    problem = da.problems()[name]
    t0 = problem.t_span[0]
    state = da.consistent(problem.system, problem.q0, problem.v0, t0, **problem.options)
    for what, given in problem.system.initial_values(problem.q0, problem.v0).items():
        if given is not None:
            assert np.abs(getattr(state, what) - given).max() <= ROUNDING * max(1.0, np.abs(given).max()), what
    if problem.reference is not None and problem.reference_times is None:
        for what, x in problem.reference(t0).items():
            assert getattr(state, what) == pytest.approx(x, rel=1e-11, abs=1e-11), what


@pytest.mark.parametrize("tol", [1e-6, 1e-9])
@pytest.mark.parametrize("name", WITH_REFERENCE)
def test_default_method_meets_the_reference(name: str, tol: float) -> None:
    sol = run(name, tol)
    found = errors(name, sol, sol(np.array(times(name))))
    assert max(found.values()) <= bound(sol, tol), f"error/tol: { {k: x / tol for k, x in found.items()} }"


@pytest.mark.parametrize("name", WITH_REFERENCE)
def test_tighter_tolerance_gives_smaller_error(name: str) -> None:
    """Over three decades of tolerance by a factor 50 at least: errors of either sign may cancel in a loose run, but
    hardly in two. With kinks about, which methods of high order are careful with everywhere, loose runs may be more
    accurate than they were asked to be; then they count as if they were not."""
    loose, other, tight = (
        errors(name, run(name, tol), run(name, tol)(np.array(times(name)))) for tol in (1e-6, 1.5e-6, 1e-9)
    )
    floor = 1e-6 / 50 if kinked(da.problems()[name].system) else 1e-10
    for what in loose:
        assert tight[what] <= max(loose[what] / 50, other[what] / 75, floor), what


@pytest.mark.parametrize("name", WITH_REFERENCE)
def test_t_eval_equals_dense_output(name: str) -> None:
    """Storing only some times changes neither the steps nor the values."""
    problem, sol, grid = da.problems()[name], run(name, 1e-6), np.array(times(name))
    few = da.solve(
        problem.system, span(problem), q0=problem.q0, v0=problem.v0, rtol=1e-6, atol=1e-6, t_eval=grid,
        **problem.options,
    )  # fmt: skip
    assert np.array_equal(few.t, grid)
    assert few.stats.steps == sol.stats.steps
    dense = sol(grid)
    for what in reference(name):
        assert np.abs(getattr(few, what) - getattr(dense, what)).max() <= 1e-11 * size(sol, what), what
    for kind, x in few.drift.largest.items():
        assert x <= ROUNDING * max(1.0, size(sol, "q"), size(sol, "v")), kind


@pytest.mark.parametrize("tol", [1e-6, 1e-9])
@pytest.mark.parametrize("name", NAMES)
def test_constraints_hold_to_rounding(name: str, tol: float) -> None:
    sol = run(name, tol)
    for kind, x in sol.drift.largest.items():
        assert x <= ROUNDING * max(1.0, size(sol, "q"), size(sol, "v")), kind


# Index 2 and 3 on what they are meant for. The control of index 3 weights velocities by h, which loosens it.
# no constraints, nothing to differentiate
FREE = [name for name in ALL if not da.problems()[name].system.nlam + da.problems()[name].system.nmu]
KNOWN = [name for name in ALL if da.problems()[name].reference is not None and name not in FREE]
OTHER = among(KNOWN)


@pytest.mark.parametrize("name", OTHER)
def test_index_2_meets_the_reference(name: str) -> None:
    sol = run(name, 1e-7, "index-2")
    found = errors(name, sol, sol(np.array(times(name))))
    assert max(found.values()) <= bound(sol, 1e-7), found
    assert sol.drift.largest["velocity"] <= 1e-9 * size(sol, "v")
    assert sol.drift.largest["nonholonomic"] <= 1e-9 * size(sol, "v")


# multipliers that are wrong at every change of step size do no harm on average, unless their force is nonlinear in them
AVERAGED = among([name for name in KNOWN if da.problems()[name].system.nq and name != "jay-negrut-5.1"])


@pytest.mark.parametrize("name", AVERAGED)
def test_index_3_positions_meet_the_reference(name: str) -> None:
    """Multipliers suffer at every change of step size, so only positions are compared, and more loosely."""
    sol = run(name, 1e-7, "index-3")
    found = errors(name, sol, sol(np.array(times(name))))
    assert found["q"] <= 5 * bound(sol, 1e-7)
    assert sol.drift.largest["position"] <= 1e-9 * size(sol, "q")


def test_slider_crank_reference_agrees_with_the_published_table() -> None:
    table = np.array(slider_crank.PUBLISHED)
    problem = da.problems()["slider-crank"]
    assert np.abs(problem.reference(table[:, 0])["q"] - table[:, 1:]).max() < 6e-5
    sol = run("slider-crank", 1e-6)
    assert np.abs(sol(table[:, 0]).q - table[:, 1:]).max() < 6e-5


def test_four_bar_reference_agrees_with_the_published_table() -> None:
    """The reduction to one angle, for the 40 loops that the literature has values for."""
    table = np.array(four_bar.PUBLISHED_40)
    top = minimal_coordinates(
        four_bar.reduced(40), four_bar.START, 0.0, lambda t, y: {"top": [np.sin(y[0]), np.cos(y[0])]}
    )
    assert np.abs(top(table[:, 0])["top"] - table[:, 1:]).max() < 5e-6
