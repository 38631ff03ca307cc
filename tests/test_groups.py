"""Integration on Lie groups: orders, constraints, elements that stay elements, dense output, events, bad input.

The heavy top has a reference of 40 digits (see test_model_groups); the free rigid body conserves energy and its angular
momentum in space, and about a principal axis turns with a constant rate.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import dalembert as da
from dalembert.problems.heavy_top import GRAVITY, OMEGA0, PUBLISHED, J, M, X
from dalembert.status import OptionError
from test_model_groups import FORMS, heavy_top, reaction, start

sp = da.spaces
EPS = np.finfo(float).eps
INERTIA = np.array([1.0, 2.0, 3.0])
# formulation -> orders whose multipliers are clear of rounding (eps/h^2 for index 3)
ORDERS = {"index-1": 5, "index-2": 5, "stabilized-index-2": 5, "baumgarte": 5, "index-3": 3}
COUNTS = {1: (8000, 16000), 2: (2000, 4000), 3: (800, 1600), 4: (480, 960), 5: (400, 800)}


def begin(form: str) -> tuple[Any, np.ndarray]:
    """q0 as stored numbers and v0 of the heavy top."""
    (x, R), v0 = start(form)
    return (np.array([*x, 1.0, 0.0, 0.0, 0.0]) if form == "quaternions" else (x, R)), v0


@cache
def exact(end: float, points: int) -> dict[str, np.ndarray]:
    """The heavy top as a body with a fixed point: J_0 Omega' = -Omega x J_0 Omega + X x m R^T g; equidistant times."""
    J0 = J + M * (X @ X * np.eye(3) - np.outer(X, X))

    def rate(t: float, y: np.ndarray) -> np.ndarray:
        R, Omega = y[:9].reshape(3, 3), y[9:]
        Omega_dot = np.linalg.solve(J0, -np.cross(Omega, J0 @ Omega) + np.cross(X, M * R.T @ GRAVITY))
        return np.concatenate([(R @ sp.SO3().hat(Omega)).ravel(), Omega_dot])

    y0 = np.concatenate([np.eye(3).ravel(), OMEGA0])
    t = np.linspace(0, end, points)
    y = solve_ivp(rate, (0, end), y0, method="DOP853", t_eval=t, rtol=3e-14, atol=1e-14).y.T
    R, Omega = y[:, :9].reshape(-1, 3, 3), y[:, 9:]
    Omega_dot = np.array([rate(0, z)[9:] for z in y])
    x2 = np.einsum("tij,tj->ti", R, np.cross(Omega_dot, X) + np.cross(Omega, np.cross(Omega, X)))
    return {"x": R @ X, "R": R, "Omega": Omega, "lam": M * (x2 - GRAVITY)}


def errors(form: str, sol: da.Solution, t: float, points: int = 2) -> dict[str, float]:
    """Largest ones of a run of the heavy top, at some equidistant times."""
    assert sol.success, sol.message
    reference = exact(t, points)
    chosen = np.searchsorted(sol.t, np.linspace(0, t, points) - 1e-12)
    element = heavy_top(form).space.element(sol.q[chosen])
    R = np.asarray(element.R, dtype=float)
    lam = np.array([reaction(form, *both) for both in zip(R, sol.lam[chosen], strict=True)])
    found = {"x": element.x, "R": R, "Omega": sol.v[chosen, 3:], "lam": lam}
    return {name: float(np.abs(value - reference[name])[1:].max()) for name, value in found.items()}


def test_the_reference_agrees_with_the_published_one() -> None:
    for t, published in PUBLISHED.items():
        for name, value in exact(t, 2).items():
            assert np.abs(value[-1] - published[name]).max() < 1e-10 * max(1.0, np.abs(published[name]).max()) * 10


