"""Sines and cosines of our own: below one unit in the last place, four at a time."""

import casadi as ca
import mpmath
import numpy as np
import pytest

from dalembert.compiler import KernelSpec, compile_kernels, lower
from dalembert.compiler.engine import fuses

pytestmark = pytest.mark.skipif(not fuses(), reason="this processor has no fused multiplication and addition")
N = 8


@pytest.fixture(scope="module")
def both():  # type: ignore[no-untyped-def]
    """Sines and cosines (2, N) of N angles."""
    x = ca.SX.sym("x", N)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DALEMBERT_CACHE", "0")
        kernel = compile_kernels([KernelSpec("f", x, ca.SX(), ca.vertcat(ca.sin(x), ca.cos(x)))], backend="llvm")["f"]
    return lambda angles: np.reshape(kernel(angles), (2, N))


def units(found: float, exact: mpmath.mpf) -> float:
    """Error in units in the last place."""
    return float(abs(mpmath.mpf(found) - exact) / mpmath.mpf(float(np.spacing(abs(float(exact))))))


RANGES = {
    "first quarter": lambda rng: rng.uniform(-np.pi / 4, np.pi / 4, N),
    "tiny": lambda rng: 10 ** rng.uniform(-300, -3, N),
    "few turns": lambda rng: rng.uniform(-20, 20, N),
    "many turns": lambda rng: rng.uniform(-1e6, 1e6, N),
    "very many turns": lambda rng: rng.uniform(-3e13, 3e13, N),
    # where almost all of the angle cancels
    "next to quarters": lambda rng: np.round(rng.uniform(-1e5, 1e5, N)) * (np.pi / 2 + rng.integers(-3, 4) * 2e-16),
}


@pytest.mark.parametrize("where", RANGES)
def test_errors(where, both):  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(3)
    with mpmath.workprec(240):
        for _ in range(100):
            angles = RANGES[where](rng)
            found = both(angles)
            for i, angle in enumerate(angles):
                x = mpmath.mpf(float(angle))
                assert units(found[0, i], mpmath.sin(x)) < 0.8, angle
                assert units(found[1, i], mpmath.cos(x)) < 0.8, angle


def test_what_is_left_to_the_library(both):  # type: ignore[no-untyped-def]
    angles = np.array([1e15, -1e22, np.inf, np.nan, 2.0**45, -(2.0**60), 0.5, 1e300])
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(both(angles), [np.sin(angles), np.cos(angles)], rtol=1e-15)


@pytest.mark.parametrize("n", [1, 3, 4, 5, 9])
def test_angles_of_angles(n: int) -> None:
    """Batches one after the other where an angle depends on a sine; sines alone, cosines alone, one angle twice."""
    x = ca.SX.sym("x", n)
    inner = ca.sin(x) + 2 * x
    out = ca.vertcat(ca.cos(inner), ca.sin(ca.cos(inner[0]) + inner), ca.cos(x[0]))
    spec = KernelSpec("f", x, ca.SX(), out)
    calls = lower.lower_module([spec.stream]).count("call { <4 x double>")
    assert calls == 3 * -(-n // 4)
    kernel = compile_kernels([spec], backend="llvm")["f"]
    value = np.random.default_rng(n).normal(size=n)
    first = np.sin(value) + 2 * value
    expected = np.concatenate([np.cos(first), np.sin(np.cos(first[0]) + first), np.cos(value[:1])])
    np.testing.assert_allclose(kernel(value), expected, rtol=1e-13, atol=1e-15)
