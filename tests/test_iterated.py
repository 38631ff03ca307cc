"""Iterated Radau IIA: orders, error control, what it must not miss, groups, long steps, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dalembert as da
from dalembert.compiler.engine import fuses
from dalembert.integrators.iterated import radau_formula
from dalembert.numerics import sweep_errors, sweep_formula
from dalembert.numerics.native import LANES
from dalembert.runtime import singular
from dalembert.runtime.ingredients import kinked, lane_by_lane
from dalembert.status import OptionError
from test_explicit import pendulum_errors
from test_groups import begin, errors, heavy_top, off_group

EPS = np.finfo(float).eps
SHARP = (227, 25, 175, 103, 297, 264, 279, 173, *range(52))  # the first ones were worst before


def test_formula() -> None:
    f = radau_formula()
    assert f.size == sweep_formula.FORMULA
    c = f[sweep_formula.C : sweep_formula.C + LANES]
    A = f[sweep_formula.A : sweep_formula.AA].reshape(LANES, LANES).T
    AA = f[sweep_formula.AA : sweep_formula.END].reshape(LANES, LANES).T
    end = f[sweep_formula.END :].reshape(LANES, LANES)
    for q in range(1, 2 * LANES):  # B(15), and B(14) for double integrals
        assert end[:, 0] @ c ** (q - 1) == pytest.approx(1 / q, abs=8 * EPS)
        assert q == 15 or end[:, 1] @ c ** (q - 1) == pytest.approx(1 / q - 1 / (q + 1), abs=8 * EPS)
    for q in range(1, LANES + 1):  # C(8)
        assert np.abs(A @ c ** (q - 1) - c**q / q).max() < 4 * EPS
        assert q == LANES or np.abs(AA @ c ** (q - 1) - c ** (q + 1) / (q * (q + 1))).max() < 4 * EPS
    for lane, n in ((sweep_formula.G4, 4), (sweep_formula.G5, 5), (sweep_formula.G6, 6), (sweep_formula.G7, 7)):
        legendre = np.polynomial.Legendre.basis(n)(2 * c - 1)
        assert end[:, lane] @ legendre == pytest.approx(1.0, abs=1e-14)
        assert end[:, lane].sum() == pytest.approx(0.0, abs=1e-14)
    for q in range(LANES):
        assert end[:, sweep_formula.BEGINNING] @ c**q == pytest.approx(float(q == 0), abs=1e-13)


@pytest.mark.parametrize("alternating", [False, True])
@pytest.mark.parametrize(("count", "steps"), [(1, (24, 48)), (2, (24, 48)), (3, (20, 34))])
def test_order_at_least(count: int, steps: tuple[int, int], alternating: bool) -> None:
    """8 + sweeps in q, v and lam. Steps as short as the order is asymptotic for leave nothing but rounding errors, and
    longer ones gain more."""
    problem = da.problems()["pendulum"]
    found = []
    for n in steps:
        h = np.tile([2.4 / n, 1.6 / n], n // 2) if alternating else 2 / n
        sol = da.solve(problem.system, (0, 2), problem.q0, problem.v0, method=da.Iterated(count), h=h)
        found.append(pendulum_errors(sol))
    slopes = {x: float(np.log(found[0][x] / found[1][x]) / np.log(steps[1] / steps[0])) for x in found[0]}
    assert all(slope > 8 + count - 0.15 for slope in slopes.values()), slopes


def test_default_to_rounding_in_a_few_steps() -> None:
    problem = da.problems()["pendulum"]
    sol = da.solve(problem.system, (0, 2), problem.q0, problem.v0, method="iterated", h=0.1)
    found = pendulum_errors(sol)
    assert max(found["q"], found["v"]) < 3e-14
    assert found["lam"] < 3e-13


def test_exact_for_polynomials() -> None:
    """Forces that are polynomials in time: positions and velocities to degree 13 of the acceleration, in one sweep."""
    system = da.System(q=["x"], mass=[1.0], force=lambda t: [14 * t**13 - 3 * t**4])
    sol = da.solve(system, (0, 1), [0.0], [0.0], method=da.Iterated(1), h=0.5)
    assert sol.v[-1, 0] == pytest.approx(1 - 3 / 5, abs=1e-14)
    assert sol.q[-1, 0] == pytest.approx(1 / 15 - 3 / 30, abs=1e-14)


@pytest.mark.parametrize(
    "name", ["pendulum", "slider-crank", "andrews", "double-pendulum", "moving-pivot", "knife-edge", "car-axis"]
)
def test_errors_follow_the_tolerance(name: str) -> None:
    problem = da.problems()[name]
    span = (0, min(problem.t_span[1], 5.0))
    tight = da.solve(problem.system, span, problem.q0, problem.v0, method=da.Explicit(8), rtol=3e-13, atol=1e-14)
    for tol in (1e-4, 1e-6, 1e-8, 1e-10):
        sol = da.solve(problem.system, span, problem.q0, problem.v0, method="iterated", rtol=tol, atol=tol)
        assert sol.success, sol.message
        assert max(sol.drift.largest.values()) < 1e-11
        for part in ("q", "v"):
            exact = getattr(tight, part)[-1]
            assert np.abs(getattr(sol, part)[-1] - exact).max() < 20 * tol * max(1.0, np.abs(exact).max())


@pytest.mark.parametrize("tol", [1e-4, 1e-7, 1e-10])
def test_forces_that_sweeps_do_not_show(tol: float) -> None:
    """Nothing changes from sweep to sweep where forces depend on time alone: only what polynomials miss tells."""
    system = da.System(q=["x"], mass=[1.0], force=lambda t: [np.cos(200 * t)])
    sol = da.solve(system, (0, 3), [0.0], [0.0], method="iterated", rtol=tol, atol=1e-3 * tol)
    assert np.abs(sol.v[:, 0] - np.sin(200 * sol.t) / 200).max() < tol
    assert sol.stats.steps > 40


def test_a_force_that_begins_suddenly() -> None:
    """Its time is not declared: steps find it."""
    system = da.System(q=["x"], mass=[1.0], force=lambda t: [np.where(t > 1 / 3, 1.0, 0.0)])
    sol = da.solve(system, (0, 1), [0.0], [0.0], method="iterated", rtol=1e-8, atol=1e-10)
    assert sol.success
    assert sol.v[-1, 0] == pytest.approx(2 / 3, abs=1e-6)
    assert sol.stats.steps > 10


@pytest.mark.parametrize("form", ["R3xSO3", "SE3", "quaternions"])
def test_on_groups(form: str) -> None:
    system = heavy_top(form)
    q0, v0 = begin(form)
    found = []
    for n in (16, 32):
        sol = da.solve(system, (0, 0.1), q0, v0, method=da.Iterated(2), h=0.1 / n)
        found.append(errors(form, sol, 0.1, 17))
        assert off_group(system, sol.q) < 10 * EPS
    slopes = {x: float(np.log2(found[0][x] / found[1][x])) for x in found[0]}
    assert all(slope > 9.85 for slope in slopes.values()), slopes
    sol = da.solve(system, (0, 1), q0, v0, method="iterated", rtol=1e-12, atol=1e-12)
    end = errors(form, sol, 1.0)
    assert max(end["x"], end["R"]) < 1e-9
    assert end["Omega"] < 1e-8
    assert end["lam"] < 1e-6
    assert off_group(system, sol.q) < 10 * EPS


def test_dynamic_states() -> None:
    system = da.System(
        q=["x"], mass=[1.0], force=lambda q, r: [-q[0] + r[0]], r=["z"], dynamics=lambda q, r: [-r[0] + q[0]]
    )
    runs = [
        da.solve(system, (0, 5), [1.0], [0.0], r0=[0.0], method=m, rtol=1e-10, atol=1e-10)
        for m in ("iterated", da.Explicit(8))
    ]
    for part in ("q", "v", "r"):
        assert np.abs(getattr(runs[0], part)[-1] - getattr(runs[1], part)[-1]).max() < 1e-9
    times = np.linspace(0, 5, 77)
    assert np.abs(runs[0](times).r - runs[1](times).r).max() < 1e-9


def test_backwards() -> None:
    problem = da.problems()["pendulum"]
    there = da.solve(problem.system, (0, 3), problem.q0, problem.v0, method="iterated", rtol=1e-11, atol=1e-11)
    back = da.solve(
        problem.system, (3, 0), there.q[-1], there.v[-1], method="iterated", rtol=1e-11, atol=1e-11, initial="project"
    )
    assert np.abs(back.q[-1] - problem.q0).max() < 1e-8


def evaluations(tol: float, h: float | None = None, **options: Any) -> tuple[float, da.Solution]:
    """Evaluations of all stages that a pendulum takes over two periods, besides those for rates and multipliers."""
    problem = da.problems()["pendulum"]
    sol = da.solve(
        problem.system, (0, 4), problem.q0, problem.v0, method=da.Iterated(), rtol=tol, atol=tol, h=h, **options
    )
    assert sol.success
    return sol.stats.residuals / LANES, sol


def test_automatic_steps_sweep_as_often_as_they_have_to() -> None:
    """Prescribed steps make all sweeps, for their order. Automatic ones of the same size make as many as errors of
    their tolerance need."""
    at_least = 40 * 5 + LANES - 1
    prescribed, _ = evaluations(1e-3, h=0.1)
    assert prescribed >= at_least
    found = [(tol, *evaluations(tol, max_step=0.1, first_step=0.1)) for tol in (1e-3, 1e-5, 1e-7, 1e-9)]
    counts = [count for _, count, _ in found]
    assert counts == sorted(counts)
    assert counts[0] < 0.7 * at_least
    for tol, _, sol in found:
        assert sol.stats.steps == 40
        assert pendulum_errors(sol)["q"] < 10 * tol


@pytest.mark.parametrize(("tol", "h"), [(1e-2, 1.8e-3), (1e-4, 1e-3)])
def test_a_step_much_longer_than_the_last_asks_whether_it_may_end(tol: float, h: float) -> None:
    """What a first step changes, which has nothing to extrapolate, makes the second one expect that it needs all its
    five sweeps. It needs three."""
    problem = da.problems()["andrews"]

    def run(steps: int) -> da.Solution:
        span = (0, h * sum(1.7**k for k in range(steps)))
        sol = da.solve(
            problem.system, span, problem.q0, problem.v0, method="iterated", rtol=tol, atol=tol, first_step=h
        )
        assert sol.stats.steps == steps
        return sol

    spent = run(2).stats.residuals - run(1).stats.residuals
    assert spent < 3 * LANES + 12  # with those of a projection and of multipliers


def test_steps_that_are_far_too_long_are_given_up_early() -> None:
    """Sweeps over a whole period diverge at once. What comes of the attempt is no measure for the next one."""
    count, sol = evaluations(1e-6, first_step=2.0)
    usual, plain = evaluations(1e-6)
    assert sol.stats.rejected >= 1
    assert count < usual + 60
    assert pendulum_errors(sol)["q"] < 10 * max(pendulum_errors(plain)["q"], 1e-6)


def test_a_body_turns_little_in_its_first_step() -> None:
    """Its velocities, 150 rad/s, are rates: a step of 0.06 s, which a run of 1 s could begin with, is too long."""
    problem = da.problems()["heavy-top"]
    sol = da.solve(problem.system, (0, 1), problem.q0, problem.v0, method="iterated", rtol=1e-3, atol=1e-3)
    assert sol.t[1] == pytest.approx(1.5 / np.abs(problem.v0).max())
    assert not sol.stats.rejected


def test_long_steps_raise_no_alarm(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rod turns by more than a right angle within a step: followed in pieces, and not taken for a loss of rank."""
    asked: list[Any] = []
    look = singular.inspect
    monkeypatch.setattr(singular, "inspect", lambda *x: asked.append(x) or look(*x))
    for name in ("pendulum", "heavy-top"):
        problem = da.problems()[name]
        span = (0, min(10.0, problem.t_span[1]))
        for tol in (1e-2, 1e-3, 1e-4, 1e-6):
            sol = da.solve(problem.system, span, problem.q0, problem.v0, method="iterated", rtol=tol, atol=tol)
            assert sol.success
            assert not sol.stats.warnings
    assert not asked


