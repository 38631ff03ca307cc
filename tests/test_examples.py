"""Every example runs, without warnings, and says what it should."""

import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
EXPECTED = {
    "pendulum": "t = 0 .. 100",
    "knife_edge": "SUCCESS",
    "moving_pivot": "stays up",
    "friction": "normal force: 17.218",
    "lagrangian_double_pendulum": "SUCCESS",
    "energy_invariant": "invariants=True",
    "black_box": "black boxes=[force]",
    "events": "Stopped by event 1 (turning_point)",
    "save_and_load": "same numbers: True",
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
    assert abs(space["sol"].t_events[1] - [2, 4, 6]).max() < 1e-6


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
