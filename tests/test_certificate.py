"""The certificate: right runs pass, wrong ones do not, and estimates of the error of lam are of its size."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import casadi as ca
import numpy as np
import pytest

import dalembert as da
from dalembert.runtime.rounding import rounding

EPS = float(np.finfo(float).eps)


def run(name: str, end: float, **options: Any) -> tuple[da.Solution, Any]:
    problem = da.problems()[name]
    return da.solve(problem.system, (0, end), problem.q0, problem.v0, **options), problem


# ---------------------------------------------------------------------- the error of lam
@pytest.mark.parametrize("name", ["pendulum", "slider-crank"])
@pytest.mark.parametrize(
    "options",
    [
        {"method": "bdf", "rtol": 1e-5, "atol": 1e-6},
        {"method": "bdf", "rtol": 1e-8, "atol": 1e-9},
        {"method": "radau", "rtol": 1e-5, "atol": 1e-6},
        {"method": "radau", "rtol": 1e-7, "atol": 1e-8},
        {"method": "generalized-alpha", "rtol": 1e-4, "atol": 1e-5},
        {"method": "generalized-alpha", "h": 0.01},
        {"method": "gauss", "rtol": 1e-7, "atol": 1e-8},
    ],
    ids=lambda o: "-".join(map(str, o.values())),
)
def test_estimated_error_of_the_multipliers(name: str, options: dict[str, Any]) -> None:
    """Against exact and independent references: the largest within a factor of 3, each large one within 10."""
    sol, problem = run(name, 3.0, **options)
    assert sol.lam_error.shape == sol.lam.shape
    true = np.abs(sol.lam - problem.reference(sol.t)["lam"])
    assert 1 / 3 < sol.lam_error.max() / true.max() < 3
    large = true > 0.5 * true.max()
    ratio = sol.lam_error[large] / true[large]
    assert 0.1 < ratio.min() <= ratio.max() < 10


# ---------------------------------------------------------------------- right runs
@pytest.mark.parametrize("method", ["bdf", "generalized-alpha", "modified-bdf", "gauss", "hht"])
def test_right_runs_pass(method: str) -> None:
    sol, _ = run("double-pendulum", 1.0, method=method, rtol=1e-5, atol=1e-6)
    certificate = sol.check(rerun=True)
    assert certificate.passed, str(certificate)
    assert certificate["g = 0"].largest < 1e-12
    assert certificate["M a = f - G^T lam"].units < 1.0
    assert certificate["error of q"].units < 100
    text = str(certificate)
    assert "Certificate: passed" in text
    assert "error of lam" in text


@pytest.mark.parametrize("name", ["heavy-top", "knife-edge", "contact-point", "auxiliary", "moving-pivot"])
def test_kinds_of_systems(name: str) -> None:
    problem = da.problems()[name]
    end = problem.t_span[0] + min(1.0, problem.t_span[1] - problem.t_span[0])
    sol = da.solve(problem.system, (problem.t_span[0], end), problem.q0, problem.v0, **problem.options)
    certificate = sol.check()
    assert certificate.passed, str(certificate)
    with pytest.raises(KeyError, match="there is no check 'nonsense'"):
        certificate["nonsense"]


def test_energy_balance() -> None:
    """A damped, driven oscillator: its energy changes by the work of both."""
    system = da.System(
        q=["x"], mass=[1.0], force=lambda t, q, v: [-q[0] - 0.3 * v[0] + np.cos(2 * t)],
        energy=lambda q, v: 0.5 * (v @ v + q @ q),
    )  # fmt: skip
    sol = da.solve(system, (0, 10), [1.0], [0.0], rtol=1e-8, atol=1e-10)
    row = sol.check()["energy"]
    assert row.largest < 1e-6
    assert np.ptp(sol.energy) > 0.1
    slider, _ = run("slider-crank", 0.5)
    assert "no energy" in slider.check()["energy"].note


def test_redundant_constraints(pendulum_with: Any) -> None:
    twice = pendulum_with(constraints=lambda q: {"rod": q @ q - 1, "again": 2 * (q @ q) - 2})
    sol = da.solve(twice, (0, 1), [1, 0], [0, 0])
    certificate = sol.check(rerun=True)
    assert certificate.passed, str(certificate)
    assert sol.lam_error.shape == (sol.t.size, 2)
    np.testing.assert_allclose(sol.lam_error[:, 1], 2 * sol.lam_error[:, 0], atol=1e-12)


@pytest.mark.parametrize("end", [6.0, 20.0])
def test_large_forces_in_balance(end: float) -> None:
    """The preloads of the truck's springs are a million times their sum, which is what accelerations are made from."""
    sol, _ = run("truck", end, rtol=1e-8, atol=1e-8)
    certificate = sol.check()
    assert certificate.passed, str(certificate)
    evaluator = sol.evaluator
    assert evaluator is not None

    def bent(t: np.ndarray) -> dict[str, np.ndarray]:
        rows = evaluator(t)
        return {**rows, "lam": (1 + 1e-7) * rows["lam"]}

    wrong = replace(sol, evaluator=bent).check()
    assert wrong["M a = f - G^T lam"].passed is False


