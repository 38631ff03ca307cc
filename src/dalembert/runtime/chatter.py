"""Events that accumulate (Zeno): a bouncing ball with restitution comes to rest after infinitely many impacts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

COUNT = 8  # intervals between jumps that are looked at
CLOSE = 1e-6  # the accumulation is reached when it is this near, relative to the time since the start
INSTANT = 1e-13  # intervals this short, relative to the length of the run, are none
CROWD, CROWDED = 50, 1e-6  # so many jumps within this part of the run do not end, even if they follow no law


def accumulation(times: Sequence[float], resting: Sequence[bool], t0: float, t1: float) -> float | None:
    """Where jumps at these times accumulate, if they are about to: the limit of a geometric sequence; else None.

    Intervals shrink by the ratio r; the remaining ones add up to r / (1 - r) times the last. Rounding errors end that
    law: bounces that are not higher than those (``resting``), or a crowd of jumps, count as well.
    """
    if len(times) <= COUNT:
        return None
    now, span = float(times[-1]), max(abs(t1 - t0), abs(times[-1]))
    gaps = np.abs(np.diff(np.asarray(times[-COUNT - 1 :])))
    if gaps.max() <= INSTANT * span or all(resting[-COUNT:]):
        return now
    if len(times) > CROWD and abs(now - times[-CROWD - 1]) <= CROWDED * span:
        return now
    if gaps.min() <= 0.0:
        return None
    ratios = gaps[1:] / gaps[:-1]
    if ratios.max() >= 1.0:
        return None
    ratio = float(np.exp(np.log(ratios).mean()))
    left = gaps[-1] * ratio / (1.0 - ratio)
    return float(now + np.sign(t1 - t0) * left) if left <= CLOSE * abs(now - t0) else None
