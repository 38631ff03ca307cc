"""The collection beside its peers: wall time for equal error at the end, in one process.

    python benchmarks/collection.py [--models NAME ...] [--tools TEXT ...] [--limit SECONDS] [--out DIRECTORY] [--brief]

Writes peers.md, peers.json and peers.png; runs of models that are not named stay as they are. With --brief, for a
second machine, there are only the tables of ratios. Every tool gets the form of the equations that suits it best,
compiled (benchmarks/peers/models.py, tools.py), and a sweep of tolerances; times
are the fastest of several warm runs. A machine is faster at one time than at another: all short runs of a problem take
turns, again and again, in the end. For an error of 1e-3, 1e-5 and 1e-7 the time is read off the work-precision curve
of each tool (log-log). The best of ours is compared with each of the others: the aim is to be 10 times faster than
every tool that keeps the constraints and returns multipliers, and not slower than codes for ODEs, whose solutions
drift off the constraints.
"""

# ruff: noqa: E402  (thread counts have to be set before NumPy is imported)

from __future__ import annotations

import os

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")  # matrices are small: threads only add noise

import argparse
import contextlib
import json
import platform
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from peers.models import MODELS, Model
from peers.tools import TOOLS, End, Runner, Tool

from dalembert.analysis.compare import front, time_at
from dalembert.plotting import draw_work_precision
from dalembert.table import markdown_table, print_table

LEVELS = (1e-3, 1e-5, 1e-7)
FINE_ENOUGH = 1e-8  # no tighter tolerance after a run with this error
FEWEST = 3  # tolerances: the loosest one need not be the fastest
FAILURES = {True: 3, False: 5}  # in a row, after which a tool is given up; some do not run at loose tolerances
USELESS = 0.3  # a run with this error says nothing
ROUNDS, SPENT, BUDGET = 7, 0.1, 0.5  # runs of each, at least for so many seconds; no further one begins after so many
TURNS, IN_A_TURN, SHORT = 10, 0.01, 5e-3  # of runs shorter than so many seconds, each for so many seconds
LIMIT = 3.0  # seconds: a tool is not asked for tighter tolerances after such a run
WIDTHS = {"avx512f": 512, "avx2": 256}  # of registers, by the names that Linux has for instructions
TARGETS = {True: 10.0, False: 1.0}  # keeps constraints -> how many times faster we want to be


def timed(row: dict[str, Any], run: Runner, tool: Tool, least: float, most: float = 0.0) -> End:
    """Runs for so many seconds; what the fastest took, of them and those before, goes into the row."""
    begin, calls, inner = time.perf_counter(), [], []
    while not calls or (spent := time.perf_counter() - begin) < least or (len(calls) < ROUNDS and spent < most):
        q = v = own = end = None  # what is left of the last run goes before the clock starts
        start = time.perf_counter()
        end = run()
        whole = time.perf_counter() - start
        q, v, own = end
        if own is None:
            inner.append(whole)
        elif tool.rebuilds or len(calls) % 4 == 0:  # to ask costs more than short runs do
            inner.append(own())
        calls.append(inner[-1] if tool.rebuilds else whole)
    row["seconds"] = min(row.get("seconds", np.inf), *calls)
    row["integration"] = min(row.get("integration", np.inf), *inner)
    row["runs"] = row.get("runs", 0) + len(calls)
    return q, v, own


def take_turns(rows: Sequence[dict[str, Any]]) -> None:
    """Short runs of a problem once more, all of them in turn; see the head of this file."""
    short = [again for row in rows if (again := row.get("again")) is not None]
    for _ in range(TURNS):
        for again in short:
            again()
    for row in rows:
        row.pop("again", None)


def measure(tool: Tool, model: Model, tol: float) -> dict[str, Any]:
    """One tool at one tolerance: error, seconds of the call and of the integration alone (fastest of several)."""
    row: dict[str, Any] = {"model": model.name, "tool": tool.name, "tol": tol, "failure": None}
    try:
        run = tool.prepare(model, tol)
        if not tool.warm:
            run()
        q, v, _ = timed(row, run, tool, SPENT, BUDGET)
        if row["seconds"] < SHORT:
            row["again"] = lambda: timed(row, run, tool, IN_A_TURN)
        row["error"] = model.error(q, v)
        return row
    except Exception as error:  # whatever a tool throws is its result, and the others go on
        return row | {"failure": " ".join(f"{type(error).__name__}: {error}".split())[:160]}


def sweep(tool: Tool, model: Model, limit: float) -> list[dict[str, Any]]:
    """From loose to tight, until accurate enough or too slow."""
    rows = []
    for tol in tool.tolerances:
        row = measure(tool, model, tol)
        rows.append(row)
        text = row["failure"] or f"error {row['error']:.1e}  {1e3 * row['seconds']:9.2f} ms"
        print(f"{model.name:13s} {tool.name:22s} {tol:.0e}  {text}", flush=True)
        if row["failure"] is None:
            slow = row["seconds"] > (limit if row["error"] < LEVELS[0] else 5 * limit)
            if slow or (row["error"] < FINE_ENOUGH and len(rows) >= FEWEST):
                break
        done = [r["failure"] is None for r in rows]
        if done[-FAILURES[any(done)] :].count(False) == FAILURES[any(done)]:
            break
    return rows


