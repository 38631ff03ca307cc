"""The index of a system: how many differentiations hide between its equations and an ordinary differential equation.

[KM01] P. Kunkel, V. Mehrmann, Analysis of over- and underdetermined nonlinear differential-algebraic systems with
       application to nonlinear control problems, Math. Control Signals Systems 14 (2001) 233-256: the hypothesis behind
       the strangeness index of nonlinear systems, quoted as Hypothesis 2.1.9 in [W05].
[W05]  L. Wunderlich, Numerical treatment of second order differential-algebraic systems (2005), section 2.1:
       Definition 2.1.2 (differentiation index), Hypothesis 2.1.9 (strangeness index).

`strangeness` and `order_reduction` treat linear systems; `index` any formulation of a mechanical system, at a point,
through the derivative array; `consistency` tells which constraints, hidden ones included, initial values violate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np

from dalembert.analysis.condensed import LinearDAE, LinearDAE2, Strangeness, order_reduction, strangeness
from dalembert.analysis.derivative_array import DerivativeArray, Level, examine, gauss_newton
from dalembert.analysis.ranks import TOLERANCE, Ranks
from dalembert.formulations.base import Formulation, as_formulation
from dalembert.model.point import Environment
from dalembert.model.symbols import MEANING, NAMES
from dalembert.model.system import System
from dalembert.status import OptionError

__all__ = [
    "Consistency", "Index", "LinearDAE", "LinearDAE2", "Strangeness", "consistency", "index", "order_reduction",
    "strangeness",
]  # fmt: skip


@dataclass(frozen=True)
class Index:
    """What `index` found.

    Attributes
    ----------
    formulation
        In words.
    differentiation_index
        Differentiations until x' is a function of t and x; None if max_index was not enough, as for redundant
        constraints, whose multipliers are never determined.
    strangeness_index
        Differentiations until an equivalent system of index at most 1 can be read off; None likewise.
    unknowns, degrees_of_freedom, algebraic, undetermined, conditions
        Size of x; initial values that can be chosen freely; algebraic equations, hidden ones included; components of x
        that nothing determines; equations that say 0 = 0. From the strangeness-free system, None without one.
    levels
        The quantities for 0, 1, ... differentiations.
    regular
        A second, nearby consistent point gave the same levels, so that the ranks are constant there.
    margin
        How clear the rank decisions were, see `Ranks`; doubt results with a margin below 10.
    """

    formulation: str
    differentiation_index: int | None
    strangeness_index: int | None
    unknowns: int
    degrees_of_freedom: int | None
    algebraic: int | None
    undetermined: int | None
    conditions: int | None
    levels: tuple[Level, ...]
    regular: bool
    margin: float


def index(
    system: System,
    q0: Any = None,
    v0: Any = None,
    t0: float = 0.0,
    *,
    formulation: str | Formulation = "index-3",
    parameters: Mapping[str, Any] | None = None,
    max_index: int = 4,
    tolerance: float = TOLERANCE,
    **start: Any,
) -> Index:
    """Differentiation and strangeness index of a formulation near a point.

    Parameters
    ----------
    system, q0, v0, t0, parameters
        As for `consistent`; r0, w0, s0 likewise. Inconsistent values are moved to consistent ones.
    formulation
        Name or object; "index-3" is the system as it was written down.
    max_index
        Largest number of differentiations tried; the cost of each grows with the order of the derivatives.
    tolerance
        Singular values of the scaled array below this count as zero.

    Examples
    --------
    >>> import dalembert as da
    >>> pendulum = da.problems()["pendulum"]
    >>> found = index(pendulum.system, pendulum.q0, pendulum.v0)
    >>> found.differentiation_index, found.strangeness_index, found.degrees_of_freedom
    (3, 2, 2)
    """
    if system.calls:
        raise OptionError(f"the index needs derivatives of {system.black_boxes[0]}, which is a black box; rewrite it.")
    if max_index < 0:
        raise OptionError(f"max_index={max_index} must not be negative.")
    form = as_formulation(formulation, "index-3")
    p = system.parameters.vector(parameters)
    given = _given(system, t0, q0, v0, p, start)
    state = _consistent_point(system, given)
    ranks = Ranks(tolerance)
    levels = _levels(system, form, state, max_index, ranks)
    # the same at a point nearby, in a direction that no model prefers
    shift = np.random.default_rng(2005)
    moved = dict(state)
    for name in ("q", "v", "r"):
        moved[name] = state[name] + 1e-2 * shift.uniform(0.3, 1.0, state[name].size) * (1.0 + np.abs(state[name]))
    nearby = _levels(system, form, _consistent_point(system, moved), max_index, ranks)
    nu = next((i for i, level in enumerate(levels) if level.determines_rates), None)
    mu = next((i for i, level in enumerate(levels) if level.strangeness_free), None)
    last = levels[mu] if mu is not None else None
    # more numbers are stored than there are directions: being on the group is no freedom of the motion
    invariants = 0 if system.space.flat else system.nq - system.nv
    return Index(
        formulation=form.describe(),
        differentiation_index=nu,
        strangeness_index=mu,
        unknowns=sum(u.size for u in form.unknowns(system)),
        degrees_of_freedom=last.d - invariants if last else None,
        algebraic=last.a if last else None,
        undetermined=last.u if last else None,
        conditions=last.v if last else None,
        levels=levels,
        regular=levels == nearby,
        margin=ranks.margin,
    )


def _given(
    system: System, t0: float, q0: Any, v0: Any, p: np.ndarray, start: Mapping[str, Any]
) -> dict[str, np.ndarray]:
    """Values of all variables of the model, zero where none was given."""
    t = float(t0)
    if not np.isfinite(t):
        raise OptionError(f"t0={t0} must be finite.")
    values = {n: np.zeros(size) for n, size in system.sizes.items()}
    known = {f"{n}0": n for n in ("r", "w", "s", "lam", "mu")}
    unknown = [label for label in start if label not in known]
    if unknown:
        raise OptionError(f"{unknown[0]} is not an initial value; there are q0, v0, {', '.join(known)}.")
    initial = {**system.initial_values(q0, v0), **{known[label]: x for label, x in start.items()}}
    for name, x in initial.items():
        if x is None:
            continue
        try:
            array = np.atleast_1d(np.asarray(system.space.flatten(x) if name == "q" else x, dtype=float))
        except OptionError:
            raise
        except (TypeError, ValueError):
            raise OptionError(f"{name}0={x!r} is not a list of numbers.") from None
        if array.shape != values[name].shape:
            raise OptionError(f"{name}0 has shape {array.shape}, expected {values[name].shape}: {MEANING[name]}.")
        if not np.all(np.isfinite(array)):
            raise OptionError(f"{name}0={array.tolist()} contains NaN or infinity; give finite numbers.")
        values[name] = array
    if q0 is None and system.nv:
        raise OptionError(f"q0 is missing: give initial values for {', '.join(system.names['q'])}.")
    return {**values, "t": np.array([t]), "p": p}


def _solve(
    system: System, values: dict[str, np.ndarray], equations: ca.SX, free: tuple[str, ...], accept: float | None
) -> dict[str, np.ndarray]:
    """Values with the free variables moved to where the equations hold."""
    symbols = {n: getattr(system.symbols, n) for n in NAMES}
    z = ca.vertcat(*[symbols[n] for n in free])
    fixed = [n for n in NAMES if n not in free]
    if not equations.numel() or not z.numel():
        return values
    everything = ca.Function("f", [z, *[symbols[n] for n in fixed]], [equations, ca.jacobian(equations, z)])
    unknown = ca.SX.sym("z", z.numel())
    bound = ca.Function("bound", [unknown], [*everything(unknown, *[ca.SX(values[n]) for n in fixed])])
    answer = gauss_newton(bound, np.concatenate([values[n] for n in free]), accept=accept)
    cuts = np.cumsum([values[n].size for n in free])[:-1]
    return {**values, **dict(zip(free, np.split(answer, cuts), strict=True))}


def _consistent_point(system: System, values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Positions on the constraints, velocities on theirs, accelerations and multipliers that belong to them."""
    on_space = system.space.equations(system.symbols.q)
    values = _solve(system, values, ca.vertcat(on_space, system.h, system.g), ("q", "s"), 1e-9)
    values = _solve(system, values, ca.vertcat(system.g_dot, system.k), ("v",), 1e-9)
    forces = ca.vertcat(system.balance, system.g_ddot, system.k_dot, system.auxiliary)
    return _solve(system, values, forces, ("a", "w", "lam", "mu"), 1e-8)


