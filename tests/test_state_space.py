"""Local coordinates: switched in time, regular at every step, and invisible in the answer."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import dalembert as da
from dalembert.numerics.runstate import MOST_AGEING, RENEW_QUALITY, WORST_QUALITY
from dalembert.status import Status

STATE_SPACE = da.StateSpace()


@pytest.fixture(scope="module")
def rotor() -> da.System:
    """A pendulum without stops; started fast enough it goes round and round."""
    return da.System(
        q=["x", "y"],
        mass=[1.0, 1.0],
        force=[0.0, -9.81],
        constraints=lambda q: {"rod": (q[0] ** 2 + q[1] ** 2 - 1.0) / 2},
        energy=lambda q, v: 0.5 * (v @ v) + 9.81 * q[1],
    )


FAST = {"q0": [0.0, -1.0], "v0": [9.0, 0.0]}  # the top needs 4 g = 39 < 81


def run(system: da.System, t_span: Any, formulation: Any = STATE_SPACE, **options: Any) -> da.Solution:
    given = {"rtol": 1e-8, "atol": 1e-10, **FAST, **options}
    sol = da.solve(system, t_span, formulation=formulation, **given)
    assert sol.success, sol.message
    return sol


def angle(sol: da.Solution) -> np.ndarray:
    """Angle of the rod from the downward vertical, without jumps."""
    return np.unwrap(np.arctan2(sol.q[:, 0], -sol.q[:, 1]))


def gradients(example: str, t: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Unit gradient of the constraint along a run."""
    if example == "rotor":
        return q / np.linalg.norm(q, axis=1, keepdims=True)
    return np.stack([np.sin(1000 * t), np.cos(1000 * t)], axis=1)


def check_switches(sol: da.Solution, normal: np.ndarray) -> None:
    """Between switches the constraint turns by no more than the coordinates can follow.

    The quality is cos^2 of the angle between the gradient now and where the coordinates were chosen.
    """
    index = np.searchsorted(sol.t, sol.stats.switches) if sol.t[-1] > sol.t[0] else None
    if index is None:
        index = sol.t.size - 1 - np.searchsorted(sol.t[::-1], sol.stats.switches)
    assert np.all(np.isin(sol.stats.switches, sol.t))  # they take place at accepted steps
    edges = np.concatenate([[0], index, [sol.t.size - 1]])
    for first, last in itertools.pairwise(edges):
        quality = (normal[first : last + 1] @ normal[first]) ** 2
        assert quality.min() >= WORST_QUALITY
        assert np.all(quality[:-1] >= RENEW_QUALITY)  # not one step later than it should be
        if last != sol.t.size - 1:
            assert quality[-1] < RENEW_QUALITY
    turned = np.arccos(np.clip((normal[1:] * normal[:-1]).sum(axis=1), -1, 1))
    assert turned.max() < 1.1 * MOST_AGEING


def test_fifty_turns(rotor: da.System) -> None:
    sol = run(rotor, (0, 45))
    turns = angle(sol)[-1] / (2 * np.pi)
    assert turns > 50
    # cos^2 falls below RENEW_QUALITY after acos(sqrt(0.7)) = 0.58 rad, and one step more
    assert turns * 2 * np.pi / 0.58 * 0.6 < len(sol.stats.switches) < turns * 2 * np.pi / 0.58
    check_switches(sol, gradients("rotor", sol.t, sol.q))
    assert np.abs(sol.drift.position).max() < 1e-11
    assert np.abs(sol.drift.velocity).max() < 1e-10
    assert np.abs(sol.energy - sol.energy[0]).max() < 1e-3 * abs(sol.energy[0])


def test_fifty_turns_agree_with_other_forms(rotor: da.System) -> None:
    tight = {"rtol": 1e-10, "atol": 1e-12, "t_eval": np.linspace(0, 45, 46)}
    sol = run(rotor, (0, 45), **tight)
    for formulation in ("index-1", "stabilized-index-2"):
        other = run(rotor, (0, 45), formulation, **tight)
        assert np.abs(sol.q - other.q).max() < 2e-5
        assert np.abs(sol.v - other.v).max() < 2e-4


