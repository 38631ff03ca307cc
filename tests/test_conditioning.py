"""The scaled iteration matrix of every formulation and every method stays well conditioned as the step goes to zero.

Without scaling the condition number of the index-3 form grows as h^-4; the powers of c0 = O(1/h) that unknowns and
equations carry take that away.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import casadi as ca
import numpy as np
import pytest

import dalembert as da
from dalembert.formulations import Formulation
from dalembert.integrators import Integrator
from dalembert.integrators.collocation import CollocationMethod
from dalembert.numerics.runstate import HISTORY, N_COEFFICIENTS, N_NUMBERS
from dalembert.runtime.assemble import assemble, make_layout
from dalembert.runtime.start import initial_row
from dalembert.status import OptionError

FORMULATIONS: dict[str, Formulation] = {
    "baumgarte-1": da.Baumgarte(1.0),
    "baumgarte-10": da.Baumgarte(10.0),
    "index-1": da.Index1(),
    "index-2": da.Index2(),
    "index-2-5": da.Index2(gamma=5.0),
    "index-3": da.Index3(),
    "minimal": da.MinimalExtension(),
    "minimal-full": da.MinimalExtension(variant="full"),
    "stabilized-G": da.StabilizedIndex2(),
    "stabilized-M": da.StabilizedIndex2(D="M^-1 G^T"),
    "Pa-G": da.ProjectedInvariants(levels=1),
    "Pa-M": da.ProjectedInvariants(levels=1, D="M^-1 G^T"),
    "Pb-G": da.ProjectedInvariants(levels=2),
    "Pb-M": da.ProjectedInvariants(levels=2, D="M^-1 G^T"),
    "Pc-G": da.ProjectedInvariants(levels=2, balanced=True),
    "Pc-M": da.ProjectedInvariants(levels=2, balanced=True, D="M^-1 G^T"),
    "state-space": da.StateSpace(),
    "underlying-ode": da.UnderlyingODE(),
    "overdetermined": da.Overdetermined(),
    "essential-ode": da.EssentialODE(R=lambda t, p: [[(1 - p.nu) / p.nu, 2 - t]]),
}
SIZES = 10.0 ** -np.arange(1, 9)


def matrices(
    system: da.System, formulation: Formulation, q0: Any, v0: Any, values: dict[str, Any] | None = None
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The iteration matrix of backward Euler at a consistent state for all step sizes, scaled and not."""
    p = system.parameters.vector(values)
    r0 = np.zeros(system.nr) if system.nr else None
    state = da.consistent(system, q0, v0, parameters=values, initial="check", r0=r0)
    layout = make_layout(system, da.BDF(), formulation)
    row = initial_row(system, layout, **{x: getattr(state, x) for x in ("q", "v", "r", "w", "s", "lam", "mu", "a")})
    assembly = assemble(system, da.BackwardEuler(), formulation, None, {"t": 0.0, "row": row, "h": 1e-3, "p": p})
    rate = np.zeros(layout.n)
    if system.nq:
        rate[layout.slice("q")] = state.v
    rate[layout.slice("v")] = state.a
    if "acc" in dict(layout.blocks):
        row[layout.slice("acc")] = state.a
    _, C = assembly.workspace(p).matrices(0.0, row)
    data = formulation.choose_data(system, C)
    n, step = assembly.n_step, assembly.step
    scaled = ca.Function("matrix", [step.x, step.d], [step.jacobian, step.columns])
    powers = np.array([u.column for u in formulation.unknowns(system) for _ in range(u.size)])
    for h in SIZES:
        past = rate[:n] - row[:n] / h
        d = np.concatenate([[0.0, h, 1 / h, 0.0], past, np.zeros(n), p, data])
        J, columns = (np.asarray(x.full()) for x in scaled(row[:n], d))
        np.testing.assert_allclose(columns.ravel(), h ** -powers.astype(float))
        yield J, J / columns.T


def conditions(*given: Any, **values: Any) -> np.ndarray:
    return np.array([np.linalg.cond(J) for J, _ in matrices(*given, **values)])


def check(label: str, found: np.ndarray, bound: float) -> None:
    print(label, " ".join(f"{x:.3g}" for x in found), f"worst {found.max():.3g}")
    assert found.max() < bound
    # bounded: what happens below h = 1e-3 is the limit, not growth
    assert found[3:].max() < 1.05 * found[3:].min()


# ---------------------------------------------------------------------- methods
def of_registry() -> Iterator[tuple[Integrator, str]]:
    """Every method with every number of stages or order and every basic form it takes."""
    for cls in da.methods().values():
        made: list[Any] = [cls()]
        if issubclass(cls, CollocationMethod):
            families: Any = [{"family": "IIIC"}, {"family": "IIIA"}] if cls is da.Lobatto else [{}]
            made = [cls(s, **family) for family in families for s in range(cls.fewest, 6)]
        elif cls is da.ModifiedBDF:
            made = [cls(k, variant=v) for k in range(1, 6) for v in ("regular", "interpolant", "thesis")]
        for method in made:
            for name in dict.fromkeys(("index-1", "index-2", "index-3", method.default_formulation)):
                try:
                    method.check(da.problems()["pendulum"].system, da.formulations()[name]())
                except OptionError:
                    continue
                yield method, name