def test_events_within_long_steps() -> None:
    """Every passage of the lowest point, at the time of the elliptic functions."""
    problem = da.problems()["pendulum"]
    sol = da.solve(
        problem.system, (0, 10), problem.q0, problem.v0, method="iterated", rtol=1e-12, atol=1e-12,
        events=lambda q: q[0],
    )  # fmt: skip
    exact = da.solve(
        problem.system, (0, 10), problem.q0, problem.v0, method=da.Explicit(8), rtol=1e-13, atol=1e-13,
        events=lambda q: q[0],
    )  # fmt: skip
    assert sol.t_events[0].size == exact.t_events[0].size > 4
    assert np.abs(sol.t_events[0] - exact.t_events[0]).max() < 1e-10


def test_functions_lane_by_lane() -> None:
    """Where much of a model is functions without a vector form, "auto" keeps to explicit steps."""
    spring = da.System(q=["x"], mass=[1.0], force=lambda q: [-np.arcsinh(q[0]) - np.log1p(q[0] ** 2) - np.sin(q[0])])
    assert lane_by_lane(spring)
    if fuses():  # most functions have a vector form there
        soft = da.System(q=["x"], mass=[1.0], force=lambda q: [-np.sinh(q[0]) - np.tanh(q[0]) - np.exp(q[0]) + 1.0])
        assert not lane_by_lane(soft)
    assert not lane_by_lane(da.problems()["andrews"].system)
    runs = [da.solve(spring, (0, 5), [1.0], [0.0], method=m, rtol=1e-9, atol=1e-9) for m in ("auto", "iterated")]
    assert runs[0].stats.method.startswith("explicit")
    assert np.abs(runs[0].q[-1] - runs[1].q[-1]).max() < 1e-8


