"""Projection: on the constraints to rounding, optimal in its metric, and as fast as theory says.

[E93] E. Eich, SIAM J. Numer. Anal. 30 (1993) 1467-1482: iteration and error estimate.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

import dalembert as da
from dalembert.numerics.newton import AT_X, FACTORIZATIONS, ITERATIONS, RESIDUALS, N
from dalembert.numerics.projection import Projection
from dalembert.numerics.stage import AT_ONCE, LIMIT
from dalembert.runtime.assemble import assemble
from dalembert.runtime.assembly import Workspace

few = settings(max_examples=30, deadline=None)
seeds = st.integers(0, 2**32 - 1)
MASS = np.array([[2.0, 0.3, 0.0], [0.3, 1.0, -0.2], [0.0, -0.2, 0.5]])
WEIGHT = np.array([[1.0, 0.5, 0.0], [0.5, 3.0, 0.1], [0.0, 0.1, 0.7]])


@cache
def pendulum() -> da.System:
    return da.System(q=2, mass=[1, 1], constraints=lambda q: {"rod": (q @ q - 1) / 2})


@cache
def curve() -> da.System:
    """A curve in space: the sphere cut by a saddle, with a mass matrix that is no multiple of the identity."""
    return da.System(
        q=3, mass=MASS, constraints=lambda q: {"sphere": q @ q - 1, "saddle": q[2] - 0.5 * (q[0] ** 2 - q[1] ** 2)}
    )


@cache
def workspace(system: da.System, **options: Any) -> Workspace:
    projection = Projection(**{**options, "weight": None if "weight" not in options else _weight(options["weight"])})
    nv = system.nv
    layout_size = 3 * nv + system.nlam
    row = np.zeros(layout_size)
    row[: 2 * nv] = 0.5
    start = {"t": 0.0, "row": row, "h": 1e-3, "p": np.zeros(0)}
    return assemble(system, da.BDF(), da.Index1(), projection, start).workspace(np.zeros(0))


def _weight(name: str | None) -> Any:
    return {"mass": "mass", "user": WEIGHT, None: None}[name]


def project(work: Workspace, q: Any, v: Any) -> tuple[np.ndarray, np.ndarray]:
    nv = len(q)
    row = np.zeros(work.assembly.layout.n)
    row[:nv], row[nv : 2 * nv] = q, v
    assert work.project(0.0, row) == 0
    return row[:nv].copy(), row[nv : 2 * nv].copy()


def conditions(system: da.System, y: np.ndarray) -> np.ndarray:
    """phi(y) = (g, G v) of the two systems above."""
    q, v = np.split(y, 2)
    if system is pendulum():
        return np.array([(q @ q - 1) / 2, q @ v])
    return np.array([q @ q - 1, q[2] - 0.5 * (q[0] ** 2 - q[1] ** 2), *(gradient(q) @ v)])


def gradient(q: np.ndarray) -> np.ndarray:
    """G (nlam, nv)."""
    return np.array([q]) if q.size == 2 else np.array([2 * q, [-q[0], q[1], 1.0]])


def jacobian(y: np.ndarray) -> np.ndarray:
    """H = [[G, 0], [(G v)_q, G]]."""
    q, v = np.split(y, 2)
    G = gradient(q)
    return np.block([[G, np.zeros_like(G)], [gradient_rate(q, v), G]])


def gradient_rate(q: np.ndarray, v: np.ndarray) -> np.ndarray:
    return np.array([v]) if q.size == 2 else np.array([2 * v, [-v[0], v[1], 0.0]])


def on_curve(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A random point of the curve and a velocity along it."""
    random = np.random.default_rng(seed)
    q = random.normal(size=3)
    q /= np.linalg.norm(q)
    for _ in range(50):
        residual = conditions(curve(), np.concatenate([q, np.zeros(3)]))[:2]
        q = q - np.linalg.lstsq(gradient(q), residual, rcond=None)[0]
    return q, np.cross(*gradient(q)) * random.uniform(-1, 1)