def _levels(
    system: System, form: Formulation, state: dict[str, np.ndarray], max_index: int, ranks: Ranks
) -> tuple[Level, ...]:
    """The derivative array of a formulation, examined until both indices are known."""
    blocks = [u for u in form.unknowns(system) if u.size]
    t, p = ca.SX.sym("t"), ca.SX(state["p"])
    x = {u.name: ca.SX.sym(u.name, u.size) for u in form.unknowns(system)}
    x_dot = {u.name: ca.SX.sym(f"{u.name}'", u.size) for u in form.unknowns(system)}
    for name in ("lam", "mu"):  # a formulation may have eliminated them
        x.setdefault(name, ca.SX.zeros(system.sizes[name], 1))
    C = ca.vertcat(system.G, system.K)
    matrix = ca.Function("C", list(system.symbols.as_tuple()), [C])(*[state[n] for n in NAMES])
    data = form.choose_data(system, np.asarray(matrix.full()))
    env = Environment(system, p, ca.SX(data))
    F = ca.vertcat(*[row.expr for row in form.equations(env, t, x, x_dot)])
    if not system.space.flat:  # kinematics give the tangential part of q'; the numbers remain those of an element
        F = ca.vertcat(F, ca.jtimes(ca.SX(system.space.equations(x["q"])), x["q"], x_dot["q"]))
    inside = {**state, "acc": state["a"]}
    rate = ca.Function("rate", [system.symbols.q, system.symbols.v], [_rate(system)])
    outside = {"q": np.asarray(rate(state["q"], state["v"]).full()).ravel(), "v": state["a"]}
    array = DerivativeArray(
        F, t,
        ca.vertcat(*[x[u.name] for u in blocks]),
        ca.vertcat(*[x_dot[u.name] for u in blocks]),
        float(state["t"][0]),
        np.concatenate([inside.get(u.name, np.zeros(u.size)) for u in blocks]),
        np.concatenate([outside.get(u.name, np.zeros(u.size)) for u in blocks]),
    )  # fmt: skip
    levels: list[Level] = []
    corank = 0
    for order in range(max_index + 1):
        if order:
            array.differentiate()
        level, corank = examine(*array.matrices(), (array.m, array.n), corank, ranks)
        levels.append(level)
        if level.determines_rates:  # then the array before, if not an earlier one, was strangeness-free
            break
    return tuple(levels)


