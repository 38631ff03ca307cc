"""Systems without constraints: a driven oscillator and the Kepler problem.

[HLW06] E. Hairer, C. Lubich, G. Wanner, Geometric Numerical Integration, 2nd ed., Springer 2006, section I.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dalembert.model.system import System
from dalembert.problems.base import Problem, register

M, K, F, OMEGA = 2.0, 18.0, 5.0, 1.7
ECCENTRICITY = 0.6


def exact_oscillator(t: Any) -> Mapping[str, np.ndarray]:
    """m x'' + k x = F cos(w t) from rest at x = 1."""
    t = np.asarray(t, dtype=float)
    w0, amplitude = np.sqrt(K / M), F / (K - M * OMEGA**2)
    q = (1 - amplitude) * np.cos(w0 * t) + amplitude * np.cos(OMEGA * t)
    v = -(1 - amplitude) * w0 * np.sin(w0 * t) - amplitude * OMEGA * np.sin(OMEGA * t)
    return {"q": q[..., None], "v": v[..., None]}


@register("free-oscillator")
def free_oscillator() -> Problem:
    system = System(
        q=["x"],
        mass=lambda p: [p.m],
        force=lambda t, q, p: [p.F * np.cos(p.w * t) - p.k * q[0]],
        parameters={"m": M, "k": K, "F": F, "w": OMEGA},
        name="free-oscillator",
    )
    return Problem(
        name="free-oscillator",
        description="mass on a spring under a harmonic force, no constraints",
        source="textbook mechanics; exact",
        system=system,
        q0=np.array([1.0]),
        v0=np.array([0.0]),
        t_span=(0.0, 10.0),
        reference=exact_oscillator,
    )


def exact_kepler(t: Any, e: float = ECCENTRICITY) -> Mapping[str, np.ndarray]:
    """Ellipse of semi-axis 1 from the pericentre, period 2 pi, by Kepler's equation E - e sin E = t."""
    t = np.asarray(t, dtype=float)
    mean = np.remainder(t + np.pi, 2 * np.pi) - np.pi
    E = mean + 0.85 * e * np.sign(np.sin(mean))  # Newton converges from here for all e < 1 (Danby)
    for _ in range(50):
        step = (E - e * np.sin(E) - mean) / (1 - e * np.cos(E))
        E = E - step
        if np.all(np.abs(step) < 1e-15):
            break
    s, c, root = np.sin(E), np.cos(E), np.sqrt(1 - e**2)
    rate = 1 / (1 - e * c)
    return {"q": np.stack([c - e, root * s], axis=-1), "v": np.stack([-s * rate, root * c * rate], axis=-1)}


@register("kepler")
def kepler() -> Problem:
    system = System(
        q=["x", "y"],
        mass=[1.0, 1.0],
        force=lambda q: -q / np.linalg.norm(q) ** 3,
        invariants=lambda q, v: {
            "energy": 0.5 * (v @ v) - 1 / np.linalg.norm(q),
            "angular momentum": q[0] * v[1] - q[1] * v[0],
        },
        energy=lambda q, v: 0.5 * (v @ v) - 1 / np.linalg.norm(q),
        name="kepler",
    )
    start = exact_kepler(0.0)
    return Problem(
        name="kepler",
        description="planet on an ellipse of eccentricity 0.6; energy and angular momentum are invariants",
        source="Hairer, Lubich & Wanner 2006, section I.2; exact by Kepler's equation",
        system=system,
        q0=start["q"],
        v0=start["v"],
        t_span=(0.0, 20.0),
        reference=exact_kepler,
        reference_digits=14,
    )
