"""Bad input is refused at the door, and a run that fails half-way keeps what it has: each case with its message."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import dalembert as da
from dalembert.runtime.run import Slices
from dalembert.status import (
    BlackBoxWarning,
    InconsistentError,
    ModelError,
    OptionError,
    RedundantError,
    Status,
)

Pendulum = Callable[..., da.System]


@contextmanager
def refused(kind: type[Exception], *fragments: str) -> Iterator[None]:
    """The block raises ``kind``, a ValueError, whose message has all ``fragments``."""
    with pytest.raises(kind) as caught:
        yield
    assert isinstance(caught.value, ValueError)
    message = str(caught.value)
    missing = [f for f in fragments if f not in message]
    assert not missing, f"{missing} not in {message!r}"


@pytest.fixture(scope="module")
def plain(pendulum_with: Pendulum) -> da.System:
    return pendulum_with()


@pytest.fixture(scope="module")
def attempt(plain: da.System) -> Callable[..., da.Solution]:
    """`solve` on the pendulum with some arguments changed."""

    def run(**changes: Any) -> da.Solution:
        arguments: dict[str, Any] = {"system": plain, "t_span": (0.0, 1.0), "q0": [1, 0], "v0": [0, 0]}
        return da.solve(**{**arguments, **changes})

    return run


Attempt = Callable[..., da.Solution]


# ---------------------------------------------------------------------- shapes of initial values
@pytest.mark.parametrize("name", ["q0", "v0"])
@pytest.mark.parametrize(("value", "shape"), [([1.0], "(1,)"), ([[1, 0]], "(1, 2)"), ([1, 2, 3], "(3,)"), (1.0, "()")])
def test_initial_values_of_wrong_shape(attempt: Attempt, name: str, value: Any, shape: str) -> None:
    with refused(OptionError, name, f"shape {shape}", "expected (2,)", "x, y"):
        attempt(**{name: value})


def test_missing_positions(attempt: Attempt) -> None:
    with refused(OptionError, "q0 is missing", "give 2", "x, y"):
        attempt(q0=None)


@pytest.mark.parametrize("value", ["ab", [[1], [1, 2]], [1j, 0], [None, object()]])
def test_initial_values_that_are_not_numbers(attempt: Attempt, value: Any) -> None:
    with refused(OptionError, "q0=", "not a list of numbers"):
        attempt(q0=value)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_initial_values_not_finite(attempt: Attempt, bad: float) -> None:
    with refused(OptionError, "v0=", str(bad), "finite"):
        attempt(v0=[0.0, bad])


def test_dynamic_states_of_wrong_shape() -> None:
    system = da.System(q=1, mass=[1.0], r=["valve", "pump"], dynamics=lambda r: [-r[0], -r[1]])
    with refused(OptionError, "r0 is missing", "2", "valve, pump"):
        da.solve(system, (0, 1), q0=[0.0])
    with refused(OptionError, "r0 has shape (1,)", "(2,)", "valve, pump"):
        da.solve(system, (0, 1), q0=[0.0], r0=[1.0])


def test_dynamic_states_for_a_system_without(attempt: Attempt) -> None:
    with refused(OptionError, "r0", "no dynamic states", "leave it out"):
        attempt(r0=[1.0])


def test_first_order_system_speaks_of_its_own_arguments() -> None:
    system = da.Hessenberg(order=1, x=["u", "w"], f=lambda x, y: [x[1] - y[0], -x[0]], g=lambda x: [x[0] - 1])
    with refused(OptionError, "q0 is missing", "u, w"):
        da.solve(system, (0, 1))
    with refused(OptionError, "q0 has shape (1,)", "(2,)", "u, w"):
        da.solve(system, (0, 1), q0=[1.0])
    with refused(ModelError, "v0", "q0"):
        da.solve(system, (0, 1), q0=[1.0, 0.0], v0=[0.0, 0.0])


# ---------------------------------------------------------------------- the model
@pytest.mark.parametrize(
    ("mass", "found"),
    [
        ([1, 1, 1], "3 components"),
        (np.ones((2, 3)), "shape (2, 3)"),
        (lambda q: [q[0]], "1 component"),
        (lambda q: np.outer(q, [1, 2, 3]), "shape (2, 3)"),
    ],
)
def test_mass_of_wrong_shape(pendulum_with: Pendulum, mass: Any, found: str) -> None:
    with refused(ModelError, "mass", found, "diagonal (2,)", "matrix (2, 2)"):
        pendulum_with(mass=mass)


@pytest.mark.parametrize("mass", [None, "heavy", lambda q: None])
def test_mass_that_is_no_number(pendulum_with: Pendulum, mass: Any) -> None:
    with refused(ModelError, "mass", "not a list of numbers"):
        pendulum_with(mass=mass)


@pytest.mark.parametrize("force", [[0, 0, 1], lambda q: [q[0], q[1], 1.0]])
def test_force_of_wrong_shape(pendulum_with: Pendulum, force: Any) -> None:
    with refused(ModelError, "force", "3 components", "expected 2"):
        pendulum_with(force=force)


def test_force_with_ragged_entries(pendulum_with: Pendulum) -> None:
    with refused(ModelError, "force", "entry 0 has 2 components"):
        pendulum_with(force=lambda q: [q, q[0]])


def test_constraints_that_return_a_matrix(pendulum_with: Pendulum) -> None:
    with refused(ModelError, "constraints", "(2, 2)", "list"):
        pendulum_with(constraints=lambda q: np.outer(q, q))
    with refused(ModelError, "constraints", "'closure'", "(2, 2)", "list"):
        pendulum_with(constraints=lambda q: {"closure": np.outer(q, q)})
    with refused(ModelError, "constraints", "3 dimensions"):
        pendulum_with(constraints=lambda q: np.zeros((2, 2, 2)))


def test_constraint_names_used_twice(pendulum_with: Pendulum) -> None:
    with refused(ModelError, "constraints", "'c[0]'", "twice"):
        pendulum_with(constraints=lambda q: {"c": q, "c[0]": q[0]})


def test_unknown_argument_of_a_model_function(pendulum_with: Pendulum) -> None:
    with refused(ModelError, "force", "'velocity'", "t, q, v, a, r, w, s, lam, mu, p"):
        pendulum_with(force=lambda velocity: [0, 0])


def test_argument_that_a_function_may_not_ask_for(pendulum_with: Pendulum) -> None:
    with refused(ModelError, "constraints", "'v'", "velocities", "t, q, s, p"):
        pendulum_with(constraints=lambda q, v: [v[0]])


def test_arguments_without_a_name(pendulum_with: Pendulum) -> None:
    with refused(ModelError, "*everything", "name"):
        pendulum_with(force=lambda *everything: [0, 0])


def test_first_order_system_has_its_own_argument_names() -> None:
    with refused(ModelError, "'q'", "t, x, y, p"):
        da.Hessenberg(order=1, x=2, f=lambda q: q, g=lambda x: [x[0]])
    with refused(ModelError, "order=3", "1 and 2"):
        da.Hessenberg(order=3, x=2, f=lambda x: x, g=lambda x: [x[0]])


@pytest.mark.parametrize("ask", [lambda p: [0, p.foo], lambda p: [0, p["foo"]]])
def test_parameter_that_the_system_does_not_have(pendulum_with: Pendulum, ask: Any) -> None:
    with refused(ModelError, "'foo'", "m, g", "parameters="):
        pendulum_with(force=ask, parameters={"m": 1.0, "g": 9.81})


def test_parameter_that_is_no_number(pendulum_with: Pendulum) -> None:
    with refused(OptionError, "parameters", "'m'", "'heavy'", "number"):
        pendulum_with(parameters={"m": "heavy"})


def test_names_used_twice(pendulum_with: Pendulum) -> None:
    with refused(ModelError, "q:", "'x'", "twice"):
        pendulum_with(q=["x", "x"])


@pytest.mark.parametrize("q", [-1, 1.5, True])
def test_coordinates_that_are_neither_names_nor_a_count(pendulum_with: Pendulum, q: Any) -> None:
    with refused(ModelError, f"q={q}", "count", "names"):
        pendulum_with(q=q)


@pytest.mark.parametrize("part", [{"r": 1}, {"w": ["load"]}, {"contact": lambda q: [q[0]]}])
def test_variables_and_their_equations_belong_together(pendulum_with: Pendulum, part: dict[str, Any]) -> None:
    with refused(ModelError, "belong together", "both or neither"):
        pendulum_with(**part)


def test_constraint_force_without_constraints() -> None:
    with refused(ModelError, "constraint_force", "no constraints", "force"):
        da.System(q=1, mass=[1.0], constraint_force=lambda q: [q[0]])


def test_kinetic_energy_that_is_none() -> None:
    with refused(ModelError, "kinetic", "quadratic in v"):
        da.Lagrangian(q=1, kinetic=lambda v: v[0] ** 4)
    with refused(ModelError, "kinetic", "2 numbers", "one"):
        da.Lagrangian(q=2, kinetic=lambda v: v)
    with refused(ModelError, "kinetic", "'z'", "t, q, v, p"):
        da.Lagrangian(q=2, kinetic=lambda z: z)
    with refused(ModelError, "potential", "function"):
        da.Lagrangian(q=2, kinetic=lambda v: v @ v, potential=3.0)  # type: ignore[arg-type]


def test_untraceable_function_warns_and_runs_as_a_black_box(pendulum_with: Pendulum) -> None:
    with pytest.warns(BlackBoxWarning, match=r"force.*np\.where.*da\.black_box"):
        system = pendulum_with(force=lambda q: [0.0, -9.81 if q[1] < 5 else 0.0])
    assert system.black_boxes == ["force"]


def test_black_box_of_wrong_size(pendulum_with: Pendulum, attempt: Attempt) -> None:
    with refused(ModelError, "force", "3 numbers", "2 are expected"):
        attempt(system=pendulum_with(force=da.black_box(lambda q: [0, 0, 1])))
    with refused(ModelError, "constraints", "size=n"):
        pendulum_with(constraints=da.black_box(lambda q: 1 / 0))


@pytest.mark.parametrize("q", [0, [], da.spaces.Euclidean(0)])
def test_no_coordinates(q: Any) -> None:
    with refused(ModelError, "at least one coordinate", "q=1, mass=[1.0]"):
        da.System(q=q, mass=[], r=1, dynamics=lambda r: -r)
    resting = da.System(q=1, mass=[1.0], r=1, dynamics=lambda r: -r)
    sol = da.solve(resting, (0, 1), [0], r0=[1.0], rtol=1e-9, atol=1e-9)
    assert sol.r[-1, 0] == pytest.approx(np.exp(-1.0), rel=1e-8)


# ---------------------------------------------------------------------- mass and constraints at the start
def test_mass_not_symmetric(pendulum_with: Pendulum, attempt: Attempt) -> None:
    with refused(ModelError, "mass is not symmetric", "(x, y) is 0.5", "(y, x) is 0"):
        attempt(system=pendulum_with(mass=[[1, 0.5], [0, 1]]))


def test_mass_singular() -> None:
    system = da.System(q=["cart", "ghost", "bob"], mass=[1, 0, 2], force=[0, 1, 0])
    with refused(ModelError, "mass is singular", "ghost", "mass"):
        da.solve(system, (0, 1), q0=[0, 0, 0])


def test_mass_singular_names_no_innocent_coordinates() -> None:
    system = da.System(q=["cart", "a", "b"], mass=[[1, 0, 0], [0, 1, 1], [0, 1, 1]])
    with refused(ModelError, "no inertia along a, b"):
        da.solve(system, (0, 1), q0=[0, 0, 0])


def test_mass_singular_along_what_the_constraints_allow(pendulum_with: Pendulum, attempt: Attempt) -> None:
    with refused(ModelError, "mass is singular on the motions that the constraints allow", "along y"):
        attempt(system=pendulum_with(mass=[1, 0]))  # at (1, 0) only y may move


def test_mass_singular_but_regular_on_the_kernel() -> None:
    """A massless coordinate tied to a massive one: y = x, so that x'' = -x by the spring on y."""
    system = da.System(
        q=["x", "y"], mass=[1.0, 0.0], force=lambda q: [0.0, -q[1]], constraints=lambda q: {"tie": q[0] - q[1]}
    )
    sol = da.solve(system, (0, 3), q0=[1, 1], v0=[0, 0], rtol=1e-8, atol=1e-10)
    assert sol.success
    np.testing.assert_allclose(sol.q, np.cos(sol.t)[:, None] * [1, 1], atol=1e-6)
    np.testing.assert_allclose(sol.lam[:, 0], np.cos(sol.t), atol=1e-6)  # 0 = -y + lam


def test_redundant_constraints_are_named(pendulum_with: Pendulum, attempt: Attempt) -> None:
    system = pendulum_with(
        q=["x", "y", "z"], mass=[1, 1, 1], force=[0, 0, 0],
        constraints=lambda q: {"rod": q[:2] @ q[:2] - 1, "floor": q[2], "rod again": 2 * q[:2] @ q[:2] - 2},
    )  # fmt: skip
    with refused(RedundantError, "'rod', 'rod again' depend", "Remove 1"):
        attempt(system=system, q0=[1, 0, 0], v0=[0, 0, 0], redundant="refuse")


def test_redundant_constraints_are_counted(pendulum_with: Pendulum, attempt: Attempt) -> None:
    three = pendulum_with(constraints=lambda q: {"a": q[0] - 1, "b": q[1], "c": q[0] + q[1] - 1})
    with refused(RedundantError, "'a', 'b', 'c'", "Remove 1 of them"):
        attempt(system=three, redundant="refuse")
    four = pendulum_with(constraints=lambda q: {"a": q[0] - 1, "b": q[1], "c": q[0] + q[1] - 1, "d": q[0] - q[1] - 1})
    with refused(RedundantError, "Remove 2 of them"):
        attempt(system=four, redundant="refuse")


def test_velocity_constraint_that_repeats_a_constraint(pendulum_with: Pendulum, attempt: Attempt) -> None:
    with refused(RedundantError, "'rod', 'roll'", "Remove 1"):
        attempt(system=pendulum_with(velocity_constraints=lambda q, v: {"roll": 3 * (q @ v)}), redundant="refuse")


def test_velocity_constraints_that_repeat_each_other(pendulum_with: Pendulum, attempt: Attempt) -> None:
    system = pendulum_with(
        q=["x", "y", "z"], mass=[1, 1, 1], force=[0, 0, 0],
        velocity_constraints=lambda v: {"slide": v[2], "slide again": -v[2]},
    )  # fmt: skip
    with refused(RedundantError, "'slide', 'slide again'"):
        attempt(system=system, q0=[1, 0, 0], v0=[0, 0, 0], redundant="refuse")


@pytest.mark.parametrize("angle", [0.0, 0.7])
def test_constraint_with_zero_gradient(pendulum_with: Pendulum, attempt: Attempt, angle: float) -> None:
    """Also where rounding leaves a gradient of 1e-16 instead of zero."""
    system = pendulum_with(constraints=lambda q: {"distance": (q @ q - 1) ** 2})
    with refused(RedundantError, "'distance'", "zero gradient", "Rewrite or remove"):
        attempt(system=system, q0=[np.cos(angle), np.sin(angle)])


# ---------------------------------------------------------------------- consistency
def test_positions_off_the_constraints(attempt: Attempt) -> None:
    with refused(InconsistentError, "position constraint 'rod'", "residual 0.21", "initial='project'"):
        attempt(q0=[1.1, 0])


def test_velocities_off_the_constraints(attempt: Attempt) -> None:
    with refused(InconsistentError, "velocity form of constraint 'rod'", "residual 2", "initial='project'"):
        attempt(v0=[1, 0])


def test_velocities_off_the_velocity_constraints() -> None:
    system = da.System(q=["x", "y"], mass=[1, 1], velocity_constraints=lambda v: {"skate": v[1] - v[0]})
    with refused(InconsistentError, "velocity constraint 'skate'", "residual -1", "initial='project'"):
        da.solve(system, (0, 1), q0=[0, 0], v0=[1, 0])


def test_only_violated_constraints_are_listed(double_pendulum: da.System, double_start: Any) -> None:
    q0, v0 = double_start
    with pytest.raises(InconsistentError) as caught:
        da.solve(double_pendulum, (0, 1), q0=q0 + np.array([0, 0, 0.1, 0]), v0=v0)
    assert "'lower'" in str(caught.value)
    assert "position constraint 'upper'" not in str(caught.value)


def test_project_repairs_to_the_nearest_state(attempt: Attempt) -> None:
    sol = attempt(q0=[3, 4], v0=[1, 1], initial="project")
    np.testing.assert_allclose(sol.q[0], [0.6, 0.8], atol=1e-15)
    tangent = np.array([-0.8, 0.6])
    np.testing.assert_allclose(sol.v[0], (tangent @ [1, 1]) * tangent, atol=1e-15)


def test_assume_trusts(attempt: Attempt) -> None:
    sol = attempt(q0=[1.1, 0], v0=[0, 0], initial="assume", projection=None, max_steps=1)
    np.testing.assert_array_equal(sol.q[0], [1.1, 0])


def test_check_tolerates_what_atol_allows(attempt: Attempt) -> None:
    q0 = [1 + 1e-7, 0]
    with pytest.raises(InconsistentError):
        attempt(q0=q0, atol=1e-10)
    assert attempt(q0=q0, atol=1e-6, t_span=(0, 0.01)).success


def test_unknown_way_to_treat_initial_values(attempt: Attempt, plain: da.System) -> None:
    for call in (lambda: attempt(initial="guess"), lambda: da.consistent(plain, [1, 0], initial="guess")):  # type: ignore[arg-type]
        with refused(OptionError, "initial='guess'", "'check', 'project' or 'assume'"):
            call()


def test_contradicting_constraints(pendulum_with: Pendulum, attempt: Attempt) -> None:
    """Circles of radius 1 around (0, 0) and (3, 0) do not meet."""
    system = pendulum_with(constraints=lambda q: {"left": q @ q - 1, "right": (q[0] - 3) ** 2 + q[1] ** 2 - 1})
    with refused(InconsistentError, "no consistent state", "'left'", "better guess"):
        attempt(system=system, q0=[1.4, 0.5], initial="project")


# ---------------------------------------------------------------------- not finite at the start
@pytest.mark.parametrize(
    ("part", "function", "fragments"),
    [
        ("force", lambda q: [0, np.sqrt(q[0] - 5)], ["force", "nan", "(y)"]),
        ("force", lambda q: [1 / q[1], 0], ["force", "inf", "(x)"]),
        ("mass", lambda q: [1, np.log(q[0] - 5)], ["mass", "nan"]),
        ("constraints", lambda q: {"cable": np.log(q[0] - 5)}, ["constraints", "nan", "(cable)"]),
        ("velocity_constraints", lambda q, v: {"roll": v[0] + np.log(q[0] - 5)}, ["velocity_constraints", "(roll)"]),
    ],
)
def test_not_finite_at_the_start(
    pendulum_with: Pendulum, attempt: Attempt, part: str, function: Any, fragments: list[str]
) -> None:
    with refused(ModelError, *fragments, "t = 0", "initial values"):
        attempt(system=pendulum_with(**{part: function}))


def test_exception_at_the_start_is_raised_as_it_is(pendulum_with: Pendulum, attempt: Attempt) -> None:
    def force(q: np.ndarray) -> list[float]:
        raise RuntimeError("no table loaded")

    with pytest.raises(RuntimeError, match="no table loaded"):
        attempt(system=pendulum_with(force=da.black_box(force)))


# ---------------------------------------------------------------------- options of solve
def test_system_of_another_kind(attempt: Attempt) -> None:
    with refused(OptionError, "system", "str", "da.System"):
        attempt(system="pendulum")
    with refused(OptionError, "system", "int", "da.System"):
        da.consistent(3, [1, 0])  # type: ignore[arg-type]


@pytest.mark.parametrize("t_span", [1.0, (0, 1, 2), "ab", None, (0, "x")])
def test_time_span_that_is_none(attempt: Attempt, t_span: Any) -> None:
    with refused(OptionError, "t_span=", "(t0, t1)"):
        attempt(t_span=t_span)


def test_empty_time_span(attempt: Attempt) -> None:
    with refused(OptionError, "t_span=(1, 1)", "empty"):
        attempt(t_span=(1, 1))


@pytest.mark.parametrize("end", [np.nan, np.inf])
def test_time_span_not_finite(attempt: Attempt, end: float) -> None:
    with refused(OptionError, "t_span", str(end), "finite"):
        attempt(t_span=(0, end))


def test_time_span_reversed_runs_backwards(attempt: Attempt) -> None:
    there = attempt(rtol=1e-9, atol=1e-11)
    back = attempt(t_span=(1, 0), q0=there.q[-1], v0=there.v[-1], rtol=1e-9, atol=1e-11)
    assert back.success
    assert np.all(np.diff(back.t) < 0)
    np.testing.assert_allclose(back.q[-1], [1, 0], atol=1e-6)


@pytest.mark.parametrize("name", ["rtol", "atol"])
@pytest.mark.parametrize("value", [-1e-3, np.nan, np.inf, [1e-3, -1e-3, 1e-3, 1e-3]])
def test_tolerance_negative_or_not_finite(attempt: Attempt, name: str, value: Any) -> None:
    with refused(OptionError, f"{name}=", "finite and not negative"):
        attempt(**{name: value})


@pytest.mark.parametrize("name", ["rtol", "atol"])
def test_tolerance_of_wrong_shape(attempt: Attempt, name: str) -> None:
    with refused(OptionError, name, "(3,)", "4 numbers", "(q, v, r)"):
        attempt(**{name: [1e-3, 1e-3, 1e-3]})
    with refused(OptionError, f"{name}='tight'", "numbers"):
        attempt(**{name: "tight"})


def test_tolerances_both_zero(attempt: Attempt) -> None:
    with refused(OptionError, "rtol", "atol", "both zero"):
        attempt(rtol=0, atol=0)


@pytest.mark.parametrize("tolerances", [{"rtol": 1e-18, "atol": 0.0}, {"rtol": 0.0, "atol": 1e-30}])
def test_tolerances_too_small(attempt: Attempt, tolerances: dict[str, float]) -> None:
    named = [f"{name}={value:g}" for name, value in tolerances.items()]
    with refused(OptionError, *named, "floating point", "raise"):
        attempt(**tolerances)


def test_relative_tolerance_zero_is_fine(attempt: Attempt) -> None:
    assert attempt(rtol=0, atol=1e-6).success


def test_unknown_method(attempt: Attempt) -> None:
    with refused(OptionError, "method='rk4'", *da.methods()):
        attempt(method="rk4")
    with refused(OptionError, "method=", "without parentheses", "da.BDF()"):
        attempt(method=da.BDF)
    with refused(OptionError, "method=['bdf']", "da.methods()"):
        attempt(method=["bdf"])


def test_unknown_formulation(attempt: Attempt) -> None:
    with refused(OptionError, "formulation='index-9'", *da.formulations()):
        attempt(formulation="index-9")
    with refused(OptionError, "formulation=", "without parentheses"):
        attempt(formulation=da.Index1)


@pytest.mark.parametrize("projection", ["orthogonal", True, da.Projection])
def test_unknown_projection(attempt: Attempt, projection: Any) -> None:
    with refused(OptionError, f"projection={projection!r}", "'default', None or da.Projection"):
        attempt(projection=projection)


@pytest.mark.parametrize("order", [0, 7, 2.5, "5"])
def test_order_of_bdf(order: Any) -> None:
    with refused(OptionError, f"max_order={order!r}", "1 to 6"):
        da.BDF(max_order=order)


@pytest.mark.parametrize(
    ("options", "fragments"),
    [
        ({"coupling": "loose"}, ["coupling='loose'", "sequential, joint"]),
        ({"iteration": "newton"}, ["iteration='newton'", "gauss-newton, simplified"]),
        ({"error": "none"}, ["error='none'", "plain, projected"]),
        ({"levels": ("position", "jerk")}, ["levels", "'jerk'", "position, velocity"]),
        ({"weight": "inertia"}, ["weight='inertia'", "None, 'mass' or a matrix"]),
        ({"weight": np.ones((2, 3))}, ["weight", "square and symmetric"]),
        ({"weight": [[1, 2], [0, 1]]}, ["weight", "square and symmetric"]),
        ({"weight": [[1, 2], [2, 1]]}, ["weight", "positive definite"]),
        ({"weight": [1.0, 0.0]}, ["weight", "positive definite"]),
    ],
)
def test_options_of_the_projection(options: dict[str, Any], fragments: list[str]) -> None:
    with refused(OptionError, *fragments):
        da.Projection(**options)


def test_weight_of_wrong_size(attempt: Attempt) -> None:
    with refused(OptionError, "weight", "(3, 3)", "2 velocities"):
        attempt(projection=da.Projection(weight=np.eye(3)))


@pytest.mark.parametrize("h", [0, [0.5, 0.0, 0.5], np.nan, [], [[0.5, 0.5]]])
def test_step_size_that_is_none(attempt: Attempt, h: Any) -> None:
    with refused(OptionError, "h=", "step size", "not zero"):
        attempt(h=h)


def test_step_sizes_that_do_not_add_up(attempt: Attempt) -> None:
    with refused(OptionError, "h", "0.3", "1 long", "agree"):
        attempt(h=[0.1, 0.2])
    with refused(OptionError, "h='small'", "numbers"):
        attempt(h="small")


def test_output_times_unsorted(attempt: Attempt) -> None:
    with refused(OptionError, "t_eval", "sorted", "0.3 follows 0.5"):
        attempt(t_eval=[0, 0.5, 0.3])
    with refused(OptionError, "t_eval", "sorted", "0.5 follows 0.5"):
        attempt(t_eval=[0, 0.5, 0.5])
    with refused(OptionError, "t_eval", "sorted", "direction of t_span"):
        attempt(t_span=(1, 0), t_eval=[0, 0.5])


def test_output_times_outside(attempt: Attempt) -> None:
    with refused(OptionError, "t_eval", "within t_span", "2", "[0, 1]"):
        attempt(t_eval=[0, 2])


@pytest.mark.parametrize("t_eval", [[0, np.nan], [[0, 0.5]], "ab"])
def test_output_times_that_are_none(attempt: Attempt, t_eval: Any) -> None:
    with refused(OptionError, "t_eval", "give"):
        attempt(t_eval=t_eval)


@pytest.mark.parametrize("option", ["first_step", "max_step"])
@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, "x"])
def test_step_bounds(attempt: Attempt, option: str, value: Any) -> None:
    with refused(OptionError, f"{option}={value!r}", "positive"):
        attempt(**{option: value})


@pytest.mark.parametrize("value", [0, -3, 2.5, True])
def test_step_count_limit(attempt: Attempt, value: Any) -> None:
    with refused(OptionError, f"max_steps={value!r}", "positive whole number"):
        attempt(max_steps=value)


def test_unknown_parameter(pendulum_with: Pendulum, attempt: Attempt) -> None:
    system = pendulum_with(force=lambda p: [0, -p.g * p.d[0]], parameters={"g": 9.81, "d": [1.0, 2.0]})
    with refused(OptionError, "parameters", "'G'", "g, d"):
        attempt(system=system, parameters={"G": 1.0})
    with refused(OptionError, "parameters", "'d'", "shape ()", "(2,)"):
        attempt(system=system, parameters={"d": 1.0})
    with refused(OptionError, "parameters", "'g'", "'strong'", "number"):
        attempt(system=system, parameters={"g": "strong"})
    with refused(OptionError, "parameters", "'g'", "NaN"):
        attempt(system=system, parameters={"g": np.nan})


@pytest.mark.parametrize("t0", [np.nan, np.inf, "now"])
def test_time_of_a_consistent_state(plain: da.System, t0: Any) -> None:
    with refused(OptionError, "t0="):
        da.consistent(plain, [1, 0], t0=t0)


# ---------------------------------------------------------------------- events
def _event(**attributes: Any) -> Callable[..., Any]:
    def height(q: Any) -> Any:
        return q[1]

    height.__dict__.update(attributes)
    return height


def test_event_with_two_numbers(attempt: Attempt) -> None:
    with refused(OptionError, "event '<lambda>'", "2 numbers", "one"):
        attempt(events=lambda q: [q[0], q[1]])
    with refused(OptionError, "event '<lambda>'", "[1.0, 0.0]", "one"):
        attempt(events=lambda q: [float(q[0]), float(q[1])])


def test_event_without_a_number(attempt: Attempt) -> None:
    with refused(OptionError, "event '<lambda>'", "None", "one number"):
        attempt(events=lambda q: None)


def test_event_with_unknown_argument(attempt: Attempt) -> None:
    with refused(OptionError, "event '<lambda>'", "'height'", "t, q, v"):
        attempt(events=lambda height: height)


@pytest.mark.parametrize("events", [3, [3], [_event(), "height"]])
def test_events_that_are_no_functions(attempt: Attempt, events: Any) -> None:
    with refused(OptionError, "events", "function"):
        attempt(events=events)


@pytest.mark.parametrize("terminal", [-1, 0.5, "yes", None])
def test_bad_terminal(attempt: Attempt, terminal: Any) -> None:
    with refused(OptionError, "event 'height'", f"terminal={terminal!r}", "bool or a count"):
        attempt(events=_event(terminal=terminal))


@pytest.mark.parametrize("direction", ["up", None, np.nan])
def test_bad_direction(attempt: Attempt, direction: Any) -> None:
    with refused(OptionError, "event 'height'", f"direction={direction!r}", "+1, -1 or 0"):
        attempt(events=_event(direction=direction))


# ---------------------------------------------------------------------- failures half-way
def ended_early(sol: da.Solution, status: Status, before: float) -> str:
    """The run failed with ``status`` and kept a trajectory; returns its message."""
    assert not sol.success
    assert sol.status == status
    assert sol.t.size > 1
    assert 0 < sol.t[-1] <= before
    assert sol.q.shape == sol.v.shape == (sol.t.size, sol.q.shape[1])
    assert np.all(np.isfinite(sol.q))
    assert np.all(np.isfinite(sol.lam))
    reached = re.match(r"Stopped at t = (\S+) after \d+ steps\. ", sol.message)
    assert reached is not None
    assert sol.t[-1] <= float(reached[1]) + 1e-9 * before <= before * (1 + 2e-9)
    return sol.message


@pytest.mark.parametrize("how", [{}, {"h": 0.01}, {"t_eval": np.linspace(0, 1, 21)}])
def test_force_not_finite_half_way(pendulum_with: Pendulum, attempt: Attempt, how: dict[str, Any]) -> None:
    system = pendulum_with(force=lambda t: [0, -9.81 + 1e-3 * np.sqrt(0.5 - t)])
    message = ended_early(attempt(system=system, **how), Status.NOT_FINITE, 0.5)
    assert "force is nan in component 1 (y) at t = 0.5" in message


def test_constraint_not_finite_half_way(pendulum_with: Pendulum, attempt: Attempt) -> None:
    system = pendulum_with(constraints=lambda t, q: {"wire": q @ q - 1 + np.where(t > 0.5, np.inf, 0.0)})
    message = ended_early(attempt(system=system), Status.NOT_FINITE, 0.501)
    assert "constraints is inf in component 0 (wire)" in message


def test_dynamics_not_finite_half_way() -> None:
    system = da.System(q=1, mass=[1.0], r=["valve"], dynamics=lambda t: [np.log(0.5 - t)])
    message = ended_early(da.solve(system, (0, 1), q0=[0], r0=[0]), Status.NOT_FINITE, 0.501)
    # the logarithm is -inf at 0.5, where steps may end, and NaN behind
    assert "dynamics is nan" in message or "dynamics is -inf" in message


def test_step_limit(attempt: Attempt) -> None:
    sol = attempt(max_steps=4)
    message = ended_early(sol, Status.MAX_STEPS, 1.0)
    assert sol.stats.steps == 4
    assert sol.t.size == 5
    assert "after 4 steps" in message
    assert "Raise max_steps" in message


@pytest.mark.parametrize("formulation", ["index-1", "index-2", "index-3"])
def test_singularity_of_a_driven_mechanism(formulation: str) -> None:
    """Two rods of length 1 pulled out to their full reach, which their tip leaves at t = 1."""
    system = da.System(
        q=["x1", "y1", "x2", "y2"], mass=[1, 1, 1, 1], force=[0, -1, 0, -1],
        constraints=lambda t, q: {
            "upper": q[0] ** 2 + q[1] ** 2 - 1,
            "lower": (q[2] - q[0]) ** 2 + (q[3] - q[1]) ** 2 - 1,
            "tip_x": q[2] - 1 - t,
            "tip_y": q[3],
        },
    )  # fmt: skip
    sol = da.solve(system, (0, 2), q0=[0.5, -np.sqrt(0.75), 1, 0], initial="project", formulation=formulation)
    message = ended_early(sol, sol.status, 1.0 + 1e-6)
    causes = (Status.STEP_TOO_SMALL, Status.NEWTON_FAILED, Status.SINGULAR, Status.PROJECTION_FAILED)
    assert sol.status in (*causes, Status.MULTIPLIERS_FAILED)
    assert sol.t[-1] > 0.999
    assert "kinematic singularity" in message
    assert "'upper', 'lower'" in message
    assert "nearly dependent" in message


@pytest.mark.parametrize(
    ("name", "constraint", "q0", "v0", "end"),
    [
        ("shrinking circle", lambda t, q: q @ q - (1 - t), [1, 0], [-0.5, 0], 1.0),
        ("cusp", lambda q: q[1] ** 2 - q[0] ** 3, [1, 1], [0, 0], 2.22),
    ],
)
def test_singularity_of_a_vanishing_gradient(name: str, constraint: Any, q0: Any, v0: Any, end: float) -> None:
    def constraints(t: Any, q: Any) -> dict[str, Any]:
        return {name: constraint(t, q) if constraint.__code__.co_argcount == 2 else constraint(q)}

    system = da.System(q=["x", "y"], mass=[1, 1], force=[-1.0, 0], constraints=constraints)
    sol = da.solve(system, (0, 5), q0=q0, v0=v0)
    message = ended_early(sol, sol.status, end + 1e-6)
    assert "kinematic singularity" in message
    assert f"gradient of the constraint {name!r} nearly vanishes" in message


@pytest.mark.parametrize("how", [{}, {"h": 0.01}, {"t_eval": np.linspace(0, 1, 11)}])
def test_exception_in_a_black_box_half_way(pendulum_with: Pendulum, attempt: Attempt, how: dict[str, Any]) -> None:
    def force(t: float, q: np.ndarray) -> list[float]:
        if t > 0.5:
            raise KeyError("the table ends at 0.5")
        return [0.0, -9.81]

    sol = attempt(system=pendulum_with(force=da.black_box(force)), **how)
    message = ended_early(sol, Status.USER_ERROR, 0.5)
    assert "KeyError" in message
    assert "the table ends at 0.5" in message
    np.testing.assert_allclose(sol.drift.position, 0, atol=1e-14)


def test_black_box_survives_an_exception(pendulum_with: Pendulum, attempt: Attempt) -> None:
    """The same system runs again, without the old exception."""
    broken = True

    def force(t: float) -> list[float]:
        if broken and t > 0.1:
            raise RuntimeError("out of order")
        return [0.0, -9.81]

    system = pendulum_with(force=da.black_box(force))
    assert attempt(system=system, t_span=(0, 0.2)).status == Status.USER_ERROR
    broken = False
    assert attempt(system=system, t_span=(0, 0.2)).success


def test_exception_in_an_event_half_way(attempt: Attempt) -> None:
    def alarm(t: Any, q: Any) -> float:
        if float(t) > 0.5:
            raise RuntimeError("the bell is broken")
        return 1.0

    sol = attempt(events=alarm)
    assert not sol.success
    assert sol.status == Status.USER_ERROR
    assert "the bell is broken" in sol.message


def test_exception_in_an_event_stops_the_run(attempt: Attempt) -> None:
    def alarm(t: Any, q: Any) -> float:
        if float(t) > 0.5:
            raise RuntimeError("the bell is broken")
        return 1.0

    assert attempt(events=alarm).t[-1] < 0.6


def test_interrupt_in_a_black_box_returns_what_there_is(pendulum_with: Pendulum, attempt: Attempt) -> None:
    calls = 0

    def force(q: np.ndarray) -> list[float]:
        nonlocal calls
        calls += 1
        if calls > 2000:
            raise KeyboardInterrupt
        return [0.0, -9.81]

    message = ended_early(attempt(system=pendulum_with(force=da.black_box(force))), Status.INTERRUPTED, 1.0)
    assert "Interrupted" in message


@pytest.mark.parametrize("force", [[0.0, -9.81], da.black_box(lambda q: [0.0, -9.81])], ids=["compiled", "black box"])
def test_interrupt_by_signal_returns_what_there_is(pendulum_with: Pendulum, attempt: Attempt, force: Any) -> None:
    system = pendulum_with(force=force)
    run = {"system": system, "t_span": (0, 1e5), "rtol": 1e-9, "atol": 1e-11}
    short = {**run, "t_span": (0, 10)}
    for _ in range(2):  # compile first, also what only a second run needs: a signal in a compiler is none in a run
        attempt(**short)
    main, over = threading.main_thread().ident, threading.Event()

    def under_way() -> bool:
        frame = sys._current_frames().get(main) if main is not None else None
        while frame is not None:
            if frame.f_code is Slices.go_on.__code__:
                return True
            frame = frame.f_back
        return False

    def interrupt() -> None:
        while not over.wait(0.01):
            if under_way():
                os.kill(os.getpid(), signal.SIGINT)
                return

    thread = threading.Thread(target=interrupt)
    thread.start()
    sol = attempt(**run)
    over.set()
    thread.join()
    ended_early(sol, Status.INTERRUPTED, 1e5)
