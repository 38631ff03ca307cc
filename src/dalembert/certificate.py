"""A finished run, verified: does its dense output satisfy the equations that were to be solved?

Nothing of the method takes part. Within steps spread over the run the dense output is sampled at Chebyshev points and
differentiated as a polynomial; the model is evaluated there by CasADi, not by the compiled kernels. With the defects

    d_q = q' - v,    d_v = v' - a,    d_r = r' - f_d,        M a = f - G^T lam - K^T mu

the output is the exact solution of a perturbed system; a step of size h adds h d to the error [E89], so that

    h |d_i| / (atol_i + rtol_i |y_i|)

is the defect in units of the tolerance. Energy: E(t) - E(0) against the integral of dE/dt, which the model gives in
terms of the state and its accelerations (the power of all forces without a potential, of moving constraints, ...).

[E89] W. H. Enright, A new error-control for initial value solvers, Appl. Math. Comput. 31 (1989) 288-301.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from dalembert.model.system import System
from dalembert.runtime.levels import along, levels_along
from dalembert.runtime.redundancy import Redundancy, spread_state
from dalembert.table import print_table

if TYPE_CHECKING:
    from dalembert.solution import Solution, State

NODES = 12  # Chebyshev points in a step
GAUSS = 5  # points of the quadrature of the power in a step, fewer if there are many steps
MOST_POINTS = 20_000
FIELDS = ("q", "v", "a", "r", "w", "s", "lam", "mu")
LEVELS_ALLOWED = 10.0  # residuals of constraints, in units of the tolerance
BALANCE = 1e-9  # relative residual of equations without derivatives that counts as rounding
ROUNDED = 4 * float(np.finfo(float).eps)  # times what rounding may be, where terms are small differences of others


@dataclass(eq=False)
class Context:
    """What a check needs to know of a run; ``again`` makes the second one, up to a time."""

    system: System
    p: np.ndarray
    rtol: np.ndarray
    atol: np.ndarray
    fixed: bool
    again: Callable[[float], Solution]
    redundancy: Redundancy | None = None
    second: Solution | None = field(default=None)


@dataclass(frozen=True)
class Row:
    """One check: the largest value, the same in units of the tolerance, what is allowed of that, and the time of it.

    ``allowed`` is None for what cannot be judged: fixed steps have no tolerance. ``passed`` is None then.
    """

    check: str
    largest: float | None
    units: float | None
    allowed: float | None
    t: float | None
    note: str = ""

    @property
    def passed(self) -> bool | None:
        if self.allowed is None or self.units is None:
            return None
        return bool(self.units <= self.allowed)


@dataclass(frozen=True)
class Certificate:
    """The outcome of `Solution.check`.

    Attributes
    ----------
    rows : tuple of Row
        One for each check; ``certificate["energy"]`` gives one by name.
    passed
        True if the run was a success and no check failed.
    """

    rows: tuple[Row, ...]
    success: bool

    @property
    def passed(self) -> bool:
        return self.success and all(row.passed is not False for row in self.rows)

    def __getitem__(self, name: str) -> Row:
        for row in self.rows:
            if row.check == name:
                return row
        raise KeyError(f"there is no check {name!r}; there are {', '.join(row.check for row in self.rows)}")

    def __str__(self) -> str:
        from rich.console import Console

        out = io.StringIO()
        columns = ["check", "largest", "in units of the tolerance", "allowed", "at t", "passed", "note"]
        rows = [[r.check, r.largest, r.units, r.allowed, r.t, r.passed, r.note] for r in self.rows]
        title = f"Certificate: {'passed' if self.passed else 'NOT passed'}"
        print_table(title, columns, rows, Console(file=out, width=140, highlight=False), digits=3)
        return out.getvalue().rstrip()


def check(sol: Solution, points: int, rerun: bool, limit: float) -> Certificate:
    """See `Solution.check`."""
    context = context_of(sol)
    if isinstance(points, bool) or not isinstance(points, (int, np.integer)) or points < 1:
        raise ValueError(f"points={points!r}: give a positive whole number of steps.")
    if not limit > 0:
        raise ValueError(f"limit={limit!r} must be positive.")
    rows: list[Row] = []
    state = None
    if sol.dense and sol.evaluator is not None and sol.t.size > 1:
        times, h = _inside(sol, points)
        state = sol(times.ravel())
        rows += _defects(context, sol, times, h, state, limit)
    else:
        rows.append(Row("equations", None, None, None, None, "no dense output: leave t_eval out of solve"))
    rows += _constraints(context, sol, state)
    rows.append(_energy(context, sol, limit))
    if rerun:
        rows += _errors(context, sol, limit)
    return Certificate(tuple(rows), sol.success)


def context_of(sol: Solution) -> Context:
    if not isinstance(sol.context, Context):
        raise ValueError(
            "this solution does not know its system (it was loaded from a file, put together by hand, or events have "
            "changed the model on the way): it cannot be checked. Repeat the run with da.solve(...)."
        )
    return sol.context


def second_run(sol: Solution) -> Callable[[np.ndarray], State]:
    """Dense output of the second, more accurate run, made once."""
    context = context_of(sol)
    if context.second is None:
        context.second = context.again(float(sol.t[-1]))
    second, found = context.second, context.redundancy
    if not second.success:
        raise ValueError(f"the second run for the error estimate did not succeed. {second.message}")
    if found is None:
        return second
    return lambda t: spread_state(found, second(t), context.p)


# ---------------------------------------------------------------------- the equations
def _inside(sol: Solution, points: int) -> tuple[np.ndarray, np.ndarray]:
    """Chebyshev points (n, NODES) inside of steps spread over the run, and the sizes of these steps (n,)."""
    i = np.unique(np.linspace(0, sol.t.size - 2, min(points, sol.t.size - 1)).round().astype(int))
    h = sol.t[i + 1] - sol.t[i]
    kept = np.abs(h) > 1e-12 * np.abs(sol.t).max()
    i, h = i[kept], h[kept]
    s = 0.5 - 0.5 * np.cos(np.pi * (np.arange(NODES) + 0.5) / NODES)
    return sol.t[i, None] + h[:, None] * s, h


def _derivative(times: np.ndarray, h: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Derivatives of the polynomials through x (n NODES, m) in each step, at the same points."""
    n, m = len(h), x.shape[1]
    s = np.cos(np.pi * (np.arange(NODES) + 0.5) / NODES)
    w = (-1.0) ** np.arange(NODES) * np.sin(np.pi * (np.arange(NODES) + 0.5) / NODES)  # barycentric weights
    apart = s[:, None] - s[None] + np.eye(NODES)
    D = w[None] / w[:, None] / apart
    np.fill_diagonal(D, 0.0)
    np.fill_diagonal(D, -D.sum(axis=1))
    D = -2.0 * D  # d/ds of s in [0, 1], running against the cosine
    return (np.einsum("ij,njm->nim", D, x.reshape(n, NODES, m)) / h[:, None, None]).reshape(n * NODES, m)


