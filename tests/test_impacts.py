"""Impacts with restitution: closed forms, impulses, simultaneous contacts, chattering."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import ellipk, ellipkinc

import dalembert as da
from dalembert.status import OptionError, Status

G = 9.81
PENDULUM = da.System(
    q=["x", "y"],
    mass=lambda p: [p.m, p.m],
    force=lambda p: [0, -p.m * p.g],
    constraints=lambda q: {"rod": q[0] ** 2 + q[1] ** 2 - 1},
    parameters={"m": 2.0, "g": G},
    energy=lambda q, v, p: 0.5 * p.m * (v @ v) + p.m * p.g * q[1],
)
BALL = da.System(q=["x", "y"], mass=[2.0, 2.0], force=[0, -2 * G])


def wall_impacts(start: float, wall: float, e: float, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Times and speeds (before) of the first n impacts of a pendulum released at rest, with a wall at an angle.

    The time from the amplitude a to the angle w is (K(k) - F(phi, k)) / sqrt(g), k = sin(a/2), sin(phi) = sin(w/2) / k.
    """

    def fall(amplitude: float) -> float:
        k = np.sin(amplitude / 2)
        return float((ellipk(k**2) - ellipkinc(np.arcsin(np.sin(wall / 2) / k), k**2)) / np.sqrt(G))

    times, speeds = [fall(start)], [np.sqrt(2 * G * (np.cos(wall) - np.cos(start)))]
    for _ in range(n - 1):
        speeds.append(e * speeds[-1])
        times.append(times[-1] + 2 * fall(np.arccos(np.cos(wall) - speeds[-1] ** 2 / (2 * G))))
    return np.array(times), np.array(speeds)


@pytest.mark.parametrize(("wall", "e"), [(0.0, 1.0), (0.0, 0.95), (-0.3, 1.0), (0.2, 1.0)])
def test_pendulum_against_a_wall(wall: float, e: float) -> None:
    """A hundred impacts at the times and with the speeds of the closed form, to 1e-12 in time."""
    event = da.Event(lambda q: q[0] - np.sin(wall), restitution=e, terminal=100, name="wall")
    sol = da.solve(PENDULUM, (0, 200), [np.sin(1.2), -np.cos(1.2)], [0, 0], method=da.Explicit(8), rtol=1e-13,
                   atol=1e-14, events=event)  # fmt: skip
    times, speeds = wall_impacts(1.2, wall, e, 100)
    assert sol.status == Status.EVENT
    np.testing.assert_allclose(sol.t_events[0], times, rtol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(sol.events[0].v, axis=1), speeds, rtol=1e-11)
    precision = np.spacing(times) * speeds  # how far the bob moves between two floating-point numbers
    assert np.all(np.abs(sol.events[0].q[:, 0] - np.sin(wall)) <= 2 * precision + 1e-16)
    assert len(sol.jumps) == 99
    assert max(sol.drift.largest.values()) < 1e-13
    # along the wall's normal the impulse is m (1 + e) v / cos(wall), of which the rod takes the part along itself
    P = [jump.contact["wall"] for jump in sol.jumps]
    np.testing.assert_allclose(P, 2.0 * (1 + e) * speeds[:99] / np.cos(wall), rtol=1e-10)
    rod = [jump.lam[0] for jump in sol.jumps]  # G^T Lambda = 2 (x, y) Lambda cancels P sin(wall) along the rod
    np.testing.assert_allclose(rod, np.array(P) * np.sin(wall) / 2, atol=1e-12)


OTHERS = [da.BDF(), da.ModifiedBDF(), da.Radau(3), da.Gauss(3), da.GeneralizedAlpha(), da.HHT(), da.Lobatto(3)]


@pytest.mark.parametrize("method", OTHERS, ids=lambda m: m.name)
def test_every_method_takes_impacts(method: Any) -> None:
    event = da.Event(lambda q: q[0], restitution=0.8, terminal=10)
    sol = da.solve(PENDULUM, (0, 20), [np.sin(1.2), -np.cos(1.2)], [0, 0], method=method, events=event)
    times, _ = wall_impacts(1.2, 0.0, 0.8, 10)
    second_order = method.name in ("generalized-alpha", "hht")
    np.testing.assert_allclose(sol.t_events[0], times, rtol=2e-3 if second_order else 1e-4)
    assert sol.drift.largest["position"] < 1e-9


