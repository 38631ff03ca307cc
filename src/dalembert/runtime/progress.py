"""A progress bar for long runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(wanted: bool, t0: float, t1: float, title: str) -> Iterator[Callable[[float, int], None] | None]:
    """Yields a function of (time reached, steps), or None."""
    if not wanted:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f}%"),
        TextColumn("t = {task.fields[t]:.4g}, {task.fields[steps]} steps"), TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(title, total=1.0, t=t0, steps=0)

        def tick(t: float, steps: int) -> None:
            bar.update(task, completed=(t - t0) / (t1 - t0), t=t, steps=steps)

        yield tick
