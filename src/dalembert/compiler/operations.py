"""What each CasADi operation means in LLVM IR.

The meaning is the one CasADi gives it when it evaluates an expression itself (``casadi/core/calculus.hpp``),
down to signed zeros and NaN, so that a compiled kernel and the CasADi evaluation agree bit for bit:

- no fast-math flag and no contraction anywhere;
- functions of the C library are called under private names (``dalembert_sin``), which hides them from LLVM's
  library-call simplifier. Left visible, it would fold or rewrite them (``pow(x, 0.5)`` to ``sqrt(x)``) with
  results that differ in the last bit from those of the library;
- except sines and cosines where the processor multiplies and adds in one: they are our own, right to one unit in the
  last place, and four at a time, see `trigonometry`;
- except kernels that are asked to be fused, which may differ in the last place, see `KernelSpec`;
- what IEEE 754 rounds exactly (sqrt, floor, ceil, fabs, copysign) uses LLVM intrinsics, hence
  machine instructions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import casadi as ca

from .libm import external
from .literals import literal

# LLVM has no instruction that copies. Adding -0.0 changes no value, and the optimiser knows that.
_COPY: Final = "{d} = fadd double {x}, -0.0"


@dataclass(frozen=True)
class Operation:
    """One CasADi operation.

    ``template`` holds lines of IR in which ``{d}`` is the name of the result, ``{x}`` and ``{y}`` are the
    operands, and names built from ``{d}`` (``{d}.1``) are temporaries.
    """

    name: str
    arity: int
    template: str


def _libm(function: str, arity: int) -> Operation:
    operands = ", ".join(f"double {{{v}}}" for v in "xy"[:arity])
    return Operation(function, arity, f"{{d}} = call double @{external(function)}({operands})")


def _intrinsic(function: str, arity: int = 1) -> Operation:
    operands = ", ".join(f"double {{{v}}}" for v in "xy"[:arity])
    return Operation(function, arity, f"{{d}} = call double @llvm.{function}.f64({operands})")


def _arithmetic(name: str, instruction: str) -> Operation:
    return Operation(name, 2, f"{{d}} = {instruction} double {{x}}, {{y}}")


def _compare(name: str, predicate: str) -> Operation:
    return Operation(name, 2, f"{{d}}.1 = fcmp {predicate} double {{x}}, {{y}}\n{{d}} = uitofp i1 {{d}}.1 to double")


def _logic(name: str, instruction: str) -> Operation:
    # In C a NaN counts as true, hence the unordered "not equal to zero".
    return Operation(
        name,
        2,
        "{d}.1 = fcmp une double {x}, 0.0\n"
        "{d}.2 = fcmp une double {y}, 0.0\n"
        f"{{d}}.3 = {instruction} i1 {{d}}.1, {{d}}.2\n"
        "{d} = uitofp i1 {d}.3 to double",
    )


def _extremum(name: str, predicate: str) -> Operation:
    # C's fmin and fmax return the operand that is not NaN. Of equal operands (zeros of either sign) C leaves
    # the choice open; libcasadi takes the first, at least on x86-64.
    return Operation(
        name,
        2,
        f"{{d}}.1 = fcmp {predicate} double {{x}}, {{y}}\n"
        "{d}.2 = select i1 {d}.1, double {x}, double {y}\n"
        "{d}.3 = fcmp uno double {y}, 0.0\n"
        "{d} = select i1 {d}.3, double {x}, double {d}.2",
    )


OPERATIONS: Final[dict[int, Operation]] = {
    ca.OP_ADD: _arithmetic("add", "fadd"),
    ca.OP_SUB: _arithmetic("sub", "fsub"),
    ca.OP_MUL: _arithmetic("mul", "fmul"),
    ca.OP_DIV: _arithmetic("div", "fdiv"),
    ca.OP_NEG: Operation("neg", 1, "{d} = fneg double {x}"),
    ca.OP_SQ: Operation("sq", 1, "{d} = fmul double {x}, {x}"),
    ca.OP_TWICE: Operation("twice", 1, "{d} = fmul double 2.0, {x}"),
    ca.OP_INV: Operation("inv", 1, "{d} = fdiv double 1.0, {x}"),
    ca.OP_SQRT: _intrinsic("sqrt"),
    ca.OP_FABS: _intrinsic("fabs"),
    ca.OP_FLOOR: _intrinsic("floor"),
    ca.OP_CEIL: _intrinsic("ceil"),
    ca.OP_COPYSIGN: _intrinsic("copysign", 2),
    ca.OP_EXP: _libm("exp", 1),
    ca.OP_LOG: _libm("log", 1),
    ca.OP_LOG1P: _libm("log1p", 1),
    ca.OP_EXPM1: _libm("expm1", 1),
    ca.OP_SIN: _libm("sin", 1),
    ca.OP_COS: _libm("cos", 1),
    ca.OP_TAN: _libm("tan", 1),
    ca.OP_ASIN: _libm("asin", 1),
    ca.OP_ACOS: _libm("acos", 1),
    ca.OP_ATAN: _libm("atan", 1),
    ca.OP_SINH: _libm("sinh", 1),
    ca.OP_COSH: _libm("cosh", 1),
    ca.OP_TANH: _libm("tanh", 1),
    ca.OP_ASINH: _libm("asinh", 1),
    ca.OP_ACOSH: _libm("acosh", 1),
    ca.OP_ATANH: _libm("atanh", 1),
    ca.OP_ERF: _libm("erf", 1),
    ca.OP_POW: _libm("pow", 2),
    ca.OP_CONSTPOW: _libm("pow", 2),
    ca.OP_ATAN2: _libm("atan2", 2),
    ca.OP_FMOD: _libm("fmod", 2),
    ca.OP_REMAINDER: _libm("remainder", 2),
    ca.OP_HYPOT: _libm("hypot", 2),
    ca.OP_ERFINV: Operation("erfinv", 1, "{d} = call double @erfinv(double {x})"),
    ca.OP_FMIN: _extremum("fmin", "ole"),
    ca.OP_FMAX: _extremum("fmax", "oge"),
    ca.OP_LT: _compare("lt", "olt"),
    ca.OP_LE: _compare("le", "ole"),
    ca.OP_EQ: _compare("eq", "oeq"),
    ca.OP_NE: _compare("ne", "une"),
    ca.OP_AND: _logic("and", "and"),
    ca.OP_OR: _logic("or", "or"),
    ca.OP_NOT: Operation("not", 1, "{d}.1 = fcmp oeq double {x}, 0.0\n{d} = uitofp i1 {d}.1 to double"),
    ca.OP_SIGN: Operation(  # x < 0 ? -1 : x > 0 ? 1 : x, so that zeros keep their sign and NaN stays NaN
        "sign",
        1,
        "{d}.1 = fcmp olt double {x}, 0.0\n"
        "{d}.2 = fcmp ogt double {x}, 0.0\n"
        "{d}.3 = select i1 {d}.2, double 1.0, double {x}\n"
        "{d} = select i1 {d}.1, double -1.0, double {d}.3",
    ),
    ca.OP_IF_ELSE_ZERO: Operation(  # x == 0 ? 0 : y
        "if_else_zero", 2, "{d}.1 = fcmp oeq double {x}, 0.0\n{d} = select i1 {d}.1, double 0.0, double {y}"
    ),
    ca.OP_PRINTME: Operation(
        "printme",
        2,
        f"{{d}}.1 = call i32 (ptr, ...) @{external('printf')}(ptr @printme, double {{y}}, double {{x}})\n" + _COPY,
    ),
    ca.OP_ASSIGN: Operation("assign", 1, _COPY),
    ca.OP_LIFT: Operation("lift", 2, _COPY),  # the second operand is a hint for other tools
}

#: Operations of our own, see `algebra`: x, but no larger than y; x^(1/3).
BOUNDED, CUBE_ROOT = -1, -2
OWN_OPERATIONS: Final[dict[int, Operation]] = {
    BOUNDED: Operation(
        "bounded",
        2,
        "{d}.1 = call double @llvm.fabs.f64(double {x})\n"
        "{d}.2 = fcmp ogt double {d}.1, {y}\n"
        "{d}.3 = call double @llvm.copysign.f64(double {y}, double {x})\n"
        "{d} = select i1 {d}.2, double {d}.3, double {x}",
    ),
    CUBE_ROOT: Operation(
        "cube_root", 1, f"{{d}} = call double @{external('pow')}(double {{x}}, double {literal(1 / 3)})"
    ),
}

_NAMES: Final = {getattr(ca, name): name for name in dir(ca) if name.startswith("OP_")}


def operation_name(op: int) -> str:
    """CasADi's name (``OP_CALL``) of an operation number."""
    return _NAMES.get(op, f"number {op}")


