"""One integration: the arrays of the compiled loop, filled, driven in slices, and read out."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np

from dalembert.formulations.base import Formulation
from dalembert.integrators.base import Integrator, Model
from dalembert.numerics import hermite, locate, runstate
from dalembert.numerics.compiled import evaluate, integrate
from dalembert.numerics.layout import Layout
from dalembert.numerics.newton import N_COUNTERS, N
from dalembert.numerics.rank import SUSPECT
from dalembert.runtime import singular
from dalembert.runtime.assembly import Workspace
from dalembert.runtime.seeds import fixed_seeds, regular_seeds
from dalembert.runtime.start import evaluate as evaluate_model
from dalembert.runtime.start import point_values
from dalembert.status import Status

SLICE = 0.05  # seconds between looks at Ctrl-C and the progress bar
NO_LIMIT = np.iinfo(np.int64).max
# Updates that no longer shrink are rounding if they are this small, in units of the error allowed in a step. Fixed
# steps ask for FIXED_RTOL, which some unknowns (multipliers, accelerations) cannot resolve.
FREE_STALL, FIXED_STALL = 0.1, 100.0
ROUNDING = 1e-10  # at smaller tolerances differences of high order may be rounding, not a sign of instability
FIXED_RTOL, FIXED_ATOL = 1e-11, 1e-12


@dataclass
class Options:
    """Numbers of a run, already checked."""

    t0: float
    t1: float
    rtol: np.ndarray
    atol: np.ndarray
    first_step: float
    max_step: float = np.inf
    max_steps: int | None = None
    steps: np.ndarray | None = None  # prescribed step sizes
    t_eval: np.ndarray | None = None
    event_kernel: int = 0
    event_rules: np.ndarray = field(default_factory=lambda: np.zeros((2, 0), dtype=np.int64))
    # events that are zero at the start, and the sign with which they leave: 0 if that is not known
    leaving: tuple[tuple[int, float], ...] = ()
    event_noise: np.ndarray | None = None  # (n_events,): sizes that are rounding errors
    # asked before the first step and now and then: stop here?
    pause: Callable[[runstate.Run, Workspace], bool] | None = None
    look_every: int | None = None  # steps before the first such question


@dataclass
class Result:
    """Rows of a finished run."""

    status: Status
    t: np.ndarray
    rows: np.ndarray
    orders: np.ndarray
    event_t: np.ndarray
    event_index: np.ndarray
    event_rows: np.ndarray
    state: runstate.Run
    switches: tuple[float, ...]
    own_rows: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))  # in the layout of a starter
    passages: tuple[str, ...] = ()  # singular positions passed, in words
    ending: str = ""  # why it ended, if more is known than the status says


def execute(
    work: Workspace,
    method: Integrator,
    formulation: Formulation,
    row: np.ndarray,
    options: Options,
    progress: Callable[[float, int], None] | None = None,
    starter: Starter | None = None,
) -> Result:
    """Integrate from a complete row at t0. Ctrl-C ends the run early; what was computed is returned."""
    layout = work.assembly.layout
    run = _prepare(work, method, formulation, row, options)
    output = _outputs(run, options, row)
    _store_start(run, output, options, row)
    begun = Status.RUNNING
    if options.steps is not None and not method.ramps:
        begun, run = fixed_seeds(starter or Starter(work, method, formulation), method, row, layout, options, run)
    elif options.steps is None and method.regular and starter is not None:
        run = regular_seeds(starter, row, layout, options, run)
    parameters = np.concatenate([[0.0], work.p])
    if options.event_rules.shape[1]:
        parameters[0] = run.real[runstate.T]
        _evaluate_events(run, options, run.rows[run.slots[1]], parameters)
    switches: list[float] = []
    passages: list[singular.Passage] = []
    patience = singular.Patience()
    ending = ""
    _choose_data(work, formulation, run)
    advance = integrate()
    chunk = options.look_every or 1000
    status = int(begun)
    go_on = options.pause is None or not options.pause(run, work)
    try:
        while status == runstate.RUNNING and go_on:
            run.whole[runstate.CHUNK_END] = run.whole[runstate.STEPS] + chunk
            begin = time.perf_counter()
            status = advance(run, work.step, work.stages, work.dense, work.multipliers, parameters, output)
            took = time.perf_counter() - begin
            if took < 0.5 * SLICE:
                chunk = min(chunk * 2, 1 << 40)
            elif took > 2 * SLICE:
                chunk = max(chunk // 2, 1)
            if run.whole[runstate.CHANGE_DATA] == 1:
                _choose_data(work, formulation, run)
                switches.append(float(run.real[runstate.T]))
            elif run.whole[runstate.CHANGE_DATA] == 2 and starter is not None:
                last = run.rows[run.slots[1]].copy()
                run = regular_seeds(
                    starter, starter.settle([run.real[runstate.T]], last[None], layout)[0], layout, options, run
                )
                _choose_data(work, formulation, run)
            if run.ranked[SUSPECT] != 0:
                passed = singular.inspect(work, run)
                run.ranked[SUSPECT] = 0
                if passed is singular.TOO_FAR:
                    patience.false_alarm(run)
                elif passed is not None and passed.stop:
                    status, ending = int(Status.SINGULAR), passed.text
                    singular.cut(run, output, passed.t)
                elif passed is not None and not (passages and passages[-1].near(passed)):
                    passages.append(passed)
            patience.resume(run)
            if progress is not None:
                progress(float(run.real[runstate.T]), int(run.whole[runstate.STEPS]))
            output = _make_room(run, output, 0, 0)
            go_on = options.pause is None or status != runstate.RUNNING or not options.pause(run, work)
    except KeyboardInterrupt:
        status = int(Status.INTERRUPTED)
    n, m = run.whole[runstate.STORED], run.whole[runstate.EVENTS_STORED]
    return Result(
        Status.of(status), output.t[:n].copy(), output.rows[:n].copy(), output.order[:n].copy(),
        output.event_t[:m].copy(), output.event_index[:m].copy(), output.event_rows[:m].copy(), run, tuple(switches),
        passages=tuple(x.text for x in passages), ending=ending,
    )  # fmt: skip


def _prepare(
    work: Workspace, method: Integrator, formulation: Formulation, row: np.ndarray, options: Options
) -> runstate.Run:
    assembly = work.assembly
    system, layout, n = assembly.system, assembly.layout, assembly.layout.n
    fixed = options.steps is not None
    first_order, max_order = method.order_range(fixed)
    h = options.steps[0] if options.steps is not None else options.first_step
    real = np.zeros(runstate.N_REAL)
    real[runstate.T], real[runstate.H], real[runstate.T_END] = options.t0, h, options.t1
    real[runstate.H_MAX] = options.max_step
    real[runstate.REUSE] = _reuse(work)
    real[runstate.STAGE_TOLERANCE] = 1e-12
    real[runstate.STALL] = FIXED_STALL if fixed else FREE_STALL
    real[runstate.MULTIPLIER_TOLERANCE] = work.multiplier_tolerance
    whole = np.zeros(runstate.N_WHOLE, dtype=np.int64)
    whole[runstate.ORDER], whole[runstate.MAX_ORDER] = first_order, max_order
    whole[runstate.NODES] = 2
    whole[runstate.FIXED] = int(fixed)
    whole[runstate.N_STAGES] = work.n_stages
    own = formulation.own_multipliers and method.own_multipliers
    whole[runstate.OWN_MULTIPLIERS] = int(own and not method.gains(system, formulation, assembly.projection))
    whole[runstate.N_STEP] = assembly.n_step
    whole[runstate.STEP_LIMIT] = NO_LIMIT if options.max_steps is None else options.max_steps
    whole[runstate.PROJECT_ERROR] = int(bool(assembly.stages) and assembly.stages[0].metric is not None)
    whole[runstate.PROJECT_STEPS] = int(assembly.projects_steps)
    whole[runstate.N_EVENTS] = options.event_rules.shape[1]
    whole[runstate.STORE_STEPS] = int(options.t_eval is None)
    whole[runstate.COEFFICIENTS] = method.coefficient_function()
    whole[runstate.EVENT_KERNEL] = options.event_kernel
    whole[runstate.MONITOR] = assembly.kernels["monitor"].address if formulation.monitors else 0
    t_eval = options.t_eval if options.t_eval is not None else np.zeros(0)
    whole[runstate.N_EVAL] = t_eval.size

    begun = row.copy()
    method.begin(system, formulation, layout, options.t0, float(h), begun, _model(work))
    nodes, rows, count = _past(work, method, begun, options.t0, float(h), fixed)
    whole[runstate.NODES] = count

    whole[runstate.N_PAST] = assembly.n_past
    whole[runstate.N_LAST] = assembly.n_last
    whole[runstate.EXPLICIT] = method.explicit_stages
    whole[runstate.RESERVE] = -max_order if method.one_step else method.reserve
    whole[runstate.REGULAR] = int(method.regular)
    whole[runstate.GUARDED] = int(options.rtol.min() >= ROUNDING)
    whole[runstate.N_DENSE] = len(assembly.dense)
    places = _places(work, method)
    # the quintic of both ends serves short steps; r is known with its first derivative only
    if places[hermite.HERMITE] and ((method.one_step and (method.hermite_order or 0) > 3) or system.nr):
        whole[runstate.INNER_POINTS] = hermite.INNER
    tolerance = float(max(options.rtol.max(), options.atol.max()))
    real[runstate.NEWTON_TOLERANCE] = method.newton_share(1.0 if fixed else tolerance)
    real[runstate.ESTIMATE_SCALE] = method.estimate_scale(system, formulation, tolerance, assembly.projection)
    if not fixed:  # a part of the error allowed in a step, which may be less than the tolerance
        real[runstate.NEWTON_TOLERANCE] /= max(1.0, real[runstate.ESTIMATE_SCALE])
    parts = {
        runstate.START: "start", runstate.UPDATE: "update", runstate.ERROR: "error", runstate.RESPONSE: "response",
    }  # fmt: skip
    for position, name in parts.items():
        whole[position] = assembly.kernels[name].address if name in assembly.kernels else 0
    tables = _tables(work, method, formulation)
    peak = np.abs(row)
    # a multiplier that starts at zero has no scale: that of its block keeps Newton from chasing rounding errors
    for part in tables.together:
        peak[part] = peak[part].max()
    rtol, atol = spread(options, layout)
    stored = layout.slice("q")  # numbers of a rotation count in absolute terms
    bounded = np.where(system.space.unbounded, 0.0, rtol[stored]) if system.nq else np.zeros(0)
    atol[stored] += bounded
    rtol[stored] -= bounded
    if fixed:  # nothing to control: Newton is to solve to rounding level
        rtol, atol = np.minimum(rtol, FIXED_RTOL), np.minimum(atol, FIXED_ATOL)
    rank, ranked = singular.watch(work, options.t0, row)
    return runstate.Run(
        real=real, whole=whole, nodes=nodes, rows=rows, slots=np.arange(runstate.HISTORY + 1, dtype=np.int64),
        coefficients=np.zeros(runstate.N_COEFFICIENTS + runstate.N_WORK), estimate=np.zeros(n),
        scratch=np.zeros((3, max(n, _most(work)))),
        rtol=rtol, atol=atol, power=tables.power, controlled=tables.controlled, peak=peak,
        weights=np.zeros((2, max(n, assembly.n_step))),
        weight_of=tables.weight_of, source=tables.source,
        orders=np.full(runstate.HISTORY + 1, runstate.EXACT, dtype=np.int64),
        steps=options.steps if options.steps is not None else np.zeros(0), t_eval=t_eval,
        counters=np.zeros(N_COUNTERS, dtype=np.int64),
        event_values=np.zeros((runstate.EVENT_ROWS, 2 * options.event_rules.shape[1])),
        event_rules=options.event_rules.copy(), finished=np.zeros(n),
        watched=np.concatenate([[1.0, 0.0, options.t0], work.p, np.zeros(formulation.data_size(system))]),
        seeds=np.zeros((0, n)), dense=np.zeros((hermite.N_DENSE_ROWS, n)), places=places,
        rank=rank, ranked=ranked,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Tables:
    """What the loop knows of the entries of a row, see `runstate.Run`; blocks to be scaled together."""

    power: np.ndarray
    controlled: np.ndarray
    source: np.ndarray
    weight_of: np.ndarray
    together: tuple[slice, ...]


def _tables(work: Workspace, method: Integrator, formulation: Formulation) -> _Tables:
    """Made once for an assembly; the loop only reads them."""
    assembly = work.assembly
    if "_tables" not in assembly.__dict__:
        assembly.__dict__["_tables"] = _make_tables(work, method, formulation)
    out: _Tables = assembly.__dict__["_tables"]
    return out


def _make_tables(work: Workspace, method: Integrator, formulation: Formulation) -> _Tables:
    assembly = work.assembly
    system, layout, n = assembly.system, assembly.layout, assembly.layout.n
    power, controlled, together = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64), []
    source = np.array([np.arange(n), np.zeros(n)], dtype=np.int64)
    if method.reserve:  # velocities follow from positions, and so do their errors
        source[0, layout.slice("v")] = layout.indices(("q",))[system.space.measured_by]
        source[1, layout.slice("v")] = 1
    for unknown in method.row_blocks(system, formulation):
        part = layout.slice(unknown.name)
        power[part] = unknown.index - 1
        controlled[part] = int(unknown.controlled)
        if method.one_step and not unknown.controlled and unknown.size:
            together.append(part)
    weight_of = method.weight_map(system, layout, formulation)
    if weight_of is None:
        weight_of = np.array([np.arange(assembly.n_step), np.zeros(assembly.n_step)], dtype=np.int64)
    return _Tables(power, controlled, source, weight_of, tuple(together))


def _places(work: Workspace, method: Integrator) -> np.ndarray:
    """Where the dense output finds q, v, a, r and r', if it is made from the ends of steps.

    For methods whose past rows are as good, the polynomial through these serves. On a group q'' is not a: there are
    kernels that lead to coordinates where it is, and back.
    """
    system, layout, kernels = work.assembly.system, work.assembly.layout, work.assembly.kernels
    out = np.zeros(hermite.N_PLACES, dtype=np.int64)
    if method.hermite_order is not None:
        at = (layout.slice(name).start for name in ("q", "v", "a"))
        chart = (kernels[name].address if name in kernels else 0 for name in ("lift", "local"))
        out[:] = [1, *at, system.nv, layout.slice("r").start, layout.slice("r_dot").start, system.nr, *chart]
    return out


def _model(work: Workspace) -> Model:
    """The model as numbers, for the starting values of a method."""
    system, layout = work.assembly.system, work.assembly.layout
    return Model(
        work.complete, lambda name, t, row: evaluate_model(system, name, point_values(system, layout, t, row, work.p))
    )


def _past(
    work: Workspace, method: Integrator, row: np.ndarray, t0: float, h: float, fixed: bool
) -> tuple[np.ndarray, np.ndarray, int]:
    """The start, and before it a point on a line that gives the first predictor its slope: times, rows, how many."""
    nodes = t0 - h * (np.arange(runstate.HISTORY + 1) - 1.0)
    rows = np.tile(row, (runstate.HISTORY + 1, 1))
    if fixed and method.ramps and not method.one_step:
        return nodes, rows, 1
    rows[2] -= h * slope(work, row)
    return nodes, rows, runstate.HISTORY if method.regular else 2


def _choose_data(work: Workspace, formulation: Formulation, run: runstate.Run) -> None:
    """Let the formulation choose its numbers at the last accepted state."""
    system = work.assembly.system
    if formulation.data_size(system):
        _, C = work.matrices(float(run.real[runstate.T]), run.rows[run.slots[1]])
        values = formulation.choose_data(system, C)
        work.set_data(values)
        run.watched[3 + work.p.size :] = values
        for rows in (run.rows, run.seeds):
            _restate(work, formulation, run, rows)
    run.whole[runstate.CHANGE_DATA] = 0


def _restate(work: Workspace, formulation: Formulation, run: runstate.Run, rows: np.ndarray) -> None:
    """Give unknowns whose meaning depends on the formulation's numbers the meaning they have now, in place."""
    system, layout = work.assembly.system, work.assembly.layout
    data = run.watched[3 + work.p.size :]
    for name, x in formulation.restate(system, data, rows[:, layout.slice("v")], rows[:, layout.slice("a")]).items():
        if layout.has(name):
            rows[:, layout.slice(name)] = x


