"""Sines and cosines of four angles at once (or of as many as there are lanes), in LLVM IR.

A call of the C library for each sine and each cosine takes about 10 ns, and every value that is alive has to be stored
before and loaded after it. Mechanisms have many angles; four of them at once take about as long as one.

    k = nearest integer to x 2/pi,    r + t = x - k pi/2,    |r| <= pi/4

pi/2 is the sum of three doubles, P1 + P2 + P3, to 160 bits [CW80]. By a fused multiplication and addition x - k P1 is
exact: a multiple of the last place of P1, smaller than 1. r is the head and t the tail of what is left. Sine and cosine
of r are taken from their Taylor series, good to 2^-58 on that interval, whose first terms are added last and with what
rounding took from them, so that the errors are below one unit in the last place:

    sin(r + t) = r + (r^3 S(r^2) + t (1 - r^2/2)),      cos(r + t) = 1 - r^2/2 + (r^4 C(r^2) - r t)

and the quarter k mod 4 says which of the two, and with which sign. Angles of 2^45 and more, infinity and NaN are left
to the C library. (The sine of -0 is 0.)

Quick ones do without the tail t and what rounding took from 1 - r^2/2, and have fewer terms, fitted to the interval by
Chebyshev's polynomials (to 2^-55). Errors are below 1.6 units in the last place or, where almost all of
a large angle cancels, below k 2^-110.

[CW80] W. J. Cody, W. Waite, Software Manual for the Elementary Functions, Prentice-Hall 1980.
"""

from __future__ import annotations

import math
from typing import Final

from .libm import external
from .writer import ROUNDING, Writer

WIDTH: Final = 4
NAME: Final = "sines_and_cosines"

LARGEST: Final = 2.0**45
P1, P2, P3 = (float.fromhex(x) for x in ("0x1.921fb54442d18p0", "0x1.1a62633145c07p-54", "-0x1.f1976b7ed8fbcp-110"))
SINE: Final = [(-1) ** n / math.factorial(2 * n + 1) for n in range(1, 9)]  # of r^3, r^5, ... r^17
COSINE: Final = [(-1) ** n / math.factorial(2 * n) for n in range(2, 9)]  # of r^4, r^6, ... r^16
# r^3, ... r^13 and r^4, ... r^14 of the quick ones
QUICK_SINE: Final = [float.fromhex(x) for x in (
    "-0x1.5555555555555p-3", "0x1.1111111110bb2p-7", "-0x1.a01a019e83816p-13", "0x1.71de379654304p-19",
    "-0x1.ae600aca92c63p-26", "0x1.5e0b05bff209ap-33",
)]  # fmt: skip
QUICK_COSINE: Final = [float.fromhex(x) for x in (
    "0x1.5555555555555p-5", "-0x1.6c16c16c16967p-10", "0x1.a01a019f4e9b4p-16", "-0x1.27e4fa17bf139p-22",
    "0x1.1eeb68cd22f1cp-29", "-0x1.907d8f29fc5c0p-37",
)]  # fmt: skip


def _function(width: int, quick: bool) -> str:
    return f"@{NAME}.{width}{'.quick' if quick else ''}"


def _result(width: int) -> str:
    return f"{{ <{width} x double>, <{width} x double> }}"


def _accurate(to: Writer, m: str, first: str) -> tuple[str, str]:
    """Sine and cosine of first + m (P2 + P3)."""
    op, fma, one = to.op, to.fma, to.constant(1.0)
    # first + m P2 without an error, however much of it cancels: the product, the sum, and what rounding took from both
    p = op("fmul", m, to.constant(P2))
    of_product = fma(m, to.constant(P2), to.minus(p))
    r = op("fadd", first, p)
    added = op("fsub", r, first)
    of_first = op("fsub", first, op("fsub", r, added))
    of_sum = op("fadd", of_first, op("fsub", p, added))
    t = fma(m, to.constant(P3), op("fadd", of_sum, of_product))
    # sine and cosine of r + t
    z = op("fmul", r, r)
    half = op("fmul", z, to.constant(0.5))
    w = op("fsub", one, half)
    cube = op("fmul", op("fmul", z, r), to.horner(z, SINE))
    sine = op("fadd", r, fma(t, w, cube))
    rest = op("fsub", op("fsub", one, w), half)  # what rounding took from w
    tail = fma(op("fmul", z, z), to.horner(z, COSINE), rest)
    return sine, op("fadd", w, fma(to.minus(r), t, tail))


