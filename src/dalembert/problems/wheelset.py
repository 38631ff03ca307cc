"""A railway wheelset running on straight track: contact coordinates, and friction that depends on the multipliers.

[SFR91] B. Simeon, C. Führer, P. Rentrop, Introduction to differential-algebraic equations in vehicle system dynamics,
        Surv. Math. Ind. 1 (1991) 1-37.
[MM08]  F. Mazzia, C. Magherini, Test Set for Initial Value Problem Solvers, release 2.4 (2008), problem wheel.

Position (x, y, z) relative to the nominal motion at speed V, yaw theta, roll phi, and the angle turned in excess of the
nominal rotation, whose rate is the deviation beta of the spin. Each wheel touches its rail at the angle psi and the
lateral coordinate xi, which follow from contact equations. Conical wheels, circular rails; creep forces by Kalker's
linear law with saturation, proportional to normal forces that depend on the multipliers.

[MM08] writes the equation of yaw along an axis of the body. Here cos(phi) times this equation plus sin(phi) times that
of the spin is used instead, which makes the mass matrix symmetric and has the same solutions. The printed start has
five digits and misses the rails by 5e-10. The index-2 form of [MM08] carries this residual along; so does every form
here, since the rails lie where the wheels are at the start. The multipliers are those of [MM08], scaled by 1e-4.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dalembert.model.system import System
from dalembert.problems.base import Problem, Published, at_listed_times, register

MR, LI1, LI2, G, V = 16.08, 0.0605, 0.366, 9.81, 30.0  # mass, moments of inertia, gravity, speed
RN0, AR, RS, DELTA0 = 0.1, 0.1506, 0.06, 0.0262  # radius of the wheel, half gauge, radius of the rail, cone angle
XL, CX, CZ = 0.19, 6400.0, 6400.0  # suspension
MU, E, GG, SIGMA, GM = 0.12, 1.3537956, 0.7115218, 0.28, 79.2e9  # friction, contact ellipse, Poisson, shear modulus
C11, C22, C23 = 4.72772197, 4.27526987, 1.97203505  # Kalker's coefficients
PI = 3.1415926  # as in [MM08]
NO_LOAD = 1e-6  # normal force below which the law of friction, undefined at zero, is not followed any more
SCALE = 1e4  # of the multipliers
SPIN = V / RN0
CONE = np.tan(DELTA0)

Q0 = np.array([0.0014941, 4.0089e-07, 1.1241e-06, -0.00028573, 0.00026459, 0.0])
S0 = np.array([7.563440639517294e-06, 0.1490635714733819, -7.412238035766714e-06, -0.1521364296121248])

# [MM08], in the order x, y, z, theta, phi and psi_L, xi_L, psi_R, xi_R; the angle of the spin is not printed
# BDF of order 5 at rtol 1e-11; Gauss (4 stages) and Radau IIA (5 stages) at 1e-11 agree with it to 6.5 digits or better
COMPUTED = {
    10.0: {
        "q": [0.00863553825104659, 1.3038341135599137e-05, -9.363581137996249e-05, -0.013642295966635081,
              0.001529289421427112, -1.7727086787945474],
        "v": [-0.0769852411435038, -0.0002515106377792119, 0.0020541148839300916, -0.23904840265400737,
              -0.013633444899820659, -0.24421370568698086],
        "s": [0.0003783960363685731, 0.14173215009733858, -0.00033666742606026093, -0.1594942563740091],
        "lam": [-0.010124044996938232, -0.005628562905855076],
    }
}  # fmt: skip

PUBLISHED = Published(
    t=10.0,
    values={
        "q": [0.0086355386965811, 1.3038281022727e-05, -9.3635784016818e-05, -0.013642299804033, 0.0015292895005422,
              np.nan],
        "v": [-0.076985374142666, -0.00025151106429207, 0.0020541188079539, -0.23904837703692, -0.013633468454173,
              -0.24421377661131],
        "s": [0.00037839614386969, 0.14173214964613, -0.00033666751972196, -0.15949425684022],
        "lam": [-0.010124044903201, -0.0056285630573753],
    },
    digits={"q": [7.2, 5.2, 6.5, 6.4, 6.9, 0], "v": [5.6, 5.6, 5.5, 6.5, 5.6, 6.3], "s": [6.4, 8.4, 6.4, 8.4],
            "lam": [7.4, 7.1]},
    origin="Mazzia & Magherini 2008: DASSL, rtol = atol = 1e-9, index 2",
)  # fmt: skip


class _Side(NamedTuple):
    """Geometry of one wheel on its rail; ``k`` is +1 on the left and -1 on the right."""

    k: int
    psi: Any
    xi: Any
    Rw: Any  # radius of the wheel, its slope
    Rw_1: Any
    Gr: Any  # height of the rail, its slopes
    Gr_1: Any
    Gr_2: Any
    N: list[Any]  # row of the constraint matrix at fixed contact coordinates


def _side(q: Any, psi: Any, xi: Any, k: int) -> _Side:
    (st, sf, ss), (ct, cf, cs) = (np.sin(x) for x in (q[3], q[4], psi)), (np.cos(x) for x in (q[3], q[4], psi))
    Rw, Rw_1 = RN0 + CONE * (AR - k * xi), -k * CONE
    X = q[0] + xi * ct * cf + Rw * (ct * sf * cs - st * ss)
    u = k * X - AR - np.sin(DELTA0) * RS
    T = np.sqrt(RS**2 - u**2)
    Gr_1 = -k * u / T
    N = [
        Gr_1,
        -1.0,
        0.0,
        Gr_1 * (Rw * (-ct * ss - cs * sf * st) - cf * st * xi),
        -cs * Rw * sf - cf * xi + Gr_1 * (cf * cs * ct * Rw - ct * sf * xi),
        0.0,
    ]
    return _Side(k, psi, xi, Rw, Rw_1, T - RN0 - np.cos(DELTA0) * RS, Gr_1, -(RS**2) / T**3, N)


def _sides(q: Any, s: Any) -> tuple[_Side, _Side]:
    return _side(q, s[0], s[1], 1), _side(q, s[2], s[3], -1)


def _gap(q: Any, w: _Side) -> Any:
    """Of the wheel over the rail."""
    return w.Gr - q[1] - w.xi * np.sin(q[4]) + w.Rw * np.cos(q[4]) * np.cos(w.psi)


_START = [float(_gap(Q0, w)) for w in _sides(Q0, S0)]


def _constraints(q: Any, s: Any) -> Any:
    left, right = _sides(q, s)
    return {"left": _gap(q, left) - _START[0], "right": _gap(q, right) - _START[1]}


def _contact(q: Any, s: Any) -> Any:
    """The tangents of wheel and rail agree."""
    (st, sf), (ct, cf) = (np.sin(x) for x in (q[3], q[4])), (np.cos(x) for x in (q[3], q[4]))
    out = []
    for w in _sides(q, s):
        ss, cs = np.sin(w.psi), np.cos(w.psi)
        out.append(w.Gr_1 * (w.Rw_1 * sf + cf * cs) + w.Rw_1 * ct * cf - ct * sf * cs + st * ss)
        out.append(w.Rw_1 * st * cf - st * sf * cs - ct * ss)
    return out


def _constraint_force(q: Any, s: Any, lam: Any) -> Any:
    """N^T E; [MM08] adds N4 E to its equation of yaw, which is multiplied by cos(phi) here."""
    left, right = _sides(q, s)
    force = [SCALE * (a * lam[0] + b * lam[1]) for a, b in zip(left.N, right.N, strict=True)]
    force[3] = np.cos(q[4]) * force[3]
    return force


def _slope(q: Any, w: _Side) -> Any:
    """Contact angle."""
    (st, sf), (ct, cf) = (np.sin(x) for x in (q[3], q[4])), (np.cos(x) for x in (q[3], q[4]))
    ss, cs = np.sin(w.psi), np.cos(w.psi)
    return np.arctan(-w.k * ((w.Rw_1 * cf - sf * cs) * ct + ss * st) / (w.Rw_1 * sf + cs * cf))


def _creep(q: Any, v: Any, w: _Side, slope: Any, F: Any) -> Any:
    """Tangential force (along x, y, z) of the rail on a wheel with normal force F."""
    sf, cf, ss, cs = np.sin(q[4]), np.cos(q[4]), np.sin(w.psi), np.cos(w.psi)
    S, C = np.sin(q[3] / np.cos(slope)), np.cos(q[3] / np.cos(slope))
    sd, cd, Rw, xi, spin = np.sin(slope), np.cos(slope), w.Rw, w.xi, SPIN + v[5]
    A = 0.5 / (Rw * np.sqrt(1 + w.Rw_1**2))
    B = -0.5 * w.Gr_2 / (1 + w.Gr_1**2) ** 1.5
    F = np.maximum(np.abs(F), NO_LOAD)
    c = (3 * F * (1 - SIGMA) * E / (2 * PI * (A + B) * GM * np.sqrt(GG))) ** (1 / 3)
    w1 = -spin * Rw * (S * cs + C * sf * ss) + v[0] - v[3] * (Rw * (S * sf * cs + C * ss) + xi * S * cf)
    w1 = w1 - v[4] * C * (xi * sf - Rw * cf * cs)
    w2 = spin * Rw * cf * ss + v[1] + v[4] * (xi * cf + Rw * sf * cs)
    w3 = -spin * Rw * (C * cs - S * sf * ss) + V + v[2] - v[3] * (xi * C * cf + Rw * (C * sf * cs - S * ss))
    w3 = w3 + v[4] * S * (xi * sf - Rw * cf * cs)
    rolling = 0.5 * np.sqrt((w1 - 2 * v[0]) ** 2 + (w2 - 2 * v[1]) ** 2 + (w3 - 2 * v[2] - 2 * V) ** 2)
    nx = (S * w1 + C * w3) / rolling
    ny = (C * cd * w1 + w.k * sd * w2 - S * cd * w3) / rolling
    turn = (-w.k * sd * spin + cd * v[3]) / rolling
    Tx = -MU * F * np.tanh(GM * c**2 * C11 * nx / (MU * F))
    Ty = -MU * F * np.tanh((GM * c**2 * C22 * ny + GM * c**3 * C23 * turn) / (MU * F))
    limit = (MU * F) ** 2
    kept = np.sqrt(limit / np.maximum(Tx**2 + Ty**2, limit))  # Coulomb's law bounds the resultant
    Tx, Ty = kept * Tx, kept * Ty
    return S * Tx + C * cd * Ty, w.k * sd * Ty, C * Tx - S * cd * Ty


def _force(q: Any, v: Any, s: Any, lam: Any) -> Any:
    (st, sf), (ct, cf) = (np.sin(x) for x in (q[3], q[4])), (np.cos(x) for x in (q[3], q[4]))
    theta_1, phi_1, spin = v[3], v[4], SPIN + v[5]
    sides = left, right = _sides(q, s)
    slope = [_slope(q, w) for w in sides]
    B1, B2 = (SCALE * (left.N[i] * lam[0] + right.N[i] * lam[1]) for i in (0, 1))
    D = -np.sin(slope[0]) * np.cos(slope[1]) - np.sin(slope[1]) * np.cos(slope[0])
    normal = [
        (np.cos(slope[1]) * B1 - np.sin(slope[1]) * B2) / D,
        (-np.cos(slope[0]) * B1 - np.sin(slope[0]) * B2) / D,
    ]
    force: list[Any] = [-2 * CX * q[0], -MR * G, -2 * CZ * q[2]]
    yaw = LI2 * theta_1 * phi_1 * sf - LI1 * spin * phi_1 - (LI1 - LI2) * theta_1 * sf * phi_1
    yaw = yaw - 2 * XL**2 * CZ * q[3] * cf
    roll = LI1 * spin * theta_1 * cf + (LI1 - LI2) * theta_1**2 * sf * cf
    turn = -LI1 * theta_1 * phi_1 * cf - 2 * XL**2 * CZ * q[3] * sf
    for w, d, F in zip(sides, slope, normal, strict=True):
        T1, T2, T3 = _creep(q, v, w, d, F)
        ss, cs, Rw, xi = np.sin(w.psi), np.cos(w.psi), w.Rw, w.xi
        force = [force[0] + T1, force[1] + T2, force[2] + T3]
        yaw = yaw - (xi * st + Rw * ss * ct * cf) * T1 - Rw * ss * sf * T2 + (-xi * ct + Rw * ss * st * cf) * T3
        roll = roll - (xi * ct * sf - Rw * cs * ct * cf) * T1 + (xi * cf + Rw * cs * sf) * T2
        roll = roll + (xi * st * sf - Rw * cs * st * cf) * T3
        turn = turn - Rw * (cs * st + ss * ct * sf) * T1 + Rw * ss * cf * T2 - Rw * (cs * ct - ss * st * sf) * T3
    return [*force, cf * yaw + sf * turn, roll, turn]


def _mass(q: Any) -> Any:
    sf, cf = np.sin(q[4]), np.cos(q[4])
    M = np.zeros((6, 6), dtype=object)
    M[0, 0] = M[1, 1] = M[2, 2] = MR
    M[3, 3], M[4, 4], M[5, 5] = LI2 * cf**2 + LI1 * sf**2, LI2, LI1
    M[3, 5] = M[5, 3] = LI1 * sf
    return M


@register("wheelset")
def wheelset() -> Problem:
    system = System(
        q=["x", "y", "z", "theta", "phi", "turn"],
        mass=_mass,
        force=_force,
        constraints=_constraints,
        constraint_force=_constraint_force,
        s=["psi left", "xi left", "psi right", "xi right"],
        contact=_contact,
        name="wheelset",
    )
    return Problem(
        name="wheelset",
        description="railway wheelset on straight track: contact coordinates, creep forces that depend on multipliers",
        source="Simeon, Führer & Rentrop 1991; Mazzia & Magherini 2008, problem wheel",
        system=system,
        q0=Q0,
        v0=np.zeros(6),
        t_span=(0.0, 10.0),
        reference=at_listed_times(COMPUTED),
        reference_times=tuple(COMPUTED),
        reference_digits=6,
        options={"s0": S0},
        published=PUBLISHED,
    )
