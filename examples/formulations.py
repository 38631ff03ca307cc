"""One system in every formulation: how many unknowns, how accurate, what drifts, what it costs.

A bead slides without friction on a rod that turns with the rate w; a spring pulls it to the centre. The constraint is
linear and turns with time, so that even the essential underlying ODE, which needs a matrix R(t), can be written down.
Exact: r = cos(omega t) along the rod, omega^2 = k - w^2; the rod pushes with the Coriolis force, lam = -2 w r'.
"""

import numpy as np

import dalembert as da

bead = da.System(
    q=["x", "y"],
    mass=[1.0, 1.0],
    force=lambda q, p: -p.k * q,
    constraints=lambda t, q, p: {"rod": np.cos(p.w * t) * q[1] - np.sin(p.w * t) * q[0]},
    parameters={"w": 2.0, "k": 29.0},
    name="bead on a turning rod",
)
start = {"t_span": (0, 20), "q0": [1, 0], "v0": [0, 2], "rtol": 1e-7, "atol": 1e-7}


def along_the_rod(t, p):
    return [[np.cos(p.w * t), np.sin(p.w * t)]]


def exact(t, w=2.0, omega=5.0):
    r, r_dot = np.cos(omega * t)[:, None], -omega * np.sin(omega * t)[:, None]
    along = np.stack([np.cos(w * t), np.sin(w * t)], axis=1)
    across = np.stack([-np.sin(w * t), np.cos(w * t)], axis=1)
    return {"q": r * along, "v": r_dot * along + w * r * across, "lam": -2 * w * r_dot}


FORMS = {
    "index-1": da.Index1(),
    "underlying-ode": da.UnderlyingODE(),
    "overdetermined": da.Overdetermined(),
    "overdetermined, positions only": da.Overdetermined(velocity_projection=False),
    "baumgarte, gamma = 10": da.Baumgarte(gamma=10.0),
    "index-2": da.Index2(),
    "index-2, gamma = 10": da.Index2(gamma=10.0),
    "index-3": da.Index3(),
    "stabilized-index-2": da.StabilizedIndex2(),
    "projected-invariants, Pa": da.ProjectedInvariants(levels=1),
    "projected-invariants, Pb": da.ProjectedInvariants(levels=2),
    "projected-invariants, Pc": da.ProjectedInvariants(levels=2, balanced=True),
    "minimal-extension": da.MinimalExtension(),
    "minimal-extension, full": da.MinimalExtension(variant="full"),
    "state-space": da.StateSpace(),
    "essential-ode": da.EssentialODE(R=along_the_rod),
}
COLUMNS = ("form", "unknowns", "error q", "error v", "error lam", "drift q", "drift v", "steps", "us/step")


def compare(label, repeat=5):
    """A row of numbers: largest errors and residuals over the run, cost of the fastest of equal runs."""
    form = FORMS[label]
    runs = [da.solve(bead, **start, method="bdf", formulation=form) for _ in range(repeat)]
    sol = min(runs, key=lambda run: run.stats.wall_time)
    reference, drift = exact(sol.t), sol.drift.largest
    errors = [np.abs(getattr(sol, name) - reference[name]).max() for name in ("q", "v", "lam")]
    unknowns = sum(block.size for block in form.unknowns(bead))
    cost = 1e6 * sol.stats.wall_time / sol.stats.steps
    return [label, unknowns, *errors, drift["position"], drift["velocity"], sol.stats.steps, cost]


if __name__ == "__main__":
    print(("{:32s}{:>9s}" + "{:>10s}" * 5 + "{:>7s}{:>9s}").format(*COLUMNS))
    for label in FORMS:
        print(("{:32s}{:9d}" + "{:10.1e}" * 5 + "{:7d}{:9.2f}").format(*compare(label)))
