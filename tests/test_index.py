"""Index analysis: the examples of Wunderlich (2005) and Kunkel & Mehrmann, canonical forms, mechanical formulations."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import block_diag

import dalembert as da
from dalembert.analysis import condensed
from dalembert.analysis.index import LinearDAE, LinearDAE2, consistency, index, order_reduction, strangeness
from dalembert.analysis.ranks import Ranks
from dalembert.status import ModelError, OptionError

# Wunderlich (2005), Example 3.2.1
EXAMPLE = LinearDAE2(M=[[1, 0], [0, 0]], D=[[1, 0], [0, 0]], K=[[0, 1], [1, 0]])


def summary(found):
    return (
        found.strangeness_index, found.differentiation_index, found.degrees_of_freedom, found.algebraic,
        found.undetermined, found.conditions,
    )  # fmt: skip


# ---------------------------------------------------------------------- linear, first order
def test_linear_example_2_1_3_has_differentiation_index_3():
    found = strangeness(LinearDAE(E=np.eye(3, k=1), A=-np.eye(3)))
    assert (found.strangeness_index, found.differentiation_index) == (2, 3)
    assert [(q.r, q.a, q.s) for q in found.steps] == [(2, 0, 1), (1, 1, 1), (0, 3, 0)]


def test_ordinary_differential_equation_has_index_0():
    found = strangeness(LinearDAE(E=[[2, 1], [0, 1]], A=[[0, 1], [-1, 0]]))
    assert summary(found) == (0, 0, 2, 0, 0, 0)


def test_algebraic_equations_have_differentiation_index_1():
    assert summary(strangeness(LinearDAE(E=np.zeros((2, 2)), A=np.eye(2)))) == (0, 1, 0, 2, 0, 0)


@pytest.mark.parametrize("t", [-1.3, 0.0, 0.7])
def test_kunkel_mehrmann_regular_pencil_without_unique_solution(t):
    """Kunkel and Mehrmann: det(lambda E - A) = 1 at every t, yet x = c(t) (t, 1) solves E x' = A x for any c."""
    found = strangeness(LinearDAE(E=lambda t: [[-t, t**2], [-1, t]], A=-np.eye(2)), t)
    assert found.strangeness_index == 1
    assert (found.undetermined, found.conditions, found.differentiation_index) == (1, 1, None)


@pytest.mark.parametrize("t", [-1.3, 0.0, 0.7])
def test_kunkel_mehrmann_singular_pencil_with_unique_solution(t):
    """A pair of Kunkel and Mehrmann: det(lambda E - A) = 0 at every t, yet the solution is unique."""
    found = strangeness(LinearDAE(E=lambda t: [[0, 0], [1, -t]], A=lambda t: [[-1, t], [0, 0]]), t)
    assert summary(found) == (1, 2, 0, 2, 0, 0)


def canonical(rng, nilpotent, differential, under, over):
    """Kronecker form with blocks of the sizes given, in general position."""
    blocks = [(np.eye(differential), rng.normal(size=(differential, differential)))]
    blocks += [(np.eye(k, k=1), np.eye(k)) for k in nilpotent]
    blocks += [(np.eye(k, k + 1, k=1), np.eye(k, k + 1)) for k in under]
    blocks += [(np.eye(k, k + 1, k=1).T, np.eye(k, k + 1).T) for k in over]
    E, A = (block_diag(*part) for part in zip(*blocks, strict=True))
    P, Q = (np.linalg.qr(rng.normal(size=(k, k)))[0] @ np.diag(rng.uniform(0.5, 2, k)) for k in E.shape)
    return LinearDAE(P @ E @ Q, P @ A @ Q)


KRONECKER = [
    ((1,), 2, (), ()), ((2,), 1, (), ()), ((3, 1), 2, (), ()), ((4, 2), 0, (), ()), ((), 3, (1,), ()),
    ((2,), 1, (2,), ()), ((1,), 1, (), (2,)), ((3,), 1, (0,), (1,)), ((), 0, (1, 2), (0, 3)),
]  # fmt: skip


@pytest.mark.parametrize(("nilpotent", "differential", "under", "over"), KRONECKER)
def test_strangeness_of_kronecker_forms(nilpotent, differential, under, over):
    """The index is that of the largest nilpotent or overdetermined block; both ways of computing agree."""
    system = canonical(np.random.default_rng(5), nilpotent, differential, under, over)
    by_reduction = strangeness(system)
    by_array = condensed._variable(system, 0.0, Ranks(), None)
    assert by_reduction.strangeness_index == max([k - 1 for k in nilpotent] + list(over), default=0)
    assert (by_reduction.undetermined, by_reduction.conditions) == (len(under), len(over))
    assert by_reduction.degrees_of_freedom == differential + sum(under)
    assert summary(by_array) == summary(by_reduction)
    assert by_reduction.margin > 1e3


