"""What holds for a whole run, whatever segments it is made of: times, tolerances, output, events."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dalembert.model.system import System
from dalembert.numerics.layout import Layout
from dalembert.runtime import arguments
from dalembert.runtime.event import Event
from dalembert.runtime.events import NO_EVENTS, EventSet, compile_events

# Around a declared discontinuity at t the model is not evaluated within this distance (in units of the larger of t and
# the length of the run), so that every stage of a step sees the side it belongs to, however the jump is written.
MARGIN = 4 * np.finfo(float).eps


@dataclass(eq=False)
class Plan:
    """What holds for the whole run."""

    t0: float
    t1: float
    rtol: np.ndarray
    atol: np.ndarray
    max_step: float = np.inf
    max_steps: int | None = None
    h: Any = None  # prescribed: a step size or a list of them
    t_eval: np.ndarray | None = None
    events: tuple[Event, ...] = ()
    discontinuities: tuple[float, ...] = ()  # in the order of the run, inside of it
    compiled: dict[tuple[System, Layout], EventSet] = field(default_factory=dict)  # the events, for each kind of row

    @property
    def forward(self) -> bool:
        return self.t1 > self.t0

    def event_set(self, system: System, layout: Layout) -> EventSet:
        """The events, compiled for rows of a system."""
        if not self.events:
            return NO_EVENTS
        key = system, layout
        if key not in self.compiled:
            self.compiled[key] = compile_events(self.events, system, layout)
        return self.compiled[key]

    def next_stop(self, t: float) -> float:
        """The declared discontinuity behind t, or the end."""
        later = [x for x in self.discontinuities if (x > t) == self.forward and x != t]
        return later[0] if later else self.t1

    def beside(self, t: float, side: int) -> float:
        """Where to evaluate the model instead of at t: behind (side 1) or before (-1) a declared discontinuity."""
        if t not in self.discontinuities:
            return t
        margin = MARGIN * max(abs(t), abs(self.t1 - self.t0))
        return t + side * margin if self.forward else t - side * margin

    def steps(self, begin: float, end: float) -> np.ndarray | None:
        """Prescribed step sizes from here on."""
        if self.h is None or np.ndim(self.h) == 0 or (begin, end) == (self.t0, self.t1):
            return arguments.steps(self.h, begin, end)
        grid = self.t0 + np.cumsum(np.abs(np.asarray(self.h, dtype=float)) * np.sign(self.t1 - self.t0))
        inside = grid[((grid > begin) & (grid < end)) if self.forward else ((grid < begin) & (grid > end))]
        return np.diff(np.concatenate([[begin], inside, [end]]))
