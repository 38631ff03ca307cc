"""Derivative arrays: what the equations and their derivatives determine together.

[KM01] P. Kunkel, V. Mehrmann, Analysis of over- and underdetermined nonlinear differential-algebraic systems with
       application to nonlinear control problems, Math. Control Signals Systems 14 (2001) 233-256.
[C87]  S. L. Campbell, A general form for solvable linear time varying singular systems, SIAM J. Math. Anal. 18 (1987).
[W05]  L. Wunderlich, Numerical treatment of second order differential-algebraic systems (2005), section 2.1:
       Theorem 2.1.8 for linear systems, Hypothesis 2.1.9 for nonlinear ones, after [KM01].

The array F_l stacks F, F', ..., F^(l); J_l is its derivative by (x', ..., x^(l+1)) and X_l that by x. Rows and columns
are those of Taylor coefficients, d^i/dt^i divided by i!, which keeps the entries of one size.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import factorial

import casadi as ca
import numpy as np

from dalembert.analysis.ranks import Ranks
from dalembert.status import InconsistentError

ITERATIONS = 40
RESIDUAL = 1e-10  # of the scaled array, for a point on its zero set


@dataclass(frozen=True)
class Level:
    """What the array with l differentiations determines.

    Attributes
    ----------
    a, d, u, v
        Algebraic and differential equations, undetermined unknowns, equations that say 0 = 0 (or contradict).
    strangeness_free
        The a algebraic and d differential equations found are a system of index at most 1 [W05, Hypothesis 2.1.9].
    determines_rates
        x' is a function of t and x: J_l is 1-full [C87].
    """

    a: int
    d: int
    u: int
    v: int
    strangeness_free: bool
    determines_rates: bool


def examine(J: np.ndarray, X: np.ndarray, shape: tuple[int, int], before: int, ranks: Ranks) -> tuple[Level, int]:
    """Characteristic quantities of an array, and its corank.

    Parameters
    ----------
    J, X
        Derivatives by the rates ((l+1) m, (l+1) n) and by x ((l+1) m, n).
    shape
        Equations m and unknowns n.
    before
        Corank of the array with one differentiation less, 0 for l = 0.
    """
    m, n = shape
    Z = ranks.corange(J)
    B = Z.T @ X
    a = ranks.rank(B)  # [W05, Hypothesis 2.1.9 (4), Theorem 2.1.8 (2)]
    T = ranks.kernel(B)
    corank = Z.shape[1] - a
    v = corank - before  # [W05, Hypothesis 2.1.9 (3)]
    d = m - a - v
    free = ranks.rank(J[:m, :n] @ T) == d  # [W05, Hypothesis 2.1.9 (5)]
    full = J.shape[0] - Z.shape[1] == n + ranks.rank(J[:, n:])
    return Level(a=a, d=d, u=n - a - d, v=v, strangeness_free=free, determines_rates=full), corank


def linear_array(E: list[np.ndarray], A: list[np.ndarray], order: int) -> tuple[np.ndarray, np.ndarray]:
    """J and X of E x' = A x + f from the Taylor coefficients of E and A: the inflated pair [W05, (2.16)], scaled."""
    m, n = E[0].shape
    J = np.zeros(((order + 1) * m, (order + 1) * n))
    for i in range(order + 1):
        for j in range(1, i + 2):
            block = j * E[i - j + 1]
            if i >= j:
                block = block - A[i - j]
            J[i * m : (i + 1) * m, (j - 1) * n : j * n] = block
    return J, -np.vstack(A[: order + 1])


def gauss_newton(residual: ca.Function, x: np.ndarray, *, accept: float | None = 1e-9) -> np.ndarray:
    """The nearest zero (locally) of a function x -> (residual, Jacobian); refused if accept is not met."""
    for _ in range(ITERATIONS):
        r, R_x = (np.asarray(part.full()) for part in residual(x))
        size = 1.0 + np.abs(R_x) @ np.abs(x)
        weight = 1.0 / np.maximum(np.linalg.norm(R_x, axis=1), 1e-300)
        dx = np.linalg.lstsq(R_x * weight[:, None], -r.ravel() * weight, rcond=1e-11)[0]
        if not np.all(np.isfinite(dx)):
            break
        x = x + dx
        if np.abs(dx).max(initial=0.0) <= 1e-14 * (1.0 + np.abs(x).max(initial=0.0)):
            break
    r = np.asarray(residual(x)[0].full()).ravel()
    if accept is not None and r.size and not np.all(np.abs(r) <= accept * size):
        raise InconsistentError(
            f"no consistent point was found: residual {np.abs(r).max():.2g}. The equations may contradict each other "
            f"there; start from a better guess."
        )
    return x


