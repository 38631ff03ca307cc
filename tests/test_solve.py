"""`solve` and `consistent`: outputs that agree with each other, multipliers, dense output, events, options, threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import dalembert as da
from dalembert.status import Status

TIGHT = {"rtol": 1e-9, "atol": 1e-11}


def run(problem: Any, end: float = 2.2, **options: Any) -> da.Solution:
    return da.solve(problem.system, (0, end), q0=problem.q0, v0=problem.v0, **options)


# ---------------------------------------------------------------------- outputs
def test_output_times_dense_output_and_steps_agree(pendulum: Any) -> None:
    every = run(pendulum)
    times = np.linspace(0, 2.2, 77)
    asked = run(pendulum, t_eval=times)
    dense = every(times)
    np.testing.assert_array_equal(asked.t, times)
    for name in ("q", "v", "a", "lam"):
        np.testing.assert_allclose(getattr(asked, name), getattr(dense, name), rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(getattr(every(every.t), name), getattr(every, name))
    assert asked.stats.steps == every.stats.steps


@pytest.mark.parametrize(
    "options",
    [{"h": 0.01}, {"h": 0.01, "method": da.BDF(1)}, {"formulation": "index-2"}],
    ids=["bdf5", "bdf1", "index-2"],
)
def test_output_times_dense_output_and_steps_agree_for(pendulum: Any, options: dict[str, Any]) -> None:
    every = run(pendulum, **options)
    times = np.concatenate([[0.0, 0.005, 0.01, 0.013], np.linspace(0.1, 2.2, 30)])
    asked, dense = run(pendulum, t_eval=times, **options), every(times)
    np.testing.assert_array_equal(asked.t, times)
    late = times > 0.05  # a fixed-step run of high order starts from values at a tighter tolerance
    for name in ("q", "v", "lam"):
        np.testing.assert_allclose(getattr(asked, name)[late], getattr(dense, name)[late], rtol=1e-11, atol=1e-11)
        tolerance = 0.2 if name == "lam" else 2e-3
        np.testing.assert_allclose(getattr(asked, name), getattr(dense, name), atol=tolerance)


def test_output_times_without_the_ends(pendulum: Any) -> None:
    sol = run(pendulum, t_eval=[0.5, 1.0], **TIGHT)
    np.testing.assert_array_equal(sol.t, [0.5, 1.0])
    np.testing.assert_allclose(sol.q, pendulum.reference(sol.t)["q"], atol=1e-6)
    assert run(pendulum, t_eval=[], **TIGHT).t.size == 0


def test_dense_output_of_scalars_and_its_refusals(pendulum: Any) -> None:
    sol = run(pendulum)
    state = sol(0.3)
    assert (state.q.shape, state.lam.shape, state.t) == ((2,), (1,), 0.3)
    assert sol([0.3, 0.4]).q.shape == (2, 2)
    with pytest.raises(ValueError, match=r"t = 3 is outside.*\[0, 2.2\]"):
        sol(3.0)
    with pytest.raises(ValueError, match="outside"):
        sol(np.nan)
    with pytest.raises(ValueError, match="2 dimensions"):
        sol([[0.3]])
    with pytest.raises(ValueError, match="leave t_eval out"):
        run(pendulum, t_eval=[1.0])(0.5)


def test_dense_output_is_on_the_constraints(double_pendulum: da.System, double_start: Any) -> None:
    sol = da.solve(double_pendulum, (0, 2), *double_start)
    t = np.random.default_rng(0).uniform(0, 2, 200)
    state = sol(t)
    zeros = np.zeros(0)
    p = double_pendulum.parameters.vector()
    for i in range(t.size):
        point = [t[i], state.q[i], state.v[i], state.a[i], zeros, zeros, zeros, state.lam[i], zeros, p, zeros]
        for level, bound in (("g", 1e-15), ("g_dot", 1e-14), ("g_ddot", 1e-11)):
            assert np.abs(double_pendulum.function(level)(*point).full()).max() < 4 * bound, level
        assert np.abs(double_pendulum.function("balance")(*point).full()).max() < 1e-11


@pytest.mark.parametrize("k", [2, 3, 4])
def test_dense_output_has_the_order_of_the_method(pendulum: Any, k: int) -> None:
    found = []
    steps = (400, 800, 1600)
    for n in steps:
        sol = run(pendulum, method=da.BDF(k), h=2.2 / n)
        t = sol.t[k + 1 :] - 0.37 * 2.2 / n
        state, exact = sol(t), pendulum.reference(t)
        found.append([np.abs(getattr(state, x) - exact[x]).max() for x in ("q", "v", "lam")])
    slopes = np.polyfit(-np.log(steps), np.log(found), 1)[0]
    assert np.all(np.abs(slopes - k) < 0.2), slopes


def test_dense_output_error_is_that_of_the_steps(pendulum: Any) -> None:
    sol = run(pendulum, 10.0)
    t = np.linspace(0, 10, 4001)
    between = np.abs(sol(t).q - pendulum.reference(t)["q"]).max()
    at_steps = np.abs(sol.q - pendulum.reference(sol.t)["q"]).max()
    assert between < 2 * at_steps


def multiplier_errors(sol: da.Solution) -> np.ndarray:
    """How far (a, lam) of the double pendulum are from [M G^T; G 0] [a; lam] = [f; gamma] solved by numpy, relative."""
    m, gravity = np.array([1.0, 1.0, 2.0, 2.0]), 9.81
    out = []
    for q, v, a, lam in zip(sol.q, sol.v, sol.a, sol.lam, strict=True):
        d, w = q[2:] - q[:2], v[2:] - v[:2]
        G = np.array([[q[0], q[1], 0, 0], [-d[0], -d[1], d[0], d[1]]])
        matrix = np.block([[np.diag(m), G.T], [G, np.zeros((2, 2))]])
        right = [0, -gravity, 0, -2 * gravity, -(v[:2] @ v[:2]), -(w @ w)]
        expected = np.linalg.solve(matrix, right)
        out.append(np.abs(np.concatenate([a, lam]) - expected).max() / np.abs(expected).max())
    return np.array(out)


def test_multipliers_belong_to_the_reported_state(double_pendulum: da.System, double_start: Any) -> None:
    found = multiplier_errors(da.solve(double_pendulum, (0, 3), *double_start))
    assert np.median(found) < 1e-14
    assert found.max() < 1e-8


def test_multipliers_belong_to_the_reported_state_to_rounding(double_pendulum: da.System, double_start: Any) -> None:
    """Also while the upper rod passes the vertical, where a pivot chosen in advance goes through zero."""
    assert multiplier_errors(da.solve(double_pendulum, (0, 20), *double_start)).max() < 1e-12


def test_solution_tells_its_story(double_pendulum: da.System, double_start: Any) -> None:
    sol = da.solve(double_pendulum, (0, 2), *double_start, rtol=1e-10, atol=1e-12)
    assert sol.success
    assert sol.status == Status.SUCCESS
    assert sol.names["lam"] == ("upper", "lower")
    assert sol.parameters == {"m": [1.0, 2.0], "L": [1.0, 0.7], "g": 9.81}
    np.testing.assert_allclose(sol.energy, sol.energy[0], rtol=1e-7)
    assert "SUCCESS" in repr(sol)
    assert "position=" in repr(sol.drift)
    assert sol.t.size == sol.orders.size == sol.q.shape[0] == sol.mu.shape[0]
    with pytest.raises(ValueError, match="energy="):
        _ = da.solve(da.System(q=1, mass=[1.0]), (0, 1), q0=[0]).energy


def test_statistics_are_consistent(pendulum: Any) -> None:
    sol = run(pendulum, method="bdf")
    s = sol.stats
    assert s.steps == sol.t.size - 1
    assert s.projections >= s.steps  # attempts that failed the error test were projected too
    assert s.projections <= s.steps + s.rejected + s.newton_failures
    assert s.residuals >= s.newton_iterations >= s.steps
    assert s.factorizations == s.jacobians > 0
    assert s.lapack_factorizations == 0
    assert s.wall_time > 0
    assert s.compile_time > 0
    assert "1-5" in s.method
    assert s.formulation == "index-1"
    assert s.projection.startswith("sequential")
    assert run(pendulum, projection=None).stats.projections == 0
    assert run(pendulum, projection=None).stats.projection == "none"


def test_runs_are_repeatable_and_leave_no_trace(pendulum: Any) -> None:
    first = run(pendulum)
    run(pendulum, parameters={"g": 1.0}, projection=None)
    second = run(pendulum)
    np.testing.assert_array_equal(first.t, second.t)
    np.testing.assert_array_equal(first.q, second.q)
    np.testing.assert_array_equal(first.lam, second.lam)


def test_parameters_are_run_time_data(pendulum: Any) -> None:
    """Four times the gravity: twice as fast."""
    t = np.linspace(0, 1, 11)
    slow = run(pendulum, 2.0, t_eval=2 * t, **TIGHT)
    fast = run(pendulum, 1.0, t_eval=t, parameters={"g": 4 * pendulum.system.parameters.defaults["g"]}, **TIGHT)
    np.testing.assert_allclose(fast.q, slow.q, atol=1e-6)
    np.testing.assert_allclose(fast.v, 2 * slow.v, atol=1e-5)


# ---------------------------------------------------------------------- directions, steps, tolerances
def test_backward(pendulum: Any) -> None:
    there = run(pendulum, 1.7, **TIGHT)
    back = da.solve(pendulum.system, (1.7, 0), there.q[-1], there.v[-1], t_eval=[1.7, 1.0, 0.5, 0.0], **TIGHT)
    assert back.success
    exact = pendulum.reference(back.t)
    for name in ("q", "v", "lam"):
        np.testing.assert_allclose(getattr(back, name), exact[name], atol=1e-5)
    dense = da.solve(pendulum.system, (1.7, 0), there.q[-1], there.v[-1], **TIGHT)
    np.testing.assert_allclose(dense(0.9).q, pendulum.reference(0.9)["q"], atol=1e-6)


def test_backward_with_a_fixed_step(pendulum: Any) -> None:
    there = run(pendulum, 1.0, rtol=1e-11, atol=1e-13)
    back = da.solve(pendulum.system, (1, 0), there.q[-1], there.v[-1], h=0.001, method=da.BDF(4))
    assert back.stats.steps == 1000
    np.testing.assert_allclose(back.q[-1], pendulum.q0, atol=1e-7)


def test_times_far_from_zero(pendulum: Any) -> None:
    near = run(pendulum, 1.0)
    far = da.solve(pendulum.system, (1e6, 1e6 + 1.0), pendulum.q0, pendulum.v0)
    assert far.success
    np.testing.assert_allclose(far.q[-1], near.q[-1], atol=1e-4)


def test_first_step_is_honoured(pendulum: Any) -> None:
    sol = run(pendulum, first_step=1e-5)
    assert sol.t[1] == pytest.approx(1e-5, rel=1e-12)
    with_large = run(pendulum, first_step=0.5)
    assert with_large.success  # too large: repeated until the error test passes
    assert with_large.t[1] < 0.5


def test_largest_step_is_honoured(pendulum: Any) -> None:
    sol = run(pendulum, max_step=0.004)
    assert np.diff(sol.t).max() <= 0.004 * (1 + 1e-12)
    back = da.solve(pendulum.system, (0, -1), pendulum.q0, pendulum.v0, max_step=0.004)
    assert np.abs(np.diff(back.t)).max() <= 0.004 * (1 + 1e-12)


def test_fixed_steps_are_taken_as_given(pendulum: Any) -> None:
    sol = run(pendulum, 1.0, h=0.03)  # 34 steps, the last one shorter
    np.testing.assert_allclose(np.diff(sol.t)[:-1], 0.03, rtol=1e-12)
    assert sol.t[-1] == 1.0
    steps = np.random.default_rng(1).uniform(0.005, 0.01, 100)
    sol = run(pendulum, float(steps.sum()), h=steps)
    np.testing.assert_allclose(np.diff(sol.t), steps, rtol=1e-9)
    assert sol.stats.rejected == 0


def test_tolerances_by_component(pendulum: Any) -> None:
    loose = run(pendulum, rtol=0, atol=[1e-4] * 4)
    same = run(pendulum, rtol=[0] * 4, atol=1e-4)
    np.testing.assert_array_equal(loose.t, same.t)
    found = [run(pendulum, rtol=0, atol=[1e-4, tol, 1e-4, 1e-4], method="explicit").stats.steps for tol in (1e-4, 1e-9)]
    assert found[1] > 2 * found[0]
    for component in range(4):
        atol = np.full(4, 1e6)
        atol[component] = 1e-6
        assert run(pendulum, rtol=0, atol=atol).success


# ---------------------------------------------------------------------- events
def crossing(q: Any) -> Any:
    """The bottom of the swing, passed at t = 1/2, 3/2, 5/2, ..."""
    return q[0]


def with_rules(**rules: Any) -> Any:
    def event(q: Any) -> Any:
        return q[0]

    event.__dict__.update(rules)
    return event


def test_event_times(pendulum: Any) -> None:
    sol = run(pendulum, 6.0, events=crossing, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(sol.t_events[0], 0.5 + np.arange(6), atol=1e-7)
    state = sol.events[0]
    np.testing.assert_allclose(state.q, np.tile([0, -1], (6, 1)), atol=1e-13)
    np.testing.assert_allclose(np.abs(state.v[:, 0]), np.sqrt(2 * pendulum.system.parameters.defaults["g"]), rtol=1e-7)
    assert sol.status == Status.SUCCESS


def test_events_do_not_disturb_the_run(pendulum: Any) -> None:
    np.testing.assert_array_equal(run(pendulum, events=crossing).q, run(pendulum).q)


@pytest.mark.parametrize(("direction", "first"), [(-1, 0.5), (1, 1.5)])
def test_event_direction(pendulum: Any, direction: int, first: float) -> None:
    sol = run(pendulum, 6.0, events=with_rules(direction=direction), rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(sol.t_events[0], first + 2 * np.arange(3), atol=1e-5)


@pytest.mark.parametrize(("terminal", "end"), [(True, 0.5), (1, 0.5), (3, 2.5)])
def test_terminal_event(pendulum: Any, terminal: Any, end: float) -> None:
    sol = run(pendulum, 6.0, events=with_rules(terminal=terminal), rtol=1e-8, atol=1e-10)
    assert sol.success
    assert sol.status == Status.EVENT
    assert sol.t[-1] == sol.t_events[0][-1] == pytest.approx(end, abs=1e-5)
    assert abs(sol.q[-1, 0]) < 1e-13
    assert np.all(np.diff(sol.t) > 0)
    assert "event 0 (event)" in sol.message
    np.testing.assert_array_equal(sol(sol.t[-1]).q, sol.q[-1])


def test_terminal_event_cuts_output_times(pendulum: Any) -> None:
    sol = run(pendulum, 6.0, events=with_rules(terminal=True), t_eval=np.linspace(0, 6, 61))
    assert sol.t[-1] == pytest.approx(0.5 if sol.t_events[0][0] >= 0.5 else 0.4)
    assert sol.success


def test_events_are_reported_in_the_order_of_time(pendulum: Any) -> None:
    """Both within one step of length 0.5, listed the other way round; the earlier one ends the run."""
    system = da.System(q=["x"], mass=[1.0])

    def late(q: Any) -> Any:
        return q[0] - 0.93

    def early(q: Any) -> Any:
        return q[0] - 0.91

    late.terminal = early.terminal = True  # type: ignore[attr-defined]
    sol = da.solve(system, (0, 2), q0=[0], v0=[1], events=[late, early], h=0.5, method=da.BDF(1))
    assert sol.t_events[0].size == 0
    assert sol.t_events[1] == pytest.approx([0.91], abs=1e-12)
    assert "early" in sol.message


def test_event_at_the_very_start_is_not_one(pendulum: Any) -> None:
    """An event that starts at zero counts when it comes back, not when it leaves."""
    sol = run(pendulum, 3.0, events=lambda q: q[1], rtol=1e-9, atol=1e-11)
    assert not np.any(sol.t_events[0] < 0.5)


def test_events_of_time_parameters_and_multipliers(pendulum: Any) -> None:
    events = [lambda t: t - 0.7, lambda q, p: q[1] + 0.5 * p.L, lambda lam: lam[0] - 20.0]
    sol = run(pendulum, 0.9, events=events, rtol=1e-9, atol=1e-11)
    assert sol.t_events[0] == pytest.approx([0.7], abs=1e-14)
    np.testing.assert_allclose(sol.events[1].q[:, 1], -0.5, atol=1e-13)
    np.testing.assert_allclose(sol.events[2].lam[:, 0], 20.0, rtol=1e-12)
    assert all(t.size for t in sol.t_events)


def test_event_in_python(pendulum: Any) -> None:
    """One that cannot be traced finds the same times."""
    traced = run(pendulum, 3.0, events=crossing)
    python = run(pendulum, 3.0, events=lambda q: q[0] if float(q[0]) > 0 else 1.0 * q[0])
    np.testing.assert_allclose(python.t_events[0], traced.t_events[0], atol=1e-13)


def test_events_backward(pendulum: Any) -> None:
    sol = da.solve(pendulum.system, (0, -3), pendulum.q0, pendulum.v0, events=with_rules(terminal=2), **TIGHT)
    np.testing.assert_allclose(sol.t_events[0], [-0.5, -1.5], atol=1e-6)
    assert sol.t[-1] == sol.t_events[0][-1]


def test_many_events_grow_the_output(pendulum: Any) -> None:
    sol = run(pendulum, 4.0, events=lambda t: np.sin(300 * t), max_step=0.002)
    assert sol.t_events[0].size == int(300 * 4.0 / np.pi)


# ---------------------------------------------------------------------- other kinds of systems
def test_plain_ode() -> None:
    """No constraints at all: the harmonic oscillator."""
    system = da.System(q=["x"], mass=[2.0], force=lambda q: [-8.0 * q[0]])
    sol = da.solve(system, (0, 5), q0=[1.0], v0=[0.0], **TIGHT)
    assert sol.success
    np.testing.assert_allclose(sol.q[:, 0], np.cos(2 * sol.t), atol=1e-6)
    assert sol.lam.shape == (sol.t.size, 0)
    assert sol.stats.projection == "none"


def test_velocity_defaults_to_rest(pendulum: Any) -> None:
    np.testing.assert_array_equal(da.solve(pendulum.system, (0, 0.1), q0=pendulum.q0).v[0], [0, 0])


def test_first_order_system() -> None:
    """x' = y-driven, x0 held on cos(t): index 2 in Hessenberg form."""
    system = da.Hessenberg(
        order=1, x=2, f=lambda x, y: [x[1] + y[0], -x[0]], g=lambda t, x: {"track": x[0] - np.cos(t)}
    )
    sol = da.solve(system, (0, 3), q0=[1.0, 0.0], **TIGHT)
    np.testing.assert_allclose(sol.v, np.stack([np.cos(sol.t), -np.sin(sol.t)], axis=1), atol=1e-7)
    np.testing.assert_allclose(sol.mu[:, 0], 0, atol=1e-6)


