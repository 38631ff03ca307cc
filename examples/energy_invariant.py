"""Projecting onto an invariant: the energy stays at its first value like a constraint.

It costs a little time in every step and keeps long runs of conservative systems from gaining or losing energy. The
phase of the motion still has its error.
"""

import numpy as np

import dalembert as da


def energy(q, v, p):
    return 0.5 * (v @ v) + p.g * q[1]


pendulum = da.System(
    q=["x", "y"],
    mass=[1.0, 1.0],
    force=lambda p: [0, -p.g],
    constraints=lambda q: {"rod": q @ q - 1},
    invariants=lambda q, v, p: {"energy": energy(q, v, p)},
    energy=energy,
    parameters={"g": 9.81},
)
for keep in (False, True):
    sol = da.solve(pendulum, (0, 100), q0=[0.6, -0.8], v0=[0, 0], projection=da.Projection(invariants=keep))
    change = np.abs(sol.energy - sol.energy[0]).max()
    print(f"invariants={keep}: largest change of the energy {change:.1e}, {sol.stats.steps} steps, {sol.drift}")
