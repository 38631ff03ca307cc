"""Tables about BDF, projection and Eich 1993."""

import contextlib
import io
import json
import runpy
import textwrap

import numpy as np

import dalembert as da
from dalembert.papers import (
    eich_1993,
)
from dalembert.problems.pendulum import exact
from tables.common import EXAMPLES, ROOT, heavy_tops, number, paper_notes, table


def published_table():
    """Table 3.1 of Eich 1993: printed / measured."""
    rows = {}
    for r in eich_1993.table_3_1():
        key = r["row"]["TOL"], r["row"]["projection"]
        mark = "" if r["agrees"] else " (!)"
        rows.setdefault(key, []).append(f"{number(r['paper'])} / {number(r['measured'])}{mark}")
    header = ["TOL", "projection", *eich_1993.COLUMNS]
    return table(header, [[f"{tol:.0e}", variant, *cells] for (tol, variant), cells in rows.items()])


def orders():
    """Theorem 3.2: observed orders of q, v and lam."""
    cells = {}
    for r in eich_1993.theorem_3_2():
        mark = "" if r["agrees"] else " (!)"
        cells.setdefault((r["row"]["projection"], r["row"]["k"]), []).append(f"{r['measured']:.2f}{mark}")
    rows = [[variant, *(", ".join(cells[variant, k]) for k in eich_1993.STEPS)] for variant in eich_1993.ORDER_VARIANTS]
    return table(["projection", *(f"k = {k}" for k in eich_1993.STEPS)], rows)


def drift():
    """Residuals after 10 and 100 s, and the power of t with which they grow."""
    rows = []
    for variant in ("none", "sequential", "joint"):
        run = eich_1993.drift_run(variant)
        cells = [variant]
        for level in ("position", "velocity", "energy"):
            at = [run[level][(run["t"] > t - 2) & (run["t"] <= t)].max() for t in (10, 100)]
            grows = at[1] > 1e-12
            power = f", grows as t^{np.log10(at[1] / at[0]):.1f}" if grows else ""
            cells.append(f"{number(at[0])}, {number(at[1])}{power}")
        rows.append(cells)
    return table(["projection", "position, t = 10, 100", "velocity, t = 10, 100", "energy, t = 10, 100"], rows)


def variants():
    """Options of the projection, pendulum over 50 periods."""
    problem = da.problems()["pendulum"]
    rows = []
    for text, projection in (
        ("`None`", None),
        ("`Projection()`", da.Projection()),
        ('`Projection(levels="position")`', da.Projection(levels=("position",))),
        ('`Projection(levels="velocity")`', da.Projection(levels=("velocity",))),
        ('`Projection(iteration="gauss-newton")`', da.Projection(iteration="gauss-newton")),
        ('`Projection(error="projected")`', da.Projection(error="projected")),
        ('`Projection(coupling="joint")`', da.Projection(coupling="joint")),
        ('`Projection(coupling="joint", iteration="gauss-newton")`',
         da.Projection(coupling="joint", iteration="gauss-newton")),
        ('`Projection(coupling="joint", error="projected")`', da.Projection(coupling="joint", error="projected")),
    ):  # fmt: skip
        sol = da.solve(
            problem.system, (0, 100), problem.q0, problem.v0, method="bdf", projection=projection, rtol=1e-7, atol=1e-7
        )
        reference, largest = exact(100.0), sol.drift.largest
        errors = [number(np.abs(getattr(sol, n)[-1] - reference[n]).max()) for n in ("q", "v", "lam")]
        rows.append([text, *errors, number(largest["position"]), number(largest["velocity"]), sol.stats.steps])
    return table(["projection", "error q", "error v", "error lam", "drift q", "drift v", "steps"], rows)


def formulations_measured():
    """The same run on the three constraint levels, as they are and projected."""
    problem = da.problems()["pendulum"]
    rows = []
    for name in ("index-1", "index-2", "index-3"):
        for text, projection in (("none", None), ("sequential", da.Projection())):
            sol = da.solve(
                problem.system, (0, 10), problem.q0, problem.v0, method="bdf", formulation=name, projection=projection,
                rtol=1e-7, atol=1e-7,
            )  # fmt: skip
            reference, largest = exact(sol.t), sol.drift.largest
            errors = [number(np.abs(getattr(sol, n) - reference[n]).max()) for n in ("q", "v", "lam")]
            rows.append(
                [name, text, *errors, number(largest["position"]), number(largest["velocity"]), sol.stats.steps]
            )
    return table(["formulation", "projection", "error q", "error v", "error lam", "drift q", "drift v", "steps"], rows)


