"""Running a user's plain NumPy function once, on symbols.

`Sym` is a scalar that records what is done to it as a CasADi SX expression. Vectors are object arrays of `Sym`, so
indexing, unpacking, ``@``, ``np.dot``, ``np.cross``, ``np.linalg.norm`` and shapes are NumPy's own; `SymArray` sees to
it that elementwise functions (``np.maximum``, ``q > 0``) record instead of asking a symbol for its truth. What
cannot be recorded (``if q[0] > 0``, ``math.sin``, ``float(x)``) raises `TraceError` instead of giving a wrong number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import casadi as ca
import numpy as np

from dalembert.status import ModelError


class TraceError(TypeError):
    """The function does something that a symbol cannot follow."""


# NumPy ufunc name -> CasADi function of SX arguments
_UFUNCS: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": lambda a, b: a / b,
    "power": lambda a, b: a**b,
    "float_power": lambda a, b: a**b,
    "negative": lambda a: -a,
    "positive": lambda a: a,
    "square": lambda a: a * a,
    "reciprocal": lambda a: 1 / a,
    "absolute": ca.fabs,
    "fabs": ca.fabs,
    "sign": ca.sign,
    "sqrt": ca.sqrt,
    "exp": ca.exp,
    "expm1": ca.expm1,
    "log": ca.log,
    "log1p": ca.log1p,
    "log10": lambda a: ca.log(a) / np.log(10.0),
    "log2": lambda a: ca.log(a) / np.log(2.0),
    "exp2": lambda a: 2.0**a,
    "cbrt": lambda a: ca.sign(a) * ca.fabs(a) ** (1 / 3),
    "sin": ca.sin,
    "cos": ca.cos,
    "tan": ca.tan,
    "arcsin": ca.asin,
    "arccos": ca.acos,
    "arctan": ca.atan,
    "arctan2": ca.atan2,
    "sinh": ca.sinh,
    "cosh": ca.cosh,
    "tanh": ca.tanh,
    "arcsinh": ca.asinh,
    "arccosh": ca.acosh,
    "arctanh": ca.atanh,
    "hypot": ca.hypot,
    "floor": ca.floor,
    "ceil": ca.ceil,
    "fmod": ca.fmod,
    "remainder": lambda a, b: a - b * ca.floor(a / b),
    "copysign": ca.copysign,
    "maximum": ca.fmax,
    "minimum": ca.fmin,
    "fmax": ca.fmax,
    "fmin": ca.fmin,
    "clip": lambda a, lo, hi: ca.fmin(ca.fmax(a, lo), hi),
    "less": lambda a, b: a < b,
    "less_equal": lambda a, b: a <= b,
    "greater": lambda a, b: a > b,
    "greater_equal": lambda a, b: a >= b,
    "equal": lambda a, b: a == b,
    "not_equal": lambda a, b: a != b,
    "logical_and": ca.logic_and,
    "logical_or": ca.logic_or,
    "logical_not": ca.logic_not,
    "bitwise_and": ca.logic_and,
    "bitwise_or": ca.logic_or,
    "invert": ca.logic_not,
    "erf": ca.erf,
    "heaviside": lambda a, half: ca.if_else(a == 0, half, a > 0),
    "deg2rad": lambda a: a * (np.pi / 180.0),
    "radians": lambda a: a * (np.pi / 180.0),
    "rad2deg": lambda a: a * (180.0 / np.pi),
    "degrees": lambda a: a * (180.0 / np.pi),
    "floor_divide": lambda a, b: ca.floor(a / b),
    "trunc": lambda a: ca.sign(a) * ca.floor(ca.fabs(a)),
    "logaddexp": lambda a, b: ca.fmax(a, b) + ca.log1p(ca.exp(-ca.fabs(a - b))),
    "conjugate": lambda a: a,
}
_BINARY = {
    "add", "subtract", "multiply", "divide", "power", "float_power", "arctan2", "hypot", "fmod", "remainder",
    "copysign", "maximum", "minimum", "fmax", "fmin", "less", "less_equal", "greater", "greater_equal", "equal",
    "not_equal", "logical_and", "logical_or", "bitwise_and", "bitwise_or", "heaviside", "floor_divide", "logaddexp",
}  # fmt: skip
UFUNC_NAMES = frozenset(_UFUNCS)


def _expr(x: Any) -> ca.SX:
    if isinstance(x, Sym):
        return x.expr
    try:
        return ca.SX(float(x))
    except TypeError as problem:
        raise TraceError(str(problem)) from None


def _apply(name: str, *args: Any) -> Any:
    """Apply a ufunc by name to scalars or broadcast it over arrays."""
    if name not in _UFUNCS:
        raise TraceError(f"np.{name} cannot be traced")
    return _wrap(_elementwise(name)(*[_as_object(a) for a in args]))


@cache
def _elementwise(name: str) -> np.ufunc:
    """The ufunc of this name on object arrays, recording; has reduce, outer and so on like any other."""
    operation = _UFUNCS[name]
    n = 3 if name == "clip" else 2 if name in _BINARY else 1
    return np.frompyfunc(lambda *s: Sym(operation(*(_expr(x) for x in s))), n, 1)


def _wrap(x: Any) -> Any:
    """Object arrays as SymArray, anything else as it is."""
    return x.view(SymArray) if isinstance(x, np.ndarray) and x.dtype == object else x


def _arrays(x: Any) -> Any:
    """Every Sym in the (nested) arguments of a NumPy function as an array, so that the function can look at shapes."""
    if isinstance(x, Sym):
        return _as_object(x).view(SymArray)
    if isinstance(x, (list, tuple)):
        parts = [_arrays(y) for y in x]
        return tuple(parts) if isinstance(x, tuple) else parts
    return x


def _as_object(x: Any) -> np.ndarray:
    if isinstance(x, Sym):  # keep NumPy from asking Sym for its array interface
        out = np.empty((), dtype=object)
        out[()] = x
        return out
    return np.asarray(x, dtype=object)


def _where(condition: Any, x: Any, y: Any) -> Any:
    choose = np.frompyfunc(lambda c, a, b: Sym(ca.if_else(_expr(c), _expr(a), _expr(b))), 3, 1)
    return _wrap(choose(_as_object(condition), _as_object(x), _as_object(y)))


def _select(conditions: Any, choices: Any, default: Any = 0.0) -> Any:
    out = default
    for condition, choice in reversed(list(zip(conditions, choices, strict=True))):
        out = _where(condition, choice, out)
    return out


def _inverse(a: Any) -> Any:
    return matrix(ca.inv(to_sx(a)))


def _solve(a: Any, b: Any) -> Any:
    out = matrix(ca.solve(to_sx(a), to_sx(b)))
    return out[:, 0] if np.ndim(b) == 1 else out


def _determinant(a: Any) -> Any:
    return Sym(ca.det(to_sx(a)))


# NumPy functions that CasADi does itself
_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.where: _where,
    np.select: _select,
    np.linalg.inv: _inverse,
    np.linalg.solve: _solve,
    np.linalg.det: _determinant,
}


class Sym:
    """A scalar that records. Behaves like a float in NumPy expressions; has no numeric value."""

    __slots__ = ("expr",)

    def __init__(self, expr: ca.SX) -> None:
        self.expr = expr

    def __repr__(self) -> str:
        return f"Sym({self.expr})"

    __hash__ = object.__hash__

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method != "__call__" or kwargs:
            return NotImplemented
        return _apply(ufunc.__name__, *inputs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return _as_object(self).view(SymArray).__array_function__(func, types, args, kwargs)

    def __bool__(self) -> bool:
        raise TraceError("a condition depends on the state (use np.where instead of if/and/or/max/min)")

    def __float__(self) -> float:
        raise TraceError("a state-dependent value is converted to a float (use np.* functions instead of math.*)")

    def __int__(self) -> int:
        raise TraceError("a state-dependent value is converted to an integer")

    def __index__(self) -> int:
        raise TraceError("a state-dependent value is used as an index")


class SymArray(np.ndarray):
    """Object array of Sym and numbers on which every ufunc records."""

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        out = kwargs.pop("out", None)
        for name in ("casting", "subok", "order", "dtype"):
            kwargs.pop(name, None)
        if ufunc.signature is not None or (method == "reduce" and ufunc in (np.add, np.multiply)):
            operation = ufunc  # matmul and sums: NumPy's own loops, through the operators of Sym
        elif ufunc.__name__ in _UFUNCS:
            operation = _elementwise(ufunc.__name__)
        else:
            raise TraceError(f"np.{ufunc.__name__} cannot be traced")
        result = getattr(operation, method)(*[_as_object(x) for x in inputs], **kwargs)
        if out is None:
            return _wrap(result)
        out[0][...] = result
        return out[0]

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if func in _FUNCTIONS and (func is not np.where or len(args) == 3):
            return _FUNCTIONS[func](*args, **kwargs)
        return _wrap(super().__array_function__(func, (SymArray,), _arrays(args), kwargs))


def _operators() -> None:
    """Give Sym Python's operators; NumPy arrays on the other side win, so that shapes are NumPy's."""

    def binary(name: str, swap: bool) -> Callable[[Sym, Any], Any]:
        def operator(self: Sym, other: Any) -> Any:
            return _apply(name, other, self) if swap else _apply(name, self, other)

        return operator

    def unary(name: str) -> Callable[[Sym], Any]:
        return lambda self: _apply(name, self)

    for python, ufunc in {
        "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "pow": "power", "mod": "remainder",
        "floordiv": "floor_divide",
    }.items():  # fmt: skip
        setattr(Sym, f"__{python}__", binary(ufunc, False))
        setattr(Sym, f"__r{python}__", binary(ufunc, True))
    for python, ufunc in {
        "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal", "eq": "equal", "ne": "not_equal",
        "and": "logical_and", "or": "logical_or",
    }.items():  # fmt: skip
        setattr(Sym, f"__{python}__", binary(ufunc, False))
    for python, ufunc in {"neg": "negative", "pos": "positive", "abs": "absolute", "invert": "logical_not"}.items():
        setattr(Sym, f"__{python}__", unary(ufunc))
    for ufunc in _UFUNCS:  # an object array calls np.sin(a) as a[i].sin()
        if not hasattr(Sym, ufunc):
            setattr(Sym, ufunc, unary(ufunc) if ufunc not in _BINARY else binary(ufunc, False))


_operators()


def vector(expr: ca.SX) -> np.ndarray:
    """(n,) array of Sym from a dense SX column (n, 1)."""
    out = np.empty(expr.numel(), dtype=object)
    for i, element in enumerate(expr.elements()):
        out[i] = Sym(ca.SX(element))  # type: ignore[call-overload]
    return out.view(SymArray)


def matrix(expr: ca.SX) -> np.ndarray:
    """(n, m) array of Sym from an SX matrix."""
    return vector(ca.vec(ca.densify(expr))).reshape(expr.shape, order="F")


def to_sx(value: Any) -> ca.SX:
    """SX matrix from what a user's function returned: numbers, Sym, lists, arrays (1-d becomes a column)."""
    array = _as_object(value)
    if array.ndim > 2:
        raise TraceError(f"an array of {array.ndim} dimensions was returned")
    column = array.reshape(-1, 1) if array.ndim < 2 else array
    if column.size == 0:
        return ca.SX.zeros(0, 1)
    out = ca.SX.zeros(*column.shape)
    for (i, j), x in np.ndenumerate(column):
        while isinstance(x, np.ndarray) and x.size == 1:
            x = x.item()
        if isinstance(x, (np.ndarray, list, tuple)):
            raise TraceError(f"entry {i} has {len(x)} components where a number is expected")
        out[i, j] = _expr(x)
    return out


class MissingParameter(ModelError, AttributeError):
    """A model function asks for a parameter that the system does not have."""


class Namespace:
    """Parameters by attribute or key: ``p.m`` or ``p["m"]``."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.__dict__.update(values)

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)

    def __getattr__(self, name: str) -> Any:
        known = ", ".join(self.__dict__) or "none"
        raise MissingParameter(
            f"there is no parameter {name!r} (there are: {known}); add it to parameters= of the system."
        )

    def __repr__(self) -> str:
        return f"parameters({', '.join(self.__dict__)})"
