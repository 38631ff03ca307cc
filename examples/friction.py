"""A force that depends on the multiplier: a block with Coulomb friction on an inclined plane.

With the normal n of length one the multiplier is the normal force (its sign: M v' = f - G^T lam). Sliding down from
the speed u: s = u t + g (sin(alpha) - c cos(alpha)) t^2 / 2.
"""

import numpy as np

import dalembert as da


def force(v, lam, p):
    slide = np.array([np.cos(p.alpha), -np.sin(p.alpha)])  # down the plane
    speed = slide @ v
    friction = p.c * np.abs(lam[0]) * np.tanh(speed / p.eps)  # sign(speed), smoothed
    return np.array([0, -p.m * p.g]) - friction * slide


block = da.System(
    q=["x", "y"],
    mass=lambda p: [p.m, p.m],
    force=force,
    constraints=lambda q, p: {"plane": np.sin(p.alpha) * q[0] + np.cos(p.alpha) * q[1]},
    parameters={"m": 2.0, "g": 9.81, "alpha": 0.5, "c": 0.3, "eps": 1e-3},
    name="block",
)
alpha, u, t1 = 0.5, 1.0, 3.0
sol = da.solve(block, (0, t1), q0=[0, 0], v0=[u * np.cos(alpha), -u * np.sin(alpha)])

exact = u * t1 + 9.81 * (np.sin(alpha) - 0.3 * np.cos(alpha)) * t1**2 / 2
print(sol)
print("distance:", np.linalg.norm(sol.q[-1]), "exact:", exact)
print("normal force:", -sol.lam[-1, 0], "exact:", 2.0 * 9.81 * np.cos(alpha))
