"""What events change: state, parameters, active constraints; and how the run goes on from there.

At a jump, everything that happens at that instant is applied in the order of the list of events. Then positions are
moved onto the constraints (if they are off), velocities jump by the impulses of the constraints (`impulses`), and the
next segment solves for multipliers and accelerations anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dalembert.model.blackbox import argument_names
from dalembert.model.released import full_system, released_names, widen, with_released
from dalembert.model.system import System
from dalembert.runtime.assembly import Workspace
from dalembert.runtime.chatter import accumulation
from dalembert.runtime.consistency import nearest
from dalembert.runtime.event import Event
from dalembert.runtime.events import asked_names
from dalembert.runtime.eventstate import EventState, Jump
from dalembert.runtime.impulses import impact, onto_constraints
from dalembert.runtime.plan import Plan
from dalembert.runtime.prepare import assembly_for
from dalembert.runtime.segments import End, Segment, Start, carry_on, occurrences
from dalembert.runtime.start import put_on_space, solve_contact
from dalembert.status import ModelError, OptionError, Status

MOST_PASSES = 200  # of impacts at one instant that cause each other


class _FunctionError(Exception):
    """An exception of a function of an event."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


class Jumps:
    """Applies events between the segments of a run, and keeps the record of it."""

    def __init__(self, plan: Plan) -> None:
        for event in plan.events:
            if event.restitution is not None and not plan.forward:
                raise OptionError(
                    f"event {event.label!r}: restitution needs a run forward in time (t_span = ({plan.t0:g}, "
                    f"{plan.t1:g})); an impact loses energy and cannot be undone."
                )
        self.plan = plan
        self.record: list[Jump] = []
        self.resting: list[bool] = []  # for each of them: only impacts, and no bounce above rounding errors
        # impacts that no step has found, because others caused them at once: event, time, segment and row before
        self.sudden: list[tuple[int, float, Segment, np.ndarray]] = []

    def begin(self, segment: Segment) -> Start | None:
        """Impacts at the very start: a gap that is closed there and closes further. None if there are none."""
        closing = self._closing(segment.start.system, segment.work, segment.options.t0, segment.row0, strict=True)
        if not closing:
            return None
        try:
            changes = self._jump(segment, segment.options.t0, segment.row0.copy(), [], "impact at the start")
        except _FunctionError as problem:
            raise problem.cause from None
        return replace(segment.start, initial="assume", **changes)

    def follow(self, segments: Sequence[Segment]) -> Start | End | None:
        """What comes after a segment that an event has ended."""
        last = segments[-1]
        if last.result.status != Status.EVENT:
            return None
        events = last.events.events
        found = np.flatnonzero(last.result.event_t >= last.t_end) if self.plan.forward else \
            np.flatnonzero(last.result.event_t <= last.t_end)  # fmt: skip
        happened = sorted({int(last.result.event_index[j]) for j in found})
        for i in happened:
            count = occurrences(segments, i) + sum(j == i for j, *_ in self.sudden)
            if events[i].terminal and count >= int(events[i].terminal):
                return None
        label = ", ".join(events[i].label for i in happened if events[i].jumps)
        times = [jump.t for jump in self.record] + [last.t_end]
        limit = accumulation(times, self.resting, self.plan.t0, self.plan.t1)
        where = f"Event {label!r} at t = {last.t_end:.10g}"
        if limit is not None:
            return End(Status.CHATTERING, f"{where}: {len(times)} jumps so far, which accumulate at t = {limit:.10g}.")
        try:
            return carry_on(last, **self._jump(last, last.t_end, last.end_row, happened, f"event {label}"))
        except _FunctionError as problem:
            return End(Status.USER_ERROR, f"{where}: {type(problem.cause).__name__}: {problem.cause}")
        except (ValueError, ArithmeticError) as problem:
            text = str(problem).removeprefix(f"event {label!r}: ").removesuffix(".")
            return End(Status.RESTART_FAILED, f"{where}: {text}.")
        except Exception as problem:  # what the function has returned is of no use
            return End(Status.USER_ERROR, f"{where}: {type(problem).__name__}: {problem}")

    def _jump(self, segment: Segment, t: float, row: np.ndarray, happened: list[int], reason: str) -> dict[str, Any]:
        """The start of the next segment (fields of `Start`), after all that happens at this instant."""
        before = row.copy()
        change = _Change(self.plan, segment, t, row, segment.start.p)
        for i in happened:
            event = segment.events.events[i]
            if event.restitution is not None:
                change.hit(i)
            if event.apply is not None:
                change.apply(event)
        change.settle()
        for _ in range(MOST_PASSES):  # an impact may close other gaps at once
            closing = self._closing(change.system, change.work, t, change.row)
            if not closing:
                break
            for i in closing:
                change.hit(i)
            new = sorted({*closing} - {*happened})
            self.sudden += [(i, t, segment, before) for i in new]
            happened = sorted({*happened, *new})
        else:
            raise ModelError(f"{MOST_PASSES} impacts at one instant, each causing another")
        self.resting.append(bool(happened) and all(change.rests(i) for i in happened))
        names = tuple(segment.events.events[i].label for i in happened)
        self.record.append(change.recorded(names, segment.part("q", before)))
        row = change.row
        at = change.work.assembly.layout.slice
        return {
            "system": change.system,
            "p": change.p,
            "t": t,
            "values": {name: row[at(name)].copy() for name in ("q", "v", "r", "w", "s")},
            "invariants": None,
            "reason": reason,
            "happened": tuple(happened),
            "sides": segment.events.sides(t, before, segment.start.p, 1.0 if self.plan.forward else -1.0),
        }

    def _closing(self, system: System, work: Workspace, t: float, row: np.ndarray, strict: bool = False) -> list[int]:
        """Impacts that happen at this state: gaps that are closed and closing."""
        out = []
        events = self.plan.event_set(system, work.assembly.layout)
        for i, function in enumerate(events.gaps):
            if function is None:
                continue
            gap = events.gap(i, t, row, work.p)
            if strict and gap.value < -gap.tolerance:
                raise OptionError(
                    f"event {events.names[i]!r}: the gap is {gap.value:.6g} at the start; bodies must not overlap."
                )
            if gap.impact:
                out.append(i)
        return out


