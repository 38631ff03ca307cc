"""Wunderlich 2005: second-order systems solved directly, by modified BDF and by Runge-Kutta methods.

[W05] L. Wunderlich, Numerical treatment of second order differential-algebraic systems, diploma thesis, TU Berlin 2005.

What is compared, and how:

- Tables 2.2, 2.3, 3.1, 3.2: error of lam on prescribed steps, example 2.4.7 (lam has the opposite sign here). Four
  decimals are printed; Table 2.2 and the BDF columns of Table 3.2 give numbers above 1 to four significant digits.
  Implicit Euler and BDF are run on the index-3 form without projection.
- Tables 8.1 to 8.5: example 8.1.1 with step size control, see wunderlich_2005_example.py.
- The truck of section 8.1.2 is another one here, see wunderlich_2005_truck.py.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

from dalembert.integrators import Integrator
from dalembert.integrators.bdf import BDF
from dalembert.integrators.modified_bdf import ModifiedBDF
from dalembert.integrators.radau import Radau
from dalembert.papers.base import Paper, Row, entry, published, register
from dalembert.papers.wunderlich_2005_collocation import orders_of_the_rate
from dalembert.papers.wunderlich_2005_example import tables_8
from dalembert.papers.wunderlich_2005_reduction import section_7_2
from dalembert.papers.wunderlich_2005_runs import CIRCLE, DATA, INDEX_3, STEADY, integrate, thesis
from dalembert.papers.wunderlich_2005_truck import truck
from dalembert.problems.base import problems

DECIMALS = 0.5e-4  # half a unit of the last printed digit
SPAN = 0.5
COUNTS = {1: (200, 400), 2: (100, 200), 3: (100, 200), 4: (100, 200)}
PATTERNS: dict[str, tuple[float, ...]] = {"constant": (1.0,), "alternating 1:2": (1.0, 2.0)}


# ---------------------------------------------------------------------- prescribed steps: Tables 2.2, 2.3, 3.1, 3.2
@cache
def multiplier_errors(modified: bool, k: int, steps: float | tuple[float, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Times and |lam error| of example 2.4.7, after each step."""
    t_end = 1.05 if isinstance(steps, float) else 1.0 + sum(steps)
    h = steps if isinstance(steps, float) else list(steps)
    if modified:
        sol = integrate(CIRCLE, thesis(k), t_end, h=h)
    else:
        sol = integrate(CIRCLE, BDF(k, start="ramp"), t_end, h=h, **INDEX_3)
    return sol.t[1:], np.abs(sol.lam[1:, 0] - 4 * sol.t[1:] ** 2)


def _at(modified: bool, k: int, h: float, t: float) -> float:
    times, errors = multiplier_errors(modified, k, h)
    return float(errors[np.abs(times - t).argmin()])


def _close_to_four_digits(paper: float, measured: float) -> tuple[bool, str]:
    if paper > 1:
        return _close(paper, measured, 5e-4, "to the four significant digits printed")
    return _close(paper, measured, 2e-4, "within 2e-4")


def _close(paper: float, measured: float, allowed: float, note: str) -> tuple[bool, str]:
    return abs(paper - measured) <= allowed, f"{note}; difference {measured - paper:+.1e}"


def table_2_2() -> list[Row]:
    """Implicit Euler, constant steps: O(1) error in the first step."""
    rows = []
    for h, printed in published(DATA)["table_2_2"].items():
        for t, paper in zip(printed["t"], printed["lam"], strict=True):
            measured = _at(False, 1, float(h), t)
            agrees, note = _close_to_four_digits(paper, measured)
            rows.append(entry("2.2", {"method": "Euler", "h": float(h), "t": t}, "lam", paper, measured, agrees, note))
    return rows


def table_3_1(table: str = "3.1") -> list[Row]:
    """Euler (also Table 2.3) and modified Euler under step changes."""
    printed = published(DATA)["table_3_1"]
    steps = tuple(printed["steps"])
    rows = []
    for name, modified in (("Euler", False), ("modified Euler", True)):
        if table == "2.3" and modified:
            continue
        errors = multiplier_errors(modified, 1, steps)[1]
        column = printed["modified" if modified else "bdf"]
        for i, (h, paper, measured) in enumerate(zip(steps, column, errors, strict=True), 1):
            rounding = 4 * np.finfo(float).eps / h**2
            agrees, note = _close(paper, float(measured), DECIMALS + rounding, "to the printed digits and eps/h^2")
            rows.append(entry(table, {"method": name, "step": i, "h": h}, "lam", paper, measured, agrees, note))
    return rows


def table_2_3() -> list[Row]:
    """Implicit Euler under step changes."""
    return table_3_1("2.3")


def table_3_2() -> list[Row]:
    """Orders 1, 2, 2, ... by BDF and by modified BDF."""
    rows = []
    for h, printed in published(DATA)["table_3_2"].items():
        for column, name in (("bdf", "BDF"), ("modified", "modified BDF")):
            for t, paper in zip(printed["t"], printed[column], strict=True):
                measured = _at(column == "modified", 2, float(h), t)
                if column == "bdf":
                    agrees, note = _close_to_four_digits(paper, measured)
                else:
                    agrees, note = _close(paper, measured, DECIMALS + 1e-9, "to the printed digits")
                row = {"method": name, "h": float(h), "t": t}
                rows.append(entry("3.2", row, "lam", paper, measured, agrees, note))
    return rows