def test_fast_constraint() -> None:
    """Ascher & Petzold's example 1: the constraint turns 1000 rad in the unit of time, the solution is e^t."""
    problem = da.problems()["ascher-petzold-1"]
    options: dict[str, Any] = {"parameters": {"nu": 1000.0}, "q0": problem.q0, "v0": None}
    sol = run(problem.system, (0, 1), rtol=1e-6, atol=1e-8, **options)
    check_switches(sol, gradients("example", sol.t, sol.v))
    assert 1000 / 1.3 < len(sol.stats.switches) < 1000 / 0.57
    assert problem.reference is not None
    exact = problem.reference(sol.t)
    assert np.abs(sol.v - exact["v"]).max() < 1e-4
    assert np.abs(sol.drift.nonholonomic).max() < 1e-10
    other = run(
        problem.system, (0, 1), da.ProjectedInvariants(levels=1), rtol=1e-6, atol=1e-8, max_step=1e-3, **options
    )
    assert np.abs(sol.v[-1] - other.v[-1]).max() < 1e-4


# ---------------------------------------------------------------------- multipliers, accelerations, output
def newton_equations(sol: da.Solution) -> np.ndarray:
    """M a - f + G^T lam of the rotor."""
    return sol.a - [0.0, -9.81] + sol.q * sol.lam


def test_multipliers_and_accelerations_across_switches(rotor: da.System) -> None:
    sol = run(rotor, (0, 5))
    assert len(sol.stats.switches) > 20
    exact = (sol.v**2).sum(axis=1) - 9.81 * sol.q[:, 1]
    assert np.abs(sol.lam[:, 0] - exact).max() < 1e-10 * exact.max()
    assert np.abs(newton_equations(sol)).max() < 1e-10 * exact.max()
    assert np.abs(sol.extra["acc"] - sol.a).max() < 1e-6 * exact.max()
    # no kink of the multiplier at a switch: its second difference is no larger than elsewhere
    fixed = run(rotor, (0, 2), method=da.BDF(4), h=1e-3)
    at = np.searchsorted(fixed.t, fixed.stats.switches)
    assert at.size > 8
    bend = np.abs(np.diff(fixed.lam[:, 0], n=3))
    near = np.concatenate([bend[i - 3 : i + 3] for i in at if 3 < i < bend.size - 3])
    assert near.max() < 1.5 * bend.max()
    assert np.abs(fixed.extra["acc"] - fixed.a).max() < 1e-9 * exact.max()


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5])
def test_order_across_switches(pendulum: Any, k: int) -> None:
    """The order of q, v and lam survives ten switches within a run with fixed steps."""
    counts = {1: (4000, 8000), 2: (1000, 2000), 3: (600, 1200), 4: (600, 1200), 5: (300, 600)}[k]
    found = []
    for n in counts:
        sol = run(pendulum.system, (0, 2.2), q0=pendulum.q0, v0=pendulum.v0, method=da.BDF(k), h=2.2 / n)
        assert len(sol.stats.switches) >= 9
        exact = pendulum.reference(sol.t)
        found.append([np.abs(getattr(sol, x) - exact[x]).max() for x in ("q", "v", "lam")])
    slopes = np.log2(np.array(found[0]) / found[1])
    assert slopes == pytest.approx(k, abs=0.15)