def spread(options: Options, layout: Layout) -> tuple[np.ndarray, np.ndarray]:
    """Tolerances of (q, v, r), given or scalar, spread over the row; algebraic variables take the tightest."""
    index = layout.indices(("q", "v", "r"))
    out = []
    for given in (options.rtol, options.atol):
        x = np.full(layout.n, given.min())
        x[index] = given
        out.append(x)
    return out[0], out[1]


def slope(work: Workspace, row: np.ndarray) -> np.ndarray:
    """Time derivative of the differential part of a row, zero elsewhere."""
    system, layout = work.assembly.system, work.assembly.layout
    out = np.zeros(layout.n)
    if system.nq:
        out[layout.slice("q")] = system.space.rate(row[layout.slice("q")], row[layout.slice("v")])
    out[layout.slice("v")] = row[layout.slice("a")]
    return out


def _most(work: Workspace) -> int:
    """Largest number of extra unknowns of a stage."""
    return int(max(s.newton.whole[N] for s in (*work.stages, *work.dense, work.multipliers)))


def _reuse(work: Workspace) -> float:
    """How bad the contraction may get before the matrix is renewed: cheap factorisations are renewed every step."""
    kernels = work.assembly.kernels
    if work.assembly.step.polish:  # with an old matrix the constraints would not get to rounding level
        return 0.0
    if "step.factor" not in kernels:
        return 0.3
    factor = kernels["step.factor"].n_instructions
    iteration = kernels["step.residual"].n_instructions + kernels["step.solve"].n_instructions
    return 0.0 if factor < 4 * iteration else 0.1


