"""Dense output: sol(t), t_eval, events and files, for all methods with automatic steps."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest

import dalembert as da
from dalembert import joined
from dalembert.numerics.hermite import FACTORS_Q, FACTORS_R, INNER, POINTS
from dalembert.status import OptionError

SPANS = {"pendulum": 1.2, "slider-crank": 2.0}
PARTS = ("q", "v", "lam")
WITHIN = np.array([0.13, 0.37, 0.5, 0.68, 0.9])  # of a step
EPS = np.finfo(float).eps


def automatic() -> list[str]:
    """Registered methods that choose their steps themselves."""
    out = []
    for name, method in da.methods().items():
        try:
            method().for_run(False)
        except OptionError:
            continue
        out.append(name)
    return sorted(out)


METHODS: list[Any] = [*automatic(), da.Radau(5), da.Gauss(4), da.Lobatto(4, family="IIIA"), da.Lobatto(5)]


@cache
def reference(name: str) -> da.Solution:
    return solve(name, "bdf", 3e-13)


def solve(name: str, method: Any, rtol: float, **options: Any) -> da.Solution:
    p = da.problems()[name]
    span = (p.t_span[0], p.t_span[0] + SPANS[name])
    options = {**p.options, "rtol": rtol, "atol": 1e-2 * rtol, **options}
    return da.solve(p.system, span, p.q0, p.v0, method=method, **options)


def between(t: np.ndarray) -> np.ndarray:
    return (t[:-1, None] + WITHIN * np.diff(t)[:, None]).ravel()


def error(name: str, state: Any) -> dict[str, float]:
    """Largest deviation of a solution or state from the reference, by part."""
    exact = reference(name)(state.t)
    return {part: float(np.abs(getattr(state, part) - getattr(exact, part)).max()) for part in PARTS}


@pytest.mark.parametrize("rtol", [1e-4, 1e-7, 1e-10])
@pytest.mark.parametrize("name", SPANS)
@pytest.mark.parametrize("method", METHODS, ids=str)
def test_as_accurate_between_steps_as_at_them(method, name, rtol):
    if rtol < 1e-7 and getattr(method, "name", method) in ("generalized-alpha", "hht"):
        pytest.skip("of order 2: not for tolerances like this")
    if method == "backward-euler":
        if rtol < 1e-4:
            pytest.skip("order 1: too many steps")
        rtol = 1e-2
    sol = solve(name, method, rtol)
    at, inside = error(name, sol), error(name, sol(between(sol.t)))
    floor = {part: 1e-11 * np.abs(getattr(sol, part)).max() for part in PARTS}  # of the reference
    for part in PARTS:
        assert inside[part] <= 5 * at[part] + floor[part], (part, at, inside)


@pytest.mark.parametrize("name", SPANS)
@pytest.mark.parametrize("method", METHODS, ids=str)
def test_constraints_hold_at_any_time(method, name):
    sol = solve(name, method, 1e-4)
    times = np.random.default_rng(3).uniform(sol.t[0], sol.t[-1], 200)
    state = sol(times)
    system = da.problems()[name].system
    speed = 1 + np.abs(sol.v).max()
    for i in range(times.size):
        levels = Levels.at(system, times[i], state.q[i], state.v[i])
        assert levels.position <= 100 * EPS * (1 + np.abs(sol.q).max()) ** 2
        assert levels.velocity <= 100 * EPS * speed * (1 + np.abs(sol.q).max())


@dataclass
class Levels:
    """Largest residual of the constraints and of their time derivative."""

    position: float
    velocity: float

    @staticmethod
    def at(system: da.System, t: float, q: np.ndarray, v: np.ndarray) -> Levels:
        from dalembert.runtime.start import evaluate

        p = system.parameters.vector(None)
        values = {
            "t": t,
            "q": q,
            "v": v,
            "p": p,
            **{n: np.zeros(system.sizes[n]) for n in ("r", "w", "s", "a", "lam", "mu")},
        }
        g, g_dot = (np.abs(evaluate(system, name, values)).max() for name in ("g", "g_dot"))
        return Levels(float(g), float(g_dot))


@pytest.mark.parametrize("name", SPANS)
@pytest.mark.parametrize("method", METHODS, ids=str)
def test_t_eval_is_the_same_interpolant(method, name):
    rtol = 1e-5
    sol = solve(name, method, rtol)
    times = np.sort(np.append(between(sol.t), sol.t[3]))
    stored, dense = solve(name, method, rtol, t_eval=times), sol(times)
    assert stored.stats.steps == sol.stats.steps
    # modified BDF begins anew where its grid shrinks again and again, from its last point put onto the constraints
    allowed = 1e-2 * rtol if method == "modified-bdf" else 1e-10
    for part in (*PARTS, "a"):
        scale = 1 + np.abs(getattr(dense, part)).max()
        np.testing.assert_allclose(getattr(stored, part), getattr(dense, part), rtol=0, atol=allowed * scale)


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_events_of_all_methods_agree(method):
    """Zeros of position, velocity and multiplier of the pendulum, at the tolerance."""

    def bottom(q):
        return q[0]

    def turning(v):
        return v[1]

    def tension(lam):
        return lam[0] - 10.0

    events = [bottom, turning, tension]
    rtol = 1e-6
    exact = solve("pendulum", "bdf", 3e-13, events=events)
    sol = solve("pendulum", method, rtol, events=events)
    at = error("pendulum", solve("pendulum", method, rtol))
    assert [x.size for x in sol.t_events] == [x.size for x in exact.t_events]
    assert sum(x.size for x in exact.t_events) >= 3
    for found, true, part, i in zip(sol.t_events, exact.t_events, PARTS, (0, 1, 0), strict=True):
        near = [getattr(exact(true + d), part)[:, i] for d in (-1e-4, 1e-4)]
        rate = np.abs(near[1] - near[0]) / 2e-4
        assert np.all(np.abs(found - true) <= 5 * at[part] / rate + 1e-10)
    # a zero of the same function of sol(t), where no event moved it
    assert np.abs(sol(sol.t_events[0]).q[:, 0]).max() < 1e-9


@pytest.mark.parametrize(
    ("method", "orders"),
    [
        (da.Gauss(2), (4, 4, 4)),
        (da.Radau(3), (5, 5, 5)),  # index 3, projected
        (da.Gauss(3), (6, 6, 6)),
        (da.Lobatto(4, family="IIIA"), (6, 6, 6)),
        (da.ModifiedBDF(max_order=3), (3, 3, 3)),
        (da.GeneralLinear(), (3, 3, 3)),
    ],
    ids=str,
)
def test_order_with_fixed_steps(method, orders):
    steps = np.array({6: [12, 17, 24], 5: [24, 34, 48]}.get(max(orders), [60, 85, 120]))
    found = []
    for n in steps:
        sol = solve("slider-crank", method, 1e-6, h=SPANS["slider-crank"] / n)
        found.append(list(error("slider-crank", sol(between(sol.t))).values()))
    slopes = -np.polyfit(np.log(steps), np.log(found), 1)[0]
    assert np.all(slopes > np.array(orders) - 0.35), slopes


@pytest.mark.parametrize("method", ["radau", "gauss", "modified-bdf", "bdf"])
def test_files_have_the_same_polynomials(method, tmp_path):
    sol = solve("slider-crank", method, 1e-6, formulation="index-1")
    sol.save(tmp_path / "run.nc")
    back = da.load(tmp_path / "run.nc")
    times = between(sol.t)
    live, loaded = sol(times), back(times)
    for part, allowed in (("q", 1e-6), ("v", 1e-5), ("lam", 1e-3)):
        np.testing.assert_allclose(getattr(loaded, part), getattr(live, part), rtol=0, atol=allowed)
    assert np.array_equal(back(back.t[2]).q, sol.q[2])


@pytest.mark.parametrize("method", [da.Radau(3), da.Gauss(2), da.Gauss(4)], ids=str)
def test_dynamic_states(method):
    """r' = -r + q on a free oscillator: r between steps as at them."""
    system = da.System(q=["x"], mass=[1.0], force=lambda q: [-q[0]], r=["r"], dynamics=lambda r, q: [q[0] - r[0]])
    options = {"q0": [1.0], "v0": [0.0], "r0": [0.2], "method": method}

    def exact(t):  # r = c e^-t + (cos t + sin t) / 2
        return (0.2 - 0.5) * np.exp(-t) + 0.5 * (np.cos(t) + np.sin(t))

    for rtol in (1e-4, 1e-8):
        sol = da.solve(system, (0.0, 6.0), rtol=rtol, atol=1e-2 * rtol, **options)
        times = between(sol.t)
        at, inside = np.abs(sol.r[:, 0] - exact(sol.t)).max(), np.abs(sol(times).r[:, 0] - exact(times)).max()
        assert inside <= 5 * at + 1e-13
        np.testing.assert_allclose(sol.extra["r_dot"], sol.q - sol.r, atol=1e-13)