def off_group(system: da.System, q: np.ndarray) -> float:
    return max(system.space.check(x).residual for x in np.atleast_2d(q))


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("formulation", ORDERS)
@pytest.mark.parametrize("form", ["R3xSO3", "SE3", "quaternions"])
def test_order_of_bdf(form: str, formulation: str, k: int) -> None:
    system = heavy_top(form)
    q0, v0 = begin(form)
    found = []
    for n in COUNTS[k]:
        sol = da.solve(system, (0, 0.1), q0, v0, method=da.BDF(k), formulation=formulation, h=0.1 / n)
        found.append(errors(form, sol, 0.1, 41))
        assert off_group(system, sol.q[::100]) < 10 * EPS
    # the top spins at 150 rad/s: where the leading term is small, the next one still counts at these steps
    coarse, fine = (max(e["x"], e["R"], e["Omega"] / 10) for e in found)
    assert k - 0.1 < np.log2(coarse / fine) < k + 1, found
    if k <= ORDERS[formulation]:
        assert k - 0.15 < np.log2(found[0]["lam"] / found[1]["lam"]) < k + 0.3, found


@pytest.mark.parametrize(
    ("form", "formulation", "k"),
    [
        *[("R3xSO3", "index-3", k) for k in (1, 2, 3, 4, 5)],
        ("R3xSO3", "index-1", 3),
        ("R3xSO3", "index-2", 3),
        ("R3xSO3", "stabilized-index-2", 3),
        ("SE3", "index-3", 3),
        ("quaternions", "index-3", 3),
    ],
)
def test_order_of_modified_bdf(form: str, formulation: str, k: int) -> None:
    """With prescribed steps: order k in all; of even orders the leading error of the spin happens to vanish."""
    system = heavy_top(form)
    q0, v0 = begin(form)
    found = []
    for n in (200, 400) if k == 5 else COUNTS[k]:  # second differences carry rounding errors eps/h^2 into lam
        sol = da.solve(system, (0, 0.1), q0, v0, method=da.ModifiedBDF(k), formulation=formulation, h=0.1 / n)
        found.append(errors(form, sol, 0.1, 41))
        assert off_group(system, sol.q[::100]) < 10 * EPS
    for name in ("x", "R", "Omega", "lam"):
        rate = np.log2(found[0][name] / found[1][name])
        assert k - 0.3 < rate < k + (0.3 if name == "lam" else 1.2), (name, found)


@pytest.mark.parametrize("form", ["R3xSO3", "SE3", "quaternions"])
@pytest.mark.parametrize(
    ("method", "formulation", "counts", "expected"),
    [
        (da.Radau(2), "index-1", (200, 400), (3, 3, 3)),
        (da.Radau(3), "index-1", (100, 200), (5, 5, 5)),
        (da.Radau(3), "index-2", (100, 200), (5, 5, None)),
        (da.Gauss(2), "index-1", (200, 400), (4, 4, 4)),
        (da.Lobatto(3), "index-1", (100, 200), (4, 4, 4)),
    ],
    ids=lambda x: x.describe() if hasattr(x, "describe") else None,
)
def test_order_of_collocation(
    form: str, method: Any, formulation: str, counts: tuple[int, int], expected: tuple[Any, ...]
) -> None:
    """Positions near the last one form a vector space y, q = q_last exp(y): orders are those of flat spaces."""
    system = heavy_top(form)
    q0, v0 = begin(form)
    found = []
    for n in counts:
        sol = da.solve(system, (0, 0.1), q0, v0, method=method, formulation=formulation, h=0.1 / n)
        found.append(errors(form, sol, 0.1, 21))
        assert off_group(system, sol.q) < 10 * EPS
    for name, order in zip(("R", "Omega", "lam"), expected, strict=True):
        if order is not None:
            assert abs(np.log2(found[0][name] / found[1][name]) - order) < 0.3, (name, found)


