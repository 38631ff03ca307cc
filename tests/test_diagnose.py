"""The doctor: rates against values worked out by hand, cases of the paper, advice that holds, odd patients."""

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pytest

import dalembert as da
from dalembert.analysis.rates import matrices, rates
from dalembert.runtime.subset import surplus_rows, without

STUDY = Path(__file__).parents[1] / "benchmarks" / "formulations.py"


def at(system, t=0.0, parameters=None, **given):
    """Values of all variables, zero unless given."""
    values = {name: np.zeros(size) for name, size in system.sizes.items()}
    values |= {name: np.asarray(x, dtype=float) for name, x in given.items()}
    return {**values, "t": t, "p": system.parameters.vector(parameters)}


def rates_at(problem, t=0.0, order=2, **parameters):
    exact = problem.reference(t)
    given = {name: exact[name] for name in ("q", "v", "lam", "mu") if name in exact}
    if order == 1:
        given["a"] = given["v"]  # (1, 1) e^t
    return rates(matrices(problem.system, at(problem.system, t, parameters, **given)), 1.0, order)


def diagnosed(name, **parameters):
    p = da.problems()[name]
    return da.diagnose(p.system, p.q0, p.v0, p.t_span, parameters=parameters, **p.options)


# ---------------------------------------------------------------------- rates
def test_pendulum_by_hand(pendulum):
    """G = q turns with the rod, F C' = q v^T / L^2; u'' = -lam u around a straight line."""
    q, v, lam = np.array([0.6, -0.8]), 1.7 * np.array([0.8, 0.6]), 3.0
    m = matrices(pendulum.system, at(pendulum.system, q=q, v=v, lam=[lam]))
    R, S, F = m.essential
    np.testing.assert_allclose(R @ S, [[1]])
    np.testing.assert_allclose(m.C @ S, [[0]], atol=1e-15)
    assert F[:, 0] == pytest.approx(q)
    assert m.gram == pytest.approx(np.eye(1))
    found = rates(m, 1.0, 2)
    assert (found.turning, found.FC) == pytest.approx((1.7, 1.7))
    assert (found.RS, found.frozen) == pytest.approx((0, 0), abs=1e-12)
    assert found.frequency == pytest.approx(np.sqrt(lam))


