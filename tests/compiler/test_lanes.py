"""Kernels with lanes: what they compute at several states at once is what they compute at each of them."""

from __future__ import annotations

from collections.abc import Callable

import casadi as ca
import mpmath
import numpy as np
import pytest

from dalembert.compiler import KernelSpec, UnsupportedOperation, compile_kernels, lower
from dalembert.compiler.engine import fuses
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
    assert by_lane(ca.OP_ERF)
    assert by_lane(ca.OP_FMOD)
    assert by_lane(ca.OP_TANH) != fuses()
    assert not any(by_lane(op) for op in (ca.OP_ADD, ca.OP_SQRT, ca.OP_FMIN, ca.OP_INPUT, ca.OP_OUTPUT))


# ---------------------------------------------------------------------- fused kernels
def fused(x: ca.SX, out: ca.SX, lanes: int) -> tuple[str, Callable[..., np.ndarray]]:
    """The code of a fused kernel, and the kernel."""
    spec = KernelSpec("f", x, ca.SX(), out, lanes=lanes, fused=True)
    return lower.lower_module([spec.stream]), compile_kernels([spec], backend="llvm")["f"]


@pytest.mark.skipif(not fuses(), reason="this processor has no fused multiplication and addition")
def test_quick_sines() -> None:
    """Below 1.6 units in the last place; what is far away is left to the library."""
    x = ca.SX.sym("x")
    _, kernel = fused(x, ca.vertcat(ca.sin(x), ca.cos(x)), 8)
    rng = np.random.default_rng(3)
    worst = 0.0
    with mpmath.workprec(240):
        for size in (np.pi / 4, 20.0, 1e4):
            for _ in range(150):
                angles = rng.uniform(-size, size, 8)
                found = kernel(angles).reshape(2, 8)
                for f, values in zip((mpmath.sin, mpmath.cos), found, strict=True):
                    for angle, value in zip(angles, values, strict=True):
                        exact = f(mpmath.mpf(float(angle)))
                        worst = max(worst, float(abs(value - exact) / mpmath.mpf(float(np.spacing(abs(float(exact)))))))
    assert 0.8 < worst < 1.6
    far = np.array([1e15, -1e22, np.inf, np.nan, 2.0**45, -(2.0**60), 0.5, 1e300])
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(kernel(far).reshape(2, 8), [np.sin(far), np.cos(far)], rtol=1e-15)


@pytest.mark.skipif(not fuses(), reason="this processor has no fused multiplication and addition")
@pytest.mark.parametrize("lanes", [1, 8])
def test_sines_of_sums_follow_from_those_of_the_terms(lanes: int) -> None:
    """Also of sums of sums, in whatever order they are asked for; but not if a term is no angle itself."""
    x = ca.SX.sym("x", 4)
    both, three = x[0] + x[1], x[0] + x[1] + x[2]
    angles = ca.vertcat(three, both, x[1] - x[2], x[0], x[1], x[2], x[3] + x[0])  # x[3] is no angle
    code, kernel = fused(x, ca.vertcat(ca.cos(angles), ca.sin(angles)), lanes)
    calls = code.count(" = call { <")
    assert calls == (4 if lanes > 1 else 1)  # x[0], x[1], x[2], x[3] + x[0]
    states = np.random.default_rng(4).uniform(-3, 3, (4, lanes))
    a, b, c, d = states
    expected = np.array([a + b + c, a + b, b - c, a, b, c, d + a])
    found = kernel(states.ravel()).reshape(14, lanes)
    np.testing.assert_allclose(found, np.concatenate([np.cos(expected), np.sin(expected)]), rtol=0, atol=1e-15)
    plain = KernelSpec("f", x, ca.SX(), ca.cos(angles), lanes=lanes)
    assert lower.lower_module([plain.stream]).count(" = call { <") == (7 if lanes > 1 else 2)


def divisions(code: str) -> int:
    """In the kernel itself: the functions that every module brings along have some, too."""
    return sum(part.count("fdiv") for part in code.split("define ") if part.split("(")[0].count("@kernel"))


@pytest.mark.parametrize("lanes", [1, 8])
def test_a_divisor_of_several_quotients_is_inverted_once(lanes: int) -> None:
    """Right to an ulp and a half; a quotient by itself is rounded once, as it always is."""
    x = ca.SX.sym("x", 4)
    divisor = x[0] + x[1]
    code, kernel = fused(x, ca.vertcat(x[2] / divisor, x[3] / divisor, x[0] / divisor, x[1] / x[2]), lanes)
    assert divisions(code) == 2
    states = np.random.default_rng(6).uniform(0.5, 2, (4, lanes))
    a, b, c, d = states
    found = kernel(states.ravel()).reshape(4, lanes)
    np.testing.assert_allclose(found[:3], [c / (a + b), d / (a + b), a / (a + b)], rtol=4e-16)
    assert np.array_equal(found[3], b / c)
    plain = KernelSpec("f", x, ca.SX(), x[2:4] / divisor, lanes=lanes)
    assert divisions(lower.lower_module([plain.stream])) == 2


@pytest.mark.skipif(not fuses(), reason="this processor has no fused multiplication and addition")
def test_products_and_sums_are_rounded_once() -> None:
    """But not where they go into a function that is not defined for what would then be less than zero."""
    x = ca.SX.sym("x", 2)
    difference = x[0] * x[0] - x[1] * x[1]
    _, kernel = fused(x, ca.vertcat(difference, ca.sqrt(x[0] * x[1] - x[1] * x[0])), 8)
    states = np.tile(1.0 + np.arange(8) * 0.1, (2, 1))
    differences, roots = kernel(states.ravel()).reshape(2, 8)
    square = states[0] * states[0]
    with mpmath.workprec(200):
        pairs = zip(states[0], square, strict=True)
        by_hand = [float(mpmath.mpf(float(a)) ** 2 - mpmath.mpf(float(s))) for a, s in pairs]
    assert np.array_equal(np.abs(differences), np.abs(by_hand))
    assert np.abs(differences).max() > 0
    assert np.array_equal(roots, np.zeros(8))


def test_fused_kernels_have_a_cache_entry_of_their_own() -> None:
    x = ca.SX.sym("x")
    streams = [KernelSpec("f", x, ca.SX(), x * x, lanes=8, fused=fused).stream for fused in (False, True)]
    assert streams[0].to_bytes() != streams[1].to_bytes()


def test_fused_kernels_agree_to_rounding(pendulum_chain: Callable[[int], tuple[ca.SX, ca.SX, ca.SX]]) -> None:
    """In pieces, too."""
    state, p, out = pendulum_chain(12)
    spec = KernelSpec("chain", state, p, out, lanes=8, fused=True)
    one, many = compile_kernels([KernelSpec("chain", state, p, out)])["chain"], compile_kernels([spec])["chain"]
    states = np.random.default_rng(5).standard_normal((state.numel(), 8))
    expected = np.array([one(states[:, j], [0.7, 9.81]) for j in range(8)]).T
    found = many(states.ravel(), [0.7, 9.81]).reshape(-1, 8)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12 * np.abs(expected).max())
