"""Figures: the right panels, nothing lost by thinning out, paths checked."""

import numpy as np
import pytest

import dalembert as da
from dalembert.plotting import MOST_POINTS, PlotError, envelope, plot_solution, thin
from dalembert.solution import PARTS, Drift, Solution
from dalembert.status import Stats, Status


def by_hand(nt=50, sizes=None, **more):
    sizes = {"q": 2, "v": 2, "a": 2, **(sizes or {})}
    t = np.linspace(0, 1, nt)
    parts = {name: np.sin(np.outer(t, np.arange(1, 1 + sizes.get(name, 0)))) for name in PARTS}
    names = {name: tuple(f"{name}{i}" for i in range(sizes.get(name, 0))) for name in PARTS}
    given = {"status": Status.SUCCESS, "message": "", "stats": Stats(steps=nt, method="M"), "system_name": "S"}
    return Solution(t=t, parts=parts, **{"names": names, **given, **more})


def labels(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def panels(figure):
    return [ax.get_ylabel() for ax in figure.axes]


@pytest.fixture(scope="module")
def pendulum():
    problem = da.problems()["pendulum"]
    return da.solve(problem.system, (0, 3), q0=problem.q0, v0=problem.v0)


def test_panels_of_the_pendulum(pendulum, tmp_path):
    figure = pendulum.plot(tmp_path / "run.png")
    assert (tmp_path / "run.png").read_bytes().startswith(b"\x89PNG")
    assert panels(figure) == ["positions", "velocities", "multipliers", "residuals"]
    assert labels(figure.axes[0]) == ["x", "y"]
    assert labels(figure.axes[2]) == ["λ rod"]
    assert figure.axes[3].get_yscale() == "log"
    title = figure.get_suptitle()
    assert "pendulum" in title
    assert "iterated" in title
    assert f"{pendulum.stats.steps} steps" in title


def test_free_system_has_no_constraint_panels():
    empty = np.zeros((50, 0))
    assert panels(plot_solution(by_hand(drift_of=lambda: Drift(empty, empty, empty, empty)))) == [
        "positions",
        "velocities",
    ]


def test_both_multipliers_and_states():
    figure = plot_solution(by_hand(sizes={"lam": 1, "mu": 1, "r": 1, "s": 1}))
    assert panels(figure) == ["positions", "velocities", "states", "multipliers"]
    assert labels(figure.axes[2]) == ["r r0", "s s0"]
    assert labels(figure.axes[3]) == ["λ lam0", "μ mu0"]


def test_a_failed_run_says_where_it_stopped():
    title = plot_solution(by_hand(status=Status.STEP_TOO_SMALL)).get_suptitle()
    assert "stopped at t = 1 (step too small)" in title


@pytest.mark.parametrize("nt", [1, 2, 100_000])
def test_few_and_many_points(nt, tmp_path):
    drift = Drift(np.zeros((nt, 1)), np.full((nt, 1), 1e-16), np.zeros((nt, 0)), np.zeros((nt, 0)))
    figure = plot_solution(by_hand(nt, drift_of=lambda: drift), tmp_path / "run.svg")
    assert all(len(line.get_xdata()) <= MOST_POINTS + 2 for ax in figure.axes for line in ax.lines)


def test_many_components(tmp_path):
    figure = plot_solution(by_hand(sizes={"q": 60}), tmp_path / "many.png")
    assert len(figure.axes[0].lines) == 60
    shown = labels(figure.axes[0])
    assert len(shown) == 8
    assert (shown[0], shown[-1]) == ("q0", "q59")


def test_names_that_matplotlib_would_interpret(tmp_path):
    plot_solution(by_hand(names={"q": ("$x", "_y"), "v": ("θ'", "a$b$")}, system_name="$"), tmp_path / "odd.png")


def test_not_finite_values(tmp_path):
    sol = by_hand(30_000)
    sol.q[10:20] = np.nan
    sol.q[-1] = np.inf
    plot_solution(sol, tmp_path / "nan.png")


def test_residuals_that_cannot_be_evaluated_leave_the_rest():
    def fail():
        raise ZeroDivisionError

    assert panels(plot_solution(by_hand(drift_of=fail))) == ["positions", "velocities"]


def test_thinning_keeps_extrema_and_ends():
    t = np.linspace(0, 1, 90_001)
    x = np.sin(2000 * t)
    x[12_345], x[54_321] = 7, -7
    s, y = thin(t, x, 1000)
    assert y.size <= 1002
    assert (y.max(), y.min()) == (7, -7)
    assert (s[0], s[-1]) == (0, 1)
    assert np.all(np.diff(s) > 0)


@pytest.mark.parametrize("sign", [1, -1])
def test_envelope(sign):
    t = sign * np.linspace(0, 1, 1001)
    x = np.zeros(1001)
    x[[5, 500, 1000]] = 1, 2, 3
    s, y = envelope(t, x, 10)
    assert y.size == 10
    assert sorted(y)[-3:] == [1, 2, 3]
    assert np.all(np.diff(s) * sign > 0)


@pytest.mark.parametrize(("name", "message"), [("run.xyz", "suffix '.xyz'.*.png"), ("run", "no suffix")])
def test_unknown_suffix(name, message, tmp_path):
    with pytest.raises(PlotError, match=message):
        plot_solution(by_hand(), tmp_path / name)


def test_folder_that_does_not_exist(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere does not exist"):
        plot_solution(by_hand(), tmp_path / "nowhere" / "run.png")


def test_empty_solution():
    with pytest.raises(PlotError, match="nothing to plot"):
        plot_solution(by_hand(0))
