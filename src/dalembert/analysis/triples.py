"""Triples (M, D, K) of second-order systems M x'' + D x' + K x = f: characteristic quantities and one reduction.

[MS06] V. Mehrmann, C. Shi, Transformation of high order linear differential-algebraic systems to first order,
       Numer. Algorithms 42 (2006) 281-307.
[W05]  L. Wunderlich, Numerical treatment of second order differential-algebraic systems (2005), section 3.1.

The rows of the condensed form [W05, (3.2)] are numbered as there, 1 to 13. The step (3.8) leaves choices open that can
change what the next step finds; `_adapt` uses them to keep the number of steps small. In rare cases (5 of 2900 random
sparse triples) the steps still depended on the variables in which a system was written, never what was left at the end.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dalembert.analysis.ranks import Ranks


@dataclass(frozen=True)
class Quantities2:
    """Invariants of a triple (M, D, K) [W05, (3.2)-(3.3)].

    s012, s01, s02, s12: how many unknowns occur in equations of the orders named, where the lower one makes the higher
    one redundant; d2 and d1: differential equations of second and first order; a, u, v as in `Quantities`.
    """

    r: int
    s012: int
    s12: int
    s02: int
    d2: int
    s01: int
    d1: int
    a: int
    u: int
    v: int

    @property
    def strange(self) -> int:
        return self.s012 + self.s12 + self.s02 + self.s01


def scaled_triple(M: np.ndarray, D: np.ndarray, K: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Matrices of about one size by a unit of time and a unit of force."""
    sizes = [float(np.linalg.norm(matrix, 2)) if matrix.size else 0.0 for matrix in (M, D, K)]
    orders = [i for i, size in zip((2, 1, 0), sizes, strict=True) if size]
    unit = 1.0
    if len(orders) > 1:
        high, low = orders[0], orders[-1]
        unit = (sizes[2 - high] / sizes[2 - low]) ** (1.0 / (high - low))
    M, D, K = M / unit**2, D / unit, K
    force = max((float(np.linalg.norm(matrix, 2)) for matrix in (M, D, K)), default=0.0) or 1.0
    return M / force, D / force, K / force


