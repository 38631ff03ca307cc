"""Every operation against CasADi's own evaluation, on ordinary and on extreme arguments."""

import ctypes
import platform
from collections.abc import Callable

import casadi as ca
import numpy as np
import pytest

from dalembert.compiler import Kernel, KernelSpec, compile_kernels, trigonometry
from dalembert.compiler.operations import OPERATIONS, operation_name

# fmt: off
SAMPLES = np.array([
    0.0, -0.0, 0.3, -0.3, 0.69, 0.7, -0.7, 0.71, -0.9, 0.999999, 1.0, -1.0, 1.5, -2.5, 3.0, 12.25, -710.5,
    1e-9, -4e-310, 1e22, -3e200, np.inf, -np.inf, np.nan,
])
# fmt: on
# CasADi removes copies when it builds an expression, and a power is constant only with a constant exponent.
REPLACED = {ca.OP_ASSIGN, ca.OP_LIFT, ca.OP_CONSTPOW}
QUIET = sorted(set(OPERATIONS) - {ca.OP_PRINTME})


def expression(op: int, x: ca.SX, y: ca.SX) -> ca.SX:
    return ca.SX.unary(op, x) if OPERATIONS[op].arity == 1 else ca.SX.binary(op, x, y)


@pytest.fixture(scope="module")
def symbols() -> tuple[ca.SX, ca.SX]:
    return ca.SX.sym("x"), ca.SX.sym("y")


@pytest.fixture(scope="module")
def specs(symbols: tuple[ca.SX, ca.SX]) -> list[KernelSpec]:
    return [KernelSpec(operation_name(op), *symbols, expression(op, *symbols)) for op in QUIET]


@pytest.fixture(scope="module")
def llvm(specs: list[KernelSpec]) -> dict[str, Kernel]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DALEMBERT_CACHE", "0")
        patch.setattr(trigonometry, "LARGEST", 0.0)  # test_trigonometry has what is our own
        return compile_kernels(specs, backend="llvm")


@pytest.fixture(scope="module")
def vm(specs: list[KernelSpec]) -> dict[str, Kernel]:
    return compile_kernels(specs, backend="vm")


@pytest.mark.parametrize("op", QUIET, ids=operation_name)
def test_operation_is_casadis(
    op: int,
    symbols: tuple[ca.SX, ca.SX],
    llvm: dict[str, Kernel],
    vm: dict[str, Kernel],
    same_bits: Callable[[object, object], bool],
) -> None:
    name = operation_name(op)
    f = ca.Function("f", list(symbols), [expression(op, *symbols)])
    if op not in REPLACED:
        assert op in [f.instruction_id(k) for k in range(f.n_instructions())]
    for x in SAMPLES:
        for y in SAMPLES if OPERATIONS[op].arity == 2 else [0.0]:
            expected = float(f(x, y))
            actual = llvm[name]([x], [y])[0]
            if op in (ca.OP_FMIN, ca.OP_FMAX) and platform.machine() not in ("x86_64", "AMD64"):
                expected, actual = (
                    expected + 0.0,
                    actual + 0.0,
                )  # which of two zeros is the processor's choice
            assert same_bits(actual, expected), (name, x, y, actual, expected)
            assert same_bits(vm[name]([x], [y]), float(f(x, y)))


def test_every_elementary_operation_of_casadi_is_known() -> None:
    """Whatever SX.unary or SX.binary accepts can be compiled, in this version of CasADi too."""
    x, y = ca.SX.sym("x"), ca.SX.sym("y")
    seen = set()
    numbers = [getattr(ca, name) for name in dir(ca) if name.startswith("OP_")]
    for op in numbers:
        for build in (lambda op=op: ca.SX.unary(op, x), lambda op=op: ca.SX.binary(op, x, y)):
            try:
                f = ca.Function("f", [x, y], [build()])
            except (RuntimeError, NotImplementedError):
                continue
            seen |= {f.instruction_id(k) for k in range(f.n_instructions())}
    assert seen - {ca.OP_INPUT, ca.OP_OUTPUT, ca.OP_CONST} <= set(OPERATIONS)


def test_constants_keep_every_bit(same_bits: Callable[[object, object], bool]) -> None:
    constants = [0.1, 0.0, 1e-320, np.nextafter(1.0, 2.0), np.inf, -np.inf, np.nan, np.pi]
    out = ca.vertcat(*[ca.SX(c) for c in constants])
    kernel = compile_kernels([KernelSpec("constants", ca.SX(), ca.SX(), out)], backend="llvm")["constants"]
    assert same_bits(kernel([]), constants)


def test_library_calls_are_not_rewritten(same_bits: Callable[[object, object], bool]) -> None:
    """LLVM would turn pow(x, 0.5) or pow(x, 2) into something that rounds differently."""
    x, y = ca.SX.sym("x"), ca.SX.sym("y")
    powers = [0.5, 2.0, -0.5, 1 / 3, 3.0, -1.0]
    out = ca.vertcat(*[ca.SX.binary(ca.OP_POW, x, p) for p in powers], ca.sin(x) * ca.cos(x), ca.exp(y) * ca.exp(-y))
    kernel = compile_kernels([KernelSpec("f", x, y, out)], backend="llvm")["f"]
    f = ca.Function("f", [x, y], [out])
    assert ca.OP_CONSTPOW in [f.instruction_id(k) for k in range(f.n_instructions())]
    for x_value in np.random.default_rng(1).uniform(0.1, 30.0, 200):
        assert same_bits(kernel([x_value], [x_value / 7]), f(x_value, x_value / 7))


def test_printme_prints(capfd: pytest.CaptureFixture[str]) -> None:
    x = ca.SX.sym("x")
    kernel = compile_kernels([KernelSpec("f", x, ca.SX(), x.printme(7) + 1)], backend="llvm")["f"]
    assert kernel([2.5]) == [3.5]
    ctypes.CDLL(None).fflush(None)
    assert capfd.readouterr().out == "|> 7 : 2.5\n"
