"""Exponentials and their kin in all lanes at once: accuracy, unusual arguments, kernels that keep to the library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import casadi as ca
import mpmath
import numpy as np
import pytest

from dalembert.compiler import KernelSpec, compile_kernels, lower
from dalembert.compiler.elementary import ACCURACY, OWN
from dalembert.compiler.engine import fuses
from dalembert.compiler.operations import OPERATIONS, operation_name

pytestmark = pytest.mark.skipif(not fuses(), reason="this processor has no fused multiplication and addition")

ONE = {  # name: (of CasADi, of mpmath, ranges)
    "exp": (ca.exp, mpmath.exp, [(-1, 1), (-700, 700), (-1e-8, 1e-8)]),
    "expm1": (ca.expm1, mpmath.expm1, [(-0.4, 0.4), (-3, 3), (-700, 700), (-1e-8, 1e-8)]),
    "log": (ca.log, mpmath.log, [(0.5, 2), (0.999, 1.001), (1e-300, 1e-290), (1, 1e300)]),
    "tanh": (ca.tanh, mpmath.tanh, [(-0.3, 0.3), (-3, 3), (-30, 30), (-1e-9, 1e-9)]),
    "sinh": (ca.sinh, mpmath.sinh, [(-0.3, 0.3), (-3, 3), (-690, 690)]),
    "cosh": (ca.cosh, mpmath.cosh, [(-0.3, 0.3), (-3, 3), (-340, 340)]),
    "atan": (ca.atan, mpmath.atan, [(-0.5, 0.5), (-3, 3), (-300, 300), (-1e-9, 1e-9)]),
    "asin": (ca.asin, mpmath.asin, [(-1, 1), (0.99, 1), (-0.01, 0.01)]),
    "acos": (ca.acos, mpmath.acos, [(-1, 1), (0.99, 1), (-1, -0.99)]),
    "cube root": (lambda x: x ** (1 / 3), lambda x: x ** mpmath.mpf(1 / 3), [(0.1, 10), (1e-6, 1e6)]),
    "power 1.5": (lambda x: x**1.5, lambda x: x ** mpmath.mpf(1.5), [(0.1, 10), (1e-60, 1e60)]),
    "power -30.7": (lambda x: x**-30.7, lambda x: x ** mpmath.mpf(-30.7), [(0.9, 1.1), (1e-3, 1e3)]),
}
TWO = {
    "atan2": (ca.atan2, mpmath.atan2),
    "hypot": (lambda x, y: ca.SX.binary(ca.OP_HYPOT, x, y), mpmath.hypot),
    "pow": (lambda x, y: ca.fabs(x) ** y, lambda x, y: abs(x) ** y),
}


def kernel(n: int, f: Callable[[Any], Any], fused: bool = True) -> Callable[[np.ndarray], np.ndarray]:
    x = ca.SX.sym("x", n)
    made = compile_kernels([KernelSpec("f", x, ca.SX(), f(x), lanes=8, fused=fused)], backend="llvm")["f"]
    return lambda states: made(np.asarray(states, dtype=float).ravel()).reshape(-1, 8)


def units(value: float, exact: Any) -> float:
    """The error in units of the last place."""
    return float(abs(value - exact) / mpmath.mpf(float(np.spacing(abs(float(exact))))))


@pytest.mark.parametrize("name", list(ONE))
def test_accuracy(name: str) -> None:
    of_casadi, exact, ranges = ONE[name]
    f, rng = kernel(1, of_casadi), np.random.default_rng(1)
    with mpmath.workprec(200):
        for low, high in ranges:
            for _ in range(60):
                x = rng.uniform(low, high, 8)
                worst = max(units(v, exact(mpmath.mpf(float(a)))) for a, v in zip(x, f(x)[0], strict=True))
                assert worst < ACCURACY, (low, high, x)


def test_accuracy_of_powers_at_the_limits() -> None:
    f, rng = kernel(1, lambda x: x**-30.7), np.random.default_rng(3)
    with mpmath.workprec(200):
        for low, high in ((-9.5, -9.0), (9.0, 9.5)):  # results of 1e276 and more, 1e-276 and less
            for _ in range(60):
                x = 10.0 ** rng.uniform(low, high, 8)
                exact = [mpmath.mpf(float(a)) ** mpmath.mpf(-30.7) for a in x]
                assert max(units(v, e) for v, e in zip(f(x)[0], exact, strict=True)) < 8, x


@pytest.mark.parametrize("name", list(TWO))
def test_accuracy_of_two_arguments(name: str) -> None:
    of_casadi, exact = TWO[name]
    f, rng = kernel(2, lambda x: of_casadi(x[0], x[1])), np.random.default_rng(2)
    with mpmath.workprec(200):
        for size in (0.1, 1.0, 10.0):
            for _ in range(60):
                x, y = size * rng.standard_normal(8), rng.standard_normal(8)
                found = f(np.array([x, y]))[0]
                for a, b, v in zip(x, y, found, strict=True):
                    assert units(v, exact(mpmath.mpf(float(a)), mpmath.mpf(float(b)))) < ACCURACY, (a, b)


@pytest.mark.parametrize("op", sorted(OWN & OPERATIONS.keys()), ids=operation_name)
def test_unusual_arguments(op: int) -> None:
    """As the C library has them: zeros of either sign, infinities, no numbers, what overflows, what is not defined."""
    arity = OPERATIONS[op].arity

    def of(x: ca.SX) -> ca.SX:
        return ca.SX.unary(op, x[0]) if arity == 1 else ca.SX.binary(op, x[0], x[1])

    f, plain = kernel(arity, of), kernel(arity, of, fused=False)
    values = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        np.inf,
        -np.inf,
        np.nan,
        5e-324,
        -1e-310,
        1e-300,
        710.0,
        -745.2,
        1e300,
        -3.0,
        0.5,
        2.0,
    ]
    for shift in range(len(values)):
        for k in (0, 8):
            x = np.array([values[k : k + 8], np.roll(values, shift)[k : k + 8]])[:arity]
            found, expected = f(x)[0], plain(x)[0]
            np.testing.assert_allclose(found, expected, rtol=1e-15, atol=0, err_msg=str(x))
            assert np.array_equal(np.signbit(found), np.signbit(expected) | (np.isnan(found) & np.signbit(found)))


def test_only_fused_kernels_have_them() -> None:
    x = ca.SX.sym("x")
    for lanes, fused, ours in ((8, True, True), (8, False, False), (1, True, False)):
        code = lower.lower_module([KernelSpec("f", x, ca.SX(), ca.tanh(x), lanes=lanes, fused=fused).stream])
        assert ("call <8 x double> @elementary.tanh.8" in code) == ours
