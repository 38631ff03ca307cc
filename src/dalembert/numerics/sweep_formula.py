"""The formula of iterated stages: what stands where, and what becomes of the polynomials of the last step."""

from __future__ import annotations

from dalembert.numerics.hermite import N_V
from dalembert.numerics.native import LANES, inlined, inner, legendre_lanes, mix, squares_of_lanes
from dalembert.numerics.runstate import HELD_HIGH, HELD_LOW, LANES_AT

# positions in Run.formula: c, barycentric weights of the nodes; A and A^2, column by column; what makes the end of a
# step, Legendre coefficients and the rate at its beginning from its stages, [b, bA, g_7, g_6, g_5, g_4, at 0, 0] row by
# row
C, BARYCENTRIC, A = 0, LANES, 2 * LANES
AA, END = A + LANES * LANES, A + 2 * LANES * LANES
FORMULA = END + LANES * LANES
# behind it, for Newton's method: eigenvalues of A, one of each pair (real parts, imaginary parts), and what leads from
# stages to their coordinates in terms of eigenvectors (real parts, imaginary parts), and back
EIGENVALUES, THERE, BACK = FORMULA, FORMULA + LANES, FORMULA + LANES + LANES * LANES
LEGENDRE = BACK + LANES * LANES  # Legendre coefficients from stages
NEWTON_FORMULA = LEGENDRE + LANES * LANES
G7, G6, G5, G4, BEGINNING = 2, 3, 4, 5, 6  # lanes of an end
LAST = LANES - 1  # lane of the last stage
ELEVEN_SIXTHS, FIVE_SIXTHS, THIRTEEN_SEVENTHS, SIX_SEVENTHS = 11 / 6, 5 / 6, 13 / 7, 6 / 7
TOO_LARGE = 3.0  # terms of an extrapolation, compared with those of lower degree


@inlined
def legendre(x):  # type: ignore[no-untyped-def]
    """P_4 to P_7 at x."""
    z = x * x
    p4, p5 = (4.375 * z - 3.75) * z + 0.375, ((7.875 * z - 8.75) * z + 1.875) * x
    p6 = ELEVEN_SIXTHS * x * p5 - FIVE_SIXTHS * p4
    return p4, p5, p6, THIRTEEN_SEVENTHS * x * p6 - SIX_SEVENTHS * p5


@inner
def keep_falling(run, w, ratio, rates, weights, in_d, work):  # type: ignore[no-untyped-def]
    """Cut an extrapolation (the matrix at the beginning of w) of rates (where they begin) short, before the first pair
    of terms that is larger than the one before it. Nothing left: the last stage. ``work``: where w has room for a
    vector, and for one for each velocity or a matrix.

    Newton's method makes up for what is left out; it does not for terms that have nothing to do with the next step.
    """
    nv, x, start = run.places[N_V], 1.0 + 2.0 * ratio, w.ctypes.data
    f, terms = run.lanes.ctypes.data + 8 * run.whole[LANES_AT], start + 8 * (work + LANES)
    mix(nv, start + 8 * rates, f + 8 * LEGENDRE, 1.0, in_d, 0.0, 0.0, f, terms)
    squares = w[work : work + LANES]  # of Legendre coefficients
    squares_of_lanes(nv, terms, weights.ctypes.data, squares.ctypes.data)
    p0, p1, former, kept = 1.0, x, 0.0, 0
    for n in range(0, LANES, 2):
        size = p0 * p0 * squares[n] + p1 * p1 * squares[n + 1]
        if n > 0 and size > former:
            break
        former, kept = size, n + 2
        p0 = ((2 * n + 3) * x * p1 - (n + 1) * p0) / (n + 2)
        p1 = ((2 * n + 5) * x * p0 - (n + 2) * p1) / (n + 3)
    if kept == LANES:
        return
    if kept > 2:
        legendre_lanes(ratio, f + 8 * C, kept, terms)
        mix(LANES, f + 8 * LEGENDRE, terms, 1.0, in_d, 0.0, 0.0, f, start)
        return
    for j in range(LANES * LANES):
        w[j] = 0.0
    for j in range(LANES):
        w[LANES * LAST + j] = 1.0


@inner
def leave_out(run, w, ratio, work):  # type: ignore[no-untyped-def]
    """Take terms of degree 6 and 7 out of an extrapolation (the matrix at the beginning of w) if they would be so much
    larger than those of degree 4 and 5 that they say nothing about the next step. ``work``: where w is free."""
    p4, p5, p6, p7 = legendre(1.0 + 2.0 * ratio)
    if (p6 * p6 + p7 * p7) * run.real[HELD_HIGH] <= TOO_LARGE**2 * (p4 * p4 + p5 * p5) * run.real[HELD_LOW]:
        return
    at_6, at_7 = w[work : work + LANES], w[work + LANES : work + 2 * LANES]
    for j in range(LANES):
        p4, p5, at_6[j], at_7[j] = legendre(1.0 + 2.0 * ratio * run.formula[C + j])
    for k in range(LANES):
        g6, g7 = run.formula[END + LANES * k + G6], run.formula[END + LANES * k + G7]
        for j in range(LANES):
            w[LANES * k + j] -= g6 * at_6[j] + g7 * at_7[j]
