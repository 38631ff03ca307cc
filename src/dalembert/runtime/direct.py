"""Runs that compiled code makes from the initial values on: one call, and Python only puts down what came of it.

A run that nothing has to be asked about on the way (no events, no numbers that a formulation chooses) does not need
Python before its first step either: `numerics.opening.open_here` makes the initial values complete and finds a first
step as `segments.prepare` would, by the same functions. Where it is in doubt about a start, it says so, and the way
over `segments.prepare` is taken, which has the words for what is wrong. A run whose method may change also finds out
whether it is stiff there, and goes on only if that is answered as expected.

A run of a small mechanism takes as long as a hundred lines of Python. What does not depend on the initial values is
therefore done once for all runs of a `Direct`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from dalembert.formulations.base import At, Formulation
from dalembert.integrators.base import Integrator
from dalembert.numerics import runstate
from dalembert.numerics.compiled import integrate
from dalembert.runtime import arguments
from dalembert.runtime.assembly import Assembly, Workspace
from dalembert.runtime.events import NO_EVENTS
from dalembert.runtime.plan import Plan
from dalembert.runtime.prepare import known_assembly, starts_better
from dalembert.runtime.run import FIRST_SLICE, NOTHING, Options, Result, Slices, configured, finished, outputs
from dalembert.runtime.segments import Segment, Start
from dalembert.runtime.start import initial_row
from dalembert.status import Status

DOUBLE = np.dtype(float)


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


class Direct:
    """Runs that start like ``start``, but from other values; ``template`` is one that has not begun."""

    def __init__(self, start: Start, assembly: Assembly, options: Options, template: runstate.Run) -> None:
        self.start, self.assembly, self.options, self.template = start, assembly, options, template
        system, layout = assembly.system, assembly.layout
        # blocks of the row that numbers can be put into as they are
        self._blocks = {name: (layout.slice(name), (system.sizes[name],)) for name in ("q", "v", "r")}
        self._required = [name for name in ("q", "r") if system.sizes[name]]
        self._advance = integrate()

    def run(self, values: Mapping[str, Any], p: np.ndarray, start: Start | None = None) -> Ran | None:
        """A run from initial values by name, done; None if Python has to look at them.

        ``start``: that of this run, if it is watched. Such a run may not be over.
        """
        begin = time.perf_counter()
        assembly, options = self.assembly, self.options
        row = self._row(values)
        work, run, output = assembly.workspace(p), self.template.again(), outputs(assembly.layout.n, options)
        pause, look_every = None, None
        if start is not None and start.pause is not None:
            pause, look_every = start.pause, start.look_every
            run.whole[runstate.LOOKS], run.whole[runstate.EXPECTED] = 1, start.expected
            run.whole[runstate.CHUNK_END] = look_every
        begun = time.perf_counter()
        try:
            status = self._advance(
                run.block, work.block, row, options.rtol, options.atol, NOTHING, run.t_eval, run.seeds, *output
            )
        except KeyboardInterrupt:
            status = int(Status.INTERRUPTED)
        if status == runstate.NOT_OPENED:
            return None
        ran = Ran(self, values, work, run, output, row, begun - begin, time.perf_counter() - begun)
        if status != runstate.SUCCESS:
            slices = Slices(work, self.start.formulation, options, run, output, pause=pause, look_every=look_every)
            status = slices.go_on(slices.attend(status))
            ran.state, ran.output = slices.run, slices.output
            if status != runstate.SUCCESS or not slices.uneventful:
                ran.result = slices.result(status)
            ran.run_time = time.perf_counter() - begun
        return ran

    def _row(self, values: Mapping[str, Any]) -> np.ndarray:
        """As `initial_row`, whose place it takes for arrays of numbers; compiled code sees whether they are finite."""
        row = np.zeros(self.assembly.layout.n)
        for name, x in values.items():
            if type(x) is np.ndarray and name in self._blocks and x.dtype == DOUBLE:
                place, shape = self._blocks[name]
                if x.shape == shape:
                    row[place] = x
                    continue
            elif x is None and name not in self._required:
                continue
            return initial_row(self.assembly.system, self.assembly.layout, **values)
        return row


@dataclass(eq=False, slots=True)
class Ran:
    """A run that a `Direct` has made."""

    direct: Direct
    values: Mapping[str, Any]
    work: Workspace
    state: runstate.Run
    output: runstate.Output
    row0: np.ndarray
    prepare_time: float
    run_time: float
    result: Result | None = None  # if there is more to say than that it was a success

    @property
    def over(self) -> bool:
        """False if another method is to go on from where it is."""
        return self.result is None or self.result.status != Status.RUNNING

    def rows(self, name: str) -> np.ndarray:
        """A block of the rows stored."""
        n = self.state.whole.item(runstate.STORED)
        return self.output.rows[:n, self.work.assembly.layout.slice(name)]

    def segment(self, start: Start | None = None) -> Segment:
        """The same as other runs have it; ``start``: that of the run, if it is known."""
        result = self.result or finished(runstate.SUCCESS, self.state, self.output)
        options = self.direct.options
        start = start or replace(self.direct.start, values=self.values, p=self.work.p)
        return Segment(
            start, self.work, options, NO_EVENTS, self.row0, None, options.t1, self.prepare_time, self.run_time, result
        )