@pytest.mark.parametrize("t", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("nu", [1.0, 50.0, 1000.0])
class TestExamplesByHand:
    """Ascher & Petzold 1993, section 4."""

    def test_1(self, t, nu):
        """C = (sin, cos) nu t = B^T: R'S = 0, F C' = nu; frozen part u' = -u."""
        found = rates_at(da.problems()["ascher-petzold-1"], t, 1, nu=nu)
        assert (found.turning, found.FC) == pytest.approx((nu, nu))
        assert abs(found.RS) < 1e-12 * nu
        assert found.frozen == pytest.approx(1)

    def test_2(self, t, nu):
        """R'S = -nu/(2-t) for S = (1, 1/(2-t)); normalising S adds the logarithmic derivative of its length."""
        found = rates_at(da.problems()["ascher-petzold-2"], t, 1, nu=nu)
        u = 2 - t
        np.testing.assert_allclose(found.RS, abs(-nu / u + 1 / (u * (u**2 + 1))), rtol=1e-9)
        # F = (nu/(t+2), (nu-1)/(4-t^2)), C' = (1, 2t)
        F, C_dot = np.array([nu / (t + 2), (nu - 1) / (4 - t**2)]), np.array([1, 2 * t])
        np.testing.assert_allclose(found.FC, np.linalg.norm(F) * np.linalg.norm(C_dot), rtol=1e-9)
        assert found.frozen == pytest.approx(0, abs=1e-12)

    @pytest.mark.parametrize("c", [0.0, 1.0, 2.0])
    def test_3(self, t, nu, c):
        """C is that of Example 2 over t + 2, so S, R'S are the same. Frozen: R A_2 S u', R M^-1 E = c (0, 1)."""
        found = rates_at(da.problems()["ascher-petzold-3"], t, nu=nu, c=c)
        u = 2 - t
        # M is known to its condition number, about 2.5 nu^2, times rounding
        np.testing.assert_allclose(found.RS, abs(-nu / u + 1 / (u * (u**2 + 1))), rtol=1e-13 * nu**2)
        assert found.turning == pytest.approx(1 / (1 + u**2))
        assert found.frozen == pytest.approx(0, abs=1e-8)

    def test_4(self, t, nu):
        """Unit masses, damping nu^2: R'S = 0, decay nu^2."""
        found = rates_at(da.problems()["ascher-petzold-4"], t, nu=nu)
        assert (found.turning, found.FC) == pytest.approx((nu, nu))
        assert abs(found.RS) < 1e-12 * nu
        assert found.frozen == pytest.approx(nu**2)


def test_forces_with_states_of_their_own():
    """Eigenvalues of the Maxwell element in u, u', r: those of its own three equations."""
    from dalembert.problems.maxwell import _RATES

    found = rates_at(da.problems()["spring-damper-series"])
    assert found.frozen == pytest.approx(-np.linalg.eigvals(_RATES).real.min())


def test_singular_mass_is_no_obstacle():
    """In the angle: m L^2 th'' = -c th' - (k + m g L cos th) th, the geometry at the start included."""
    system = da.problems()["singular-mass"].system
    m, g, L, k, c = (system.parameters.defaults[n] for n in ("m", "g", "L", "k", "c"))
    # hanging at rest: the upper constraint carries the weight
    values = at(system, q=[0, -L, 0], lam=[0, -m * g])
    found = rates(matrices(system, values), 1.0, 2)
    root = np.roots([m * L**2, c, k + m * g * L])[0]
    assert found.frozen == pytest.approx(-root.real)
    assert found.frequency == pytest.approx(abs(root.imag))
    assert da.problems()["singular-mass"].system is system
    assert diagnosed("singular-mass").mass_spread == np.inf


# ---------------------------------------------------------------------- cases and advice
@pytest.mark.parametrize(
    ("example", "parameters", "case"),
    [
        (1, {"nu": 1000}, 2), (1, {"nu": 1}, 1), (2, {"nu": 1000}, 4), (2, {"nu": 1}, 1),
        (3, {"nu": 1000, "c": 0}, 4), (3, {"nu": 1000, "c": 1}, 4), (3, {"nu": 1000, "c": 2}, 4), (3, {"nu": 1}, 1),
        (4, {"nu": 100}, 2), (4, {"nu": 1000}, 2), (4, {"nu": 1}, 1),
    ],
)  # fmt: skip
def test_examples_are_put_in_their_cases_and_the_advice_holds(example, parameters, case):
    p = da.problems()[f"ascher-petzold-{example}"]
    found = diagnosed(p.name, **parameters)
    assert found.case == case
    sol = da.solve(
        p.system, p.t_span, p.q0, p.v0, method=found.method, formulation=found.formulation, parameters=parameters
    )
    assert sol.success
    assert sol.stats.steps < 250
    assert sol.v[-1] == pytest.approx([np.e, np.e], rel=1e-4)


@pytest.mark.parametrize("nu", [30, 100])
def test_the_form_not_advised_is_far_worse(nu):
    """Index 2 on Example 2: what the line between the cases is there for. (Errors of steps held at the tolerance.)"""
    p = da.problems()["ascher-petzold-2"]

    def steps(form):
        return da.solve(
            p.system,
            p.t_span,
            p.q0,
            formulation=form,
            parameters={"nu": nu},
            rtol=1e-6,
            atol=1e-6,
            max_steps=5000,
            method=da.BDF(control="step"),
        ).stats.steps

    assert steps(da.Index2()) > 10 * steps(diagnosed(p.name, nu=nu).formulation)


def test_stiff_forces_are_case_3(pendulum_with):
    honey = pendulum_with(force=lambda v: np.array([0, -9.81]) - 1e4 * v)
    found = da.diagnose(honey, [1, 0], [0, 0], (0, 10))
    assert (found.case, found.stiff) == (3, True)
    assert found.rates.frozen == pytest.approx(1e4, rel=1e-3)
    assert found.formulation == da.StabilizedIndex2()


LONG = ("four-bar-40", "wheelset")  # long to compile for the analysis


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=[pytest.mark.slow] * (n in LONG))
        for n in da.problems()
        if not n.startswith("ascher-petzold")
    ],
)
def test_every_problem(name):
    p = da.problems()[name]
    end = p.t_span[0] + min(p.t_span[1] - p.t_span[0], 2.0)
    found = da.diagnose(p.system, p.q0, p.v0, (p.t_span[0], end), **p.options)
    assert found.degrees_of_freedom == p.system.nv - p.system.nlam - p.system.nmu
    assert (found.case == 0) == (p.system.nlam + p.system.nmu == 0)
    assert not found.redundant
    assert "trial run" in found.basis
    plain = found.as_dict()
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    assert plain["case"] == found.case
    for label, text in found.facts():
        assert f"{label:27s}{text}" in str(found)
    sol = da.solve(
        p.system, (p.t_span[0], end), p.q0, p.v0, method=found.method, formulation=found.formulation, **p.options
    )
    assert sol.success


