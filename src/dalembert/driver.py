"""`solve` and `consistent`: the only place that knows models, formulations, methods and numerics together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dalembert.formulations.base import Formulation, as_formulation
from dalembert.integrators.base import Integrator, as_method
from dalembert.integrators.bdf import BDF
from dalembert.joined import make_solution
from dalembert.model.released import chosen, with_released
from dalembert.model.system import System
from dalembert.numerics.compiled import integrate
from dalembert.numerics.projection import Projection
from dalembert.runtime import arguments
from dalembert.runtime.assembly import make_layout
from dalembert.runtime.automatic import Automatic
from dalembert.runtime.event import as_events
from dalembert.runtime.jumps import Jumps
from dalembert.runtime.plan import Plan
from dalembert.runtime.prepare import Initial, as_projection, assembly_for, prepare_start
from dalembert.runtime.progress import progress_bar
from dalembert.runtime.segments import Follow, Start, in_turn, run_segments
from dalembert.runtime.start import initial_row
from dalembert.runtime.wishes import wishes_of
from dalembert.solution import PARTS, Solution, State
from dalembert.status import OptionError


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
    arguments.check_common(system, initial)
    t0, t1 = arguments.times(t_span)
    arguments.check_choice("method", method, Integrator, "da.BDF()")
    if formulation is not None:
        arguments.check_choice("formulation", formulation, Formulation, "da.Index1()")
    n = system.nq + system.nv + system.nr
    tolerances = {"rtol": arguments.tolerance("rtol", rtol, n), "atol": arguments.tolerance("atol", atol, n)}
    p = system.parameters.vector(parameters)
    values = {**system.initial_values(q0, v0), "r": r0, "w": w0, "s": s0}
    automatic, reason = None, "start"
    if isinstance(method, str) and method == "auto":
        automatic = Automatic(system, formulation, projection, float(tolerances["rtol"].min()), h is not None)
        choice = automatic.first(t0, values, p)
        the_method, the_formulation, reason = choice.method.for_run(h is not None), choice.formulation, choice.reason
    else:
        the_method = as_method(method).for_run(h is not None)
        the_formulation = as_formulation(formulation, the_method.default_formulation)
    the_method.check(system, the_formulation)
    plan = Plan(
        t0=t0,
        t1=t1,
        **tolerances,
        max_step=arguments.positive("max_step", max_step),
        max_steps=arguments.max_steps(max_steps),
        h=h,
        t_eval=arguments.t_eval(t_eval, t0, t1),
        events=as_events(events),
        discontinuities=arguments.discontinuities(discontinuities, t0, t1),
    )
    start = Start(
        system=with_released(system, chosen(system, released)),
        method=the_method,
        formulation=the_formulation,
        projection=as_projection(projection, system, the_formulation, the_method),
        p=p,
        t=t0,
        values=values,
        initial=initial,
        first_step=first_step if first_step is None else arguments.positive("first_step", first_step),
        reason=reason,
    )
    jumps = Jumps(plan)
    follow: Follow = jumps.follow
    if automatic is not None:
        start, follow = automatic.watched(start), in_turn(jumps.follow, automatic.follow)
    integrate()  # compiled once per machine: not part of the run's time
    with progress_bar(progress, t0, t1, system.name) as tick:
        story = run_segments(start, plan, follow, tick, jumps.begin)
    return make_solution(story, plan, jumps)


def consistent(
    system: System,
    q0: Any = None,
    v0: Any = None,
    t0: float = 0.0,
    *,
    parameters: Mapping[str, Any] | None = None,
    initial: Initial = "project",
    fixed: Sequence[str | int] | str | None = None,
    weights: Any = None,
    max_iterations: int = 200,
    r0: Any = None,
    w0: Any = None,
    s0: Any = None,
) -> State:
    """The nearest state that satisfies all constraints, with its multipliers and accelerations.

    Positions are moved onto the position constraints, to the point nearest to the guess; then velocities onto the
    velocity constraints. The guess may be crude (assembly of a mechanism).

    Parameters
    ----------
    system, q0, v0, t0, parameters, initial, r0, w0, s0
        As for `solve`; q0 is the guess.
    fixed
        Names of coordinates and of velocities (or indices of coordinates) that keep the values given.
    weights
        What counts as near: None (all alike), "mass", one positive number for each velocity, a dict from coordinate to
        number (others 1), or a symmetric positive definite matrix (nv, nv). A large weight: moves little.
    max_iterations
        Bound for the iterations from the guess, and from each of the guesses tried beside it if it leads nowhere.

    Raises
    ------
    InconsistentError
        If the constraints cannot be met: names them, with their residuals and what would help.

    Examples
    --------
    >>> import dalembert as da
    >>> state = da.consistent(da.problems()["pendulum"].system, [2.0, 0.0], [1.0, 1.0])
    >>> state.q, state.v
    (array([1., 0.]), array([0., 1.]))
    >>> da.consistent(da.problems()["pendulum"].system, [0.6, 0.1], fixed=["x"]).q
    array([0.6, 0.8])
    """
    arguments.check_common(system, initial)
    t0 = float(arguments.numbers("t0", t0))
    if not np.isfinite(t0):
        raise OptionError(f"t0={t0} must be finite.")
    method = BDF()
    formulation = as_formulation(None, method.default_formulation)
    p = system.parameters.vector(parameters)
    wishes = wishes_of(system, fixed, weights, max_iterations)
    layout = make_layout(system, method, formulation)
    row = initial_row(system, layout, **system.initial_values(q0, v0), r=r0, w=w0, s=s0)
    work = assembly_for(system, method, formulation, Projection(), t0, t0 + 1.0, row, p).workspace(p)
    prepare_start(work, t0, row, initial, 1e-8, wishes)
    return State(t=t0, **{name: row[layout.slice(name)].copy() for name in PARTS})
