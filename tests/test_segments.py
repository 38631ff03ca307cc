"""Runs made of segments: declared discontinuities, a change of method on the way, and one solution of it all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dalembert as da
from dalembert.formulations.base import as_formulation
from dalembert.joined import make_solution
from dalembert.model.released import with_released
from dalembert.numerics import runstate
from dalembert.runtime.plan import Plan
from dalembert.runtime.prepare import as_projection
from dalembert.runtime.segments import Start, carry_on, run_segments
from dalembert.status import OptionError, Status

METHODS = ["bdf", "radau", "explicit", "generalized-alpha", "modified-bdf"]


def pushed(how: Any) -> da.System:
    """Unit mass pushed with 1 until t = 1, then with -2: x(2) = 1/2, v(2) = -1."""
    return da.System(q=["x"], mass=[1.0], force=lambda t: [how(t)])


BEFORE, AFTER = pushed(lambda t: np.where(t < 1.0, 1.0, -2.0)), pushed(lambda t: np.where(t <= 1.0, 1.0, -2.0))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("system", [BEFORE, AFTER], ids=["t < 1", "t <= 1"])
def test_a_declared_jump_costs_no_accuracy(method: str, system: da.System) -> None:
    """Parabolas are exact for methods of order 2 and more, whichever side the value at the jump belongs to."""
    sol = da.solve(system, (0, 2), [0.0], [0.0], method=method, rtol=1e-8, atol=1e-10, discontinuities=[1.0])
    assert sol.q[-1, 0] == pytest.approx(0.5, abs=1e-8)
    assert sol.v[-1, 0] == pytest.approx(-1.0, abs=1e-8)
    undeclared = da.solve(system, (0, 2), [0.0], [0.0], method=method, rtol=1e-8, atol=1e-10)
    assert sol.stats.rejected <= 0.6 * undeclared.stats.rejected
    (i,) = sol.breaks
    assert sol.t[i - 1] == sol.t[i] == 1.0
    assert [sol.a[i - 1, 0], sol.a[i, 0]] == [1.0, -2.0]
    assert sol(1.0).a[0] == -2.0
    assert sol([0.0, 0.5, 1.0, 1.5]).a[:, 0] == pytest.approx([1.0, 1.0, -2.0, -2.0], abs=1e-12)


def test_backward() -> None:
    sol = da.solve(BEFORE, (2, 0), [0.5], [-1.0], method="radau", discontinuities=[1.0])
    assert [sol.q[-1, 0], sol.v[-1, 0]] == pytest.approx([0.0, 0.0], abs=1e-12)


def test_output_times() -> None:
    times = np.linspace(0, 2, 9)
    sol = da.solve(BEFORE, (0, 2), [0.0], [0.0], method="radau", t_eval=times, discontinuities=[1.0, 0.25])
    np.testing.assert_array_equal(sol.t, times)
    np.testing.assert_array_equal(sol.a[:, 0], np.where(times < 1, 1.0, -2.0))
    np.testing.assert_allclose(sol.v[:, 0], np.where(times < 1, times, 1 - 2 * (times - 1)), atol=1e-12)


@pytest.mark.parametrize("h", [0.3, [0.3, 0.3, 0.3, 0.3, 0.8]])
def test_fixed_steps(h: Any) -> None:
    sol = da.solve(BEFORE, (0, 2), [0.0], [0.0], method="radau", h=h, discontinuities=[1.0])
    assert sol.q[-1, 0] == pytest.approx(0.5, abs=1e-13)
    assert np.count_nonzero(sol.t == 1.0) == 2


@pytest.mark.parametrize(("given", "words"), [([3.0], "within t_span"), (["x"], "give numbers"), ([np.nan], "nan")])
def test_bad_discontinuities(given: Any, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        da.solve(BEFORE, (0, 2), [0.0], [0.0], discontinuities=given)


def test_max_steps_counts_all_segments() -> None:
    sol = da.solve(BEFORE, (0, 2), [0.0], [0.0], method="bdf", max_steps=30, discontinuities=[1.0])
    assert sol.status == Status.MAX_STEPS
    assert sol.stats.steps == 30
    assert "after 30 steps" in sol.message


def test_switch_of_method(tmp_path: Any) -> None:
    """BDF for the first hundred steps, Radau from there: one solution, invariants and drift included."""
    problem = da.problems()["pendulum"]
    system = problem.system
    bdf, radau, form = da.BDF(), da.Radau(), as_formulation("index-1", "index-1")
    plan = Plan(0.0, 4.0, np.full(4, 1e-8), np.full(4, 1e-10))
    first = Start(
        system, bdf, form, as_projection("default", system, form, bdf), system.parameters.vector(), 0.0,
        {"q": problem.q0, "v": problem.v0}, "check", pause=lambda run, work: run.whole[runstate.STEPS] > 0,
        look_every=100,
    )  # fmt: skip

    def follow(segments: Any) -> Start | None:
        if len(segments) > 1:
            return None
        kept = segments[0].phi0
        return carry_on(segments[0], method=radau, reason="switch", pause=None, look_every=None, invariants=kept)

    sol = make_solution(run_segments(first, plan, follow), plan)
    assert sol.success
    assert sol.t[-1] == 4.0
    assert [s.status for s in sol.stats.segments] == ["RUNNING", "SUCCESS"]
    assert [s.method.split()[0] for s in sol.stats.segments] == ["BDF", "radau"]
    assert sol.stats.segments[0].steps == 100
    assert sol.stats.steps == sum(s.steps for s in sol.stats.segments) == sol.t.size - 2
    np.testing.assert_allclose(sol.q[-1], problem.q0, atol=1e-5)
    assert sol.drift.position.shape == (sol.t.size, 1)
    assert max(sol.drift.largest.values()) < 1e-10
    i = sol.breaks[0]
    np.testing.assert_allclose(sol.q[i], sol.q[i - 1], atol=1e-14)
    times = np.linspace(0, 4, 101)
    sol.save(tmp_path / "run.nc")
    back = da.load(tmp_path / "run.nc")
    assert back.stats.segments == sol.stats.segments
    assert back.breaks == sol.breaks
    assert back.hermite == (False, True)
    np.testing.assert_allclose(back(times).q, sol(times).q, atol=1e-6)


def test_variants_of_a_system() -> None:
    """Released constraints have no equation and no force; a friction law that asks for the multiplier sees zero."""
    system = da.System(
        q=["x", "y"], mass=[1.0, 2.0], force=lambda lam: [10 * lam[0] + lam[1], 3 * lam[1]],
        constraints=lambda q: {"a": q[0] - 1, "b": q[1] - 2},
    )  # fmt: skip
    variant = with_released(system, ["a"])
    assert variant.names["lam"] == ("b",)
    assert with_released(system, ["a"]) is variant
    assert with_released(variant, []) is system
    state = da.consistent(variant, [0.0, 0.0], [1.0, 1.0])
    np.testing.assert_allclose(state.q, [0, 2])
    np.testing.assert_allclose(state.v, [1, 0])
    np.testing.assert_allclose(np.asarray(variant.function("force")(*[0] * 7, 3.0, 0, [], []))[:, 0], [3, 9])
    with pytest.raises(OptionError, match="no constraint 'c'"):
        with_released(system, ["c"])
