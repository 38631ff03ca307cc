"""The automatic choice of the method, and its change during a run."""

import numpy as np
import pytest
from numba import types

import dalembert as da
from dalembert.compiler.engine import fuses
from dalembert.numerics.arnoldi import find_eigenvalues
from dalembert.numerics.compiled import compile_with_blocks
from dalembert.numerics.work import WORK_TYPE

RADAU5 = {"method": da.Radau(stages=5), "formulation": "index-1"}


def run(name, tol=1e-6, **options):
    p = da.problems()[name]
    return da.solve(p.system, p.t_span, p.q0, p.v0, rtol=tol, atol=tol, **options)


def damped_for_a_while(d):
    """A pendulum in a fluid that is thick from t = 2 to 4 and moves to and fro."""

    def force(t, v, p):
        thick = np.tanh(20 * (t - 2)) - np.tanh(20 * (t - 4))
        return [-0.5 * p.d * thick * (v[0] - np.cos(t)), -9.81]

    return da.System(
        q=["x", "y"], mass=[1, 1], force=force, constraints=lambda q: [q[0] ** 2 + q[1] ** 2 - 1], parameters={"d": d}
    )


@pytest.mark.parametrize("name", ["pendulum", "andrews", "heavy-top", "knife-edge", "car-axis"])
@pytest.mark.parametrize("tol", [1e-4, 1e-8])
def test_nonstiff_problems_stay_with_iterated_steps(name, tol):
    p = da.problems()[name]
    t_span = (p.t_span[0], min(p.t_span[1], 10.0))
    sol = da.solve(p.system, t_span, p.q0, p.v0, rtol=tol, atol=tol)
    assert sol.success
    method = da.Iterated() if p.system.space.flat else da.Iterated(sweeps=7)
    assert [s.method for s in sol.stats.segments] == [method.describe()]
    assert sol.stats.segments[0].reason == "auto: not stiff as far as is known"


@pytest.mark.parametrize("tol", [1e-4, 1e-7, 1e-10])
def test_the_truck_is_stiff(tol):
    sol = run("truck", tol)
    assert [s.method.split()[0] for s in sol.stats.segments] == ["radau"]  # noticed before the first step
    assert sol.stats.segments[0].reason == "auto: stiff"
    assert sol.stats.steps < 0.2 * run("truck", tol, method="explicit").stats.steps
    reference = run("truck", 1e-11, method="explicit")
    size = 1.0 + np.abs(reference.v).max()
    assert np.abs(sol.q[-1] - reference.q[-1]).max() < 30 * tol
    assert np.abs(sol.v[-1] - reference.v[-1]).max() < 30 * tol * size


def errors_within(sol, reference):
    """Largest errors of q, v, lam at and between the steps, relative to 1 + |x|."""
    t = (sol.t[:-1, None] + np.diff(sol.t)[:, None] * np.linspace(0, 1, 11)[1:]).ravel()
    found, exact = sol(t), reference(t)
    return np.array([np.max(np.abs(getattr(found, n) - x) / (1 + np.abs(x))) for n in ("q", "v", "lam")
                     for x in [getattr(exact, n)]])  # fmt: skip


@pytest.mark.parametrize("tol", [1e-4, 1e-7, 1e-10])
def test_eight_stages_on_the_truck_are_much_better_than_three(tol):
    """In less steps; between them, too, although they are long."""
    reference = run("truck", 1e-13, method="explicit")
    sol, three = run("truck", tol), run("truck", tol, method=da.Radau(stages=3), formulation="index-1")
    assert sol.stats.method == "radau (8 stages at once)"
    assert sol.stats.steps < three.stats.steps
    assert np.all(errors_within(sol, reference) < 0.05 * errors_within(three, reference))


def test_vibrations_that_are_not_excited():
    """An elastic rod, 50 times as fast as its motion: noticed before the first step."""
    for tol in (1e-4, 1e-7):
        sol = run("slider-crank-flexible", tol)
        assert [s.method for s in sol.stats.segments] == ["radau (8 stages at once)"]
        assert sol.stats.steps < 0.5 * run("slider-crank-flexible", tol, method="iterated").stats.steps