def _outputs(run: runstate.Run, options: Options, row: np.ndarray) -> runstate.Output:
    size = 1024 if options.t_eval is None else options.t_eval.size
    size += 3 + len(options.steps if options.steps is not None else ())
    events = 16 + 2 * runstate.EVENTS_PER_STEP * options.event_rules.shape[1]
    return runstate.Output(
        np.zeros(size), np.zeros((size, row.size)), np.zeros(size, dtype=np.int64),
        np.zeros(events), np.zeros(events, dtype=np.int64), np.zeros((events, row.size)),
    )  # fmt: skip


def _double(x: np.ndarray) -> np.ndarray:
    out = np.zeros((2 * x.shape[0], *x.shape[1:]), dtype=x.dtype)
    out[: x.shape[0]] = x
    return out


def _store_start(run: runstate.Run, output: runstate.Output, options: Options, row: np.ndarray) -> None:
    """The initial state is the first point of the output if it was asked for."""
    wanted = options.t_eval is None
    if options.t_eval is not None and options.t_eval.size and options.t_eval[0] == options.t0:
        wanted = True
        run.whole[runstate.NEXT_EVAL] = 1
    if wanted:
        output.t[0], output.rows[0], output.order[0] = options.t0, row, run.whole[runstate.ORDER]
        run.whole[runstate.STORED] = 1


