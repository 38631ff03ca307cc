"""Wunderlich 2005: what all parts of the reproduction run.

[W05] L. Wunderlich, Numerical treatment of second order differential-algebraic systems, diploma thesis, TU Berlin 2005.
"""

from __future__ import annotations

from typing import Any

from dalembert.driver import solve
from dalembert.integrators import Integrator
from dalembert.integrators.modified_bdf import ModifiedBDF
from dalembert.papers.wunderlich_2005_dassl import Points, in_the_role_of_dassl
from dalembert.problems.base import problems
from dalembert.solution import Solution

DATA = "wunderlich_2005"
CIRCLE, STEADY, TRUCK = "particle-on-circle", "particle-8.1.1", "truck"
INDEX_3: dict[str, Any] = {"formulation": "index-3", "projection": None}
# Tolerances of [W05, section 8.1]: index 3 needs a loose one for lam. That of the truck is relative to 68 kN there.
DASSL_ROLE: dict[str, dict[str, Any]] = {
    STEADY: {"rtol": 1e-4, "atol": (1e-4, 1e-4, 1e-2, 1e-2), "atol_lam": 1.0},
    TRUCK: {"rtol": 1e-3, "atol": 1e-4, "atol_lam": 100.0, "max_step": 0.1},
}


def seeds(k: int) -> int:
    """Points that another method makes before an automatic run of modified BDF of order k goes on by itself."""
    return k + 2


def thesis(k: int) -> ModifiedBDF:
    """The formula of [W05, (3.6)-(3.12)], orders 1, 2, ... from the first step on."""
    return ModifiedBDF(k, variant="thesis", start="ramp")


def integrate(name: str, method: Integrator, t_end: float, **options: Any) -> Solution:
    """A run from the start of a problem; failure is an error."""
    problem = problems()[name]
    sol = solve(problem.system, (problem.t_span[0], t_end), problem.q0, problem.v0, method=method, **options)
    if not sol.success:
        raise RuntimeError(f"{name} by {method.describe()}: {sol.message}")
    return sol


def dassl(name: str) -> Points:
    """The run in the role of DASSL."""
    return in_the_role_of_dassl(name, **DASSL_ROLE[name])