def test_t_eval_and_dense_output(rotor: da.System) -> None:
    """Times between the steps, some on both sides of a switch and some exactly there."""
    sol = run(rotor, (0, 4))
    switches = np.array(sol.stats.switches)
    times = np.unique(np.concatenate([np.linspace(0, 4, 41), switches, switches - 1e-6, switches + 1e-6]))
    stored = run(rotor, (0, 4), t_eval=times)
    # a run that stores few points solves for multipliers there only, so that Newton starts elsewhere: same to rtol
    assert np.array(stored.stats.switches) == pytest.approx(switches, abs=1e-6)
    assert np.array_equal(stored.t, times)
    dense = sol(times)
    for name in ("q", "v", "a", "lam"):
        scale = np.abs(getattr(sol, name)).max()
        assert np.abs(getattr(stored, name) - getattr(dense, name)).max() < 1e-6 * scale, name
    fine = run(rotor, (0, 4), "index-1", rtol=1e-12, atol=1e-14, t_eval=times)
    assert np.abs(stored.q - fine.q).max() < 1e-5
    assert np.abs(stored.lam - fine.lam).max() < 1e-3
    at_steps = sol(switches)
    steps = np.searchsorted(sol.t, switches)
    for name in ("q", "v", "a", "lam"):
        assert getattr(at_steps, name) == pytest.approx(getattr(sol, name)[steps], rel=1e-9, abs=1e-12)


def test_events(rotor: da.System) -> None:
    """Every passage through the top is found, and the run stops at the 20th."""

    def top(q: Any) -> Any:
        return q[0]

    top.direction = -1  # type: ignore[attr-defined]
    top.terminal = 20  # type: ignore[attr-defined]
    sol = run(rotor, (0, 100), events=top)
    assert sol.status == Status.EVENT
    assert sol.t_events[0].size == 20
    assert np.abs(sol.events[0].q - [0, 1]).max() < 1e-6
    other = run(rotor, (0, 100), "index-1", events=top)
    assert np.abs(sol.t_events[0] - other.t_events[0]).max() < 1e-5
    assert np.all(np.array(sol.stats.switches) <= sol.t[-1])


def test_backwards(rotor: da.System) -> None:
    there = run(rotor, (0, 5), rtol=1e-10, atol=1e-12)
    back = run(rotor, (5, 0), q0=there.q[-1], v0=there.v[-1], rtol=1e-10, atol=1e-12, initial="project")
    assert np.all(np.diff(back.t) < 0)
    assert np.all(np.diff(back.stats.switches) < 0)
    check_switches(back, gradients("rotor", back.t, back.q))
    assert np.abs(back.q[-1] - FAST["q0"]).max() < 1e-6
    assert np.abs(back.v[-1] - FAST["v0"]).max() < 1e-5


def test_fixed_steps_log_their_switches(rotor: da.System) -> None:
    sol = run(rotor, (0, 3), method=da.BDF(1), h=2e-3)
    check_switches(sol, gradients("rotor", sol.t, sol.q))


# ---------------------------------------------------------------------- limits
@pytest.mark.parametrize(("k", "h"), [(1, 0.12), (2, 0.1), (3, 0.1)])
def test_too_large_fixed_step(rotor: da.System, k: int, h: float) -> None:
    """At 9 rad/s a step of 0.1 turns the constraint by 0.9 rad > MOST_AGEING (backward Euler brakes to 7 rad/s)."""
    sol = da.solve(rotor, (0, 5), method=da.BDF(k), h=h, formulation=STATE_SPACE, **FAST)
    assert not sol.success
    assert sol.status == Status.DATA_OUTDATED
    for words in ("Stopped at t =", "turn further within one step", "use a smaller h", "without local coordinates"):
        assert words in sol.message
    assert sol.t.size >= 1
    assert np.all(np.isfinite(sol.q))


def test_steps_are_limited_by_the_turning_not_by_the_error(rotor: da.System) -> None:
    sol = run(rotor, (0, 5), rtol=0.1, atol=0.1)
    check_switches(sol, gradients("rotor", sol.t, sol.q))