@dataclass(frozen=True, eq=False)
class Starter:
    """Another method, which makes the first points of a run.

    A method that differentiates twice loses eps/h^2 to rounding, so tiny steps of order 1 would not be accurate.
    """

    work: Workspace
    method: Integrator
    formulation: Formulation
    # completes a row of the run by the unknowns that its formulation adds
    finish: Callable[[float, np.ndarray], None] | None = None

    def run(self, row: np.ndarray, layout: Layout, options: Options) -> Result:
        """Integrate from a row of another layout; the result has that layout too."""
        own = self.work.assembly.layout
        result = execute(self.work, self.method, self.formulation, translate(row[None], layout, own)[0], options)
        return replace(result, rows=translate(result.rows, own, layout), own_rows=result.rows)

    def sample(self, result: Result, times: np.ndarray, layout: Layout) -> np.ndarray:
        """Rows (in the other layout) at times covered by a result that stored its steps."""
        own = self.work.assembly.layout
        out = np.empty((times.size, own.n))
        evaluate()(
            result.state, self.work.dense, self.work.multipliers, result.t, result.own_rows, result.orders, times, out
        )
        return translate(out, own, layout)

    def settle(self, times: Sequence[float] | np.ndarray, rows: np.ndarray, layout: Layout) -> np.ndarray:
        """Rows (in the other layout) put onto the constraints, with their multipliers and accelerations."""
        own = self.work.assembly.layout
        mine = translate(rows, layout, own)
        for t, row in zip(times, mine, strict=True):
            self.work.project(t, row)
            self.work.complete(t, row)
        return translate(mine, own, layout)