@pytest.mark.parametrize("d", [1e3, 1e5])
def test_stiffness_that_comes_and_goes(d):
    system = damped_for_a_while(d)
    sol = da.solve(system, (0, 10), [1, 0], rtol=1e-7, atol=1e-7)
    methods = [s.method.split()[0] for s in sol.stats.segments]
    changes = [s.t0 for s in sol.stats.segments[1:3]]
    free = "iterated" if fuses() else "explicit"  # the exponential has a vector form there
    assert methods[:2] == [free, "radau"]
    assert 1.5 < changes[0] < 2.5
    if d > 1e4:  # else implicit steps are long enough to stay with
        assert methods[2] == free
        assert 2.5 < changes[1] < 6.0
    reference = da.solve(system, (0, 10), [1, 0], rtol=1e-11, atol=1e-11, **RADAU5)
    assert np.abs(sol.q[-1] - reference.q[-1]).max() < 1e-5
    # what is stored and what lies in between do not show the change
    assert np.all(np.diff(sol.t) >= 0)
    times = np.linspace(0, 10, 500)
    assert np.abs(sol(times).q - reference(times).q).max() < 1e-5
    assert np.abs(sol.drift.position).max() < 1e-13
    assert np.abs(sol.drift.velocity).max() < 1e-11


def test_output_times_and_events_pass_through_a_change():
    system = damped_for_a_while(1e4)
    times = np.linspace(0, 10, 41)

    def lowest(q):
        return q[0]

    plain = da.solve(system, (0, 10), [1, 0], rtol=1e-8, atol=1e-8, events=lowest, **RADAU5)
    sol = da.solve(system, (0, 10), [1, 0], rtol=1e-8, atol=1e-8, events=lowest, t_eval=times)
    assert len(sol.stats.segments) > 1
    np.testing.assert_array_equal(sol.t, times)
    assert np.abs(sol.q - plain(times).q).max() < 1e-6
    np.testing.assert_allclose(sol.t_events[0], plain.t_events[0], atol=1e-6)


def test_what_it_chooses_and_why():
    cases = [
        ("pendulum", {"h": 0.01}, "bdf", "auto: prescribed steps"),
        ("pendulum", {"formulation": "stabilized-index-2"}, "bdf", "auto: the formulation stabilized-index-2"),
        ("friction-pendulum", {}, "radau", "auto: friction"),
        ("contact-point", {}, "radau", "auto: friction, auxiliary variables or contact coordinates"),
        ("sliding-ladder", {}, "radau", "auto: "),
    ]
    for name, options, method, why in cases:
        p = da.problems()[name]
        t_span = (p.t_span[0], p.t_span[0] + 0.1 * (p.t_span[1] - p.t_span[0]))
        sol = da.solve(p.system, t_span, p.q0, p.v0, **options)
        assert sol.success
        assert sol.stats.segments[0].method.lower().startswith(method)
        assert sol.stats.segments[0].reason.startswith(why)


