"""Methods of the registry: observed orders of q, v and lam, exact coefficients, error estimates, tolerances, drift.

The test problem is the pendulum of period 2, whose motion is known in elliptic functions.
"""

from __future__ import annotations

import ctypes
import dataclasses
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dalembert as da
from dalembert.integrators import Integrator
from dalembert.integrators.multistep import BackwardDifferences
from dalembert.numerics.runstate import ESTIMATE, FIRST, HISTORY, N_COEFFICIENTS, PREDICTOR
from dalembert.status import OptionError

END = 2.2  # a little more than a period
# numbers of steps for an order: small enough for the asymptotics, large enough to stay clear of rounding
STEPS = {1: (4000, 8000, 16000), 2: (1000, 2000, 4000), 3: (600, 1200, 2400), 4: (600, 1200, 2400), 5: (400, 800, 1600),
         6: (550, 650, 750, 850, 950)}  # fmt: skip
SLACK = 0.15


def instances(cls: type[Integrator]) -> list[Integrator]:
    """One object of a method for each order it offers."""
    if "max_order" not in {f.name for f in dataclasses.fields(cls)}:  # type: ignore[arg-type]
        return [cls()]
    out = []
    for order in itertools.count(1):
        try:
            out.append(cls(max_order=order))  # type: ignore[call-arg]
        except OptionError:
            return out
    raise AssertionError


def order_of(method: Integrator) -> int:
    return method.order_range(True)[1]


def cases() -> Iterator[Any]:
    """Methods x orders x formulations x projections."""
    for name, cls in da.methods().items():
        if not issubclass(cls, BackwardDifferences):
            continue
        for method in instances(cls):
            for formulation in sorted(n for n in cls.takes if da.formulations()[n].self_contained):
                projections: dict[str, Any] = {"none": None}
                if da.formulations()[formulation].projects:
                    projections["sequential"] = da.Projection()
                    projections["joint"] = da.Projection(coupling="joint")
                for label, projection in projections.items():
                    yield pytest.param(
                        method, formulation, projection, id=f"{name}-{order_of(method)}-{formulation}-{label}"
                    )


CASES = list(cases())


def errors(problem: Any, method: Integrator, h: Any, **options: Any) -> dict[str, float]:
    """Largest errors of q, v, lam over the run."""
    sol = da.solve(problem.system, (0, END), q0=problem.q0, v0=problem.v0, method=method, h=h, **options)
    assert sol.success, sol.message
    exact = problem.reference(sol.t)
    return {name: float(np.abs(getattr(sol, name) - exact[name]).max()) for name in ("q", "v", "lam")}


