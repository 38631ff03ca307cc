"""HHT-alpha: positions and velocities on the constraints, multipliers of order 2, steps fixed or automatic."""

import numpy as np

import dalembert as da


def measure(name, tol, method="hht"):
    """Steps of an automatic run, and its largest errors of q, v and lam relative to their size."""
    problem = da.problems()[name]
    sol = da.solve(problem.system, (0, 1), problem.q0, problem.v0, method=method, rtol=tol, atol=tol)
    exact = problem.reference(sol.t)
    sizes = {what: max(1.0, np.abs(exact[what]).max()) for what in ("q", "v", "lam")}
    return sol.stats.steps, [np.abs(getattr(sol, what) - exact[what]).max() / x for what, x in sizes.items()]


def errors(h, method):
    """Errors of q, v and lam of a rod on a stiff spring after two seconds."""
    problem = da.problems()["jay-negrut-5.2"]
    sol = da.solve(problem.system, (0, 2), problem.q0, problem.v0, method=method, h=h)
    exact = problem.reference(2.0)
    return np.array([np.abs(getattr(sol, what)[-1] - exact[what]).max() for what in ("q", "v", "lam")]), sol


if __name__ == "__main__":
    for method in (da.HHT(alpha=0), da.HHT(alpha=-0.3), da.HHT(alpha=-0.3, variant="midpoint")):
        (coarse, _), (fine, sol) = errors(2e-3, method), errors(1e-3, method)
        print(f"{method.describe():40} of order", *np.round(np.log2(coarse / fine), 2), "in q, v, lam")
    print(f"constraints at the end: {sol.drift.largest['position']:.1e} and {sol.drift.largest['velocity']:.1e}")
    for tol in (1e-3, 1e-5):
        steps, found = measure("slider-crank", tol)
        print(f"slider crank, tolerance {tol:.0e}: {steps} steps, errors", *[f"{x:.1e}" for x in found])
