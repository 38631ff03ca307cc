"""Coefficients of implicit Runge-Kutta methods, computed from their nodes and checked when built.

[HW96] E. Hairer, G. Wanner, Solving Ordinary Differential Equations II, Springer 1996, IV.5, IV.8.
[B64]  J. C. Butcher, Implicit Runge-Kutta processes, Math. Comp. 18 (1964) 50-64.

Simplifying conditions [HW96, IV (5.2)]:

    B(p): sum_i b_i c_i^(q-1) = 1/q                    q = 1..p
    C(n): sum_j a_ij c_j^(q-1) = c_i^q / q             q = 1..n, all i      (n: the stage order)
    D(z): sum_i b_i c_i^(q-1) a_ij = b_j (1 - c_j^q)/q   q = 1..z, all j

B(p), C(n), D(z) with p <= n + z + 1 and p <= 2n + 2 give order p [B64; HW96, IV, Theorem 5.1].
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.polynomial import Legendre, Polynomial


@dataclass(frozen=True, eq=False)
class Tableau:
    """Nodes c (s,), A (s, s), b (s,) with the conditions they satisfy, and the weights of an error estimate.

    Attributes
    ----------
    order, stage_order, adjoint_order
        p, n, z of the conditions B(p), C(n), D(z): all checked.
    estimate : (s+1,)
        Weights of (old derivative, derivatives of the stages); applied to a smooth function they give
        O(h^estimate_order), times h an estimate of the local error of a method of order ``estimate_order``.
    """

    c: np.ndarray
    A: np.ndarray
    b: np.ndarray
    order: int
    stage_order: int
    adjoint_order: int
    estimate: np.ndarray
    estimate_order: int

    def __post_init__(self) -> None:
        c, A, b = self.c, self.A, self.b
        for q in range(1, self.order + 1):
            if not np.isclose(b @ c ** (q - 1), 1 / q, atol=1e-11):
                raise ValueError(f"quadrature condition B({q}) is violated")
        for q in range(1, self.stage_order + 1):
            if not np.allclose(A @ c ** (q - 1), c**q / q, atol=1e-12):
                raise ValueError(f"stage condition C({q}) is violated")
        for q in range(1, self.adjoint_order + 1):
            if not np.allclose((b * c ** (q - 1)) @ A, b * (1 - c**q) / q, atol=1e-12):
                raise ValueError(f"adjoint condition D({q}) is violated")
        if self.order > min(self.stage_order + self.adjoint_order + 1, 2 * self.stage_order + 2):
            raise ValueError(f"the conditions do not imply order {self.order}")
        nodes = np.concatenate([[0.0], c])
        for q in range(self.estimate_order):
            if not np.isclose(self.estimate @ nodes**q, 0, atol=1e-11):
                raise ValueError(f"the error estimate does not vanish for polynomials of degree {q}")
        if np.isclose(self.estimate @ nodes**self.estimate_order, 0, atol=1e-6):
            raise ValueError("the error estimate is of higher order than stated")

    @property
    def stiffly_accurate(self) -> bool:
        """The last stage is the end of the step."""
        return bool(np.allclose(self.A[-1], self.b, atol=1e-12) and self.c[-1] == 1.0)

    @property
    def regular(self) -> bool:
        """A is invertible: every stage can satisfy a constraint on positions or velocities."""
        return bool(np.linalg.cond(self.A) < 1e8)


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


@cache
def radau_iia(s: int) -> Tableau:
    """Radau IIA: collocation at the right Radau nodes, order 2s-1 [HW96, IV.5, Table 5.13]."""
    c = radau_nodes(s)
    A, b = collocate(c)
    return Tableau(c, A, b, 2 * s - 1, s, s - 1, _estimate(c, old_weight(A)), s)


@cache
def gauss(s: int) -> Tableau:
    """Gauss, order 2s [HW96, IV.5], with a last stage of weight 0 that evaluates the end of the step."""
    c = gauss_nodes(s)
    A, b = collocate(c)
    estimate = np.append(_estimate(c, old_weight(A)), 0.0)
    closed = np.block([[A, np.zeros((s, 1))], [b, 0.0]])
    return Tableau(np.append(c, 1.0), closed, np.append(b, 0.0), 2 * s, s, s, estimate, s)


@cache
def lobatto_iiia(s: int) -> Tableau:
    """Lobatto IIIA: collocation, the first stage is the old state; order 2s-2 [HW96, IV.5, Table 5.13]."""
    c = lobatto_nodes(s)
    A, b = collocate(c)
    return Tableau(c, A, b, 2 * s - 2, s, s - 2, _without_the_end(c, b), s - 1)


@cache
def lobatto_iiic(s: int) -> Tableau:
    """Lobatto IIIC: a_i1 = b_1 and C(s-1); order 2s-2 [HW96, IV (5.9), Table 5.13]."""
    c = lobatto_nodes(s)
    _, b = collocate(c)
    powers = np.arange(1, s)
    conditions = np.vstack([np.eye(s)[0], c[None, :] ** (powers[:, None] - 1)])
    right = np.vstack([np.full(s, b[0]), c[None, :] ** powers[:, None] / powers[:, None]])
    A = np.linalg.solve(conditions, right).T
    return Tableau(c, A, b, 2 * s - 2, s - 1, s - 1, _without_the_end(c, b), s - 1)


def collocate(c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A_ij = int_0^{c_i} l_j and b_j = int_0^1 l_j for the Lagrange polynomials l_j of the nodes."""
    s = len(c)
    A, b = np.empty((s, s)), np.empty(s)
    for j in range(s):
        lagrange = Polynomial.fromroots(np.delete(c, j)) if s > 1 else Polynomial([1.0])
        integral = (lagrange / lagrange(c[j])).integ()
        A[:, j], b[j] = integral(c) - integral(0), integral(1) - integral(0)
    return A, b


def old_weight(A: np.ndarray) -> float:
    """Weight of the old derivative: the real eigenvalue of A [HW96, IV (8.14)], or the real part nearest to one."""
    eigenvalues = np.linalg.eigvals(A)
    return float(eigenvalues[np.argmin(np.abs(eigenvalues.imag))].real)


def _estimate(c: np.ndarray, weight: float) -> np.ndarray:
    """Weights of (old, c) that vanish on polynomials of degree < len(c), the first one given.

    That is an embedded quadrature less b, both exact to that degree [HW96, IV (8.15)].
    """
    s = len(c)
    right = np.zeros(s)
    right[0] = -weight
    return np.concatenate([[weight], np.linalg.solve(np.vander(c, s, increasing=True).T, right)])


def _without_the_end(c: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The quadrature on all nodes but the last, less b; c_1 = 0 is the old derivative."""
    s = len(c)
    embedded = np.linalg.solve(np.vander(c[:-1], s - 1, increasing=True).T, 1 / np.arange(1, s))
    difference = np.append(embedded, 0.0) - b
    return np.concatenate([[difference[0], 0.0], difference[1:]])
