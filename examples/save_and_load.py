"""Keeping a run: everything goes into one file, which other programs can read as netCDF4/HDF5."""

import tempfile
from pathlib import Path

import numpy as np

import dalembert as da

problem = da.problems()["pendulum"]
sol = da.solve(problem.system, (0, 10), q0=problem.q0, v0=problem.v0)

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "pendulum.nc"
    sol.save(path)
    again = da.load(path)
    print(f"{path.name}: {path.stat().st_size / 1024:.0f} kB, {again.t.size} points")

print(again)
print("same numbers:", all(np.array_equal(getattr(sol, name), getattr(again, name)) for name in ("t", "q", "v", "lam")))
print("between steps:", again(np.pi).q, "as before:", sol(np.pi).q)
