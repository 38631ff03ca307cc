"""Events: functions of the state whose zeros are located during a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import casadi as ca
import numpy as np

from dalembert.compiler import Kernel, python_kernel
from dalembert.model.blackbox import argument_names
from dalembert.model.symbols import NAMES
from dalembert.model.system import System
from dalembert.numerics.kernels import Request, build_kernels
from dalembert.numerics.layout import Layout
from dalembert.status import OptionError
from dalembert.tracing import Namespace, TraceError, to_sx, vector


@dataclass(frozen=True, eq=False)
class EventSet:
    """Compiled event functions; ``rules`` (2, n): direction, and occurrences until the run ends (0: never)."""

    names: list[str]
    rules: np.ndarray
    kernel: Kernel | None = field(default=None)

    @property
    def count(self) -> int:
        return len(self.names)

    @property
    def address(self) -> int:
        return self.kernel.address if self.kernel is not None else 0

    def take_error(self) -> BaseException | None:
        return self.kernel.take_error() if self.kernel is not None else None


def compile_events(given: Any, system: System, layout: Layout) -> EventSet:
    """Event functions by argument names, traced if possible, else called in Python.

    Where redundant constraints were left out of the system, they get the multipliers of all constraints nevertheless.
    """
    try:
        functions: list[Callable[..., Any]] = [] if given is None else [given] if callable(given) else list(given)
    except TypeError:
        raise OptionError(f"events={given!r}: give a function of named arguments or a list of them.") from None
    rules = np.zeros((2, len(functions)), dtype=np.int64)
    asked = []
    for i, f in enumerate(functions):
        if not callable(f):
            raise OptionError(f"events: item {i} is {f!r}, not a function.")
        arguments = argument_names(f)
        names = [system.aliases.get(a, a) for a in arguments]
        unknown = [a for a, n in zip(arguments, names, strict=True) if n not in NAMES]
        if unknown:
            known = dict.fromkeys([*system.aliases, *NAMES])
            raise OptionError(f"event {_name(f)!r} asks for {unknown[0]!r}; the names are {', '.join(known)}.")
        asked.append(names)
        terminal, direction = getattr(f, "terminal", False), getattr(f, "direction", 0)
        if terminal is not True and terminal is not False and (not isinstance(terminal, int) or terminal < 1):
            raise OptionError(f"event {_name(f)!r}: terminal={terminal!r} must be a bool or a count >= 1.")
        if not isinstance(direction, (int, float, np.number)) or np.isnan(direction):
            raise OptionError(f"event {_name(f)!r}: direction={direction!r} must be +1, -1 or 0.")
        rules[0, i] = int(np.sign(direction))
        rules[1, i] = int(terminal)
    if not functions:
        return EventSet([], rules)
    row, t, p = ca.SX.sym("row", layout.n), ca.SX.sym("t"), ca.SX.sym("p", system.parameters.size)
    part = {**layout.split(row), "t": t, "p": p}
    spread = None
    if system.all_multipliers is not None and any(n in ("lam", "mu") for names in asked for n in names):
        part.update(system.all_multipliers(part))
        spread = ca.Function("multipliers", [row, t, p], [part["lam"], part["mu"]])

    def argument(name: str) -> Any:
        symbols = vector(part[name])
        if name == "t":
            return symbols[0]
        if name == "p":
            return Namespace(system.parameters.unflatten(symbols))
        return system.space.element(symbols) if name == "q" else symbols

    try:
        values = [
            _scalar(f, f(**dict(zip(argument_names(f), map(argument, names), strict=True))))
            for f, names in zip(functions, asked, strict=True)
        ]
    except TraceError:
        kernel = _in_python(functions, asked, system, layout, spread)
    else:
        kernel = build_kernels([Request("events", row, ca.vertcat(t, p), ca.vertcat(*values))])["events"]
    return EventSet([_name(f) for f in functions], rules, kernel)


def _in_python(
    functions: list[Callable[..., Any]],
    asked: list[list[str]],
    system: System,
    layout: Layout,
    spread: ca.Function | None,
) -> Kernel:
    """Event functions that cannot be traced are called after every step."""

    def evaluate(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> int:
        values: dict[str, Any] = {name: a[layout.slice(name)] for name, _ in layout.blocks}
        if spread is not None:
            values["lam"], values["mu"] = (x.full().ravel() for x in spread(a, b[0], b[1:]))
        values["t"] = float(b[0])
        values["q"] = system.space.element(values["q"])
        values["p"] = Namespace(system.parameters.unflatten(b[1:]))
        for i, (f, names) in enumerate(zip(functions, asked, strict=True)):
            value = f(**dict(zip(argument_names(f), (values[n] for n in names), strict=True)))
            if np.size(value) != 1 or value is None:
                raise OptionError(f"event {_name(f)!r} returned {value!r}, expected one number.")
            out[i] = float(np.reshape(value, ()))
        return 0

    return python_kernel("events", layout.n, 1 + system.parameters.size, len(functions), evaluate)


def _scalar(f: Callable[..., Any], value: Any) -> ca.SX:
    """What an event function returned on symbols, as one expression."""
    if value is None:
        raise OptionError(f"event {_name(f)!r} returned None, expected one number.")
    out = to_sx(value)
    if out.numel() != 1:
        raise OptionError(f"event {_name(f)!r} returned {out.numel()} numbers, expected one.")
    return out


def _name(f: Callable[..., Any]) -> str:
    return getattr(f, "__name__", repr(f))
