"""A progress bar for long runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

Tick = Callable[[float, int], None]
_NO_BAR: AbstractContextManager[Tick | None] = nullcontext()


def progress_bar(wanted: bool, t0: float, t1: float, title: str) -> AbstractContextManager[Tick | None]:
    """Within it a function of (time reached, steps), or None if there is no bar."""
    return _bar(t0, t1, title) if wanted else _NO_BAR


@contextmanager
def _bar(t0: float, t1: float, title: str) -> Iterator[Tick | None]:
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