def perturbed(seed: int, distance: float) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed + 1)
    q, v = on_curve(seed)
    d = random.normal(size=6)
    d *= distance / np.linalg.norm(d)
    return q + d[:3], v + d[3:]


def in_range(normal: np.ndarray, H: np.ndarray) -> float:
    """Distance of a vector from the range of H^T, relative to its length."""
    rest = normal - H.T @ np.linalg.lstsq(H.T, normal, rcond=None)[0]
    return float(np.linalg.norm(rest) / np.linalg.norm(normal))


OPTIONS = [
    {"coupling": coupling, "iteration": iteration, "weight": weight}
    for coupling in ("sequential", "joint")
    for iteration in ("simplified", "gauss-newton")
    for weight in (None, "mass", "user")
]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: "-".join(map(str, o.values())))
@settings(max_examples=12, deadline=None)
@given(seeds, st.sampled_from([1e-1, 1e-2, 1e-4, 1e-8]))
def test_residual_is_at_rounding(options: dict[str, Any], seed: int, distance: float) -> None:
    if options["iteration"] == "simplified":
        distance *= 0.1  # converges linearly, with a rate that is a multiple of the distance
    q, v = project(workspace(curve(), **options), *perturbed(seed, distance))
    assert np.abs(conditions(curve(), np.concatenate([q, v]))).max() < 1e-14 * (1 + np.abs(v).max())


@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: "-".join(map(str, o.values())))
def test_points_on_the_manifold_stay(options: dict[str, Any]) -> None:
    for seed in range(5):
        q0, v0 = on_curve(seed)
        q, v = project(workspace(curve(), **options), q0, v0)
        np.testing.assert_allclose(q, q0, atol=4e-16)
        np.testing.assert_allclose(v, v0, atol=1e-15)


# ---------------------------------------------------------------------- the first iterations in one kernel
def one_by_one(work: Workspace) -> Workspace:
    """The same projection by the iterations of the Newton loop alone."""
    other = work.assembly.workspace(work.p)
    for stage in other.arrays.stages[: other.n_stages]:
        assert stage.whole[AT_ONCE] != 0
        stage.whole[AT_ONCE] = 0
    return other


@pytest.mark.parametrize("coupling", ["sequential", "joint"])
@settings(max_examples=30, deadline=None)
@given(seeds, st.sampled_from([1e-2, 1e-4, 1e-6, 1e-9]))
def test_iterations_in_one_kernel_are_those_of_the_loop(coupling: str, seed: int, distance: float) -> None:
    """From far away the loop goes on behind the first ones."""
    work = workspace(curve(), coupling=coupling)
    start = perturbed(seed, distance)
    found, expected = (np.concatenate(project(x, *start)) for x in (work, one_by_one(work)))
    np.testing.assert_allclose(found, expected, atol=2e-15)


@pytest.mark.parametrize(("distance", "iterations"), [(0.0, 0), (1e-6, 3), (1e-2, 5)])
def test_iterations_are_counted(distance: float, iterations: int) -> None:
    """None on the constraints; close to them two for positions and one for velocities; more where two do not do."""
    q, v = perturbed(3, distance)
    work, row = workspace(curve()), np.zeros(workspace(curve()).assembly.layout.n)
    row[:3], row[3:6] = q, v
    counters = work.arrays.model.counters
    counters[:] = 0
    assert work.project(0.0, row) == 0
    assert counters[FACTORIZATIONS] == 2  # of positions and of velocities
    goes_on = distance > 1e-3  # in the loop, which evaluates where it begins
    assert counters[RESIDUALS] == counters[ITERATIONS] + 2 + goes_on
    assert counters[ITERATIONS] >= iterations if goes_on else counters[ITERATIONS] == iterations


