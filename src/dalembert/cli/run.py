"""``dalembert run``."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

import dalembert
from dalembert.cli.app import app
from dalembert.cli.messages import FAILED, INTERRUPTED, messages, say
from dalembert.cli.summary import print_summary
from dalembert.cli.task import (
    EndOption,
    PositionsOption,
    ProblemArgument,
    SetOption,
    VelocitiesOption,
    make_task,
    parameters_of,
)
from dalembert.numerics.projection import Projection
from dalembert.status import Status
from dalembert.table import make_console


class ProjectionChoice(StrEnum):
    """Values of --projection."""

    default = "default"
    none = "none"
    joint = "joint"
    sequential = "sequential"

    @property
    def argument(self) -> Projection | str | None:
        """What `solve` takes."""
        if self is ProjectionChoice.default:
            return "default"
        if self is ProjectionChoice.none:
            return None
        return Projection(coupling="joint" if self is ProjectionChoice.joint else "sequential")


@app.command()
def run(
    problem: ProblemArgument,
    method: Annotated[str, typer.Option(help="Method of integration, see list.")] = "auto",
    formulation: Annotated[str | None, typer.Option(help="Formulation, see list; default: the method's own.")] = None,
    projection: Annotated[ProjectionChoice, typer.Option(help="Projection onto the constraints.")] = (
        ProjectionChoice.default
    ),
    rtol: Annotated[float, typer.Option(help="Relative tolerance.")] = 1e-6,
    atol: Annotated[float, typer.Option(help="Absolute tolerance.")] = 1e-8,
    h: Annotated[float | None, typer.Option("--h", help="Fixed step size, without error control.")] = None,
    t_end: EndOption = None,
    set_: SetOption = None,
    q0: PositionsOption = None,
    v0: VelocitiesOption = None,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a figure (.png, .pdf, .svg).")] = None,
    save: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the solution (.nc); da.load reads it.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
) -> None:
    """Integrate a problem and show how it went."""
    from dalembert import plotting, storage

    with messages():
        # refuse now what would fail after the run
        if plot is not None:
            plotting.check_path(plot)
        if save is not None:
            storage.check_path(save)
        task = make_task(problem, t_end, q0, v0)
        parameters = parameters_of(set_ or [], task.system)
        if parameters:
            task.problem = None
    with messages(model=problem):
        solution = dalembert.solve(
            task.system, task.t_span, q0=task.q0, v0=task.v0, method=method, formulation=formulation,
            projection=projection.argument, rtol=rtol, atol=atol, h=h, parameters=parameters,
            progress=_show_progress(quiet), **task.options,
        )  # fmt: skip
    written = []
    with messages():
        if save is not None:
            solution.save(save)
            written.append(str(save))
        if plot is not None:
            solution.plot(plot)
            written.append(str(plot))
    if not quiet:
        print_summary(solution, task)
        if written:
            make_console().print(f"written: {', '.join(written)}", markup=False)
    if not solution.success:
        if quiet:
            say(solution.message)
        raise typer.Exit(INTERRUPTED if solution.status == Status.INTERRUPTED else FAILED)


def _show_progress(quiet: bool) -> bool:
    """True if someone is watching; the bar belongs on stderr, so that stdout can be piped."""
    return not quiet and sys.stderr.isatty()
