"""Second-order systems solved directly by modified BDF: order k in q, v and lam [Wunderlich 2005, chapter 3]."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dalembert as da
from dalembert.status import OptionError

CIRCLE = "particle-on-circle"  # Wunderlich 2.4.7
SLACK = 0.15


def errors(name: str, method: Any, steps: Any, span: float, **options: Any) -> dict[str, float]:
    problem = da.problems()[name]
    t0 = problem.t_span[0]
    sol = da.solve(problem.system, (t0, t0 + span), problem.q0, problem.v0, method=method, h=steps, **options)
    assert sol.success, sol.message
    exact = [problem.reference(t) for t in sol.t]
    return {
        what: max(float(np.abs(x - e[what]).max()) for x, e in zip(getattr(sol, what), exact, strict=True))
        for what in ("q", "v", "lam")
    }


def slopes(name: str, method: Any, n: tuple[int, int], span: float, pattern: Any = None) -> dict[str, float]:
    coarse, fine = (errors(name, method, grid(m, span, pattern), span) for m in n)
    return {what: float(np.log(coarse[what] / fine[what]) / np.log(n[1] / n[0])) for what in coarse}


def grid(n: int, span: float, pattern: Any) -> Any:
    """Step sizes: constant, or a pattern repeated and scaled to the span."""
    if pattern is None:
        return span / n
    steps = np.resize(np.asarray(pattern, dtype=float), n)
    return steps * (span / steps.sum())


# ---------------------------------------------------------------------- modified BDF
COUNTS = {1: (200, 400), 2: (100, 200), 3: (100, 200), 4: (100, 200), 5: (50, 100)}


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5])
def test_order_of_modified_bdf(k: int) -> None:
    observed = slopes(CIRCLE, da.ModifiedBDF(k), COUNTS[k], 0.5)
    assert all(abs(x - k) < SLACK + (0.1 if k == 5 else 0.0) for x in observed.values()), observed


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_order_under_alternating_steps(k: int) -> None:
    """No order is lost in lam when every step changes, which is what ordinary BDF on index 3 cannot do."""
    observed = slopes(CIRCLE, da.ModifiedBDF(k), COUNTS[k], 0.5, pattern=[1.0, 2.0])
    assert all(abs(x - k) < 2 * SLACK for x in observed.values()), observed


def test_multipliers_of_the_thesis_formula() -> None:
    """Table 3.1: order 1 under the step sequence of the thesis, |lam error| to the printed digits."""
    steps = [0.001, 0.001, 0.0002, 4e-05, 8e-06, 8e-06, 1.6e-05, 3.2e-05, 6.4e-05, 6.4e-05]
    printed = [0.008, 0.012, 0.0057, 0.0012, 0.0003, 0.0001, 0.0002, 0.0004, 0.0007, 0.0008]
    problem = da.problems()[CIRCLE]
    sol = da.solve(
        problem.system, (1, 1 + sum(steps)), problem.q0, problem.v0, h=steps,
        method=da.ModifiedBDF(1, variant="thesis", start="ramp"),
    )  # fmt: skip
    error = np.abs(sol.lam[1:, 0] - 4 * sol.t[1:] ** 2)
    assert error == pytest.approx(printed, abs=1.01e-4)


def test_second_order_of_the_thesis_formula() -> None:
    """Table 3.2, h = 0.01, orders 1, 2, 2, ..."""
    problem = da.problems()[CIRCLE]
    method = da.ModifiedBDF(2, variant="thesis", start="ramp")
    sol = da.solve(problem.system, (1, 1.05), problem.q0, problem.v0, h=0.01, method=method)
    assert np.abs(sol.lam[1:, 0] - 4 * sol.t[1:] ** 2) == pytest.approx(
        [0.0809, 0.0041, 0.0041, 0.0038, 0.0038], abs=5e-5
    )


@pytest.mark.parametrize("tol", [1e-4, 1e-6, 1e-8, 1e-10])
def test_automatic_modified_bdf(tol: float) -> None:
    """Positions hold the constraint, lam has no spikes, and the unknowns are fewer than those of BDF."""
    problem = da.problems()["pendulum"]
    sol = da.solve(problem.system, (0, 4), problem.q0, problem.v0, method="modified-bdf", rtol=tol, atol=tol)
    assert sol.success
    exact = problem.reference(sol.t)
    assert np.abs(sol.q - exact["q"]).max() < 500 * tol
    assert np.abs(sol.lam - exact["lam"]).max() < 2e4 * tol
    assert sol.drift.largest["position"] < max(1e-12, 1e-5 * tol)


def test_modified_bdf_with_events_and_t_eval() -> None:
    """Events and output times in the part that the starter makes, and behind it."""
    problem = da.problems()["pendulum"]

    def bottom(q: Any) -> Any:
        return q[0]

    times = np.linspace(0.0, 4.0, 41)
    sol = da.solve(
        problem.system, (0, 4), problem.q0, problem.v0, method="modified-bdf", rtol=1e-8, atol=1e-8, events=bottom,
        t_eval=times,
    )  # fmt: skip
    assert np.array_equal(sol.t, times)
    assert np.abs(sol.q - problem.reference(times)["q"]).max() < 1e-5
    assert sol.t_events[0] == pytest.approx([0.5, 1.5, 2.5, 3.5], abs=1e-5)


@pytest.mark.parametrize("method", [da.ModifiedBDF(2), da.ModifiedBDF(5)])
def test_fixed_steps_from_rest_under_large_forces(method: Any) -> None:
    """Starting values as accurate as rounding allows: the truck's forces balance to 1e-10 N only."""
    problem = da.problems()["truck"]
    times = np.array(problem.reference_times)
    sol = da.solve(problem.system, problem.t_span, problem.q0, problem.v0, method=method, h=0.01, t_eval=times)
    assert sol.success, sol.message
    assert np.abs(sol.q - problem.reference(times)["q"]).max() < (1e-7 if method.max_order == 2 else 1e-11)


# ---------------------------------------------------------------------- bad input
def test_what_cannot_be_built() -> None:
    with pytest.raises(OptionError, match="orders 1 to 6"):
        da.ModifiedBDF(7)
    with pytest.raises(OptionError, match="'interpolant', 'thesis'"):
        da.ModifiedBDF(variant="other")  # type: ignore[arg-type]
    first_order = da.Hessenberg(order=1, x=1, f=lambda x: [-x[0]], g=None)
    with pytest.raises(OptionError, match="first order"):
        da.solve(first_order, (0, 1), [1.0], method="modified-bdf")
