"""What the modules of tables share."""

import runpy
import textwrap
from pathlib import Path

import numpy as np

import dalembert as da
from dalembert.papers import (
    papers,
)

HERE = Path(__file__).resolve().parent.parent
ROOT = HERE.parent
EXAMPLES = ROOT / "examples"


def table(header, rows):
    """A Markdown table."""

    def line(cells):
        return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"

    return "\n".join([line(header), "|" + "---|" * len(header), *map(line, rows)])


def number(x):
    return "0" if x == 0 else f"{x:.1e}"


def example(name):
    """Everything that an example defines; what it prints under __main__ is not run."""
    return runpy.run_path(str(EXAMPLES / f"{name}.py"))


def heavy_tops(columns):
    """Steps to t = 1 and largest errors there of q, v and lam; columns: head -> options of `solve`."""
    rows = []
    for name in ("heavy-top", "heavy-top-se3"):
        problem = da.problems()[name]
        exact = problem.reference(1.0)
        for tol in (1e-6, 1e-8, 1e-10, 1e-12):
            cells = []
            for options in columns.values():
                sol = da.solve(problem.system, (0, 1), problem.q0, problem.v0, rtol=tol, atol=tol, **options)
                errors = (number(np.abs(getattr(sol, what)[-1] - exact[what]).max()) for what in ("q", "v", "lam"))
                cells.append(f"{sol.stats.steps}; {'; '.join(errors)}")
            rows.append([f"`{name}`", number(tol), *cells])
    return table(["problem", "tol", *columns], rows)


def paper_notes(name):
    return "\n".join(textwrap.fill(f"- {note}", 120, subsequent_indent="  ") for note in papers()[name].notes)
