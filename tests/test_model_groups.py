"""Models on Lie groups: tracing, derivatives along the group, consistent states, messages.

[ACB15] M. Arnold, A. Cardona, O. Bruels (2015): the heavy top on R^3 x SO(3), q' = q v~.
The heavy top is written in four ways, all with the state of [ACB15]: position x, attitude R, x' and Omega.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import casadi as ca
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import dalembert as da
from dalembert.analysis.index import consistency, index
from dalembert.model.symbols import NAMES
from dalembert.problems.heavy_top import GRAVITY, MASS, OMEGA0, PUBLISHED, J, M, X, on_r3xso3, on_se3
from dalembert.runtime.events import compile_events
from dalembert.runtime.start import evaluate
from dalembert.spaces.group import MissingPart
from dalembert.status import InconsistentError, ModelError, OptionError

sp = da.spaces


@cache
def heavy_top(form: str) -> da.System:
    if form == "R3xSO3":
        return on_r3xso3("heavy top")
    if form == "quaternions":
        return on_r3xso3("heavy top", sp.Euclidean(3) * sp.UnitQuaternions())
    if form == "SE3":
        return on_se3()
    return da.Lagrangian(
        q={"Lagrange R3xSO3": sp.R3xSO3(), "Lagrange SE3": sp.SE3()}[form],
        kinetic=lambda v: 0.5 * v @ MASS @ v,
        potential=lambda q: -M * GRAVITY @ q.x,
        constraints=lambda q: {"tip": -q.x + q.R @ X},
    )


FORMS = ["R3xSO3", "quaternions", "SE3", "Lagrange R3xSO3", "Lagrange SE3"]


def body_frame(form: str) -> bool:
    return form.endswith("SE3")


def start(form: str, state: Any = None) -> tuple[Any, np.ndarray]:
    """q0 as parts and v0 of a reference state (default: the initial one)."""
    if state is None:
        state = {"x": X, "R": np.eye(3), "u": -np.cross(X, OMEGA0), "Omega": OMEGA0}
    R = np.array(state["R"])
    u = R.T @ state["u"] if body_frame(form) else np.array(state["u"])
    return (state["x"], R), np.concatenate([u, state["Omega"]])


def reaction(form: str, R: Any, lam: Any) -> np.ndarray:
    """Multipliers in the inertial frame: the constraint of SE3 is written in the body frame."""
    return np.array(R) @ lam if form == "SE3" else np.asarray(lam)


def values(system: da.System, rng: np.random.Generator) -> dict[str, Any]:
    """A random point of the model, on the group but not on the constraints."""
    out: dict[str, Any] = {n: rng.normal(size=system.sizes[n]) for n in NAMES if n != "t"}
    out["q"] = system.space.exp(rng.normal(size=system.nv))
    return {**out, "t": 0.3}


# ---------------------------------------------------------------------- derivatives along the group
def along(system: da.System, name: str, z: dict[str, Any]) -> ca.Function:
    """s -> an expression of the model at q exp(s v + s^2/2 a), v + s a: the motion with velocity v and v' = a."""
    s = ca.SX.sym("s")
    x = {n: ca.SX(np.atleast_1d(z[n])) for n in NAMES}
    d = s * x["v"] + s**2 / 2 * x["a"]
    moved = {**x, "q": system.space.move(x["q"], d), "v": x["v"] + s * x["a"]}
    return ca.Function("along", [s], [system.function(name)(*[moved[n] for n in NAMES], system.coefficients)])


def derivative(f: ca.Function, order: int) -> np.ndarray:
    """By AD at s = 0."""
    s = ca.SX.sym("s")
    out = ca.vec(ca.densify(f(s)))
    for _ in range(order):
        out = ca.jacobian(out, s)
    return np.asarray(ca.Function("d", [s], [out])(0.0).full()).ravel()


def quotient(f: ca.Function, order: int) -> np.ndarray:
    """By differences of fourth order: independent of every derivative in the package."""
    h = 1e-3
    at = [np.asarray(f(k * h).full()).ravel(order="F") for k in (-2, -1, 0, 1, 2)]
    weights = {1: [1, -8, 0, 8, -1], 2: [-1, 16, -30, 16, -1]}[order]
    return sum(w * y for w, y in zip(weights, at, strict=True)) / (12 * h**order)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", [1, 2])
