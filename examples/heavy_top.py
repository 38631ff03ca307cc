"""The heavy top on R^3 x SO(3) by generalized-alpha: order 2 also in the reaction, if the start is right."""

import numpy as np

import dalembert as da

top = da.problems()["heavy-top"]
END = 0.1
exact = top.reference(END)


def run(n, formulation=None, **options):
    """n steps to t = 0.1; errors of q, v and lam there, and the largest error of lam in the first ten steps."""
    method = da.GeneralizedAlpha(rho=0.9, **options)
    sol = da.solve(top.system, (0, END), top.q0, top.v0, method=method, formulation=formulation, h=END / n)
    errors = [np.linalg.norm(getattr(sol, what)[-1] - exact[what]) for what in ("q", "v", "lam")]
    start = top.reference(sol.t[1:11])["lam"]
    return sol, np.array([*errors, np.linalg.norm(sol.lam[1:11] - start, axis=1).max()])


if __name__ == "__main__":
    cases = {
        "stabilized": {},
        "index 3": {"formulation": "index-3"},
        "index 3, v0 as given": {"formulation": "index-3", "start": "unperturbed"},
    }
    print(f"{'observed order of':22} q     v     lam   lam at the start   |G v|")
    for label, options in cases.items():
        (_, coarse), (sol, fine) = run(100, **options), run(200, **options)
        orders = np.log2(coarse / fine)
        print(f"{label:22}", *[f"{x:.2f} " for x in orders], f"            {sol.drift.largest['velocity']:.1e}")
    sol = da.solve(top.system, (0, END), top.q0, top.v0, method="generalized-alpha", rtol=1e-4, atol=1e-4)
    error = np.abs(sol.q[-1] - exact["q"]).max()
    print(f"automatic steps, rtol = 1e-4: {sol.stats.steps} steps, error below the tolerance: {error < 1e-4}")