@pytest.mark.parametrize(
    ("method", "lam"),
    [(da.Radau(3), 1e-9 * 700), (da.Radau(5), 1e-9), (da.Gauss(4), 1e-9), (da.Explicit(8), 1e-9)],
    ids=lambda x: x.describe() if hasattr(x, "describe") else None,
)
def test_one_step_methods_at_a_tight_tolerance(method: Any, lam: float) -> None:
    """1e-9 in x, R and Omega, and in lam, which is of size 700: at order 5 in relative terms, beyond in absolute."""
    system = heavy_top("R3xSO3")
    q0, v0 = begin("R3xSO3")
    sol = da.solve(system, (0, 1), q0, v0, method=method, formulation="index-1", rtol=1e-12, atol=1e-12)
    found = errors("R3xSO3", sol, 1.0)
    assert max(found["x"], found["R"], found["Omega"]) < 1e-9, found
    assert found["lam"] < lam


def test_radau_on_index_3_follows_the_tolerance(monkeypatch: pytest.MonkeyPatch) -> None:
    """On SE(3), whose matrix ages slowly: an old one must not leave more than the method itself does (order 5).

    The errors are those of the method: Newton's iteration taken much further changes them by hundredths of tol. Those
    of lam are what the errors of the motion (Omega, of size 150) make of it: it belongs to the reported q and v.
    """
    system = heavy_top("SE3")
    q0, v0 = begin("SE3")
    options: dict[str, Any] = {"method": da.Radau(3), "formulation": "index-3"}
    for tol in (1e-7, 1e-8, 1e-9):
        sol = da.solve(system, (0, 0.1), q0, v0, rtol=tol, atol=tol, **options)
        found = errors("SE3", sol, 0.1)
        assert max(found["x"], found["R"]) < 0.1 * tol, found
        assert found["Omega"] < 2 * tol
        assert found["lam"] < 0.3 * 700 * tol
        belongs = da.consistent(system, sol.q[-1], sol.v[-1]).lam
        assert np.abs(sol.lam[-1] - belongs).max() < 0.01 * found["lam"]
        with monkeypatch.context() as patch:
            patch.setattr(da.Radau, "newton_share", lambda self, tolerance, projection: 1e-6)
            exact = errors("SE3", da.solve(system, (0, 0.1), q0, v0, rtol=tol, atol=tol, **options), 0.1)
        assert [found[x] for x in ("x", "R")] == pytest.approx([exact[x] for x in ("x", "R")], abs=0.02 * tol)


def test_radau_on_index_2_at_a_tight_tolerance() -> None:
    """lam has the stage order 3 only."""
    system = heavy_top("R3xSO3")
    q0, v0 = begin("R3xSO3")
    sol = da.solve(system, (0, 1), q0, v0, method="radau", formulation="index-2", rtol=1e-12, atol=1e-12)
    found = errors("R3xSO3", sol, 1.0)
    assert max(found["x"], found["R"], found["Omega"]) < 1e-9, found
    assert found["lam"] < 1e-3


@pytest.mark.parametrize("tolerance", [1.5e-12, 1e-12, 7e-13])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("method", "used"), [("bdf", "BDF (orders 1-6)"), ("radau", "radau (5 stages)")])
def test_defaults_at_a_tight_tolerance(method: str, used: str, form: str, tolerance: float) -> None:
    """1e-9, absolute, in all: also in Omega, of size 150, and in lam, of size 700."""
    system = heavy_top(form)
    q0, v0 = begin(form)
    sol = da.solve(system, (0, 1), q0, v0, method=method, rtol=tolerance, atol=tolerance)
    assert sol.stats.method == used
    found = errors(form, sol, 1.0)
    assert max(found.values()) < 1e-9, found
    assert off_group(system, sol.q[::50]) < 4 * EPS
    assert np.abs(sol.drift.position).max() < 1e-14
    assert np.abs(sol.drift.velocity).max() < 1e-12


