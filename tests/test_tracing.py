"""Plain NumPy on symbols: every recorded function against NumPy itself, and what cannot be recorded says so."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import casadi as ca
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special

import dalembert as da
from dalembert.status import BlackBoxWarning, ModelError
from dalembert.tracing import UFUNC_NAMES, MissingParameter, Namespace, Sym, TraceError, to_sx, vector

SAMPLE = np.array([0.3, 0.7, -0.4, 1.2])
ROTATION = np.array([[0.0, -1.0, 0.5, 2.0], [1.0, 0.0, -0.3, 1.0]])


def recorded(function: Callable[[Any], Any], x: np.ndarray) -> np.ndarray:
    """Value at x of what ``function`` records on symbols."""
    symbols = ca.SX.sym("x", x.size)
    out = to_sx(function(vector(symbols).reshape(x.shape)))
    return np.asarray(ca.Function("f", [symbols], [out])(x.ravel()).full())


def agrees(function: Callable[[Any], Any], x: np.ndarray = SAMPLE, rtol: float = 1e-13) -> None:
    expected = np.asarray(function(x), dtype=float)
    expected = expected.reshape(-1, 1) if expected.ndim < 2 else expected
    actual = recorded(function, x)
    assert actual.shape == expected.shape
    np.testing.assert_allclose(actual, expected, rtol=rtol, atol=1e-2 * rtol)


# ---------------------------------------------------------------------- elementwise functions
def ufunc(name: str) -> np.ufunc:
    return getattr(special, name) if name == "erf" else getattr(np, name)


UNARY = sorted(n for n in UFUNC_NAMES - {"clip", "invert"} if ufunc(n).nin == 1)
BINARY = sorted(n for n in UFUNC_NAMES - {"clip"} if ufunc(n).nin == 2)
POSITIVE = {"sqrt", "log", "log10", "log2", "log1p", "reciprocal", "power", "float_power"}
DOMAIN = {name: np.array([0.2, 0.9, 0.5, 0.1]) for name in POSITIVE}
DOMAIN |= {"arccosh": 1 + np.abs(SAMPLE)}
DOMAIN |= {name: 0.5 * SAMPLE for name in ("arcsin", "arccos", "arctanh")}


def where(name: str) -> np.ndarray:
    return DOMAIN.get(name, SAMPLE)


@pytest.mark.parametrize("name", UNARY)
def test_unary_function(name: str) -> None:
    f = ufunc(name)
    agrees(f, where(name))
    agrees(lambda x: f(x[1]), where(name))
    agrees(lambda x: f(x.reshape(2, 2)), where(name))


@pytest.mark.parametrize("name", BINARY)
def test_binary_function(name: str) -> None:
    f, x = ufunc(name), where(name)
    if name.startswith("bitwise"):
        agrees(lambda x: f(x > 0, x < 0.5))
        return
    agrees(lambda x: f(x, x[::-1]), x)
    agrees(lambda x: f(x[0], x[1]), x)
    agrees(lambda x: f(0.5, x), x)
    agrees(lambda x: f(x, 0.5), x)
    agrees(lambda x: f(np.array([1.0, 2.0]), x[0]), x)
    agrees(lambda x: f(x[:, None], x[None, :2]), x)


def test_sign_and_steps_at_zero() -> None:
    zero = np.array([0.0, -0.0])
    for f in (np.sign, np.abs, np.floor, np.ceil, np.trunc, lambda x: np.heaviside(x, 0.25), lambda x: x > 0):
        agrees(f, zero)


numbers = st.floats(-2, 2, allow_nan=False).map(lambda x: round(x, 3))


def expressions() -> st.SearchStrategy[Callable[[Any], Any]]:
    """Random smooth functions of a vector of four."""
    leaf = st.one_of(
        st.integers(0, 3).map(lambda i: lambda x: x[i]),
        numbers.map(lambda c: lambda x: c + 0 * x[0]),
    )

    def grow(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        unary = st.sampled_from([np.sin, np.cos, np.tanh, np.arctan, np.exp, np.square, np.abs, np.negative])
        binary = st.sampled_from([np.add, np.subtract, np.multiply, np.hypot, np.maximum, np.minimum])
        one, two = st.tuples(unary, inner), st.tuples(binary, inner, inner)
        return st.one_of(
            one.map(lambda a: lambda x: a[0](np.tanh(a[1](x)))),
            two.map(lambda a: lambda x: a[0](a[1](x), a[2](x))),
            st.tuples(inner, inner, inner).map(lambda a: lambda x: np.where(a[0](x) > 0.1, a[1](x), a[2](x))),
            st.tuples(inner, inner).map(lambda a: lambda x: a[0](x) / (1 + a[1](x) ** 2)),
        )

    return st.recursive(leaf, grow, max_leaves=12)


@settings(max_examples=60, deadline=None)
@given(expressions(), st.lists(numbers, min_size=4, max_size=4))
def test_random_expressions(function: Callable[[Any], Any], x: list[float]) -> None:
    agrees(function, np.array(x), rtol=1e-10)


# ---------------------------------------------------------------------- arrays
ARRAY_FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "x @ x": lambda x: x @ x,
    "matrix @ x": lambda x: ROTATION @ x,
    "x @ matrix": lambda x: x @ ROTATION.T,
    "dot": lambda x: np.dot(ROTATION, x),
    "vdot": lambda x: np.vdot(x, x),
    "inner": lambda x: np.inner(x, ROTATION),
    "outer": lambda x: np.outer(x, x),
    "cross": lambda x: np.cross(x[:3], x[1:]),
    "cross with numbers": lambda x: np.cross([0.0, 0.0, 1.0], x[:3]),
    "norm": lambda x: np.linalg.norm(x),
    "norm of difference": lambda x: np.linalg.norm(x[:2] - x[2:]),
    "norm along axis": lambda x: np.linalg.norm(x.reshape(2, 2), axis=1),
    "einsum to scalar": lambda x: np.einsum("i,i->", x, x),
    "einsum to matrix": lambda x: np.einsum("i,j->ij", x, x),
    "einsum with numbers": lambda x: np.einsum("ij,j->i", ROTATION, x),
    "stack": lambda x: np.stack([x[:2], x[2:]]),
    "concatenate": lambda x: np.concatenate([x, [1.0], x[:1]]),
    "hstack with a scalar": lambda x: np.hstack([x[0], x, 3.0]),
    "array of a list": lambda x: np.array([[np.cos(x[0]), -np.sin(x[0])], [np.sin(x[0]), np.cos(x[0])]]) @ x[1:3],
    "block": lambda x: np.block([[x[:2], x[2:]]]),
    "sum": lambda x: np.sum(x),
    "method sum": lambda x: x.sum(),
    "sum along axis": lambda x: x.reshape(2, 2).sum(axis=0),
    "built-in sum": sum,
    "prod": lambda x: np.prod(x),
    "mean": lambda x: x.mean(),
    "mean along axis": lambda x: np.mean(x.reshape(2, 2), axis=1),
    "std": lambda x: np.std(x),
    "cumsum": lambda x: np.cumsum(x),
    "diff": lambda x: np.diff(x),
    "trace": lambda x: np.trace(np.outer(x, x)),
    "diag": lambda x: np.diag(x),
    "kron": lambda x: np.kron(x[:2], x[2:]),
    "transpose": lambda x: np.outer(x, x[:2]).T,
    "reshape": lambda x: x.reshape(2, 2) @ x[:2],
    "roll": lambda x: np.roll(x, 1),
    "unpacking": lambda x: (lambda a, b, c, d: [a * b, c - d])(*x),
    "in place": lambda x: _in_place(x.copy()),
    "zeros_like": lambda x: _filled(np.zeros_like(x), x),
    "polyval": lambda x: np.polyval([1.0, 2.0, 3.0], x),
    "number times scalar": lambda x: np.float64(2.0) * x[0] - np.array(3.0) * x[1],
    "array times scalar": lambda x: np.array([1.0, 2.0]) * x[0],
    "scalar times array": lambda x: x[0] / np.array([1.0, 2.0]),
    "inverse": lambda x: np.linalg.inv(np.diag(x) + np.ones((4, 4))),
    "solve": lambda x: np.linalg.solve(np.diag(x) + np.ones((4, 4)), x),
    "solve with numbers": lambda x: np.linalg.solve(np.diag(x) + np.ones((4, 4)), np.eye(4)),
    "determinant": lambda x: np.linalg.det(np.diag(x) + np.ones((4, 4))),
    # decisions
    "where": lambda x: np.where(x > 0, x, -x),
    "where of numbers": lambda x: np.where(x > 0, 1.0, 0.0),
    "where of a scalar": lambda x: np.where(x[2] > 0, x[0], 2.0),
    "where broadcast": lambda x: np.where(x[0] > 0, x, -x),
    "where with given condition": lambda x: np.where([True, False, True, False], x, 0.0),
    "where and": lambda x: np.where((x > 0) & (x < 0.5), 1, 0),
    "where or": lambda x: np.where((x > 1) | (x < 0), 1, 0),
    "where not": lambda x: np.where(~(x > 0), 1, 0),
    "where logical_and": lambda x: np.where(np.logical_and(x > 0, x < 0.5), 1, 0),
    "where any": lambda x: np.where(np.any(x > 1), x, 0),
    "where all": lambda x: np.where(np.all(x > 1), x, 0),
    "select": lambda x: np.select([x > 1, x > 0], [x**2, x], default=-1.0),
    "clip": lambda x: np.clip(x, -0.2, 0.5),
    "clip one-sided": lambda x: np.clip(x, 0.0, None),
    "clip of a scalar": lambda x: np.clip(x[3], -0.2, 0.5),
    "clip between symbols": lambda x: np.clip(x, x[2], x[1]),
    "method clip": lambda x: x.clip(-0.2, 0.5),
    "max": lambda x: np.max(x),
    "method min": lambda x: x.min(),
    "max along axis": lambda x: x.reshape(2, 2).max(axis=1),
    "maximum": lambda x: np.maximum(x, 0.0),
    "sinc": lambda x: np.sinc(x),
    # powers and remainders
    "square": lambda x: x**2,
    "root": lambda x: abs(x) ** 0.5,
    "number to the symbol": lambda x: 2**x,
    "inverse power": lambda x: x**-3,
    "modulo": lambda x: x % 0.5,
    "floor division": lambda x: x // 0.5,
}


def _in_place(x: Any) -> Any:
    x += 1.0
    x[0] *= 2
    return x


def _filled(out: Any, x: Any) -> Any:
    out[1] = x[0] * x[1]
    return out


@pytest.mark.parametrize("name", ARRAY_FUNCTIONS)
def test_array_function(name: str) -> None:
    agrees(ARRAY_FUNCTIONS[name], rtol=1e-12)


@settings(max_examples=30, deadline=None)
@given(st.lists(numbers, min_size=6, max_size=6))
def test_rotation_algebra(x: list[float]) -> None:
    """Rodrigues' formula written three ways records the same."""

    def rotate(x: Any) -> Any:
        axis, r = x[:3], x[3:]
        tilde = np.array([[0, -axis[2], axis[1]], [axis[2], 0, -axis[0]], [-axis[1], axis[0], 0]])
        a, b = tilde @ (tilde @ r), np.cross(axis, np.cross(axis, r))
        c = axis * np.dot(axis, r) - r * np.einsum("i,i", axis, axis)
        return np.concatenate([a, a - b, a - c])

    agrees(rotate, np.array(x), rtol=1e-10)