def speed():
    """The README's sentence on speed, from benchmarks/results/pendulum.json."""
    results = json.loads((ROOT / "benchmarks" / "results" / "pendulum.json").read_text(encoding="utf-8"))
    tolerances = (1e-5, 1e-9)

    def span(values, digits):
        low, high = (f"{value:.{digits}f}" for value in (min(values), max(values)))
        return low if low == high else f"{low} to {high}"

    def inside(row):
        return tolerances[0] >= row["tol"] * 0.999 and row["tol"] * 1.001 >= tolerances[1]

    ours = [run for run in results["runs"] if run["tool"].startswith("dalembert") and inside(run)]

    def times(peer):
        return span([row["ratio"] for row in results["ratios"] if row["peer"] == peer and inside(row)], 0)

    errors = [run["error"] for run in ours]
    text = (
        f"A pendulum over 50 periods, tolerances {tolerances[0]:.0e} to {tolerances[1]:.0e}: "
        f"{span([run['us_per_step'] for run in ours], 1)} us a step. At equal end error "
        f"({number(max(errors))} to {number(min(errors))}) that is {times('IDA (scikit-sundae)')} times faster than "
        f"scikit-sundae's IDA ({times('IDA (scikit-sundae), tuned')} times with IDA tuned to this problem) and "
        f"{times('IDAS (CasADi)')} times faster than CasADi's IDAS, which integrate the stabilized index-2 form."
    )
    return textwrap.fill(text, 120)


def weights():
    """Metric of the projection on a double pendulum with masses 1 and 100, against a run at a tight tolerance."""
    double = da.Lagrangian(
        q=["x1", "y1", "x2", "y2"],
        kinetic=lambda v, p: 0.5 * p.m1 * (v[:2] @ v[:2]) + 0.5 * p.m2 * (v[2:] @ v[2:]),
        potential=lambda q, p: 9.81 * (p.m1 * q[1] + p.m2 * q[3]),
        constraints=lambda q: [q[:2] @ q[:2] - 1, (q[2:] - q[:2]) @ (q[2:] - q[:2]) - 1],
        parameters={"m1": 1.0, "m2": 100.0},
    )
    start = {"q0": [0.6, -0.8, 1.2, -1.6], "v0": [0, 0, 0, 0]}
    reference = da.solve(double, (0, 5), **start, rtol=1e-12, atol=1e-13)
    rows = []
    for coupling in ("sequential", "joint"):
        for weight in (None, "mass"):
            projection = da.Projection(coupling=coupling, weight=weight)
            sol = da.solve(double, (0, 5), **start, method="bdf", projection=projection, rtol=1e-7, atol=1e-7)
            errors = [number(np.abs(getattr(sol, n)[-1] - getattr(reference, n)[-1]).max()) for n in ("q", "v")]
            change = np.abs(sol.energy - sol.energy[0]).max()
            rows.append([coupling, repr(weight).replace("'", '"'), *errors, number(change), sol.stats.steps])
    return table(["coupling", "weight", "error q", "error v", "energy", "steps"], rows)


def bdf_on_groups():
    """BDF of order 5 and its default, in two metrics."""
    five = da.BDF(max_order=5)
    return heavy_tops(
        {
            "`BDF(5)`, `weight=None`": {"method": five, "projection": da.Projection()},
            '`BDF(5)`, `weight="mass"`': {"method": five},
            "`BDF()`": {"method": da.BDF()},
        }
    )


def invariants():
    """examples/energy_invariant.py in a table."""
    with contextlib.redirect_stdout(io.StringIO()):
        space = runpy.run_path(str(EXAMPLES / "energy_invariant.py"))
    rows = []
    for keep in (False, True):
        sol = da.solve(
            space["pendulum"], (0, 100), [0.6, -0.8], [0, 0], method="bdf", projection=da.Projection(invariants=keep)
        )
        largest = sol.drift.largest
        rows.append([keep, *(number(largest[n]) for n in ("invariants", "position", "velocity")), sol.stats.steps])
    return table(["invariants=", "energy", "drift q", "drift v", "steps"], rows)


TABLES = {
    "table-3-1": published_table,
    "orders": orders,
    "drift": drift,
    "projection-variants": variants,
    "formulations-measured": formulations_measured,
    "weights": weights,
    "bdf-on-groups": bdf_on_groups,
    "invariants": invariants,
    "paper-notes": lambda: paper_notes("eich-1993"),
    "speed": speed,
}
