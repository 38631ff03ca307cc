"""A run made of segments: integrations one after the other, each with a system, a method and a state of its own.

    prepare (start, plan) -> Segment      compile, make the start complete, choose a first step
    Segment.execute                       the compiled loop, until the end, an event, a failure or a pause
    follow (segments) -> Start            what comes next: a `Start`, or None (or an `End`) if the run is over

A segment ends at the next declared discontinuity, at an event that stops the loop, when `Start.pause` says so, or at
the end of the run. `carry_on` makes the start of the next one from the state reached, with whatever is to change.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dalembert.formulations.base import Formulation
from dalembert.integrators.base import Integrator
from dalembert.model.system import System
from dalembert.numerics import runstate
from dalembert.numerics.projection import Projection
from dalembert.runtime import arguments
from dalembert.runtime.assemble import make_layout
from dalembert.runtime.assembly import Workspace
from dalembert.runtime.events import EventSet
from dalembert.runtime.plan import Plan
from dalembert.runtime.prepare import (
    Initial,
    assembly_for,
    check_pair,
    first_step,
    known_assembly,
    make_starter,
    prepare_start,
    start_formulation,
    start_method,
    starts_better,
)
from dalembert.runtime.run import Options, Pause, Result, Starter, execute
from dalembert.runtime.singular import scale_of
from dalembert.runtime.start import initial_row
from dalembert.status import Status

Tick = Callable[[float, int], None]


@dataclass(eq=False)
class Start:
    """What a segment starts with. ``values``: q, v, r (and guesses for w, s) by name."""

    system: System
    method: Integrator
    formulation: Formulation
    projection: Projection | None
    p: np.ndarray
    t: float
    values: Mapping[str, Any]
    initial: Initial = "assume"
    first_step: float | None = None
    invariants: np.ndarray | None = None  # values to keep; None: those of this state
    reason: str = "start"
    pause: Pause | None = None  # asked before the first step and now and then: is the segment to end here?
    look_every: int | None = None  # steps before the first such question; later they come at growing distances
    expected: int = 0  # answer of `numerics.stiffness` before the first step by which the question there is settled
    happened: tuple[int, ...] = ()  # events whose zero is this state
    sides: Mapping[int, float] = field(default_factory=dict)  # signs of other events that are zero here
    scale: np.ndarray | None = None  # of the constraints, if they are those of the segment before


@dataclass(frozen=True, eq=False)
class End:
    """Why a run is over although its last segment could have been continued."""

    status: Status
    message: str


@dataclass(eq=False)
class Segment:
    """One integration, prepared and then executed."""

    start: Start
    work: Workspace
    options: Options
    events: EventSet
    row0: np.ndarray
    starter: Starter | None
    stop: float  # where it ends at the latest, as declared
    prepare_time: float = 0.0
    run_time: float = 0.0
    _result: Result | None = None

    @property
    def result(self) -> Result:
        assert self._result is not None
        return self._result

    def execute(self, tick: Tick | None = None) -> None:
        begin = time.perf_counter()
        start = self.start
        self._result = execute(
            self.work, start.method, start.formulation, self.row0, self.options, tick, self.starter, start.pause,
            start.look_every,
        )  # fmt: skip
        self.run_time = time.perf_counter() - begin

    @property
    def steps(self) -> int:
        return int(self.result.state.whole[runstate.STEPS])

    @property
    def t_end(self) -> float:
        """Time reached."""
        if self.result.status == Status.EVENT:
            return float(self.result.event_t[self.result.state.whole[runstate.TERMINAL]])
        t = float(self.result.state.real[runstate.T])
        return self.stop if t == self.options.t1 else t

    @property
    def end_row(self) -> np.ndarray:
        """State reached, with its multipliers and accelerations unless solving for them failed."""
        state = self.result.state
        if self.result.status == Status.EVENT:
            return self.result.event_rows[state.whole[runstate.TERMINAL]].copy()
        row = state.rows[state.slots[1]].copy()
        self.work.complete(float(state.real[runstate.T]), row)
        return row

    @property
    def times(self) -> np.ndarray:
        """Stored times; a declared discontinuity has the time that was declared, not the one beside it."""
        t = self.result.t
        if (self.start.t, self.stop) != (self.options.t0, self.options.t1):
            t = t.copy()
            t[t == self.options.t0] = self.start.t
            t[t == self.options.t1] = self.stop
        return t

    @property
    def phi0(self) -> np.ndarray:
        """Values of the invariants that are kept."""
        if self.start.invariants is not None:
            return self.start.invariants
        return self.work.levels(self.options.t0, self.row0)["phi"]

    def part(self, name: str, row: np.ndarray) -> np.ndarray:
        return row[self.work.assembly.layout.slice(name)]


Begin = Callable[[Segment], Start | None]
Follow = Callable[[Sequence[Segment]], Start | End | None]


def in_turn(*givers: Follow) -> Follow:
    """Ask one after the other what comes next; the first answer counts."""

    def follow(segments: Sequence[Segment]) -> Start | End | None:
        return next((answer for answer in (ask(segments) for ask in givers) if answer is not None), None)

    return follow


@dataclass(frozen=True, eq=False)
class Story:
    """Segments of a run and why it ended, if not as its last segment did."""

    segments: list[Segment]
    end: End | None = None


def carry_on(segment: Segment, **changes: Any) -> Start:
    """The state that a segment reached as the start of another one, with changes (fields of `Start`).

    One-step methods go on with the step size they had; multistep methods begin anew.
    """
    row = segment.end_row
    values = {name: segment.part(name, row) for name in ("q", "v", "r", "w", "s")}
    start = replace(
        segment.start, t=segment.t_end, values=values, initial="assume", happened=(), sides={}, first_step=None,
        scale=None if "system" in changes else scale_of(segment.result.state),
    )  # fmt: skip
    start = replace(start, **changes)
    if start.first_step is None and start.method.one_step and start.method == segment.start.method:
        last = np.abs(np.diff(segment.result.t[-4:])) if segment.options.t_eval is None else np.zeros(0)
        start = replace(start, first_step=max(abs(float(segment.result.state.real[runstate.H])), *last.tolist(), 0.0))
    return start


def run_segments(
    first: Start | Segment, plan: Plan, follow: Follow | None = None, tick: Tick | None = None,
    begin: Begin | None = None,
) -> Story:  # fmt: skip
    """Integrate from start to end, segment by segment; the first one may have been executed already.

    Bad input in the first start is refused by an exception; what goes wrong with a later one ends the run. ``begin``
    looks at the first segment before it is executed and may replace its start.
    """
    segments: list[Segment] = []
    start: Start | Segment | None = first
    steps, evaluated = 0, 0
    while start is not None:
        if isinstance(start, Segment):
            segment = start
        else:
            try:
                segment = prepare(start, plan, steps, evaluated, segments)
                other = begin(segment) if begin is not None and not segments else None
                if other is not None:
                    segment = prepare(other, plan, steps, evaluated, segments)
            except (ValueError, ArithmeticError) as problem:
                if not segments:
                    raise
                return Story(segments, End(Status.RESTART_FAILED, f"{_place(start)}: {problem}"))
            segment.execute(_shifted(tick, steps))
        segments.append(segment)
        steps += segment.steps
        start = None
        if segment.result.status in (Status.EVENT, Status.RUNNING) or _inside(segment, plan):
            answer = follow(segments) if follow is not None else None
            if isinstance(answer, End):
                return Story(segments, answer)
            start = answer
        if start is not None and segment.steps == 0 and segment.result.status == Status.RUNNING:
            segments.pop()  # given up before its first step
        if start is None and _inside(segment, plan):
            start = carry_on(segment, reason="discontinuity")
        if start is not None:
            evaluated += _leave_to_the_next(segment)
    return Story(segments)


def prepare(start: Start, plan: Plan, steps: int, evaluated: int, before: Sequence[Segment]) -> Segment:
    """Compile what is not yet compiled, make the start complete, choose the first step."""
    begin = time.perf_counter()
    system, method, form = start.system, start.method, start.formulation
    check_pair(system, method, form)
    stop = plan.next_stop(start.t)
    options = Options(
        t0=plan.beside(start.t, 1),
        t1=plan.beside(stop, -1),
        rtol=plan.rtol,
        atol=plan.atol,
        first_step=0.0,
        max_step=plan.max_step,
        max_steps=None if plan.max_steps is None else plan.max_steps - steps,
        scale=start.scale,
    )
    options.steps = plan.steps(options.t0, options.t1)
    if plan.t_eval is not None:
        options.t_eval = _wanted(plan.t_eval[evaluated:], plan, start.t, stop, options)
    assembly = known_assembly(system, method, form, start.projection)
    layout = make_layout(system, method, form) if assembly is None else assembly.layout
    row = initial_row(system, layout, **start.values)
    if options.steps is not None:
        method.check_steps(options.steps, options.t1 - options.t0)
    if not before:
        arguments.check_tolerances(options, row, layout.indices(("q", "v", "r")), method)
    if assembly is None:
        assembly = assembly_for(system, method, form, start.projection, options.t0, options.t1, row, start.p)
    work = assembly.workspace(start.p)
    prepare_start(work, options.t0, row, start.initial, max(options.atol.tolist()))
    if start.invariants is not None:
        work.set_invariants(start.invariants)
    start_formulation(work, form, options.t0, row)
    start_method(work, method, form, options.t0, row)
    events = plan.event_set(system, layout)
    events.check(options.t0, row, start.p)
    options.event_kernel, options.event_rules = events.address, _remaining(events, before)
    direction = 1.0 if plan.forward else -1.0
    options.leaving, options.event_noise = events.leaving(
        options.t0, row, start.p, start.happened, start.sides, direction
    )
    options.first_step = first_step(start.first_step, work, method, row, options)
    starter = make_starter(work, form, options, row) if starts_better(method, form, options) else None
    return Segment(start, work, options, events, row, starter, stop, time.perf_counter() - begin)


def _remaining(events: EventSet, before: Sequence[Segment]) -> np.ndarray:
    """Directions, and occurrences until the loop stops: those of earlier segments count, unless it always stops."""
    rules = events.rules.copy() if events.events else events.rules
    for i, event in enumerate(events.events):
        if event.jumps:
            rules[1, i] = 1
        elif rules[1, i]:
            rules[1, i] -= occurrences(before, i)
    return rules


def occurrences(segments: Sequence[Segment], i: int) -> int:
    """How often event i has happened so far."""
    return sum(int((s.result.event_index == i).sum()) for s in segments)


def _wanted(t_eval: np.ndarray, plan: Plan, t: float, stop: float, options: Options) -> np.ndarray:
    """Output times of a segment: up to its end, which belongs to the next one unless it is the last."""
    if (t, stop) == (options.t0, options.t1) and stop == plan.t1:
        return t_eval.copy()
    sign = 1.0 if plan.forward else -1.0
    inside = sign * t_eval <= sign * stop if stop == plan.t1 else sign * t_eval < sign * stop
    out = t_eval[inside].copy()
    out[out == t] = options.t0
    low, high = sorted((options.t0, options.t1))
    return np.clip(out, low, high)


def _inside(segment: Segment, plan: Plan) -> bool:
    """True if a segment got to where it was to end, but the run goes on."""
    return segment.result.status == Status.SUCCESS and segment.stop != plan.t1


def _leave_to_the_next(segment: Segment) -> int:
    """Output times that a segment has served. Its last instant belongs to the next one: the solution is continuous
    from the right."""
    if segment.options.t_eval is None:
        return 0
    result = segment.result
    keep = result.t.size
    if keep and result.t[-1] == segment.t_end:
        keep -= 1
    segment._result = replace(result, t=result.t[:keep], rows=result.rows[:keep], orders=result.orders[:keep])
    return keep


def _shifted(tick: Tick | None, steps: int) -> Tick | None:
    return None if tick is None else lambda t, n: tick(t, steps + n)


def _place(start: Start) -> str:
    return f"at t = {start.t:.10g} ({start.reason})"
