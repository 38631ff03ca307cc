"""Redundant constraints, reactions of smallest norm, and singular positions on the way: passed or reported."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dalembert as da
from dalembert.runtime import singular
from dalembert.status import InconsistentError, OptionError, RedundantError, Status


def joints(q: Any) -> Any:
    """Three parallel cranks of length 1 on one coupler: the third makes one constraint too many."""

    def end(bar: Any, side: int, length: float = 1.0) -> Any:
        x, y, phi = bar
        return np.array([x + side * length / 2 * np.cos(phi), y + side * length / 2 * np.sin(phi)])

    bars = [q[3 * i : 3 * i + 3] for i in range(4)]
    out = {f"foot {k}": end(bars[k], -1) - np.array([k, 0.0]) for k in range(3)}
    out.update({f"top {k}": end(bars[3], k - 1, 2.0) - end(bars[k], 1) for k in range(3)})
    return out


def cranks(constraints: Any) -> da.System:
    return da.System(
        q=[f"{c}{i}" for i in range(4) for c in ("x", "y", "phi")],
        mass=[1, 1, 1 / 12] * 3 + [2, 2, 2 / 3],
        force=[0, -9.81, 0] * 3 + [0, -2 * 9.81, 0],
        constraints=constraints,
    )


CRANKS, A = cranks(joints), 1.0
START = np.array(
    [x for k in range(3) for x in (k + 0.5 * np.cos(A), 0.5 * np.sin(A), A)] + [1 + np.cos(A), np.sin(A), 0.0]
)


def twice(pendulum_with: Any, factor: float = 2.0) -> da.System:
    return pendulum_with(constraints=lambda q: {"rod": q @ q - 1, "again": factor * (q @ q) - factor})


# ---------------------------------------------------------------------- resolved
@pytest.mark.parametrize("method", ["bdf", "radau", "generalized-alpha", "modified-bdf", "hht"])
def test_the_motion_is_that_without_the_surplus(pendulum_with: Any, method: str) -> None:
    """Bit for bit; the force 2 q lam of the one rod is shared as 1 : 2, so that |lam| is smallest."""
    start = {"q0": [1, 0], "v0": [0, 0], "method": method}
    sol, one = da.solve(twice(pendulum_with), (0, 0.5), **start), da.solve(pendulum_with(), (0, 0.5), **start)
    np.testing.assert_array_equal(sol.q, one.q)
    np.testing.assert_allclose(sol.lam, one.lam * [1 / 5, 2 / 5], rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(sol(0.3).lam, one(0.3).lam * [1 / 5, 2 / 5], rtol=1e-13)
    assert sol.drift.position.shape == (sol.t.size, 2)
    assert sol.stats.redundant == ("again",)
    assert sol.stats.undetermined == ("rod", "again")
    assert "follow from the others" in sol.stats.warnings[0]
    assert not one.stats.warnings


def test_unique_reactions_and_others() -> None:
    """What a joint carries along the cranks is shared arbitrarily; forces across them are not."""
    sol = da.solve(CRANKS, (0, 0.3), START, rtol=1e-8, atol=1e-10)
    assert sol.success
    assert len(sol.stats.redundant) == 1
    names = CRANKS.names["lam"]
    unique = [n for n in names if n not in sol.stats.undetermined]
    # the force of the constraints is what it is, however it is shared
    state = sol(0.2)
    found = da.reactions(CRANKS, state)
    np.testing.assert_allclose(state.lam, found.lam, atol=1e-9)
    np.testing.assert_allclose(state.a, found.a, atol=1e-9)
    assert [n for n, u in zip(names, found.unique, strict=True) if u] == unique
    C, kernel = found.C, found.kernel
    assert kernel.shape == (12, 1)
    assert np.abs(C.T @ kernel).max() < 1e-14
    assert abs(kernel[:, 0] @ state.lam) < 1e-9  # smallest norm: nothing along the kernel
    # leaving out another constraint gives other multipliers only where they are not unique
    first = names.index(sol.stats.undetermined[0])
    other = cranks(lambda q: np.delete(np.concatenate(list(joints(q).values())), first))
    kept = [n for n in names if n != sol.stats.undetermined[0]]
    lam = dict(zip(kept, da.consistent(other, state.q, state.v, initial="assume").lam, strict=True))
    for i, name in enumerate(names):
        if name in unique:
            assert state.lam[i] == pytest.approx(lam[name], abs=1e-8)


def test_consistent_state(pendulum_with: Any) -> None:
    state = da.consistent(twice(pendulum_with), [2.0, 0.0], [1.0, 1.0])
    np.testing.assert_allclose(state.q, [1, 0], atol=1e-15)
    np.testing.assert_allclose(state.lam, [0.1, 0.2], atol=1e-14)  # -v^2 = -2 q lam, lam = 1/2 for one rod


def test_events_see_all_multipliers(pendulum_with: Any) -> None:
    def strong(lam: Any) -> Any:
        return lam[1] - 5.0

    def strong_too(lam: Any) -> Any:
        return 5.0 - float(lam[1])  # cannot be traced

    sol = da.solve(twice(pendulum_with), (0, 1), [1, 0], [0, 0], rtol=1e-9, atol=1e-11, events=[strong, strong_too])
    assert len(sol.t_events[0]) == 2
    np.testing.assert_allclose(sol.events[0].lam, [[2.5, 5.0]] * 2, atol=1e-6)
    np.testing.assert_allclose(sol.t_events[1], sol.t_events[0], atol=1e-8)


def test_velocity_constraints(pendulum_with: Any) -> None:
    """A velocity constraint that repeats the rod; both carry their share."""
    both = pendulum_with(velocity_constraints=lambda q, v: {"roll": 3 * (q @ v)})
    sol = da.solve(both, (0, 0.5), [1, 0], [0, 0], rtol=1e-9, atol=1e-11)
    one = da.solve(pendulum_with(), (0, 0.5), [1, 0], [0, 0], rtol=1e-9, atol=1e-11)
    # force 2 q lam + 3 q mu = 2 q x
    np.testing.assert_allclose(np.hstack([sol.lam, sol.mu]), one.lam * [4 / 13, 6 / 13], atol=1e-9)
    assert sol.stats.undetermined == ("rod", "roll")


def test_no_freedom_left(pendulum_with: Any) -> None:
    """Everything held three times over."""
    held = pendulum_with(constraints=lambda q: {"a": q[0] - 1, "b": q[1], "c": q[0] + q[1] - 1, "d": q[0] - q[1] - 1})
    sol = da.solve(held, (0, 1), [1, 0])
    assert sol.success
    # C^T lam = f = (0, -9.81): smallest norm (0, -3.27, -3.27, 3.27)
    np.testing.assert_allclose(sol.lam[-1], [0, -3.27, -3.27, 3.27], atol=1e-12)


def test_saved_and_loaded(pendulum_with: Any, tmp_path: Any) -> None:
    sol = da.solve(twice(pendulum_with), (0, 0.2), [1, 0], [0, 0])
    sol.save(tmp_path / "run.nc")
    back = da.load(tmp_path / "run.nc")
    np.testing.assert_array_equal(back.lam, sol.lam)
    assert back.stats.undetermined == sol.stats.undetermined
    assert back.stats.warnings == sol.stats.warnings


# ---------------------------------------------------------------------- refused
def test_refused_if_asked_for(pendulum_with: Any) -> None:
    with pytest.raises(RedundantError, match=r"'rod', 'again' depend.*Remove 1 of them, or use redundant='resolve'"):
        da.solve(twice(pendulum_with), (0, 1), [1, 0], redundant="refuse")
    with pytest.raises(OptionError, match="redundant='maybe'"):
        da.solve(twice(pendulum_with), (0, 1), [1, 0], redundant="maybe")  # type: ignore[arg-type]


def test_contradictions_are_named(pendulum_with: Any) -> None:
    wrong = pendulum_with(constraints=lambda q: {"a": q[0] - 1, "b": 2 * q[0] - 3})
    with pytest.raises(InconsistentError, match="position constraint 'b': residual -1"):
        da.solve(wrong, (0, 1), [1, 0])
    with pytest.raises(InconsistentError, match=r"'b': residual.*'a': residual.*contradict"):
        da.solve(wrong, (0, 1), [1, 0], initial="project")


def test_contradictions_that_come_later(pendulum_with: Any) -> None:
    """Two drives that agree until t = 0.5: the run ends where they part."""
    apart = pendulum_with(
        constraints=lambda t, q: {"a": q[0] - np.sin(t), "b": q[0] - np.sin(t) - np.fmax(0, t - 0.5) ** 4}
    )
    sol = da.solve(apart, (0, 1), [0, 0], [1, 0])
    assert sol.status == Status.CONTRADICTION
    assert not sol.success
    assert sol.t[-1] < 0.6
    assert "'b'" in sol.message
    assert np.abs(sol.drift.position).max() < 1e-5
    soon = pendulum_with(constraints=lambda t, q: {"a": q[0] - np.sin(t), "b": q[0] - t})
    with pytest.raises(InconsistentError, match="'a', 'b' depend on each other and agree at t = 0, but not at"):
        da.solve(soon, (0, 1), [0, 0], [1, 0])


def test_singular_start_is_not_redundancy(pendulum_with: Any) -> None:
    touching = pendulum_with(constraints=lambda q: {"left": q @ q - 1, "right": (q[0] - 2) ** 2 + q[1] ** 2 - 1})
    with pytest.raises(RedundantError, match=r"'left', 'right'.*singular position.*Start beside it"):
        da.solve(touching, (0, 1), [1, 0])


def test_friction_needs_unique_multipliers(pendulum_with: Any) -> None:
    rough = pendulum_with(
        constraints=lambda q: {"rod": q @ q - 1, "again": 2 * (q @ q) - 2},
        force=lambda v, lam: [-0.1 * lam[0] * v[0], -9.81 - 0.1 * lam[0] * v[1]],
    )
    with pytest.raises(RedundantError, match="not unique, but force depends on them"):
        da.solve(rough, (0, 1), [1, 0])


# ---------------------------------------------------------------------- singular positions on the way
@pytest.fixture(scope="module")
def four_bar() -> Any:
    return da.problems()["four-bar"]


PASSING = [(m, rtol) for m in ("bdf", "radau", "gauss") for rtol in (1e-4, 1e-7)]


@pytest.mark.parametrize(("method", "rtol"), PASSING)
def test_parallelograms_through_the_flat_position(four_bar: Any, method: str, rtol: float) -> None:
    """The bars lie down at t = 0.71435553, 1.2281594 and 2.6568705 (from the angle): passed, and said so."""
    sol = da.solve(four_bar.system, (0, 3), four_bar.q0, four_bar.v0, method=method, rtol=rtol, atol=rtol / 100)
    assert sol.success
    assert np.abs(sol.q[-1] - four_bar.reference(3.0)["q"]).max() < 300 * rtol
    times = [float(w.split("at t = ")[1].split()[0]) for w in sol.stats.warnings]
    np.testing.assert_allclose(times, [0.71435553, 1.2281594, 2.6568705], atol=100 * rtol)
    assert all("lose rank" in w and "'foot 0[0]'" in w for w in sol.stats.warnings)


def test_a_singular_position_is_passed_or_named(four_bar: Any) -> None:
    """Differences of sixth order over past points get through at some tolerances, by luck; never without a word."""
    for rtol in (1e-4, 1e-6, 1e-7):
        sol = da.solve(four_bar.system, (0, 3), four_bar.q0, four_bar.v0, method="modified-bdf", rtol=rtol, atol=rtol)
        if sol.success:
            assert len(sol.stats.warnings) == 3
            assert np.abs(sol.q[-1] - four_bar.reference(3.0)["q"]).max() < 1000 * rtol
        else:
            assert min(abs(sol.t[-1] - t) for t in (0.71435553, 1.2281594, 2.6568705)) < 0.01
            assert "kinematic singularity" in sol.message
            assert "'foot 0[0]'" in sol.message


def test_t_eval_is_watched_too(four_bar: Any) -> None:
    sol = da.solve(four_bar.system, (0, 1), four_bar.q0, four_bar.v0, t_eval=[0, 1])
    assert len(sol.stats.warnings) == 1


def test_regular_motion_is_not_suspected(four_bar: Any) -> None:
    sol = da.solve(four_bar.system, (0, 0.7), four_bar.q0, four_bar.v0)
    assert sol.stats.warnings == ()
    for name, method, h in (("pendulum", "gauss", 0.6), ("andrews", "bdf", None), ("slider-crank", "radau", None)):
        problem = da.problems()[name]
        end = min(problem.t_span[1], 5.0)
        sol = da.solve(problem.system, (0, end), problem.q0, problem.v0, method=method, h=h)
        assert sol.stats.warnings == (), name


def slider_crank() -> da.System:
    return da.System(
        q=["crank", "x", "rod"],
        mass=[1.0, 1.0, 1.0],
        constraints=lambda q, p: {
            "slider x": q[1] - p.l * np.cos(q[2]) - np.cos(q[0]),
            "slider y": -p.l * np.sin(q[2]) - np.sin(q[0]),
        },
        parameters={"l": 1.0},
        energy=lambda v: 0.5 * (v @ v),
    )


CRANK = slider_crank()


def test_the_first_look_says_nothing_of_the_motion(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of C do not depend on q, and singular values do not change. But the vector that the watch begins with is far
    from that of the smallest one, 0.10: the first sigmas that are found are 0.48, 0.16, 0.16, which looks like a zero
    close to the second. It raised an alarm, which costs a hundred decompositions where there are many constraints."""
    m = 30
    A = np.eye(m, m + 1) + 0.9 * np.eye(m, m + 1, 1)
    system = da.System(
        q=m + 1, mass=np.ones(m + 1), force=lambda q: -q * (1 + np.arange(m + 1)), constraints=lambda q: A @ q
    )
    direction = np.linalg.svd(A)[2][-1]
    asked: list[Any] = []
    look = singular.inspect
    monkeypatch.setattr(singular, "inspect", lambda *x: asked.append(x) or look(*x))
    for tol in 10.0 ** np.arange(-5, -9.1, -0.5):
        assert da.solve(system, (0, 0.01), np.zeros(m + 1), direction, method="bdf", rtol=tol, atol=tol).success
    assert not asked