def test_variable_transformation_keeps_the_index():
    """x = Q(t) y and multiplication by P(t) turn a constant system into a variable one of the same quantities."""
    E, A = np.eye(3, k=1), -np.eye(3)

    def Q(t):
        c, s = np.cos(t), np.sin(t)
        return np.array([[c, s, 0], [-s, c, t], [0, 0, 1]])

    def Q_dot(t):
        c, s = np.cos(t), np.sin(t)
        return np.array([[-s, c, 0], [-c, -s, 1], [0, 0, 0]])

    def P(t):
        return np.array([[1, t, 0], [0, 1, 0], [t**2, 0, 1]])

    system = LinearDAE(lambda t: P(t) @ E @ Q(t), lambda t: P(t) @ (A @ Q(t) - E @ Q_dot(t)))
    assert not system.constant
    assert summary(strangeness(system, 0.4)) == summary(strangeness(LinearDAE(E, A)))


# ---------------------------------------------------------------------- linear, second order
def test_example_3_2_2_second_order_system_has_strangeness_index_2():
    found = strangeness(EXAMPLE)
    assert found.strangeness_index == 2
    assert [(q.s02, q.s01, q.a) for q in found.steps] == [(1, 0, 0), (0, 1, 0), (0, 0, 2)]
    assert (found.degrees_of_freedom, found.undetermined, found.conditions) == (0, 0, 0)


def test_example_3_2_1_classical_order_reduction():
    first = order_reduction(EXAMPLE, "all")
    E, A = first.at(0.0)
    assert E.tolist() == np.diag([1, 0, 1, 1])[[0, 1, 2, 3]].tolist()  # (3.11)
    assert (-A).tolist() == [[1, 0, 0, 1], [0, 0, 1, 0], [-1, 0, 0, 0], [0, -1, 0, 0]]
    assert strangeness(first).strangeness_index == 3  # larger by one than that of the second-order system


def test_example_3_2_1_only_the_derivative_that_is_needed():
    for which in ("needed", [0]):
        assert strangeness(order_reduction(EXAMPLE, which)).strangeness_index == 2


def test_remark_3_2_3_derivatives_of_multipliers_make_the_index_4():
    """Two masses and a rod-like constraint: d-index 3, or 4 if lam' becomes an unknown."""
    G = np.array([[1.0, -1.0]])
    M = block_diag(np.eye(2), 0.0)
    K = np.block([[np.diag([2.0, 3.0]), G.T], [G, np.zeros((1, 1))]])
    system = LinearDAE2(M, np.zeros((3, 3)), K)
    found = strangeness(system)
    assert (found.strangeness_index, found.differentiation_index, found.degrees_of_freedom) == (1, 3, 2)
    assert strangeness(order_reduction(system, "all")).differentiation_index == 4


@pytest.mark.parametrize(
    ("M", "D", "K", "names"),
    [
        ([[1, 0], [0, 0]], [[0, 0], [1, 0]], [[0, 1], [0, 1]], {"s12": 1}),
        ([[1, 0], [0, 0]], [[0, 0], [0, 0]], [[0, 1], [1, 0]], {"s02": 1}),
        ([[0, 0], [0, 0]], [[1, 0], [0, 0]], [[0, 1], [1, 0]], {"s01": 1}),
        (np.diag([1, 0, 0]), [[0, 0, 0], [1, 0, 0], [0, 0, 0]], [[0, 1, 0], [0, 0, 1], [1, 0, 0]], {"s012": 1}),
        (np.diag([1, 0, 0]), np.diag([0, 1, 0]), np.diag([1, 1, 1]), {"d2": 1, "d1": 1, "a": 1}),
        ([[1, 0, 0]], [[0, 1, 0]], [[0, 0, 1]], {"d2": 1, "u": 2}),
        ([[1], [0]], [[0], [0]], [[1], [0]], {"d2": 1, "v": 1}),
    ],
)
def test_second_order_quantities(M, D, K, names):
    """One system for each part of the condensed form (3.2); what is not named, apart from r and u, is zero."""
    first = strangeness(LinearDAE2(M, D, K)).steps[0]
    for name in ("s012", "s12", "s02", "s01", "d2", "d1", "a", "v"):
        assert getattr(first, name) == names.get(name, 0), name
    assert first.u == names.get("u", first.u)


