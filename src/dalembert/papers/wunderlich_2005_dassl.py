"""A general DAE code in the role that DASSL has in Wunderlich 2005: index 3 as a first-order system.

[W05] L. Wunderlich, Numerical treatment of second order differential-algebraic systems, diploma thesis, TU Berlin 2005,
      section 8.1.

DASSL's successor IDA does it, through scikit-sundae if that is installed (it is optional); otherwise our own BDF on the
same equations without projection. Neither is DASSL, and what is shown carries the name of the code that made it.
IDA tests the error of the multipliers too, as DASSL does: their tolerance has to be loose.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from functools import cache
from typing import Any

import casadi as ca
import numpy as np

from dalembert.driver import consistent, solve
from dalembert.formulations import Index3
from dalembert.integrators.bdf import BDF
from dalembert.model.point import Environment
from dalembert.problems.base import problems

MOST_STEPS = 100_000
IDA, OWN = "IDA (scikit-sundae), index 3", "BDF, index 3"


@dataclass(frozen=True)
class Points:
    """The steps of a run: times (n,), positions (n, nq), multipliers (n, nlam), and how the run ended."""

    code: str
    t: np.ndarray
    q: np.ndarray
    lam: np.ndarray
    message: str = ""

    @property
    def steps(self) -> int:
        return self.t.size - 1


def installed() -> bool:
    """Is scikit-sundae there?"""
    return importlib.util.find_spec("sksundae") is not None


@cache
def in_the_role_of_dassl(
    name: str, rtol: float, atol: float | tuple[float, ...], atol_lam: float, max_step: float = 0.0
) -> Points:
    """The steps of IDA, or of our BDF without it, over the time span of a problem.

    Parameters
    ----------
    name
        Of a problem.
    rtol, atol, atol_lam
        Tolerances; ``atol`` of (q, v).
    max_step
        Largest step, 0 for no limit.
    """
    if installed():
        return _ida(name, rtol, atol, atol_lam, max_step)
    problem = problems()[name]
    sol = solve(
        problem.system, problem.t_span, problem.q0, problem.v0, method=BDF(control="step"), formulation="index-3",
        projection=None, rtol=rtol, atol=np.array(atol), max_step=max_step or np.inf,
    )  # fmt: skip
    return Points(OWN, sol.t, sol.q, sol.lam, sol.message)


def _ida(name: str, rtol: float, atol: float | tuple[float, ...], atol_lam: float, max_step: float) -> Points:
    from sksundae.ida import IDA as Solver

    problem = problems()[name]
    system, (t0, t1) = problem.system, problem.t_span
    nq, nlam = system.nq, system.nlam
    residual = _residual(name)
    state = consistent(system, problem.q0, problem.v0, t0)
    y0 = np.concatenate([state.q, state.v, state.lam])
    slope = np.concatenate([state.v, state.a, np.zeros(nlam)])

    def equations(t: float, y: np.ndarray, yp: np.ndarray, out: np.ndarray) -> None:
        out[:] = np.asarray(residual(t, y, yp)).ravel()

    options: dict[str, Any] = {"max_step": max_step} if max_step else {}
    loose = np.concatenate([np.broadcast_to(np.asarray(atol, dtype=float), 2 * nq), np.full(nlam, atol_lam)])
    solver = Solver(
        equations, rtol=rtol, atol=loose, algebraic_idx=list(range(2 * nq, 2 * nq + nlam)), max_num_steps=MOST_STEPS,
        **options,
    )  # fmt: skip
    solver.init_step(t0, y0, slope)
    times, rows, message = [t0], [y0], "The end of the time span was reached."
    while times[-1] < t1 and len(times) < MOST_STEPS:
        now = solver.step(t1, method="onestep", tstop=t1)
        if not now.success:
            message = f"stopped at t = {times[-1]:.4g}: {now.message}"
            break
        times.append(float(np.ravel(now.t)[-1]))
        rows.append(np.array(now.y, dtype=float).ravel()[-y0.size :])
    y = np.array(rows)
    return Points(IDA, np.array(times), y[:, :nq], y[:, 2 * nq :], message)


@cache
def _residual(name: str) -> ca.Function:
    """F(t, x, x') of the index-3 form, x = (q, v, lam)."""
    system, form = problems()[name].system, Index3()
    t, p = ca.SX.sym("t"), ca.SX(system.parameters.vector(None))
    blocks = [u for u in form.unknowns(system) if u.size]
    x = {u.name: ca.SX.sym(u.name, u.size) for u in form.unknowns(system)}
    x_dot = {u.name: ca.SX.sym(f"{u.name}'", u.size) for u in form.unknowns(system)}
    env = Environment(system, p, ca.SX(form.choose_data(system, np.zeros((system.nlam, system.nv)))))
    rows = ca.vertcat(*[row.expr for row in form.equations(env, t, x, x_dot)])
    unknowns = ca.vertcat(*[x[u.name] for u in blocks])
    return ca.Function("F", [t, unknowns, ca.vertcat(*[x_dot[u.name] for u in blocks])], [rows])
