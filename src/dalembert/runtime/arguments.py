"""The arguments of `solve`, checked at the door: each message names the argument, its value and what would do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dalembert.integrators.base import Integrator
from dalembert.model.system import System
from dalembert.numerics.compiled import resolvable
from dalembert.runtime.run import Options
from dalembert.status import OptionError

SMALLEST_RTOL = 100 * np.finfo(float).eps


def check_common(system: Any, initial: Any) -> None:
    if not isinstance(system, System):
        raise OptionError(f"system is a {type(system).__name__}; build one with da.System(...) or da.Lagrangian(...).")
    if initial not in ("check", "project", "assume"):
        raise OptionError(f"initial={initial!r}: choose 'check', 'project' or 'assume'.")


def check_redundant(given: Any) -> str:
    if given not in ("resolve", "refuse"):
        raise OptionError(f"redundant={given!r}: choose 'resolve' or 'refuse'.")
    return str(given)


def check_choice(name: str, given: Any, kind: type, example: str) -> None:
    if not isinstance(given, (str, kind)):
        what = given.__name__ + " without parentheses" if isinstance(given, type) else repr(given)
        raise OptionError(f"{name}={what}: give a name (see da.{name}s()) or an object such as {example}.")


def numbers(name: str, value: Any) -> np.ndarray:
    try:
        return np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise OptionError(f"{name}={value!r}: give numbers.") from None


def times(t_span: Sequence[float]) -> tuple[float, float]:
    try:
        t0, t1 = (float(x) for x in t_span)
    except (TypeError, ValueError):
        raise OptionError(f"t_span={t_span!r}: give the start and the end time, (t0, t1).") from None
    if not (math.isfinite(t0) and math.isfinite(t1)):
        raise OptionError(f"t_span=({t0}, {t1}): start and end must be finite.")
    if t0 == t1:
        raise OptionError(f"t_span=({t0:g}, {t1:g}) is empty: start and end are equal.")
    return t0, t1


def tolerance(name: str, value: Any, n: int) -> np.ndarray:
    out = np.empty(n)
    if type(value) is float and 0.0 <= value < math.inf:  # as a rule
        out.fill(value)
        return out
    x = numbers(name, value)
    if x.ndim > 1 or (x.ndim == 1 and x.size != n):
        raise OptionError(f"{name} has shape {x.shape}; give a number or {n} numbers, one for each of (q, v, r).")
    if not (0.0 <= float(x) < math.inf if x.ndim == 0 else ((x >= 0.0) & (x < np.inf)).all()):
        raise OptionError(f"{name}={value!r} must be finite and not negative.")
    out[:] = x
    return out


def check_tolerances(options: Options, row: np.ndarray, index: np.ndarray, method: Integrator) -> None:
    """``row``: initial values, those of (q, v, r) at ``index``."""
    rtol, atol = options.rtol, options.atol
    smallest = SMALLEST_RTOL if options.steps is not None else max(SMALLEST_RTOL, method.smallest_rtol)
    if min(rtol.tolist()) >= smallest or resolvable()(rtol, atol, row, index, smallest):
        return
    size = np.abs(row[index])
    if np.any((rtol == 0) & (atol == 0)):
        raise OptionError("rtol and atol are both zero: no solution is that accurate; raise one of them.")
    small = (rtol > 0) & (rtol < smallest) & (atol < smallest)
    small |= atol + rtol * size < smallest * size
    if np.any(small):
        i = int(small.argmax())
        raise OptionError(
            f"rtol={rtol[i]:g} with atol={atol[i]:g} is below what floating point can resolve with "
            f"{method.describe()}; raise rtol to {smallest:.1g} or more."
        )


def positive(name: str, value: float) -> float:
    if not isinstance(value, (int, float, np.floating, np.integer)) or not value > 0:
        raise OptionError(f"{name}={value!r} must be positive.")
    return float(value)


def max_steps(value: int | None) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise OptionError(f"max_steps={value!r}: give a positive whole number, or None for no limit.")
    return int(value)


def steps(h: Any, t0: float, t1: float) -> np.ndarray | None:
    """Prescribed step sizes: constant with a shorter last one, or as listed."""
    if h is None:
        return None
    x = numbers("h", h)
    if x.ndim > 1 or not np.all(np.isfinite(x)) or np.any(x == 0) or x.size == 0:
        raise OptionError(f"h={h!r}: give a step size or a list of step sizes, not zero.")
    span = t1 - t0
    if x.ndim == 0:
        size = abs(float(x))
        count = max(1, int(np.ceil(abs(span) / size - 1e-9)))
        return np.full(count, np.sign(span) * size)
    steps = np.abs(x) * np.sign(span)
    if not np.isclose(steps.sum(), span, rtol=1e-9):
        raise OptionError(f"h: the steps add up to {steps.sum():g}, t_span is {span:g} long; they must agree.")
    return steps


def t_eval(t_eval: Any, t0: float, t1: float) -> np.ndarray | None:
    if t_eval is None:
        return None
    x = np.atleast_1d(np.array(numbers("t_eval", t_eval)))  # a copy; a number becomes a list of one
    low, high = min(t0, t1), max(t0, t1)
    inside = x.ndim == 1 and x.size > 0 and low <= x[0] <= high and low <= x[-1] <= high
    if inside and (x.size == 1 or ((x[1:] > x[:-1]) if t1 > t0 else (x[1:] < x[:-1])).all()):
        return x
    if x.ndim != 1:
        raise OptionError(f"t_eval has shape {x.shape}: give a list of times.")
    if not np.all(np.isfinite(x)):
        raise OptionError(f"t_eval contains {x[~np.isfinite(x)][0]}: give finite times.")
    if x.size and (x.min() < low or x.max() > high):
        raise OptionError(f"t_eval must lie within t_span; {x.min():g} .. {x.max():g} leaves [{low:g}, {high:g}].")
    wrong = np.flatnonzero(np.diff(x) * np.sign(t1 - t0) <= 0)
    if wrong.size:
        i = wrong[0]
        raise OptionError(
            f"t_eval must be sorted in the direction of t_span, without repetitions: {x[i + 1]:g} follows {x[i]:g}."
        )
    return x


def discontinuities(given: Any, t0: float, t1: float) -> tuple[float, ...]:
    """Declared times in the order of the run, each once; those at its ends need no stop."""
    if given is None or (isinstance(given, (tuple, list)) and not given):
        return ()
    x = np.atleast_1d(numbers("discontinuities", given))
    low, high = min(t0, t1), max(t0, t1)
    if x.ndim != 1:
        raise OptionError(f"discontinuities has shape {x.shape}: give a list of times.")
    outside = x[~((x >= low) & (x <= high))]
    if outside.size:
        raise OptionError(f"discontinuities must lie within t_span; {outside[0]:g} is not in [{low:g}, {high:g}].")
    inside = np.unique(x[(x != t0) & (x != t1)])
    return tuple((inside if t1 > t0 else inside[::-1]).tolist())
