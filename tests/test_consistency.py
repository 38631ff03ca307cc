"""Assembly: consistent states from crude guesses, fixed coordinates, weights, and what is said if there are none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dalembert as da
from dalembert import spaces as sp
from dalembert.runtime.levels import levels_of
from dalembert.status import InconsistentError, OptionError


def values(system: da.System, state: da.State) -> dict[str, Any]:
    p = system.parameters.vector(None)
    return {"t": state.t, "p": p, **{n: getattr(state, n) for n in ("q", "v", "a", "r", "w", "s", "lam", "mu")}}


def four_bar(ground: float = 2.0) -> da.System:
    """Crank, coupler and rocker of lengths 1, 2, 2 in three angles, pivots ``ground`` apart."""
    return da.System(
        q=["phi1", "phi2", "phi3"],
        mass=[0.1, 0.4, 0.4],
        force=lambda q, v: -0.1 * v,
        constraints=lambda q, p: {
            "loop x": np.cos(q[0]) + 2 * np.cos(q[1]) - 2 * np.cos(q[2]) - p.ground,
            "loop y": np.sin(q[0]) + 2 * np.sin(q[1]) - 2 * np.sin(q[2]),
        },
        parameters={"ground": ground},
        name="four-bar loop",
    )


LOOP = four_bar()


# ---------------------------------------------------------------------- crude guesses
@pytest.mark.parametrize("name", ["four-bar", "andrews", "slider-crank", "double-pendulum", "car-axis"])
@pytest.mark.parametrize("size", [0.1, 1.0, 3.0])
def test_crude_guesses(name: str, size: float) -> None:
    """From anywhere: constraints of both levels to rounding, and the displacement normal to them.

    Unless the nearest point is one where branches cross, as for the four-bar: then close to that.
    """
    problem = da.problems()[name]
    system, random = problem.system, np.random.default_rng(7)
    for _ in range(3):
        guess = problem.q0 + size * random.uniform(-1, 1, problem.q0.size)
        state = da.consistent(system, guess, problem.v0)
        levels = levels_of(system, values(system, state))
        G = levels.C[: system.nlam]
        assert np.abs(levels.g).max() < 1e-13 * max(1.0, np.abs(G).sum(axis=1).max() * np.abs(state.q).max())
        assert np.abs(levels.g_dot).max() < 1e-12 * max(1.0, np.abs(G).max() * np.abs(problem.v0).max())
        sizes, kernel = np.linalg.svd(G)[1], np.linalg.svd(G)[2][system.nlam :]
        assert sizes[-1] > 1e-4 * sizes[0]
        if sizes[-1] < 1e-2 * sizes[0] and name == "four-bar":
            continue
        assert np.abs(kernel @ (state.q - guess)).max() < 1e-6 * np.linalg.norm(state.q - guess)


def test_from_a_singular_guess() -> None:
    """The gradient of the rod vanishes in the middle: every direction is as good, one is taken."""
    state = da.consistent(da.problems()["pendulum"].system, [0.0, 0.0])
    assert np.linalg.norm(state.q) == pytest.approx(1.0, abs=1e-15)


def test_foot_point_where_the_curvature_is_large() -> None:
    """Onto a circle of radius 1 from 50 away, and from near its centre: radially in both cases."""
    circle = da.System(q=["x", "y"], mass=[1, 1], constraints=lambda q: q @ q - 1)
    for guess in ([30.0, 40.0], [3e-3, 4e-3]):
        np.testing.assert_allclose(da.consistent(circle, guess).q, [0.6, 0.8], atol=1e-14)
    ellipse = da.System(q=["x", "y"], mass=[1, 1], constraints=lambda q: (q[0] / 5) ** 2 + q[1] ** 2 - 1)
    for guess in ([4.0, 3.0], [-7.0, 0.1], [1.0, -8.0]):
        q = da.consistent(ellipse, guess).q
        angles = np.linspace(0, 2 * np.pi, 200_001)
        distance = np.hypot(5 * np.cos(angles) - guess[0], np.sin(angles) - guess[1]).min()
        assert np.linalg.norm(q - guess) == pytest.approx(distance, rel=1e-8)


def test_solve_projects_with_the_same() -> None:
    guess = [0.3, 0.9, 2.2]
    sol = da.solve(LOOP, (0, 0.01), guess, [1.0, 0.0, 0.0], initial="project")
    state = da.consistent(LOOP, guess, [1.0, 0.0, 0.0])
    np.testing.assert_array_equal(sol.q[0], state.q)
    np.testing.assert_allclose(sol.v[0], state.v, atol=1e-15)


# ---------------------------------------------------------------------- fixed, weights
def test_fixed_crank() -> None:
    """The crank stays where it is, bit for bit; coupler and rocker close the loop."""
    state = da.consistent(LOOP, [1.234, 0.0, 1.0], [2.5, 0.0, 0.0], fixed=["phi1", "phi1'"])
    assert state.q[0] == 1.234
    assert state.v[0] == 2.5
    x, y = 2.0 - np.cos(1.234), -np.sin(1.234)  # from the end of the crank to the ground pivot
    reach = np.hypot(x, y)
    assert 2 * np.cos(state.q[1]) - 2 * np.cos(state.q[2]) == pytest.approx(x, abs=1e-15)
    assert 2 * np.sin(state.q[1]) - 2 * np.sin(state.q[2]) == pytest.approx(y, abs=1e-15)
    assert reach < 4
    assert np.abs(levels_of(LOOP, values(LOOP, state)).g_dot).max() < 1e-15
    same = da.consistent(LOOP, [1.234, 0.0, 1.0], [2.5, 0.0, 0.0], fixed=[0, "phi1'"])
    np.testing.assert_array_equal(same.q, state.q)


def test_weights() -> None:
    """On the line x + y = 2 from the origin: the point that minimises 4 x^2 + y^2 is (0.4, 1.6)."""
    line = da.System(q=["x", "y"], mass=[4.0, 1.0], constraints=lambda q: {"line": q[0] + q[1] - 2})
    for weights in ("mass", [4, 1], {"x": 4.0}, [[4, 0], [0, 1]]):
        state = da.consistent(line, [0, 0], [1.0, 1.0], weights=weights)
        np.testing.assert_allclose(state.q, [0.4, 1.6], atol=1e-15)
        np.testing.assert_allclose(state.v, [0.6, -0.6], atol=1e-15)  # (1, 1) minus M^-1 (1, 1) 8/5
    np.testing.assert_allclose(da.consistent(line, [0, 0]).q, [1, 1], atol=1e-15)


def test_moving_constraints() -> None:
    """x = sin t, at t = 1: velocities take part in the motion of the constraint."""
    driven = da.System(q=["x", "y"], mass=[1, 1], constraints=lambda t, q: {"drive": q[0] - np.sin(t)})
    state = da.consistent(driven, [5.0, 2.0], [0.0, 3.0], t0=1.0)
    np.testing.assert_allclose(state.q, [np.sin(1.0), 2.0], atol=1e-15)
    np.testing.assert_allclose(state.v, [np.cos(1.0), 3.0], atol=1e-15)
    assert state.lam[0] == pytest.approx(np.sin(1.0))


# ---------------------------------------------------------------------- groups, contact
TOP = da.System(
    q=sp.R3xSO3(),
    mass=[15.0, 15.0, 15.0, 0.5, 0.5, 0.2],
    force=[0, 0, -147.0, 0, 0, 0],
    constraints=lambda q: {"tip": q.R.T @ q.x - np.array([0.0, 1.0, 0.0])},
)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_on_a_group(seed: int) -> None:
    random = np.random.default_rng(seed)
    R = sp.SO3().exp(random.uniform(-2, 2, 3)).reshape(3, 3)
    x = random.uniform(-3, 3, 3)
    guess = TOP.space.flatten((x, R))
    state = da.consistent(TOP, guess, random.normal(size=6))
    assert TOP.space.check(state.q).residual < 1e-14
    levels = levels_of(TOP, values(TOP, state))
    assert max(np.abs(levels.g).max(), np.abs(levels.g_dot).max()) < 1e-13
    # what is fixed stays: the attitude as a whole, then the tip's height
    held = da.consistent(TOP, guess, fixed=TOP.names["q"][3:])
    np.testing.assert_allclose(held.q[3:], guess[3:], atol=1e-14)
    np.testing.assert_allclose(held.q[:3], held.q[3:].reshape(3, 3, order="C") @ [0, 1, 0], atol=1e-13)
    low = da.consistent(TOP, (np.array([0.3, 0.2, -0.5]), R), fixed=[TOP.names["q"][2]])
    assert low.q[2] == pytest.approx(-0.5, abs=1e-14)


def test_contact_coordinates_follow() -> None:
    problem = da.problems()["contact-point"]
    moved = problem.q0 + 0.05
    state = da.consistent(problem.system, moved, problem.v0, **problem.options)
    levels = levels_of(problem.system, values(problem.system, state))
    assert np.abs(levels.g).max() < 1e-13


# ---------------------------------------------------------------------- what cannot be met
def test_unreachable_loop_is_named() -> None:
    """Pivots 6 apart, links that reach 5: stretched out, half a unit missing on each side of nothing."""
    with pytest.raises(InconsistentError) as caught:
        da.consistent(LOOP, [0.1, 0.2, 3.0], parameters={"ground": 6.0})
    text = str(caught.value)
    assert "'loop x': residual -1" in text
    assert "loop y" not in text
    assert "No change of the free coordinates" in text
    assert "geometry" in text


def test_fixed_coordinate_that_is_in_the_way() -> None:
    """The crank points away from the other pivot: the rest does not reach; only its release helps."""
    with pytest.raises(InconsistentError, match="release one of the fixed coordinates \\(phi1\\)") as caught:
        da.consistent(LOOP, [np.pi / 2, 0.0, 3.0], fixed=["phi1"], parameters={"ground": 4.5})
    assert "loop x" in str(caught.value)
    assert da.consistent(LOOP, [np.pi / 2, 0.0, 3.0], parameters={"ground": 4.5}).q[0] < 1.3


def test_fixed_velocities_that_contradict() -> None:
    with pytest.raises(InconsistentError, match="fixed velocities") as caught:
        da.consistent(LOOP, [1.0, 0.2, 2.0], [1.0, 0.0, 0.0], fixed=["phi1'", "phi2'"])
    assert "velocity form of constraint" in str(caught.value)


def test_iterations_are_bounded() -> None:
    with pytest.raises(InconsistentError, match="max_iterations=1; raise it"):
        da.consistent(da.problems()["andrews"].system, np.full(7, 2.0), max_iterations=1)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"fixed": ["phi9"]}, "'phi9' is no coordinate; coordinates are phi1, phi2, phi3"),
        ({"fixed": [7]}, "7 is no coordinate"),
        ({"weights": [1, 2]}, "2 numbers given"),
        ({"weights": {"psi": 1}}, "there is no 'psi'"),
        ({"weights": [1, -1, 1]}, "positive definite"),
        ({"weights": "inertia"}, "weights='inertia'"),
        ({"max_iterations": 0}, "max_iterations=0"),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(OptionError) as caught:
        da.consistent(LOOP, [1.0, 0.2, 2.0], **arguments)
    assert text in str(caught.value)