def slopes(problem: Any, method: Integrator, alternating: bool, **options: Any) -> dict[str, float]:
    """Least-squares slopes of log(error) against log(h)."""
    found = []
    for n in STEPS[order_of(method)]:
        h: Any = END / n
        if alternating:  # as many steps, h and 2h in turn
            h = np.tile([2 * END / (3 * n), 4 * END / (3 * n)], n // 2)
        found.append(errors(problem, method, h, **options))
    x = -np.log(STEPS[order_of(method)])
    return {name: float(np.polyfit(x, np.log([e[name] for e in found]), 1)[0]) for name in ("q", "v", "lam")}


@pytest.mark.parametrize(("method", "formulation", "projection"), CASES)
@pytest.mark.parametrize("alternating", [False, True], ids=["fixed", "alternating"])
def test_order(pendulum: Any, method: Integrator, formulation: str, projection: Any, alternating: bool) -> None:
    """Position, velocity and multiplier converge with the order of the method.

    Not the multipliers of the index-3 form: they lose an order when the step changes, and behind the start; see its
    module. Its order 6 is left out: rounding divided by h hides the error of v here.
    """
    order = order_of(method)
    if formulation == "index-3" and order > 5:
        pytest.skip("hidden by rounding")
    observed = slopes(pendulum, method, alternating, formulation=formulation, projection=projection)
    if formulation == "index-3":
        del observed["lam"]
    assert all(abs(x - order) < SLACK for x in observed.values()), observed


def test_multipliers_of_index_3_lose_an_order_when_the_step_changes(pendulum: Any) -> None:
    for k in (1, 2, 3):
        observed = slopes(pendulum, da.BDF(k), alternating=True, formulation="index-3", projection=None)
        assert abs(observed["lam"] - (k - 1)) < SLACK


def test_every_method_has_an_order_and_a_formulation() -> None:
    for name, cls in da.methods().items():
        assert cls.name == name
        assert cls().default_formulation in cls.takes <= set(da.formulations())
        assert instances(cls)


# ---------------------------------------------------------------------- coefficients
def coefficients(k: int, nodes: np.ndarray) -> dict[str, Any]:
    """What the loop gets for order k on nodes[0] (new), nodes[1], ..."""
    native = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, *[ctypes.c_void_p] * 3)
    grid, orders, out = np.zeros(HISTORY + 1), np.zeros(HISTORY + 1, dtype=np.int64), np.zeros(N_COEFFICIENTS)
    grid[: nodes.size] = nodes
    function = native(da.BDF().coefficient_function())
    assert function(k, nodes.size - 1, grid.ctypes.data, orders.ctypes.data, out.ctypes.data) == 0
    return {
        "c0": out[0],
        "predictor": out[PREDICTOR : PREDICTOR + HISTORY],
        "past": out[FIRST : FIRST + HISTORY],
        "estimates": out[ESTIMATE : ESTIMATE + 3 * (HISTORY + 1)].reshape(3, HISTORY + 1),
    }


def values(f: Any, nodes: np.ndarray) -> np.ndarray:
    """f on the nodes, padded to the length of the history."""
    return np.concatenate([f(nodes), np.zeros(HISTORY + 1 - nodes.size)])


ratios = st.lists(st.floats(0.3, 3.0), min_size=HISTORY, max_size=HISTORY)
polynomials = st.lists(st.floats(-1, 1), min_size=7, max_size=7)


def random_grid(steps: list[float], direction: int) -> np.ndarray:
    return 0.3 - direction * np.concatenate([[0.0], np.cumsum(steps)])


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 6), ratios, polynomials, st.sampled_from([1, -1]))
def test_derivative_is_exact_on_polynomials(k: int, steps: list[float], c: list[float], direction: int) -> None:
    nodes = random_grid(steps, direction)
    p = np.polynomial.Polynomial(c[: k + 1])
    found = coefficients(k, nodes)
    x = values(p, nodes)
    terms = np.concatenate([[found["c0"] * x[0]], found["past"] * x[1:]])
    np.testing.assert_allclose(terms.sum(), p.deriv()(nodes[0]), atol=1e-13 * np.abs(terms).sum() + 1e-15)
    assert np.all(found["past"][k:] == 0)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 6), ratios, polynomials, st.sampled_from([1, -1]))
def test_predictor_is_exact_on_polynomials(k: int, steps: list[float], c: list[float], direction: int) -> None:
    nodes = random_grid(steps, direction)
    p = np.polynomial.Polynomial(c[: k + 1])
    x, weights = values(p, nodes), coefficients(k, nodes)["predictor"]
    np.testing.assert_allclose(weights @ x[1:], x[0], atol=1e-13 * (np.abs(weights) @ np.abs(x[1:])) + 1e-15)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 6), ratios, polynomials)
def test_estimate_vanishes_on_polynomials_of_its_order(k: int, steps: list[float], c: list[float]) -> None:
    """The three estimates belong to orders k-1, k, k+1."""
    nodes = random_grid(steps, 1)
    estimates = coefficients(k, nodes)["estimates"]
    for order, weights in zip((k - 1, k, k + 1), estimates, strict=True):
        if order < 1:
            continue
        x = values(np.polynomial.Polynomial(c[: order + 1]), nodes)
        np.testing.assert_allclose(weights @ x, 0, atol=1e-12 * (np.abs(weights) @ np.abs(x)) + 1e-15)
        monomial = values(lambda t, n=order + 1: (t - nodes[0]) ** n, nodes)
        expected = (nodes[0] - nodes[1]) * np.prod(nodes[0] - nodes[1 : order + 1])
        np.testing.assert_allclose(weights @ monomial, expected, rtol=1e-9)