def _parts(state: Any) -> dict[str, np.ndarray]:
    return {name: getattr(state, name) for name in FIELDS}


def _worst(values: np.ndarray, t: np.ndarray) -> tuple[float, float | None]:
    if not values.size:
        return 0.0, None
    i = int(np.nan_to_num(np.abs(values).reshape(len(t), -1).max(axis=1), nan=np.inf).argmax())
    return float(np.abs(values).max()), float(t[i])


def _defects(
    context: Context, sol: Solution, times: np.ndarray, h: np.ndarray, state: Any, limit: float
) -> Iterator[Row]:
    system, t, parts = context.system, times.ravel(), _parts(state)
    nq, nv, size = system.nq, system.nv, np.repeat(np.abs(h), NODES)[:, None]
    v_dot = _derivative(times, h, state.v)
    residual, terms, rate, dynamics, algebraic = (x[..., 0] for x in along(system, "equations", t, parts, context.p))
    force = along(system, "equations", t, {**parts, "a": v_dot}, context.p)[0][..., 0]

    def row(name: str, defect: np.ndarray, y: np.ndarray, part: slice, note: str) -> Row:
        allowed = context.atol[part] + context.rtol[part] * np.abs(y)
        units, when = _worst(size * defect / allowed, t)
        judged = None if context.fixed else limit
        return Row(name, float(np.abs(defect).max(initial=0.0)), None if context.fixed else units, judged, when, note)

    if nq:
        yield row("q' = v", _derivative(times, h, state.q) - rate, state.q, slice(nq), "defect of the dense output")
    yield row("M v' = f - G^T lam", v_dot - state.a, state.v, slice(nq, nq + nv),
              f"force {np.abs(force).max(initial=0.0):.2g}")  # fmt: skip
    if system.nr:
        yield row("r' = f_d", _derivative(times, h, state.r) - dynamics, state.r, slice(nq + nv, None), "")
    units, note = np.abs(residual) / np.maximum(BALANCE * terms, 1e-300), f"units of {BALANCE:g} of the terms"
    units[terms <= 1e-12 * terms.max(initial=0.0)] = 0.0
    if np.any(units > 1.0):  # forces may be sums of much larger ones that balance each other
        bound = ROUNDED * along(system, "rounding", t, parts, context.p)[0][..., 0]
        units, note = np.minimum(units, np.abs(residual) / np.maximum(bound, 1e-300)), f"{note}, or of rounding"
    largest, when = _worst(units, t)
    yield Row("M a = f - G^T lam", float(np.abs(residual).max(initial=0.0)), largest, 1.0, when, note)
    if algebraic.shape[1]:
        largest, when = _worst(algebraic, t)
        scale = 1.0 + max(np.abs(state.w).max(initial=0.0), np.abs(state.s).max(initial=0.0))
        yield Row("0 = d, 0 = h", largest, largest / scale / BALANCE, 1e3, when, f"units of {BALANCE:g}")


