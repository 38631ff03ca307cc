"""The same operation on several numbers at once: LLVM's vectors in the place of numbers.

A kernel with lanes evaluates its expressions at `Stream.lanes` states in one pass. Entry i of its first argument is a
vector, the entries i of these states; the second argument is common to all. What machine instructions do, they do with
whole vectors, as many at a time as the processor's registers hold; functions of the C library are called lane by lane.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

import casadi as ca

from .elementary import OWN
from .engine import fuses
from .libm import ROUNDED, external
from .literals import literal
from .operations import OPERATIONS, Operation

# numbers in the templates of `operations`
_NUMBER: Final = re.compile(r"(?<![\w.])-?\d+\.\d+")
_BY_LANE: Final = (f"@{external('')}", "@erfinv")


def by_lane(op: int) -> bool:
    """True if a CasADi operation is done lane by lane, in fused kernels, too."""
    own = fuses() and (op in (ca.OP_SIN, ca.OP_COS) or op in OWN)
    return not own and op in OPERATIONS and any(function in OPERATIONS[op].template for function in _BY_LANE)


def kind(lanes: int, scalar: str = "double") -> str:
    """The type of a value."""
    return scalar if lanes == 1 else f"<{lanes} x {scalar}>"


def constant(lanes: int, value: float) -> str:
    """The literal of a value that is the same in all lanes."""
    return literal(value) if lanes == 1 else "<" + ", ".join([f"double {literal(value)}"] * lanes) + ">"


def spread(name: str, lanes: int, number: str) -> list[str]:
    """Lines that put one number into all lanes."""
    vector = kind(lanes)
    return [
        f"{name}.1 = insertelement {vector} poison, double {number}, i32 0",
        f"{name} = shufflevector {vector} {name}.1, {vector} poison, <{lanes} x i32> zeroinitializer",
    ]


def declarations(lanes: int) -> str:
    """Those of LLVM's functions of vectors that templates use."""
    vector = kind(lanes)
    lines = [
        f"declare {vector} @llvm.{f}.v{lanes}f64({', '.join([vector] * arguments)})" for f, arguments in ROUNDED.items()
    ]
    return "\n".join(lines) + "\n"


def lines_of(operation: Operation, lanes: int, name: str, operands: list[str]) -> list[str]:
    """An operation on vectors."""
    if any(function in operation.template for function in _BY_LANE):
        return _lane_by_lane(operation, lanes, name, operands)
    template = operation.template if lanes == 1 else _widened(operation.template, lanes)
    return template.format(d=name, x=operands[0], y=operands[-1]).split("\n")


@cache
def _widened(template: str, lanes: int) -> str:
    """A template for numbers as one for vectors."""
    text = _NUMBER.sub(lambda found: constant(lanes, float(found[0])).replace("double", "number"), template)
    text = re.sub(r"\b(double|i1)\b", lambda found: kind(lanes, found[0]), text)
    return text.replace("number", "double").replace(".f64(", f".v{lanes}f64(")


def _lane_by_lane(operation: Operation, lanes: int, name: str, operands: list[str]) -> list[str]:
    if lanes == 1:
        return operation.template.format(d=name, x=operands[0], y=operands[-1]).split("\n")
    lines, vector = [], "poison"
    for j in range(lanes):
        parts = []
        for which, operand in zip("xy", operands, strict=False):
            parts.append(f"{name}.{which}{j}")
            lines.append(f"{parts[-1]} = extractelement {kind(lanes)} {operand}, i32 {j}")
        lines += operation.template.format(d=f"{name}.d{j}", x=parts[0], y=parts[-1]).split("\n")
        result = name if j == lanes - 1 else f"{name}.v{j}"
        lines.append(f"{result} = insertelement {kind(lanes)} {vector}, double {name}.d{j}, i32 {j}")
        vector = result
    return lines
