"""Errors of iterated stages: what a sweep has changed, and what polynomials miss; see `sweeps`."""

from __future__ import annotations

import numpy as np

from dalembert.numerics.native import LANES, inlined, inner
from dalembert.numerics.sweep_formula import BEGINNING, G4, G5, G6, G7, LAST

NOISE = 4 * float(np.finfo(float).eps)  # of differences of velocities, relative to these
TWO_THIRDS = 2.0 / 3.0  # R^2 is rho^-8 if g_n = rho^-n, and squares of g_6, g_7 over that of a rate are rho^-12 to -14
OTHER = 0.5  # part of g_6 that counts where there are kinks
UNLIKE = 20.0  # times g_6 and g_7: polynomials that differ by more where they meet belong to different motions


@inlined
def beyond_rounding(change, size):  # type: ignore[no-untyped-def]
    """|change| of something of a size, less what is rounding."""
    return max(abs(change) - NOISE * abs(size), 0.0)


@inlined
def squared_changes(lasts, before, weights):  # type: ignore[no-untyped-def]
    """What a sweep has changed in numbers at the last stage (vectors), which is the end of the step, in units of a
    tolerance: the sum of squares. They take the place of those before."""
    total = 0.0
    for i in range(before.size):
        last = lasts[LANES * i + LAST]
        x = beyond_rounding(last - before[i], last) * weights[i]
        before[i] = last
        total += x * x
    return total


@inner
def squared_size(x, weights):  # type: ignore[no-untyped-def]
    """The numbers themselves in these units."""
    total = 0.0
    for i in range(x.size):
        total += (x[i] * weights[i]) ** 2
    return total


@inlined
def last_squared_changes(h, ends, lasts, begins, weights):  # type: ignore[no-untyped-def]
    """The same for the last sweep: the end of the step is known, and needs no further stages."""
    total = 0.0
    for i in range(begins.size):
        last = lasts[LANES * i + LAST]
        x = beyond_rounding(h * ends[LANES * i] - (last - begins[i]), last) * weights[i]
        total += x * x
    return total


@inlined
def what_is_missed(ends, expected, at, high, low, gap, kinked):  # type: ignore[no-untyped-def]
    """Of a rate, from what makes the end of a step; see the head of this file."""
    g6, g7 = abs(ends[at + G6]), abs(ends[at + G7])
    fall = high / low if high < low else 1.0
    jump = abs(ends[at + BEGINNING] - expected[at]) - UNLIKE * (g7 + g6)
    beyond = max(g7, OTHER * g6) if kinked else g7 * (fall * fall)
    return beyond + gap * max(jump, 0.0)


@inlined
def conclude(h, ends, lasts, begins, expected, gap, kinked, worse, weights, out, errors, guarded):  # type: ignore[no-untyped-def]
    """Changes of numbers in a step and their errors, from what makes the end of it (vectors).

    ``guarded``: coefficients that fall faster at the end than they have fallen on average do so by chance.

    To what the last sweep has changed comes what the polynomial of a rate misses, from its Legendre coefficients, and
    from its value at the beginning of the step, which is not as ``expected`` if a force has jumped in the gap before
    the first node. Returns the sum of the changes, and weighted sums of squares: of the coefficients of degree 4 and 5,
    of 6 and 7, and of what is missed.
    """
    total, all_low, all_high, all_missed, size = 0.0, 0.0, 0.0, 0.0, abs(h)
    all_sizes, all_last = 0.0, 0.0
    for i in range(out.size):
        at, weight, last = LANES * i, weights[i] * weights[i], lasts[LANES * i + LAST]
        high, low = ends[at + G7] ** 2 + ends[at + G6] ** 2, ends[at + G5] ** 2 + ends[at + G4] ** 2
        missed = size * what_is_missed(ends, expected, at, high, low, gap, kinked)
        out[i] = h * ends[at]
        errors[i] = worse * beyond_rounding(out[i] - (last - begins[i]), last) + missed
        total += out[i]
        all_low += weight * low
        all_high += weight * high
        all_missed += weight * (missed * missed)
        all_sizes += weight * max(ends[at] * ends[at], ends[at + BEGINNING] * ends[at + BEGINNING])
        all_last += weight * (ends[at + G7] * ends[at + G7])
    if guarded and not kinked and all_high < all_sizes and all_high**2 * all_sizes < all_low**3:
        beyond = size * (all_high / all_sizes) ** TWO_THIRDS  # R^2, if they had fallen as on average
        if beyond * beyond * all_last > all_missed:
            all_missed = beyond * beyond * all_last
            for i in range(out.size):
                errors[i] += beyond * abs(ends[LANES * i + G7])
    return total, all_low, all_high, all_missed
