"""Past rows on a regular grid, for methods with the coefficients of constant steps.

When the step size or the order changes, past rows are replaced by points of the polynomial through the newest ones, a
step apart: constant-coefficient formulas then serve for variable steps (C. W. Gear, Numerical Initial Value Problems in
Ordinary Differential Equations, Prentice-Hall 1971, 9.2.1).
"""

from __future__ import annotations

from dalembert.numerics.interpolation import lagrange_weights
from dalembert.numerics.native import entry, inner
from dalembert.numerics.runstate import (
    GRID_ORDER,
    HISTORY,
    N_COEFFICIENTS,
    N_PAST,
    SINCE_CHANGE,
    SPACING,
    TROUBLE,
    WINDOW,
    T,
)


@inner
def regrid(run, h, k):  # type: ignore[no-untyped-def]
    """Rows at t, t - h, t - 2 h, ..., each from the polynomial of degree k+2 through the k+3 rows around it.

    A second-order method of order k keeps its order with degree k+1, and its error constant with one more. One
    polynomial for all, through the newest rows, would be far off at the end of the grid.
    """
    spacing = run.real[SPACING]
    if abs(h / spacing - 1.0) <= 1e-9 and k <= run.whole[GRID_ORDER]:
        run.whole[GRID_ORDER] = k
        return
    run.whole[TROUBLE] = run.whole[TROUBLE] + 1 if abs(h) < 0.95 * abs(spacing) else 0
    run.real[SPACING], run.whole[GRID_ORDER], run.whole[SINCE_CHANGE] = h, k, 0
    t, count = run.real[T], k + 3
    ratio = h / spacing if spacing != 0.0 else 1.0
    work = run.coefficients[N_COEFFICIENTS:]
    base = HISTORY * WINDOW
    for i in range(1, HISTORY):
        lagrange_weights(t - i * h, run.nodes, 1 + window(i * ratio, count), count, work[i * WINDOW :])
    for j in range(run.whole[N_PAST]):
        if run.source[1, j] == 2:
            continue
        low = run.source[2, j] if run.source[0, j] == j else -1
        x0 = run.rows[run.slots[1], j]
        for i in range(HISTORY):  # changes from the last row, with the digits that are stored apart
            work[base + i] = run.rows[run.slots[1 + i], j] - x0
            work[base + HISTORY + i] = run.rows[run.slots[1 + i], low] if low >= 0 else 0.0
        for i in range(1, HISTORY):
            first = base + window(i * ratio, count)
            change, rest = 0.0, 0.0
            for m in range(count):
                change += work[i * WINDOW + m] * work[first + m]
                rest += work[i * WINDOW + m] * work[first + HISTORY + m]
            x = x0 + change
            run.rows[run.slots[1 + i], j] = x
            if low >= 0:
                run.rows[run.slots[1 + i], low] = ((x0 - x) + change) + rest
    for i in range(1, HISTORY):
        run.nodes[1 + i] = t - i * h


@entry
def window(where, count):  # type: ignore[no-untyped-def]
    """First of ``count`` rows around a position, counted in rows."""
    return min(max(0, int(where - 0.5 * (count - 1) + 0.5)), HISTORY - count)
