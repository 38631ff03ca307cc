"""CasADi expressions as heyoka expressions."""

from __future__ import annotations

from typing import Any

import casadi as ca


def equations(t: ca.SX, y: ca.SX, rhs: ca.SX) -> list[tuple[Any, Any]]:
    """[(variable, its rate)] of y' = rhs(t, y), for `heyoka.taylor_adaptive`."""
    import heyoka as hy

    function = ca.Function("rhs", [t, y], [ca.densify(rhs)], {"cse": True})
    variables = [hy.expression(f"y{i}") for i in range(y.numel())]
    inputs: list[list[Any]] = [[hy.time], variables]
    unary = {
        ca.OP_NEG: lambda a: -a, ca.OP_SIN: hy.sin, ca.OP_COS: hy.cos, ca.OP_SQRT: hy.sqrt, ca.OP_EXP: hy.exp,
        ca.OP_LOG: hy.log, ca.OP_TAN: hy.tan, ca.OP_TANH: hy.tanh, ca.OP_SQ: lambda a: a * a,
        ca.OP_TWICE: lambda a: 2.0 * a, ca.OP_INV: lambda a: 1.0 / a, ca.OP_ASSIGN: lambda a: a,
    }  # fmt: skip
    binary = {
        ca.OP_ADD: lambda a, b: a + b, ca.OP_SUB: lambda a, b: a - b, ca.OP_MUL: lambda a, b: a * b,
        ca.OP_DIV: lambda a, b: a / b, ca.OP_POW: lambda a, b: a**b, ca.OP_CONSTPOW: lambda a, b: a**b,
    }  # fmt: skip
    work: dict[int, Any] = {}
    out: list[Any] = [hy.expression(0.0)] * rhs.numel()
    for k in range(function.n_instructions()):
        op, given, result = function.instruction_id(k), function.instruction_input(k), function.instruction_output(k)
        if op == ca.OP_CONST:
            work[result[0]] = hy.expression(function.instruction_constant(k))
        elif op == ca.OP_INPUT:
            work[result[0]] = inputs[given[0]][given[1]]
        elif op == ca.OP_OUTPUT:
            out[result[1]] = work[given[0]]
        elif op in unary:
            work[result[0]] = unary[op](work[given[0]])
        elif op in binary:
            work[result[0]] = binary[op](work[given[0]], work[given[1]])
        else:
            raise NotImplementedError(f"operation {op} of CasADi has no counterpart here")
    return list(zip(variables, out, strict=True))
