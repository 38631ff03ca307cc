"""Dense output on Lie groups, from both ends of a step in its chart: as accurate as the steps, on the constraints."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import dalembert as da
from dalembert.problems.heavy_top import trajectory
from test_dense import Levels, between
from test_groups import begin, off_group
from test_model_groups import body_frame, heavy_top

EPS = np.finfo(float).eps
END = 0.05  # 7.5 rad of spin
PARTS = ("q", "v", "lam")
METHODS: list[tuple[Any, str | None, int]] = [  # with numbers of steps
    (da.Explicit(5), None, 40),
    (da.Explicit(8), None, 20),
    (da.Radau(2), "index-1", 80),
    (da.Radau(3), "index-1", 40),
    (da.Radau(3), "index-3", 40),
    (da.Gauss(3), "index-1", 20),
    (da.Rattle(4), "index-3", 100),
]
IDS = [f"{m.describe()} {f or ''}" for m, f, _ in METHODS]


@cache
def exact(form: str, times: tuple[float, ...]) -> dict[str, np.ndarray]:
    """The reference in the coordinates of a form."""
    out = dict(trajectory(np.array(times)))
    R = out["q"][:, 3:].reshape(-1, 3, 3)
    if body_frame(form):
        back = np.swapaxes(R, 1, 2)
        out["v"] = np.hstack([np.einsum("tij,tj->ti", back, out["v"][:, :3]), out["v"][:, 3:]])
        out["lam"] = np.einsum("tij,tj->ti", back, out["lam"])
    return out


def errors(form: str, state: Any, t: np.ndarray) -> dict[str, float]:
    reference = exact(form, tuple(t))
    return {x: float(np.abs(getattr(state, x)[-t.size :] - reference[x]).max()) for x in PARTS}


def run(form: str, method: Any, formulation: str | None, n: int) -> da.Solution:
    q0, v0 = begin(form)
    sol = da.solve(heavy_top(form), (0, END), q0, v0, method=method, formulation=formulation, h=END / n)
    assert sol.success, sol.message
    return sol


@pytest.mark.parametrize(("method", "formulation", "n"), METHODS, ids=IDS)
def test_as_accurate_between_steps_as_at_them(method: Any, formulation: str | None, n: int) -> None:
    sol = run("R3xSO3", method, formulation, n)
    t = between(sol.t)
    at, inside = errors("R3xSO3", sol, sol.t[1:]), errors("R3xSO3", sol(t), t)
    floor = {"q": 1e-12, "v": 1e-10, "lam": 1e-8}  # rounding and the reference
    for x in PARTS:
        assert inside[x] <= 2 * at[x] + floor[x], (x, at, inside)


@pytest.mark.parametrize("form", ["R3xSO3", "SE3"])
@pytest.mark.parametrize(
    ("method", "formulation", "n", "order"),
    [
        (da.Explicit(5), "index-1", 40, 5),
        (da.Radau(3), "index-1", 40, 5),
        (da.Gauss(2), "index-1", 80, 4),
        (da.GeneralizedAlpha(), "index-3", 200, 2),
    ],
    ids=str,
)
def test_order_between_steps(form: str, method: Any, formulation: str, n: int, order: int) -> None:
    found = []
    for count in (n, 2 * n):
        sol = run(form, method, formulation, count)
        t = between(sol.t)
        found.append(errors(form, sol(t), t))
    for x in PARTS:
        assert abs(np.log2(found[0][x] / found[1][x]) - order) < 0.3, (x, found)


@pytest.mark.parametrize("form", ["R3xSO3", "SE3", "quaternions"])
@pytest.mark.parametrize(("method", "formulation", "n"), METHODS[1:6:2], ids=IDS[1:6:2])
def test_constraints_hold_at_any_time(form: str, method: Any, formulation: str | None, n: int) -> None:
    system = heavy_top(form)
    sol = run(form, method, formulation, n)
    t = np.sort(np.random.default_rng(3).uniform(0, END, 50))
    state = sol(t)
    assert off_group(system, state.q) < 10 * EPS
    for i in range(t.size):
        levels = Levels.at(system, t[i], state.q[i], state.v[i])
        assert levels.position <= 100 * EPS
        assert levels.velocity <= 100 * EPS * np.abs(state.v[i]).max()
    chosen = da.solve(
        system, (0, END), *begin(form), method=method, formulation=formulation, h=END / n, t_eval=t
    )  # fmt: skip
    assert np.abs(chosen.q - state.q).max() < 1e-13


def test_steps_of_more_than_half_a_turn() -> None:
    """A body that turns by 4 rad a step: the logarithm alone would take the way back, of 2.3 rad."""
    body = da.System(q=da.spaces.SO3(), mass=np.array([1.0, 2.0, 3.0]), force=lambda v: np.zeros(3))
    sol = da.solve(body, (0, 20), np.eye(3), [0, 0, 2.0], method=da.Explicit(5), h=2.0)
    t = between(sol.t)
    R = sol(t).q.reshape(-1, 3, 3)
    assert np.abs(R[:, 0, 0] - np.cos(2 * t)).max() < 1e-13
    assert np.abs(R[:, 1, 0] - np.sin(2 * t)).max() < 1e-13