@pytest.mark.parametrize("options", [{}, {"method": "radau"}, {"method": "generalized-alpha", "h": 0.01}])
def test_equal_lengths_at_the_dead_point(options: Any) -> None:
    """Crank and rod of one length: at 90 degrees the slider may stop or go on; by its inertia it goes on.

    On that branch rod = -crank, x = 2 cos(crank), and (1 + 2 sin(crank)^2) crank'^2 is constant.
    """
    start = da.consistent(CRANK, [1.0, 1.0, -1.0], [1.5, 0, 0], fixed=["crank", "crank'"])
    sol = da.solve(CRANK, (0, 2), start.q, start.v, **{"rtol": 1e-8, "atol": 1e-10, **options})
    assert sol.success
    tolerance = 1e-3 if "h" in options else 1e-5
    np.testing.assert_allclose(sol.q[:, 2], -sol.q[:, 0], atol=1e-6)
    rate = (1 + 2 * np.sin(sol.q[:, 0]) ** 2) * sol.v[:, 0] ** 2
    np.testing.assert_allclose(rate, rate[0], rtol=tolerance)
    assert len(sol.stats.warnings) == 1
    assert "'slider y' lose rank" in sol.stats.warnings[0]
    assert ("fixed" in sol.stats.warnings[0]) == ("h" in options)


