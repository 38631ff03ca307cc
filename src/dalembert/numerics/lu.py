"""Sparse LU with pivots chosen once, written out as straight-line symbolic code.

The iteration matrix of a step keeps its pattern for a whole run, and mostly its pivots too. So both are
settled before the run, on a few numeric samples, and what remains is a fixed list of multiply-adds that
compiles into the same kernel as the matrix itself. `plan_elimination` chooses, `EliminationPlan.factor` and
`EliminationPlan.solve` write the code, and the growth measure, last element of the factor, tells at run
time when the choice no longer fits.

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
from dataclasses import dataclass
from typing import cast

import casadi
import numpy as np
from numpy.typing import NDArray

__all__ = ["EliminationPlan", "SingularMatrix", "plan_elimination"]

# Python's operators on SX go through overload resolution and cost about fifteen times as much as these two
# calls, which fold constants (0 x, 1 x, x - 0, 1/const) just the same.
_binary = casadi.SX.binary
_unary = casadi.SX.unary
_ADD, _MUL, _DIV, _FMAX = casadi.OP_ADD, casadi.OP_MUL, casadi.OP_DIV, casadi.OP_FMAX
_NEG, _FABS = casadi.OP_NEG, casadi.OP_FABS

_Array = NDArray[np.float64]
# Row and column of the pivot, rows below it, columns to its right.
_Step = tuple[int, int, tuple[int, ...], tuple[int, ...]]

_EPS = float(np.finfo(float).eps)
_INCIDENTAL = 1e-10  # an entry this small against both its row and its column tells nothing about units
_VIABLE = 1e-6  # a smaller relative pivot would all but trip the guard in the very sample it was chosen on
_TRACE = 1e-300  # times a finite number: nothing; times inf or NaN: inf or NaN (CasADi folds a factor of 0)


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


@dataclass(frozen=True)
class EliminationPlan:
    """Pivot sequence and fill pattern of a sparse LU, chosen once; turns values into straight-line code.

    The factor is one vector: -1/pivot (n), multipliers with the sign reversed step by step, pivot rows step
    by step, growth measure. The sign saves divisions: CasADi rewrites x * (1/p) as x / p, also when a
    finished function is inlined into another, but leaves x * (-1/p) alone.

    Attributes
    ----------
    n : int
        Order of the matrix.
    entries : tuple of (int, int)
        Row and column of each nonzero of the matrix, in CasADi's (column by column) order.
    rows, columns : tuple of int
        Row and column of the pivot of each step, length n.
    lower : tuple of tuple of int
        For each step the rows it eliminates from (the pattern of L, fill included).
    upper : tuple of tuple of int
        For each step the other columns of the pivot row, in pivot order (the pattern of U, fill included).
    row_scales : tuple of float
        Magnitude of each row in the equilibrated samples: geometric mean over them, rounded to powers of two.
    served : tuple of int
        Indices of the samples for which the pivots hold throughout. The others are singular, or need an order
        that contradicts the rest: near them the growth measure may trip.
    operations : int
        Multiply-adds in one factorisation and one solve (the n divisions and the growth measure not counted).
    """

    n: int
    entries: tuple[tuple[int, int], ...]
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    lower: tuple[tuple[int, ...], ...]
    upper: tuple[tuple[int, ...], ...]
    row_scales: tuple[float, ...]
    served: tuple[int, ...]
    operations: int

    @property
    def n_lu(self) -> int:
        """Length of the factor."""
        return self.n + sum(map(len, self.lower)) + sum(map(len, self.upper)) + 1

    @property
    def fill(self) -> int:
        """Entries of L and U that are not in the pattern of the matrix."""
        return self.n_lu - 1 - len(self.entries)

    def factor(self, nonzeros: casadi.SX) -> casadi.SX:
        """Factorise.

        Parameters
        ----------
        nonzeros : SX, shape (nnz,)
            Values of the matrix, in CasADi's order, of the sparsity given to `plan_elimination`. Constants
            among them are folded.

        Returns
        -------
        SX, shape (n_lu,)
            Factor for `solve`. Its last element is the growth measure: the largest multiplier relative to
            `row_scales`; inf or NaN if a pivot is zero or not finite. (A non-finite entry that reaches no
            pivot may leave the measure finite, but makes the solution non-finite.)
        """
        _check_length("nonzeros", nonzeros, len(self.entries))
        a = dict(zip(self.entries, _scalars(nonzeros), strict=True))
        reciprocals: list[casadi.SX] = []
        multipliers: list[casadi.SX] = []
        pivot_rows: list[casadi.SX] = []
        sizes: list[casadi.SX] = []
        witnesses: list[casadi.SX] = []
        scale = self.row_scales
        minus_one = casadi.SX(-1)
        for i, j, below, right in zip(self.rows, self.columns, self.lower, self.upper, strict=True):
            pivot = a.pop((i, j))
            reciprocal = _binary(_DIV, minus_one, pivot)
            reciprocals.append(reciprocal)
            witnesses += (pivot, reciprocal)  # inf shows in the first only, 0 in the second only
            row = [a.pop((i, c)) for c in right]
            pivot_rows += row
            for k in below:
                multiplier = _binary(_MUL, a.pop((k, j)), reciprocal)
                multipliers.append(multiplier)
                if not right:
                    continue
                sizes.append(_binary(_MUL, casadi.SX(scale[i] / scale[k]), _unary(_FABS, multiplier)))
                for c, value in zip(right, row, strict=True):
                    product = _binary(_MUL, multiplier, value)
                    old = a.get((k, c))
                    a[k, c] = product if old is None else _binary(_ADD, old, product)
        # C's fmax drops NaN, so what must not get lost is added outside the tree.
        trace = _binary(_MUL, casadi.SX(_TRACE), _balanced(_ADD, witnesses))
        growth = _binary(_ADD, _balanced(_FMAX, sizes), trace)
        return casadi.densify(casadi.vertcat(*reciprocals, *multipliers, *pivot_rows, growth))

    def solve(self, lu: casadi.SX, b: casadi.SX) -> casadi.SX:
        """Solve with a factor.

        Parameters
        ----------
        lu : SX, shape (n_lu,)
            What `factor` returned, or symbols in its place.
        b : SX, shape (n,)
            Right side.

        Returns
        -------
        SX, shape (n,)
            Solution x of A x = b.
        """
        _check_length("lu", lu, self.n_lu)
        _check_length("b", b, self.n)
        if self.n == 0:
            return casadi.SX(0, 1)
        values = _scalars(lu)
        at = self.n
        x = _scalars(b)
        for i, below in zip(self.rows, self.lower, strict=True):
            for k in below:
                x[k] = _binary(_ADD, x[k], _binary(_MUL, values[at], x[i]))
                at += 1
        at = self.n_lu - 1
        solution = [casadi.SX(0)] * self.n
        for step in reversed(range(self.n)):
            rest = _unary(_NEG, x[self.rows[step]])
            # Columns stand in pivot order: the last are solved for first, so they do not keep us waiting.
            for c in reversed(self.upper[step]):
                at -= 1
                rest = _binary(_ADD, _binary(_MUL, values[at], solution[c]), rest)
            solution[self.columns[step]] = _binary(_MUL, rest, values[step])
        return casadi.densify(casadi.vertcat(*solution))


def plan_elimination(
    sparsity: casadi.Sparsity, samples: Sequence[_Array], *, threshold: float = 0.05
) -> EliminationPlan:
    """Choose pivots of lowest Markowitz cost that are large enough in every sample.

    All samples are eliminated side by side with the same pivots. Among candidates of equal cost the one with
    the largest worst-case relative magnitude is taken, with a bonus of two for the matrix's own diagonal; if
    none reaches the threshold in every sample, the one that comes closest. Samples that are singular are left
    out first, and later those that no remaining candidate serves together with the others, so that a single
    odd state has no veto (`EliminationPlan.served` lists what was kept).

    Parameters
    ----------
    sparsity : casadi.Sparsity, shape (n, n)
        Pattern of the matrix.
    samples : sequence of arrays, shape (n, n)
        The matrix at several states (and step sizes), zero outside the pattern.
    threshold : float, optional
        Smallest pivot relative to its column in the equilibrated matrix, in (0, 1]: multipliers stay below
        1 / threshold. Small values favour sparsity, large ones stability.

    Returns
    -------
    EliminationPlan

    Raises
    ------
    SingularMatrix
        If the pattern, or every sample, is singular.
    """
    n = int(sparsity.size1())
    if sparsity.size2() != n:
        raise ValueError(f"sparsity must be square, got shape {sparsity.shape}")
    if not 0.0 < threshold <= 1.0:
        raise ValueError(f"threshold must lie in (0, 1], got {threshold}")
    rows, columns = (np.asarray(index, dtype=int) for index in sparsity.get_triplet())
    entries = tuple(zip(rows.tolist(), columns.tolist(), strict=True))
    pattern = np.zeros((n, n), dtype=bool)
    pattern[rows, columns] = True

    stack = _checked_samples(samples, pattern)
    finite = np.flatnonzero(np.isfinite(stack).all(axis=(1, 2)))
    if finite.size == 0:
        raise ValueError("samples must contain at least one finite matrix: every one has inf or NaN entries")
    matrices, scales = _equilibrate(stack[finite])
    defects = [_defect(matrix) for matrix in matrices]
    shortfall = np.array([len(left) for left, _ in defects], dtype=int)
    if shortfall.all():
        best = int(shortfall.argmin())
        raise _singular(matrices[best], *defects[best])
    regular = np.flatnonzero(shortfall == 0)
    steps, kept = _choose_pivots(matrices[regular], pattern, threshold)
    served = regular[kept]

    log_scales = np.log2(scales[served])
    log_scales -= log_scales.sum(axis=1, keepdims=True) / max(n, 1)  # a sample's common factor is arbitrary
    position = {step[1]: k for k, step in enumerate(steps)}
    lower = tuple(step[2] for step in steps)
    upper = tuple(tuple(sorted(step[3], key=position.__getitem__)) for step in steps)
    return EliminationPlan(
        n=n,
        entries=entries,
        rows=tuple(step[0] for step in steps),
        columns=tuple(step[1] for step in steps),
        lower=lower,
        upper=upper,
        row_scales=tuple((2.0 ** np.round(log_scales.mean(axis=0))).tolist()),
        served=tuple(finite[served].tolist()),
        # factor: one multiplication a multiplier, one multiply-add a product; solve: each stored entry once
        operations=n + sum(len(b) * (2 + len(r)) + len(r) for b, r in zip(lower, upper, strict=True)),
    )


def _choose_pivots(
    matrices: _Array, pattern: NDArray[np.bool_], threshold: float
) -> tuple[list[_Step], NDArray[np.int_]]:
    """Eliminate equilibrated samples (m, n, n) in parallel: steps, and the indices of the samples kept."""
    n = pattern.shape[0]
    a = matrices.copy()
    active = pattern.copy()  # rows and columns of chosen pivots are cleared
    kept = np.arange(a.shape[0])
    sizes = np.abs(a).max(axis=2, initial=0.0)  # the largest each row ever held: what its round-off refers to
    steps: list[_Step] = []
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


def _equilibrate(stack: _Array) -> tuple[_Array, _Array]:
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
    fit = np.clip(fit, -300.0, 300.0)
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


def _defect(matrix: _Array) -> tuple[list[int], list[int]]:
    """Rows and columns that complete pivoting leaves without a pivot; none for a regular matrix (n, n)."""
    a = matrix.copy()
    n = a.shape[0]
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


def _singular(matrix: _Array, rows: list[int], columns: list[int]) -> SingularMatrix:
    """Error for an equilibrated matrix (n, n) with this defect; null vectors tell what else is involved."""
    left, _, right = np.linalg.svd(matrix)
    short = len(rows)
    involved_rows = np.flatnonzero(np.abs(left[:, -short:]).max(axis=1) > 1e-8)
    involved_columns = np.flatnonzero(np.abs(right[-short:]).max(axis=0) > 1e-8)
    return SingularMatrix(rows, columns, involved_rows.tolist(), involved_columns.tolist())


def _noise(n: int) -> float:
    """Relative size below which an entry after elimination is taken for round-off: 1e-14, growing with n."""
    return max(45, n) * _EPS


def _balanced(op: int, items: Sequence[casadi.SX]) -> casadi.SX:
    """Combine scalars pairwise, a tree of least depth; constants are brought together so that they fold."""
    items = sorted((item for item in items if not item.is_zero()), key=lambda item: not item.is_constant())
    if not items:
        return casadi.SX(0)
    while len(items) > 1:
        paired = [_binary(op, items[k], items[k + 1]) for k in range(0, len(items) - 1, 2)]
        items = paired + items[2 * len(paired) :]
    return items[0]


def _checked_samples(samples: Sequence[_Array], pattern: NDArray[np.bool_]) -> _Array:
    """Samples as one array (m, n, n)."""
    n = pattern.shape[0]
    if len(samples) == 0:
        raise ValueError("samples must contain at least one matrix")
    for k, sample in enumerate(samples):
        if np.shape(sample) != (n, n):
            raise ValueError(f"samples[{k}] must have shape {(n, n)} like sparsity, got {np.shape(sample)}")
    stack = np.array([np.asarray(sample, dtype=float) for sample in samples]).reshape(len(samples), n, n)
    stray = np.argwhere((stack != 0.0) & ~pattern)
    if stray.size:
        k, i, j = (int(index) for index in stray[0])
        raise ValueError(f"samples[{k}] is {stack[k, i, j]} at ({i}, {j}), where the sparsity has no entry")
    return stack


def _scalars(vector: casadi.SX) -> list[casadi.SX]:
    """Elements of a vector, structural zeros as constants."""
    return cast("list[casadi.SX]", vector.elements())


def _check_length(name: str, vector: casadi.SX, length: int) -> None:
    if vector.shape != (length, 1):
        raise ValueError(f"{name} must have shape ({length}, 1), got {vector.shape}")