def test_second_order_free_initial_values_do_not_depend_on_the_order_reduction():
    rng = np.random.default_rng(3)
    regular = 0
    for _ in range(60):
        n = int(rng.integers(2, 5))
        M, D, K = ((rng.random((n, n)) < p) * rng.integers(-2, 3, (n, n)) for p in (0.25, 0.25, 0.5))
        M[-1] = D[-1] = 0
        system = LinearDAE2(M, D, K)
        second, first = strangeness(system), strangeness(order_reduction(system, "all"))
        assert (second.undetermined, second.conditions) == (first.undetermined, first.conditions)
        if not second.undetermined:
            regular += 1
            assert second.degrees_of_freedom == first.degrees_of_freedom
    assert regular > 5


def test_second_order_variable_coefficients():
    """Mechanics with a turning constraint: differentiation index 3 at every instant."""

    def K(t):
        c, s = np.cos(t), np.sin(t)
        return [[1, 0, c], [0, 1, s], [c, s, 0]]

    found = strangeness(LinearDAE2(np.diag([1, 2, 0]), np.zeros((3, 3)), K), 0.3)
    assert (found.differentiation_index, found.degrees_of_freedom, found.strangeness_index) == (3, 2, None)
    assert found.steps[0].s02 == 1


def test_linear_bad_input():
    with pytest.raises(ModelError, match="differ in shape"):
        LinearDAE(np.eye(2), np.eye(3))
    with pytest.raises(ModelError, match="expected a matrix"):
        LinearDAE([1.0, 2.0], np.eye(2))
    with pytest.raises(OptionError, match="component 0 has a second derivative"):
        order_reduction(EXAMPLE, [1])
    with pytest.raises(OptionError, match="no component 7"):
        order_reduction(EXAMPLE, [0, 7])
    with pytest.raises(OptionError, match="'needed', 'all'"):
        order_reduction(EXAMPLE, "some")
    with pytest.raises(OptionError, match="LinearDAE"):
        strangeness(np.eye(2))  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="not finite"):
        strangeness(LinearDAE(lambda t: [[t**0.5]], [[1.0]]), 0.0)


# ---------------------------------------------------------------------- mechanical systems
FORMULATIONS = [
    ("index-3", 3), ("index-2", 2), ("index-1", 1), ("stabilized-index-2", 2), ("baumgarte", 1), ("state-space", 1),
    ("underlying-ode", 0), ("projected-invariants", 2),
]  # fmt: skip


@pytest.mark.parametrize(("formulation", "expected"), FORMULATIONS)
@pytest.mark.parametrize("name", ["pendulum", "double-pendulum", "four-bar"])
def test_index_of_formulations(name, formulation, expected):
    problem = da.problems()[name]
    found = index(problem.system, problem.q0, problem.v0, formulation=formulation, **problem.options)
    assert found.differentiation_index == expected
    assert found.strangeness_index == max(expected - 1, 0)
    assert (found.undetermined, found.conditions) == (0, 0)
    assert found.regular
    assert found.margin > 100
    nv, nlam = problem.system.nv, problem.system.nlam
    free = {"index-2": 2 * nv - nlam, "index-1": 2 * nv, "baumgarte": 2 * nv, "underlying-ode": 2 * nv}
    assert found.degrees_of_freedom == free.get(formulation, 2 * (nv - nlam))


@pytest.mark.parametrize(("formulation", "expected"), FORMULATIONS[:3])
def test_index_of_the_truck(formulation, expected):
    problem = da.problems()["truck"]
    found = index(problem.system, problem.q0, problem.v0, formulation=formulation)
    assert (found.differentiation_index, found.strangeness_index) == (expected, expected - 1)


@pytest.mark.parametrize(
    ("name", "expected", "free"),
    [
        ("free-oscillator", 0, 2), ("double-pendulum-angles", 0, 4), ("auxiliary", 1, 4), ("knife-edge", 2, 5),
        ("rolling-disc", 2, 6), ("ascher-petzold-1", 2, 1), ("ascher-petzold-3", 3, 2), ("contact-point", 3, 2),
        ("moving-pivot", 3, 2), ("slider-crank", 3, 2), ("car-axis", 3, 4),
    ],
)  # fmt: skip
def test_index_as_written(name, expected, free):
    problem = da.problems()[name]
    found = index(problem.system, problem.q0, problem.v0, problem.t_span[0], **problem.options)
    assert (found.differentiation_index, found.degrees_of_freedom) == (expected, free)


@pytest.fixture(scope="module")
def paraboloid():
    """Wunderlich (2005), Example 7.2.2: a particle on a paraboloid."""
    return da.System(
        q=3, mass=[1, 1, 1], force=[0, 0, -1], constraints=lambda q: {"surface": q[2] - q[0] ** 2 - q[1] ** 2}
    )