def test_iterations_in_one_kernel_on_a_group() -> None:
    """Stored numbers off the group and off the constraints end where the loop takes them."""
    problem = da.problems()["heavy-top"]
    sol = da.solve(problem.system, (0, 0.1), problem.q0, problem.v0, method="iterated", rtol=1e-3, atol=1e-3)
    work = sol._source.segments[0].work
    random = np.random.default_rng(5)
    for distance in (1e-3, 1e-6, 1e-10):
        row = np.zeros(work.assembly.layout.n)
        row[work.assembly.layout.slice("q")] = problem.q0 + distance * random.normal(size=problem.system.nq)
        row[work.assembly.layout.slice("v")] = problem.v0 + distance * random.normal(size=problem.system.nv)
        other = row.copy()
        assert work.project(0.0, row) == 0
        assert one_by_one(work).project(0.0, other) == 0
        np.testing.assert_allclose(row, other, rtol=1e-14, atol=1e-14)
        R = row[work.assembly.layout.slice("q")][3:].reshape(3, 3)
        np.testing.assert_allclose(R @ R.T, np.eye(3), atol=2e-15)
        assert np.abs(work.levels(0.0, row)["g"]).max() < 1e-15


# ---------------------------------------------------------------------- which point it is
@few
@given(st.floats(0.7, 1.5), st.floats(-np.pi, np.pi), st.floats(-2, 2), st.floats(-2, 2))
def test_foot_point_on_the_circle(radius: float, angle: float, vx: float, vy: float) -> None:
    """Closed form: the nearest point of the circle, then the tangential part of the velocity."""
    e = np.array([np.cos(angle), np.sin(angle)])
    q, v = project(workspace(pendulum(), iteration="gauss-newton"), radius * e, [vx, vy])
    np.testing.assert_allclose(q, e, atol=1e-14)
    np.testing.assert_allclose(v, [vx, vy] - e * (e @ [vx, vy]), atol=1e-14)


@pytest.mark.parametrize("weight", [None, "mass", "user"])
@few
@given(seeds)
def test_simplified_projection_is_optimal_in_its_metric(weight: str | None, seed: int) -> None:
    """W (y - y~) is in the range of H(y~)^T: exactly, because H stays at y~."""
    q0, v0 = perturbed(seed, 1e-2)
    W = {None: np.eye(3), "mass": MASS, "user": WEIGHT}[weight]
    q, v = project(workspace(curve(), weight=weight), q0, v0)
    assert in_range(W @ (q - q0), gradient(q0)) < 1e-10
    assert in_range(W @ (v - v0), gradient(q)) < 1e-10  # linear in v: at the new q
    q, v = project(workspace(curve(), weight=weight, coupling="joint"), q0, v0)
    moved = np.concatenate([W @ (q - q0), W @ (v - v0)])
    assert in_range(moved, jacobian(np.concatenate([q0, v0]))) < 1e-10


@pytest.mark.parametrize("weight", [None, "mass", "user"])
@few
@given(seeds)
def test_gauss_newton_satisfies_the_optimality_condition(weight: str | None, seed: int) -> None:
    """W (y - y~) is in the range of H(y)^T at the result, up to what the last iteration leaves."""
    q0, v0 = perturbed(seed, 1e-3)
    W = {None: np.eye(3), "mass": MASS, "user": WEIGHT}[weight]
    q, v = project(workspace(curve(), weight=weight, coupling="joint", iteration="gauss-newton"), q0, v0)
    moved = np.concatenate([W @ (q - q0), W @ (v - v0)])
    assert in_range(moved, jacobian(np.concatenate([q, v]))) < 1e-6


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("weight", [None, "mass"])
def test_gauss_newton_finds_the_minimum(seed: int, weight: str | None) -> None:
    """Against a general minimiser."""
    q0, v0 = perturbed(seed, 1e-2)
    y0 = np.concatenate([q0, v0])
    W = np.kron(np.eye(2), MASS if weight else np.eye(3))
    best = minimize(
        lambda y: 0.5 * (y - y0) @ W @ (y - y0), y0, jac=lambda y: W @ (y - y0), method="SLSQP",
        constraints={"type": "eq", "fun": lambda y: conditions(curve(), y), "jac": jacobian},
        options={"ftol": 1e-18, "maxiter": 200},
    )  # fmt: skip
    y = np.concatenate(project(workspace(curve(), weight=weight, coupling="joint", iteration="gauss-newton"), q0, v0))
    np.testing.assert_allclose(y, best.x, atol=1e-7)