def reduce_triple(
    M: np.ndarray, D: np.ndarray, K: np.ndarray, ranks: Ranks
) -> tuple[Quantities2, np.ndarray, np.ndarray, np.ndarray]:
    """Quantities of (M, D, K) [W05, (3.2)] and the triple after one step [W05, (3.8)]."""
    m, n = M.shape
    # Equations of second order, V2^T x'' + D2 x' + K2 x, of first order, V1^T x' + K1 x, and algebraic ones, V0^T x
    r, U, sigma, V = ranks.svd(M)
    V2, T2 = V[:, :r], V[:, r:]
    P = U[:, :r].T / sigma[:r, None]
    D2, K2 = P @ D, P @ K
    Z = U[:, r:]
    r1, U, sigma, V = ranks.svd(Z.T @ D)
    V1 = V[:, :r1]
    K1 = (U[:, :r1].T / sigma[:r1, None]) @ Z.T @ K
    Z = Z @ U[:, r1:]
    V0 = ranks.range((Z.T @ K).T)

    free = ranks.kernel(np.hstack([V2, V1]).T)  # unknowns without derivatives in the leading terms
    a = ranks.rank(V0.T @ free)
    known = V0 @ ranks.corange(V0.T @ free)  # algebraic equations in unknowns that have derivatives
    known2 = ranks.common(V2, V0)  # ... in those of second order: s012 + s02
    both = ranks.common(V2, V1)  # s012 + s12
    triple = ranks.common(both, known2)
    s01 = ranks.rank(known.T @ T2)
    s012 = triple.shape[1]
    s12, s02 = both.shape[1] - s012, known2.shape[1] - s012
    d1 = r1 - s01 - s012 - s12
    found = Quantities2(
        r=r, s012=s012, s12=s12, s02=s02, d2=r - s012 - s12 - s02, s01=s01, d1=d1, a=a, u=n - r - s01 - d1 - a,
        v=Z.shape[1] - V0.shape[1],
    )  # fmt: skip
    if not found.strange:
        return found, M, D, K

    # first-order equations clear D2, algebraic ones clear K1 and K2
    K2 = K2 - D2 @ V1 @ K1
    D2 = D2 - D2 @ V1 @ V1.T
    K1, K2 = K1 - K1 @ V0 @ V0.T, K2 - K2 @ V0 @ V0.T

    # s01: V1 c - y = e, y algebraic, with e in the unknowns of second order and as small as rows 7, 8, 11, 12 allow
    y = ranks.complement(known, known2)
    c = np.linalg.lstsq(T2.T @ V1, T2.T @ y, rcond=None)[0] if s01 else np.zeros((r1, 0))
    w = np.linalg.lstsq(np.hstack([both, known2]), y - V1 @ c, rcond=None)[0] if s01 else np.zeros((0, 0))
    if s01 and w.size:
        c = c + V1.T @ both @ w[: both.shape[1]]
        y = y - known2 @ w[both.shape[1] :]
    replaced = np.hstack([c, V1.T @ triple])
    kept = ranks.corange(ranks.range(replaced))
    first_D = np.vstack([kept.T @ V1.T, c.T @ V1.T - y.T, np.zeros((s012, n))])  # rows 6 and 8, 5, 7 of (3.8)
    first_K = np.vstack([kept.T, c.T, triple.T @ V1]) @ K1

    alone = ranks.complement(both, triple)  # s12: the derivative of a first-order equation
    lower = V2.T @ np.hstack([known2, alone])
    kept2 = ranks.corange(ranks.range(lower))
    second_D = lower.T @ D2
    second_D[known2.shape[1] :] -= alone.T @ V1 @ K1
    second_D, shift = _adapt(second_D, V0, known2, V2 @ kept2, V1 @ kept, ranks)
    kept2 = kept2 + V2.T @ known2 @ shift.T
    below = m - kept2.shape[1]
    algebraic = np.zeros((Z.shape[1], n))
    algebraic[: V0.shape[1]] = V0.T
    M = np.vstack([kept2.T @ V2.T, np.zeros((below, n))])
    D = np.vstack([kept2.T @ D2, second_D, first_D, np.zeros_like(algebraic)])
    K = np.vstack([kept2.T @ K2, lower.T @ K2, first_K, algebraic])
    return found, M, D, K


def _adapt(
    D: np.ndarray, V0: np.ndarray, known: np.ndarray, kept: np.ndarray, V1: np.ndarray, ranks: Ranks
) -> tuple[np.ndarray, np.ndarray]:
    """Use the freedom that [W05, (3.8)] leaves to keep derivatives of algebraic unknowns out of the new equations.

    The rows D x' are those that lost their second derivatives, first the ones with known unknowns y3 = known^T x. If
    they contain derivatives of algebraic unknowns V0^T x, these cost a step later on, and how many of them there are
    depends on the variables. Two choices are free: multiples of the algebraic equations may be added to a first-order
    equation before it is differentiated (the rows below), and the unknowns y4 = kept^T x of the second-order
    equations may be replaced by y4 + shift y3.
    """
    n, n0, nk, n4 = V0.shape[0], known.shape[1], V0.shape[1], kept.shape[1]
    V0 = np.hstack([known, ranks.complement(V0, known)])
    basis = np.hstack([V0, kept, V1])
    basis = np.hstack([basis, ranks.corange(basis)])
    if basis.shape[1] != n:
        return D, np.zeros((n4, n0))
    parts = np.linalg.solve(basis, D.T).T  # components along y3, other algebraic ones, y4, first-order ones, the rest
    D = D.copy()
    D[n0:] -= parts[n0:, :nk] @ V0.T
    parts[n0:, :nk] = 0.0
    others = np.hstack([parts[:, n0:nk], parts[:, nk + n4 + V1.shape[1] :]])
    rows = ranks.corange(others).T @ parts
    rank, U, sigma, V = ranks.svd(rows[:, nk : nk + n4])
    return D, V[:, :rank] @ ((U[:, :rank].T @ rows[:, :n0]) / sigma[:rank, None])
