"""Local coordinates: as many differential equations as degrees of freedom, with coordinates chosen on the way.

A pendulum that turns over and over. One fixed coordinate, x, cannot describe it: where the rod is horizontal, x has a
turning point and the height is not a smooth function of it. StateSpace() takes the direction of motion as coordinate
and a new one when the rod has turned too far; sol.stats.switches lists the times.
"""

import numpy as np

import dalembert as da

pendulum = da.System(
    q=["x", "y"],
    mass=[1.0, 1.0],
    force=[0, -9.81],
    constraints=lambda q: {"rod": q @ q - 1},
)
start = {"t_span": (0, 2), "q0": [0, -1], "v0": [8, 0]}
reference = da.solve(pendulum, **start, rtol=1e-12, atol=1e-12)

runs = {}
for label, form in {
    "chosen on the way": da.StateSpace(),
    "fixed, u = x": da.StateSpace(R=[[1.0, 0.0]]),
}.items():
    sol = runs[label] = da.solve(pendulum, **start, formulation=form, rtol=1e-7, atol=1e-7)
    error = np.abs(sol.q - reference(sol.t).q).max()
    print(f"{label:20s} {len(sol.stats.switches):3d} switches, {sol.stats.steps} steps, error {error:.1e}, {sol.drift}")

sol = runs["chosen on the way"]
angle = np.unwrap(np.arctan2(sol.q[:, 0], -sol.q[:, 1]))
turned = np.degrees(np.diff(np.interp(sol.stats.switches, sol.t, angle)))
print(f"{angle[-1] / (2 * np.pi):.2f} turns; the rod turns {turned.min():.0f} to {turned.max():.0f} degrees in between")