@pytest.mark.parametrize("k", range(1, 7))
def test_estimate_scales_with_the_step(k: int) -> None:
    """Halving h divides the estimate by 2^(k+1)."""
    sizes = []
    for h in (0.06, 0.03):
        nodes = 1.0 - h * np.arange(k + 3)
        sizes.append(coefficients(k, nodes)["estimates"][1] @ values(np.exp, nodes))
    assert abs(np.log2(sizes[0] / sizes[1]) - (k + 1)) < 0.2


@pytest.mark.parametrize("k", range(1, 7))
def test_estimate_is_the_local_error(k: int) -> None:
    """For x' = f(t) the error of a step from exact values is estimate / (h c0), to leading order."""
    h = 0.02
    nodes = 1.0 - h * np.cumsum([0, 1, 1.3, 0.8, 1.1, 0.9, 1.2, 1, 1][: k + 3])
    found = coefficients(k, nodes)
    x = values(np.exp, nodes)
    step = (np.exp(nodes[0]) - found["past"] @ x[1:]) / found["c0"]
    estimate = found["estimates"][1] @ x / ((nodes[0] - nodes[1]) * found["c0"])
    assert abs(estimate) == pytest.approx(abs(step - x[0]), rel=0.1)


# ---------------------------------------------------------------------- variable steps
def test_error_is_proportional_to_the_tolerance(pendulum: Any) -> None:
    tolerances = 10.0 ** -np.arange(5, 11)
    found = []
    for tol in tolerances:
        sol = da.solve(pendulum.system, (0, 20), q0=pendulum.q0, v0=pendulum.v0, method="bdf", rtol=tol, atol=tol)
        assert sol.success
        found.append(np.abs(sol.v - pendulum.reference(sol.t)["v"]).max())
    slope = np.polyfit(np.log(tolerances), np.log(found), 1)[0]
    assert 0.8 < slope < 1.2, (slope, found)
    assert np.all(np.diff(found) < 0), found


@pytest.mark.parametrize("options", [{}, {"projection": da.Projection(coupling="joint")}, {"h": 0.01}], ids=str)
def test_constraints_hold_to_rounding_for_as_long_as_the_run_lasts(pendulum: Any, options: dict[str, Any]) -> None:
    sol = da.solve(pendulum.system, (0, 100), q0=pendulum.q0, v0=pendulum.v0, **options)
    assert sol.success
    assert np.abs(sol.drift.position).max() < 4e-15
    assert np.abs(sol.drift.velocity).max() < 1e-14


def test_without_projection_the_constraints_drift(pendulum: Any) -> None:
    sol = da.solve(pendulum.system, (0, 20), q0=pendulum.q0, v0=pendulum.v0, projection=None)
    assert np.abs(sol.drift.position).max() > 1e-7


@pytest.mark.parametrize(("formulation", "held"), [("index-2", "velocity"), ("index-3", "position")])
def test_formulation_holds_its_own_level(pendulum: Any, formulation: str, held: str) -> None:
    sol = da.solve(
        pendulum.system, (0, 2), q0=pendulum.q0, v0=pendulum.v0, formulation=formulation, method=da.BDF(2), h=0.01
    )
    assert sol.success
    assert np.abs(getattr(sol.drift, held)).max() < 1e-10
    other = "position" if held == "velocity" else "velocity"
    assert np.abs(getattr(sol.drift, other)).max() > 1e-8


@pytest.mark.parametrize("max_order", range(1, 7))
def test_order_stays_below_its_limit(pendulum: Any, max_order: int) -> None:
    sol = da.solve(
        pendulum.system, (0, 1), q0=pendulum.q0, v0=pendulum.v0, method=da.BDF(max_order), rtol=1e-5, atol=1e-6
    )
    assert sol.success
    assert sol.orders.max() == max_order


