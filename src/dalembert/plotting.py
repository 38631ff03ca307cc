"""One figure that shows a run: motion, multipliers and constraint residuals against time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dalembert.solution import Solution

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_POINTS = 20_000  # a curve with more is thinned out, keeping its extrema
ENVELOPE = 200  # most intervals of the residuals' envelope
MOST_LABELS = 8  # entries of a legend
SMALLEST = 1e-17  # where a residual of exactly zero is drawn

# panel title -> parts drawn in it
PANELS = {
    "positions": ("q",),
    "velocities": ("v",),
    "states": ("r", "w", "s"),
    "multipliers": ("lam", "mu"),
}


class PlotError(ValueError):
    """A figure that cannot be drawn or written."""


def plot_solution(solution: Solution, path: str | Path | None = None) -> Figure:
    """Positions, velocities, multipliers and constraint residuals against time, one panel each.

    Parameters
    ----------
    solution
        What to show; panels without content are left out.
    path
        Write the figure there too; the suffix says how (.png, .pdf, .svg, ...).

    Returns
    -------
    matplotlib.figure.Figure
        Independent of pyplot: works without a display, and is not kept alive by it.
    """
    from matplotlib.figure import Figure

    target = check_path(path) if path is not None else None
    panels = {
        title: [(name, solution.parts[name]) for name in parts if solution.parts[name].shape[1]]
        for title, parts in PANELS.items()
    }
    panels = {title: blocks for title, blocks in panels.items() if blocks}
    residuals = _residuals(solution)
    n = len(panels) + bool(residuals)
    if not n or not solution.t.size:
        raise PlotError("there is nothing to plot: the solution is empty.")

    figure = Figure(figsize=(9.0, 1.1 + 1.9 * n), layout="constrained", dpi=120)
    axes: list[Axes] = list(figure.subplots(n, 1, sharex=True, squeeze=False)[:, 0])
    for ax, (title, blocks) in zip(axes, panels.items(), strict=False):
        _draw_components(ax, solution, title, blocks)
    if residuals:
        _draw_residuals(axes[-1], solution.t, residuals)
    for ax in axes:
        ax.grid(True, color="0.9", linewidth=0.7)
        ax.set_axisbelow(True)
        ax.spines[["top", "right"]].set_visible(False)
        ax.margins(x=0.0)
    if solution.t[0] == solution.t[-1]:
        axes[-1].set_xlim(solution.t[0] - 0.5, solution.t[0] + 0.5)
    axes[-1].set_xlabel("time t")
    figure.align_ylabels(axes)
    figure.suptitle(_title(solution), fontsize="medium")
    if target is not None:
        try:
            figure.savefig(target)
        except OSError as problem:
            raise OSError(f"cannot write {target}: {problem.strerror or problem}. Choose another folder.") from problem
    return figure


def plot_work_precision(
    curves: Mapping[str, Sequence[tuple[float, float]]],
    path: str | Path | None = None,
    *,
    title: str = "",
    best: str | None = None,
    ylabel: str = "relative error",
) -> Figure:
    """Error against wall time on logarithmic axes, one curve each; lower left is better.

    Parameters
    ----------
    curves
        Label -> points (error, seconds).
    path
        Write the figure there too.
    title, ylabel
        Texts of the figure.
    best
        Label of the curve to set off.
    """
    from matplotlib.figure import Figure

    target = check_path(path) if path is not None else None
    if not any(curves.values()):
        raise PlotError("there is nothing to plot: no run reached the end.")
    rows = -(-len(curves) // 3)
    figure = Figure(figsize=(8.5, 5.5 + 0.2 * rows), layout="constrained", dpi=120)
    ax = figure.subplots()
    draw_work_precision(ax, curves, best)
    ax.set_ylabel(ylabel)
    ax.set_title(_plain(title), fontsize="medium")
    figure.legend(loc="outside lower center", ncols=3, fontsize="small", frameon=False)
    if target is not None:
        figure.savefig(target)
    return figure


def draw_work_precision(ax: Axes, curves: Mapping[str, Sequence[tuple[float, float]]], best: str | None = None) -> None:
    """The curves of `plot_work_precision` in a panel of one's own.

    Labels that agree up to a comma share a colour.
    """
    markers = "osD^vP*X<>"
    groups = list(dict.fromkeys(label.partition(",")[0] for label in curves))
    colours = dict(zip(groups, _colours(len(groups)), strict=True))
    for i, (label, points) in enumerate(curves.items()):
        chosen = label == best
        ax.loglog(
            [1e3 * s for _, s in points], [max(e, SMALLEST) for e, _ in points], marker=markers[i % len(markers)],
            color="black" if chosen else colours[label.partition(",")[0]], linewidth=2.5 if chosen else 1.2,
            markersize=7 if chosen else 4.5,
            label=_plain(label), zorder=3 if chosen else 2,
        )  # fmt: skip
    ax.set_xlabel("wall time [ms]")
    ax.grid(True, which="major", color="0.9", linewidth=0.7)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)


def check_path(path: str | Path) -> Path:
    """The file that ``path`` means, refused here if a figure cannot be written there."""
    from matplotlib.backend_bases import FigureCanvasBase

    target = Path(path).expanduser()
    known = sorted(FigureCanvasBase.get_supported_filetypes())
    if target.suffix.lower().removeprefix(".") not in known:
        what = f"the suffix {target.suffix!r}" if target.suffix else "no suffix"
        raise PlotError(f"the path {target} has {what}; figures are written as {', '.join('.' + x for x in known)}.")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"cannot write {target}: the folder {target.parent} does not exist; create it first.")
    return target


def thin(t: np.ndarray, x: np.ndarray, most: int = MOST_POINTS) -> tuple[np.ndarray, np.ndarray]:
    """At most about ``most`` points of the curve x(t), both (n,), among them the extrema of every interval."""
    if t.size <= most:
        return t, x
    edges = np.linspace(0, t.size, most // 2 + 1).astype(int)
    keep = {0, t.size - 1}
    for low, high in pairwise(edges.tolist()):
        part = np.where(np.isfinite(x[low:high]), x[low:high], 0.0)
        keep.update((low + int(part.argmin()), low + int(part.argmax())))
    index = np.array(sorted(keep))
    return t[index], x[index]


def envelope(t: np.ndarray, x: np.ndarray, intervals: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Largest x in each of ``intervals`` equal parts of the time axis, at the time where it occurs.

    By default so many that about ten points fall in each: residuals at rounding level are often exactly zero, and a
    logarithmic axis would show nothing but that.
    """
    if intervals is None:
        intervals = min(ENVELOPE, max(t.size // 10, 20))
    if t.size <= intervals:
        return t, x
    span = t[-1] - t[0]
    box = np.minimum(((t - t[0]) / span * intervals).astype(int), intervals - 1)
    order = np.lexsort((np.nan_to_num(x, nan=np.inf), box))
    last = order[np.flatnonzero(np.diff(box[order], append=intervals))]
    return t[last], x[last]


# ---------------------------------------------------------------------- panels
def _draw_components(ax: Axes, solution: Solution, title: str, blocks: Sequence[tuple[str, np.ndarray]]) -> None:
    """Curves of all components; of many, the legend names some."""
    count = sum(values.shape[1] for _, values in blocks)
    named = set(np.linspace(0, count - 1, min(count, MOST_LABELS)).astype(int).tolist())
    crowded = count > MOST_LABELS or solution.t.size > MOST_POINTS
    colours = _colours(count)
    symbols = {"q": "q", "v": "v", "lam": "λ", "mu": "μ", "r": "r", "w": "w", "s": "s"}
    marker = "o" if solution.t.size == 1 else None
    i = 0
    for name, values in blocks:
        labels = solution.names.get(name, ())
        for j in range(values.shape[1]):
            label = labels[j] if j < len(labels) else f"{name}{j}"
            if name in ("lam", "mu") or len(blocks) > 1:
                label = f"{symbols[name]} {label}"
            t, x = thin(solution.t, values[:, j])
            ax.plot(
                t, x, color=colours[i], linewidth=0.7 if crowded else 1.3, alpha=0.8 if crowded else 1.0,
                marker=marker, label=_plain(label) if i in named else "_",
            )  # fmt: skip
            i += 1
    ax.set_ylabel(title)
    _legend(ax, f"{count} in all" if count > MOST_LABELS else None)


def _residuals(solution: Solution) -> dict[str, np.ndarray]:
    """Largest residual of each level over its components, (nt,)."""
    if solution.drift_of is None:
        return {}
    try:
        drift = solution.drift
    except Exception:  # a model that fails now must not cost the user the picture of the run
        return {}
    levels = {"position |g|": drift.position, "velocity |g'|": drift.velocity, "nonholonomic |k|": drift.nonholonomic}
    return {name: np.abs(x).max(axis=1) for name, x in levels.items() if x.shape[1]}


def _draw_residuals(ax: Axes, t: np.ndarray, residuals: dict[str, np.ndarray]) -> None:
    colours = {"position |g|": "C0", "velocity |g'|": "C1", "nonholonomic |k|": "C2"}
    for name, values in residuals.items():
        x, y = envelope(t, values)
        marker = "o" if t.size == 1 else None
        ax.plot(x, np.maximum(y, SMALLEST), color=colours[name], linewidth=1.1, marker=marker, label=name)
    ax.set_yscale("log")
    low, high = ax.get_ylim()
    if high < 100 * low:  # a flat line needs some room
        ax.set_ylim(low / 10, high * 10)
    ax.set_ylabel("residuals")
    _legend(ax)


def _legend(ax: Axes, title: str | None = None) -> None:
    """Beside the panel: never on top of a curve."""
    legend = ax.legend(
        loc="upper left", bbox_to_anchor=(1.005, 1.03), frameon=False, fontsize="small", borderaxespad=0.0,
        handlelength=1.4, labelspacing=0.25, title=title, title_fontsize="small", alignment="left",
    )  # fmt: skip
    for handle in legend.get_lines():
        handle.set_linewidth(2.0)


def _colours(count: int) -> list[object]:
    if count <= 10:
        return [f"C{i}" for i in range(count)]
    from matplotlib import colormaps

    return list(colormaps["viridis"](np.linspace(0.0, 0.92, count)))


def _plain(label: str) -> str:
    """Matplotlib hides labels that begin with an underscore and reads dollar signs as formulas."""
    return ("\u200b" if label.startswith("_") else "") + label.replace("$", r"\$")


def _title(solution: Solution) -> str:
    stats = solution.stats
    how = ", ".join(x for x in (stats.method, stats.formulation) if x)
    text = _plain(": ".join(x for x in (solution.system_name, how) if x)) + f", {stats.steps} steps"
    if not solution.success:
        text += f"\nstopped at t = {solution.t[-1]:.6g} ({solution.status.name.lower().replace('_', ' ')})"
    return text