def translate(rows: np.ndarray, source: Layout, target: Layout) -> np.ndarray:
    """Rows of one layout in another; blocks that the source does not have are zero."""
    out = np.zeros((len(rows), target.n))
    to, here = _common(source, target)
    out[:, to] = rows[:, here]
    return out


@cache
def _common(source: Layout, target: Layout) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the blocks that both have, in the target and in the source."""
    names = [name for name, _ in target.blocks if source.has(name)]
    return target.indices(names), source.indices(names)


def _make_room(run: runstate.Run, output: runstate.Output, points: int, events: int) -> runstate.Output:
    """Output with space for so many more points and events."""
    while output.t.size - run.whole[runstate.STORED] < points + 3:
        output = output._replace(t=_double(output.t), rows=_double(output.rows), order=_double(output.order))
    while output.event_t.size - run.whole[runstate.EVENTS_STORED] < events + _most_events(run):
        output = output._replace(
            event_t=_double(output.event_t),
            event_index=_double(output.event_index),
            event_rows=_double(output.event_rows),
        )
    return output


def _most_events(run: runstate.Run) -> int:
    """In one step, and a few more."""
    return runstate.EVENTS_PER_STEP * int(run.whole[runstate.N_EVENTS]) + 2


def _evaluate_events(run: runstate.Run, options: Options, row: np.ndarray, parameters: np.ndarray) -> None:
    """Event functions at the start; a zero there counts as the sign it leaves with."""
    import ctypes

    kernel = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(options.event_kernel)
    row = np.ascontiguousarray(row)
    kernel(row.ctypes.data, parameters.ctypes.data, run.event_values[0].ctypes.data)
    for i, sign in options.leaving:
        run.event_values[0, i] = np.finfo(float).tiny * sign
    run.event_values[locate.PREVIOUS] = np.nan  # there is no step before
    if options.event_noise is not None:
        run.event_values[locate.NOISE, : options.event_noise.size] = options.event_noise
