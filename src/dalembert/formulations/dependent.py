"""Which coordinates the constraints determine best: as many columns of G as it has rows, with a large determinant.

[GE96] M. Gu, S. Eisenstat, Efficient algorithms for computing a strong rank-revealing QR factorization, SIAM J. Sci.
       Comput. 17 (1996) 848-869.

QR with column pivoting makes a first choice G_2; then columns are exchanged as long as that enlarges |det G_2|. Entry
(i, j) of G_2^-1 G is the factor by which exchanging the i-th chosen column for column j would do so [GE96, section 3];
in the end none exceeds EXCHANGE, which bounds G_2^-1 in terms of the smallest singular value of G.

With velocity constraints, C = [G; K], the coordinates for G are chosen first, then those for K after elimination.
"""

from __future__ import annotations

import casadi as ca
import numpy as np
from scipy.linalg import qr
from scipy.optimize import linear_sum_assignment

EXCHANGE = 1.01  # exchanges that enlarge the determinant by less are not worth it
MOST_EXCHANGES = 1000  # few are needed; a singular matrix, for which there is no choice at all, must not go on for ever
SMALLEST_LOG = -700.0  # stands for the logarithm of 0


def choose_dependent(C: np.ndarray, nlam: int, allowed: np.ndarray) -> np.ndarray:
    """T (m, n) of zeros and ones for C (m, n): T[j, i] = 1 if row j determines coordinate i.

    Parameters
    ----------
    C
        The first ``nlam`` rows belong to position constraints.
    allowed
        Numbers of the coordinates to choose from.

    Examples
    --------
    >>> import numpy as np
    >>> choose_dependent(np.array([[0.6, -0.8]]), 1, np.arange(2))
    array([[0., 1.]])
    """
    T = np.zeros(C.shape)
    left = C
    for rows in (np.arange(nlam), np.arange(nlam, len(C))):
        if not rows.size:
            continue
        A = left[rows]
        chosen = _columns(A, allowed)
        with np.errstate(divide="ignore"):  # which row determines which: the largest product of entries
            logarithms = np.log(np.abs(A[:, chosen])).clip(SMALLEST_LOG)
        T[rows, chosen[linear_sum_assignment(logarithms, maximize=True)[1]]] = 1.0
        allowed = np.setdiff1d(allowed, chosen)
        left = left - left[:, chosen] @ np.linalg.pinv(A[:, chosen]) @ A
    return T


def _columns(A: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """As many of the allowed columns of A as it has rows."""
    chosen = allowed[qr(A[:, allowed], mode="r", pivoting=True)[1][: len(A)]]
    for _ in range(MOST_EXCHANGES):
        gain = np.abs(np.linalg.pinv(A[:, chosen]) @ A[:, allowed])
        gain[:, np.isin(allowed, chosen)] = 0.0
        i, j = np.unravel_index(int(gain.argmax()), gain.shape)
        if gain[i, j] <= EXCHANGE:
            break
        chosen[i] = allowed[j]
    return chosen


def largest_gain(C: ca.SX, T: ca.SX, nlam: int) -> ca.SX:
    """Largest factor (at least 1) by which an exchange of coordinates would enlarge a determinant, as an expression."""
    largest = ca.SX(1)
    for first, last in ((0, nlam), (nlam, C.shape[0])):
        if first < last:
            A, S = C[first:last, :], T[first:last, :].T
            X = ca.solve(A @ S, A)  # G_2^-1 G
            largest = ca.fmax(largest, ca.mmax(ca.fabs(X)))
            C = C - C @ S @ X
    return largest