def test_dynamic_and_auxiliary_variables() -> None:
    """A mass driven by r with r' = -r, and w = 2 r from its own equation."""
    system = da.System(
        q=1, mass=[1.0], force=lambda w: [w[0]], r=["r"], dynamics=lambda r: [-r[0]],
        w=["w"], auxiliary=lambda r, w: [w[0] - 2 * r[0]],
    )  # fmt: skip
    sol = da.solve(system, (0, 2), q0=[0], v0=[0], r0=[1.0], **TIGHT)
    np.testing.assert_allclose(sol.r[:, 0], np.exp(-sol.t), atol=1e-7)
    np.testing.assert_allclose(sol.w[:, 0], 2 * sol.r[:, 0], rtol=1e-12)
    np.testing.assert_allclose(sol.v[:, 0], 2 - 2 * np.exp(-sol.t), atol=1e-7)


def test_nonholonomic_skate() -> None:
    """A skate on the plane that turns at a constant rate runs in a circle."""
    system = da.System(
        q=["x", "y", "phi"], mass=[1.0, 1.0, 1.0],
        velocity_constraints=lambda q, v: {"blade": np.sin(q[2]) * v[0] - np.cos(q[2]) * v[1]},
    )  # fmt: skip
    sol = da.solve(system, (0, 4), q0=[0, 0, 0], v0=[1.0, 0, 0.5], **TIGHT)
    expected = np.stack([2 * np.sin(0.5 * sol.t), 2 - 2 * np.cos(0.5 * sol.t), 0.5 * sol.t], axis=1)
    np.testing.assert_allclose(sol.q, expected, atol=1e-6)
    np.testing.assert_allclose(sol.mu[:, 0], 0.5, atol=1e-6)  # the side force m v phi'
    assert np.abs(sol.drift.nonholonomic).max() < 1e-14