def curve(rows: Sequence[dict[str, Any]], model: str, tool: str, what: str) -> list[tuple[float, float]]:
    """Work-precision curve of a tool on a model."""
    mine = [r for r in rows if r["model"] == model and r["tool"] == tool and not r["failure"] and r["error"] < USELESS]
    return front([(r["error"], r[what]) for r in mine])


def ratios(rows: Sequence[dict[str, Any]], tools: Sequence[Tool], what: str) -> list[dict[str, Any]]:
    """Time of every peer over that of the best of ours, at every level of error."""
    out = []
    for model in dict.fromkeys(r["model"] for r in rows):
        for level in LEVELS:
            own = {}
            for tool in tools:
                points = curve(rows, model, tool.name, what) if tool.ours else []
                if points and (found := time_at(points, level))[1] != ">":
                    own[tool.name] = found[0]
            if not own:
                continue
            best = min(own, key=lambda name: own[name])
            for tool in tools:
                points = [] if tool.ours else curve(rows, model, tool.name, what)
                if not points:
                    continue
                seconds, bound = time_at(points, level)
                ratio = seconds / own[best]
                out.append({
                    "model": model, "error": level, "ours": best, "ms": 1e3 * own[best], "peer": tool.name,
                    "peer_ms": 1e3 * seconds, "bound": bound, "ratio": ratio, "target": TARGETS[tool.keeps],
                    "met": bound == ">" or ratio >= TARGETS[tool.keeps],
                })  # fmt: skip
    return out


def ratio_table(found: Sequence[dict[str, Any]]) -> tuple[list[str], list[list[Any]]]:
    """One row for each model and level, one column for each peer; `*` marks what falls short of its target."""
    peers = list(dict.fromkeys(r["peer"] for r in found))
    lines = []
    for model, level in dict.fromkeys((r["model"], r["error"]) for r in found):
        these = {r["peer"]: r for r in found if (r["model"], r["error"]) == (model, level)}
        first = next(iter(these.values()))
        cells = [
            f"{r['bound']}{r['ratio']:.3g}{'' if r['met'] else ' *'}" if (r := these.get(p)) else "" for p in peers
        ]
        lines.append([model, f"{level:.0e}", first["ours"].removeprefix("dalembert "), first["ms"], *cells])
    return ["problem", "error", "ours", "ms", *peers], lines


def report(results: dict[str, Any], tools: Sequence[Tool], brief: bool = False) -> str:
    text = ["# The collection beside its peers", "", "Made by `benchmarks/collection.py`; its head says how.", ""]
    text += [f"Machine: {results['machine']}", ""]
    text += [f"- {tool.name}: {tool.form} ({tool.version()})" for tool in tools]
    text += [f"- {name}: not installed, left out" for name in results["missing"]]
    for what, title in (("seconds", "Times faster, whole call"), ("integration", "Times faster, integration alone")):
        found = results["ratios"][what]
        keeps = [r for r in found if r["target"] > 1]
        drifts = [r for r in found if r["target"] == 1]
        head, lines = ratio_table(found)
        text += ["", f"## {title}", ""]
        text += [
            "Time of the peer over the time of the best of ours (third and fourth column) for the same error at the "
            "end. `>`: the peer did not get so accurate at any tolerance, or not within the limit of time; the time is "
            "that of its most accurate run. `<`: even its cheapest run is more accurate. `*`: short of the target (10 "
            "for tools that keep the constraints and return multipliers, 1 for codes for ODEs).", "",
            f"With constraints: {_count(keeps)} Drifting: {_count(drifts)}", "",
            markdown_table(head, lines, digits=3),
        ]  # fmt: skip
        if what == "seconds":
            text += [
                "",
                "All solvers are set up beforehand, ours by `da.prepare`. A call of it takes initial values, makes a "
                "solution, in Python, and the end is read from that, about 0.005 ms. The next table leaves this out; "
                "initial values are checked and made consistent within it.",
            ]
    if brief:
        return "\n".join(text) + "\n"
    text += ["", "## Runs", ""]
    cells = [
        [r["model"], r["tool"], f"{r['tol']:.0e}", r.get("error"), _ms(r, "seconds"), _ms(r, "integration"),
         r["failure"] or ""]
        for r in results["runs"]
    ]  # fmt: skip
    text.append(markdown_table(["problem", "tool", "tol", "error", "ms", "ms inside", "failure"], cells, digits=3))
    return "\n".join(text) + "\n"


