"""Figures for Arnold, Cardona & Bruels 2015: hidden constraint, oscillation after a projection, orders, damping."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from dalembert.analysis import alpha
from dalembert.papers import arnold_cardona_bruels_2015 as acb
from dalembert.papers.figures import BLACK, BLUE, CYCLE, RED, legend_below, panels, write

PLAIN, PROJECTED = "index 3, perturbed start", "index 3, projection at 0.7"


def draw_hidden_constraint() -> Any:
    """First component of B v without and with a projection at t = 0.7."""
    figure, axes = panels(1, 2, width=4.6, height=3.6, sharey=True)
    for axis, variant in zip(axes[0], (PLAIN, PROJECTED), strict=True):
        for n, color in ((1000, BLUE), (2000, RED)):
            sol = acb.run_top(n, variant)
            axis.plot(sol.t, sol.drift.velocity[:, 0], color=color, linewidth=1.1, label=f"h = {1 / n:g}")
        axis.set_xlabel("time t")
        axis.set_title("index 3" if variant == PLAIN else "index 3, v projected at t = 0.7", fontsize=10)
    axes[0, 0].set_ylabel("(B v)₁")
    legend_below(figure, axes[0, 0], 2)
    return figure


def draw_oscillation() -> Any:
    """First component of lam and its error around the projection, and how the difference dies out."""
    figure, axes = panels(1, 3, width=4.2, height=3.6)
    n = 1000
    t = np.linspace(0.0, 1.0, n + 1)
    near = (t > 0.65) & (t < 0.9)
    for variant, color, label in ((PLAIN, BLUE, "without projection"), (PROJECTED, RED, "v projected at t = 0.7")):
        axes[0, 0].plot(t[near], acb.run_top(n, variant).lam[near, 0], color=color, linewidth=1.1, label=label)
        axes[0, 1].semilogy(t[near], acb.error_curves(n, variant)["lam"][near], color=color, linewidth=1.1)
    axes[0, 0].set_ylabel("λ₁, h = 1e-3")
    axes[0, 1].set_ylabel("relative error of λ")
    for axis in axes[0, :2]:
        axis.set_xlabel("time t")
    for count, style in ((1000, "-"), (2000, "--"), (4000, ":")):
        gap = acb.away(count)[:250]
        axes[0, 2].semilogy(np.arange(gap.size), np.maximum(gap, 1e-6), style, color=RED, label=f"h = {1 / count:g}")
    axes[0, 2].set_xlabel("steps after the projection")
    axes[0, 2].set_ylabel("|λ - λ without projection|")
    axes[0, 2].legend(fontsize=9, frameon=False)
    legend_below(figure, axes[0, 0], 2)
    return figure


def draw_orders(first: int | None) -> Any:
    """Errors against the step size."""
    names = acb.QUANTITIES
    figure, axes = panels(1, len(names), width=3.1, height=3.8)
    h = 1.0 / np.array(acb.COUNTS)
    for variant, color in zip(acb.VARIANTS, CYCLE, strict=False):
        if first is not None and variant == PROJECTED:
            continue
        found = [acb.largest(n, variant, first) for n in acb.COUNTS]
        for axis, name in zip(axes[0], names, strict=True):
            values = [e[name] for e in found]
            label = f"{variant} (order of λ {acb.slope([e['lam'] for e in found]):.2f})"
            axis.loglog(h, values, "o-", color=color, markersize=4, linewidth=1.1, label=label)
    for axis, name in zip(axes[0], names, strict=True):
        axis.set_title(f"error of {'λ (relative)' if name == 'lam' else name}", fontsize=10)
        axis.set_xlabel("h")
    scale = axes[0, -1].get_ylim()[0]
    axes[0, -1].loglog(h, 2 * scale * (h / h[-1]) ** 2, color=BLACK, linewidth=0.8, linestyle=":", label="slope 2")
    legend_below(figure, axes[0, -1], 3)
    return figure


def figures(folder: Path) -> list[Path]:
    """All figures as PNG files in a folder."""
    drawn = {
        "hidden_constraint": draw_hidden_constraint(),
        "projection": draw_oscillation(),
        "orders": draw_orders(None),
        "orders_first_steps": draw_orders(acb.FIRST),
        "spectral_radius": alpha.plot(),
    }
    return [write(figure, folder / f"{acb.DATA}_{name}.png") for name, figure in drawn.items()]
