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
from .literals import literal

WIDTH: Final = 4
NAME: Final = "sines_and_cosines"

LARGEST: Final = 2.0**45
# to the nearest integer: adding and subtracting this leaves no places behind the point; the integer is in its last bits
_ROUNDING: Final = 1.5 * 2.0**52
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


class _Writer:
    """Lines of a function of vectors."""

    def __init__(self, width: int) -> None:
        self.width, self.lines = width, list[str]()
        self.vector, self.integers = f"<{width} x double>", f"<{width} x i64>"

    def constant(self, value: float) -> str:
        return "<" + ", ".join([f"double {literal(value)}"] * self.width) + ">"

    def words(self, value: int) -> str:
        return "<" + ", ".join([f"i64 {value}"] * self.width) + ">"

    def put(self, name: str, text: str) -> str:
        self.lines.append(f"  %{name} = {text}")
        return f"%{name}"

    def fma(self, name: str, a: str, b: str, c: str) -> str:
        vector = self.vector
        return self.put(name, f"call {vector} @llvm.fma.v{self.width}f64({vector} {a}, {vector} {b}, {vector} {c})")

    def op(self, name: str, what: str, a: str, b: str) -> str:
        return self.put(name, f"{what} {self.vector} {a}, {b}")

    def minus(self, name: str, a: str) -> str:
        return self.put(name, f"fneg {self.vector} {a}")

    def horner(self, name: str, z: str, coefficients: list[float]) -> str:
        value = self.constant(coefficients[-1])
        for i, c in enumerate(reversed(coefficients[:-1])):
            value = self.fma(f"{name}{i}", value, z, self.constant(c))
        return value


def _accurate(to: _Writer, m: str, first: str) -> tuple[str, str]:
    """Sine and cosine of first + m (P2 + P3)."""
    op, fma, one = to.op, to.fma, to.constant(1.0)
    # first + m P2 without an error, however much of it cancels: the product, the sum, and what rounding took from both
    p = op("p", "fmul", m, to.constant(P2))
    of_product = fma("of.product", m, to.constant(P2), to.minus("minus.p", p))
    r = op("r", "fadd", first, p)
    added = op("added", "fsub", r, first)
    of_first = op("of.first", "fsub", first, op("kept", "fsub", r, added))
    of_sum = op("of.sum", "fadd", of_first, op("of.p", "fsub", p, added))
    t = fma("t", m, to.constant(P3), op("of.both", "fadd", of_sum, of_product))
    # sine and cosine of r + t
    z = op("z", "fmul", r, r)
    half = op("half", "fmul", z, to.constant(0.5))
    w = op("w", "fsub", one, half)
    cube = op("cube", "fmul", op("zr", "fmul", z, r), to.horner("of.sine", z, SINE))
    sine = op("sine", "fadd", r, fma("below", t, w, cube))
    rest = op("rest", "fsub", op("one", "fsub", one, w), half)  # what rounding took from w
    tail = fma("tail", op("zz", "fmul", z, z), to.horner("of.cosine", z, COSINE), rest)
    return sine, op("cosine", "fadd", w, fma("tails", to.minus("minus", r), t, tail))


def _quick(to: _Writer, m: str, first: str) -> tuple[str, str]:
    """The same with fewer operations."""
    r = to.fma("r", m, to.constant(P2), first)
    z = to.op("z", "fmul", r, r)
    sine = to.fma("sine", to.op("zr", "fmul", z, r), to.horner("of.sine", z, QUICK_SINE), r)
    w = to.fma("w", z, to.constant(-0.5), to.constant(1.0))
    return sine, to.fma("cosine", to.op("zz", "fmul", z, z), to.horner("of.cosine", z, QUICK_COSINE), w)


def definition(width: int = WIDTH, quick: bool = False) -> str:
    """The function: a vector of angles to their sines and their cosines."""
    to, result = _Writer(width), _result(width)
    vector, integers, put = to.vector, to.integers, to.put
    # k and x - k pi/2
    shifted = to.fma("shifted", "%x", to.constant(2 / math.pi), to.constant(_ROUNDING))
    quarter = put("quarter", f"bitcast {vector} {shifted} to {integers}")
    m = to.op("m", "fsub", to.constant(_ROUNDING), shifted)
    first = to.fma("first", m, to.constant(P1), "%x")
    sine, cosine = _quick(to, m, first) if quick else _accurate(to, m, first)
    # by quarters; the last bit becomes the first one, which is what selections look at
    bit = put("bit", f"shl {integers} {quarter}, {to.words(63)}")
    odd = put("odd", f"icmp slt {integers} {bit}, {to.words(0)}")
    results = []
    # the sine changes its sign in the quarters 2 and 3, the cosine in 1 and 2
    following = put("following", f"add {integers} {quarter}, {to.words(1)}")
    for name, even, other, turn in (("sin", sine, cosine, quarter), ("cos", cosine, sine, following)):
        value = put(f"{name}.value", f"select <{width} x i1> {odd}, {vector} {other}, {vector} {even}")
        turned = put(f"{name}.turned", f"and {integers} {turn}, {to.words(2)}")
        sign = put(f"{name}.sign", f"shl {integers} {turned}, {to.words(62)}")
        bits = put(f"{name}.bits", f"bitcast {vector} {value} to {integers}")
        flipped = put(f"{name}.flipped", f"xor {integers} {bits}, {sign}")
        results.append(put(name, f"bitcast {integers} {flipped} to {vector}"))
    both = put("both", f"insertvalue {result} poison, {vector} {results[0]}, 0")
    put("result", f"insertvalue {result} {both}, {vector} {results[1]}, 1")
    body = "\n".join([*to.lines, f"  ret {result} %result"])
    return f"""\
define internal {result} {_function(width, quick)}({vector} %x) noinline nounwind willreturn memory(none) {{
  %size = call {vector} @llvm.fabs.v{width}f64({vector} %x)
  %far = fcmp uge {vector} %size, {to.constant(LARGEST)}
  %mask = bitcast <{width} x i1> %far to i{width}
  %near = icmp eq i{width} %mask, 0
  br i1 %near, label %here, label %elsewhere
here:
{body}
elsewhere:
{_by_the_library(width)}
}}
"""


def declaration(width: int) -> str:
    """What these functions need of LLVM."""
    vector = f"<{width} x double>"
    return f"declare {vector} @llvm.fma.v{width}f64({vector}, {vector}, {vector})\n"


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
    return "\n".join(f"  {line}" for line in lines)


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