def _rate(system: System) -> ca.SX:
    return ca.SX(system.space.rate(system.symbols.q, system.symbols.v))


@dataclass(frozen=True)
class Consistency:
    """What `consistency` found.

    Attributes
    ----------
    consistent
        No residual exceeds the tolerance (relative to the size of the terms).
    residuals
        By name: a constraint as it is named in the model, with ' for its velocity form and '' for its acceleration
        form; "contact ..." and "auxiliary ..." with the name of the variable; "balance ..." with that of the
        coordinate.
    violated
        Names of the residuals that are too large.
    """

    consistent: bool
    residuals: Mapping[str, float]
    violated: tuple[str, ...]


def consistency(
    system: System,
    q0: Any = None,
    v0: Any = None,
    t0: float = 0.0,
    *,
    parameters: Mapping[str, Any] | None = None,
    tolerance: float = 1e-8,
    **start: Any,
) -> Consistency:
    """Do initial values satisfy all constraints, the hidden ones included?

    Parameters
    ----------
    system, q0, v0, t0, parameters
        As for `consistent`; r0, s0, w0, lam0, mu0 likewise. Multipliers and auxiliary variables that are not given are
        solved for, with the accelerations; those that are given are checked.
    tolerance
        Largest residual of a consistent value, relative to the size of its terms or 1 if that is larger.

    Examples
    --------
    >>> import dalembert as da
    >>> pendulum = da.problems()["pendulum"]
    >>> consistency(pendulum.system, [1.0, 0.0], [0.5, 1.0]).violated
    ("rod'",)
    """
    p = system.parameters.vector(parameters)
    if system.calls:
        raise OptionError(
            f"consistency needs derivatives of {system.black_boxes[0]}, which is a black box; rewrite it."
        )
    values = _given(system, t0, q0, v0, p, start)
    if system.ns and start.get("s0") is None:
        values = _solve(system, values, system.h, ("s",), None)
    labels = {
        "h": [f"contact {n}" for n in system.names["s"]],
        "g": list(system.names["constraints"]),
        "g_dot": [f"{n}'" for n in system.names["constraints"]],
        "k": list(system.names["velocity_constraints"]),
        "balance": [f"balance {n}" for n in system.motion_names],
        "g_ddot": [f"{n}''" for n in system.names["constraints"]],
        "k_dot": [f"{n}'" for n in system.names["velocity_constraints"]],
        "auxiliary": [f"auxiliary {n}" for n in system.names["w"]],
    }
    free = ("a", *[n for n in ("w", "lam", "mu") if start.get(f"{n}0") is None])
    forces = ca.vertcat(system.balance, system.g_ddot, system.k_dot, system.auxiliary)
    solved = _solve(system, values, forces, free, None)
    residuals, violated = _residuals(system, solved, labels, tolerance)
    if any(name in violated for group in ("balance", "g_ddot", "k_dot", "auxiliary") for name in labels[group]):
        # with the multipliers given, let the accelerations follow from the forces and blame the constraints
        solved = _solve(system, values, ca.vertcat(system.balance, system.auxiliary), free, None)
        residuals, violated = _residuals(system, solved, labels, tolerance)
    return Consistency(not violated, residuals, violated)


def _residuals(
    system: System, values: dict[str, np.ndarray], labels: Mapping[str, list[str]], tolerance: float
) -> tuple[dict[str, float], tuple[str, ...]]:
    """Residual by name, and those too large for the size of their terms."""
    symbols = system.symbols.as_tuple()
    numbers = [values[n] for n in NAMES]
    z = ca.vertcat(*[s for n, s in zip(NAMES, symbols, strict=True) if n not in ("t", "p")])
    point = np.concatenate([values[n] for n in NAMES if n not in ("t", "p")])
    residuals: dict[str, float] = {}
    violated = []
    for expression, names in labels.items():
        if not names:
            continue
        expr = getattr(system, expression)
        value, slope = ca.Function("r", list(symbols), [expr, ca.jacobian(expr, z)])(*numbers)
        size = np.maximum(1.0, np.abs(slope.full()) @ np.abs(point))
        for name, r, scale in zip(names, np.asarray(value.full()).ravel(), size, strict=True):
            residuals[name] = float(r)
            if not abs(r) <= tolerance * scale:
                violated.append(name)
    return residuals, tuple(violated)