def test_stages_of_radau_by_default() -> None:
    q0, v0 = begin("R3xSO3")
    for method, tolerance, stages in ((da.Radau(), 1e-7, 3), (da.Radau(), 1e-9, 5), (da.Radau(3), 1e-9, 3)):
        sol = da.solve(heavy_top("R3xSO3"), (0, 0.01), q0, v0, method=method, rtol=tolerance, atol=tolerance)
        assert sol.stats.method == f"radau ({stages} stages)"
    fixed = da.solve(heavy_top("R3xSO3"), (0, 0.01), q0, v0, method="radau", h=1e-3, rtol=1e-9, atol=1e-9)
    assert fixed.stats.method == "radau (3 stages)"


@pytest.mark.parametrize("formulation", ["index-2", "stabilized-index-2"])
@pytest.mark.parametrize("form", FORMS)
def test_bdf_of_index_2_at_a_tight_tolerance(form: str, formulation: str) -> None:
    """Multipliers are those of the step equations, differences of velocities over h: 3e-11 of their size."""
    q0, v0 = begin(form)
    options: dict[str, Any] = {"method": "bdf", "formulation": formulation, "rtol": 1e-12, "atol": 1e-12}
    found = errors(form, da.solve(heavy_top(form), (0, 1), q0, v0, **options), 1.0)
    assert max(found["x"], found["R"], found["Omega"]) < 1e-10, found
    assert found["lam"] < 3e-11 * 700, found


@pytest.mark.parametrize("form", ["R3xSO3", "SE3", "quaternions"])
def test_bdf_of_order_6_has_smaller_errors_at_fewer_steps(form: str) -> None:
    """From 1e-8 on it is the default on groups, with the estimates of order 5."""
    q0, v0 = begin(form)
    runs = [
        da.solve(heavy_top(form), (0, 1), q0, v0, method=method, rtol=1e-9, atol=1e-9)
        for method in (da.BDF(), da.BDF(max_order=5))
    ]
    assert [run.stats.method for run in runs] == ["BDF (orders 1-6)", "BDF (orders 1-5)"]
    six, five = (errors(form, run, 1.0) for run in runs)
    assert runs[0].stats.steps < 0.9 * runs[1].stats.steps
    assert six["x"] < 0.1 * five["x"]
    assert six["lam"] < 0.1 * five["lam"]
    loose = da.solve(heavy_top(form), (0, 0.1), q0, v0, method="bdf", rtol=1e-9, atol=1e-7)
    assert loose.stats.method == "BDF (orders 1-5)"


@pytest.mark.parametrize("form", ["R3xSO3", "quaternions"])
def test_states_are_projected_in_the_metric_of_the_mass_matrix(form: str) -> None:
    """The identity would measure a position and a rotation alike."""
    q0, v0 = begin(form)
    options: dict[str, Any] = {"method": "bdf", "rtol": 1e-7, "atol": 1e-7}
    default, identity = (
        errors(form, da.solve(heavy_top(form), (0, 1), q0, v0, projection=projection, **options), 1.0)
        for projection in ("default", da.Projection())
    )
    assert default["x"] < 0.2 * identity["x"]
    assert default["lam"] < 0.2 * identity["lam"]


def test_what_is_conserved_exactly_does_not_drift() -> None:
    """The spin of a symmetric top: coefficients of constant steps that do not quite sum to zero would change it."""
    q0, v0 = begin("R3xSO3")
    sol = da.solve(heavy_top("R3xSO3"), (0, 1), q0, v0, formulation="stabilized-index-2", rtol=1e-12, atol=1e-12)
    assert np.abs(sol.v[:, 4] - 150.0).max() == 0.0


@pytest.mark.parametrize("formulation", ["index-1", "index-2", "index-3", "stabilized-index-2"])
def test_dense_output_and_chosen_times_are_on_the_group(formulation: str) -> None:
    system = heavy_top("R3xSO3")
    q0, v0 = begin("R3xSO3")
    options: dict[str, Any] = {"formulation": formulation, "rtol": 1e-8, "atol": 1e-8}
    sol = da.solve(system, (0, 0.1), q0, v0, **options)
    t = np.sort(np.random.default_rng(5).uniform(0, 0.1, 100))
    between = sol(t)
    assert off_group(system, between.q) < 10 * EPS
    chosen = da.solve(system, (0, 0.1), q0, v0, t_eval=t, **options)
    assert off_group(system, chosen.q) < 10 * EPS
    assert np.abs(chosen.q - between.q).max() < 1e-10


