"""Instruction streams with a number for every value, and their sines and cosines in batches.

CasADi's streams reuse the slots they work on, and compute an angle just before its sine is wanted. Here every value has
a number of its own, and instructions are in order of their level: how many sines and cosines, one from the result of
the other, lie behind them. All those of one level are evaluated together, see `trigonometry`. The stages of an explicit
Runge-Kutta step, for example, are one level each.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import casadi as ca

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
    holds: dict[int, int] = {}  # slot -> number of the value that it holds
    level: list[int] = []  # by number
    plain: list[list[Instruction]] = [[]]  # instructions by level
    angles: list[dict[int, int]] = [{}]  # by level: number of an angle -> number of its sine
    for op, inputs, output, constant in stream:
        used = inputs if op == ca.OP_INPUT else tuple(holds[slot] for slot in inputs)
        above = 0 if op == ca.OP_INPUT else max((level[i] for i in used), default=0)
        if in_batches and op in _PART:
            if used[0] not in angles[above]:
                angles[above][used[0]] = len(level)
                level += [above + 1] * 2
                if above + 1 == len(plain):
                    plain.append([])
                    angles.append({})
            holds[output] = angles[above][used[0]] + _PART[op]
            continue
        number = output
        if op != ca.OP_OUTPUT:
            number = holds[output] = len(level)
            level.append(above)
        plain[above].append(Instruction(op, used, number, constant))
    out: list[Instruction | Batch] = []
    for instructions, these in zip(plain, angles, strict=True):
        out += instructions
        items = list(these.items())
        for i in range(0, len(items), WIDTH):
            some = items[i : i + WIDTH]
            out.append(Batch(tuple(a for a, _ in some), tuple(s for _, s in some)))
    return out