def test_coordinates_of_the_user_are_kept(pendulum: Any) -> None:
    """x as coordinate is regular as long as the rod does not become horizontal."""
    start = {"q0": [0.6, -0.8], "v0": [0.0, 0.0], "rtol": 1e-9, "atol": 1e-11}
    sol = da.solve(pendulum.system, (0, 5), formulation=da.StateSpace(R=[[1, 0]]), **start)
    assert sol.success, sol.message
    assert sol.stats.switches == ()
    free = da.solve(pendulum.system, (0, 5), formulation=STATE_SPACE, **start)
    assert len(free.stats.switches) > 5
    assert np.abs(sol.q[-1] - free.q[-1]).max() < 1e-6
    # scaling R changes nothing
    scaled = da.solve(pendulum.system, (0, 5), formulation=da.StateSpace(R=[[7, 0]]), **start)
    assert np.abs(sol.q[-1] - scaled.q[-1]).max() < 1e-7


def test_coordinates_of_the_user_are_kept_at_their_singular_points(rotor: da.System) -> None:
    """x does not fix y where the rod is horizontal; such points are stepped over, at the cost of accuracy."""
    options = {"rtol": 1e-7, "atol": 1e-9}
    times = np.linspace(0, 3, 31)
    exact = run(rotor, (0, 3), t_eval=times, rtol=1e-11, atol=1e-13).q
    error = []
    for formulation in (da.StateSpace(R=[[1, 0]]), STATE_SPACE):
        sol = run(rotor, (0, 3), formulation, t_eval=times, **options)
        error.append(np.abs(sol.q - exact).max())
        assert (sol.stats.switches == ()) == (formulation is not STATE_SPACE)
    assert error[1] < 1e-4
    assert error[0] < 1e-1


def test_several_degrees_of_freedom(double_pendulum: da.System, double_start: Any) -> None:
    q0, v0 = double_start
    options = {"q0": q0, "v0": 6 * v0, "rtol": 1e-10, "atol": 1e-12}
    sol = run(double_pendulum, (0, 2), **options)
    other = run(double_pendulum, (0, 2), "index-1", **options)
    assert len(sol.stats.switches) > 5
    assert np.abs(sol.q[-1] - other.q[-1]).max() < 1e-6
    assert np.abs(sol.lam[-1] - other.lam[-1]).max() < 1e-5 * np.abs(other.lam).max()


def test_both_kinds_of_constraints() -> None:
    """A skate on a sphere of radius 1: one position and one velocity constraint, each with its own coordinates."""
    system = da.System(
        q=["x", "y", "z"],
        mass=[1.0, 1.0, 1.0],
        force=[0.0, 0.0, -1.0],
        constraints=lambda q: {"sphere": (q @ q - 1) / 2},
        velocity_constraints=lambda t, q, v: {"skate": v[0] * np.cos(t) + v[1] * np.sin(t) - 0.2 * q[2]},
    )
    start = da.consistent(system, [0.6, 0.0, 0.8], [0.5, 3.0, 0.0])
    options: dict[str, Any] = {"q0": start.q, "v0": start.v, "rtol": 1e-9, "atol": 1e-11}
    sol = run(system, (0, 0.6), **options)
    other = run(system, (0, 0.6), "index-1", **options)
    assert sol.stats.switches
    for name in ("q", "v", "lam", "mu"):
        a, b = getattr(sol, name), getattr(other, name)
        assert np.abs(a[-1] - b[-1]).max() < 1e-5 * max(1.0, np.abs(b).max()), name
    assert max(sol.drift.largest.values()) < 1e-9


def test_without_constraints() -> None:
    system = da.System(q=["x"], mass=[1.0], force=lambda q: [-q[0]])
    sol = da.solve(system, (0, 1), q0=[1.0], v0=[0.0], formulation=STATE_SPACE, rtol=1e-9, atol=1e-11)
    assert sol.success, sol.message
    assert sol.stats.switches == ()
    assert sol.q[-1, 0] == pytest.approx(np.cos(1), abs=1e-7)
