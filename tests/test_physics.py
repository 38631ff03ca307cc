"""What must hold whatever the method: conservation, equivalence of models, reversibility."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dalembert as da
from dalembert.problems import contact, double_pendulum
from dalembert.status import BlackBoxWarning

PENDULUM = {"m": 1.0, "g": 9.81, "L": 1.0, "c": 0.3}


def solve_problem(name: str, **options: Any) -> da.Solution:
    problem = da.problems()[name]
    given = {"t_span": problem.t_span, "q0": problem.q0, "v0": problem.v0, **problem.options, **options}
    sol = da.solve(problem.system, **given)
    assert sol.success, sol.message
    return sol


def pendulum(**functions: Any) -> da.System:
    """A pendulum with air drag along x; functions replace those of the model."""
    model: dict[str, Any] = {
        "q": ["x", "y"],
        "mass": lambda p: [p.m, p.m],
        "force": lambda v, p: [-p.c * v[0] * np.abs(v[0]), -p.m * p.g],
        "constraints": lambda q, p: [(q @ q - p.L**2) / 2],
        "parameters": PENDULUM,
    }
    return da.System(**{**model, **functions})


def swing(system: da.System, end: float = 2.0, tol: float = 1e-9, **options: Any) -> da.Solution:
    sol = da.solve(system, (0.0, end), q0=[1.0, 0.0], v0=[0.0, 0.0], rtol=tol, atol=tol, **options)
    assert sol.success, sol.message
    return sol


def difference(one: da.Solution, other: da.Solution) -> float:
    """Largest difference of positions and velocities over a common grid."""
    grid = np.linspace(one.t[0], one.t[-1], 50)
    a, b = one(grid), other(grid)
    return float(max(np.abs(a.q - b.q).max(), np.abs(a.v - b.v).max()))


# ---------------------------------------------------------------------- energy
@pytest.mark.parametrize(
    "name", ["double-pendulum", "double-pendulum-angles", "contact-point", "pendulum", "knife-edge"]
)
@pytest.mark.parametrize("tol", [1e-6, 1e-9])
def test_energy_is_conserved_to_the_tolerance(name: str, tol: float) -> None:
    """No invariant is declared here: what energy drifts is the error of the method."""
    t0, t1 = da.problems()[name].t_span
    sol = solve_problem(name, t_span=(t0, min(t1, 10.0)), rtol=tol, atol=tol)
    scale = 0.5 * np.abs(sol.v).max() ** 2 + np.abs(sol.energy).max()
    assert np.abs(sol.energy - sol.energy[0]).max() <= 300 * tol * scale  # measured: 1 to 15, the knife edge 110


def test_friction_only_takes_energy() -> None:
    def energy(q: Any, v: Any, p: Any) -> Any:
        return p.m * (0.5 * (v @ v) + p.g * q[1])

    sol = swing(pendulum(energy=energy), end=5.0)
    assert np.diff(sol.energy).max() <= 1e-8
    assert sol.energy[-1] < -1.0


# ---------------------------------------------------------------------- the same system written in another way
@pytest.mark.parametrize("options", [{"h": 0.01}, {}], ids=["fixed step", "controlled step"])
def test_lagrangian_equals_hand_written_system_in_cartesian_coordinates(options: dict[str, Any]) -> None:
    energies = da.Lagrangian(
        q=["x", "y"],
        kinetic=lambda v, p: 0.5 * p.m * (v @ v),
        potential=lambda q, p: p.m * p.g * q[1],
        force=lambda v, p: [-p.c * v[0] * np.abs(v[0]), 0],
        constraints=lambda q, p: [(q @ q - p.L**2) / 2],
        parameters=PENDULUM,
    )
    by_hand, by_energy = swing(pendulum(), **options), swing(energies, **options)
    assert by_energy.t.size == by_hand.t.size
    assert np.abs(by_energy.t - by_hand.t).max() <= 1e-12
    assert np.abs(by_energy.q - by_hand.q).max() <= 1e-12
    assert np.abs(by_energy.v - by_hand.v).max() <= 1e-11
    assert np.abs(by_energy.lam - by_hand.lam).max() <= 1e-10


def test_lagrangian_equals_hand_written_system_with_a_varying_mass_matrix() -> None:
    def mass(q: Any, p: Any) -> Any:
        coupling = p.m2 * p.L1 * p.L2 * np.cos(q[0] - q[1])
        return [[(p.m1 + p.m2) * p.L1**2, coupling], [coupling, p.m2 * p.L2**2]]

    def force(q: Any, v: Any, p: Any) -> Any:
        k = p.m2 * p.L1 * p.L2 * np.sin(q[0] - q[1])
        weight = [(p.m1 + p.m2) * p.g * p.L1 * np.sin(q[0]), p.m2 * p.g * p.L2 * np.sin(q[1])]
        return [-k * v[1] ** 2 - weight[0], k * v[0] ** 2 - weight[1]]

    problem = da.problems()["double-pendulum-angles"]
    by_hand = da.System(q=2, mass=mass, force=force, parameters=double_pendulum.P)
    one, two = (
        da.solve(s, (0.0, 2.0), q0=problem.q0, v0=problem.v0, h=0.005, rtol=1e-9, atol=1e-9)
        for s in (problem.system, by_hand)
    )
    assert np.abs(one.q - two.q).max() <= 1e-12
    assert np.abs(one.v - two.v).max() <= 1e-11


def test_angles_and_cartesian_coordinates_describe_the_same_motion() -> None:
    cartesian = solve_problem("double-pendulum", rtol=1e-9, atol=1e-9)
    angles = solve_problem("double-pendulum-angles", rtol=1e-9, atol=1e-9)
    grid = np.linspace(0.0, 3.0, 20)
    th1, th2 = angles(grid).q.T
    L1, L2 = double_pendulum.P["L1"], double_pendulum.P["L2"]
    tip = np.stack([L1 * np.sin(th1) + L2 * np.sin(th2), -L1 * np.cos(th1) - L2 * np.cos(th2)], axis=1)
    assert np.abs(cartesian(grid).q[:, 2:] - tip).max() <= 1e-6


def test_constraint_force_given_by_hand_equals_the_default() -> None:
    own = pendulum(constraint_force=lambda q, lam: [-q[0] * lam[0], -q[1] * lam[0]])
    assert difference(swing(pendulum(), h=0.01), swing(own, h=0.01)) <= 1e-12


# ---------------------------------------------------------------------- Hessenberg systems: manufactured solutions
def first_order() -> tuple[da.Hessenberg, Callable[[Any], Any], Callable[[Any], Any]]:
    """x = (2 + sin t, exp(-t)), y = cos 3t; y enters nonlinearly along B(t), which is not the gradient of g."""

    def f(t: Any, x: Any, y: Any) -> Any:
        yt = np.cos(3 * t)
        push = 1 + 0.5 * np.sin(t)
        right = [np.cos(t), -np.exp(-t)]
        return [
            right[0] - (x[0] * x[1] - (2 + np.sin(t)) * np.exp(-t)) + push * (y[0] - yt) + 0.1 * (y[0] ** 3 - yt**3),
            right[1] - (x[0] - 2 - np.sin(t)) + 0.3 * (y[0] - yt),
        ]

    def g(t: Any, x: Any) -> Any:
        return [2 * (x[0] - 2 - np.sin(t)) + x[1] ** 2 - np.exp(-2 * t)]

    def x(t: Any) -> Any:
        return np.stack([2 + np.sin(t), np.exp(-t)], axis=-1)

    return da.Hessenberg(order=1, x=2, f=f, g=g), x, lambda t: np.cos(3 * t)[..., None]


def second_order() -> tuple[da.Hessenberg, Callable[[Any], Any], Callable[[Any], Any], Callable[[Any], Any]]:
    """x = (sin t, cos 2t, t^2 / 2), y = (1 + t, sin 2t), f depends on velocities, B(x) is not the gradient of g."""

    def f(t: Any, x: Any, v: Any, y: Any) -> Any:
        d = [y[0] - 1 - t, y[1] - np.sin(2 * t)]
        return [
            -np.sin(t) - (v[0] - np.cos(t)) + (2 + x[1]) * d[0] + 0.2 * d[1],
            -4 * np.cos(2 * t) + (x[0] * v[2] - np.sin(t) * t) - 0.5 * d[0] + 1.5 * d[1],
            1.0 - (x[2] - t**2 / 2) + 0.3 * d[0] + (1 + x[0] ** 2) * d[1],
        ]

    def g(t: Any, x: Any) -> Any:
        return [
            3 * (x[0] - np.sin(t)) + x[1] * x[2] - np.cos(2 * t) * t**2 / 2,
            np.sin(x[1]) - np.sin(np.cos(2 * t)) + 2 * (x[2] - t**2 / 2),
        ]

    def x(t: Any) -> Any:
        return np.stack([np.sin(t), np.cos(2 * t), t**2 / 2], axis=-1)

    def v(t: Any) -> Any:
        return np.stack([np.cos(t), -2 * np.sin(2 * t), t + 0.0], axis=-1)

    return da.Hessenberg(order=2, x=3, f=f, g=g), x, v, lambda t: np.stack([1 + t, np.sin(2 * t)], axis=-1)


@pytest.mark.parametrize("formulation", ["index-1", "index-2"])
def test_hessenberg_of_first_order(formulation: str) -> None:
    system, x, y = first_order()
    sol = da.solve(system, (0.5, 3.0), q0=x(np.array(0.5)), rtol=1e-8, atol=1e-8, formulation=formulation)
    assert sol.success, sol.message
    assert np.abs(sol.v - x(sol.t)).max() <= 1e-6
    assert np.abs(sol.mu - y(sol.t)).max() <= 1e-5
    assert sol.drift.largest["nonholonomic"] <= (1e-14 if formulation == "index-1" else 1e-10)
    assert sol.q.shape == (sol.t.size, 0)


@pytest.mark.parametrize("formulation", ["index-1", "index-2", "index-3"])
def test_hessenberg_of_second_order(formulation: str) -> None:
    system, x, v, y = second_order()
    t0 = np.array(0.5)
    sol = da.solve(system, (0.5, 2.0), q0=x(t0), v0=v(t0), rtol=1e-8, atol=1e-8, formulation=formulation)
    assert sol.success, sol.message
    assert np.abs(sol.q - x(sol.t)).max() <= 1e-6
    if formulation != "index-3":
        assert np.abs(sol.v - v(sol.t)).max() <= 3e-6
        assert np.abs(sol.lam - y(sol.t)).max() <= 1e-4


# ---------------------------------------------------------------------- backward in time
@pytest.mark.parametrize("name", ["pendulum", "moving-pivot", "rolling-disc", "double-pendulum", "contact-point"])
def test_backward_integration_returns_to_the_start(name: str) -> None:
    problem = da.problems()[name]
    t0 = problem.t_span[0]
    there = solve_problem(name, t_span=(t0, t0 + 3.0), rtol=1e-9, atol=1e-9)
    back = solve_problem(name, t_span=(t0 + 3.0, t0), q0=there.q[-1], v0=there.v[-1], rtol=1e-9, atol=1e-9)
    assert back.t[-1] == t0
    assert np.all(np.diff(back.t) < 0)
    assert np.abs(back.q[-1] - problem.q0).max() <= 1e-6
    assert np.abs(back.v[-1] - problem.v0).max() <= 3e-6
    assert difference(there, back) <= 3e-6  # dense output on both ways


def test_backward_with_t_eval() -> None:
    grid = np.linspace(3.0, 1.0, 7)
    sol = solve_problem("moving-pivot", t_span=(3.0, 1.0), t_eval=grid, rtol=1e-8, atol=1e-8, **at("moving-pivot", 3.0))
    assert np.array_equal(sol.t, grid)
    assert np.abs(sol.q - da.problems()["moving-pivot"].reference(grid)["q"]).max() <= 1e-5


def at(name: str, t: float) -> dict[str, Any]:
    """q0 and v0 of a problem at a time of its reference."""
    state = da.problems()[name].reference(t)
    return {"q0": state["q"], "v0": state["v"]}


# ---------------------------------------------------------------------- parameters
def test_parameters_at_solve_time_equal_a_new_system_and_compile_nothing() -> None:
    system = pendulum()
    first = swing(system, h=0.01)
    compiled = dict(system.__dict__["_assemblies"])
    changed = {"m": 2.0, "L": 1.5, "c": 0.1}
    sol = da.solve(system, (0.0, 2.0), q0=[1.5, 0.0], v0=[0.0, 0.0], h=0.01, parameters=changed)
    again = swing(system, h=0.01)
    assert system.__dict__["_assemblies"] == compiled  # the very same kernels
    new = pendulum(parameters={**PENDULUM, **changed})
    expected = da.solve(new, (0.0, 2.0), q0=[1.5, 0.0], v0=[0.0, 0.0], h=0.01)
    assert np.abs(sol.q - expected.q).max() <= 1e-13
    assert np.abs(sol.lam - expected.lam).max() <= 1e-11
    assert np.abs(sol.q[:, 0]).max() > 1.4  # it is another motion
    assert np.array_equal(first.q, again.q)  # and nothing of it stays behind
    assert sol.parameters["L"] == 1.5


# ---------------------------------------------------------------------- black boxes
def branching_drag(v: Any, p: Any) -> Any:
    """The drag of `pendulum`, written in a way that symbols cannot follow."""
    drag = -p.c * v[0] ** 2 if v[0] > 0 else p.c * v[0] ** 2
    return [drag, -p.m * p.g * math.cos(0.0 * v[1])]


def test_untraceable_force_warns_and_gives_the_same_motion() -> None:
    with pytest.warns(BlackBoxWarning, match="force cannot be traced"):
        system = pendulum(force=branching_drag)
    assert system.black_boxes == ["force"]
    assert difference(swing(system), swing(pendulum())) <= 1e-7


def test_declared_black_box_is_silent() -> None:
    """Warnings are errors in this suite."""
    system = pendulum(force=da.black_box(branching_drag))
    assert system.black_boxes == ["force"]
    assert difference(swing(system), swing(pendulum())) <= 1e-7


def test_black_box_with_a_jacobian_uses_it() -> None:
    asked = []

    def jacobian(v: Any, p: Any) -> Any:
        asked.append(v)
        return {"v": [[-2 * p.c * abs(v[0]), 0.0], [0.0, 0.0]]}

    system = pendulum(force=da.black_box(branching_drag, jacobian=jacobian))
    assert difference(swing(system), swing(pendulum())) <= 1e-7
    assert asked


def test_black_box_sees_parameters_of_the_run() -> None:
    system = pendulum(force=da.black_box(branching_drag))
    changed = {"c": 2.0}
    assert difference(swing(system, parameters=changed), swing(pendulum(), parameters=changed)) <= 1e-7
    assert difference(swing(system), swing(pendulum(), parameters=changed)) >= 1e-2


def test_black_box_constraints() -> None:
    """Second derivatives by nested differences limit the accuracy."""
    system = pendulum(constraints=da.black_box(lambda q, p: [(math.hypot(*q) ** 2 - p.L**2) / 2], size=1))
    sol = swing(system, end=0.8, tol=1e-6)
    assert sol.drift.largest["position"] <= 1e-15
    assert sol.drift.largest["velocity"] <= 1e-13
    assert difference(sol, swing(pendulum(), end=0.8, tol=1e-6)) <= 2e-5


def test_black_box_constraints_with_a_jacobian() -> None:
    box = da.black_box(lambda q, p: [(math.hypot(*q) ** 2 - p.L**2) / 2], jacobian=lambda q, p: {"q": [q]})
    system = pendulum(constraints=box)
    assert difference(swing(system, end=0.8), swing(pendulum(), end=0.8)) <= 1e-7


def test_untraceable_constraints_may_be_named() -> None:
    """A dict of named constraints is as good for a black box as for a traced function."""
    with pytest.warns(BlackBoxWarning, match="constraints cannot be traced"):
        system = pendulum(constraints=lambda q, p: {"rod": (math.hypot(*q) ** 2 - p.L**2) / 2})
    assert system.names["constraints"] == ("rod",)


def test_black_box_force_leaves_the_projection_of_contact_models_alone() -> None:
    """Where a force is computed has nothing to do with the direction of projection."""
    problem = da.problems()["contact-point"]
    boxed = da.System(
        q=3,
        mass=lambda p: [p.m, p.m, p.J],
        force=da.black_box(lambda p: [0.0, -p.m * p.g, 0.0]),
        constraints=contact._constraints,
        s=1,
        contact=lambda q, s, p: [q[0] - s[0] + (q[1] - p.kappa * s[0] ** 2 / 2) * p.kappa * s[0]],
        parameters=problem.system.parameters.defaults,
    )
    one, two = (
        da.solve(s, (0.0, 1.0), q0=problem.q0, v0=problem.v0, h=0.02, rtol=1e-12, atol=1e-12, **problem.options)
        for s in (problem.system, boxed)
    )
    assert np.abs(one.q - two.q).max() <= 1e-9


def test_times_need_not_be_contiguous() -> None:
    """Every second entry of an array is an array like any other."""
    grid = np.linspace(0.0, 1.0, 11)[::2]
    sol = swing(pendulum(), end=1.0)
    assert np.abs(sol(grid).q - swing(pendulum(), end=1.0, t_eval=grid).q).max() <= 1e-12
