"""The command line: list what there is, run a problem, compare methods on it, diagnose it, reproduce a paper.

One file a command. Exit codes: 0 all went well, 1 the run failed (what it computed is shown and kept), 2 bad input, 130
interrupted.
"""

from dalembert.cli import listing, run, compare, diagnose, reproduce  # noqa: F401, I001  the order in which help shows them
from dalembert.cli.app import app

__all__ = ["app", "main"]


def main() -> None:
    """Entry point."""
    app()
