"""What ``dalembert run`` prints about a solution."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from dalembert.cli.task import Task
from dalembert.problems.base import Problem
from dalembert.solution import Solution
from dalembert.table import format_number, make_console, print_table

MOST_ROWS = 24  # components shown in the end state
STATE_DIGITS = 8


def print_summary(solution: Solution, task: Task) -> None:
    stats = solution.stats
    errors = _errors(solution, task.problem)
    rows: list[tuple[str, Any]] = [
        ("status", solution.status.name.lower().replace("_", " ")),
        ("message", solution.message),
        ("method", stats.method),
        ("formulation", stats.formulation),
        ("projection", stats.projection),
        ("steps", f"{stats.steps} ({stats.rejected} rejected, {stats.newton_failures} failed in Newton or projection)"),
        ("time", f"{format_number(stats.wall_time, 3)} s, and {format_number(stats.compile_time, 3)} s to prepare"),
    ]
    if stats.steps:
        rows.append(("time per step", f"{format_number(1e6 * stats.wall_time / stats.steps, 3)} us"))
    rows += [("warning", text) for text in stats.warnings]
    rows += _drift_rows(solution)
    rows += _energy_rows(solution)
    if errors:
        largest = ", ".join(f"{name} {format_number(np.abs(e).max(), 3)}" for name, e in errors.items() if e.size)
        rows.append(("error at the end", f"{largest} (against the reference)"))
    print_table(task.description, ["", ""], rows)
    if solution.t.size:
        _end_state(solution, errors)


def _drift_rows(solution: Solution) -> Iterator[tuple[str, str]]:
    """Largest residual by level, for the levels there are."""
    try:
        drift, largest = solution.drift, solution.drift.largest
    except Exception as problem:  # the model may fail where the run did: the rest is still worth showing
        yield "drift", f"not known ({type(problem).__name__}: {problem})"
        return
    for name, symbol in (("position", "g"), ("velocity", "g'"), ("nonholonomic", "k"), ("invariants", "phi")):
        if getattr(drift, name).shape[1]:
            yield f"drift, {name}", f"{format_number(largest[name], 3)} (largest |{symbol}|)"


def _energy_rows(solution: Solution) -> Iterator[tuple[str, str]]:
    """Energy at the start and its largest change, if the system has an energy."""
    if solution.energy_of is None or not solution.t.size:
        return
    try:
        energy = solution.energy
    except Exception as problem:
        yield "energy", f"not known ({type(problem).__name__}: {problem})"
        return
    change = float(np.abs(energy - energy[0]).max())
    yield "energy", f"{format_number(energy[0])} at the start, largest change {format_number(change, 3)}"


def _errors(solution: Solution, problem: Problem | None) -> dict[str, np.ndarray]:
    """Deviation from the reference at the last time, by part; empty if it is not known there."""
    if problem is None or problem.reference is None or not solution.t.size:
        return {}
    t = float(solution.t[-1])
    low, high = sorted(problem.t_span)
    known = problem.reference_times
    if not (low <= t <= high if known is None else any(math.isclose(t, x, rel_tol=1e-12) for x in known)):
        return {}
    return {
        name: solution.parts[name][-1] - np.asarray(value, dtype=float).reshape(-1)
        for name, value in problem.reference(t).items()
        if name in solution.parts
    }


def _end_state(solution: Solution, errors: Mapping[str, np.ndarray]) -> None:
    """The last point, by component name."""
    rows: list[list[Any]] = []
    for part in ("q", "v", "r", "w", "s", "lam", "mu"):
        values = solution.parts[part][-1]
        names = solution.names.get(part, ())
        for i, value in enumerate(values):
            name = names[i] if i < len(names) else str(i)
            rows.append([part, name, value, errors[part][i] if part in errors else None])
    hidden = len(rows) - MOST_ROWS
    columns = ["part", "component", "value", "error"]
    digits = {"value": STATE_DIGITS, "error": 3}
    if not errors:
        rows, columns = [row[:3] for row in rows], columns[:3]
    title = f"State at t = {format_number(solution.t[-1], STATE_DIGITS)}"
    print_table(title, columns, rows[: MOST_ROWS if hidden > 0 else None], digits=digits)
    if hidden > 0:
        make_console().print(f"and {hidden} more components; --save FILE.nc keeps them all", markup=False)
