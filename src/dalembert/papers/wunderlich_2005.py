"""Wunderlich 2005: second-order systems solved directly, by modified BDF and by Runge-Kutta methods.

[W05] L. Wunderlich, Numerical treatment of second order differential-algebraic systems, diploma thesis, TU Berlin 2005.

What is compared, and how:

- Tables 2.2, 2.3, 3.1, 3.2: error of lam on prescribed steps, example 2.4.7 (lam has the opposite sign here). Four
  decimals are printed; Table 2.2 and the BDF columns of Table 3.2 give numbers above 1 to four significant digits.
  Implicit Euler and BDF are run on the index-3 form without projection.
- Tables 8.1, 8.3, 8.4, 8.5: example 8.1.1 with step size control. The controller of [W05] is not ours, and its step
  sizes are not printed, but the numbers of steps up to each time are. "prescribed": our method on a sequence made from
  those numbers: the start of chapter 4 (h0 = 1e-4, then doubled), equal steps between the printed times afterwards.
  Between steps polynomials of degree 5 are used, as there. "automatic": our own control at the same tolerances.
- An automatic run of ModifiedBDF(k) begins with k + 2 points made by BDF on the index-1 form. Runs that end before it
  takes over say nothing about modified BDF; they are shown, not judged (agrees is None).
- DASSL columns: our BDF on the same form, judged; and IDA, DASSL's successor, where scikit-sundae is installed (see
  wunderlich_2005_dassl.py), shown beside it under its own name and not judged.
- The truck of section 8.1.2 is another one here, see wunderlich_2005_truck.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from dalembert.formulations import Index3, MinimalExtension
from dalembert.integrators import Integrator
from dalembert.integrators.bdf import BDF
from dalembert.integrators.modified_bdf import ModifiedBDF
from dalembert.integrators.radau import Radau
from dalembert.papers.base import Paper, Row, entry, published, register, within
from dalembert.papers.wunderlich_2005_reduction import section_7_2
from dalembert.papers.wunderlich_2005_runs import CIRCLE, DATA, INDEX_3, STEADY, dassl, integrate, seeds, thesis
from dalembert.papers.wunderlich_2005_truck import truck
from dalembert.problems.base import problems
from dalembert.solution import Solution

DECIMALS = 0.5e-4  # half a unit of the last printed digit
FACTOR = 3
H0 = 1e-4  # min(1e-3 |TOUT - t0|, 0.5 / ||v0||), [W05, chapter 4], with TOUT = 0.1
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
                "slope within 0.3 of the claim. The proof of theorem 6.1.1 bounds the error of one step by O(h^4), "
                "which gives order 3 in q; the general theory for index 3 has 3, 2, 1 for q, v, lam"
            )
            agrees = abs(found[what] - claimed) <= 0.3
            row = {"method": "Radau IIA, 2 stages", "problem": name}
            rows.append(entry("theorem 6.1.1", row, f"order of {what}", claimed, found[what], agrees, note))
    return rows


# ---------------------------------------------------------------------- example 8.1.1: Tables 8.1 to 8.5
PARTS = {"q1": ("q", 0), "q2": ("q", 1), "v1": ("v", 0), "v2": ("v", 1), "lam": ("lam", 0)}
TOLERANCES: dict[str, Any] = {"rtol": 1e-4, "atol": (1e-4, 1e-4, 1e-2, 1e-2)}
PRESCRIBED = "steps made from the printed counts"


def sequence(counts: Sequence[int], constant: int) -> list[float]:
    """Steps with the printed numbers of steps up to t = 0.1, 0.2, ...: constant, doubled, then equal between times."""
    h = [H0] * constant
    while len(h) < counts[0]:
        h.append(2 * h[-1])
    for before, after in pairwise(counts):
        h += [0.1 / (after - before)] * (after - before)
    return h


def interpolate(sol: Solution, what: str, t: float, degree: int = 5) -> np.ndarray:
    """The polynomial through the last points up to the first one behind t [W05, chapter 4]."""
    last = max(int(np.searchsorted(sol.t, t)), degree)
    x, y = sol.t[last - degree : last + 1], getattr(sol, what)[last - degree : last + 1]
    weights = [np.prod((t - np.delete(x, j)) / (x[j] - np.delete(x, j))) for j in range(x.size)]
    return np.array(weights) @ y


def _columns(sol: Solution, times: Sequence[float], names: Sequence[str], own: bool) -> dict[str, np.ndarray]:
    """Errors at the printed times, by our dense output or by polynomials of degree 5, and steps taken so far."""
    reference = problems()[STEADY].reference
    assert reference is not None
    out: dict[str, np.ndarray] = {"steps": np.searchsorted(sol.t, np.array(times) - 1e-12).astype(float)}
    for name in names:
        what, i = PARTS[name]
        found = [getattr(sol(t), what)[i] if own else interpolate(sol, what, t)[i] for t in times]
        out[name] = np.abs(np.array(found) - [reference(t)[what][i] for t in times])
    return out


@cache
def prescribed(table: str) -> dict[str, np.ndarray]:
    """Columns of a table by the method of [W05] on steps made from the printed counts."""
    printed = published(DATA)[table]
    runge_kutta = table == "table_8_4"
    counts = (printed if runge_kutta else printed["modified"])["steps"]
    h = sequence(counts, 3 if runge_kutta else 4)
    method = Radau(2) if runge_kutta else thesis(2)
    form = MinimalExtension("full", dependent=["y"]) if table == "table_8_3" else Index3()  # (8.5) or (8.1)
    sol = integrate(STEADY, method, sum(h), h=h, formulation=form, projection=None)
    return _columns(sol, printed["t"], ("q1", "q2", "v1", "v2", "lam"), own=False)


AUTOMATIC: dict[tuple[str, str], tuple[str, Integrator, dict[str, Any]]] = {
    ("table_8_1", "modified"): ("modified BDF(2), index 3", ModifiedBDF(2), {"first_step": H0, **TOLERANCES}),
    ("table_8_1", "dassl"): ("BDF, index 3", BDF(), {**INDEX_3, **TOLERANCES}),
    ("table_8_2", "dassl"): ("BDF, GGL", BDF(), {"formulation": "stabilized-index-2", "rtol": 1e-4, "atol": 1e-4}),
    ("table_8_3", "dassl"): ("BDF, minimal extension", BDF(), {"formulation": "minimal-extension", **TOLERANCES}),
    ("table_8_4", "runge-kutta"): ("Radau(2), index 3", Radau(2), {**INDEX_3, "first_step": H0, **TOLERANCES}),
}


@cache
def automatic(table: str, column: str) -> tuple[dict[str, np.ndarray], bool]:
    """Columns of a table by our step size control; whether the method named made the run, not its starter."""
    _, method, options = AUTOMATIC[table, column]
    options = {**options, "atol": np.array(options["atol"])}
    sol = integrate(STEADY, method, 1.0, **options)
    own = not isinstance(method, ModifiedBDF) or sol.stats.steps > seeds(method.highest)
    return _columns(sol, published(DATA)[table]["t"], ("q1", "q2", "v1", "v2", "lam"), own=True), own


def _label(table: str, quantity: str) -> str:
    if table == "table_8_4":
        return "8.5" if quantity in ("v1", "v2") else "8.4"
    return table.removeprefix("table_").replace("_", ".")


def prescribed_rows(table: str) -> list[Row]:
    """Errors of the method of the thesis beside the printed ones."""
    printed = published(DATA)[table]
    columns = printed if table == "table_8_4" else printed["modified"]
    method = "Radau(2)" if table == "table_8_4" else "modified BDF(2)"
    measured = prescribed(table)
    rows = []
    for quantity in (x for x in PARTS if x in columns):
        for t, paper, value in zip(printed["t"], columns[quantity], measured[quantity], strict=True):
            agrees, note = within(paper, float(value), FACTOR)
            note += f"; {PRESCRIBED}"
            row = {"method": method, "mode": "prescribed", "t": t}
            rows.append(entry(_label(table, quantity), row, quantity, paper, value, agrees, note))
    return rows


def automatic_rows(table: str, column: str) -> list[Row]:
    """Errors and steps of our own step size control beside the printed ones."""
    printed = published(DATA)[table]
    columns = printed if table == "table_8_4" else printed[column]
    measured, own = automatic(table, column)
    rows = []
    for quantity in (x for x in ("steps", *PARTS) if x in columns):
        for i, t in enumerate(printed["t"]):
            paper, value = columns[quantity][i], float(measured[quantity][i])
            if quantity == "steps":
                agrees, note = value <= paper, "at most as many steps"
            else:
                agrees, note = within(paper, value, FACTOR)
                if table == "table_8_4" and not agrees:
                    note += "; fewer steps; before t = 1 it is the dense output between long steps that is off"
                elif column == "dassl" and not agrees:
                    note += "; far fewer steps at the same tolerances"
            row = {"method": AUTOMATIC[table, column][0], "mode": "automatic", "t": t}
            line = entry(_label(table, quantity), row, quantity, paper, value, agrees, note)
            if not own:
                line["agrees"] = None
                line["note"] = f"not judged: all points are made by the starter. {note}"
            rows.append(line)
    return rows


def tables_8() -> list[Row]:
    """Tables 8.1 to 8.5."""
    rows = [row for table in ("table_8_1", "table_8_3", "table_8_4") for row in prescribed_rows(table)]
    rows += [row for table, column in AUTOMATIC for row in automatic_rows(table, column)]
    return rows + role_of_dassl()


def role_of_dassl() -> list[Row]:
    """Table 8.1, columns of DASSL, by another general DAE code on the first-order index-3 system."""
    points = dassl(STEADY)
    printed = published(DATA)["table_8_1"]
    reference = problems()[STEADY].reference
    assert reference is not None
    rows = []
    for i, t in enumerate(printed["t"]):
        last = int(np.searchsorted(points.t, t - 1e-12))
        exact = reference(points.t[last])
        found = {
            "steps": float(last), "q1": abs(points.q[last, 0] - exact["q"][0]),
            "lam": abs(points.lam[last, 0] - exact["lam"][0]),
        }  # fmt: skip
        for quantity, value in found.items():
            row = {"method": points.code, "mode": "automatic", "t": t}
            note = f"not judged: {points.code} in the role of DASSL; errors at the first step behind t"
            line = entry("8.1", row, quantity, printed["dassl"][quantity][i], float(value), False, note)
            rows.append(line | {"agrees": None})
    return rows


def run(folder: Path | None = None) -> list[Row]:
    """All rows; given a folder, also all figures."""
    rows = [*table_2_2(), *table_2_3(), *table_3_1(), *table_3_2(), *orders(), *section_7_2()]
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
            "Table 8.5, lam': the derivative of the multiplier is not computed here.",
            "Table 3.3: the sign of the second term of alpha_1 in BDF(1,2,2) must be plus; with the printed minus "
            "Table 3.2 does not come out.",
            "Theorem 6.1.1 claims order 4 in q for Radau IIA with two stages; it is 3.",
            "Section 8.1.2: the truck with 11 coordinates cannot be reproduced, its parameters are not public; one "
            "with 9 coordinates and another joint is used.",
            "The truck here: lam oscillates by BDF on index 3 at loose tolerances, as in figure 8.7, but not with "
            "orders up to 3: the cause are modes of 1.1 and 9.5 Hz, 82 degrees from the negative axis, where orders 4 "
            "and 5 are unstable, not the index.",
            "Automatic runs of modified BDF of order k begin with k + 2 points made by BDF on the index-1 form.",
            "DASSL was not run. Its columns are compared with BDF of this package on the same form; figures 8.1, 8.2, "
            "8.5 and 8.7 show IDA in its role where scikit-sundae is installed, and say so.",
        ),
    )
)
