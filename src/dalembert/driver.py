"""`solve` and `consistent`: the only place that knows models, formulations, methods and numerics together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, cast

import numpy as np

from dalembert.certificate import Context
from dalembert.formulations.base import Formulation, as_formulation
from dalembert.formulations.index1 import Index1
from dalembert.integrators.base import Integrator, as_method
from dalembert.integrators.bdf import BDF
from dalembert.integrators.radau import Radau
from dalembert.joined import make_solution
from dalembert.model.released import chosen, with_released
from dalembert.model.system import System
from dalembert.numerics.compiled import integrate
from dalembert.numerics.projection import Projection
from dalembert.runtime import arguments
from dalembert.runtime.assembly import make_layout
from dalembert.runtime.automatic import Automatic
from dalembert.runtime.consistency import nearest
from dalembert.runtime.event import as_events
from dalembert.runtime.jumps import Jumps
from dalembert.runtime.plan import Plan
from dalembert.runtime.prepare import Initial, as_projection, assembly_for, check_pair, prepare_start
from dalembert.runtime.progress import progress_bar
from dalembert.runtime.redundancy import Redundancy, find_redundancy, refusal, spread_state
from dalembert.runtime.restore import restore
from dalembert.runtime.segments import Follow, Start, in_turn, run_segments
from dalembert.runtime.start import initial_row, put_on_space, solve_contact
from dalembert.runtime.wishes import Wishes, wishes_of
from dalembert.solution import PARTS, Drift, Solution, State
from dalembert.status import OptionError, RedundantError

FIXED_AGAIN, SMALLEST_AGAIN = (1e-7, 1e-9), 1e-12  # tolerances of second runs, see `_again`


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
    arguments.check_common(system, initial)
    t0, t1 = arguments.times(t_span)
    arguments.check_choice("method", method, Integrator, "da.BDF()")
    if formulation is not None:
        arguments.check_choice("formulation", formulation, Formulation, "da.Index1()")
    n = system.nq + system.nv + system.nr
    every_rtol, every_atol = arguments.tolerance("rtol", rtol, n), arguments.tolerance("atol", atol, n)
    p = system.parameters.vector(parameters)
    values = {**system.initial_values(q0, v0), "r": r0, "w": w0, "s": s0}
    arguments.check_redundant(redundant)
    automatic, reason = None, "start"
    loosest = max(*every_rtol.tolist(), *every_atol.tolist())
    if isinstance(method, str) and method == "auto":
        automatic = Automatic(system, formulation, projection, min(every_rtol.tolist()), h is not None, loosest)
        choice = automatic.first(t0, values, p)
        chosen_method, the_formulation, reason = choice.method, choice.formulation, choice.reason
    else:
        chosen_method = as_method(method)
        the_formulation = as_formulation(formulation, chosen_method.default_formulation)
    if h is None and not system.space.flat:
        chosen_method = chosen_method.for_space(system.space, the_formulation, loosest)
    the_method, the_formulation, the_projection = _chosen(system, chosen_method, the_formulation, projection, h)
    plan = Plan(
        t0=t0,
        t1=t1,
        rtol=every_rtol,
        atol=every_atol,
        max_step=arguments.positive("max_step", max_step),
        max_steps=arguments.max_steps(max_steps),
        h=h,
        t_eval=arguments.t_eval(t_eval, t0, t1),
        events=as_events(events),
        discontinuities=arguments.discontinuities(discontinuities, t0, t1),
    )
    start = Start(
        system=with_released(system, chosen(system, released) if len(released) else ()),
        method=the_method,
        formulation=the_formulation,
        projection=the_projection,
        p=p,
        t=t0,
        values=values,
        initial=initial,
        first_step=first_step if first_step is None else arguments.positive("first_step", first_step),
        reason=reason,
        **({} if automatic is None else automatic.watch(the_method, the_formulation)),
    )
    jumps = Jumps(plan)
    follow: Follow = jumps.follow
    if automatic is not None:
        follow = in_turn(jumps.follow, automatic.follow)
    integrate()  # compiled once per machine: not part of the run's time
    try:
        with progress_bar(progress, t0, t1, system.name) as tick:
            story = run_segments(start, plan, follow, tick, jumps.begin)
    except RedundantError:  # before the first step
        more = {"r": r0, "w": w0, "s": s0}
        found = _redundancy(system, (t0, t1), q0, v0, more, p, initial, float(every_atol.max()))
        if found is None or released:
            raise
        if redundant == "refuse":
            raise RedundantError(refusal(found[0])) from None
        sol = solve(
            found[0].reduced, t_span, *found[1], method=method, formulation=formulation, projection=projection,
            rtol=rtol, atol=atol, h=h, t_eval=t_eval, events=events, first_step=first_step, max_step=max_step,
            max_steps=max_steps, parameters=parameters, initial=initial, progress=progress,
            discontinuities=discontinuities, r0=r0, w0=w0, s0=s0,
        )  # fmt: skip
        out = cast(Solution, restore(found[0], sol, p, Drift))
        if sol.context is not None:
            out.context = replace(sol.context, system=system, redundancy=found[0])
        return out
    sol = make_solution(story, plan, jumps)
    if not sol.jumps:
        rest = {"discontinuities": discontinuities, "released": released, "r0": r0, "w0": w0, "s0": s0}
        again = _again(system, (q0, v0), plan, the_method, parameters, initial, rest)
        sol.context = Context(start.system, p, plan.rtol, plan.atol, h is not None, again)
    return sol


def _chosen(
    system: System, method: Integrator, formulation: Formulation, projection: str | Projection | None, h: Any
) -> tuple[Integrator, Formulation, Projection | None]:
    """The method for this kind of steps, refused if it does not suit, the formulation and the projection.

    Found out once: later runs get the same objects, which are quicker to find than equal ones.
    """
    if not (projection is None or isinstance(projection, (str, Projection))):
        raise OptionError(f"projection={projection!r}: give 'default', None or da.Projection(...).")
    known: dict[Any, tuple[Integrator, Formulation, Projection | None]] = system.__dict__.setdefault("_choices", {})
    key = method, formulation, projection, h is not None, h is not None and np.ndim(h) > 0
    if key not in known:
        the_method = method.for_run(*key[3:])
        check_pair(system, the_method, formulation)
        known[key] = the_method, formulation, as_projection(projection, system, formulation, the_method)
    return known[key]


def _again(
    system: System,
    start: tuple[Any, Any],
    plan: Plan,
    method: Integrator,
    parameters: Mapping[str, Any] | None,
    initial: Initial,
    more: dict[str, Any],
) -> Callable[[float], Solution]:
    """The same run by another family of methods, at a fraction of the tolerance (of FIXED_AGAIN for fixed steps).

    It does not hold the first solution, which holds it: a cycle would keep both until Python looks for such.
    """

    def again(t1: float) -> Solution:
        # errors add up more in BDF, which makes the second runs of one-step methods
        part = 1e-3 if method.one_step else 1e-2
        rtol, atol = (plan.rtol, plan.atol) if plan.h is None else FIXED_AGAIN
        rtol, atol = np.maximum(part * rtol, SMALLEST_AGAIN), np.maximum(part * atol, 1e-2 * SMALLEST_AGAIN)
        return solve(
            system, (plan.t0, t1), *start, method=BDF() if method.one_step else Radau(stages=5),
            formulation=Index1(), rtol=rtol, atol=atol, parameters=parameters,
            initial="assume" if initial == "assume" else "project", **more,
        )  # fmt: skip

    return again


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
    found = _redundancy(system, (t0, t0 + 1.0), q0, v0, {"r": r0, "w": w0, "s": s0}, p, initial, 1e-8, wishes)
    if found is not None:
        state = consistent(
            found[0].reduced, *found[1], t0, parameters=parameters, initial="assume", r0=r0, w0=w0, s0=s0
        )
        return cast(State, spread_state(found[0], state, p))
    layout = make_layout(system, method, formulation)
    row = initial_row(system, layout, **system.initial_values(q0, v0), r=r0, w=w0, s=s0)
    work = assembly_for(system, method, formulation, Projection(), t0, t0 + 1.0, row, p).workspace(p)
    prepare_start(work, t0, row, initial, 1e-8, wishes)
    return State(t=t0, **{name: row[layout.slice(name)].copy() for name in PARTS})


def _redundancy(
    system: System,
    t_span: tuple[float, float],
    q0: Any,
    v0: Any,
    more: dict[str, Any],
    p: np.ndarray,
    initial: Initial,
    tolerance: float,
    wishes: Wishes | None = None,
) -> tuple[Redundancy, tuple[Any, Any]] | None:
    """Constraints too many at the start, if any, and the (consistent) q0, v0 to start without them."""
    if system.nlam + system.nmu < 2:
        return None
    layout = make_layout(system, BDF(), Index1())
    row = initial_row(system, layout, **system.initial_values(q0, v0), **more)
    put_on_space(system, layout, row, initial, tolerance)
    solve_contact(system, t_span[0], row, layout, p)
    if initial == "project":
        nearest(system, layout, p, t_span[0], row, wishes)
    allowed = tolerance if initial == "check" else None
    found = find_redundancy(system, layout, p, t_span[0], t_span[1] - t_span[0], row, allowed)
    if found is None:
        return None
    q, v = row[layout.slice("q")], row[layout.slice("v")]
    return found, (q, v) if system.nq else (v, None)
