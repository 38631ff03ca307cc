"""Formulas of so(3) shared by the groups that contain rotations. Vectors (..., 3), matrices (..., 3, 3).

[ACB15] M. Arnold, A. Cardona, O. Bruels, Order reduction in time integration caused by velocity projection, J. Mech.
        Sci. Technol. 29 (2015): conventions q' = q v~, tangent operator T.
[IMNZ00] A. Iserles, H. Munthe-Kaas, S. Norsett, A. Zanna, Lie-group methods, Acta Numerica 9 (2000): dexp, dexp^-1.
[S78] S. W. Shepperd, Quaternion from rotation matrix, J. Guidance and Control 1 (1978) 223-224.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dalembert.spaces.stumpff import stumpff

Array = Any  # numbers (..., n) or symbols (n,)

# skew(w) = w @ _SKEW: the structure constants of so(3), row by row
_SKEW = np.array(
    [[0, 0, 0, 0, 0, -1, 0, 1, 0], [0, 0, 1, 0, 0, 0, -1, 0, 0], [0, -1, 0, 1, 0, 0, 0, 0, 0]], dtype=float
)
EYE = np.eye(3)


def transpose(A: Array) -> Array:
    """Matrices (..., n, m) transposed."""
    return np.swapaxes(A, -1, -2)


def apply(A: Array, x: Array) -> Array:
    """Matrix (..., n, m) times vector (..., m)."""
    return (A @ x[..., None])[..., 0]


def dot(x: Array, y: Array) -> Array:
    """Inner product (..., 1); the last axis is kept for broadcasting."""
    return np.sum(x * y, axis=-1, keepdims=True)


def skew(w: Array) -> Array:
    """w~ with w~ x = w x x (cross product)."""
    return (w @ _SKEW).reshape((*w.shape[:-1], 3, 3))


def unskew(W: Array) -> Array:
    """w of a skew-symmetric matrix; of any other one that of its skew-symmetric part."""
    return 0.5 * flatten(W) @ _SKEW.T


def unflatten(q: Array) -> Array:
    """Stored numbers (..., 9), row by row, as matrices."""
    return q.reshape((*q.shape[:-1], 3, 3))


def flatten(R: Array) -> Array:
    """Matrices as stored numbers (..., 9), row by row."""
    return R.reshape((*R.shape[:-2], 9))


def exponential(w: Array) -> Array:
    """exp(w~) = I + c1 w~ + c2 w~^2 (Rodrigues) [IMNZ00, appendix B]."""
    _, c1, c2 = stumpff(dot(w, w), 2)
    W = skew(w)
    return EYE + c1[..., None] * W + c2[..., None] * (W @ W)


def cayley(w: Array) -> Array:
    """(I - w~/2)^-1 (I + w~/2) = I + (w~ + w~^2 / 2) / (1 + |w|^2 / 4), which is exp(w~) up to w^3 / 12 [IMNZ00]."""
    W = skew(w)
    return EYE + (W + 0.5 * (W @ W)) / (1.0 + 0.25 * dot(w, w))[..., None]


def tangent(w: Array) -> Array:
    """T(w) = I - c2 w~ + c3 w~^2, the closed form of sum (-1)^i ad^i / (i+1)!."""
    c = stumpff(dot(w, w), 3)
    W = skew(w)
    return EYE - c[2][..., None] * W + c[3][..., None] * (W @ W)


def tangent_inverse(w: Array) -> Array:
    """T(w)^-1 = I + w~/2 + d w~^2, d = (1 - (a/2) cot(a/2)) / a^2 = (c3 - 2 c4) / (2 c2); a pole at angle a = 2 pi."""
    c = stumpff(dot(w, w), 4)
    W = skew(w)
    d = (c[3] - 2.0 * c[4]) / (2.0 * c[2])
    return EYE + 0.5 * W + d[..., None] * (W @ W)


def tangent_coupling(u: Array, w: Array) -> Array:
    """C(u, w), the block of the tangent operator of SE(3) that couples translation to rotation.

    se(3) is so(3) over the dual numbers, w + eps u with eps^2 = 0: C is the derivative of T at w in the direction u.
    """
    c = stumpff(dot(w, w), 5)
    U, W = skew(u), skew(w)
    slope2, slope3 = 2.0 * c[4] - c[3], 3.0 * c[5] - c[4]  # 2 dc2/ds, 2 dc3/ds
    along = dot(u, w)
    return (
        -c[2][..., None] * U
        + c[3][..., None] * (U @ W + W @ U)
        + along[..., None] * (slope3[..., None] * (W @ W) - slope2[..., None] * W)
    )


def tangent_inverse_coupling(u: Array, w: Array) -> Array:
    """The same block of the inverse: the derivative of T^-1 at w in the direction u."""
    c = stumpff(dot(w, w), 6)
    U, W = skew(u), skew(w)
    d = (c[3] - 2.0 * c[4]) / (2.0 * c[2])
    slope = 3.0 * c[5] - c[4] - 2.0 * (4.0 * c[6] - c[5])  # 2 d(c3 - 2 c4)/ds
    d_slope = slope / (2.0 * c[2]) - d * (2.0 * c[4] - c[3]) / c[2]  # 2 dd/ds
    return 0.5 * U + d[..., None] * (U @ W + W @ U) + (dot(u, w) * d_slope)[..., None] * (W @ W)


def quaternion_column(R: Array) -> Array:
    """Four numbers (..., 4) proportional to a unit quaternion p of R, with p0 >= 0.

    The columns of 4 p p^T are linear in R; the one of the largest entry of p is taken [S78]. Its own entry is at least
    1, whatever R, so that nothing can be divided by zero.
    """

    def entry(i: int, j: int) -> Array:
        return R[..., i, j : j + 1]

    a, b, c = entry(0, 0), entry(1, 1), entry(2, 2)
    x, y, z = entry(2, 1) - entry(1, 2), entry(0, 2) - entry(2, 0), entry(1, 0) - entry(0, 1)
    xy, xz, yz = entry(0, 1) + entry(1, 0), entry(0, 2) + entry(2, 0), entry(1, 2) + entry(2, 1)
    columns = [
        np.concatenate(column, axis=-1)
        for column in (
            (1.0 + a + b + c, x, y, z),
            (x, 1.0 + a - b - c, xy, xz),
            (y, xy, 1.0 - a + b - c, yz),
            (z, xz, yz, 1.0 - a - b + c),
        )
    ]
    turned = np.where((a >= b) * (a >= c), columns[1], np.where(b >= c, columns[2], columns[3]))
    out = np.where(a + b + c > 0.0, columns[0], turned)
    return np.where(out[..., :1] < 0.0, -out, out)


# r = |p| / p0 of the vector part below which atan(r)/r is a series in r^2; terms up to 1e-18
_ATAN_LIMIT, _ATAN_TERMS = 0.02, 10


def quaternion_logarithm(p: Array) -> Array:
    """The vector w (..., 3), |w| in [0, 2 pi], with p = |p| (cos(|w|/2), sin(|w|/2) w/|w|)."""
    p0, n2 = p[..., :1], dot(p[..., 1:], p[..., 1:])
    small = (n2 < _ATAN_LIMIT * p0 * p0) * (p0 > 0.0)
    scalar = np.where(small, p0, 1.0)
    r2 = np.where(small, n2, 0.0) / (scalar * scalar)
    series = 0.0
    for k in reversed(range(_ATAN_TERMS)):
        series = 1.0 / (2 * k + 1) - r2 * series
    opposite = (n2 <= 0.0) * (p0 < 0.0)  # p = -1: any axis will do
    n = np.sqrt(np.where(small + opposite, 1.0, n2))
    factor = np.where(small, 2.0 * series / scalar, 2.0 * np.arctan2(n, p0) / n)
    return np.where(opposite, 2.0 * np.pi * EYE[0], factor * p[..., 1:])


def logarithm(R: Array) -> Array:
    """w (..., 3) with exp(w~) = R and |w| <= pi, through the quaternion: accurate near angle 0 and near pi alike."""
    return quaternion_logarithm(quaternion_column(R))


def orthogonality(R: Array) -> Array:
    """The six entries of R^T R - I on and above the diagonal (..., 6)."""
    E = transpose(R) @ R - EYE
    return np.stack([E[..., i, j] for i in range(3) for j in range(i, 3)], axis=-1)


def correction(R: Array) -> Array:
    """One Newton step for the polar factor, R (3 I - R^T R) / 2: squares the distance to the group."""
    return 0.5 * (R @ (3.0 * EYE - transpose(R) @ R))


def cofactors(A: Array) -> Array:
    """det(A) A^-T."""
    x, y, z = (A[..., i, :] for i in range(3))
    return np.stack([apply(skew(y), z), apply(skew(z), x), apply(skew(x), y)], axis=-2)


def determinant(A: Array) -> Array:
    """(..., 1)"""
    return dot(A[..., 0, :], cofactors(A)[..., 0, :])


def defects(R: Array) -> Array:
    """Seven numbers (..., 7) that vanish for rotations and for nothing else: R^T R = I, det R = 1."""
    return np.concatenate([orthogonality(R), determinant(R) - 1.0], axis=-1)


_POLAR_STEPS = 9  # enough for condition numbers up to 1e6, far from any rotation


def polar(A: Array) -> Array:
    """The rotation nearest to A (det A > 0): Newton's iteration A <- (g A + (g A)^-T) / 2, g = det(A)^(-1/3).

    N. J. Higham, Functions of Matrices, SIAM 2008, section 8.6.
    """
    for _ in range(_POLAR_STEPS):
        cof = cofactors(A)
        det = dot(A[..., 0, :], cof[..., 0, :])
        g = np.cbrt(1.0 / det)[..., None]
        A = 0.5 * (g * A + cof / (g * det[..., None]))
    return A
