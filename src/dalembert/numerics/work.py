"""Work space of a run, apart from its state: the nonlinear systems, and what is known of the model."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import types

from dalembert.numerics.arnoldi import KRYLOV_TYPE, Krylov
from dalembert.numerics.memory import Record, Several
from dalembert.numerics.native import inner
from dalembert.numerics.newton import CONVERGED, NEWTON_TYPE, Newton
from dalembert.numerics.screen import fit
from dalembert.numerics.stage import STAGE_TYPE, Stage, run_stage

MAX_STAGES = 3
MULTIPLIERS = -1  # number of that stage, beside those of the steps
FAILED = 10  # added to codes of newton(), to tell them from those of `screen`


class Model(NamedTuple):
    """What is known of the model, and memory to find out more: see `numerics.screen` and `numerics.opening`."""

    sizes: np.ndarray
    blocks: np.ndarray
    differential: np.ndarray  # positions of q, v and r in a row
    data: np.ndarray  # [t, p]
    parameters: np.ndarray  # the same, for events
    screen: np.ndarray
    trial: np.ndarray  # (4, n + extra unknowns)
    extra: np.ndarray
    counters: np.ndarray  # not those of the run


class Work(NamedTuple):
    """Everything that a run writes to, apart from its state."""

    step: Newton
    stages: tuple[Stage, Stage, Stage]
    dense: tuple[Stage, Stage, Stage]
    multipliers: Stage
    model: Model
    krylov: Krylov


_f8, _i8, _m8 = types.float64[::1], types.int64[::1], types.float64[:, ::1]
STAGES_TYPE = Several(STAGE_TYPE, MAX_STAGES)
MODEL_TYPE = Record(Model, [_i8, _i8, _i8, _f8, _f8, _f8, _m8, _f8, _i8])
WORK_TYPE = Record(Work, [NEWTON_TYPE, STAGES_TYPE, STAGES_TYPE, STAGE_TYPE, MODEL_TYPE, KRYLOV_TYPE])


@inner
def _one(stage, model, t, row, tolerance):  # type: ignore[no-untyped-def]
    return run_stage(stage, t, row, model.extra, tolerance, 0.0, model.counters)


def _correct(work, which, t, row, tolerance):  # type: ignore[no-untyped-def]
    """Run one stage on a row: of the steps (0, 1, 2), or MULTIPLIERS."""
    if which == MULTIPLIERS:
        return _one(work.multipliers, work.model, t, row, tolerance)
    return _one(work.stages[which], work.model, t, row, tolerance)


def _settle(work, n_stages, t, row, allowed, tolerance, multiplier_tolerance):  # type: ignore[no-untyped-def]
    """Make an initial row complete, in place, if there is no doubt about it: see `screen.fit`.

    Constraints met within ``allowed`` (not asked for if it is negative) are then met to rounding. Returns 0, what is in
    doubt, or FAILED + a code of newton().
    """
    work.model.data[0] = t
    doubt = fit(work.model, row, allowed)
    if doubt != 0:
        return doubt
    if allowed >= 0.0:
        for i in range(n_stages):
            if _one(work.stages[i], work.model, t, row, tolerance) != CONVERGED:
                break
    code = _one(work.multipliers, work.model, t, row, multiplier_tolerance)
    return FAILED + code if code != CONVERGED else 0
