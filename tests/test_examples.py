"""Every example runs, without warnings, and says what it should."""

import re
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

import dalembert as da

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
DOCS = EXAMPLES.parent / "docs"
EXPECTED = {
    "pendulum": "t = 0 .. 100",
    "knife_edge": "SUCCESS",
    "moving_pivot": "stays up",
    "friction": "normal force: 17.218",
    "lagrangian_double_pendulum": "SUCCESS",
    "energy_invariant": "invariants=True",
    "black_box": "black boxes=[force]",
    "events": "Stopped by event 1 (turning_point)",
    "bouncing_and_breaking": "coupler breaks at t = 0.777737",
    "save_and_load": "same numbers: True",
    "formulations": "stabilized-index-2",
    "diagnose": "very uneven masses          case 4",
    "state_space": "chosen on the way",
    "minimal_extension": "second order, reduced",
    "baumgarte": "too large",
    "general_linear": "not zero-stable",
    "hht": "of order 2.0 2.0",
    "many_runs": "the same as solve: True",
    "nonstiff": "the energy error grows: False",
    "consistency": "unique reactions: rope",
    "heavy_top": "error below the tolerance: True",
}


def test_all_are_listed():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {*EXPECTED, "demo"}


@pytest.mark.parametrize("name", EXPECTED)
def test_example(name, capsys):
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    assert EXPECTED[name] in capsys.readouterr().out


def test_example_numbers():
    space = runpy.run_path(str(EXAMPLES / "knife_edge.py"))
    assert abs(space["sol"].q[-1, :2] - space["exact"]).max() < 1e-6
    space = runpy.run_path(str(EXAMPLES / "friction.py"))
    assert abs((space["sol"].q[-1] ** 2).sum() ** 0.5 - space["exact"]) < 1e-6
    space = runpy.run_path(str(EXAMPLES / "events.py"))
    bottoms = space["sol"].t_events[0]
    assert abs(bottoms - np.arange(bottoms.size) - 0.5).max() < 1e-9
    # at the ends v[0] has a triple zero, -g^2 tau^3 / 2: rounding of v alone moves it by (eps / 94)^(1/3) = 1.3e-6
    assert abs(space["sol"].t_events[1] - [2, 4, 6]).max() < 5e-6
    assert runpy.run_path(str(EXAMPLES / "bouncing_and_breaking.py"))["error"] < 1e-12


FORMS = runpy.run_path(str(EXAMPLES / "formulations.py"))


def test_every_formulation_is_compared():
    assert {form.name for form in FORMS["FORMS"].values()} == set(da.formulations())


@pytest.mark.parametrize("label", FORMS["FORMS"])
def test_every_formulation_solves_the_bead(label):
    _, _, error_q, error_v, error_lam, *_ = FORMS["compare"](label, repeat=1)
    assert error_q < 1e-4
    assert error_v < 1e-3
    assert error_lam < 0.1


def test_state_space_switches():
    space = runpy.run_path(str(EXAMPLES / "state_space.py"))
    free, fixed = space["runs"].values()
    assert len(free.stats.switches) > 10
    assert not fixed.stats.switches


def test_minimal_extension_turns():
    space = runpy.run_path(str(EXAMPLES / "minimal_extension.py"))
    assert space["turns"] > 5
    for sol in space["runs"].values():
        assert len(sol.stats.switches) > 20
        assert max(sol.drift.largest.values()) < 1e-11
        assert abs(sol.q - space["reference"](sol.t).q).max() < 5e-5


def test_baumgarte_too_small_and_too_large():
    space = runpy.run_path(str(EXAMPLES / "baumgarte.py"))
    small, good, large = (space["swing"](gamma) for gamma in (0.1, 100.0, 1e4))
    assert small[1] > 100 * good[1]
    assert large[2] > 2 * good[2]
    assert space["variable_coefficients"](100.0, 2) < 1e-4
    assert space["variable_coefficients"](1000.0, 2) > 1e30


def test_diagnosed_cases():
    cases = runpy.run_path(str(EXAMPLES / "diagnose.py"))["CASES"]
    found = [da.diagnose(system, **start, parameters=p).case for system, start, p in cases.values()]
    assert found == [1, 2, 3, 4]


@pytest.mark.parametrize("guide", ["which-formulation", "guide-second-order", "guide-events", "guide-consistency"])
def test_guide_runs(guide, capsys):
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / f"{guide}.md").read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) >= 4
    if guide == "which-formulation":
        assert blocks[0].strip() in (EXAMPLES / "formulations.py").read_text(encoding="utf-8")
    space = {}
    for block in blocks:
        exec(block, space)
        assert "sol" not in space or space["sol"].success


def test_readme_shows_the_example():
    code = (EXAMPLES / "pendulum.py").read_text(encoding="utf-8").split('"""')[2].strip()
    readme = (EXAMPLES.parent / "README.md").read_text(encoding="utf-8")
    assert f"```python\n{code}\n```" in readme


def test_demo(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["demo.py"])
    demo = runpy.run_path(str(EXAMPLES / "demo.py"))
    monkeypatch.setitem(demo["main"].__globals__, "FIGURE", tmp_path / "demo.png")
    demo["main"]()
    assert "demo.png" in capsys.readouterr().out
    assert (tmp_path / "demo.png").stat().st_size > 10_000
