"""What a run returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from dalembert.runtime.assembly import SHOWN
from dalembert.runtime.eventstate import Jump
from dalembert.status import Stats, Status

if TYPE_CHECKING:
    from dalembert.certificate import Certificate

PARTS = SHOWN


@dataclass(frozen=True)
class State:
    """The solution at one time or several: fields as in `Solution`, without (scalar t) or with a time axis first."""

    t: Any
    q: np.ndarray
    v: np.ndarray
    a: np.ndarray
    r: np.ndarray
    w: np.ndarray
    s: np.ndarray
    lam: np.ndarray
    mu: np.ndarray


@dataclass(frozen=True)
class Drift:
    """Residuals of the constraints along a run, time first.

    ``position`` is g (nt, nlam), ``velocity`` is its time derivative (nt, nlam), ``nonholonomic`` is k (nt, nmu) and
    ``invariants`` the change of the invariants since the start or the last jump (nt, nphi). Constraints have none while
    they are released.
    """

    position: np.ndarray
    velocity: np.ndarray
    nonholonomic: np.ndarray
    invariants: np.ndarray

    @property
    def largest(self) -> dict[str, float]:
        """Largest magnitude of each kind (0 where there is none)."""
        return {
            name: float(np.abs(getattr(self, name)).max(initial=0.0))
            for name in ("position", "velocity", "nonholonomic", "invariants")
        }

    def __repr__(self) -> str:
        return "Drift(" + ", ".join(f"{k}={v:.2g}" for k, v in self.largest.items()) + ")"


class _Part:
    """A field of a solution that is one of its ``parts``, unless it is there itself."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, solution: Solution | None, owner: type) -> Any:
        return self if solution is None else solution.parts[self.name]


