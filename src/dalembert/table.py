"""Tables for terminals and for Markdown: the one place where the project formats numbers for people."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from rich.console import Console

DIGITS = 4  # significant digits of a measured number
PIPE_WIDTH = 120  # characters of a line if the output is no terminal and COLUMNS is not set
NOTHING = "-"


def format_number(x: Any, digits: int = DIGITS) -> str:
    """A number with ``digits`` significant digits, with an exponent if it is below 1e-3 or has more digits than that.

    Whole numbers are written out, nothing (None) as a dash.

    Examples
    --------
    >>> [format_number(x) for x in (1136, 0.25, 3.14159265, 2.5e-7, 123456.0, None)]
    ['1136', '0.25', '3.142', '2.5e-07', '1.235e+05', '-']
    """
    if x is None:
        return NOTHING
    if isinstance(x, Integral):
        return str(int(x))
    value = float(x)
    if not math.isfinite(value):
        return str(value)
    if value == 0:
        return "0"
    if abs(value) < 1e-3:
        mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
        return f"{mantissa.rstrip('0').rstrip('.')}e{exponent}"
    return f"{value:.{digits}g}"


def format_cell(x: Any, digits: int = DIGITS) -> str:
    """Anything that a table may hold: text, numbers, truth values, sequences of these, or None."""
    if isinstance(x, str):
        return x
    if isinstance(x, (bool, np.bool_)):
        return "yes" if x else "no"
    if x is None or _is_number(x):
        return format_number(x, digits)
    if isinstance(x, np.ndarray):
        x = x.tolist()
        if not isinstance(x, list):
            return format_cell(x, digits)
    if isinstance(x, (Sequence, set, frozenset)):
        return ", ".join(format_cell(y, digits) for y in (x if isinstance(x, Sequence) else sorted(x)))
    return str(x)


def print_table(
    title: str | None,
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    console: Console | None = None,
    *,
    digits: int | Mapping[str, int] = DIGITS,
) -> None:
    """Print a table; columns of numbers are flush right.

    Parameters
    ----------
    title
        Line above the table, or None.
    columns
        Headers; if all are empty the table has no head.
    rows
        One sequence of cells a row, see `format_cell`.
    console
        Where to print, default the terminal.
    digits
        Significant digits of floating-point numbers, for all columns or by column name.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    cells = _cells(columns, rows, digits)
    table = Table(
        title=Text(title, style="bold") if title else None, title_justify="left", box=box.SIMPLE_HEAD,
        show_header=any(columns), show_edge=False, pad_edge=False, header_style="bold",
    )  # fmt: skip
    for name, number in zip(columns, _numeric(columns, rows), strict=True):
        # names and numbers stay whole, prose gives way
        table.add_column(Text(name), justify="right" if number else "left", no_wrap=number, overflow="fold")
    for row in cells:
        table.add_row(*(Text(cell) for cell in row))
    console = console or make_console()
    console.print(table)
    console.print()


def markdown_table(
    columns: Sequence[str], rows: Sequence[Sequence[Any]], *, digits: int | Mapping[str, int] = DIGITS
) -> str:
    """The same table in Markdown.

    Examples
    --------
    >>> print(markdown_table(["method", "steps"], [["bdf", 1136], ["radau", 87]]))
    | method | steps |
    |:-------|------:|
    | bdf    |  1136 |
    | radau  |    87 |
    """
    head = [_escape(name) for name in columns]
    body = [[_escape(cell) for cell in row] for row in _cells(columns, rows, digits)]
    numeric = _numeric(columns, rows)
    widths = [max(3, len(name), *(len(row[j]) for row in body)) for j, name in enumerate(head)]

    def line(row: Sequence[str]) -> str:
        padded = [x.rjust(w) if number else x.ljust(w) for x, w, number in zip(row, widths, numeric, strict=True)]
        return "| " + " | ".join(padded) + " |"

    rule = ["-" * (w + 1) + ":" if number else ":" + "-" * (w + 1) for w, number in zip(widths, numeric, strict=True)]
    return "\n".join([line(head), "|" + "|".join(rule) + "|", *map(line, body)])


def make_console(*, stderr: bool = False) -> Console:
    """A console as wide as the terminal; wide enough for tables where there is none."""
    from rich.console import Console

    console = Console(stderr=stderr, highlight=False, soft_wrap=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console = Console(stderr=stderr, highlight=False, width=PIPE_WIDTH)
    return console


def _is_number(x: Any) -> bool:
    return isinstance(x, (Real, np.number)) and not isinstance(x, (bool, np.bool_, np.complexfloating))


def _cells(columns: Sequence[str], rows: Sequence[Sequence[Any]], digits: int | Mapping[str, int]) -> list[list[str]]:
    for i, row in enumerate(rows):
        if len(row) != len(columns):
            raise ValueError(f"row {i} has {len(row)} cells, expected {len(columns)}: {', '.join(columns)}.")
    wanted = [digits if isinstance(digits, int) else digits.get(name, DIGITS) for name in columns]
    return [[format_cell(cell, n) for cell, n in zip(row, wanted, strict=True)] for row in rows]


def _numeric(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[bool]:
    """Which columns hold numbers only."""
    out = []
    for j in range(len(columns)):
        known = [row[j] for row in rows if row[j] is not None]
        out.append(bool(known) and all(map(_is_number, known)))
    return out


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ")
