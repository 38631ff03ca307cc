"""Runs that compiled code makes from the initial values on: one call, and Python only puts down what came of it.

A run that nothing has to be asked about on the way (no events, no method that might change, no numbers that a
formulation chooses) needs Python neither before its first step: `numerics.opening.open_here` makes the initial values
complete and finds a first step as `segments.prepare` would, by the same functions. Where it is in doubt about a start,
it says so, and the way over `segments.prepare` is taken, which has the words for what is wrong.

A run of a small mechanism takes as long as a hundred lines of Python. What does not depend on the initial values is
therefore done once for all runs of a `Direct`.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from dalembert.formulations.base import Formulation
from dalembert.integrators.base import Integrator
from dalembert.numerics import runstate
from dalembert.numerics.compiled import integrate
from dalembert.runtime import arguments
from dalembert.runtime.assembly import Assembly
from dalembert.runtime.events import NO_EVENTS
from dalembert.runtime.plan import Plan
from dalembert.runtime.prepare import known_assembly, starts_better
from dalembert.runtime.run import FIRST_SLICE, NOTHING, Options, Slices, configured, finished, outputs
from dalembert.runtime.segments import Segment, Start
from dalembert.runtime.start import initial_row
from dalembert.status import Status


def direct(start: Start, plan: Plan) -> Direct | None:
    """How to make runs that start like this one, but for its values and parameters, in one call; None if Python is
    needed, or before the first run has compiled everything."""
    if plan.h is not None or plan.events or plan.discontinuities or start.initial == "project":
        return None
    if start.pause is not None or start.invariants is not None or start.scale is not None:
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
    return Direct(assembly, options, run)


def _speechless(assembly: Assembly, method: Integrator, formulation: Formulation) -> bool:
    """True if neither the model, nor the method, nor the formulation has to be asked anything in Python."""
    known: dict[tuple[Integrator, Formulation], bool] = assembly.__dict__.setdefault("_speechless", {})
    key = method, formulation
    if key not in known:
        system = assembly.system
        known[key] = (
            not (system.ns or system.nphi or assembly.calls_python or formulation.data_size(system))
            and type(formulation).start is Formulation.start
            and type(method).start_carried is Integrator.start_carried
            and type(method).begin is Integrator.begin
        )
    return known[key]


@dataclass(frozen=True, eq=False)
class Direct:
    """Runs from different initial values; ``template`` is one that has not begun."""

    assembly: Assembly
    options: Options
    template: runstate.Run

    def run(self, start: Start) -> Segment | None:
        """The run from a start, done; None if Python has to look at it."""
        begin = time.perf_counter()
        assembly, options = self.assembly, self.options
        row = initial_row(assembly.system, assembly.layout, **start.values)
        work, run, output = assembly.workspace(start.p), self.template.again(), outputs(assembly.layout.n, options)
        begun = time.perf_counter()
        try:
            status = integrate()(
                run.block, work.block, row, options.rtol, options.atol, NOTHING, run.t_eval, run.seeds, *output
            )
        except KeyboardInterrupt:
            status = int(Status.INTERRUPTED)
        done = time.perf_counter()
        if status == runstate.NOT_OPENED:
            return None
        if status == runstate.SUCCESS:
            result = finished(status, run, output)
        else:
            slices = Slices(work, start.formulation, options, run, output)
            result = slices.go_on(slices.attend(status))
            done = time.perf_counter()
        return Segment(start, work, options, NO_EVENTS, row, None, options.t1, begun - begin, done - begun, result)