def test_black_box_gives_the_same_motion(pendulum: Any, pendulum_with: Any) -> None:
    g = float(pendulum.system.parameters.defaults["g"])
    system = pendulum_with(
        force=da.black_box(lambda q: [0.0, -g]),
        constraints=da.black_box(lambda q: [(q[0] ** 2 + q[1] ** 2 - 1) / 2], jacobian=lambda q: {"q": [q]}, size=1),
    )
    sol = da.solve(system, (0, 0.5), q0=[1, 0], v0=[0, 0], rtol=1e-6, atol=1e-8)
    assert sol.success
    exact = pendulum.reference(sol.t)
    np.testing.assert_allclose(sol.q, exact["q"], atol=1e-4)
    np.testing.assert_allclose(sol.lam, exact["lam"], atol=1e-2)


# ---------------------------------------------------------------------- progress, threads
def test_progress_bar(pendulum: Any, capsys: pytest.CaptureFixture[str]) -> None:
    run(pendulum, progress=True)
    shown = capsys.readouterr()
    assert "pendulum" in shown.err  # not where results are piped
    assert "100%" in shown.err
    assert shown.out == ""
    run(pendulum)
    assert capsys.readouterr().err == ""


def test_threads_give_identical_results(pendulum: Any) -> None:
    alone = run(pendulum, 20.0, rtol=1e-8)
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda _: run(pendulum, 20.0, rtol=1e-8), range(8)))
    for sol in together:
        np.testing.assert_array_equal(sol.t, alone.t)
        np.testing.assert_array_equal(sol.q, alone.q)
        np.testing.assert_array_equal(sol.lam, alone.lam)


