"""``dalembert compare``."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from dalembert.analysis.compare import LEFT_OUT, QUANTITIES, TOLERANCES, Comparison, Trial
from dalembert.analysis.compare import compare as compare_pairs
from dalembert.cli.app import app
from dalembert.cli.messages import FAILED, check_folder, messages
from dalembert.cli.task import (
    EndOption,
    PositionsOption,
    ProblemArgument,
    SetOption,
    Task,
    VelocitiesOption,
    make_task,
    numbers,
    parameters_of,
)
from dalembert.table import format_number, make_console, print_table

DEFAULT_TOLERANCES = ",".join(f"{x:g}" for x in TOLERANCES)


@app.command()
def compare(
    problem: ProblemArgument,
    methods: Annotated[
        str | None, typer.Option(metavar="LIST", help=f"Methods, e.g. bdf,radau; default: all but {LEFT_OUT[0]}.")
    ] = None,
    formulations: Annotated[
        str | None, typer.Option(metavar="LIST", help="Formulations; default: all that suit.")
    ] = None,
    rtol: Annotated[str, typer.Option(metavar="LIST", help="Tolerances, rtol = atol.")] = DEFAULT_TOLERANCES,
    accuracy: Annotated[float, typer.Option(help="Relative error for which the best pair is sought.")] = 1e-4,
    time_limit: Annotated[float, typer.Option(help="Seconds that a run may take.")] = 10.0,
    rounds: Annotated[int, typer.Option(help="Runs of each; the fastest counts.")] = 3,
    t_end: EndOption = None,
    set_: SetOption = None,
    q0: PositionsOption = None,
    v0: VelocitiesOption = None,
    json_file: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the runs as JSON.")] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a work-precision figure (.png, .pdf, .svg).")
    ] = None,
) -> None:
    """Run every suitable method with every formulation, and show work and precision."""
    from dalembert import plotting

    with messages():
        check_folder(json_file)
        if plot is not None:
            plotting.check_path(plot)
        task = make_task(problem, t_end, q0, v0)
        parameters = parameters_of(set_ or [], task.system)
        reference, times = (None, None) if parameters else _reference(task)
        tolerances = numbers("--rtol", rtol).tolist()
    with messages(model=problem), _progress() as tell:
        found = compare_pairs(
            task.system, task.t_span, task.q0, task.v0, methods=_names(methods), formulations=_names(formulations),
            tolerances=tolerances, reference=reference, reference_times=times, accuracy=accuracy,
            time_limit=time_limit, rounds=rounds, parameters=parameters or None, progress=tell, **task.options,
        )  # fmt: skip
    written = []
    with messages():
        if json_file is not None:
            json_file.write_text(json.dumps(found.as_dict(), indent=1, allow_nan=False) + "\n", encoding="utf-8")
            written.append(str(json_file))
        curves = {", ".join(pair): curve for pair, curve in found.curves().items()}
        if plot is not None and curves:
            best = None if found.best is None else ", ".join(found.best)
            plotting.plot_work_precision(curves, plot, title=task.description, best=best)
            written.append(str(plot))
    _print(found, task)
    if written:
        make_console().print(f"written: {', '.join(written)}", markup=False)
    if not curves:
        raise typer.Exit(FAILED)


def _names(given: str | None) -> list[str] | None:
    return None if given is None else [x.strip() for x in given.split(",") if x.strip()]


def _reference(task: Task) -> tuple[Any, list[float] | None]:
    """The reference of the problem and its times within the span, if there are such."""
    problem = task.problem
    if problem is None or problem.reference is None:
        return None, None
    low, high = sorted(task.t_span)
    if problem.reference_times is None:
        inside = problem.t_span[0] <= low and high <= problem.t_span[1]
        return (problem.reference, None) if inside else (None, None)
    times = [t for t in problem.reference_times if low <= t <= high or math.isclose(t, high)]
    return (problem.reference, times) if times else (None, None)


def _print(found: Comparison, task: Task) -> None:
    parts = [name for name in QUANTITIES if any(name in t.errors for t in found.trials)]
    best = found.best
    mark = "<" if make_console().options.ascii_only else "◀"
    rows = [_row(t, parts, mark if (t.method, t.formulation) == best else "") for t in found.trials]
    heads = ["method", "formulation", "rtol", "steps", *(f"error {name}" for name in parts), "ms", ""]
    print_table(f"{task.description}\nReference: {found.reference}", heads, rows, digits=3)
    console = make_console()
    if best is not None:
        text = f"fastest to a relative error of {format_number(found.accuracy)} in all quantities ({mark}): "
        console.print(f"{text}{best[0]}, {best[1]}", markup=False)
    elif found.trials:
        console.print(f"no pair reached a relative error of {format_number(found.accuracy)}", markup=False)
    if found.refused:
        console.print(f"not suitable: {', '.join(f'{m} {f}' for m, f in found.refused)}", markup=False, style="dim")


def _row(trial: Trial, parts: list[str], mark: str) -> list[Any]:
    seconds = None if trial.seconds is None else 1e3 * trial.seconds
    errors = [trial.errors.get(name) for name in parts]
    return [trial.method, trial.formulation, f"{trial.rtol:.0e}", trial.steps, *errors, seconds, trial.failure or mark]


@contextmanager
def _progress() -> Iterator[Callable[[str, int, int], None] | None]:
    """A bar on stderr, if someone is watching."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}")
    with Progress(*columns, console=make_console(stderr=True), transient=True) as bar:
        row = bar.add_task("", total=None)

        def tell(what: str, done: int, total: int) -> None:
            bar.update(row, description=what, completed=done, total=total)

        yield tell