def test_example_7_2_2(paraboloid):
    found = index(paraboloid, [0.5, 0.3, 0.34], [0.2, -0.1, 0.14])
    assert (found.differentiation_index, found.strangeness_index) == (3, 2)
    assert (found.degrees_of_freedom, found.algebraic) == (4, 3)  # (7.32), (7.33) and (7.34)


def test_redundant_constraints_leave_multipliers_undetermined(pendulum_with):
    twice = pendulum_with(constraints=lambda q: [q[0] ** 2 + q[1] ** 2 - 1, 3 * q[0] ** 2 + 3 * q[1] ** 2 - 3])
    found = index(twice, [1, 0], [0, 0.3])
    assert found.differentiation_index is None
    assert (found.strangeness_index, found.undetermined, found.conditions) == (2, 1, 1)


def test_index_needs_more_differentiations_than_allowed(pendulum):
    found = index(pendulum.system, pendulum.q0, pendulum.v0, max_index=1)
    assert (found.differentiation_index, found.strangeness_index) == (None, None)
    assert len(found.levels) == 2


def test_index_agrees_with_the_linear_theory():
    """A linear spring-mass system with a constraint, as a System and as matrices."""
    G, K = np.array([[1.0, 2.0, -1.0]]), np.diag([1.0, 4.0, 2.0])
    system = da.System(q=3, mass=[1, 2, 3], force=lambda q: -K @ q, constraints=lambda q: G @ q)
    triple = LinearDAE2(
        block_diag(np.diag([1.0, 2.0, 3.0]), 0.0), np.zeros((4, 4)), np.block([[K, G.T], [G, np.zeros((1, 1))]])
    )
    linear = strangeness(order_reduction(triple))
    found = index(system, [1, 0, 1], [0, 0, 0])
    assert found.differentiation_index == linear.differentiation_index == 3
    assert found.degrees_of_freedom == linear.degrees_of_freedom == 4


def test_index_bad_input(pendulum, pendulum_with):
    with pytest.raises(OptionError, match="not known"):
        index(pendulum.system, pendulum.q0, pendulum.v0, formulation="index-7")
    with pytest.raises(OptionError, match="q0 is missing"):
        index(pendulum.system)
    with pytest.raises(OptionError, match="q0 has shape"):
        index(pendulum.system, [1.0], [0.0, 0.0])
    with pytest.raises(OptionError, match="x0 is not an initial value"):
        index(pendulum.system, [1.0, 0.0], [0.0, 0.0], x0=3)
    with pytest.raises(OptionError, match="black box"):
        index(pendulum_with(force=da.black_box(lambda q: [0.0, -9.81])), [1, 0], [0, 0])
    with pytest.raises(ValueError, match="no consistent point"):
        index(pendulum_with(constraints=lambda q: [q[0] ** 2 + q[1] ** 2 + 1]), [1, 0], [0, 0])


# ---------------------------------------------------------------------- consistency
def test_consistency_names_the_hidden_constraint(pendulum):
    system = pendulum.system
    assert consistency(system, [1, 0], [0, 2]).consistent
    assert consistency(system, [1, 0], [0.5, 2]).violated == ("rod'",)
    moved = consistency(system, [2, 0], [0.5, 2])
    assert moved.violated == ("rod", "rod'")
    assert moved.residuals["rod"] == pytest.approx(1.5)
    assert moved.residuals["rod'"] == pytest.approx(1.0)


def test_consistency_of_multipliers(pendulum):
    """lam = v^2 - g y; a wrong one violates the constraint at acceleration level."""
    assert consistency(pendulum.system, [1, 0], [0, 2], lam0=[4.0]).consistent
    wrong = consistency(pendulum.system, [1, 0], [0, 2], lam0=[5.0])
    assert wrong.violated == ("rod''",)
    assert wrong.residuals["rod''"] == pytest.approx(-1.0)


def test_consistency_of_velocity_constraints():
    problem = da.problems()["knife-edge"]
    assert consistency(problem.system, problem.q0, problem.v0).consistent
    sideways = np.add(problem.v0, [0.3, 0.7, 0.0])
    assert consistency(problem.system, problem.q0, sideways).violated == problem.system.names["velocity_constraints"]


def test_all_problems_start_consistently():
    for name, problem in da.problems().items():
        if problem.system.calls:
            continue
        found = consistency(
            problem.system, problem.q0, problem.v0, problem.t_span[0], tolerance=1e-6, **problem.options
        )
        assert found.consistent, (name, found.violated)
