"""Events: zeros of functions of the state, located during the run.

`direction` picks the sign of the crossing, `terminal` ends the run (True, or after that many occurrences). Events ask
for their arguments by name, like the functions of a model.
"""

import numpy as np

import dalembert as da

problem = da.problems()["pendulum"]  # released from the horizontal, period 2


def bottom(q):
    return q[0]


def turning_point(v):
    return v[0]


def rod_force(lam):
    return lam[0] - 20.0


turning_point.direction = -1  # v[0] changes from + to -: the right-hand end
turning_point.terminal = 3  # stop at the third one
rod_force.direction = 1

sol = da.solve(problem.system, (0, 100), q0=problem.q0, v0=problem.v0, rtol=1e-9, atol=1e-10,
               events=[bottom, turning_point, rod_force])  # fmt: skip
print(sol.message)
print("at the bottom:       ", np.round(sol.t_events[0], 6), "(exact: 0.5, 1.5, ...)")
print("right-hand end:      ", np.round(sol.t_events[1], 6))
print("rod force exceeds 20:", np.round(sol.t_events[2], 6))
print("speed at the bottom: ", np.round(np.abs(sol.events[0].v[:, 0]), 6))
