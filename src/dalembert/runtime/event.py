"""`Event`: a function of the state whose zeros are located during a run, and what happens there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dalembert.status import OptionError


@dataclass(frozen=True, eq=False)
class Event:
    """A function of the state whose zeros are located, and what is to happen there.

    Plain functions with attributes of the same names do as well: ``f.terminal = True``.

    Parameters
    ----------
    function
        Asks by name for what it needs, any of ``t q v a r w s lam mu p``, and returns one number.
    direction
        +1: only zeros where the function grows (in the direction of the run), -1: where it falls, 0: both.
    terminal
        True: the run ends at the first zero; n: at the n-th. Nothing is applied at the zero that ends the run.
    apply
        What changes there: a function that asks by name for ``t q v a r w s lam mu p`` or ``state`` (an `EventState`)
        and changes q, v, r or p in place, or returns a dict of new values, or calls ``state.release(constraint)`` and
        ``state.engage(constraint)``. The state is made consistent afterwards, and the integration begins anew.
    restitution
        The function is a gap (of t, q, p) that closes from above: an impact reverses its rate and multiplies it with
        this number, between 0 and 1; a number or a function of named arguments. The joints pass the impulse on.
    name
        For messages; that of the function by default.

    Examples
    --------
    >>> import dalembert as da
    >>> ball = da.System(q=["x", "y"], mass=[1, 1], force=[0, -9.81])
    >>> floor = da.Event(lambda q: q[1], restitution=0.5, terminal=3, name="floor")
    >>> sol = da.solve(ball, (0, 10), [0, 1], [1, 0], events=floor)
    >>> sol.message
    'Stopped by event 0 (floor) at t = 1.128864094.'
    """

    function: Callable[..., Any]
    direction: float = 0
    terminal: bool | int = False
    apply: Callable[..., Any] | None = None
    restitution: float | Callable[..., Any] | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise OptionError(f"Event(function={self.function!r}): give a function of named arguments.")
        terminal, direction, label = self.terminal, self.direction, f"event {self.label!r}"
        if terminal is not True and terminal is not False and (not isinstance(terminal, int) or terminal < 1):
            raise OptionError(f"{label}: terminal={terminal!r} must be a bool or a count >= 1.")
        if not isinstance(direction, (int, float, np.number)) or np.isnan(direction):
            raise OptionError(f"{label}: direction={direction!r} must be +1, -1 or 0.")
        if self.apply is not None and not callable(self.apply):
            raise OptionError(f"{label}: apply={self.apply!r} must be a function.")
        e = self.restitution
        if e is None:
            return
        if not callable(e) and (isinstance(e, bool) or not isinstance(e, (int, float, np.number)) or not 0 <= e <= 1):
            raise OptionError(f"{label}: restitution={e!r} must be a number between 0 and 1, or a function.")
        if direction > 0:
            raise OptionError(f"{label}: direction={direction!r}, but an impact needs a gap that closes (-1).")
        object.__setattr__(self, "direction", -1)

    @property
    def label(self) -> str:
        return self.name if self.name is not None else str(getattr(self.function, "__name__", repr(self.function)))

    @property
    def jumps(self) -> bool:
        """True if something changes there."""
        return self.apply is not None or self.restitution is not None


def as_events(given: Any) -> tuple[Event, ...]:
    """The events meant by the argument ``events`` of `solve`."""
    try:
        items = [] if given is None else [given] if callable(given) or isinstance(given, Event) else list(given)
    except TypeError:
        raise OptionError(f"events={given!r}: give a function of named arguments or a list of them.") from None
    out = []
    for i, item in enumerate(items):
        if isinstance(item, Event):
            out.append(item)
            continue
        if not callable(item):
            raise OptionError(f"events: item {i} is {item!r}, not a function.")
        rules = {name: getattr(item, name) for name in ("direction", "terminal", "apply", "restitution")
                 if hasattr(item, name)}  # fmt: skip
        out.append(Event(item, **rules))
    return tuple(out)
