"""Where a run starts: a consistent state, and constraints that are too many there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from dalembert.formulations.base import as_formulation
from dalembert.formulations.index1 import Index1
from dalembert.integrators.bdf import BDF
from dalembert.model.system import System
from dalembert.numerics.projection import Projection
from dalembert.runtime import arguments
from dalembert.runtime.assemble import make_layout
from dalembert.runtime.consistency import nearest
from dalembert.runtime.prepare import Initial, assembly_for, prepare_start
from dalembert.runtime.redundancy import Redundancy, find_redundancy, spread_state
from dalembert.runtime.start import initial_row, put_on_space, solve_contact
from dalembert.runtime.wishes import Wishes, wishes_of
from dalembert.solution import PARTS, State
from dalembert.status import OptionError


def consistent(
    system: System,
    q0: Any = None,
    v0: Any = None,
    t0: float = 0.0,
    *,
    parameters: Mapping[str, Any] | None = None,
    initial: Initial = "project",
    fixed: Sequence[str | int] | str | None = None,
    weights: Any = None,
    max_iterations: int = 200,
    r0: Any = None,
    w0: Any = None,
    s0: Any = None,
) -> State:
    """The nearest state that satisfies all constraints, with its multipliers and accelerations.

    Positions are moved onto the position constraints, to the point nearest to the guess; then velocities onto the
    velocity constraints. The guess may be crude (assembly of a mechanism).

    Parameters
    ----------
    system, q0, v0, t0, parameters, initial, r0, w0, s0
        As for `solve`; q0 is the guess.
    fixed
        Names of coordinates and of velocities (or indices of coordinates) that keep the values given.
    weights
        What counts as near: None (all alike), "mass", one positive number for each velocity, a dict from coordinate to
        number (others 1), or a symmetric positive definite matrix (nv, nv). A large weight: moves little.
    max_iterations
        Bound for the iterations from the guess, and from each of the guesses tried beside it if it leads nowhere.

    Raises
    ------
    InconsistentError
        If the constraints cannot be met: names them, with their residuals and what would help.

    Examples
    --------
    >>> import dalembert as da
    >>> state = da.consistent(da.problems()["pendulum"].system, [2.0, 0.0], [1.0, 1.0])
    >>> state.q, state.v
    (array([1., 0.]), array([0., 1.]))
    >>> da.consistent(da.problems()["pendulum"].system, [0.6, 0.1], fixed=["x"]).q
    array([0.6, 0.8])
    """
    arguments.check_common(system, initial)
    t0 = float(arguments.numbers("t0", t0))
    if not np.isfinite(t0):
        raise OptionError(f"t0={t0} must be finite.")
    method = BDF()
    formulation = as_formulation(None, method.default_formulation)
    p = system.parameters.vector(parameters)
    wishes = wishes_of(system, fixed, weights, max_iterations)
    found = redundancy(system, (t0, t0 + 1.0), q0, v0, {"r": r0, "w": w0, "s": s0}, p, initial, 1e-8, wishes)
    if found is not None:
        state = consistent(
            found[0].reduced, *found[1], t0, parameters=parameters, initial="assume", r0=r0, w0=w0, s0=s0
        )
        return cast(State, spread_state(found[0], state, p))
    layout = make_layout(system, method, formulation)
    row = initial_row(system, layout, **system.initial_values(q0, v0, r0, w0, s0))
    work = assembly_for(system, method, formulation, Projection(), t0, t0 + 1.0, row, p).workspace(p)
    prepare_start(work, t0, row, initial, 1e-8, wishes)
    return State(t=t0, **{name: row[layout.slice(name)].copy() for name in PARTS})


def redundancy(
    system: System,
    t_span: tuple[float, float],
    q0: Any,
    v0: Any,
    more: dict[str, Any],
    p: np.ndarray,
    initial: Initial,
    tolerance: float,
    wishes: Wishes | None = None,
) -> tuple[Redundancy, tuple[Any, Any]] | None:
    """Constraints too many at the start, if any, and the (consistent) q0, v0 to start without them."""
    if system.nlam + system.nmu < 2:
        return None
    layout = make_layout(system, BDF(), Index1())
    row = initial_row(system, layout, **{**system.initial_values(q0, v0), **more})
    put_on_space(system, layout, row, initial, tolerance)
    solve_contact(system, t_span[0], row, layout, p)
    if initial == "project":
        nearest(system, layout, p, t_span[0], row, wishes)
    allowed = tolerance if initial == "check" else None
    found = find_redundancy(system, layout, p, t_span[0], t_span[1] - t_span[0], row, allowed)
    if found is None:
        return None
    q, v = row[layout.slice("q")], row[layout.slice("v")]
    return found, (q, v) if system.nq else (v, None)
