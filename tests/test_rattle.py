"""RATTLE and its compositions: orders, constraints, energy over long runs, mass matrices that vary, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dalembert as da
from dalembert.integrators.rattle import GAMMA, check_composition
from dalembert.status import OptionError

COUNTS = {2: (400, 800), 4: (200, 400), 6: (100, 200)}


def slopes(name: str, order: int, end: float) -> tuple[dict[str, float], da.Solution]:
    problem = da.problems()[name]
    found = []
    for n in COUNTS[order]:
        sol = da.solve(problem.system, (0, end), problem.q0, problem.v0, method=da.Rattle(order), h=end / n)
        assert sol.success, sol.message
        exact = problem.reference(sol.t)
        found.append({x: float(np.abs(getattr(sol, x) - exact[x]).max()) for x in ("q", "v", "lam") if x in exact})
    return {x: float(np.log2(found[0][x] / found[1][x])) for x in found[0]}, sol


@pytest.mark.parametrize("order", [2, 4, 6])
@pytest.mark.parametrize(
    ("name", "end"), [("pendulum", 2.0), ("double-pendulum", 1.0), ("double-pendulum-angles", 1.0)]
)
def test_order(name: str, end: float, order: int) -> None:
    """In angles the mass matrix depends on positions."""
    observed, sol = slopes(name, order, end)
    assert all(abs(slope - order) < 0.25 for slope in observed.values() if np.isfinite(slope)), observed
    assert np.abs(sol.drift.position).max(initial=0.0) < 1e-14
    assert np.abs(sol.drift.velocity).max(initial=0.0) < 1e-11


def test_it_is_symmetric() -> None:
    problem = da.problems()["pendulum"]
    there = da.solve(problem.system, (0, 2), problem.q0, problem.v0, method=da.Rattle(), h=0.02)
    back = da.solve(problem.system, (2, 0), there.q[-1], there.v[-1], method=da.Rattle(), h=0.02)
    assert np.abs(back.q[-1] - problem.q0).max() < 1e-12
    assert np.abs(back.v[-1] - problem.v0).max() < 1e-12


def directors() -> tuple[da.System, Any, Any]:
    """A free asymmetric top by the nine numbers of its rotation matrix R (columns d1, d2, d3) and R^T R = 1."""
    second_moments = np.array([2.0, 1.0, 0.5])

    def orthonormal(q: Any) -> list[Any]:
        d = [q[0:3], q[3:6], q[6:9]]
        return [(d[i] @ d[j] - (1.0 if i == j else 0.0)) / 2 for i in range(3) for j in range(i, 3)]

    mass = np.repeat(second_moments, 3)
    top = da.System(q=9, mass=mass, force=np.zeros(9), constraints=orthonormal, energy=lambda v: (mass * v) @ v / 2)
    R, omega = np.eye(3), np.array([0.3, 1.0, 0.2])
    return top, R.T.ravel(), np.concatenate([np.cross(omega, R[:, i]) for i in range(3)])


def bounded(energy: np.ndarray, most: float) -> None:
    """Oscillates, but the mean of later tenths of the run is that of the first."""
    error = energy - energy[0]
    assert np.abs(error).max() < most
    means = [float(part.mean()) for part in np.array_split(error, 10)]
    assert np.ptp(means) < 0.3 * np.abs(error).max()


@pytest.mark.parametrize("steps", [20_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_energy_of_a_pendulum_stays_bounded(steps: int) -> None:
    problem = da.problems()["pendulum"]
    end = 0.01 * steps
    sol = da.solve(
        problem.system, (0, end), problem.q0, problem.v0, method=da.Rattle(), h=0.01, t_eval=np.linspace(0, end, 4001)
    )
    assert sol.stats.steps == steps
    bounded(sol.energy, 1e-2)


@pytest.mark.parametrize("steps", [20_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_energy_of_a_free_top_stays_bounded(steps: int) -> None:
    top, q0, v0 = directors()
    end = 0.05 * steps
    sol = da.solve(top, (0, end), q0, v0, method=da.Rattle(), h=0.05, t_eval=np.linspace(0, end, 4001))
    assert sol.success, sol.message
    # without a potential the method conserves the energy; what is left is rounding, 2e-16 a step
    assert np.abs(sol.energy / sol.energy[0] - 1).max() < 1e-15 * steps
    at_steps = da.solve(top, (0, 100.0), q0, v0, method=da.Rattle(), h=0.05)
    assert np.abs(at_steps.drift.position).max() < 1e-14


def test_what_is_refused() -> None:
    pendulum = da.problems()["pendulum"]
    start = (pendulum.system, (0, 1), pendulum.q0, pendulum.v0)
    with pytest.raises(OptionError, match="steps are constant: give the step size with h="):
        da.solve(*start, method="rattle")
    with pytest.raises(OptionError, match="order 2, 4 and 6"):
        da.Rattle(3)
    skate = da.problems()["knife-edge"]
    with pytest.raises(OptionError, match="this one has velocity constraints"):
        da.solve(skate.system, (0, 1), skate.q0, skate.v0, method="rattle", h=0.1)
    with pytest.raises(ValueError, match="do not compose to order 4"):
        check_composition(GAMMA[2], 4)