def drag(law: Any) -> da.System:
    return da.System(
        q=["x", "y"], mass=[1.0, 1.0], force=lambda v: [*law(v), 0.0][:2] + np.array([0.0, -9.81]),
        constraints=lambda q: [(q @ q - 1) / 2],
    )  # fmt: skip


def test_estimate_of_what_a_kink_costs() -> None:
    """Wherever in a step it is: the estimate is not small by chance."""
    f = radau_formula()
    c = f[sweep_formula.C : sweep_formula.BARYCENTRIC]
    end = f[sweep_formula.END : sweep_formula.FORMULA].reshape(LANES, LANES)
    for power in (1, 2):  # a kink, and a jump of the curvature
        worst = 0.0
        for at in np.linspace(1e-3, 0.999, 5000):
            rate = np.maximum(c - at, 0) ** power
            error = abs(end[:, 0] @ rate - (1 - at) ** (power + 1) / (power + 1))
            g7, g6 = (abs(end[:, lane] @ rate) for lane in (sweep_formula.G7, sweep_formula.G6))
            start = abs(end[:, sweep_formula.BEGINNING] @ rate)  # where it was zero
            before = max(start - sweep_errors.UNLIKE * (g7 + g6), 0.0)
            worst = max(worst, error / (max(g7, sweep_errors.OTHER * g6) + c[0] * before))
        assert 0.3 < worst < 1.0


