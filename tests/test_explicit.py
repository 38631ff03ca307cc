"""Explicit Runge-Kutta methods on the index-1 form: orders, error control, constraints, groups, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dalembert as da
from dalembert.integrators.explicit import ExplicitTableau, tableau
from dalembert.status import OptionError
from test_groups import begin, errors, heavy_top, off_group

EPS = np.finfo(float).eps


def pendulum_errors(sol: da.Solution) -> dict[str, float]:
    assert sol.success, sol.message
    exact = da.problems()["pendulum"].reference(sol.t)
    return {x: float(np.abs(getattr(sol, x) - exact[x]).max()) for x in ("q", "v", "lam")}


@pytest.mark.parametrize(("order", "counts"), [(5, (200, 400)), (8, (50, 100))])
@pytest.mark.parametrize("projection", ["default", None])
def test_order(order: int, counts: tuple[int, int], projection: Any) -> None:
    problem = da.problems()["pendulum"]
    found = [
        pendulum_errors(
            da.solve(problem.system, (0, 2), problem.q0, problem.v0, method=da.Explicit(order), h=2 / n,
                     projection=projection)
        )
        for n in counts
    ]  # fmt: skip
    slopes = {x: float(np.log2(found[0][x] / found[1][x])) for x in found[0]}
    assert all(abs(slope - order) < 0.5 for slope in slopes.values()), slopes


@pytest.mark.parametrize("order", [5, 8])
@pytest.mark.parametrize("form", ["R3xSO3", "SE3", "quaternions"])
def test_order_on_groups(form: str, order: int) -> None:
    system = heavy_top(form)
    q0, v0 = begin(form)
    found = []
    counts = (200, 400) if order == 5 else (20, 40)
    for n in counts:
        sol = da.solve(system, (0, 0.1), q0, v0, method=da.Explicit(order), h=0.1 / n)
        found.append(errors(form, sol, 0.1, 21))
        assert off_group(system, sol.q) < 10 * EPS
    slopes = {x: float(np.log2(found[0][x] / found[1][x])) for x in found[0]}
    assert all(slope > order - 0.5 for slope in slopes.values()), slopes


@pytest.mark.parametrize("order", [5, 8])
@pytest.mark.parametrize(
    "name", ["pendulum", "slider-crank", "andrews", "double-pendulum", "moving-pivot", "knife-edge"]
)
def test_errors_follow_the_tolerance(name: str, order: int) -> None:
    problem = da.problems()[name]
    end = min(problem.t_span[1], 5.0)
    found = []
    for tol in (1e-6, 1e-8, 1e-10):
        sol = da.solve(problem.system, (0, end), problem.q0, problem.v0, method=da.Explicit(order), rtol=tol, atol=tol)
        assert sol.success, sol.message
        assert max(sol.drift.largest.values()) < 1e-11
        tight = da.solve(
            problem.system, (0, end), problem.q0, problem.v0, method=da.Explicit(8), rtol=3e-13, atol=1e-14
        )
        found.append(float(np.abs(sol.q[-1] - tight.q[-1]).max()) / max(1.0, float(np.abs(tight.q[-1]).max())))
    assert found[0] < 1e-3
    assert found[2] < 1e-8
    assert found[2] < 1e-2 * found[0]


def test_heavy_top_at_a_tight_tolerance() -> None:
    system = heavy_top("R3xSO3")
    q0, v0 = begin("R3xSO3")
    sol = da.solve(system, (0, 1), q0, v0, method="explicit", rtol=1e-12, atol=1e-12)
    found = errors("R3xSO3", sol, 1.0)
    assert max(found["x"], found["R"]) < 1e-9
    assert found["Omega"] < 1e-8
    assert found["lam"] < 1e-6


def test_dynamic_states() -> None:
    problem = da.problems()["spring-damper-series"]
    free = da.System(
        q=["x"], mass=[1.0], force=lambda q, r: [-q[0] + r[0]], r=["z"], dynamics=lambda q, r: [-r[0] + q[0]]
    )
    runs = [
        da.solve(free, (0, 5), [1.0], [0.0], r0=[0.0], method=m, rtol=1e-10, atol=1e-10)
        for m in (da.Explicit(8), da.Explicit(5), da.BDF())
    ]
    assert np.abs(runs[0].r[-1] - runs[1].r[-1]).max() < 1e-8
    assert np.abs(runs[0].r[-1] - runs[2].r[-1]).max() < 1e-7
    assert problem.system is not None


def test_what_is_held_at_the_tolerance() -> None:
    """Steps of order 8: estimates at tol, or at tol^0.93, equal at 1e-6; order 5 knows no difference."""
    problem = da.problems()["car-axis"]

    def steps(tol: float, **options: Any) -> int:
        method = da.Explicit(**options)
        sol = da.solve(problem.system, problem.t_span, problem.q0, problem.v0, method=method, rtol=tol, atol=tol)
        return sol.stats.steps

    assert steps(1e-6) == steps(1e-6, control="step")
    assert 0.85 < steps(1e-11) / steps(1e-11, control="step") < 0.95
    assert 1.0 < steps(1e-3) / steps(1e-3, control="step") < 1.1
    assert steps(1e-8, order=5) == steps(1e-8, order=5, control="step")


def test_what_is_refused() -> None:
    with pytest.raises(OptionError, match="order 5 and 8"):
        da.Explicit(4)
    with pytest.raises(OptionError, match=r"control='both'.*choose 'run' or 'step'"):
        da.Explicit(control="both")  # type: ignore[arg-type]
    friction = da.problems()["friction-pendulum"]
    with pytest.raises(OptionError, match=r"'explicit' needs accelerations .* linear .* Use BDF or Radau"):
        da.solve(friction.system, (0, 1), friction.q0, friction.v0, method="explicit")
    pendulum = da.problems()["pendulum"]
    with pytest.raises(OptionError, match="it takes index-1, overdetermined"):
        da.solve(pendulum.system, (0, 1), pendulum.q0, pendulum.v0, method="explicit", formulation="index-3")


def test_coefficients_are_checked_when_built() -> None:
    good = tableau(5)
    with pytest.raises(ValueError, match=r"B\(2\) is violated"):
        ExplicitTableau(good.A, np.eye(7)[0], good.c, good.estimates, 5)
    with pytest.raises(ValueError, match="row sums"):
        ExplicitTableau(good.A, good.b, good.c + 0.1, good.estimates, 5)
