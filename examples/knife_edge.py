"""A nonholonomic constraint: a skate on an inclined plane can only move along its blade.

The blade turns at a constant rate while gravity pulls along x. The skate does not slide down: it drifts sideways on a
cycloid. Exact: x = c sin(w t)^2, y = c (w t - sin(2 w t) / 2) with c = g sin(alpha) / (2 w^2).
"""

import numpy as np

import dalembert as da

skate = da.System(
    q=["x", "y", "phi"],
    mass=lambda p: [p.m, p.m, p.J],
    force=lambda p: [p.m * p.g * np.sin(p.alpha), 0, 0],
    velocity_constraints=lambda q, v: {"blade": np.sin(q[2]) * v[0] - np.cos(q[2]) * v[1]},
    parameters={"m": 1.0, "J": 0.1, "g": 9.81, "alpha": 0.2},
    name="skate",
)
w, t1 = 2.0, 10.0
sol = da.solve(skate, (0, t1), q0=[0, 0, 0], v0=[0, 0, w], rtol=1e-9, atol=1e-10)

c = 9.81 * np.sin(0.2) / (2 * w**2)
exact = [c * np.sin(w * t1) ** 2, c * (w * t1 - np.sin(2 * w * t1) / 2)]
print(sol)
print("error at the end:", np.abs(sol.q[-1, :2] - exact).max())
print("largest sideways speed of the blade:", sol.drift.largest["nonholonomic"])
print("largest sideways force:", np.abs(sol.mu).max())
