"""Instruction streams with a number for every value, and their sines and cosines in batches.

CasADi's streams reuse the slots they work on, and compute an angle just before its sine is wanted. Here every value has
a number of its own, and instructions are in order of their level: how many sines and cosines, one from the result of
the other, lie behind them. All those of one level are evaluated together, see `trigonometry`. The stages of an explicit
Runge-Kutta step, for example, are one level each.

In fused streams the sine and the cosine of a sum, or of a difference, whose terms are angles of the same level are
computed from theirs:

    sin(x + y) = sin x cos y + cos x sin y,    cos(x + y) = cos x cos y - sin x sin y

Their errors are of the size of rounding errors of 1, not of themselves. Bodies that hang on each other have many such
angles, and four products are a tenth of what a sine and a cosine cost.
"""

from __future__ import annotations

from collections import Counter
from typing import Final, NamedTuple

import casadi as ca

from .algebra import simplified
from .spec import Instruction, Stream
from .trigonometry import WIDTH

_PART: Final = {ca.OP_SIN: 0, ca.OP_COS: 1}


class Batch(NamedTuple):
    """Sines and cosines of some values.

    ``sines`` are the numbers of the sines; those of the cosines are the next ones.
    """

    angles: tuple[int, ...]
    sines: tuple[int, ...]

    @property
    def results(self) -> tuple[int, ...]:
        return tuple(n for sine in self.sines for n in (sine, sine + 1))


def arranged(stream: Stream, in_batches: bool) -> list[Instruction | Batch]:
    """The stream with numbered values; ``in_batches``: by level, with its sines and cosines in batches.

    The inputs of an ``OP_INPUT`` and the output of an ``OP_OUTPUT`` are what they were.
    """
    values = _numbered(stream)
    if stream.fused and in_batches:
        values = list(simplified(values, len(values)))
    sums: dict[int, tuple[int, int, int]] = {}  # number of a sum or a difference: OP_ADD or OP_SUB and its terms
    numbers: dict[int, int] = {}  # those of values in what is returned
    level: list[int] = []  # by number
    plain: list[list[Instruction]] = [[]]  # instructions by level
    angles: list[dict[int, int]] = [{}]  # by level: number of an angle -> number of its sine
    for op, inputs, output, constant in values:
        used = inputs if op == ca.OP_INPUT else tuple(numbers[value] for value in inputs)
        above = 0 if op == ca.OP_INPUT else max((level[i] for i in used), default=0)
        if in_batches and op in _PART:
            if used[0] not in angles[above]:
                angles[above][used[0]] = len(level)
                level += [above + 1] * 2
                if above + 1 == len(plain):
                    plain.append([])
                    angles.append({})
            numbers[output] = angles[above][used[0]] + _PART[op]
            continue
        number = output
        if op != ca.OP_OUTPUT:
            number = numbers[output] = len(level)
            level.append(above)
            if op in (ca.OP_ADD, ca.OP_SUB):
                sums[number] = op, used[0], used[1]
        plain[above].append(Instruction(op, used, number, constant))
    out: list[Instruction | Batch] = []
    free = len(level)  # numbers from here on
    for instructions, these in zip(plain, angles, strict=True):
        out += instructions
        composed = [
            angle for angle in these if stream.fused and angle in sums and all(x in these for x in sums[angle][1:])
        ]
        items = [(angle, sine) for angle, sine in these.items() if angle not in composed]
        for i in range(0, len(items), WIDTH):
            some = items[i : i + WIDTH]
            out.append(Batch(tuple(a for a, _ in some), tuple(s for _, s in some)))
        for angle in sorted(composed):  # terms have smaller numbers than sums
            op, x, y = sums[angle]
            out += _of_sum(op, these[x], these[y], these[angle], free)
            free += 4
    return _with_reciprocals(out, free) if stream.fused else out


def _numbered(stream: Stream) -> list[Instruction]:
    """The stream with the position of the instruction that makes a value in the place of the slot that holds it."""
    holds: dict[int, int] = {}  # slot -> number of the value
    out = []
    for k, (op, inputs, output, constant) in enumerate(stream):
        used = inputs if op == ca.OP_INPUT else tuple(holds[slot] for slot in inputs)
        if op != ca.OP_OUTPUT:
            holds[output] = output = k
        out.append(Instruction(op, used, output, constant))
    return out


def _with_reciprocals(stream: list[Instruction | Batch], free: int) -> list[Instruction | Batch]:
    """Several quotients with the same divisor as products with its reciprocal, by numbers from ``free`` on."""
    quotients = [x for x in stream if isinstance(x, Instruction) and x.op == ca.OP_DIV]
    shared = {x for x, n in Counter(x.inputs[1] for x in quotients).items() if n > 1}
    reciprocals: dict[int, int] = {}
    out: list[Instruction | Batch] = []
    for x in stream:
        if isinstance(x, Instruction) and x.op == ca.OP_DIV and x.inputs[1] in shared:
            divisor = x.inputs[1]
            if divisor not in reciprocals:
                reciprocals[divisor] = free
                out.append(Instruction(ca.OP_INV, (divisor,), free, 0.0))
                free += 1
            x = Instruction(ca.OP_MUL, (x.inputs[0], reciprocals[divisor]), x.output, 0.0)
        out.append(x)
    return out


def _of_sum(op: int, x: int, y: int, sine: int, free: int) -> list[Instruction]:
    """Sine and cosine of x + y or x - y; all of them are given by the numbers of their sines, then come the cosines."""
    other = ca.OP_SUB if op == ca.OP_ADD else ca.OP_ADD
    products = [(x, y + 1), (x + 1, y), (x + 1, y + 1), (x, y)]
    return [
        *[Instruction(ca.OP_MUL, pair, free + i, 0.0) for i, pair in enumerate(products)],
        Instruction(op, (free, free + 1), sine, 0.0),
        Instruction(other, (free + 2, free + 3), sine + 1, 0.0),
    ]
