"""HHT-alpha [Jay & Negrut 2007]: orders, tolerances, constraints, what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dalembert as da
from dalembert.formulations import Formulation
from dalembert.papers import jay_negrut_2007 as paper
from dalembert.status import ModelError, OptionError
from test_conditioning import check, method_conditions

PROBLEMS = ("jay-negrut-5.1", "jay-negrut-5.2", "slider-crank")


def run(name: str, t_end: float, method: Any = "hht", **options: Any) -> da.Solution:
    problem = da.problems()[name]
    sol = da.solve(problem.system, (0.0, t_end), problem.q0, problem.v0, method=method, **options)
    assert sol.success, sol.message
    return sol


# ---------------------------------------------------------------------- the paper
@pytest.mark.parametrize("label", paper.SWEEPS)
def test_slopes_and_errors_of_the_paper(label: str) -> None:
    """Slopes within 0.05, errors as an independent implementation has them to its digits; lam of order 2."""
    rows = paper.orders(label)
    assert len(rows) == (7 if label in paper.published(paper.DATA)["sweeps"] else 4)
    for row in rows:
        assert row["agrees"], row


def test_midpoint_variants_come_to_order_2() -> None:
    """At 320 steps the positions have slopes 2.18 and 1.95 yet."""
    for label in ("midpoint", "midpoint-explicit"):
        coarse, fine = (paper.errors(label, n)["y"] for n in (1280, 2560))
        assert np.log2(coarse / fine) == pytest.approx(2, abs=0.05)


def test_pendulum_reference() -> None:
    assert all(row["agrees"] for row in paper.angle())


def test_figures(tmp_path: Any) -> None:
    assert len(paper.figures(tmp_path)) == 4
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in tmp_path.iterdir())


# ---------------------------------------------------------------------- constraints and multipliers
@pytest.mark.parametrize("variant", ["standard", "explicit", "midpoint", "midpoint-explicit", "lunk-simeon"])
def test_constraints_hold_to_rounding(variant: str) -> None:
    sol = run("slider-crank", 2.0, da.HHT(variant=variant), h=0.01)
    assert sol.stats.projections == 0
    assert max(sol.drift.largest.values()) < 2e-14


@pytest.mark.parametrize("variant", ["standard", "explicit", "midpoint", "midpoint-explicit", "lunk-simeon"])
def test_condition_number_is_bounded(pendulum: Any, variant: str) -> None:
    for b in (0.0, 0.3) if not variant.startswith("midpoint") else (0.0,):
        method = da.HHT(-0.3, b, variant)
        check(
            f"{method.describe()}",
            method_conditions(pendulum.system, method, da.Overdetermined(), [0.6, -0.8], [0.8, 0.6]),
            100.0,
        )


def test_tiny_steps(pendulum: Any) -> None:
    h, n = 1e-8, 40
    q0, v0 = np.array([0.6, -0.8]), np.array([0.8, 0.6])
    sol = da.solve(pendulum.system, (0, n * h), q0=q0, v0=v0, method="hht", h=h)
    assert sol.success, sol.message
    assert sol.stats.newton_iterations <= 5 * n
    t = sol.t[-1]
    assert sol.q[-1] == pytest.approx(q0 + t * v0 + t**2 / 2 * sol.a[0], abs=1e-13)
    assert sol.v[-1] == pytest.approx(v0 + t * sol.a[0], abs=1e-11)


# ---------------------------------------------------------------------- variable steps
@pytest.mark.parametrize("alpha", [0.0, -0.1, -0.3])
@pytest.mark.parametrize("name", PROBLEMS)
def test_tolerances_are_met(name: str, alpha: float) -> None:
    """Errors of q, v and lam at every step below the tolerance, of slope 2 against the mean step; no spikes in lam."""
    problem = da.problems()[name]
    t_end = 1.0
    steps, found = [], []
    for tol in (1e-3, 1e-4, 1e-5, 1e-6, 1e-7):
        sol = run(name, t_end, da.HHT(alpha), rtol=tol, atol=tol)
        exact = problem.reference(sol.t)
        scaled = {
            what: np.abs(getattr(sol, what) - exact[what]).max() / max(1.0, np.abs(exact[what]).max())
            for what in ("q", "v", "lam")
        }
        assert max(scaled.values()) <= tol, (tol, scaled)  # at every step: no spikes
        assert sol.stats.rejected <= 0.1 * sol.stats.steps + 2
        steps.append(t_end / sol.stats.steps)
        found.append(list(scaled.values()))
    # the coarsest run is mostly start
    slopes = np.polyfit(np.log(steps[1:]), np.log(found[1:]), 1)[0]
    assert slopes == pytest.approx(np.full(3, 2.0), abs=0.15)


def test_backward_in_time_and_dense_output() -> None:
    problem = da.problems()["jay-negrut-5.2"]
    forth = run("jay-negrut-5.2", 0.2, rtol=1e-6, atol=1e-6)
    back = da.solve(
        problem.system, (0.2, 0.0), forth.q[-1], forth.v[-1], method="hht", rtol=1e-6, atol=1e-6, initial="project"
    )
    assert back.success, back.message
    assert back.q[-1] == pytest.approx(problem.q0, abs=5e-5)
    between = forth(np.array([0.05, 0.123]))
    exact = problem.reference(np.array([0.05, 0.123]))
    assert between.q == pytest.approx(exact["q"], abs=1e-5)
    assert between.lam == pytest.approx(exact["lam"], rel=1e-4)


# ---------------------------------------------------------------------- velocity constraints
@pytest.mark.parametrize("name", ["knife-edge", "rolling-disc", "rolling-sphere", "forced-knife-edge"])
@pytest.mark.parametrize("formulation", ["overdetermined", "index-2"])
def test_closed_form_solutions(name: str, formulation: str) -> None:
    problem = da.problems()[name]
    found = []
    for n in (200, 400):
        sol = run(name, 4.0, da.HHT(-0.3), h=4.0 / n, formulation=formulation)
        exact = problem.reference(sol.t)
        found.append([np.abs(getattr(sol, what) - exact[what]).max() for what in ("q", "v", "mu")])
        assert sol.drift.largest["nonholonomic"] < 1e-14
    coarse, fine = np.array(found)
    assert fine.max() < 2e-3
    for a, b in zip(coarse, fine, strict=True):
        assert b < 1e-12 or np.log2(a / b) == pytest.approx(2, abs=0.05)


@pytest.mark.parametrize("h", [0.01, 0.1])
def test_rolling_disc_for_1000_seconds(h: float) -> None:
    """Energy and constraint to rounding: the force of the constraint at the middle of the step does no work here."""
    sol = run("rolling-disc", 1000.0, h=h)
    mass = np.array([1.3, 1.3, 0.4, 0.9])
    energy = 0.5 * (sol.v**2 @ mass)
    assert np.abs(energy / energy[0] - 1).max() < 1e-12
    assert sol.drift.largest["nonholonomic"] < 1e-14


def both() -> da.System:
    """A particle on a sphere, with a slip condition, a full mass matrix, dynamic and auxiliary variables."""
    return da.System(
        q=["x", "y", "z"],
        mass=lambda q: [[2.0 + q[0] ** 2, 0.3, 0.1], [0.3, 1.5, 0.2 * q[1]], [0.1, 0.2 * q[1], 1.2]],
        force=lambda q, v, r, w: [-r[0], -9.81 + w[0], -0.3 * q[2]],
        constraints=lambda q: {"rod": (q @ q - 1) / 2},
        velocity_constraints=lambda q, v: {"slip": v[2] - q[1] * v[0]},
        dynamics=lambda v, r, w: [v[0] - 3 * r[0] + 0.1 * w[0]],
        r=1,
        auxiliary=lambda q, v, w: [w[0] + 0.2 * v[1] * q[0]],
        w=1,
    )


BOTH_START: dict[str, Any] = {"q0": [0.6, -0.64, 0.48], "v0": [0.8, 0.366, -0.512], "r0": [0.1], "initial": "project"}


@pytest.mark.parametrize("method", [da.HHT(), da.HHT(-0.2, 0.3), da.HHT(-0.2, 0.3, "lunk-simeon"),
                                    da.HHT(variant="midpoint")], ids=lambda m: m.describe())  # fmt: skip
def test_both_kinds_of_constraints_together(method: da.HHT) -> None:
    system = both()
    fine = da.solve(system, (0, 1), **BOTH_START, rtol=1e-11, atol=1e-12)
    found = []
    for n in (200, 400):
        steps = np.resize([1.0, 2.0], n)
        sol = da.solve(system, (0, 1), **BOTH_START, method=method, h=list(steps / steps.sum()))
        assert sol.success, sol.message
        assert max(sol.drift.largest.values()) < 1e-14
        found.append([np.abs(getattr(sol, x)[-1] - getattr(fine, x)[-1]).max() for x in ("q", "v", "r", "lam", "mu")])
    slopes = np.log2(found[0]) - np.log2(found[1])
    assert slopes == pytest.approx(np.full(5, 2.0), abs=0.1)


# ---------------------------------------------------------------------- other models
@pytest.mark.parametrize("formulation", ["overdetermined", "index-2"])
def test_friction(formulation: str) -> None:
    """A force that depends on the multiplier and on velocities: order 2."""
    problem = da.problems()["friction-pendulum"]
    found = []
    for n in (400, 800):
        sol = run("friction-pendulum", 0.4, da.HHT(-0.2), h=0.4 / n, formulation=formulation)
        exact = problem.reference(sol.t)
        found.append([np.abs(getattr(sol, x) - exact[x]).max() for x in ("q", "v", "lam")])
    assert np.log2(found[0]) - np.log2(found[1]) == pytest.approx(np.full(3, 2.0), abs=0.1)


OTHER = (
    "andrews", "contact-point", "four-bar", "free-oscillator", "moving-pivot", "paraboloid", "sliding-ladder",
    "spring-damper-series", "auxiliary",
)  # fmt: skip


@pytest.mark.parametrize("name", OTHER)
def test_other_problems(name: str) -> None:
    """One degree of freedom, rheonomic constraints, contact coordinates, dynamic and auxiliary variables, loops."""
    problem, tol = da.problems()[name], 1e-4
    start, end = problem.t_span
    end = end if problem.reference_times else min(end, start + 1.0)
    sol = da.solve(
        problem.system, (start, end), problem.q0, problem.v0, method="hht", rtol=tol, atol=tol, **problem.options
    )
    assert sol.success, sol.message
    exact = problem.reference(end)
    for what in ("q", "v", "lam"):
        if what in exact:
            size = max(1.0, np.abs(getattr(sol, what)).max(initial=0.0))
            assert np.abs(getattr(sol, what)[-1] - exact[what]).max(initial=0.0) <= 5 * tol * size, what
    assert max(sol.drift.largest.values()) < 1e-13


# ---------------------------------------------------------------------- groups
def test_spinning_top_on_a_group() -> None:
    """Attitude as an element of SO(3), tip held by a joint: order 2 in all variables."""
    arm = np.array([0.0, 1.0, 0.0])
    inertia = np.array([0.23, 0.47, 0.23])
    system = da.System(
        q=da.spaces.R3xSO3(),
        mass=[2.0, 2.0, 2.0, *inertia],
        force=lambda v: [0, 0, -19.62, *(-np.cross(v[3:], inertia * v[3:]))],
        constraints=lambda q: -q.x + q.R @ arm,
    )
    turn = np.array([0.3, 9.0, -1.0])
    start = {"q0": {"x": arm, "R": np.eye(3)}, "v0": [*np.cross(turn, arm), *turn]}
    fine = da.solve(system, (0, 1), **start, rtol=1e-11, atol=1e-12)
    found = []
    for n in (200, 400):
        sol = da.solve(system, (0, 1), **start, method="hht", h=1 / n)
        assert sol.success, sol.message
        assert sol.drift.largest["position"] < 1e-13
        assert sol.drift.largest["velocity"] < 1e-12
        found.append([np.abs(getattr(sol, x)[-1] - getattr(fine, x)[-1]).max() for x in ("q", "v", "lam")])
    assert np.log2(found[0]) - np.log2(found[1]) == pytest.approx(np.full(3, 2.0), abs=0.1)
    free = da.solve(system, (0, 1), **start, method="hht", rtol=1e-5, atol=1e-5)
    assert free.success, free.message
    assert np.abs(free.q[-1] - fine.q[-1]).max() < 1e-4


# ---------------------------------------------------------------------- what is refused
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"alpha": 0.1}, "alpha=0.1"),
        ({"alpha": -0.34}, "-1/3 <= alpha <= 0"),
        ({"alpha": "small"}, "finite number"),
        ({"alpha": float("nan")}, "finite number"),
        ({"b": 0.5}, "b=0.5"),
        ({"variant": "best"}, "'lunk-simeon'"),
        ({"variant": "midpoint", "b": 0.3}, "b = 0"),
        ({"rescale": 1}, "True or False"),
    ],
)
def test_options_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        da.HHT(**options)


def solve_pendulum(**options: Any) -> da.Solution:
    return run("pendulum", 1.0, **options)


@pytest.mark.parametrize(
    ("method", "formulation", "words"),
    [
        (da.HHT(), "index-3", "cannot integrate the formulation 'index-3'"),
        (da.HHT(), da.Overdetermined(weight="mass"), "does not project"),
        (da.HHT(variant="explicit"), "index-2", "leave them out"),
        (da.HHT(b=0.3), da.Index2(), "leave them out"),
    ],
)
def test_formulations_are_refused(method: da.HHT, formulation: str | Formulation, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        solve_pendulum(method=method, formulation=formulation, h=0.01)


def test_models_are_refused() -> None:
    motor = da.System(
        q=2, mass=[1.0, 1.0], force=lambda r: [r[0], 0], constraints=lambda q: q[1], r=1, dynamics=lambda lam: [lam[0]]
    )
    with pytest.raises(OptionError, match="dynamics without 'lam'"):
        da.solve(motor, (0, 1), [0, 0], [1, 0], r0=[0], method="hht")
    rough = da.black_box(lambda v, lam: [-0.1 * abs(lam[0]) * v[0], 1.0])
    friction = da.System(q=2, mass=[1.0, 1.0], force=rough, constraints=lambda q: q[1])
    with pytest.raises(OptionError, match="black box"):
        da.solve(friction, (0, 1), [0, 0], [1, 0], method="hht")
    massless = da.System(q=2, mass=[1.0, 0.0], constraints=lambda q: q[1])
    with pytest.raises(ModelError, match="regular mass"):
        da.solve(massless, (0, 1), [0, 0], [1, 0], method="hht")
    nonlinear = da.problems()["jay-negrut-5.1"]
    with pytest.raises(OptionError, match="linear in lam"):
        da.solve(nonlinear.system, (0, 1), nonlinear.q0, nonlinear.v0, method=da.HHT(variant="lunk-simeon"))
    first_order = da.problems()["ascher-petzold-2"]
    with pytest.raises(OptionError, match="first order"):
        da.solve(first_order.system, (0, 1), first_order.q0, method="hht")