def foot_point(y0: np.ndarray) -> np.ndarray:
    """Orthogonal projection onto phi = 0 by Newton on the full conditions of optimality."""
    y = y0.copy()
    for _ in range(200):  # Gauss-Newton to its fixed point
        H = jacobian(y)
        y = y0 + np.linalg.pinv(H) @ (H @ (y - y0) - conditions(curve(), y))
    return y


@pytest.mark.parametrize("seed", range(4))
def test_distance_between_the_variants(seed: int) -> None:
    """Against the orthogonal foot point: Gauss-Newton equal, simplified second order, sequential first order."""
    distances = np.array([1e-2, 1e-3, 1e-4])
    found: dict[str, list[float]] = {"gauss-newton": [], "simplified": [], "sequential": []}
    for d in distances:
        q0, v0 = perturbed(seed, d)
        foot = foot_point(np.concatenate([q0, v0]))
        for name in found:
            options = {"coupling": "sequential"} if name == "sequential" else {"coupling": "joint", "iteration": name}
            y = np.concatenate(project(workspace(curve(), **options), q0, v0))
            found[name].append(float(np.linalg.norm(y - foot)))
    slope = {name: np.polyfit(np.log(distances), np.log(np.maximum(x, 1e-16)), 1)[0] for name, x in found.items()}
    assert np.all(np.array(found["gauss-newton"]) < 0.3 * distances**3 + 1e-14)
    assert np.all(np.array(found["simplified"]) < 10 * distances**2)
    assert slope["simplified"] > 1.8
    assert np.all(np.array(found["sequential"]) < 2 * distances)


def after(work: Workspace, q: np.ndarray, v: np.ndarray, iterations: int) -> np.ndarray:
    """The iterate of a joint projection after some iterations."""
    (stage,) = work.arrays.stages[: work.n_stages]
    row = np.zeros(work.assembly.layout.n)
    row[: q.size], row[q.size : 2 * q.size] = q, v
    limit = int(stage.whole[LIMIT])
    stage.whole[LIMIT] = iterations
    work.project(0.0, row)
    stage.whole[LIMIT] = limit
    assert stage.newton.whole[N] > 2 * q.size
    start = stage.newton.whole[AT_X]
    return stage.newton.real[start : start + 2 * q.size].copy()


@pytest.mark.parametrize("distance", [1e-2, 1e-3, 1e-4])
def test_speed_of_the_iterations(distance: float) -> None:
    """Residuals after one, two, three iterations: d^2, d^4 for Gauss-Newton, d^2, d^3, d^4 for simplified."""
    for seed in range(5):
        q0, v0 = perturbed(seed, distance)
        for iteration, powers in (("gauss-newton", (2, 4, 8)), ("simplified", (2, 3, 4))):
            work = workspace(curve(), coupling="joint", iteration=iteration)
            for n, power in zip((1, 2, 3), powers, strict=True):
                residual = np.abs(conditions(curve(), after(work, q0, v0, n))).max()
                assert residual < (5 * distance) ** power + 1e-15, (iteration, n)


# ---------------------------------------------------------------------- levels, invariants, error estimates
def test_levels_are_projected_as_asked() -> None:
    q0, v0 = np.array([1.01, 0.02]), np.array([0.3, 1.0])
    q, v = project(workspace(pendulum(), levels=("position",)), q0, v0)
    assert abs(q @ q - 1) < 1e-15
    np.testing.assert_array_equal(v, v0)
    q, v = project(workspace(pendulum(), levels=("velocity",)), q0, v0)
    np.testing.assert_array_equal(q, q0)
    assert abs(q @ v) < 1e-15
    assert workspace(pendulum(), levels=()).n_stages == 0
    assert Projection(levels="position").levels == ("position",)  # type: ignore[arg-type]


