"""Modified BDF: order k in q, v and lam whatever the steps; automatic runs beside BDF; stability of its formulas."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from math import comb, factorial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dalembert as da
from dalembert.analysis import formulas
from dalembert.integrators.modified_bdf_formulas import GROWTH_LIMITS
from dalembert.status import OptionError

CIRCLE, STEADY = "particle-on-circle", "particle-8.1.1"  # Wunderlich 2.4.7 and 8.1.1
SLACK = 0.15
ORDERS = (1, 2, 3, 4, 5)


# ---------------------------------------------------------------------- order on prescribed steps
SPANS = {CIRCLE: 0.5, STEADY: 1.0}
PATTERNS: dict[str, Any] = {
    "constant": [1.0],
    "alternating": [1.0, 2.0],
    # twenty random steps over and over: every step differs from the one before however fine the grid
    "random": np.random.default_rng(2005).uniform(0.5, 2.0, 20),
}
# fine enough for the leading term, coarse enough for eps/h^2 in lam; for k = 5 the two nearly meet
COUNTS = {
    CIRCLE: {1: (200, 400), 2: (200, 400), 3: (100, 200), 4: (100, 200), 5: (60, 100)},
    STEADY: {1: (200, 400), 2: (200, 400), 3: (100, 200), 4: (40, 80), 5: (40, 80)},
}


def largest_errors(name: str, k: int, n: int, pattern: str) -> np.ndarray:
    problem = da.problems()[name]
    t0 = problem.t_span[0]
    steps = np.resize(PATTERNS[pattern], n)
    steps = steps * (SPANS[name] / steps.sum())
    sol = da.solve(
        problem.system, (t0, t0 + SPANS[name]), problem.q0, problem.v0, method=da.ModifiedBDF(k), h=list(steps)
    )
    assert sol.success, sol.message
    exact = problem.reference(sol.t)
    return np.array([np.abs(getattr(sol, what) - exact[what]).max() for what in ("q", "v", "lam")])


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("k", ORDERS)
@pytest.mark.parametrize("name", SPANS)
def test_order_whatever_the_steps(name: str, k: int, pattern: str) -> None:
    """q, v and lam; on 8.1.1 q and v gain an order where k is even (the leading error term vanishes there)."""
    n = COUNTS[name][k]
    coarse, fine = (largest_errors(name, k, m, pattern) for m in n)
    q, v, lam = np.log(coarse / fine) / np.log(n[1] / n[0])
    slack = 2 * SLACK if k == 5 else SLACK
    gained = 1 if name == STEADY and k % 2 == 0 else 0
    assert abs(lam - k) < slack, lam
    for slope in (q, v):
        assert k - slack < slope < k + gained + slack, slope


# ---------------------------------------------------------------------- automatic steps
TIMES = {"pendulum": (0.0, 4.0)}
TOLERANCES = (1e-4, 1e-6, 1e-8)
AUTOMATIC = (CIRCLE, STEADY, "pendulum", "slider-crank", "truck")
CURVE = tuple(float(10.0**-x) for x in np.arange(3.0, 9.6, 0.5))  # tolerances of BDF that errors are compared with
FORMS = ("index-1", "index-2", "stabilized-index-2", "index-3", "minimal-extension", "baumgarte", "overdetermined")
BEST = ("index-1", "stabilized-index-2")
ROOM = 1.15  # of numbers of steps: those of BDF are interpolated, and scatter by some percent
JITTER = (-2e-12, -1e-12, 0.0, 1e-12, 2e-12)  # of tolerances


@cache
def automatic(name: str, tol: float, method: str) -> da.Solution:
    problem = da.problems()[name]
    choice, form = (da.ModifiedBDF(), "index-3") if method == "modified" else (da.BDF(), method)
    sol = da.solve(
        problem.system, TIMES.get(name, problem.t_span), problem.q0, problem.v0, method=choice, formulation=form,
        rtol=tol, atol=tol,
    )  # fmt: skip
    assert sol.success, sol.message
    return sol


@cache
def usual_steps(name: str, tol: float, method: str) -> float:
    """Steps at tolerances that differ by rounding: the median. (On the truck numbers scatter by two percent.)"""
    return float(np.median([automatic(name, tol * (1 + x), method).stats.steps for x in JITTER]))


def scaled_errors(name: str, sol: da.Solution, tol: float) -> dict[str, float]:
    """Largest ones over the whole run."""
    exact = truck(sol.t) if name == "truck" else da.problems()[name].reference(sol.t)
    unit = {"q": tol, "v": tol, "lam": 30 * tol}
    return {x: float(np.abs(getattr(sol, x) - exact[x]).max() / (1 + np.abs(exact[x]).max()) / unit[x]) for x in unit}


@cache
def fine_truck() -> da.Solution:
    """The reference of the problem is for three times, at which errors of other times may be forgotten."""
    problem = da.problems()["truck"]
    fine: dict[str, Any] = {"method": da.Explicit(8), "rtol": 1e-13, "atol": 1e-13}
    sol = da.solve(problem.system, problem.t_span, problem.q0, problem.v0, **fine)
    times = np.array(problem.reference_times)
    for what, value in problem.reference(times).items():
        assert np.abs(getattr(sol(times), what) - value).max() < 1e-11 * (1 + np.abs(value).max())
    return sol


def truck(times: np.ndarray) -> dict[str, np.ndarray]:
    found = fine_truck()(times)
    return {what: getattr(found, what) for what in ("q", "v", "lam")}


@pytest.mark.parametrize("tol", TOLERANCES)
@pytest.mark.parametrize("name", AUTOMATIC)
def test_automatic_runs(name: str, tol: float) -> None:
    """Errors of q and v below rtol, of lam below 30 rtol; no more steps than BDF at the same rtol on the forms that BDF
    is made for, nor on any on which it has such errors; and for the same error no more than scatter explains."""
    sol = automatic(name, tol, "modified")
    for form in FORMS:
        other = automatic(name, tol, form)
        if form in BEST or max(scaled_errors(name, other, tol).values()) < 1.0:
            assert usual_steps(name, tol, "modified") <= usual_steps(name, tol, form), form
    assert sol.stats.rejected <= 1 + sol.stats.steps // 50
    found = scaled_errors(name, sol, tol)
    assert max(found.values()) < 1.0, found
    error = tol * max(found["q"], found["v"])
    for loose, tight in pairwise(CURVE):
        (e0, n0), (e1, n1) = (bdf_point(name, x) for x in (loose, tight))
        if e0 >= error >= e1 and e0 > e1:
            steps = n0 * (n1 / n0) ** (np.log(e0 / error) / np.log(e0 / e1))
            assert sol.stats.steps <= ROOM * steps
            return
    assert error < e1  # BDF does not get there by these tolerances ...
    assert sol.stats.steps < n1  # ... with more steps


@pytest.mark.slow
@pytest.mark.parametrize("name", AUTOMATIC)
def test_automatic_runs_at_many_tolerances(name: str) -> None:
    """An eighth of a decade apart: errors as at `TOLERANCES`, and no more steps than BDF on the stabilized form."""
    for tol in (float(10.0**-x) for x in np.arange(4.0, 8.1, 0.125)):
        sol = automatic(name, tol, "modified")
        assert max(scaled_errors(name, sol, tol).values()) < 1.0, tol
        assert usual_steps(name, tol, "modified") <= usual_steps(name, tol, "stabilized-index-2"), tol


@pytest.mark.parametrize(("name", "first"), [("pendulum", 6), ("slider-crank", 6), ("truck", 3)])
def test_start(name: str, first: int) -> None:
    """Explicit steps of order 8 make the first points, about one for each; what they notice of stiffness chooses the
    order that follows."""
    sol = automatic(name, 1e-6, "modified")
    assert sol.stats.starting_steps <= 8
    seeds = 8
    assert sol.orders[1 + seeds] == first
    assert automatic(name, 1e-6, "index-1").stats.starting_steps == 0


def test_start_without_explicit_steps() -> None:
    """Friction makes accelerations implicit: BDF makes the first points."""
    problem = da.problems()["friction-pendulum"]
    sol = da.solve(problem.system, problem.t_span, problem.q0, problem.v0, method="modified-bdf")
    assert sol.success, sol.message
    assert sol.stats.starting_steps > 8


@cache
def bdf_point(name: str, tol: float) -> tuple[float, int]:
    """Error of the motion and number of steps of BDF on the stabilized index-2 form."""
    sol = automatic(name, tol, "stabilized-index-2")
    found = scaled_errors(name, sol, tol)
    return tol * max(found["q"], found["v"]), sol.stats.steps


@pytest.mark.parametrize("name", AUTOMATIC)
def test_fewer_unknowns(name: str) -> None:
    system = da.problems()[name].system
    direct = sum(u.size for u in da.ModifiedBDF().unknowns(system, da.Index3()))
    assert direct == system.nq + system.nlam
    assert direct <= 0.6 * sum(u.size for u in da.StabilizedIndex2().unknowns(system))


@pytest.mark.parametrize("tol", TOLERANCES)
@pytest.mark.parametrize("name", [CIRCLE, STEADY, "pendulum", "slider-crank"])
def test_no_spike_of_the_multiplier(name: str, tol: float) -> None:
    """At every accepted step, after every change of step and order, the error of lam is of its usual size."""
    assert jump(name, tol, "modified") < 20


@pytest.mark.parametrize("tol", TOLERANCES)
@pytest.mark.parametrize("name", [CIRCLE, "pendulum"])
def test_dense_output(name: str, tol: float, tmp_path: Path) -> None:
    """Between the steps as accurate as at them, in the points of the starter and where a run begins anew, too."""
    sol = automatic(name, tol, "modified")
    assert (sol.orders == -1).sum() >= 1  # seeds
    times = np.linspace(sol.t[0], sol.t[-1], 2001)
    reference = da.problems()[name].reference
    sol.save(tmp_path / "run.nc")
    for found in (sol, da.load(tmp_path / "run.nc")):
        for what in ("q", "v"):
            between = np.abs(getattr(found(times), what) - reference(times)[what]).max()
            assert between < 1.5 * np.abs(getattr(sol, what) - reference(sol.t)[what]).max(), what


def test_bdf_on_index_3_has_spikes() -> None:
    """What the test above would see: jumps by 1e5 after changes of the step."""
    assert jump(CIRCLE, 1e-8, "index-3") > 1e4


def jump(name: str, tol: float, method: str) -> float:
    """Largest over median error of lam at the steps (or over the tolerance, if that is larger)."""
    sol = automatic(name, tol, method)
    error = np.abs(sol.lam - da.problems()[name].reference(sol.t)["lam"]).max(axis=1)[1:]
    assert np.unique(np.round(np.log(np.diff(sol.t)), 6)).size > 1 or name == STEADY  # steps did change
    return float(error.max() / max(np.median(error), tol))


@pytest.mark.parametrize(("rtol", "warned"), [(1e-9, False), (1e-10, True)])
def test_tolerances_that_errors_do_not_follow_are_pointed_out(rtol: float, warned: bool) -> None:
    problem = da.problems()["pendulum"]
    options: dict[str, Any] = {"rtol": rtol, "atol": rtol}
    sol = da.solve(problem.system, (0, 1), problem.q0, problem.v0, method="modified-bdf", **options)
    assert sol.success
    assert any("down to 1e-09" in text for text in sol.stats.warnings) == warned
    assert not da.solve(problem.system, (0, 1), problem.q0, problem.v0, method="modified-bdf", h=0.01).stats.warnings


@pytest.mark.parametrize("name", [CIRCLE, STEADY, "pendulum", "slider-crank"])
def test_tight_tolerances(name: str) -> None:
    """Second differences carry eps/h^2: lam follows the tolerance to 1e-10; what cannot be reached is refused."""
    problem = da.problems()[name]
    span = TIMES.get(name, problem.t_span)
    sol = da.solve(problem.system, span, problem.q0, problem.v0, method="modified-bdf", rtol=1e-10, atol=1e-10)
    assert sol.success, sol.message
    assert scaled_errors(name, sol, 1e-10)["lam"] < 20
    with pytest.raises(OptionError, match=r"modified BDF.*raise rtol to 5e-12"):
        da.solve(problem.system, span, problem.q0, problem.v0, method="modified-bdf", rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("name", "largest"), [("pendulum", 15), ("slider-crank", 0.5), ("andrews", 10)])
def test_positions_are_summed_with_compensation(name: str, largest: float) -> None:
    """Without it, and with differences along the constraints, steps of 1e-9 are rejected by the hundred, or errors
    several times as large."""
    problem = da.problems()[name]
    span = TIMES.get(name, problem.t_span)
    sol = da.solve(problem.system, span, problem.q0, problem.v0, method="modified-bdf", rtol=1e-9, atol=1e-9)
    assert sol.success, sol.message
    assert sol.stats.rejected <= 2
    end = np.array([span[1]])
    exact = problem.reference(end)
    for what in ("q", "v"):
        error = np.abs(getattr(sol(end), what) - exact[what]).max() / (1 + np.abs(exact[what]).max())
        assert error < largest * 1e-9


@pytest.mark.parametrize("name", [*SPANS, "pendulum", "slider-crank", "truck"])
def test_velocities_are_on_the_constraints(name: str) -> None:
    sol = automatic(name, 1e-6, "modified")
    assert np.abs(sol.drift.position).max() < 1e-14
    assert np.abs(sol.drift.velocity).max() < 1e-14


@pytest.mark.parametrize("tol", [1e-5, 1e-7])
@pytest.mark.parametrize("name", ["rolling-sphere", "rolling-disc", "forced-knife-edge"])
def test_errors_along_velocity_constraints_count(name: str, tol: float) -> None:
    """Positions go where they take them: leaving them out would let the rolling sphere be 3 rtol off, and more."""
    problem = da.problems()[name]
    run = (problem.system, problem.t_span, problem.q0, problem.v0)
    sol = da.solve(*run, method="modified-bdf", rtol=tol, atol=tol)
    exact = da.solve(*run, rtol=1e-11, atol=1e-11)
    for what in ("q", "v"):
        there = getattr(exact, what)[-1]
        assert np.abs(getattr(sol, what)[-1] - there).max() < tol * (1 + np.abs(there).max()), what


# ---------------------------------------------------------------------- stability of the formulas
def test_angles_of_stability() -> None:
    """Twice BDF has the angles of BDF [Hairer & Wanner II, section V.2]; order 6 has twice that of BDF, 17.8; the
    interpolant loses order 5."""
    regular = [formulas.angle("regular", k) for k in (*ORDERS, 6)]
    assert regular == pytest.approx([90.0, 90.0, 86.03, 73.35, 51.84, 38.02], abs=0.02)
    interpolant = [formulas.angle("interpolant", k) for k in ORDERS]
    assert interpolant[:4] == pytest.approx([90.0, 90.0, 86.9, 72.7], abs=0.1)
    assert np.isnan(interpolant[4])


@pytest.mark.parametrize("k", ORDERS)
def test_error_constants(k: int) -> None:
    """BDF twice: -1/(k+1) and -2/(k+1); interpolation: 0 and -2 H_{k+1} / (k+2)."""
    harmonic = sum(1 / m for m in range(1, k + 2))
    assert formulas.error_constants("regular", k) == pytest.approx((-1 / (k + 1), -2 / (k + 1)), abs=1e-10)
    assert formulas.error_constants("interpolant", k) == pytest.approx((0.0, -2 * harmonic / (k + 2)), abs=1e-10)


def test_order_six() -> None:
    """Exact for polynomials of degree 6 in v_n and 7 in a_n; refused where steps may change without a regular grid."""
    assert formulas.error_constants("regular", 6) == pytest.approx((-0.1487, -0.5730), abs=1e-4)
    d, e = formulas.weights("regular", 6)
    past = -np.arange(13.0)
    assert [float(d @ past**m) for m in range(7)] == pytest.approx([0, 1, 0, 0, 0, 0, 0], abs=1e-7)
    assert [float(e @ past**m) for m in range(8)] == pytest.approx([0, 0, 2, 0, 0, 0, 0, 0], abs=1e-6)
    problem = da.problems()[CIRCLE]
    with pytest.raises(OptionError, match="orders 1 to 5"):
        da.solve(problem.system, (1, 1.1), problem.q0, problem.v0, method=da.ModifiedBDF(6), h=0.01)
    with pytest.raises(OptionError, match="orders are 1 to 5"):
        da.ModifiedBDF(6, variant="thesis")


@pytest.mark.parametrize("k", [*ORDERS, 6])
def test_order_conditions_and_zero_stability(k: int) -> None:
    """d exact to degree k, e to degree k + 1, no further; all roots but the double 1 well inside the unit circle."""
    past = -np.arange(13.0)
    for derivative, (weights, degree) in enumerate(zip(formulas.weights("regular", k), (k, k + 1), strict=True), 1):
        moments = np.array([weights @ past**m / factorial(m) for m in range(degree + 2)])
        meant = np.eye(degree + 2)[derivative]
        assert np.abs(moments - meant)[:-1].max() < 1e-11
        assert abs(moments[-1]) > 0.1
    found = formulas.parasitic_roots(formulas.weights("regular", k)[1])
    if k < 6:  # those of BDF, twice
        bdf = np.zeros(k + 1)
        for m in range(1, k + 1):
            bdf[: m + 1] += np.array([(-1) ** j * comb(m, j) for j in range(m + 1)]) / m
        expected = np.sort(np.abs(np.roots(np.cumsum(bdf)[:-1])))[::-1]
        assert found == pytest.approx(np.repeat(expected, 2), rel=1e-5)  # double roots: sqrt(eps)
    assert found.max(initial=0.0) < 0.78


def test_the_guide_states_the_formulas_as_they_are() -> None:
    """Angles, error constants, growth limits: the table of the guide, to the digits printed."""
    page = (Path(__file__).parents[1] / "docs" / "guide-second-order.md").read_text(encoding="utf-8")
    text = page.partition("<!-- second-order-formulas -->")[2].partition("<!-- end second-order-formulas -->")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.strip().splitlines()[2:]]
    assert [row[0] for row in rows] == ["1", "2", "3", "4", "5", "6"]
    for k, row in enumerate(rows, 1):
        angles = {"regular": row[1], "interpolant": row[3]}
        constants = {"regular": row[2], "interpolant": row[4]}
        for variant in ("regular", "interpolant") if k < 6 else ("regular",):
            angle = formulas.angle(variant, k)
            assert angles[variant] == ("unstable" if np.isnan(angle) else f"{angle:.1f}")
            assert constants[variant] == f"{abs(formulas.error_constants(variant, k)[1]):.3f}"
        assert row[5:] == [f"{formulas.growth_limit(k):.2f}", f"{GROWTH_LIMITS[k]:.2f}"]
    assert "stable within 38 degrees" in page


@pytest.mark.parametrize("k", [*ORDERS, 6])
def test_growth_of_steps_is_below_the_limit(k: int) -> None:
    """Neither the growth that is allowed nor any smaller step makes parasitic solutions grow."""
    assert GROWTH_LIMITS[k] < formulas.growth_limit(k)
    for constrained in (False, True):
        assert max(formulas.parasitic_radius(k, r, constrained) for r in np.arange(0.1, 1.0, 0.05)) < 0.5
        assert formulas.parasitic_radius(k, GROWTH_LIMITS[k], constrained) < 0.95


@pytest.mark.parametrize("tol", [1e-4, 1e-5, 1e-6])
def test_the_truck_needs_fewer_steps_than_bdf_on_the_stabilized_form(tol: float) -> None:
    """With orders up to 3: its modes of 1 and 9.5 Hz are 82 degrees off the negative axis, higher orders unstable."""
    truck = da.problems()["truck"]
    start = (truck.system, truck.t_span, truck.q0, truck.v0)
    direct = da.solve(*start, method=da.ModifiedBDF(3), rtol=tol, atol=tol)
    plain = da.solve(*start, method="bdf", formulation="stabilized-index-2", rtol=tol, atol=tol)
    assert direct.success
    assert direct.stats.steps < plain.stats.steps
