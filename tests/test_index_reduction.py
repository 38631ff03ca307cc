"""Index reduction in first- and second-order form: minimal extension, and GGL without velocities as unknowns.

Expected: order k in q, v and lam by BDF and modified BDF of order k whatever the steps, all levels of the constraints
to rounding, a bounded condition number, dependent coordinates that are changed before G_2 becomes singular, and for
the second-order GGL form of [Wunderlich 2005, (7.19)] the loss of an order with the discretisation of the thesis only.
"""

from __future__ import annotations

import itertools
from functools import cache
from typing import Any

import casadi as ca
import numpy as np
import pytest

import dalembert as da
from dalembert.formulations import Formulation
from dalembert.formulations.dependent import EXCHANGE
from dalembert.numerics.runstate import RENEW_QUALITY, WORST_QUALITY
from dalembert.papers import wunderlich_2005_example as thesis
from dalembert.papers import wunderlich_2005_reduction as reduction
from dalembert.runtime.assemble import assemble, make_layout
from dalembert.runtime.start import initial_row
from dalembert.status import OptionError, Status

REDUCED, FULL = da.MinimalExtension(), da.MinimalExtension(variant="full")
SECOND_ORDER: dict[str, Formulation] = {
    "index-1": da.Index1(),
    "index-2": da.Index2(),
    "index-3": da.Index3(),
    "stabilized-G": da.StabilizedIndex2(),
    "stabilized-M": da.StabilizedIndex2(D="M^-1 G^T"),
    "minimal": REDUCED,
    "minimal-full": FULL,
}
PATTERNS = {"constant": [1.0], "1:2": [1.0, 2.0]}
COUNTS = {1: (200, 400), 2: (100, 200), 3: (100, 200)}
HELD = 1e-12