class _Change:
    """A state in the course of being changed."""

    def __init__(self, plan: Plan, segment: Segment, t: float, row: np.ndarray, p: np.ndarray) -> None:
        self.plan = plan
        self.segment, self.t, self.row, self.p = segment, t, row, p
        self.system, self.work = segment.start.system, segment.work
        full = full_system(self.system)
        self.lam, self.mu = np.zeros(full.nlam), np.zeros(full.nmu)
        self.contact: dict[str, float] = {}
        self.parameters: dict[str, Any] = {}

    def hit(self, i: int) -> None:
        """Impact of event i, if its gap closes."""
        event = self.plan.events[i]
        gap = self.plan.event_set(self.system, self.work.assembly.layout).gap(i, self.t, self.row, self.p)
        if gap.rate >= 0.0:
            return
        e = event.restitution
        if callable(e):
            e = float(_call(event, e, self._state()))
            if not 0 <= e <= 1:
                raise OptionError(f"event {event.label!r}: restitution is {e!r}; it must lie between 0 and 1")
        P, impulses = impact(self.work, self.t, self.row, gap.normal, gap.by_t, float(e or 0.0), event.label)
        self._add(impulses)
        self.contact[event.label] = self.contact.get(event.label, 0.0) + P

    def rests(self, i: int) -> bool:
        """True if event i is an impact after which the gap opens by no more than rounding errors."""
        if self.plan.events[i].restitution is None or self.work.complete(self.t, self.row) != 0:
            return False
        gap = self.plan.event_set(self.system, self.work.assembly.layout).gap(i, self.t, self.row, self.p)
        return gap.second < 0.0 and gap.rate**2 <= -2.0 * gap.second * gap.tolerance

    def apply(self, event: Event) -> None:
        """Let an event change the state; velocities are consistent afterwards only after `settle`."""
        assert event.apply is not None
        state = self._state()
        answer = _call(event, event.apply, state)
        if isinstance(answer, Mapping):
            state._update(answer, event.label)
        elif answer is not None:
            raise OptionError(
                f"event {event.label!r}: apply returned {answer!r}; return nothing or a dict with new q, v, r or p."
            )
        self._take(state, event.label)

    def settle(self) -> None:
        """Make the state consistent: positions by projection, velocities by the impulses of the constraints."""
        system, layout = self.system, self.work.assembly.layout
        put_on_space(system, layout, self.row, "project", 0.0)
        solve_contact(system, self.t, self.row, layout, self.p)
        nearest(system, layout, self.p, self.t, self.row, levels=("position",))
        self._add(onto_constraints(self.work, self.t, self.row))

    def recorded(self, names: tuple[str, ...], before: np.ndarray) -> Jump:
        q = self.row[self.work.assembly.layout.slice("q")]
        return Jump(
            self.t, names, tuple(self.lam.tolist()), tuple(self.mu.tolist()), self.contact, self.parameters,
            tuple(sorted(released_names(self.system))), float(np.abs(q - before).max(initial=0.0)),
        )  # fmt: skip

    def _state(self) -> EventState:
        at = self.work.assembly.layout.slice
        values = {name: self.row[at(name)] for name in ("q", "v", "a", "r", "w", "s", "lam", "mu")}
        return EventState(self.system, self.t, values, self.p)

    def _add(self, impulses: np.ndarray) -> None:
        nlam = self.system.nlam
        self.lam += widen(self.system, "lam", impulses[:nlam])
        self.mu += widen(self.system, "mu", impulses[nlam:])

    def _take(self, state: EventState, label: str) -> None:
        """The state as it was left by ``apply``, in the row of the variant that it asks for."""
        old, space = self.system, self.system.space
        given = vars(state.p)
        p = old.parameters.vector(given)
        if not np.array_equal(p, self.p):
            new, was = old.parameters.unflatten(p), old.parameters.unflatten(self.p)
            self.parameters.update({k: np.asarray(x).tolist() for k, x in new.items() if np.any(x != was[k])})
        parts = {"q": np.asarray(space.flatten(state.q, "q"), dtype=float), "v": state.v, "r": state.r}
        source = self.work.assembly.layout
        values = {n: self.row[source.slice(n)] for n in ("q", "v", "r", "w", "s")}
        for name, x in parts.items():
            x = np.asarray(x, dtype=float)
            if x.shape != values[name].shape or not np.all(np.isfinite(x)):
                raise OptionError(
                    f"event {label!r}: apply left {name} = {x.tolist()}; {values[name].size} finite numbers are needed"
                )
            values[name] = x
        self.p = p
        self.system = with_released(old, state.released)
        start = self.segment.start
        if self.system is not old or not np.array_equal(p, self.work.p):
            self.work = _workspace(start, self.system, p, self.t, self.segment.stop, values)
        row = np.zeros(self.work.assembly.layout.n)
        for name in ("q", "v", "r", "w", "s"):
            row[self.work.assembly.layout.slice(name)] = values[name]
        self.row = row


def _workspace(
    start: Start, system: System, p: np.ndarray, t: float, t1: float, values: Mapping[str, np.ndarray]
) -> Workspace:
    from dalembert.runtime.assemble import make_layout

    layout = make_layout(system, start.method, start.formulation)
    row = np.zeros(layout.n)
    for name, x in values.items():
        row[layout.slice(name)] = x
    end = t1 if t1 != t else t + 1.0
    return assembly_for(system, start.method, start.formulation, start.projection, t, end, row, p).workspace(p)


def _call(event: Event, function: Callable[..., Any], state: EventState) -> Any:
    """A function of an event, with the arguments it asks for."""
    names = asked_names(state._full, function, event.label, ("state",))
    values = [state if n == "state" else getattr(state, n) for n in names]
    arguments = dict(zip(argument_names(function), values, strict=True))
    try:
        return function(**arguments)
    except (ModelError, OptionError):  # of what it asked us to do
        raise
    except Exception as problem:
        raise _FunctionError(problem) from problem
