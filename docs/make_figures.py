"""Make every figure and every table that the README and the pages of docs/ show. Run by `make docs`.

Tables go to docs/generated/NAME.md and between the marks `<!-- NAME -->` and `<!-- end NAME -->` of the pages, so that
no number in them is typed by hand.
"""

import contextlib
import dataclasses
import io
import json
import re
import runpy
import sys
import textwrap
from pathlib import Path

import numpy as np

import dalembert as da
from dalembert.analysis import alpha
from dalembert.analysis.advice import FAST
from dalembert.analysis.index import LinearDAE2, index, order_reduction, strangeness
from dalembert.papers import (
    arnold_cardona_bruels_2015,
    ascher_petzold_1993,
    ascher_petzold_1993_figures,
    eich_1993,
    jay_negrut_2007,
    papers,
    wunderlich_2005,
    wunderlich_2005_figures,
    wunderlich_2005_reduction,
)
from dalembert.problems.pendulum import exact
from dalembert.status import OptionError, Status
from dalembert.table import format_number

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
EXAMPLES = ROOT / "examples"
PAGES = [ROOT / "README.md", *sorted(HERE.glob("*.md"))]


def table(header, rows):
    """A Markdown table."""

    def line(cells):
        return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"

    return "\n".join([line(header), "|" + "---|" * len(header), *map(line, rows)])


def number(x):
    return "0" if x == 0 else f"{x:.1e}"


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


def example(name):
    """Everything that an example defines; what it prints under __main__ is not run."""
    return runpy.run_path(str(EXAMPLES / f"{name}.py"))


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


def heavy_tops(columns):
    """Steps to t = 1 and largest errors there of q, v and lam; columns: head -> options of `solve`."""
    rows = []
    for name in ("heavy-top", "heavy-top-se3"):
        problem = da.problems()[name]
        exact = problem.reference(1.0)
        for tol in (1e-6, 1e-8, 1e-10, 1e-12):
            cells = []
            for options in columns.values():
                sol = da.solve(problem.system, (0, 1), problem.q0, problem.v0, rtol=tol, atol=tol, **options)
                errors = (number(np.abs(getattr(sol, what)[-1] - exact[what]).max()) for what in ("q", "v", "lam"))
                cells.append(f"{sol.stats.steps}; {'; '.join(errors)}")
            rows.append([f"`{name}`", number(tol), *cells])
    return table(["problem", "tol", *columns], rows)


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


