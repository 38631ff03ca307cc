"""What a call of the integration loop takes: one block of memory that has everything in it, or tells where it is."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import types

from dalembert.numerics.memory import WORDS, Record, Reference, refer
from dalembert.numerics.runstate import OUTPUT_TYPES, RUN_TYPE, Output
from dalembert.numerics.work import WORK_TYPE


class Call(NamedTuple):
    """Descriptors of these, in this order, are the beginning of the block; those of the output are the last ones."""

    run: np.ndarray  # the block of a run
    work: np.ndarray  # the block of its work space
    row: np.ndarray  # initial values of a run that is not open yet, and their tolerances; else nothing
    rtol: np.ndarray
    atol: np.ndarray
    steps: np.ndarray  # prescribed ones
    t_eval: np.ndarray
    seeds: np.ndarray
    output: Output


_f8 = types.float64[::1]
CALL_TYPE = Record(
    Call,
    [
        Reference(RUN_TYPE), Reference(WORK_TYPE), _f8, _f8, _f8, _f8, _f8, types.float64[:, ::1],
        Record(Output, OUTPUT_TYPES),
    ],
)  # fmt: skip
UNDER_WAY = np.zeros(0), np.zeros(0), np.zeros(0)  # in the place of what only runs that have not begun are given
OUTPUT = len(Call._fields) - 1  # number of the first descriptor of the output


def call_with(call: Call) -> np.ndarray:
    """A block that tells where everything is, which has to live as long as it."""
    *arrays, output = call
    arrays += output
    block = np.empty(WORDS * len(arrays))
    refer(block, 0, arrays)
    return block
