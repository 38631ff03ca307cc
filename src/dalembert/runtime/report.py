"""How a run ended, in words: the time, the cause and what to try."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dalembert.numerics import runstate
from dalembert.runtime.assembly import Workspace
from dalembert.runtime.events import EventSet
from dalembert.runtime.run import Result
from dalembert.runtime.start import not_finite
from dalembert.status import Status


def message(
    status: Status,
    t: float,
    work: Workspace,
    result: Result,
    error: BaseException | None,
    events: EventSet,
    start: Callable[[], np.ndarray],
    steps: int,
) -> str:
    """The status in words, with the time, the cause and what to try; ``start``: [G; K] where the motion began."""
    if status == Status.SUCCESS:
        return status.message
    if status == Status.EVENT:
        last = int(result.state.whole[runstate.TERMINAL])
        index = int(result.event_index[last])
        return f"Stopped by event {index} ({events.names[index]}) at t = {result.event_t[last]:.10g}."
    message = f"Stopped at t = {t:.10g} after {steps} steps. {status.message}"
    if result.ending:
        return f"{message} {result.ending}"
    if error is not None:
        return f"{message} {type(error).__name__}: {error}"
    if status in (Status.INTERRUPTED, Status.MAX_STEPS):
        return message
    system, layout = work.assembly.system, work.assembly.layout
    state = result.state
    for i in (1, 0):  # the last accepted row, then the trial that failed
        row = state.rows[state.slots[i]]
        try:
            where = not_finite(system, layout, float(state.nodes[i]), row, work.p)
        except Exception as problem:
            where = f"a model function failed there ({problem})"
        if where:
            return f"{message} Cause: {where}."
    bad = np.flatnonzero(np.isnan(events.values(float(state.nodes[1]), state.rows[state.slots[1]], work.p)))
    if bad.size:
        return f"{message} Cause: event {events.names[bad[0]]!r} is nan at t = {float(state.nodes[1]):.6g}."
    found = singularity(work, t, state.rows[state.slots[1]], start())
    return message + (found or work.assembly.weakness)


def singularity(work: Workspace, t: float, row: np.ndarray, C0: np.ndarray) -> str:
    """Which constraints lose rank at a row, in words ('' if none do); C0: their matrix at the start."""
    system = work.assembly.system
    labels = [*system.names["constraints"], *system.names["velocity_constraints"]]
    C = work.matrices(t, row)[1]
    if not labels or not np.all(np.isfinite(C)):
        return ""
    norms, norms0 = np.linalg.norm(C, axis=1), np.linalg.norm(C0, axis=1)
    for i in np.flatnonzero(norms < 1e-2 * norms0):
        return (
            f" The gradient of the constraint {labels[i]!r} nearly vanishes here (norm {norms[i]:.2g}, at the start "
            f"{norms0[i]:.2g}): this is a kinematic singularity."
        )
    s = np.linalg.svd(C / norms[:, None])
    if s.S[-1] >= 1e-3 * s.S[0]:
        now = np.linalg.svd(C / norms0[:, None])
        before = np.linalg.svd(C0 / norms0[:, None], compute_uv=False)[-1]
        if now.S[-1] >= 0.1 * before:
            return ""
        heavy = [labels[i] for i in np.flatnonzero(np.abs(now.U[:, -1]) > 0.1)]
        return (
            f" The constraints {', '.join(map(repr, heavy))} come close to a loss of rank here (smallest singular "
            f"value {now.S[-1]:.2g}, at the start {before:.2g}): a kinematic singularity is near."
        )
    heavy = [labels[i] for i in np.flatnonzero(np.abs(s.U[:, -1]) > 0.1)]
    return (
        f" The constraints {', '.join(map(repr, heavy))} are nearly dependent here (smallest singular value "
        f"{s.S[-1]:.2g}): this is a kinematic singularity."
    )
