"""Events that change something: a pendulum hits a wall, the coupler of a slider crank breaks, a clutch closes.

`restitution` makes an event an impact; `apply` changes velocities, parameters or the constraints that are enforced. The
state is made consistent afterwards: velocities jump by the impulses of the joints, multipliers are solved for anew.
"""

import numpy as np
from scipy.special import ellipk, ellipkinc

import dalembert as da

# --- a pendulum between a wall and gravity, against the closed form
pendulum = da.problems()["pendulum"]  # g = 13.7503... for a period of 2 from the horizontal
g = pendulum.system.parameters.defaults["g"]
wall = da.Event(lambda q: q[0] + 0.5, restitution=0.9, terminal=20, name="wall")
bounce = da.solve(pendulum.system, (0, 100), q0=[1, 0], v0=[0, 0], events=wall, method=da.Explicit(8), rtol=1e-12,
                  atol=1e-13)  # fmt: skip


def fall(amplitude, angle=-np.pi / 6):
    """Time from rest at an amplitude to an angle: (K(k) - F(phi, k)) / sqrt(g / L)."""
    k = np.sin(amplitude / 2)
    return (ellipk(k**2) - ellipkinc(np.arcsin(np.sin(angle / 2) / k), k**2)) / np.sqrt(g)


times, speed = [fall(np.pi / 2)], np.sqrt(2 * g * np.cos(np.pi / 6))
for _ in range(19):
    speed *= 0.9
    times.append(times[-1] + 2 * fall(np.arccos(np.cos(np.pi / 6) - speed**2 / (2 * g))))
print(bounce.message)
error = np.abs(bounce.t_events[0] / times - 1).max()
print(f"impacts: {bounce.t_events[0].size}, largest relative error of their times: {error:.0e}")
first = bounce.jumps[0]
print(f"first impact at t = {first.t:.6f}: the wall gives {first.contact['wall']:.4f} N s, the rod {first.lam[0]:+.4f}")

# --- the coupler of a slider crank breaks when its force is too large
crank = da.System(
    q=["x", "y", "s"],  # crank pin, slider
    mass=[1.0, 1.0, 2.0],
    force=lambda q: [-q[1], q[0] - 2.0, -0.5 * q[2]],
    constraints=lambda q: {"crank": q[0] ** 2 + q[1] ** 2 - 1, "coupler": (q[2] - q[0]) ** 2 + q[1] ** 2 - 4},
)
start = da.consistent(crank, [0.6, 0.8, 2.4], [-0.8, 0.6, -1.1])
snap = da.Event(lambda lam: 4 * np.abs(lam[1]) - 1.4, apply=lambda state: state.release("coupler"), name="overload")
broken = da.solve(crank, (0, 3), start.q, start.v, events=snap, rtol=1e-9, atol=1e-11)
i = broken.breaks[0]
print(f"coupler breaks at t = {broken.t[i]:.6f}: lam = {broken.lam[i - 1].round(4)} -> {broken.lam[i].round(4)}")

# --- a clutch closes: angular momentum is kept, energy is not
shafts = da.System(
    q=["a", "b"],
    mass=[2.0, 3.0],
    constraints=lambda q, p: {"clutch": q[0] - q[1] - p.offset},
    parameters={"offset": 0.0},
)


def close(q, p, state):
    p.offset = q[0] - q[1]  # lock it where it is
    state.engage("clutch")


clutch = da.solve(shafts, (0, 2), [0, 0], [5.0, 0.0], released="clutch",
                  events=da.Event(lambda t: t - 1, apply=close, name="close"))  # fmt: skip
print(f"clutch: speeds {clutch.v[0]} -> {clutch.v[-1]}, impulse {clutch.jumps[0].lam[0]:.4f}")