def test_events_see_elements() -> None:
    """A body that turns about a principal axis with the rate 2 is upside down at t = pi/2 (mod pi)."""
    body = da.System(q=sp.SO3(), mass=INERTIA, force=lambda v: -np.cross(v, INERTIA * v))

    def level(q: Any) -> Any:
        return q.R[0, 1]

    sol = da.solve(body, (0, 5), np.eye(3), [0, 0, 2.0], events=[level], rtol=1e-10, atol=1e-10)
    expected = np.pi / 2 * np.arange(4)[1:]
    assert sol.t_events[0][-3:] == pytest.approx(expected, abs=1e-8)


def free_body(turns: float, tol: float, **options: Any) -> da.Solution:
    body = da.System(
        q=sp.SO3(),
        mass=INERTIA,
        force=lambda v: -np.cross(v, INERTIA * v),
        energy=lambda v: (INERTIA * v) @ v / 2,
    )
    v0 = np.array([0.3, 0.1, 1.0])
    return da.solve(body, (0, 2 * np.pi * turns), np.eye(3), v0, rtol=tol, atol=tol, **options)


def test_free_rigid_body() -> None:
    """Energy and the angular momentum in space, R J Omega, within the tolerance; R stays a rotation."""
    sol = free_body(20, 1e-9)
    R = sol.q.reshape(-1, 3, 3)
    momentum = np.einsum("tij,tj->ti", R, INERTIA * sol.v)
    assert np.abs(momentum - momentum[0]).max() < 1e-6
    assert np.abs(sol.energy - sol.energy[0]).max() < 1e-6
    assert np.abs(R.transpose(0, 2, 1) @ R - np.eye(3)).max() < 4 * EPS


@pytest.mark.slow
def test_a_hundred_thousand_turns_of_a_free_rigid_body() -> None:
    """R^T R = I to rounding for ever, and no jump of the energy from one step to the next."""
    sol = free_body(100_000, 1e-6, t_eval=np.linspace(0, 2e5 * np.pi, 20_001))
    assert sol.success, sol.message
    R = sol.q.reshape(-1, 3, 3)
    assert np.abs(R.transpose(0, 2, 1) @ R - np.eye(3)).max() < 1e-13
    change = np.diff(sol.energy)
    assert np.abs(change).max() < 20 * np.median(np.abs(change)) + 1e-12


def test_what_is_refused() -> None:
    system = heavy_top("R3xSO3")
    (x, R), v0 = start("R3xSO3")
    with pytest.raises(OptionError, match=r"R is not a rotation: .* initial='project'"):
        da.solve(system, (0, 1), (x, 1.1 * R), v0)
    repaired = da.solve(system, (0, 1e-3), (x, 1.1 * R), v0, initial="project")
    assert off_group(system, repaired.q) < 4 * EPS
    with pytest.raises(OptionError, match=r"'general-linear' needs a Euclidean configuration space; on .* use .*bdf"):
        da.solve(system, (0, 1), (x, R), v0, method="general-linear", h=0.01)
    with pytest.raises(OptionError, match=r"ModifiedBDF on R3xSO3\(\) needs prescribed steps"):
        da.solve(system, (0, 1), (x, R), v0, method="modified-bdf")
    with pytest.raises(OptionError, match=r"variant='thesis'\) is for Euclidean spaces"):
        da.solve(system, (0, 1), (x, R), v0, method=da.ModifiedBDF(variant="thesis"), h=0.01)
    with pytest.raises(OptionError, match=r"'state-space' needs a Euclidean .* use baumgarte, index-1"):
        da.solve(system, (0, 1), (x, R), v0, formulation="state-space")
