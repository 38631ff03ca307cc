"""``dalembert reproduce``."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from dalembert.cli.app import app
from dalembert.cli.messages import check_folder, interruptible, messages
from dalembert.status import OptionError
from dalembert.table import make_console, print_table

if TYPE_CHECKING:
    from dalembert.papers import Paper


@app.command()
def reproduce(
    paper: Annotated[str, typer.Argument(metavar="PAPER", help="Name of a paper, see list.")],
    json_file: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the rows as JSON.")] = None,
    figures: Annotated[Path | None, typer.Option(metavar="DIR", help="Write the figures into this folder.")] = None,
) -> None:
    """Measure the numbers of a paper anew and set them beside the printed ones."""
    with messages():
        known = known_papers()
        if paper not in known:
            raise OptionError(f"there is no paper {paper!r}; there are {', '.join(sorted(known)) or 'none yet'}.")
        check_folder(json_file)
        if figures is not None:
            figures.mkdir(parents=True, exist_ok=True)
        entry = known[paper]
    with interruptible():
        rows = [_row(x) for x in entry.run(figures)]
    if json_file is not None:  # first: nothing measured is lost if the terminal goes away
        with messages():
            json_file.write_text(json.dumps(rows, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    console = make_console()
    console.print(entry.title, markup=False)
    for title in dict.fromkeys(row["table"] for row in rows):
        _print_reproduced(title, [row for row in rows if row["table"] == title])
    for note in getattr(entry, "notes", ()):
        console.print(f"note: {note}", markup=False)
    console.print(_verdict(rows), markup=False)
    if json_file is not None:
        console.print(f"rows written to {json_file}", markup=False)
    if figures is not None:
        console.print(f"figures written to {figures}", markup=False)


def _verdict(rows: Sequence[Mapping[str, Any]]) -> str:
    """How much agrees; numbers printed in the paper are not mixed with checks of our own."""
    out = []
    for kind, printed in (
        ("numbers printed in the paper agree", True),
        ("checks without a printed number hold", False),
    ):
        judged = [row["agrees"] for row in rows if row["agrees"] is not None and (row["paper"] is not None) == printed]
        if judged:
            out.append(f"{sum(judged)} of {len(judged)} {kind}")
    return ("; ".join(out) or "nothing was judged") + ". Each note states the criterion."


def _print_reproduced(title: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """One table of the paper: its parameters, then the numbers side by side."""
    ascii_only = make_console().options.ascii_only
    marks = {True: "yes" if ascii_only else "✓", False: "NO" if ascii_only else "✗", None: ""}
    keys = list(dict.fromkeys(key for row in rows for key in row["row"]))
    print_table(
        title, [*keys, "quantity", "paper", "measured", "agrees", "note"],
        [
            [*(row["row"].get(key) for key in keys), row["quantity"], row["paper"], row["measured"],
             marks[row["agrees"]], row["note"] or ""]
            for row in rows
        ],
    )  # fmt: skip


def _row(given: Mapping[str, Any]) -> dict[str, Any]:
    """One number of a paper as plain JSON values."""
    return {key: _plain(given.get(key)) for key in ("table", "row", "quantity", "paper", "measured", "agrees", "note")}


def _plain(x: Any) -> Any:
    """JSON has no NaN and no NumPy."""
    if isinstance(x, Mapping):
        return {str(key): _plain(value) for key, value in x.items()}
    if isinstance(x, (list, tuple)):
        return [_plain(value) for value in x]
    if isinstance(x, (np.generic, np.ndarray)):
        return _plain(x.tolist())
    return None if isinstance(x, float) and not math.isfinite(x) else x


def known_papers() -> dict[str, Paper]:
    """The papers, imported only when asked for: they load every method there is."""
    from dalembert.papers import papers

    return papers()
