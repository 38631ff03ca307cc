"""How much rounding there is in an expression: a running error analysis, written as expressions itself.

[H02] N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., SIAM 2002, section 3.3.

If every operation f(a, b) and every number that it begins with is rounded, then in units of the rounding error

    e_f = |df/da| e_a + |df/db| e_b + |f|

bounds the error to first order. Forces that balance each other, large ones with a small sum, show in it; they do not
show in that sum, nor in its derivatives if they are constant.
"""

from __future__ import annotations

from collections.abc import Sequence

import casadi as ca

from dalembert.compiler.spec import Stream


def rounding(expression: ca.SX, symbols: Sequence[ca.SX]) -> ca.SX:
    """Bounds of the rounding errors of the entries of a column, in units of that of a number of size 1, as a column.

    Examples
    --------
    >>> spring, weight = ca.SX.sym("spring"), ca.SX.sym("weight")
    >>> error = ca.Function("error", [spring, weight], [rounding(spring - weight, [spring, weight])])
    >>> float(error(1e6 + 0.5, 1e6)) == (1e6 + 0.5) + 1e6 + 0.5
    True
    """
    function = ca.Function("expression", list(symbols), [ca.densify(expression)], {"cse": True})
    values: dict[int, tuple[ca.SX, ca.SX]] = {}  # by slot: the number, and the bound of its error
    out = ca.SX.zeros(expression.numel(), 1)
    for op, inputs, output, constant in Stream.of(function):
        if op == ca.OP_OUTPUT:
            out[output] = values[inputs[0]][1]
            continue
        if op == ca.OP_CONST:
            value, error = ca.SX(constant), ca.SX(0.0)
        elif op == ca.OP_INPUT:
            value, error = symbols[inputs[0]][inputs[1]], ca.SX(0.0)
        else:
            value, error = _operation(op, [values[i] for i in inputs])
        values[output] = value, error + ca.fabs(value)
    return out


def _operation(op: int, operands: Sequence[tuple[ca.SX, ca.SX]]) -> tuple[ca.SX, ca.SX]:
    """The result, and what becomes of the errors of the operands."""
    made = ca.SX.unary if len(operands) == 1 else ca.SX.binary
    numbers = [ca.SX.sym("a") for _ in operands]
    result = made(op, *numbers)
    error = ca.SX(0.0)
    for number, (_, of_operand) in zip(numbers, operands, strict=True):
        error += ca.fabs(ca.jacobian(result, number)) * of_operand
    value, error = ca.substitute([result, error], numbers, [value for value, _ in operands])
    return value, error
