"""Ascher & Petzold 1993: what backward Euler makes of the formulations of constrained systems, Tables 4.1 to 4.9.

[AP93] U. Ascher, L. Petzold, Stability of computational methods for constrained dynamics systems,
       SIAM J. Sci. Comput. 14 (1993).

What is compared, and how:

- Everything is measured at t = 1. Errors are the largest of the two components; mu is the magnitude of the multiplier
  that stabilises (eta here), zero on the exact solution. The drift is the constraint in Tables 4.1 and 4.2; in Tables
  4.3, 4.5 and 4.7 it is what a form leaves free: the velocity constraint for Pa, the position constraint for d-2.
- The paper prints two digits. A number agrees if the measured one rounds to them, is cut to them, or is one unit off in
  the second. The blow-ups too: they stem from truncation errors, not from rounding, and are the same in any code.
- Numbers that rounding decides are not judged (agrees is None); three printed numbers disagree, for the reasons noted.
"""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from dalembert.driver import solve
from dalembert.formulations import (
    Baumgarte,
    Formulation,
    Index2,
    ProjectedInvariants,
    StabilizedIndex2,
    StateSpace,
)
from dalembert.numerics.projection import Projection
from dalembert.papers.base import Paper, Row, published, register
from dalembert.problems.base import problems
from dalembert.solution import Solution

DATA = "ascher_petzold_1993"
TABLES = tuple(f"4.{i}" for i in range(1, 10))
UNIT = [[0.0], [1.0]]
BLOW_UP = 1e6  # of a solution of size 1
DIRECTIONS: dict[str, Any] = {"B": "M^-1 G^T", "C^T": "G^T", "unit": UNIT}


def formulation_of(method: str, gamma: float = 0.0, D: str = "C^T") -> Formulation:
    """The formulation behind a name of the tables."""
    direction = DIRECTIONS[D]
    return {
        "Baumgarte": Baumgarte(gamma),  # (3.5); gamma = 0 is plain differentiation
        "direct": Index2(),  # (4.2): "gamma = infinity" for first-order systems
        "projected invariants": ProjectedInvariants(levels=1, D=direction),  # (4.7)
        "state space": StateSpace(R=[[1.0, 0.0]]),  # (3.17)
        "Pa": ProjectedInvariants(levels=1, D=direction),  # (4.14)
        "Pb": ProjectedInvariants(levels=2, D=direction),  # (4.16)
        "Pc": ProjectedInvariants(levels=2, D=direction, balanced=True),  # (4.17)
        "S": StabilizedIndex2(D=direction),  # (4.15)
        "d-2": Index2(),  # (3.11) with gamma = 0
    }[method]


def integrate(
    example: int, formulation: Formulation, h: float, projection: Projection | str | None = None, **parameters: float
) -> Solution:
    """Backward Euler over 0 <= t <= 1 from the exact initial values."""
    problem = problems()[f"ascher-petzold-{example}"]
    return solve(
        problem.system, problem.t_span, q0=problem.q0, v0=problem.v0, method="backward-euler", formulation=formulation,
        projection=projection, h=h, parameters=parameters,
    )  # fmt: skip


def errors(example: int, sol: Solution) -> dict[str, float]:
    """Errors at t = 1; infinite if the run ended early because it blew up, NaN if it did so for another reason."""
    reference = problems()[f"ascher-petzold-{example}"].reference
    assert reference is not None
    names = {"error": "v"} if example in (1, 2) else {"error_p": "q", "error_v": "v"}
    if not sol.success:
        blown_up = max(float(np.abs(getattr(sol, part)[-1]).max()) for part in names.values()) > BLOW_UP
        return dict.fromkeys(names, math.inf if blown_up else math.nan)
    exact = reference(float(sol.t[-1]))
    return {key: float(np.abs(getattr(sol, part)[-1] - exact[part]).max()) for key, part in names.items()}


def quantities(example: int, method: str, sol: Solution) -> dict[str, float]:
    """The columns of the tables for one run."""
    out = errors(example, sol)
    if not sol.success:
        return out
    if example in (1, 2):
        out["drift"] = float(np.abs(sol.drift.nonholonomic[-1]).max())
    else:
        free = sol.drift.position if method == "d-2" else sol.drift.velocity
        out["drift"] = float(np.abs(free[-1]).max())
    if "eta" in sol.extra:
        out["mu"] = float(np.abs(sol.extra["eta"][-1]).max())
    return out


@cache
def measured(
    example: int, method: str, gamma: float = 0.0, D: str = "C^T", h: float = 0.01, **parameters: float
) -> dict[str, float]:
    """`quantities` of one row, computed once."""
    sol = integrate(example, formulation_of(method, gamma, D), h, None, **parameters)
    return quantities(example, method, sol)


# ---------------------------------------------------------------------- tables
def agreement(paper: float, measured: float) -> str | None:
    """How a number agrees with two printed digits; None if it does not."""
    unit = 10.0 ** (int(f"{paper:e}".partition("e")[2]) - 1)
    printed, ours = round(paper / unit), measured / unit
    if not math.isfinite(ours):
        return None
    if round(ours) == printed:
        return "rounds to the two printed digits"
    if math.floor(ours) == printed:
        return "agrees if cut to two digits instead of rounded"
    if abs(round(ours) - printed) == 1:
        return "one unit off in the second digit"
    return None


def table(name: str) -> list[Row]:
    """One of the tables 4.1 to 4.9: a row for each number."""
    rows: list[Row] = []
    for line in published(DATA)["rows"]:
        if line["table"] != name:
            continue
        values = measured(line["example"], **line["row"])
        for quantity, paper in line["paper"].items():
            value = values.get(quantity, math.nan)
            kind, why = line.get("remarks", {}).get(quantity, (None, ""))
            agrees: bool | None
            if kind == "rounding":
                agrees, note = None, why
            else:
                how = agreement(paper, value)
                agrees, note = how is not None, how or why or "more than one unit off in the second digit"
            if not math.isfinite(value):
                note += "; here the run ended before t = 1"
            rows.append(
                {"table": name, "row": dict(line["row"]), "quantity": quantity, "paper": paper,
                 "measured": value if math.isfinite(value) else None, "agrees": agrees, "note": note}
            )  # fmt: skip
    return rows


def run(folder: Path | None = None) -> list[Row]:
    """All rows; given a folder, also all figures."""
    rows = [row for name in TABLES for row in table(name)]
    if folder is not None:
        from dalembert.papers.ascher_petzold_1993_figures import figures

        figures(Path(folder))
    return rows


PAPER = register(
    Paper(
        name="ascher-petzold-1993",
        title="U. M. Ascher, L. R. Petzold, Stability of computational methods for constrained dynamics systems, "
        "SIAM J. Sci. Comput. 14 (1993)",
        run=run,
        notes=(
            "Table 4.1, state space: the printed error .42e-1 is not reproduced; backward Euler gives 1.24e-5.",
            "Table 4.1, Baumgarte with gamma = 1000: the printed error is that of x1 alone, not the largest.",
            "Table 4.5, Pa with D = C^T and nu = 1000: the printed mu .81e-2 is most likely a misprint of .18e-2.",
            "Table 4.7, d-2 with nu = 100: a step meets an exactly singular matrix; its three numbers are decided by "
            "rounding, in the paper as well.",
        ),
    )
)
