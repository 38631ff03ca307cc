"""The error at the end of a run falls in proportion to the tolerance: slope 0.8 to 1.2 of log E against log tol.

`benchmarks/proportionality.py` measures every method on more problems; its results say where that does not hold.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import dalembert as da

SPANS = {"slider-crank": (0.0, 10.0), "pendulum": (0.0, 10.0)}
LOW_ORDER = (da.BackwardEuler, da.GeneralizedAlpha, da.HHT)
MOST = 40_000  # steps: the rest of the range of methods of low order is left to the benchmark

METHODS = [
    da.BackwardEuler(), da.BDF(), da.Explicit(5), da.Explicit(8), da.Gauss(2), da.Gauss(4), da.GeneralizedAlpha(),
    da.HalfExplicit(3), da.HalfExplicit(5), da.HHT(), da.Iterated(),
    da.Iterated(newton=True), da.Lobatto(3), da.Lobatto(3, family="IIIA"),
    da.Radau(2), da.Radau(3), da.Radau(5), da.ModifiedBDF(),
]  # fmt: skip
# Order 1 takes too many steps on the pendulum, and rounding ends what modified BDF can do there at 1e-9
LEFT_OUT = [(da.BackwardEuler(), "pendulum"), (da.ModifiedBDF(), "pendulum")]
CASES = [(m, name) for m in METHODS for name in SPANS if (m, name) not in LEFT_OUT]
CASES += [(m, "friction-pendulum") for m in (da.Radau(3), da.Lobatto(3))]  # v of the order of the stages
FORMS = [(da.Radau(3), "index-1"), (da.Radau(3), "index-2"), (da.Lobatto(3), "index-1"), (da.Lobatto(3), "index-2")]


@cache
def exact(name: str) -> np.ndarray:
    problem = da.problems()[name]
    end = problem.reference(SPANS.get(name, problem.t_span)[1])
    return np.concatenate([np.ravel(end["q"]), np.ravel(end["v"])])


def slope(name: str, method: Any, formulation: str | None = None) -> tuple[float, list[float]]:
    """Of the error at the end, over tolerances from 1e-4 to 1e-10 that take few enough steps; errors / tolerance."""
    problem = da.problems()[name]
    span = SPANS.get(name, problem.t_span)
    found = []
    for tol in 10.0 ** -np.arange(4.0, 10.01, 0.5 if isinstance(method, LOW_ORDER) else 1.0):
        sol = da.solve(
            problem.system, span, problem.q0, problem.v0, method=method, formulation=formulation, rtol=tol, atol=tol,
            max_steps=MOST, **problem.options,
        )  # fmt: skip
        if not sol.success:
            assert sol.stats.steps >= MOST, sol.message
            break
        y = np.concatenate([sol.q[-1], sol.v[-1]])
        found.append((tol, float(np.max(np.abs(y - exact(name)) / (1 + np.abs(exact(name)))))))
    assert len(found) >= 3
    x, e = np.array(found).T
    return float(np.polyfit(np.log(x), np.log(e), 1)[0]), list(e / x)


@pytest.mark.parametrize(("method", "name"), CASES, ids=lambda x: x if isinstance(x, str) else x.describe())
def test_error_falls_in_proportion_to_the_tolerance(method: Any, name: str) -> None:
    found, ratios = slope(name, method)
    assert 0.8 <= found <= 1.2, (found, ratios)


@pytest.mark.parametrize(("method", "form"), FORMS, ids=lambda x: x if isinstance(x, str) else x.describe())
def test_collocation_on_other_forms(method: Any, form: str) -> None:
    found, ratios = slope("pendulum", method, form)
    assert 0.8 <= found <= 1.2, (found, ratios)
