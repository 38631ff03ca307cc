"""One integration: the arrays of the compiled loop, filled, driven in slices, and read out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np

from dalembert.formulations.base import Formulation
from dalembert.integrators.base import Integrator, Model
from dalembert.integrators.explicit import STIFFNESS
from dalembert.numerics import hermite, locate, runstate
from dalembert.numerics.call import UNDER_WAY, Call, call_with
from dalembert.numerics.compiled import evaluate, integrate, open_run
from dalembert.numerics.layout import Layout
from dalembert.numerics.rank import SUSPECT
from dalembert.runtime import singular
from dalembert.runtime.assembly import Assembly, Workspace
from dalembert.runtime.creep import Creep
from dalembert.runtime.seeds import fixed_seeds, regular_seeds
from dalembert.runtime.start import evaluate as evaluate_model
from dalembert.runtime.start import point_values
from dalembert.runtime.template import template
from dalembert.status import Status

SLICE, FIRST_SLICE = 0.05, 1000  # seconds between looks at Ctrl-C and the progress bar; steps before the first
FIRST_ROOM = 512  # points; small runs need no memory that the system has to be asked for
SPARE = 2  # room for events that is always there
KEPT = 10_000  # bytes of output that are not given back, whether used or not
Pause = Callable[[runstate.Run, Workspace], bool]
NO_LIMIT = np.iinfo(np.int64).max
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
    switches: tuple[float, ...] = ()
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
    pause: Pause | None = None,
    look_every: int | None = None,
) -> Result:
    """Integrate from a complete row at t0. Ctrl-C ends the run early; what was computed is returned.

    ``pause`` is asked before the first step, after so many steps, and later at growing distances: stop here?
    """
    layout = work.assembly.layout
    run = _prepare(work, method, formulation, row, options)
    output = outputs(layout.n, options)
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
    _choose_data(work, formulation, run)
    slices = Slices(work, formulation, options, run, output, progress, starter, pause, look_every)
    return slices.result(slices.go_on(int(begun)))


@dataclass(eq=False)
class Slices:
    """A run under way: the compiled loop, slice by slice, and what there is to do between them."""

    work: Workspace
    formulation: Formulation
    options: Options
    run: runstate.Run
    output: runstate.Output
    progress: Callable[[float, int], None] | None = None
    starter: Starter | None = None
    pause: Pause | None = None
    look_every: int | None = None
    switches: list[float] = field(default_factory=list)
    passages: list[singular.Passage] = field(default_factory=list)
    patience: singular.Patience = field(default_factory=singular.Patience)
    creep: Creep | None = None
    ending: str = ""
    # see `_arguments`
    made: tuple[runstate.Run, np.ndarray, runstate.Output, np.ndarray] | None = None

    def go_on(self, status: int) -> int:
        """From a status of the loop to the end; the status then."""
        advance, chunk, pause = integrate(), self.look_every or FIRST_SLICE, self.pause
        if self.run.whole.item(runstate.STEPS):  # the first slice has been made
            chunk *= 2
        go_on = pause is None or status != runstate.RUNNING or not pause(self.run, self.work)
        try:
            while status == runstate.RUNNING and go_on:
                whole = self.run.whole
                whole[runstate.CHUNK_END] = whole.item(runstate.STEPS) + chunk
                begin = time.perf_counter()
                status = advance(*self._arguments())
                took = time.perf_counter() - begin
                if self.progress is not None:
                    self.progress(float(self.run.real[runstate.T]), int(whole[runstate.STEPS]))
                if status == runstate.SUCCESS:
                    break
                if took < 0.5 * SLICE:
                    chunk = min(chunk * 2, 1 << 40)
                elif took > 2 * SLICE:
                    chunk = max(chunk // 2, 1)
                status = self.attend(status)
                go_on = pause is None or status != runstate.RUNNING or not pause(self.run, self.work)
        except KeyboardInterrupt:
            status = int(Status.INTERRUPTED)
        return status

    def _arguments(self) -> tuple[np.ndarray, ...]:
        """Those of the loop; the block of the call is made anew if there are other arrays than before."""
        run, output, made = self.run, self.output, self.made
        if made is None or not (made[0] is run and made[1] is run.seeds and made[2] is output):
            given = NOTHING, NOTHING, NOTHING, run.steps, run.t_eval, run.seeds
            block = call_with(Call(run.block, self.work.block, *given, output))
            made = self.made = run, run.seeds, output, block
        return made[3], *UNDER_WAY

    def attend(self, status: int) -> int:
        """What the loop has returned for; the status then."""
        work, run, options, starter = self.work, self.run, self.options, self.starter
        whole, layout = run.whole, work.assembly.layout
        if whole[runstate.CHANGE_DATA] == 1:
            _choose_data(work, self.formulation, run)
            self.switches.append(float(run.real[runstate.T]))
        elif whole[runstate.CHANGE_DATA] == 2 and starter is not None:
            last = run.rows[run.slots[1]].copy()
            row = starter.settle([run.real[runstate.T]], last[None], layout)[0]
            run = self.run = regular_seeds(starter, row, layout, options, run)
            _choose_data(work, self.formulation, run)
        if whole[runstate.ALARMED] == 1:  # said once
            whole[runstate.ALARMED] = 2
        if run.ranked[SUSPECT] != 0:
            passed = singular.inspect(work, run)
            run.ranked[SUSPECT] = 0
            if passed is singular.TOO_FAR:
                self.patience.false_alarm(run)
            elif passed is not None and passed.stop:
                status, self.ending = int(Status.SINGULAR), passed.text
                singular.cut(run, self.output, passed.t)
            elif passed is not None and not (self.passages and self.passages[-1].near(passed)):
                self.passages.append(passed)
        self.patience.resume(run)
        if status == runstate.RUNNING and options.steps is None and options.max_steps is None:
            self.creep = self.creep or Creep(options.t0)
            self.ending = self.creep.hopeless(run)
            status = int(Status.STALLED) if self.ending else status
        if status == runstate.RUNNING:
            self.output = _make_room(run, self.output, 0, 0)
        return status

    @property
    def uneventful(self) -> bool:
        """True if there is nothing to say besides the status."""
        return not (self.switches or self.passages or self.ending)

    def result(self, status: int) -> Result:
        out = finished(status, self.run, self.output)
        out.switches, out.ending = tuple(self.switches), self.ending
        out.passages = tuple([x.text for x in self.passages])
        return out


def finished(status: int, run: runstate.Run, output: runstate.Output) -> Result:
    """What a run has stored."""
    whole, n = run.whole, output.rows.shape[1]
    events = _none_found(n)
    if whole.item(runstate.N_EVENTS):
        events = _used(output[3:], whole.item(runstate.EVENTS_STORED))
    return Result(Status.of(status), *_used(output[:3], whole.item(runstate.STORED)), *events, run)


def _used(arrays: Sequence[np.ndarray], n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The first n entries of three arrays, without keeping much more memory than they need."""
    a, b, c = arrays
    if a.size > 2 * n and a.nbytes + b.nbytes + c.nbytes > KEPT:
        return a[:n].copy(), b[:n].copy(), c[:n].copy()
    return a[:n], b[:n], c[:n]


