"""Generalized-alpha: orders, starting values, velocity projection, changes of the step, damping, messages.

[ACB15] M. Arnold, A. Cardona, O. Bruels (2015): the heavy top and everything measured on it.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import dalembert as da
from dalembert.analysis import alpha
from dalembert.integrators.alpha_parameters import AlphaParameters
from dalembert.papers import arnold_cardona_bruels_2015 as acb
from dalembert.papers import papers
from dalembert.problems import heavy_top
from dalembert.status import OptionError

PARTS = ("x", "R", "u", "Omega", "lam")
STEPS = (500, 1000, 2000, 4000, 10000)  # h = 2e-3 .. 1e-4
FORMS = ("stabilized-index-2", "index-3")


@cache
def exact(n: int) -> dict[str, np.ndarray]:
    """The reference on a grid of n steps."""
    return heavy_top.parts(**heavy_top.trajectory(np.linspace(0.0, 1.0, n + 1)))


def split(sol: da.Solution) -> dict[str, np.ndarray]:
    return heavy_top.parts(sol.q, sol.v, sol.lam)


@cache
def top(n: int, form: str = FORMS[0], span: float = 1.0, **options: Any) -> da.Solution:
    problem = da.problems()["heavy-top"]
    sol = da.solve(
        problem.system, (0, span), problem.q0, problem.v0, method=da.GeneralizedAlpha(**options), formulation=form,
        h=1.0 / n,
    )  # fmt: skip
    assert sol.success, sol.message
    return sol


def errors(sol: da.Solution, n: int, first: int | None = None) -> dict[str, float]:
    """Largest errors over the run, or over its first steps; lam relative to its size at the time."""
    found, right = split(sol), exact(n)
    count = len(sol.t) if first is None else first + 1
    size = {p: np.linalg.norm(right[p][:count], axis=1) if p == "lam" else 1.0 for p in PARTS}
    return {p: float((np.linalg.norm(found[p][:count] - right[p][:count], axis=1) / size[p]).max()) for p in PARTS}


def slopes(form: str, first: int | None = None, steps: tuple[int, ...] = STEPS, **options: Any) -> dict[str, float]:
    span = 1.0 if first is None else first / steps[0]
    found = [errors(top(n, form, span, **options), n, first) for n in steps]
    return {p: float(np.polyfit(-np.log(steps), np.log([e[p] for e in found]), 1)[0]) for p in PARTS}


# ---------------------------------------------------------------------- orders on the heavy top
@pytest.mark.parametrize("form", FORMS)
def test_second_order_in_everything(form: str) -> None:
    observed = slopes(form)
    print(form, observed)
    assert all(abs(x - 2) < 0.05 for x in observed.values()), observed


@pytest.mark.parametrize("form", FORMS)
def test_first_ten_steps(form: str) -> None:
    """lam converges with order 2 from the first step on; q and v, whose errors begin at zero, at least so."""
    observed = slopes(form, first=10)
    print(form, observed)
    assert abs(observed["lam"] - 2) < 0.05
    assert all(x > 1.95 for x in observed.values())


def test_consistent_start_of_index_3_loses_an_order_of_the_multipliers() -> None:
    for start in ("consistent", "unperturbed"):
        observed = slopes("index-3", first=10, start=start)
        print(start, observed)
        assert abs(observed["lam"] - 1) < 0.05
        whole = slopes("index-3", start=start)
        assert abs(whole["lam"] - 1) < 0.08
        assert all(abs(whole[p] - 2) < 0.05 for p in ("x", "R", "u", "Omega"))


def test_the_other_sign_of_the_perturbation_would_double_the_error() -> None:
    """As printed in [ACB15] the perturbed start has the wrong sign; relative errors of lam at h = 5e-4."""
    right, without = (errors(top(2000, "index-3", start=s), 2000)["lam"] for s in ("shifted", "unperturbed"))
    assert right == pytest.approx(2.83e-3, rel=0.02)
    assert without == pytest.approx(0.134, rel=0.02)


def test_constraints() -> None:
    for n in STEPS[:3]:
        sol = top(n)
        assert sol.drift.largest["velocity"] < 1e-12
        assert sol.drift.largest["position"] < 1e-14
        assert top(n, "index-3").drift.largest["position"] < 1e-14
    # the residual of the hidden constraint of the index-3 method is h^2 B r
    ratio = top(1000, "index-3").drift.largest["velocity"] / top(2000, "index-3").drift.largest["velocity"]
    assert ratio == pytest.approx(4.0, abs=0.05)


def test_hidden_constraint_residual_is_h_squared_times_b_r() -> None:
    n = 2000
    sol = top(n, "index-3")
    for t, expected in ((0.1, [11906.2, -7331.3, -10293.1]), (0.7, [9783.5, 12269.0, 4950.7])):
        assert sol.drift.velocity[round(t * n)] * n**2 == pytest.approx(expected, rel=5e-3)


def test_end_values_meet_the_reference() -> None:
    """Within the error of the method, C h^2: extrapolation from two step sizes gains two orders."""
    right = heavy_top.PUBLISHED[1.0]
    right = {p: np.ravel(right[p]) for p in PARTS}
    for form in FORMS:
        coarse, fine = (split(s) for s in (top(2000, form), top(4000, form)))
        for p in PARTS:
            error = np.abs(fine[p][-1] - right[p]).max()
            better = np.abs((4 * fine[p][-1] - coarse[p][-1]) / 3 - right[p]).max()
            assert error <= 0.3 * np.abs(coarse[p][-1] - right[p]).max(), p
            assert better <= 0.02 * error, p


def test_reference_agrees_with_40_digits() -> None:
    for t, right in heavy_top.PUBLISHED.items():
        found = da.problems()["heavy-top"].reference(t)
        found = {p: x[0] for p, x in heavy_top.parts(**{n: x[None] for n, x in found.items()}).items()}
        for p in PARTS:
            assert found[p] == pytest.approx(np.ravel(right[p]), abs=1e-9 if p == "lam" else 1e-11), p


# ---------------------------------------------------------------------- velocity projection
def test_velocity_projection_reduces_the_order_of_index_3() -> None:
    """[ACB15, Figs. 1, 2]: slope 1 with a projection at t = 0.7, 2 without; the oscillation dies out."""
    found = []
    for n in (1000, 2000, 4000, 8000):
        plain, projected = top(n, "index-3"), top(n, "index-3", project_at=(0.7,))
        k = round(0.7 * n)
        assert np.abs(projected.drift.velocity[k]).max() < 1e-12
        assert np.array_equal(plain.q[: k + 1], projected.q[: k + 1])
        found.append((errors(projected, n)["lam"], errors(plain, n)["lam"]))
        away = np.linalg.norm(projected.lam - plain.lam, axis=1)
        if n == 1000:
            expected = {1: 15.1145, 2: 29.8042, 5: 68.6859, 10: 109.769, 20: 118.295, 50: 29.96, 100: 1.10409}
            assert [away[k + j] for j in expected] == pytest.approx(list(expected.values()), rel=1e-3)
        assert away[k + 100] < 0.02 * away.max()
        assert away[k + 150] < 1e-3 * away.max()
    with_it, without = (
        np.polyfit(-np.log([1000, 2000, 4000, 8000]), np.log(x), 1)[0] for x in zip(*found, strict=True)
    )
    print("slopes of lam with and without projection", with_it, without)
    assert abs(with_it - 1) < 0.06
    assert abs(without - 2) < 0.05


def test_nothing_to_project_in_the_stabilized_method() -> None:
    plain, projected = top(1000), top(1000, project_at=(0.7,))
    assert np.abs(plain.lam - projected.lam).max() < 1e-7 * np.abs(plain.lam).max()


# ---------------------------------------------------------------------- other spaces, systems and steps
OTHERS = ["pendulum", "slider-crank", "spherical-pendulum", "heavy-top-se3", "rigid-body", "knife-edge"]


@pytest.mark.parametrize("pattern", ["fixed", "alternating"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", OTHERS)
def test_order_on_other_problems(name: str, form: str, pattern: str) -> None:
    """Also with steps h and 2h in turn, where a_n is corrected, and velocities across the constraints of index 3."""
    problem = da.problems()[name]
    span = 0.1 if name == "heavy-top-se3" else 1.0
    found, counts = [], (120, 240, 480, 960)
    for n in counts:
        h: Any = span / n if pattern == "fixed" else np.tile([2 * span / (3 * n), 4 * span / (3 * n)], n // 2)
        sol = da.solve(
            problem.system, (0, span), problem.q0, problem.v0, method="generalized-alpha", formulation=form, h=h,
            **problem.options,
        )  # fmt: skip
        assert sol.success, sol.message
        at = np.arange(0, n + 1, n // 20)
        right = problem.reference(sol.t[at])
        found.append({p: float(np.abs(getattr(sol, p)[at] - right[p]).max()) for p in right if right[p].size})
    observed = {p: float(np.polyfit(-np.log(counts), np.log([e[p] for e in found]), 1)[0]) for p in found[0]}
    print(name, form, observed)
    assert all(abs(x - 2) < 0.15 for p, x in observed.items() if p in ("q", "v")), observed
    assert all(x > 1.85 for x in observed.values()), observed


def test_prescribed_change_of_the_step_leaves_index_3_its_order() -> None:
    """One change from h to 2h in the middle, where velocities are adjusted; without that lam loses an order."""
    problem = da.problems()["spherical-pendulum"]
    found, counts = [], (150, 300, 600)
    for n in counts:
        h = np.concatenate([np.full(2 * n // 3, 0.75 / n), np.full(n // 3, 1.5 / n)])
        sol = da.solve(
            problem.system, (0, 1), problem.q0, problem.v0, method="generalized-alpha", formulation="index-3", h=h
        )
        right = problem.reference(sol.t)
        found.append([np.abs(getattr(sol, p) - right[p]).max() for p in ("q", "v", "lam")])
    q, v, lam = np.polyfit(-np.log(counts), np.log(found), 1)[0]
    assert abs(q - 2) < 0.15
    assert abs(v - 2) < 0.15
    assert abs(lam - 2) < 0.15


def test_small_tolerance_on_index_3_says_what_stops_it() -> None:
    """Rounding errors eps / h^2 of the multipliers; the stabilized form has none."""
    problem = da.problems()["heavy-top"]
    given = problem.system, (0, 0.01), problem.q0, problem.v0
    sol = da.solve(*given, method="generalized-alpha", formulation="index-3", rtol=1e-7, atol=1e-7)
    assert not sol.success
    assert "second differences of positions" in sol.message
    assert "stabilized-index-2" in sol.message
    assert da.solve(*given, method="generalized-alpha", rtol=1e-7, atol=1e-7).success
    found = {}
    for form in FORMS:
        sol = da.solve(*given, method="generalized-alpha", formulation=form, h=1e-5)
        found[form] = np.abs(np.diff(sol.lam, 3, axis=0))[100:].max() / np.abs(sol.lam).max()
    eps = np.finfo(float).eps
    assert 10 * eps / 1e-5**2 < found["index-3"] < 1000 * eps / 1e-5**2
    assert found["stabilized-index-2"] < 1e-9


def test_first_order_states_and_auxiliary_variables() -> None:
    """Dynamic states by the formulas of velocities: order 2."""
    problem = da.problems()["pendulum"]
    system = da.System(
        q=["x", "y"], mass=[1.0, 1.0], force=lambda q, r, w: [-r[0] + w[0], -9.81],
        constraints=lambda q: {"rod": (q[0] ** 2 + q[1] ** 2 - 1) / 2}, dynamics=lambda v, r: [v[0] - 3 * r[0]], r=1,
        auxiliary=lambda w, v: [w[0] + 0.2 * v[0]], w=1,
    )  # fmt: skip
    right = da.solve(system, (0, 1), problem.q0, problem.v0, r0=[0.2], rtol=1e-12, atol=1e-13, t_eval=[1.0])
    found = []
    for n in (100, 200, 400):
        sol = da.solve(system, (0, 1), problem.q0, problem.v0, r0=[0.2], method="generalized-alpha", h=1 / n)
        found.append([np.abs(getattr(sol, p)[-1] - getattr(right, p)[-1]).max() for p in ("q", "v", "r", "w", "lam")])
    observed = np.log2(np.array(found[:-1]) / np.array(found[1:]))
    assert np.abs(observed - 2).max() < 0.15, observed


def test_long_chain() -> None:
    """Rods that swing to every direction: compiled elimination serves, two iterations leave rounding errors only."""
    n = 60
    system = da.System(
        q=2 * n, mass=np.full(2 * n, 1 / n), force=np.tile([0.0, -9.81 / n], n),
        constraints=lambda q: [
            ((q[2 * i] - (q[2 * i - 2] if i else 0)) ** 2 + (q[2 * i + 1] - (q[2 * i - 1] if i else 0)) ** 2) / 2
            - 0.5 / n**2
            for i in range(n)
        ],
    )  # fmt: skip
    q0 = np.zeros(2 * n)
    q0[::2] = np.arange(1, n + 1) / n
    sol = da.solve(system, (0, 0.6), q0, np.zeros(2 * n), method="generalized-alpha", h=2e-4, t_eval=[0.3, 0.6])
    assert sol.success, sol.message
    stats = sol.stats
    assert stats.lapack_factorizations < 0.01 * stats.steps
    assert stats.factorizations < 1.05 * stats.steps
    assert stats.newton_iterations < 2.2 * stats.steps
    assert sol.drift.largest["position"] < 1e-14
    assert sol.drift.largest["velocity"] < 1e-13


def test_black_box_on_a_group() -> None:
    problem = da.problems()["heavy-top"]
    force = da.black_box(lambda v: np.concatenate([heavy_top.M * heavy_top.GRAVITY, heavy_top.gyroscopic(v)]))
    system = da.System(
        q=da.spaces.R3xSO3(), mass=heavy_top.MASS, force=force,
        constraints=lambda q: {"tip": -q.x + q.R @ heavy_top.X},
    )  # fmt: skip
    sol = da.solve(system, (0, 0.02), problem.q0, problem.v0, method="generalized-alpha", h=1e-3)
    assert sol.success, sol.message
    assert np.abs(sol.q - top(1000).q[:21]).max() < 1e-7


# ---------------------------------------------------------------------- automatic steps
TOLERANCES = (1e-3, 1e-4, 1e-5, 1e-6)


@pytest.mark.parametrize("name", ["heavy-top", "slider-crank", "jay-negrut-5.1", "jay-negrut-5.2"])
def test_variable_step_meets_the_tolerance(name: str) -> None:
    """Global errors below rtol, slope 2 against the mean step, no spikes of the multipliers."""
    check_variable(name, TOLERANCES)


def test_variable_step_of_index_3() -> None:
    """The same for the index-3 method, whose velocities are adjusted; at tighter tolerances rounding / h^2 ends it."""
    check_variable("slider-crank", TOLERANCES[:3], "index-3")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["heavy-top", "slider-crank", "jay-negrut-5.1", "jay-negrut-5.2"])
def test_variable_step_meets_tight_tolerances(name: str) -> None:
    """At 1e-7 multipliers carry rounding errors of a tenth of it: two runs a decade, for the slope."""
    check_variable(name, tuple(10.0 ** -np.arange(4.0, 7.1, 0.5)))


def check_variable(name: str, tolerances: tuple[float, ...], form: str = "stabilized-index-2") -> None:
    problem = da.problems()[name]
    grid = np.linspace(*problem.t_span, 41)[1:]
    right = problem.reference(grid)
    sizes, found = [], []
    for tol in tolerances:
        sol = da.solve(
            problem.system, problem.t_span, problem.q0, problem.v0, method="generalized-alpha", formulation=form,
            rtol=tol, atol=tol,
        )  # fmt: skip
        assert sol.success, sol.message
        state = sol(grid)
        error = {
            p: np.abs(getattr(state, p) - right[p]).max() / max(1.0, np.abs(right[p]).max()) for p in ("q", "v", "lam")
        }
        print(name, tol, sol.stats.steps, sol.stats.rejected, {p: x / tol for p, x in error.items()})
        assert max(error.values()) < tol
        assert form == "index-3" or sol.drift.largest["velocity"] < 1e-11
        # a spike would be a jump that neighbours do not share: the step changes, lam does not notice
        jumps = np.abs(np.diff(sol.lam, 2, axis=0)).max() / np.abs(np.diff(sol.lam, axis=0)).max()
        assert jumps < 0.5
        sizes.append(sol.stats.steps)
        found.append(error)
    for p in ("q", "v", "lam"):
        slope = np.polyfit(-np.log(sizes), np.log([e[p] for e in found]), 1)[0]
        assert abs(slope - 2) < 0.1, p


# ---------------------------------------------------------------------- conditioning
def test_condition_number_is_bounded_on_the_heavy_top() -> None:
    for form in FORMS:
        found = conditions(form)
        print(form, found)
        assert found.max() < 5e3
        assert found[2:].max() < 1.05 * found[2:].min()


def conditions(form: str) -> np.ndarray:
    import casadi as ca

    from dalembert.runtime.assemble import assemble, make_layout
    from dalembert.runtime.start import initial_row

    problem, method, formulation = da.problems()["heavy-top"], da.GeneralizedAlpha(), da.formulations()[form]()
    state = da.consistent(problem.system, problem.q0, problem.v0)
    layout = make_layout(problem.system, method, formulation)
    row = initial_row(problem.system, layout, q=state.q, v=state.v, lam=state.lam, a=state.a)
    row[layout.slice("_a")] = state.a
    p = np.zeros(0)
    assembly = assemble(problem.system, method, formulation, None, {"t": 0.0, "row": row, "h": 1e-3, "p": p})
    matrix = ca.Function("matrix", [assembly.step.x, assembly.step.d], [assembly.step.jacobian])
    x = np.concatenate([state.a, state.lam, np.zeros(assembly.n_step - 9)])
    out = []
    for h in 10.0 ** -np.arange(2, 9):
        d = np.concatenate([[h, h, 0.0, 1 / h], row[: assembly.n_past], row[: assembly.n_past]])
        out.append(np.linalg.cond(np.asarray(matrix(x, d).full())))
    return np.array(out)


# ---------------------------------------------------------------------- parameters and messages
def test_parameters_of_the_family() -> None:
    c = AlphaParameters.chung_hulbert(0.9)
    assert (c.alpha_m, c.alpha_f, c.nm_gamma, c.nm_beta) == pytest.approx((8 / 19, 9 / 19, 21 / 38, 100 / 361))
    assert da.GeneralizedAlpha.hht(-0.1).parameters.alpha_f == 0.1
    assert da.GeneralizedAlpha.hht(0.0).parameters == da.GeneralizedAlpha.newmark().parameters
    assert da.GeneralizedAlpha.newmark(0.3025, 0.6).parameters.order == 1
    for method in (da.GeneralizedAlpha(0.0), da.GeneralizedAlpha(1.0), da.GeneralizedAlpha.hht(-0.3)):
        assert method.parameters.order == 2


@pytest.mark.parametrize(
    "method", [da.GeneralizedAlpha.newmark(), da.GeneralizedAlpha.hht(-0.2), da.GeneralizedAlpha(0.5)]
)
def test_members_of_the_family_converge(method: Any) -> None:
    problem = da.problems()["pendulum"]
    found = []
    for n in (100, 200, 400):
        sol = da.solve(problem.system, (0, 1), problem.q0, problem.v0, method=method, h=1 / n)
        right = problem.reference(sol.t)
        found.append([np.abs(getattr(sol, p) - right[p]).max() for p in ("q", "v", "lam")])
    assert np.abs(np.log2(np.array(found[:-1]) / np.array(found[1:])) - 2).max() < 0.1


@pytest.mark.parametrize("rho", [-0.1, 1.5, np.nan, "0.9", None])
def test_rho_is_checked(rho: Any) -> None:
    with pytest.raises(OptionError, match="rho"):
        da.GeneralizedAlpha(rho)


def test_bad_options() -> None:
    for options, words in (
        ({"start": "cold"}, "shifted, unperturbed, consistent"),
        ({"project_at": "soon"}, "project_at"),
        ({"rho": 0.5, "alpha_f": 0.1}, "not both"),
        ({"alpha_m": 0.4, "alpha_f": 0.1}, "alpha_m <= alpha_f"),
        ({"alpha_f": 0.7}, "alpha_f <= 1/2"),
        ({"nm_gamma": 0.3}, "at least 1/2"),
        ({"nm_beta": 0.0, "nm_gamma": 0.5}, "nm_beta=0 is unstable"),
    ):
        with pytest.raises(OptionError, match=words):
            da.GeneralizedAlpha(**options)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="between -1/3 and 0"):
        da.GeneralizedAlpha.hht(-0.4)
    problem = da.problems()["pendulum"]
    with pytest.raises(OptionError, match="index-3, stabilized-index-2"):
        da.solve(problem.system, (0, 1), problem.q0, method="generalized-alpha", formulation="index-1")


def test_index_3_without_damping_is_refused() -> None:
    problem = da.problems()["pendulum"]
    for method in (da.GeneralizedAlpha(1.0), da.GeneralizedAlpha.newmark()):
        with pytest.raises(OptionError, match=r"multipliers grow without bound.*rho < 1"):
            da.solve(problem.system, (0, 1), problem.q0, method=method, formulation="index-3", h=0.01)


# ---------------------------------------------------------------------- analysis
@pytest.mark.parametrize("rho", [0.0, 0.3, 0.5, 0.8, 0.9, 1.0])
def test_spectral_radius(rho: float) -> None:
    """rho for constraints and for high frequencies [ACB15], [CH93]; a triple eigenvalue is found to eps^(1/3)."""
    eigenvalues = np.linalg.eigvals(alpha.error_recursion(rho))
    assert np.abs(eigenvalues + rho).max() < 1e-4
    assert alpha.spectral_radius(rho) == pytest.approx(rho, abs=1e-12)
    assert alpha.spectral_radius(rho, 1e4) == pytest.approx(rho, abs=3e-3)
    assert np.all(alpha.spectral_radius(rho, np.logspace(-3, 5, 200)) <= 1 + 1e-9)


def test_damping_and_period_error() -> None:
    """Damping of order 3 (2 in h omega less one), period error of order 2; both as measured in a run."""
    x = np.array([0.05, 0.1])
    damping, stretch = alpha.damping_and_period_error(0.5, x)
    assert np.log2(damping[1] / damping[0]) == pytest.approx(3.0, abs=0.05)
    assert np.log2(stretch[1] / stretch[0]) == pytest.approx(2.0, abs=0.05)
    system = da.System(q=1, mass=[1.0], force=lambda q: [-q[0]])
    h, n = 0.5, 400
    sol = da.solve(system, (0, n * h), [1.0], [0.0], method=da.GeneralizedAlpha(0.5), h=h)
    damping, stretch = alpha.damping_and_period_error(0.5, h)
    peaks = np.hypot(sol.q[:, 0], sol.v[:, 0])
    assert -np.log(peaks[-1] / peaks[0]) / (n * h) == pytest.approx(damping, rel=0.05)
    turns = np.unwrap(np.arctan2(-sol.v[:, 0], sol.q[:, 0]))[-1]
    assert n * h / turns - 1 == pytest.approx(stretch, rel=0.05)
    with pytest.raises(OptionError, match="above 0"):
        alpha.damping_and_period_error(0.5, 0.0)
    with pytest.raises(OptionError, match="0 or more"):
        alpha.spectral_radius(0.5, -1.0)


def test_plot(tmp_path: Any) -> None:
    figure = alpha.plot()
    assert len(figure.axes) == 3
    figure.savefig(tmp_path / "alpha.png")


# ---------------------------------------------------------------------- the paper
@pytest.mark.slow
def test_reproduction_of_the_paper(tmp_path: Any) -> None:
    rows = papers()["arnold-cardona-bruels-2015"].run(tmp_path)
    assert len(rows) > 80
    assert not [r for r in rows if not r["agrees"]]
    assert len(list(tmp_path.glob("*.png"))) == 5


def test_rows_of_the_paper() -> None:
    rows = [*acb.hidden_constraint(), *acb.projection()]
    assert not [r for r in rows if not r["agrees"]]
