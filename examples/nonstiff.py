"""Nonstiff systems: half-explicit, explicit and iterated methods for accuracy, RATTLE for the energy of long runs.

python examples/nonstiff.py
"""

import numpy as np

import dalembert as da

pendulum = da.problems()["pendulum"]
start = {"q0": pendulum.q0, "v0": pendulum.v0}

# the same tolerance: steps, and the error at the end
for method in ("bdf", da.HalfExplicit(5), da.Explicit(8), da.Iterated()):
    sol = da.solve(pendulum.system, (0, 100), method=method, rtol=1e-9, atol=1e-9, **start)
    error = np.abs(sol.q[-1] - pendulum.reference(np.array([100.0]))["q"][0]).max()
    print(
        f"{sol.stats.method}: {sol.stats.steps} steps, error {error:.1e}, drift {np.abs(sol.drift.position).max():.0e}"
    )

# ten thousand swings with a constant, rather large step: the energy error oscillates, it does not grow
sol = da.solve(pendulum.system, (0, 20_000), method="rattle", h=0.02, t_eval=np.linspace(0, 20_000, 5001), **start)
error = np.abs(sol.energy - sol.energy[0])
print(f"{sol.stats.method}: energy error {error[:500].max():.1e} at first, {error[-500:].max():.1e} at last")
print("the energy error grows:", bool(error[-500:].max() > 1.5 * error[:500].max()))
