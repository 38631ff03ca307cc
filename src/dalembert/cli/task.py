"""The problem that a command works on, with the changes asked for on the command line."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from dalembert.cli.messages import whose_fault
from dalembert.model.system import System
from dalembert.problems.base import Problem, problems
from dalembert.status import OptionError

if TYPE_CHECKING:
    from types import ModuleType


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


def make_task(given: str, t_end: float | None, q0: str | None, v0: str | None) -> Task:
    found = _find(given)
    if isinstance(found, Problem):
        untouched = q0 is None and v0 is None
        start, end = found.t_span
        return Task(
            found.system, (start, end if t_end is None else t_end),
            found.q0 if q0 is None else numbers("--q0", q0), found.v0 if v0 is None else numbers("--v0", v0),
            f"{found.name}: {found.description}", found.options, found if untouched else None,
        )  # fmt: skip
    if t_end is None:
        raise OptionError(f"{given} is a System, which has no time span of its own: give --t-end.")
    if q0 is None:
        names = ", ".join(found.names["q"])
        raise OptionError(f"{given} is a System, which has no initial values of its own: give --q0 with {names}.")
    rest = None if v0 is None else numbers("--v0", v0)
    return Task(found, (0.0, t_end), numbers("--q0", q0), rest, found.name)


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
        raise OptionError(whose_fault(problem, path)) from problem
    finally:
        sys.path.remove(str(path.resolve().parent))
    return module


def numbers(option: str, text: str) -> np.ndarray:
    try:
        return np.array([float(x) for x in text.split(",") if x.strip()])
    except ValueError:
        raise OptionError(f"{option} {text!r}: give numbers separated by commas, e.g. 1,0.") from None


def parameters_of(given: Sequence[str], system: System) -> dict[str, Any]:
    """--set NAME=VALUE in the shapes of the system's parameters."""
    out: dict[str, Any] = {}
    for item in given:
        name, equals, text = (x.strip() for x in item.partition("="))
        if not (name and equals and text):
            raise OptionError(f"--set {item!r}: write NAME=VALUE, e.g. --set g=9.81 or --set axis=0,0,1.")
        value = numbers(f"--set {name}=", text)
        default = system.parameters.defaults.get(name)
        if default is not None and default.size == value.size:
            value = value.reshape(default.shape)
        elif value.size == 1:
            value = value[0]
        out[name] = value
    system.parameters.vector(out)  # refuses unknown names and wrong shapes
    return out
