"""Kernels with lanes: what they compute at several states at once is what they compute at each of them."""

from __future__ import annotations

from collections.abc import Callable

import casadi as ca
import numpy as np
import pytest

from dalembert.compiler import KernelSpec, UnsupportedOperation, compile_kernels, lower
from dalembert.compiler.lanes import by_lane
from dalembert.compiler.operations import OPERATIONS, operation_name

QUIET = sorted(set(OPERATIONS) - {ca.OP_PRINTME})
SAMPLES = np.array(
    [0.0, -0.0, 0.3, -0.7, 1.0, 12.25, -710.5, 3e200, np.inf, np.nan, 1e-9, -2.5, 0.999, 2.0**46, -3.0, 7.0]
)


def expression(op: int, x: ca.SX, y: ca.SX) -> ca.SX:
    return ca.SX.unary(op, x) if OPERATIONS[op].arity == 1 else ca.SX.binary(op, x, y)


@pytest.mark.parametrize("lanes", [2, 8])
def test_every_operation_in_every_lane(lanes: int, same_bits: Callable[[object, object], bool]) -> None:
    x, y, p = ca.SX.sym("x"), ca.SX.sym("y"), ca.SX.sym("p")
    out = ca.vertcat(*[expression(op, x, y) for op in QUIET], *[expression(op, x, p) for op in QUIET])
    specs = [KernelSpec(f"in {n}", ca.vertcat(x, y), p, out, lanes=n) for n in (1, lanes)]
    one, many = (compile_kernels([spec], backend="llvm")[spec.name] for spec in specs)
    assert (many.n_a, many.n_b, many.n_out) == (2 * lanes, 1, lanes * one.n_out)
    for shift in range(len(SAMPLES)):
        states = np.array([SAMPLES[:lanes], np.roll(SAMPLES, shift)[:lanes]])
        found = many(states.ravel(), [SAMPLES[shift]]).reshape(-1, lanes)
        for j in range(lanes):
            expected = one(states[:, j], [SAMPLES[shift]])
            for k, name in enumerate([operation_name(op) for op in QUIET] * 2):
                assert same_bits(found[k, j], expected[k]), (name, states[:, j], SAMPLES[shift])


def test_our_own_sines_in_lanes() -> None:
    """The same digits as four at a time, near and far."""
    x = ca.SX.sym("x", 2)
    out = ca.vertcat(ca.sin(x), ca.cos(x[0] * x[1]), ca.sin(ca.cos(x)))
    one, many = (compile_kernels([KernelSpec("f", x, ca.SX(), out, lanes=n)])["f"] for n in (1, 8))
    rng = np.random.default_rng(3)
    for size in (1.0, 1e3, 1e14, 1e17):
        states = size * rng.standard_normal((2, 8))
        expected = np.array([one(states[:, j]) for j in range(8)]).T
        assert np.array_equal(many(states.ravel()).reshape(-1, 8), expected)


def test_long_kernels_in_pieces(pendulum_chain: Callable[[int], tuple[ca.SX, ca.SX, ca.SX]]) -> None:
    """Values that cross from chunk to chunk travel with all their lanes."""
    state, p, out = pendulum_chain(12)
    spec = KernelSpec("chain", state, p, out, lanes=4)
    assert lower.lower_module([spec.stream]).count("define internal void @kernel_0.") >= 2
    one, many = compile_kernels([KernelSpec("chain", state, p, out)])["chain"], compile_kernels([spec])["chain"]
    states = np.random.default_rng(5).standard_normal((state.numel(), 4))
    expected = np.array([one(states[:, j], [0.7, 9.81]) for j in range(4)]).T
    assert np.array_equal(many(states.ravel(), [0.7, 9.81]).reshape(-1, 4), expected)


def test_lanes_have_a_cache_entry_of_their_own() -> None:
    x = ca.SX.sym("x")
    streams = [KernelSpec("f", x, ca.SX(), x * x, lanes=n).stream for n in (1, 2, 8)]
    assert len({stream.to_bytes() for stream in streams}) == 3


def test_the_virtual_machine_has_no_lanes() -> None:
    x = ca.SX.sym("x")
    with pytest.raises(ValueError, match="'vm' has no lanes: f"):
        compile_kernels([KernelSpec("f", x, ca.SX(), x * x, lanes=8)], backend="vm")
    call = ca.Function("g", [x], [x * x], {"never_inline": True})
    with pytest.raises(UnsupportedOperation):  # also where numbers would go to the virtual machine
        compile_kernels([KernelSpec("f", x, ca.SX(), call(x), lanes=8)])


def test_what_is_done_lane_by_lane() -> None:
    assert by_lane(ca.OP_EXP)
    assert by_lane(ca.OP_ATAN2)
    assert not any(by_lane(op) for op in (ca.OP_ADD, ca.OP_SQRT, ca.OP_FMIN, ca.OP_INPUT, ca.OP_OUTPUT))