@pytest.mark.parametrize("h", [0.1, 0.05])
@pytest.mark.parametrize("k", [1, 2])
def test_large_fixed_steps_are_solved(pendulum_with: Any, k: int, h: float) -> None:
    """A tenth of the time scale of the motion: Newton's method with a fresh matrix converges quadratically there."""
    sol = da.solve(pendulum_with(), (0, 1), q0=[1, 0], v0=[0, 0], method=da.BDF(k), h=h)
    assert sol.success, sol.message


@pytest.mark.parametrize("method", [da.BDF(), da.BDF(4), da.ModifiedBDF(), da.ModifiedBDF(4)])
def test_low_orders_count_less_where_runs_count(method: Any) -> None:
    """Damping forgets what low orders add; the highest order of a run counts in full."""
    run = method.for_run(fixed=False)
    shares, highest = run.order_shares(1e-6), run.order_range(fixed=False)[1]
    assert np.all(np.diff(shares[1:]) >= 0)
    assert shares[3] < 0.5
    assert np.all(shares[highest:] >= 1.0)


@pytest.mark.parametrize("method", [da.BDF(control="step"), da.BDF(3), da.ModifiedBDF(3), da.Radau()])
def test_all_orders_count_alike(method: Any) -> None:
    """Where every step counts, or there are no others."""
    assert np.ptp(method.order_shares(1e-6)) == 0.0


def test_control_of_runs_and_of_steps(pendulum: Any) -> None:
    """Steps of order 5 are shorter by the sixth root of what they may add less; that makes runs keep the tolerance."""

    def run(tol: float, control: Any) -> tuple[int, float]:
        options = {"rtol": tol, "atol": tol, "method": da.BDF(control=control)}
        sol = da.solve(pendulum.system, (0, 5), q0=pendulum.q0, v0=pendulum.v0, **options)
        exact = pendulum.reference(sol.t)
        errors = [np.abs(getattr(sol, x) - exact[x]).max() / (1 + np.abs(exact[x]).max()) for x in ("q", "v")]
        return int(sol.stats.steps), float(max(errors)) / tol

    for tol, part in ((1e-4, 13.0), (1e-9, 13.0 * 10**0.5)):
        (more, small), (fewer, large) = run(tol, "run"), run(tol, "step")
        assert more / fewer == pytest.approx(part ** (1 / 6), rel=0.05)
        assert small < 1.2 < 3 < large, tol
    with pytest.raises(OptionError, match="control='runs'"):
        da.BDF(control="runs")  # type: ignore[arg-type]


@pytest.mark.parametrize("formulation", ["index-1", "stabilized-index-2"])
def test_small_multipliers_beside_large_ones(formulation: str) -> None:
    """One of the truck's is zero at rest, the other 68 kN: rounding errors of it are no reason for Newton to fail."""
    problem = da.problems()["truck"]
    options: dict[str, Any] = {"method": "bdf", "formulation": formulation, "rtol": 1e-12, "atol": 1e-12}
    sol = da.solve(problem.system, (0, 2), problem.q0, problem.v0, **options)
    assert sol.success, sol.message
    assert sol.stats.newton_failures == 0


def test_small_velocities_beside_large_ones() -> None:
    """Those of Andrews' mechanism reach from 1 to 1000: rounding errors of them are no reason for smaller steps."""
    problem = da.problems()["andrews"]
    options: dict[str, Any] = {"method": "bdf", "rtol": 1e-12, "atol": 1e-12}
    sol = da.solve(problem.system, (0, 0.012), problem.q0, problem.v0, **options)
    assert sol.success, sol.message
    assert sol.stats.rejected < sol.stats.steps / 50
    exact = da.solve(problem.system, (0, 0.012), problem.q0, problem.v0, method="explicit", rtol=1e-13, atol=1e-13)
    assert np.abs(sol.q[-1] - exact.q[-1]).max() < 1e-10