def _quick(to: Writer, m: str, first: str) -> tuple[str, str]:
    """The same with fewer operations."""
    r = to.fma(m, to.constant(P2), first)
    z = to.op("fmul", r, r)
    sine = to.fma(to.op("fmul", z, r), to.horner(z, QUICK_SINE), r)
    w = to.fma(z, to.constant(-0.5), to.constant(1.0))
    return sine, to.fma(to.op("fmul", z, z), to.horner(z, QUICK_COSINE), w)


def definition(width: int = WIDTH, quick: bool = False) -> str:
    """The function: a vector of angles to their sines and their cosines."""
    to, result = Writer(width), _result(width)
    far = to.compare("uge", to.rounded("fabs", "%x"), to.constant(LARGEST))
    near = to.guard(far)
    # k and x - k pi/2
    shifted = to.fma("%x", to.constant(2 / math.pi), to.constant(ROUNDING))
    quarter = to.as_words(shifted)
    m = to.op("fsub", to.constant(ROUNDING), shifted)
    first = to.fma(m, to.constant(P1), "%x")
    sine, cosine = _quick(to, m, first) if quick else _accurate(to, m, first)
    # by quarters; the last bit becomes the first one, which is what selections look at
    bit = to.word("shl", quarter, to.words(63))
    odd = to.put(f"icmp slt {to.integers} {bit}, {to.words(0)}")
    results = []
    # the sine changes its sign in the quarters 2 and 3, the cosine in 1 and 2
    following = to.word("add", quarter, to.words(1))
    for even, other, turn in ((sine, cosine, quarter), (cosine, sine, following)):
        sign = to.word("shl", to.word("and", turn, to.words(2)), to.words(62))
        value = to.as_words(to.choose(odd, other, even))
        results.append(to.as_numbers(to.word("xor", value, sign)))
    both = to.put(f"insertvalue {result} poison, {to.vector} {results[0]}, 0")
    last = to.put(f"insertvalue {result} {both}, {to.vector} {results[1]}, 1")
    head = f"{result} {_function(width, quick)}({to.vector} %x)"
    return to.function(head, near, f"ret {result} {last}", _by_the_library(width))


def _by_the_library(width: int) -> str:
    """The same one by one."""
    lines, vector, result = [], f"<{width} x double>", _result(width)
    for j in range(width):
        lines.append(f"%x{j} = extractelement {vector} %x, i32 {j}")
        for part, function in (("s", "sin"), ("c", "cos")):
            lines.append(f"%{part}{j} = call double @{external(function)}(double %x{j})")
            before = f"%{part}.{j - 1}" if j else "poison"
            lines.append(f"%{part}.{j} = insertelement {vector} {before}, double %{part}{j}, i32 {j}")
    lines.append(f"%slow.sines = insertvalue {result} poison, {vector} %s.{width - 1}, 0")
    lines.append(f"%slow = insertvalue {result} %slow.sines, {vector} %c.{width - 1}, 1")
    lines.append(f"ret {result} %slow")
    return "\n".join(lines)


def call(name: str, angles: list[str]) -> list[str]:
    """Lines that evaluate up to four angles: their sines are in ``name``.s, their cosines in ``name``.c."""
    lines, vector = [], "poison"
    for j in range(WIDTH):
        angle = angles[min(j, len(angles) - 1)]
        lines.append(f"{name}.{j} = insertelement <{WIDTH} x double> {vector}, double {angle}, i32 {j}")
        vector = f"{name}.{j}"
    return lines + call_vector(name, vector, WIDTH)


def call_vector(name: str, angles: str, width: int, quick: bool = False) -> list[str]:
    """The same for a vector of angles."""
    lines = [f"{name}.r = call {_result(width)} {_function(width, quick)}(<{width} x double> {angles})"]
    return lines + [f"{name}.{part} = extractvalue {_result(width)} {name}.r, {i}" for i, part in enumerate("sc")]


def one_of(name: str, batch: str, part: str, j: int) -> str:
    """The line that takes the j-th sine ("s") or cosine ("c") from the result of `call`."""
    return f"{name} = extractelement <{WIDTH} x double> {batch}.{part}, i32 {j}"