# ---------------------------------------------------------------------- what cannot be recorded
UNTRACEABLE: dict[str, Callable[[Any], Any]] = {
    "if": lambda x: 1.0 if x[0] > 0 else 2.0,
    "chained comparison": lambda x: np.where(0 < x[0] < 1, 1, 2),
    "and": lambda x: (x[0] > 0) and (x[1] > 0),
    "max of Python": lambda x: max(x[0], x[1]),
    "sorted": lambda x: sorted(x),
    "np.sort": lambda x: np.sort(x),
    "argmax": lambda x: np.argmax(x),
    "math": lambda x: math.sin(x[0]),
    "float": lambda x: float(x[0]),
    "int": lambda x: int(x[0]),
    "index": lambda x: [1, 2, 3][x[0]],
    "range": lambda x: list(range(x[0])),
    "float array": lambda x: np.array([x[0], 1.0], dtype=float),
    "astype": lambda x: x.astype(float),
    "into a float array": lambda x: _filled(np.zeros(4), x),
    "piecewise": lambda x: np.piecewise(x, [x < 0, x >= 0], [-1.0, 1.0]),
    "isfinite": lambda x: np.isfinite(x),
    "rint": lambda x: np.rint(x),
    "complex": lambda x: x[0] * 1j,
}


@pytest.mark.parametrize("name", UNTRACEABLE)
def test_untraceable(name: str) -> None:
    with pytest.raises(TraceError):
        UNTRACEABLE[name](vector(ca.SX.sym("x", 4)))


