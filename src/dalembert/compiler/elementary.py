"""Exponentials, logarithms, powers, hyperbolic and inverse trigonometric functions of all lanes at once, in LLVM IR.

A call of the C library takes 5 to 30 ns for each lane; creep forces of wheels, friction that is smoothed by tanh, or
contact by Hertz's law have one on top of the other. Here the same function of eight numbers takes about as long as one
of them. Only fused kernels use these, which may differ from the C library in the last places, see `KernelSpec`: errors
are below 3 units in the last place (`ACCURACY`; powers whose result is beyond 1e100 or below 1e-100: 8). One lane where
the argument is unusual (infinite, not a number, tiny, negative under a logarithm) sends all of them to the C library.

    exp x:   x = k ln 2 + r, |r| <= ln(2)/2;  e^r = 1 + (r + r^2 P(r)),  and 2^k goes into the exponent
    e^x - 1: 2^k (r + r^2 P(r)) + (2^k - 1), of which sinh, cosh and tanh are made
    log x:   x = 2^k m, sqrt(1/2) <= m < sqrt 2;  log m = 2 artanh s = 2 s + s^3 L(s^2), s = (m - 1)/(m + 1)
    x^y:     e^(y log x), where the logarithm is the sum of two numbers
    x^(1/3): x = 2^(3k) y, 1/3 < y < 3; of z = R(y), which is y^(-1/3) to 1 %, one correction makes y z^2, and another
             one that right
    atan x:  of x, (x - 1)/(x + 1) or -1/x, whichever is within tan(pi/8), plus 0, pi/4 or pi/2;  w + w^3 T(w^2)

P, L and T are fitted at Chebyshev's nodes, to less than 2^-57 of the result (R: 2^-8); reductions after [CW80].

[CW80] W. J. Cody, W. Waite, Software Manual for the Elementary Functions, Prentice-Hall 1980.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, NamedTuple

import casadi as ca

from .operations import CUBE_ROOT, OPERATIONS, OWN_OPERATIONS, Operation
from .writer import ROUNDING, Writer

ACCURACY: Final = 3.0  # units in the last place

_LN2 = (float.fromhex("0x1.62e42fefa3800p-1"), float.fromhex("0x1.ef35793c76730p-45"))  # k times the first is exact
_HALF_PI = (math.pi / 2, float.fromhex("0x1.1a62633145c07p-54"))
_P: Final = [float.fromhex(x) for x in (
    "0x1.0000000000000p-1", "0x1.5555555555557p-3", "0x1.5555555555556p-5", "0x1.11111111100dfp-7",
    "0x1.6c16c16c162d6p-10", "0x1.a01a01abe6327p-13", "0x1.a01a01a6d7833p-16", "0x1.71de0237479e4p-19",
    "0x1.27e4db67abc75p-22", "0x1.af4ddda32bea9p-26", "0x1.1f72fc848c527p-29",
)]  # fmt: skip
_L: Final = [float.fromhex(x) for x in (
    "0x1.5555555555555p-1", "0x1.9999999999a38p-2", "0x1.2492492476ccbp-2", "0x1.c71c7201592afp-3",
    "0x1.745cf90485b72p-3", "0x1.3b1c355c49df7p-3", "0x1.0fbe95a8ce3f7p-3", "0x1.0c039e2d97702p-3",
)]  # fmt: skip
_T: Final = [float.fromhex(x) for x in (
    "-0x1.5555555555555p-2", "0x1.9999999999953p-3", "-0x1.249249248d7edp-3", "0x1.c71c71c304b22p-4",
    "-0x1.745d165df31fap-4", "0x1.3b1392d9ceef6p-4", "-0x1.110e8808c0b62p-4", "0x1.e19a139251315p-5",
    "-0x1.ac7a92673f8a2p-5", "0x1.74ddced402799p-5", "-0x1.1b33abc02b74cp-5", "0x1.0ad34c9872a05p-6",
)]  # fmt: skip
_R: Final = [float.fromhex(x) for x in (
    "0x1.0bb57251ed106p+1", "-0x1.6e09bf821612fp+1", "0x1.b10e3e3b53183p+1", "-0x1.33b5e9c69988ap+1",
    "0x1.f6ee3cd06e08fp-1", "-0x1.b364189fd5bc0p-3", "0x1.34dab89246440p-6",
)]  # fmt: skip
LARGEST_EXPONENT: Final = 700.0  # e^x and its inverse are ordinary numbers
SATURATED: Final = 20.0  # where tanh is 1
SMALLEST, LARGEST = 2.0**-1022, 1.7976931348623157e308  # ordinary numbers
APART: Final = 1e-150, 1e150  # numbers whose squares and quotients are ordinary


class _Exponential(NamedTuple):
    """e^x = 2^k (1 + p), with p (> -0.3) as accurate as it is small."""

    p: str
    scale: str  # 2^k


def _exponential(to: Writer, x: str, tail: str | None = None) -> _Exponential:
    """Of x + tail."""
    shifted = to.fma(x, to.constant(1 / math.log(2)), to.constant(ROUNDING))
    power = to.as_words(shifted)
    minus_k = to.op("fsub", to.constant(ROUNDING), shifted)
    r = to.fma(minus_k, to.constant(_LN2[0]), x)
    low = to.fma(minus_k, to.constant(_LN2[1]), tail) if tail else to.op("fmul", minus_k, to.constant(_LN2[1]))
    head = to.op("fadd", r, low)
    lost = to.op("fadd", to.op("fsub", r, head), low)
    square = to.op("fmul", head, head)
    p = to.op("fadd", head, to.fma(square, to.horner(head, _P), lost))
    exponent = to.word("shl", to.word("add", power, to.words(1023)), to.words(52))
    return _Exponential(p, to.as_numbers(exponent))


def _beyond(to: Writer, x: str, limit: float) -> str:
    """|x| >= limit, or not a number."""
    return to.compare("uge", to.rounded("fabs", x), to.constant(limit))


def _exp(to: Writer, x: str, _: str) -> tuple[int, str]:
    near = to.guard(_beyond(to, x, LARGEST_EXPONENT))
    e = _exponential(to, x)
    return near, to.fma(e.scale, e.p, e.scale)


def _less_one(to: Writer, x: str) -> str:
    """e^x - 1."""
    e = _exponential(to, x)
    return to.fma(e.scale, e.p, to.op("fsub", e.scale, to.constant(1.0)))


def _expm1(to: Writer, x: str, _: str) -> tuple[int, str]:
    return to.guard(_beyond(to, x, LARGEST_EXPONENT)), _less_one(to, x)


def _tanh(to: Writer, x: str, _: str) -> tuple[int, str]:
    """-t/(2 + t), t = e^(-2|x|) - 1; not a number if x is none."""
    size = to.rounded("fabs", x)
    size = to.choose(to.compare("ogt", size, to.constant(SATURATED)), to.constant(SATURATED), size)
    t = _less_one(to, to.op("fmul", size, to.constant(-2.0)))
    return 0, to.rounded("copysign", to.op("fdiv", t, to.op("fadd", t, to.constant(2.0))), x)


def _sinh(to: Writer, x: str, _: str) -> tuple[int, str]:
    """(t + t/(1 + t))/2, t = e^|x| - 1."""
    near = to.guard(_beyond(to, x, LARGEST_EXPONENT))
    t = _less_one(to, to.rounded("fabs", x))
    both = to.op("fadd", t, to.op("fdiv", t, to.op("fadd", t, to.constant(1.0))))
    return near, to.rounded("copysign", to.op("fmul", both, to.constant(0.5)), x)


def _cosh(to: Writer, x: str, _: str) -> tuple[int, str]:
    """1 + t^2/(2 (1 + t))."""
    near = to.guard(_beyond(to, x, LARGEST_EXPONENT / 2))
    t = _less_one(to, to.rounded("fabs", x))
    half = to.op("fdiv", to.op("fmul", t, to.constant(0.5)), to.op("fadd", t, to.constant(1.0)))
    return near, to.fma(t, half, to.constant(1.0))


def _logarithm(to: Writer, x: str) -> tuple[str, str]:
    """log x as the sum of a number and a small one."""
    bits = to.as_words(x)
    above = to.word("sub", bits, to.words(0x3FE6A09E667F3BCD))  # sqrt(1/2)
    k = to.word("ashr", above, to.words(52))
    m = to.as_numbers(to.word("sub", bits, to.word("shl", k, to.words(52))))
    n = to.put(f"sitofp {to.integers} {k} to {to.vector}")
    one = to.constant(1.0)
    f = to.op("fsub", m, one)  # exact
    # s = f/(2 + f), its denominator and itself with what rounding takes from them
    below = to.op("fadd", m, one)
    rest = to.op("fsub", f, to.op("fsub", below, to.constant(2.0)))
    over = to.op("fdiv", one, below)
    s = to.op("fmul", f, over)
    minus_s = to.minus(s)
    s_low = to.op("fmul", to.fma(minus_s, rest, to.fma(minus_s, below, f)), over)
    z = to.op("fmul", s, s)
    tail = to.fma(to.op("fmul", s, z), to.horner(z, _L), to.op("fadd", s_low, s_low))
    twice = to.op("fadd", s, s)
    large = to.op("fmul", n, to.constant(_LN2[0]))  # exact, and larger than 2 s or 0
    high = to.op("fadd", large, twice)
    lost = to.op("fadd", to.op("fsub", large, high), twice)
    return high, to.fma(n, to.constant(_LN2[1]), to.op("fadd", lost, tail))


def _unusual(to: Writer, x: str) -> str:
    """Not a positive number that a logarithm can be taken of in this way."""
    return to.either(to.compare("ult", x, to.constant(SMALLEST)), to.compare("ugt", x, to.constant(LARGEST)))


def _log(to: Writer, x: str, _: str) -> tuple[int, str]:
    near = to.guard(_unusual(to, x))
    high, low = _logarithm(to, x)
    return near, to.op("fadd", high, low)


def _pow(to: Writer, x: str, y: str) -> tuple[int, str]:
    high, low = _logarithm(to, x)
    product = to.op("fmul", y, high)
    near = to.guard(to.either(_unusual(to, x), _beyond(to, product, LARGEST_EXPONENT)))
    tail = to.fma(y, low, to.fma(y, high, to.minus(product)))
    e = _exponential(to, product, tail)
    return near, to.fma(e.scale, e.p, e.scale)


def _cube_root(to: Writer, x: str, _: str) -> tuple[int, str]:
    near = to.guard(_unusual(to, x))
    bits = to.as_words(x)
    exponent = to.word("ashr", to.word("sub", bits, to.words(0x3FE6A09E667F3BCD)), to.words(52))
    n = to.put(f"sitofp {to.integers} {exponent} to {to.vector}")
    k = to.as_words(to.fma(n, to.constant(1 / 3), to.constant(ROUNDING)))
    thrice = to.word("add", to.word("add", k, k), k)
    y = to.as_numbers(to.word("sub", bits, to.word("shl", thrice, to.words(52))))
    z = to.horner(y, _R)
    e = to.fma(to.minus(to.op("fmul", y, z)), to.op("fmul", z, z), to.constant(1.0))
    z = to.fma(to.op("fmul", z, e), to.horner(e, [1 / 3, 2 / 9, 14 / 81]), z)  # (1 - e)^(-1/3), less e^4/7
    square = to.op("fmul", z, z)
    c = to.op("fmul", y, square)
    minus_c = to.minus(c)
    high = to.op("fmul", c, c)
    low = to.fma(c, c, to.minus(high))
    rest = to.fma(minus_c, low, to.fma(minus_c, high, y))  # y - c^3
    c = to.fma(to.op("fmul", rest, square), to.constant(1 / 3), c)
    return near, to.as_numbers(to.word("add", to.as_words(c), to.word("shl", k, to.words(52))))


def _arctangent(to: Writer, x: str) -> str:
    """Of x >= 0, also of infinity."""
    one = to.constant(1.0)
    large = to.compare("ogt", x, to.constant(1 + math.sqrt(2)))
    middle = to.compare("ogt", x, to.constant(math.sqrt(2) - 1))
    above = to.choose(large, to.constant(-1.0), to.choose(middle, to.op("fsub", x, one), x))
    below = to.choose(large, x, to.choose(middle, to.op("fadd", x, one), one))

    def offset(i: int) -> str:
        half = to.choose(middle, to.constant(_HALF_PI[i] / 2), to.constant(0.0))
        return to.choose(large, to.constant(_HALF_PI[i]), half)

    w = to.op("fdiv", above, below)
    z = to.op("fmul", w, w)
    tail = to.fma(to.op("fmul", w, z), to.horner(z, _T), offset(1))
    return to.op("fadd", offset(0), to.op("fadd", w, tail))


def _atan(to: Writer, x: str, _: str) -> tuple[int, str]:
    return 0, to.rounded("copysign", _arctangent(to, to.rounded("fabs", x)), x)


def _asin(to: Writer, x: str, _: str) -> tuple[int, str]:
    """atan(|x|/sqrt((1 - |x|)(1 + |x|)))."""
    size, one = to.rounded("fabs", x), to.constant(1.0)
    square = to.op("fmul", to.op("fsub", one, size), to.op("fadd", one, size))
    angle = _arctangent(to, to.op("fdiv", size, to.rounded("sqrt", square)))
    return 0, to.rounded("copysign", angle, x)


def _acos(to: Writer, x: str, _: str) -> tuple[int, str]:
    """2 atan(sqrt((1 - x)/(1 + x)))."""
    one = to.constant(1.0)
    square = to.op("fdiv", to.op("fsub", one, x), to.op("fadd", one, x))
    angle = _arctangent(to, to.rounded("fabs", to.rounded("sqrt", square)))
    return 0, to.op("fadd", angle, angle)


def _atan2(to: Writer, y: str, x: str) -> tuple[int, str]:
    across, along = to.rounded("fabs", y), to.rounded("fabs", x)
    tiny = to.compare("ult", along, to.constant(APART[0]))
    near = to.guard(to.either(tiny, to.either(_beyond(to, y, APART[1]), _beyond(to, x, APART[1]))))
    angle = _arctangent(to, to.op("fdiv", across, along))
    back = to.op("fsub", to.constant(math.pi), to.op("fsub", angle, to.constant(2 * _HALF_PI[1])))
    behind = to.compare("olt", x, to.constant(0.0))
    return near, to.rounded("copysign", to.choose(behind, back, angle), y)


def _hypot(to: Writer, x: str, y: str) -> tuple[int, str]:
    near = to.guard(to.either(_small_or_large(to, x), _small_or_large(to, y)))
    return near, to.rounded("sqrt", to.fma(x, x, to.op("fmul", y, y)))


def _small_or_large(to: Writer, x: str) -> str:
    """Neither zero nor a number whose square is ordinary."""
    size = to.rounded("fabs", x)
    least = to.choose(to.compare("oeq", size, to.constant(0.0)), to.constant(1.0), size)
    return to.either(to.compare("olt", least, to.constant(APART[0])), to.compare("uge", size, to.constant(APART[1])))


#: By operation: writes the function, and returns where the lines begin that are not for all arguments (0:
#: there are none) and the result.
_WRITERS: Final[dict[int, Callable[[Writer, str, str], tuple[int, str]]]] = {
    ca.OP_EXP: _exp, ca.OP_EXPM1: _expm1, ca.OP_LOG: _log, ca.OP_POW: _pow, ca.OP_CONSTPOW: _pow, ca.OP_TANH: _tanh,
    ca.OP_SINH: _sinh, ca.OP_COSH: _cosh, ca.OP_ATAN: _atan, ca.OP_ASIN: _asin, ca.OP_ACOS: _acos, ca.OP_ATAN2: _atan2,
    ca.OP_HYPOT: _hypot, CUBE_ROOT: _cube_root,
}  # fmt: skip
OWN: Final = frozenset(_WRITERS)


def _operation(op: int) -> Operation:
    return OPERATIONS[op] if op in OPERATIONS else OWN_OPERATIONS[op]


def _name(op: int, width: int) -> str:
    return f"@elementary.{_operation(op).name}.{width}"


def definition(op: int, width: int) -> str:
    """The function of vectors for an operation."""
    to = Writer(width)
    near, result = _WRITERS[op](to, "%x", "%y")
    arguments = ", ".join(f"{to.vector} %{a}" for a in "xy"[: _operation(op).arity])
    head = f"{to.vector} {_name(op, width)}({arguments})"
    return to.function(head, near, f"ret {to.vector} {result}", _by_the_library(op, width))


def _by_the_library(op: int, width: int) -> str:
    """The same one by one."""
    lines, vector, last = [], f"<{width} x double>", "poison"
    operation = _operation(op)
    for j in range(width):
        lines += [f"%{a}{j} = extractelement {vector} %{a}, i32 {j}" for a in "xy"[: operation.arity]]
        lines.append(operation.template.format(d=f"%f{j}", x=f"%x{j}", y=f"%y{j}"))
        lines.append(f"%all{j} = insertelement {vector} {last}, double %f{j}, i32 {j}")
        last = f"%all{j}"
    return "\n".join([*lines, f"ret {vector} {last}"])


def call(op: int, name: str, operands: list[str], width: int) -> str:
    """The line that evaluates it."""
    vector = f"<{width} x double>"
    arguments = ", ".join(f"{vector} {operand}" for operand in operands)
    return f"{name} = call {vector} {_name(op, width)}({arguments})"
