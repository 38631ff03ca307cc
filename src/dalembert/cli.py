"""The command line: list what there is, run a problem, diagnose it, reproduce a paper.

Exit codes: 0 all went well, 1 the run failed (what it computed is shown and kept), 2 bad input, 130 interrupted.
"""

from __future__ import annotations

import importlib.util
import json
import math
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import numpy as np
import typer

import dalembert
from dalembert.formulations.base import formulations
from dalembert.integrators.base import methods
from dalembert.model.system import System
from dalembert.numerics.projection import Projection
from dalembert.problems.base import Problem, problems
from dalembert.solution import Solution
from dalembert.status import OptionError, Status
from dalembert.table import format_number, make_console, print_table

if TYPE_CHECKING:
    from types import ModuleType

    from dalembert.papers import Paper

FAILED, BAD_INPUT, INTERRUPTED = 1, 2, 130
MOST_ROWS = 24  # components shown in the end state
STATE_DIGITS = 8

app = typer.Typer(
    name="dalembert",
    help="Constrained mechanical systems without drift.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


class ProjectionChoice(StrEnum):
    """Values of --projection."""

    default = "default"
    none = "none"
    joint = "joint"
    sequential = "sequential"

    @property
    def argument(self) -> Projection | str | None:
        """What `solve` takes."""
        if self is ProjectionChoice.default:
            return "default"
        if self is ProjectionChoice.none:
            return None
        return Projection(coupling="joint" if self is ProjectionChoice.joint else "sequential")


def main() -> None:
    """Entry point."""
    app()


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dalembert {dalembert.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Constrained mechanical systems without drift."""


# ---------------------------------------------------------------------- list
@app.command("list")
def list_() -> None:
    """Show the problems, methods, formulations and papers there are."""
    rows: list[list[Any]] = []
    for name, problem in problems().items():
        rows.append([name, problem.system.nq, _constraints(problem.system), problem.description, problem.source])
    print_table("Problems", ["name", "coordinates", "constraints", "description", "source"], rows)
    print_table(
        "Methods", ["name", "summary", "formulations"],
        [[name, method.summary, sorted(method.takes)] for name, method in sorted(methods().items())],
    )  # fmt: skip
    print_table("Formulations", ["name", "summary"], [[name, f.summary] for name, f in sorted(formulations().items())])
    print_table("Papers", ["name", "title"], [[name, paper.title] for name, paper in sorted(known_papers().items())])


def _constraints(system: System) -> str:
    counts = ((system.nlam, "holonomic"), (system.nmu, "nonholonomic"))
    return ", ".join(f"{n} {kind}" for n, kind in counts if n) or "none"


# ---------------------------------------------------------------------- run
@dataclass
class Task:
    """A problem with the changes asked for on the command line."""

    system: System
    t_span: tuple[float, float]
    q0: Any
    v0: Any
    description: str
    options: Mapping[str, Any] = field(default_factory=dict)
    problem: Problem | None = None  # where the reference comes from, if it still applies


ProblemArgument = Annotated[
    str, typer.Argument(metavar="PROBLEM", help="Name of a problem (see list), or FILE.py:NAME of your own.")
]
EndOption = Annotated[float | None, typer.Option(help="End time; default: that of the problem.")]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Parameter; number or list 1,2,3.")
]
PositionsOption = Annotated[str | None, typer.Option(metavar="LIST", help="Initial positions, e.g. 1,0.")]
VelocitiesOption = Annotated[str | None, typer.Option(metavar="LIST", help="Initial velocities, e.g. 0,0.")]


@app.command()
def run(
    problem: ProblemArgument,
    method: Annotated[str, typer.Option(help="Method of integration, see list.")] = "auto",
    formulation: Annotated[str | None, typer.Option(help="Formulation, see list; default: the method's own.")] = None,
    projection: Annotated[ProjectionChoice, typer.Option(help="Projection onto the constraints.")] = (
        ProjectionChoice.default
    ),
    rtol: Annotated[float, typer.Option(help="Relative tolerance.")] = 1e-6,
    atol: Annotated[float, typer.Option(help="Absolute tolerance.")] = 1e-8,
    h: Annotated[float | None, typer.Option("--h", help="Fixed step size, without error control.")] = None,
    t_end: EndOption = None,
    set_: SetOption = None,
    q0: PositionsOption = None,
    v0: VelocitiesOption = None,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a figure (.png, .pdf, .svg).")] = None,
    save: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the solution (.nc); da.load reads it.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
) -> None:
    """Integrate a problem and show how it went."""
    from dalembert import plotting, storage

    with _messages():
        # refuse now what would fail after the run
        if plot is not None:
            plotting.check_path(plot)
        if save is not None:
            storage.check_path(save)
        task = _task(problem, t_end, q0, v0)
        parameters = _parameters(set_ or [], task.system)
        if parameters:
            task.problem = None
    with _messages(model=problem):
        solution = dalembert.solve(
            task.system, task.t_span, q0=task.q0, v0=task.v0, method=method, formulation=formulation,
            projection=projection.argument, rtol=rtol, atol=atol, h=h, parameters=parameters,
            progress=_show_progress(quiet), **task.options,
        )  # fmt: skip
    written = []
    with _messages():
        if save is not None:
            solution.save(save)
            written.append(str(save))
        if plot is not None:
            solution.plot(plot)
            written.append(str(plot))
    if not quiet:
        _summary(solution, task)
        if written:
            make_console().print(f"written: {', '.join(written)}", markup=False)
    if not solution.success:
        if quiet:
            _say(solution.message)
        raise typer.Exit(INTERRUPTED if solution.status == Status.INTERRUPTED else FAILED)


def _task(given: str, t_end: float | None, q0: str | None, v0: str | None) -> Task:
    found = _find(given)
    if isinstance(found, Problem):
        untouched = q0 is None and v0 is None
        start, end = found.t_span
        return Task(
            found.system, (start, end if t_end is None else t_end),
            found.q0 if q0 is None else _numbers("--q0", q0), found.v0 if v0 is None else _numbers("--v0", v0),
            f"{found.name}: {found.description}", found.options, found if untouched else None,
        )  # fmt: skip
    if t_end is None:
        raise OptionError(f"{given} is a System, which has no time span of its own: give --t-end.")
    if q0 is None:
        names = ", ".join(found.names["q"])
        raise OptionError(f"{given} is a System, which has no initial values of its own: give --q0 with {names}.")
    rest = None if v0 is None else _numbers("--v0", v0)
    return Task(found, (0.0, t_end), _numbers("--q0", q0), rest, found.name)


def _find(given: str) -> Problem | System:
    """A problem of the collection, or an object of the user's file."""
    if given in problems():
        return problems()[given]
    path, colon, name = given.rpartition(":")
    if not colon and given.endswith(".py"):
        path, name = given, ""
    if not path.endswith(".py"):
        known = ", ".join(problems())
        raise OptionError(f"there is no problem {given!r}. Give FILE.py:NAME, or one of {known}.")
    module = _import(Path(path))
    candidates = {key: x for key, x in vars(module).items() if isinstance(x, (Problem, System))}
    listed = ", ".join(candidates) or "none"
    if not name:
        if len(candidates) != 1:
            raise OptionError(f"say which object of {path} to run: {path}:NAME; Problems and Systems there: {listed}.")
        return next(iter(candidates.values()))
    if name not in candidates:
        what = f"is a {type(getattr(module, name)).__name__}" if hasattr(module, name) else "does not exist"
        raise OptionError(f"{name!r} in {path} {what}; a Problem or System is needed, there are: {listed}.")
    return candidates[name]


def _import(path: Path) -> ModuleType:
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}.")
    spec = importlib.util.spec_from_file_location(f"_dalembert_run_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    sys.path.insert(0, str(path.resolve().parent))  # the file may import its neighbours
    try:
        spec.loader.exec_module(module)
    except Exception as problem:
        raise OptionError(_whose_fault(problem, path)) from problem
    finally:
        sys.path.remove(str(path.resolve().parent))
    return module


def _whose_fault(problem: BaseException, path: Path) -> str:
    """An exception raised by the user's file, with the line in it."""
    lines = [
        f.lineno for f in traceback.extract_tb(problem.__traceback__) if Path(f.filename).resolve() == path.resolve()
    ]
    where = f"{path}, line {lines[-1]}" if lines else str(path)
    return f"{where}: {type(problem).__name__}: {problem}"


def _numbers(option: str, text: str) -> np.ndarray:
    try:
        return np.array([float(x) for x in text.split(",") if x.strip()])
    except ValueError:
        raise OptionError(f"{option} {text!r}: give numbers separated by commas, e.g. 1,0.") from None


def _parameters(given: Sequence[str], system: System) -> dict[str, Any]:
    """--set NAME=VALUE in the shapes of the system's parameters."""
    out: dict[str, Any] = {}
    for item in given:
        name, equals, text = (x.strip() for x in item.partition("="))
        if not (name and equals and text):
            raise OptionError(f"--set {item!r}: write NAME=VALUE, e.g. --set g=9.81 or --set axis=0,0,1.")
        value = _numbers(f"--set {name}=", text)
        default = system.parameters.defaults.get(name)
        if default is not None and default.size == value.size:
            value = value.reshape(default.shape)
        elif value.size == 1:
            value = value[0]
        out[name] = value
    system.parameters.vector(out)  # refuses unknown names and wrong shapes
    return out


def _show_progress(quiet: bool) -> bool:
    """True if someone is watching; the bar belongs on stderr, so that stdout can be piped."""
    return not quiet and sys.stderr.isatty()


def _summary(solution: Solution, task: Task) -> None:
    stats = solution.stats
    errors = _errors(solution, task.problem)
    rows: list[tuple[str, Any]] = [
        ("status", solution.status.name.lower().replace("_", " ")),
        ("message", solution.message),
        ("method", stats.method),
        ("formulation", stats.formulation),
        ("projection", stats.projection),
        ("steps", f"{stats.steps} ({stats.rejected} rejected, {stats.newton_failures} failed in Newton or projection)"),
        ("time", f"{format_number(stats.wall_time, 3)} s, and {format_number(stats.compile_time, 3)} s to prepare"),
    ]
    if stats.steps:
        rows.append(("time per step", f"{format_number(1e6 * stats.wall_time / stats.steps, 3)} us"))
    rows += _drift_rows(solution)
    rows += _energy_rows(solution)
    if errors:
        largest = ", ".join(f"{name} {format_number(np.abs(e).max(), 3)}" for name, e in errors.items() if e.size)
        rows.append(("error at the end", f"{largest} (against the reference)"))
    print_table(task.description, ["", ""], rows)
    if solution.t.size:
        _end_state(solution, errors)


def _drift_rows(solution: Solution) -> Iterator[tuple[str, str]]:
    """Largest residual by level, for the levels there are."""
    try:
        drift, largest = solution.drift, solution.drift.largest
    except Exception as problem:  # the model may fail where the run did: the rest is still worth showing
        yield "drift", f"not known ({type(problem).__name__}: {problem})"
        return
    for name, symbol in (("position", "g"), ("velocity", "g'"), ("nonholonomic", "k"), ("invariants", "phi")):
        if getattr(drift, name).shape[1]:
            yield f"drift, {name}", f"{format_number(largest[name], 3)} (largest |{symbol}|)"


def _energy_rows(solution: Solution) -> Iterator[tuple[str, str]]:
    """Energy at the start and its largest change, if the system has an energy."""
    if solution.energy_of is None or not solution.t.size:
        return
    try:
        energy = solution.energy
    except Exception as problem:
        yield "energy", f"not known ({type(problem).__name__}: {problem})"
        return
    change = float(np.abs(energy - energy[0]).max())
    yield "energy", f"{format_number(energy[0])} at the start, largest change {format_number(change, 3)}"


def _errors(solution: Solution, problem: Problem | None) -> dict[str, np.ndarray]:
    """Deviation from the reference at the last time, by part; empty if it is not known there."""
    if problem is None or problem.reference is None or not solution.t.size:
        return {}
    t = float(solution.t[-1])
    low, high = sorted(problem.t_span)
    known = problem.reference_times
    if not (low <= t <= high if known is None else any(math.isclose(t, x, rel_tol=1e-12) for x in known)):
        return {}
    return {
        name: solution.parts[name][-1] - np.asarray(value, dtype=float).reshape(-1)
        for name, value in problem.reference(t).items()
        if name in solution.parts
    }


def _end_state(solution: Solution, errors: Mapping[str, np.ndarray]) -> None:
    """The last point, by component name."""
    rows: list[list[Any]] = []
    for part in ("q", "v", "r", "w", "s", "lam", "mu"):
        values = solution.parts[part][-1]
        names = solution.names.get(part, ())
        for i, value in enumerate(values):
            name = names[i] if i < len(names) else str(i)
            rows.append([part, name, value, errors[part][i] if part in errors else None])
    hidden = len(rows) - MOST_ROWS
    columns = ["part", "component", "value", "error"]
    digits = {"value": STATE_DIGITS, "error": 3}
    if not errors:
        rows, columns = [row[:3] for row in rows], columns[:3]
    title = f"State at t = {format_number(solution.t[-1], STATE_DIGITS)}"
    print_table(title, columns, rows[: MOST_ROWS if hidden > 0 else None], digits=digits)
    if hidden > 0:
        make_console().print(f"and {hidden} more components; --save FILE.nc keeps them all", markup=False)


# ---------------------------------------------------------------------- diagnose
@app.command()
def diagnose(
    problem: ProblemArgument,
    t_end: EndOption = None,
    set_: SetOption = None,
    q0: PositionsOption = None,
    v0: VelocitiesOption = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write the findings as JSON.")
    ] = None,
) -> None:
    """Examine a problem along a trial run: rates, stiffness, redundant constraints, and what to integrate it with."""
    with _messages():
        _check_folder(json_file)
        task = _task(problem, t_end, q0, v0)
        parameters = _parameters(set_ or [], task.system)
    with _messages(model=problem):
        found = dalembert.diagnose(
            task.system, task.q0, task.v0, task.t_span, parameters=parameters, **task.options
        )  # fmt: skip
    if json_file is not None:
        with _messages():
            json_file.write_text(json.dumps(found.as_dict(), indent=1, allow_nan=False) + "\n", encoding="utf-8")
    print_table(task.description, ["", ""], found.facts())
    if json_file is not None:
        make_console().print(f"written: {json_file}", markup=False)


# ---------------------------------------------------------------------- reproduce
@app.command()
def reproduce(
    paper: Annotated[str, typer.Argument(metavar="PAPER", help="Name of a paper, see list.")],
    json_file: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the rows as JSON.")] = None,
    figures: Annotated[Path | None, typer.Option(metavar="DIR", help="Write the figures into this folder.")] = None,
) -> None:
    """Measure the numbers of a paper anew and set them beside the printed ones."""
    with _messages():
        known = known_papers()
        if paper not in known:
            raise OptionError(f"there is no paper {paper!r}; there are {', '.join(sorted(known)) or 'none yet'}.")
        _check_folder(json_file)
        if figures is not None:
            figures.mkdir(parents=True, exist_ok=True)
        entry = known[paper]
    with _interruptible():
        rows = [_row(x) for x in entry.run(figures)]
    if json_file is not None:  # first: nothing measured is lost if the terminal goes away
        with _messages():
            json_file.write_text(json.dumps(rows, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    console = make_console()
    console.print(entry.title, markup=False)
    for title in dict.fromkeys(row["table"] for row in rows):
        _print_reproduced(title, [row for row in rows if row["table"] == title])
    for note in getattr(entry, "notes", ()):
        console.print(f"note: {note}", markup=False)
    console.print(_verdict(rows), markup=False)
    if json_file is not None:
        console.print(f"rows written to {json_file}", markup=False)
    if figures is not None:
        console.print(f"figures written to {figures}", markup=False)


def _check_folder(path: Path | None) -> None:
    """Refuse now what would fail after the work."""
    if path is not None and not path.resolve().parent.is_dir():
        raise FileNotFoundError(f"cannot write {path}: its folder does not exist; create it first.")


def _verdict(rows: Sequence[Mapping[str, Any]]) -> str:
    """How much agrees; numbers printed in the paper are not mixed with checks of our own."""
    out = []
    for kind, printed in (
        ("numbers printed in the paper agree", True),
        ("checks without a printed number hold", False),
    ):
        judged = [row["agrees"] for row in rows if row["agrees"] is not None and (row["paper"] is not None) == printed]
        if judged:
            out.append(f"{sum(judged)} of {len(judged)} {kind}")
    return ("; ".join(out) or "nothing was judged") + ". Each note states the criterion."


def _print_reproduced(title: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """One table of the paper: its parameters, then the numbers side by side."""
    ascii_only = make_console().options.ascii_only
    marks = {True: "yes" if ascii_only else "✓", False: "NO" if ascii_only else "✗", None: ""}
    keys = list(dict.fromkeys(key for row in rows for key in row["row"]))
    print_table(
        title, [*keys, "quantity", "paper", "measured", "agrees", "note"],
        [
            [*(row["row"].get(key) for key in keys), row["quantity"], row["paper"], row["measured"],
             marks[row["agrees"]], row["note"] or ""]
            for row in rows
        ],
    )  # fmt: skip


def _row(given: Mapping[str, Any]) -> dict[str, Any]:
    """One number of a paper as plain JSON values."""
    return {key: _plain(given.get(key)) for key in ("table", "row", "quantity", "paper", "measured", "agrees", "note")}


def _plain(x: Any) -> Any:
    """JSON has no NaN and no NumPy."""
    if isinstance(x, Mapping):
        return {str(key): _plain(value) for key, value in x.items()}
    if isinstance(x, (list, tuple)):
        return [_plain(value) for value in x]
    if isinstance(x, (np.generic, np.ndarray)):
        return _plain(x.tolist())
    return None if isinstance(x, float) and not math.isfinite(x) else x


def known_papers() -> dict[str, Paper]:
    """The papers, imported only when asked for: they load every method there is."""
    from dalembert.papers import papers

    return papers()


# ---------------------------------------------------------------------- messages
@contextmanager
def _messages(model: str | None = None) -> Iterator[None]:
    """Bad input ends with a message and code 2; so does any error out of the user's own ``model`` file."""
    with _interruptible():
        try:
            yield
        except (ValueError, OSError) as problem:
            _stop(str(problem), BAD_INPUT)
        except RuntimeError as problem:
            _stop(str(problem), FAILED)
        except Exception as problem:
            path = Path(model.rpartition(":")[0] or model) if model else None
            if path is None or path.suffix != ".py":
                raise
            _stop(_whose_fault(problem, path), BAD_INPUT)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Ctrl-C outside of an integration (inside, `solve` returns what it has)."""
    try:
        yield
    except KeyboardInterrupt:
        _stop("interrupted", INTERRUPTED)


def _stop(message: str, code: int) -> NoReturn:
    _say(message)
    raise typer.Exit(code)


def _say(message: str) -> None:
    make_console(stderr=True).print(f"dalembert: {message}", markup=False, soft_wrap=True)