def test_threads_share_a_system_with_different_parameters(pendulum: Any) -> None:
    gravities = [1.0, 5.0, 9.81, 20.0]

    def final(g: float) -> np.ndarray:
        return run(pendulum, 5.0, parameters={"g": g}).q[-1]

    alone = [final(g) for g in gravities]
    with ThreadPoolExecutor(4) as pool:
        np.testing.assert_array_equal(list(pool.map(final, gravities)), alone)


# ---------------------------------------------------------------------- consistent states
def test_consistent_state(double_pendulum: da.System) -> None:
    state = da.consistent(double_pendulum, [0.8, -0.7, 1.1, -1.4], [1.0, 0.3, -0.2, 0.4], t0=2.0)
    assert state.t == 2.0
    q, v = state.q, state.v
    d, w = q[2:] - q[:2], v[2:] - v[:2]
    G = np.array([[q[0], q[1], 0, 0], [-d[0], -d[1], d[0], d[1]]])
    assert np.abs([q[:2] @ q[:2] - 1, d @ d - 0.49]).max() < 1e-15
    assert np.abs(G @ v).max() < 1e-15
    for moved in (q - [0.8, -0.7, 1.1, -1.4], v - [1.0, 0.3, -0.2, 0.4]):  # orthogonal: along the gradients
        normal = np.linalg.lstsq(G.T, moved, rcond=None)[0]
        np.testing.assert_allclose(G.T @ normal, moved, atol=1e-8)
    right = np.array([0, -9.81, 0, -19.62]) - G.T @ state.lam
    np.testing.assert_allclose(state.a, right / [1, 1, 2, 2], atol=1e-12)
    np.testing.assert_allclose(G @ state.a, [-(v[:2] @ v[:2]), -(w @ w)], atol=1e-12)


