"""Coefficients of half-explicit Runge-Kutta methods for index 2, with the order conditions they are checked against.

[BH93]  V. Brasey, E. Hairer, Half-explicit Runge-Kutta methods for differential-algebraic systems of index 2, SIAM J.
        Numer. Anal. 30 (1993) 538-552.
[M97]   A. Murua, Partitioned half-explicit Runge-Kutta methods for differential-algebraic systems of index 2, Computing
        59 (1997) 43-61: the method of the code PHEM56, on the stages of Dormand and Prince.
[HW96]  E. Hairer, G. Wanner, Solving Ordinary Differential Equations II, Springer 1996, VII.5 (trees), VII.6.

For y' = f(y, z), 0 = g(y) a step is

    Y_i = y_0 + h sum_{j<i} a_ij f_j,    Yb_i = y_0 + h sum_{j<=i} ab_ij f_j,   f_j = f(Y_j, Z_j),   0 = g(Yb_i)

and y_1 = Yb_s. The multiplier Z_i is solved for at Yb_i, beyond the stage Y_i that it acts on. Where ab_ii = 0, that is
in the first stage of [M97], Z_i is consistent with Y_i = y_0 instead. Methods of [BH93] have ab_i = a_{i+1}.

Order conditions. A tree f has branches that are integrated (f_y) and branches z (f_z), and a tree z is the root of two
or more trees f (g_yy...). On the solution over [0, 1], and in the stages,

    f(s) = prod_l int_0^s f_l prod_m z_m(s),      z(s) = d/ds prod_l int_0^s f_l
    f_i  = prod_l (A f_l)_i  prod_m z_m,i,        z_i  = (Ab^-1 prod_l (Ab f_l))_i

and the condition of the tree is b . f = int_0^1 f(s) ds. Its order counts f minus the number of z. Trees z with one
branch add nothing: there z_i = f_i. This gives 1, 2, 8, 36, 181 conditions for the orders 1 to 5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np

ROUNDING = 1e-12


class Tree(NamedTuple):
    """A tree f: its integrated branches, and its branches z, each given by the trees f on it."""

    integrated: tuple[Tree, ...]
    algebraic: tuple[tuple[Tree, ...], ...]


@cache
def trees(order: int) -> tuple[Tree, ...]:
    """All trees f of an order."""
    return tuple(
        Tree(f, z)
        for n in range(order)
        for f in _forests(trees, n, n)
        for z in _forests(_algebraic, order - 1 - n, order - 1 - n)
    )


@cache
def _algebraic(order: int) -> tuple[tuple[Tree, ...], ...]:
    """All trees z of an order: two trees f or more, of orders that sum to one more."""
    return tuple(_forests(trees, order + 1, order))


def _forests(
    kind: Callable[[int], tuple[Any, ...]], total: int, largest: int, first: int = 0
) -> Iterator[tuple[Any, ...]]:
    """Multisets of trees whose orders sum to ``total``, none above ``largest``, none of that order before ``first``."""
    if total == 0:
        yield ()
    for order in range(min(total, largest), 0, -1):
        options = kind(order)
        for i in range(first if order == largest else 0, len(options)):
            for rest in _forests(kind, total - order, order, i):
                yield (options[i], *rest)


def _exact(tree: Tree) -> tuple[float, int]:
    """(c, n): on the solution the tree is c s^n."""
    c, n = 1.0, 0
    for branch in tree.integrated:
        ci, ni = _exact(branch)
        c, n = c * ci / (ni + 1), n + ni + 1
    for z in tree.algebraic:
        product, power = _exact(Tree(z, ()))
        c, n = c * product * power, n + power - 1
    return c, n


@dataclass(frozen=True, eq=False)
class HalfExplicitTableau:
    """A (s, s) strictly lower triangular; Ab (s, s) lower triangular, its last row makes the step.

    ``estimate`` (s + 1,): weights of a step of order ``estimate_order``, with the end of the step as a further stage.
    Its velocities have to be projected: conditions of trees with nothing but one branch z on the root are left out.
    """

    A: np.ndarray
    Ab: np.ndarray
    estimate: np.ndarray
    order: int
    estimate_order: int

    @property
    def b(self) -> np.ndarray:
        return self.Ab[-1]

    @property
    def c(self) -> np.ndarray:
        return self.A.sum(axis=1)

    @property
    def cb(self) -> np.ndarray:
        return self.Ab.sum(axis=1)

    def __post_init__(self) -> None:
        if np.abs(np.triu(self.A)).max() > 0 or np.abs(np.triu(self.Ab, 1)).max() > 0:
            raise ValueError("A has to be strictly, Ab weakly lower triangular")
        if np.any(np.diag(self.Ab)[1:] == 0):
            raise ValueError("only the first stage may do without a multiplier of its own (zero on the diagonal of Ab)")
        kept: dict[Tree, np.ndarray] = {}
        for order in range(1, self.order + 1):
            for tree in trees(order):
                c, n = _exact(tree)
                stages = self.weights(tree, kept)
                if abs(self.b @ stages - c / (n + 1)) > ROUNDING:
                    raise ValueError(f"a condition of order {order} is violated: {tree}")
                if order > self.estimate_order or (not tree.integrated and len(tree.algebraic) == 1):
                    continue
                if abs(self.estimate @ np.append(stages, c) - c / (n + 1)) > ROUNDING:  # the end is on the solution
                    raise ValueError(f"the estimate violates a condition of order {order}: {tree}")

    def weights(self, tree: Tree, kept: dict[Tree, np.ndarray]) -> np.ndarray:
        """The tree in the stages (s,); ``kept`` remembers those of its branches."""
        if tree in kept:
            return kept[tree]
        own = np.diag(self.Ab) != 0
        out = np.ones(len(self.A))
        for branch in tree.integrated:
            out = out * (self.A @ self.weights(branch, kept))
        for z in tree.algebraic:
            product = np.prod([self.Ab @ self.weights(branch, kept) for branch in z], axis=0)
            factor = np.zeros(len(self.A))  # in a consistent first stage nothing depends on h
            factor[own] = np.linalg.solve(self.Ab[np.ix_(own, own)], product[own])
            out = out * factor
        kept[tree] = out
        return out


def _lower(*rows: tuple[float, ...]) -> np.ndarray:
    out = np.zeros((len(rows), len(rows)))
    for i, row in enumerate(rows):
        out[i, : len(row)] = row
    return out


@cache
def half_explicit_tableau(order: int) -> HalfExplicitTableau:
    """Order 1: half-explicit Euler. Order 3: [BH93], three stages. Order 5: PHEM56 [M97], six stages."""
    if order == 1:  # the estimate is the difference to the trapezoidal rule
        return HalfExplicitTableau(_lower(()), _lower((1.0,)), np.array([0.5, 0.5]), 1, 1)
    if order == 3:
        A = _lower((), (1 / 3,), (-1.0, 2.0))
        b = (0.0, 3 / 4, 1 / 4)
        # a quarter of the difference to the trapezoidal rule: of the size of Bogacki and Shampine's for quadrature
        estimate = 3 / 4 * np.array([*b, 0.0]) + 1 / 4 * np.array([1 / 2, 0.0, 0.0, 1 / 2])
        return HalfExplicitTableau(A, _lower((1 / 3,), (-1.0, 2.0), b), estimate, 3, 2)
    A = _lower(
        (),
        (1 / 5,),
        (3 / 40, 9 / 40),
        (44 / 45, -56 / 15, 32 / 9),
        (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
        (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
    )
    Ab = _lower(
        (),
        (3 / 40, 9 / 40),
        (21 / 256, 45 / 256, 15 / 128),
        (19235 / 98784, -225 / 392, 6235 / 6174, 2755 / 32928),
        (-293 / 1152, 85 / 48, -2275 / 1908, 35 / 32, -2835 / 6784),
        (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
    )
    estimate = np.array([5179 / 57600, 0.0, 7571 / 16695, 393 / 640, -92097 / 339200, 187 / 2100, 1 / 40])
    return HalfExplicitTableau(A, Ab, estimate, 5, 4)
