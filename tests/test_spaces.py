"""Group identities for every configuration space, on numbers and on compiled symbols alike.

References are independent of the formulas under test: matrix exponentials and power series of ad in 50 digits.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import casadi as ca
import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dalembert as da
from dalembert.compiler import Kernel, KernelSpec, compile_kernels
from dalembert.spaces import rotation
from dalembert.spaces.group import MissingPart
from dalembert.spaces.stumpff import stumpff
from dalembert.status import ModelError, OptionError

sp = da.spaces
EPS = np.finfo(float).eps

GROUPS: dict[str, sp.Group] = {
    "R^3": sp.Euclidean(3),
    "S^1": sp.Circle(),
    "SO(2)": sp.SO2(),
    "SO(3)": sp.SO3(),
    "S^3": sp.UnitQuaternions(),
    "SE(2)": sp.SE2(),
    "SE(3)": sp.SE3(),
    "R^3 x SO(3)": sp.R3xSO3(),
    "SE(3) x S^1 x R": sp.SE3() * sp.Circle() * sp.Euclidean(["s"]),
    "named": sp.Product(arm=sp.UnitQuaternions(), cart=sp.SE2()),
}
# components of v that are rotation vectors
TURNS: dict[str, list[slice]] = {
    "R^3": [],
    "S^1": [slice(0, 1)],
    "SO(2)": [slice(0, 1)],
    "SO(3)": [slice(0, 3)],
    "S^3": [slice(0, 3)],
    "SE(2)": [slice(2, 3)],
    "SE(3)": [slice(3, 6)],
    "R^3 x SO(3)": [slice(3, 6)],
    "SE(3) x S^1 x R": [slice(3, 6), slice(6, 7)],
    "named": [slice(0, 3), slice(5, 6)],
}
MATRIX = ["SO(2)", "SO(3)", "S^3", "SE(2)", "SE(3)"]  # those with a matrix form
KINDS = ("numbers", "compiled")


MATRICES = ("tangent", "tangent_inverse", "Ad", "ad", "exp_v", "log_v", "move_v", "compose_v")


class Compiled:
    """The operations of a group as machine code, with the methods of the group."""

    def __init__(self, group: sp.Group) -> None:
        a, b = ca.SX.sym("a", group.nq), ca.SX.sym("b", group.nq)
        v, w, none = ca.SX.sym("v", group.nv), ca.SX.sym("w", group.nv), ca.SX(0, 1)
        exp, tangent = group.exp(v), ca.vec(group.tangent(v))
        log_turned = group.log(group.compose(a, group.exp(v)))
        outputs = {
            "compose": (a, b, group.compose(a, b)),
            "inverse": (a, none, group.inverse(a)),
            "exp": (v, none, exp),
            "log": (a, none, group.log(a)),
            "tangent": (v, none, group.tangent(v)),
            "tangent_inverse": (v, none, group.tangent_inverse(v)),
            "Ad": (a, none, group.Ad(a)),
            "ad": (v, none, group.ad(v)),
            "move": (a, v, group.move(a, v)),
            "retract": (a, v, group.retract(a, v)),
            "difference": (a, b, group.difference(a, b)),
            "rate": (a, v, group.rate(a, v)),
            "equations": (a, none, group.equations(a)),
            "project": (a, none, group.project(a)),
            # derivatives by AD: exp', along w exp' and exp'', T' and T'', and (of log(a exp(v)) by v)
            "exp_v": (v, none, ca.jacobian(exp, v)),
            "exp_1": (v, w, ca.jtimes(exp, v, w)),
            "exp_2": (v, w, ca.jtimes(ca.jtimes(exp, v, w), v, w)),
            "tangent_1": (v, w, ca.jtimes(tangent, v, w)),
            "tangent_2": (v, w, ca.jtimes(ca.jtimes(tangent, v, w), v, w)),
            "log_v": (a, none, ca.substitute(ca.jacobian(log_turned, v), v, ca.SX.zeros(group.nv, 1))),
            "move_v": (a, none, ca.substitute(ca.jacobian(group.move(a, v), v), v, ca.SX.zeros(group.nv, 1))),
            "compose_v": (a, none, ca.substitute(ca.jacobian(group.compose(a, exp), v), v, ca.SX.zeros(group.nv, 1))),
            "log_1": (ca.vertcat(a, v), w, ca.jtimes(log_turned, v, w)),
            "log_2": (ca.vertcat(a, v), w, ca.jtimes(ca.jtimes(log_turned, v, w), v, w)),
        }
        specs = [KernelSpec(n, x, y, ca.vec(ca.densify(out))) for n, (x, y, out) in outputs.items()]
        self.kernels = compile_kernels(specs, backend="llvm")
        self.shapes = {n: out.shape for n, (_, _, out) in outputs.items()}

    def __getattr__(self, name: str) -> Callable[..., np.ndarray]:
        kernel, shape = self.kernels[name], self.shapes[name]

        def evaluate(a: Any, b: Any = ()) -> np.ndarray:
            out = kernel(np.ravel(a), np.ravel(b)).reshape(shape, order="F")
            return out if name in MATRICES else out[:, 0]

        return evaluate


@cache
def compiled(name: str) -> Compiled:
    return Compiled(GROUPS[name])


@pytest.fixture(
    params=[(name, kind) for name in GROUPS for kind in KINDS], ids=lambda p: f"{p[0]}-{p[1]}", scope="module"
)
def case(request: pytest.FixtureRequest) -> tuple[str, Any, sp.Group]:
    name, kind = request.param
    return name, compiled(name) if kind == "compiled" else GROUPS[name], GROUPS[name]


# ---------------------------------------------------------------------- samples
angles = st.one_of(
    st.just(0.0),
    st.floats(-12.0, 0.0).map(lambda e: 10.0**e),
    st.floats(0.0, np.pi - 1e-9),
    st.floats(-9.0, -1.0).map(lambda e: np.pi - 10.0**e),
    st.sampled_from([1.999999, 2.0, 2.000001, 2.999999, 3.0, 3.000001]),  # where the series ends
)
entries = st.floats(-1.0, 1.0).map(lambda x: round(x, 6))


@st.composite
def velocities(draw: st.DrawFn, name: str, largest: float = np.pi) -> np.ndarray:
    """v with rotation vectors of given length (scaled for smaller radii) and translations up to 5."""
    v = 5.0 * np.array(draw(st.lists(entries, min_size=GROUPS[name].nv, max_size=GROUPS[name].nv)))
    for part in TURNS[name]:
        axis = v[part] if np.linalg.norm(v[part]) > 1e-3 else np.eye(3)[0][: v[part].size] * 5.0
        v[part] = axis / np.linalg.norm(axis) * draw(angles) * (largest / np.pi)
    return v


def turn(name: str, v: np.ndarray) -> float:
    return max([float(np.linalg.norm(v[part])) for part in TURNS[name]], default=0.0)


def close(actual: Any, expected: Any, factor: float = 32.0) -> None:
    """Equal up to a few roundings of the largest entry."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape
    scale = max(1.0, float(np.abs(expected).max(initial=0.0)))
    assert np.abs(actual - expected).max(initial=0.0) <= factor * EPS * scale, (actual, expected)


