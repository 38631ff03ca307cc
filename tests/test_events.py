"""Events: located to the precision of t, several in a step; what they change, and how the run goes on from there."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import dalembert as da
from dalembert.status import OptionError, Status

TIGHT: dict[str, Any] = {"method": "radau", "rtol": 1e-10, "atol": 1e-12}


# ---------------------------------------------------------------------- location
@pytest.mark.parametrize("method", ["bdf", "modified-bdf", "radau", "explicit", "generalized-alpha", "hht", "gauss"])
def test_events_are_zeros_of_the_dense_output(method: str) -> None:
    """The event time is the floating-point number behind the zero of the interpolant that the solution hands out."""
    problem = da.problems()["pendulum"]
    sol = da.solve(problem.system, (0, 6), problem.q0, problem.v0, method=method, events=lambda q: q[0] + 0.25 * q[1])
    t = sol.t_events[0]
    assert t.size == 6
    value = sol(t).q @ [1, 0.25]
    slope = np.abs(sol(t).v @ [1, 0.25])
    # dense output of multistep methods is put back onto the constraints, which rounds
    assert np.all(np.abs(value) <= 2 * np.spacing(t) * slope + 4e-16)


def test_event_times_of_a_closed_form() -> None:
    """cos(w t) = c to 1e-12 relative over 100 periods."""
    w = 2 * np.pi
    oscillator = da.System(q=1, mass=[1.0], force=lambda q: -(w**2) * q)
    sol = da.solve(oscillator, (0, 100), [1.0], [0.0], events=lambda q: q[0] - 0.3, method=da.Explicit(8),
                   rtol=1e-13, atol=1e-14)  # fmt: skip
    first = np.arccos(0.3) / w
    exact = np.sort(np.concatenate([np.arange(100) + first, np.arange(1, 101) - first]))
    np.testing.assert_allclose(sol.t_events[0], exact, rtol=1e-12)


STILL = da.System(q=1, mass=[1.0])


@pytest.mark.parametrize("black_box", [False, True])
@pytest.mark.parametrize("h", [1.0, 0.5, None])
def test_several_in_one_step(h: float | None, black_box: bool) -> None:
    """Zeros of a polynomial of time: all of them, in order, also if both ends of the step have the same sign."""
    zeros = [0.31, 0.34, 0.71]

    def f(t: Any) -> Any:
        x = float(t) if black_box else t
        return (x - zeros[0]) * (x - zeros[1]) * (x - zeros[2])

    sol = da.solve(STILL, (0, 1), [0.0], [1.0], method="radau", h=h, events=f)
    np.testing.assert_allclose(sol.t_events[0], zeros, rtol=1e-14)
    down = da.solve(STILL, (0, 1), [0.0], [1.0], method="radau", h=h, events=da.Event(f, direction=-1))
    np.testing.assert_allclose(down.t_events[0], zeros[1:2], rtol=1e-14)


def test_a_dip_on_multipliers() -> None:
    """The derivative of a multiplier is not known: the step is looked at in pieces."""
    problem = da.problems()["pendulum"]
    lowest = da.solve(problem.system, (0, 1), problem.q0, problem.v0, **TIGHT).lam[:, 0].max()
    sol = da.solve(problem.system, (0, 1), problem.q0, problem.v0, events=lambda lam: lam[0] - (1 - 1e-4) * lowest,
                   method=da.Explicit(8), rtol=1e-6, atol=1e-8)  # fmt: skip
    assert sol.t_events[0].size == 2
    assert sol.t_events[0].sum() == pytest.approx(1.0, abs=1e-5)  # before and after the bottom at t = 1/2


def test_touching_zero_is_no_event() -> None:
    sol = da.solve(STILL, (0, 1), [0.0], [1.0], method="radau", events=lambda t: (t - 0.3) ** 2 + 1e-9)
    assert not sol.t_events[0].size


# ---------------------------------------------------------------------- conventions
def test_an_event_at_the_start_is_one_when_it_comes_back() -> None:
    """Zero at t0 counts as the sign it leaves with, even if it comes back within the first step."""
    spring = da.System(q=1, mass=[1.0], force=lambda q: -q)
    for h, accuracy in ((None, 1e-6), (4.0, 0.05)):
        sol = da.solve(spring, (0, 4), [0.0], [1.0], events=lambda q: q[0], method=da.Gauss(5), h=h)
        assert sol.t_events[0] == pytest.approx([np.pi], abs=accuracy)
    down = da.solve(spring, (0, 4), [0.0], [1.0], events=da.Event(lambda q: q[0], direction=-1), **TIGHT)
    up = da.solve(spring, (0, 4), [0.0], [1.0], events=da.Event(lambda q: q[0], direction=1), **TIGHT)
    assert (down.t_events[0].size, up.t_events[0].size) == (1, 0)


def test_attributes_of_plain_functions() -> None:
    def mark(t: Any) -> Any:
        return np.sin(np.pi * t)

    mark.terminal = 3  # type: ignore[attr-defined]
    mark.apply = lambda v: {"v": 2 * v}  # type: ignore[attr-defined]
    sol = da.solve(STILL, (0, 10), [0.0], [1.0], events=mark, max_step=0.3, **TIGHT)
    assert sol.t_events[0] == pytest.approx([1, 2, 3], abs=1e-12)
    assert sol.status == Status.EVENT
    assert sol.v[-1, 0] == 4.0  # nothing is applied at the zero that ends the run
    assert sol.q[-1, 0] == pytest.approx(1 + 2 + 4)


def test_terminal_count_of_an_event_that_changes_nothing() -> None:
    """Counts go on over the segments that another event makes."""
    count = da.Event(lambda t: np.sin(np.pi * t), terminal=3)
    kick = da.Event(lambda t: t - 1.5, apply=lambda v: {"v": 3 * v})
    sol = da.solve(STILL, (0, 10), [0.0], [1.0], events=[count, kick], max_step=0.3, **TIGHT)
    assert sol.t[-1] == pytest.approx(3.0)
    assert len(sol.t_events[0]) == 3
    assert "event 0" in sol.message


def test_two_at_once_in_the_order_of_the_list() -> None:
    """(3 v) + 1, not 3 (v + 1)."""
    triple = da.Event(lambda t: t - 0.5, apply=lambda v: {"v": 3 * v}, name="triple")
    add = da.Event(lambda q: q[0] - 0.5, apply=lambda v: {"v": v + 1}, name="add")
    sol = da.solve(STILL, (0, 1), [0.0], [1.0], events=[triple, add], method="radau")
    assert sol.v[-1, 0] == 4.0
    assert [jump.events for jump in sol.jumps] == [("triple", "add")]
    assert [t.size for t in sol.t_events] == [1, 1]
    sol = da.solve(STILL, (0, 1), [0.0], [1.0], events=[add, triple], method="radau")
    assert sol.v[-1, 0] == 6.0


# ---------------------------------------------------------------------- state and parameters
def test_changes_in_place_and_by_return() -> None:
    def in_place(q: Any, v: Any, p: Any) -> None:
        q[0] += 1.0
        v[0] *= -1.0
        p.k = 4.0

    spring = da.System(q=1, mass=[1.0], force=lambda q, p: -p.k * q, parameters={"k": 1.0, "c": [1.0, 2.0]})
    expected = None
    for apply in (in_place, lambda q, v: {"q": q + 1, "v": -v, "p": {"k": 4.0}}):
        sol = da.solve(spring, (0, 2), [1.0], [0.0], events=da.Event(lambda t: t - 1.0, apply=apply), **TIGHT)
        a, b = 1 + np.cos(1), np.sin(1)
        assert sol.q[-1, 0] == pytest.approx(a * np.cos(2) + b / 2 * np.sin(2), abs=1e-9)
        (jump,) = sol.jumps
        assert jump.parameters == {"k": 4.0}
        assert jump.moved == pytest.approx(1.0)
        expected = sol.q[-1] if expected is None else expected
        np.testing.assert_array_equal(sol.q[-1], expected)


def test_stiffness_by_the_side() -> None:
    """A spring that is four times as stiff on one side: half periods pi and pi / 2."""
    spring = da.System(q=1, mass=[1.0], force=lambda q, p: -p.k * q, parameters={"k": 1.0},
                       energy=lambda q, v, p: 0.5 * v[0] ** 2 + 0.5 * p.k * q[0] ** 2)  # fmt: skip
    switch = da.Event(lambda q: q[0], apply=lambda q, v, p: {"p": {"k": 4.0 if v[0] < 0 else 1.0}})
    sol = da.solve(spring, (0, 30), [0.0], [1.0], events=switch, method=da.Explicit(8), rtol=1e-12, atol=1e-13)
    n = sol.t_events[0].size
    exact = np.cumsum(np.tile([np.pi, np.pi / 2], n)[:n])
    np.testing.assert_allclose(sol.t_events[0], exact, rtol=1e-11)
    np.testing.assert_allclose(sol.energy, 0.5, rtol=1e-11)  # with the parameters of each segment


def test_dynamic_states_jump_too() -> None:
    """A sampled controller: the command r is set ten times a second."""
    axis = da.System(q=1, mass=[1.0], force=lambda r: r, r=["u"], dynamics=lambda r: [0.0])
    sample = da.Event(lambda t: np.sin(10 * np.pi * t), apply=lambda q, v: {"r": -2 * q - 2 * v})
    sol = da.solve(axis, (0, 1), [1.0], [0.0], r0=[0.0], events=sample, max_step=0.05, **TIGHT)
    q, v, u = 1.0, 0.0, 0.0
    for _ in range(10):  # by hand: constant force over a tenth of a second
        q, v = q + 0.1 * v + 0.005 * u, v + 0.1 * u
        u = -2 * q - 2 * v
    assert sol.q[-1, 0] == pytest.approx(q, abs=1e-10)


def test_output_at_jumps(tmp_path: Any) -> None:
    """Both states are stored; dense output and t_eval take the one after the jump; files keep all of it."""
    kick = da.Event(lambda t: t - 0.5, apply=lambda v: {"v": -v}, name="kick")
    sol = da.solve(STILL, (0, 1), [0.0], [1.0], events=kick, **TIGHT)
    (i,) = sol.breaks
    assert sol.t[i - 1] == sol.t[i] == 0.5
    assert (sol.v[i - 1, 0], sol.v[i, 0]) == (1.0, -1.0)
    assert sol(0.5).v[0] == -1.0
    assert sol(np.nextafter(0.5, 0)).v[0] == 1.0
    assert sol.events[0].v[0, 0] == 1.0
    times = np.linspace(0, 1, 5)
    at = da.solve(STILL, (0, 1), [0.0], [1.0], events=kick, t_eval=times, **TIGHT)
    np.testing.assert_array_equal(at.t, times)
    np.testing.assert_allclose(at.v[:, 0], [1, 1, -1, -1, -1])
    np.testing.assert_allclose(at.q[:, 0], [0, 0.25, 0.5, 0.25, 0], atol=1e-14)
    sol.save(tmp_path / "run.nc")
    back = da.load(tmp_path / "run.nc")
    assert back.jumps == sol.jumps
    assert back(0.5).v[0] == -1.0
    np.testing.assert_array_equal(back.t_events[0], sol.t_events[0])
    assert sol.to_xarray().sizes["time"] == sol.t.size


def test_backward() -> None:
    kick = da.Event(lambda t: t - 0.5, apply=lambda v: {"v": -v})
    sol = da.solve(STILL, (1, 0), [0.0], [1.0], events=kick, **TIGHT)
    assert sol.q[-1, 0] == pytest.approx(0.0, abs=1e-14)
    assert sol.v[-1, 0] == -1.0


# ---------------------------------------------------------------------- constraints
def crank(coupler: bool = True) -> da.System:
    """Crank pin on a circle, slider on a line, a coupler between them."""

    def constraints(q: Any) -> Any:
        x, y, s = q
        out = {"crank": x**2 + y**2 - 1}
        if coupler:
            out["coupler"] = (s - x) ** 2 + y**2 - 4
        return out

    return da.System(q=["x", "y", "s"], mass=[1.0, 1.0, 2.0], force=lambda q: [-q[1], q[0] - 2.0, -0.5 * q[2]],
                     constraints=constraints)  # fmt: skip


CRANK_START = [0.6, 0.8, 0.6 + np.sqrt(4 - 0.64)], np.array([-0.8, 0.6, -0.8 - 0.48 / np.sqrt(4 - 0.64)])


@pytest.mark.parametrize("method", ["bdf", "radau", "explicit", "modified-bdf"])
def test_the_coupler_breaks_at_a_given_time(method: str) -> None:
    """Against two runs by hand, of two models."""
    options: dict[str, Any] = {"method": method, "rtol": 1e-9, "atol": 1e-11}
    snap = da.Event(lambda t: t - 0.7, apply=lambda state: state.release("coupler"), name="snap")
    sol = da.solve(crank(), (0, 2), *CRANK_START, events=snap, **options)
    assert sol.success, sol.message
    first = da.solve(crank(), (0, 0.7), *CRANK_START, **options)
    second = da.solve(crank(False), (0.7, 2), first.q[-1], first.v[-1], initial="project", **options)
    np.testing.assert_allclose(sol.q[-1], second.q[-1], atol=2e-7)
    np.testing.assert_allclose(sol.v[-1], second.v[-1], atol=2e-7)
    # the index-3 form reports the multipliers of its steps, which are less accurate than q and v
    accuracy = 2e-5 if method == "radau" else 1e-6
    np.testing.assert_allclose(sol.lam[-1], [second.lam[-1, 0], 0.0], atol=accuracy)
    (i,) = sol.breaks
    np.testing.assert_allclose(sol.lam[i - 1], first.lam[-1], atol=accuracy)
    np.testing.assert_allclose(sol.lam[i], [second.lam[0, 0], 0.0], atol=accuracy)
    assert np.all(sol.lam[i:, 1] == 0)
    np.testing.assert_allclose(sol.v[i], sol.v[i - 1], atol=1e-14)  # letting go is no impact
    assert sol.names["lam"] == ("crank", "coupler")
    assert sol.drift.position.shape == (sol.t.size, 2)
    assert sol.drift.largest["position"] < 1e-10
    assert sol.jumps[0].released == sol.stats.segments[1].released == ("coupler",)


def test_the_coupler_breaks_under_load() -> None:
    """An event on a reaction force; the multipliers of a variant keep their places in events."""
    limit, seen = 1.4, []

    def snap(state: da.EventState, lam: Any) -> None:
        seen.append(lam.copy())
        state.release("coupler")

    overload = da.Event(lambda lam: np.abs(lam[1]) * 4 - limit, apply=snap)
    pin = da.Event(lambda lam: lam[0] + 0.3)
    sol = da.solve(crank(), (0, 4), *CRANK_START, events=[overload, pin], **TIGHT)
    assert sol.success, sol.message
    (t,) = sol.t_events[0]
    by_hand = da.solve(crank(), (0, 4), *CRANK_START, events=da.Event(lambda lam: np.abs(lam[1]) * 4 - limit,
                       terminal=True), **TIGHT)  # fmt: skip
    assert t == pytest.approx(by_hand.t[-1], rel=1e-12)
    assert abs(seen[0][1]) * 4 == pytest.approx(limit, rel=1e-10)
    second = da.solve(crank(False), (t, 4), by_hand.q[-1], by_hand.v[-1], events=lambda lam: lam[0] + 0.3, **TIGHT)
    np.testing.assert_allclose(sol.q[-1], second.q[-1], atol=1e-8)
    late = sol.t_events[1][sol.t_events[1] > t]
    np.testing.assert_allclose(late, second.t_events[0], rtol=1e-8)


def test_a_clutch_locks() -> None:
    """Angular momentum is kept, the relative speed is lost; the impulse is that of an inelastic impact."""
    shafts = da.System(q=["a", "b"], mass=[2.0, 3.0], force=lambda p: [p.torque, 0.0],
                       constraints=lambda q, p: {"clutch": q[0] - q[1] - p.offset},
                       parameters={"offset": 0.0, "torque": 1.0})  # fmt: skip

    def close(q: Any, p: Any, state: da.EventState) -> None:
        p.offset = q[0] - q[1]
        state.engage("clutch")

    events = [
        da.Event(lambda t: t - 1.0, apply=close, name="close"),
        da.Event(lambda t: t - 2.0, apply=lambda state: state.release("clutch"), name="open"),
    ]
    sol = da.solve(shafts, (0, 3), [0, 0], [4.0, -1.0], released="clutch", events=events, **TIGHT)
    assert sol.success, sol.message
    i, _ = sol.breaks
    np.testing.assert_allclose(sol.v[i - 1], [4.5, -1.0], atol=1e-12)
    together = (2 * 4.5 - 3) / 5
    np.testing.assert_allclose(sol.v[i], together, atol=1e-12)
    assert sol.jumps[0].lam[0] == pytest.approx(2 * 3 / 5 * 5.5)  # M dv = -G^T Lambda
    np.testing.assert_allclose(sol(1.5).lam, [3 / 5], atol=1e-12)  # torque that shaft b needs
    np.testing.assert_allclose(sol.v[-1], [together + 0.2 + 0.5, together + 0.2], atol=1e-11)
    assert [jump.released for jump in sol.jumps] == [(), ("clutch",)]
    assert sol.jumps[0].moved == 0.0


def test_a_hinge_locks() -> None:
    """Two free rods become one body when the hinge between them is straight enough: momenta are kept, energy is not."""
    masses = np.array([1.0, 2.0, 1.5])

    def lengths(q: Any) -> Any:
        a, b, c = q[:2], q[2:4], q[4:]
        return {"rods": [(b - a) @ (b - a) - 1, (c - b) @ (c - b) - 1], "lock": (c - a) @ (c - a) - 3.0}

    chain = da.System(q=6, mass=np.repeat(masses, 2), constraints=lengths)
    q0 = np.array([-1.0, 0, 0, 0, 0, 1])
    start = da.consistent(da.System(q=6, mass=np.repeat(masses, 2), constraints=lambda q: lengths(q)["rods"]),
                          q0, [0.3, -0.9, 0.2, 0.1, 1.1, 0.4])  # fmt: skip
    lock = da.Event(lambda q: (q[4:] - q[:2]) @ (q[4:] - q[:2]) - 3.0, apply=lambda state: state.engage("lock"))
    sol = da.solve(chain, (0, 2), start.q, start.v, released=["lock"], events=lock, **TIGHT)
    assert sol.success, sol.message
    (i,) = sol.breaks

    def momenta(j: int) -> np.ndarray:
        x, u = sol.q[j].reshape(3, 2), sol.v[j].reshape(3, 2)
        return np.array([*(masses @ u), masses @ (x[:, 0] * u[:, 1] - x[:, 1] * u[:, 0])])

    for j in (i - 1, i, -1):
        np.testing.assert_allclose(momenta(j), momenta(0), atol=1e-9)
    kinetic = 0.5 * (sol.v**2) @ np.repeat(masses, 2)
    assert kinetic[i] < 0.99 * kinetic[i - 1]
    np.testing.assert_allclose(kinetic[i:], kinetic[i], rtol=1e-9)  # a rigid body from there on
    assert np.abs(sol.lam[:i, 2]).max() == 0.0
    assert sol.drift.largest["position"] < 1e-11


def test_a_velocity_constraint_engages() -> None:
    """A sledge whose blade is set down: the sideways momentum goes."""

    def blade(q: Any, v: Any) -> Any:
        return {"blade": np.sin(q[2]) * v[0] - np.cos(q[2]) * v[1]}

    sledge = da.System(q=["x", "y", "phi"], mass=[2.0, 2.0, 1.0], velocity_constraints=blade)
    down = da.Event(lambda t: t - 0.5, apply=lambda state: state.engage("blade"))
    sol = da.solve(sledge, (0, 1), [0, 0, 0.3], [1, 1, 0], released="blade", events=down, **TIGHT)
    along = np.array([np.cos(0.3), np.sin(0.3)])
    np.testing.assert_allclose(sol.v[-1], [*(along * along.sum()), 0.0], atol=1e-11)
    assert sol.jumps[0].mu[0] == pytest.approx(2 * (np.sin(0.3) - np.cos(0.3)))


# ---------------------------------------------------------------------- bad input, bad luck
def refused(apply: Any, words: str, status: Status = Status.RESTART_FAILED) -> None:
    event = da.Event(lambda t: t - 0.5, apply=apply, name="change")
    sol = da.solve(crank(), (0, 1), *CRANK_START, events=event)
    assert sol.status == status
    assert not sol.success
    assert sol.t[-1] == pytest.approx(0.5)  # nothing computed is thrown away
    assert "'change' at t = 0.5" in sol.message
    assert words in sol.message


def test_what_apply_must_not_do() -> None:
    refused(lambda v: {"v": [1.0]}, "3 finite numbers")
    refused(lambda v: {"v": v * np.nan}, "3 finite numbers")
    refused(lambda v: {"speed": v}, "it can change q, v, r and p")
    refused(lambda v: 2 * v, "return nothing or a dict")
    refused(lambda state: state.release("spring"), "no constraint 'spring' in this system (it has: crank, coupler)")
    refused(lambda p: {"p": {"mass": 1}}, "no parameter 'mass'")
    refused(lambda speed: None, "asks for 'speed'")
    refused(lambda v: {}["gone"], "KeyError: 'gone'", Status.USER_ERROR)
    refused(lambda v: 1 / 0, "ZeroDivisionError: division by zero", Status.USER_ERROR)
    refused(lambda v: np.array([1.0]) @ v, "ValueError: matmul", Status.USER_ERROR)


def test_messages_of_apply_say_everything_once() -> None:
    event = da.Event(lambda t: t - 0.5, apply=lambda v: {"speed": v}, name="change")
    sol = da.solve(crank(), (0, 1), *CRANK_START, events=event)
    assert sol.message.endswith("Event 'change' at t = 0.5: apply returned 'speed'; it can change q, v, r and p.")


def test_exception_of_an_impact_at_the_start() -> None:
    """Before the first step nothing is computed, and the exception is the user's own."""
    ball = da.System(q=["y"], mass=[1.0], force=[-9.81])
    floor = da.Event(lambda q: q[0], restitution=lambda p: {}["gone"], name="floor")
    with pytest.raises(KeyError, match="gone"):
        da.solve(ball, (0, 1), [0.0], [-1.0], events=floor)