# ---------------------------------------------------------------------- orders
@cache
def largest_errors(
    name: str, method: Integrator, n: int, pattern: str, plain_index_3: bool = False
) -> dict[str, float]:
    """Largest errors in the second half of n steps that fill the span: BDF on index 3 needs k + 1 equal steps first."""
    problem = problems()[name]
    steps = np.resize(np.array(PATTERNS[pattern]), n)
    h = list(steps * (SPAN / steps.sum()))
    options = INDEX_3 if plain_index_3 else {}
    sol = integrate(name, method, problem.t_span[0] + SPAN, h=h, **options)
    assert problem.reference is not None
    exact = problem.reference(sol.t)  # type: ignore[arg-type]
    return {what: float(np.abs(getattr(sol, what) - exact[what])[n // 2 :].max()) for what in ("q", "v", "lam")}


def slopes(
    name: str, method: Integrator, n: tuple[int, int], pattern: str, plain_index_3: bool = False
) -> dict[str, float]:
    """Observed orders between two numbers of steps."""
    coarse, fine = (largest_errors(name, method, m, pattern, plain_index_3) for m in n)
    return {what: float(np.log(coarse[what] / fine[what]) / np.log(n[1] / n[0])) for what in coarse}


def orders() -> list[Row]:
    """Order k in lam by modified BDF whatever the steps, k - 1 by BDF when they change; Radau IIA with two stages."""
    rows = []
    for pattern in PATTERNS:
        for k, n in COUNTS.items():
            methods: dict[str, tuple[Integrator, bool, int]] = {
                "modified BDF, interpolant": (ModifiedBDF(k), False, k),
                "BDF, index 3": (BDF(k), True, k if pattern == "constant" else k - 1),
            }
            if k <= 2:  # as in the thesis; higher orders of this variant lose stability
                methods["modified BDF, thesis"] = (ModifiedBDF(k, variant="thesis"), False, k)
            for label, (method, plain, claimed) in methods.items():
                slope = slopes(CIRCLE, method, n, pattern, plain)["lam"]
                row = {"method": label, "k": k, "steps": pattern}
                agrees, note = abs(slope - claimed) <= 0.3, "slope within 0.3 of the claim (sections 2.4.3 and 3.4)"
                rows.append(entry("orders", row, "order of lam", claimed, slope, agrees, note))
    for name in (CIRCLE, STEADY):
        found = slopes(name, Radau(2), (40, 80), "constant", True)
        for what, claimed in (("q", 4), ("v", 3)):
            note = (
                "slope within 0.3 of the claim. The proof of theorem 6.1.1 is for ODEs; it bounds the error of a step "
                "by O(h^4), which gives order 3 in q. For index 3 theory has 3, 2, 1 for q, v, lam; v and lam gain an "
                "order where G q''' = 0, as in example 8.1.1 (see wunderlich_2005_collocation.py)"
            )
            agrees = abs(found[what] - claimed) <= 0.3
            row = {"method": "Radau IIA, 2 stages", "problem": name}
            rows.append(entry("theorem 6.1.1", row, f"order of {what}", claimed, found[what], agrees, note))
    return rows


def run(folder: Path | None = None) -> list[Row]:
    """All rows; given a folder, also all figures."""
    rows = [*table_2_2(), *table_2_3(), *table_3_1(), *table_3_2(), *orders(), *orders_of_the_rate(), *section_7_2()]
    rows += [*tables_8(), *truck()]
    if folder is not None:
        from dalembert.papers.wunderlich_2005_figures import figures

        figures(Path(folder))
    return rows


PAPER = register(
    Paper(
        name="wunderlich-2005",
        title="L. Wunderlich, Numerical treatment of second order differential-algebraic systems, diploma thesis, "
        "TU Berlin 2005",
        run=run,
        notes=(
            "Table 8.2, modified BDF: its step sizes are not printed, and the run depends on them. Why the form (8.4) "
            "fails with the formula of the thesis, and with which discretisation it does not, is shown on prescribed "
            'steps under "7.19".',
            "(7.6), (7.14), (7.22), (7.31): the factor 2 of dG/dt v belongs to g_tq v alone if dG/dt is the total "
            "derivative; in (8.4) the last term must contain eta', not lam'.",
            "Table 8.5, lam': the slope of the parabola through the multipliers of the stages, whatever lam'(0) is. By "
            "Radau IIA with two stages it has order 0 in general (a constant error 4 (G G^T)^-1 G q''') and order 1 in "
            "example 8.1.1, where G q''' = 0.",
            "Tables 8.1 to 8.5 print errors at single times, which change sign between them; where a printed error is "
            "near such a zero, its row says so.",
            "Table 3.3: the sign of the second term of alpha_1 in BDF(1,2,2) must be plus; with the printed minus "
            "Table 3.2 does not come out.",
            "Theorem 6.1.1 claims order 4 in q for Radau IIA with two stages; it is 3.",
            "Section 8.1.2: the truck with 11 coordinates cannot be reproduced, its parameters are not public; one "
            "with 9 coordinates and another joint is used.",
            "The truck here: lam oscillates by BDF on index 3 at loose tolerances, as in figure 8.7, but not with "
            "orders up to 3: the cause are modes of 1.1 and 9.5 Hz, 82 degrees from the negative axis, where orders 4 "
            "and 5 are unstable, not the index.",
            "Automatic runs of modified BDF of order k begin with k + 2 points made by explicit Runge-Kutta steps of "
            "order 8 on the index-1 form, or by BDF where these do not get far.",
            "DASSL was not run. Its columns are compared with BDF of this package on the same form; figures 8.1, 8.2, "
            "8.5 and 8.7 show IDA in its role where scikit-sundae is installed, and say so.",
        ),
    )
)
