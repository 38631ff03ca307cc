"""Andrews' squeezing mechanism: seven bodies, one degree of freedom.

[HW96] E. Hairer, G. Wanner, Solving Ordinary Differential Equations II, 2nd ed., Springer 1996, section VII.7.
[MM08] F. Mazzia, C. Magherini, Test Set for Initial Value Problem Solvers, release 2.4 (2008), problem andrews.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dalembert.model.system import System
from dalembert.problems.base import Problem, Published, register

P = {
    "m1": 0.04325, "m2": 0.00365, "m3": 0.02373, "m4": 0.00706, "m5": 0.0705, "m6": 0.00706, "m7": 0.05498,
    "i1": 2.194e-06, "i2": 4.41e-07, "i3": 5.255e-06, "i4": 5.667e-07, "i5": 1.169e-05, "i6": 5.667e-07,
    "i7": 1.912e-05, "xa": -0.06934, "ya": -0.00227, "xb": -0.03635, "yb": 0.03273, "xc": 0.014, "yc": 0.072,
    "c0": 4530.0, "l0": 0.07785, "d": 0.028, "da": 0.0115, "e": 0.02, "ea": 0.01421, "rr": 0.007, "ra": 0.00092,
    "ss": 0.035, "sa": 0.01874, "sb": 0.01043, "sc": 0.018, "sd": 0.02, "ta": 0.02308, "tb": 0.00916, "u": 0.04,
    "ua": 0.01228, "ub": 0.00449, "zf": 0.02, "zt": 0.04, "fa": 0.01421, "mom": 0.033,
}  # fmt: skip

# [MM08]. Integrations of our own by three methods agree with each other to 12 digits, with these values to fewer.
PUBLISHED = Published(t=0.03, values={
    "q": np.array([15.81077119629904, -15.75637105984298, 0.04082224013073101, -0.5347301163226948,
                   0.5244099658805303, 0.5347301163226948, 1.048080741042263]),
    "v": np.array([1139.920302151208, -1424.379294994111, 11.03291221937134, 19.29337464421385,
                   0.5735699284790808, -19.29337464421385, 0.3231791658026955]),
    "lam": np.array([199.175333373191, -29.75531228015052, 23.06654119098399, 31.45271365475927,
                     22.64249232082739, 11.61740700019673]),
}, digits={
    "q": [10.1, 10.0, 9.5, 10.4, 11.9, 10.4, 12.5],
    "v": [10.0, 9.8, 7.5, 7.5, 7.6, 7.5, 7.2],
    "lam": [7.1, 7.1, 6.9, 6.4, 6.9, 5.8],
}, origin="Mazzia & Magherini 2008: PSIDE, rtol = atol = 1e-14")  # fmt: skip

# DOP853 at rtol 3e-14 on the accelerations of the KKT system, projected every 10 steps: 12 digits in q, 11 in v
COMPUTED = {
    "q": np.array([15.810771195153656, -15.756371058411775, 0.040822240119645185, -0.5347301163420806,
                   0.524409965879954, 0.5347301163420807, 1.0480807410419377]),
    "v": np.array([1139.9203022591169, -1424.3792951775545, 11.032911910603952, 19.293374105006432,
                   0.5735699148287237, -19.293374105006436, 0.32317914924866387]),
    "lam": np.array([199.1753481045422, -29.755309974968046, 23.066543611622787, 31.452725275772693,
                     22.642494786394963, 11.617392352610086]),
}  # fmt: skip


def _mass(q: Any, p: Any) -> Any:
    """[HW96, (VII.7.7)]; angles beta, Theta, gamma, Phi, delta, Omega, epsilon."""
    cos_th, sin_ph, sin_om = np.cos(q[1]), np.sin(q[3]), np.sin(q[5])
    e, f = p.e - p.ea, p.zf - p.fa
    M = np.zeros((7, 7), dtype=object)
    M[0, 0] = p.m1 * p.ra**2 + p.m2 * (p.rr**2 - 2 * p.da * p.rr * cos_th + p.da**2) + p.i1 + p.i2
    M[0, 1] = M[1, 0] = p.m2 * (p.da**2 - p.da * p.rr * cos_th) + p.i2
    M[1, 1] = p.m2 * p.da**2 + p.i2
    M[2, 2] = p.m3 * (p.sa**2 + p.sb**2) + p.i3
    M[3, 3] = p.m4 * e**2 + p.i4
    M[3, 4] = M[4, 3] = p.m4 * (e**2 + p.zt * e * sin_ph) + p.i4
    M[4, 4] = p.m4 * (p.zt**2 + 2 * p.zt * e * sin_ph + e**2) + p.m5 * (p.ta**2 + p.tb**2) + p.i4 + p.i5
    M[5, 5] = p.m6 * f**2 + p.i6
    M[5, 6] = M[6, 5] = p.m6 * (f**2 - p.u * f * sin_om) + p.i6
    M[6, 6] = p.m6 * (f**2 - 2 * p.u * f * sin_om + p.u**2) + p.m7 * (p.ua**2 + p.ub**2) + p.i6 + p.i7
    return M


def _force(q: Any, v: Any, p: Any) -> Any:
    _, th, ga, ph, _, om, _ = q
    be_1, th_1, _, ph_1, de_1, om_1, ep_1 = v
    xd = p.sd * np.cos(ga) + p.sc * np.sin(ga) + p.xb
    yd = p.sd * np.sin(ga) - p.sc * np.cos(ga) + p.yb
    length = np.sqrt((xd - p.xc) ** 2 + (yd - p.yc) ** 2)
    F = -p.c0 * (length - p.l0) / length
    Fx, Fy = F * (xd - p.xc), F * (yd - p.yc)
    e, f = p.e - p.ea, p.zf - p.fa
    return [
        p.mom - p.m2 * p.da * p.rr * th_1 * (th_1 + 2 * be_1) * np.sin(th),
        p.m2 * p.da * p.rr * be_1**2 * np.sin(th),
        Fx * (p.sc * np.cos(ga) - p.sd * np.sin(ga)) + Fy * (p.sd * np.cos(ga) + p.sc * np.sin(ga)),
        p.m4 * p.zt * e * de_1**2 * np.cos(ph),
        -p.m4 * p.zt * e * ph_1 * (ph_1 + 2 * de_1) * np.cos(ph),
        -p.m6 * p.u * f * ep_1**2 * np.cos(om),
        p.m6 * p.u * f * om_1 * (om_1 + 2 * ep_1) * np.cos(om),
    ]


def _constraints(q: Any, p: Any) -> Any:
    be, th, ga, ph, de, om, ep = q
    X = p.rr * np.cos(be) - p.d * np.cos(be + th)
    Y = p.rr * np.sin(be) - p.d * np.sin(be + th)
    return {
        "B x": X - p.ss * np.sin(ga) - p.xb,
        "B y": Y + p.ss * np.cos(ga) - p.yb,
        "E x": X - p.e * np.sin(ph + de) - p.zt * np.cos(de) - p.xa,
        "E y": Y + p.e * np.cos(ph + de) - p.zt * np.sin(de) - p.ya,
        "F x": X - p.zf * np.cos(om + ep) - p.u * np.sin(ep) - p.xa,
        "F y": Y - p.zf * np.sin(om + ep) + p.u * np.cos(ep) - p.ya,
    }


def _reference(t: Any) -> Mapping[str, np.ndarray]:
    if np.ndim(t) == 0:
        return COMPUTED
    return {name: np.tile(x, (np.size(t), 1)) for name, x in COMPUTED.items()}


@register("andrews")
def andrews() -> Problem:
    system = System(
        q=["beta", "Theta", "gamma", "Phi", "delta", "Omega", "epsilon"],
        mass=_mass,
        force=_force,
        constraints=_constraints,
        parameters=P,
        name="andrews",
    )
    q0 = [-0.06171389001427645, 0, 0.45527981916307037, 0.22266839016588588, 0.48736497954384256, -0.22266839016588588,
          1.2305474445498212]  # fmt: skip
    return Problem(
        name="andrews",
        description="Andrews' squeezing mechanism: seven bodies, six constraints, driven by a constant torque",
        source="Hairer & Wanner 1996, section VII.7; Mazzia & Magherini 2008, problem andrews",
        system=system,
        q0=np.array(q0),
        v0=np.zeros(7),
        t_span=(0.0, 0.03),
        reference=_reference,
        reference_times=(0.03,),
        reference_digits=10,
        published=PUBLISHED,
    )