def test_constraint_derivatives(form: str, seed: int) -> None:
    system = heavy_top(form)
    z = values(system, np.random.default_rng(seed))
    g = along(system, "g", z)
    G = evaluate(system, "G", z)
    assert G.shape == (3, 6)
    for find, tolerance in ((derivative, 1e-13), (quotient, 1e-8)):
        size = 10 * tolerance
        assert np.abs(G @ z["v"] - find(g, 1)).max() < size
        assert np.abs(evaluate(system, "g_dot", z).ravel() - find(g, 1)).max() < size
        assert np.abs(evaluate(system, "g_ddot", z).ravel() - find(g, 2)).max() < 10 * size
        G_dot = find(along(system, "G", z), 1)
        assert np.abs(evaluate(system, "G_dot", z).ravel(order="F") - G_dot).max() < size
    # g'' = G a + G' v, and g'_q by moving q alone
    assert (
        np.abs(evaluate(system, "g_ddot", z).ravel() - G @ z["a"] - evaluate(system, "G_dot", z) @ z["v"]).max() < 1e-13
    )
    for i, e in enumerate(np.eye(6)):
        there, back = ({**z, "q": system.space.move(z["q"], s * e)} for s in (1e-5, -1e-5))
        column = (evaluate(system, "g_dot", there) - evaluate(system, "g_dot", back)).ravel() / 2e-5
        assert np.abs(evaluate(system, "g_dot_q", z)[:, i] - column).max() < 1e-9


def test_constraint_matrix_of_the_paper() -> None:
    """B = (-I, -R X~), Z = -R Omega~ X~ Omega [ACB15]."""
    system = heavy_top("R3xSO3")
    z = values(system, np.random.default_rng(3))
    R, Omega = system.space.element(z["q"]).R, z["v"][3:]
    X_skew, O_skew = sp.SO3().hat(X), sp.SO3().hat(Omega)
    B = np.hstack([-np.eye(3), -R @ X_skew])
    assert np.abs(evaluate(system, "G", z) - B).max() < 1e-15
    assert np.abs(evaluate(system, "g_ddot", z).ravel() - B @ z["a"] + R @ O_skew @ X_skew @ Omega).max() < 1e-14


def test_euler_lagrange_equations_on_groups() -> None:
    """Euler-Poincare: energies give the balance written by hand, gyroscopic terms included."""
    rng = np.random.default_rng(4)
    for form in ("R3xSO3", "SE3"):
        z = values(heavy_top(form), rng)
        force = evaluate(heavy_top(form), "force", z)
        assert np.abs(evaluate(heavy_top(f"Lagrange {form}"), "force", z) - force).max() < 1e-13
        assert np.abs(evaluate(heavy_top(f"Lagrange {form}"), "mass", z) - MASS).max() == 0.0


# ---------------------------------------------------------------------- consistent states
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("t", [0.1, 1.0])
def test_accelerations_and_multipliers_of_the_reference(form: str, t: float) -> None:
    expected = PUBLISHED[t]
    q0, v0 = start(form, expected)
    state = da.consistent(heavy_top(form), q0, v0)
    assert np.abs(state.a[3:] - expected["Omegadot"]).max() < 1e-9
    assert np.abs(reaction(form, expected["R"], state.lam) - expected["lam"]).max() < 1e-9
    flat = heavy_top(form).space.flatten(q0)
    assert np.abs(state.q - flat).max() < 1e-14  # the state was consistent


def test_consistent_against_a_direct_solution() -> None:
    system = heavy_top("R3xSO3")
    rng = np.random.default_rng(6)
    R, Omega = sp.SO3().exp(rng.normal(size=3)).reshape(3, 3), rng.normal(size=3)
    hat = sp.SO3().hat
    state = da.consistent(system, (R @ X, R), np.concatenate([R @ np.cross(Omega, X), Omega]), initial="check")
    B = np.hstack([-np.eye(3), -R @ hat(X)])
    right = np.concatenate([M * GRAVITY, -np.cross(Omega, J @ Omega), R @ hat(Omega) @ hat(X) @ Omega])
    solution = np.linalg.solve(np.block([[MASS, B.T], [B, np.zeros((3, 3))]]), right)
    assert np.abs(state.a - solution[:6]).max() < 1e-12
    assert np.abs(state.lam - solution[6:]).max() < 1e-12