def test_the_dead_point_is_passed_or_reported() -> None:
    """Whatever steps come close to it: on the right branch and with a warning, or with the name of the constraint."""
    start = da.consistent(CRANK, [1.0, 1.0, -1.0], [1.5, 0, 0], fixed=["crank", "crank'"])
    passed = 0
    for k in np.arange(5.0, 10.51, 0.1):
        sol = da.solve(CRANK, (0, 2), start.q, start.v, rtol=10.0**-k, atol=10.0 ** -(k + 2))
        np.testing.assert_allclose(sol.q[:, 2], -sol.q[:, 0], atol=1e-6)
        assert "'slider y'" in (sol.stats.warnings[0] if sol.success else sol.message), k
        passed += sol.success
    assert passed >= 50  # of 56


def test_a_narrow_gap_is_no_singularity_but_a_long_step_is_told() -> None:
    """Lengths that differ by 1e-4: rod and crank go on turning together; a step of 0.2 jumps the gap instead."""
    start = da.consistent(CRANK, [1.0, 1.0, -1.0], [1.5, 0, 0], fixed=["crank", "crank'"], parameters={"l": 1.0001})
    fine = da.solve(CRANK, (0, 2), start.q, start.v, parameters={"l": 1.0001})
    coarse = da.solve(CRANK, (0, 2), start.q, start.v, parameters={"l": 1.0001}, method="radau", h=0.2)
    assert fine.success
    assert fine.stats.warnings == ()
    assert coarse.status == Status.SINGULAR
    assert coarse.t[-1] == pytest.approx(0.4)
    assert "'slider y'" in coarse.message
    assert "the velocities jump" in coarse.message
    fails = da.solve(CRANK, (0, 2), start.q, start.v, parameters={"l": 1.0001}, h=0.05)
    assert "a kinematic singularity is near" in fails.message


@pytest.mark.parametrize("method", ["bdf", "radau", "generalized-alpha"])
def test_a_single_constraint_whose_gradient_vanishes(method: str) -> None:
    """A point on the two lines x y = 0 passes their crossing at t = 1 along its own."""
    cross = da.System(q=["x", "y"], mass=[1, 1], constraints=lambda q: {"cross": q[0] * q[1]})
    sol = da.solve(cross, (0, 2), [-1, 0], [1, 0], method=method)
    np.testing.assert_allclose(sol.q[-1], [1, 0], atol=1e-12)
    assert len(sol.stats.warnings) == 1
    assert "at t = 1 the constraints 'cross' lose rank" in sol.stats.warnings[0]


def test_zero_without_change_of_sign() -> None:
    """The constraint (t - 1)^2 x = 0 says nothing at t = 1; no sign changes there."""
    fades = da.System(q=["x", "y"], mass=[1, 1], constraints=lambda t, q: {"fading": (t - 1.003) ** 2 * q[0]})
    sol = da.solve(fades, (0, 2), [0, 0], [0, 1], h=0.05)
    assert not sol.success or "'fading' lose rank" in "".join(sol.stats.warnings)
