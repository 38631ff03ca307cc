"""Wunderlich 2005, chapter 7: the second-order form of Gear, Gupta and Leimkuhler, and why the thesis saw it fail.

[W05] L. Wunderlich, Numerical treatment of second order differential-algebraic systems, diploma thesis, TU Berlin 2005.

In (7.19) eta is the error of the discrete q' across the constraints. With BDF of order k it is O(h^k) and jumps when
the step size changes, so that eta' = O(h^(k-1)). In ordinary BDF applied twice, q'' has the same error, and the two
cancel; the a_n of the thesis is already free of it. Four ways of discretising q'' and eta', on example 2.4.7:

- "thesis": a_n by modified BDF (3.6), eta' by BDF, which is what section 8.1 does: lam has order k - 1;
- "both modified": the formula of a_n for eta' as well, which only looks more consistent: order k - 1;
- "both ordinary": BDF of BDF velocities, and BDF for eta': order k, as the first-order form has it;
- "interpolant": q' and q'' from one polynomial, eta' by the same weights as q': eta = O(h^(k+1)), order k.

The formula of the thesis has the same trouble with the velocity constraint alone (7.16), whose discrete q' is free of
an error that a_n takes to be there, and none with (7.17) and (7.31), where lam follows from accelerations.

The thesis reports the failure (Table 8.2) and leaves its explanation open. Its step sizes are not printed, so Table 8.2
itself is not recomputed; the numbers expected here were found by an independent program.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import casadi as ca
import numpy as np

from dalembert.driver import solve
from dalembert.integrators import BDF, Integrator, ModifiedBDF
from dalembert.integrators.base import StepData
from dalembert.numerics.layout import Layout
from dalembert.papers.base import Row, entry, published
from dalembert.problems.base import problems

DATA = "wunderlich_2005"
GGL = "stabilized-index-2"
STEP = 3  # of the sequence of Table 3.1: the first after a change, from h = 1e-3 to 2e-4
COUNTS = {1: (200, 400), 2: (100, 200), 3: (100, 200)}
SPAN = 0.5


class BothModified(ModifiedBDF):
    """eta' by the formula of a_n."""

    def derivatives(
        self, layout: Layout, now: dict[str, ca.SX], data: StepData, motion: ca.SX | None
    ) -> tuple[ca.SX, ca.SX, dict[str, ca.SX]]:
        v, a, rate = super().derivatives(layout, now, data, motion)
        return v, a, {**rate, "eta": data.c[1] * now["eta"] + data.second[layout.slice("eta")]}


class BothOrdinary(ModifiedBDF):
    """a_n by BDF of the velocities."""

    def derivatives(
        self, layout: Layout, now: dict[str, ca.SX], data: StepData, motion: ca.SX | None
    ) -> tuple[ca.SX, ca.SX, dict[str, ca.SX]]:
        v, _, rate = super().derivatives(layout, now, data, motion)
        return v, data.c[0] * v + data.first[layout.slice("v")], rate


# way -> method of order k, error of lam at STEP with k = 1 (None: cannot start so), loss of order under step changes
WAYS: dict[str, tuple[Any, float | None, int]] = {
    "second order, thesis": (lambda k, start: ModifiedBDF(k, variant="thesis", start=start), 8.03, 1),
    "second order, both modified": (lambda k, start: BothModified(k, variant="thesis", start=start), 2.68, 1),
    "second order, both ordinary": (lambda k, start: BothOrdinary(k, variant="thesis", start=start), 0.0008, 0),
    "second order, interpolant": (lambda k, start: ModifiedBDF(k), None, 0),
    "first order, BDF": (lambda k, start: BDF(k, start=start), 0.0008, 0),
}


# form -> equation, loss of order of lam under step changes by the formula of the thesis
FORMS = {"index-2": ("7.16", 1), "index-1": ("7.17", 0), "minimal-extension": ("7.31", 0)}


def _errors(method: Integrator, h: list[float], form: str = GGL) -> np.ndarray:
    """|lam error| of example 2.4.7 after each step."""
    problem = problems()["particle-on-circle"]
    sol = solve(problem.system, (1.0, 1.0 + sum(h)), problem.q0, problem.v0, method=method, formulation=form, h=h)
    if not sol.success:
        raise RuntimeError(f"{method.describe()}: {sol.message}")
    return np.asarray(np.abs(sol.lam[1:, 0] - 4 * sol.t[1:] ** 2))


@cache
def after_a_change(way: str) -> float:
    """Error of lam in the third step of Table 3.1, k = 1."""
    return float(_errors(WAYS[way][0](1, "ramp"), published(DATA)["table_3_1"]["steps"])[STEP - 1])


@cache
def slope(way: str, k: int, form: str = GGL) -> float:
    """Observed order of lam with steps that alternate 1:2."""
    found = []
    for n in COUNTS[k]:
        h = np.resize(np.array([1.0, 2.0]), n)
        found.append(_errors(WAYS[way][0](k, "accurate"), list(h * (SPAN / h.sum())), form)[n // 2 :].max())
    return float(np.log(found[0] / found[1]) / np.log(COUNTS[k][1] / COUNTS[k][0]))


def section_7_2() -> list[Row]:
    """Errors of lam after a change of step size, and orders of lam under alternating steps."""
    rows = []
    for way, (_, expected, loss) in WAYS.items():
        if expected is not None:
            measured = after_a_change(way)
            agrees = abs(measured - expected) <= 0.5 * 10.0 ** (-2 if expected > 1 else -4)
            note = f"expected {expected:g} by an independent program, to the digits given; no number in the thesis"
            row = {"form": way, "k": 1, "steps": "Table 3.1", "step": STEP}
            rows.append(entry("7.19", row, "lam", None, measured, agrees, note))
        for k in COUNTS:
            if loss and k > 2:
                continue  # the thesis has orders 1 and 2
            measured = slope(way, k)
            note = f"slope within 0.3 of {k - loss}"
            row = {"form": way, "k": k, "steps": "alternating 1:2"}
            rows.append(entry("7.19", row, "order of lam", None, measured, abs(measured - k + loss) <= 0.3, note))
    for form, (equation, loss) in FORMS.items():
        for k in (1, 2):
            measured = slope("second order, thesis", k, form)
            row = {"form": f"second order, thesis, {form}", "k": k, "steps": "alternating 1:2"}
            agrees, note = abs(measured - k + loss) <= 0.3, f"slope within 0.3 of {k - loss}"
            rows.append(entry(equation, row, "order of lam", None, measured, agrees, note))
    return rows
