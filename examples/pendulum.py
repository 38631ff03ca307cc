"""A pendulum in Cartesian coordinates: the ten lines of the README."""

import dalembert as da

pendulum = da.System(
    q=["x", "y"],
    mass=lambda p: [p.m, p.m],
    force=lambda p: [0, -p.m * p.g],
    constraints=lambda q, p: {"rod": q[0] ** 2 + q[1] ** 2 - p.L**2},
    parameters={"m": 1.0, "g": 9.81, "L": 1.0},
)
sol = da.solve(pendulum, (0, 100), q0=[1, 0], v0=[0, 0], rtol=1e-8)
print(sol)
print("drift:", sol.drift)
print("rod force at the end:", 2 * sol.lam[-1, 0])  # the gradient of x^2 + y^2 has length 2
