"""Make every figure and every table that the README and the pages of docs/ show. Run by `make docs`.

Tables go to docs/generated/NAME.md and between the marks `<!-- NAME -->` and `<!-- end NAME -->` of the pages, so that
no number in them is typed by hand.
"""

import contextlib
import io
import re
import runpy
import sys
from pathlib import Path

import numpy as np

import dalembert as da
from dalembert.papers import eich_1993, papers
from dalembert.problems.pendulum import exact
from dalembert.status import Status

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
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
        sol = da.solve(problem.system, (0, 100), problem.q0, problem.v0, projection=projection, rtol=1e-7, atol=1e-7)
        reference, largest = exact(100.0), sol.drift.largest
        errors = [number(np.abs(getattr(sol, n)[-1] - reference[n]).max()) for n in ("q", "v", "lam")]
        rows.append([text, *errors, number(largest["position"]), number(largest["velocity"]), sol.stats.steps])
    return table(["projection", "error q", "error v", "error lam", "drift q", "drift v", "steps"], rows)


def formulations_measured():
    """The same run in three formulations, as they are and projected."""
    problem = da.problems()["pendulum"]
    rows = []
    for name in [n for n, f in da.formulations().items() if f.self_contained]:
        for text, projection in (("none", None), ("sequential", da.Projection())):
            sol = da.solve(
                problem.system, (0, 10), problem.q0, problem.v0, formulation=name, projection=projection, rtol=1e-7,
                atol=1e-7,
            )  # fmt: skip
            reference, largest = exact(sol.t), sol.drift.largest
            errors = [number(np.abs(getattr(sol, n) - reference[n]).max()) for n in ("q", "v", "lam")]
            rows.append(
                [name, text, *errors, number(largest["position"]), number(largest["velocity"]), sol.stats.steps]
            )
    return table(["formulation", "projection", "error q", "error v", "error lam", "drift q", "drift v", "steps"], rows)


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
            sol = da.solve(double, (0, 5), **start, projection=projection, rtol=1e-7, atol=1e-7)
            errors = [number(np.abs(getattr(sol, n)[-1] - getattr(reference, n)[-1]).max()) for n in ("q", "v")]
            change = np.abs(sol.energy - sol.energy[0]).max()
            rows.append([coupling, repr(weight).replace("'", '"'), *errors, number(change), sol.stats.steps])
    return table(["coupling", "weight", "error q", "error v", "energy", "steps"], rows)


def invariants():
    """examples/energy_invariant.py in a table."""
    with contextlib.redirect_stdout(io.StringIO()):
        space = runpy.run_path(str(ROOT / "examples" / "energy_invariant.py"))
    rows = []
    for keep in (False, True):
        sol = da.solve(space["pendulum"], (0, 100), [0.6, -0.8], [0, 0], projection=da.Projection(invariants=keep))
        largest = sol.drift.largest
        rows.append([keep, *(number(largest[n]) for n in ("invariants", "position", "velocity")), sol.stats.steps])
    return table(["invariants=", "energy", "drift q", "drift v", "steps"], rows)


def example_output():
    """What examples/pendulum.py prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        runpy.run_path(str(ROOT / "examples" / "pendulum.py"), run_name="__main__")
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

    def weakening(t):
        return np.array([0, -9.81 + np.sqrt(0.5 - t)])

    cases = {
        "q0 off the constraint": lambda: da.solve(pendulum(), (0, 1), [1.1, 0], [0, 0]),
        "q0 of the wrong length": lambda: da.solve(pendulum(), (0, 1), [1, 0, 0], [0, 0]),
        "the same constraint twice": lambda: da.solve(pendulum(constraints=twice), (0, 1), **start),
        "a squared constraint": lambda: da.solve(pendulum(constraints=squared), (0, 1), **start),
        "an argument that does not exist": lambda: pendulum(force=lambda x: [0, 0]),
        "a method that does not exist": lambda: da.solve(pendulum(), (0, 1), **start, method="rk4"),
        "too few steps allowed": lambda: da.solve(pendulum(), (0, 100), **start, max_steps=100),
        "a force that turns NaN": lambda: da.solve(pendulum(force=weakening), (0, 1), **start),
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


def paper_notes():
    return "\n".join(f"- {note}" for note in papers()["eich-1993"].notes)


TABLES = {
    "table-3-1": published_table,
    "orders": orders,
    "drift": drift,
    "projection-variants": variants,
    "formulations-measured": formulations_measured,
    "weights": weights,
    "invariants": invariants,
    "example-output": example_output,
    "methods": lambda: registry(da.methods()),
    "formulations": lambda: registry(da.formulations()),
    "problems": problems,
    "status": statuses,
    "messages": messages,
    "paper-notes": paper_notes,
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
    sys.path.insert(0, str(ROOT / "examples"))
    import demo

    demo.draw(demo.run(1e-5, None), demo.run(1e-5, "default"), 1e-5, HERE / "figures" / "pendulum_drift.png")
    eich_1993.figures(HERE / "figures")


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
