"""One look for all figures. Without pyplot: no global state, no display needed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

# Okabe-Ito: told apart in print and with colour blindness
BLUE, ORANGE, GREEN, RED = "#0072B2", "#E69F00", "#009E73", "#D55E00"
PURPLE, SKY, BLACK = "#CC79A7", "#56B4E9", "#222222"
CYCLE = (BLUE, ORANGE, GREEN, RED, PURPLE, SKY)


def panels(rows: int, columns: int, width: float, height: float, **options: Any) -> tuple[Figure, Any]:
    """A figure of equal panels: (figure, axes (rows, columns)); sizes in inches, of one panel."""
    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, **options)
    for axis in axes.flat:
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(True, which="major", color="#dddddd", linewidth=0.6)
        axis.set_axisbelow(True)
        axis.tick_params(labelsize=9)
    return figure, axes


def legend_below(figure: Figure, axis: Any, columns: int) -> None:
    """One legend for all panels, with the entries of one of them."""
    handles, labels = axis.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, fontsize=9, frameon=False)


def envelope(t: np.ndarray, y: np.ndarray, bins: int = 200, floor: float = 1e-17) -> tuple[np.ndarray, np.ndarray]:
    """Largest value in each of equal time intervals: what the eye should see of 10,000 oscillating points."""
    edges = np.linspace(t[0], t[-1], bins + 1)
    where = np.clip(np.searchsorted(edges, t, side="right") - 1, 0, bins - 1)
    out = np.full(bins, floor)
    np.maximum.at(out, where, y)
    return 0.5 * (edges[1:] + edges[:-1]), out


def write(figure: Figure, path: Path) -> Path:
    """Save as PNG, making the folder if needed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    return path