def radau_on_groups():
    """Radau on index 3 by its default, with three stages, and with the error test of Euclidean spaces."""
    plain = da.Projection(weight="mass", invariants=False)
    return heavy_tops(
        {
            '`Radau(3)`, `error="plain"`': {"method": da.Radau(3), "projection": plain},
            "`Radau(3)`": {"method": da.Radau(3)},
            "`Radau()`": {"method": da.Radau()},
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


def example_output():
    """What examples/pendulum.py prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        runpy.run_path(str(EXAMPLES / "pendulum.py"), run_name="__main__")
    return f"```\n{out.getvalue().rstrip()}\n```"


def registry(entries):
    return table(["name", "what it is"], [[f"`{name}`", entry.summary] for name, entry in sorted(entries.items())])


def problems():
    rows = [[f"`{name}`", p.description, p.source] for name, p in da.problems().items()]
    return table(["name", "what it is", "source"], rows)


def statuses():
    return table(["status", "value", "message"], [[f"`{s.name}`", s.value, s.message] for s in Status])


def messages():
    """What is said when something is wrong: provoked here, quoted as it comes."""
    start = {"q0": [1, 0], "v0": [0, 0]}
    model = {"q": ["x", "y"], "mass": [1.0, 1.0], "force": [0, -9.81]}

    def rod(q):
        return {"rod": q @ q - 1}

    def pendulum(**change):
        return da.System(**{**model, "constraints": rod, **change})

    def rods(t, q):  # two circles that part at t = 1
        return {"left rod": q @ q - 1, "right rod": (q[0] - 1 - t) ** 2 + q[1] ** 2 - 1}

    def twice(q):
        return {"rod": q @ q - 1, "again": 2 * (q @ q) - 2}

    def squared(q):
        return {"rod": (q @ q - 1) ** 2}

    ball = da.System(**model)
    floor = da.Event(lambda q: q[1] + 1, restitution=0.5, name="floor")

    def weakening(t):
        return np.array([0, -9.81 + np.sqrt(0.5 - t)])

    cases = {
        "q0 off the constraint": lambda: da.solve(pendulum(), (0, 1), [1.1, 0], [0, 0]),
        "q0 of the wrong length": lambda: da.solve(pendulum(), (0, 1), [1, 0, 0], [0, 0]),
        'the same constraint twice, `redundant="refuse"`': lambda: da.solve(
            pendulum(constraints=twice), (0, 1), **start, redundant="refuse"
        ),
        "a squared constraint": lambda: da.solve(pendulum(constraints=squared), (0, 1), **start),
        "an argument that does not exist": lambda: pendulum(force=lambda x: [0, 0]),
        "a method that does not exist": lambda: da.solve(pendulum(), (0, 1), **start, method="rk4"),
        "too few steps allowed": lambda: da.solve(pendulum(), (0, 100), **start, max_steps=100),
        "a force that turns NaN": lambda: da.solve(pendulum(force=weakening), (0, 1), **start),
        "impacts without end": lambda: da.solve(ball, (0, 5), **start, method="radau", events=floor),
        "bodies that overlap at the start": lambda: da.solve(ball, (0, 5), [0, -2], [0, 0], events=floor),
        "a kinematic singularity": lambda: da.solve(
            pendulum(constraints=rods), (0, 2), q0=[0.5, -np.sqrt(0.75)], initial="project"
        ),
    }
    rows = []
    for name, case in cases.items():
        try:
            sol = case()
            rows.append([name, f"`{sol.status.name}`", sol.message])
        except ValueError as error:
            rows.append([name, f"`{type(error).__name__}`", error])
    return table(["what is wrong", "error or status", "message"], rows)


def paper_notes(name):
    return "\n".join(textwrap.fill(f"- {note}", 120, subsequent_indent="  ") for note in papers()[name].notes)


def general_linear():
    """Observed orders of q, v and lam on index 3, from two step sizes, and what was predicted from the coefficients."""
    orders = example("general_linear")["orders"]
    glm, radau = da.glm, {}
    for steps, stages, counts in ((1, 2, (80, 160)), (1, 3, (10, 20)), (2, 2, (80, 160)), (3, 2, (20, 40)),
                                  (2, 3, (10, 20))):  # fmt: skip
        radau[glm.multistep_radau(steps, stages)] = counts
    cases = {
        **{glm.from_bdf(k): (100, 200) for k in (2, 3)},
        **{glm.from_bdf(k, form="interpolant"): (100, 200) for k in (2, 3)},
        **radau,
        glm.second_order_collocation([(0, 0), (0, -1)], [1 / 3, 1], "2 positions, 2 stages"): (80, 160),
        glm.second_order_collocation([(0, 0), (0, -1), (0, -2)], [1 / 3, 1], "3 positions, 2 stages"): (80, 160),
    }
    rows = []
    for method, counts in cases.items():
        cells = [", ".join(orders(method, name, counts)) for name in ("particle-on-circle", "particle-8.1.1")]
        radii = [f"{x:.2f}" for x in (method.parasitic_radius, method.radius_at_infinity)]
        rows.append([method.name, method.order, *radii, *cells])
    header = ["method", "stage order", "parasitic radius", "at infinity", "2.4.7: q, v, lam", "8.1.1: q, v, lam"]
    return table(header, rows)


def second_order_results():
    return json.loads((ROOT / "benchmarks" / "results" / "second_order.json").read_text(encoding="utf-8"))


def second_order_runs():
    """Steps and errors of modified BDF beside BDF and Radau, from benchmarks/results/second_order.json."""
    rows, shown = [], (1e-4, 1e-6, 1e-8)
    runs = second_order_results()["runs"]
    for name in dict.fromkeys(r["problem"] for r in runs):
        for tol in shown:
            found = {r["method"]: r for r in runs if r["problem"] == name and r["tol"] == tol}
            cells = []
            for r in found.values():
                motion = format_number(max(r["q"], r["v"]), 2)
                cells.append(f"{r['steps']}; {motion}; {format_number(r['lam'] / 30, 2)}")
            rows.append([name, f"{tol:.0e}", *cells])
    return table(["problem", "rtol", *(f"`{m}`" for m in dict.fromkeys(r["method"] for r in runs))], rows)


def second_order_beside():
    """Modified BDF beside BDF on the stabilized form at equal tolerance and error, from the same results."""
    show = runpy.run_path(str(ROOT / "benchmarks" / "second_order.py"))["beside_table"]
    return table(*show(second_order_results()["beside_stabilized"]))


def second_order_ratios():
    """Steps at equal error, from benchmarks/results/second_order.json."""
    ratios = second_order_results()["ratios"]
    methods = list(dict.fromkeys(r["method"] for r in ratios))
    rows = []
    for name in dict.fromkeys(r["problem"] for r in ratios):
        for tol in dict.fromkeys(r["tol"] for r in ratios):
            cells = []
            for method in methods:
                r = next(x for x in ratios if (x["problem"], x["tol"], x["method"]) == (name, tol, method))
                cells.append(" / ".join(format_number(r[what], 2) for what in ("motion", "lam")))
            rows.append([name, f"{tol:.0e}", *cells])
    return table(["problem", "rtol", *(f"`{m}`" for m in methods)], rows)


def second_order_speed():
    """Time of a step, from benchmarks/results/second_order.json."""
    rows = [[r["problem"], r["steps"], r["count"], f"{r['us_per_step']:.1f}"] for r in second_order_results()["speed"]]
    return table(["problem", "steps", "number of steps", "us a step"], rows)


def second_order_formulas():
    """Angles, error constants and growth limits, from benchmarks/results/second_order.json."""
    rows = []
    for s in second_order_results()["stability"]:
        cells = []
        for variant in ("regular", "interpolant"):
            v = s.get(variant)
            angle = "-" if v is None else "unstable" if v["angle"] is None else f"{v['angle']:.1f}"
            cells += [angle, "-" if v is None else f"{abs(v['C_a']):.3f}"]
        rows.append([s["k"], *cells, f"{s['growth_limit']:.2f}", f"{s['growth_allowed']:.2f}"])
    header = [
        "k",
        "regular: angle",
        "error constant",
        "interpolant: angle",
        "error constant",
        "growth limit",
        "allowed",
    ]
    return table(header, rows)


def collocation_orders():
    """Observed orders of q, v and lam on example 2.4.7 by constant steps; the orders of the theory behind them."""
    cases = [
        (da.Radau(2), "index-3", (80, 160)), (da.Radau(3), "index-3", (20, 40)), (da.Radau(2), "index-2", (80, 160)),
        (da.Radau(3), "index-2", (20, 40)), (da.Radau(2), "index-1", (40, 80)), (da.Radau(3), "index-1", (10, 20)),
        (da.Lobatto(3), "index-3", (40, 80)), (da.Lobatto(4), "index-3", (10, 20)),
        (da.Lobatto(3), "index-1", (20, 40)), (da.Lobatto(3, family="IIIA"), "index-1", (20, 40)),
        (da.Gauss(2), "index-1", (20, 40)), (da.Gauss(3), "index-1", (5, 10)),
    ]  # fmt: skip
    problem = da.problems()["particle-on-circle"]
    rows = []
    for method, form, counts in cases:
        errors = []
        for n in counts:
            sol = da.solve(
                problem.system, (1, 1.5), problem.q0, problem.v0, method=method, formulation=form, projection=None,
                h=0.5 / n,
            )  # fmt: skip
            exact = problem.reference(sol.t)
            errors.append([np.abs(getattr(sol, x) - exact[x]).max() for x in ("q", "v", "lam")])
        slopes = np.log2(np.divide(*errors))
        claimed = method.orders(problem.system, da.formulations()[form]())
        rows.append(
            [
                method.describe(),
                form,
                *(f"{s:.2f} ({claimed[x]})" for s, x in zip(slopes, ("q", "v", "lam"), strict=True)),
            ]
        )
    return table(["method", "form", "q", "v", "lam"], rows)


def second_order_forms():
    """Which method takes which form, and what is said where one is refused that could be tried."""
    methods = [
        da.ModifiedBDF(),
        da.Radau(3),
        da.Lobatto(3),
        da.Gauss(2),
        da.GeneralLinear(da.glm.multistep_radau(2, 2)),
    ]
    problem = da.problems()["pendulum"]
    rows, reasons = [], {}
    for name, kind in sorted(da.formulations().items()):
        if name == "essential-ode":  # wants a matrix R(t) that this system has none of
            continue
        form = kind(gamma=10.0) if name == "baumgarte" else kind()
        cells = []
        for method in methods:
            try:
                method.check(problem.system, form)
                cells.append("yes")
            except OptionError as error:
                if "does not serve" not in str(error):  # there is no second-order way of writing this form
                    cells.append("no")
                    continue
                note = reasons.setdefault(str(error).split(": ", 1)[1], len(reasons) + 1)
                cells.append(f"no ({note})")
        rows.append([f"`{name}`", *cells])
    head = ["form", *(f"`{method.name}`" for method in methods)]
    notes = [textwrap.fill(f"({n}) {text}", 120, subsequent_indent="    ") for text, n in reasons.items()]
    return table(head, rows) + "\n\n" + "\n\n".join(notes)


def indices():
    """Differentiation and strangeness index of the forms of a pendulum, and of example 3.2.1 of Wunderlich 2005."""
    problem = da.problems()["pendulum"]
    forms = {"baumgarte": da.Baumgarte(gamma=10.0), "minimal-extension": da.MinimalExtension()}
    rows = []
    for name in ("index-3", "index-2", "index-1", "baumgarte", "stabilized-index-2", "minimal-extension"):
        found = index(problem.system, problem.q0, problem.v0, formulation=forms.get(name, name))
        rows.append(
            [f"pendulum, `{name}`", found.unknowns, found.differentiation_index, found.strangeness_index,
             found.degrees_of_freedom]
        )  # fmt: skip
    example_3_2_1 = LinearDAE2(M=[[1, 0], [0, 0]], D=[[1, 0], [0, 0]], K=[[0, 1], [1, 0]])
    for text, found in (
        ("example 3.2.1, second order", strangeness(example_3_2_1)),
        ("example 3.2.1, all derivatives as unknowns", strangeness(order_reduction(example_3_2_1, "all"))),
        ("example 3.2.1, only those needed", strangeness(order_reduction(example_3_2_1))),
    ):
        unknowns = found.degrees_of_freedom + found.algebraic + found.undetermined
        rows.append([text, unknowns, getattr(found, "differentiation_index", None), found.strangeness_index,
                     found.degrees_of_freedom])  # fmt: skip
    rows = [["-" if cell is None else cell for cell in row] for row in rows]
    return table(["system", "unknowns", "differentiation index", "strangeness index", "degrees of freedom"], rows)


def second_order_ggl():
    """Orders of lam under steps 1:2 by the ways of discretising the second-order form of Gear, Gupta and Leimkuhler."""
    rows = {}
    for r in wunderlich_2005_reduction.section_7_2():
        cells = rows.setdefault(r["row"]["form"], ["", "", "", ""])
        if r["quantity"] == "lam":
            cells[0] = number(r["measured"])
        else:
            cells[r["row"]["k"]] = f"{r['measured']:.2f}"
    header = ["way", "error of lam after a change of step, k = 1", "order of lam, k = 1", "k = 2", "k = 3"]
    return table(header, [[name, *(cell or "-" for cell in cells)] for name, cells in rows.items()])


def wunderlich_agreement():
    """How much of Wunderlich 2005 is reproduced."""
    verdicts = {}
    for row in wunderlich_2005.run():
        verdicts.setdefault(row["table"], []).append(row["agrees"])
    rows = [[name, len(v), v.count(True), v.count(False), v.count(None)] for name, v in verdicts.items()]
    rows.append(["all", *(sum(row[i] for row in rows) for i in range(1, 5))])
    return table(["table", "numbers", "agree", "differ", "not judged"], rows)


def hht_orders():
    """Slopes of Jay & Negrut 2007: paper, and measured for y, z, a and the multipliers."""
    rows = []
    for label, sweep in jay_negrut_2007.SWEEPS.items():
        found = jay_negrut_2007.slopes(label)
        n = sweep.counts[-1]
        cells = [f"{found[what]:.2f}" for what in jay_negrut_2007.QUANTITIES]
        name = f"Fig. {label}" if label in jay_negrut_2007.FIGURES else label
        rows.append([name, sweep.problem, sweep.method.describe(), n, f"{sweep.order:.0f}", *cells])
    return table(["case", "problem", "method", "steps", "claim", "y", "z", "a", "lam or mu"], rows)


def hht_tolerances():
    """Automatic steps: what they cost and how far from the solution they end, in units of the tolerance."""
    measure = example("hht")["measure"]
    rows = []
    for name in ("jay-negrut-5.1", "jay-negrut-5.2", "slider-crank"):
        for tol in (1e-3, 1e-5, 1e-7):
            steps, errors = measure(name, tol)
            rows.append([f"`{name}`", f"{tol:.0e}", steps, *[f"{e / tol:.2f}" for e in errors]])
    return table(["problem", "tolerance", "steps", "error/tol of q", "of v", "of lam"], rows)


def alpha_methods():
    """Observed orders of generalized-alpha on the heavy top from h = 1e-3 and 5e-4: largest errors over the run."""
    acb = arnold_cardona_bruels_2015
    rows = []
    for variant in acb.VARIANTS:
        cells = []
        for first in (None, acb.FIRST):
            coarse, fine = (acb.largest(n, variant, first) for n in (1000, 2000))
            names = acb.QUANTITIES if first is None else ("lam",)
            cells += [f"{np.log2(coarse[name] / fine[name]):.2f}" for name in names]
        residual = acb.run_top(2000, variant).drift.largest["velocity"]
        rows.append([variant, *cells, f"{acb.largest(2000, variant)['lam']:.1e}", f"{residual:.0e}"])
    header = ["method", "x", "R", "u", "Omega", "lam", "lam, first ten steps", "error of lam", "largest |G v|"]
    return table(header, rows)


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


TABLES = {
    "half-explicit-orders": half_explicit_orders,
    "nonstiff-work": nonstiff_work,
    "nonstiff-energy": nonstiff_energy,
    "proportionality": proportionality,
    "table-3-1": published_table,
    "orders": orders,
    "drift": drift,
    "projection-variants": variants,
    "formulations-measured": formulations_measured,
    "weights": weights,
    "bdf-on-groups": bdf_on_groups,
    "radau-on-groups": radau_on_groups,
    "invariants": invariants,
    "example-output": example_output,
    "methods": lambda: registry(da.methods()),
    "formulations": lambda: registry(da.formulations()),
    "problems": problems,
    "status": statuses,
    "messages": messages,
    "paper-notes": lambda: paper_notes("eich-1993"),
    "formulations-overview": formulations_overview,
    "formulations-compared": formulations_compared,
    "diagnoses": diagnoses,
    "diagnose-rule": diagnose_rule,
    "diagnose-report": diagnose_report,
    "baumgarte": baumgarte,
    "four-examples": four_examples,
    "ascher-petzold-agreement": agreement,
    "ascher-petzold-notes": lambda: paper_notes("ascher-petzold-1993"),
    "speed": speed,
    "advice-study": advice_study,
    "general-linear": general_linear,
    "second-order-runs": second_order_runs,
    "second-order-beside": second_order_beside,
    "second-order-ratios": second_order_ratios,
    "second-order-speed": second_order_speed,
    "second-order-formulas": second_order_formulas,
    "second-order-forms": second_order_forms,
    "collocation-orders": collocation_orders,
    "second-order-ggl": second_order_ggl,
    "indices": indices,
    "wunderlich-agreement": wunderlich_agreement,
    "wunderlich-notes": lambda: paper_notes("wunderlich-2005"),
    "hht-orders": hht_orders,
    "hht-tolerances": hht_tolerances,
    "alpha-methods": alpha_methods,
}


def fill(page, name, text):
    """Put a table between its marks on a page (nothing happens where it has none)."""
    old = page.read_text(encoding="utf-8")
    pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end {name} -->)", re.DOTALL)
    new = pattern.sub(lambda m: f"{m[1]}{text}\n{m[2]}", old)
    if new != old:
        page.write_text(new, encoding="utf-8")


def draw():
    """All figures."""
    sys.path.insert(0, str(EXAMPLES))
    import demo

    demo.draw(demo.run(1e-5, None), demo.run(1e-5, "default"), 1e-5, HERE / "figures" / "pendulum_drift.png")
    eich_1993.figures(HERE / "figures")
    ascher_petzold_1993_figures.figures(HERE / "figures")
    wunderlich_2005_figures.figures(HERE / "figures")
    jay_negrut_2007.figures(HERE / "figures")
    alpha.plot().savefig(HERE / "figures" / "alpha_damping.png", dpi=120)


def main():
    (HERE / "generated").mkdir(exist_ok=True)
    draw()
    for name, make in TABLES.items():
        text = make()
        (HERE / "generated" / f"{name}.md").write_text(text + "\n", encoding="utf-8")
        for page in PAGES:
            fill(page, name, text)
        print(f"{name}.md")


if __name__ == "__main__":
    main()
