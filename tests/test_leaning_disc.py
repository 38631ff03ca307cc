"""The leaning disc: steady rolling by its closed form, and energy and constraints over long nutating runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dalembert as da
from dalembert.problems.leaning_disc import PRECESSION, SPIN, rolling_velocity, system

PROBLEM = da.problems()["leaning-disc"]
EPS = np.finfo(float).eps


def test_steady_motion_is_consistent_with_its_multipliers() -> None:
    """Accelerations that follow from the closed form, at other times than the start too."""
    for t in (0.0, 1.7):
        exact = PROBLEM.reference(t)
        state = da.consistent(PROBLEM.system, exact["q"], exact["v"])
        assert np.abs(state.v - exact["v"]).max() < 1e-14
        assert np.abs(state.lam - exact["lam"]).max() < 1e-12
        assert np.abs(state.mu - exact["mu"]).max() < 1e-12
        # the axis turns at the rate of precession: x'' is centripetal
        assert np.hypot(*state.a[:2]) == pytest.approx(0.5 * abs(SPIN) * PRECESSION, rel=1e-12)


@pytest.mark.parametrize(
    ("method", "most"),
    [(da.Explicit(8), 1e-10), (da.Radau(3), 5e-8), (da.BDF(), 1e-5)],
    ids=lambda m: m.describe() if hasattr(m, "describe") else None,
)
def test_steady_motion(method: Any, most: float) -> None:
    """A change of the rates by d moves the disc by 10 d within this time; BDF makes eight times as many steps."""
    sol = da.solve(
        PROBLEM.system, (0, 10), PROBLEM.q0, PROBLEM.v0, method=method, formulation="index-1", rtol=1e-10, atol=1e-10
    )
    assert sol.success, sol.message
    exact = PROBLEM.reference(sol.t[-1])
    for name in ("q", "v", "lam", "mu"):
        assert np.abs(getattr(sol, name)[-1] - exact[name]).max() < most, name


@pytest.mark.parametrize("end", [50.0, pytest.param(1000.0, marks=pytest.mark.slow)])
def test_energy_and_constraints_to_rounding(end: float) -> None:
    """Nutating: precession a third too fast for steady motion. Projection keeps the energy as it keeps rolling."""
    q0 = PROBLEM.q0
    start = PROBLEM.v0[3:] * [1.3, 1.0, 1.0]
    v0 = rolling_velocity(q0, start)
    sol = da.solve(system(keep_energy=True), (0, end), q0, v0, method=da.Explicit(8), rtol=1e-8, atol=1e-8)
    assert sol.success, sol.message
    axis = sol.q[:, -1]
    assert np.ptp(axis) > 0.1  # the lean changes: it is no steady motion
    assert np.abs(sol.energy / sol.energy[0] - 1).max() < 20 * EPS
    assert np.abs(sol.drift.position).max() < 20 * EPS
    speed = np.abs(sol.v).max()
    assert np.abs(sol.drift.velocity).max() < 20 * EPS * speed
    assert np.abs(sol.drift.nonholonomic).max() < 20 * EPS * speed
    assert max(PROBLEM.system.space.check(q).residual for q in sol.q[::50]) < 10 * EPS
