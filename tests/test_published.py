"""Published values, to all digits that independent computations confirm, by three families of methods for each problem.

Tolerances are about as tight as rounding lets the method go. "Digits" are relative to each component; where a table
rounds, the bound is absolute (see `dalembert.problems.Published`).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import dalembert as da
from dalembert.problems import four_bar

SLACK = 1.3  # digits are stated to a tenth: 10^0.1


@dataclass(frozen=True)
class Case:
    problem: str
    method: da.BDF | Any
    rtol: float
    atol: Any
    formulation: str | None = None
    h: float | None = None
    slow: bool = False
    repeats: int = 1

    @property
    def family(self) -> str:
        return type(self.method).__name__


# positions of the elastic rod are of size 1e-5, its rates are rounded at the level of 1e-13; its stiffness turns that
# into changes of lam in the 10th digit, the last published one, from run to run: the mean of several runs is compared
ROD, RUNS = np.array([1e-4] * 7 + [1.0] * 7), 5
CASES = [
    Case("andrews", da.Explicit(8), 1e-13, 1e-14),
    Case("andrews", da.Iterated(), 1e-13, 1e-14),
    Case("andrews", da.Radau(stages=3), 1e-11, 1e-11, "index-2"),
    Case("andrews", da.Gauss(stages=3), 1e-12, 1e-12, slow=True),
    Case("car-axis", da.Explicit(8), 3e-14, 1e-15),
    Case("car-axis", da.Iterated(), 3e-14, 1e-15),
    Case("car-axis", da.Gauss(stages=5), 1e-13, 1e-14),
    Case("car-axis", da.Radau(stages=5), 1e-13, 1e-13, "index-1", slow=True),
    Case("slider-crank", da.Explicit(8), 1e-9, 1e-9),
    Case("slider-crank", da.Iterated(), 1e-9, 1e-9),
    Case("slider-crank", da.BDF(), 1e-9, 1e-9),
    Case("slider-crank", da.ModifiedBDF(), 1e-8, 1e-8),
    Case("slider-crank", da.GeneralizedAlpha(), 1e-6, 1e-6),
    Case("slider-crank-flexible", da.Explicit(8), 3e-14, 1e-17, repeats=RUNS),
    Case("slider-crank-flexible", da.Iterated(), 3e-14, 1e-17, repeats=RUNS),
    Case("slider-crank-flexible", da.Gauss(stages=5), 3e-13, 3e-13 * ROD, repeats=RUNS),
    Case("slider-crank-flexible", da.Radau(stages=5), 0, 0, "index-1", h=2e-5, slow=True, repeats=RUNS),
    Case("four-bar-40", da.Iterated(), 1e-9, 1e-9),
    Case("four-bar-40", da.BDF(), 1e-9, 1e-9, slow=True),
    Case("four-bar-40", da.BDF(), 1e-9, 1e-9, "stabilized-index-2", slow=True),
    Case("heavy-top", da.Explicit(8), 1e-11, 1e-11),
    Case("heavy-top", da.Iterated(), 1e-11, 1e-11),
    Case("heavy-top", da.BDF(), 1e-11, 1e-11),
    Case("heavy-top", da.Radau(stages=3), 1e-10, 1e-10, slow=True),
    Case("heavy-top-quaternion", da.Explicit(8), 1e-11, 1e-11),
    Case("heavy-top-quaternion", da.Iterated(), 1e-11, 1e-11),
    Case("pendulum-a01", da.Explicit(8), 1e-13, 1e-13),
    Case("pendulum-a01", da.Iterated(), 1e-13, 1e-13),
    Case("pendulum-a01", da.Gauss(stages=4), 1e-12, 1e-12),
    Case("pendulum-a01", da.Radau(stages=5), 1e-12, 1e-12),
    Case("truck", da.BDF(), 1e-9, 1e-9),
    Case("truck", da.Explicit(8), 1e-9, 1e-9),
    Case("truck", da.Iterated(), 1e-9, 1e-9),
    Case("truck", da.Radau(), 1e-9, 1e-9, slow=True),
    # the onset of hunting amplifies rounding: z scatters by 0.4 units of its published error
    Case("wheelset", da.BDF(), 1e-11, 1e-14, slow=True, repeats=RUNS),
    Case("wheelset", da.Gauss(stages=4), 1e-11, 1e-14, slow=True, repeats=RUNS),
    Case("wheelset", da.Radau(stages=3), 1e-10, 1e-13, "index-1", slow=True, repeats=RUNS),
]
# exact solutions: largest absolute error of q, v and multipliers at the end
EXACT = [
    Case("pendulum", da.Explicit(8), 1e-13, 1e-13),
    Case("pendulum", da.Iterated(), 1e-13, 1e-13),
    Case("pendulum", da.Gauss(stages=4), 1e-13, 1e-13),
    Case("pendulum", da.Radau(stages=5), 1e-13, 1e-13, "index-1"),
    Case("knife-edge", da.Explicit(8), 1e-13, 1e-13),
    Case("knife-edge", da.Iterated(), 1e-13, 1e-13),
    Case("knife-edge", da.Gauss(stages=4), 1e-13, 1e-13),
    Case("knife-edge", da.Radau(stages=5), 1e-13, 1e-13, "index-1"),
    Case("rolling-disc", da.Explicit(8), 1e-13, 1e-13),
    Case("rolling-disc", da.Iterated(), 1e-13, 1e-13),
    Case("rolling-disc", da.Gauss(stages=4), 1e-13, 1e-13),
    Case("rolling-disc", da.Radau(stages=5), 1e-13, 1e-13, "index-1"),
]
# over 50 swings the pendulum loses a digit more: rounding errors turn into a shift in time
EXACT_BOUNDS = {"pendulum": 3e-10, "knife-edge": 3e-11, "rolling-disc": 3e-12}


def solve(case: Case, factor: float = 1.0) -> Any:
    """A run, with tolerances or steps larger by a factor."""
    problem = da.problems()[case.problem]
    steps: dict[str, Any] = {"h": factor * case.h} if case.h else {"rtol": factor * case.rtol}
    if not case.h:
        steps["atol"] = factor * np.asarray(case.atol)
    sol = da.solve(
        problem.system, problem.t_span, problem.q0, problem.v0, method=case.method, formulation=case.formulation,
        **steps, **problem.options,
    )  # fmt: skip
    assert sol.success, sol.message
    return sol


def parameters(cases: list[Case]) -> list[Any]:
    return [
        pytest.param(c, id=f"{c.problem}-{c.family}-{c.formulation or 'default'}", marks=[pytest.mark.slow] * c.slow)
        for c in cases
    ]


def test_three_families_each() -> None:
    """No published value without three different kinds of methods that reach it."""
    published = {name for name, problem in da.problems().items() if problem.published is not None}
    families = {name: {c.family for c in CASES if c.problem == name} for name in published}
    # the top is there three times, on other groups; 485 unknowns are too long to compile for three methods
    once_more = {"heavy-top-se3", "heavy-top-quaternion"}
    assert {name for name, found in families.items() if len(found) < 3} <= once_more | {"four-bar-40"}
    assert {"andrews", "car-axis", "wheelset", "slider-crank", "slider-crank-flexible"} <= published


def published_digits(problem: Any, sol: Any) -> dict[str, np.ndarray]:
    """Deviations from the published values, in units of their error."""
    published, out = problem.published, {}
    at_end = np.ndim(published.t) == 0 and published.t == sol.t[-1]  # stored values: nothing is interpolated
    dense = sol(np.asarray(published.t, dtype=float))
    for name, values in published.values.items():
        x = getattr(sol, name)[-1] if at_end else getattr(dense, name)
        out[name] = (x - np.asarray(values, dtype=float)) / np.maximum(published.error(name), 1e-300)
    return out


@pytest.mark.parametrize("case", parameters(CASES))
def test_published_digits(case: Case) -> None:
    """Mean of the runs, to twice its standard error; rounding scatters single runs by no more than a few units."""
    problem = da.problems()[case.problem]
    runs = [published_digits(problem, solve(case, factor)) for factor in 1.0 + 0.05 * np.arange(case.repeats)]
    for name in runs[0]:
        off = np.array([run[name] for run in runs])
        scatter = off.std(axis=0, ddof=1) if case.repeats > 1 else np.zeros(off.shape[1:])
        beyond = np.abs(off.mean(axis=0)) - 2 * scatter / np.sqrt(case.repeats)
        assert np.nanmax(beyond) <= SLACK, (name, off)
        assert np.nanmax(scatter) <= 3.0, (name, off)


@pytest.mark.parametrize("case", parameters(EXACT))
def test_exact_solutions(case: Case) -> None:
    sol, exact = solve(case), da.problems()[case.problem].reference(da.problems()[case.problem].t_span[1])
    found = {name: float(np.abs(getattr(sol, name)[-1] - x).max()) for name, x in exact.items()}
    assert max(found.values()) <= EXACT_BOUNDS[case.problem], found


def test_four_bars_beyond_singular_positions() -> None:
    """N = 2 over 10 s passes 13 positions in which all bars lie in a line, where the constraints lose rank."""
    problem, published = da.problems()["four-bar"], four_bar.PUBLISHED_2
    # the default control asks for less than rounding leaves there, and stops below 2e-9
    method = da.BDF(control="step")
    sol = da.solve(problem.system, (0.0, published["t"]), problem.q0, problem.v0, method=method, rtol=1e-10, atol=1e-10)
    assert sol.success, sol.message
    assert np.abs(2 * sol.q[-1, :2] - published["top"]).max() < 2e-7
    assert np.abs(2 * sol.v[-1, :2] - published["speed"]).max() < 5e-7