def test_engaging_what_is_redundant() -> None:
    def constraints(q: Any) -> Any:
        return {"rod": q @ q - 1, "again": 2 * (q @ q) - 2}

    system = da.System(q=2, mass=[1, 1], force=[0, -1], constraints=constraints)
    event = da.Event(lambda t: t - 0.5, apply=lambda state: state.engage("again"), name="twice")
    sol = da.solve(system, (0, 1), [1, 0], [0, 0], released="again", events=event)
    assert sol.status == Status.RESTART_FAILED
    assert "redundant" in sol.message
    assert "t = 0.5" in sol.message


def test_bad_arguments() -> None:
    with pytest.raises(OptionError, match="no constraint 'spring'"):
        da.solve(crank(), (0, 1), *CRANK_START, released="spring")
    with pytest.raises(OptionError, match="apply=3 must be a function"):
        da.Event(lambda t: t, apply=3)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="give a function"):
        da.Event(3)  # type: ignore[arg-type]


def test_an_event_that_turns_nan() -> None:
    with np.errstate(invalid="ignore"):
        sol = da.solve(STILL, (0, 1), [0.0], [1.0], events=da.Event(lambda q: np.sqrt(0.5 - q[0]) + 1, name="root"))
    assert sol.status == Status.NOT_FINITE
    assert re.search(r"event 'root' is nan at t = 0\.[5-9]", sol.message)  # at the end of the step that got there
    assert 0.2 < sol.t[-1] <= 0.5
    with pytest.raises(ValueError, match="event 'root' is nan at t = 0"):
        da.solve(STILL, (0, 1), [0.0], [1.0], events=da.Event(lambda q: np.sqrt(q[0] - 1), name="root"))


