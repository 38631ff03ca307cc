"""A run made without redundant constraints, as a solution of the system that has them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from dalembert.runtime.redundancy import Redundancy, spread_state
from dalembert.status import Status

AGREE = 1e-6  # residual of a constraint left out, relative, that is still the error of the run
DRIFTS = 1e3  # how much larger than those of the kept constraints residuals of the others may be


def restore(found: Redundancy, sol: Any, p: np.ndarray, drift: type) -> Any:
    """The solution with all multipliers; cut where a constraint that was left out no longer follows from the others.

    ``drift`` is the class of the record of residuals.
    """
    full = found.system
    lam, mu, levels = found.spread(sol.t, sol.parts, p)
    cut = _contradiction(found, levels, sol)
    n = sol.t.size if cut is None else cut[0]
    parts = {**{k: x[:n] for k, x in sol.parts.items()}, "lam": lam[:n], "mu": mu[:n]}
    residuals = (levels.g[:n], levels.g_dot[:n], levels.k[:n])

    def evaluator(times: np.ndarray) -> dict[str, np.ndarray]:
        rows = sol.evaluator(times)
        lam, mu, _ = found.spread(times, rows, p)
        return {**rows, "lam": lam, "mu": mu}

    names = {**sol.names, **{k: tuple(full.names[k]) for k in ("lam", "mu", "constraints", "velocity_constraints")}}
    stats = replace(
        sol.stats,
        redundant=found.surplus,
        undetermined=found.undetermined,
        warnings=(found.warning(), *sol.stats.warnings),
    )
    inside = [t <= sol.t[n - 1] if sol.t[-1] >= sol.t[0] else t >= sol.t[n - 1] for t in sol.t_events]
    events = [type(s)(**{k: x[m] for k, x in vars(s).items()}) for s, m in zip(sol.events, inside, strict=True)]
    energy = (lambda: sol.energy_of()[:n]) if sol.energy_of is not None else None
    out = replace(
        sol,
        t=sol.t[:n],
        parts=parts,
        orders=sol.orders[:n],
        extra={k: x[:n] for k, x in sol.extra.items()},
        names=names,
        stats=stats,
        evaluator=evaluator if sol.evaluator is not None else None,
        drift_of=lambda: drift(*residuals, sol.drift.invariants[:n]),
        energy_of=energy,
        t_events=[t[m] for t, m in zip(sol.t_events, inside, strict=True)],
        events=[spread_state(found, s, p) if s.t.size else _empty(s, full) for s in events],
    )
    return out if cut is None else replace(out, status=Status.CONTRADICTION, message=cut[1])


def _empty(state: Any, full: Any) -> Any:
    return replace(state, lam=np.zeros((0, full.nlam)), mu=np.zeros((0, full.nmu)))


def _contradiction(found: Redundancy, levels: Any, sol: Any) -> tuple[int, str] | None:
    """The first point at which a constraint that was left out is violated, and what to say."""
    full = found.system
    labels = [*full.names["constraints"], *full.names["velocity_constraints"]]
    norms = np.linalg.norm(levels.C, axis=2)
    size = 1.0 + np.abs(sol.q).max(initial=0.0), 1.0 + np.abs(sol.v).max(initial=0.0)
    position = np.abs(levels.g) / (norms[:, : full.nlam] * size[0])
    velocity = np.abs(np.hstack([levels.g_dot, levels.k])) / (norms * size[1])
    for level, kind in ((position, "constraint"), (velocity, "velocity form of")):
        kept = [i for i in found.kept if i < level.shape[1]]
        others = [i for i in range(level.shape[1]) if i not in found.kept]
        if not others:
            continue
        allowed = AGREE + DRIFTS * level[:, kept].max(axis=1, initial=0.0)
        wrong = np.flatnonzero(~(level[:, others].max(axis=1) <= allowed))
        if wrong.size:
            i = int(wrong[0])
            name = labels[others[int(level[i, others].argmax())]]
            text = (
                f"Stopped at t = {sol.t[max(i - 1, 0)]:.10g}. {Status.CONTRADICTION.message} It is the {kind} "
                f"{name!r}, with a relative residual of {level[i, others].max():.2g} at t = {sol.t[i]:.10g}."
            )
            return max(i, 1), text
    return None