@pytest.mark.parametrize("coupling", ["sequential", "joint"])
def test_invariants_are_held(coupling: Any) -> None:
    energy = lambda q, v: {"energy": 0.5 * (v @ v) + 9.81 * q[1]}  # noqa: E731
    system = da.System(
        q=2, mass=[1, 1], force=[0, -9.81], constraints=lambda q: {"rod": (q @ q - 1) / 2}, invariants=energy
    )
    held = da.solve(system, (0, 5), q0=[1, 0], v0=[0, 1], projection=da.Projection(coupling=coupling))
    assert held.success
    assert held.drift.largest["invariants"] < 1e-12
    assert held.drift.largest["position"] < 1e-14
    assert held.drift.largest["velocity"] < 1e-13
    free = da.solve(system, (0, 5), q0=[1, 0], v0=[0, 1], projection=da.Projection(coupling=coupling, invariants=False))
    assert free.drift.largest["invariants"] > 1e-9


@pytest.mark.parametrize("weight", [None, "mass", "user"])
@few
@given(seeds)
def test_projected_error_estimate(weight: str | None, seed: int) -> None:
    """P e with P = I - W^-1 H^T (H W^-1 H^T)^-1 H at the point that is projected."""
    work = workspace(curve(), weight=weight, coupling="joint", error="projected")
    kernel = work.assembly.kernels["project-joint.tangent"]
    q, v = perturbed(seed, 1e-3)
    e = np.random.default_rng(seed).normal(size=6)
    row = np.zeros(work.assembly.layout.n)
    row[:3], row[3:6] = q, v
    W = np.kron(np.eye(2), {None: np.eye(3), "mass": MASS, "user": WEIGHT}[weight])
    H = jacobian(np.concatenate([q, v]))
    D = np.linalg.solve(W, H.T)
    expected = e - D @ np.linalg.solve(H @ D, H @ e)
    found = kernel(e, np.concatenate([[0.0], row]))
    np.testing.assert_allclose(found, expected, atol=1e-11 * np.linalg.cond(H))
    np.testing.assert_allclose(H @ found, 0, atol=1e-11 * np.linalg.cond(H))


def test_run_with_projected_error_estimates(pendulum_with: Any) -> None:
    """Fewer or as many steps, the same accuracy."""
    system = pendulum_with()
    options = {"q0": [1, 0], "v0": [0, 0], "rtol": 1e-7, "atol": 1e-9}
    reference = da.solve(system, (0, 3), **{**options, "rtol": 1e-11, "atol": 1e-13}).q[-1]
    plain = da.solve(system, (0, 3), **options)
    projected = da.solve(system, (0, 3), **options, projection=da.Projection(error="projected"))
    assert projected.success
    assert projected.stats.steps <= 1.05 * plain.stats.steps
    assert np.abs(projected.q[-1] - reference).max() < 1e-3


def test_equal_projections_share_compiled_code() -> None:
    assert Projection(weight=np.eye(2)) == Projection(weight=[[1, 0], [0, 1]]) == Projection(weight=[1.0, 1.0])
    assert hash(Projection(weight=np.eye(2))) == hash(Projection(weight=np.eye(2)))
    assert Projection(weight=WEIGHT).describe() == "sequential (position, velocity), user weight, simplified"


@pytest.mark.parametrize("weight", [None, "mass", [2.0, 1.0]])
@pytest.mark.parametrize("coupling", ["sequential", "joint"])
def test_every_variant_in_a_run(pendulum_with: Any, coupling: Any, weight: Any) -> None:
    sol = da.solve(
        pendulum_with(mass=[1.0, 3.0], force=[0.0, -9.81]), (0, 5), q0=[1, 0], v0=[0, 0],
        projection=da.Projection(coupling=coupling, weight=weight),
    )  # fmt: skip
    assert sol.success
    assert sol.drift.largest["position"] < 1e-14
    assert sol.drift.largest["velocity"] < 1e-13
