"""Coefficients of collocation methods, computed from their nodes and checked when built.

[HW96] E. Hairer, G. Wanner, Solving Ordinary Differential Equations II, Springer 1996, IV.5.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.polynomial import Legendre, Polynomial


@dataclass(frozen=True, eq=False)
class Collocation:
    """Nodes c (s,), A (s, s), b (s,), and the weights of an embedded quadrature that also uses the old derivative.

    ``embedded`` (s+1,): weights of (old, stages) of a quadrature of order s; ``order`` of the method for ODEs.
    """

    c: np.ndarray
    A: np.ndarray
    b: np.ndarray
    embedded: np.ndarray
    order: int

    def __post_init__(self) -> None:
        s = len(self.c)
        for q in range(1, s + 1):  # the simplifying conditions C(s) and B(order) [HW96, (5.2)]
            if not np.allclose(self.A @ self.c ** (q - 1), self.c**q / q, atol=1e-12):
                raise ValueError(f"collocation condition C({q}) is violated")
        for q in range(1, self.order + 1):
            if not np.isclose(self.b @ self.c ** (q - 1), 1 / q, atol=1e-11):
                raise ValueError(f"quadrature condition B({q}) is violated")


def radau_nodes(s: int) -> np.ndarray:
    """Right Radau nodes on [0, 1]: zeros of P_s - P_{s-1}, the last one 1."""
    zeros = (Legendre.basis(s) - Legendre.basis(s - 1)).roots()
    c = np.sort((1 + zeros.real) / 2)
    c[-1] = 1.0
    return c


def gauss_nodes(s: int) -> np.ndarray:
    """Zeros of the shifted Legendre polynomial."""
    return np.sort((1 + np.polynomial.legendre.leggauss(s)[0]) / 2)


def lobatto_nodes(s: int) -> np.ndarray:
    """Zeros of the derivative of P_{s-1}, and the ends."""
    inner = np.sort(Legendre.basis(s - 1).deriv().roots().real)
    return (1 + np.concatenate([[-1.0], inner, [1.0]])) / 2


def collocation(c: np.ndarray, order: int) -> Collocation:
    """A_ij = int_0^{c_i} l_j, b_j = int_0^1 l_j for the Lagrange polynomials l_j of the nodes."""
    s = len(c)
    A, b = np.empty((s, s)), np.empty(s)
    for j in range(s):
        lagrange = Polynomial.fromroots(np.delete(c, j)) if s > 1 else Polynomial([1.0])
        integral = (lagrange / lagrange(c[j])).integ()
        A[:, j], b[j] = integral(c) - integral(0), integral(1) - integral(0)
    return Collocation(c, A, b, _embedded(c, A), order)


def _embedded(c: np.ndarray, A: np.ndarray) -> np.ndarray:
    """Quadrature of order s on (0, c) whose first weight is the real eigenvalue of A [HW96, (8.14)]."""
    s = len(c)
    if c[0] == 0.0:  # the old derivative is a stage already: drop the last condition instead
        V = np.vander(c[:-1], s - 1, increasing=True).T if s > 1 else np.ones((1, 1))
        weights = np.linalg.solve(V, 1 / np.arange(1, s)) if s > 1 else np.ones(1)
        return np.concatenate([[0.0], weights, [0.0]])
    eigenvalues = np.linalg.eigvals(A)
    real = eigenvalues[np.argmin(np.abs(eigenvalues.imag))].real
    V = np.vander(c, s, increasing=True).T
    right = 1 / np.arange(1, s + 1)
    right[0] -= real
    return np.concatenate([[real], np.linalg.solve(V, right)])
