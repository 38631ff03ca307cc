"""Runs that are set up once: the same as those of `solve`, number by number, whatever way they take."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import dalembert as da
import dalembert.prepared
from dalembert.status import InconsistentError, OptionError, RedundantError, Status

PARTS = ("t", "q", "v", "a", "lam", "mu", "r", "orders")
COUNTED = ("steps", "rejected", "newton_failures", "residuals", "factorizations", "newton_iterations", "projections")
METHODS = [da.Iterated(), da.Iterated(2), da.Explicit(5), da.Explicit(8), da.Radau(3), da.Gauss(2), da.HalfExplicit(5)]
METHODS += [da.BDF(), da.BackwardEuler(), da.Lobatto(3)]


def same(a: da.Solution, b: da.Solution) -> None:
    for name in PARTS:
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)
    assert (a.status, a.message, a.names, a.parameters) == (b.status, b.message, b.names, b.parameters)
    for name in COUNTED:
        assert getattr(a.stats, name) == getattr(b.stats, name), name


@pytest.fixture
def by_python(monkeypatch: pytest.MonkeyPatch) -> Callable[..., da.Solution]:
    """`solve`, but never in one call of compiled code."""

    def solve(*given: Any, **options: Any) -> da.Solution:
        with monkeypatch.context() as patch:
            patch.setattr(dalembert.prepared, "direct", lambda start, plan: None)
            return da.solve(*given, **options)

    return solve


def in_one_call(run: da.Prepared, *start: Any, **more: Any) -> da.Solution:
    """A second run, which is one call of compiled code."""
    run(*start, **more)
    sol = run(*start, **more)
    assert run._direct is not None
    return sol


@pytest.mark.parametrize("name", ["pendulum", "slider-crank", "knife-edge"])
@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.describe())
def test_one_call_makes_the_same_run(by_python: Any, name: str, method: Any) -> None:
    problem = da.problems()[name]
    options = {"method": method, "rtol": 1e-6, "atol": 1e-7, "max_step": 0.2}
    for t_eval in (None, [0.0, 0.3, 1.0], [0.25]):
        expected = by_python(problem.system, (0.0, 1.0), problem.q0, problem.v0, t_eval=t_eval, **options)
        run = da.prepare(problem.system, (0.0, 1.0), t_eval=t_eval, **options)
        same(in_one_call(run, problem.q0, problem.v0), expected)


@pytest.mark.parametrize("name", ["heavy-top", "heavy-top-quaternion", "rolling-disc", "rigid-body"])
def test_on_groups(by_python: Any, name: str) -> None:
    problem = da.problems()[name]
    options = {"method": da.Iterated(), "rtol": 1e-7, "atol": 1e-8}
    expected = by_python(problem.system, (0.0, 0.5), problem.q0, problem.v0, **options)
    sol = in_one_call(da.prepare(problem.system, (0.0, 0.5), **options), problem.q0, problem.v0)
    same(sol, expected)
    np.testing.assert_array_equal(sol(0.123).q, expected(0.123).q)


@pytest.mark.parametrize("more", [{"first_step": 1e-3}, {"max_steps": 3}, {"initial": "assume"}], ids=str)
@pytest.mark.parametrize("end", [2.0, -2.0])
def test_options(by_python: Any, more: dict[str, Any], end: float) -> None:
    problem = da.problems()["pendulum"]
    options = {"method": "iterated", "rtol": 1e-9, "atol": 1e-9, **more}
    expected = by_python(problem.system, (0.0, end), problem.q0, problem.v0, **options)
    same(in_one_call(da.prepare(problem.system, (0.0, end), **options), problem.q0, problem.v0), expected)


def test_long_runs_go_on_in_slices(by_python: Any) -> None:
    problem = da.problems()["pendulum"]
    options = {"method": "explicit", "rtol": 1e-9, "atol": 1e-9}
    expected = by_python(problem.system, (0.0, 100.0), problem.q0, problem.v0, **options)
    assert expected.stats.steps > 2000
    same(in_one_call(da.prepare(problem.system, (0.0, 100.0), **options), problem.q0, problem.v0), expected)


@pytest.mark.parametrize("name", ["pendulum", "andrews", "slider-crank-flexible", "four-bar", "heavy-top"])
def test_methods_that_may_change(by_python: Any, name: str) -> None:
    problem = da.problems()[name]
    span = 0.0, min(problem.t_span[1], 1.0)
    options = {"rtol": 1e-7, "atol": 1e-7, **problem.options}
    expected = by_python(problem.system, span, problem.q0, problem.v0, **options)
    run = da.prepare(problem.system, span, **options)
    for _ in range(3):
        sol = run(problem.q0, problem.v0)
        same(sol, expected)
        told = [[(s.method, s.steps, s.reason) for s in x.stats.segments] for x in (sol, expected)]
        assert told[0] == told[1]
    np.testing.assert_array_equal(sol(0.3 * span[1]).v, expected(0.3 * span[1]).v)


def test_everything_else_works_as_well(by_python: Any) -> None:
    problem = da.problems()["pendulum"]

    def bottom(q: Any) -> Any:
        return q[0]

    for options in (
        {"method": "bdf", "h": 0.01},
        {"method": "modified-bdf", "rtol": 1e-5},
        {"method": "bdf", "formulation": "minimal-extension"},
        {"method": "iterated", "events": bottom},
        {"method": "iterated", "discontinuities": [0.3]},
        {"method": "iterated", "initial": "project"},
        {"method": "iterated", "progress": True},
    ):
        run = da.prepare(problem.system, (0.0, 1.0), **options)
        expected = by_python(problem.system, (0.0, 1.0), problem.q0, problem.v0, **options)
        for _ in range(2):
            same(run(problem.q0, problem.v0), expected)
        assert run._direct is None, options


# ---------------------------------------------------------------------- what differs from run to run
def test_values_may_be_given_in_any_form() -> None:
    problem = da.problems()["pendulum"]
    run = da.prepare(problem.system, (0.0, 1.0), method="iterated")
    expected = in_one_call(run, np.array([1.0, 0.0]), np.array([0.0, 0.0]))
    still = np.array([1.0, 0.0])
    still.flags.writeable = False
    for q0 in ([1, 0], (1.0, 0.0), np.array([1, 0]), np.array([1.0, 9.0, 0.0])[::2], still, still.astype(">f8")):
        for v0 in (None, np.zeros(2), np.zeros(4)[::2], np.zeros(2, dtype=np.float32)):
            same(run(q0, v0), expected)


def test_parameters_of_a_call_count_on_top_of_those_prepared() -> None:
    problem = da.problems()["pendulum"]
    options = {"method": "iterated", "t_eval": [1.0]}
    run = da.prepare(problem.system, (0.0, 1.0), parameters={"g": 5.0}, **options)
    for given in ({}, {"m": 3.0}, {"g": 7.0}, {"m": 2.0, "g": 1.0}, {}):
        expected = da.solve(problem.system, (0.0, 1.0), [1, 0], parameters={"g": 5.0, **given}, **options)
        same(run([1, 0], parameters=given), expected)
        assert run([1, 0], parameters=given).parameters["g"] == given.get("g", 5.0)
    with pytest.raises(OptionError, match="no parameter 'k'"):
        run([1, 0], parameters={"k": 1.0})


def test_what_was_given_may_be_changed_afterwards() -> None:
    problem = da.problems()["pendulum"]
    times, q0, v0 = np.array([0.5, 1.0]), np.array([1.0, 0.0]), np.array([0.0, 0.0])
    run = da.prepare(problem.system, (0.0, 1.0), method="iterated", t_eval=times, rtol=1e-9)
    first = in_one_call(run, q0, v0)
    times[0] = 0.7
    q0[:], v0[:] = [0.0, 1.0], [1.0, 0.0]
    other = run(q0, v0)
    assert first.t.tolist() == [0.5, 1.0]
    first.t[0] = 3.0
    assert other.t.tolist() == [0.5, 1.0]
    same(run([1.0, 0.0]), run(np.array([1.0, 0.0]), np.zeros(2)))
    # the certificate runs again from where the run began
    whole = in_one_call(da.prepare(problem.system, (0.0, 1.0), method="iterated", rtol=1e-9), q0 := np.array([1.0, 0]))
    q0[:] = [0.0, -1.0]
    assert whole.check(rerun=True).passed


def test_solutions_are_whole() -> None:
    problem = da.problems()["slider-crank"]
    sol = in_one_call(da.prepare(problem.system, (0.0, 0.1), method="iterated", rtol=1e-9), problem.q0, problem.v0)
    assert sol.success
    assert sol.status is Status.SUCCESS
    assert sol.parts["q"] is not None
    np.testing.assert_array_equal(sol.q, sol.parts["q"])
    assert sol.drift.largest["position"] < 1e-14
    assert sol.check(rerun=True).passed
    assert sol.stats.wall_time > 0.0
    assert "SUCCESS" in repr(sol)
    with pytest.raises(AttributeError, match="no attribute 'velocity'"):
        _ = sol.velocity  # type: ignore[attr-defined]


def test_released_constraints(by_python: Any) -> None:
    problem = da.problems()["pendulum"]
    options = {"method": "iterated", "released": "rod"}
    expected = by_python(problem.system, (0.0, 1.0), problem.q0, problem.v0, **options)
    sol = in_one_call(da.prepare(problem.system, (0.0, 1.0), **options), problem.q0, problem.v0)
    same(sol, expected)
    assert sol.lam.shape == (sol.t.size, 1)
    assert not sol.lam.any()


def test_redundant_constraints(pendulum_with: Callable[..., da.System]) -> None:
    twice = pendulum_with(constraints=lambda q: [q[0] ** 2 + q[1] ** 2 - 1.0, 2 * q[0] ** 2 + 2 * q[1] ** 2 - 2.0])
    run = da.prepare(twice, (0.0, 1.0), method="bdf")
    for _ in range(2):
        assert run([0.6, 0.8]).stats.redundant
    with pytest.raises(RedundantError):
        da.prepare(twice, (0.0, 1.0), method="bdf", redundant="refuse")([0.6, 0.8])


def test_threads_do_not_disturb_each_other() -> None:
    problem = da.problems()["andrews"]
    run = da.prepare(problem.system, (0.0, 0.03), method="iterated", rtol=1e-8, atol=1e-8, t_eval=[0.03])
    scaled = [1.0 + 0.01 * k for k in range(16)]
    names = {"mom": problem.system.parameters.as_dict(problem.system.parameters.vector(None))["mom"]}
    alone = [run(problem.q0, problem.v0, parameters={"mom": names["mom"] * k}).q for k in scaled]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda k: run(problem.q0, problem.v0, parameters={"mom": names["mom"] * k}).q, scaled))
    np.testing.assert_array_equal(found, alone)


# ---------------------------------------------------------------------- bad input
@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize(
    ("q0", "v0", "error", "text"),
    [
        (None, None, OptionError, "q0 is missing"),
        ([1.0], None, OptionError, r"q0 has shape \(1,\), expected \(2,\)"),
        (np.array([1.0, np.nan]), None, OptionError, "q0=.*contains NaN"),
        ([1.0, 0.0], np.array([np.inf, 0.0]), OptionError, "v0=.*contains NaN or infinity"),
        (np.array([2.0, 0.0]), np.zeros(2), InconsistentError, "rod"),
        (np.array([1.0, 0.0]), np.array([1.0, 0.0]), InconsistentError, "rod"),
    ],
)
def test_bad_values_are_refused_like_those_of_solve(warm: bool, q0: Any, v0: Any, error: Any, text: str) -> None:
    problem = da.problems()["pendulum"]
    run = da.prepare(problem.system, (0.0, 1.0), method="iterated")
    if warm:
        in_one_call(run, [1.0, 0.0])
    with pytest.raises(error, match=text) as found:
        run(q0, v0)
    with pytest.raises(error) as expected:
        da.solve(problem.system, (0.0, 1.0), q0, v0, method="iterated")
    assert str(found.value) == str(expected.value)


def test_nan_in_values_without_constraints(pendulum_with: Callable[..., da.System]) -> None:
    free = pendulum_with(constraints=None)
    run = da.prepare(free, (0.0, 1.0), method="iterated")
    in_one_call(run, [1.0, 0.0])
    with pytest.raises(OptionError, match=r"v0=.*contains NaN"):
        run(np.array([1.0, 0.0]), np.array([np.nan, 0.0]))


def test_bad_options_are_refused_before_the_first_run() -> None:
    system = da.problems()["pendulum"].system
    for options, text in (
        ({"method": "magic"}, "magic"),
        ({"rtol": -1.0}, "rtol"),
        ({"t_eval": [2.0]}, "t_eval"),
        ({"projection": 3}, "projection"),
        ({"method": "explicit", "formulation": "index-3"}, "index-3"),
    ):
        with pytest.raises(ValueError, match=text):
            da.prepare(system, (0.0, 1.0), **options)


def test_runs_that_fail_return_what_they_have(pendulum_with: Callable[..., da.System]) -> None:
    wall = pendulum_with(force=lambda q, t: [0.0, -9.81 + 1e-9 * np.sqrt(0.5 - t)])
    run = da.prepare(wall, (0.0, 1.0), method="iterated")
    for _ in range(2):
        sol = run([1.0, 0.0])
        assert not sol.success
        assert 0.4 < sol.t[-1] <= 0.5
        assert "force" in sol.message


def test_repr_says_what_it_is() -> None:
    run = da.prepare(da.problems()["pendulum"].system, (0.0, 2.0), method="iterated")
    assert repr(run) == "Prepared(pendulum, t = 0 .. 2, method='iterated')"
    assert run.t_span == (0.0, 2.0)
    assert run.options["rtol"] == 1e-6