def test_rounding_is_bounded() -> None:
    """Against fractions, which do not round: of random numbers of all sizes none is beyond the bound, and the worst is
    not far below it."""
    a, b, c = symbols = [ca.SX.sym(name) for name in "abc"]
    expressions = ca.vertcat(a + b - c, a * b - c * c, (a - b) * (a + c), a / c - b, 2 * a + b / (c - a))
    values = ca.Function("values", symbols, [expressions, rounding(expressions, symbols)])
    rng, worst = np.random.default_rng(3), 0.0
    for _ in range(300):
        numbers = rng.normal(size=3) * 10.0 ** rng.uniform(-3, 3, size=3)
        numbers[2] = numbers[:2].sum() * (1 + 1e-9 * rng.normal())  # terms that cancel
        x, y, z = (Fraction(n) for n in numbers)
        exact = [x + y - z, x * y - z * z, (x - y) * (x + z), x / z - y, 2 * x + y / (z - x)]
        found, bound = (np.asarray(out).ravel() for out in values(*numbers))
        wrong = [abs(float(Fraction(f) - e)) for f, e in zip(found, exact, strict=True)]
        worst = max(worst, float(np.max(wrong / (0.5 * EPS * bound))))
    assert 0.05 < worst <= 1.0


# ---------------------------------------------------------------------- wrong runs
def test_wrong_trajectories_fail() -> None:
    """The same run presented with another trajectory: every check that should notices."""
    sol, _ = run("pendulum", 2.0)
    assert sol.check().passed

    def bent(change: Any) -> da.Solution:
        def evaluator(t: np.ndarray) -> dict[str, np.ndarray]:
            rows = sol.evaluator(t)
            return {**rows, **change(t, rows)}

        return replace(sol, evaluator=evaluator)

    wave = {"v": lambda t, rows: {"v": rows["v"] + 0.01 * np.sin(5 * t)[:, None]}}
    wrong = bent(wave["v"]).check()
    assert not wrong.passed
    assert wrong["q' = v"].passed is False
    assert wrong["g' = 0"].passed is False
    wrong = bent(lambda t, rows: {"lam": 1.001 * rows["lam"]}).check()
    assert wrong["M a = f - G^T lam"].passed is False
    wrong = bent(lambda t, rows: {"q": 1.0001 * rows["q"]}).check()
    assert wrong["g = 0"].passed is False
    assert "NOT passed" in str(wrong)


def test_drift_fails() -> None:
    """Index 1 without projection leaves the constraints."""
    sol, _ = run("pendulum", 20.0, method="bdf", formulation="index-1", projection=None, rtol=1e-5, atol=1e-7)
    certificate = sol.check()
    assert certificate["g = 0"].passed is False
    assert not certificate.passed


def test_wrong_equations_fail() -> None:
    """A run of one system, checked with the equations of another."""
    sol, _ = run("pendulum", 1.0)
    heavier = da.System(
        q=["x", "y"], mass=[1, 1], force=[0, -9.9], constraints=lambda q: {"rod": (q @ q - 1) / 2}
    )  # fmt: skip
    sol.context = replace(sol.context, system=heavier, p=np.zeros(0))
    assert sol.check()["M a = f - G^T lam"].passed is False


# ---------------------------------------------------------------------- what cannot be judged
def test_fixed_steps_have_no_tolerance() -> None:
    sol, _ = run("pendulum", 1.0, method="generalized-alpha", h=0.01)
    certificate = sol.check(rerun=True)
    assert certificate["q' = v"].passed is None
    assert certificate["g = 0"].passed is True
    assert certificate["error of lam"].largest > 0
    assert certificate["error of lam"].allowed is None


def test_without_dense_output() -> None:
    sol, _ = run("pendulum", 1.0, t_eval=np.linspace(0, 1, 11))
    certificate = sol.check(rerun=True)
    assert "leave t_eval out" in certificate["equations"].note
    assert certificate["error of q"].passed
    assert sol.lam_error.shape == (11, 1)


def test_loaded_solutions_cannot_be_checked(tmp_path: Any) -> None:
    sol, _ = run("pendulum", 0.5)
    sol.save(tmp_path / "run.nc")
    back = da.load(tmp_path / "run.nc")
    for call in (back.check, lambda: back.lam_error):
        with pytest.raises(ValueError, match="does not know its system"):
            call()


def test_failed_runs_do_not_pass() -> None:
    sol, _ = run("pendulum", 5.0, max_steps=10)
    assert not sol.success
    assert not sol.check().passed


@pytest.mark.parametrize(("options", "text"), [({"points": 0}, "points=0"), ({"limit": -1}, "limit=-1")])
def test_bad_arguments(options: dict[str, Any], text: str) -> None:
    sol, _ = run("pendulum", 0.1)
    with pytest.raises(ValueError, match=text):
        sol.check(**options)
