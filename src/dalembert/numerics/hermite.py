"""Hermite interpolation of positions, velocities and dynamic states between the ends of a step: see `dense`."""

from __future__ import annotations

import numpy as np
from numpy.polynomial import Polynomial

from dalembert.numerics.native import inner

INNER = 6  # points inside of a step
EPS = float(np.finfo(float).eps)

# positions in Run.places: Hermite or not, where blocks begin, and their sizes; on groups the kernels that leave and
# enter the chart of a step
HERMITE, AT_Q, AT_V, AT_A, N_V, AT_R, AT_R_DOT, N_R, LIFT, LOCAL = range(10)
N_PLACES = 10
# rows of Run.dense: both ends, a trial, then the corrections d_i, e_i (in the places of q, v and r); on groups the
# origin of the chart, next to it a guess of y, and work space
LEFT, RIGHT, TRIAL, CORRECTIONS = range(4)
ORIGIN, GUESS, WORK = range(CORRECTIONS + INNER, CORRECTIONS + INNER + 3)
N_DENSE_ROWS = WORK + 1


def _factors(power: int, derivative: int) -> np.ndarray:
    """Coefficients (INNER, INNER) of p_i: (s (1-s))^power p_i has the ``derivative`` delta_ij at the points j."""
    u = Polynomial([0.0, 1.0, -1.0]) ** power
    points = np.arange(1, INNER + 1) / (INNER + 1)
    values = [[(u * Polynomial.basis(j)).deriv(derivative)(s) for j in range(INNER)] for s in points]
    return np.ascontiguousarray(np.linalg.inv(np.array(values)).T)


# Equidistant points, an even number: where the quadrature on them (or with the ends) is exact for B'' and C', whose
# integrals vanish, as at Gauss or Lobatto points or for an odd number, the conditions depend on each other.
POINTS = np.arange(1, INNER + 1) / (INNER + 1)
FACTORS_Q = _factors(3, 2)
FACTORS_R = _factors(2, 1)


@inner
def quintic(left, right, places, j, s, h):  # type: ignore[no-untyped-def]
    """Position j, h times its velocity and h^2 times its acceleration, from both ends."""
    iq, iv, ia = places[AT_Q] + j, places[AT_V] + j, places[AT_A] + j
    q0, v0, a0 = left[iq], h * left[iv], h * h * left[ia]
    q1, v1, a1 = right[iq], h * right[iv], h * h * right[ia]
    s2, s3, s4, u = s * s, s * s * s, s * s * s * s, s * (1.0 - s)
    # v = cubic + 30 s^2 (1-s)^2 defect, whose integral is q1 - q0
    defect = (q1 - q0) - 0.5 * (v0 + v1) - (a0 - a1) / 12.0
    q = q0 + v0 * (s - s3 + 0.5 * s4) + v1 * (s3 - 0.5 * s4) + defect * s3 * (10.0 - 15.0 * s + 6.0 * s2)
    q += a0 * (0.5 * s2 - 2.0 * s3 / 3.0 + 0.25 * s4) + a1 * (0.25 * s4 - s3 / 3.0)
    if abs(defect) <= 8.0 * EPS * max(abs(q0), abs(q1)):  # rounding: velocities alone know better
        defect = 0.0
    v, a = cubic(v0, a0, v1, a1, s)
    return q, v + defect * 30.0 * u * u, a + defect * 60.0 * u * (1.0 - 2.0 * s)


@inner
def cubic(y0, d0, y1, d1, s):  # type: ignore[no-untyped-def]
    """Value and derivative with respect to s of the cubic with these values and derivatives at 0 and 1."""
    s2, s3, u = s * s, s * s * s, s * (1.0 - s)
    y = y0 + (y1 - y0) * (3.0 * s2 - 2.0 * s3) + d0 * (s - 2.0 * s2 + s3) + d1 * (s3 - s2)
    return y, 6.0 * u * (y1 - y0) + d0 * (1.0 - 4.0 * s + 3.0 * s2) + d1 * (3.0 * s2 - 2.0 * s)


@inner
def hermite(left, right, dense, places, corrected, s, h, out):  # type: ignore[no-untyped-def]
    """q, v, a, r, r' at t0 + s h into their places of a row."""
    u = s * (1.0 - s)
    for j in range(places[N_V]):
        iq, iv, ia = places[AT_Q] + j, places[AT_V] + j, places[AT_A] + j
        q, v, a = quintic(left, right, places, j, s, h)
        out[iq], out[iv], out[ia] = q, v / h, a / (h * h)
        if corrected:
            for i in range(INNER):
                out[iq] += dense[CORRECTIONS + i, iq] * u * u * u * polynomial(FACTORS_Q[i], s)[0]
            out[iv], out[ia] = integral(left, right, dense, iv, ia, corrected, s, h)
    for j in range(places[N_R]):
        ir, id_ = places[AT_R] + j, places[AT_R_DOT] + j
        out[ir], out[id_] = integral(left, right, dense, ir, id_, corrected, s, h)


@inner
def integral(left, right, dense, i, rate, corrected, s, h):  # type: ignore[no-untyped-def]
    """Entry i of a row, whose derivative is the entry ``rate``, and that derivative."""
    y, dy = cubic(left[i], h * left[rate], right[i], h * right[rate], s)
    if corrected:
        u, du = s * (1.0 - s), 1.0 - 2.0 * s
        for k in range(INNER):
            p, dp = polynomial(FACTORS_R[k], s)
            e = dense[CORRECTIONS + k, i]
            y += e * u * u * p
            dy += e * (2.0 * u * du * p + u * u * dp)
    return y, dy / h


@inner
def polynomial(factors, s):  # type: ignore[no-untyped-def]
    """Value and derivative."""
    p, dp = 0.0, 0.0
    for k in range(INNER - 1, -1, -1):
        dp = dp * s + p
        p = p * s + factors[k]
    return p, dp