def fixed(name: str, method: Any, form: Any, n: int, pattern: list[float], span: float = 0.5) -> Any:
    """A run of n steps, and its largest errors in the second half."""
    problem = da.problems()[name]
    t0 = problem.t_span[0]
    h = np.resize(np.array(pattern), n)
    h *= span / h.sum()
    sol = da.solve(problem.system, (t0, t0 + span), problem.q0, problem.v0, method=method, formulation=form, h=list(h))
    assert sol.success, sol.message
    exact = problem.reference(sol.t)
    return sol, {x: float(np.abs(getattr(sol, x) - exact[x])[n // 2 :].max()) for x in exact}


# ---------------------------------------------------------------------- second-order forms by modified BDF
@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("form", SECOND_ORDER)
@pytest.mark.parametrize("name", ["particle-on-circle", "pendulum"])
def test_order_of_second_order_forms(name: str, form: str, pattern: str, k: int) -> None:
    runs = [fixed(name, da.ModifiedBDF(k), SECOND_ORDER[form], n, PATTERNS[pattern]) for n in COUNTS[k]]
    coarse, fine = (errors for _, errors in runs)
    observed = {x: float(np.log2(coarse[x] / fine[x])) for x in coarse}
    print(name, form, pattern, k, {x: round(s, 3) for x, s in observed.items()})
    assert all(abs(s - k) < 0.2 for s in observed.values()), observed
    for sol, _ in runs:
        size = np.abs(sol.v).max()
        if form != "index-2":
            assert sol.drift.largest["position"] < HELD
        if form != "index-3":
            assert sol.drift.largest["velocity"] < HELD * size


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("form", ["minimal", "minimal-full"])
def test_velocity_constraints_in_second_order_form(form: str, k: int) -> None:
    runs = [fixed("knife-edge", da.ModifiedBDF(k), SECOND_ORDER[form], n, [1.0], 2.0) for n in (200, 400)]
    coarse, fine = (errors for _, errors in runs)
    observed = {x: float(np.log2(coarse[x] / fine[x])) for x in coarse if coarse[x]}
    assert all(abs(observed[x] - k) < 0.2 for x in ("q", "v")), observed
    assert observed["mu"] > k - 0.2, observed
    assert runs[1][0].drift.largest["nonholonomic"] < HELD


@cache
def skate() -> tuple[da.System, Any, Any]:
    """Both kinds of constraints, a full mass matrix that depends on q, r and w."""
    system = da.System(
        q=["x", "y", "z"],
        mass=lambda q: [[2.0, 0.3, 0.1 * q[0]], [0.3, 1.0, 0.2], [0.1 * q[0], 0.2, 1.5 + q[1] ** 2]],
        force=lambda q, v, r, w: [-r[0], 0.5 * v[0] * v[2], -1.0 + w[0]],
        constraints=lambda q: {"sphere": (q @ q - 1) / 2},
        velocity_constraints=lambda t, q, v: {"skate": v[0] * np.cos(t) + v[1] * np.sin(t) - 0.2 * q[2]},
        dynamics=lambda v, r: [v[0] - 3 * r[0]],
        r=1,
        auxiliary=lambda q, w, lam: [w[0] - 0.1 * lam[0] - 0.2 * q[0]],
        w=1,
    )
    start = da.consistent(system, [0.6, 0.0, 0.8], [0.5, 3.0, 0.0], r0=[0.0])
    return system, start.q, start.v


@pytest.mark.parametrize("form", [REDUCED, FULL], ids=["reduced", "full"])
def test_a_start_anew_close_to_the_end(form: Formulation) -> None:
    """Where tolerances are near rounding, runs begin anew often, and some do so a step before the end: what is left is
    too short for a grid of its own."""
    system, q0, v0 = skate()
    for tol in (3e-9, 1e-9, 3e-10):
        options: dict[str, Any] = {"q0": q0, "v0": v0, "r0": [0.0], "rtol": tol, "atol": 1e-2 * tol}
        for end in (0.9, 1.0, 1.1):
            sol = da.solve(system, (0, end), formulation=form, method="modified-bdf", **options)
            assert sol.success, sol.message
            assert sol.t[-1] == end


@pytest.mark.parametrize("form", [REDUCED, FULL], ids=["reduced", "full"])
@pytest.mark.parametrize("method", ["bdf", "modified-bdf"])
def test_everything_that_a_system_can_have(form: Formulation, method: str) -> None:
    system, q0, v0 = skate()
    options: dict[str, Any] = {"q0": q0, "v0": v0, "r0": [0.0], "rtol": 1e-9, "atol": 1e-11}
    sol = da.solve(system, (0, 1), formulation=form, method=method, **options)
    other = da.solve(system, (0, 1), formulation="index-1", **options)
    assert sol.success, sol.message
    assert sol.stats.switches
    for name in ("q", "v", "r", "w", "lam", "mu"):
        a, b = getattr(sol, name), getattr(other, name)
        assert np.abs(a[-1] - b[-1]).max() < 1e-6 * max(1.0, np.abs(b).max()), name
    assert max(sol.drift.largest.values()) < 3e-12


@pytest.mark.parametrize("method", [da.BDF(3), da.ModifiedBDF(3)], ids=["bdf", "modified-bdf"])
def test_reduced_and_full_have_the_same_solution(double_pendulum: da.System, double_start: Any, method: Any) -> None:
    q0, v0 = double_start
    a, b = (
        da.solve(double_pendulum, (0, 1), q0=q0, v0=v0, method=method, formulation=form, h=2e-3)
        for form in (REDUCED, FULL)
    )
    assert a.success
    assert b.success
    assert np.abs(a.q - b.q).max() < 1e-9
    assert np.abs(a.lam - b.lam).max() < 1e-7 * np.abs(a.lam).max()


def test_added_variables_are_the_derivatives_of_dependent_coordinates() -> None:
    problem = da.problems()["pendulum"]
    form = da.MinimalExtension(variant="full", dependent=["y"])
    options: dict[str, Any] = {"q0": [0.6, -0.8], "v0": [0.0, 0.0], "formulation": form}
    sol = da.solve(problem.system, (0, 0.3), rtol=1e-9, atol=1e-11, **options)
    assert sol.extra["w1"][:, 0] == pytest.approx(sol.v[:, 1], abs=1e-12)
    assert sol.extra["w2"][:, 0] == pytest.approx(sol.a[:, 1], abs=1e-8)
    direct = da.solve(problem.system, (0, 0.3), method=da.ModifiedBDF(3), h=1e-3, **options)
    assert direct.extra["w1"][:, 0] == pytest.approx(direct.v[:, 1], abs=1e-12)
    assert direct.extra["w2"][:, 0] == pytest.approx(direct.a[:, 1], abs=1e-8)  # also where the starter made the rows


def test_multipliers_belong_to_the_acceleration_level() -> None:
    """lam of the step is the one that g'' = 0 and the equations of motion give at its q and v."""
    problem = da.problems()["particle-on-circle"]
    for form in (REDUCED, FULL):
        sol, _ = fixed("particle-on-circle", da.BDF(3), form, 100, [1.0])
        for i in (20, 60, 100):
            state = da.consistent(problem.system, sol.q[i], sol.v[i], t0=sol.t[i])
            assert sol.lam[i] == pytest.approx(state.lam, abs=1e-9)


# ---------------------------------------------------------------------- second-order GGL as in the thesis
def test_where_the_second_order_form_of_ggl_fails() -> None:
    rows = reduction.section_7_2()
    assert len(rows) == 23
    assert all(row["agrees"] for row in rows), [row for row in rows if not row["agrees"]]
    assert reduction.after_a_change("second order, thesis") > 1e3 * reduction.after_a_change("first order, BDF")


def test_table_8_3_in_its_own_form() -> None:
    """Minimal extension (8.5) by the formula of the thesis: within 10 % of the printed errors of q1."""
    rows = [row for row in thesis.prescribed_rows("table_8_3") if row["quantity"] == "q1"]
    assert len(rows) == 10
    assert all(abs(row["measured"] / row["paper"] - 1) < 0.1 for row in rows), rows


@pytest.mark.parametrize("form", ["stabilized-index-2", "minimal-extension"])
def test_formula_of_the_thesis_needs_prescribed_steps(form: str) -> None:
    problem = da.problems()["pendulum"]
    with pytest.raises(OptionError, match="give the steps with h="):
        da.solve(
            problem.system, (0, 1), problem.q0, problem.v0, method=da.ModifiedBDF(2, variant="thesis"), formulation=form
        )


@pytest.mark.parametrize("form", SECOND_ORDER)
def test_automatic_runs_of_second_order_forms(form: str) -> None:
    problem = da.problems()["pendulum"]
    sol = da.solve(
        problem.system, (0, 4), problem.q0, problem.v0, method="modified-bdf", formulation=SECOND_ORDER[form],
        rtol=1e-8, atol=1e-8,
    )  # fmt: skip
    assert sol.success, sol.message
    assert sol.stats.steps > 500  # most of them not by the starter
    exact = problem.reference(sol.t)
    assert np.abs(sol.q - exact["q"]).max() < 5e-6
    assert np.abs(sol.lam - exact["lam"]).max() < 2e-4


# ---------------------------------------------------------------------- conditioning of the second-order forms
@pytest.mark.parametrize("form", SECOND_ORDER)
def test_condition_of_second_order_forms(double_pendulum: da.System, double_start: Any, form: str) -> None:
    """Polynomial through three points: q' = 3/2 q / h, q'' = q / h^2."""
    formulation, method = SECOND_ORDER[form], da.ModifiedBDF(1)
    state = da.consistent(double_pendulum, *double_start)
    p = double_pendulum.parameters.vector(None)
    layout = make_layout(double_pendulum, method, formulation)
    row = initial_row(double_pendulum, layout, **{x: getattr(state, x) for x in ("q", "v", "lam", "a")})
    assembly = assemble(double_pendulum, method, formulation, None, {"t": 0.0, "row": row, "h": 1e-3, "p": p})
    _, C = assembly.workspace(p).matrices(0.0, row)
    data = formulation.choose_data(double_pendulum, C)
    if layout.has("w1"):
        row[layout.slice("w1")] = formulation.restate(double_pendulum, data, state.v, state.a)["w1"]
    find = ca.Function("matrix", [assembly.step.x, assembly.step.d], [assembly.step.jacobian])
    found = []
    for h in 10.0 ** -np.arange(1, 9):
        first, second = np.zeros(assembly.n_past), np.zeros(assembly.n_past)
        q = layout.slice("q")
        first[q] = state.v - 1.5 / h * state.q
        second[q] = state.a - state.q / h**2
        d = np.concatenate([[0.0, h, 1.5 / h, 1 / h**2], first, second, p, data])
        found.append(np.linalg.cond(np.asarray(find(row[: assembly.n_step], d).full())))
    print(form, " ".join(f"{x:.3g}" for x in found))
    assert max(found) < 1e3
    assert max(found[3:]) < 1.05 * min(found[3:])


# ---------------------------------------------------------------------- the choice of dependent coordinates
@pytest.fixture(scope="module")
def rotor() -> da.System:
    return da.System(
        q=["x", "y"],
        mass=[1.0, 1.0],
        force=[0.0, -9.81],
        constraints=lambda q: {"rod": (q[0] ** 2 + q[1] ** 2 - 1.0) / 2},
        energy=lambda q, v: 0.5 * (v @ v) + 9.81 * q[1],
    )


FAST = {"q0": [0.0, -1.0], "v0": [9.0, 0.0]}  # the top needs 4 g = 39 < 81
TIGHT = {"rtol": 1e-8, "atol": 1e-10}


@pytest.mark.parametrize("form", [REDUCED, FULL], ids=["reduced", "full"])
@pytest.mark.parametrize("method", ["bdf", "modified-bdf"])
def test_fifty_turns(rotor: da.System, form: Formulation, method: str) -> None:
    sol = da.solve(rotor, (0, 45), method=method, formulation=form, **FAST, **TIGHT)
    assert sol.success, sol.message
    turns = np.unwrap(np.arctan2(sol.q[:, 0], -sol.q[:, 1]))[-1] / (2 * np.pi)
    assert turns > 50
    assert abs(len(sol.stats.switches) - 4 * turns) <= 5  # twice each way
    assert sol.stats.newton_failures == 0
    assert sol.drift.largest["position"] < 1e-13
    assert sol.drift.largest["velocity"] < 1e-12
    assert np.abs(sol.energy / sol.energy[0] - 1).max() < 1e-4
    check_switches(sol)


def check_switches(sol: da.Solution) -> None:
    """x and y take turns; the dependent one never has a gradient smaller than a fifth of the other."""
    assert np.all(np.isin(sol.stats.switches, sol.t))
    edges = np.concatenate([[0], np.searchsorted(sol.t, sol.stats.switches), [sol.t.size - 1]])
    chosen = int(np.abs(sol.q[0]).argmax())
    for first, last in itertools.pairwise(edges):
        part = np.abs(sol.q[first : last + 1])
        quality = part[:, chosen] / part[:, 1 - chosen].clip(1e-300)
        assert quality.min() >= WORST_QUALITY
        assert np.all(quality[:-1] >= RENEW_QUALITY)
        if last != sol.t.size - 1:
            assert quality[-1] < RENEW_QUALITY
        chosen = 1 - chosen


def test_multipliers_across_switches(rotor: da.System) -> None:
    for method in (da.BDF(4), da.ModifiedBDF(4)):
        sol = da.solve(rotor, (0, 2), method=method, formulation=REDUCED, h=1e-3, **FAST)
        assert len(sol.stats.switches) > 8
        exact = (sol.v**2).sum(axis=1) - 9.81 * sol.q[:, 1]
        assert np.abs(sol.lam[:, 0] - exact).max() < 1e-9 * exact.max()


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5])
def test_order_across_switches(pendulum: Any, k: int) -> None:
    counts = {1: (4000, 8000), 2: (1000, 2000), 3: (600, 1200), 4: (600, 1200), 5: (300, 600)}[k]
    found = []
    for n in counts:
        sol, errors = fixed("pendulum", da.BDF(k), REDUCED, n, [1.0], 2.2)
        assert len(sol.stats.switches) >= 4
        found.append([errors[x] for x in ("q", "v", "lam")])
    assert np.log2(np.array(found[0]) / found[1]) == pytest.approx(k, abs=0.15)


def test_backwards(rotor: da.System) -> None:
    there = da.solve(rotor, (0, 5), formulation=REDUCED, rtol=1e-10, atol=1e-12, **FAST)
    start = {"q0": there.q[-1], "v0": there.v[-1], "initial": "project"}
    back = da.solve(rotor, (5, 0), formulation=REDUCED, rtol=1e-10, atol=1e-12, **start)
    assert back.success, back.message
    assert len(back.stats.switches) > 10
    assert np.abs(back.q[-1] - FAST["q0"]).max() < 1e-6


def test_step_that_passes_the_singular_point(rotor: da.System) -> None:
    """Steps of 0.9 rad: refused rather than taken across G_2 = 0."""
    sol = da.solve(rotor, (0, 5), method=da.BDF(2), h=0.1, formulation=REDUCED, **FAST)
    assert sol.status == Status.DATA_OUTDATED
    assert "use a smaller h" in sol.message


def test_given_coordinates_are_kept(pendulum: Any) -> None:
    start = {"q0": [0.6, -0.8], "v0": [0.0, 0.0], "rtol": 1e-9, "atol": 1e-11}
    free = da.solve(pendulum.system, (0, 5), formulation=REDUCED, **start)
    for dependent in (["y"], [1]):
        sol = da.solve(pendulum.system, (0, 5), formulation=da.MinimalExtension(dependent=dependent), **start)
        assert sol.success, sol.message
        assert sol.stats.switches == ()
        assert np.abs(sol.q[-1] - free.q[-1]).max() < 1e-6


@pytest.mark.parametrize("seed", range(20))
def test_choice_has_locally_largest_determinant(seed: int) -> None:
    random = np.random.default_rng(seed)
    system, _, _ = skate()
    C = random.normal(size=(2, 3)) * 10.0 ** random.uniform(-3, 3, size=(2, 1))
    T = REDUCED.choose_data(system, C).reshape(2, 3, order="F")
    assert np.all(np.isin(T, (0, 1)))
    assert np.all(T.sum(axis=1) == 1)
    assert np.all(T.sum(axis=0) <= 1)
    X = np.linalg.solve(C[:1] @ T[:1].T, C[:1])
    assert np.abs(X).max() <= EXCHANGE
    rest = C[1:] - C[1:] @ T[:1].T @ X
    assert np.abs(rest / (rest @ T[1:].T)).max() <= EXCHANGE


def test_choice_in_a_large_matrix_is_well_conditioned() -> None:
    """Kahan's matrix, where QR with pivoting alone is deceived."""
    n, m = 40, 20
    c, s = np.cos(1.2), np.sin(1.2)
    kahan = np.diag(s ** np.arange(m)) @ (np.eye(m) - c * np.triu(np.ones((m, m)), 1))
    C = np.hstack([kahan, 0.3 * np.random.default_rng(0).normal(size=(m, n - m))])
    names = [f"q{i}" for i in range(n)]
    system = da.System(q=names, mass=np.ones(n), constraints=lambda q: C @ q)
    T = REDUCED.choose_data(system, C).reshape(m, n, order="F")
    X = np.linalg.solve(C @ T.T, C)
    assert np.abs(X).max() <= EXCHANGE
    assert np.abs(np.diag(C @ T.T)).min() > 0


def test_ten_links_at_a_loose_tolerance() -> None:
    """A larger system, whose matrix would be worth keeping: the constraints hold to rounding all the same."""
    n = 10

    def links(q: Any) -> list[Any]:
        points = [np.zeros(2), *[q[2 * i : 2 * i + 2] for i in range(n)]]
        return [((b[0] - a[0]) ** 2 + (b[1] - a[1]) ** 2 - 1) / 2 for a, b in itertools.pairwise(points)]

    system = da.System(q=2 * n, mass=np.ones(2 * n), force=np.tile([0.0, -9.81], n), constraints=links)
    q0 = np.stack([np.arange(1.0, n + 1), np.zeros(n)], axis=1).ravel()
    sol = da.solve(system, (0, 3), q0, np.zeros(2 * n), formulation=REDUCED, rtol=1e-4, atol=1e-4)
    other = da.solve(system, (0, 3), q0, np.zeros(2 * n), rtol=1e-8, atol=1e-8)
    assert sol.success, sol.message
    assert len(sol.stats.switches) > 5
    assert sol.stats.lapack_factorizations < 5  # one plan of pivots serves all choices
    assert max(sol.drift.largest.values()) < 1e-12
    assert np.abs(sol.q[-1] - other.q[-1]).max() < 1e-2


def test_restart_after_a_kick() -> None:
    """A force that jumps makes modified BDF start anew; coordinates are chosen and w1 is filled in for that, too."""
    system = da.System(
        q=["x", "y"],
        mass=[1.0, 1.0],
        force=lambda t: [200 * np.tanh(1e7 * (t - 1.0)), -9.81],
        constraints=lambda q: [(q @ q - 1) / 2],
    )
    # tighter ones ask for steps within the kick that are too short for second differences (rounding eps/h^2)
    tolerances = {"rtol": 1e-7, "atol": 1e-8}
    other = da.solve(system, (0, 1.5), [0, -1], [0, 0], **TIGHT)
    for form in (REDUCED, FULL):
        sol = da.solve(system, (0, 1.5), [0, -1], [0, 0], method="modified-bdf", formulation=form, **tolerances)
        assert sol.success, sol.message
        assert sol.stats.rejected > 3
        assert np.abs(sol.q[-1] - other.q[-1]).max() < 1e-5
        # w1 is the velocity of the dependent coordinate; sol.v is that of one order more, put onto g' = 0
        apart = np.abs(sol.extra["w1"] - sol.v).min(axis=1)
        assert np.median(apart) < 1e-7
        assert apart.max() < 1e-3


# ---------------------------------------------------------------------- bad input
def refused(form: Any, *words: str, system: da.System | None = None, **options: Any) -> None:
    given = {"q0": [1, 0], "v0": [0, 0], **options}
    with pytest.raises(OptionError) as caught:
        da.solve(system or da.problems()["pendulum"].system, (0, 0.01), formulation=form(), **given)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_what_cannot_be_built() -> None:
    refused(lambda: da.MinimalExtension(variant="minimal"), "variant='minimal'", "reduced or full")  # type: ignore[arg-type]
    for given in ("y", [1.5], [True], [None]):
        refused(lambda given=given: da.MinimalExtension(dependent=given), f"dependent={given!r}", "name or number")


def test_coordinates_that_cannot_be_dependent() -> None:
    refused(lambda: da.MinimalExtension(dependent=["x", "y"]), "names 2 coordinates", "expected 1")
    refused(lambda: da.MinimalExtension(dependent=["z"]), "no coordinate 'z'", "there are x, y")
    refused(lambda: da.MinimalExtension(dependent=[2]), "no coordinate 2")
    refused(lambda: da.MinimalExtension(dependent=["y"]), "do not determine", "leave dependent out")
    system, q0, v0 = skate()
    refused(lambda: da.MinimalExtension(dependent=["x", 0]), "do not determine", system=system, q0=q0, v0=v0, r0=[0.0])


def test_mass_that_has_no_inverse() -> None:
    system = da.System(q=["x", "y"], mass=[1.0, 0.0], force=[0, -1], constraints=lambda q: [q[1] - q[0] ** 2])
    start: dict[str, Any] = {"q0": [0.5, 0.25], "v0": [0, 0]}
    refused(da.MinimalExtension, "mass is singular", "variant='full'", system=system, **start)
    sol = da.solve(system, (0, 1), formulation=FULL, **start, **TIGHT)
    other = da.solve(system, (0, 1), **start, **TIGHT)
    assert sol.success, sol.message
    assert np.abs(sol.q[-1] - other.q[-1]).max() < 1e-6


def test_force_that_asks_for_accelerations() -> None:
    system = da.System(
        q=["x", "y"], mass=[1.0, 1.0], force=lambda a: [-0.5 * a[0], -9.81], constraints=lambda q: [q @ q - 1]
    )
    refused(da.MinimalExtension, "force asks for a", "variant='full'", system=system)
    start: dict[str, Any] = {"q0": [1, 0], "v0": [0, 0]}
    sol = da.solve(system, (0, 1), formulation=FULL, **start, **TIGHT)
    assert np.abs(sol.q[-1] - da.solve(system, (0, 1), **start, **TIGHT).q[-1]).max() < 1e-6


def test_black_boxes() -> None:
    """A force that cannot be traced: also in the reduced form, which needs the accelerations explicitly."""
    system = da.System(
        q=["x", "y"],
        mass=[1.0, 1.0],
        force=da.black_box(lambda v: np.array([-0.1 * v[0], -9.81 - 0.1 * v[1]])),
        constraints=lambda q: {"rod": (q @ q - 1) / 2},
    )
    sol, other = (
        da.solve(system, (0, 1), q0=[1, 0], v0=[0, 0], formulation=form, rtol=1e-7, atol=1e-8)
        for form in (REDUCED, "index-1")
    )
    assert sol.success, sol.message
    assert np.abs(sol.q[-1] - other.q[-1]).max() < 1e-5


def test_forms_that_modified_bdf_does_not_take() -> None:
    with pytest.raises(OptionError, match="'state-space'; it takes index-1, index-2, index-3, minimal-extension"):
        da.solve(
            da.problems()["pendulum"].system, (0, 1), [1, 0], [0, 0], method="modified-bdf", formulation="state-space"
        )


def test_without_constraints() -> None:
    system = da.System(q=["x"], mass=[1.0], force=lambda q: [-q[0]])
    for method, form in itertools.product(("bdf", "modified-bdf"), (REDUCED, FULL, da.StabilizedIndex2())):
        sol = da.solve(system, (0, 1), q0=[1.0], v0=[0.0], method=method, formulation=form, rtol=1e-9, atol=1e-11)
        assert sol.success, sol.message
        assert sol.q[-1, 0] == pytest.approx(np.cos(1), abs=1e-7)
