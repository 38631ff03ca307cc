"""Which pivots a sparse elimination takes, chosen on numeric samples of the matrix.

How a pivot is judged
---------------------
Multipliers l_kj = a_kj / a_ij do not feel the scale of a column, but they do feel the scale of the rows,
and an equation multiplied by 1/h^2 is no better a pivot row than before. Dividing each row by its largest
entry is not enough either: that entry sits in the column with the largest units (accelerations beside
multipliers, 1/h beside 1), so the row scale would see this one column only. Hence, for judging alone (the
code works on the matrix as it is):

1. One scaling a_ij / (r_i c_j) common to all samples, the least-squares fit of log|a_ij| = log r_i + log
   c_j to the largest magnitude that each entry takes in any sample [CurtisReid72]. It undoes whatever
   constants rows and columns come multiplied with. An entry tiny against both its row and its column is
   left out: it is passing through zero, which says nothing about units (a fit to each sample alone would be
   led astray by exactly these).
2. In each sample, columns and then rows divided by the largest share that one of their entries has of its
   own largest magnitude. That takes care of a step size that differs between samples; an entry passing
   through zero has no say, since it only lowers its share.
3. In each sample, repeated division by the square roots of row and column maxima [Ruiz01]; last, rows by
   their maximum.

In the matrix so scaled a candidate must reach `threshold` times the largest active entry of its column, in
every sample. An entry that is alone in its row is accepted however small it is: eliminating with it fills
nothing, and every other order would have to use it too. Its multipliers do not count as growth for that
reason.

References
----------
[Markowitz57] H. M. Markowitz, The elimination form of the inverse, Management Science 3 (1957) 255-269.
[CurtisReid72] A. R. Curtis, J. K. Reid, On the automatic scaling of matrices for Gaussian elimination,
    J. Inst. Maths Applics 10 (1972) 118-124.
[Ruiz01] D. Ruiz, A scaling algorithm to equilibrate both rows and columns norms in matrices, RAL-TR-2001-034.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_Array = NDArray[np.float64]
# Row and column of the pivot, rows below it, columns to its right.
Step = tuple[int, int, tuple[int, ...], tuple[int, ...]]

_EPS = float(np.finfo(float).eps)
_INCIDENTAL = 1e-10  # an entry this small against both its row and its column tells nothing about units
_VIABLE = 1e-6  # a smaller relative pivot would all but trip the guard in the very sample it was chosen on


class SingularMatrix(ValueError):
    """A matrix that no pivot order can factorise.

    Attributes
    ----------
    rows, columns : tuple of int
        What is left when no acceptable pivot remains: as many of each as the rank is short of n.
    dependent_rows, dependent_columns : tuple of int
        All rows (columns) that take part in a linear dependence, the ones above included; two equal rows are
        both named here, and one of them in `rows`.
    """

    def __init__(
        self,
        rows: Sequence[int],
        columns: Sequence[int],
        dependent_rows: Sequence[int] = (),
        dependent_columns: Sequence[int] = (),
    ) -> None:
        self.rows = tuple(int(i) for i in rows)
        self.columns = tuple(int(j) for j in columns)
        self.dependent_rows = tuple(sorted({*self.rows, *(int(i) for i in dependent_rows)}))
        self.dependent_columns = tuple(sorted({*self.columns, *(int(j) for j in dependent_columns)}))
        super().__init__(
            f"matrix is singular: no pivot left for rows {list(self.rows)}, columns {list(self.columns)}; "
            f"dependent rows {list(self.dependent_rows)}, dependent columns {list(self.dependent_columns)}"
        )

    def __reduce__(self) -> tuple[type[SingularMatrix], tuple[tuple[int, ...], ...]]:
        return type(self), (self.rows, self.columns, self.dependent_rows, self.dependent_columns)


def choose_pivots(
    matrices: _Array, pattern: NDArray[np.bool_], threshold: float
) -> tuple[list[Step], NDArray[np.int_]]:
    """Eliminate equilibrated samples (m, n, n) in parallel: steps, and the indices of the samples kept."""
    n = pattern.shape[0]
    a = matrices.copy()
    active = pattern.copy()  # rows and columns of chosen pivots are cleared
    kept = np.arange(a.shape[0])
    sizes = np.abs(a).max(axis=2, initial=0.0)  # the largest each row ever held: what its round-off refers to
    steps: list[Step] = []
    for _ in range(n):
        column, row = np.nonzero(active.T)  # sorted by column
        magnitude = np.abs(a[:, row, column])
        usable = magnitude > _noise(n) * sizes[:, row]
        if not usable.any():
            done_rows, done_columns = {s[0] for s in steps}, {s[1] for s in steps}
            raise SingularMatrix(sorted({*range(n)} - done_rows), sorted({*range(n)} - done_columns))
        starts = np.flatnonzero(np.diff(column, prepend=-1))
        largest = np.maximum.reduceat(magnitude, starts, axis=1)
        largest = np.repeat(largest, np.diff(starts, append=column.size), axis=1)
        in_row, in_column = active.sum(axis=1), active.sum(axis=0)
        alone = in_row[row] == 1
        ratio = np.where(usable, np.where(alone, 1.0, magnitude / np.where(usable, largest, 1.0)), 0.0)
        worst = ratio.min(axis=0)
        if worst.max() >= threshold:
            cost = (in_row[row] - 1) * (in_column[column] - 1)  # [Markowitz57]
            cost[worst < threshold] = n * n
            worst = np.where(cost == cost.min(), worst, -1.0)
            # A near tie goes to the matrix's own diagonal: masses stand there, which do not turn with the
            # configuration as constraint gradients (and what they fill in) do.
            close = (row == column) & pattern[row, column] & (worst >= 0.5 * worst.max())
            if close.any():
                worst = np.where(close, worst, -1.0)
        elif worst.max() < _VIABLE:
            # No candidate serves every sample: go with the majority.
            viable = ratio >= min(_VIABLE, ratio.max())
            votes = viable.sum(axis=0)
            worst = np.where(votes == votes.max(), np.where(viable, ratio, np.inf).min(axis=0), -1.0)
        choice = int(worst.argmax())
        stay = ratio[:, choice] >= min(_VIABLE, ratio[:, choice].max())
        a, sizes, kept = a[stay], sizes[stay], kept[stay]

        i, j = int(row[choice]), int(column[choice])
        active[i, j] = False
        below, right = np.flatnonzero(active[:, j]), np.flatnonzero(active[i])
        active[i, :] = False
        active[:, j] = False
        steps.append((i, j, tuple(below.tolist()), tuple(right.tolist())))
        if below.size and right.size:
            block = np.ix_(below, right)
            active[block] = True
            multipliers = a[:, below, j] / a[:, i, j, None]
            updated = a[:, block[0], block[1]] - multipliers[:, :, None] * a[:, i, right][:, None, :]
            a[:, block[0], block[1]] = updated
            sizes[:, below] = np.maximum(sizes[:, below], np.abs(updated).max(axis=2))
    return steps, kept


def equilibrate(stack: _Array) -> tuple[_Array, _Array]:
    """Scale samples (m, n, n) as the head of this file says: scaled samples, row scales (m, n) divided by."""
    m, n, _ = stack.shape
    if n == 0:
        return stack.copy(), np.ones((m, 0))
    typical = np.abs(stack).max(axis=0)
    maxima = np.concatenate([typical.max(axis=1), typical.max(axis=0)])
    told = typical > _INCIDENTAL * np.minimum(maxima[:n, None], maxima[None, n:])
    logs = np.log(np.where(told, typical, 1.0))
    weight = told.astype(float)
    # Normal equations of [CurtisReid72]. Blocks that no entry couples leave their relative scale open; the
    # small shift settles it by the row and column maxima.
    normal = np.block([[np.diag(weight.sum(axis=1)), weight], [weight.T, np.diag(weight.sum(axis=0))]])
    right = np.concatenate([logs.sum(axis=1), logs.sum(axis=0)])
    anchor = np.log(np.where(maxima > 0.0, maxima, 1.0))
    fit = np.linalg.solve(normal + 1e-10 * np.eye(2 * n), right + 1e-10 * anchor)
    # Rounded, so that what rounding errors of a linear solver differ by decides no tie between pivots.
    fit = np.round(np.clip(fit, -300.0, 300.0), 6)
    share = np.abs(stack) / np.where(typical > 0.0, typical, 1.0)
    by_column = _maxima(share, 1)
    by_row = _maxima(share / by_column[:, None, :], 2)
    scales = by_row * np.exp(fit[:n])
    matrices = stack / scales[:, :, None] / (by_column * np.exp(fit[n:]))[:, None, :]
    for _ in range(12):  # each sweep halves the distance from 1 in the logarithm
        by_row, by_column = np.sqrt(_maxima(matrices, 2)), np.sqrt(_maxima(matrices, 1))
        matrices = matrices / by_row[:, :, None] / by_column[:, None, :]
        scales *= by_row
    by_row = _maxima(matrices, 2)
    return matrices / by_row[:, :, None], scales * by_row


def _maxima(stack: _Array, axis: int) -> _Array:
    """Largest magnitude along an axis, 1 where all is zero."""
    largest = np.abs(stack).max(axis=axis)
    return np.where(largest > 0.0, largest, 1.0)


def defect(matrix: _Array) -> tuple[list[int], list[int]]:
    """Rows and columns that complete pivoting leaves without a pivot; none for a regular matrix (n, n)."""
    n = matrix.shape[0]
    if _well_conditioned(matrix):
        return [], []
    a = matrix.copy()
    rows, columns = list(range(n)), list(range(n))
    for _ in range(n):
        at = np.unravel_index(int(np.abs(a).argmax()), a.shape)
        if abs(a[at]) <= _noise(n):
            break
        i, j = int(at[0]), int(at[1])
        multipliers = a[:, j] / a[i, j]
        multipliers[i] = 0.0
        touched = np.flatnonzero(multipliers)
        a[touched] -= np.outer(multipliers[touched], a[i])
        a = np.delete(np.delete(a, i, axis=0), j, axis=1)
        del rows[i], columns[j]
    return rows, columns


def _well_conditioned(matrix: _Array) -> bool:
    """True if complete pivoting cannot fail: what it leaves at any time has a part of the inverse as its inverse.

    Hence its largest entry is at least 1 / (n |inverse|); a factor of 100 is left for rounding errors.
    """
    try:
        inverse = np.linalg.inv(matrix)
    except np.linalg.LinAlgError:
        return False
    n = matrix.shape[0]
    return bool(100.0 * n * _noise(n) * np.linalg.norm(inverse) < 1.0)  # False for NaN too


def singular(matrix: _Array, rows: list[int], columns: list[int]) -> SingularMatrix:
    """Error for an equilibrated matrix (n, n) with this defect; null vectors tell what else is involved."""
    left, _, right = np.linalg.svd(matrix)
    short = len(rows)
    involved_rows = np.flatnonzero(np.abs(left[:, -short:]).max(axis=1) > 1e-8)
    involved_columns = np.flatnonzero(np.abs(right[-short:]).max(axis=0) > 1e-8)
    return SingularMatrix(rows, columns, involved_rows.tolist(), involved_columns.tolist())


def _noise(n: int) -> float:
    """Relative size below which an entry after elimination is taken for round-off: 1e-14, growing with n."""
    return max(45, n) * _EPS
