"""Figures for Wunderlich 2005: errors of the multiplier under step changes, orders, example 8.1.1, truck."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from dalembert.integrators.bdf import BDF
from dalembert.integrators.modified_bdf import ModifiedBDF
from dalembert.papers import wunderlich_2005 as w
from dalembert.papers import wunderlich_2005_example as example
from dalembert.papers import wunderlich_2005_runs as runs
from dalembert.papers import wunderlich_2005_truck as truck
from dalembert.papers.base import published
from dalembert.papers.figures import BLACK, BLUE, CYCLE, GREEN, PURPLE, RED, SKY, legend_below, panels, write
from dalembert.problems.base import problems

FINE = (25, 50, 100, 200, 400)
TOLERANCE = 1e-4


def draw_step_changes() -> Any:
    """Tables 3.1 and 3.2: error of lam after each step."""
    figure, axes = panels(1, 3, width=3.9, height=3.8, sharey=True)
    data = published(runs.DATA)
    styles = {False: ("bdf", RED, "o", "BDF on index 3"), True: ("modified", BLUE, "s", "modified BDF")}
    steps = tuple(data["table_3_1"]["steps"])
    for modified, (column, color, marker, label) in styles.items():
        errors = w.multiplier_errors(modified, 1, steps)[1]
        number = np.arange(1, len(steps) + 1)
        axes[0, 0].semilogy(number, errors, marker=marker, color=color, markersize=5, linewidth=1.3, label=label)
        axes[0, 0].semilogy(number, data["table_3_1"][column], "+", color=BLACK, markersize=9, markeredgewidth=1.4,
                            label="Wunderlich 2005" if modified else None)  # fmt: skip
        for axis, h in zip(axes[0, 1:], ("0.005", "0.01"), strict=True):
            t, errors = w.multiplier_errors(modified, 2, float(h))
            axis.semilogy(t, errors, marker=marker, color=color, markersize=5, linewidth=1.3)
            printed = data["table_3_2"][h]
            axis.semilogy(printed["t"], printed[column], "+", color=BLACK, markersize=9, markeredgewidth=1.4)
    axes[0, 0].set_xticks(range(1, 11), [f"{i}\n{1e6 * h:g}" for i, h in enumerate(steps, 1)], fontsize=7)
    axes[0, 0].set_xlabel("step number, and step size in 10⁻⁶")
    axes[0, 0].set_title("order 1, step size changed (Table 3.1)", fontsize=10)
    for axis, h in zip(axes[0, 1:], ("0.005", "0.01"), strict=True):
        axis.set_xlabel("time t")
        axis.set_xticks(np.arange(1.01, 1.055, 0.01))
        axis.set_title(f"orders 1, 2, 2, …, h = {h} (Table 3.2)", fontsize=10)
    axes[0, 0].set_ylabel("|λ error|")
    legend_below(figure, axes[0, 0], 3)
    figure.suptitle("Changes of step size and order: the error of λ on example 2.4.7", fontsize=11)
    return figure


def draw_orders() -> Any:
    """Error of lam against the step size."""
    figure, axes = panels(1, 2, width=4.6, height=4.2, sharey=True)
    for axis, pattern in zip(axes[0], w.PATTERNS, strict=True):
        for k, color in zip(w.COUNTS, CYCLE, strict=False):
            h = w.SPAN / np.array(FINE)
            modified = [w.largest_errors(runs.CIRCLE, ModifiedBDF(k), n, pattern)["lam"] for n in FINE]
            plain = [w.largest_errors(runs.CIRCLE, BDF(k), n, pattern, True)["lam"] for n in FINE]
            axis.loglog(h, modified, "s-", color=color, markersize=5, linewidth=1.3, label=f"modified BDF, k = {k}")
            axis.loglog(h, plain, "o--", color=color, markersize=4, linewidth=1.1, markerfacecolor="white",
                        label=f"BDF on index 3, k = {k}")  # fmt: skip
        axis.set_xticks(w.SPAN / np.array(FINE), [f"0.5/{n}" for n in FINE])
        axis.minorticks_off()
        axis.set_xlabel("mean step size")
        axis.set_title(f"{pattern} steps", fontsize=10)
    axes[0, 0].set_ylabel("largest |λ error| on [1.25, 1.5]")
    legend_below(figure, axes[0, 0], 4)
    figure.suptitle("Order of λ on example 2.4.7: k by modified BDF, k − 1 by BDF when steps change", fontsize=11)
    return figure


def draw_example() -> Any:
    """Tables 8.1, 8.3 and 8.4: errors beside the printed ones."""
    figure, axes = panels(1, 3, width=3.9, height=3.8, sharex=True)
    titles = {"table_8_1": "modified BDF(2) (Table 8.1)", "table_8_3": "modified BDF(2) (Table 8.3)",
              "table_8_4": "Radau IIA, 2 stages (Table 8.4)"}  # fmt: skip
    for axis, (table, title) in zip(axes[0], titles.items(), strict=True):
        printed = published(runs.DATA)[table]
        columns = printed if table == "table_8_4" else printed["modified"]
        for name, color, marker, label in (("q1", BLUE, "s", "q₁"), ("lam", GREEN, "o", "λ")):
            measured = example.prescribed(table)[name]
            axis.semilogy(printed["t"], measured, color=color, marker=marker, markersize=5, linewidth=1.3, label=label)
            last = "Wunderlich 2005" if name == "lam" else None
            axis.semilogy(printed["t"], columns[name], "+", color=BLACK, markersize=9, markeredgewidth=1.4, label=last)
        axis.set_xlabel("time t")
        axis.set_title(title, fontsize=10)
    axes[0, 0].set_ylabel("absolute error")
    legend_below(figure, axes[0, 0], 3)
    figure.suptitle("Example 8.1.1 on steps made from the printed numbers of steps", fontsize=11)
    return figure


def draw_multiplier() -> Any:
    """Figures 8.1 and 8.2: lam of example 8.1.1, and its error."""
    figure, axes = panels(1, 2, width=5.4, height=3.9)
    printed, reference = published(runs.DATA)["table_8_1"], problems()[runs.STEADY].reference
    assert reference is not None
    other = runs.dassl(runs.STEADY)
    counts = printed["modified"]["steps"]
    h = example.sequence(counts, 4)
    ours = runs.integrate(runs.STEADY, runs.thesis(2), sum(h), h=h, projection=None)
    fine: Any = np.linspace(0.0, 1.0, 201)
    axes[0, 0].plot(fine, reference(fine)["lam"][:, 0], color=BLACK, linewidth=1.2, label="exact")
    label = f"modified BDF(2), {ours.t.size - 1} steps"
    for t, lam, color, marker, name in (
        (other.t, other.lam[:, 0], RED, "o", f"{other.code}, {other.steps} steps"),
        (ours.t, ours.lam[:, 0], BLUE, "s", label),
    ):
        axes[0, 0].plot(t, lam, marker=marker, color=color, markersize=4, linewidth=0.9, label=name)
        error = np.abs(lam - reference(t)["lam"][:, 0])  # type: ignore[arg-type]
        axes[0, 1].semilogy(t[1:], error[1:], marker=marker, color=color, markersize=4, linewidth=0.9, label=name)
    marks = {"modified": ("+", "Wunderlich 2005, modified BDF"), "dassl": ("x", "Wunderlich 2005, DASSL")}
    for column, (marker, name) in marks.items():
        axes[0, 1].semilogy(printed["t"], printed[column]["lam"], marker, color=BLACK, markersize=8,
                            markeredgewidth=1.4, label=name)  # fmt: skip
    axes[0, 0].set_title("λ (Figure 8.1)", fontsize=10)
    axes[0, 1].set_title("|λ error| (Figure 8.2)", fontsize=10)
    axes[0, 1].set_ylim(1e-6, 1.0)
    for axis in axes[0]:
        axis.set_xlabel("time t")
    handles, labels = axes[0, 1].get_legend_handles_labels()
    exact = axes[0, 0].get_legend_handles_labels()
    figure.legend([exact[0][0], *handles], [exact[1][0], *labels], loc="outside lower center", ncols=3, fontsize=9,
                  frameon=False)  # fmt: skip
    figure.suptitle(f"Example 8.1.1, original equations of motion ({other.code} in the role of DASSL)", fontsize=11)
    return figure


def draw_truck() -> Any:
    """Figures 8.4 to 8.7 with the truck of 9 coordinates: motion and multiplier."""
    figure, axes = panels(2, 2, width=5.4, height=3.2, sharex=True, sharey="row")
    ours, other = truck.truck_run("modified BDF(2)", TOLERANCE), runs.dassl(runs.TRUCK)
    start, fine = problems()[runs.TRUCK].q0, np.linspace(0.0, 20.0, 1001)
    exact = truck.truck_reference()(fine)
    shown = (
        (f"modified BDF(2), {ours.stats.steps} steps", ours.t, ours.q, ours.lam, BLUE, ("8.4", "8.6")),
        (f"{other.code}, h ≤ 0.1, {other.steps} steps", other.t, other.q, other.lam, RED, ("8.5", "8.7")),
    )
    for j, (name, t, q, lam, color, number) in enumerate(shown):
        axes[0, j].plot(fine, 100 * (exact.q[:, 4] - start[4]), ":", color=BLACK, linewidth=1.2, label="accurate run")
        axes[0, j].plot(t, 100 * (q[:, 4] - start[4]), color=color, linewidth=1.5, label=name)
        axes[1, j].plot(t, lam[:, 1] / 1000, color=color, linewidth=1.3)
        axes[1, j].plot(fine, exact.lam[:, 1] / 1000, ":", color=BLACK, linewidth=1.2)
        axes[0, j].set_title(f"vertical motion of the cabin (as Figure {number[0]})", fontsize=10)
        axes[1, j].set_title(f"λ of the hinge, vertical (as Figure {number[1]})", fontsize=10)
        axes[0, j].legend(fontsize=8, frameon=False)
        axes[1, j].set_xlabel("time t in s")
    axes[0, 0].set_ylabel("displacement in cm")
    axes[1, 0].set_ylabel("λ in kN")
    axes[1, 0].set_ylim(-68.4, -67.8)
    figure.suptitle("Truck over a road hump: 9 coordinates, 2 constraints\n"
                    "(the parameters of the thesis' truck with 11 coordinates and a seat are not public)",
                    fontsize=11)  # fmt: skip
    return figure


def draw_truck_errors() -> Any:
    """Errors of the multipliers of the truck along the run, and against the number of steps."""
    figure, axes = panels(1, 2, width=5.4, height=3.9)
    motion = truck.truck_run("modified BDF(2)", TOLERANCE)
    styles = {"BDF, index 3": (RED, 1.0), "BDF, GGL": (GREEN, 1.2), "modified BDF(2)": (BLUE, 1.6)}
    for name, (color, width) in styles.items():
        sol = truck.truck_run(name, TOLERANCE)
        error = np.abs(sol.lam - truck.truck_reference()(sol.t).lam).max(axis=1)
        label = f"{name}, {sol.stats.steps} steps"
        axes[0, 0].semilogy(sol.t[1:], error[1:], color=color, linewidth=width, label=label)
    axes[0, 0].set_title(f"along the run, rtol = atol = {TOLERANCE:g}", fontsize=10)
    axes[0, 0].set_ylabel("largest |λ error| in N")
    axes[0, 0].set_xlabel("time t in s")
    axes[0, 0].set_ylim(1e-3, 1e3)
    axes[0, 0].legend(fontsize=8, frameon=False, loc="lower right")
    switch = float(motion.t[runs.seeds(2)])
    axes[0, 0].axvline(switch, color=BLUE, linestyle=":", linewidth=1.0)
    axes[0, 0].text(switch, 4e2, " modified BDF from here,\n its starter before", fontsize=8, color=BLUE, va="top")
    work = {"BDF, index 3": (RED, "o"), "BDF, GGL": (GREEN, "^"), "modified BDF(2)": (BLUE, "s"),
            "modified BDF(3)": (SKY, "D"), "modified BDF(5)": (PURPLE, "v")}  # fmt: skip
    for name, (color, marker) in work.items():
        made = [truck.truck_run(name, tolerance) for tolerance in truck.TRUCK_TOLERANCES]
        error = [truck.multiplier_quality(sol)["lam error"] for sol in made]
        axes[0, 1].loglog([sol.stats.steps for sol in made], error, marker=marker, color=color, markersize=5,
                          linewidth=1.2, label=name)  # fmt: skip
    axes[0, 1].set_title("largest against steps, rtol = atol = 1e-4 … 1e-6", fontsize=10)
    axes[0, 1].set_xticks([60, 100, 200, 300], ["60", "100", "200", "300"])
    axes[0, 1].minorticks_off()
    axes[0, 1].set_xlabel("steps")
    axes[0, 1].legend(fontsize=8, frameon=False)
    figure.suptitle("Errors of λ, truck with 9 coordinates", fontsize=11)
    return figure


def figures(folder: Path) -> list[Path]:
    """Write all figures; returns their paths."""
    drawings: dict[str, Callable[[], Any]] = {
        "step_changes": draw_step_changes, "orders": draw_orders, "example_8_1_1": draw_example,
        "multiplier": draw_multiplier, "truck": draw_truck, "truck_errors": draw_truck_errors,
    }  # fmt: skip
    return [write(draw(), folder / f"wunderlich_2005_{name}.png") for name, draw in drawings.items()]
