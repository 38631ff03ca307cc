"""``dalembert diagnose``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

import dalembert
from dalembert.cli.app import app
from dalembert.cli.messages import check_folder, messages
from dalembert.cli.task import (
    EndOption,
    PositionsOption,
    ProblemArgument,
    SetOption,
    VelocitiesOption,
    make_task,
    parameters_of,
)
from dalembert.table import make_console, print_table


@app.command()
def diagnose(
    problem: ProblemArgument,
    t_end: EndOption = None,
    set_: SetOption = None,
    q0: PositionsOption = None,
    v0: VelocitiesOption = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write the findings as JSON.")
    ] = None,
) -> None:
    """Examine a problem along a trial run: rates, stiffness, redundant constraints, and what to integrate it with."""
    with messages():
        check_folder(json_file)
        task = make_task(problem, t_end, q0, v0)
        parameters = parameters_of(set_ or [], task.system)
    with messages(model=problem):
        found = dalembert.diagnose(
            task.system, task.q0, task.v0, task.t_span, parameters=parameters, **task.options
        )  # fmt: skip
    if json_file is not None:
        with messages():
            json_file.write_text(json.dumps(found.as_dict(), indent=1, allow_nan=False) + "\n", encoding="utf-8")
    print_table(task.description, ["", ""], found.facts())
    if json_file is not None:
        make_console().print(f"written: {json_file}", markup=False)