@pytest.mark.parametrize("form", FORMS)
def test_inconsistent_states_move_to_the_nearest(form: str) -> None:
    """On the group and on the constraints to rounding; the way there is normal to what the constraints allow."""
    system = heavy_top(form)
    space = system.space
    rng = np.random.default_rng(7)
    (x, R), v0 = start(form, PUBLISHED[0.1])
    exact = space.flatten((x, R))
    away = space.move(exact, 1e-4 * rng.normal(size=6))
    state = da.consistent(system, away, v0 + 1e-3 * rng.normal(size=6))
    assert np.abs(space.equations(state.q)).max() < 4e-15
    z = {**{n: np.zeros(system.sizes[n]) for n in NAMES}, "q": state.q, "v": state.v, "t": 0.0}
    assert np.abs(evaluate(system, "g", z)).max() < 4e-15
    assert np.abs(evaluate(system, "g_dot", z)).max() < 1e-12
    d = space.difference(away, state.q)
    G = evaluate(system, "G", z)
    tangential = d - G.T @ np.linalg.lstsq(G.T, d, rcond=None)[0]
    assert np.abs(d).max() > 1e-5
    assert np.abs(tangential).max() < 1e-7  # second order in d


@pytest.mark.parametrize("weight", ["mass", np.arange(1.0, 7.0)])
def test_projection_metric(weight: Any) -> None:
    """The metric of a projection measures tangent vectors, also where more numbers are stored than they have."""
    from dalembert.formulations.base import as_formulation
    from dalembert.runtime.assemble import make_layout
    from dalembert.runtime.prepare import assembly_for
    from dalembert.runtime.start import initial_row

    system = heavy_top("R3xSO3")
    q0, v0 = start("R3xSO3", PUBLISHED[0.1])
    away = system.space.move(system.space.flatten(q0), 1e-4 * np.random.default_rng(8).normal(size=6))
    method, formulation = da.BDF(), as_formulation("index-1", "index-1")
    layout = make_layout(system, method, formulation)
    row = initial_row(system, layout, q=away, v=v0)
    p = np.zeros(0)
    work = assembly_for(system, method, formulation, da.Projection(weight=weight), 0.0, 1.0, row, p).workspace(p)
    assert work.project(0.0, row) == 0
    d = system.space.difference(away, row[layout.slice("q")])
    _, G = work.matrices(0.0, row)
    W = MASS if isinstance(weight, str) else np.diag(weight)
    force = W @ d
    assert np.abs(force - G.T @ np.linalg.lstsq(G.T, force, rcond=None)[0]).max() < 1e-7 * np.abs(W).max()


# ---------------------------------------------------------------------- the model as a whole
@pytest.mark.parametrize("form", FORMS)
def test_motion_of_the_heavy_top(form: str) -> None:
    """The traced equations, handed to another integrator in stored numbers, reach the published state at t = 1."""
    system = heavy_top(form)
    x = system.symbols
    K = ca.blockcat([[system.mass, system.G.T], [system.G, ca.SX(3, 3)]])
    right = ca.substitute(ca.vertcat(system.force, -system.g_ddot), x.a, ca.SX.zeros(6, 1))
    solution = ca.solve(ca.densify(K), ca.densify(right))
    f = ca.Function("f", [ca.vertcat(x.q, x.v)], [ca.vertcat(system.space.rate(x.q, x.v), solution[:6])])
    multipliers = ca.Function("lam", [x.q, x.v], [solution[6:]])
    q0, v0 = start(form)
    y0 = np.concatenate([system.space.flatten(q0), v0])
    run = solve_ivp(lambda t, y: f(y).full()[:, 0], (0, 1), y0, method="DOP853", rtol=1e-12, atol=1e-12)
    q, v = run.y[: system.nq, -1], run.y[system.nq :, -1]
    element, expected = system.space.element(q), PUBLISHED[1.0]
    u = element.R @ v[:3] if body_frame(form) else v[:3]
    assert np.abs(element.x - expected["x"]).max() < 1e-8
    assert np.abs(element.R - expected["R"]).max() < 1e-8
    assert np.abs(u - expected["u"]).max() < 1e-7
    assert np.abs(v[3:] - expected["Omega"]).max() < 1e-7
    assert np.abs(reaction(form, element.R, multipliers(q, v).full()[:, 0]) - expected["lam"]).max() < 1e-5


