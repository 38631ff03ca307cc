"""Tables about second-order systems, collocation, general linear methods and Wunderlich 2005."""

import json
import runpy
import textwrap

import numpy as np

import dalembert as da
from dalembert.analysis.index import LinearDAE2, index, order_reduction, strangeness
from dalembert.papers import (
    wunderlich_2005,
    wunderlich_2005_reduction,
)
from dalembert.status import OptionError
from dalembert.table import format_number
from tables.common import ROOT, example, heavy_tops, number, paper_notes, table


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
    """Observed orders of q, v and lam by constant steps; the orders of the theory behind them.

    On example 2.4.7; on the stabilized form, of whose errors of lam two cancel in part there, on the pendulum.
    """
    cases = [
        (da.Radau(2), "index-3", (80, 160)), (da.Radau(3), "index-3", (20, 40)), (da.Radau(2), "index-2", (80, 160)),
        (da.Radau(3), "index-2", (20, 40)), (da.Radau(2), "stabilized-index-2", (80, 160)),
        (da.Radau(3), "stabilized-index-2", (40, 80)), (da.Radau(2), "index-1", (40, 80)),
        (da.Radau(3), "index-1", (10, 20)),
        (da.Lobatto(3), "index-3", (40, 80)), (da.Lobatto(4), "index-3", (10, 20)),
        (da.Lobatto(3), "index-1", (20, 40)), (da.Lobatto(3, family="IIIA"), "index-1", (20, 40)),
        (da.Gauss(2), "index-1", (20, 40)), (da.Gauss(3), "index-1", (5, 10)),
    ]  # fmt: skip
    rows = []
    for method, form, counts in cases:
        problem = da.problems()["pendulum" if form == "stabilized-index-2" else "particle-on-circle"]
        errors, t0 = [], problem.t_span[0]
        for n in counts:
            sol = da.solve(
                problem.system, (t0, t0 + 0.5), problem.q0, problem.v0, method=method, formulation=form,
                projection=None, h=0.5 / n,
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


TABLES = {
    "radau-on-groups": radau_on_groups,
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
}
