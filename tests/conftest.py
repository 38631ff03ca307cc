"""What several test modules share: small systems, compiled once a session."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import dalembert as da


def make_pendulum(**changes: Any) -> da.System:
    """The Cartesian pendulum with any part replaced."""
    parts: dict[str, Any] = {
        "q": ["x", "y"],
        "mass": [1.0, 1.0],
        "force": [0.0, -9.81],
        "constraints": lambda q: {"rod": q[0] ** 2 + q[1] ** 2 - 1.0},
    }
    return da.System(**{**parts, **changes})


@pytest.fixture(scope="session")
def pendulum_with() -> Callable[..., da.System]:
    return make_pendulum


@pytest.fixture(scope="session")
def pendulum() -> da.problems.Problem:  # type: ignore[name-defined]
    """Period 2, exact solution known."""
    return da.problems()["pendulum"]


@pytest.fixture(scope="session")
def double_pendulum() -> da.System:
    """Two point masses on two rods in the plane, with parameters."""
    return da.System(
        q=["x1", "y1", "x2", "y2"],
        mass=lambda p: [p.m[0], p.m[0], p.m[1], p.m[1]],
        force=lambda p: [0.0, -p.m[0] * p.g, 0.0, -p.m[1] * p.g],
        constraints=lambda q, p: {
            "upper": (q[0] ** 2 + q[1] ** 2 - p.L[0] ** 2) / 2,
            "lower": ((q[2] - q[0]) ** 2 + (q[3] - q[1]) ** 2 - p.L[1] ** 2) / 2,
        },
        energy=lambda q, v, p: (
            0.5 * p.m[0] * (v[:2] @ v[:2]) + 0.5 * p.m[1] * (v[2:] @ v[2:]) + p.g * (p.m[0] * q[1] + p.m[1] * q[3])
        ),
        parameters={"m": [1.0, 2.0], "L": [1.0, 0.7], "g": 9.81},
        name="double pendulum",
    )


@pytest.fixture(scope="session")
def double_start() -> tuple[np.ndarray, np.ndarray]:
    """Consistent q0, v0 of the double pendulum, moving."""
    a, b, va, vb = 0.9, 0.4, 1.1, -0.6
    q0 = [np.sin(a), -np.cos(a), np.sin(a) + 0.7 * np.sin(b), -np.cos(a) - 0.7 * np.cos(b)]
    v1 = [np.cos(a) * va, np.sin(a) * va]
    v0 = [*v1, v1[0] + 0.7 * np.cos(b) * vb, v1[1] + 0.7 * np.sin(b) * vb]
    return np.array(q0), np.array(v0)


@pytest.fixture(scope="session", autouse=True)
def _interruptible() -> Iterator[None]:
    """A runner started in the background ignores Ctrl-C, and so would the tests that send it to themselves."""
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, previous)
