"""Arnold, Cardona & Bruels 2015: what a velocity projection does to generalized-alpha methods.

[ACB15] M. Arnold, A. Cardona, O. Bruels, Order reduction in time integration caused by velocity projection, J. Mech.
        Sci. Technol. 29 (2015) 2579-2585.

The paper prints figures; its statements (order 2, order 1 after a projection, a ratio of 4, about 100 steps) are the
paper's numbers here. Errors are also compared with those of a separate implementation, see the data file.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from dalembert.analysis.alpha import error_recursion
from dalembert.driver import solve
from dalembert.integrators.generalized_alpha import GeneralizedAlpha
from dalembert.papers.base import Paper, Row, entry, published, register
from dalembert.problems import problems
from dalembert.problems.heavy_top import parts, trajectory
from dalembert.solution import Solution

DATA = "arnold_cardona_bruels_2015"
RHO, PROJECTED_AT, FIRST = 0.9, 0.7, 10
COUNTS = (500, 1000, 2000, 4000, 8000)
QUANTITIES = ("x", "R", "u", "Omega", "lam")
STABILIZED, INDEX3 = "stabilized-index-2", "index-3"

# label -> formulation, options of the method, key of the separate implementation
VARIANTS: dict[str, tuple[str, dict[str, Any], str]] = {
    "stabilized": (STABILIZED, {}, "stab index2, shifted a0"),
    "stabilized, a0 = v0'": (STABILIZED, {"start": "consistent"}, "stab index2, a0=vdot0"),
    "index 3, perturbed start": (INDEX3, {}, "index3 perturbed start"),
    "index 3, v0 as given": (
        INDEX3, {"start": "unperturbed"}, "index3 consistent start (unperturbed v0, shifted a0)",
    ),
    "index 3, v0 as given, a0 = v0'": (INDEX3, {"start": "consistent"}, "index3 consistent start, a0=vdot0"),
    "index 3, projection at 0.7": (
        INDEX3, {"project_at": (PROJECTED_AT,)}, "index3 perturbed + projection at .7",
    ),
}  # fmt: skip


@cache
def exact(n: int) -> dict[str, np.ndarray]:
    """The reference on a grid of n steps over one second."""
    return parts(**trajectory(np.linspace(0.0, 1.0, n + 1)))


@cache
def run_top(n: int, variant: str) -> Solution:
    """The heavy top over one second by n steps."""
    form, options, _ = VARIANTS[variant]
    top = problems()["heavy-top"]
    sol = solve(top.system, (0, 1), top.q0, top.v0, method=GeneralizedAlpha(RHO, **options), formulation=form, h=1 / n)
    if not sol.success:
        raise ArithmeticError(sol.message)
    return sol


@cache
def error_curves(n: int, variant: str) -> dict[str, np.ndarray]:
    """Errors (n + 1,) along the run; that of lam relative to |lam|."""
    sol, right = run_top(n, variant), exact(n)
    found = parts(sol.q, sol.v, sol.lam)
    out = {name: np.linalg.norm(found[name] - right[name], axis=1) for name in QUANTITIES}
    out["lam"] = out["lam"] / np.linalg.norm(right["lam"], axis=1)
    return out


def largest(n: int, variant: str, first: int | None = None) -> dict[str, float]:
    """Largest errors over the run or over its first steps."""
    return {
        name: float(x[: None if first is None else first + 1].max()) for name, x in error_curves(n, variant).items()
    }


def slope(values: list[float]) -> float:
    """Order of convergence over all step sizes, by least squares."""
    return float(np.polyfit(-np.log(COUNTS), np.log(values), 1)[0])


def orders() -> list[Row]:
    """Orders over the whole run and over the first ten steps, for all starts."""
    rows = []
    data = published(DATA)["check"]
    for variant, (form, options, key) in VARIANTS.items():
        for table, first, column in (("orders", None, "max"), ("orders, first ten steps", FIRST, "first10")):
            if "project_at" in options and first:
                continue
            found = [largest(n, variant, first) for n in COUNTS]
            for i, name in enumerate(QUANTITIES):
                reduced = name == "lam" and form == INDEX3 and bool(options)
                expected = 1.0 if reduced else 2.0
                observed = slope([e[name] for e in found])
                # errors of q and v begin at zero: over few steps they fall faster
                agrees = abs(observed - expected) <= 0.1 if first is None or name == "lam" else observed > 1.9
                note = f"order {expected:g} within 0.1" if first is None or name == "lam" else "order 2 or more"
                if variant == "stabilized, a0 = v0'" and first and name == "lam":
                    agrees, note = 1.0 < observed < 1.95, "between 1 and 2: the start a0 = v0' costs accuracy of lam"
                rows.append(entry(table, {"variant": variant}, f"order of {name}", expected, observed, agrees, note))
                other = data["convergence"][key][column][COUNTS.index(2000)][i]
                here = found[COUNTS.index(2000)][name]
                if name == "lam":
                    close = abs(here / other - 1) < 0.02
                    note = f"within 2 % of a separate implementation, {other:.4g}"
                    rows.append(
                        entry(table, {"variant": variant, "h": 1 / 2000}, "error of lam", None, here, close, note)
                    )
    return rows


def hidden_constraint() -> list[Row]:
    """Fig. 1: residual of the hidden constraint, O(h^2) for index 3, rounding for the stabilized method."""
    rows = []
    stated = published(DATA)["stated"]["ratio of residuals for h halved"]
    before = {}
    for n in (1000, 2000):
        residual = np.abs(run_top(n, "index 3, perturbed start").drift.velocity[: round(PROJECTED_AT * n)])
        before[n] = float(residual.max())
        other = published(DATA)["check"]["projection"][f"N={n}"]["maxBv_pre"]
        note = f"within 1 % of a separate implementation, {other:.4g}"
        close = abs(before[n] / other - 1) < 0.01
        rows.append(entry("figure 1", {"h": 1 / n}, "largest |B v| before t = 0.7", None, before[n], close, note))
    ratio = before[1000] / before[2000]
    rows.append(entry("figure 1", {}, "ratio of |B v| for h halved", stated, ratio, abs(ratio - 4) < 0.1, "within 0.1"))
    held = run_top(2000, "stabilized").drift.largest["velocity"]
    rows.append(entry("figure 1", {"variant": "stabilized"}, "largest |B v|", None, held, held < 1e-12, "below 1e-12"))
    return rows


def away(n: int) -> np.ndarray:
    """|lam with projection - lam without| from the projection on."""
    plain, projected = run_top(n, "index 3, perturbed start"), run_top(n, "index 3, projection at 0.7")
    return np.asarray(np.linalg.norm(projected.lam - plain.lam, axis=1)[round(PROJECTED_AT * n) :])


def projection() -> list[Row]:
    """Fig. 2: the oscillation that a projection excites, its size O(h) and its decay."""
    rows = []
    data = published(DATA)
    stated, check = data["stated"], data["check"]["projection"]
    for n, label in ((1000, "h=1e-3"), (2000, "h=5e-4")):
        gap = away(n)
        table = check["lambda_difference_projected_minus_unprojected_at_n-n*"]
        for j, other in zip(table["n"], table[label], strict=True):
            note = f"within 2 % of a separate implementation, {other:.4g}"
            close = abs(gap[j] / other - 1) < 0.02
            rows.append(entry("figure 2", {"h": 1 / n, "step": j}, "|lam - lam without|", None, gap[j], close, note))
        # down to the errors that lam has anyway
        lam = np.linalg.norm(exact(n)["lam"][round(PROJECTED_AT * n) :], axis=1)
        usual = largest(n, "index 3, perturbed start")["lam"] * lam
        count = int(np.flatnonzero(gap > usual).max()) + 1
        close = 50 <= count <= 150
        about = stated["steps until the oscillation has died out"]
        rows.append(entry("figure 2", {"h": 1 / n}, "steps until it is below the usual error", about, count, close,
                          "about 100: between 50 and 150"))  # fmt: skip
    radius = float(np.abs(np.linalg.eigvals(error_recursion(RHO))).max())
    rows.append(entry("section 3", {"rho": RHO}, "spectral radius of T_+^-1 T_0", RHO, radius, abs(radius - RHO) < 1e-5,
                      "within 1e-5: a triple eigenvalue is found to the cube root of rounding"))  # fmt: skip
    return rows


def run(folder: Path | None = None) -> list[Row]:
    """All rows; given a folder, also all figures."""
    rows = [*orders(), *hidden_constraint(), *projection()]
    if folder is not None:
        from dalembert.papers.arnold_cardona_bruels_2015_figures import figures

        figures(Path(folder))
    return rows


PAPER = register(
    Paper(
        name="arnold-cardona-bruels-2015",
        title="M. Arnold, A. Cardona, O. Bruels, Order reduction in time integration caused by velocity projection, "
        "J. Mech. Sci. Technol. 29 (2015)",
        run=run,
        notes=(
            "The perturbed start: the term h B r of the error vector has the other sign if errors are exact minus "
            "numerical, as the rest of the recursion needs; as printed it would double the error of the start.",
            "The stabilized index-2 method is named in the paper, its equations are those of Arnold, Bruels & Cardona, "
            "Numer. Math. 129 (2015).",
        ),
    )
)