def test_free_rigid_body() -> None:
    """On SO(3): Euler's equations, and the angular momentum in the inertial frame stays."""
    body = da.System(
        q=sp.SO3(),
        mass=J,
        force=lambda v: -np.cross(v, J @ v),
        invariants=lambda q, v: {"momentum": q.R @ (J @ v)},
        energy=lambda v: 0.5 * v @ J @ v,
        name="rigid body",
    )
    assert (body.nq, body.nv, body.nlam) == (9, 3, 0)
    v0 = np.array([1.0, 2.0, -3.0])
    R0 = sp.SO3().exp([0.4, -0.1, 0.2]).reshape(3, 3)
    state = da.consistent(body, R0, v0)
    assert np.abs(state.a - np.linalg.solve(J, -np.cross(v0, J @ v0))).max() < 1e-15
    rate = ca.Function("rate", [body.symbols.q, body.symbols.v, body.symbols.a], [body.time_derivative(body.phi)])
    assert np.abs(rate(state.q, state.v, state.a).full()).max() < 1e-15


def test_functions_see_parts() -> None:
    """@, np.cross, np.linalg.norm, transposes and slices of the parts, traced."""
    seen: list[str] = []

    def constraints(q: Any) -> dict[str, Any]:
        seen.append(type(q).__name__)
        arm = q.R @ np.array([1.0, 0.0, 0.0])
        return {
            "distance": np.linalg.norm(q.x - arm) - 1.0,
            "axis": np.cross(arm, q.x)[2],
            "trace": np.trace(q.R.T @ q.R) - 3.0 + q.x[0] * q[1],
        }

    system = da.System(q=sp.SE3(), mass=np.eye(6), constraints=constraints)
    assert seen == ["Element"]
    assert system.black_boxes == []
    q = sp.SE3().exp([0.1, 0.5, 0.3, 0.2, -0.1, 0.7])
    z = {**{n: np.zeros(system.sizes[n]) for n in NAMES}, "q": q, "t": 0.0}
    expected = list(constraints(sp.SE3().element(q)).values())
    assert np.abs(evaluate(system, "g", z).ravel() - expected).max() < 1e-15


def test_black_boxes_receive_elements() -> None:
    """A force that cannot be traced, on numbers; constraints whose size is found by calling them at an element."""

    def force(q: Any, v: Any) -> Any:
        wind = GRAVITY if float(q.R[1, 1]) > -2.0 else 0 * GRAVITY
        return np.concatenate([M * wind, -np.cross(v[3:], J @ v[3:])])

    def tip(q: Any) -> Any:
        assert sp.SO3().check(q.R.ravel()).residual < 1e-3  # called near the group only
        return [float(x) for x in -q.x + q.R @ X]

    system = da.System(
        q=sp.R3xSO3(), mass=MASS, force=da.black_box(force), constraints=da.black_box(tip)
    )  # fmt: skip
    assert system.nlam == 3
    expected = PUBLISHED[0.1]
    state = da.consistent(system, *start("R3xSO3", expected), initial="assume")
    assert np.abs(state.a[3:] - expected["Omegadot"]).max() < 1e-3  # second derivatives by differences
    assert np.abs(state.lam - expected["lam"]).max() < 1e-3


def test_events_receive_elements() -> None:
    system = heavy_top("R3xSO3")
    from dalembert.runtime.assemble import make_layout

    layout = make_layout(system, da.BDF(), da.Index1())
    row = np.zeros(layout.n)
    row[layout.slice("q")] = sp.R3xSO3().exp([1, 2, 3, 0.1, 0.2, 0.3])
    R = sp.R3xSO3().element(row[layout.slice("q")]).R

    def traced(q: Any) -> Any:
        return q.R[2, 1] * q.x[1]

    def called(q: Any) -> Any:
        return float(q.R[2, 1]) * q.x[1]

    for event in (traced, called):
        kernel = compile_events(event, system, layout).kernel
        assert kernel is not None
        assert kernel(row, [0.0])[0] == pytest.approx(R[2, 1] * 2.0, rel=1e-15)


