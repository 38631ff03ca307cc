"""Tables about formulations, their diagnosis and Ascher & Petzold 1993."""

import dataclasses
import json
import textwrap

import numpy as np

import dalembert as da
from dalembert.analysis.advice import FAST
from dalembert.papers import (
    ascher_petzold_1993,
)
from tables.common import ROOT, example, number, paper_notes, table

# What cannot be measured about the forms of examples/formulations.py: options, and where they fail.
FAILS = {
    "index-1": "velocities where constraints turn fast; singular if h nu = 1 exactly (Example 4)",
    "underlying-ode": "as index 1; black boxes; forces that are not linear in the multipliers",
    "overdetermined": '`weight="mass"` where masses are very uneven (Example 3)',
    "overdetermined, positions only": "constraints that turn fast: the free velocities blow up (Example 4)",
    "baumgarte, gamma = 10": "gamma must be guessed: too small drifts, too large is stiff (Examples 1, 2)",
    "index-2": "stiff geometry (Examples 2, 3); long runs drift",
    "index-2, gamma = 10": "as index 2; gamma must be guessed",
    "index-3": "stiff geometry (Examples 2, 3); multipliers when the step changes",
    "stabilized-index-2": "stiff geometry (Examples 2, 3); velocities where constraints turn fast (Example 4)",
    "projected-invariants, Pa": '`D="M^-1 G^T"` where masses are very uneven (Example 3)',
    "projected-invariants, Pb": "velocities where constraints turn fast (Example 4)",
    "projected-invariants, Pc": "in neither Example 3 nor 4; less accurate than Pb on the bead",
    "minimal-extension": "constraints that turn by more than about 24 degrees a step",
    "minimal-extension, full": "as minimal-extension",
    "state-space": "constraints that turn by more than about 40 degrees a step; slow if they turn fast",
    "essential-ode": "R(t) is rarely known",
}


def size(form):
    """Number of unknowns as a formula, found from three systems and checked with a fourth."""
    names = ("pendulum", "andrews", "four-bar", "double-pendulum")
    systems = [da.problems()[name].system for name in names]
    counts = np.array([sum(block.size for block in form.unknowns(system)) for system in systems])
    sizes = np.array([[system.nv, system.nlam] for system in systems])
    n, m = np.round(np.linalg.lstsq(sizes[:3], counts[:3], rcond=None)[0]).astype(int)
    assert np.array_equal(sizes @ [n, m], counts)
    terms = [f"{'' if abs(k) == 1 else abs(k)}{letter}" for k, letter in ((n, "n"), (m, "m")) if k]
    return (" - " if m < 0 else " + ").join(terms), counts[0]


def residual(form, level, t_end=100.0, tolerance=1e-7):
    """Largest residual of a run of the pendulum in two windows of a period, ending at t_end / 10 and t_end."""
    problem = da.problems()["pendulum"]
    sol = da.solve(
        problem.system, (0, t_end), problem.q0, problem.v0, method="bdf", formulation=form, rtol=tolerance,
        atol=tolerance,
    )  # fmt: skip
    size = np.abs(getattr(sol.drift, level)).max(axis=1)
    return [size[(sol.t > t - 2) & (sol.t <= t)].max() for t in (t_end / 10, t_end)]


def formulations_overview():
    """All formulations: unknowns, index, what holds and what drifts (measured), options."""
    rows = []
    for label, form in example("formulations")["FORMS"].items():
        formula, pendulum = size(form)
        blocks = form.unknowns(da.problems()["pendulum"].system)
        index = max(block.index for block in blocks) if any(b.size and not b.differential for b in blocks) else 0
        exact_levels, drifting = [], []
        if form.name == "essential-ode":
            exact_levels = ["g, g' (by construction)"]  # there is no R(t) for the pendulum
        else:
            for level, symbol in (("position", "g"), ("velocity", "g'")):
                early, late = residual(form, level)
                if late < 1e-11:
                    exact_levels.append(symbol)
                    continue
                power = np.log10(late / early)
                growth = f"grows as t^{power:.1f}" if power > 0.3 else "bounded"
                drifting.append(f"{symbol}: {number(late)}, {growth}")
        options = ", ".join(f"`{f.name}`" for f in dataclasses.fields(form))
        rows.append([
            label, formula, pendulum, index, ", ".join(exact_levels) or "none", "; ".join(drifting) or "nothing",
            options or "none", FAILS[label],
        ])  # fmt: skip
    header = ["form", "unknowns", "pendulum", "index", "holds to rounding", "drifts, t = 100", "options", "fails"]
    return table(header, rows)


def formulations_compared():
    """examples/formulations.py in a table."""
    space = example("formulations")
    rounds = [[space["compare"](label, repeat=10) for label in space["FORMS"]] for _ in range(20)]  # in turns
    rows = []
    for equal_runs in zip(*rounds, strict=True):
        label, unknowns, *numbers, steps, _ = equal_runs[0]
        cost = min(run[-1] for run in equal_runs)
        rows.append([label, unknowns, *map(number, numbers), steps, f"{cost:.1f}"])
    return table(space["COLUMNS"], rows)


def diagnoses():
    """Rates along trial runs, and what follows from them."""
    rows = []
    for name, (system, start, parameters) in example("diagnose")["CASES"].items():
        d = da.diagnose(system, **start, parameters=parameters)
        relative = [getattr(d.rates, rate) / d.rates.motion for rate in ("turning", "FC", "RS", "frozen")]
        rates = ["0" if rate < 1e-6 else f"{rate:.0f}" if rate >= 10 else f"{rate:.2g}" for rate in relative]
        rows.append([name, f"{d.rates.motion:.2g}", *rates, d.case, f"`{d.formulation.describe()}`"])
    return table(["system", "motion, 1/s", "turning", "F C'", "R'S", "frozen decay", "case", "advice"], rows)