# ---------------------------------------------------------------------- constraints, energy
def _constraints(context: Context, sol: Solution, state: Any) -> Iterator[Row]:
    """At the steps and between them; in units of the tolerance, or of 1e-9 for fixed steps."""
    system = context.system
    every = max(1, sol.t.size // MOST_POINTS)
    t, parts = sol.t[::every], {name: sol.parts[name][::every] for name in FIELDS}
    if state is not None:
        t = np.concatenate([t, state.t])
        parts = {name: np.vstack([x, getattr(state, name)]) for name, x in parts.items()}
    levels = levels_along(system, t, parts, context.p)
    q = np.abs(parts["q"]) if system.space.flat and system.nq == system.nv else np.ones((len(t), system.nv))
    v = np.broadcast_to(np.abs(parts["v"]).max(axis=0, initial=0.0), parts["v"].shape)  # v passes zero: of the run
    C, nlam = np.abs(levels.C), system.nlam
    rtol, atol = (BALANCE, BALANCE) if context.fixed else (float(context.rtol.max()), float(context.atol.max()))
    note = f"tolerance {BALANCE:g}, relative" if context.fixed else ""
    for name, x, size in (
        ("g = 0", levels.g, np.einsum("tij,tj->ti", C[:, :nlam], q)),
        ("g' = 0", levels.g_dot, np.einsum("tij,tj->ti", C[:, :nlam], v)),
        ("k = 0", levels.k, np.einsum("tij,tj->ti", C[:, nlam:], v)),
    ):
        if x.shape[1]:
            units, when = _worst(np.abs(x) / (atol + rtol * size), t)
            yield Row(name, float(np.abs(x).max()), units, LEVELS_ALLOWED, when, note)


def _energy(context: Context, sol: Solution, limit: float) -> Row:
    """E(t) - E(0) - integral of dE/dt by Gauss quadrature within every step."""
    if context.system.energy is None:
        return Row("energy", None, None, None, None, "the system has no energy: System(..., energy=...)")
    if not sol.dense or sol.evaluator is None or sol.t.size < 2:
        return Row("energy", None, None, None, None, "no dense output")
    h = np.diff(sol.t)
    count = int(np.clip(MOST_POINTS // len(h), 2, GAUSS))
    x, w = np.polynomial.legendre.leggauss(count)
    inner = sol((sol.t[:-1, None] + h[:, None] * (0.5 + 0.5 * x)).ravel())
    energy = along(context.system, "energy", sol.t, sol.parts, context.p)[0][:, 0, 0]
    power = along(context.system, "energy", inner.t, _parts(inner), context.p)[1].reshape(-1, count)
    work = np.concatenate([[0.0], np.cumsum(0.5 * h * (power @ w))])
    largest, when = _worst(energy - energy[0] - work, sol.t)
    exchanged = float(np.abs(0.5 * h * (np.abs(power) @ w)).sum())
    size = max(float(np.abs(energy).max()), _largest_kinetic(context, sol))
    units = None if context.fixed else largest / (float(context.atol.max()) + float(context.rtol.max()) * size)
    note = f"work done on the system {work[-1]:.3g}, exchanged {exchanged:.3g}"
    return Row("energy", largest, units, None if context.fixed else limit, when, note)


def _largest_kinetic(context: Context, sol: Solution) -> float:
    """Largest v^T M v / 2 of the run: the scale of an energy whose zero is arbitrary."""
    M = along(context.system, "reactions", sol.t, sol.parts, context.p)[0]
    return float(0.5 * np.einsum("ti,tij,tj->t", sol.v, M, sol.v).max(initial=0.0))


# ---------------------------------------------------------------------- the second run
def _errors(context: Context, sol: Solution, limit: float) -> Iterator[Row]:
    try:
        reference = second_run(sol)(sol.t)
    except ValueError as problem:
        yield Row("second run", None, np.inf, limit, None, str(problem))
        return
    second = context.second
    assert second is not None
    note = f"against {second.stats.method}, {second.stats.steps} steps"
    rtol, atol = float(context.rtol.max()), float(context.atol.max())
    for name in ("q", "v", "lam", "mu"):
        x, y = sol.parts[name], getattr(reference, name)
        if x.shape[1]:
            error = np.abs(x - y)
            largest, when = _worst(error, sol.t)
            units = None if context.fixed else largest / (atol + rtol * float(np.abs(y).max()))
            yield Row(f"error of {name}", largest, units, None if context.fixed else limit, when, note)
