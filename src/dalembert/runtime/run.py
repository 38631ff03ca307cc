"""One integration: the arrays of the compiled loop, filled, driven in slices, and read out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np

from dalembert.formulations.base import Formulation
from dalembert.integrators.base import Integrator, Model
from dalembert.integrators.explicit import STIFFNESS
from dalembert.integrators.positions import LOW
from dalembert.numerics import hermite, locate, runstate, sweeps
from dalembert.numerics.compiled import evaluate, integrate, open_run
from dalembert.numerics.layout import Layout
from dalembert.numerics.memory import Parts
from dalembert.numerics.newton import N_COUNTERS
from dalembert.numerics.rank import SUSPECT
from dalembert.runtime import singular
from dalembert.runtime.assembly import STAGE_TOLERANCE, Assembly, Workspace
from dalembert.runtime.creep import Creep
from dalembert.runtime.ingredients import kinked
from dalembert.runtime.seeds import fixed_seeds, regular_seeds
from dalembert.runtime.start import evaluate as evaluate_model
from dalembert.runtime.start import point_values
from dalembert.status import Status

SLICE = 0.05  # seconds between looks at Ctrl-C and the progress bar
KEPT = 10_000  # bytes of output that are not given back, whether used or not
NO_LIMIT = np.iinfo(np.int64).max
# Updates that no longer shrink are rounding if they are this small, in units of the error allowed in a step. Fixed
# steps ask for FIXED_RTOL, which some unknowns (multipliers, accelerations) cannot resolve.
FREE_STALL, FIXED_STALL = 0.1, 100.0
FIXED_RTOL, FIXED_ATOL = 1e-11, 1e-12
NOTHING, NO_RULES = np.zeros(0), np.zeros((2, 0), dtype=np.int64)  # not to be changed


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
    event_rules: np.ndarray = field(default_factory=lambda: NO_RULES)
    # events that are zero at the start, and the sign with which they leave: 0 if that is not known
    leaving: tuple[tuple[int, float], ...] = ()
    event_noise: np.ndarray | None = None  # (n_events,): sizes that are rounding errors
    # asked before the first step and now and then: stop here?
    pause: Callable[[runstate.Run, Workspace], bool] | None = None
    look_every: int | None = None  # steps before the first such question
    scale: np.ndarray | None = None  # of the constraints, see `singular.watch`


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
    own_rows: np.ndarray | None = None  # in the layout of a starter
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
        begun, run = fixed_seeds(
            starter or Starter(work, method.as_starter(), formulation), method, row, layout, options, run
        )
    elif options.steps is None and method.regular and starter is not None:
        run = regular_seeds(starter, row, layout, options, run)
    if options.event_rules.shape[1]:
        _evaluate_events(run, options, run.rows[run.slots[1]], work.data(float(run.real[runstate.T])))
    switches: list[float] = []
    passages: list[singular.Passage] = []
    patience, creep = singular.Patience(), None
    ending = ""
    _choose_data(work, formulation, run)
    advance, whole = integrate(), run.whole
    chunk = options.look_every or 1000
    status = int(begun)
    go_on = options.pause is None or not options.pause(run, work)
    try:
        while status == runstate.RUNNING and go_on:
            whole[runstate.CHUNK_END] = whole.item(runstate.STEPS) + chunk
            begin = time.perf_counter()
            status = advance(run.block, work.block, run.steps, run.t_eval, run.seeds, *output)
            took = time.perf_counter() - begin
            if progress is not None:
                progress(float(run.real[runstate.T]), int(whole[runstate.STEPS]))
            if status == runstate.SUCCESS:
                break
            if took < 0.5 * SLICE:
                chunk = min(chunk * 2, 1 << 40)
            elif took > 2 * SLICE:
                chunk = max(chunk // 2, 1)
            if whole[runstate.CHANGE_DATA] == 1:
                _choose_data(work, formulation, run)
                switches.append(float(run.real[runstate.T]))
            elif whole[runstate.CHANGE_DATA] == 2 and starter is not None:
                last = run.rows[run.slots[1]].copy()
                run = regular_seeds(
                    starter, starter.settle([run.real[runstate.T]], last[None], layout)[0], layout, options, run
                )
                _choose_data(work, formulation, run)
            if whole[runstate.ALARMED] == 1:  # said once
                whole[runstate.ALARMED] = 2
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
            if status == runstate.RUNNING and options.steps is None and options.max_steps is None:
                creep = creep or Creep(options.t0)
                ending = creep.hopeless(run)
                status = int(Status.STALLED) if ending else status
            if status == runstate.RUNNING:
                output = _make_room(run, output, 0, 0)
            go_on = options.pause is None or status != runstate.RUNNING or not options.pause(run, work)
    except KeyboardInterrupt:
        status = int(Status.INTERRUPTED)
    t, rows, orders = _used(output[:3], whole.item(runstate.STORED))
    event_t, event_index, event_rows = _none_found(layout.n)
    if options.event_rules.shape[1]:
        event_t, event_index, event_rows = _used(output[3:], whole.item(runstate.EVENTS_STORED))
    return Result(
        Status.of(status), t, rows, orders, event_t, event_index, event_rows, run, tuple(switches),
        passages=tuple([x.text for x in passages]), ending=ending,
    )  # fmt: skip


def _used(arrays: Sequence[np.ndarray], n: int) -> list[np.ndarray]:
    """The first n entries of arrays, without keeping much more memory than they need."""
    wasted = len(arrays[0]) > 2 * n and sum(x.nbytes for x in arrays) > KEPT
    return [x[:n].copy() for x in arrays] if wasted else [x[:n] for x in arrays]


def _prepare(
    work: Workspace, method: Integrator, formulation: Formulation, row: np.ndarray, options: Options
) -> runstate.Run:
    assembly = work.assembly
    system, layout = assembly.system, assembly.layout
    fixed, rules = options.steps is not None, options.event_rules
    t_eval = options.t_eval if options.t_eval is not None else NOTHING
    run = runstate.Run(
        _template(assembly, method, formulation, fixed, rules.shape[1]),
        options.steps if options.steps is not None else NOTHING,
        t_eval,
        _no_seeds(layout.n),
    )
    real, whole = run.real, run.whole
    h = float(options.steps[0]) if options.steps is not None else options.first_step
    whole[runstate.STEP_LIMIT] = NO_LIMIT if options.max_steps is None else options.max_steps
    if rules.shape[1]:
        run.event_rules[:] = rules
    whole[runstate.STORE_STEPS] = int(options.t_eval is None)
    whole[runstate.EVENT_KERNEL] = options.event_kernel
    whole[runstate.N_EVAL] = t_eval.size
    begun = row
    if type(method).begin is not Integrator.begin:
        begun = row.copy()
        method.begin(system, formulation, layout, options.t0, h, begun, _model(work))
    scale = options.scale if options.scale is not None else NOTHING
    unknown = open_run()(
        run.block, work.block, options.t0, h, options.t1, options.max_step, row, begun, options.rtol, options.atol,
        scale,
    )  # fmt: skip
    if unknown:
        singular.set_scale(run, work, options.t0, row)
    tolerance = real.item(runstate.LOOSEST)
    real[runstate.NEWTON_TOLERANCE] = share = method.newton_share(1.0 if fixed else tolerance, assembly.projection)
    real[runstate.ESTIMATE_SCALE] = scaled = method.estimate_scale(system, formulation, tolerance, assembly.projection)
    if type(method).order_shares is not Integrator.order_shares:
        real[runstate.SHARE :] = method.order_shares(tolerance)
    if not fixed:  # a part of the error allowed in a step, which may be less than the tolerance
        real[runstate.ROUNDING] = method.rounding * hermite.EPS * scaled
        real[runstate.NEWTON_TOLERANCE] = share / max(1.0, scaled)
    return run


@cache
def _no_seeds(n: int) -> np.ndarray:
    return np.zeros((0, n))


def _template(assembly: Assembly, method: Integrator, formulation: Formulation, fixed: bool, n_events: int) -> Parts:
    """What runs of a method on an assembly have in common; made once for each kind of run."""
    known: dict[Any, Parts] = assembly.__dict__.setdefault("_templates", {})
    key = method, formulation, fixed, n_events
    if key not in known:
        known[key] = _make_template(assembly, method, formulation, fixed, n_events)
    return known[key]


def _make_template(
    assembly: Assembly, method: Integrator, formulation: Formulation, fixed: bool, n_events: int
) -> Parts:
    system, layout, kernels, n = assembly.system, assembly.layout, assembly.kernels, assembly.layout.n
    first_order, max_order = method.order_range(fixed)
    real = np.zeros(runstate.N_REAL)
    real[runstate.REUSE] = _reuse(assembly)
    real[runstate.STAGE_TOLERANCE] = STAGE_TOLERANCE
    real[runstate.STALL] = FIXED_STALL if fixed else FREE_STALL
    real[runstate.MULTIPLIER_TOLERANCE] = assembly.multiplier_tolerance
    # fixed steps: nothing to control, Newton is to solve to rounding level
    real[runstate.MOST_RTOL], real[runstate.MOST_ATOL] = (FIXED_RTOL, FIXED_ATOL) if fixed else (np.inf, np.inf)
    real[runstate.SHARE :] = 1.0
    whole = np.zeros(runstate.N_WHOLE, dtype=np.int64)
    whole[runstate.ORDER], whole[runstate.MAX_ORDER] = first_order, max_order
    whole[runstate.FIXED], whole[runstate.N_EVENTS] = int(fixed), n_events
    whole[runstate.FORGETS] = 1
    whole[runstate.N_STAGES] = len(assembly.stages)
    own = formulation.own_multipliers and method.own_multipliers
    whole[runstate.OWN_MULTIPLIERS] = int(own and not method.gains(system, formulation, assembly.projection))
    whole[runstate.N_STEP] = assembly.n_step
    whole[runstate.PROJECT_ERROR] = int(bool(assembly.stages) and assembly.stages[0].metric is not None)
    whole[runstate.PROJECT_STEPS] = int(assembly.projects_steps)
    whole[runstate.COEFFICIENTS] = method.coefficient_function()
    whole[runstate.MONITOR] = kernels["monitor"].address if formulation.monitors else 0
    whole[runstate.N_PAST] = assembly.n_past
    whole[runstate.N_LAST] = assembly.n_last
    whole[runstate.EXPLICIT] = method.explicit_stages
    whole[runstate.RESERVE] = -max_order if method.one_step else method.reserve
    whole[runstate.REGULAR] = int(method.regular)
    whole[runstate.N_DENSE] = len(assembly.dense)
    places = _places(assembly, method)
    # the quintic of both ends serves short steps; r is known with its first derivative only
    if places[hermite.HERMITE] and ((method.one_step and (method.hermite_order or 0) > 3) or system.nr):
        whole[runstate.INNER_POINTS] = hermite.INNER
    parts = {
        runstate.START: "start", runstate.UPDATE: "update", runstate.ERROR: "error", runstate.RESPONSE: "response",
        runstate.LANE_KERNEL: "lanes",
    }  # fmt: skip
    for position, name in parts.items():
        whole[position] = kernels[name].address if name in kernels else 0
    line = not (fixed and method.ramps and not method.one_step)
    whole[runstate.LINE] = int(line)
    whole[runstate.NODES] = runstate.HISTORY if line and method.regular else 2 if line else 1
    formula, n_lanes = NOTHING, 0
    if "lanes" in kernels:
        ambient = bool(system.nq) and not system.space.flat
        formula, n_data = method.formula(), int(assembly.step.d.numel())
        n_lanes, whole[runstate.LANE_WORK] = sweeps.lanes_size(system.nq, system.nv, system.nr, ambient, n_data)
        whole[runstate.SWEEPS], whole[runstate.N_MOVED], whole[runstate.AMBIENT] = method.n_sweeps, system.nq, ambient
        whole[runstate.KINKED] = int(kinked(system))
    opening = np.zeros((2, n), dtype=np.int64)
    if system.nq:  # numbers of a rotation count in absolute terms
        opening[0, layout.slice("q")] = ~system.space.unbounded
    # not where second differences need multipliers to the last digit, nor on prescribed steps, which are solved to it
    scaled = method.one_step or not (fixed or method.regular)
    for unknown in method.row_blocks(system, formulation):
        if scaled and not unknown.controlled and unknown.size:
            opening[1, layout.slice(unknown.name)] = opening[1].max() + 1
    coefficients = np.zeros(runstate.N_COEFFICIENTS + runstate.N_WORK)
    coefficients[runstate.GROWTH] = method.growth
    watched = np.zeros(3 + system.parameters.size + formulation.data_size(system))
    watched[0] = 1.0
    most = max(s.system.n for s in (*assembly.stages, *assembly.dense, assembly.multipliers))
    rank, ranked = singular.memory(assembly)
    power, controlled, source, weight_of = _tables(assembly, method, formulation)
    past, lanes = runstate.HISTORY + 1, np.zeros(n_lanes)
    arrays = runstate.RunArrays(
        real=real, whole=whole, nodes=np.zeros(past), rows=np.zeros((past, n)), slots=np.arange(past, dtype=np.int64),
        coefficients=coefficients, estimate=np.zeros(n), scratch=np.zeros((3, max(n, most))), rtol=np.zeros(n),
        atol=np.zeros(n), power=power, controlled=controlled, peak=np.zeros(n),
        weights=np.zeros((2, max(n, assembly.n_step))), weight_of=weight_of, source=source,
        orders=np.full(past, runstate.EXACT, dtype=np.int64), counters=np.zeros(N_COUNTERS, dtype=np.int64),
        event_values=np.zeros((runstate.EVENT_ROWS, 2 * n_events)), event_rules=np.zeros((2, n_events), dtype=np.int64),
        finished=np.zeros(n), watched=watched, dense=np.zeros((hermite.N_DENSE_ROWS, n)),
        places=places, rank=rank, ranked=ranked, formula=formula, lanes=lanes, opening=opening,
    )  # fmt: skip
    return Parts(arrays, [(lanes, 0)])


def _tables(
    assembly: Assembly, method: Integrator, formulation: Formulation
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """What the loop knows of the entries of a row: power, controlled, source, weight_of."""
    system, layout, n = assembly.system, assembly.layout, assembly.layout.n
    power, controlled = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    source = np.array([np.arange(n), np.zeros(n), np.full(n, -1)], dtype=np.int64)
    if method.reserve:  # velocities follow from positions, and so do their errors
        source[0, layout.slice("v")] = layout.indices(("q",))[system.space.measured_by]
        source[1, layout.slice("v")] = 1
    if layout.has(LOW):
        for block in ("q", "v"):
            source[2, layout.slice(block)] = layout.indices((LOW,))
        source[1, layout.slice(LOW)] = 2
    for unknown in method.row_blocks(system, formulation):
        part = layout.slice(unknown.name)
        power[part] = unknown.index - 1
        controlled[part] = int(unknown.controlled)
    weight_of = method.weight_map(system, layout, formulation)
    if weight_of is None:
        weight_of = np.array([np.arange(assembly.n_step), np.zeros(assembly.n_step)], dtype=np.int64)
    projection = assembly.projection
    if method.one_step and projection is not None and projection.error == "projected":
        # what made velocities count less is taken out of their errors; Newton's updates still have it
        v = layout.slice("v")
        of_v = (weight_of[0] >= v.start) & (weight_of[0] < v.stop)
        weight_of[1, of_v] += power[v.start]
        power[v] = 0
    return power, controlled, source, weight_of


def _places(assembly: Assembly, method: Integrator) -> np.ndarray:
    """Where v is, and where the dense output finds the others, if it is made from the ends of steps.

    For methods whose past rows are as good, the polynomial through these serves. On a group q'' is not a: there are
    kernels that lead to coordinates where it is, and back.
    """
    system, layout, kernels = assembly.system, assembly.layout, assembly.kernels
    out = np.zeros(hermite.N_PLACES, dtype=np.int64)
    out[hermite.AT_V], out[hermite.N_V] = layout.slice("v").start, system.nv
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


def _reuse(assembly: Assembly) -> float:
    """How bad the contraction may get before the matrix is renewed: cheap factorisations are renewed every step."""
    kernels = assembly.kernels
    if assembly.step.polish:  # with an old matrix the constraints would not get to rounding level
        return 0.0
    if "step.factor" not in kernels:
        return 0.3
    factor = kernels["step.factor"].n_instructions
    iteration = kernels["step.residual"].n_instructions + kernels["step.solve"].n_instructions
    return 0.0 if factor < 4 * iteration else 0.1


def _outputs(run: runstate.Run, options: Options, row: np.ndarray) -> runstate.Output:
    size = 1024 if options.t_eval is None else options.t_eval.size
    size += 3 + len(options.steps if options.steps is not None else ())
    points = np.empty(size), np.empty((size, row.size)), np.empty(size, dtype=np.int64)
    if not options.event_rules.shape[1]:
        return runstate.Output(*points, *_no_events(row.size))
    events = 16 + 2 * runstate.EVENTS_PER_STEP * options.event_rules.shape[1]
    return runstate.Output(*points, np.empty(events), np.empty(events, dtype=np.int64), np.empty((events, row.size)))


@cache
def _no_events(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Room for events where there are none, nor will be: nothing is written there."""
    return np.zeros(16), np.zeros(16, dtype=np.int64), np.zeros((16, n))