@pytest.mark.parametrize("tol", [1e-4, 1e-9])
def test_implicit_accelerations_all_stages_at_once_if_they_are_few(tol):
    assert run("friction-pendulum", tol).stats.method == "radau (8 stages at once)"
    n = 12  # pendulums with friction in their joints: 24 velocities, 12 multipliers
    system = da.System(
        q=2 * n,
        mass=np.ones(2 * n),
        constraints=lambda q: [q[2 * i] ** 2 + q[2 * i + 1] ** 2 - 1 for i in range(n)],
        force=lambda v, lam: [-0.1 * lam[i // 2] ** 2 * np.tanh(v[i]) - 9.81 * (i % 2) for i in range(2 * n)],
    )
    sol = da.solve(system, (0, 0.1), np.tile([1.0, 0.0], n), np.zeros(2 * n), rtol=tol, atol=tol)
    assert sol.success
    assert sol.stats.method.startswith("BDF")


def test_spectrum_of_a_damped_oscillator():
    """x'' = -k x - d x': roots of s^2 + d s + k."""
    system = da.System(q=["x"], mass=[1.0], force=lambda q, v: [-2500.0 * q[0] - 20.0 * v[0]])
    sol = da.solve(system, (0, 0.1), [1.0], [0.0], method="explicit")
    assert sol.success
    (assembly,) = system.__dict__["_assemblies"].values()
    work = assembly.workspace(np.zeros(0))
    row = np.zeros(assembly.layout.n)
    row[assembly.layout.slice("q")] = 1.0
    signature = types.int64(WORK_TYPE, types.float64, types.float64[::1], types.float64, types.int64, types.float64)
    find = compile_with_blocks(find_eigenvalues.py_func, signature)
    assert find(work.block, 0.0, row, 0.0, 0, 1e-13) == 2
    real, imaginary = work.arrays.krylov.eigenvalues[:2]
    expected = np.sort_complex(np.roots([1.0, 20.0, 2500.0]))
    np.testing.assert_allclose(np.sort_complex(real + 1j * imaginary), expected, rtol=1e-6)
    assert find(work.block, 0.0, row, 49.0, 0, 1e-13) == 2
    assert find(work.block, 0.0, row, 1e4, 0, 1e-13) == 0  # none is that large


def damped_spring(k=2500.0, d=20.0):
    """A mass on a rail, pushed by another one that swings slowly, between a spring and a damper."""
    return da.System(
        q=["x", "y", "z"], mass=[1.0, 1.0, 1.0], constraints=lambda q: [q[1]],
        force=lambda q, v, p: [q[2] - p.k * q[0] - p.d * v[0], -9.81, -q[2]], parameters={"k": k, "d": d},
    )  # fmt: skip


BEGIN = [0, 0, 0], [0, 0, 1]
SOFT, STIFF, VIBRATING = {"k": 4.0, "d": 0.1}, {"k": 1e8, "d": 1e6}, {"k": 1e10, "d": 0.0}


def alone(parameters, **options):
    """A run of a system that no other run has been made of."""
    return da.solve(damped_spring(**parameters), (0, 3), *BEGIN, rtol=1e-6, atol=1e-8, **options)


def outline(sol):
    return [(s.method, s.reason, s.steps) for s in sol.stats.segments]


@pytest.mark.parametrize("options", [{}, {"t_eval": np.linspace(0, 3, 7)}, {"events": lambda q: q[0] - 1.0}])
def test_how_the_last_run_began_makes_no_difference(options):
    """Runs begin as the last one did, and find out whether that is right before the first step."""
    system, kinds = damped_spring(), [SOFT, STIFF, VIBRATING]
    by_themselves = [outline(alone(x, **options)) for x in kinds]
    assert [x[0][0].split()[0] for x in by_themselves] == ["iterated", "radau", "radau"]
    run = da.prepare(system, (0, 3), rtol=1e-6, atol=1e-8, **options)
    first = {}
    for i in (0, 0, 1, 1, 2, 2, 0, 2, 1, 0):
        sol = run(*BEGIN, parameters=kinds[i])
        assert sol.success
        assert outline(sol) == by_themselves[i]
        for name in ("t", "q", "v", "lam"):
            np.testing.assert_array_equal(getattr(sol, name), getattr(first.setdefault(i, sol), name))


def test_a_first_step_that_was_asked_for_is_made_by_the_other_method():
    for _ in range(2):
        sol = alone(STIFF, first_step=1e-3)
        assert [s.method.split()[0] for s in sol.stats.segments] == ["radau"]
        assert sol.t[1] == 1e-3


def test_the_way_back_to_a_motion_that_grows_is_not_stiff():
    """On a ridge: eigenvalues +-1e4 in a run of 1 s, of which the negative one is damped. Damped alone, it is stiff."""

    def first_method(force):
        system = da.System(q=["x", "z"], mass=[1, 1], force=force)
        return da.solve(system, (0, 1), [0, 0], [0, 1]).stats.segments[0].method.split()[0]

    assert first_method(lambda q: [1e8 * q[0], -q[1]]) == "iterated"
    assert first_method(lambda q, v: [-1e8 * q[0] - 2e4 * v[0], -q[1]]) == "radau"