@pytest.mark.parametrize("method", [da.Radau(3), da.GeneralizedAlpha(), da.BDF(3)], ids=lambda m: m.name)
def test_fixed_steps(method: Any) -> None:
    """Steps begin anew at an impact; errors shrink with h."""
    event = da.Event(lambda q: q[0], restitution=0.8, terminal=4)
    times, _ = wall_impacts(1.2, 0.0, 0.8, 4)
    errors = []
    for h in (0.02, 0.01):
        sol = da.solve(PENDULUM, (0, 20), [np.sin(1.2), -np.cos(1.2)], [0, 0], method=method, h=h, events=event)
        errors.append(np.abs(sol.t_events[0] - times).max())
    assert errors[1] < 0.35 * errors[0] or errors[1] < 1e-9


def bounces(e: float, n: int) -> np.ndarray:
    """Times at which a ball dropped from height 1 hits the floor."""
    fall = np.sqrt(2 / G)
    return fall + 2 * fall * np.cumsum(np.concatenate([[0.0], e ** np.arange(1, n)]))


@pytest.mark.parametrize("method", ["radau", "explicit"])
def test_chattering_ends_with_a_message(method: str) -> None:
    e = 0.5
    floor = da.Event(lambda q: q[1], restitution=e, name="floor")
    sol = da.solve(BALL, (0, 10), [0, 1], [1, 0], method=method, events=floor, rtol=1e-9, atol=1e-11)
    assert sol.status == Status.CHATTERING
    assert not sol.success
    limit = np.sqrt(2 / G) * (1 + e) / (1 - e)
    assert sol.t[-1] == pytest.approx(limit, abs=3e-6)
    for words in ("'floor'", f"accumulate at t = {limit:.9f}", "engages a constraint", "terminal"):
        assert words in sol.message
    n = sol.t_events[0].size
    assert 15 < n < 30
    np.testing.assert_allclose(sol.t_events[0], bounces(e, n), rtol=1e-12)


@pytest.mark.parametrize("height", [1.0, 1e6])
@pytest.mark.parametrize("options", [{}, {"method": "radau"}, {"method": "explicit"}], ids=["bdf", "radau", "explicit"])
def test_chattering_at_rounding_level_ends(height: float, options: Any) -> None:
    """The floor is not at y = 0: bounces end in rounding errors of y before their intervals are short."""
    floor = da.Event(lambda q, p: q[1] + p.depth, restitution=0.3, name="floor")
    ball = da.System(q=["x", "y"], mass=[2.0, 2.0], force=[0, -2 * G], parameters={"depth": height})
    sol = da.solve(ball, (0, 1e6), [1, 1 - height], [0, 0], events=floor, rtol=1e-9, **options)
    assert sol.status == Status.CHATTERING
    assert sol.t[-1] == pytest.approx(np.sqrt(2 / G) * 1.3 / 0.7, rel=0.2)
    assert len(sol.jumps) < 60


def test_slow_accumulation_is_followed() -> None:
    """With e = 0.9 hundreds of impacts are real: they are all computed before the run ends."""
    floor = da.Event(lambda q: q[1], restitution=0.9)
    sol = da.solve(BALL, (0, 20), [0, 1], [1, 0], method="explicit", events=floor)
    assert sol.status == Status.CHATTERING
    n = sol.t_events[0].size
    assert n > 100
    np.testing.assert_allclose(sol.t_events[0], bounces(0.9, n), rtol=1e-9)


def test_without_restitution_nothing_loops() -> None:
    """A perfectly plastic impact that holds nothing repeats at once: said, not looped on."""
    floor = da.Event(lambda q: q[1], restitution=0.0, name="floor")
    sol = da.solve(BALL, (0, 10), [0, 1], [1, 0], events=floor)
    assert sol.status == Status.CHATTERING
    assert sol.t[-1] == pytest.approx(np.sqrt(2 / G), abs=1e-4)