@pytest.mark.parametrize(
    ("name", "index"),
    [("pendulum", 3), ("knife-edge", 2), ("auxiliary", 1), ("kepler", 0), ("contact-point", 3)],
)
def test_index(name, index):
    assert diagnosed(name).index == index


def test_invariants_are_kept_by_the_advice():
    assert diagnosed("kepler").formulation == da.Index1()


def test_condition_and_spread():
    """Two rods: G M^-1 G^T = [[1/m1, -c/m1], [-c/m1, 1/m1 + 1/m2]] with c the cosine of the angle between them."""
    p = da.problems()["double-pendulum"]
    found = da.diagnose(p.system, p.q0, p.v0, (0, 1e-3))
    q, m1, m2 = p.q0, 1.0, 0.7
    a, b = q[:2], q[2:] - q[:2]
    c = a @ b / np.linalg.norm(a) / np.linalg.norm(b)
    off = -c / m1 / np.sqrt(1 / m1 * (1 / m1 + 1 / m2))
    assert found.condition == pytest.approx((1 + abs(off)) / (1 - abs(off)), rel=1e-3)
    assert found.mass_spread == pytest.approx(m1 / m2)


# ---------------------------------------------------------------------- redundant constraints
def test_redundant_rows_are_named(pendulum_with):
    double = pendulum_with(
        constraints=lambda q: {"rod": q @ q - 1, "again": 2 * (q @ q) - 2, "plane": q[0] - q[0] ** 3}
    )  # fmt: skip
    with pytest.raises(ValueError, match="redundant"):
        da.solve(double, (0, 1), [0.0, -1.0], [0.0, 0.0], redundant="refuse")
    found = da.diagnose(double, [0.0, -1.0], [0.0, 0.0], (0, 1))
    assert set(found.redundant) == {"rod", "again"}
    assert found.remove == ("again",)
    assert (found.rank, found.degrees_of_freedom, found.condition) == (2, 0, np.inf)
    assert any("Remove 'again'" in w for w in found.warnings)
    assert found.as_dict()["condition"] is None
    assert "'rod', 'again' depend on each other" in str(found)


def test_rates_are_those_of_the_system_without_the_surplus(pendulum_with, pendulum):
    double = pendulum_with(constraints=lambda q: {"rod": q @ q - 1, "again": 2 * (q @ q) - 2})
    single = pendulum_with()
    start = {"q0": [1, 0], "v0": [0, 0], "t_span": (0, 1)}
    assert da.diagnose(double, **start).rates == da.diagnose(single, **start).rates


