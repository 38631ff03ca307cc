"""Baumgarte's parameter gamma: too small, good, too large, and why there is no value for everything.

g'' + 2 gamma g' + gamma^2 g = 0 lets constraint errors decay with the rate gamma instead of growing.
"""

import numpy as np

import dalembert as da

pendulum = da.problems()["pendulum"]  # period 2, back at the start after 50 periods


def swing(gamma):
    """The pendulum over 50 periods with error control: error at the end, drift, steps."""
    sol = da.solve(pendulum.system, (0, 100), pendulum.q0, pendulum.v0, formulation=da.Baumgarte(gamma=gamma))
    return np.abs(sol.v[-1] - pendulum.v0).max(), sol.drift.largest["position"], sol.stats.steps, sol.stats.rejected


def variable_coefficients(gamma, number):
    """Backward Euler with h = 0.01 on Example 1 or 2 of Ascher & Petzold with nu = 1000, solution (1, 1) e^t."""
    problem = da.problems()[f"ascher-petzold-{number}"]
    sol = da.solve(problem.system, problem.t_span, problem.q0, method="backward-euler", h=0.01,
                   formulation=da.Baumgarte(gamma=gamma), parameters={"nu": 1000.0})  # fmt: skip
    return np.abs(sol.v[-1] - np.e).max()


if __name__ == "__main__":
    print("pendulum, 50 periods, BDF with error control")
    for gamma, verdict in ((0.1, "too small"), (100.0, "good"), (1e4, "too large")):
        error, drift, steps, rejected = swing(gamma)
        work = f"{steps} steps, {rejected} rejected"
        print(f"  gamma = {gamma:<6g} {verdict:10s} drift {drift:.1e}, {work}, error {error:.1e}")
    print("backward Euler, h = 0.01: error at t = 1")
    for gamma in (1.0, 100.0, 1e3, 1e4):
        fast, stiff = (variable_coefficients(gamma, number) for number in (1, 2))
        print(f"  gamma = {gamma:<6g} constraint that turns fast {fast:.1e}, stiff geometry {stiff:.1e}")
