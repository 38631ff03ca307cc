"""The command line: what it prints, what it writes, how it exits."""

import io
import json
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

import dalembert as da
from dalembert import cli
from dalembert.status import Status
from dalembert.table import format_cell, format_number, markdown_table, print_table


@pytest.fixture
def call(monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")

    def invoke(*arguments):
        result = CliRunner().invoke(cli.app, [str(x) for x in arguments])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return SimpleNamespace(code=result.exit_code, out=result.stdout, err=re.sub(r"\s+", " ", result.stderr))

    return invoke


@pytest.fixture
def model(tmp_path):
    (tmp_path / "helper.py").write_text("STIFFNESS = 4.0\n")
    path = tmp_path / "model.py"
    path.write_text(
        "import dalembert as da\n"
        "import helper\n"
        "spring = da.System(\n"
        "    q=['x'], mass=[1.0], force=lambda q, p: [-p.k * q[0] + p.b[1]],\n"
        "    parameters={'k': helper.STIFFNESS, 'b': [1.0, 0.0]}, name='spring',\n"
        ")\n"
        "many = da.System(q=30, mass=[1.0] * 30, force=lambda q: -q)\n"
        "number = 3\n"
    )
    return path


def test_version(call):
    assert call("--version").out == f"dalembert {da.__version__}\n"


def test_list(call):
    result = call("list")
    assert result.code == 0
    for name in (*da.problems(), *da.methods(), *da.formulations(), *cli.reproduce.known_papers()):
        assert name in result.out


def test_run(call):
    result = call("run", "pendulum", "--t-end", 2)
    assert result.code == 0
    assert result.err == ""
    for text in ("success", "end of the time span", "rejected", "per step", "drift, position", "drift, velocity",
                 "largest change", "against the reference", "State at t = 2", "rod", "x'"):  # fmt: skip
        assert text in result.out
    assert "nonholonomic" not in result.out


def test_run_writes_file_and_figure(call, tmp_path):
    result = call("run", "pendulum", "--t-end", 1, "--save", tmp_path / "a.nc", "--plot", tmp_path / "a.png", "--quiet")
    assert (result.code, result.out, result.err) == (0, "", "")
    assert da.load(tmp_path / "a.nc").t[-1] == 1
    assert (tmp_path / "a.png").stat().st_size > 10_000


def test_run_options_reach_solve(call, tmp_path):
    result = call(
        "run", "pendulum", "--t-end", 0.5, "--method", "bdf", "--formulation", "index-2", "--projection", "joint",
        "--h", 0.01, "--set", "g=9.81", "--set", "m=2", "--save", tmp_path / "a.nc",
    )  # fmt: skip
    assert result.code == 0
    sol = da.load(tmp_path / "a.nc")
    assert sol.stats.steps == 50
    assert sol.stats.formulation.startswith("index-2")
    assert sol.stats.projection.startswith("joint")
    assert (sol.parameters["g"], sol.parameters["m"]) == (9.81, 2)
    assert "reference" not in result.out  # it belongs to other parameters


def test_no_projection(call, tmp_path):
    assert call("run", "pendulum", "--t-end", 0.5, "--projection", "none", "--save", tmp_path / "a.nc").code == 0
    assert da.load(tmp_path / "a.nc").stats.projection == "none"


def test_reference_only_where_it_is_known(call):
    assert "against the reference" not in call("run", "pendulum", "--t-end", 1, "--q0=0,-1", "--v0=1,0").out


def test_run_that_fails_keeps_what_it_has(call, tmp_path, monkeypatch):
    def stop_early(*args, **kwargs):
        return da.solve(*args, **kwargs, max_steps=20)

    monkeypatch.setattr(cli.run, "dalembert", SimpleNamespace(solve=stop_early))
    result = call("run", "pendulum", "--save", tmp_path / "a.nc", "--plot", tmp_path / "a.png")
    assert result.code == 1
    assert "Raise max_steps" in result.out
    assert da.load(tmp_path / "a.nc").status == Status.MAX_STEPS
    assert (tmp_path / "a.png").exists()
    result = call("run", "pendulum", "--quiet")
    assert (result.code, result.out) == (1, "")
    assert "max_steps" in result.err


def test_interrupted_run_keeps_what_it_has(call, tmp_path, monkeypatch):
    call("run", "pendulum", "--t-end", 1)  # compiled from here on
    timer = threading.Timer(0.4, signal.raise_signal, [signal.SIGINT])

    def interrupt_later(*args, **kwargs):
        timer.start()
        return da.solve(*args, **kwargs)

    monkeypatch.setattr(cli.run, "dalembert", SimpleNamespace(solve=interrupt_later))
    try:
        result = call("run", "pendulum", "--t-end", 1e9, "--save", tmp_path / "a.nc")
    finally:
        timer.cancel()
    assert result.code == 130
    assert "interrupted" in result.out
    assert da.load(tmp_path / "a.nc").status == Status.INTERRUPTED


def test_interrupt_before_the_run(call, monkeypatch):
    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli.run, "dalembert", SimpleNamespace(solve=interrupt))
    result = call("run", "pendulum")
    assert result.code == 130
    assert "interrupted" in result.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["pendulums"], "there is no problem 'pendulums'.*pendulum"),
        (["pendulum", "--method", "euler"], "method='euler' is not known"),
        (["pendulum", "--formulation", "index-9"], "formulation='index-9' is not known"),
        (["pendulum", "--rtol", "-1"], "rtol"),
        (["pendulum", "--t-end", "0"], "t_span"),
        (["pendulum", "--h", "0"], "step size"),
        (["pendulum", "--set", "g"], "NAME=VALUE"),
        (["pendulum", "--set", "g=heavy"], "numbers separated by commas"),
        (["pendulum", "--set", "g=1,2"], "'g' has shape"),
        (["pendulum", "--set", "G=1"], r"no parameter 'G'.*g"),
        (["pendulum", "--q0", "2,0"], "not consistent"),
        (["pendulum", "--q0", "a"], "--q0 'a'"),
        (["pendulum", "--save", "run"], "no extension"),
        (["pendulum", "--plot", "run.xyz"], r"\.png"),
        (["pendulum", "--save", "no/such/folder/run.nc"], "does not exist"),
        (["gone.py:x"], "there is no file gone.py"),
    ],
)
def test_bad_input(call, arguments, message):
    result = call("run", *arguments)
    assert (result.code, result.out) == (2, "")
    assert re.search(message, result.err)
    assert "Traceback" not in result.err