@cache
def _none_found(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    t, index, rows = _no_events(n)
    return t[:0], index[:0], rows[:0]


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
    Automatic runs try it with these numbers of steps, one after the other, until they lead far enough; then a starter
    that is made only then.
    """

    work: Workspace
    method: Integrator
    formulation: Formulation
    # completes a row of the run by the unknowns that its formulation adds
    finish: Callable[[float, np.ndarray], None] | None = None
    steps: tuple[int, ...] = (150,)
    otherwise: Callable[[], Starter] | None = None

    def attempts(self) -> Iterator[tuple[Starter, int]]:
        """Starters, each with the largest number of steps that it may take."""
        for most in self.steps:
            yield self, most
        if self.otherwise is not None:
            yield from self.otherwise().attempts()

    def run(self, row: np.ndarray, layout: Layout, options: Options) -> Result:
        """Integrate from a row of another layout; the result has that layout too."""
        own = self.work.assembly.layout
        result = execute(self.work, self.method, self.formulation, translate(row[None], layout, own)[0], options)
        return replace(result, rows=translate(result.rows, own, layout), own_rows=result.rows)

    def fastest(self, result: Result) -> float | None:
        """The largest rate |lambda| of the system, as far as the method of a result has noticed it."""
        own = self.work.assembly.layout
        if not own.has(STIFFNESS) or result.t.size < 2 or result.own_rows is None:
            return None
        return float(result.own_rows[-1, own.slice(STIFFNESS)][0] / abs(result.t[-1] - result.t[-2]))

    def sample(self, result: Result, times: np.ndarray, layout: Layout) -> np.ndarray:
        """Rows (in the other layout) at times covered by a result that stored its steps."""
        own = self.work.assembly.layout
        out = np.empty((times.size, own.n))
        evaluate()(result.state.block, self.work.block, result.t, result.own_rows, result.orders, times, out)
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
