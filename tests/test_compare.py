"""Work and precision of pairs of method and formulation, as a function and as a command."""

import json
import re
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

import dalembert as da
from dalembert import cli
from dalembert.analysis.compare import Comparison, Trial, compare, front, time_at

PAIRS = {"methods": ["bdf", "explicit"], "formulations": ["index-1", "index-2"]}


@pytest.fixture
def call(monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")

    def invoke(*arguments):
        result = CliRunner().invoke(cli.app, [str(x) for x in arguments])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return SimpleNamespace(code=result.exit_code, out=result.stdout, err=re.sub(r"\s+", " ", result.stderr))

    return invoke


def short(**options):
    p = da.problems()["pendulum"]
    arguments = {"tolerances": (1e-4, 1e-6), "rounds": 1, **PAIRS, **options}
    return compare(p.system, (0, 2), p.q0, p.v0, **arguments)


def test_against_the_exact_solution():
    told = []
    found = short(reference=da.problems()["pendulum"].reference, progress=lambda *x: told.append(x))
    assert {(t.method, t.formulation) for t in found.trials} == {
        ("bdf", "index-1"), ("bdf", "index-2"), ("explicit", "index-1")
    }  # fmt: skip
    assert list(found.refused) == [("explicit", "index-2")]
    assert "cannot integrate" in found.refused[("explicit", "index-2")]
    for trial in found.trials:
        assert set(trial.errors) == {"q", "v", "lam"}
        assert 1e-3 * trial.rtol < trial.error < 30 * trial.rtol
        assert trial.steps > 10
        assert trial.seconds > 0
    assert found.best in found.curves()
    assert told[0] == ("reference", 0, 6)
    assert told[-1] == ("done", 6, 6)


def test_variants_of_a_method():
    """All of them are compared unless methods are chosen."""
    p = da.problems()["pendulum"]
    options = {"tolerances": (1e-6,), "rounds": 1, "formulations": ["index-1"], "reference": p.reference}
    found = compare(p.system, (0, 0.5), p.q0, p.v0, **options)
    names = [t.method for t in found.trials]
    assert {"iterated", "iterated (Newton)", "bdf", "radau"} <= set(names)
    assert len(names) == len(set(names))
    some = compare(p.system, (0, 0.5), p.q0, p.v0, methods=["iterated"], **options)
    assert [t.method for t in some.trials] == ["iterated"]


def test_own_reference_by_two_families():
    """Errors against own tight runs equal those against the exact solution."""
    exact, own = short(reference=da.problems()["pendulum"].reference), short()
    assert re.fullmatch(r"tight runs by explicit and gauss, which agree to \d\.\de-1\d", own.reference)
    for a, b in zip(exact.trials, own.trials, strict=True):
        for name in a.errors:
            assert a.errors[name] == pytest.approx(b.errors[name], rel=1e-4), (a, name)


def test_runs_that_take_too_long_are_left():
    slow = short(methods=["bdf", "backward-euler"], formulations=["index-1"], tolerances=(1e-6,), time_limit=1e-3)
    failed = {t.method: t for t in slow.trials if t.seconds is None}
    assert failed["backward-euler"].failure == "more than 0.001 s"
    assert failed["backward-euler"].error == np.inf
    assert ("backward-euler", "index-1") not in slow.curves()


def test_best_is_the_fastest_at_the_accuracy():
    """Accurate but slow, fast but never accurate, and one that is both."""
    runs = [
        Trial("a", "x", 1e-4, 10, {"q": 1e-3, "lam": 1e-4}, 1.0), Trial("a", "x", 1e-6, 20, {"q": 1e-5}, 10.0),
        Trial("b", "x", 1e-4, 10, {"q": 1e-3}, 0.01), Trial("c", "x", 1e-4, 10, {"q": 1e-3}, 2.0),
        Trial("c", "x", 1e-6, 20, {"q": 1e-6}, 3.0), Trial("d", "x", 1e-6, 20, failure="max steps"),
    ]  # fmt: skip
    assert Comparison(runs, {}, "", 1e-4).best == ("c", "x")
    assert Comparison(runs, {}, "", 1e-3).best == ("b", "x")
    assert Comparison(runs, {}, "", 1e-9).best is None


def test_interpolation_on_the_front():
    points = front([(1e-2, 1.0), (1e-1, 3.0), (1e-6, 100.0), (np.inf, 0.1), (1e-4, None)])
    assert points == [(1e-2, 1.0), (1e-6, 100.0)]
    assert time_at(points, 1e-5)[0] == pytest.approx(10**1.5)
    assert time_at(points, 1e-8) == (100.0, ">")
    assert time_at(points, 1.0) == (1.0, "<")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"accuracy": 0.0}, "accuracy=0.0"), ({"time_limit": -1}, "time_limit=-1"), ({"rounds": 0}, "rounds=0"),
        ({"tolerances": ()}, "tolerances is empty"), ({"methods": ["newmark"]}, "method='newmark' is not known"),
        ({"formulations": ["index-9"]}, "index-9"), ({"methods": ["rattle"]}, "no pair"),
    ],
)  # fmt: skip
def test_bad_input(options, message):
    with pytest.raises(da.status.OptionError, match=message):
        short(**options)


def test_command(call, tmp_path):
    only = ("--methods", "bdf,explicit", "--formulations", "index-1", "--rtol", "1e-4,1e-6", "--rounds", 1)
    files = ("--json", tmp_path / "c.json", "--plot", tmp_path / "c.png")
    result = call("compare", "pendulum", "--t-end", 1, *only, *files)
    assert (result.code, result.err) == (0, "")
    for text in ("pendulum", "Reference: given", "bdf", "explicit", "index-1", "1e-06", "error lam", "fastest to"):
        assert text in result.out
    data = json.loads((tmp_path / "c.json").read_text())
    assert len(data["trials"]) == 4
    assert data["best"]["formulation"] == "index-1"
    assert set(data["trials"][0]) == {"method", "formulation", "rtol", "steps", "errors", "seconds", "failure"}
    assert (tmp_path / "c.png").stat().st_size > 10_000


def test_command_without_a_reference(call):
    """Other parameters: the reference of the problem does not apply."""
    only = ("--methods", "bdf", "--formulations", "index-1", "--rtol", "1e-5", "--rounds", 1)
    result = call("compare", "pendulum", "--t-end", 1, *only, "--set", "g=5")
    assert result.code == 0
    assert "tight runs by explicit and gauss" in result.out


def test_command_refuses(call):
    assert call("compare", "pendulum", "--methods", "newmark").code == 2
    assert call("compare", "pendulum", "--rtol", "fine").code == 2
    result = call("compare", "pendulum", "--plot", "figure.xyz")
    assert (result.code, "figure.xyz" in result.err) == (2, True)