@pytest.mark.parametrize("arguments", [["run", "pendulum", "--projection", "sideways"], ["run"], ["fly"]])
def test_wrong_usage(call, arguments):
    assert call(*arguments).code == 2


# ---------------------------------------------------------------------- the user's own models
def test_system_of_a_file(call, model, tmp_path):
    result = call(
        "run", f"{model}:spring", "--t-end", 1, "--q0", "-1", "--set", "b=0,2", "--save", tmp_path / "a.nc"
    )  # fmt: skip
    assert result.code == 0
    sol = da.load(tmp_path / "a.nc")
    assert sol.system_name == "spring"
    assert sol.parameters["b"] == [0, 2]
    np.testing.assert_allclose(sol.q[-1], 0.5 - 1.5 * np.cos(2), atol=1e-5)  # x'' = -4 x + 2


def test_long_state_is_cut(call, model):
    result = call("run", f"{model}:many", "--t-end", 0.1, "--q0", ",".join(["1"] * 30))
    assert result.code == 0
    assert "and 36 more components" in result.out


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        (":spring", [], "give --t-end"),
        (":spring", ["--t-end", "1"], "give --q0 with x"),
        (":spring", ["--t-end", "1", "--q0", "1,2"], "q0"),
        (":gone", [], "'gone' in .* does not exist.*spring, many"),
        (":number", [], "'number' in .* is a int"),
        ("", [], "say which object"),
    ],
)
def test_bad_input_with_a_file(call, model, name, arguments, message):
    result = call("run", f"{model}{name}", *arguments)
    assert result.code == 2
    assert re.search(message, result.err)


