"""Half-explicit Runge-Kutta methods: order conditions, observed orders, constraints, error control, refusals."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import dalembert as da
from dalembert.integrators.explicit import tableau as explicit_tableau
from dalembert.integrators.half_explicit_tableaus import HalfExplicitTableau, half_explicit_tableau, trees
from dalembert.status import OptionError
from test_groups import begin, errors, heavy_top, off_group

EPS = np.finfo(float).eps
ORDERS = {1: (2000, 4000), 3: (400, 800), 5: (200, 400)}
FORMS = ("index-2", "index-3")


def run(name: str, end: float | None = None, **options: Any) -> da.Solution:
    problem = da.problems()[name]
    t0, t1 = problem.t_span
    sol = da.solve(problem.system, (t0, t1 if end is None else end), problem.q0, problem.v0, **options)
    assert sol.success, sol.message
    return sol


# ---------------------------------------------------------------------- coefficients
def test_number_of_conditions() -> None:
    """Without branches z the trees are the rooted ones of ordinary differential equations: 1, 1, 2, 4, 9."""

    def ordinary(tree: Any) -> bool:
        return not tree.algebraic and all(ordinary(t) for t in tree.integrated)

    assert [len(trees(n)) for n in range(1, 6)] == [1, 2, 8, 36, 181]
    assert [sum(map(ordinary, trees(n))) for n in range(1, 6)] == [1, 1, 2, 4, 9]


@pytest.mark.parametrize("order", ORDERS)
def test_conditions_are_checked_when_built(order: int) -> None:
    good = half_explicit_tableau(order)
    assert good.cb[-1] == pytest.approx(1, abs=1e-14)
    with pytest.raises(ValueError, match=f"condition of order {order + 1} is violated"):
        replace(good, order=order + 1)
    with pytest.raises(ValueError, match="condition of order 1 is violated"):
        replace(good, Ab=0.99 * good.Ab)
    with pytest.raises(ValueError, match="estimate violates a condition of order 1"):
        replace(good, estimate=good.estimate + 0.01)
    with pytest.raises(ValueError, match="strictly"):
        replace(good, A=good.A + np.eye(len(good.A)))


def test_a_change_beyond_the_ordinary_conditions_is_noticed() -> None:
    """Rows of Ab that keep their sums and the step itself: only trees with multipliers know."""
    good = half_explicit_tableau(5)
    Ab = good.Ab.copy()
    Ab[3, :2] += [1e-6, -1e-6]
    with pytest.raises(ValueError, match="is violated"):
        replace(good, Ab=Ab)
    Ab = good.Ab.copy()
    Ab[2, 2] = 0.0
    with pytest.raises(ValueError, match="only the first stage"):
        replace(good, Ab=Ab)


def test_order_5_is_built_on_dormand_and_prince() -> None:
    good, other = half_explicit_tableau(5), explicit_tableau(5)
    np.testing.assert_allclose(good.A, other.A[:6, :6], atol=1e-14)
    np.testing.assert_allclose(np.append(good.b, 0.0) - good.estimate, -other.estimates[0], atol=1e-14)
    assert isinstance(good, HalfExplicitTableau)


# ---------------------------------------------------------------------- orders
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("alternating", [False, True], ids=["fixed", "alternating"])
def test_order(order: int, form: str, alternating: bool) -> None:
    """Positions, velocities and multipliers converge with the order of the method."""
    end, found = 2.2, []
    for n in ORDERS[order]:
        h: Any = np.tile([2 * end / (3 * n), 4 * end / (3 * n)], n // 2) if alternating else end / n
        sol = run("pendulum", end, method=da.HalfExplicit(order), formulation=form, h=h)
        exact = da.problems()["pendulum"].reference(sol.t)
        found.append([np.abs(getattr(sol, x) - exact[x]).max() for x in ("q", "v", "lam")])
    slopes = np.log2(np.divide(*found))
    assert np.all(np.abs(slopes - order) < 0.15), slopes


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("group", ["R3xSO3", "SE3", "quaternions"])
def test_order_on_groups(group: str, form: str) -> None:
    system, found = heavy_top(group), []
    q0, v0 = begin(group)
    for n in (120, 240):
        sol = da.solve(system, (0, 0.1), q0, v0, method="half-explicit", formulation=form, h=0.1 / n)
        found.append(errors(group, sol, 0.1, 21))
        assert off_group(system, sol.q) < 10 * EPS
    coarse, fine = (max(e["x"], e["R"], e["Omega"] / 10) for e in found)
    assert 4.7 < np.log2(coarse / fine) < 5.5, found
    assert abs(np.log2(found[0]["lam"] / found[1]["lam"]) - 5) < 0.15, found


@pytest.mark.parametrize("name", ["rolling-sphere", "knife-edge"])
def test_order_with_velocity_constraints(name: str) -> None:
    """Nonholonomic: index 2 is their own."""
    reference, found = run(name, 2.0, method=da.Explicit(8), rtol=1e-13, atol=1e-14), []
    for n in (40, 80):
        sol = run(name, 2.0, method="half-explicit", formulation="index-2", h=2 / n)
        assert sol.drift.largest["nonholonomic"] < 20 * EPS
        exact = reference(sol.t)
        found.append([np.abs(getattr(sol, x) - getattr(exact, x)).max() for x in ("q", "v", "mu")])
    slopes = np.log2(np.divide(*found))
    assert np.all(np.abs(slopes - 5) < 0.2), slopes


@pytest.mark.parametrize("method", [da.HalfExplicit(5), da.HalfExplicit(3), da.Explicit(5)], ids=str)
def test_dynamic_states_that_depend_on_the_multipliers(method: Any) -> None:
    """A filter of the force in the rod."""
    system = da.System(
        q=["x", "y"], mass=[1.0, 1.0], force=[0.0, -9.81], constraints=lambda q: [(q[0] ** 2 + q[1] ** 2 - 1) / 2],
        r=["z"], dynamics=lambda r, lam: [lam[0] - 3 * r[0]],
    )  # fmt: skip

    def solve(**options: Any) -> da.Solution:
        sol = da.solve(system, (0, 2), [1, 0], [0, 0], r0=[0.0], **options)
        assert sol.success, sol.message
        return sol

    exact = solve(method=da.Explicit(8), rtol=1e-13, atol=1e-13).r[-1]
    coarse, fine = (np.abs(solve(method=method, h=2 / n).r[-1] - exact).max() for n in (100, 200))
    assert abs(np.log2(coarse / fine) - method.order) < 0.15
    assert np.abs(solve(method=method, rtol=1e-8, atol=1e-8).r[-1] - exact).max() < 1e-6


# ---------------------------------------------------------------------- constraints
def test_constraints_for_long_runs() -> None:
    """10 000 periods of the pendulum: round-off, not drift."""
    sol = run("pendulum", 20_000.0, method="half-explicit", rtol=1e-4, atol=1e-4, t_eval=np.linspace(0, 20_000, 2001))
    assert np.abs(sol.drift.position).max() < 20 * EPS
    assert np.abs(sol.drift.velocity).max() < 200 * EPS


def test_index_2_keeps_velocities_alone() -> None:
    plain = run("andrews", method="half-explicit", formulation="index-2", rtol=1e-6)
    assert plain.stats.projection == "none"
    assert plain.drift.largest["velocity"] < 1e-12
    assert 1e-12 < plain.drift.largest["position"] < 1e-6
    kept = run("andrews", method="half-explicit", rtol=1e-6)
    assert kept.drift.largest["position"] < 1e-15
    assert kept.drift.largest["velocity"] < 1e-12


# ---------------------------------------------------------------------- error control
def test_published_values_of_andrews() -> None:
    problem = da.problems()["andrews"]
    sol = run("andrews", method="half-explicit", rtol=1e-12, atol=1e-12)
    exact = problem.reference(sol.t[-1])
    assert np.abs(sol.q[-1] - np.ravel(exact["q"])).max() < 1e-10
    assert np.abs(sol.lam[-1] / np.ravel(exact["lam"]) - 1).max() < 1e-10


@pytest.mark.parametrize("order", [3, 5])
def test_the_estimate_has_its_order(order: int) -> None:
    """Steps of a smooth problem go with tol^(1 / (k + 1)), k the order of the estimate."""
    method = da.HalfExplicit(order)
    k = method.order_range(False)[0]
    few, many = (run("moving-pivot", method=method, rtol=tol, atol=tol).stats.steps for tol in (1e-7, 1e-9))
    assert np.log(many / few) / np.log(100) == pytest.approx(1 / (k + 1), rel=0.05)


@pytest.mark.parametrize("order", [3, 5])
@pytest.mark.parametrize("name", ["pendulum", "slider-crank", "andrews", "car-axis", "double-pendulum", "knife-edge"])
def test_errors_follow_the_tolerance(name: str, order: int) -> None:
    end = min(da.problems()[name].t_span[1], 3.0)
    exact = run(name, end, method=da.Explicit(8), rtol=3e-13, atol=1e-14).q[-1]
    tolerances = 10.0 ** -np.arange(5, 8.1 if order == 3 else 10.1)
    found = []
    for tol in tolerances:
        sol = run(name, end, method=da.HalfExplicit(order), rtol=tol, atol=tol)
        assert max(sol.drift.largest.values()) < 1e-11
        found.append(float(np.max(np.abs(sol.q[-1] - exact) / (1 + np.abs(exact)))))
    slope = np.polyfit(np.log(tolerances), np.log(found), 1)[0]
    assert 0.8 < slope < 1.2, found


def test_fewer_steps_than_the_explicit_method_where_multipliers_are_large() -> None:
    """The heavy top with position and rotation apart: errors across the constraints do not count."""
    system, (q0, v0) = heavy_top("R3xSO3"), begin("R3xSO3")
    counts = []
    for method in (da.HalfExplicit(5), da.Explicit(5)):
        sol = da.solve(system, (0, 1), q0, v0, method=method, rtol=1e-8, atol=1e-8)
        counts.append(sol.stats.steps)
        assert max(errors("R3xSO3", sol, 1.0)[x] for x in ("x", "R")) < 3e-7
    assert 1.2 * counts[0] < counts[1]


# ---------------------------------------------------------------------- other systems
def test_without_constraints_it_is_dormand_and_prince() -> None:
    both = [run("free-oscillator", 2.0, method=m, h=0.05) for m in (da.HalfExplicit(5), da.Explicit(5))]
    np.testing.assert_allclose(both[0].q, both[1].q, atol=1e-14)
    np.testing.assert_allclose(both[0].v, both[1].v, atol=1e-14)


def test_backwards() -> None:
    there = run("double-pendulum", 1.0, method="half-explicit", rtol=1e-10, atol=1e-10)
    problem = da.problems()["double-pendulum"]
    back = da.solve(problem.system, (1, 0), there.q[-1], there.v[-1], method="half-explicit", rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(back.q[-1], problem.q0, atol=1e-7)


def test_singular_mass_matrix() -> None:
    sol = run("singular-mass", 1.0, method="half-explicit", rtol=1e-9, atol=1e-9)
    other = run("singular-mass", 1.0, method="bdf", rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(sol.q[-1], other.q[-1], atol=1e-6)


# ---------------------------------------------------------------------- refusals
@pytest.mark.parametrize("order", [2, 4, True, "5"])
def test_orders_there_are_not(order: Any) -> None:
    with pytest.raises(OptionError, match=rf"HalfExplicit\(order={order!r}\): there are methods of order 1, 3 and 5"):
        da.HalfExplicit(order)


@pytest.mark.parametrize("name", ["friction-pendulum", "contact-point"])
def test_models_that_are_not_linear(name: str) -> None:
    problem = da.problems()[name]
    with pytest.raises(OptionError, match=r"'half-explicit' needs accelerations .* linear .* Use BDF or Radau"):
        da.solve(problem.system, (0, 1), problem.q0, problem.v0, method="half-explicit", **problem.options)


def test_velocity_constraints_that_are_not_linear() -> None:
    appell = da.System(
        q=3, mass=[1.0, 1.0, 1.0], force=[0, 0, -9.81],
        velocity_constraints=lambda v: [v[0] ** 2 + v[1] ** 2 - v[2] ** 2],
    )  # fmt: skip
    start = [0.0, 0.0, 0.0], [1.0, 0.0, 1.0]
    with pytest.raises(OptionError, match=r"linear in the velocities\. Use Explicit, BDF or Radau"):
        da.solve(appell, (0, 1), *start, method="half-explicit")
    assert da.solve(appell, (0, 1), *start, method="explicit").success


def test_forms_and_projections() -> None:
    with pytest.raises(OptionError, match="it takes index-2, index-3"):
        run("pendulum", 1.0, method="half-explicit", formulation="index-1")
    with pytest.raises(OptionError, match=r"Index2\(gamma=2\).*formulation='index-3'"):
        run("pendulum", 1.0, method="half-explicit", formulation=da.Index2(gamma=2.0))
    for projection in (None, da.Projection(levels=("velocity",)), da.Projection(steps=False)):
        with pytest.raises(OptionError, match=rf"^projection={re.escape(str(projection))}.*formulation='index-2'"):
            run("pendulum", 1.0, method="half-explicit", projection=projection)
    sol = run("pendulum", 1.0, method="half-explicit", projection=da.Projection(weight="mass", coupling="joint"))
    assert sol.drift.largest["position"] < 10 * EPS