@pytest.mark.parametrize("law", [
    lambda v: [-0.3 * v[0] * np.abs(v[0]), 0.0],
    lambda v: [-0.3 * v[0] * np.linalg.norm(v), -0.3 * v[1] * np.linalg.norm(v)],
])  # fmt: skip
def test_kinks_are_not_passed_over(law: Any) -> None:
    """Drag with |v|: forces have no third derivative where the motion turns back, and steps of order 13 must not trust
    that coefficients fall; "auto" does not take them."""
    system = drag(law)
    assert kinked(system)
    runs = {m: da.solve(system, (0, 3), [1, 0], method=m, rtol=1e-9, atol=1e-9) for m in ("auto", "iterated", "bdf")}
    tight = da.solve(system, (0, 3), [1, 0], method=da.Explicit(5), rtol=1e-13, atol=1e-13)
    assert runs["auto"].stats.method.startswith("explicit")
    for sol in runs.values():
        assert np.abs(sol.q[-1] - tight.q[-1]).max() < 2e-8
    for name in ("pendulum", "andrews", "heavy-top", "car-axis", "slider-crank"):
        assert not kinked(da.problems()[name].system)


def test_smooth_changes_of_a_force_are_not_passed_over() -> None:
    """A relay and friction, smoothed by tanh, often within a fraction of a step: whose polynomials may look resolved by
    chance. Errors at the end, in tolerances, of 60 models at three tolerances; they were up to 2800."""
    system = da.System(
        q=1,
        mass=[1.0],
        force=lambda t, q, v, p: [
            -3 * np.tanh((q[0] - np.sin(p.om * t)) / p.eps) - 0.01 * p.c * np.tanh(v[0] / p.eps) - q[0]
        ],
        parameters={"eps": 0.01, "om": 3.0, "c": 10.0},
    )
    tolerances = 1e-4, 1e-5, 1e-6
    runs = [da.prepare(system, (0, 2), method="iterated", rtol=tol, atol=tol, t_eval=[2.0]) for tol in tolerances]
    exact = da.prepare(
        system, (0, 2), method=da.Radau(stages=5), formulation="index-1", rtol=1e-12, atol=1e-12, t_eval=[2.0]
    )
    found = []
    for seed in SHARP:
        rng = np.random.default_rng(seed)
        p = {"eps": 10 ** rng.uniform(-3, -1), "om": rng.uniform(1, 6), "c": 10 ** rng.uniform(0, 4)}
        x = rng.uniform(-0.5, 0.5)
        right = exact([x], [0.0], parameters=p)
        for tol, run in zip(tolerances, runs, strict=True):
            sol = run([x], [0.0], parameters=p)
            found.append(max(abs(sol.q[-1, 0] - right.q[-1, 0]), abs(sol.v[-1, 0] - right.v[-1, 0])) / tol)
    assert np.median(found) < 1
    assert np.quantile(found, 0.95) < 30
    assert max(found) < 200


def test_what_is_refused() -> None:
    for wrong in (0, 8, 2.5, True):
        with pytest.raises(OptionError, match="a whole number from 1 to 7"):
            da.Iterated(wrong)  # type: ignore[arg-type]
    friction = da.problems()["friction-pendulum"]
    with pytest.raises(OptionError, match=r"'iterated' needs accelerations .* linear .* Use BDF or Radau"):
        da.solve(friction.system, (0, 1), friction.q0, friction.v0, method="iterated")
    pendulum = da.problems()["pendulum"]
    with pytest.raises(OptionError, match="it takes index-1, overdetermined"):
        da.solve(pendulum.system, (0, 1), pendulum.q0, pendulum.v0, method="iterated", formulation="index-3")
