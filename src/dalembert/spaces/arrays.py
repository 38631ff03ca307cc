"""One code for numbers and symbols.

A group writes its formulas once, as plain NumPy on the last axes. Numbers pass through as they are; CasADi columns
become an array of `tracing.Sym` on the way in and CasADi expressions on the way out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import casadi as ca
import numpy as np

from dalembert.status import OptionError
from dalembert.tracing import SymArray, to_sx, vector


def call(function: Callable[..., Any], *arguments: tuple[Any, int, str]) -> Any:
    """Call a formula with arrays of the right length; CasADi in, CasADi out."""
    symbolic = any(isinstance(x, ca.SX) for x, _, _ in arguments)
    out = function(*[sized(array(x), n, name) for x, n, name in arguments])
    return to_sx(out) if symbolic else out


def array(x: Any) -> Any:
    """Numbers as an array, symbols as an array of Sym (n,)."""
    if isinstance(x, ca.SX):
        return vector(ca.densify(x))
    if isinstance(x, ca.DM):
        return np.asarray(x.full()).ravel()
    if isinstance(x, SymArray):
        return x
    out = np.asarray(x)
    return out.view(SymArray) if out.dtype == object else out.astype(float, copy=False)


def sized(x: Any, n: int, name: str) -> Any:
    """The array, refused by name if its last axis has not n numbers."""
    if x.ndim == 0 and n == 1:
        return x[None]
    if x.ndim == 0 or x.shape[-1] != n:
        raise OptionError(f"{name} has shape {x.shape}: its last axis must have {n} numbers.")
    return x


def numbers(label: str, value: Any) -> np.ndarray:
    """An array of numbers, refused by name if it is none."""
    try:
        return np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise OptionError(f"{label}={value!r} is not an array of numbers.") from None