def coefficients(method: Integrator, k: int, h: float) -> np.ndarray:
    """The numbers of the step equations for a history of equal steps of order k."""
    nodes = -h * np.arange(HISTORY + 1.0)
    orders, out = np.full(HISTORY + 1, k, dtype=np.int64), np.zeros(N_COEFFICIENTS)
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, *[ctypes.c_void_p] * 3)
    address = method.coefficient_function()
    assert function(address)(k, HISTORY, nodes.ctypes.data, orders.ctypes.data, out.ctypes.data) == 0
    return out[:N_NUMBERS]


def method_conditions(system: da.System, method: Integrator, formulation: Formulation, q0: Any, v0: Any) -> np.ndarray:
    """Condition numbers at a consistent state, which all stages (or the past rows' combinations) reproduce."""
    p = system.parameters.vector(None)
    state = da.consistent(system, q0, v0, initial="check")
    layout = make_layout(system, method, formulation)
    values = {x: getattr(state, x) for x in ("q", "v", "r", "w", "s", "lam", "mu", "a")}
    row = initial_row(system, layout, **values)
    assembly = assemble(system, method, formulation, None, {"t": 0.0, "row": row, "h": 1e-3, "p": p})
    matrix = ca.Function("matrix", [assembly.step.x, assembly.step.d], [assembly.step.jacobian])
    unknowns = method.unknowns(system, formulation)
    if method.in_row:
        x = row[: assembly.n_step]
    else:
        x = np.concatenate([values.get(u.name.rstrip("0123456789"), np.zeros(u.size)) for u in unknowns])
    out = []
    for h in SIZES:
        c = coefficients(method, method.order_range(True)[0], h)
        first, second = row[: assembly.n_past].copy(), np.zeros(assembly.n_past)
        if method.in_row:  # what makes x' (and x'') of the step those of the state
            rate = np.zeros(layout.n)
            rate[layout.slice("q")], rate[layout.slice("v")] = state.v, state.a
            moves = method.moves(system)  # past rows come as changes from the last one
            first = (rate - (0 if moves else c[0] * row))[: assembly.n_past]
            q, v = layout.slice("q"), layout.slice("v")
            second[q] = state.a - (0 if moves else c[1] * state.q)
            if second[v].size:
                second[v] = state.a - c[1] * state.v
        J = matrix(x, np.concatenate([[0.0, h], c, first, second, row[: assembly.n_last], p]))
        out.append(np.linalg.cond(np.asarray(J.full())))
    return np.array(out)


PAIRS = [pytest.param(m, f, id=f"{m.describe()}-{f}") for m, f in of_registry()]


@pytest.mark.parametrize(("method", "name"), PAIRS)
def test_every_method(pendulum: Any, method: Integrator, name: str) -> None:
    found = method_conditions(pendulum.system, method, da.formulations()[name](), [0.6, -0.8], [0.8, 0.6])
    check(f"{method.describe()} {name}", found, 2e3)


@pytest.mark.parametrize("method", [da.Radau(3), da.Lobatto(3), da.Gauss(2)], ids=lambda m: m.name)
def test_newton_of_collocation_converges_with_tiny_steps(pendulum: Any, method: Integrator) -> None:
    h, n = 1e-8, 40
    q0, v0 = np.array([0.6, -0.8]), np.array([0.8, 0.6])
    sol = da.solve(pendulum.system, (0, n * h), q0=q0, v0=v0, method=method, h=h)
    assert sol.success, sol.message
    assert sol.stats.newton_iterations <= 5 * n
    t = sol.t[-1]
    assert sol.q[-1] == pytest.approx(q0 + t * v0 + t**2 / 2 * sol.a[0], abs=1e-13)
    assert sol.v[-1] == pytest.approx(v0 + t * sol.a[0], abs=1e-6 if method.default_formulation == "index-3" else 1e-11)


# ---------------------------------------------------------------------- formulations
MECHANICAL = [name for name in FORMULATIONS if name != "essential-ode"]


@pytest.mark.parametrize("name", MECHANICAL)
def test_pendulum(pendulum: Any, name: str) -> None:
    q0, v0 = [0.6, -0.8], [0.8, 0.6]
    check(name, conditions(pendulum.system, FORMULATIONS[name], q0, v0), 100.0)