def test_flat_groups_are_integrated() -> None:
    """The angle of a circle is one number that is added: every method takes it."""
    swing = da.System(
        q=sp.Circle("phi") * sp.Euclidean(["s"]),
        mass=[1.0, 1.0],
        force=lambda q: [-np.sin(q.phi), -q.s],
        energy=lambda q, v: 0.5 * v @ v - np.cos(q.phi) + 0.5 * q.s**2,
    )
    sol = da.solve(swing, (0, 10), q0={"phi": 1.0, "s": 0.5}, v0=[2.0, 0.0], rtol=1e-8, atol=1e-10)
    assert sol.success
    assert sol.q[-1, 0] > 2 * np.pi or np.abs(np.diff(sol.q[:, 0])).max() < 1.0  # never wrapped
    assert np.abs(sol.energy - sol.energy[0]).max() < 1e-5
    assert sol.q[-1, 1] == pytest.approx(0.5 * np.cos(10.0), abs=1e-5)


@pytest.mark.parametrize("form", ["R3xSO3", "quaternions", "SE3"])
def test_index(form: str) -> None:
    """Index 3 like every constrained system; three rotations and their rates are free, however they are stored."""
    system = heavy_top(form)
    q0, v0 = start(form, PUBLISHED[0.1])
    found = index(system, q0, v0)
    assert (found.differentiation_index, found.degrees_of_freedom, found.regular) == (3, 6, True)
    assert consistency(system, q0, v0).consistent
    assert "tip[0]'" in consistency(system, q0, v0 + np.eye(6)[0]).violated


# ---------------------------------------------------------------------- messages
def test_what_is_refused() -> None:
    top = heavy_top("R3xSO3")
    (x, R), v0 = start("R3xSO3")
    with pytest.raises(OptionError, match=r"q0: R is not a rotation: \|R\^T R - I\| = 0.21.*initial='project'"):
        da.consistent(top, (x, 1.1 * R), v0, initial="check")
    with pytest.raises(OptionError, match="q0: R has no nearest rotation"):
        da.consistent(top, (x, -R), v0)
    with pytest.raises(OptionError, match="q0: p is zero: a quaternion of length 0"):
        da.consistent(heavy_top("quaternions"), np.zeros(7), v0)
    with pytest.raises(OptionError, match=r"q0 has shape \(3,\), expected \(12,\): .*x\[0\], .*R\[2,2\]"):
        da.consistent(top, x, v0)
    with pytest.raises(OptionError, match=r"v0 has shape \(12,\), expected \(6,\): .*x\[0\]', .*Omega\[2\]"):
        da.consistent(top, (x, R), np.zeros(12))
    with pytest.raises(InconsistentError, match=r"tip\[0\]"):
        da.consistent(top, (x + np.array([0.1, 0, 0]), R), v0, initial="check")
    with pytest.raises(OptionError, match="needs a Euclidean configuration space"):
        da.solve(top, (0, 1), (x, R), v0, formulation="state-space")
    with pytest.raises(ModelError, match=r"q=SO3 is a class; write q=SO3\(\)"):
        da.System(q=sp.SO3, mass=J)
    with pytest.raises(MissingPart, match="no part 'Q'; it has x, R"):
        da.System(q=sp.R3xSO3(), mass=MASS, force=lambda q: q.Q)
    with pytest.raises(ModelError, match="mass returned 12 components, expected a diagonal"):
        da.System(q=sp.R3xSO3(), mass=np.ones(12))
    singular = da.System(q=sp.SO3(), mass=[1.0, 0.0, 1.0])
    with pytest.raises(ModelError, match=r"no inertia along Omega\[1\]"):
        da.consistent(singular, np.eye(3), np.zeros(3))


def test_rough_rotations_are_repaired() -> None:
    """Numbers printed to four digits are no rotation; the nearest one is taken."""
    state = da.consistent(da.System(q=sp.SO3(), mass=J), np.round(sp.SO3().exp([0.3, 0.2, 0.1]), 4), np.zeros(3))
    assert np.abs(sp.SO3().equations(state.q)).max() < 1e-15
    assert np.abs(sp.SO3().log(state.q) - [0.3, 0.2, 0.1]).max() < 1e-4
