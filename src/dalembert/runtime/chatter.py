"""Events that accumulate (Zeno): a bouncing ball with restitution comes to rest after infinitely many impacts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

COUNT = 8  # intervals between jumps that are looked at
CLOSE = 1e-9  # the accumulation is reached when it is this near, relative to the time since the start
INSTANT = 1e-13  # intervals this short, relative to the length of the run, are none


def accumulation(times: Sequence[float], t0: float, t1: float) -> float | None:
    """Where jumps at these times accumulate, if they are about to: the limit of a geometric sequence; else None.

    Intervals shrink by the ratio r; the remaining ones add up to r / (1 - r) times the last.
    """
    if len(times) <= COUNT:
        return None
    sign = 1.0 if t1 > t0 else -1.0
    gaps = sign * np.diff(np.asarray(times[-COUNT - 1 :]))
    if gaps.max() <= INSTANT * max(abs(t1 - t0), abs(times[-1])):
        return float(times[-1])
    if gaps.min() <= 0.0:
        return None
    ratios = gaps[1:] / gaps[:-1]
    if ratios.max() >= 1.0:
        return None
    ratio = float(np.exp(np.log(ratios).mean()))
    left = gaps[-1] * ratio / (1.0 - ratio)
    return float(times[-1] + sign * left) if left <= CLOSE * abs(times[-1] - t0) else None
