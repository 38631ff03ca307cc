"""A constraint that depends on time: a pendulum stands upside down while its pivot shakes fast enough.

The pivot moves up and down as A cos(W t). The upper position is stable if A^2 W^2 > 2 g L (Kapitza).
"""

import numpy as np

import dalembert as da

kapitza = da.System(
    q=["x", "y"],
    mass=lambda p: [p.m, p.m],
    force=lambda p: [0, -p.m * p.g],
    constraints=lambda t, q, p: {"rod": q[0] ** 2 + (q[1] - p.A * np.cos(p.W * t)) ** 2 - p.L**2},
    parameters={"m": 1.0, "g": 9.81, "L": 1.0, "A": 0.1, "W": 100.0},
    name="Kapitza's pendulum",
)
tilt = 0.2
q0 = [np.sin(tilt), 0.1 + np.cos(tilt)]
for W in (100.0, 30.0):  # parameters change without compiling anew
    sol = da.solve(kapitza, (0, 5), q0=q0, v0=[0, 0], parameters={"W": W}, rtol=1e-7)
    height = (sol.q[:, 1] - 0.1 * np.cos(W * sol.t)).min()
    print(f"W = {W:g}: lowest height above the pivot {height:.3f}, {'stays up' if height > 0 else 'falls'}")
    print(f"   drift {sol.drift}")
