"""Tables about nonstiff methods, and errors that follow the tolerance."""

import json
import textwrap

import numpy as np

import dalembert as da
from tables.common import ROOT, table


def half_explicit_orders():
    """Observed orders of the half-explicit methods on the pendulum: largest errors over 2.2 s, halved steps."""
    problem, rows = da.problems()["pendulum"], []
    for order, n in ((1, 4000), (3, 400), (5, 200)):
        for form in ("index-2", "index-3"):
            cells, drift = [], 0.0
            for alternating in (False, True):
                found = []
                for m in (n, 2 * n):
                    h = np.tile([4.4 / (3 * m), 8.8 / (3 * m)], m // 2) if alternating else 2.2 / m
                    options = {"method": da.HalfExplicit(order), "formulation": form, "h": h}
                    sol = da.solve(problem.system, (0, 2.2), problem.q0, problem.v0, **options)
                    exact = problem.reference(sol.t)
                    found.append([np.abs(getattr(sol, x) - exact[x]).max() for x in ("q", "v", "lam")])
                    drift = sol.drift.largest["position"]
                cells += [f"{x:.2f}" for x in np.log2(np.divide(*found))]
            rows.append([order, f"`{form}`", *cells, f"{drift:.0e}"])
    names = ["q", "v", "lam"]
    return table(["order", "form", *names, *[f"{x}, h and 2h in turn" for x in names], "largest \\|g\\|"], rows)


def nonstiff_work():
    """Steps, error and time of nonstiff methods, from benchmarks/results/nonstiff.json."""
    runs = json.loads((ROOT / "benchmarks" / "results" / "nonstiff.json").read_text(encoding="utf-8"))["runs"]
    rows = [
        [f"`{r['problem']}`", f"{r['tol']:.0e}", r["method"], r["steps"], f"{r['E']:.1e}", f"{r['ms']:.2f}"]
        for r in runs
        if r["tol"] in (1e-6, 1e-10)
    ]
    return table(["problem", "tolerance", "method", "steps", "error", "ms"], rows)


def nonstiff_energy():
    """Energy of the pendulum over 5000 periods, from benchmarks/results/nonstiff.json."""
    runs = json.loads((ROOT / "benchmarks" / "results" / "nonstiff.json").read_text(encoding="utf-8"))["long"]
    rows = [
        [r["method"], r["step"], r["steps"], f"{r['s']:.1f}", f"{r['first']:.1e}", f"{r['last']:.1e}"] for r in runs
    ]
    return table(["method", "step", "steps", "s", "energy error, first 50 periods", "last 50 periods"], rows)


def proportionality():
    """Slopes of log(error at the end) against log(tolerance), from benchmarks/results/proportionality.json."""
    found = json.loads((ROOT / "benchmarks" / "results" / "proportionality.json").read_text(encoding="utf-8"))
    problems = list(dict.fromkeys(r["problem"] for r in found))
    slopes = {(r["method"], r["problem"]): r["slope"] or "-" for r in found}
    rows = [[m, *[slopes[m, p] for p in problems]] for m in dict.fromkeys(r["method"] for r in found)]
    return table(["method", *[f"`{p}`" for p in problems]], rows)


def peers():
    """The README's sentence on other tools, from benchmarks/results/peers.json."""
    results = json.loads((ROOT / "benchmarks" / "results" / "peers.json").read_text(encoding="utf-8"))
    found = [r for r in results["ratios"]["seconds"] if r["bound"] != ">"]  # those that got as accurate
    keeps, drifts = ([r["ratio"] for r in found if (r["target"] > 1) == kept] for kept in (True, False))
    models, errors = (list(dict.fromkeys(r[what] for r in found)) for what in ("model", "error"))
    least, most, median = (float(f"{x:.2g}") for x in (min(keeps), max(keeps), np.median(keeps)))
    text = (
        f"Whole calls on {len(models)} mechanisms ({', '.join(models)}), at errors of "
        f"{', '.join(f'{x:.0e}' for x in errors)} at the end: {least:g} to {most:.0f} times faster (median "
        f"{median:.0f}) than tools that keep the constraints and return multipliers: IDA, IDAS, scipy_dae, Exudyn; "
        f"{min(drifts):.1f} to {max(drifts):.0f} times as fast (median {np.median(drifts):.1f}) as codes for ODEs, "
        "whose solutions drift off the constraints: DOP853 and LSODA by numbalsoda, heyoka, CVODES."
    )
    return textwrap.fill(text, 120, break_on_hyphens=False)


TABLES = {
    "peers": peers,
    "half-explicit-orders": half_explicit_orders,
    "nonstiff-work": nonstiff_work,
    "nonstiff-energy": nonstiff_energy,
    "proportionality": proportionality,
}
