"""Energy and momentum as invariants: kept to rounding, however long the run."""

import numpy as np
import pytest

import dalembert as da
from dalembert.problems.pendulum import GRAVITY, exact

PERIOD = 2.0
POINTS = 7919  # prime, so that the stored times fall on all phases of the motion


def pendulum() -> da.System:
    def energy(q, v, p):
        return p.m * (0.5 * (v @ v) + p.g * q[1])

    return da.System(
        q=["x", "y"],
        mass=lambda p: [p.m, p.m],
        force=lambda p: [0, -p.m * p.g],
        constraints=lambda q, p: {"rod": (q @ q - p.L**2) / 2},
        invariants=lambda q, v, p: {"energy": energy(q, v, p)},
        energy=energy,
        parameters={"m": 1.0, "g": GRAVITY, "L": 1.0},
    )


def quarters(x: np.ndarray) -> tuple[float, float]:
    """Largest magnitude in the first and in the last quarter of a run."""
    n = len(x) // 4
    return float(np.abs(x[:n]).max()), float(np.abs(x[-n:]).max())


def check_pendulum(periods: int) -> None:
    """rtol = atol = 1e-6: energy, length and tangency at rounding level from the first period to the last."""
    end = PERIOD * periods
    sol = da.solve(
        pendulum(), (0.0, end), q0=[1.0, 0.0], v0=[0.0, 0.0], rtol=1e-6, atol=1e-6,
        t_eval=np.linspace(0.0, end, POINTS),
    )  # fmt: skip
    assert sol.success, sol.message
    kinetic = GRAVITY  # largest kinetic energy: the size of the terms of the energy
    speed = np.sqrt(2 * GRAVITY)
    for values, scale in (
        (sol.energy - sol.energy[0], kinetic),
        (sol.drift.invariants[:, 0], kinetic),
        (sol.drift.position[:, 0], 1.0),
        (sol.drift.velocity[:, 0], speed),
    ):
        first, last = quarters(values)
        assert max(first, last) <= 3e-15 * scale  # a dozen units in the last place
        assert last <= 2 * first  # no growth
    # off the manifold nothing is lost; along it the phase error grows, linearly at most
    error = np.abs(sol.q - exact(sol.t)["q"]).max(axis=1)
    grown = [part.max() for part in np.array_split(error, 8)][1:]  # errors may cancel in the first part
    power = np.polyfit(np.log(np.arange(2, 9)), np.log(grown), 1)[0]
    assert power <= 1.3  # 1 for linear growth, 2 for quadratic
    assert last <= 1e-6 * periods * 5


def test_pendulum_keeps_its_energy_for_200_periods() -> None:
    check_pendulum(200)


@pytest.mark.slow
def test_pendulum_keeps_its_energy_for_10000_periods() -> None:
    """20,000 s, 1.8 million steps."""
    check_pendulum(10_000)


def test_energy_at_every_step() -> None:
    """The steps themselves, not only interpolated and projected points."""
    sol = da.solve(pendulum(), (0.0, 20 * PERIOD), q0=[1.0, 0.0], v0=[0.0, 0.0], rtol=1e-6, atol=1e-6)
    assert np.abs(sol.energy - sol.energy[0]).max() <= 3e-15 * GRAVITY
    assert sol.drift.largest["position"] <= 3e-15
    assert sol.drift.largest["velocity"] <= 3e-15 * np.sqrt(2 * GRAVITY)


def test_without_the_invariant_energy_is_only_as_good_as_the_tolerance() -> None:
    """The same run projected onto the constraints alone drifts in energy: the invariant is what keeps it."""
    sol = da.solve(
        pendulum(), (0.0, 20 * PERIOD), q0=[1.0, 0.0], v0=[0.0, 0.0], rtol=1e-6, atol=1e-6,
        projection=da.Projection(invariants=False),
    )  # fmt: skip
    change = np.abs(sol.energy - sol.energy[0]).max()
    assert 1e-9 <= change <= 1e-2
    assert sol.drift.largest["position"] <= 3e-15


@pytest.mark.parametrize("coupling", ["sequential", "joint"])
@pytest.mark.parametrize("iteration", ["simplified", "gauss-newton"])
def test_every_projection_keeps_invariants(coupling: str, iteration: str) -> None:
    projection = da.Projection(coupling=coupling, iteration=iteration)
    sol = da.solve(
        pendulum(), (0.0, 5 * PERIOD), q0=[1.0, 0.0], v0=[0.0, 0.0], rtol=1e-6, atol=1e-6, projection=projection
    )
    assert sol.success, sol.message
    assert np.abs(sol.energy - sol.energy[0]).max() <= 3e-15 * GRAVITY
    assert np.abs(sol(5 * PERIOD).q - exact(5 * PERIOD)["q"]).max() <= 1e-4


def test_invariant_that_depends_on_a_dynamic_state() -> None:
    """Heat produced by friction: mechanical energy plus heat is constant, and projection moves all of it."""
    system = da.System(
        q=["x"],
        mass=[1.0],
        force=lambda q, v: [-9.0 * q[0] - 0.3 * v[0]],
        r=["heat"],
        dynamics=lambda v: [0.3 * v[0] ** 2],
        invariants=lambda q, v, r: {"total": 0.5 * v[0] ** 2 + 4.5 * q[0] ** 2 + r[0]},
    )
    sol = da.solve(system, (0.0, 20.0), q0=[1.0], v0=[0.0], r0=[0.0], rtol=1e-7, atol=1e-7)
    assert sol.drift.largest["invariants"] <= 2e-15 * 4.5
    rate = np.sqrt(9.0 - 0.15**2)
    x = np.exp(-0.15 * sol.t) * (np.cos(rate * sol.t) + 0.15 / rate * np.sin(rate * sol.t))
    assert np.abs(sol.q[:, 0] - x).max() <= 1e-4
    assert sol.r[-1, 0] == pytest.approx(4.5, rel=0.01)


def test_kepler_keeps_energy_and_angular_momentum() -> None:
    """100 revolutions of eccentricity 0.6: both invariants at rounding, first quarter and last."""
    problem = da.problems()["kepler"]
    end = 200 * np.pi
    sol = da.solve(
        problem.system, (0.0, end), q0=problem.q0, v0=problem.v0, rtol=1e-8, atol=1e-8,
        t_eval=np.linspace(0.0, end, POINTS),
    )  # fmt: skip
    assert sol.success, sol.message
    for i, scale in ((0, 2.5), (1, 0.8)):  # 1/r at the pericentre; |q x v|
        first, last = quarters(sol.drift.invariants[:, i])
        assert max(first, last) <= 5e-15 * scale
        assert last <= 2 * first + 1e-15 * scale
    assert np.abs(sol.q - problem.reference(sol.t)["q"]).max() <= 1e-2