def test_coming_to_rest_by_a_constraint() -> None:
    """The remedy that the message names: a slow impact engages a constraint, and the ball slides on."""
    ball = da.System(q=["x", "y"], mass=[2.0, 2.0], force=[0, -2 * G], constraints=lambda q: {"floor": q[1]})

    def land(v: Any, state: Any) -> None:
        if v[1] < 1e-2:  # after the impact
            state.engage("floor")

    floor = da.Event(lambda q: q[1], restitution=0.5, apply=land, name="floor")
    sol = da.solve(ball, (0, 3), [0, 1], [1, 0], events=floor, released="floor", method="radau")
    assert sol.success, sol.message
    assert sol.t[-1] == 3.0
    np.testing.assert_allclose(sol.q[-1], [3.0, 0.0], atol=1e-12)
    assert sol.lam[0, 0] == 0.0
    assert sol.lam[-1, 0] == pytest.approx(-2 * G)  # M v' = f - G^T lam: the floor carries the weight
    assert sol.jumps[-1].released == ()
    assert sol.jumps[0].released == ("floor",)
    assert sol.stats.segments[-1].released == ()


def test_moving_wall() -> None:
    """Relative speeds count: a plate that comes up with speed u throws the ball back with -e (v - u) + u."""
    plate = da.Event(lambda q, t, p: q[1] - p.u * t, restitution=lambda p: p.e, terminal=2)
    ball = da.System(q=["x", "y"], mass=[1, 1], force=[0, -G], parameters={"u": 0.3, "e": 0.7})
    sol = da.solve(ball, (0, 5), [0, 1], [0, 0], events=plate, method="explicit", rtol=1e-10, atol=1e-12)
    t = (-0.3 + np.sqrt(0.09 + 2 * G)) / G
    assert sol.t_events[0][0] == pytest.approx(t, rel=1e-13)
    (i,) = sol.breaks
    assert sol.v[i, 1] == pytest.approx(-0.7 * (-G * t - 0.3) + 0.3, rel=1e-12)


def test_newtons_cradle() -> None:
    """Three balls that touch: the momentum runs through at one instant, and all impacts are listed."""
    balls = da.System(q=3, mass=[1, 1, 1])
    events = [
        da.Event(lambda q: q[1] - q[0] - 1, restitution=1, name="first"),
        da.Event(lambda q: q[2] - q[1] - 1, restitution=1, name="second"),
    ]
    sol = da.solve(balls, (0, 3), [0, 2, 3], [1, 0, 0], events=events, method="explicit")
    assert sol.success
    np.testing.assert_allclose(sol.v[-1], [0, 0, 1], atol=1e-14)
    np.testing.assert_allclose(sol.q[-1], [1, 2, 5], atol=1e-12)
    assert [t.tolist() for t in sol.t_events] == [[pytest.approx(1.0)], [pytest.approx(1.0)]]
    (jump,) = sol.jumps
    assert jump.events == ("first", "second")
    assert jump.contact == {"first": pytest.approx(1.0), "second": pytest.approx(1.0)}


def test_two_walls_at_once() -> None:
    """Into a corner and back the same way."""
    events = [da.Event(lambda q, i=i: q[i], restitution=1, name=f"wall {i}") for i in range(2)]
    ball = da.System(q=2, mass=[1, 1])
    sol = da.solve(ball, (0, 2), [0.7, 0.7], [-1, -1], events=events, method="explicit")
    np.testing.assert_allclose(sol.q[-1], [1.3, 1.3], atol=1e-13)
    np.testing.assert_allclose(sol.v[-1], [1, 1], atol=1e-14)
    assert len(sol.jumps) == 1
    assert sol.jumps[0].events == ("wall 0", "wall 1")


def test_impact_at_the_very_start() -> None:
    floor = da.Event(lambda q: q[1], restitution=0.5, terminal=2)
    sol = da.solve(BALL, (0, 1), [0, 0], [1, -2], events=floor, method="explicit")
    assert sol.v[0, 1] == 1.0
    assert sol.t_events[0] == pytest.approx([0.0, 2 / G], rel=1e-12)
    assert sol.events[0].v[:, 1] == pytest.approx([-2.0, -1.0], rel=1e-9)
    assert sol.jumps[0].t == 0.0


