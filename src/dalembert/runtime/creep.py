"""Runs that get nowhere: steps so small that memory or patience would end before the run does.

So it happens where the right side jumps at a state and pushes back to it from both sides (dry friction): there is no
solution, and an implicit method follows the line on which it would have to lie.
"""

from __future__ import annotations

import numpy as np

from dalembert.numerics import runstate

WINDOW = 50_000  # steps whose progress is looked at
HOPELESS = 1e9  # steps to the end at their pace
COLLAPSED = 1e-4  # of the best pace, on the average since the start, that there was
TWICE = 2.0  # a pace that has grown by this from window to window may yet grow


class Creep:
    """Watches the progress of a run whose steps are automatic and not limited in number."""

    def __init__(self, t0: float) -> None:
        self.start = self.t = t0
        self.steps, self.best, self.before = 0, 0.0, np.inf

    def hopeless(self, run: runstate.Run) -> str:
        """What to say of a run that would not end; empty for others. Called whenever the loop is in Python."""
        t, steps = float(run.real[runstate.T]), int(run.whole[runstate.STEPS])
        self.best = max(self.best, abs(t - self.start) / max(steps, 1))
        if steps - self.steps < WINDOW:
            return ""
        pace = abs(t - self.t) / (steps - self.steps)
        left = abs(float(run.real[runstate.T_END]) - t)
        slow = pace * HOPELESS < left and pace < COLLAPSED * self.best and pace < TWICE * self.before < np.inf
        text = (
            f"At the pace of the last {steps - self.steps} steps, {left / max(pace, 1e-300):.0e} more would be needed."
        )
        self.t, self.steps, self.before = t, steps, pace
        return text if slow else ""
