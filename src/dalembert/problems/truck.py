"""A planar truck on a road hump: nine coordinates, the load hinged to the chassis.

[EF98] E. Eich-Soellner, C. Führer, Numerical Methods in Multibody Dynamics, Teubner 1998, truck with constrained load.
[SGFR94] B. Simeon, F. Grupp, C. Führer, P. Rentrop, A nonlinear truck model and its treatment as a multibody system,
       J. Comput. Appl. Math. 50 (1994) 523-532.

Rear wheel (p1), chassis (p2, pitch p3), front wheel (p4), cabin (p5, pitch p6), load (p7, p8, pitch p9). Bodies other
than the load keep their horizontal position. [EF98] writes +G^T lam; here it is -G^T lam: multipliers change sign.

The program that circulates with [EF98] has a sign slip in the moments of forces with a vertical lever (h1); here the
moments are those of the forces, which balance the virtual power of all springs and dampers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dalembert.model.system import System
from dalembert.problems.base import Problem, Published, register

P = {
    "m1": 1450.0, "m2": 3335.0, "m3": 600.0, "m4": 1100.0, "m5": 11515.0, "l2": 14313.0, "l4": 948.0, "l5": 33000.0,
    "a12": -2.06, "a23": 2.44, "a24": 1.94, "a42": 3.64, "a25": 0.98, "b42": 0.9, "b24": -0.8, "c25": 2.44,
    "ac1": -3.07, "ac2": 0.15, "cc1": -1.61, "cc2": -0.75, "h1": -1.34, "h2": 0.0, "h3": 0.0,
    "k10": 4400000.0, "k12": 824700.0, "k30": 2200000.0, "k23": 271100.0, "k42": 135700.0, "k24": 135700.0,
    "k25": 900000.0,
    "d10": 600.0, "d12": 21593.0, "d30": 300.0, "d23": 38537.0, "d24": 12218.0, "d42": 12218.0, "d25": 38500.0,
    "g": 9.81, "speed": 15.0, "hump": 0.001,
    "f10N": -2329145.162, "f12N": -246872.662, "f30N": -1147434.838, "f23N": -84924.838, "f24N": -127842.88235294,
    "f42N": -127208.11764706, "f25N": -854905.94111111,
}  # fmt: skip
Q0 = np.array([0.5, 2.0, 0.0, 0.5, 2.9, 0.0, -1.46, 2.9, 0.0])
LAM0 = np.array([0.0, -68056.2088888888])  # the equilibrium [EF98], sign reversed

# computed by an explicit method of order 8 with projection at rtol 1e-13, broken where the wheels meet the hump
TIMES = (5.0, 10.0, 20.0)
VALUES = {
    "q": np.array([
        [0.5938247629007717, 2.1006968416426766, 0.004617984076166615, 0.6033093022580035, 3.0134496136852498,
         0.004619849870704599, -1.4641818342789796, 2.9940324583355515, 0.004672416775310286],
        [0.5539941762200573, 2.0491685230494117, -0.0031125674025077868, 0.5471991519470497, 2.9406191205868795,
         -0.0031127007852361963, -1.4571738542068828, 2.953670050444179, -0.0031364173050049075],
        [0.5001801054694154, 2.000150667528065, -1.8845440975802982e-05, 0.5001407584877829, 2.9000988186779,
         -1.878934819423503e-05, -1.4599828918439395, 2.9001778661366164, -1.90414488446889e-05],
    ]),
    "v": np.array([
        [0.02993701917740837, 0.026054867211423194, -0.0029360039766714663, 0.023197152751911736, 0.01801727052128051,
         -0.002949862124999956, 0.002629475321190672, 0.030339632696263982, -0.0029447673721673564],
        [-0.02008489498129589, -0.01913204319342448, 0.0006248251190794274, -0.018626190690455582,
         -0.017421465460707167, 0.0006269466996356449, -0.0005667766655464146, -0.020039012721408546,
         0.0006270016385695525],
        [-0.0001248483725352179, -0.00010511120371781867, 1.2656357133187246e-05, -9.835445778620253e-05,
         -7.029157968868474e-05, 1.2621457421639984e-05, -1.1488495769326883e-05, -0.00012338010822217718,
         1.278626926232602e-05],
    ]),
    "lam": -np.array(
        [[225.0233110443792, 68045.05641115444], [-144.00605810158632, 68015.70154680789],
         [-0.7684109523063706, 68056.46814854207]]
    ),
}  # fmt: skip


def _hump(t: Any, start: Any, p: Any) -> tuple[Any, Any]:
    """Height and vertical rate of the road under a wheel that meets the hump at ``start`` (C^5 there)."""
    s = np.maximum(t - start, 0.0)
    return p.hump * s**6 * np.exp(-s), p.hump * (6 * s**5 - s**6) * np.exp(-s)


def _point(x: Any, z: Any, pitch: Any, vz: Any, vpitch: Any, vx: Any, a: Any, h: Any) -> tuple[Any, Any, Any, Any]:
    """Position and velocity of the point (a, h) of a body at (x, z)."""
    dx, dz = a * np.cos(pitch) - h * np.sin(pitch), a * np.sin(pitch) + h * np.cos(pitch)
    return x + dx, z + dz, vx - vpitch * dz, vz + vpitch * dx


def _connector(start: tuple[Any, ...], end: tuple[Any, ...], k: Any, d: Any, nominal: Any) -> tuple[Any, Any]:
    """Force (x, z) of a spring and damper on its start; the end gets the opposite."""
    x, z, vx, vz = (b - a for a, b in zip(start, end, strict=True))
    length = np.sqrt(x * x + z * z)
    magnitude = k * length + d * (x * vx + z * vz) / length + nominal
    return magnitude * x / length, magnitude * z / length


def _force(t: Any, q: Any, v: Any, p: Any) -> Any:
    front, rear = _hump(t, 2 / p.speed, p), _hump(t, (2 + p.a23 - p.a12) / p.speed, p)

    def chassis(a: Any, h: Any) -> tuple[Any, ...]:
        return _point(0.0, q[1], q[2], v[1], v[2], 0.0, a, h)

    def cabin(a: Any, h: Any) -> tuple[Any, ...]:
        return _point(p.a24 - p.b24, q[4], q[5], v[4], v[5], 0.0, a, h)

    load = _point(q[6], q[7], q[8], v[7], v[8], v[6], p.c25, p.h3)
    rear_wheel, front_wheel = (p.a12, q[0], 0.0, v[0]), (p.a23, q[3], 0.0, v[3])

    f10 = _connector((p.a12, rear[0], 0.0, rear[1]), rear_wheel, p.k10, p.d10, p.f10N)
    f12 = _connector(rear_wheel, chassis(p.a12, p.h1), p.k12, p.d12, p.f12N)
    f30 = _connector((p.a23, front[0], 0.0, front[1]), front_wheel, p.k30, p.d30, p.f30N)
    f23 = _connector(front_wheel, chassis(p.a23, p.h1), p.k23, p.d23, p.f23N)
    f24 = _connector(chassis(p.a24, p.h2), cabin(p.b24, p.h3), p.k24, p.d24, p.f24N)
    f42 = _connector(chassis(p.a42, p.h2), cabin(p.b42, p.h3), p.k42, p.d42, p.f42N)
    f25 = _connector(chassis(p.a25, p.h2), load, p.k25, p.d25, p.f25N)

    def moment(a: Any, h: Any, pitch: Any, f: tuple[Any, Any]) -> Any:
        return (a * np.cos(pitch) - h * np.sin(pitch)) * f[1] - (a * np.sin(pitch) + h * np.cos(pitch)) * f[0]

    return [
        -f10[1] + f12[1] - p.m1 * p.g,
        -f12[1] - f23[1] + f24[1] + f42[1] + f25[1] - p.m2 * p.g,
        -moment(p.a23, p.h1, q[2], f23) - moment(p.a12, p.h1, q[2], f12) + moment(p.a25, p.h2, q[2], f25)
        + moment(p.a42, p.h2, q[2], f42) + moment(p.a24, p.h2, q[2], f24),
        -f30[1] + f23[1] - p.m3 * p.g,
        -f42[1] - f24[1] - p.m4 * p.g,
        -moment(p.b42, p.h3, q[5], f42) - moment(p.b24, p.h3, q[5], f24),
        -f25[0],
        -f25[1] - p.m5 * p.g,
        -moment(p.c25, p.h3, q[8], f25),
    ]  # fmt: skip


def _constraints(q: Any, p: Any) -> Any:
    chassis_x = p.ac1 * np.cos(q[2]) - p.ac2 * np.sin(q[2])
    chassis_z = q[1] + p.ac1 * np.sin(q[2]) + p.ac2 * np.cos(q[2])
    return {
        "hinge x": q[6] + p.cc1 * np.cos(q[8]) - p.cc2 * np.sin(q[8]) - chassis_x,
        "hinge z": q[7] + p.cc1 * np.sin(q[8]) + p.cc2 * np.cos(q[8]) - chassis_z,
    }


def _reference(t: Any) -> Mapping[str, np.ndarray]:
    rows = [TIMES.index(float(x)) for x in np.atleast_1d(t)]
    return {name: x[rows[0]] if np.ndim(t) == 0 else x[rows] for name, x in VALUES.items()}


@register("truck")
def truck() -> Problem:
    system = System(
        q=["rear wheel", "chassis", "chassis pitch", "front wheel", "cabin", "cabin pitch", "load x", "load z",
           "load pitch"],
        mass=lambda p: [p.m1, p.m2, p.l2, p.m3, p.m4, p.l4, p.m5, p.m5, p.l5],
        force=_force,
        constraints=_constraints,
        parameters=P,
        name="truck",
    )  # fmt: skip
    return Problem(
        name="truck",
        description="planar truck over a road hump, 9 coordinates, its load hinged to the chassis; badly scaled. The "
        "11-coordinate truck of Simeon, Grupp, Führer and Rentrop (1994) is another model, whose parameters are not "
        "public",
        source="Eich-Soellner & Führer 1998, truck with constrained load: equations and equilibrium (lam reversed in "
        "sign); values at t = 5, 10, 20 are our own",
        system=system,
        q0=Q0,
        v0=np.zeros(9),
        t_span=(0.0, 20.0),
        reference=_reference,
        reference_times=TIMES,
        reference_digits=9,
        published=Published(
            t=0.0,
            values={"q": Q0, "lam": LAM0},
            within={"q": 0.0, "lam": [1e-9, 1e-9]},
            origin="Eich-Soellner & Führer 1998: the equilibrium at the start",
        ),
    )
