"""Linear systems with complex matrices, written out in real numbers.

Every number is a pair (real part, imaginary part) of expressions, None if it is zero whatever the values are. Pivots
are those of the diagonal, in the order that the matrix comes in: for a simplified Newton method, whose next iteration
shows what went wrong.
"""

from __future__ import annotations

import casadi as ca

Complex = tuple[ca.SX, ca.SX]
Matrix = list[list[Complex | None]]
ZERO = ca.SX(0.0)


def _times(a: Complex, b: Complex) -> Complex:
    return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]


def _minus(a: Complex | None, b: Complex) -> Complex:
    return (-b[0], -b[1]) if a is None else (a[0] - b[0], a[1] - b[1])


def factor(matrix: Matrix) -> Matrix:
    """L (below the diagonal, which is 1) and U of a matrix, with the reciprocals of its pivots on the diagonal."""
    a, n = [list(row) for row in matrix], len(matrix)
    for k in range(n):
        pivot = a[k][k]
        assert pivot is not None
        size = 1 / (pivot[0] ** 2 + pivot[1] ** 2)
        a[k][k] = inverse = pivot[0] * size, -pivot[1] * size
        for i in range(k + 1, n):
            below = a[i][k]
            if below is None:
                continue
            a[i][k] = multiple = _times(below, inverse)
            for j in range(k + 1, n):
                right = a[k][j]
                if right is not None:
                    a[i][j] = _minus(a[i][j], _times(multiple, right))
    return a


def solve(factors: Matrix, b: list[Complex]) -> list[Complex]:
    """Solution of a system from the factors of its matrix."""
    x, n = list(b), len(b)
    for i in range(n):
        for j in range(i):
            entry = factors[i][j]
            if entry is not None:
                x[i] = _minus(x[i], _times(entry, x[j]))
    for i in reversed(range(n)):
        for j in range(i + 1, n):
            entry = factors[i][j]
            if entry is not None:
                x[i] = _minus(x[i], _times(entry, x[j]))
        diagonal = factors[i][i]
        assert diagonal is not None
        x[i] = _times(diagonal, x[i])
    return x


def stacked(numbers: list[Complex]) -> ca.SX:
    """Real and imaginary parts, one after the other."""
    return ca.densify(ca.vertcat(*[part for number in numbers for part in number]))


def entries(matrix: Matrix) -> list[Complex]:
    """Numbers of a matrix that are not zero, row by row."""
    return [x for row in matrix for x in row if x is not None]


def like(matrix: Matrix, name: str) -> tuple[Matrix, ca.SX]:
    """A matrix of symbols with the same zeros, and these symbols as they are `stacked`."""
    made: list[ca.SX] = []

    def symbol() -> Complex:
        pair = ca.SX.sym(f"{name}.re"), ca.SX.sym(f"{name}.im")
        made.extend(pair)
        return pair

    out: Matrix = [[None if x is None else symbol() for x in row] for row in matrix]
    return out, ca.vertcat(*made)