def test_redundant_velocity_constraints():
    skate = da.System(
        q=["x", "y", "phi"],
        mass=[1, 1, 0.1],
        force=[1, 0, 0],
        velocity_constraints=lambda q, v: {
            "edge": v[0] * np.sin(q[2]) - v[1] * np.cos(q[2]),
            "same": 3 * v[0] * np.sin(q[2]) - 3 * v[1] * np.cos(q[2]),
        },
    )
    found = da.diagnose(skate, [0, 0, 1.0], [0, 0, 1.0], (0, 1))
    assert (found.remove, found.index, found.formulation) == (("same",), 2, da.Index2())


def test_singular_position_is_not_redundancy(pendulum_with):
    """Two circles that touch at the start."""
    touching = pendulum_with(constraints=lambda q: {"left": q @ q - 1, "right": (q[0] - 2) ** 2 + q[1] ** 2 - 1})
    found = da.diagnose(touching, [1, 0], [0, 1], (0, 1))
    assert (found.redundant, found.remove) == (("left", "right"), ())
    assert any("singular position" in w for w in found.warnings)


def test_vanishing_gradient(pendulum_with):
    squared = pendulum_with(constraints=lambda q: {"rod": (q @ q - 1) ** 2})
    found = da.diagnose(squared, [1, 0], [0, 0], (0, 1))
    assert (found.redundant, found.remove, found.index) == (("rod",), (), 3)
    assert any("'rod' vanishes" in w for w in found.warnings)


def test_surplus_rows():
    C = np.array([[1.0, 2, 0, 0], [0, 0, 0, 0], [0, 1, 1e-6, 0], [2e6, 5e6, 1, 0], [0, 0, 0, 1e-9]])
    assert surplus_rows(C) == [1, 3]
    assert surplus_rows(np.zeros((0, 3))) == []


def test_without_keeps_what_forces_say_about_multipliers():
    p = da.problems()["sliding-ladder"]
    part = without(p.system, [0])
    assert part.names["lam"] == part.names["constraints"] == ("floor",)
    assert (part.nlam, p.system.nlam) == (1, 2)
    given = at(part, q=p.q0, v=[0.1, -0.2, 0.3], lam=[-7.0])
    full = at(p.system, q=p.q0, v=[0.1, -0.2, 0.3], lam=[0.0, -7.0])
    assert matrices(part, given).Jv == pytest.approx(matrices(p.system, full).Jv)
    np.testing.assert_allclose(matrices(part, given).C, matrices(p.system, full).C[1:])


# ---------------------------------------------------------------------- odd patients
def test_at_rest(pendulum_with):
    found = da.diagnose(pendulum_with(), [0, -1], [0, 0], (0, 5))
    assert (found.case, found.rates.motion) == (1, pytest.approx(0.2))
    assert any("at rest" in w for w in found.warnings)


def test_trial_run_that_fails(pendulum_with):
    breaks = pendulum_with(force=lambda t: [0, -9.81 + np.log(0.5 - t)])
    found = da.diagnose(breaks, [1, 0], [0, 0], (0, 1))
    assert found.case == 1
    assert "to t = 0.5," in found.basis
    assert any("did not reach the end" in w for w in found.warnings)


def test_black_boxes(pendulum_with):
    box = pendulum_with(constraints=da.black_box(lambda q: [q[0] ** 2 + q[1] ** 2 - 1]))
    start = {"q0": [1, 0], "v0": [0, 0], "t_span": (0, 1)}
    found, traced = da.diagnose(box, **start), da.diagnose(pendulum_with(), **start)
    assert found.case == traced.case
    assert found.rates.turning == pytest.approx(traced.rates.turning, rel=1e-2)
    assert any("black boxes (constraints)" in w for w in found.warnings)


def test_fast_oscillations():
    spring = da.System(
        q=["x"], mass=[1.0], force=lambda t, q, p: [-p.k * (q[0] - np.cos(t))], parameters={"k": 1e4}, name="spring"
    )  # fmt: skip
    found = da.diagnose(spring, [1.0], [0.0], (0, 3))
    assert (found.case, found.oscillates, found.stiff) == (0, True, False)
    assert found.rates.frequency == pytest.approx(100)
    assert any("oscillations" in w for w in found.warnings)


