"""Reference solutions by a second way: minimal coordinates, integrated by SciPy.

The constrained motion is written in as many coordinates as it has degrees of freedom, derived by hand, and integrated
by an explicit Runge-Kutta method of order 8 (DOP853) near rounding level. Nothing of the library takes part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

RTOL, ATOL = 1e-13, 1e-14

Rates = Callable[[float, np.ndarray], Any]
State = Callable[[float, np.ndarray], Mapping[str, Any]]


def minimal_coordinates(rates: Rates, y0: Any, t0: float, state: State) -> Callable[[Any], dict[str, np.ndarray]]:
    """Reference from y' = rates(t, y), y(t0) = y0 and the full state {"q": ..., "lam": ...} = state(t, y).

    The returned function takes t >= t0, scalar or (n,) in any order; every time is the end of an integration, so that
    no interpolation enters.
    """

    def reference(t: Any) -> dict[str, np.ndarray]:
        times = np.atleast_1d(np.asarray(t, dtype=float))
        rows: dict[float, Mapping[str, Any]] = {}
        at, y = t0, np.asarray(y0, dtype=float)
        for target in np.unique(times):
            if target != at:
                run = solve_ivp(rates, (at, target), y, method="DOP853", rtol=RTOL, atol=ATOL)
                if not run.success:
                    raise ArithmeticError(f"the reference solution ended at t = {run.t[-1]:g}: {run.message}")
                at, y = float(target), run.y[:, -1]
            rows[float(target)] = state(at, y)
        out = {name: np.array([rows[float(x)][name] for x in times], dtype=float) for name in rows[float(times[0])]}
        return {name: x[0] for name, x in out.items()} if np.ndim(t) == 0 else out

    return reference


def multipliers(mass: Any, force: Any, G: Any, a: Any) -> np.ndarray:
    """lam from M a = f - G^T lam, given accelerations that satisfy the constraints; mass is the diagonal."""
    b = np.asarray(force, dtype=float) - np.asarray(mass, dtype=float) * np.asarray(a, dtype=float)
    return np.linalg.lstsq(np.asarray(G, dtype=float).T, b, rcond=None)[0]
