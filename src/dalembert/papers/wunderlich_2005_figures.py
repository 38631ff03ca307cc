"""Figures for Wunderlich 2005: errors of the multiplier under step changes, orders, example 8.1.1, truck."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from dalembert.integrators.bdf import BDF
from dalembert.integrators.modified_bdf import ModifiedBDF
from dalembert.papers import wunderlich_2005 as w
from dalembert.papers.base import published
from dalembert.papers.figures import BLACK, BLUE, CYCLE, GREEN, PURPLE, RED, SKY, legend_below, panels, write

FINE = (25, 50, 100, 200, 400)
TOLERANCE = 1e-4


def draw_step_changes() -> Any:
    """Tables 3.1 and 3.2: error of lam after each step."""
    figure, axes = panels(1, 3, width=3.9, height=3.8, sharey=True)
    data = published(w.DATA)
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
            modified = [w.largest_errors(w.CIRCLE, ModifiedBDF(k), n, pattern)["lam"] for n in FINE]
            plain = [w.largest_errors(w.CIRCLE, BDF(k), n, pattern, True)["lam"] for n in FINE]
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
        printed = published(w.DATA)[table]
        columns = printed if table == "table_8_4" else printed["modified"]
        for name, color, marker, label in (("q1", BLUE, "s", "q₁"), ("lam", GREEN, "o", "λ")):
            measured = w.prescribed(table)[name]
            axis.semilogy(printed["t"], measured, color=color, marker=marker, markersize=5, linewidth=1.3, label=label)
            last = "Wunderlich 2005" if name == "lam" else None
            axis.semilogy(printed["t"], columns[name], "+", color=BLACK, markersize=9, markeredgewidth=1.4, label=last)
        axis.set_xlabel("time t")
        axis.set_title(title, fontsize=10)
    axes[0, 0].set_ylabel("absolute error")
    legend_below(figure, axes[0, 0], 3)
    figure.suptitle("Example 8.1.1 on steps made from the printed numbers of steps", fontsize=11)
    return figure


def draw_truck() -> Any:
    """Motion, multipliers and their errors over 20 s."""
    figure, axes = panels(2, 2, width=5.4, height=3.3)
    motion = w.truck_run("modified BDF(2)", TOLERANCE)
    t = np.linspace(0.0, 20.0, 1001)
    state, exact = motion(t), w.truck_reference()(t)
    start = w.problems()[w.TRUCK].q0
    for i, color, label in ((4, BLUE, "cabin"), (1, GREEN, "chassis"), (0, RED, "rear wheel")):
        axes[0, 0].plot(t, 100 * (state.q[:, i] - start[i]), color=color, linewidth=1.4, label=label)
    axes[0, 0].set_title("vertical motion by modified BDF(2)", fontsize=10)
    axes[0, 0].set_ylabel("displacement in cm")
    axes[0, 0].legend(fontsize=9, frameon=False)
    styles = {"BDF, index 3": (RED, 1.0), "BDF, GGL": (GREEN, 1.2), "modified BDF(2)": (BLUE, 1.6)}
    for name, (color, width) in styles.items():
        sol = w.truck_run(name, TOLERANCE)
        label = f"{name}, {sol.stats.steps} steps"
        axes[0, 1].plot(sol.t, sol.lam[:, 1] / 1000, color=color, linewidth=width, label=label)
        error = np.abs(sol.lam - w.truck_reference()(sol.t).lam).max(axis=1)
        axes[1, 0].semilogy(sol.t[1:], error[1:], color=color, linewidth=width, label=label)
    axes[0, 1].plot(t, exact.lam[:, 1] / 1000, ":", color=BLACK, linewidth=1.2, label="accurate run")
    axes[0, 1].set_title(f"λ of the hinge, vertical; rtol = atol = {TOLERANCE:g}", fontsize=10)
    axes[0, 1].set_ylabel("λ in kN")
    axes[0, 1].set_ylim(-68.5, None)
    axes[0, 1].legend(fontsize=8, frameon=False, loc="lower right")
    axes[1, 0].set_title(f"error of λ, rtol = atol = {TOLERANCE:g}", fontsize=10)
    axes[1, 0].set_ylabel("largest |λ error| in N")
    axes[1, 0].set_ylim(1e-3, 1e3)
    switch = float(motion.t[w.SEEDS])
    axes[1, 0].axvline(switch, color=BLUE, linestyle=":", linewidth=1.0)
    axes[1, 0].text(switch, 1.3e-3, " modified BDF from here,\n its starter before", fontsize=8, color=BLUE)
    work = {"BDF, index 3": (RED, "o"), "BDF, GGL": (GREEN, "^"), "modified BDF(2)": (BLUE, "s"),
            "modified BDF(3)": (SKY, "D"), "modified BDF(5)": (PURPLE, "v")}  # fmt: skip
    for name, (color, marker) in work.items():
        runs = [w.truck_run(name, tolerance) for tolerance in w.TRUCK_TOLERANCES]
        error = [w.multiplier_quality(sol)["lam error"] for sol in runs]
        axes[1, 1].loglog([sol.stats.steps for sol in runs], error, marker=marker, color=color, markersize=5,
                          linewidth=1.2, label=name)  # fmt: skip
    axes[1, 1].set_title("error of λ against steps, rtol = atol = 1e-4 … 1e-6", fontsize=10)
    axes[1, 1].set_ylabel("largest |λ error| in N")
    axes[1, 1].set_xlabel("steps")
    axes[1, 1].legend(fontsize=8, frameon=False)
    for axis in (*axes[0], axes[1, 0]):
        axis.set_xlabel("time t in s")
    figure.suptitle("Truck over a road hump (9 coordinates, 2 constraints)", fontsize=11)
    return figure


def figures(folder: Path) -> list[Path]:
    """Write all figures; returns their paths."""
    drawings: dict[str, Callable[[], Any]] = {
        "step_changes": draw_step_changes, "orders": draw_orders, "example_8_1_1": draw_example, "truck": draw_truck,
    }  # fmt: skip
    return [write(draw(), folder / f"wunderlich_2005_{name}.png") for name, draw in drawings.items()]