def same(name: str, a: np.ndarray, b: np.ndarray, factor: float = 32.0) -> None:
    """The same element: angles of circles count modulo 2 pi."""
    group = GROUPS[name]
    if "S^1" not in name:
        close(a, b, factor)
    else:
        k = group.names.index("angle")
        close(np.delete(a, k), np.delete(b, k), factor)
        assert abs(np.exp(1j * a[k]) - np.exp(1j * b[k])) <= factor * EPS


quick = settings(max_examples=30, deadline=None)


# ---------------------------------------------------------------------- group identities
@quick
@given(data=st.data())
def test_group_axioms(case: Any, data: st.DataObject) -> None:
    name, G, group = case
    a, b, c = (group.exp(data.draw(velocities(name))) for _ in range(3))
    same(name, G.compose(G.compose(a, b), c), G.compose(a, G.compose(b, c)), 128)
    same(name, G.compose(a, group.identity), a)
    same(name, G.compose(group.identity, a), a)
    same(name, G.compose(a, G.inverse(a)), group.identity, 64)
    same(name, G.compose(G.inverse(a), a), group.identity, 64)
    close(G.equations(G.compose(a, b)), np.zeros(group.nq - group.nv))


@quick
@given(data=st.data())
def test_log_inverts_exp(case: Any, data: st.DataObject) -> None:
    name, G, _ = case
    radius = 2 * np.pi if name == "S^3" else np.pi
    v = data.draw(velocities(name, radius))
    q = G.exp(v)
    w = G.log(q)
    same(name, G.exp(w), q, 64)  # at every angle
    if turn(name, v) < radius - 1e-12:  # and v itself, as well as q determines it
        close(w, v, 64 if turn(name, v) < radius - 1e-2 or name != "S^3" else 1e4)
    for part in TURNS[name]:  # small angles to full relative accuracy
        size = np.linalg.norm(v[part])
        if size < 1e-2 and name != "SE(3) x S^1 x R":
            assert np.linalg.norm(w[part] - v[part]) <= 8 * EPS * size