def test_consistent_state_of_parameters_and_time() -> None:
    system = da.System(
        q=["x", "y"], mass=[1, 1], force=[0, 0], parameters={"L": 1.0},
        constraints=lambda t, q, p: {"growing": q @ q - (p.L * (1 + t)) ** 2},
    )  # fmt: skip
    state = da.consistent(system, [1.0, 0.1], [0.0, 0.0], t0=1.0, parameters={"L": 2.0})
    assert np.hypot(*state.q) == pytest.approx(4.0, abs=1e-14)
    assert state.q @ state.v == pytest.approx(8.0, abs=1e-13)  # radial speed L


def test_consistent_state_is_a_start_for_solve(double_pendulum: da.System) -> None:
    state = da.consistent(double_pendulum, [0.8, -0.7, 1.1, -1.4])
    sol = da.solve(double_pendulum, (0, 0.1), state.q, state.v)
    np.testing.assert_allclose(sol.lam[0], state.lam, rtol=1e-10)


@pytest.mark.parametrize(("method", "first_step"), [("explicit", 0.4), ("iterated", 0.5)])
def test_the_last_step_may_be_a_little_longer_but_not_than_allowed(method: str, first_step: float) -> None:
    """As much longer as the error test would let it be, if that reaches the end; else two equal steps do."""
    circle = da.System(q=2, mass=[1, 1], force=[0, 0], constraints=lambda q: [q[0] ** 2 + q[1] ** 2 - 1])

    def run(t_end: float, **options: Any) -> da.Solution:
        options |= {"rtol": 1e-7, "atol": 1e-7, "first_step": first_step}  # which would depend on the end, else
        return da.solve(circle, (0, t_end), [1, 0], [0, 1], method=method, **options)

    t = run(60.0).t
    half = t.size // 2
    h = t[half] - t[half - 1]
    assert h == pytest.approx(t[half + 1] - t[half])  # nothing changes along this motion
    longer, two = run(t[half] + 1.03 * h), run(t[half] + 1.12 * h)
    assert longer.t.size == half + 2
    assert np.diff(longer.t)[-1] == pytest.approx(1.03 * h)
    assert longer.stats.rejected == 0
    assert two.t.size == half + 3
    assert np.diff(two.t)[-2:] == pytest.approx(0.56 * h)
    bounded = run(t[half] + 1.03 * h, max_step=h)
    assert np.diff(bounded.t).max() <= h * (1 + 1e-9)
