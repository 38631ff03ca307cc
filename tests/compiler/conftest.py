"""Tools of the compiler tests: a cache of their own, and comparison to the last bit."""

from collections.abc import Callable
from pathlib import Path

import casadi as ca
import numpy as np
import pytest

import dalembert.compiler.cache as cache
from dalembert.compiler import trigonometry


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Each test starts with an empty kernel cache."""
    monkeypatch.setenv("DALEMBERT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("DALEMBERT_CACHE", raising=False)
    monkeypatch.setattr(cache, "_warned", False)
    return tmp_path / "cache"


@pytest.fixture
def same_bits(monkeypatch: pytest.MonkeyPatch) -> Callable[[object, object], bool]:
    """Compare arrays bit for bit, so that 0.0 and -0.0 differ; a NaN equals any other.

    Sines and cosines are in batches, but taken from the C library there, as CasADi does.
    """
    monkeypatch.setattr(trigonometry, "LARGEST", 0.0)

    def compare(actual: object, expected: object) -> bool:
        x, y = (np.asarray(v, dtype=float).ravel() for v in (actual, expected))
        return bool(np.all((x.view(np.int64) == y.view(np.int64)) | (np.isnan(x) & np.isnan(y))))

    return compare


@pytest.fixture
def pendulum_chain() -> Callable[[int], tuple[ca.SX, ca.SX, ca.SX]]:
    """Forces and mass matrix of a chain of n pendulums, as (state, parameters, values)."""

    def build(n: int) -> tuple[ca.SX, ca.SX, ca.SX]:
        q, v, p = ca.SX.sym("q", n), ca.SX.sym("v", n), ca.SX.sym("p", 2)
        x = y = kinetic = potential = ca.SX(0)
        for i in range(n):
            x, y = x + ca.sin(q[i]), y - ca.cos(q[i])
            velocity = ca.jtimes(ca.vertcat(x, y), q, v)
            kinetic += 0.5 * p[0] * ca.dot(velocity, velocity)
            potential += p[0] * p[1] * y
        mass = ca.hessian(kinetic, v)[0]
        force = ca.gradient(kinetic - potential, q) - ca.jtimes(ca.gradient(kinetic, v), q, v)
        return ca.vertcat(q, v), p, ca.vertcat(ca.densify(force), ca.vec(ca.densify(mass)))

    return build