@quick
@given(data=st.data())
def test_exp_is_a_one_parameter_group(case: Any, data: st.DataObject) -> None:
    name, G, group = case
    v = data.draw(velocities(name))
    s, t = data.draw(st.floats(-2, 2)), data.draw(st.floats(-2, 2))
    same(name, G.exp((s + t) * v), G.compose(G.exp(s * v), G.exp(t * v)), 256)
    same(name, G.exp(-v), G.inverse(G.exp(v)))
    same(name, G.exp(np.zeros(group.nv)), group.identity, 0)


@quick
@given(data=st.data())
def test_move_and_difference(case: Any, data: st.DataObject) -> None:
    name, G, group = case
    q0, q1 = (group.exp(data.draw(velocities(name))) for _ in range(2))
    d = G.difference(q0, q1)
    same(name, G.move(q0, d), q1, 128)
    same(name, G.move(q0, np.zeros(group.nv)), q0)
    same(name, G.move(q0, d), G.compose(q0, G.exp(d)), 32)


@pytest.mark.parametrize("size", [1e-4, 1e-2, 1.0])
def test_retract_is_an_element_near_that_of_a_move(case: Any, size: float) -> None:
    _, G, group = case
    rng = np.random.default_rng(7)
    q, d = group.exp(rng.normal(size=group.nv)), size * rng.uniform(-1.0, 1.0, group.nv)
    moved = G.retract(q, d)
    assert np.abs(group.equations(moved)).max(initial=0.0) < 8 * EPS
    assert np.abs(moved - group.move(q, d)).max() <= 2.0 * size**2 + 8 * EPS
    close(G.retract(q, 0.0 * d), q, 4)


@quick
@given(data=st.data())
def test_adjoint(case: Any, data: st.DataObject) -> None:
    name, G, group = case
    v, w, x = (data.draw(velocities(name)) for _ in range(3))
    q, p = group.exp(w), group.exp(x)
    Ad = G.Ad(q)
    same(name, G.compose(G.compose(q, G.exp(v)), G.inverse(q)), G.exp(Ad @ v), 2048)
    close(G.Ad(G.compose(q, p)), Ad @ G.Ad(p), 256)
    close(G.Ad(G.inverse(q)) @ Ad, np.eye(group.nv), 256)
    close(G.ad(v) @ w, -G.ad(w) @ v)
    close(G.ad(G.ad(v) @ w), G.ad(v) @ G.ad(w) - G.ad(w) @ G.ad(v), 256)  # Jacobi
    close(Ad @ (G.ad(v) @ x), G.ad(Ad @ v) @ (Ad @ x), 2048)  # Ad keeps brackets


def series(ad: np.ndarray) -> np.ndarray:
    """T = sum (-1)^i ad^i / (i+1)! in extended precision."""
    A = ad.astype(np.longdouble)
    total = power = np.eye(len(A), dtype=np.longdouble)
    for i in range(1, 60):
        power = -power @ A / (i + 1)
        total = total + power
    return total.astype(float)


@quick
@given(data=st.data())
def test_tangent_operator(case: Any, data: st.DataObject) -> None:
    name, G, group = case
    v = data.draw(velocities(name))
    T = G.tangent(v)
    close(T, series(group.ad(v)))
    close(T @ G.tangent_inverse(v), np.eye(group.nv), 128)
    close(T @ v, v, 128)
    close(T @ np.linalg.inv(G.tangent(-v)), group.Ad(group.exp(-v)), 512)  # dexp_{-v} = Ad_{exp(-v)} dexp_v


@pytest.mark.parametrize("name", GROUPS)
@quick
@given(data=st.data())
def test_derivative_of_exp_and_log_by_ad(name: str, data: st.DataObject) -> None:
    group, G = GROUPS[name], compiled(name)
    v = data.draw(velocities(name))
    q = group.exp(v)
    B = np.array([group.rate(q, e) for e in np.eye(group.nv)]).T  # q' = B v
    close(G.exp_v(v), B @ group.tangent(v), 64)  # d/dt exp(v(t)) = exp(v) (T(v) v')~
    if turn(name, v) < np.pi - 1e-6:  # log(q exp(d)) = log(q) + T^-1 d + ...
        close(G.log_v(q), group.tangent_inverse(group.log(q)), 1024)


