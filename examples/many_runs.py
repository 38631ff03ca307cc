"""Many runs of one model: `da.prepare` checks and compiles once, and every run is a call with its initial values.

python examples/many_runs.py
"""

import numpy as np
from scipy.optimize import brentq

import dalembert as da

crank = da.System(
    q=["x", "y", "s"],  # pin between crank and rod; slider
    mass=lambda p: [p.m, p.m, p.M],
    force=lambda t, p: [0, -9.81 * p.m, -p.load],
    constraints=lambda q, p: {"crank": q[0] ** 2 + q[1] ** 2 - 1, "rod": (q[2] - q[0]) ** 2 + q[1] ** 2 - p.rod**2},
    parameters={"m": 1.0, "M": 2.0, "rod": 3.0, "load": 0.0},
)
q0, half = [1.0, 0.0, 4.0], 0.5  # dead centre; a time
run = da.prepare(crank, (0, half), rtol=1e-9, t_eval=[half])


def angle(speed, **parameters):
    """Of the crank after half a second, from an angular velocity at the start."""
    x, y, _ = run(q0, [0.0, speed, 0.0], parameters=parameters).q[-1]
    return np.arctan2(y, x)


# which speed turns it by a quarter in that time? Every guess of the root finder is a run.
speed = brentq(lambda w: angle(w) - np.pi / 2, 4.0, 8.0, xtol=1e-10)
print(f"a quarter turn in {half} s takes {speed:.6f} rad/s")

# the same for loads on the slider
for load in (-10.0, 0.0, 10.0):
    needed = brentq(lambda w, load=load: angle(w, load=load) - np.pi / 2, 4.0, 8.0, xtol=1e-10)
    print(f"load {load:5.0f}: {needed:.4f} rad/s")

alone = da.solve(crank, (0, half), q0, [0.0, speed, 0.0], rtol=1e-9, t_eval=[half])
again = run(q0, [0.0, speed, 0.0])
print("the same as solve:", np.array_equal(alone.q, again.q) and np.array_equal(alone.lam, again.lam))
