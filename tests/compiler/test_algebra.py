"""Sines and cosines of arctangents, powers of halves and thirds, in fused kernels: what they are, and that they are
roots."""

from __future__ import annotations

import casadi as ca
import mpmath
import numpy as np
import pytest

from dalembert.compiler import Kernel, KernelSpec, compile_kernels, lower
from dalembert.compiler.engine import fuses

needs_fused = pytest.mark.skipif(not fuses(), reason="the processor does not multiply and add in one")
EXPONENTS = (0.5, 1.5, 2.5, 4.5, -0.5, -1.5, -3.5)
THIRDS = (1, 2, 4, 5, 13, -1, -2, -5)
UNITS = 4.0  # units in the last place: up to five roundings


def kernel(out: ca.SX, x: ca.SX, lanes: int, fused: bool = True) -> Kernel:
    return compile_kernels([KernelSpec("f", x, ca.SX(0, 1), out, lanes=lanes, fused=fused)], backend="llvm")["f"]


def off(found: float, exact: mpmath.mpf) -> float:
    """In units in the last place."""
    return float(abs(mpmath.mpf(float(found)) - exact) / np.spacing(abs(float(exact))))


@pytest.mark.parametrize("lanes", [1, 8])
def test_of_slopes(lanes: int) -> None:
    """Also of a slope whose angle is used otherwise, and of large ones."""
    x = ca.SX.sym("x")
    angle = ca.atan(x)
    f = kernel(ca.vertcat(ca.sin(angle), ca.cos(angle), angle, ca.sin(2.0 * angle)), x, lanes)
    rng = np.random.default_rng(1)
    for size in (1e-8, 1e-2, 1.0, 1e3, 1e12):
        slopes = size * rng.standard_normal(8)
        found = np.array([f([s]) for s in slopes]).T if lanes == 1 else f(slopes).reshape(4, 8)
        for j, slope in enumerate(slopes):
            exact = mpmath.mpf(float(slope))
            root = mpmath.sqrt(1 + exact**2)
            assert off(found[0, j], exact / root) < UNITS, slope
            assert off(found[1, j], 1 / root) < UNITS, slope
        np.testing.assert_allclose(found[2], np.arctan(slopes), rtol=1e-15)
        np.testing.assert_allclose(found[3], np.sin(2 * np.arctan(slopes)), atol=4e-16)


@pytest.mark.parametrize("lanes", [1, 8])
def test_of_unusual_slopes(lanes: int) -> None:
    x = ca.SX.sym("x")
    f = kernel(ca.vertcat(ca.sin(ca.atan(x)), ca.cos(ca.atan(x))), x, lanes)
    slopes = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e200, -1e300, 5e-324])
    found = np.array([f([s]) for s in slopes]).T if lanes == 1 else f(slopes).reshape(2, 8)
    np.testing.assert_allclose(found[0], [0, 0, 1, -1, np.nan, 1, -1, 5e-324], rtol=1e-15)
    np.testing.assert_allclose(found[1], [1, 1, 0, 0, np.nan, 0, 0, 1], atol=1e-16)
    assert list(np.signbit(found[0, :2])) == [False, True]


@pytest.mark.parametrize("lanes", [1, 8])
def test_powers_of_halves(lanes: int) -> None:
    x = ca.SX.sym("x")
    f = kernel(ca.vertcat(*[x**k for k in EXPONENTS]), x, lanes)
    rng = np.random.default_rng(2)
    for size in (1e-30, 1e-3, 1.0, 1e4, 1e30):
        bases = size * (0.1 + rng.random(8))
        found = np.array([f([b]) for b in bases]).T if lanes == 1 else f(bases).reshape(-1, 8)
        for row, exponent in zip(found, EXPONENTS, strict=True):
            for value, base in zip(row, bases, strict=True):
                assert off(value, mpmath.mpf(float(base)) ** mpmath.mpf(exponent)) < UNITS, (base, exponent)
    none = f([-1.0]) if lanes == 1 else f(np.full(8, -1.0))
    assert np.all(np.isnan(none))


@pytest.mark.parametrize("lanes", [1, 8])
def test_powers_of_thirds(lanes: int) -> None:
    """Also those that derivatives have, whose exponents are rounded differences."""
    x = ca.SX.sym("x")
    f = kernel(ca.vertcat(*[x ** (n / 3) for n in THIRDS], x ** (1 / 3 - 1)), x, lanes)
    rng = np.random.default_rng(4)
    for size in (1e-305, 1e-30, 1e-3, 1.0, 8.0, 1e4, 1e30):
        for _ in range(20):
            bases = size * (0.1 + rng.random(8))
            with np.errstate(all="ignore"):
                found = np.array([f([b]) for b in bases]).T if lanes == 1 else f(bases).reshape(-1, 8)
            for row, n in zip(found, (*THIRDS, -2), strict=True):
                for value, base in zip(row, bases, strict=True):
                    with mpmath.workprec(200):
                        exact = mpmath.mpf(float(base)) ** (mpmath.mpf(n) / 3)
                    if 1e-290 < exact < 1e290:
                        allowed = UNITS + (0.3 * abs(n * np.log(base)) if lanes == 1 else 0.0)  # n/3 is rounded there
                        assert off(value, exact) < allowed, (base, n)


@pytest.mark.parametrize("lanes", [1, 8])
def test_unusual_thirds(lanes: int) -> None:
    """As powers have them."""
    x = ca.SX.sym("x")
    f = kernel(ca.vertcat(x ** (1 / 3), x ** (5 / 3), x ** (-2 / 3)), x, lanes)
    values = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -8.0, 1e-310, 5e-324])
    with np.errstate(all="ignore"):
        found = np.array([f([b]) for b in values]).T if lanes == 1 else f(values).reshape(-1, 8)
        expected = np.array([values ** (1 / 3), values ** (5 / 3), values ** (-2 / 3)])
    expected[:, 3] = found[:, 3]  # powers of -inf: an infinity, and roots are none
    np.testing.assert_allclose(found, expected, rtol=2e-14)


@needs_fused
def test_cube_roots_of_lanes_are_our_own() -> None:
    x = ca.SX.sym("x")
    for fused in (True, False):
        spec = KernelSpec("f", x, ca.SX(), x ** (2 / 3), lanes=8, fused=fused)
        code = lower.lower_module([spec.stream])
        body = code[code.index("define i64 @kernel_0(") :]
        assert ("cube_root" in body) == fused
        assert ("pow" in body) != fused


@needs_fused
def test_only_fused_kernels_have_roots() -> None:
    x = ca.SX.sym("x")
    out = ca.vertcat(ca.cos(ca.atan(x)), x**1.5)
    for fused in (True, False):
        for lanes in (1, 8):
            spec = KernelSpec("f", x, ca.SX(), out, lanes=lanes, fused=fused)
            code = lower.lower_module([spec.stream])
            body = code[code.index("define i64 @kernel_0(") :]
            assert ("@llvm.sqrt" in body) == fused
            assert ("pow" in body) != fused
