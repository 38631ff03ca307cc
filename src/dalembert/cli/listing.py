"""``dalembert list``."""

from __future__ import annotations

from typing import Any

from dalembert.cli.app import app
from dalembert.cli.reproduce import known_papers
from dalembert.formulations.base import formulations
from dalembert.integrators.base import methods
from dalembert.model.system import System
from dalembert.problems.base import problems
from dalembert.table import print_table


@app.command("list")
def list_() -> None:
    """Show the problems, methods, formulations and papers there are."""
    rows: list[list[Any]] = []
    for name, problem in problems().items():
        rows.append([name, problem.system.nq, _constraints(problem.system), problem.description, problem.source])
    print_table("Problems", ["name", "coordinates", "constraints", "description", "source"], rows)
    print_table(
        "Methods", ["name", "summary", "formulations"],
        [[name, method.summary, sorted(method.takes)] for name, method in sorted(methods().items())],
    )  # fmt: skip
    print_table("Formulations", ["name", "summary"], [[name, f.summary] for name, f in sorted(formulations().items())])
    print_table("Papers", ["name", "title"], [[name, paper.title] for name, paper in sorted(known_papers().items())])


def _constraints(system: System) -> str:
    counts = ((system.nlam, "holonomic"), (system.nmu, "nonholonomic"))
    return ", ".join(f"{n} {kind}" for n, kind in counts if n) or "none"
