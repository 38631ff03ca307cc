"""General linear methods: a method is its coefficients. Define your own, and see what is said about a bad one."""

import numpy as np

import dalembert as da

glm = da.glm


def bdf2(order=2, root=1 / 3):
    """Two past velocities and one stage: v+ = (1 + root) v - root v_past + h (1 - root) a+, and the same for q.

    It is exact for v of degree 2 if root = 1/3, which makes it BDF of order 2, and stable if root <= 1.
    """
    past, stage = np.array([1 + root, -root]), 1 - root
    shift, zero = [1, 0], [0, 0]
    return glm.Tableau.from_blocks(
        "my own", order, c=[1],
        A=[past, shift], B=[stage * past, zero], D=[[stage**2], [0]], E=[past, shift], F=[[stage], [0]],
        At=[past], Bt=[stage * past], Dt=[[stage**2]], Et=[past], Ft=[[stage]],
    )  # fmt: skip


def errors(method, name, n):
    """Largest errors of q, v and lam in n steps over half a second, once the starting values are forgotten."""
    problem = da.problems()[name]
    t0 = problem.t_span[0]
    sol = da.solve(problem.system, (t0, t0 + 0.5), problem.q0, problem.v0, method=da.GeneralLinear(method), h=0.5 / n)
    late = sol.t > t0 + 0.1
    exact = problem.reference(sol.t[late])
    return np.array([np.abs(getattr(sol, what)[late] - exact[what]).max() for what in ("q", "v", "lam")])


def orders(method, name, counts):
    """Observed orders; in brackets where the error is below 1e-12, that of the starting values."""
    coarse, fine = (errors(method, name, n) for n in counts)
    slopes = np.log(coarse / fine) / np.log(counts[1] / counts[0])
    return [f"{x:.2f}" if size > 1e-12 else f"({x:.2f})" for x, size in zip(slopes, fine, strict=True)]


if __name__ == "__main__":
    print("orders of q, v and lam on index 3:")
    for method in (bdf2(), glm.from_bdf(2), glm.multistep_radau(steps=2, stages=2)):
        print(f"  {method.name:36}", *orders(method, "particle-on-circle", (80, 160)))
    print("refused:")
    for options in ({"root": 0.4}, {"order": 1, "root": 1.25}):
        try:
            bdf2(**options)
        except ValueError as error:
            print(f"  {error}")