@pytest.mark.parametrize("name", GROUPS)
@quick
@given(data=st.data())
def test_rate_is_the_derivative_of_the_stored_numbers(name: str, data: st.DataObject) -> None:
    group, G = GROUPS[name], compiled(name)
    q, v = group.exp(data.draw(velocities(name))), data.draw(velocities(name))
    for rate in (G.rate(q, v), G.move_v(q) @ v, G.compose_v(q) @ v):  # derivatives at d = 0: the branch of the series
        close(rate, group.rate(q, v), 64)


@pytest.mark.parametrize("name", MATRIX)
def test_matrix_form(name: str) -> None:
    group = GROUPS[name]
    rng = np.random.default_rng(5)
    v, w = rng.normal(size=(2, group.nv))
    V, W = group.hat(v), group.hat(w)
    close(group.vee(V), v)
    if name == "S^3":  # right multiplications compose in reverse
        close(group.vee(W @ V - V @ W), group.ad(v) @ w)
    else:
        close(group.vee(V @ W - W @ V), group.ad(v) @ w)
    x = ca.SX.sym("x", group.nv)
    close(ca.Function("f", [x], [group.vee(group.hat(x))])(v).full().ravel(), v)
    with pytest.raises(OptionError, match="no matrix form"):
        sp.R3xSO3().hat(np.zeros(6))


# ---------------------------------------------------------------------- against 50 digits
def precise_exp(name: str, group: sp.Group, v: Any) -> list[Any]:
    """Stored numbers of exp(v) by the matrix exponential."""
    if name in ("SO(2)", "SE(2)"):
        omega = v[-1]
        hat = mp.matrix([[0, -omega], [omega, 0]])
        if name == "SE(2)":
            hat = mp.matrix([[0, -omega, v[0]], [omega, 0, v[1]], [0, 0, 0]])
    else:
        w = v[-3:]
        if name == "S^3":
            x, y, z = (c / 2 for c in w)
            hat = mp.matrix([[0, -x, -y, -z], [x, 0, z, -y], [y, -z, 0, x], [z, y, -x, 0]])
        else:
            rows = [[0, -w[2], w[1]], [w[2], 0, -w[0]], [-w[1], w[0], 0]]
            if name == "SE(3)":
                rows = [[*row, u] for row, u in zip(rows, v, strict=False)] + [[0, 0, 0, 0]]
            hat = mp.matrix(rows)
    E = mp.expm(hat, method="taylor")
    if name == "SO(2)":
        return [E[0, 0], E[1, 0]]
    if name == "SE(2)":
        return [E[0, 2], E[1, 2], E[0, 0], E[1, 0]]
    if name == "S^3":
        return [E[i, 0] for i in range(4)]
    R = [E[i, j] for i in range(3) for j in range(3)]
    return [E[0, 3], E[1, 3], E[2, 3], *R] if name == "SE(3)" else R


def precise_tangent(group: sp.Group, v: Any) -> list[Any]:
    """T(v) by its power series, column by column; ad is linear in v."""
    basis = [mp.matrix(group.ad(e).tolist()) for e in np.eye(group.nv)]
    A = sum((x * E for x, E in zip(v, basis, strict=True)), mp.zeros(group.nv))
    total = power = mp.eye(group.nv)
    for i in range(1, 60):
        power = -power * A / (i + 1)
        total = total + power
    return [total[i, j] for j in range(group.nv) for i in range(group.nv)]


def differences(f: Callable[[Any], list[Any]], v: np.ndarray, w: np.ndarray) -> list[np.ndarray]:
    """f, its first and second derivative along w at v, by central differences in 70 digits."""
    with mp.workdps(70):
        h = mp.mpf(10) ** -15
        at = [f([mp.mpf(x) + s * h * mp.mpf(y) for x, y in zip(v, w, strict=True)]) for s in (-1, 0, 1)]
        first = [(c - a) / (2 * h) for a, _, c in zip(*at, strict=True)]
        second = [(a - 2 * b + c) / h**2 for a, b, c in zip(*at, strict=True)]
        return [np.array(x, dtype=float) for x in (at[1], first, second)]