def test_stiff_without_constraints():
    fast = da.System(q=["x"], mass=[1.0], force=lambda t, q, v: [-1e4 * (v[0] + np.sin(t))])
    found = da.diagnose(fast, [1.0], [0.0], (0, 3))
    assert (found.case, found.stiff, found.formulation) == (0, True, da.Index1())


def test_inconsistent_start_is_projected(pendulum_with):
    assert da.diagnose(pendulum_with(), [2, 0], [1, 0], (0, 1)).case == 1


def test_no_freedom_left(pendulum_with):
    driven = pendulum_with(constraints=lambda t, q: [q[0] - np.sin(t), q[1]])
    found = da.diagnose(driven, [0, 0], [1, 0], (0, 1))
    assert (found.degrees_of_freedom, found.case) == (0, 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((None, None, (0, 1)), "q0 is missing"), (([1, 0], [0, 0], 3), "t_span=3"), (([1, 0, 0],), "q0 has shape")],
)
def test_bad_input(pendulum_with, arguments, message):
    with pytest.raises(ValueError, match=message):
        da.diagnose(pendulum_with(), *arguments)


def test_not_a_system():
    with pytest.raises(ValueError, match="system is a str"):
        da.diagnose("pendulum")


def test_an_undetermined_motion_is_refused():
    with pytest.raises(ValueError, match="mass is singular"):
        da.diagnose(da.System(q=2, mass=[1.0, 0.0], force=[1.0, 0.0]), [0, 0], [0, 0], (0, 1))


# ---------------------------------------------------------------------- the study
@pytest.fixture(scope="module")
def study():
    spec = importlib.util.spec_from_file_location("formulations_study", STUDY)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_curves_of_the_study(study):
    errors_and_seconds = [(1e-2, 1.0), (1e-4, 2.0), (1e-3, 3.0), (1e-6, 8.0)]
    curve = study.Curve("form", [(1e-3, error, seconds, 1) for error, seconds in errors_and_seconds])
    assert curve.front == [(1e-2, 1.0), (1e-4, 2.0), (1e-6, 8.0)]
    assert curve.seconds(1e-5) == pytest.approx(4.0)
    assert curve.seconds(1e-3) == pytest.approx(np.sqrt(2))
    assert curve.seconds(1e-7) == np.inf
    assert curve.seconds(0.1) == 1.0


@pytest.mark.parametrize(("start", "ratio"), [(0.5, 3.0), (1.0, np.nan), (2.0, np.nan)])
def test_a_start_that_took_longer_than_a_run_says_nothing(study, start, ratio):
    curves = {
        name: study.Curve(name, [(1e-3, 0.0, seconds, 1)], start=start) for name, seconds in (("a", 2.0), ("b", 1.0))
    }
    result = study.Result("pair", "two forms", 1, "a", 1e-9, curves)
    assert result.ratio() == 2.0
    assert result.ratio(result.start) == pytest.approx(ratio, nan_ok=True)
    assert "| pair" in study.report([result])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fast-constraint", "redundant-four-bar", "slider-crank", "skate", "uneven-masses"])
def test_advised_forms_reach_the_accuracy(study, name):
    """No timing: steps are what a form is answerable for."""
    result = study.study(name, rounds=1)
    assert result.reference_error < study.AGREEMENT
    steps = {}
    for form, curve in result.curves.items():
        reached = [n for _, error, _, n in curve.points if error <= study.TARGET]
        if reached:
            steps[form] = min(reached)
    assert steps[result.advised] <= 2 * min(steps.values())
    json.dumps(study.plain([result]), allow_nan=False)
    assert result.advised in study.report([result])


@pytest.mark.slow
def test_the_study_writes_its_results(study, tmp_path):
    assert study.main(["--problems", "skate", "--rounds", "1", "--out", str(tmp_path)]) == 0
    assert {path.name for path in tmp_path.iterdir()} == {f"formulations.{e}" for e in ("md", "json", "png")}
