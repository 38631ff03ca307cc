"""A `Solution` from the segments of a run.

Points are those of the segments, one after the other: where the state or the model jumps, the time is there twice, with
the state before and the one after the jump. Dense output is continuous from the right. Multipliers have the width of
the system with all its constraints; those of released constraints are zero, and so are their residuals.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

from dalembert.model.released import full_system, released_names, widen
from dalembert.model.system import System
from dalembert.numerics import runstate
from dalembert.numerics.compiled import evaluate as evaluate_dense
from dalembert.numerics.newton import FACTORIZATIONS, ITERATIONS, LAPACK, RESIDUALS
from dalembert.runtime import report
from dalembert.runtime.direct import Ran
from dalembert.runtime.jumps import Jumps
from dalembert.runtime.plan import Plan
from dalembert.runtime.segments import Segment, Start, Story
from dalembert.solution import PARTS, Drift, Solution, State
from dalembert.status import SegmentStats, Stats, Status

SUCCESS = Status.SUCCESS  # quicker to find


@dataclass(frozen=True, eq=False)
class Source:
    """What a solution is made from."""

    story: Story
    plan: Plan
    jumps: Jumps | None
    context: Callable[[Segment], Any] | None
    message: str

    @property
    def segments(self) -> list[Segment]:
        return self.story.segments

    @property
    def system(self) -> System:
        """With all its constraints."""
        return full_system(self.segments[-1].work.assembly.system)


def make_solution(
    story: Story, plan: Plan, jumps: Jumps | None = None, context: Callable[[Segment], Any] | None = None
) -> Solution:
    """Everything that the segments of a run have computed, and how it ended.

    ``context`` makes from the first segment what `Solution.check` needs to know.
    """
    status, error = _status(story)
    message = _message(story, status, error)
    source = Source(story, plan, jumps, context, message)
    return Solution.made_of({"_makers": _FIELDS, "status": status, "_source": source})


def solution_of(
    ran: Ran, plan: Plan, context: Callable[[Segment], Any], start: Start | None = None
) -> Solution:  # fmt: skip
    """The same for a run in one call; ``start``: that of the run, if it is known."""
    if ran.result is not None:
        return make_solution(Story([ran.segment(start)]), plan, None, context)
    known = {"_makers": _FIELDS, "status": SUCCESS, "_origin": (ran, plan, context, start)}
    if not (ran.direct.memory.released or ran.direct.large):  # views would keep large arrays
        known["q"], known["v"] = ran.motion()
    return Solution.made_of(known)


def _source(origin: tuple[Ran, Plan, Callable[[Segment], Any], Start | None]) -> Source:
    ran, plan, context, start = origin
    return Source(Story([ran.segment(start)]), plan, None, context, SUCCESS.message)


def _times(source: Source) -> np.ndarray:
    segments, t_eval = source.segments, source.plan.t_eval
    if t_eval is not None:
        return t_eval[: _stored(segments)].copy()
    return _one_after_the_other([s.times for s in segments])


def _events(source: Source) -> list[State]:
    segments, forward = source.segments, source.plan.forward
    return [_event_states(segments, i, source.jumps, forward) for i in range(segments[-1].events.count)]


def _context(source: Source) -> Any:
    if source.context is None or (source.jumps is not None and source.jumps.record):
        return None
    return source.context(source.segments[0])


def _evaluator(source: Source) -> Callable[[np.ndarray], dict[str, np.ndarray]]:
    segments, forward = source.segments, source.plan.forward
    return lambda times: _dense(segments, times, forward)


def _drift_of(source: Source) -> Callable[[], Drift]:
    segments = source.segments
    return lambda: _drift(segments)


def _energy_of(source: Source) -> Callable[[], np.ndarray] | None:
    segments = source.segments
    return (lambda: _energy(segments)) if source.system.energy is not None else None


#: Fields of a solution; short runs take less time than to make them all.
_FIELDS: dict[str, Callable[[Any], Any]] = {
    "_source": _source,
    "t": _times,
    "parts": lambda x: _joined([split(s, s.result.rows) for s in x.segments]),
    "message": lambda x: x.message,
    "stats": lambda x: _stats(x.segments),
    "names": lambda x: x.system.all_names.copy(),
    "events": _events,
    "t_events": lambda x: [state.t for state in _events(x)],
    "orders": lambda x: _one_after_the_other([s.result.orders for s in x.segments]),
    "parameters": lambda x: x.segments[0].work.assembly.system.parameters.as_dict(x.segments[0].work.p),
    "system_name": lambda x: x.system.name,
    "dense": lambda x: x.plan.t_eval is None,
    "evaluator": _evaluator,
    "drift_of": _drift_of,
    "energy_of": _energy_of,
    "extra": lambda x: _extra(x.segments),
    "jumps": lambda x: tuple(x.jumps.record) if x.jumps is not None else (),
    "breaks": lambda x: tuple(accumulate([s.result.t.size for s in x.segments[:-1]])),
    # on a group dense output takes the model
    "hermite": lambda x: tuple([
        s.start.method.hermite_order is not None and x.system.space.flat for s in x.segments
    ]),
    "fine": lambda x: None,
    "context": _context,
}  # fmt: skip


def split(segment: Segment, rows: np.ndarray) -> dict[str, np.ndarray]:
    """Parts of rows (nt, n) by name, multipliers at their places in the full system."""
    system = segment.work.assembly.system
    out = {name: rows[:, place] for name, place in segment.work.assembly.shown_blocks}
    if released_names(system):
        out.update({kind: widen(system, kind, out[kind]) for kind in ("lam", "mu")})
    return out


def _joined(parts: Sequence[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    return {name: np.concatenate([p[name] for p in parts]) for name in PARTS} if len(parts) > 1 else parts[0]


def _one_after_the_other(parts: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate(parts) if len(parts) > 1 else parts[0].copy()


def _stored(segments: Sequence[Segment]) -> int:
    return sum(s.result.t.size for s in segments)


# ---------------------------------------------------------------------- how it ended
def _status(story: Story) -> tuple[Status, BaseException | None]:
    last = story.segments[-1]
    if story.end is None and not last.events.count and not last.work.assembly.calls_python:
        return last.result.status, None
    error = last.work.assembly.take_error() or last.events.take_error()
    status = last.result.status if story.end is None else story.end.status
    if isinstance(error, KeyboardInterrupt):
        return Status.INTERRUPTED, None
    if error is not None and status.ok:  # an event function failed: its events are not to be trusted
        return Status.USER_ERROR, error
    return status, error


def _message(story: Story, status: Status, error: BaseException | None) -> str:
    if status == Status.SUCCESS and story.end is None:
        return status.message
    last = story.segments[-1]
    steps = sum(s.steps for s in story.segments)
    if story.end is not None and status == story.end.status:
        return f"Stopped at t = {last.t_end:.10g} after {steps} steps. {status.message} {story.end.message}"
    reached = float(last.result.state.real[runstate.T])
    # what the last segment began with may be as singular as what it ended with: methods have been changed before
    system = last.work.assembly.system
    first = next(s for s in story.segments if s.work.assembly.system is system)
    return report.message(
        status, reached, last.work, last.result, error, last.events,
        lambda: first.work.matrices(first.options.t0, first.row0)[1], steps,
    )  # fmt: skip


def _beyond(segment: Segment) -> tuple[str, ...]:
    """A warning, if automatic steps cannot make errors as small as the tolerances are."""
    method, options = segment.start.method, segment.options
    smallest = method.faithful_rtol * (1 - 1e-6)
    if options.steps is not None or not np.any((options.rtol < smallest) & (options.atol < smallest)):
        return ()
    return (
        f"{method.describe()}: errors follow the tolerance down to {method.faithful_rtol:.0e} only; rtol = "
        f"{options.rtol.min():.1g} is below. Radau, Gauss and Explicit go further.",
    )


def _stats(segments: Sequence[Segment]) -> Stats:
    """Sums over the segments; method, formulation and projection are those of the first one."""
    parts = tuple(_segment_stats(s) for s in segments)
    out = Stats(
        method=parts[0].method,
        formulation=parts[0].formulation,
        projection=_projection(segments[0]),
        segments=parts,
        wall_time=sum(s.run_time for s in segments),
        compile_time=sum(s.prepare_time for s in segments),
        switches=tuple(t for s in segments for t in s.result.switches),
        warnings=tuple(text for s in segments for text in (*_beyond(s), *s.result.passages)),
    )
    for s in segments:
        whole, counters = s.result.state.whole.tolist(), s.result.state.counters.tolist()
        out.steps += whole[runstate.STEPS]
        out.rejected += whole[runstate.REJECTED]
        out.starting_steps += whole[runstate.STARTING]
        out.newton_failures += whole[runstate.FAILURES]
        out.projections += whole[runstate.PROJECTIONS]
        out.residuals += counters[RESIDUALS]
        out.newton_iterations += counters[ITERATIONS]
        out.factorizations += counters[FACTORIZATIONS]
        out.lapack_factorizations += counters[LAPACK] if s.work.assembly.step.plan is not None else 0
    out.jacobians = out.factorizations
    return out


def _projection(segment: Segment) -> str:
    projection = segment.start.projection
    return projection.describe() if projection is not None and segment.work.assembly.stages else "none"


def _segment_stats(segment: Segment) -> SegmentStats:
    start = segment.start
    return SegmentStats(
        start.t,
        segment.t_end,
        start.reason,
        segment.result.status.name,
        segment.steps,
        start.method.describe(),
        start.formulation.describe(),
        tuple(sorted(released_names(start.system))),
    )


# ---------------------------------------------------------------------- what was computed
def _dense(segments: Sequence[Segment], times: np.ndarray, forward: bool) -> dict[str, np.ndarray]:
    sign = 1.0 if forward else -1.0
    which = np.searchsorted([sign * s.start.t for s in segments[1:]], sign * times, side="right")
    parts = None
    for i in np.unique(which):
        here = which == i
        found = _dense_within(segments[i], times[here])
        if parts is None:
            parts = {name: np.empty((times.size, x.shape[1])) for name, x in found.items()}
        for name, x in found.items():
            parts[name][here] = x
    return parts if parts is not None else split(segments[0], np.zeros((0, segments[0].work.assembly.layout.n)))


def _dense_within(segment: Segment, times: np.ndarray) -> dict[str, np.ndarray]:
    result, assembly = segment.result, segment.work.assembly
    fresh = assembly.workspace(segment.work.p)
    fresh.set_invariants(segment.phi0)
    out = np.empty((times.size, assembly.layout.n))
    low, high = sorted((result.t[0], result.t[-1]))
    state = result.state.copy()  # two threads may ask, and statistics are those of the run
    failures = evaluate_dense()(
        state.block, fresh.block, result.t, result.rows, result.orders, np.clip(times, low, high), out
    )
    if failures:
        first = times[np.isnan(out).any(axis=1)][:1]
        where = f", the first at t = {first[0]:g}" if first.size else ""
        raise ValueError(
            f"{failures} of {times.size} points between the steps of {segment.start.method.describe()} could not be "
            f"put onto the constraints{where}: steps are too long there for what moves fast. Use a tighter tolerance, "
            f"a max_step, or formulation='index-1' or 'index-2'."
        )
    return split(segment, out)


def _drift(segments: Sequence[Segment]) -> Drift:
    """Residuals, and the change of the invariants since the start of each segment (a jump is no drift)."""
    found: list[list[np.ndarray]] = [[], [], [], []]
    for s in segments:
        system, result = s.work.assembly.system, s.result
        levels = s.work.assembly.evaluate("levels", result.t, result.rows, s.work.p)
        edges = np.cumsum([0, system.nlam, system.nlam, system.nmu, system.nphi])
        g, g_dot, k, phi = (levels[:, edges[i] : edges[i + 1]] for i in range(4))
        parts = widen(system, "lam", g), widen(system, "lam", g_dot), widen(system, "mu", k), phi - s.phi0
        for values, x in zip(found, parts, strict=True):
            values.append(x)
    return Drift(*(np.concatenate(x) for x in found))


def _energy(segments: Sequence[Segment]) -> np.ndarray:
    parts = [s.work.assembly.evaluate("energy", s.result.t, s.result.rows, s.work.p)[:, 0] for s in segments]
    return np.concatenate(parts)


def _event_states(segments: Sequence[Segment], i: int, jumps: Jumps | None, forward: bool) -> State:
    """States at event i in the order of time, before whatever it changed."""
    found = [(s.result.event_t[m], split(s, s.result.event_rows[m])) for s in segments
             for m in [s.result.event_index == i]]  # fmt: skip
    sudden = [(np.array([t]), split(s, row[None])) for j, t, s, row in (jumps.sudden if jumps else ()) if j == i]
    t, parts = np.concatenate([x for x, _ in found + sudden]), _joined([x for _, x in found + sudden])
    if sudden:
        order = np.argsort(t if forward else -t, kind="stable")
        t, parts = t[order], {name: x[order] for name, x in parts.items()}
    return State(t, **parts)


def _extra(segments: Sequence[Segment]) -> dict[str, np.ndarray]:
    """Further unknowns of the formulations; NaN where a segment does not have them."""
    blocks = [{name: s.result.rows[:, place] for name, place in s.work.assembly.further_blocks} for s in segments]
    if len(segments) == 1:
        return blocks[0]
    widths: dict[str, int] = {}
    for found in blocks:
        for name, x in found.items():
            widths[name] = max(widths.get(name, 0), x.shape[1])
    return {name: np.concatenate([_padded(s, found.get(name), n) for s, found in zip(segments, blocks, strict=True)])
            for name, n in widths.items()}  # fmt: skip


def _padded(segment: Segment, x: np.ndarray | None, width: int) -> np.ndarray:
    out = np.full((segment.result.t.size, width), np.nan)
    if x is not None:
        system: Any = segment.work.assembly.system
        if x.shape[1] == system.nlam and width == full_system(system).nlam:  # one for each constraint
            x = widen(system, "lam", x)
        out[:, : x.shape[1]] = x
    return out