SIZES = [0.0, 1e-12, 1e-8, 1e-4, 0.1, 1.0, 1.9999, 2.0001, 2.9999, 3.0001, np.pi, 5.0]


@pytest.mark.parametrize("name", MATRIX)
@pytest.mark.parametrize("angle", SIZES)
def test_values_and_derivatives_against_high_precision(name: str, angle: float) -> None:
    group, G = GROUPS[name], compiled(name)
    rng = np.random.default_rng(11)
    v, w = rng.normal(size=(2, group.nv))
    part = TURNS[name][0]
    v[part] *= angle / np.linalg.norm(v[part])
    value, first, second = differences(lambda x: precise_exp(name, group, x), v, w)
    close(group.exp(v), value, 8)
    close(G.exp(v), value, 8)
    close(G.exp_1(v, w), first, 16)
    close(G.exp_2(v, w), second, 32)
    value, first, second = differences(lambda x: precise_tangent(group, x), v, w)
    close(G.tangent(v).ravel(order="F"), value, 16)
    close(G.tangent_1(v, w), first, 64)
    close(G.tangent_2(v, w), second, 128)


def precise_log(v: Any, y: Any) -> list[Any]:
    """log(exp(v) exp(y)) on SO(3), angle between 0 and pi."""
    E = mp.matrix(3, 3)
    for i, x in enumerate(precise_exp("SO(3)", sp.SO3(), v)):
        E[i // 3, i % 3] = x
    F = mp.matrix(3, 3)
    for i, x in enumerate(precise_exp("SO(3)", sp.SO3(), y)):
        F[i // 3, i % 3] = x
    R = E * F
    axis = [R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]]
    sine = mp.sqrt(sum(x * x for x in axis)) / 2
    angle = mp.atan2(sine, (R[0, 0] + R[1, 1] + R[2, 2] - 1) / 2)
    return [x * angle / (2 * sine) for x in axis]


@pytest.mark.parametrize("angle", [1e-8, 1e-4, 0.1, 0.28, 0.29, 1.0, 2.0, 2.2, 3.0, 3.1, np.pi - 1e-3])
@pytest.mark.parametrize("axis", [(1.0, 0.1, 0.2), (0.1, 1.0, -0.3), (-0.2, 0.3, 1.0), (1.0, 1.0, 1.0)])
def test_log_of_rotations_against_high_precision(angle: float, axis: tuple[float, ...]) -> None:
    """Each column of the quaternion is taken for some axis and angle."""
    group, G = GROUPS["SO(3)"], compiled("SO(3)")
    v = np.array(axis) / np.linalg.norm(axis) * angle
    w, zero = np.array([0.3, -0.5, 0.7]), np.zeros(3)
    q = group.exp(v)
    value, first, second = differences(lambda y: precise_log([mp.mpf(x) for x in v], y), zero, w)
    state = np.concatenate([q, zero])
    close(group.log(q), value, 8)
    close(G.log_1(state, w), first, 32)
    close(G.log_2(state, w), second, 256)


@pytest.mark.parametrize("name", GROUPS)
def test_derivatives_are_finite_at_zero(name: str) -> None:
    """Derivatives pass through the branch that is not taken: they must not bring NaN along."""
    group, G = GROUPS[name], compiled(name)
    zero, w = np.zeros(group.nv), np.linspace(0.3, 1.0, group.nv)
    state = np.concatenate([group.identity, zero])
    close(G.exp_v(zero), np.array([group.rate(group.identity, e) for e in np.eye(group.nv)]).T, 2)
    close(G.log_1(state, w), w, 2)  # log(exp(v)) = v: derivatives w and 0
    close(G.log_2(state, w), zero, 2)
    close(G.tangent_1(zero, w), -0.5 * group.ad(w).ravel(order="F"), 2)  # T = I - ad/2 + ad^2/6
    close(G.tangent_2(zero, w), (group.ad(w) @ group.ad(w) / 3).ravel(order="F"), 2)
    assert np.all(np.isfinite(G.exp_2(zero, w)))


@pytest.mark.parametrize("top", [2, 3, 4, 5, 6])
def test_stumpff_functions(top: int) -> None:
    """Relative accuracy below the first zero (c1 at s = pi^2), absolute beyond; both sides of the limits."""
    s = np.concatenate(
        [[0.0], np.logspace(-30, 0, 31), np.linspace(1, 9.5, 50), [4 - 1e-9, 4.0, 9 - 1e-9, 9.0, 50.0, 400.0]]
    )
    out = stumpff(s, top)
    with mp.workdps(40):
        for k in range(top + 1):
            exact = [
                float(mp.nsum(lambda j, x=x, k=k: (-mp.mpf(x)) ** j / mp.factorial(k + 2 * j), [0, 60])) for x in s
            ]
            error = np.abs(out[k] - exact) / np.maximum(np.abs(exact), 0.05 / (1 + s))
            assert error.max() < 32 * EPS, (k, s[error.argmax()], error.max() / EPS)


def test_half_turns() -> None:
    """At angle pi exactly both signs are right; log picks one of them, for every axis."""
    group = sp.SO3()
    for axis in ([1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 2, 3], [-1, 0.5, 0], [1e-9, 1, 1]):
        n = np.array(axis, dtype=float) / np.linalg.norm(axis)
        q = (2 * np.outer(n, n) - np.eye(3)).ravel()
        v = group.log(q)
        assert abs(np.linalg.norm(v) - np.pi) < 4 * EPS * np.pi
        close(abs(v @ n), np.array(np.pi))
        assert np.all(np.isfinite(compiled("SO(3)").log_v(q)))  # one-sided, but finite
        close(compiled("SO(3)").log(q), v, 2)
    minus = -sp.UnitQuaternions().identity
    close(sp.UnitQuaternions().exp(sp.UnitQuaternions().log(minus)), minus, 4)
    close(compiled("S^3").log(minus), [2 * np.pi, 0, 0], 2)


# ---------------------------------------------------------------------- staying on the group
def repeat(kernel: Kernel, q: np.ndarray, v: np.ndarray, n: int) -> np.ndarray:
    """q <- kernel(q, v), n times (n even)."""
    function = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_size_t] * 3)(kernel.address)
    there, back = q.copy(), q.copy()
    x, y, z = there.ctypes.data, v.ctypes.data, back.ctypes.data
    for _ in range(n // 2):
        function(x, y, z)
        function(z, y, x)
    return there


@pytest.mark.parametrize("name", ["SO(2)", "SO(3)", "S^3", "SE(3)"])
def test_moves_stay_on_the_group(name: str) -> None:
    """Products drift by about 1e-16 a move, always the same way for a constant velocity; `move` takes that out."""
    group = GROUPS[name]
    a, v = ca.SX.sym("a", group.nq), ca.SX.sym("v", group.nv)
    kernels = compile_kernels(
        [KernelSpec("move", a, v, group.move(a, v)), KernelSpec("plain", a, v, group.compose(a, group.exp(v)))]
    )
    step, n = 0.01 * np.random.default_rng(2).normal(size=group.nv), 100_000
    ends = {}
    for kind, kernel in kernels.items():
        q = repeat(kernel, group.identity, step, n)
        ends[kind] = float(np.abs(group.equations(q)).max())
    assert ends["move"] < 1e-15
    assert ends["plain"] > 1e-12  # else the correction would not be worth its price


@quick
@given(seed=st.integers(0, 10**6), size=st.floats(0.0, 0.9))
def test_project_takes_the_nearest_element(seed: int, size: float) -> None:
    rng = np.random.default_rng(seed)
    R = sp.SO3().exp(rng.normal(size=3)).reshape(3, 3) @ (np.eye(3) + size * rng.uniform(-0.3, 0.3, size=(3, 3)))
    U, _, Vt = np.linalg.svd(R)
    for G in (GROUPS["SO(3)"], compiled("SO(3)")):
        close(G.project(R.ravel()), (U @ Vt).ravel(), 32)
    p = rng.normal(size=4)
    close(compiled("S^3").project(p), p / np.linalg.norm(p))
    x = sp.SE3().project(np.concatenate([[1.0, 2.0, 3.0], R.ravel()]))
    close(x, np.concatenate([[1.0, 2.0, 3.0], (U @ Vt).ravel()]), 32)
    assert np.abs(sp.SE2().equations(sp.SE2().project(rng.normal(size=4)))).max() < 4 * EPS


@pytest.mark.parametrize("name", GROUPS)
def test_defects_vanish_for_elements_only(name: str) -> None:
    group, rng = GROUPS[name], np.random.default_rng(11)
    q = group.exp(rng.normal(size=group.nv))
    assert np.abs(group.defects(q)).max(initial=0.0) < 1e-15
    if group.nq > group.nv:
        assert np.abs(group.defects(1.01 * q)).max() > 1e-3
    for reflected, group in ((-np.eye(3).ravel(), sp.SO3()), (np.append(np.zeros(3), -np.eye(3)), sp.SE3())):
        assert np.abs(group.equations(reflected)).max() == 0.0
        assert group.defects(reflected)[-1] == -2.0


def test_check_says_what_is_wrong() -> None:
    G = sp.SO3()
    assert G.check(G.identity) == (0.0, "")
    residual, message = G.check(1.1 * G.identity)
    assert residual == pytest.approx(0.21)
    assert message == "R is not a rotation: |R^T R - I| = 0.21"
    assert "reflection" in G.check(-np.eye(3).ravel()).message
    assert G.check(-np.eye(3).ravel()).residual == 2.0
    assert "p is not a unit quaternion: |p|^2 - 1 = 1" in sp.UnitQuaternions().check([0.0, 0, 0, 0]).message
    assert "z = (cos, sin)" in sp.SE2().check([0.0, 0, 2, 0]).message
    body = sp.Product(wheel=sp.SO2(), frame=sp.SE3())
    assert body.check(2 * body.identity).message.startswith(("wheel: z", "frame: R"))
    with pytest.raises(OptionError, match="quaternion of length 0"):
        sp.UnitQuaternions().project(np.zeros(4))
    with pytest.raises(OptionError, match="determinant is not positive"):
        G.project(-G.identity)
    with pytest.raises(OptionError, match="z is zero"):
        sp.SO2().project([0.0, 0.0])
    with pytest.raises(OptionError, match=r"v has shape \(4,\): its last axis must have 3 numbers"):
        G.exp(np.zeros(4))


# ---------------------------------------------------------------------- many at once, parts, products
@pytest.mark.parametrize("name", GROUPS)
def test_leading_axes(name: str) -> None:
    """Whole trajectories go through one call."""
    group = GROUPS[name]
    v = np.random.default_rng(3).normal(size=(2, 5, group.nv))
    q = group.exp(v)
    assert q.shape == (2, 5, group.nq)
    close(group.log(q)[1, 4], group.log(q[1, 4]))
    close(group.tangent(v)[1, 4], group.tangent(v[1, 4]))
    close(group.tangent_inverse(v)[1, 4], group.tangent_inverse(v[1, 4]))
    close(group.Ad(q)[1, 4], group.Ad(q[1, 4]))
    close(group.ad(v)[1, 4], group.ad(v[1, 4]))
    close(group.rate(q, v)[1, 4], group.rate(q[1, 4], v[1, 4]))
    close(group.project(q)[1, 4], group.project(q[1, 4]))
    close(group.difference(group.identity, q)[1, 4], group.log(q[1, 4]))


@pytest.mark.parametrize("name", GROUPS)
def test_parts_and_names(name: str) -> None:
    group = GROUPS[name]
    q = group.exp(np.linspace(0.1, 0.5, group.nv))
    assert len(group.names) == len(set(group.names)) == group.nq
    assert len(group.velocity_names) == len(set(group.velocity_names)) == group.nv
    parts = group.parts(q)
    assert tuple(parts) == group.part_names
    symbols = ca.SX.sym("q", group.nq)
    for part, x in (parts if name != "named" else {}).items():
        expected = np.asarray(ca.Function("f", [symbols], [group.parts(symbols)[part]])(q).full())
        close(expected, np.reshape(x, expected.shape))


def test_elements_read_like_the_literature() -> None:
    body = sp.R3xSO3().element(np.concatenate([[1.0, 2, 3], sp.SO3().exp([0, 0, np.pi / 2])]))
    close(body.x, [1, 2, 3])
    close(body.R @ [1, 0, 0], [0, 1, 0])
    close(body[0], np.array(1.0))
    assert len(body) == 12
    assert list(body)[:3] == [1, 2, 3]
    assert np.asarray(body).shape == (12,)
    assert repr(body) == "Element(x, R)"
    quaternion = sp.UnitQuaternions().element(sp.UnitQuaternions().exp([0.1, 0.2, 0.3]))
    close(quaternion.R.ravel(), sp.SO3().exp([0.1, 0.2, 0.3]))
    close(sp.SO2().element(sp.SO2().exp([0.5])).R, [[np.cos(0.5), -np.sin(0.5)], [np.sin(0.5), np.cos(0.5)]])
    with pytest.raises(MissingPart, match=r"R3xSO3\(\) has no part 'Q'; it has x, R"):
        _ = body.Q


def test_products() -> None:
    two = sp.Product(upper=sp.R3xSO3(), lower=sp.R3xSO3())
    q = two.exp(np.arange(12) / 10)
    close(two.element(q).upper.x, [0, 0.1, 0.2])
    close(two.element(q).lower.R.ravel(), sp.SO3().exp([0.9, 1.0, 1.1]))
    assert two.names[0] == "upper.x[0]"
    assert two.velocity_names[-1] == "lower.Omega[2]"
    unnamed = sp.SO3() * sp.SO3()
    assert unnamed.names[9] == "1.R[0,0]"
    with pytest.raises(MissingPart, match=r"several factors .* name the factors"):
        _ = unnamed.element(unnamed.identity).R
    close(unnamed.element(unnamed.identity).factors[1].R, np.eye(3))
    assert (sp.SO3() * sp.Circle()) * sp.SE2() == sp.SO3() * (sp.Circle() * sp.SE2())
    assert (sp.Circle() * sp.Euclidean(2)).flat
    assert not two.flat
    with pytest.raises(ModelError, match="SO3 without parentheses"):
        sp.Product(sp.SO3)
    with pytest.raises(TypeError):
        sp.SO3() * 3


def test_what_a_user_may_give() -> None:
    x, R = np.array([1.0, 2.0, 3.0]), sp.SO3().exp([0.1, 0.2, 0.3]).reshape(3, 3)
    flat = np.concatenate([x, R.ravel()])
    for G in (sp.SE3(), sp.R3xSO3()):
        for form in (flat, (x, R), [x.tolist(), R.tolist()], {"x": x, "R": R}, G.element(flat)):
            close(G.flatten(form), flat)
        with pytest.raises(OptionError, match="q0"):
            G.flatten({"x": x})
        with pytest.raises(OptionError, match="q0"):
            G.flatten((x, R[:2]))
    close(sp.SO3().flatten(R), R.ravel())
    close(sp.SO3().flatten({"R": R}), R.ravel())
    close(sp.UnitQuaternions().flatten(R), sp.UnitQuaternions().exp([0.1, 0.2, 0.3]))
    close(sp.SE2().flatten(([1, 2], [[0, -1], [1, 0]])), [1, 2, 0, 1])
    with pytest.raises(OptionError, match="not a rotation matrix"):
        sp.SO2().flatten([[1, 0], [0, -1]])
    pair = sp.Product(body=sp.SE3(), wheel=sp.Circle())
    close(pair.flatten({"body": (x, R), "wheel": 0.5}), np.append(flat, 0.5))
    close(pair.flatten(((x, R), 0.5)), np.append(flat, 0.5))
    with pytest.raises(OptionError, match=r"there is no part 'arm'"):
        pair.flatten({"body": (x, R), "wheel": 0.5, "arm": 1})
    with pytest.raises(OptionError, match="the part wheel is missing"):
        pair.flatten({"body": (x, R)})


def test_circle_takes_the_shortest_way() -> None:
    G = sp.Circle("phi")
    assert G.names == ("phi",)
    close(G.difference([3.0], [-3.0]), [2 * np.pi - 6])
    close(G.difference([0.25], [0.25 + 20 * np.pi]), [0.0], 64)
    close(G.move([7.0], [1.0]), [8.0])  # turns are counted
    close(G.project([7.0]), [7.0 - 2 * np.pi])


def test_angular_velocity_convention() -> None:
    """R' = R v~: the velocity is that of the body frame, and R takes body to inertial coordinates."""
    G = sp.SO3()
    R0 = G.exp([0.3, -0.2, 0.9])
    v = np.array([0.0, 0.0, 1.0])
    R1 = G.move(R0, 1e-6 * v).reshape(3, 3)
    axis = rotation.unskew((R1 @ R0.reshape(3, 3).T) - np.eye(3)) / 1e-6  # inertial angular velocity
    assert np.abs(axis - R0.reshape(3, 3) @ v).max() < 1e-6


def test_a_group_has_to_name_the_parts_of_its_elements() -> None:
    assert "part_names" in sp.Group.__abstractmethods__
    for space in (sp.SO3(), sp.SE3(), sp.R3xSO3(), sp.UnitQuaternions(), sp.Euclidean(2)):
        assert set(space.parts(space.identity)) == set(space.part_names)
