"""General linear methods: coefficients are checked, known methods are contained, orders on index 3 are as expected.

Expected on index 3 with stage order k+s-1 (k steps, s stages): v of that order and lam one less [Schneider 1997, in
Wunderlich 2005, theorem A.0.11]; q superconvergent of order k+2s-2 as Radau IIA, which is the case k = 1.
"""

from __future__ import annotations

from typing import Any

import casadi as ca
import numpy as np
import pytest

import dalembert as da
from dalembert.integrators.powers import power_bounded, spectral_radius
from dalembert.integrators.tableaus import collocate, gauss_nodes, radau_iia
from dalembert.runtime import run
from dalembert.runtime.assemble import assemble, make_layout
from dalembert.runtime.start import initial_row
from dalembert.status import OptionError

glm = da.glm
CIRCLE, EXAMPLE = "particle-on-circle", "particle-8.1.1"  # Wunderlich 2.4.7 and 8.1.1


def solve(name: str, tableau: Any, n: int, span: float = 0.5, **options: Any) -> da.Solution:
    problem = da.problems()[name]
    t0 = problem.t_span[0]
    method = tableau if isinstance(tableau, da.integrators.Integrator) else da.GeneralLinear(tableau)
    sol = da.solve(problem.system, (t0, t0 + span), problem.q0, problem.v0, method=method, h=span / n, **options)
    assert sol.success, sol.message
    return sol


def errors(name: str, *given: Any, **options: Any) -> dict[str, float]:
    sol = solve(name, *given, **options)
    exact = da.problems()[name].reference(sol.t)
    return {what: float(np.abs(getattr(sol, what) - exact[what]).max()) for what in ("q", "v", "lam")}


def check_orders(name: str, tableau: Any, n: tuple[int, int], expected: Any, **options: Any) -> None:
    coarse, fine = (errors(name, tableau, m, **options) for m in n)
    for what, order in zip(("q", "v", "lam"), expected, strict=True):
        if order is not None:  # None: the error is that of the starting values
            slope = np.log(coarse[what] / fine[what]) / np.log(n[1] / n[0])
            assert abs(slope - order) < 0.15, (what, slope, coarse, fine)


def differences(a: da.Solution, b: da.Solution) -> dict[str, float]:
    assert np.array_equal(a.t, b.t)
    return {what: float(np.abs(getattr(a, what) - getattr(b, what)).max()) for what in ("q", "v", "lam")}


def at_rounding_level(found: dict[str, float], h: float) -> None:
    """What Newton leaves of q (magnitude 1) over some steps, divided by h for v and by h^2 for lam."""
    for what, power in (("q", 0), ("v", 1), ("lam", 2)):
        assert found[what] < 1e-12 / h**power, (what, found)


