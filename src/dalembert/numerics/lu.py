"""Sparse LU with pivots chosen once, written out as straight-line symbolic code.

The iteration matrix of a step keeps its pattern for a whole run, and mostly its pivots too. So both are
settled before the run, on a few numeric samples, and what remains is a fixed list of multiply-adds that
compiles into the same kernel as the matrix itself. `plan_elimination` chooses, `EliminationPlan.factor` and
`EliminationPlan.solve` write the code, and the growth measure, last element of the factor, tells at run
time when the choice no longer fits.

How a pivot is judged: see `pivots`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import casadi
import numpy as np
from numpy.typing import NDArray

from dalembert.numerics.pivots import SingularMatrix, Step, choose_pivots, defect, equilibrate, singular

__all__ = ["EliminationPlan", "SingularMatrix", "plan_elimination"]

# Python's operators on SX go through overload resolution and cost about fifteen times as much as these two
# calls, which fold constants (0 x, 1 x, x - 0, 1/const) just the same.
_binary = casadi.SX.binary
_unary = casadi.SX.unary
_ADD, _MUL, _DIV, _FMAX = casadi.OP_ADD, casadi.OP_MUL, casadi.OP_DIV, casadi.OP_FMAX
_NEG, _FABS = casadi.OP_NEG, casadi.OP_FABS

_Array = NDArray[np.float64]
# With many unknowns some good pivot misses the threshold in some sample by bad luck, and what comes instead fills in.
# Then a lower threshold is tried, and taken if it saves this much.
_MANY, _RELAXED, _WORTHWHILE = 2000, 0.2, 0.7
_TRACE = 1e-300  # times a finite number: nothing; times inf or NaN: inf or NaN (CasADi folds a factor of 0)


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
        1 / threshold. Small values favour sparsity, large ones stability. A large matrix gets a fifth of it if
        that saves a good part of the operations.

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
    matrices, scales = equilibrate(stack[finite])
    defects = [defect(matrix) for matrix in matrices]
    shortfall = np.array([len(left) for left, _ in defects], dtype=int)
    if shortfall.all():
        best = int(shortfall.argmin())
        raise singular(matrices[best], *defects[best])
    regular = np.flatnonzero(shortfall == 0)
    steps, kept = choose_pivots(matrices[regular], pattern, threshold)
    if _operations(steps) > _MANY:
        relaxed = choose_pivots(matrices[regular], pattern, _RELAXED * threshold)
        if _operations(relaxed[0]) < _WORTHWHILE * _operations(steps) and len(relaxed[1]) == len(kept):
            steps, kept = relaxed
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
        operations=_operations(steps),
    )


def _operations(steps: Sequence[Step]) -> int:
    """Factor: one multiplication a multiplier, one multiply-add a product; solve: each stored entry once."""
    return len(steps) + sum(len(below) * (2 + len(right)) + len(right) for _, _, below, right in steps)


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
