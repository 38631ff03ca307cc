"""Saving and loading solutions: one self-describing netCDF4 (HDF5) file.

The file holds arrays with named dimensions, time first, and the story of the run as attributes:

    q (time, coordinate)    v, a (time, velocity)     lam (time, constraint)    mu (time, velocity_constraint)
    r (time, dynamic)       w (time, auxiliary)       s (time, contact)         order (time)
    drift_position, drift_velocity, drift_nonholonomic, drift_invariants (time, ...), energy (time)
    event_time, event_function (event), event_q, event_v, ... (event, ...)
    extra_eta, ... (time, extra_eta_component, ...)        further unknowns of the formulation

The coordinate variable of a dimension carries the component names (in netCDF it has the name of its dimension, which
is why the dimensions are not called q, v, ...). What has no components is left out of the file.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dalembert.runtime.eventstate import Jump
from dalembert.solution import PARTS, Drift, Solution, State
from dalembert.status import SegmentStats, Stats, Status

if TYPE_CHECKING:
    import xarray

FORMAT = "dalembert solution"
FORMAT_VERSION = 1
SUFFIXES = (".nc", ".nc4", ".h5", ".hdf5")

# part or residual -> dimension of its components, and where their names are found in Solution.names
DIMENSION = {
    "q": "coordinate", "v": "velocity", "a": "velocity", "r": "dynamic", "w": "auxiliary", "s": "contact",
    "lam": "constraint", "mu": "velocity_constraint", "drift_position": "constraint", "drift_velocity": "constraint",
    "drift_nonholonomic": "velocity_constraint", "drift_invariants": "invariant",
}  # fmt: skip
NAMES_OF = {
    "coordinate": "q", "velocity": "v", "dynamic": "r", "auxiliary": "w", "contact": "s", "constraint": "lam",
    "velocity_constraint": "mu", "invariant": "invariants",
}  # fmt: skip
MEANING = {
    "q": "positions", "v": "velocities", "a": "accelerations", "r": "dynamic states", "w": "auxiliary variables",
    "s": "contact coordinates", "lam": "multipliers of the constraints",
    "mu": "multipliers of the velocity constraints", "order": "order of the step that ended here",
    "energy": "total energy", "drift_position": "residuals g of the constraints",
    "drift_velocity": "residuals g' of the constraints differentiated in time",
    "drift_nonholonomic": "residuals k of the velocity constraints",
    "drift_invariants": "change of the invariants since the start", "event_time": "times of the events",
    "event_function": "which event function had its zero there, counted from 0",
}  # fmt: skip
# points within steps, so many pieces of each, in a group of the file
FINE, FINE_TIME, PIECES, GROUP = "fine_", "fine_time", 8, "dense"
EXTRA = "extra_"  # begins the names of further unknowns of a formulation
DRIFT = tuple(f.name for f in fields(Drift))


class StorageError(ValueError):
    """A file that cannot be read as a solution, or a path that cannot become one."""


@dataclass
class _Record:
    """What a file holds, independent of the library that writes it."""

    coordinates: dict[str, np.ndarray]
    variables: dict[str, tuple[tuple[str, ...], np.ndarray]] = field(default_factory=dict)
    attributes: dict[str, Any] = field(default_factory=dict)


def save(solution: Solution, path: str | Path) -> None:
    """Write a solution to one netCDF4 file; an older file of that name is replaced only when the new one is complete.

    Constraint residuals and energy are evaluated now, since a file cannot hold the model.
    """
    import h5netcdf
    import h5py

    target = check_path(path)
    record = _record(solution)
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with h5netcdf.File(part, "w") as file:
            group = file.create_group(GROUP) if FINE_TIME in record.coordinates else file
            for name, values in record.coordinates.items():
                if name == FINE_TIME:
                    group.dimensions[name] = values.size
                    group.create_variable(name, (name,), data=values)
                    continue
                # only an unlimited dimension may be empty in netCDF
                file.dimensions[name] = values.size or None
                if values.dtype.kind == "U":
                    names = file.create_variable(name, (name,), dtype=h5py.string_dtype())
                    names[...] = values.astype(object)
                else:
                    file.create_variable(name, (name,), data=values)
            for name, (dimensions, values) in record.variables.items():
                place = group if name.startswith(FINE) else file
                variable = place.create_variable(name, dimensions, data=np.ascontiguousarray(values))
                variable.attrs["long_name"] = _meaning(name)
            for name, value in record.attributes.items():
                file.attrs[name] = value
        os.replace(part, target)
    except OSError as problem:
        reason = problem.strerror or problem
        raise OSError(f"cannot write {target}: {reason}. Choose a folder with write permission and room.") from problem
    finally:
        with contextlib.suppress(OSError):
            part.unlink()


def load(path: str | Path) -> Solution:
    """Read a solution back; see `Solution.save`.

    All arrays are those that were saved, bit for bit. Dense output interpolates between the stored points.
    """
    import h5netcdf

    source = Path(path).expanduser()
    if not source.exists():
        raise FileNotFoundError(f"there is no file {source}; check the path (solutions are written by sol.save(path)).")
    if source.is_dir():
        raise StorageError(f"{source} is a folder; give the path of a file written by sol.save(path).")
    try:
        with h5netcdf.File(source, "r") as file:
            record = _read(file, source)
    except PermissionError:
        raise PermissionError(f"cannot read {source}: no permission.") from None
    except OSError as problem:
        raise StorageError(
            f"{source} is not a netCDF4/HDF5 file, or it is damaged ({_first_line(problem)}). Give a file written by "
            "sol.save(path), or save the run again."
        ) from None
    except (KeyError, TypeError, AttributeError, RuntimeError, UnicodeDecodeError) as problem:
        raise _damaged(source, problem) from problem
    try:
        return _solution(record)
    except (KeyError, TypeError, ValueError, IndexError) as problem:
        raise _damaged(source, problem) from problem


def to_xarray(solution: Solution) -> xarray.Dataset:
    """The same content as an `xarray.Dataset`, e.g. ``sol.to_xarray().q.sel(coordinate="x")``."""
    try:
        import xarray
    except ImportError:
        raise ImportError("to_xarray needs xarray: pip install 'dalembert[xarray]'.") from None
    record = _record(solution, dense=False)
    return xarray.Dataset(
        {
            name: (dims, values.copy(), {"long_name": _meaning(name)})
            for name, (dims, values) in record.variables.items()
        },
        coords={name: (name, values) for name, values in record.coordinates.items()},
        attrs=record.attributes,
    )


def check_path(path: str | Path) -> Path:
    """The file that ``path`` means, refused here if a solution cannot be written there."""
    given = Path(path).expanduser()
    if given.suffix.lower() not in SUFFIXES:
        what = f"has the extension {given.suffix!r}" if given.suffix else "has no extension"
        raise StorageError(f"the path {given} {what}; use {given.stem or 'run'}.nc (one of {', '.join(SUFFIXES)}).")
    if given.is_dir():
        raise StorageError(f"{given} is a folder; give the path of a file.")
    target = given.resolve()
    if not target.parent.is_dir():
        raise FileNotFoundError(f"cannot write {given}: the folder {target.parent} does not exist; create it first.")
    if not os.access(target.parent, os.W_OK):
        raise PermissionError(f"cannot write {given}: the folder {target.parent} is read-only; choose another one.")
    return target


# ---------------------------------------------------------------------- Solution -> record
def _record(solution: Solution, dense: bool = True) -> _Record:
    """``dense``: with the points that dense output is made from when the model is not there."""
    record = _Record({"time": solution.t})

    def add(name: str, values: np.ndarray, over: str = "time") -> None:
        values = np.asarray(values)
        key = name.removeprefix("event_").removeprefix(FINE)
        if values.ndim == 1:
            record.variables[name] = (over,), values
        elif values.shape[1]:
            dimension = f"{name}_component" if name.startswith(EXTRA) else DIMENSION[key]
            if dimension not in record.coordinates:
                record.coordinates[dimension] = _component_names(solution, dimension, values.shape[1])
            record.variables[name] = (over, dimension), values

    for name in PARTS:
        add(name, solution.parts[name])
    for name, values in solution.extra.items():
        add(EXTRA + name, values)
    if solution.orders.size:
        add("order", solution.orders)
    fine = (solution.fine or _refined(solution)) if dense else None
    if fine is not None:
        record.coordinates[FINE_TIME] = fine.t
        for name in PARTS:
            add(FINE + name, fine.parts[name], FINE_TIME)
    missing = {}
    if solution.drift_of is not None:
        try:
            for name in DRIFT:
                add(f"drift_{name}", getattr(solution.drift, name))
        except Exception as problem:  # a model that fails must not cost the user the run
            missing["drift"] = f"{type(problem).__name__}: {problem}"
    if solution.energy_of is not None:
        try:
            add("energy", solution.energy)
        except Exception as problem:
            missing["energy"] = f"{type(problem).__name__}: {problem}"
    counts = [len(t) for t in solution.t_events]
    if sum(counts):
        record.coordinates["event"] = np.arange(sum(counts))
        add("event_time", np.concatenate(solution.t_events), "event")
        add("event_function", np.repeat(np.arange(len(counts)), counts), "event")
        for name in PARTS:
            add(f"event_{name}", np.concatenate([getattr(state, name) for state in solution.events]), "event")
    record.attributes = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "dalembert_version": _version(),
        "system_name": _text(solution.system_name),
        "status": solution.status.name,
        "message": _text(solution.message),
        "dense": int(solution.dense),
        "hermite": json.dumps(solution.hermite),
        "jumps": json.dumps([asdict(jump) for jump in solution.jumps], default=_plain),
        "breaks": json.dumps(solution.breaks),
        "event_functions": len(counts),
        "has_drift": int(solution.drift_of is not None and "drift" not in missing),
        "has_energy": int(solution.energy_of is not None and "energy" not in missing),
        "not_evaluated": json.dumps(missing),
        "stats": json.dumps(asdict(solution.stats), default=_plain),
        "parameters": json.dumps(solution.parameters, default=_plain),
        "extra": json.dumps({name: x.shape[1] for name, x in solution.extra.items()}),
        "names": json.dumps({key: list(names) for key, names in solution.names.items()}),
    }
    return record


def _refined(solution: Solution) -> Solution | None:
    """Points within the steps of a run whose dense output evaluates the model there; None if it does not."""
    r = solution.parts["r"].shape[1]
    if solution.evaluator is None or not solution.dense or not all(solution.hermite) or r or solution.t.size < 2:
        return None
    edges = [0, *solution.breaks, solution.t.size]
    share = np.arange(PIECES) / PIECES
    rows = [solution.t[a:b] for a, b in pairwise(edges)]
    nodes = [np.append((t[:-1, None] + np.diff(t)[:, None] * share).ravel(), t[-1]) for t in rows]
    knots = np.concatenate([np.arange(t.size) % PIECES == 0 for t in nodes])
    times = np.concatenate(nodes)
    within = solution.evaluator(times[~knots])
    parts = {}
    for name in PARTS:  # at the knots what is stored: dense output at a jump is the state after it
        parts[name] = np.empty((times.size, solution.parts[name].shape[1]))
        parts[name][knots], parts[name][~knots] = solution.parts[name], within[name]
    return _of_fine_points(solution, times, parts)


def _of_fine_points(solution: Solution, times: np.ndarray, parts: dict[str, np.ndarray]) -> Solution:
    counts = np.diff([0, *solution.breaks, solution.t.size])
    sizes = (counts - 1) * PIECES + 1
    orders = np.full(times.size, int(solution.orders.max(initial=1)), dtype=np.int64)
    breaks = tuple(np.cumsum(sizes)[:-1].tolist())
    return replace(solution, t=times, parts=parts, orders=orders, breaks=breaks, extra={}, evaluator=None, fine=None)


def _version() -> str:
    """Of this package, which is loaded: importing it from here would turn the layers upside down."""
    return str(sys.modules["dalembert"].__version__)


def _component_names(solution: Solution, dimension: str, n: int) -> np.ndarray:
    key = NAMES_OF.get(dimension, dimension.removeprefix(EXTRA).removesuffix("_component"))
    names = solution.names.get(key, ())
    return np.array([_text(x) for x in names] if len(names) == n else [f"{key}{i}" for i in range(n)], dtype=str)


def _plain(value: Any) -> Any:
    """NumPy numbers and arrays for JSON."""
    return np.asarray(value).tolist()


def _text(value: str) -> str:
    """What HDF5 cannot hold in a string (NUL, lone surrogates) as escape sequences."""
    return value.replace("\0", "\\x00").encode("utf-8", "backslashreplace").decode("utf-8")


def _meaning(name: str) -> str:
    if name in MEANING:
        return MEANING[name]
    if name.startswith(EXTRA):
        return f"{name.removeprefix(EXTRA)}, a further unknown of the formulation"
    if name.startswith(FINE):
        return f"{MEANING[name.removeprefix(FINE)]} at points within the steps"
    return f"{MEANING[name.removeprefix('event_')]} at the events"


# ---------------------------------------------------------------------- record -> Solution
def _read(file: Any, source: Path) -> _Record:
    if file.attrs.get("format") != FORMAT:
        raise StorageError(
            f"{source} is an HDF5 file, but not a solution of dalembert; give a file written by sol.save(path)."
        )
    version = int(file.attrs["format_version"])
    if version > FORMAT_VERSION:
        raise StorageError(
            f"{source} has format version {version}, written by dalembert {file.attrs['dalembert_version']}; this is "
            f"dalembert {_version()}, which reads up to version {FORMAT_VERSION}. Upgrade: pip install -U dalembert."
        )
    variables = {
        name: (tuple(x.dimensions), np.asarray(x[...]))
        for name, x in file.variables.items()
        if name not in file.dimensions or name == "time"
    }
    for name, x in file.groups[GROUP].variables.items() if GROUP in file.groups else ():
        variables[name] = tuple(x.dimensions), np.asarray(x[...])
    times = {name: variables.pop(name)[1] for name in ("time", FINE_TIME) if name in variables}
    return _Record(times, variables, dict(file.attrs.items()))


def _stats(stored: dict[str, Any]) -> Stats:
    """Stats from JSON, which knows no tuples; counters that a later version may have added are left out."""
    known = {f.name for f in fields(Stats)}
    values: dict[str, Any] = {k: tuple(x) if isinstance(x, list) else x for k, x in stored.items() if k in known}
    values["segments"] = tuple(_known(SegmentStats, x) for x in values.get("segments", ()))
    return Stats(**values)


def _known(kind: Any, stored: dict[str, Any]) -> Any:
    """A dataclass from JSON, which knows no tuples; fields that a later version may have added are left out."""
    names = {f.name for f in fields(kind)}
    return kind(**{k: tuple(x) if isinstance(x, list) else x for k, x in stored.items() if k in names})


def _flags(stored: Any) -> tuple[bool, ...]:
    """For each segment; files of earlier versions have one number."""
    return tuple(bool(x) for x in json.loads(stored)) if isinstance(stored, str) else (bool(stored),)


def _solution(record: _Record) -> Solution:
    t, attributes = record.coordinates["time"], record.attributes
    data = {name: values for name, (_, values) in record.variables.items()}
    missing = json.loads(attributes["not_evaluated"])

    def part(name: str, n: int) -> np.ndarray:
        return data.get(name, np.zeros((n, 0)))

    function = data.get("event_function", np.zeros(0, dtype=np.int64))
    at_events = [function == i for i in range(int(attributes["event_functions"]))]
    event_t = data.get("event_time", np.zeros(0))
    event_parts = {name: part(f"event_{name}", event_t.size) for name in PARTS}
    names = {key: tuple(x) for key, x in json.loads(attributes["names"]).items()}
    for name in PARTS:
        if name not in data and names.get(NAMES_OF[DIMENSION[name]]):
            raise KeyError(name)
    extra = json.loads(attributes.get("extra", "{}"))  # files of earlier versions have none
    drift = Drift(**{name: part(f"drift_{name}", t.size) for name in DRIFT})
    out = Solution(
        t=t,
        parts={name: part(name, t.size) for name in PARTS},
        status=Status[attributes["status"]],
        message=attributes["message"],
        stats=_stats(json.loads(attributes["stats"])),
        names=names,
        t_events=[event_t[m] for m in at_events],
        events=[State(event_t[m], **{name: x[m] for name, x in event_parts.items()}) for m in at_events],
        orders=data.get("order", np.zeros(0, dtype=np.int64)),
        parameters=json.loads(attributes["parameters"]),
        system_name=attributes["system_name"],
        dense=bool(attributes["dense"]),
        hermite=_flags(attributes.get("hermite", 0)),
        jumps=tuple(_known(Jump, x) for x in json.loads(attributes.get("jumps", "[]"))),
        breaks=tuple(json.loads(attributes.get("breaks", "[]"))),  # files of earlier versions have one segment
        drift_of=_stored(drift) if attributes["has_drift"] else _lost("constraint residuals", missing.get("drift")),
        extra={name: data[EXTRA + name] if n else np.zeros((t.size, 0)) for name, n in extra.items()},
        energy_of=_stored(data["energy"]) if attributes["has_energy"] else _lost("energy", missing.get("energy")),
    )
    times = record.coordinates.get(FINE_TIME)
    if times is not None:
        out.fine = _of_fine_points(out, times, {name: part(FINE + name, times.size) for name in PARTS})
    return out


def _stored(value: Any) -> Callable[[], Any]:
    return lambda: value


def _lost(what: str, reason: str | None) -> Callable[[], Any] | None:
    """None if there never was such a quantity; else a function that says why it is not in the file."""
    if reason is None:
        return None

    def say() -> Any:
        raise ValueError(f"the {what} could not be evaluated when this solution was saved ({reason}).")

    return say


def _first_line(problem: BaseException) -> str:
    return str(problem).partition("\n")[0]


def _damaged(source: Path, problem: BaseException) -> StorageError:
    return StorageError(
        f"{source} is damaged or incomplete ({type(problem).__name__}: {_first_line(problem)}); save the run again."
    )
