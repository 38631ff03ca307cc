"""Events compiled for the rows of a run: values, rates, gaps, and with which sign they leave a zero."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import casadi as ca
import numpy as np

from dalembert.compiler import Kernel, python_kernel
from dalembert.model.blackbox import argument_names
from dalembert.model.released import KINDS, widen, widen_symbols
from dalembert.model.symbols import NAMES
from dalembert.model.system import System
from dalembert.numerics.kernels import Request, build_kernels
from dalembert.numerics.layout import Layout
from dalembert.runtime.event import Event, as_events
from dalembert.status import ModelError, OptionError
from dalembert.tracing import Namespace, TraceError, to_sx, vector

CLOSED = 1e-12  # a gap of this size, in units of the positions, is closed
NOISE = 1e-13  # a value of this size, in units of its terms, may be rounding
SLOW = 1e-13  # its rate is none if it is below this, in units of the velocities
NO_NOISE = np.zeros(0)
PRESSED = 1e-10  # its second derivative is none if it is below this, in units of the accelerations


@dataclass(frozen=True, eq=False)
class Gap:
    """A gap between bodies: value, derivatives by time along the motion, along velocities (nv,) and by t alone."""

    value: float
    rate: float
    second: float
    normal: np.ndarray
    by_t: float
    positions: float  # magnitudes that its terms are made of
    velocities: float
    forces: float

    @property
    def tolerance(self) -> float:
        return CLOSED * self.positions

    @property
    def slow(self) -> float:
        return SLOW * self.velocities

    @property
    def impact(self) -> bool:
        """True if it is closed, and closing."""
        return self.value <= self.tolerance and self.rate < -self.slow


@dataclass(frozen=True, eq=False)
class EventSet:
    """Compiled event functions.

    ``rules`` (2, n): direction, and occurrences until the run ends (0: never). The kernel (row, [t, p]) -> values, then
    their time derivatives (NaN where they are not known). ``gaps``: those of events
    with restitution as functions, see `_gap`.
    """

    events: tuple[Event, ...]
    rules: np.ndarray
    kernel: Kernel | None = field(default=None)
    gaps: tuple[ca.Function | None, ...] = ()
    layout: Layout = field(default_factory=lambda: Layout(()))
    scales: ca.Function | None = None  # (row, t, p) -> magnitudes of the terms that values and rates are made of

    @property
    def names(self) -> list[str]:
        return [event.label for event in self.events]

    @property
    def count(self) -> int:
        return len(self.events)

    @property
    def address(self) -> int:
        return self.kernel.address if self.kernel is not None else 0

    def values(self, t: float, row: np.ndarray, p: np.ndarray) -> np.ndarray:
        """Event functions at a row, (n,)."""
        if self.kernel is None:
            return np.zeros(0)
        return np.asarray(self.kernel(row, np.concatenate([[t], p]))[: self.count])

    def check(self, t: float, row: np.ndarray, p: np.ndarray) -> None:
        """Event functions that fail, or are not numbers, at a start do so here."""
        if self.kernel is None:
            return
        for name, x in zip(self.names, self.values(t, row, p), strict=True):
            if np.isnan(x):
                raise ModelError(f"event {name!r} is nan at t = {t:.6g}; its sign there is needed.")

    def gap(self, i: int, t: float, row: np.ndarray, p: np.ndarray) -> Gap:
        """The gap that event i with restitution is."""
        function = self.gaps[i]
        assert function is not None
        values = [row[self.layout.slice(name)] for name in ("q", "v", "a")]
        f, by_t, normal, rate, second = (np.asarray(x).ravel() for x in function(t, *values, p))
        q, v, a = (np.abs(x) for x in values)
        scales = max(1.0, q.max(initial=0.0)), np.abs(normal) @ v + np.abs(by_t[0]), np.abs(normal) @ a
        return Gap(float(f[0]), float(rate[0]), float(second[0]), normal, float(by_t[0]), *(float(x) for x in scales))

    def sides(self, t: float, row: np.ndarray, p: np.ndarray, direction: float) -> dict[int, float]:
        """Events that are zero at a row, and the side on which they are about to be."""
        if self.kernel is None:
            return {}
        values, rates = np.split(np.asarray(self.kernel(row, np.concatenate([[t], p]))), 2)
        return {int(i): direction * float(np.sign(rates[i])) for i in np.flatnonzero(values == 0.0)}

    def leaving(
        self,
        t: float,
        row: np.ndarray,
        p: np.ndarray,
        happened: tuple[int, ...],
        sides: Mapping[int, float],
        direction: float,
    ) -> tuple[tuple[tuple[int, float], ...], np.ndarray]:
        """Events that are zero at a row, with the sign they leave with (0: not known), and what rounding errors are.

        The sign is that of the rate; of an event that did not happen itself, the side where it was (``sides``). A
        closed gap counts as open, too, if its bodies are at rest to each other but pressed together: that it closes at
        once is an event. If nothing presses them, nothing happens.
        """
        if self.kernel is None:
            return (), NO_NOISE
        values, rates = np.split(np.asarray(self.kernel(row, np.concatenate([[t], p]))), 2)
        sizes = np.ones(2 * self.count)
        if self.scales is not None:
            sizes = np.nan_to_num(np.asarray(self.scales(row, t, p)).ravel(), nan=1.0)
        noise, slow = NOISE * sizes[: self.count], SLOW * sizes[self.count :]
        out = {}
        for i in {*happened, *np.flatnonzero(values == 0.0).tolist()}:
            out[i] = direction * float(np.sign(rates[i])) if abs(rates[i]) > slow[i] else 0.0
            if i in sides and i not in happened:
                out[i] = float(np.nan_to_num(sides[i]))
        for i, function in enumerate(self.gaps):
            if function is not None:
                gap = self.gap(i, t, row, p)
                if abs(gap.value) <= gap.tolerance:
                    out[i] = 1.0 if gap.rate > gap.slow or gap.second < -PRESSED * gap.forces else 0.0
        return tuple(out.items()), noise

    def take_error(self) -> BaseException | None:
        return self.kernel.take_error() if self.kernel is not None else None


NO_EVENTS = EventSet((), np.zeros((2, 0), dtype=np.int64))


def compile_events(given: Any, system: System, layout: Layout) -> EventSet:
    """Event functions by argument names, traced if possible, else called in Python.

    Where redundant constraints were left out of the system, they get the multipliers of all constraints nevertheless.
    """
    events = as_events(given)
    if not events:
        return NO_EVENTS
    rules = np.zeros((2, len(events)), dtype=np.int64)
    asked = []
    for i, event in enumerate(events):
        asked.append(asked_names(system, event.function, event.label))
        rules[:, i] = int(np.sign(event.direction)), int(event.terminal)
    row, t, p = ca.SX.sym("row", layout.n), ca.SX.sym("t"), ca.SX.sym("p", system.parameters.size)
    part = {**layout.split(row), "t": t, "p": p}
    spread = None
    if system.all_multipliers is not None and any(n in ("lam", "mu") for names in asked for n in names):
        part.update(system.all_multipliers(part))
        spread = ca.Function("multipliers", [row, t, p], [part["lam"], part["mu"]])

    def argument(name: str) -> Any:
        symbols = vector(widen_symbols(system, name, part[name]) if name in KINDS and spread is None else part[name])
        if name == "t":
            return symbols[0]
        if name == "p":
            return Namespace(system.parameters.unflatten(symbols))
        return system.space.element(symbols) if name == "q" else symbols

    try:
        values = [
            _scalar(e, e.function(**dict(zip(argument_names(e.function), map(argument, names), strict=True))))
            for e, names in zip(events, asked, strict=True)
        ]
    except TraceError as problem:
        for event in events:
            if event.restitution is not None:
                raise OptionError(
                    f"event {event.label!r}: restitution needs the derivative of the gap, but the events cannot be "
                    f"traced ({problem}). Write them in NumPy, without if and float()."
                ) from None
        return EventSet(events, rules, _in_python(events, asked, system, layout, spread), (None,) * len(events))
    rates = [_rate(system, x, part) for x in values]
    kernel = build_kernels([Request("events", row, ca.vertcat(t, p), ca.vertcat(*values, *rates))])["events"]
    gaps = [_gap(system, e, x, part) if e.restitution is not None else None
            for e, x in zip(events, values, strict=True)]  # fmt: skip
    scales = [_scale(x, row, t, p) for x in values] + [_scale(x, row, t, p) for x in rates]
    return EventSet(
        events, rules, kernel, tuple(gaps), layout, ca.Function("scales", [row, t, p], [ca.vertcat(*scales)])
    )


def asked_names(system: System, function: Callable[..., Any], label: str, more: tuple[str, ...] = ()) -> list[str]:
    """Variables that a function of an event asks for."""
    arguments = argument_names(function)
    names = [system.aliases.get(a, a) for a in arguments]
    unknown = [a for a, n in zip(arguments, names, strict=True) if n not in (*NAMES, *more)]
    if unknown:
        known = dict.fromkeys([*system.aliases, *NAMES, *more])
        raise OptionError(f"event {label!r} asks for {unknown[0]!r}; the names are {', '.join(known)}.")
    return names


def _rate(system: System, f: ca.SX, part: dict[str, ca.SX]) -> ca.SX:
    """Time derivative along the motion; NaN if it depends on what has no derivative in the row."""
    known = ca.vertcat(part["t"], part["q"], part["v"])
    others = [part[n] for n in ("a", "r", "w", "s", "lam", "mu")]
    if ca.depends_on(f, ca.vertcat(*others)):
        return ca.SX(np.nan)
    direction = ca.vertcat(1.0, system.space.rate(part["q"], part["v"]) if system.nq else part["q"], part["a"])
    return ca.jtimes(f, known, direction)


def _scale(f: ca.SX, row: ca.SX, t: ca.SX, p: ca.SX) -> ca.SX:
    """Sum of the magnitudes |df/dx x|: rounding errors of f are small against it."""
    x = ca.vertcat(row, t, p)
    return ca.fabs(ca.densify(ca.jacobian(f, x))) @ ca.fabs(x)


def _gap(system: System, event: Event, f: ca.SX, part: dict[str, ca.SX]) -> ca.Function:
    """(t, q, v, a, p) -> gap, derivatives by t and along velocities (1, nv), its rate and the rate of that."""
    others = [part[n] for n in ("v", "a", "r", "w", "s", "lam", "mu")]
    if ca.depends_on(f, ca.vertcat(*others)):
        raise OptionError(f"event {event.label!r}: with restitution it is a gap, a function of t, q and p alone.")
    t, q, v, a, p = (part[n] for n in ("t", "q", "v", "a", "p"))
    rate = _rate(system, f, part)
    normal = ca.densify(ca.jacobian(rate, v))
    return ca.Function("gap", [t, q, v, a, p], [f, ca.jacobian(f, t), normal, rate, _rate(system, rate, part)])


def _in_python(
    events: tuple[Event, ...], asked: list[list[str]], system: System, layout: Layout, spread: ca.Function | None
) -> Kernel:
    """Event functions that cannot be traced are called after every step."""
    n = len(events)

    def evaluate(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> int:
        values: dict[str, Any] = {name: a[layout.slice(name)] for name, _ in layout.blocks}
        values.update({kind: widen(system, kind, values[kind]) for kind in KINDS})
        if spread is not None:
            values["lam"], values["mu"] = (x.full().ravel() for x in spread(a, b[0], b[1:]))
        values["t"] = float(b[0])
        values["q"] = system.space.element(values["q"])
        values["p"] = Namespace(system.parameters.unflatten(b[1:]))
        for i, (e, names) in enumerate(zip(events, asked, strict=True)):
            value = e.function(**dict(zip(argument_names(e.function), (values[n] for n in names), strict=True)))
            if np.size(value) != 1 or value is None:
                raise OptionError(f"event {e.label!r} returned {value!r}, expected one number.")
            out[i] = float(np.reshape(value, ()))
            out[n + i] = np.nan
        return 0

    return python_kernel("events", layout.n, 1 + system.parameters.size, 2 * n, evaluate)


def _scalar(event: Event, value: Any) -> ca.SX:
    """What an event function returned on symbols, as one expression."""
    if value is None:
        raise OptionError(f"event {event.label!r} returned None, expected one number.")
    out = to_sx(value)
    if out.numel() != 1:
        raise OptionError(f"event {event.label!r} returned {out.numel()} numbers, expected one.")
    return out
