"""The variables of the equations of motion, as symbols, values or slices: always in this order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import casadi as ca
import numpy as np

from dalembert.status import OptionError

MEANING = {
    "t": "time",
    "q": "positions",
    "v": "velocities",
    "a": "accelerations v'",
    "r": "dynamic states",
    "w": "auxiliary algebraic variables",
    "s": "contact coordinates",
    "lam": "multipliers of the constraints",
    "mu": "multipliers of the velocity constraints",
    "p": "parameters",
}
NAMES = tuple(MEANING)


@dataclass(frozen=True)
class Variables:
    """One value (symbol or expression) for each variable of the model at one instant."""

    t: Any
    q: Any
    v: Any
    a: Any
    r: Any
    w: Any
    s: Any
    lam: Any
    mu: Any
    p: Any

    def as_tuple(self) -> tuple[Any, ...]:
        return tuple(getattr(self, f.name) for f in fields(self))


class Parameters:
    """Named parameters, scalars or arrays, as one flat vector."""

    def __init__(self, values: Mapping[str, Any] | None) -> None:
        self.defaults = {name: _number(name, x) for name, x in (values or {}).items()}
        self.offsets: dict[str, int] = {}
        n = 0
        for name, x in self.defaults.items():
            self.offsets[name] = n
            n += x.size
        self.size = n
        self._vector = np.concatenate([x.ravel() for x in self.defaults.values()]) if n else np.zeros(0)

    def vector(self, changed: Mapping[str, Any] | None = None) -> np.ndarray:
        """Flat vector (size,) of the defaults with some values changed."""
        if not changed:
            return self._vector.copy()
        unknown = [name for name in changed if name not in self.defaults]
        if unknown:
            known = ", ".join(self.defaults) or "none"
            raise OptionError(f"parameters: there is no parameter {unknown[0]!r} in this system (it has: {known}).")
        out = np.empty(self.size)
        for name, default in self.defaults.items():
            x = _number(name, changed.get(name, default))
            if x.shape != default.shape:
                raise OptionError(f"parameters: {name!r} has shape {x.shape}, expected {default.shape}.")
            out[self.offsets[name] : self.offsets[name] + x.size] = x.ravel()
        return out

    def as_dict(self, flat: np.ndarray) -> dict[str, Any]:
        """Name -> number, or list of numbers, from a flat vector of numbers."""
        out: dict[str, Any] = {}
        numbers = flat.tolist()
        for name, x in self.defaults.items():
            i = self.offsets[name]
            out[name] = numbers[i] if x.ndim == 0 else flat[i : i + x.size].reshape(x.shape).tolist()
        return out

    def unflatten(self, flat: Any) -> dict[str, Any]:
        """Name -> value from a flat vector of numbers or Sym."""
        out: dict[str, Any] = {}
        for name, x in self.defaults.items():
            part = flat[self.offsets[name] : self.offsets[name] + x.size]
            out[name] = part[0] if x.ndim == 0 else np.asanyarray(part).reshape(x.shape)
        return out


def _number(name: str, value: Any) -> np.ndarray:
    """A parameter value as an array, refused by name if it is none."""
    try:
        x = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise OptionError(f"parameters: {name!r} is {value!r}; give a number or an array of numbers.") from None
    if np.isnan(x).any():
        raise OptionError(f"parameters: {name!r} is {value!r}; a parameter must not be NaN.")
    return x


def symbol(name: str, n: int) -> ca.SX:
    """SX column of n symbols."""
    return ca.SX.sym(name, n)
