"""Models: derivatives against the complex step, Euler-Lagrange by hand, black boxes, names, points."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import casadi as ca
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dalembert as da
from dalembert.model.blackbox import BlackBox
from dalembert.model.point import Environment
from dalembert.model.symbols import NAMES
from dalembert.status import ModelError

seeds = st.integers(0, 2**32 - 1)
few = settings(max_examples=20, deadline=None)


def point(system: da.System, seed: int) -> dict[str, np.ndarray]:
    """Random numbers for every variable of a system."""
    random = np.random.default_rng(seed)
    out = {name: random.uniform(-1, 1, size) for name, size in system.sizes.items()}
    out["p"] = system.parameters.vector()
    return out


def value(system: da.System, name: str, at: dict[str, np.ndarray]) -> np.ndarray:
    """An expression of a system at numbers, black boxes called."""
    coefficients = np.zeros(system.coefficients.numel())
    if system.calls:
        arguments = ca.Function("z", list(system.symbols.as_tuple()), [system.arguments])
        system.fill(np.asarray(arguments(*[at[n] for n in NAMES])).ravel(), coefficients)
    return np.asarray(system.function(name)(*[at[n] for n in NAMES], coefficients).full())


# ---------------------------------------------------------------------- derivatives
# The same functions run on complex numbers: f'(x) d = Im f(x + i h d) / h without cancellation.
def g(t: Any, q: Any, p: Any) -> Any:
    return [
        np.sin(q[0]) * q[1] - np.exp(0.3 * q[2]) * p.a + t * q[0],
        q[0] ** 2 * q[1] * q[2] + np.cos(t * q[1]) - p.b[1] * q[2] ** 3,
    ]


def k(t: Any, q: Any, v: Any, p: Any) -> Any:
    return [np.sin(q[1]) * v[0] - np.cos(q[0] + t) * v[2] * p.a + v[1] * v[0]]


PARAMETERS = {"a": 1.3, "b": [0.4, -0.7]}


class Numbers:
    """Parameters as attributes, for calling the functions above directly."""

    a = 1.3
    b = np.array([0.4, -0.7])


@pytest.fixture(scope="module")
def system() -> da.System:
    return da.System(q=3, mass=[1, 2, 3], constraints=g, velocity_constraints=k, parameters=PARAMETERS)


STEP = 1e-30


def complex_step(f: Callable[[Any], Any], x: np.ndarray) -> np.ndarray:
    """Jacobian (n_out, n_in)."""
    columns = []
    for j in range(x.size):
        moved = x.astype(complex)
        moved[j] += 1j * STEP
        columns.append(np.imag(np.asarray(f(moved), dtype=complex)) / STEP)
    return np.stack(columns, axis=-1)


def along(f: Callable[..., Any], t: complex, q: np.ndarray, v: np.ndarray, a: np.ndarray | None = None) -> np.ndarray:
    """d/dt f(t, q[, v]) on a motion with q' = v, v' = a, by the complex step."""
    h = 1j * STEP
    arguments = [t + h, q + h * v] + ([v + h * a] if a is not None else [])
    return np.imag(np.asarray(f(*arguments), dtype=complex)) / STEP


@few
@given(seeds)
def test_constraint_matrices(system: da.System, seed: int) -> None:
    x = point(system, seed)
    t, q, v = float(x["t"][0]), x["q"], x["v"]
    np.testing.assert_allclose(
        value(system, "G", x), complex_step(lambda q: g(t, q, Numbers), q), rtol=1e-13, atol=1e-14
    )
    np.testing.assert_allclose(
        value(system, "K", x), complex_step(lambda v: k(t, q, v, Numbers), v), rtol=1e-13, atol=1e-14
    )


@few
@given(seeds)
def test_time_derivatives_of_constraints(system: da.System, seed: int) -> None:
    x = point(system, seed)
    t, q, v, a = float(x["t"][0]), x["q"], x["v"], x["a"]
    expected = along(lambda t, q: g(t, q, Numbers), t, q, v)
    np.testing.assert_allclose(value(system, "g_dot", x).ravel(), expected, rtol=1e-13, atol=1e-14)
    expected = along(lambda t, q, v: k(t, q, v, Numbers), t, q, v, a)
    np.testing.assert_allclose(value(system, "k_dot", x).ravel(), expected, rtol=1e-13, atol=1e-14)


def second_along(f: Any, t: float, q: np.ndarray, v: np.ndarray, a: np.ndarray) -> np.ndarray:
    """Second derivative along q + v s + a s^2/2, by Cauchy's formula on a small circle."""
    n, radius = 32, 0.1
    s = radius * np.exp(2j * np.pi * np.arange(n) / n)
    samples = np.array([f(t + z, q + v * z + a * z**2 / 2) for z in s])
    return 2 * np.real((samples * np.exp(-4j * np.pi * np.arange(n) / n)[:, None]).mean(axis=0)) / radius**2


