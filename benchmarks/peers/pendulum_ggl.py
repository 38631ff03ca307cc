"""The pendulum in stabilized index-2 form (Gear, Gupta, Leimkuhler 1985): compiled residuals and Jacobians.

    x' = u - mu x,  y' = v - mu y,  u' = -lam x,  v' = -lam y - g,
    0 = (x^2 + y^2 - 1)/2,  0 = x u + y v,                             unknowns (x, y, u, v, lam, mu)

The *integrated* variant has the integrals of lam and mu as unknowns, so that lam and mu appear as
derivatives. The solution is the same, the index is one lower, and the integrals take part in error control
like any other variable. Only codes for fully implicit F(t, y, y') = 0 can take it.

With g = 4 K(1/2)^2 the period is exactly 2, so after 100 s the exact state is the initial state.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from . import Vector

GRAVITY = 13.750371636040745654980191559621
T_END = 100.0
Q0: Vector = np.array([1.0, 0.0])
V0: Vector = np.array([0.0, 0.0])
# Released at rest from the horizontal: lam(0) = mu(0) = 0, so both variants start from the same values.
Y0: Vector = np.zeros(6)
Y0[0] = 1.0
YP0: Vector = np.zeros(6)
YP0[3] = -GRAVITY


def end_error(q: Vector, v: Vector) -> float:
    """Largest error of a component of position or velocity at ``T_END``."""
    return float(max(np.max(np.abs(q - Q0)), np.max(np.abs(v - V0))))


@njit(error_model="numpy")
def _residual(s, sp, lam, mu, r):  # type: ignore[no-untyped-def]
    x, y, u, v = s[0], s[1], s[2], s[3]
    r[0] = sp[0] - u + mu * x
    r[1] = sp[1] - v + mu * y
    r[2] = sp[2] + lam * x
    r[3] = sp[3] + lam * y + GRAVITY
    r[4] = 0.5 * (x * x + y * y - 1.0)
    r[5] = x * u + y * v


@njit(error_model="numpy")
def residual(t, s, sp, r):  # type: ignore[no-untyped-def]
    """F(t, s, s'), multipliers as unknowns."""
    _residual(s, sp, s[4], s[5], r)


@njit(error_model="numpy")
def residual_integrated(t, s, sp, r):  # type: ignore[no-untyped-def]
    """F(t, s, s'), multipliers as derivatives of unknowns."""
    _residual(s, sp, sp[4], sp[5], r)


@njit(error_model="numpy")
def _iteration_matrix(s, lam, mu, cj, multiplier, m):  # type: ignore[no-untyped-def]
    x, y, u, v = s[0], s[1], s[2], s[3]
    m[0, 0] = cj + mu
    m[0, 2] = -1.0
    m[0, 5] = multiplier * x
    m[1, 1] = cj + mu
    m[1, 3] = -1.0
    m[1, 5] = multiplier * y
    m[2, 0] = lam
    m[2, 2] = cj
    m[2, 4] = multiplier * x
    m[3, 1] = lam
    m[3, 3] = cj
    m[3, 4] = multiplier * y
    m[4, 0] = x
    m[4, 1] = y
    m[5, 0] = u
    m[5, 1] = v
    m[5, 2] = x
    m[5, 3] = y


@njit(error_model="numpy")
def iteration_matrix(t, s, sp, r, cj, m):  # type: ignore[no-untyped-def]
    """dF/ds + cj dF/ds' into ``m``, whose zeros stay untouched."""
    _iteration_matrix(s, s[4], s[5], cj, 1.0, m)


@njit(error_model="numpy")
def iteration_matrix_integrated(t, s, sp, r, cj, m):  # type: ignore[no-untyped-def]
    """The same for the integrated variant."""
    _iteration_matrix(s, sp[4], sp[5], cj, cj, m)


@njit(error_model="numpy")
def residual_integrated_new(t, s, sp):  # type: ignore[no-untyped-def]
    """F of the integrated variant, in a new array."""
    r = np.empty(6)
    _residual(s, sp, sp[4], sp[5], r)
    return r


@njit(error_model="numpy")
def jacobians_integrated(t, s, sp):  # type: ignore[no-untyped-def]
    """(dF/ds, dF/ds') of the integrated variant."""
    f_s = np.zeros((6, 6))
    _iteration_matrix(s, sp[4], sp[5], 0.0, 0.0, f_s)
    f_sp = np.zeros((6, 6))
    for i in range(4):
        f_sp[i, i] = 1.0
    f_sp[0, 5] = s[0]
    f_sp[1, 5] = s[1]
    f_sp[2, 4] = s[0]
    f_sp[3, 4] = s[1]
    return f_s, f_sp
