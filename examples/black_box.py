"""A force that cannot be traced: drag from a table of measurements, looked up with np.interp.

`da.black_box` marks a function that must be called with numbers. Every step then calls Python, so it is slower;
derivatives come from finite differences unless a jacobian is given.
"""

import numpy as np

import dalembert as da

SPEED = np.array([0.0, 1.0, 2.0, 4.0, 8.0])  # m/s
DRAG = np.array([0.0, 0.05, 0.2, 0.8, 3.2])  # N


def drag(v, p):
    speed = np.hypot(*v)
    size = np.interp(speed, SPEED, DRAG)
    return np.array([0.0, -p.m * p.g]) - size * v / max(speed, 1e-9)


pendulum = da.System(
    q=["x", "y"],
    mass=lambda p: [p.m, p.m],
    force=da.black_box(drag),
    constraints=lambda q: {"rod": q @ q - 1},
    energy=lambda q, v, p: p.m * (0.5 * (v @ v) + p.g * (q[1] + 1)),
    parameters={"m": 1.0, "g": 9.81},
    name="pendulum in air",
)
sol = da.solve(pendulum, (0, 5), q0=[1, 0], v0=[0, 0], rtol=1e-5)
print(pendulum)
print(sol)
print(f"energy left: {100 * sol.energy[-1] / sol.energy[0]:.1f} %")
