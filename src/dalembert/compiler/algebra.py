"""Functions of functions that are algebraic, in fused kernels: roots take their place.

    cos(atan x) = 1/sqrt(1 + x^2),   sin(atan x) = x/sqrt(1 + x^2)
    x^(n + 1/2) = x^n sqrt(x),       x^-y = 1/x^y
    x^(n + 1/3), x^(n + 2/3):        by the cube root

Slopes of tracks and rails are arctangents whose sines and cosines are wanted, curvatures have powers of 3/2, and the
sizes of Hertz's contacts cube roots. Each of these functions costs as much as ten products, powers more: see
`elementary`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import casadi as ca

from .operations import BOUNDED, CUBE_ROOT
from .spec import Instruction

LARGEST: Final = 1e150  # slopes: beyond, squares overflow, and the sine is 1
MOST: Final = 4  # largest n: more factors would round more than a power does
ROUNDED: Final = 2.0**-51  # of thirds that are differences, as derivatives have them


def simplified(values: Iterable[Instruction], free: int) -> Iterator[Instruction]:
    """Instructions whose outputs are numbers of values (not of slots), without those functions.

    New values have numbers from ``free`` on. Arctangents whose angles nobody wants stay, for the optimiser to drop.
    """
    return _Rewriting(free).run(values)


class _Rewriting:
    """The walk over a stream: what its values are made of."""

    def __init__(self, free: int) -> None:
        self.free = free
        self.constants: dict[int, float] = {}
        self.slopes: dict[int, int] = {}  # number of an arctangent -> number of its argument
        self.roots: dict[int, tuple[int, int]] = {}  # of a slope: itself, bounded, and 1/sqrt(1 + x^2)

    def run(self, values: Iterable[Instruction]) -> Iterator[Instruction]:
        for x in values:
            if x.op == ca.OP_CONST:
                self.constants[x.output] = x.constant
            elif x.op == ca.OP_ATAN:
                self.slopes[x.output] = x.inputs[0]
            if x.op in (ca.OP_SIN, ca.OP_COS) and x.inputs[0] in self.slopes:
                yield from self._of_slope(x)
            elif x.op in (ca.OP_POW, ca.OP_CONSTPOW) and (root := _root(self.constants.get(x.inputs[1]))):
                yield from self._power(x, self.constants[x.inputs[1]], root)
            else:
                yield x

    def _new(self, op: int, *inputs: int, constant: float = 0.0) -> Instruction:
        self.free += 1
        return Instruction(op, inputs, self.free - 1, constant)

    def _of_slope(self, x: Instruction) -> Iterator[Instruction]:
        slope = self.slopes[x.inputs[0]]
        if slope not in self.roots:
            limit, one = self._new(ca.OP_CONST, constant=LARGEST), self._new(ca.OP_CONST, constant=1.0)
            bounded = self._new(BOUNDED, slope, limit.output)
            square = self._new(ca.OP_SQ, bounded.output)
            above = self._new(ca.OP_ADD, one.output, square.output)
            root = self._new(ca.OP_SQRT, above.output)
            inverse = self._new(ca.OP_INV, root.output)
            yield from (limit, one, bounded, square, above, root, inverse)
            self.roots[slope] = bounded.output, inverse.output
        bounded_slope, cosine = self.roots[slope]
        if x.op == ca.OP_SIN:
            yield Instruction(ca.OP_MUL, (bounded_slope, cosine), x.output, 0.0)
        else:
            yield Instruction(ca.OP_ASSIGN, (cosine,), x.output, 0.0)

    def _power(self, x: Instruction, exponent: float, root: int) -> Iterator[Instruction]:
        base, (n, parts) = x.inputs[0], divmod(round(root * abs(exponent)), root)
        first = self._new(ca.OP_SQRT if root == 2 else CUBE_ROOT, base)
        yield first
        product = first.output
        for k in range(parts - 1 + n):
            factor = self._new(ca.OP_MUL, first.output if k < parts - 1 else base, product)
            yield factor
            product = factor.output
        yield Instruction(ca.OP_ASSIGN if exponent > 0 else ca.OP_INV, (product,), x.output, 0.0)


def _root(exponent: float | None) -> int:
    """2 or 3: which root makes a power, with products; 0 if there is none, or it is not quicker."""
    if exponent is not None and abs(exponent) < MOST + 1:
        if abs(exponent) % 1.0 == 0.5:
            return 2
        thirds = round(3 * exponent)
        if thirds % 3 and abs(exponent - thirds / 3) <= ROUNDED:
            return 3
    return 0
