"""Wunderlich 2005, example 8.1.1: Tables 8.1 to 8.5.

[W05] L. Wunderlich, Numerical treatment of second order differential-algebraic systems, diploma thesis, TU Berlin 2005.

The controller of [W05] is not ours, and its step sizes are not printed, but the numbers of steps up to each time are.

- "prescribed": our method on a sequence made from those numbers: the start of chapter 4 (h0 = 1e-4, then doubled),
  equal steps between the printed times afterwards. Between steps polynomials of degree 5 are used, as there.
- "automatic": our own control at the same tolerances, and our dense output (for lam', which has none: degree 5 again).
- An automatic run of ModifiedBDF(k) begins with k + 2 points made by another method on the index-1 form. Runs that end
  before it takes over say nothing about modified BDF; they are shown, not judged (agrees is None).
- DASSL columns: our BDF on the same form, judged; and IDA, DASSL's successor, where scikit-sundae is installed (see
  wunderlich_2005_dassl.py), shown beside it under its own name and not judged.

Errors are compared at single times, where those of the thesis may be near a zero. A row that does not agree says what
is known about it: the printed errors around it; on prescribed steps, the errors that other steps, as many to each
printed time, would leave; beside DASSL, what tighter tolerances give, and in how many steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

from dalembert.formulations import Index3, MinimalExtension
from dalembert.integrators import Integrator
from dalembert.integrators.bdf import BDF
from dalembert.integrators.modified_bdf import ModifiedBDF
from dalembert.papers.base import Row, entry, published, within
from dalembert.papers.wunderlich_2005_collocation import EXACT, RadauWithRate
from dalembert.papers.wunderlich_2005_runs import DATA, INDEX_3, STEADY, dassl, integrate, seeds, thesis
from dalembert.problems.base import problems
from dalembert.solution import Solution

FACTOR = 3
H0 = 1e-4  # min(1e-3 |TOUT - t0|, 0.5 / ||v0||), [W05, chapter 4], with TOUT = 0.1
PARTS = {
    "q1": ("q", 0), "q2": ("q", 1), "v1": ("v", 0), "v2": ("v", 1), "lam": ("lam", 0), "lam_dot": ("lam_dot", 0),
}  # fmt: skip
TOLERANCES: dict[str, Any] = {"rtol": 1e-4, "atol": (1e-4, 1e-4, 1e-2, 1e-2)}
PRESCRIBED = "steps made from the printed counts"
OTHERS = 60  # sequences of other steps with the same counts
TIGHTER = (0.1, 0.01)  # of the tolerances


# ---------------------------------------------------------------------- errors at the printed times
def interpolate(t: np.ndarray, y: np.ndarray, at: float, degree: int = 5) -> np.ndarray:
    """The polynomial through the last points up to the first one behind a time [W05, (4.31)]."""
    last = max(int(np.searchsorted(t, at)), degree)
    x = t[last - degree : last + 1]
    weights = [np.prod((at - np.delete(x, j)) / (x[j] - np.delete(x, j))) for j in range(x.size)]
    return np.asarray(np.array(weights) @ y[last - degree : last + 1])


def exact(what: str, t: float) -> np.ndarray:
    """q, v, lam or lam_dot of the solution."""
    reference = problems()[STEADY].reference
    assert reference is not None
    return np.array([EXACT[STEADY](t)]) if what == "lam_dot" else np.asarray(reference(t)[what])


def signed_error(sol: Solution, name: str, t: float, own: bool) -> float:
    """Error of a column at a time, by our dense output or by polynomials of degree 5."""
    what, i = PARTS[name]
    if own and what != "lam_dot":
        return float(getattr(sol(t), what)[i] - exact(what, t)[i])
    rows = sol.extra[what] if what == "lam_dot" else getattr(sol, what)
    return float(interpolate(sol.t, rows, t)[i] - exact(what, t)[i])


def _columns(sol: Solution, times: Sequence[float], own: bool) -> dict[str, np.ndarray]:
    """Absolute errors at the printed times, and steps taken so far."""
    out: dict[str, np.ndarray] = {"steps": np.searchsorted(sol.t, np.array(times) - 1e-12).astype(float)}
    for name, (what, _) in PARTS.items():
        if what != "lam_dot" or what in sol.extra:
            out[name] = np.abs([signed_error(sol, name, t, own) for t in times])
    return out


def zero_of_the_printed(printed: Sequence[float], i: int) -> str:
    """A remark, if a printed error is much smaller than those before and after it."""
    if not 0 < i < len(printed) - 1 or FACTOR * printed[i] > min(printed[i - 1], printed[i + 1]):
        return ""
    return f"; next to a zero of the printed error, which is {printed[i - 1]:.2g} before and {printed[i + 1]:.2g} after"


# ---------------------------------------------------------------------- prescribed steps
def sequence(counts: Sequence[int], constant: int) -> list[float]:
    """Steps with the printed numbers of steps up to t = 0.1, 0.2, ...: constant, doubled, then equal between times."""
    h = _start(counts[0], constant)
    for before, after in pairwise(counts):
        h += [0.1 / (after - before)] * (after - before)
    return h


def _start(n: int, constant: int) -> list[float]:
    return [H0] * constant + [2.0 ** (i + 1) * H0 for i in range(n - constant)]


def other_sequences(counts: Sequence[int], constant: int) -> list[list[float]]:
    """Random steps with these numbers up to t = 0.1, 0.2, ...: the same start, then ratios between 1/2 and 2."""
    rng = np.random.default_rng(2005)
    out: list[list[float]] = []
    while len(out) < OTHERS:
        h = _start(counts[0], constant)
        while len(h) < counts[-1]:
            h.append(h[-1] * rng.uniform(0.5, 2.0))
        times = np.cumsum(h)
        if all(0.1 * (i + 1) <= times[n - 1] < 0.1 * (i + 2) for i, n in enumerate(counts)):
            out.append(h)
    return out


def _method(table: str, h: list[float]) -> Solution:
    """The method of a table on given steps."""
    method = RadauWithRate(2) if table == "table_8_4" else thesis(2)
    form = MinimalExtension("full", dependent=["y"]) if table == "table_8_3" else Index3()  # (8.5) or (8.1)
    return integrate(STEADY, method, sum(h), h=h, formulation=form, projection=None)


def _modified(table: str) -> tuple[dict[str, list[float]], int]:
    """Printed columns of the method of the thesis, and its constant steps at the start."""
    printed = published(DATA)[table]
    return (printed, 3) if table == "table_8_4" else (printed["modified"], 4)


@cache
def prescribed(table: str) -> dict[str, np.ndarray]:
    """Columns of a table by the method of [W05] on steps made from the printed counts."""
    columns, constant = _modified(table)
    counts = [int(n) for n in columns["steps"]]
    return _columns(_method(table, sequence(counts, constant)), published(DATA)[table]["t"], own=False)


def by_other_steps(table: str, quantity: str, i: int) -> tuple[float, float]:
    """Smallest and largest signed error at the i-th printed time over `other_sequences`."""
    columns, constant = _modified(table)
    t = published(DATA)[table]["t"][i]
    counts = [int(n) for n in columns["steps"][: i + 1]]
    found = [
        signed_error(_method(table, h), quantity, t, own=False) for h in other_sequences(counts, constant)
    ]  # fmt: skip
    return min(found), max(found)


def prescribed_rows(table: str) -> list[Row]:
    """Errors of the method of the thesis beside the printed ones."""
    times, (columns, _) = published(DATA)[table]["t"], _modified(table)
    method = "Radau(2)" if table == "table_8_4" else "modified BDF(2)"
    measured = prescribed(table)
    rows = []
    for quantity in (x for x in PARTS if x in columns):
        for i, t in enumerate(times):
            paper, value = columns[quantity][i], float(measured[quantity][i])
            agrees, note = within(paper, value, FACTOR)
            note += f"; {PRESCRIBED}"
            if not agrees:
                low, high = by_other_steps(table, quantity, i)
                note += zero_of_the_printed(columns[quantity], i)
                note += f"; other steps, as many to each time, leave errors from {low:.1e} to {high:.1e} here"
            row = {"method": method, "mode": "prescribed", "t": t}
            rows.append(entry(_label(table, quantity), row, quantity, paper, value, agrees, note))
    return rows


# ---------------------------------------------------------------------- automatic steps
AUTOMATIC: dict[tuple[str, str], tuple[str, Integrator, dict[str, Any]]] = {
    ("table_8_1", "modified"): ("modified BDF(2), index 3", ModifiedBDF(2), {"first_step": H0, **TOLERANCES}),
    ("table_8_1", "dassl"): ("BDF, index 3", BDF(control="step"), {**INDEX_3, **TOLERANCES}),
    ("table_8_2", "dassl"): (
        "BDF, GGL",
        BDF(control="step"),
        {"formulation": "stabilized-index-2", "rtol": 1e-4, "atol": 1e-4},
    ),
    ("table_8_3", "dassl"): (
        "BDF, minimal extension",
        BDF(control="step"),
        {"formulation": "minimal-extension", **TOLERANCES},
    ),
    ("table_8_4", "runge-kutta"): ("Radau(2), index 3", RadauWithRate(2), {**INDEX_3, "first_step": H0, **TOLERANCES}),
}


@cache
def automatic(table: str, column: str, share: float = 1.0) -> tuple[dict[str, np.ndarray], bool]:
    """Columns of a table by our step size control; whether the method named made the run, not its starter.

    ``share``: part of the tolerances of the thesis.
    """
    _, method, options = AUTOMATIC[table, column]
    options = {**options, "rtol": share * options["rtol"], "atol": share * np.array(options["atol"])}
    sol = integrate(STEADY, method, 1.0, **options)
    own = not isinstance(method, ModifiedBDF) or sol.stats.steps > seeds(method.highest)
    return _columns(sol, published(DATA)[table]["t"], own=True), own


def _label(table: str, quantity: str) -> str:
    if table == "table_8_4":
        return "8.5" if quantity in ("v1", "v2", "lam_dot") else "8.4"
    return table.removeprefix("table_").replace("_", ".")


def _why(table: str, column: str, columns: dict[str, list[float]], quantity: str, i: int) -> str:
    """What is known about an error of our step size control that is larger than the printed one."""
    steps = automatic(table, column)[0]["steps"]
    note = zero_of_the_printed(columns[quantity], i)
    note += f"; {steps[i]:.0f} steps here, {columns['steps'][i]} in the thesis"
    if table == "table_8_4":
        note += f"; on {PRESCRIBED} ratio {prescribed(table)[quantity][i] / columns[quantity][i]:.2g}"
    for share in TIGHTER:
        found = automatic(table, column, share)[0]
        ratio = found[quantity][i] / columns[quantity][i]
        if ratio <= FACTOR and all(found["steps"] <= np.array(columns["steps"])):
            return note + f"; with {share:g} times the tolerances ratio {ratio:.2g} in {found['steps'][i]:.0f} steps"
    return note


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
                note += "" if agrees else _why(table, column, columns, quantity, i)
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
    rows = []
    for i, t in enumerate(printed["t"]):
        last = int(np.searchsorted(points.t, t - 1e-12))
        found = {
            "steps": float(last), "q1": abs(points.q[last, 0] - exact("q", points.t[last])[0]),
            "lam": abs(points.lam[last, 0] - exact("lam", points.t[last])[0]),
        }  # fmt: skip
        for quantity, value in found.items():
            row = {"method": points.code, "mode": "automatic", "t": t}
            note = f"not judged: {points.code} in the role of DASSL; errors at the first step behind t"
            line = entry("8.1", row, quantity, printed["dassl"][quantity][i], float(value), False, note)
            rows.append(line | {"agrees": None})
    return rows
