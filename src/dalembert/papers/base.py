"""What the reproduction of a paper is: a name, a title and a function that measures everything anew."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

Row = dict[str, Any]


@dataclass(frozen=True)
class Paper:
    """A paper of the collection.

    Attributes
    ----------
    name, title
        Short name for the command line; authors, title, journal.
    run
        Function of a folder (or None) that returns one row for each number and, given a folder, writes figures there.
        Keys of a row: "table", "row" (parameters), "quantity", "paper" (number or None), "measured", "agrees", "note";
        the note names the criterion behind "agrees".
    notes
        What could not be reproduced, and why.
    """

    name: str
    title: str
    run: Callable[[Path | None], list[Row]]
    notes: tuple[str, ...] = ()


_REGISTRY: dict[str, Paper] = {}


def register(paper: Paper) -> Paper:
    """Make a paper known by its name."""
    _REGISTRY[paper.name] = paper
    return paper


def papers() -> dict[str, Paper]:
    """Papers by name.

    Examples
    --------
    >>> from dalembert.papers import papers
    >>> "eich-1993" in papers()
    True
    """
    return dict(_REGISTRY)


def published(name: str) -> Any:
    """The numbers printed in a paper, from its data file."""
    return json.loads(files("dalembert.papers").joinpath("data", f"{name}.json").read_text(encoding="utf-8"))


def entry(
    table: str, row: dict[str, Any], quantity: str, paper: float | None, measured: float, agrees: bool, note: str
) -> Row:
    """One row of a reproduction."""
    return {
        "table": table, "row": row, "quantity": quantity, "paper": paper, "measured": float(measured),
        "agrees": bool(agrees), "note": note,
    }  # fmt: skip


def within(paper: float, measured: float, factor: float) -> tuple[bool, str]:
    """One-sided comparison of an error with a printed one, at most ``factor`` times as large: (agrees, note)."""
    ratio = measured / paper
    note = f"at most {factor:g} times the paper's error; ratio {ratio:.2g}"
    return ratio <= factor, note + (", better" if ratio < 1 / factor else "")
