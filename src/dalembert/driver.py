"""`solve` and `prepare`: the only place that knows models, formulations, methods and numerics together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from dalembert.formulations.base import Formulation
from dalembert.initial import consistent
from dalembert.integrators.base import Integrator
from dalembert.model.system import System
from dalembert.numerics.projection import Projection
from dalembert.prepared import Prepared
from dalembert.runtime.prepare import Initial
from dalembert.solution import Solution

__all__ = ["consistent", "prepare", "solve"]


def solve(
    system: System,
    t_span: Sequence[float],
    q0: Any = None,
    v0: Any = None,
    *,
    method: str | Integrator = "auto",
    formulation: str | Formulation | None = None,
    projection: str | Projection | None = "default",
    rtol: Any = 1e-6,
    atol: Any = 1e-8,
    h: Any = None,
    t_eval: Any = None,
    events: Any = None,
    first_step: float | None = None,
    max_step: float = np.inf,
    max_steps: int | None = None,
    parameters: Mapping[str, Any] | None = None,
    initial: Initial = "check",
    progress: bool = False,
    discontinuities: Any = (),
    released: str | Sequence[str] = (),
    redundant: Literal["resolve", "refuse"] = "resolve",
    r0: Any = None,
    w0: Any = None,
    s0: Any = None,
) -> Solution:
    """Integrate a constrained mechanical system.

    Parameters
    ----------
    system
        The equations of motion.
    t_span
        Start and end time; the end may lie before the start.
    q0, v0
        Initial positions (nq,) and velocities (nv,), consistent with the constraints; v0 defaults to rest.
    method, formulation
        Names or objects, see `dalembert.methods` and `dalembert.formulations`. "auto" chooses, changes the method when
        stiffness comes or goes, and says why in ``stats.segments``.
    projection
        "default" (what suits the formulation), None, or a `dalembert.Projection`.
    rtol, atol
        The local error of component y is kept below ``atol + rtol |y|``; scalars, or one number for each component of
        (q, v, r).
    h
        Fixed step size (the last step is shortened to hit the end) or a list of step sizes; no error control then.
    t_eval
        Times at which to store the solution, instead of at every step.
    events
        `dalembert.Event` objects, or functions of named arguments whose zeros are located, with the optional attributes
        ``terminal`` (bool, or the number of occurrences after which to stop), ``direction`` (+1, -1 or 0), ``apply``
        and ``restitution``; one or a list.
    first_step, max_step, max_steps
        Bounds for the step size control; ``max_steps`` limits the number of accepted steps.
    parameters
        Parameter values that differ from those of the system.
    initial
        "check": refuse inconsistent values; "project": move them to the nearest consistent ones; "assume": trust them.
    progress
        Show a progress bar.
    discontinuities
        Times at which the right-hand side jumps. Steps end there; the model is evaluated on either side, never at the
        jump itself, and multistep methods begin anew.
    released
        Names of constraints that are not enforced to begin with; events can engage them, see `dalembert.Event`.
    redundant
        Constraints that follow from others: "resolve" leaves them out of the run, distributes the reactions among all
        by the multipliers of smallest norm, and says so in ``sol.stats`` (``redundant``, ``undetermined``,
        ``warnings``); "refuse" raises. Those that contradict each other are refused in any case.
    r0, w0, s0
        Initial dynamic states; guesses for auxiliary variables and contact coordinates.

    Returns
    -------
    Solution
        With everything computed, also if the run ended early (see ``success`` and ``message``).

    Examples
    --------
    >>> import dalembert as da
    >>> problem = da.problems()["pendulum"]
    >>> sol = da.solve(problem.system, (0, 10), q0=[1, 0], v0=[0, 0], rtol=1e-8)
    >>> sol.success
    True
    """
    run = prepare(
        system, t_span, method=method, formulation=formulation, projection=projection, rtol=rtol, atol=atol, h=h,
        t_eval=t_eval, events=events, first_step=first_step, max_step=max_step, max_steps=max_steps,
        parameters=parameters, initial=initial, progress=progress, discontinuities=discontinuities, released=released,
        redundant=redundant,
    )  # fmt: skip
    return run(q0, v0, r0=r0, w0=w0, s0=s0)


def prepare(
    system: System,
    t_span: Sequence[float],
    *,
    method: str | Integrator = "auto",
    formulation: str | Formulation | None = None,
    projection: str | Projection | None = "default",
    rtol: Any = 1e-6,
    atol: Any = 1e-8,
    h: Any = None,
    t_eval: Any = None,
    events: Any = None,
    first_step: float | None = None,
    max_step: float = np.inf,
    max_steps: int | None = None,
    parameters: Mapping[str, Any] | None = None,
    initial: Initial = "check",
    progress: bool = False,
    discontinuities: Any = (),
    released: str | Sequence[str] = (),
    redundant: Literal["resolve", "refuse"] = "resolve",
) -> Prepared:
    """Set up a run that is to be made many times, from different initial values or with different parameters.

    Options are checked here, once, and a call of what is returned does nothing but integrate: for parameter studies,
    optimisation, control, or short runs one after the other.

    Parameters
    ----------
    system, t_span, method, formulation, projection, rtol, atol, h, t_eval, events, first_step, max_step, max_steps
        As for `solve`.
    parameters
        Parameter values that differ from those of the system; a call may change them, or others, once more.
    initial, progress, discontinuities, released, redundant
        As for `solve`.

    Returns
    -------
    Prepared
        Call it with q0 and v0 (and r0, w0, s0, parameters) for a `Solution`, the same as that of `solve`.

    Examples
    --------
    >>> import dalembert as da
    >>> problem = da.problems()["pendulum"]
    >>> swing = da.prepare(problem.system, (0, 0.5), t_eval=[0.5])
    >>> [round(float(swing([1, 0], [0, 0], parameters={"g": g}).q[-1, 1]), 4) for g in (9.81, 1.62)]
    [-0.9204, -0.2008]
    """
    return Prepared(system, t_span, {
        "method": method, "formulation": formulation, "projection": projection, "rtol": rtol, "atol": atol, "h": h,
        "t_eval": t_eval, "events": events, "first_step": first_step, "max_step": max_step, "max_steps": max_steps,
        "parameters": parameters, "initial": initial, "progress": progress, "discontinuities": discontinuities,
        "released": released, "redundant": redundant,
    })  # fmt: skip