def _erfinv() -> str:
    """CasADi's ``erfinv``: a rational start value and, in the right-hand branch, two Newton corrections.

    The left-hand branch (x < -0.7) is returned as it starts, to about three digits. That is how CasADi
    computes it.
    """

    def rational(prefix: str, sign: str, argument: str) -> str:
        """The tail formula in z = sqrt(-log((1 +- x)/2)), the numerator negated when ``sign`` is -."""
        lines = [
            f"%{prefix}a = {argument}",
            f"%{prefix}b = fdiv double %{prefix}a, 2.0",
            f"%{prefix}c = call double @{external('log')}(double %{prefix}b)",
            f"%{prefix}d = fneg double %{prefix}c",
            f"%{prefix}z = call double @llvm.sqrt.f64(double %{prefix}d)",
            *_horner(f"{prefix}n", f"%{prefix}z", [1.641345311, 3.429567803, -1.624906493, -1.970840454]),
            *_horner(f"{prefix}q", f"%{prefix}z", [1.637067800, 3.543889200, 1.0]),
        ]
        numerator = f"%{prefix}n"
        if sign == "-":
            lines.append(f"%{prefix}m = fneg double %{prefix}n")
            numerator = f"%{prefix}m"
        lines.append(f"%{prefix} = fdiv double {numerator}, %{prefix}q")
        return "\n".join("  " + line for line in lines)

    centre = "\n".join(
        "  " + line
        for line in [
            "%cz = fmul double %x, %x",
            *_horner("cn", "%cz", [-0.140543331, 0.914624893, -1.645349621, 0.886226899]),
            "%cx = fmul double %x, %cn",
            *_horner("cq", "%cz", [-0.329097515, 0.012229801, 1.442710462, -2.118377725, 1.0]),
            "%c = fdiv double %cx, %cq",
        ]
    )

    def newton(prefix: str, y: str) -> str:
        """y - (erf(y) - x) / (2/sqrt(pi) * exp(-y*y))"""
        return f"""\
  %{prefix}1 = call double @{external("erf")}(double {y})
  %{prefix}2 = fsub double %{prefix}1, %x
  %{prefix}3 = fneg double {y}
  %{prefix}4 = fmul double %{prefix}3, {y}
  %{prefix}5 = call double @{external("exp")}(double %{prefix}4)
  %{prefix}6 = fmul double {literal(2.0 / math.sqrt(math.pi))}, %{prefix}5
  %{prefix}7 = fdiv double %{prefix}2, %{prefix}6
  %{prefix} = fsub double {y}, %{prefix}7"""

    return f"""\
define internal double @erfinv(double %x) noinline nounwind willreturn memory(none) {{
  %above = fcmp oge double %x, 1.0
  br i1 %above, label %upper_end, label %not_above
upper_end:
  %is_one = fcmp oeq double %x, 1.0
  %upper = select i1 %is_one, double {literal(math.inf)}, double {literal(math.nan)}
  ret double %upper
not_above:
  %below = fcmp ole double %x, -1.0
  br i1 %below, label %lower_end, label %inside
lower_end:
  %is_minus_one = fcmp oeq double %x, -1.0
  %lower = select i1 %is_minus_one, double {literal(-math.inf)}, double {literal(math.nan)}
  ret double %lower
inside:
  %is_left = fcmp olt double %x, {literal(-0.7)}
  br i1 %is_left, label %left, label %not_left
left:
{rational("l", "-", "fadd double 1.0, %x")}
  ret double %l
not_left:
  %is_centre = fcmp olt double %x, {literal(0.7)}
  br i1 %is_centre, label %centre, label %right
centre:
{centre}
  br label %polish
right:
{rational("r", "+", "fsub double 1.0, %x")}
  br label %polish
polish:
  %y = phi double [ %c, %centre ], [ %r, %right ]
{newton("s", "%y")}
{newton("t", "%s")}
  ret double %t
}}
"""


def _horner(result: str, z: str, coefficients: list[float]) -> list[str]:
    """Lines that evaluate a polynomial in ``z``, coefficients from the leading one down, in C's order."""
    lines, value = [], literal(coefficients[0])
    for k, coefficient in enumerate(coefficients[1:], start=1):
        name = f"%{result}" if k == len(coefficients) - 1 else f"%{result}{k}"
        lines.append(f"%{result}p{k} = fmul double {value}, {z}")
        lines.append(f"{name} = fadd double %{result}p{k}, {literal(coefficient)}")
        value = name
    return lines


#: Definitions that some operations refer to; the optimiser drops those that a module does not use.
SUPPORT: Final = '@printme = internal constant [19 x i8] c"|> %.15g : %.15g\\0A\\00\\00"\n' + _erfinv()
