"""Equations of motion from energies: a double pendulum with two rods as constraints."""

import numpy as np

import dalembert as da

double = da.Lagrangian(
    q=["x1", "y1", "x2", "y2"],
    kinetic=lambda v, p: 0.5 * p.m1 * (v[:2] @ v[:2]) + 0.5 * p.m2 * (v[2:] @ v[2:]),
    potential=lambda q, p: p.g * (p.m1 * q[1] + p.m2 * q[3]),
    constraints=lambda q, p: {
        "upper rod": q[:2] @ q[:2] - p.L1**2,
        "lower rod": (q[2:] - q[:2]) @ (q[2:] - q[:2]) - p.L2**2,
    },
    parameters={"m1": 1.0, "m2": 1.0, "L1": 1.0, "L2": 1.0, "g": 9.81},
    name="double pendulum",
)
sol = da.solve(double, (0, 20), q0=[1, 0, 2, 0], v0=[0, 0, 0, 0], rtol=1e-9, atol=1e-10)
print(sol)
print("drift:", sol.drift)
print("largest change of the energy:", np.abs(sol.energy - sol.energy[0]).max())
print("largest force in the rods:", 2 * np.abs(sol.lam).max(axis=0), "N")