@few
@given(seeds)
def test_second_time_derivative_of_constraints(system: da.System, seed: int) -> None:
    x = point(system, seed)
    t, q, v, a = float(x["t"][0]), x["q"], x["v"], x["a"]
    second = second_along(lambda t, q: g(t, q, Numbers), t, q, v, a)
    np.testing.assert_allclose(value(system, "g_ddot", x).ravel(), second, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(value(system, "g_ddot", {**x, "a": 2 * a}) - value(system, "g_ddot", x),
                               value(system, "G", x) @ a[:, None], rtol=1e-11, atol=1e-12)  # fmt: skip


@few
@given(seeds)
def test_reaction_and_balance(system: da.System, seed: int) -> None:
    x = point(system, seed)
    G, K = value(system, "G", x), value(system, "K", x)
    reaction = -G.T @ x["lam"] - K.T @ x["mu"]
    np.testing.assert_allclose(value(system, "reaction", x).ravel(), reaction, rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(
        value(system, "balance", x).ravel(), [1, 2, 3] * x["a"] - reaction, rtol=1e-13, atol=1e-13
    )


@few
@given(seeds)
def test_contact_coordinates(seed: int) -> None:
    """s given by h(t, q, s) = 0: rates and total derivatives against the explicit solution s = tan(q0 + t) q1."""
    system = da.System(
        q=2, mass=[1, 1], s=["s"],
        contact=lambda t, q, s: [s[0] * np.cos(q[0] + t) - np.sin(q[0] + t) * q[1]],
        constraints=lambda q, s: {"touch": s[0] ** 2 + q[0] * s[0] - q[1]},
    )  # fmt: skip

    def explicit(t: Any, q: Any) -> Any:
        s = np.tan(q[0] + t) * q[1]
        return [s**2 + q[0] * s - q[1]]

    x = point(system, seed)
    x["q"], x["t"] = 0.5 * x["q"], 0.5 * x["t"]
    t, q, v = float(x["t"][0]), x["q"], x["v"]
    x["s"] = np.array([np.tan(q[0] + t) * q[1]])
    rate = along(lambda t, q: [np.tan(q[0] + t) * q[1]], t, q, v)
    np.testing.assert_allclose(value(system, "h", x), 0, atol=1e-15)
    np.testing.assert_allclose(value(system, "contact_rate", x).ravel(), rate, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(value(system, "G", x), complex_step(lambda q: explicit(t, q), q), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(value(system, "g_dot", x).ravel(), along(explicit, t, q, v), rtol=1e-12, atol=1e-13)
    second = second_along(explicit, t, q, v, x["a"])
    np.testing.assert_allclose(value(system, "g_ddot", x).ravel(), second, rtol=1e-10, atol=1e-10)


def test_constraint_force_replaces_the_default() -> None:
    system = da.System(
        q=2, mass=[1, 1], constraints=lambda q: [q[0] + q[1]], constraint_force=lambda lam: [lam[0] ** 2, -lam[0]]
    )
    x = point(system, 0)
    lam = x["lam"][0]
    np.testing.assert_allclose(value(system, "reaction", x).ravel(), [lam**2, -lam])


# ---------------------------------------------------------------------- Euler-Lagrange
@pytest.fixture(scope="module")
def double_pendulum_in_angles() -> da.System:
    def kinetic(q: Any, v: Any, p: Any) -> Any:
        (a, b), (va, vb) = q, v
        second = (p.l1 * va) ** 2 + (p.l2 * vb) ** 2 + 2 * p.l1 * p.l2 * va * vb * np.cos(a - b)
        return 0.5 * p.m1 * (p.l1 * va) ** 2 + 0.5 * p.m2 * second

    def potential(q: Any, p: Any) -> Any:
        return -p.g * (p.m1 * p.l1 * np.cos(q[0]) + p.m2 * (p.l1 * np.cos(q[0]) + p.l2 * np.cos(q[1])))

    return da.Lagrangian(
        q=["alpha", "beta"], kinetic=kinetic, potential=potential, force=lambda v: [-0.1 * v[0], 0.0],
        parameters={"m1": 1.2, "m2": 0.7, "l1": 0.9, "l2": 1.4, "g": 9.81},
    )  # fmt: skip


@few
@given(seeds)
def test_double_pendulum_by_hand(double_pendulum_in_angles: da.System, seed: int) -> None:
    x = point(double_pendulum_in_angles, seed)
    (a, b), (va, vb) = x["q"], x["v"]
    m1, m2, l1, l2, gravity = x["p"]
    c, s = np.cos(a - b), np.sin(a - b)
    mass = [[(m1 + m2) * l1**2, m2 * l1 * l2 * c], [m2 * l1 * l2 * c, m2 * l2**2]]
    force = [
        -m2 * l1 * l2 * s * vb**2 - (m1 + m2) * gravity * l1 * np.sin(a) - 0.1 * va,
        m2 * l1 * l2 * s * va**2 - m2 * gravity * l2 * np.sin(b),
    ]
    np.testing.assert_allclose(value(double_pendulum_in_angles, "mass", x), mass, rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(value(double_pendulum_in_angles, "force", x).ravel(), force, rtol=1e-12, atol=1e-13)


def test_lagrangian_with_time_in_the_kinetic_energy() -> None:
    """A bead on a wire that rotates at the rate w: T = (r'^2 + w^2 r^2)/2; and one on a cart that is moved as t^3."""
    bead = da.Lagrangian(q=["r"], kinetic=lambda q, v: 0.5 * (v[0] ** 2 + 9.0 * q[0] ** 2))
    x = point(bead, 0)
    np.testing.assert_allclose(value(bead, "force", x).ravel(), 9.0 * x["q"])
    cart = da.Lagrangian(q=["x"], kinetic=lambda t, v: 0.5 * (v[0] + 3 * t**2) ** 2)
    x = point(cart, 0)
    np.testing.assert_allclose(value(cart, "force", x).ravel(), -6 * x["t"])


def test_lagrangian_and_system_move_alike(double_pendulum_in_angles: da.System) -> None:
    cartesian = da.System(
        q=4, mass=[1.2, 1.2, 0.7, 0.7], force=[0, -1.2 * 9.81, 0, -0.7 * 9.81],
        constraints=lambda q: [q[0] ** 2 + q[1] ** 2 - 0.81, (q[2] - q[0]) ** 2 + (q[3] - q[1]) ** 2 - 1.96],
    )  # fmt: skip
    angles = da.Lagrangian(
        q=2, kinetic=double_pendulum_in_angles._kinetic, potential=double_pendulum_in_angles._potential,
        parameters={"m1": 1.2, "m2": 0.7, "l1": 0.9, "l2": 1.4, "g": 9.81},
    )  # fmt: skip
    t = np.linspace(0, 1, 5)
    one = da.solve(angles, (0, 1), q0=[1.0, 0.5], v0=[0, 0], t_eval=t, rtol=1e-9, atol=1e-11)
    q0 = [
        0.9 * np.sin(1.0),
        -0.9 * np.cos(1.0),
        0.9 * np.sin(1.0) + 1.4 * np.sin(0.5),
        -0.9 * np.cos(1.0) - 1.4 * np.cos(0.5),
    ]
    two = da.solve(cartesian, (0, 1), q0=q0, t_eval=t, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(two.q[:, 0], 0.9 * np.sin(one.q[:, 0]), atol=1e-6)
    np.testing.assert_allclose(one.energy, one.energy[0], atol=1e-6)


# ---------------------------------------------------------------------- first- and second-order model equations
def test_hessenberg_of_order_two() -> None:
    system = da.Hessenberg(
        order=2, x=["u", "w"], f=lambda t, x, v, y: [y[0] * x[0], -v[1] + t], g=lambda x: {"sum": x[0] + x[1]}
    )
    x = point(system, 3)
    (u, w), v, (y,), (t,) = x["q"], x["v"], x["lam"], x["t"]
    np.testing.assert_allclose(value(system, "force", x).ravel(), [y * u, -v[1] + t])
    np.testing.assert_array_equal(value(system, "reaction", x).ravel(), [0, 0])
    np.testing.assert_allclose(value(system, "g", x), [[u + w]])
    np.testing.assert_allclose(value(system, "mass", x), np.eye(2))
    assert repr(system) == "Hessenberg(q=[u, w], constraints=[sum])"


def test_hessenberg_of_order_one() -> None:
    system = da.Hessenberg(order=1, x=2, f=lambda x, y: [x[1] - y[0], -x[0]], g=lambda t, x: [x[0] - np.sin(t)])
    assert (system.nq, system.nv, system.nmu, system.nlam) == (0, 2, 1, 0)
    x = point(system, 4)
    np.testing.assert_allclose(value(system, "k_dot", x).ravel(), x["a"][0] - np.cos(x["t"]))


# ---------------------------------------------------------------------- black boxes
def lever(t: float, q: np.ndarray, v: np.ndarray) -> np.ndarray:
    return np.array([np.sin(q[0]) * v[1] + t, q[1] ** 2 * v[0]])


@pytest.mark.parametrize("jacobian", [None, "partly"])
def test_black_box_has_values_and_first_derivatives(jacobian: str | None) -> None:
    given_part = None
    if jacobian:
        given_part = lambda t, q, v: {"q": [[np.cos(q[0]) * v[1], 0], [0, 2 * q[1] * v[0]]]}  # noqa: E731
    box = da.System(q=2, mass=[1, 1], force=da.black_box(lever, jacobian=given_part))
    traced = da.System(q=2, mass=[1, 1], force=lambda t, q, v: [np.sin(q[0]) * v[1] + t, q[1] ** 2 * v[0]])
    x = point(box, 5)
    np.testing.assert_array_equal(value(box, "force", x), value(traced, "force", x))
    for system in (box, traced):
        system.force_q = ca.jacobian(system.force, system.symbols.q)  # type: ignore[attr-defined]
        system.force_v = ca.jacobian(system.force, system.symbols.v)  # type: ignore[attr-defined]
    exact = 1e-15 if jacobian else 1e-9
    np.testing.assert_allclose(value(box, "force_q", x), value(traced, "force_q", x), atol=exact)
    np.testing.assert_allclose(value(box, "force_v", x), value(traced, "force_v", x), atol=1e-9)


@pytest.mark.parametrize(("jacobian", "accuracy"), [(False, 1e-6), (True, 1e-9)])
def test_black_box_constraints_have_second_derivatives(jacobian: bool, accuracy: float) -> None:
    def curve(q: Any, p: Any) -> Any:
        return [np.exp(q[0]) * q[1] - p.c, q[0] ** 3 - q[1] ** 2]

    derivative = lambda q, p: {"q": [[np.exp(q[0]) * q[1], np.exp(q[0])], [3 * q[0] ** 2, -2 * q[1]]]}  # noqa: E731
    box: BlackBox = da.black_box(curve, jacobian=derivative if jacobian else None)
    system = da.System(q=2, mass=[1, 1], constraints=box, parameters={"c": 0.5})
    traced = da.System(q=2, mass=[1, 1], constraints=curve, parameters={"c": 0.5})
    assert system.nlam == 2
    x = point(system, 6)
    for name, atol in (("g", 0), ("G", 1e-9), ("g_dot", 1e-9), ("g_ddot", accuracy)):
        np.testing.assert_allclose(value(system, name, x), value(traced, name, x), atol=atol, err_msg=name)


def test_black_box_of_wrong_jacobian() -> None:
    system = da.System(
        q=2, mass=[1, 1], force=da.black_box(lambda q: [q[0], 0.0], jacobian=lambda q: {"q": np.eye(3)[:, :2]})
    )
    with pytest.raises(ModelError, match=r"force: jacobian\['q'\] has shape \(3, 2\), expected \(2, 2\)"):
        value(system, "force", point(system, 0))


# ---------------------------------------------------------------------- names, repr, points
def test_names_and_repr() -> None:
    system = da.System(
        q=["x", "y"], mass=[1, 1], constraints=lambda q: {"pin": q, "rod": q[0]}, velocity_constraints=lambda v: [v[0]],
        invariants=lambda v: {"momentum": v[0]}, r=["valve"], dynamics=lambda r: [-r[0]], parameters={"m": 1.0},
    )  # fmt: skip
    assert system.names["constraints"] == system.names["lam"] == ("pin[0]", "pin[1]", "rod")
    assert system.names["velocity_constraints"] == ("k0",)
    assert system.velocity_names == ("x'", "y'")
    assert repr(system) == (
        "System(q=[x, y], constraints=[pin[0], pin[1], rod], velocity_constraints=[k0], r=[valve], "
        "invariants=[momentum], parameters=[m])"
    )
    assert system.sizes == {"t": 1, "q": 2, "v": 2, "a": 2, "r": 1, "w": 0, "s": 0, "lam": 3, "mu": 1, "p": 1}
    assert "black boxes=[force]" in repr(da.System(q=1, mass=[1], force=da.black_box(lambda q: [0.0])))


def test_default_names() -> None:
    system = da.System(q=2, mass=[1, 1], constraints=lambda q: [q[0], q[1]])
    assert system.names["q"] == ("q0", "q1")
    assert system.names["constraints"] == ("g0", "g1")
    single = da.System(q="x", mass=1.0, constraints=lambda q: q[0])
    assert (single.names["q"], single.nlam) == (("x",), 1)


@pytest.mark.parametrize(
    "mass", [[2.0, 3.0], [[2.0, 0.0], [0.0, 3.0]], lambda p: [2 * p.one, 3], lambda q: np.diag([2.0, 3.0])]
)
def test_mass_in_any_form(mass: Any) -> None:
    system = da.System(q=2, mass=mass, parameters={"one": 1.0})
    np.testing.assert_array_equal(value(system, "mass", point(system, 0)), [[2, 0], [0, 3]])


def test_functions_may_have_defaults_and_any_order() -> None:
    system = da.System(
        q=1, mass=[1], force=lambda p, v, q, scale=2.0: [scale * q[0] - v[0] * p.c], parameters={"c": 3.0}
    )
    x = point(system, 0)
    np.testing.assert_allclose(value(system, "force", x).ravel(), 2 * x["q"] - 3 * x["v"])


def test_point_of_the_model(system: da.System) -> None:
    env = Environment(system, ca.SX(system.parameters.vector()))
    q = ca.SX.sym("q", 3)
    at = env.at(t=ca.SX(0.5), q=q)
    evaluate = ca.Function("g", [q], [at.g])
    np.testing.assert_allclose(np.ravel(evaluate([0.1, 0.2, 0.3]).full()), g(0.5, [0.1, 0.2, 0.3], Numbers), rtol=1e-14)
    assert at.q is q
    with pytest.raises(AttributeError, match="no 'acceleration'"):
        _ = at.acceleration


def test_variables_that_a_point_was_not_given_are_nan(system: da.System) -> None:
    env = Environment(system, ca.SX(system.parameters.vector()))
    at = env.at(t=ca.SX(0.5), q=ca.SX([0.1, 0.2, 0.3]))
    assert np.all(np.isnan(ca.DM(at.v).full()))
    assert np.all(np.isnan(ca.evalf(at.g_dot).full()))
    assert np.all(np.isfinite(ca.evalf(at.g).full()))


def test_points_remember_their_black_boxes() -> None:
    system = da.System(q=1, mass=[1], force=da.black_box(lambda q: [q[0] ** 2]))
    env = Environment(system, ca.SX(0, 1))
    env.at(q=ca.SX.sym("q0"))
    env.at(q=ca.SX.sym("q1"))
    assert len(env.coefficients) == len(env.arguments) == 2