def _count(found: Sequence[dict[str, Any]]) -> str:
    """Targets met, apart from those errors that the peer did not reach (counted as met in the JSON)."""
    beyond = sum(r["bound"] == ">" for r in found)
    met = sum(r["met"] for r in found) - beyond
    return f"target met in {met} of {len(found) - beyond} comparisons; in {beyond} more the peer did not get there."


def _ms(row: dict[str, Any], what: str) -> float | None:
    return 1e3 * row[what] if what in row else None


def draw(results: dict[str, Any], tools: Sequence[Tool], path: Path) -> None:
    """One panel for each problem."""
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(r["model"] for r in results["runs"]))
    across = min(3, len(names))
    down = -(-len(names) // across)
    figure = Figure(figsize=(4.3 * across, 3.6 * down + 0.9), layout="constrained", dpi=130)
    panels = figure.subplots(down, across, squeeze=False).ravel()
    handles: dict[str, Any] = {}
    for ax, name in zip(panels, names, strict=False):
        # the same tools in the same order everywhere, for equal colours and marks
        curves = {tool.name.replace(",", ""): curve(results["runs"], name, tool.name, "seconds") for tool in tools}
        draw_work_precision(ax, curves)
        for line, tool in zip(ax.get_lines(), tools, strict=True):
            line.set_linewidth(2.2 if tool.ours else 1.0)
            line.set_linestyle("-" if tool.keeps else "--")
            if len(line.get_xdata()):
                handles.setdefault(str(line.get_label()), line)
        ax.set_title(name, fontsize="medium")
    for ax in panels[len(names) :]:
        ax.set_axis_off()
    for row in range(down):
        panels[row * across].set_ylabel("relative error at the end")
    figure.suptitle(
        "wall time of a call; lower left is better, dashed: solutions drift off the constraints", fontsize=9
    )
    figure.legend(
        list(handles.values()), list(handles), loc="outside lower center", ncols=5, fontsize="small", frameon=False
    )
    figure.savefig(path)


def machine() -> str:
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        first = info.read_text().split("\n\n")[0].splitlines()
        found = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in first)}
        if "model name" in found:  # which is that of many processors; times depend on the width of their vectors
            width = next((w for flag, w in WIDTHS.items() if flag in found.get("flags", "").split()), 128)
            kind = f"family {found.get('cpu family')}, model {found.get('model')}, {width}-bit vectors"
            cpu = f"{found['model name']} ({kind})"
    load = f", load {os.getloadavg()[0]:.1f} at the start" if hasattr(os, "getloadavg") else ""
    return f"{cpu}, {os.cpu_count()} cores, Python {platform.python_version()}{load}"


def write(results: dict[str, Any], tools: Sequence[Tool], folder: Path, brief: bool) -> None:
    """All files, from the runs so far."""
    results["ratios"] = {what: ratios(results["runs"], tools, what) for what in ("seconds", "integration")}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "peers.md").write_text(report(results, tools, brief), encoding="utf-8")
    if brief:
        return
    (folder / "peers.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    draw(results, tools, folder / "peers.png")


def kept(folder: Path, models: Sequence[str]) -> list[dict[str, Any]]:
    """Runs of the models that are not measured now, from the last results."""
    last = folder / "peers.json"
    runs = json.loads(last.read_text(encoding="utf-8"))["runs"] if last.exists() else []
    return [run for run in runs if run["model"] not in models]


def in_order(runs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Model by model, as they are listed."""
    return sorted(runs, key=lambda run: list(MODELS).index(run["model"]))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="The collection beside its peers.")
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS), metavar="NAME")
    parser.add_argument(
        "--tools", nargs="+", default=None, metavar="TEXT", help="only tools whose names contain a text"
    )
    parser.add_argument(
        "--limit", type=float, default=LIMIT, help="seconds of a run after which a tool stops tightening"
    )
    parser.add_argument("--out", type=Path, default=Path(__file__).resolve().parent / "results")
    parser.add_argument("--brief", action="store_true", help="write the tables of ratios only, without runs and figure")
    options = parser.parse_args(arguments)
    chosen = [t for t in TOOLS if options.tools is None or any(x in t.name for x in options.tools)]
    tools = [t for t in chosen if t.available()]
    missing = [t.name for t in chosen if not t.available()]
    for name in missing:
        print(f"not installed, left out: {name}")
    begin, out = time.perf_counter(), options.out.resolve()
    results: dict[str, Any] = {"machine": machine(), "missing": missing, "runs": kept(out, options.models)}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):  # CasADi compiles where it is
        for name in options.models:
            model = MODELS[name]()
            rows = [row for tool in tools if tool.suits(model) for row in sweep(tool, model, options.limit)]
            take_turns(rows)
            results["runs"] = in_order(results["runs"] + rows)
            write(results, tools, out, options.brief)  # after every problem: nothing is lost if the rest is interrupted
    for what, title in (("seconds", "whole call"), ("integration", "integration alone")):
        print_table(f"times faster than the peer: {title}", *ratio_table(results["ratios"][what]), digits=3)
    print(f"{time.perf_counter() - begin:.0f} s")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
