"""RATTLE on Lie groups: orders, symmetry, constraints, momentum and energy over long runs, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dalembert as da
from dalembert.problems.rigid_body import INERTIA, OMEGA0
from dalembert.status import OptionError

sp = da.spaces
EPS = np.finfo(float).eps
# of steps: errors well above rounding and within the range of the order
COUNTS = {
    ("rigid-body", 2): (200, 400), ("rigid-body", 4): (100, 200), ("rigid-body", 6): (50, 100),
    ("heavy-top", 2): (400, 800), ("heavy-top", 4): (100, 200), ("heavy-top", 6): (25, 50),
    ("heavy-top-se3", 2): (400, 800), ("heavy-top-se3", 4): (100, 200),
}  # fmt: skip
ENDS = {"rigid-body": 4.0, "heavy-top": 0.05, "heavy-top-se3": 0.05}


@pytest.mark.parametrize(("name", "order"), COUNTS)
def test_order(name: str, order: int) -> None:
    problem, end, found = da.problems()[name], ENDS[name], []
    exact = problem.reference(end)
    for n in COUNTS[name, order]:
        sol = da.solve(problem.system, (0, end), problem.q0, problem.v0, method=da.Rattle(order), h=end / n)
        assert sol.success, sol.message
        found.append({x: float(np.abs(getattr(sol, x)[-1] - exact[x]).max()) for x in exact})
        assert max(problem.system.space.check(q).residual for q in sol.q) < 4 * EPS
        assert np.abs(sol.drift.position).max(initial=0.0) < 1e-14
        assert np.abs(sol.drift.velocity).max(initial=0.0) < 1e-11
    for x in found[0]:
        assert abs(np.log2(found[0][x] / found[1][x]) - order) < 0.25, (x, found)


@pytest.mark.parametrize("name", ["rigid-body", "heavy-top"])
def test_it_is_symmetric(name: str) -> None:
    problem, end = da.problems()[name], ENDS[name]
    h = end / 100
    there = da.solve(problem.system, (0, end), problem.q0, problem.v0, method=da.Rattle(), h=h)
    back = da.solve(problem.system, (end, 0), there.q[-1], there.v[-1], method=da.Rattle(), h=h)
    assert np.abs(there.q[-1] - problem.q0).max() > 0.1
    assert np.abs(back.q[-1] - problem.q0).max() < 1e-12
    assert np.abs(back.v[-1] - problem.v0).max() < 1e-12 * max(1.0, np.abs(problem.v0).max())


def test_the_momentum_in_space_is_conserved() -> None:
    """R J Omega of a free body, to rounding: the discrete Lagrangian has the symmetry of the continuous one."""
    problem = da.problems()["rigid-body"]
    sol = da.solve(problem.system, (0, 100), problem.q0, problem.v0, method=da.Rattle(), h=0.1)
    momentum = np.einsum("tij,tj->ti", sol.q.reshape(-1, 3, 3), INERTIA * sol.v)
    assert np.abs(momentum - INERTIA * OMEGA0).max() < 1e-12


def bounded(error: np.ndarray, most: float, spread: float) -> None:
    """Oscillates, but the means of the tenths of the run are the same, as far as they cover whole oscillations."""
    assert np.abs(error).max() < most
    means = [float(part.mean()) for part in np.array_split(error, 10)]
    assert np.ptp(means) < spread * np.abs(error).max(), means


@pytest.mark.parametrize("steps", [100_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_energy_of_a_free_top_stays_bounded(steps: int) -> None:
    problem, h = da.problems()["rigid-body"], 0.1
    every = steps // 5000 + 1  # not a divisor of anything that repeats
    sol = da.solve(
        problem.system, (0, h * steps), problem.q0, problem.v0, method=da.Rattle(), h=h,
        t_eval=h * np.arange(0, steps, every),
    )  # fmt: skip
    assert sol.success, sol.message
    assert sol.stats.steps == steps
    bounded(sol.energy / sol.energy[0] - 1, 1e-3, 0.05)
    assert max(problem.system.space.check(q).residual for q in sol.q[::100]) < 10 * EPS


@pytest.mark.parametrize("steps", [20_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_energy_of_the_heavy_top_stays_bounded(steps: int) -> None:
    problem, h = da.problems()["heavy-top"], 1e-3
    every = steps // 5000 + 1
    sol = da.solve(
        problem.system, (0, h * steps), problem.q0, problem.v0, method=da.Rattle(), h=h,
        t_eval=h * np.arange(0, steps, every),
    )  # fmt: skip
    assert sol.success, sol.message
    bounded(sol.energy / sol.energy[0] - 1, 1e-5, 0.3)


def test_a_mass_matrix_that_varies_is_refused() -> None:
    def mass(q: Any) -> Any:
        return np.array([1.0, 2.0, 3.0 + q.R[0, 0]])

    body = da.System(q=sp.SO3(), mass=mass)
    with pytest.raises(OptionError, match=r"Rattle on SO3\(\) needs a constant mass matrix"):
        da.solve(body, (0, 1), np.eye(3), [0, 0, 1.0], method="rattle", h=0.1)
