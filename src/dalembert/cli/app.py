"""The application that commands are added to."""

from __future__ import annotations

from typing import Annotated

import typer

import dalembert

app = typer.Typer(
    name="dalembert",
    help="Constrained mechanical systems without drift.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dalembert {dalembert.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Constrained mechanical systems without drift."""
