"""A system of nonlinear equations F(x; d) = 0, from symbols to what the compiled Newton loop needs.

Everything implicit in the package is one of these: the step, the projection, the multipliers, the initial values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import casadi as ca
import numpy as np

from dalembert.compiler import Kernel
from dalembert.model.point import Environment
from dalembert.numerics.kernels import Request
from dalembert.numerics.lu import EliminationPlan, SingularMatrix, plan_elimination
from dalembert.numerics.native import lapack_address
from dalembert.numerics.newton import FRESH_RATE, N_MEMORY, Newton

# Compiled elimination pays as long as its straight-line code stays in the cache and compiles quickly; where it does no
# longer, still if it has so much less to do than the n^3 / 3 operations of LAPACK, each of them ten times as fast.
MAX_OPERATIONS = 20_000
SPARSE = 1 / 30
MOST_OPERATIONS = 200_000
MAX_ORDER = 1000  # samples are chosen on as dense matrices
MAX_AT_ONCE = 2000  # operations of an elimination up to which the first iterations become one kernel
FIRST_ITERATIONS = 2  # of these, unless the equations are linear


@dataclass(frozen=True, eq=False)
class Nonlinear:
    """F(x; d) = 0 with a (possibly simplified) scaled Jacobian.

    Attributes
    ----------
    x, d : (n,), (nd,) symbols
        Unknowns and data.
    residual : (n,)
        F, rows scaled.
    jacobian : (n, n) sparse
        dF/dx, columns scaled by ``columns``: the update is dx = -columns * (jacobian^-1 F).
    columns : (n,)
        Column scaling.
    row_tolerance : (n,)
        Converged when abs(F_i) <= row_tolerance_i for all i with an entry >= 0 (if a stage is judged by rows).
    linear : bool
        One iteration solves it.
    every : bool
        A fresh matrix in every iteration instead of one for all.
    polish : bool
        Iterate once more than the tolerance asks for, so that the equations hold to rounding.
    cautious : bool
        Trust no better contraction of an old matrix than the worst one that is kept.
    """

    name: str
    x: ca.SX
    d: ca.SX
    residual: ca.SX
    jacobian: ca.SX
    columns: ca.SX
    row_tolerance: ca.SX
    env: Environment
    linear: bool = False
    every: bool = False
    polish: bool = False
    cautious: bool = False
    plan: EliminationPlan | None = field(default=None)

    @property
    def n(self) -> int:
        return int(self.x.numel())

    def planned(self, samples: Sequence[tuple[np.ndarray, np.ndarray]]) -> Nonlinear:
        """With pivots chosen on samples (x, d); without a plan if elimination by LAPACK is the better choice."""
        if self.n == 0 or self.n > MAX_ORDER or self.env.coefficients or self.plan is not None:
            return self
        matrix = ca.Function("matrix", [self.x, self.d], [self.jacobian])
        dense = [np.asarray(matrix(x, d).full(), dtype=float) for x, d in samples]
        dense = [m for m in dense if np.all(np.isfinite(m))]
        if not dense:
            return self
        try:
            plan = plan_elimination(self.jacobian.sparsity(), dense)
        except SingularMatrix:
            return self  # LAPACK finds out at run time, with the state at hand for the message
        if plan.operations > max(MAX_OPERATIONS, min(MOST_OPERATIONS, SPARSE * self.n**3 / 3)):
            return self
        return Nonlinear(**{**self.__dict__, "plan": plan})

    def requests(self) -> list[Request]:
        """The kernels this system needs."""
        nonzeros = self.jacobian.nz[:]
        after = ca.vertcat(self.columns, self.row_tolerance)
        out = [
            Request(f"{self.name}.residual", self.x, self.d, self.residual, self.env),
            # where there is a plan, LAPACK is the exception
            Request(
                f"{self.name}.matrix", self.x, self.d, ca.vertcat(nonzeros, after), self.env, rare=self.plan is not None
            ),
        ]
        if self.plan is not None:
            lu = self.plan.factor(nonzeros)
            symbols = ca.SX.sym("lu", lu.numel() + 2 * self.n)
            b = ca.SX.sym("b", self.n)
            columns = symbols[lu.numel() : lu.numel() + self.n]
            update = -columns * self.plan.solve(symbols[: lu.numel()], b)
            out += [
                Request(f"{self.name}.factor", self.x, self.d, ca.vertcat(lu, after), self.env),
                Request(f"{self.name}.solve", symbols, b, update),
            ]
        return out

    @property
    def first_iterations(self) -> int:
        """How many iterations one kernel may make at once."""
        small = self.plan is not None and self.plan.operations <= MAX_AT_ONCE
        return 0 if self.every or not small else 1 if self.linear else FIRST_ITERATIONS

    def at_once(self, begin: ca.SX, result: Callable[[ca.SX], ca.SX], checked: bool) -> Request:
        """The first iterations from an x in terms of d: F there, x after them, what `factor` makes, ``result`` of that
        x and, if it is to be checked, F at it.

        One by one they would take calls, and evaluate again what residual and matrix have in common.
        """
        assert self.plan is not None

        def at(x: ca.SX, *expressions: ca.SX) -> list[ca.SX]:
            return [ca.substitute(ca.densify(e), self.x, x) for e in expressions]

        first, nonzeros, columns, tolerance = at(
            begin, self.residual, self.jacobian.nz[:], self.columns, self.row_tolerance
        )
        lu, x, F = self.plan.factor(nonzeros), begin, first
        for k in range(self.first_iterations):
            x = x - columns * self.plan.solve(lu, F)
            if checked or k + 1 < self.first_iterations:
                (F,) = at(x, self.residual)
        parts = [first, x, lu, columns, tolerance, result(x), *([F] if checked else [])]
        out = ca.densify(ca.vertcat(*parts))
        return Request(f"{self.name}.at-once", ca.SX(0, 1), self.d, out, self.env, fused=True)

    def bind(self, kernels: dict[str, Kernel], room: int = 0) -> Newton:
        """Work space for the Newton loop; ``room``: further numbers behind those of `factor`."""
        n, nd, nnz = self.n, self.d.numel(), self.jacobian.nnz()
        n_lu = self.plan.n_lu if self.plan else 0
        starts = np.cumsum([N_MEMORY, n, nd, n, n, max(n_lu, nnz) + 2 * n + room])
        addresses = [kernels[f"{self.name}.{part}"].address for part in ("residual", "matrix")]
        for part in ("factor", "solve"):
            addresses.append(kernels[f"{self.name}.{part}"].address if self.plan else 0)
        addresses += [lapack_address("dgetrf"), lapack_address("dgetrs")]
        rows, columns = self.jacobian.sparsity().get_triplet()
        whole = [
            *addresses,
            n,
            nd,
            n_lu,
            nnz,
            int(self.linear),
            int(self.every),
            int(self.polish),
            *starts,
            0,
            1,
            ord("N"),
            int(self.cautious),
            *rows,
            *columns,
            *[0] * n,
        ]
        real = np.zeros(starts[-1] + n * n)
        real[FRESH_RATE] = 1.0
        return Newton(np.array(whole, dtype=np.int64), real)


def row_rounding(jacobian: ca.SX, x: ca.SX, scale: ca.SX | float = 0.0) -> ca.SX:
    """What rounding leaves of the residual rows: a few eps times |J| |x| (n,)."""
    return 4 * np.finfo(float).eps * (ca.fabs(jacobian) @ ca.fabs(x) + scale)