def test_problem_of_a_file_needs_nothing_else(call, tmp_path):
    path = tmp_path / "own.py"
    path.write_text(
        "import dalembert as da\n"
        "from dalembert.problems import Problem\n"
        "s = lambda: da.System(q=['x'], mass=[1.0], force=lambda q: [-q[0]], name='own')\n"
        "own = Problem('own', 'a spring', 'here', s(), [1.0], [0.0], (0.0, 1.0))\n"
    )
    result = call("run", path)
    assert result.code == 0
    assert "own: a spring" in result.out


def test_a_file_with_an_error_names_its_line(call, tmp_path):
    path = tmp_path / "broken.py"
    path.write_text("x = 1\ny = x / 0\n")
    result = call("run", f"{path}:y")
    assert result.code == 2
    assert re.search(r"broken\.py, line 2: ZeroDivisionError", result.err)


# ---------------------------------------------------------------------- diagnose
def test_diagnose(call, tmp_path):
    result = call("diagnose", "ascher-petzold-3", "--set", "nu=1000", "--json", tmp_path / "found.json")
    assert (result.code, result.err) == (0, "")
    for text in ("degrees of freedom", "R'S", "projected-invariants", "Ascher & Petzold 1993", "written:"):
        assert text in result.out
    found = json.loads((tmp_path / "found.json").read_text())
    assert (found["case"], found["degrees_of_freedom"], found["index"]) == (4, 1, 3)
    assert found["rates"]["RS"] == pytest.approx(1000, rel=0.1)


def test_diagnose_takes_the_start_and_the_end(call, tmp_path):
    arguments = ("--t-end", 0.5, "--q0=0,-1", "--v0=1,0", "--json", tmp_path / "a.json")
    assert call("diagnose", "pendulum", *arguments).code == 0
    assert "to t = 0.5," in json.loads((tmp_path / "a.json").read_text())["basis"]


def test_diagnose_a_file(call, model):
    result = call("diagnose", f"{model}:spring", "--t-end", 1, "--q0", 1)
    assert result.code == 0
    assert "spring" in result.out
    assert "no constraints" in result.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["pendulums"], "there is no problem"),
        (["pendulum", "--set", "G=1"], "no parameter 'G'"),
        (["pendulum", "--t-end", "0"], "t_span"),
        (["pendulum", "--q0", "1"], "q0 has shape"),
        (["pendulum", "--json", "no/such/folder/a.json"], "does not exist"),
    ],
)
def test_diagnose_bad_input(call, arguments, message):
    result = call("diagnose", *arguments)
    assert (result.code, result.out) == (2, "")
    assert re.search(message, result.err)


# ---------------------------------------------------------------------- papers
@pytest.fixture
def paper(monkeypatch):
    def run(folder):
        if folder is not None:
            (folder / "fig1.png").write_bytes(b"")
        base = {"quantity": "error", "note": ""}
        return [
            {**base, "table": "Table 1", "row": {"TOL": 1e-5}, "paper": 1.5e-6, "measured": 1.4e-6, "agrees": True},
            {**base, "table": "Figure 2", "row": {"k": 2, "kind": "[joint]"}, "paper": None,
             "measured": np.float64(2.01), "agrees": np.bool_(False), "note": "slope"},
            {**base, "table": "Table 1", "row": {"TOL": 1e-6}, "paper": 3, "measured": float("nan"), "agrees": None},
        ]  # fmt: skip

    entry = SimpleNamespace(name="a-1990", title="A. Uthor, Title", run=run)
    monkeypatch.setattr(cli.reproduce, "known_papers", lambda: {"a-1990": entry})


