"""Stumpff functions c_k(s) = sum_j (-s)^j / (k + 2j)!: the one kind of function in exp, log and tangent of a rotation.

With s = angle^2:  c0 = cos(angle),  c1 = sin(angle)/angle,  c2 = (1 - cos(angle))/angle^2,  ...  They are entire
functions of s, so that nothing is singular at angle 0, and they satisfy

    c_k = 1/k! - s c_{k+2},        dc_k/ds = (k c_{k+2} - c_{k+1}) / 2.

[SB71] E. L. Stiefel, G. Scheifele, Linear and Regular Celestial Mechanics, Springer 1971.
"""

from __future__ import annotations

from math import factorial
from typing import Any

import numpy as np


def _limit(top: int) -> float:
    """Below this s the series is used; above, the recurrence upwards from sine and cosine.

    The recurrence divides a difference by s: it leaves the relative error eps top! / s^(top/2 - 1), a few eps here.
    """
    return 4.0 if top <= 3 else 9.0


def _terms(k: int, limit: float) -> int:
    """Terms of the series that count: the first one left out is below 1e-18 of the first."""
    j = 1
    while limit**j * factorial(k) / factorial(k + 2 * j) > 1e-18:
        j += 1
    return j


def _series(k: int, s: Any, limit: float) -> Any:
    """c_k(s) by Horner's rule."""
    out = 1.0 / factorial(k + 2 * _terms(k, limit))
    for j in reversed(range(_terms(k, limit))):
        out = 1.0 / factorial(k + 2 * j) - s * out
    return out


def stumpff(s: Any, top: int) -> list[Any]:
    """[c_0(s), ..., c_top(s)] for s >= 0 of any shape, numbers or symbols; top >= 2.

    Both branches are evaluated at an argument that suits them, so that the one not taken has finite values and
    derivatives (a derivative through it is 0 times those).

    Examples
    --------
    >>> [float(c) for c in stumpff(np.array(0.0), 3)]
    [1.0, 1.0, 0.5, 0.16666666666666666]
    """
    limit = _limit(top)
    small = s < limit

    near = np.where(small, s, 0.0)
    series = {k: _series(k, near, limit) for k in (top, top - 1)}
    for k in reversed(range(top - 1)):
        series[k] = 1.0 / factorial(k) - near * series[k + 2]

    far = np.where(small, limit, s)
    half = 0.5 * np.sqrt(far)
    sine, cosine = np.sin(half), np.cos(half)
    # half angles: no cancellation in 1 - cos
    closed = {1: sine * cosine / half, 2: 2.0 * sine * sine / far}
    closed[0] = 1.0 - far * closed[2]
    for k in range(3, top + 1):
        closed[k] = (1.0 / factorial(k - 2) - closed[k - 2]) / far

    return [np.where(small, series[k], closed[k]) for k in range(top + 1)]