def test_a_model_that_turns_nan_after_an_event() -> None:
    system = da.System(q=1, mass=[1.0], force=lambda q, p: [np.sqrt(p.c)], parameters={"c": 1.0})
    event = da.Event(lambda t: t - 0.5, apply=lambda p: {"p": {"c": -1.0}}, name="change")
    sol = da.solve(system, (0, 1), [0.0], [0.0], events=event)
    assert sol.status == Status.RESTART_FAILED
    assert "force is nan" in sol.message
    assert sol.t[-1] == pytest.approx(0.5)
    assert sol.q[-1, 0] == pytest.approx(0.125, abs=1e-6)


@pytest.mark.parametrize("method", ["radau", "explicit"])
def test_a_discontinuous_force_by_an_event(method: str) -> None:
    """Dry friction that holds: without the event the sign flips in every step, with it the mass stops.

    BDF may creep along the switching line without crossing it, depending on the tolerance: next test.
    """
    sledge = da.System(q=["x"], mass=[1.0], force=lambda v: -np.sign(v), parameters={"at": 0.0},
                       constraints=lambda q, p: {"stuck": q[0] - p.at})  # fmt: skip

    def stick(q: Any, p: Any, state: da.EventState) -> None:
        p.at = q[0]
        state.engage("stuck")

    stop = da.Event(lambda v: v[0], apply=stick, direction=-1, name="stop")
    sol = da.solve(sledge, (0, 3), [0.0], [1.0], events=stop, released="stuck", method=method)
    assert sol.success, sol.message
    assert sol.t_events[0] == pytest.approx([1.0], abs=1e-5)
    np.testing.assert_allclose(sol.q[-1], 0.5, atol=1e-5)
    assert sol.v[-1, 0] == pytest.approx(0.0, abs=1e-15)