def _prepare(
    work: Workspace, method: Integrator, formulation: Formulation, row: np.ndarray, options: Options
) -> runstate.Run:
    """A run that is ready for its first step."""
    assembly = work.assembly
    run = configured(assembly, method, formulation, options)
    h = float(options.steps[0]) if options.steps is not None else options.first_step
    begun = row
    if type(method).begin is not Integrator.begin:
        begun = row.copy()
        method.begin(assembly.system, formulation, assembly.layout, options.t0, h, begun, _model(work))
    scale = options.scale if options.scale is not None else NOTHING
    unknown = open_run()(run.block, work.block, h, row, begun, options.rtol, options.atol, scale)
    if unknown:
        singular.set_scale(run, work, options.t0, row)
    return run


def configured(assembly: Assembly, method: Integrator, formulation: Formulation, options: Options) -> runstate.Run:
    """A run with the numbers that do not depend on where it starts."""
    system, fixed, rules = assembly.system, options.steps is not None, options.event_rules
    t_eval = options.t_eval if options.t_eval is not None else NOTHING
    run = runstate.Run(
        template(assembly, method, formulation, fixed, rules.shape[1]),
        options.steps if options.steps is not None else NOTHING,
        t_eval,
        _no_seeds(assembly.layout.n),
    )
    real, whole = run.real, run.whole
    real[: runstate.H_MAX + 1] = options.t0, options.first_step, options.t1, options.max_step  # T, H, T_END, H_MAX
    whole[runstate.STEP_LIMIT] = NO_LIMIT if options.max_steps is None else options.max_steps
    if rules.shape[1]:
        run.event_rules[:] = rules
    whole[runstate.STORE_STEPS] = int(options.t_eval is None)
    whole[runstate.EVENT_KERNEL] = options.event_kernel
    whole[runstate.N_EVAL] = t_eval.size
    tolerance = max(options.rtol.tolist() + options.atol.tolist())
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


def outputs(n: int, options: Options) -> runstate.Output:
    """Room for rows of so many numbers."""
    t, rows, order, event_t, event_index, event_rows = output_shapes(n, options)
    points = np.empty(t), np.empty(rows), np.empty(order, dtype=np.int64)
    if not options.event_rules.shape[1]:
        return runstate.Output(*points, *_no_events(n))
    return runstate.Output(*points, np.empty(event_t), np.empty(event_index, dtype=np.int64), np.empty(event_rows))


def output_shapes(n: int, options: Options) -> tuple[tuple[int, ...], ...]:
    """Those of the arrays of `outputs`."""
    size = FIRST_ROOM if options.t_eval is None else options.t_eval.size
    size += 3 + len(options.steps if options.steps is not None else ())
    wanted = options.event_rules.shape[1]
    events = 16 + 2 * runstate.EVENTS_PER_STEP * wanted if wanted else SPARE
    return (size,), (size, n), (size,), (events,), (events,), (events, n)


@cache
def _no_events(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Room for events where there are none, nor will be: nothing is written there."""
    return np.zeros(SPARE), np.zeros(SPARE, dtype=np.int64), np.zeros((SPARE, n))


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
    return runstate.EVENTS_PER_STEP * int(run.whole[runstate.N_EVENTS]) + SPARE


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