@pytest.fixture
def exact_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Starting rows that do not depend on who makes them: the exact solution."""
    original = run.Starter.run

    def replaced(self: Any, row: Any, layout: Any, options: Any) -> Any:
        result = original(self, row, layout, options)
        exact = da.problems()[self.work.assembly.system.name].reference(result.t)
        for what in ("q", "v", "lam"):
            result.rows[:, layout.slice(what)] = exact[what]
        return result

    monkeypatch.setattr(run.Starter, "run", replaced)


# ---------------------------------------------------------------------- known methods are contained
@pytest.mark.parametrize("name", [CIRCLE, EXAMPLE])
@pytest.mark.parametrize("s", [2, 3])  # one stage is refused on index 3
def test_runge_kutta_is_contained(name: str, s: int) -> None:
    radau = radau_iia(s)
    tableau = glm.from_runge_kutta(radau.A, radau.b, radau.c)
    assert tableau.order == s
    plain = solve(name, da.Radau(s), 20, projection=None)
    at_rounding_level(differences(solve(name, tableau, 20), plain), 0.5 / 20)
    steps = np.tile([0.01, 0.04], 10)  # a one-step method bears any steps
    problem = da.problems()[name]
    t0 = problem.t_span[0]
    a, b = (
        da.solve(problem.system, (t0, t0 + 0.5), problem.q0, problem.v0, method=m, h=steps, projection=None)
        for m in (da.GeneralLinear(tableau), da.Radau(s))
    )
    at_rounding_level(differences(a, b), 0.01)


@pytest.mark.parametrize("name", [CIRCLE, EXAMPLE])
@pytest.mark.parametrize("k", [1, 2, 3, 4, 5])
def test_bdf_is_contained(exact_start: None, name: str, k: int) -> None:
    """Applied twice it is BDF on the first-order form, as interpolant it is modified BDF."""
    twice = solve(name, glm.from_bdf(k), 25)
    at_rounding_level(differences(twice, solve(name, da.BDF(k), 25, formulation="index-3")), 0.02)
    interpolant = solve(name, glm.from_bdf(k, form="interpolant"), 25)
    at_rounding_level(differences(interpolant, solve(name, da.ModifiedBDF(k), 25)), 0.02)
    assert max(differences(twice, interpolant).values()) > 1e-9  # two different methods


def test_bdf_on_index_1_is_contained(exact_start: None) -> None:
    """With projection: what the next step sees are projected values."""
    ours = solve(CIRCLE, glm.from_bdf(3), 25, formulation="index-1")
    theirs = solve(CIRCLE, da.BDF(3), 25, formulation="index-1")
    assert max(differences(ours, theirs).values()) < 1e-11
    assert ours.drift.largest["velocity"] < 1e-13


def test_multistep_radau_lies_between_bdf_and_radau() -> None:
    for k in range(1, 6):
        np.testing.assert_allclose(glm.multistep_radau(k, 1).y_past, glm.from_bdf(k).y_past, atol=1e-13)
    for s in range(1, 4):
        radau = radau_iia(s)
        ours = glm.multistep_radau(1, s)
        np.testing.assert_allclose(ours.q_stages, radau.A @ radau.A, atol=1e-13)
        np.testing.assert_allclose(ours.v_stages, radau.A, atol=1e-13)
    # order k+2s-2 of the quadrature for v at the end
    tableau = glm.multistep_radau(2, 2)
    assert abs(tableau.residuals(5)["v"][-1]) < 1e-13
    assert abs(tableau.residuals(6)["v"][-1]) > 1e-4


def test_two_step_two_stage_radau() -> None:
    """Its formula for v at the end, built anew from c, is exact for v = t^4."""
    c = glm.multistep_radau(2, 2).c
    past = np.vander([0.0, -1.0], 4, increasing=True)
    slopes = [[m * x ** (m - 1) if m else 0.0 for m in range(4)] for x in c]
    weights = np.linalg.solve(np.vstack([past, slopes]).T, np.ones(4))
    fourth = np.array([0.0, 1.0, 4 * c[0] ** 3, 4.0])
    assert weights @ fourth == pytest.approx(1.0, abs=1e-13)


# ---------------------------------------------------------------------- new methods
@pytest.mark.parametrize(
    ("name", "k", "s", "n", "expected"),
    [
        (CIRCLE, 2, 2, (40, 80), (4, 3, 2)),
        (CIRCLE, 3, 2, (20, 40), (5, 4, 3)),
        (CIRCLE, 2, 3, (20, 40), (None, 4, 3)),
        (EXAMPLE, 2, 2, (40, 80), (4, 3, 2)),
        (EXAMPLE, 3, 2, (20, 40), (None, 5, 4)),  # one more than in general
        (EXAMPLE, 2, 3, (10, 20), (None, 5, 4)),
    ],
)
def test_order_of_multistep_radau(name: str, k: int, s: int, n: tuple[int, int], expected: Any) -> None:
    check_orders(name, glm.multistep_radau(k, s), n, expected)


@pytest.mark.parametrize("name", [CIRCLE, EXAMPLE])
def test_order_of_collocation_on_positions(name: str) -> None:
    """Past positions only, two stages: lam has the order of q, as for the interpolant."""
    tableau = glm.second_order_collocation([(0, 0), (0, -1), (0, -2)], [1 / 3, 1])
    assert tableau.order == 3
    check_orders(name, tableau, (40, 80), (3, 3, 3))


def test_past_values_between_grid_points() -> None:
    check_orders(CIRCLE, glm.second_order_collocation([(0, 0), (0, -0.5)], [0.5, 1]), (40, 80), (2, 2, 2))


def test_past_accelerations_on_index_1() -> None:
    """Adams-Moulton with two past accelerations: zero-stable, but not for index 3, and that is said."""
    adams = glm.second_order_collocation([(0, 0), (1, 0), (2, 0), (2, -1)], [1.0])
    np.testing.assert_allclose(adams.v_past[0], [0, 1, 8 / 12, -1 / 12], atol=1e-13)
    check_orders(CIRCLE, adams, (40, 80), (3, 3, 3), formulation="index-1")
    with pytest.raises(OptionError, match=r"not strictly stable at infinity: spectral radius 5\.34.*index-1"):
        solve(CIRCLE, adams, 40)


def test_positions_stay_on_the_constraint() -> None:
    problem = da.problems()["pendulum"]
    sol = da.solve(problem.system, (0, 20), problem.q0, problem.v0, method="general-linear", h=0.01)
    assert sol.success
    assert sol.drift.largest["position"] < 1e-13
    assert np.abs(sol.q - problem.reference(sol.t)["q"]).max() < 2e-4


@pytest.mark.parametrize("name", ["spring-damper-series", "auxiliary", "contact-point", "knife-edge", "rolling-disc"])
@pytest.mark.parametrize("formulation", ["index-1", "index-3"])
def test_all_kinds_of_variables(name: str, formulation: str) -> None:
    """Dynamic states, auxiliary variables, contact coordinates, nonholonomic constraints: third order in q and v."""
    problem = da.problems()[name]
    start = problem.options
    t0, end = problem.t_span[0], problem.t_span[0] + 1.0
    exact = da.solve(problem.system, (t0, end), problem.q0, problem.v0, rtol=1e-11, atol=1e-12, **start)
    found = []
    # the strongly curved bowl wants smaller steps for Newton's method
    for n in (160, 320) if name == "contact-point" else (40, 80):
        sol = da.solve(
            problem.system, (t0, end), problem.q0, problem.v0, method=da.GeneralLinear(), formulation=formulation,
            h=1.0 / n, **start,
        )  # fmt: skip
        assert sol.success, sol.message
        found.append(max(np.abs(sol.q[-1] - exact.q[-1]).max(), np.abs(sol.r[-1] - exact.r[-1]).max(initial=0.0)))
    assert found[1] < max(found[0] / 7.0, 1e-10), found


def test_backwards_and_with_output_times() -> None:
    problem = da.problems()[EXAMPLE]
    end = problem.reference(1.0)
    times = np.linspace(1.0, 0.0, 21)
    sol = da.solve(
        problem.system, (1, 0), end["q"], end["v"], method="general-linear", h=0.025, t_eval=times,
    )  # fmt: skip
    assert sol.success, sol.message
    assert np.array_equal(sol.t, times)
    assert np.abs(sol.q - problem.reference(times)["q"]).max() < 1e-7
    assert not sol.extra  # past values are no result


# ---------------------------------------------------------------------- conditioning
@pytest.mark.parametrize("tableau", [glm.multistep_radau(2, 2), glm.multistep_radau(3, 3), glm.from_bdf(5)])
def test_the_iteration_matrix_is_well_conditioned_for_all_steps(pendulum: Any, tableau: Any) -> None:
    system, method, formulation = pendulum.system, da.GeneralLinear(tableau), da.Index3()
    state = da.consistent(system, [0.6, -0.8], [0.8, 0.6])
    layout = make_layout(system, method, formulation)
    row = initial_row(system, layout, **{x: getattr(state, x) for x in ("q", "v", "lam", "a")})
    p = system.parameters.vector(None)
    assembly = assemble(system, method, formulation, None, {"t": 0.0, "row": row, "h": 1e-3, "p": p})
    step = assembly.step
    matrix = ca.Function("matrix", [step.x, step.d], [step.jacobian])
    x = np.tile(np.concatenate([state.a, state.lam]), tableau.stages)
    found = []
    for h in 10.0 ** -np.arange(1, 9):
        past = row[: assembly.n_past].copy()
        for block, other, offset in method.recalled():  # a parabola will do
            rate = {"q": state.v, "v": state.a, "r": state.r}[other]
            past[layout.slice(block)] = getattr(state, other) + offset * h * rate
        d = np.concatenate([[h, h, 0.0, 0.0], past, np.zeros(assembly.n_past), p])
        found.append(np.linalg.cond(np.asarray(matrix(x, d).full())))
    found = np.array(found)
    print(tableau.name, found)
    assert found.max() < 2e3
    assert found[3:].max() < 1.05 * found[3:].min()


def test_tiny_steps() -> None:
    problem = da.problems()["pendulum"]
    sol = da.solve(problem.system, (0, 1e-6), problem.q0, problem.v0, method="general-linear", h=1e-8)
    assert sol.success, sol.message
    assert sol.q[-1] == pytest.approx(sol.q[0] + sol.a[0] * 5e-13, abs=1e-13)


# ---------------------------------------------------------------------- what is refused
BLOCKS: dict[str, Any] = {  # BDF of order 2 in the form (A.17)
    "c": [1], "A": [[4 / 3, -1 / 3], [1, 0]], "B": [[8 / 9, -2 / 9], [0, 0]], "D": [[4 / 9], [0]],
    "E": [[4 / 3, -1 / 3], [1, 0]], "F": [[2 / 3], [0]], "At": [[4 / 3, -1 / 3]], "Bt": [[8 / 9, -2 / 9]],
    "Dt": [[4 / 9]], "Et": [[4 / 3, -1 / 3]], "Ft": [[2 / 3]],
}  # fmt: skip


def test_blocks_of_the_thesis() -> None:
    by_hand = glm.Tableau.from_blocks("by hand", 2, **BLOCKS)
    np.testing.assert_allclose(by_hand.y_past, glm.from_bdf(2).y_past, atol=1e-14)
    assert by_hand.first_order_part
    assert by_hand.ends_with_a_stage
    assert by_hand.parasitic_radius == pytest.approx(1 / 3, abs=1e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"order": 3}, r"position of stage 1 is not exact for q = t\^3 .*or claim order 2"),
        ({"Dt": [[0.5]]}, r"position of stage 1 is not exact for q = t\^2"),
        ({"Ft": [[0.6]]}, r"velocity of stage 1 is not exact for q = t\^2"),
        ({"F": [[0.6], [0]]}, r"external velocity 3 is not exact for q = t\^2"),
        ({"A": [[4 / 3, -0.3], [1, 0]]}, r"external position 1 is not exact for q = t\^0.*not consistent"),
        ({"At": [[1, 0, 0]]}, r"q_past has shape \(1, 5\), expected \(1, 4\)"),
        ({"B": [[1]]}, "do not fit together"),
        ({"c": [np.nan]}, "c contains NaN"),
        ({"order": 0}, "order=0"),
    ],
)
def test_order_conditions(change: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        glm.Tableau.from_blocks(**{"name": "by hand", "order": 2, **BLOCKS, **change})


def test_unstable_coefficients_are_refused() -> None:
    """v_{n+1} = 3 v_n - 2 v_{n-1} - h a_{n+1} is consistent, with roots 1 and 2."""
    first, second = np.array([3.0, -2.0]), -1.0
    A = np.vstack([first, [1, 0]])
    B = np.vstack([second * first, [0, 0]])
    with pytest.raises(OptionError, match=r"not zero-stable.*spectral radius 2\b"):
        glm.Tableau.from_blocks(
            "roots 1 and 2", 1, [1], A, B, [[second**2], [0]], A, [[second], [0]], [first], [second * first],
            [[second**2]], [first], [[second]],
        )  # fmt: skip
    with pytest.raises(OptionError, match=r"not zero-stable.*spectral radius 1\.[0-9]+"):
        glm.multistep_collocation(7, [1.0])  # BDF of order 7


def test_double_roots_on_the_unit_circle() -> None:
    rotation = np.array([[0.6, 0.8], [-0.8, 0.6]])
    assert power_bounded(rotation)
    assert spectral_radius(rotation) == pytest.approx(1.0, abs=1e-6)
    assert not power_bounded(np.array([[-1.0, 0.5], [0.0, -1.0]]))
    assert spectral_radius(np.array([[0.0, 1e3], [0.0, 0.0]])) == 0.0


def test_ways_of_running_that_are_refused() -> None:
    problem = da.problems()[EXAMPLE]
    start = {"q0": problem.q0, "v0": problem.v0, "method": "general-linear"}
    with pytest.raises(OptionError, match="give the step size with h="):
        da.solve(problem.system, (0, 1), **start)
    with pytest.raises(OptionError, match=r"all steps must be equal.*h = 1.0 / n"):
        da.solve(problem.system, (0, 1), **start, h=0.15)
    with pytest.raises(OptionError, match="all steps must be equal"):
        da.solve(problem.system, (0, 1), **start, h=[0.2, 0.3, 0.2, 0.3])
    with pytest.raises(OptionError, match="needs at least 3 steps, there are 2"):
        da.solve(problem.system, (0, 1), **start, h=0.5)
    with pytest.raises(OptionError, match=r"give a da\.glm\.Tableau"):
        da.GeneralLinear(3)  # type: ignore[arg-type]
    c = gauss_nodes(2)
    with pytest.raises(OptionError, match="the last stage must be the end of the step"):
        da.GeneralLinear(glm.from_runge_kutta(*collocate(c), c))
    spring = da.problems()["spring-damper-series"]
    with pytest.raises(OptionError, match="no formula for dynamic states r"):
        da.solve(spring.system, (0, 1), spring.q0, spring.v0, method=da.GeneralLinear(glm.from_bdf(2, "interpolant")),
                 h=0.1, r0=[0.0] * spring.system.nr)  # fmt: skip


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: glm.from_bdf(7), "order from 1 to 6"),
        (lambda: glm.from_bdf(2, "other"), "twice or interpolant"),
        (lambda: glm.multistep_radau(0, 2), "steps=0"),
        (lambda: glm.multistep_collocation(2, [0.5]), "last stage time must be 1"),
        (lambda: glm.multistep_collocation(2, [1.0, 1.0]), "different finite stage times"),
        (lambda: glm.second_order_collocation([(1, 0), (1, -1)], [1.0]), "no polynomial"),
        (lambda: glm.second_order_collocation([(0, 0), (0, 0.5)], [1.0]), "offsets from"),
        (lambda: glm.second_order_collocation([(0, 0), (3, 0)], [1.0]), "derivatives 0, 1 or 2"),
    ],
)
def test_builders_refuse(build: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        build()
