"""Minimal extension: index 1 without drift, dependent coordinates chosen on the way.

A double pendulum whose lower rod turns over and over. Two rods determine two of the four coordinates; which two changes
with the motion: where a rod is upright its height follows from the side, where it is horizontal the other way round.
MinimalExtension() keeps positions, velocities and accelerations on the constraints and changes its choice before it
becomes singular; sol.stats.switches lists the times. The second-order form needs no velocities as unknowns.
"""

import numpy as np

import dalembert as da

double = da.System(
    q=["x1", "y1", "x2", "y2"],
    mass=[1.0, 1.0, 0.1, 0.1],
    force=[0, -9.81, 0, -0.981],
    constraints=lambda q: {
        "upper rod": (q[0] ** 2 + q[1] ** 2 - 1) / 2,
        "lower rod": ((q[2] - q[0]) ** 2 + (q[3] - q[1]) ** 2 - 0.25) / 2,
    },
)
start = {"t_span": (0, 2), "q0": [0, -1, 0, -1.5], "v0": [0, 0, 12, 0], "rtol": 1e-8, "atol": 1e-8}
reference = da.solve(double, **{**start, "rtol": 1e-12, "atol": 1e-12})

runs = {}
for label, method, form in (
    ("first order, reduced", "bdf", da.MinimalExtension()),
    ("first order, full", "bdf", da.MinimalExtension(variant="full")),
    ("second order, reduced", "modified-bdf", da.MinimalExtension()),
):
    sol = runs[label] = da.solve(double, **start, method=method, formulation=form)
    error = np.abs(sol.q - reference(sol.t).q).max()
    print(f"{label:22s}{len(sol.stats.switches):3d} choices, {sol.stats.steps} steps, error {error:.1e}, {sol.drift}")

rod = sol.q[:, 2:] - sol.q[:, :2]
turns = np.unwrap(np.arctan2(rod[:, 0], -rod[:, 1]))[-1] / (2 * np.pi)
print(f"the lower rod makes {turns:.1f} turns")
