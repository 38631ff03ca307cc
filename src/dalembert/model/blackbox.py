"""Functions that cannot be traced: called as they are, with derivatives given or by finite differences.

In a symbolic expression a black box stands as its own Taylor polynomial around the point where it was last called,

    F(z) = b + B (z - z0) + 1/2 (z - z0)^T C (z - z0),

with b, B (and C where second derivatives are needed) filled in before every evaluation. At z = z0 value and
derivatives are right, so that everything downstream (velocity constraints, iteration matrices) needs no special case.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import casadi as ca
import numpy as np

from dalembert.status import ModelError
from dalembert.tracing import Namespace

_FIRST = np.finfo(float).eps ** (1 / 3)  # central differences: truncation h^2 against rounding eps/h
_SECOND = np.finfo(float).eps ** (1 / 4)


@dataclass(frozen=True)
class BlackBox:
    """A function to be called, not traced. Make one with `black_box`."""

    function: Callable[..., Any]
    jacobian: Callable[..., Mapping[str, Any]] | None = None
    size: int | None = None


def black_box(
    function: Callable[..., Any],
    jacobian: Callable[..., Mapping[str, Any]] | None = None,
    size: int | None = None,
) -> BlackBox:
    """Mark a model function as one that must be called with numbers (it branches, reads a table, calls other code).

    Parameters
    ----------
    function
        Asks for its arguments by name like any model function; receives floats and arrays, returns numbers.
    jacobian
        Same arguments; returns a dict from argument name to the derivative (n_out, n_arg), for example
        ``{"q": [[...]], "v": [[...]]}``. What is missing is found by central differences.
    size
        Number of components returned, where it does not follow from the model (constraints, invariants).

    Examples
    --------
    >>> def drag(v, p):
    ...     return -p.c * v * abs(v[0]) if v[0] > 0 else 0 * v
    >>> force = black_box(drag)
    """
    return BlackBox(function, jacobian, size)


@dataclass(frozen=True)
class Call:
    """One black box in a model: how to read its arguments and write its Taylor coefficients.

    ``names``/``sizes`` describe z (without parameters); the numeric argument vector is [z; p].
    """

    role: str
    box: BlackBox
    names: tuple[str, ...]
    sizes: tuple[int, ...]
    shape: tuple[int, int]
    second: bool
    parameters: Callable[[np.ndarray], Namespace]
    elements: Mapping[str, Callable[[np.ndarray], Any]] = field(default_factory=dict)  # how positions are handed over

    @property
    def nz(self) -> int:
        return sum(self.sizes)

    @property
    def n_out(self) -> int:
        return self.shape[0] * self.shape[1]

    @property
    def n_coefficients(self) -> int:
        quadratic = self.n_out * self.nz**2 if self.second else 0
        return self.nz + self.n_out + self.n_out * self.nz + quadratic

    def surrogate(self, z: ca.SX, coefficients: ca.SX) -> ca.SX:
        """Taylor polynomial in ``z`` (nz,) from the ``coefficients`` (n_coefficients,), shaped like the output."""
        nz, m = self.nz, self.n_out
        z0, b = coefficients[:nz], coefficients[nz : nz + m]
        B = ca.reshape(coefficients[nz + m : nz + m + m * nz], m, nz)
        dz = z - z0
        out = b + B @ dz
        if self.second:
            start = nz + m + m * nz
            for i in range(m):
                C = ca.reshape(coefficients[start + i * nz**2 : start + (i + 1) * nz**2], nz, nz)
                out[i] += 0.5 * ca.dot(dz, C @ dz)
        return ca.reshape(out, *self.shape)

    def value(self, z: np.ndarray, p: Namespace) -> np.ndarray:
        """Call the function: z (nz,) -> column-major output (n_out,)."""
        out = numbers(self.box.function(**self._arguments(z, p)))
        if out.ndim == 1 and self.shape == (out.size, out.size) and out.size > 1:
            out = np.diag(out)
        if out.size != self.n_out:
            raise ModelError(f"{self.role}: the black box returned {out.size} numbers, {self.n_out} are expected.")
        return out.reshape(self.shape).ravel(order="F")

    def derivative(self, z: np.ndarray, p: Namespace, relative: float = _FIRST) -> np.ndarray:
        """(n_out, nz) Jacobian: the user's where given, central differences elsewhere."""
        B = np.empty((self.n_out, self.nz))
        given: Mapping[str, Any] = {}
        if self.box.jacobian is not None:
            given = self.box.jacobian(**self._arguments(z, p))
        start = 0
        for name, size in zip(self.names, self.sizes, strict=True):
            columns = slice(start, start + size)
            if name in given:
                block = np.asarray(given[name], dtype=float).reshape(-1, size)
                if block.shape != (self.n_out, size):
                    raise ModelError(
                        f"{self.role}: jacobian[{name!r}] has shape {block.shape}, expected {(self.n_out, size)}."
                    )
                B[:, columns] = block
            else:
                for j in range(start, start + size):
                    B[:, j] = self._difference(lambda x: self.value(x, p), z, j, relative)
            start += size
        return B

    @staticmethod
    def _difference(f: Callable[[np.ndarray], np.ndarray], z: np.ndarray, j: int, relative: float) -> np.ndarray:
        step = relative * max(abs(z[j]), 1.0)
        up, down = z.copy(), z.copy()
        up[j] += step
        down[j] -= step
        return (f(up) - f(down)) / (up[j] - down[j])

    def fill(self, arguments: np.ndarray, coefficients: np.ndarray) -> None:
        """[z; p] -> Taylor coefficients, written in place."""
        nz, m = self.nz, self.n_out
        z, p = arguments[:nz].copy(), self.parameters(arguments[nz:])
        coefficients[:nz] = z
        coefficients[nz : nz + m] = self.value(z, p)
        coefficients[nz + m : nz + m + m * nz] = self.derivative(z, p).ravel(order="F")
        if self.second:
            outer = _FIRST if self.box.jacobian is not None else _SECOND
            inner = _SECOND  # differences of differences want the same, larger step for both
            D = np.stack(
                [self._difference(lambda x: self.derivative(x, p, inner), z, j, outer) for j in range(nz)], axis=2
            )
            start = nz + m + m * nz
            for i in range(m):
                C = 0.5 * (D[i] + D[i].T)
                coefficients[start + i * nz**2 : start + (i + 1) * nz**2] = C.ravel(order="F")

    def _arguments(self, z: np.ndarray, p: Namespace) -> dict[str, Any]:
        out: dict[str, Any] = {}
        start = 0
        for name, size in zip(self.names, self.sizes, strict=True):
            x = z[start : start + size].copy()
            out[name] = float(x[0]) if name == "t" else self.elements[name](x) if name in self.elements else x
            start += size
        if "p" in argument_names(self.box.function):
            out["p"] = p
        return out


def numbers(value: Any) -> np.ndarray:
    """What a function returned, as an array; the values of a dict one after the other."""
    if isinstance(value, Mapping):
        parts = [np.asarray(x, dtype=float).ravel() for x in value.values()]
        return np.concatenate(parts) if parts else np.zeros(0)
    return np.asarray(value, dtype=float)


def argument_names(function: Callable[..., Any]) -> Sequence[str]:
    """Names of the positional arguments a function asks for."""
    import inspect

    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = inspect.signature(function).parameters.values()
    for parameter in parameters:
        if parameter.kind in kinds:
            raise ModelError(f"argument {parameter} of a model function has no name to ask for; write it out.")
    return [x.name for x in parameters if x.default is inspect.Parameter.empty]
