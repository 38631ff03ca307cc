"""The one Newton loop: convergence, reuse of matrices, singular and non-finite systems, the way out through LAPACK."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import Any

import casadi as ca
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import types

import dalembert as da
from dalembert.formulations import Index1
from dalembert.numerics.compiled import compile_with_blocks
from dalembert.numerics.kernels import build_kernels
from dalembert.numerics.layout import Layout
from dalembert.numerics.memory import Parts
from dalembert.numerics.newton import (
    AT_X,
    CONVERGED,
    DIVERGED,
    FACTORIZATIONS,
    ITERATIONS,
    LAPACK,
    N_COUNTERS,
    NOT_FINITE,
    RESIDUALS,
    SINGULAR,
)
from dalembert.numerics.nonlinear import Nonlinear
from dalembert.numerics.stage import AT_ONCE, LIMIT, STAGE_TYPE, Stage, StageData, StageSystem, run_stage
from dalembert.runtime.assemble import assemble
from dalembert.runtime.assembly import data_of
from dalembert.runtime.run import Options, execute


def _run(stage, t, row, extra, tolerance, reuse, counters):  # type: ignore[no-untyped-def]
    return run_stage(stage, t, row, extra, tolerance, reuse, counters)


@cache
def compiled_run() -> Callable[..., int]:
    f8, i8 = types.float64[::1], types.int64[::1]
    signature = types.int64(STAGE_TYPE, types.float64, f8, f8, types.float64, types.float64, i8)
    return compile_with_blocks(_run, signature)


@dataclass
class Problem:
    """F(x; c) = 0 bound to the Newton loop; keeps its factorisation from call to call like a run does."""

    stage: Stage  # views of the block
    block: np.ndarray
    kernels: Any  # keeps the machine code alive
    n: int
    n_data: int

    def solve(
        self, x0: Any, c: Any = (), tolerance: float = 1e-12, reuse: float = 0.0, limit: int = 12
    ) -> tuple[int, np.ndarray, np.ndarray]:
        """Code, solution and counters."""
        row, counters = np.array(x0, dtype=float), np.zeros(N_COUNTERS, dtype=np.int64)
        data_of(self.stage.newton)[1 + self.n :] = c
        self.stage.whole[LIMIT] = limit
        code = compiled_run()(self.block, 0.0, row, np.zeros(1), tolerance, reuse, counters)
        return int(code), row, counters


def problem(
    n: int,
    equations: Callable[[ca.SX, ca.SX], ca.SX],
    n_data: int = 1,
    *,
    every: bool = False,
    plan_at: list[tuple[Any, Any]] | None = None,
) -> Problem:
    """With pivots planned at samples (x, c), or without a plan."""
    # a system has at least one coordinate, Newton's method need not have an unknown
    system = da.System(q=max(n, 1), mass=np.ones(max(n, 1)), parameters={"c": np.zeros(n_data)})
    layout = Layout((("q", n),))
    data = StageData.make(system, layout)
    x = ca.SX.sym("x", n)
    residual = equations(x, data.p)
    jacobian = ca.jacobian(residual, x)
    nonlinear = Nonlinear(
        name="test", x=x, d=data.d, residual=ca.densify(residual), jacobian=ca.sparsify(jacobian),
        columns=ca.SX.ones(n, 1), row_tolerance=ca.SX.zeros(n, 1), env=data.environment(),
        linear=not ca.depends_on(jacobian, x), every=every,
    )  # fmt: skip
    stage = StageSystem(("q",), nonlinear, by_rows=False, keep=False, layout=layout)
    if plan_at is not None:
        samples = [(np.asarray(x, float), np.concatenate([[0.0], np.asarray(x, float), c])) for x, c in plan_at]
        stage = stage.planned(samples)
        assert stage.system.plan is not None
    kernels = build_kernels(stage.requests())
    parts = Parts(stage.bind(kernels))
    block = parts.fresh()
    return Problem(parts.views(block), block, kernels, n, n_data)


def circle_and_cubic(x: ca.SX, c: ca.SX) -> ca.SX:
    return ca.vertcat(x[0] ** 2 + x[1] ** 2 - c[0], x[0] ** 3 - x[1])


SOLUTION = np.array([0.826031357654187, 0.563624162161259])  # of the above at c = 1


def test_full_newton_converges_quadratically() -> None:
    full = problem(2, circle_and_cubic, every=True)
    errors = []
    for limit in range(1, 6):
        full.solve([1.2, 0.9], [1.0], tolerance=1e-30, limit=limit)
        newton = full.stage.newton
        x = newton.real[newton.whole[AT_X] : newton.whole[AT_X] + 2]
        errors.append(np.abs(x - SOLUTION).max())
    assert errors[4] < 1e-15
    for before, after in pairwise(errors[:4]):
        assert after < 3 * before**2


@pytest.mark.parametrize("every", [False, True])
def test_solution_and_counts(every: bool) -> None:
    code, x, counters = problem(2, circle_and_cubic, every=every).solve([0.83, 0.56], [1.0])
    assert code == CONVERGED
    np.testing.assert_allclose(x, SOLUTION, atol=1e-14)
    assert counters[RESIDUALS] == counters[ITERATIONS] <= 8
    assert counters[FACTORIZATIONS] == (counters[ITERATIONS] if every else 1)


def test_linear_system_takes_one_iteration() -> None:
    linear = problem(2, lambda x, c: ca.vertcat(3 * x[0] + x[1] - c[0], x[0] - 2 * x[1]))
    code, x, counters = linear.solve([100.0, -50.0], [7.0])
    assert (code, counters[ITERATIONS]) == (CONVERGED, 1)
    np.testing.assert_allclose(x, [2.0, 1.0], rtol=1e-14)


def test_old_matrix_is_kept_while_it_contracts() -> None:
    simplified = problem(2, circle_and_cubic)
    _, x, first = simplified.solve([0.83, 0.56], [1.0], reuse=0.5)
    code, y, second = simplified.solve(x, [1.001], reuse=0.5)
    assert code == CONVERGED
    assert first[FACTORIZATIONS] == 1
    assert second[FACTORIZATIONS] == 0
    np.testing.assert_allclose(circle_and_cubic_at(y, 1.001), 0, atol=1e-13)


def test_matrix_is_renewed_when_it_contracts_badly() -> None:
    simplified = problem(2, circle_and_cubic)
    simplified.solve([0.83, 0.56], [1.0], reuse=0.5)
    _, _, far = simplified.solve([1.6, 1.0], [1.0], reuse=0.5, tolerance=1e-10)
    _, _, after = simplified.solve([0.83, 0.56], [1.0], reuse=1e-3)
    assert far[FACTORIZATIONS] >= 1  # within the iteration, once it contracts slowly
    assert after[FACTORIZATIONS] >= 1


def test_matrix_is_renewed_after_a_failure() -> None:
    simplified = problem(1, lambda x, c: x**2 + c)
    assert simplified.solve([1.0], [1.0], reuse=0.5)[0] == DIVERGED  # no root
    code, x, counters = simplified.solve([1.1], [-1.0], reuse=0.5)
    assert (code, counters[FACTORIZATIONS]) == (CONVERGED, 1)
    assert x[0] == pytest.approx(1.0, abs=1e-12)


def test_reuse_of_nothing() -> None:
    simplified = problem(2, circle_and_cubic)
    for _ in range(3):
        assert simplified.solve([0.83, 0.56], [1.0], reuse=0.0)[2][FACTORIZATIONS] == 1


def circle_and_cubic_at(x: np.ndarray, c: float) -> list[float]:
    return [x[0] ** 2 + x[1] ** 2 - c, x[0] ** 3 - x[1]]


def test_no_root_is_no_convergence() -> None:
    code, x, _ = problem(1, lambda x, c: x**2 + c, every=True).solve([1.3], [1.0])
    assert code == DIVERGED
    assert x[0] == 1.3  # the row is left alone


@pytest.mark.parametrize("n", [2, 3])
def test_singular_matrix(n: int) -> None:
    """Dependent rows, exactly and up to rounding."""
    third = [x for x in range(n) if x > 1]

    def equations(x: ca.SX, c: ca.SX) -> ca.SX:
        rows = [x[0] + x[1] - 1, c[0] * (x[0] + x[1]) - 2]
        return ca.vertcat(*rows, *[x[i] - x[0] for i in third])

    assert problem(n, equations).solve(np.ones(n), [0.1])[0] == SINGULAR


@pytest.mark.parametrize("where", ["residual", "matrix"])
def test_not_finite(where: str) -> None:
    if where == "residual":
        equations = lambda x, c: ca.vertcat(x[0] - ca.sqrt(c), x[1])  # noqa: E731
    else:
        equations = lambda x, c: ca.vertcat(x[0] * ca.log(c) - 1, x[1])  # noqa: E731
    bad = problem(2, equations)
    code, x, _ = bad.solve([1.0, 1.0], [-1.0])
    assert code == NOT_FINITE
    np.testing.assert_array_equal(x, [1, 1])
    assert bad.solve([1.0, 1.0], [4.0])[0] == CONVERGED


def test_empty_system_is_solved() -> None:
    assert problem(0, lambda x, c: ca.SX.zeros(0, 1)).solve([], [0.0])[0] == CONVERGED


# ---------------------------------------------------------------------- planned pivots and LAPACK
def pendulum_matrix(x: ca.SX, c: ca.SX) -> ca.SX:
    """[M G^T; G 0] x = 1, whose pivots G_x, G_y pass through zero in turn."""
    gx, gy = ca.cos(c[0]), ca.sin(c[0])
    return ca.vertcat(x[0] + gx * x[2] - 1, 4 * x[1] + gy * x[2] - 1, gx * x[0] + gy * x[1] - 1)


def pendulum_solution(angle: float) -> np.ndarray:
    gx, gy = np.cos(angle), np.sin(angle)
    return np.linalg.solve([[1, 0, gx], [0, 4, gy], [gx, gy, 0]], np.ones(3))


@settings(max_examples=40, deadline=None)
@given(st.floats(-np.pi, np.pi))
def test_planned_elimination_all_around(angle: float) -> None:
    code, x, counters = planned_pendulum().solve(np.zeros(3), [angle])
    assert code == CONVERGED
    np.testing.assert_allclose(x, pendulum_solution(angle), rtol=1e-9, atol=1e-9)
    assert counters[LAPACK] <= 1


@cache
def planned_pendulum() -> Problem:
    return problem(3, pendulum_matrix, plan_at=[(np.zeros(3), [0.1])])


def swap_needed(x: ca.SX, c: ca.SX) -> ca.SX:
    """A pivot c on the diagonal that a plan made at c = 5 takes first."""
    return ca.vertcat(c[0] * x[0] + x[1] + x[2] - 3, x[0] + x[1] - x[2] - 1, x[0] - x[1] + 3 * x[2] - 3)


def test_lapack_takes_over_when_a_planned_pivot_vanishes() -> None:
    planned = problem(3, swap_needed, plan_at=[(np.zeros(3), [5.0]), (np.ones(3), [7.0])])
    plain = problem(3, swap_needed)
    taken_over = 0
    for c in (5.0, 1.0, 1e-3, 1e-9, 1e-12, 0.0, -2.0):
        code, x, counters = planned.solve(np.zeros(3), [c])
        expected = plain.solve(np.zeros(3), [c])[1]
        assert code == CONVERGED
        np.testing.assert_allclose(x, expected, rtol=1e-8)
        taken_over += int(counters[LAPACK])
    assert plain.solve(np.zeros(3), [1.0])[2][LAPACK] == 1
    assert 1 <= taken_over < 7  # at c = 0 at least, not where the plan serves


def test_large_growth_has_to_prove_itself() -> None:
    """Growth of 1e8: one confirming iteration instead of LAPACK where the solution is good, LAPACK where it is not."""
    planned = problem(3, swap_needed, plan_at=[(np.zeros(3), [5.0]), (np.ones(3), [7.0])])
    _, _, counters = planned.solve(np.zeros(3), [1e-8])
    assert (counters[LAPACK], counters[FACTORIZATIONS]) == (0, 1)
    assert counters[ITERATIONS] >= 2
    _, _, counters = planned.solve(np.zeros(3), [1e-12])
    assert counters[LAPACK] == 1


def test_planned_elimination_keeps_all_digits() -> None:
    """A small planned pivot, still accepted, must not cost digits: one step of refinement would restore them."""
    planned = problem(3, swap_needed, plan_at=[(np.zeros(3), [5.0]), (np.ones(3), [7.0])])
    for c in 10.0 ** -np.arange(1.0, 13.0):
        exact = np.linalg.solve([[c, 1, 1], [1, 1, -1], [1, -1, 3]], [3, 1, 3])
        np.testing.assert_allclose(planned.solve(np.zeros(3), [c])[1], exact, rtol=1e-13)


def test_a_linear_system_is_solved_by_one_kernel() -> None:
    """Elimination and solution at once; with large growth a step of refinement. Nonlinear ones take iterations."""
    planned = problem(3, swap_needed, plan_at=[(np.zeros(3), [5.0]), (np.ones(3), [7.0])])
    assert planned.stage.whole[AT_ONCE] != 0
    for c, iterations in ((5.0, 1), (1e-3, 2)):
        code, _, counters = planned.solve(np.ones(3), [c])
        assert (code, counters[ITERATIONS], counters[FACTORIZATIONS]) == (CONVERGED, iterations, 1)
    nonlinear = problem(2, circle_and_cubic, plan_at=[(np.array([1.2, 0.9]), [1.0])])
    assert nonlinear.stage.whole[AT_ONCE] == 0
    code, x, _ = nonlinear.solve([1.2, 0.9], [1.0], limit=50)
    assert code == CONVERGED
    np.testing.assert_allclose(x, SOLUTION, atol=1e-12)


def test_solution_of_a_run_does_not_depend_on_the_plan(pendulum: Any) -> None:
    """A run whose pivots serve everywhere against one that always uses LAPACK."""
    p = pendulum.system.parameters.vector()
    row = np.zeros(7)
    row[0] = 1.0
    start = {"t": 0.0, "row": row, "h": 1e-3, "p": p}
    planned = assemble(pendulum.system, da.BDF(), Index1(), da.Projection(), start)
    unplanned = replace(
        planned,
        step=replace(planned.step, plan=None),
        multipliers=replace(planned.multipliers, system=replace(planned.multipliers.system, plan=None)),
    )
    ends = []
    for assembly in (planned, unplanned):
        work = assembly.workspace(p)
        begin = row.copy()
        assert work.complete(0.0, begin) == 0
        options = Options(0.0, 2.0, np.full(4, 1e-8), np.full(4, 1e-10), 1e-4)
        ends.append(execute(work, da.BDF(), Index1(), begin, options).rows[-1])
    np.testing.assert_allclose(ends[0], ends[1], rtol=1e-6, atol=1e-6)