@dataclass(eq=False)
class Solution:
    """Trajectory, multipliers and the story of a run.

    Attributes
    ----------
    t : (nt,)
        Times: every accepted step, or ``t_eval``. Where an event changes the state or the model, and at declared
        discontinuities, the time is there twice: with the state before and with the state after it.
    q, v, a : (nt, n)
        Positions, velocities, accelerations; ``sol.q[i]`` belongs to ``sol.t[i]``.
    lam, mu : (nt, nlam), (nt, nmu)
        Multipliers of the constraints and of the velocity constraints; zero while a constraint is released.
    r, w, s
        Dynamic states, auxiliary variables, contact coordinates.
    success, status, message
        How it ended.
    t_events, events
        Lists with one array per event function: times (n,) and a `State` of the solution there.
    stats : Stats
        What it cost.
    names : dict
        Component names of q, r, w, s, lam, mu.
    extra : dict
        Further unknowns of the formulation by name (nt, n), e.g. ``extra["eta"]``, the multiplier that stabilises.
    jumps : tuple of Jump
        What events changed: time, names, impulses of constraints and contacts, parameters, released constraints.
    breaks : tuple
        Positions in ``t`` at which the segments of the run begin (all but the first), see ``stats.segments``.
    """

    t: np.ndarray
    parts: dict[str, np.ndarray]
    status: Status
    message: str
    stats: Stats
    names: dict[str, tuple[str, ...]]
    t_events: list[np.ndarray] = field(default_factory=list)
    events: list[State] = field(default_factory=list)
    orders: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    parameters: dict[str, Any] = field(default_factory=dict)
    system_name: str = "system"
    dense: bool = True
    evaluator: Callable[[np.ndarray], dict[str, np.ndarray]] | None = field(default=None, repr=False)
    drift_of: Callable[[], Drift] | None = field(default=None, repr=False)
    energy_of: Callable[[], np.ndarray] | None = field(default=None, repr=False)
    extra: dict[str, np.ndarray] = field(default_factory=dict, repr=False)
    jumps: tuple[Jump, ...] = ()
    breaks: tuple[int, ...] = ()  # where segments begin: positions in t of the states after jumps
    hermite: tuple[bool, ...] = (False,)  # of each segment: dense output from both ends of a step, not past points
    fine: Solution | None = field(default=None, repr=False)  # of a loaded solution: more points, for dense output
    context: Any = field(default=None, repr=False)  # what `check` needs to know of the run, see `certificate.Context`

    @classmethod
    def made_of(cls, known: dict[str, Any]) -> Solution:
        """A solution with these attributes. "_makers" make fields that are not among them from its "_source", each
        when it is first asked for; and that source from an "_origin"."""
        out = cls.__new__(cls)
        out.__dict__ = known
        return out

    if not TYPE_CHECKING:  # attributes that do not exist are still found out

        def __getattr__(self, name: str) -> Any:
            make = self.__dict__.get("_makers", {}).get(name)
            if make is None:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            return self.__dict__.setdefault(name, make(self._origin if name == "_source" else self._source))

    @property
    def success(self) -> bool:
        """True if the run reached its end or a terminal event."""
        return self.status.ok

    # What a run in one call has stored is put into these places of a solution right away, see `joined.solution_of`.
    q = cast(np.ndarray, _Part())
    v = cast(np.ndarray, _Part())
    a = cast(np.ndarray, _Part())
    r = cast(np.ndarray, _Part())
    w = cast(np.ndarray, _Part())
    s = cast(np.ndarray, _Part())
    lam = cast(np.ndarray, _Part())
    mu = cast(np.ndarray, _Part())

    def __call__(self, t: Any) -> State:
        """Dense output: the solution at ``t`` (scalar or (m,)), about as accurate as the steps.

        Positions and velocities are interpolated and put back onto the constraints that the run was projected onto;
        multipliers and accelerations are those that belong to them. At a jump it is the state after it. A solution
        loaded from a file has polynomials through stored points (of long steps also within them), but no model to do
        that with.
        """
        times = np.ascontiguousarray(np.atleast_1d(np.asarray(t, dtype=float)))
        if times.ndim != 1:
            raise ValueError(f"t has {times.ndim} dimensions; give a number or a list of numbers.")
        if not self.dense:
            raise ValueError("this run stored its t_eval only; leave t_eval out to get dense output.")
        low, high = sorted((self.t[0], self.t[-1]))
        outside = times[~((times >= low) & (times <= high))]
        if outside.size:
            raise ValueError(f"t = {outside[0]:g} is outside of the solution, which covers [{low:g}, {high:g}].")
        rows = self.evaluator(times) if self.evaluator is not None else self._interpolate(times)
        if np.ndim(t) == 0:
            return State(float(times[0]), **{name: rows[name][0] for name in PARTS})
        return State(times, **rows)

    def _interpolate(self, times: np.ndarray) -> dict[str, np.ndarray]:
        """The polynomials of the dense output on stored points, without the model, segment by segment."""
        if self.fine is not None:
            return self.fine._interpolate(times)
        first = np.array([0, *self.breaks, self.t.size])
        sign = 1.0 if self.t[-1] >= self.t[0] else -1.0
        which = np.searchsorted(sign * self.t[first[1:-1]], sign * times, side="right")
        out = {name: np.empty((times.size, self.parts[name].shape[1])) for name in PARTS}
        for i in np.unique(which):
            for name, x in self._within(slice(first[i], first[i + 1]), self.hermite[i], times[which == i]).items():
                out[name][which == i] = x
        return out

    def _within(self, segment: slice, hermite: bool, times: np.ndarray) -> dict[str, np.ndarray]:
        from dalembert.numerics.compiled import interpolate
        from dalembert.numerics.hermite import N_PLACES

        r_dot = self.extra.get("r_dot", np.zeros((self.t.size, 0)))
        blocks = [*(self.parts[name] for name in PARTS), r_dot]
        starts = np.cumsum([0, *(x.shape[1] for x in blocks)])
        at = dict(zip((*PARTS, "r_dot"), starts, strict=False))
        places = np.zeros(N_PLACES, dtype=np.int64)
        if hermite:
            places[:8] = [1, at["q"], at["v"], at["a"], self.v.shape[1], at["r"], at["r_dot"], r_dot.shape[1]]
        out = np.empty((times.size, starts[-1]))
        rows = np.ascontiguousarray(np.hstack([x[segment] for x in blocks]), dtype=float)
        nodes = np.ascontiguousarray(self.t[segment], dtype=float)
        orders = np.ascontiguousarray(self.orders[segment], dtype=np.int64)
        interpolate()(places, nodes, rows, orders, times, np.zeros(nodes.size), out)
        return {name: out[:, at[name] : at[name] + self.parts[name].shape[1]] for name in PARTS}

    @cached_property
    def drift(self) -> Drift:
        """Residuals of g, g', k and the change of the invariants along the run."""
        if self.drift_of is None:
            raise ValueError("this solution has no record of its constraints.")
        return self.drift_of()

    @cached_property
    def energy(self) -> np.ndarray:
        """Total energy (nt,) along the run."""
        if self.energy_of is None:
            raise ValueError("this system has no energy: build it with da.Lagrangian(...) or System(..., energy=...).")
        return self.energy_of()

    def check(self, points: int = 100, *, rerun: bool = False, limit: float = 1e3) -> Certificate:
        """Verify the run independently: the equations on the dense output, constraints, energy, and a second run.

        Parameters
        ----------
        points
            Steps, spread over the run, within which the equations are evaluated.
        rerun
            Integrate once more, by another family of methods at a hundredth of the tolerance or less, for the errors
            of q, v and lam.
        limit
            Residuals and errors are judged in units of the tolerance; larger numbers do not pass.

        Returns
        -------
        Certificate
            ``passed``, ``rows`` (with numbers), printable as a table.
        """
        from dalembert.certificate import check

        return check(self, points, rerun, limit)

    @cached_property
    def lam_error(self) -> np.ndarray:
        """Estimated error of ``lam`` (nt, nlam): its difference to a second, more accurate run.

        That run is made when this is first asked for (or by ``check(rerun=True)``): by another family of methods, at a
        hundredth of the tolerance or less (at rtol 1e-9 or less if steps were fixed).
        """
        from dalembert.certificate import second_run

        return np.abs(self.lam - second_run(self)(self.t).lam)

    def plot(self, path: str | Path | None = None) -> Any:
        """Figure with positions, velocities, multipliers and constraint residuals against time.

        Returns the matplotlib figure; writes it to ``path`` if given.
        """
        from dalembert.plotting import plot_solution

        return plot_solution(self, path)

    def save(self, path: str | Path) -> None:
        """Write everything to one netCDF4 (HDF5) file; `dalembert.load` reads it back."""
        from dalembert.storage import save

        save(self, path)

    def to_xarray(self) -> Any:
        """An `xarray.Dataset` with named components."""
        from dalembert.storage import to_xarray

        return to_xarray(self)

    def __repr__(self) -> str:
        if not self.t.size:
            return f"Solution({self.status.name}, empty)"
        span = f"t = {self.t[0]:g} .. {self.t[-1]:g}"
        return f"Solution({self.status.name}, {span}, {self.stats.steps} steps, {self.t.size} points)\n  {self.message}"


for _name in [f.name for f in fields(Solution) if f.name in vars(Solution)]:
    delattr(Solution, _name)  # defaults are those of __init__: fields that are not there yet must not be found here