@pytest.mark.parametrize("name", MECHANICAL)
@pytest.mark.parametrize("masses", [[1.0, 100.0], [100.0, 1.0]], ids=["heavy-below", "heavy-above"])
def test_double_pendulum_with_a_mass_ratio_of_100(
    double_pendulum: da.System, double_start: Any, name: str, masses: list[float]
) -> None:
    check(name, conditions(double_pendulum, FORMULATIONS[name], *double_start, values={"m": masses}), 1e5)


@pytest.mark.parametrize("example", [2, 3])
def test_essential_ode(example: int) -> None:
    problem = da.problems()[f"ascher-petzold-{example}"]
    v0 = None if example == 2 else problem.v0
    form = FORMULATIONS["essential-ode"]
    check(f"example {example}", conditions(problem.system, form, problem.q0, v0, values={"nu": 2.0}), 1e3)


def test_scaling_is_what_does_it(pendulum: Any) -> None:
    """Unscaled, the matrix of the index-3 form is hopeless."""
    found = [np.linalg.cond(J) for _, J in matrices(pendulum.system, da.Index3(), [0.6, -0.8], [0.8, 0.6])]
    assert found[3] > 1e3 * found[1]


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("name", MECHANICAL)
def test_newton_converges_with_tiny_steps(pendulum: Any, name: str, k: int) -> None:
    """Steps of 1e-8: few iterations each, an answer exact to rounding (v of the index-3 form to rounding / h)."""
    h, n = 1e-8, 40
    formulation = FORMULATIONS[name]
    q0, v0 = np.array([0.6, -0.8]), np.array([0.8, 0.6])
    sol = da.solve(pendulum.system, (0, n * h), q0=q0, v0=v0, method=da.BDF(k), formulation=formulation, h=h)
    assert sol.success, sol.message
    assert sol.stats.steps == n
    assert sol.stats.newton_iterations <= 5 * n
    t = sol.t[-1]
    assert sol.q[-1] == pytest.approx(q0 + t * v0 + t**2 / 2 * sol.a[0], abs=1e-13)
    # the next term, t^2 / 2 times the jerk, is 3e-12
    assert sol.v[-1] == pytest.approx(v0 + t * sol.a[0], abs=1e-6 if formulation.name == "index-3" else 1e-11)


@pytest.mark.parametrize("name", MECHANICAL)
def test_newton_converges_with_tiny_steps_and_unequal_masses(
    double_pendulum: da.System, double_start: Any, name: str
) -> None:
    q0, v0 = double_start
    sol = da.solve(
        double_pendulum, (0, 4e-7), q0=q0, v0=v0, method=da.BDF(2), formulation=FORMULATIONS[name], h=1e-8,
        parameters={"m": [1.0, 100.0]},
    )  # fmt: skip
    assert sol.success, sol.message
    assert sol.q[-1] == pytest.approx(q0 + sol.t[-1] * v0 + sol.t[-1] ** 2 / 2 * sol.a[0], abs=1e-13)


@pytest.mark.parametrize("name", MECHANICAL)
def test_steps_that_grow_by_nine_orders_of_magnitude(double_pendulum: da.System, double_start: Any, name: str) -> None:
    """c0 = O(1/h) is part of the iteration matrix: an old one must not pass for a good one."""
    q0, v0 = double_start
    options: dict[str, Any] = {"q0": q0, "v0": v0, "t_eval": [1e-2]}
    sol = da.solve(
        double_pendulum, (0, 1e-2), formulation=FORMULATIONS[name], rtol=1e-10, atol=1e-12, first_step=1e-12, **options
    )
    assert sol.success, sol.message
    fine = da.solve(double_pendulum, (0, 1e-2), rtol=1e-13, atol=1e-15, **options)
    assert np.abs(sol.q - fine.q).max() < 1e-8
    assert np.abs(sol.v - fine.v).max() < (1e-4 if name == "index-3" else 1e-7)


@pytest.fixture(scope="module")
def driven() -> da.System:
    """A pendulum with a damper on a spring (r), an auxiliary force (w) and a second rod that must not slip (mu)."""
    return da.System(
        q=["x", "y", "z"],
        mass=[1.0, 2.0, 0.5],
        force=lambda q, r, w: [-r[0], -9.81 + w[0], -0.3 * q[2]],
        constraints=lambda q: {"rod": (q[0] ** 2 + q[1] ** 2 - 1) / 2},
        velocity_constraints=lambda q, v: {"slip": v[2] - q[1] * v[0]},
        dynamics=lambda q, v, r, w: [v[0] - 3 * r[0] + 0.1 * w[0]],
        r=1,
        auxiliary=lambda q, v, w, lam: [w[0] - 0.1 * lam[0] + 0.2 * v[1] * q[0]],
        w=1,
    )


@pytest.mark.parametrize("name", MECHANICAL)
def test_dynamic_and_auxiliary_variables_and_both_kinds_of_constraints(driven: da.System, name: str) -> None:
    check(name, conditions(driven, FORMULATIONS[name], [0.6, -0.8, 0.0], [0.8, 0.6, -0.64]), 1e3)