def test_drift_is_not_hidden():
    """Without a projection index 1 leaves the constraints; so does what lies between its steps."""
    sol = solve("pendulum", "radau", 1e-3, formulation="index-1", projection=None)
    residual = np.abs(np.sum(sol(between(sol.t)).q ** 2, axis=1) - 1)
    assert residual.max() > 0.3 * np.abs(sol.drift.position).max() > 1e-9


def test_stiff_steps_do_not_blow_up():
    """Steps much longer than the fastest motion: accelerations inside of them are not followed."""
    system = da.System(
        q=["x", "y"], mass=[1.0, 1.0], force=lambda t, q, v: [-1e8 * (q[0] - np.sin(t)) - 1e5 * v[0], -q[1]]
    )
    sol = da.solve(system, (0, 5), [0.0, 1.0], [0.0, 0.0], method=da.Radau(5), rtol=1e-6, atol=1e-8)
    times = between(sol.t)
    late = times > 0.5
    assert sol.t.size < 200
    assert np.abs(sol(times).q[late, 0] - np.sin(times[late])).max() < 2e-3  # lags by 1e-3 cos t


def test_conditions_of_the_corrections():
    from numpy.polynomial import Polynomial

    for factors, power, derivative in ((FACTORS_Q, 3, 2), (FACTORS_R, 2, 1)):
        basis = [Polynomial([0, 1, -1]) ** power * Polynomial(row) for row in factors]
        values = np.array([[b.deriv(derivative)(s) for s in POINTS] for b in basis])
        np.testing.assert_allclose(values, np.eye(INNER), atol=1e-9)


def test_points_that_cannot_be_put_onto_the_constraints_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = da.problems()["pendulum"]
    sol = da.solve(problem.system, (0, 1), problem.q0, problem.v0, method=da.Radau(3))

    def failing(*arguments: Any) -> int:
        times, out = arguments[-2:]
        out[:] = 0.0
        out[times > 0.5] = np.nan
        return int((times > 0.5).sum())

    monkeypatch.setattr(joined, "evaluate_dense", lambda: failing)
    with pytest.raises(ValueError, match=r"2 of 3 points .* radau \(3 stages\) .* first at t = 0.75: .* max_step"):
        sol([0.25, 0.75, 0.875])