@pytest.mark.parametrize(
    "function",
    [
        lambda q: [np.interp(q[0], [0.0, 1.0], [0.0, 2.0])],
        lambda q: [math.sin(q[0])],
        lambda q: [np.arctan2(1.0, np.array([q[0]]))[0]],
        lambda q: [np.linalg.eigvalsh(np.diag([1.0, q[0]]))[0]],
        lambda q: [np.round(q[0])],
        lambda q: [np.maximum(np.array([q[0]]), 0.0)[0]],
    ],
)
def test_untraceable_becomes_a_black_box_not_an_error(function: Any) -> None:
    with pytest.warns(BlackBoxWarning, match="force cannot be traced"):
        system = da.System(q=1, mass=[1.0], force=function)
    assert system.black_boxes == ["force"]


@pytest.mark.parametrize("mistake", [lambda q: q.nonsense, lambda q: q + "a", lambda q: undefined, lambda q: q[7]])  # noqa: F821
def test_mistakes_of_the_user_are_not_hidden(mistake: Any) -> None:
    with pytest.raises((AttributeError, ModelError, NameError, IndexError, TypeError, ValueError)):
        da.System(q=1, mass=[1.0], force=mistake)


def test_messages_name_the_remedy() -> None:
    x = vector(ca.SX.sym("x", 2))
    with pytest.raises(TraceError, match=r"np\.where"):
        bool(x[0] > 0)
    with pytest.raises(TraceError, match=r"np\.\* functions instead of math\.\*"):
        float(x[0])
    with pytest.raises(TraceError, match=r"np\.modf cannot be traced"):
        np.modf(x)


