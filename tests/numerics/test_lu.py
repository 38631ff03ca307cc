"""Planned sparse LU: accuracy, robustness of the pivots over a motion, fill, guard, named singularities."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence

import casadi
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dalembert.numerics.lu import EliminationPlan, SingularMatrix, plan_elimination

Array = NDArray[np.float64]

few = settings(max_examples=40, deadline=None)
seeds = st.integers(0, 2**32 - 1)


def sparsity_of(pattern: NDArray[np.bool_]) -> casadi.Sparsity:
    rows, columns = np.nonzero(pattern)
    return casadi.Sparsity.triplet(pattern.shape[0], pattern.shape[1], rows.tolist(), columns.tolist())


def union(samples: Sequence[Array]) -> casadi.Sparsity:
    return sparsity_of(np.any(np.asarray(samples) != 0.0, axis=0))


def solver(plan: EliminationPlan) -> Callable[[Array, Array], tuple[Array, float]]:
    """Numeric x and growth, by way of separate factor and solve functions as a run would use them."""
    a, lu, b = (casadi.SX.sym(s, k) for s, k in [("a", len(plan.entries)), ("lu", plan.n_lu), ("b", plan.n)])
    factor = casadi.Function("factor", [a], [plan.factor(a)])
    solve = casadi.Function("solve", [lu, b], [plan.solve(lu, b)])
    rows, columns = np.array(plan.entries).T

    def run(matrix: Array, right: Array) -> tuple[Array, float]:
        values = factor(matrix[rows, columns])
        return np.asarray(solve(values, right)).ravel(), float(values[-1])

    return run


def residual(matrix: Array, x: Array, b: Array) -> float:
    """Normwise backward error, rows weighted by their own scale and columns by the size of the unknowns."""
    scale = np.abs(matrix) @ np.abs(x) + np.abs(b)
    return float(np.abs(matrix @ x - b).max() / scale.max())


def kkt(alpha: float, mass: Array, g: Array) -> Array:
    return np.block([[alpha * mass, g.T], [alpha * g, np.zeros((len(g), len(g)))]])


def pendulum(angle: float, alpha: float = 1.0) -> Array:
    return kkt(alpha, np.eye(2), np.array([[np.cos(angle), np.sin(angle)]]))


def pendulum_sparsity() -> casadi.Sparsity:
    return union([pendulum(0.5)])


def chain(links: int, angles: Array, alpha: float = 1e4) -> Array:
    """Point masses in the plane joined by unit rods, index 3 iteration matrix without stiffness."""
    g = np.zeros((links, 2 * links))
    for i, angle in enumerate(angles):
        rod = np.array([np.cos(angle), np.sin(angle)])
        g[i, 2 * i : 2 * i + 2] = rod
        if i:
            g[i, 2 * i - 2 : 2 * i] = -rod
    return kkt(alpha, np.eye(2 * links), g)


def random_sparse(rng: np.random.Generator, n: int, density: float) -> Array:
    """A permuted, diagonally dominant sparse matrix: well conditioned, its good pivots anywhere."""
    matrix = np.where(rng.random((n, n)) < density, rng.uniform(-1.0, 1.0, (n, n)), 0.0)
    matrix[np.arange(n), np.arange(n)] = (1.0 + np.abs(matrix).sum(axis=1)) * rng.choice([-1.0, 1.0], n)
    return matrix[rng.permutation(n)]


# ------------------------------------------------------------------------------------------------- accuracy


@few
@given(seed=seeds, n=st.integers(1, 25), density=st.floats(0.0, 0.6))
def test_random_sparse_matrices_agree_with_lapack(seed: int, n: int, density: float) -> None:
    rng = np.random.default_rng(seed)
    matrix = random_sparse(rng, n, density)
    plan = plan_elimination(union([matrix]), [matrix])
    b = rng.normal(size=n)
    x, growth = solver(plan)(matrix, b)
    expected = np.linalg.solve(matrix, b)
    assert residual(matrix, x, b) < 1e-12
    np.testing.assert_allclose(x, expected, atol=1e-11 * np.abs(expected).max())
    assert growth <= 2.0 / 0.05 + 1e-9  # the row scales are rounded to powers of two


@few
@given(seed=seeds, n=st.integers(1, 12))
def test_dense_matrices(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    samples = [rng.normal(size=(n, n)) + 2 * n * np.eye(n)[:, ::-1] for _ in range(3)]
    plan = plan_elimination(casadi.Sparsity.dense(n, n), samples)
    assert plan.fill == 0
    # n^3/3 for the factor, n^2 for the solve
    assert plan.operations == (n - 1) * n * (2 * n - 1) // 6 + n * (n - 1) // 2 + n * n
    b = rng.normal(size=n)
    for matrix in samples:
        assert residual(matrix, solver(plan)(matrix, b)[0], b) < 1e-12


@few
@given(seed=seeds, nq=st.integers(2, 8), data=st.data(), log_alpha=st.floats(0.0, 16.0))
def test_saddle_matrices_between_samples(seed: int, nq: int, data: st.DataObject, log_alpha: float) -> None:
    """Constraint gradients whose entries come and go: pivots from some states serve the others."""
    nlam = data.draw(st.integers(1, nq - 1))
    rng = np.random.default_rng(seed)
    frame, _ = np.linalg.qr(rng.normal(size=(nq, nq)))
    mass = np.diag(rng.uniform(0.5, 2.0, nq))

    def matrix(angle: float) -> Array:
        turn = np.eye(nq)
        turn[:2, :2] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
        return kkt(10.0**log_alpha, mass, (frame @ turn)[:nlam] @ frame.T)

    samples = [matrix(angle) for angle in np.linspace(0.0, 2 * np.pi, 7)[:-1]]
    plan = plan_elimination(union(samples), samples)
    run = solver(plan)
    for angle in np.linspace(0.1, 6.0, 9):
        a = matrix(angle)
        b = rng.normal(size=nq + nlam)
        x, growth = run(a, b)
        if growth < 1e3:  # beyond that the guard has said so
            assert residual(a, x, b) < 1e-12
    for a in (samples[k] for k in plan.served):
        b = rng.normal(size=nq + nlam)
        assert residual(a, run(a, b)[0], b) < 1e-12


@few
@given(seed=seeds, log_h=st.floats(-8.0, 0.0), spread=st.floats(0.0, 8.0))
def test_scaling_of_rows_and_columns_does_not_matter(seed: int, log_h: float, spread: float) -> None:
    """Scaled matrices are solved as accurately as unscaled ones, seen in the unscaled variables."""
    rng = np.random.default_rng(seed)
    angles = rng.uniform(0.0, 2 * np.pi, (4, 5))
    samples = [chain(5, a, alpha=10.0 ** (-2 * log_h)) for a in angles]
    rows, columns = (10.0 ** rng.uniform(-spread, spread, 15) for _ in range(2))
    scaled = [rows[:, None] * a * columns for a in samples]
    plan = plan_elimination(union(samples), scaled)
    run = solver(plan)
    for a, s in zip(samples, scaled, strict=True):
        b = rng.normal(size=15)
        y, growth = run(s, rows * b)
        assert growth < 1e4
        assert residual(a, columns * y, b) < 1e-12


@pytest.mark.parametrize("h", [1.0, 1e-2, 1e-4, 1e-6, 1e-8])
def test_step_sizes_far_from_the_samples(h: float) -> None:
    """One plan, made at h = 1e-3, serves steps from 1 to 1e-8: h only scales columns here."""

    def matrix(angle: float, h: float) -> Array:
        saddle = pendulum(angle)
        a = np.zeros((5, 5))  # q' = v, M v' = -G^T lam, 0 = G v, by an implicit formula in (q, v, lam)
        a[:2, :2] = np.eye(2) / h
        a[:2, 2:4] = -np.eye(2)
        a[2:4, :2] = 0.3 * np.eye(2)
        a[2:4, 2:4] = np.eye(2) / h
        a[2:4, 4] = saddle[:2, 2]
        a[4, 2:4] = saddle[2, :2]
        a[4, :2] = 0.5 * saddle[2, 1::-1]
        return a

    samples = [matrix(angle, 1e-3) for angle in (0.0, 1.0, 2.0, 3.0)]
    plan = plan_elimination(union(samples), samples)
    run = solver(plan)
    b = np.array([1.0, -2.0, 3.0, 0.5, -1.0])
    for angle in np.linspace(0.0, 2 * np.pi, 50):
        a = matrix(angle, h)
        x, growth = run(a, b)
        assert growth < 1e8
        assert residual(a, x, b) < 1e-12


def test_samples_may_differ_in_step_size() -> None:
    samples = [pendulum(angle, h**-2.0) for angle in (0.0, 1.0, 2.0) for h in (1.0, 1e-4, 1e-8)]
    plan = plan_elimination(pendulum_sparsity(), samples)
    assert plan.served == tuple(range(9))
    assert set(plan.row_scales) == {1.0}
    for a in samples:
        assert solver(plan)(a, np.ones(3))[1] <= 1.0


# --------------------------------------------------------------------------------------- pivots over a motion


@pytest.mark.parametrize("alpha", [1.0, 1e4, 1e16])
@pytest.mark.parametrize("angles", [[0.0, 1.0, 2.0], [0.0, np.pi / 2], [np.pi / 4], [np.pi / 2], [0.6]])
def test_pendulum_never_breaks_down(alpha: float, angles: list[float]) -> None:
    plan = plan_elimination(pendulum_sparsity(), [pendulum(angle, alpha) for angle in angles])
    run = solver(plan)
    b = np.array([1.0, 2.0, 3.0])
    for angle in np.linspace(0.0, 2 * np.pi, 721):
        a = pendulum(angle, alpha)
        x, growth = run(a, b)
        assert growth <= 4.0
        assert residual(a, x, b) < 1e-14


def test_chain_keeps_its_pivots_through_random_configurations() -> None:
    rng = np.random.default_rng(1)
    pattern = chain(10, rng.uniform(0.1, 1.0, 10)) != 0.0
    plan = plan_elimination(sparsity_of(pattern), [chain(10, rng.uniform(0.0, 7.0, 10)) for _ in range(6)])
    run = solver(plan)
    for _ in range(50):
        a = chain(10, rng.uniform(0.0, 7.0, 10))
        b = rng.normal(size=30)
        x, growth = run(a, b)
        assert growth < 1e4
        assert residual(a, x, b) < 1e-11


def test_growth_trips_when_a_planned_pivot_vanishes() -> None:
    """Rotation matrices: no order of pivots serves both ends, so the guard has to speak up."""

    def turn(angle: float) -> Array:
        return np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])

    plan = plan_elimination(casadi.Sparsity.dense(2, 2), [turn(0.1)])
    run = solver(plan)
    assert run(turn(0.1), np.ones(2))[1] < 1.0
    assert run(turn(np.pi / 2 - 1e-9), np.ones(2))[1] > 1e8
    assert not np.isfinite(run(np.array([[0.0, 1.0], [-1.0, 0.0]]), np.ones(2))[1])


@pytest.mark.parametrize("bad", [0.0, -0.0, np.inf, -np.inf, np.nan])
def test_growth_tells_of_every_unusable_pivot(bad: float) -> None:
    samples = [random_sparse(np.random.default_rng(3), 8, 0.3)]
    plan = plan_elimination(union(samples), samples)
    run = solver(plan)
    assert np.isfinite(run(samples[0], np.ones(8))[1])
    i, j = plan.rows[0], plan.columns[0]
    spoilt = samples[0].copy()
    spoilt[i, j] = bad
    assert not np.isfinite(run(spoilt, np.ones(8))[1])
    diagonal = plan_elimination(casadi.Sparsity.diag(3), [np.eye(3)])  # nothing to eliminate, guarded too
    growth = solver(diagonal)(np.diag([1.0, bad, 2.0]), np.ones(3))[1]
    assert not np.isfinite(growth)


def test_contradicting_samples_yield_to_the_majority() -> None:
    here, there = np.eye(2), np.array([[0.0, 1.0], [-1.0, 0.0]])
    plan = plan_elimination(casadi.Sparsity.dense(2, 2), [there, here, here])
    assert plan.served == (1, 2)
    run = solver(plan)
    assert run(here, np.ones(2))[1] < 1e-200
    assert not np.isfinite(run(there, np.ones(2))[1])


def test_a_singular_sample_has_no_veto() -> None:
    at_rest = kkt(1.0, np.eye(2), np.zeros((1, 2)))
    broken = np.where(pendulum(1.0) != 0.0, np.nan, 0.0)
    plan = plan_elimination(pendulum_sparsity(), [at_rest, pendulum(0.3), broken, pendulum(1.0)])
    assert plan.served == (1, 3)


def test_small_entry_alone_in_its_row_is_no_growth() -> None:
    """Forced pivots are free: a lower triangular matrix is solved by substitution, whatever its entries."""
    a = np.array([[1e-9, 0.0, 0.0], [1.0, 1e-9, 0.0], [1.0, 1.0, 1.0]])
    plan = plan_elimination(union([a]), [a])
    assert plan.fill == 0
    b = np.array([1e-9, 1.0, 2.0])
    x, growth = solver(plan)(a, b)
    assert growth < 1e-200  # only the trace of the pivots
    assert residual(a, x, b) < 1e-15


# --------------------------------------------------------------------------------------------- fill and code


@pytest.mark.parametrize("tip", [0, 7, 19])
def test_arrow_matrix_has_no_fill(tip: int) -> None:
    n = 20
    a = 4.0 * np.eye(n)
    a[tip, :] = 1.0
    a[:, tip] = 1.0
    a[tip, tip] = 10.0
    plan = plan_elimination(union([a]), [a])
    assert plan.fill == 0
    assert plan.n_lu == (a != 0.0).sum() + 1
    # each of the n - 1 spokes: multiplier, one product, two in the solve; n reciprocal pivots in the solve
    assert plan.operations == 4 * (n - 1) + n
    # at most one of the last two pivots is the tip; it must not come before
    assert tip in plan.rows[-2:]


def test_tridiagonal_matrix_has_no_fill() -> None:
    n = 30
    a = 4.0 * np.eye(n) + np.eye(n, k=1) + np.eye(n, k=-1)
    assert plan_elimination(union([a]), [a]).fill == 0


def test_chain_costs_grow_linearly() -> None:
    rng = np.random.default_rng(0)
    counts = []
    for links in (10, 20, 40):
        samples = [chain(links, rng.uniform(0.0, 7.0, links)) for _ in range(4)]
        counts.append(plan_elimination(union(samples), samples).operations)
    assert counts[1] < 2.4 * counts[0]
    assert counts[2] < 2.4 * counts[1]


def test_constants_are_folded() -> None:
    """A matrix of numbers gives a factor of numbers; ones and zeros cost nothing."""
    a = pendulum(0.5)
    plan = plan_elimination(pendulum_sparsity(), [a])
    rows, columns = np.array(plan.entries).T
    assert plan.factor(casadi.SX(a[rows, columns])).is_constant()
    identity = plan_elimination(casadi.Sparsity.diag(4), [np.eye(4)])
    b = casadi.SX.sym("b", 4)
    assert casadi.is_equal(identity.solve(identity.factor(casadi.SX.ones(4)), b), b, 2)


def test_factor_is_a_dense_vector_even_with_structural_zeros() -> None:
    plan = plan_elimination(casadi.Sparsity.dense(2, 2), [np.eye(2)])
    lu = plan.factor(casadi.SX(casadi.DM([1.0, 0.0, 0.0, 1.0])).sparsity() * casadi.SX.sym("a", 4))
    assert lu.shape == (plan.n_lu, 1)
    assert lu.is_dense()
    x = plan.solve(lu, casadi.SX(2, 1))
    assert x.shape == (2, 1)
    assert x.is_dense()


def test_operation_count_matches_the_code() -> None:
    rng = np.random.default_rng(5)
    a = random_sparse(rng, 15, 0.2)
    plan = plan_elimination(union([a]), [a])
    nz, b = casadi.SX.sym("a", len(plan.entries)), casadi.SX.sym("b", plan.n)
    inner = casadi.Function("f", [nz, b], [plan.solve(casadi.vertcat(plan.factor(nz)[:-1], 0), b)])
    f = casadi.Function("f", [nz, b], [inner(nz, b)])  # inlining must not bring divisions back
    products = sum(f.instruction_id(k) == casadi.OP_MUL for k in range(f.n_instructions()))
    divisions = sum(f.instruction_id(k) in (casadi.OP_INV, casadi.OP_DIV) for k in range(f.n_instructions()))
    assert products == plan.operations
    assert divisions == plan.n


def test_plans_are_values() -> None:
    one, two = (plan_elimination(pendulum_sparsity(), [pendulum(0.3), pendulum(2.0)]) for _ in range(2))
    assert one == two
    assert hash(one) == hash(two)
    assert pickle.loads(pickle.dumps(one)) == one


def test_empty_matrix() -> None:
    plan = plan_elimination(casadi.Sparsity(0, 0), [np.zeros((0, 0))])
    assert plan.n_lu == 1
    assert plan.factor(casadi.SX(0, 1)).shape == (1, 1)
    assert plan.solve(casadi.SX(1, 1), casadi.SX(0, 1)).shape == (0, 1)


# ------------------------------------------------------------------------------------------------- singular


def test_redundant_constraint_is_named() -> None:
    g = np.array([[1.0, 0.0, 2.0], [0.0, 1.0, 1.0], [2.0, 0.0, 4.0]])
    a = kkt(1e6, np.eye(3), g)
    with pytest.raises(SingularMatrix) as error:
        plan_elimination(union([a]), [a, 2.0 * a])
    assert len(error.value.rows) == len(error.value.columns) == 1
    assert set(error.value.rows) <= {3, 5}
    assert set(error.value.columns) <= {3, 5}
    assert error.value.dependent_rows == (3, 5)
    assert error.value.dependent_columns == (3, 5)
    again = pickle.loads(pickle.dumps(error.value))
    assert again.rows == error.value.rows
    assert again.dependent_columns == error.value.dependent_columns


@few
@given(seed=seeds, n=st.integers(2, 20), data=st.data())
def test_dependent_rows_are_named(seed: int, n: int, data: st.DataObject) -> None:
    rng = np.random.default_rng(seed)
    first, second = data.draw(st.lists(st.integers(0, n - 1), min_size=2, max_size=2, unique=True))
    a = random_sparse(rng, n, 0.3)
    a[second] = 3.0 * a[first]
    with pytest.raises(SingularMatrix) as error:
        plan_elimination(union([a]), [a])
    assert len(error.value.rows) == 1
    assert set(error.value.rows) <= {first, second}
    assert error.value.dependent_rows == tuple(sorted((first, second)))


def test_structurally_singular() -> None:
    a = np.array([[1.0, 2.0, 3.0], [0.0, 0.0, 4.0], [0.0, 0.0, 5.0]])
    with pytest.raises(SingularMatrix) as error:
        plan_elimination(union([a]), [a])
    assert set(error.value.rows) <= {1, 2}
    assert set(error.value.columns) <= {0, 1}
    assert error.value.dependent_rows == (1, 2)
    with pytest.raises(SingularMatrix, match=r"rows \[0, 1\], columns \[0, 1\]"):
        plan_elimination(casadi.Sparsity(2, 2), [np.zeros((2, 2))])


# -------------------------------------------------------------------------------------------------- bad input


def test_bad_input_is_refused() -> None:
    dense = casadi.Sparsity.dense(2, 2)
    with pytest.raises(ValueError, match="sparsity must be square"):
        plan_elimination(casadi.Sparsity.dense(2, 3), [np.zeros((2, 3))])
    with pytest.raises(ValueError, match="at least one matrix"):
        plan_elimination(dense, [])
    with pytest.raises(ValueError, match=r"samples\[1\] must have shape \(2, 2\)"):
        plan_elimination(dense, [np.eye(2), np.eye(3)])
    with pytest.raises(ValueError, match=r"samples\[0\] is 7.0 at \(0, 1\)"):
        plan_elimination(casadi.Sparsity.diag(2), [np.array([[1.0, 7.0], [0.0, 1.0]])])
    with pytest.raises(ValueError, match="at least one finite matrix"):
        plan_elimination(dense, [np.full((2, 2), np.nan)])
    with pytest.raises(ValueError, match=r"threshold must lie in \(0, 1\]"):
        plan_elimination(dense, [np.eye(2)], threshold=0.0)
    plan = plan_elimination(dense, [np.eye(2)])
    with pytest.raises(ValueError, match=r"nonzeros must have shape \(4, 1\)"):
        plan.factor(casadi.SX.sym("a", 3))
    with pytest.raises(ValueError, match=r"lu must have shape"):
        plan.solve(casadi.SX.sym("lu", 3), casadi.SX.sym("b", 2))
    with pytest.raises(ValueError, match=r"b must have shape \(2, 1\)"):
        plan.solve(casadi.SX.sym("lu", plan.n_lu), casadi.SX.sym("b", 3))