def diagnose_rule():
    """The line between slow and fast, as `diagnose` draws it."""
    text = (
        f"A rate is fast if it is more than {FAST:g} times that of the motion. R'S and F C' both fast: case 4. "
        "Otherwise, constraints that turn fast: case 2. Otherwise, a fast frozen decay: case 3. Otherwise case 1. "
        "The line is a convention; near it, try both forms."
    )
    return textwrap.fill(text, 120)


def diagnose_report():
    """What `diagnose` says about the pendulum."""
    system, start, parameters = example("diagnose")["CASES"]["pendulum"]
    lines = str(da.diagnose(system, **start, parameters=parameters)).splitlines()
    width = len(lines[0]) - len(lines[0].split("  ")[-1].strip())
    wrapped = [textwrap.fill(line, 120, subsequent_indent=" " * width, drop_whitespace=True) for line in lines]
    return "```\n" + "\n".join(wrapped) + "\n```"


def baumgarte():
    """examples/baumgarte.py in a table, with more values of gamma."""
    space = example("baumgarte")
    rows = []
    for gamma in (0.0, 0.1, 1.0, 10.0, 100.0, 1e3, 1e4, 1e5):
        error, drift, steps, rejected = space["swing"](gamma)
        fixed = [number(space["variable_coefficients"](gamma, example)) for example in (1, 2)]
        rows.append([f"{gamma:g}", number(drift), number(error), f"{steps} + {rejected}", *fixed])
    header = ["gamma", "pendulum: drift", "error v", "steps + rejected", "Example 1: error", "Example 2: error"]
    return table(header, rows)


def four_examples():
    """Steps of BDF with error control on the examples of Ascher & Petzold, and the error at the end."""
    forms = {
        "index-1, projected": da.Index1(),
        "baumgarte, gamma = 10": da.Baumgarte(gamma=10.0),
        "index-2": da.Index2(),
        "index-3": da.Index3(),
        "stabilized-index-2": da.StabilizedIndex2(),
        "projected-invariants, Pa": da.ProjectedInvariants(levels=1),
        "projected-invariants, Pb": da.ProjectedInvariants(levels=2),
        "projected-invariants, Pc": da.ProjectedInvariants(levels=2, balanced=True),
        "state-space": da.StateSpace(),
    }
    rows = []
    for label, form in forms.items():
        cells = []
        for i, nu in ((1, 1000.0), (2, 1000.0), (3, 1000.0), (4, 100.0)):
            problem = da.problems()[f"ascher-petzold-{i}"]
            if i < 3 and getattr(form, "levels", 1) == 2:
                cells.append("has one level")
                continue
            sol = da.solve(
                problem.system, problem.t_span, problem.q0, problem.v0, method="bdf", formulation=form, rtol=1e-6,
                atol=1e-6, parameters={"nu": nu},
            )  # fmt: skip
            errors = ascher_petzold_1993.errors(i, sol)
            cells.append(f"{sol.stats.steps}, {number(max(errors.values()))}" if sol.success else sol.status.name)
        rows.append([label, *cells])
    header = ["form", *(f"Example {i}, nu = {nu}" for i, nu in ((1, 1000), (2, 1000), (3, 1000), (4, 100)))]
    return table(header, rows)


def agreement():
    """How much of Ascher & Petzold 1993 is reproduced."""
    rows = []
    for name in ascher_petzold_1993.TABLES:
        verdicts = [row["agrees"] for row in ascher_petzold_1993.table(name)]
        rows.append([name, len(verdicts), verdicts.count(True), verdicts.count(False), verdicts.count(None)])
    rows.append(["all", *(sum(row[i] for row in rows) for i in range(1, 5))])
    return table(["table", "numbers", "agree", "differ", "decided by rounding"], rows)


def advice_study():
    """The advised form against the best one, from benchmarks/results/formulations.json."""
    results = json.loads((ROOT / "benchmarks" / "results" / "formulations.json").read_text(encoding="utf-8"))

    def milliseconds(entry, form):
        return f"{1e3 * next(f['seconds'] for f in entry['forms'] if f['form'] == form):.2f}"

    rows = [
        [x["name"], x["text"], x["case"], f"`{x['advised']}`", milliseconds(x, x["advised"]), f"`{x['best']}`",
         milliseconds(x, x["best"]), f"{x['ratio']:.2f}"]
        for x in results["problems"]
    ]  # fmt: skip
    worst = max(x["ratio"] for x in results["problems"])
    head = ["system", "what", "case", "advised", "ms", "best", "ms", "advised / best"]
    return (
        f"{table(head, rows)}\n\nWall time of BDF for a relative error of {number(results['target'])}; "
        f"largest ratio {worst:.2f}."
    )


TABLES = {
    "formulations-overview": formulations_overview,
    "formulations-compared": formulations_compared,
    "diagnoses": diagnoses,
    "diagnose-rule": diagnose_rule,
    "diagnose-report": diagnose_report,
    "baumgarte": baumgarte,
    "four-examples": four_examples,
    "ascher-petzold-agreement": agreement,
    "ascher-petzold-notes": lambda: paper_notes("ascher-petzold-1993"),
    "advice-study": advice_study,
}
