"""`solve` and `consistent`: the only place that knows models, formulations, methods and numerics together."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from dalembert.formulations.base import At, Formulation, as_formulation
from dalembert.formulations.index1 import Index1
from dalembert.integrators.base import Integrator, as_method
from dalembert.integrators.bdf import BDF
from dalembert.model.system import System
from dalembert.numerics import runstate
from dalembert.numerics.compiled import evaluate as evaluate_dense
from dalembert.numerics.compiled import integrate
from dalembert.numerics.newton import FACTORIZATIONS, ITERATIONS, LAPACK, RESIDUALS
from dalembert.numerics.projection import LEVELS, Projection
from dalembert.runtime import arguments, report
from dalembert.runtime.assembly import Assembly, Workspace, assemble, make_layout
from dalembert.runtime.events import EventSet, compile_events
from dalembert.runtime.progress import progress_bar
from dalembert.runtime.run import Options, Result, Starter, execute, slope, spread, translate
from dalembert.runtime.start import (
    check_model,
    evaluate,
    initial_row,
    nearest,
    not_finite,
    point_values,
    put_on_space,
    solve_contact,
    violations,
)
from dalembert.solution import PARTS, Drift, Solution, State
from dalembert.status import InconsistentError, ModelError, OptionError, Stats, Status

Initial = Literal["check", "project", "assume"]


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
        Names or objects, see `dalembert.methods` and `dalembert.formulations`.
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
        A function or a list of functions of named arguments whose zeros are located, with the optional attributes
        ``terminal`` (bool, or the number of occurrences after which to stop) and ``direction`` (+1, -1 or 0).
    first_step, max_step, max_steps
        Bounds for the step size control; ``max_steps`` limits the number of accepted steps.
    parameters
        Parameter values that differ from those of the system.
    initial
        "check": refuse inconsistent values; "project": move them to the nearest consistent ones; "assume": trust them.
    progress
        Show a progress bar.
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
    begin = time.perf_counter()
    arguments.check_common(system, initial)
    t0, t1 = arguments.times(t_span)
    arguments.check_choice("method", method, Integrator, "da.BDF()")
    if formulation is not None:
        arguments.check_choice("formulation", formulation, Formulation, "da.Index1()")
    the_method = as_method(method, BDF).for_run(h is not None, np.ndim(h) > 0)
    the_formulation = as_formulation(formulation, the_method.default_formulation)
    the_method.check(system, the_formulation)
    the_projection = as_projection(projection, system, the_formulation, the_method)
    n = system.nq + system.nv + system.nr
    options = Options(
        t0=t0,
        t1=t1,
        rtol=arguments.tolerance("rtol", rtol, n),
        atol=arguments.tolerance("atol", atol, n),
        first_step=0.0,
        max_step=arguments.positive("max_step", max_step),
        max_steps=arguments.max_steps(max_steps),
        steps=arguments.steps(h, t0, t1),
        t_eval=arguments.t_eval(t_eval, t0, t1),
    )
    p = system.parameters.vector(parameters)

    given = system.initial_values(q0, v0)
    layout = make_layout(system, the_method, the_formulation)
    row = initial_row(system, layout, **given, r=r0, w=w0, s=s0)
    if options.steps is not None:
        the_method.check_steps(options.steps, t1 - t0)
    arguments.check_tolerances(options, np.abs(row[layout.indices(("q", "v", "r"))]), the_method)
    assembly = _assembly(system, the_method, the_formulation, the_projection, t0, t1, row, p)
    work = assembly.workspace(p)
    prepare_start(work, t0, row, initial, float(options.atol.max()))
    _start_formulation(work, the_formulation, t0, row)
    _start_method(work, the_method, the_formulation, t0, row)
    event_set = compile_events(events, system, layout)
    if event_set.kernel is not None:
        event_set.kernel(row, np.concatenate([[t0], p]))  # a function that fails does so here
    options.event_kernel, options.event_rules = event_set.address, event_set.rules
    options.first_step = _first_step(first_step, work, row, options)
    starter = None
    if _starts_better(the_method, the_formulation, options):
        starter = _starter(work, the_formulation, options, row)
    integrate()  # compiled once per machine: not part of the run's time
    stats = Stats(
        compile_time=time.perf_counter() - begin,
        method=the_method.describe(),
        formulation=the_formulation.describe(),
        projection=the_projection.describe() if the_projection is not None and assembly.stages else "none",
    )

    begin = time.perf_counter()
    with progress_bar(progress, t0, t1, system.name) as tick:
        result = execute(work, the_method, the_formulation, row, options, tick, starter)
    stats.wall_time = time.perf_counter() - begin
    return _solution(work, result, options, event_set, stats, row)


def consistent(
    system: System,
    q0: Any = None,
    v0: Any = None,
    t0: float = 0.0,
    *,
    parameters: Mapping[str, Any] | None = None,
    initial: Initial = "project",
    r0: Any = None,
    w0: Any = None,
    s0: Any = None,
) -> State:
    """The nearest state that satisfies all constraints, with its multipliers and accelerations.

    Positions are moved orthogonally onto the position constraints, then velocities onto the velocity constraints.

    Examples
    --------
    >>> import dalembert as da
    >>> state = da.consistent(da.problems()["pendulum"].system, [2.0, 0.0], [1.0, 1.0])
    >>> state.q, state.v
    (array([1., 0.]), array([0., 1.]))
    """
    arguments.check_common(system, initial)
    t0 = float(arguments.numbers("t0", t0))
    if not np.isfinite(t0):
        raise OptionError(f"t0={t0} must be finite.")
    method = BDF()
    formulation = as_formulation(None, method.default_formulation)
    p = system.parameters.vector(parameters)
    layout = make_layout(system, method, formulation)
    row = initial_row(system, layout, **system.initial_values(q0, v0), r=r0, w=w0, s=s0)
    work = _assembly(system, method, formulation, Projection(), t0, t0 + 1.0, row, p).workspace(p)
    prepare_start(work, t0, row, initial, 1e-8)
    return State(t=t0, **{name: row[layout.slice(name)].copy() for name in PARTS})


def as_projection(
    given: str | Projection | None, system: System, formulation: Formulation, method: Integrator
) -> Projection | None:
    """The projection meant by the argument ``projection`` of `solve`."""
    if given is None or isinstance(given, Projection):
        return given
    if given == "default":
        if method.regular and "velocity" in formulation.satisfies:  # of one order more than those of the step equations
            return Projection(levels=("velocity",))
        kept = method.satisfies(formulation)
        if formulation.projects and not kept >= set(LEVELS):
            return Projection(**formulation.projection_options)
        if system.space.flat:
            return None
        # what the steps keep themselves; points between them have to be put back onto the group
        levels = tuple(x for x in LEVELS if x in kept)
        return Projection(levels=levels, invariants=False, steps=not method.keeps_constraints)
    raise OptionError(f"projection={given!r}: give 'default', None or da.Projection(...).")


def _assembly(
    system: System,
    method: Integrator,
    formulation: Formulation,
    projection: Projection | None,
    t0: float,
    t1: float,
    row: np.ndarray,
    p: np.ndarray,
) -> Assembly:
    """Compiled once per combination and kept with the system."""
    cache: dict[Any, Assembly] = system.__dict__.setdefault("_assemblies", {})
    key = (method.equations_key, formulation, projection)
    if key not in cache:
        start = {"t": t0, "row": row, "h": 1e-3 * (t1 - t0), "p": p}
        cache[key] = assemble(system, method, formulation, projection, start)
    return cache[key]


def _starts_better(method: Integrator, formulation: Formulation, options: Options) -> bool:
    """True if another method is to make the first points: for methods on a regular grid, and for fixed steps.

    The multipliers of index-2 and index-3 forms are differences of rounded values divided by h or h^2, and the tiny
    first steps of a variable-step start leave little of them.
    """
    if options.steps is None:
        return method.regular
    return not method.ramps and not (method.self_starting and formulation.projects)


def _starter(work: Workspace, formulation: Formulation, options: Options, row: np.ndarray) -> Starter:
    """BDF on the index-1 form, projected: starts itself, and its rows satisfy all constraints."""
    system, p = work.assembly.system, work.p
    first, form = BDF(), Index1()
    own = make_layout(system, first, form)
    begin = translate(row[None], work.assembly.layout, own)[0]
    its = _assembly(system, first, form, Projection(), options.t0, options.t1, begin, p).workspace(p)
    its.set_invariants(its.levels(options.t0, begin)["phi"])

    def finish(t: float, row: np.ndarray) -> None:
        _start_formulation(work, formulation, t, row)

    return Starter(its, first, form, finish)


def prepare_start(work: Workspace, t: float, row: np.ndarray, initial: Initial, tolerance: float) -> None:
    """Check or repair an initial row and complete it, in place."""
    system, layout = work.assembly.system, work.assembly.layout
    put_on_space(system, layout, row, initial, tolerance)
    solve_contact(system, t, row, layout, work.p)
    check_model(work, t, row)
    if initial == "project":
        nearest(work, t, row)
    elif initial == "check":
        wrong = violations(work, t, row, tolerance)
        if wrong:
            raise InconsistentError(
                "the initial values are not consistent: " + "; ".join(wrong) + ". Correct them, or use "
                "initial='project' to move to the nearest consistent state."
            )
        work.project(t, row)  # from within the tolerance to rounding level
    code = work.complete(t, row)
    error = work.assembly.take_error()
    if error is not None:
        raise error
    if code != 0:
        where = not_finite(system, layout, t, row, work.p)
        reason = where or f"the equations for accelerations and multipliers have no unique solution at t = {t:g}"
        raise ModelError(f"{reason}, the initial values; check them and the model.")
    work.set_invariants(work.levels(t, row)["phi"])


def _start_formulation(work: Workspace, formulation: Formulation, t: float, row: np.ndarray) -> None:
    """Initial values of the unknowns that a formulation adds, in place; refuses what cannot work at the start."""
    system, layout = work.assembly.system, work.assembly.layout
    for name, x in formulation.start(system, _values_at(work, t, row)).items():
        if layout.has(name):  # the first- and second-order forms of a formulation need not add the same
            row[layout.slice(name)] = x


def _start_method(work: Workspace, method: Integrator, formulation: Formulation, t: float, row: np.ndarray) -> None:
    """Initial values of what a method carries along, in place."""
    for name, x in method.start_carried(work.assembly.system, formulation, _values_at(work, t, row)).items():
        row[work.assembly.layout.slice(name)] = x


def _values_at(work: Workspace, t: float, row: np.ndarray) -> At:
    """Variables and expressions of the model at a row, by name."""
    system = work.assembly.system
    values = point_values(system, work.assembly.layout, t, row, work.p)

    def at(name: str) -> np.ndarray:
        return np.asarray(values[name] if name in values else evaluate(system, name, values))

    return at


def _shown(block: str) -> bool:
    """Further unknowns of a formulation are shown as ``extra``; past values that a method carries along are not."""
    return block not in PARTS and not block.startswith("_")


def _first_step(given: float | None, work: Workspace, row: np.ndarray, options: Options) -> float:
    """First step of a first-order method [Hairer, Norsett, Wanner, Solving ODEs I, II.4], signed."""
    span = options.t1 - options.t0
    direction = np.sign(span)
    if given is not None:
        return float(direction * min(arguments.positive("first_step", given), abs(span)))
    layout = work.assembly.layout
    rtol, atol = spread(options, layout)
    scale = 1.0 / (atol + rtol * np.abs(row) + 1e-300)
    d1 = slope(work, row)
    index = layout.indices(("q", "v"))

    def norm(x: np.ndarray) -> float:
        return float(np.sqrt(np.mean((x[index] * scale[index]) ** 2))) if index.size else 0.0

    rate = norm(d1)
    small = float(np.clip(options.rtol.max(), 1e-10, 1e-3))
    guess = min(1e-4 * abs(span), 1e-3 / (rate * small) if rate > 0 else np.inf)
    guess = max(guess, 1e-12 * abs(span))
    trial = row + direction * guess * d1
    if work.complete(options.t0 + direction * guess, trial) != 0:
        work.assembly.take_error()
        return float(direction * min(guess, 1e-6 * abs(span)))
    curvature = norm((slope(work, trial) - d1) / guess)
    h = np.sqrt(0.1 / curvature) if curvature > 0 else 1e-3 * abs(span)
    return float(direction * min(h, 1e-2 * abs(span), options.max_step))


# ---------------------------------------------------------------------- results
def _solution(
    work: Workspace,
    result: Result,
    options: Options,
    events: EventSet,
    stats: Stats,
    row0: np.ndarray,
) -> Solution:
    assembly, system, layout = work.assembly, work.assembly.system, work.assembly.layout
    whole, counters = result.state.whole, result.state.counters
    stats.steps, stats.rejected = int(whole[runstate.STEPS]), int(whole[runstate.REJECTED])
    stats.newton_failures, stats.projections = int(whole[runstate.FAILURES]), int(whole[runstate.PROJECTIONS])
    stats.switches = result.switches
    stats.residuals, stats.newton_iterations = int(counters[RESIDUALS]), int(counters[ITERATIONS])
    stats.factorizations = stats.jacobians = int(counters[FACTORIZATIONS])
    stats.lapack_factorizations = int(counters[LAPACK]) if assembly.step.plan is not None else 0
    error = assembly.take_error() or events.take_error()
    status = result.status
    if isinstance(error, KeyboardInterrupt):
        status, error = Status.INTERRUPTED, None
    elif error is not None and status.ok:  # an event function failed: its events are not to be trusted
        status = Status.USER_ERROR
    t_reached = float(result.state.real[runstate.T])
    p = work.p

    def split(rows: np.ndarray) -> dict[str, np.ndarray]:
        return {name: rows[:, layout.slice(name)] for name in PARTS}

    def dense(times: np.ndarray) -> dict[str, np.ndarray]:
        fresh = assembly.workspace(p)
        fresh.set_invariants(work.levels(options.t0, result.rows[0])["phi"])
        out = np.empty((times.size, layout.n))
        failures = evaluate_dense()(
            result.state, fresh.dense, fresh.multipliers, result.t, result.rows, result.orders, times, out
        )
        if failures:
            raise ValueError(f"{failures} of {times.size} points could not be put back onto the constraints.")
        return split(out)

    def drift() -> Drift:
        levels = assembly.evaluate("levels", result.t, result.rows, p)
        edges = np.cumsum([0, system.nlam, system.nlam, system.nmu, system.nphi])
        g, g_dot, k, phi = (levels[:, edges[i] : edges[i + 1]] for i in range(4))
        return Drift(g, g_dot, k, phi - phi[:1])

    def energy() -> np.ndarray:
        return assembly.evaluate("energy", result.t, result.rows, p)[:, 0]

    at_events = [result.event_index == i for i in range(events.count)]
    return Solution(
        t=result.t,
        parts=split(result.rows),
        status=status,
        message=report.message(status, t_reached, work, result, error, events, options.t0, row0),
        stats=stats,
        names={**{k: tuple(x) for k, x in system.names.items()}, "v": tuple(system.velocity_names)},
        t_events=[result.event_t[m] for m in at_events],
        events=[State(result.event_t[m], **split(result.event_rows[m])) for m in at_events],
        orders=result.orders,
        parameters={k: np.asarray(x).tolist() for k, x in system.parameters.unflatten(p).items()},
        system_name=system.name,
        dense=options.t_eval is None,
        evaluator=dense,
        hermite=bool(result.state.places[0]),
        drift_of=drift,
        energy_of=energy if system.energy is not None else None,
        extra={name: result.rows[:, layout.slice(name)] for name, size in layout.blocks if _shown(name) and size},
    )
