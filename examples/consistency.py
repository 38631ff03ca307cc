"""Assemble a mechanism from a crude guess, run it with a redundant joint and past a singular position, and check it.

Three parallel cranks carry one coupler, from which a mass hangs: any two cranks would do, so one constraint is too
many. When the cranks lie flat, the constraints lose rank once more, and the mechanism could fold.
"""

import numpy as np

import dalembert as da


def end(bar, side, length=1.0):
    x, y, phi = bar
    return np.array([x + side * length / 2 * np.cos(phi), y + side * length / 2 * np.sin(phi)])


def joints(q):
    bars = [q[3 * i : 3 * i + 3] for i in range(4)]
    feet = {f"foot {k}": end(bars[k], -1) - np.array([k, 0.0]) for k in range(3)}
    tops = {f"top {k}": end(bars[3], k - 1, 2.0) - end(bars[k], 1) for k in range(3)}
    return feet | tops | {"rope": (q[12:] - q[9:11]) @ (q[12:] - q[9:11]) - 0.25}


MASS = np.array([1, 1, 1 / 12] * 3 + [2, 2, 2 / 3] + [0.5, 0.5])
WEIGHT = np.array([0, 1, 0] * 3 + [0, 2, 0] + [0, 0.5])
system = da.System(
    q=[f"{c}{i}" for i in range(4) for c in ("x", "y", "phi")] + ["x", "y"],
    mass=MASS,
    force=-9.81 * WEIGHT,
    constraints=joints,
    energy=lambda q, v: 0.5 * (v**2 @ MASS) + 9.81 * (q @ WEIGHT),
    name="three cranks",
)

# the first crank at 1 rad, the rest roughly: everything else is assembled
guess = [0, 0, 1.0, 1, 0, 0.8, 2, 0, 1.2, 1, 1, 0.1, 1, 0]
start = da.consistent(system, guess, fixed=["phi0"])

sol = da.solve(system, (0, 1), start.q, start.v, method="bdf", rtol=1e-7, atol=1e-9)
found = da.reactions(system, sol(0.2))

if __name__ == "__main__":
    print("angles after assembly:", start.q[2:12:3].round(12))
    try:
        da.consistent(system, guess, fixed=["phi0", "phi1"])
    except ValueError as error:
        print(f"with two cranks fixed: {str(error)[:60]}...")
    print(sol)
    print(*sol.stats.warnings, sep="\n")
    print("unique reactions:", ", ".join(n for n, u in zip(found.names, found.unique, strict=True) if u) or "none")
    certificate = sol.check(rerun=True)
    print(certificate)
    print("largest estimated error of lam:", f"{sol.lam_error.max():.1e}")