def test_resting_on_an_event_is_no_impact() -> None:
    """A gap that is closed at the start and opens."""
    sol = da.solve(BALL, (0, 0.3), [0, 0], [1, 2], events=da.Event(lambda q: q[1], restitution=0.5), method="explicit")
    assert not sol.jumps
    assert not sol.t_events[0].size


def test_impact_on_a_group() -> None:
    """A rod (dumb-bell of unit length about its axis) that falls on one end: impulse and momentum about the contact."""
    space = da.spaces.R3xSO3()
    inertia = np.array([0.3, 0.4, 0.5])
    body = da.System(
        q=space, mass=np.diag([2.0, 2.0, 2.0, *inertia]),
        force=lambda v: [0, 0, -2 * G, *(-np.cross(v[3:], inertia * v[3:]))],
    )  # fmt: skip
    end = np.array([0.5, 0.1, -0.2])
    tip = da.Event(lambda q: (q.x + q.R @ end)[2], restitution=0.6, terminal=2, name="tip")
    q0, v0 = space.exp([0, 0, 1.0, 0.3, 0.1, 0.2]), np.array([0.1, 0.2, 0, 1.0, -0.5, 0.3])
    sol = da.solve(body, (0, 3), q0, v0, events=tip, method="radau", rtol=1e-10, atol=1e-12)
    (i,) = sol.breaks
    before, after = sol.v[i - 1], sol.v[i]
    R = space.element(sol.q[i]).R
    e3 = np.array([0, 0, 1.0])

    def tip_speed(v: np.ndarray) -> float:
        return float(v[2] + e3 @ R @ np.cross(v[3:], end))

    assert tip_speed(before) < 0
    assert tip_speed(after) == pytest.approx(-0.6 * tip_speed(before), rel=1e-10)
    P = sol.jumps[0].contact["tip"]
    np.testing.assert_allclose(2.0 * (after - before)[:3], P * e3, atol=1e-10)
    np.testing.assert_allclose(inertia * (after - before)[3:], P * np.cross(end, R.T @ e3), atol=1e-10)


@pytest.mark.parametrize("e", [-0.1, 1.5, True, "half"])
def test_bad_restitution(e: Any) -> None:
    with pytest.raises(OptionError, match="restitution="):
        da.Event(lambda q: q[1], restitution=e)


def test_refused() -> None:
    run: dict[str, Any] = {"system": BALL, "t_span": (0, 1), "q0": [0, 1], "v0": [0, 0]}
    with pytest.raises(OptionError, match="gap that closes"):
        da.Event(lambda q: q[1], restitution=0.5, direction=1)
    with pytest.raises(OptionError, match="a function of t, q and p alone"):
        da.solve(**run, events=da.Event(lambda v: v[1], restitution=0.5))
    with pytest.raises(OptionError, match="cannot be traced"):
        da.solve(**run, events=da.Event(lambda q: float(q[1]), restitution=0.5))
    with pytest.raises(OptionError, match="the gap is -1 at the start"):
        da.solve(**run, events=da.Event(lambda q: q[1] - 2, restitution=0.5))
    with pytest.raises(OptionError, match="forward in time"):
        da.solve(BALL, (1, 0), [0, 1], [0, 0], events=da.Event(lambda q: q[1], restitution=0.5))
    sol = da.solve(**run, events=da.Event(lambda q: q[1], restitution=lambda p: 3.0, name="floor"))
    assert sol.status == Status.RESTART_FAILED
    assert "restitution is 3.0" in sol.message
    blocked = da.System(q=2, mass=[1, 1], constraints=lambda t, q: [q[1] - 1 + t])
    sol = da.solve(blocked, (0, 2), [0, 1], [1, -1], events=da.Event(lambda q: q[1], restitution=1, name="floor"))
    assert sol.status == Status.RESTART_FAILED
    assert "do not let the gap open" in sol.message