@pytest.mark.usefixtures("paper")
def test_reproduce(call, tmp_path):
    result = call("reproduce", "a-1990", "--json", tmp_path / "rows.json", "--figures", tmp_path / "new" / "figures")
    assert result.code == 0
    assert "A. Uthor, Title" in result.out
    assert result.out.index("Table 1") < result.out.index("Figure 2")
    assert "[joint]" in result.out
    assert "1 of 1 numbers printed in the paper agree; 0 of 1 checks without a printed number hold" in result.out
    assert "figures written to" in result.out
    assert (tmp_path / "new" / "figures" / "fig1.png").exists()
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert all(set(row) == {"table", "row", "quantity", "paper", "measured", "agrees", "note"} for row in rows)
    assert rows[1]["row"] == {"k": 2, "kind": "[joint]"}
    assert (rows[1]["paper"], rows[1]["measured"], rows[1]["agrees"]) == (None, 2.01, False)
    assert rows[2]["measured"] is None


@pytest.mark.usefixtures("paper")
def test_unknown_paper(call):
    result = call("reproduce", "b-1991")
    assert result.code == 2
    assert "there is no paper 'b-1991'; there are a-1990" in result.err


@pytest.mark.usefixtures("paper")
def test_unwritable_json(call):
    result = call("reproduce", "a-1990", "--json", "no/such/folder/rows.json")
    assert result.code == 2
    assert "does not exist" in result.err


# ---------------------------------------------------------------------- a real process
def test_in_a_process(tmp_path):
    command = [sys.executable, "-m", "dalembert", "run", "pendulum", "--t-end", "1", "--save", "run.nc"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, encoding="utf-8", timeout=300)
    assert done.returncode == 0, done.stderr
    assert "success" in done.stdout
    assert done.stderr == ""
    assert Path(tmp_path / "run.nc").exists()


# ---------------------------------------------------------------------- tables
@pytest.mark.parametrize(
    ("x", "text"),
    [
        (0, "0"), (0.0, "0"), (-0.0, "0"), (1136, "1136"), (np.int64(7), "7"), (0.1, "0.1"), (1 / 3, "0.3333"),
        (2.5e-7, "2.5e-07"), (1e-16, "1e-16"), (0.001, "0.001"), (-9.99999e-4, "-1e-03"), (123456.0, "1.235e+05"),
        (np.float32(0.5), "0.5"), (float("nan"), "nan"), (-np.inf, "-inf"), (None, "-"),
    ],
)  # fmt: skip
def test_numbers(x, text):
    assert format_number(x) == text


@pytest.mark.parametrize(
    ("x", "text"),
    [(True, "yes"), (np.bool_(False), "no"), ("a|b", "a|b"), ((1, 2.5), "1, 2.5"), (frozenset("ba"), "a, b"),
     (np.array([1.0, 2.0]), "1, 2"), (np.array(3.0), "3")],
)  # fmt: skip
def test_cells(x, text):
    assert format_cell(x) == text


def test_markdown():
    text = markdown_table(["a|b", "n"], [["x\ny", 1.0], ["[bold]", None]], digits=3)
    assert text.splitlines() == ["| a\\|b   |   n |", "|:-------|----:|", "| x y    |   1 |", "| [bold] |   - |"]
    assert markdown_table(["a"], []).count("\n") == 1


def test_printed_tables_take_text_literally():
    console = Console(width=60, record=True, file=io.StringIO())
    print_table("T [1]", ["[red]", "n"], [["g[0]", 1.23456], [":smile:", None]], console, digits={"n": 2})
    text = console.export_text()
    for part in ("T [1]", "[red]", "g[0]", ":smile:", "1.2"):
        assert part in text


def test_rows_of_the_wrong_length():
    with pytest.raises(ValueError, match="row 0 has 1 cells, expected 2: a, b"):
        print_table(None, ["a", "b"], [[1]])
