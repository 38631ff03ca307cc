"""Figures for Ascher & Petzold 1993: error at t = 1 against the step size, one figure for each example.

What is larger than the scale is marked in lanes above it, one lane for each form. Runs that ended early without
growing are left out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dalembert.numerics.projection import Projection
from dalembert.papers.ascher_petzold_1993 import DATA, errors, formulation_of, integrate
from dalembert.papers.base import published
from dalembert.papers.figures import BLACK, BLUE, GREEN, ORANGE, PURPLE, RED, SKY, legend_below, panels, write

COUNTS = tuple(int(n) for n in np.round(np.logspace(1, 4, 19)))  # numbers of steps
PA_PROJECTED = "Pa, then velocities projected"
LANE = 0.55  # height of a lane for what is off the scale, in decades


@dataclass(frozen=True)
class Curve:
    """A form as it is drawn: its row in the tables, colour, marker and line."""

    label: str
    row: Mapping[str, Any]
    color: str
    marker: str
    line: str = "-"


FIRST_ORDER = (
    Curve("direct, index 2", {"method": "direct"}, RED, "o"),
    Curve("projected invariants (4.7)", {"method": "projected invariants"}, BLUE, "s", "--"),
    Curve("state space, u = x1", {"method": "state space"}, GREEN, "^"),
)
EXAMPLE_1 = (
    Curve("Baumgarte, γ = 1", {"method": "Baumgarte", "gamma": 1.0}, SKY, "v"),
    Curve("Baumgarte, γ = 1000", {"method": "Baumgarte", "gamma": 1000.0}, PURPLE, "D"),
    Curve("Baumgarte, γ = 10000", {"method": "Baumgarte", "gamma": 10000.0}, ORANGE, "P"),
    *FIRST_ORDER,
)
EXAMPLE_2 = (
    Curve("Baumgarte, γ = 1", {"method": "Baumgarte", "gamma": 1.0}, SKY, "v"),
    Curve("Baumgarte, γ = 100", {"method": "Baumgarte", "gamma": 100.0}, PURPLE, "D"),
    Curve("Baumgarte, γ = 1000", {"method": "Baumgarte", "gamma": 1000.0}, ORANGE, "P"),
    *FIRST_ORDER,
)
EXAMPLE_3 = (
    Curve("d-2 (index 2)", {"method": "d-2"}, BLACK, "X"),
    Curve("S, D = B", {"method": "S", "D": "B"}, RED, "o"),
    Curve("S, D = Cᵀ", {"method": "S", "D": "C^T"}, ORANGE, "v"),
    Curve("Pa, D = B", {"method": "Pa", "D": "B"}, PURPLE, "D"),
    Curve("Pa, D = Cᵀ", {"method": "Pa", "D": "C^T"}, BLUE, "s"),
    Curve("Pa, D = (0, 1)ᵀ", {"method": "Pa", "D": "unit"}, SKY, "^", "--"),
)
EXAMPLE_4 = (
    Curve("Pa", {"method": "Pa", "D": "C^T"}, BLUE, "s"),
    Curve("Pc", {"method": "Pc", "D": "C^T"}, GREEN, "^"),
    Curve("S", {"method": "S", "D": "C^T"}, RED, "o"),
    Curve("Pb", {"method": "Pb", "D": "C^T"}, ORANGE, "v", "--"),
    Curve(PA_PROJECTED, {"method": PA_PROJECTED}, PURPLE, "D", ":"),
)


def convergence(example: int, row: Mapping[str, Any], parameters: Mapping[str, float]) -> dict[str, np.ndarray]:
    """Errors at t = 1 for all step sizes."""
    then_project = row["method"] == PA_PROJECTED
    formulation = formulation_of("Pa") if then_project else formulation_of(**row)
    projection = Projection(levels=("velocity",)) if then_project else None
    runs = [errors(example, integrate(example, formulation, 1 / n, projection, **parameters)) for n in COUNTS]
    return {key: np.array([x[key] for x in runs]) for key in runs[0]}


def printed(example: int, curve: Curve, quantity: str, parameters: Mapping[str, float]) -> list[tuple[float, float]]:
    """(h, number) of the paper for a curve."""
    wanted = {**curve.row, **parameters}
    return [
        (line["row"]["h"], line["paper"][quantity])
        for line in published(DATA)["rows"]
        if line["example"] == example
        and all(line["row"].get(key) == value for key, value in wanted.items())
        and "differs" not in str(line.get("remarks", {}).get(quantity))
    ]


def draw(
    axes: Sequence[Any],
    example: int,
    curves: Sequence[Curve],
    parameters: Mapping[str, float],
    keys: Sequence[str],
    scale: tuple[float, float],
) -> None:
    """One axis for each quantity."""
    h = 1 / np.array(COUNTS)
    low, high = scale
    top = high * 10 ** (LANE * (len(curves) + 1))
    results = [convergence(example, curve.row, parameters) for curve in curves]
    for axis, key in zip(axes, keys, strict=True):
        for i, (curve, result) in enumerate(zip(curves, results, strict=True)):
            y = result[key]
            inside, outside = y <= high, y > high
            axis.loglog(
                h, np.where(inside, y, np.nan), curve.line, color=curve.color, marker=curve.marker, markersize=4,
                linewidth=1.3, label=curve.label,
            )  # fmt: skip
            lane = high * 10 ** (LANE * (i + 1))
            axis.loglog(h[outside], np.full(outside.sum(), lane), curve.marker, color=curve.color, markersize=4)
            points = [(x, z if z <= high else lane) for x, z in printed(example, curve, key, parameters)]
            if points:
                axis.loglog(*zip(*points, strict=True), "x", color=BLACK, markersize=8, markeredgewidth=1.4, zorder=5)
        axis.axhspan(high, top, color="#eeeeee", zorder=0)
        label = f"larger than {high:g}{_most([result[key] for result in results], high)}"
        axis.text(0.98, 0.99, label, transform=axis.transAxes, ha="right", va="top", fontsize=8)
        axis.set_ylim(low, top)
        ticks = 10.0 ** np.arange(math.floor(math.log10(low)), math.floor(math.log10(high)) + 1, 2)
        axis.set_yticks(ticks)
        axis.minorticks_off()
        axis.plot([], [], "x", color=BLACK, markersize=8, markeredgewidth=1.4, label="printed in the paper")


def _most(values: Sequence[np.ndarray], high: float) -> str:
    """How large the errors off the scale become, in words."""
    off = np.concatenate(values)
    off = off[off > high]
    finite = off[np.isfinite(off)]
    size = f", up to 1e{math.floor(math.log10(finite.max()))}" if finite.size else ""
    return size + (" and beyond" if finite.size < off.size else "")


def _first_order(example: int, curves: Sequence[Curve], scale: tuple[float, float], title: str) -> Any:
    figure, axes = panels(1, 2, width=4.8, height=4.6)
    for axis, nu in zip(axes[0], (1, 1000), strict=True):
        draw([axis], example, curves, {"nu": nu}, ["error"], scale)
        axis.set_title(f"ν = {nu}", fontsize=10)
        axis.set_xlabel("step size h")
    axes[0][0].set_ylabel("error of x at t = 1")
    legend_below(figure, axes[0][1], 3)
    figure.suptitle(title, fontsize=11)
    return figure


def draw_1() -> Any:
    return _first_order(1, EXAMPLE_1, (1e-8, 1e1), "Example 1, constraint that turns with the rate ν: backward Euler")


def draw_2() -> Any:
    return _first_order(2, EXAMPLE_2, (1e-8, 1e1), "Example 2, stiff through variable coefficients: backward Euler")


def _rows_of_two(
    example: int, curves: Sequence[Curve], columns: Sequence[tuple[str, Mapping[str, float]]], scales: Any, title: str
) -> Any:
    """Positions above, velocities below; a column for each choice of parameters."""
    figure, axes = panels(2, len(columns), width=4.1, height=3.6, sharex=True)
    for j, (label, parameters) in enumerate(columns):
        draw(axes[:, j], example, curves, parameters, ["error_p", "error_v"], scales)
        axes[0][j].set_title(label, fontsize=10)
        axes[1][j].set_xlabel("step size h")
    for i, what in enumerate(("p", "v")):
        axes[i][0].set_ylabel(f"error of {what} at t = 1")
    legend_below(figure, axes[0][0], 4)
    figure.suptitle(title, fontsize=11)
    return figure


def draw_3() -> Any:
    names = {1: "c = 1 (Tables 4.3, 4.4)", 0: "c = 0 (Tables 4.5, 4.6)", 2: "c = 2 (Tables 4.7, 4.8)"}
    columns = [(names[c], {"nu": 1000.0, "c": float(c)}) for c in (1, 0, 2)]
    title = "Example 3, mass matrix with widely spread eigenvalues (ν = 1000): backward Euler"
    return _rows_of_two(3, EXAMPLE_3, columns, (1e-6, 1e1), title)


def draw_4() -> Any:
    columns = [(f"ν = {nu}", {"nu": float(nu)}) for nu in (1, 100)]
    title = "Example 4, unit masses, constraint that turns with the rate ν (Table 4.9): backward Euler"
    return _rows_of_two(4, EXAMPLE_4, columns, (1e-8, 1e1), title)


def figures(folder: Path) -> list[Path]:
    """Write all figures; returns their paths."""
    drawings = {1: draw_1, 2: draw_2, 3: draw_3, 4: draw_4}
    return [write(make(), folder / f"{DATA}_example_{i}.png") for i, make in drawings.items()]
