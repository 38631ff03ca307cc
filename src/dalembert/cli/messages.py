"""How commands end: exit codes and messages."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import typer

from dalembert.table import make_console

FAILED, BAD_INPUT, INTERRUPTED = 1, 2, 130


@contextmanager
def messages(model: str | None = None) -> Iterator[None]:
    """Bad input ends with a message and code 2; so does any error out of the user's own ``model`` file."""
    with interruptible():
        try:
            yield
        except (ValueError, OSError) as problem:
            stop(str(problem), BAD_INPUT)
        except RuntimeError as problem:
            stop(str(problem), FAILED)
        except Exception as problem:
            path = Path(model.rpartition(":")[0] or model) if model else None
            if path is None or path.suffix != ".py":
                raise
            stop(whose_fault(problem, path), BAD_INPUT)


@contextmanager
def interruptible() -> Iterator[None]:
    """Ctrl-C outside of an integration (inside, `solve` returns what it has)."""
    try:
        yield
    except KeyboardInterrupt:
        stop("interrupted", INTERRUPTED)


def stop(message: str, code: int) -> NoReturn:
    say(message)
    raise typer.Exit(code)


def say(message: str) -> None:
    make_console(stderr=True).print(f"dalembert: {message}", markup=False, soft_wrap=True)


def whose_fault(problem: BaseException, path: Path) -> str:
    """An exception raised by the user's file, with the line in it."""
    lines = [
        f.lineno for f in traceback.extract_tb(problem.__traceback__) if Path(f.filename).resolve() == path.resolve()
    ]
    where = f"{path}, line {lines[-1]}" if lines else str(path)
    return f"{where}: {type(problem).__name__}: {problem}"


def check_folder(path: Path | None) -> None:
    """Refuse now what would fail after the work."""
    if path is not None and not path.resolve().parent.is_dir():
        raise FileNotFoundError(f"cannot write {path}: its folder does not exist; create it first.")