def test_a_run_that_creeps_along_a_jump_ends() -> None:
    """Dry friction without an event: BDF follows v = 0, where there is no solution, in steps of 1e-9."""
    sledge = da.System(q=["x"], mass=[1.0], force=lambda v: -np.sign(v))
    sol = da.solve(sledge, (0, 3), [0.0], [1.0], method="bdf")
    assert sol.status == Status.STALLED
    assert "dry friction" in sol.message
    assert "max_steps" in sol.message
    assert sol.t[-1] == pytest.approx(1.0, abs=1e-2)
    limited = da.solve(sledge, (0, 3), [0.0], [1.0], method="bdf", max_steps=sol.stats.steps + 1000)
    assert limited.status == Status.MAX_STEPS


def test_chattering_of_a_switch() -> None:
    """A relay that pushes to its switching line from both sides: it would switch for ever; the message names it."""
    system = da.System(q=1, mass=[1.0], force=lambda p: [p.push], parameters={"push": -1.0})
    down = da.Event(lambda q, v: q[0] + v[0], direction=-1, apply=lambda: {"p": {"push": 1.0}}, name="down")
    up = da.Event(lambda q, v: q[0] + v[0], direction=1, apply=lambda: {"p": {"push": -1.0}}, name="up")
    sol = da.solve(system, (0, 10), [1.0], [0.0], events=[down, up], **TIGHT)
    assert sol.status == Status.CHATTERING
    assert "'down'" in sol.message or "'up'" in sol.message
    assert sol.t[-1] == pytest.approx(np.sqrt(3) - 1, abs=1e-9)  # 1 - t^2 / 2 = t
    assert sol.stats.steps < 100


def test_an_engaged_constraint_as_an_event_is_quiet() -> None:
    """The residual of a constraint that holds is rounding: no event, however often it changes its sign."""
    pendulum = da.problems()["pendulum"]
    sol = da.solve(pendulum.system, (0, 10), pendulum.q0, pendulum.v0, events=lambda q: q @ q - 1)
    assert not sol.t_events[0].size
