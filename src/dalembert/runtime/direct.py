"""Runs that compiled code makes from the initial values on: one call, and Python only puts down what came of it.

A run that nothing has to be asked about on the way (no events, no numbers that a formulation chooses) does not need
Python before its first step either: `numerics.opening.open_here` makes the initial values complete and finds a first
step as `segments.prepare` would, by the same functions. Where it is in doubt about a start, it says so, and the way
over `segments.prepare` is taken, which has the words for what is wrong. A run whose method may change also finds out
whether it is stiff there, and goes on only if that is answered as expected.

A run of a small mechanism takes as long as a hundred lines of Python. What does not depend on the initial values is
therefore done once for all runs of a `Direct`, and what does by compiled code, from the memory of the run on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property, partial
from math import prod
from time import perf_counter as clock
from typing import Any

import numpy as np
from numpy import empty, ndarray

from dalembert.formulations.base import At, Formulation
from dalembert.integrators.base import Integrator
from dalembert.model.released import released_names
from dalembert.numerics import runstate
from dalembert.numerics.call import OUTPUT
from dalembert.numerics.compiled import integrate, unfold
from dalembert.numerics.memory import Bundle, refer
from dalembert.runtime import arguments
from dalembert.runtime.assembly import Assembly, Workspace
from dalembert.runtime.events import NO_EVENTS
from dalembert.runtime.plan import Plan
from dalembert.runtime.prepare import known_assembly, starts_better
from dalembert.runtime.run import (
    FIRST_SLICE,
    NOTHING,
    Options,
    Result,
    Slices,
    configured,
    finished,
    output_shapes,
)
from dalembert.runtime.segments import Segment, Start
from dalembert.runtime.start import initial_row
from dalembert.status import Status

DOUBLE, WORD = np.dtype(float), np.dtype(np.int64)
AT_ROW = 2  # position in a call, behind run and work
N_OUTPUT, ROWS = len(runstate.Output._fields), runstate.Output._fields.index("rows")
ITEMS, N_POINTS = OUTPUT + N_OUTPUT, 3  # the first arrays of the output are those of points, then come events
KINDS = np.float64, np.float64, np.int64, np.float64, np.int64, np.float64  # of the arrays of the output
LARGE = 1000  # numbers in the rows of the output
MOST_KNOWN = 100  # numbers of output times and the like, of an assembly
Shapes = tuple[tuple[int, ...], ...]
Given = tuple[Any, Any, Any, Any, Any]
Points = tuple[np.ndarray, np.ndarray, np.ndarray]
Ranges = list[tuple[int, int]]


def direct(start: Start, plan: Plan) -> Direct | None:
    """How to make runs that start like this one, but for its values and parameters, in one call; None if Python is
    needed, or before the first run has compiled everything."""
    if plan.h is not None or plan.events or plan.discontinuities or start.initial == "project":
        return None
    if start.invariants is not None or start.scale is not None:
        return None
    assembly = known_assembly(start.system, start.method, start.formulation, start.projection)
    if assembly is None or not _speechless(assembly, start.method, start.formulation):
        return None
    options = Options(
        t0=plan.t0, t1=plan.t1, rtol=plan.rtol, atol=plan.atol, first_step=0.0, max_step=plan.max_step,
        max_steps=plan.max_steps, t_eval=plan.t_eval,
    )  # fmt: skip
    smallest = max(arguments.SMALLEST_RTOL, start.method.smallest_rtol)
    if starts_better(start.method, start.formulation, options) or min(plan.rtol.tolist()) < smallest:
        return None
    if start.first_step is not None:
        span = plan.t1 - plan.t0
        options.first_step = float(np.sign(span)) * min(start.first_step, abs(span))
    run = configured(assembly, start.method, start.formulation, options)
    run.real[runstate.ALLOWED] = max(options.atol.tolist()) if start.initial == "check" else -1.0
    run.whole[runstate.OPENS], run.whole[runstate.START_ORDER] = 1, start.method.start_order
    run.whole[runstate.CHUNK_END] = FIRST_SLICE
    return Direct(start, assembly, options, run)


def _speechless(assembly: Assembly, method: Integrator, formulation: Formulation) -> bool:
    """True if neither the model, nor the method, nor the formulation has to be asked anything in Python."""
    known: dict[tuple[Integrator, Formulation], bool] = assembly.__dict__.setdefault("_speechless", {})
    key = method, formulation
    if key not in known:
        system = assembly.system
        known[key] = (
            not (system.ns or system.nphi or assembly.calls_python or formulation.data_size(system))
            and _empty(partial(formulation.start, system))
            and _empty(partial(method.start_carried, system, formulation))
            and type(method).begin is Integrator.begin
        )
    return known[key]


class _AskedError(Exception):
    """Raised by `_never`."""


def _never(name: str) -> np.ndarray:
    raise _AskedError(name)


def _empty(values: Callable[[At], Mapping[str, Any]]) -> bool:
    """True if there are no further initial values, whatever the state is."""
    try:
        return not values(_never)
    except _AskedError:
        return False


class Memory:
    """Where everything is in the memory of runs of an assembly; the same for all that have as much of everything."""

    def __init__(self, assembly: Assembly, shapes: Shapes, ranges: Ranges) -> None:
        system, layout = assembly.system, assembly.layout
        # what is computed, or put there in time, is not a part of the template
        later = dict.fromkeys((AT_ROW, *range(OUTPUT, ITEMS)), ())
        self.bundle = Bundle(shapes, {0: ranges, 1: assembly.parts.ranges, **later})
        self.run, self.work, self.row = self.bundle.places[: AT_ROW + 1]
        self.output = list(zip(self.bundle.places[OUTPUT:], shapes[OUTPUT:], strict=True))
        #: numbers of positions and velocities, if there is nothing else to start from
        self.moves = (system.nq,) if system.nq and not system.nr else None, (system.nv,)
        self.columns = q, v = layout.slice("q"), layout.slice("v")
        first = self.bundle.places[OUTPUT + ROWS].start
        #: where the positions and velocities are that are stored first
        self.first = tuple([(None, slice(first + x.start, first + x.stop)) for x in (q, v)])
        #: bytes before them, their numbers, and bytes from row to row
        self.motion = (
            (8 * (first + q.start), q.stop - q.start), (8 * (first + v.start), v.stop - v.start), (8 * layout.n, 8)
        )  # fmt: skip
        self.released = bool(released_names(system))

    @classmethod
    def of(cls, assembly: Assembly, shapes: Shapes, ranges: Ranges) -> Memory:
        """Found out once."""
        known: dict[Any, Memory] = assembly.__dict__.setdefault("_memories", {})
        key = shapes, tuple(ranges)
        found = known.get(key)
        if found is None:
            if len(known) >= MOST_KNOWN:
                known.clear()
            found = known[key] = cls(assembly, shapes, ranges)
        return found


class Direct:
    """Runs that start like ``start``, but from other values; ``template`` is one that has not begun."""

    def __init__(self, start: Start, assembly: Assembly, options: Options, template: runstate.Run) -> None:
        self.start, self.assembly, self.options, self.template = start, assembly, options, template
        given = options.rtol, options.atol, NOTHING, template.t_eval, template.seeds
        self._items = template.block, None, None, *given, *[None] * N_OUTPUT
        output = output_shapes(assembly.layout.n, options)
        # many points are not kept as long as anything else of a run is
        self.large = prod(output[ROWS]) > LARGE
        shapes = template.block.shape, assembly.parts.template.shape, (assembly.layout.n,), *[x.shape for x in given]
        self._room = output[0][0], output[ROWS]
        if self.large:  # and are given beside the rest
            output = (*[(0,), (0, 0), (0,)], *output[N_POINTS:])
        self.memory = Memory.of(assembly, (*shapes, *output), template.ranges)
        self._folded: tuple[np.ndarray, np.ndarray] | None = None  # parameters, and the template with them
        self.all = -1 if options.t_eval is None else options.t_eval.size  # points that there are, if it is known
        self._advance, self._unfold = integrate(), unfold()

    def run(self, given: Given, p: np.ndarray, start: Start | None = None) -> Ran | None:
        """A run from initial values q0, v0, r0, w0, s0, done; None if Python has to look at them.

        ``start``: that of this run, if it is watched. Such a run may not be over.
        """
        begin = clock()
        memory, folded = empty(self.memory.bundle.size), self._with(p)
        q0, v0 = self._motion(memory, given)
        ran = Ran(self, given, p, memory)
        looks = start if start is not None and start.pause is not None else None
        if self.large or looks is not None:
            self._unfold(folded, memory)
            folded = NOTHING
        if self.large:
            n, shape = self._room
            ran.points = empty(n), empty(shape), empty(n, WORD)
            refer(memory, OUTPUT, ran.points)
        if looks is not None:
            whole = ran.state.whole
            whole[runstate.LOOKS], whole[runstate.EXPECTED] = 1, looks.expected
            whole[runstate.CHUNK_END] = looks.look_every
        begun = clock()
        try:
            status = self._advance(memory, folded, q0, v0)
        except KeyboardInterrupt:
            status = int(Status.INTERRUPTED)
        ran.prepare_time, ran.run_time = begun - begin, clock() - begun
        if status == runstate.SUCCESS:
            ran.stored = self.all
            return ran
        if status == runstate.NOT_OPENED:
            return None
        pause, look_every = (start.pause, start.look_every) if start is not None else (None, None)
        slices = Slices(
            ran.work, self.start.formulation, self.options, ran.state, ran.output, pause=pause, look_every=look_every,
            made=(ran.state, ran.state.seeds, ran.output, memory),
        )  # fmt: skip
        status = slices.go_on(slices.attend(status))
        ran.state, ran.output = slices.run, slices.output
        if status != runstate.SUCCESS or not slices.uneventful:
            ran.result = slices.result(status)
        ran.run_time = clock() - begun
        return ran

    def _with(self, p: np.ndarray) -> np.ndarray:
        """The template of runs with these parameters, folded."""
        known = self._folded
        if known is None or known[0] is not p:
            run, _, *others = self._items
            known = self._folded = p, self.memory.bundle.folded([run, self.assembly.filled(p), *others])
        return known[1]

    def _motion(self, memory: np.ndarray, given: Given) -> tuple[np.ndarray, np.ndarray]:
        """Positions and velocities as compiled code takes them, which sees whether they are finite; whatever else is
        given is made a row, in its place, and nothing is returned."""
        (q, v, r, w, s), (of_q, of_v) = given, self.memory.moves
        alone = r is None and w is None and s is None
        if alone and type(q) is ndarray and q.dtype is DOUBLE and q.shape == of_q and q.flags.carray:
            if v is None:
                return q, NOTHING
            if type(v) is ndarray and v.dtype is DOUBLE and v.shape == of_v and v.flags.carray:
                return q, v
        system = self.assembly.system
        memory[self.memory.row] = initial_row(system, self.assembly.layout, **system.initial_values(*given))
        return NOTHING, NOTHING


class Ran:
    """A run that a `Direct` has made: its memory, from which objects are made when they are asked for."""

    result: Result | None = None  # if there is more to say than that it was a success
    stored: int = -1  # points, if it is known
    points: Points | None = None  # arrays beside the memory
    prepare_time: float
    run_time: float

    def __init__(self, direct: Direct, given: Given, p: np.ndarray, memory: np.ndarray) -> None:
        self.direct, self._given, self._p, self._memory = direct, given, p, memory

    @cached_property
    def work(self) -> Workspace:
        return Workspace(self.direct.assembly, self._memory[self.direct.memory.work], self._p)

    @cached_property
    def state(self) -> runstate.Run:
        return self.direct.template.with_memory(self._memory[self.direct.memory.run])

    @property
    def row0(self) -> np.ndarray:
        return self._memory[self.direct.memory.row]

    @cached_property
    def output(self) -> runstate.Output:
        direct = self.direct
        parts = [self._memory[place].reshape(shape) for place, shape in direct.memory.output]
        inside = [x.view(kind) for x, kind in zip(parts, KINDS, strict=True)]
        return runstate.Output(*(self.points or inside[:N_POINTS]), *inside[N_POINTS:])

    @property
    def over(self) -> bool:
        """False if another method is to go on from where it is."""
        return self.result is None or self.result.status != Status.RUNNING

    def motion(self) -> tuple[np.ndarray, np.ndarray]:
        """Positions and velocities stored; the other arrays of the output need not be made for them."""
        direct = self.direct
        if self.stored < 0:
            self.stored = int(self.state.whole[runstate.STORED])
        if "output" in self.__dict__:
            rows = self.output.rows[: self.stored]
            return rows[:, direct.memory.columns[0]], rows[:, direct.memory.columns[1]]
        n, memory = self.stored, self._memory
        if n == 1:  # half the time
            q, v = direct.memory.first
            return memory[q], memory[v]
        (q, nq), (v, nv), strides = direct.memory.motion
        return ndarray((n, nq), DOUBLE, memory, q, strides), ndarray((n, nv), DOUBLE, memory, v, strides)

    def segment(self, start: Start | None = None) -> Segment:
        """The same as other runs have it; ``start``: that of the run, if it is known."""
        result = self.result or finished(runstate.SUCCESS, self.state, self.output)
        options = self.direct.options
        if start is None:
            values = self.direct.assembly.system.initial_values(*self._given)
            start = replace(self.direct.start, values=values, p=self._p)
        return Segment(
            start, self.work, options, NO_EVENTS, self.row0, None, options.t1, self.prepare_time, self.run_time, result
        )