class DerivativeArray:
    """F(t, x, x') = 0 and its total derivatives, followed along a growing number of differentiations.

    Parameters
    ----------
    F, t, x, x_dot
        Expression and symbols.
    time, values, rates
        A point with F = 0, which also satisfies the hidden constraints.
    """

    def __init__(
        self, F: ca.SX, t: ca.SX, x: ca.SX, x_dot: ca.SX, time: float, values: np.ndarray, rates: np.ndarray
    ) -> None:
        self.m, self.n = int(F.numel()), int(x.numel())
        self.t, self.time = t, time
        self.derivatives = [x, x_dot]
        self.rows = [F]
        self.point = np.concatenate([values, rates])
        jacobian = ca.Function("scale", [t, x, x_dot], [ca.jacobian(F, x), ca.jacobian(F, x_dot)])
        F_x, F_xdot = (np.abs(part.full()) for part in jacobian(time, values, rates))
        self.row_scale, self.column_scale, self.unit = _equilibrate(F_x, F_xdot)

    @property
    def order(self) -> int:
        """Number of differentiations."""
        return len(self.rows) - 1

    def differentiate(self) -> None:
        """One differentiation more."""
        last = self.rows[-1]
        highest = ca.SX.sym(f"x{len(self.derivatives)}", self.n)
        known = self.derivatives
        self.derivatives = [*known, highest]
        total = ca.jtimes(last, self.t, ca.SX(1))
        for x, rate in zip(known, self.derivatives[1:], strict=True):
            total += ca.jtimes(last, x, rate)
        self.rows.append(total)
        self.point = np.concatenate([self.point, np.zeros(self.n)])

    def matrices(self) -> tuple[np.ndarray, np.ndarray]:
        """J and X, scaled, at a point of the zero set, which is found first."""
        orders = range(self.order + 2)
        # x^(j) = (column scale) j! / T^j times a number of order one; row i likewise
        columns = np.concatenate([self.column_scale * factorial(j) / self.unit**j for j in orders])
        rows = np.concatenate([self.row_scale * self.unit**i / factorial(i) for i in orders[:-1]])
        z = ca.SX.sym("z", columns.size)
        everything = ca.vertcat(*self.derivatives)
        stack = ca.substitute(ca.vertcat(*self.rows), everything, z * columns) * rows
        stack = ca.substitute(stack, self.t, ca.SX(self.time))
        array = ca.Function("array", [z], [stack, ca.jacobian(stack, z)])
        solution = gauss_newton(array, self.point / columns, accept=RESIDUAL)
        self.point = solution * columns
        full = np.asarray(array(solution)[1].full())
        return full[:, self.n :], full[:, : self.n]


def _equilibrate(F_x: np.ndarray, F_xdot: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Scales of rows and unknowns, and a unit of time, that bring the entries of F_x and F_x' to about one."""
    m, n = F_x.shape
    rows, columns, unit = np.ones(m), np.ones(n), 1.0
    for _ in range(8):
        scaled_x, scaled_xdot = rows[:, None] * F_x * columns, rows[:, None] * F_xdot * columns / unit
        a, b = np.linalg.norm(scaled_x), np.linalg.norm(scaled_xdot)
        if a > 0 and b > 0:
            unit *= float(np.sqrt(b / a))
            scaled_xdot *= float(np.sqrt(a / b))
        both = np.maximum(scaled_x, scaled_xdot)
        by_row, by_column = both.max(axis=1, initial=0.0), both.max(axis=0, initial=0.0)
        rows /= np.sqrt(np.where(by_row > 0, by_row, 1.0))
        columns /= np.sqrt(np.where(by_column > 0, by_column, 1.0))
    return rows, columns, unit
