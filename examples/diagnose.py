"""Which formulation? `diagnose` makes a trial run, measures rates along it and recommends one, with the reason.

A case for each of the four of Ascher & Petzold (1993). The full report for the first, one line for the others.
"""

import numpy as np

import dalembert as da

pendulum = da.System(
    q=["x", "y"],
    mass=[1.0, 1.0],
    force=lambda v, p: np.array([0, -9.81]) - p.c * v,
    constraints=lambda q: {"rod": q @ q - 1},
    parameters={"c": 0.0},
    name="pendulum",
)
swing = {"q0": [1, 0], "v0": [0, 0], "t_span": (0, 5)}
turning, uneven = da.problems()["ascher-petzold-4"], da.problems()["ascher-petzold-3"]
CASES = {
    "pendulum": (pendulum, swing, {}),
    "constraint that turns fast": (turning.system, {"q0": [1, 1], "v0": [1, 1], "t_span": (0, 1)}, {"nu": 100.0}),
    "pendulum in honey": (pendulum, swing, {"c": 1000.0}),
    "very uneven masses": (uneven.system, {"q0": [1, 1], "v0": [1, 1], "t_span": (0, 1)}, {"nu": 1000.0}),
}

if __name__ == "__main__":
    for name, (system, start, parameters) in CASES.items():
        found = da.diagnose(system, **start, parameters=parameters)
        if name == "pendulum":
            print(found, end="\n\n")
        print(f"{name:28s}case {found.case}: {found.method.describe()} on {found.formulation.describe()}")
        sol = da.solve(system, **start, parameters=parameters, formulation=found.formulation, method=found.method)
        print(f"{'':28s}{sol.stats.steps} steps, {sol.drift}")