def test_symbols_print_and_hash() -> None:
    (x,) = vector(ca.SX.sym("x", 1))
    assert repr(2 * x) == "Sym((2.*x))"
    assert len({x, x}) == 1
    assert isinstance(x, Sym)


def test_returned_values_of_any_kind() -> None:
    x = vector(ca.SX.sym("x", 2))
    assert to_sx(3).shape == (1, 1)
    assert to_sx([]).shape == (0, 1)
    assert to_sx(x[0]).shape == (1, 1)
    assert to_sx([x[0], np.array([1.0]), 2]).shape == (3, 1)
    assert to_sx(np.outer(x, x)).shape == (2, 2)
    with pytest.raises(TraceError, match="3 dimensions"):
        to_sx(np.zeros((1, 1, 1)))
    with pytest.raises(TraceError, match="entry 0 has 2 components"):
        to_sx([x, 1.0])
    with pytest.raises(TraceError):
        to_sx(None)


# ---------------------------------------------------------------------- parameters
def test_parameters_of_any_shape_arrive_as_given() -> None:
    values = {"m": 2.0, "a": [1.0, 2.0, 3.0], "J": [[1.0, 0.2], [0.3, 4.0]], "one": [5.0]}
    seen: dict[str, Any] = {}

    def force(q: Any, p: Any) -> Any:
        seen.update({name: np.shape(getattr(p, name)) for name in values})
        return [p.m * p.a[2], p.J[0, 1] * q[0] + p["one"][0]]

    system = da.System(q=2, mass=[1.0, 1.0], force=force, parameters=values)
    assert seen == {"m": (), "a": (3,), "J": (2, 2), "one": (1,)}
    zeros = [np.zeros(n) for n in system.sizes.values()]
    zeros[1], zeros[-1] = np.array([10.0, 0.0]), system.parameters.vector()
    np.testing.assert_allclose(system.function("force")(*zeros, []).full().ravel(), [6.0, 0.2 * 10 + 5])
    zeros[-1] = system.parameters.vector({"J": [[0, 7.0], [0, 0]]})
    np.testing.assert_allclose(system.function("force")(*zeros, []).full().ravel(), [6.0, 7.0 * 10 + 5])


def test_parameter_arrays_take_part_in_array_functions() -> None:
    parameters = {"k": np.eye(2), "low": [0.0, 1.0]}
    system = da.System(q=2, mass=[1.0, 1.0], force=lambda q, p: -np.maximum(p.k @ q, p.low), parameters=parameters)
    assert not system.black_boxes


def test_namespace() -> None:
    p = Namespace({"m": 1.0, "g": 9.81})
    assert p.m == p["m"] == 1.0
    assert repr(p) == "parameters(m, g)"
    assert not hasattr(p, "L")
    for ask in (lambda: p.L, lambda: p["L"]):
        with pytest.raises(MissingParameter, match=r"'L'.*m, g.*parameters="):
            ask()
    with pytest.raises(ModelError, match="none"):
        _ = Namespace({}).m
