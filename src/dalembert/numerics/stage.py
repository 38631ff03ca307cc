"""Stages: small nonlinear systems that correct part of a state row in place.

The projection onto the constraints and the solution for multipliers and accelerations are stages. A stage takes the
row, solves F(x; t, row, p) = 0 where x holds some entries of the row and a few extra unknowns, and writes the
entries back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import casadi as ca
import numpy as np
from numba import types

from dalembert.compiler import Kernel
from dalembert.model.point import Environment
from dalembert.model.system import System
from dalembert.numerics.kernels import Request
from dalembert.numerics.layout import Layout
from dalembert.numerics.memory import Record
from dalembert.numerics.native import call_kernel, inner
from dalembert.numerics.newton import (
    AT_D,
    AT_DX,
    AT_F,
    AT_LU,
    AT_X,
    BY_LAPACK,
    CONVERGED,
    DIVERGED,
    FACTORIZATIONS,
    FACTORIZED,
    ITERATIONS,
    N_LU,
    NEWTON_TYPE,
    REFINE_LIMIT,
    RESIDUAL,
    RESIDUALS,
    TRUST_LIMIT,
    N,
    Newton,
    at,
    back_substitute,
    data,
    forget,
    newton,
    rows_beyond,
    unknowns,
)
from dalembert.numerics.nonlinear import Nonlinear
from dalembert.spaces.group import Group


@dataclass(frozen=True, eq=False)
class StageData:
    """Symbols every stage is written in: d = [t, row, p, phi0]."""

    system: System
    layout: Layout
    t: ca.SX
    row: ca.SX
    p: ca.SX
    phi0: ca.SX

    @staticmethod
    def make(system: System, layout: Layout) -> StageData:
        sym = ca.SX.sym
        return StageData(
            system, layout, sym("t"), sym("row", layout.n), sym("p", system.parameters.size), sym("phi0", system.nphi)
        )

    @property
    def d(self) -> ca.SX:
        return ca.vertcat(self.t, self.row, self.p, self.phi0)

    @property
    def old(self) -> dict[str, ca.SX]:
        """Blocks of the row as it comes in."""
        return self.layout.split(self.row)

    def environment(self) -> Environment:
        return Environment(self.system, self.p)


@dataclass(frozen=True, eq=False)
class StageSystem:
    """A stage before compilation: which blocks of the row it corrects, and its equations."""

    blocks: tuple[str, ...]
    system: Nonlinear
    by_rows: bool
    keep: bool  # start the extra unknowns from their last values instead of zero
    layout: Layout
    metric: ca.SX | None = None  # W, if error estimates are to be projected with this stage
    moved: ca.SX | None = None  # numbers that the blocks become, if the unknowns begin with a tangent vector instead

    def start(self, row: np.ndarray) -> np.ndarray:
        """Unknowns to begin with (n,)."""
        x = np.zeros(self.system.n)
        if self.moved is None:
            index = self.layout.indices(self.blocks)
            x[: index.size] = row[index]
        return x

    @property
    def first_iterations(self) -> int:
        """How many iterations one kernel makes at once: rows have to tell what they leave, or they leave nothing."""
        known = self.by_rows or self.system.linear
        return self.system.first_iterations if known and not self.keep else 0

    @property
    def begin(self) -> ca.SX:
        """Unknowns to begin with, in terms of the data."""
        x = ca.SX.zeros(self.system.n, 1)
        if self.moved is None:
            index = self.layout.indices(self.blocks)
            x[: index.size] = self.system.d[1 + index]
        return x

    def result(self, x: ca.SX) -> ca.SX:
        """Numbers that the blocks become, in terms of the unknowns."""
        if self.moved is None:
            return x[: self.layout.indices(self.blocks).size]
        return ca.substitute(self.moved, self.system.x, x)

    def planned(self, samples: Sequence[tuple[np.ndarray, np.ndarray]]) -> StageSystem:
        return replace(self, system=self.system.planned(samples))

    def named(self, name: str) -> StageSystem:
        return replace(self, system=replace(self.system, name=name))

    def requests(self) -> list[Request]:
        out = self.system.requests()
        if self.first_iterations:
            out.append(self.system.at_once(self.begin, self.result, self.by_rows))
        if self.metric is not None:
            out.append(Request(f"{self.system.name}.tangent", *self._tangent(self.metric), self.system.env))
        if self.moved is not None:
            space, q = self.system.env.system.space, ca.SX.sym("q", self.moved.numel())
            assert isinstance(space, Group)
            out += [
                Request(f"{self.system.name}.moved", self.system.x, self.system.d, ca.densify(self.moved)),
                Request(f"{self.system.name}.correct", q, ca.SX(0, 1), ca.densify(ca.SX(space.correct(q)))),
            ]
        return out

    def _tangent(self, W: ca.SX) -> tuple[ca.SX, ca.SX, ca.SX]:
        """P e for an estimate e of the corrected blocks: W P e + H^T nu = W e, H P e = 0 [E93, section 4.1]."""
        system = self.system
        e = ca.SX.sym("e", self.layout.indices(self.blocks).size)
        n = W.shape[0]
        b = ca.vertcat(W @ e[:n], ca.SX.zeros(system.n - n, 1))
        here = ca.vertcat(system.d[1 + self.layout.indices(self.blocks)], ca.SX.zeros(system.n - e.numel(), 1))
        matrix = ca.substitute(system.jacobian, system.x, here)
        if system.plan is not None:
            solution = system.plan.solve(system.plan.factor(matrix.nz[:]), b)
        else:
            solution = ca.solve(ca.densify(matrix), b)
        return e, system.d, solution[: e.numel()]

    def bind(self, kernels: dict[str, Kernel]) -> Stage:
        index = self.layout.indices(self.blocks)
        tangent = kernels[f"{self.system.name}.tangent"].address if self.metric is not None else 0
        moved, correct = (kernels[f"{self.system.name}.{x}"].address if self.moved is not None else 0
                          for x in ("moved", "correct"))  # fmt: skip
        once = (kernels[f"{self.system.name}.at-once"].address if self.first_iterations else 0, self.first_iterations)
        head = [int(self.by_rows), int(self.keep), MOST_ITERATIONS, tangent, moved, correct, *once, index.size]
        return Stage(
            newton=self.system.bind(kernels, index.size + self.system.n),
            whole=np.array([*head, *index], dtype=np.int64),
            real=np.zeros(self.system.n + 2 * index.size),
        )


MOST_ITERATIONS = 50
# Updates below this, the root of the rounding unit, are squared by Newton's method with a new matrix; if they do not
# shrink, it is rounding: components that are small by chance carry that of the large ones.
NOISE = 1e-8
UNDER_WAY = 9  # no code of newton()
# positions in Stage.whole; the positions in the row follow from INDEX on
BY_ROWS, KEEP, LIMIT, TANGENT, MOVED, CORRECT, AT_ONCE, FIRST_ITERATIONS, N_INDEX, INDEX = range(10)
# of stored numbers towards the group; changes whose squares, which the next one would make, are rounding errors
MOST_CORRECTIONS, ELEMENT = 20, 1e-9


class Stage(NamedTuple):
    """A compiled stage. real: weights of Newton's updates (n), then work space (2, n_index)."""

    newton: Newton
    whole: np.ndarray
    real: np.ndarray


STAGE_TYPE = Record(Stage, [NEWTON_TYPE, types.int64[::1], types.float64[::1]])


@inner
def run_stage(stage, t, row, extra, tolerance, reuse, counters):  # type: ignore[no-untyped-def]
    """Correct ``row`` in place; extra unknowns are left in ``extra``. Returns a code of newton()."""
    nw = stage.newton
    x, d = unknowns(nw), data(nw)
    n, m = x.size, stage.whole[N_INDEX]
    moves = stage.whole[MOVED] != 0
    if moves and not put_on_group(stage, row):
        return DIVERGED
    if n == 0:
        return 0
    d[0] = t
    for i in range(row.size):
        d[1 + i] = row[i]
    begun = False
    if stage.whole[AT_ONCE] != 0 and reuse == 0.0:
        code = first_iterations(stage, row, extra, counters)
        if code == CONVERGED:
            return code
        begun = code == UNDER_WAY
    weights = stage.real[:n]
    if moves:
        m = 0
        for i in range(n):
            x[i], weights[i] = 0.0, 1.0
    for i in range(m):
        x[i] = row[stage.whole[INDEX + i]]
        weights[i] = 1.0 / (abs(x[i]) + 1e-3)  # updates count relative to the size of what they change
    for i in range(m, n):
        if stage.whole[KEEP] == 0:
            x[i] = 0.0
            weights[i] = 0.0
        else:
            weights[i] = 1.0 / (abs(x[i]) + 1e-3)
    if begun:  # with the matrix that is there
        reuse = np.inf
        for i in range(n):
            x[i] = nw.real[nw.whole[AT_DX] + i]
    stall = max(tolerance, NOISE)
    code = newton(nw, weights, tolerance, stall, stage.whole[LIMIT], reuse, stage.whole[BY_ROWS] == 1, counters)
    if code != 0:
        return code
    if moves:
        q = stage.real.ctypes.data + 8 * n
        call_kernel(stage.whole[MOVED], at(nw, AT_X), at(nw, AT_D), q)
        for i in range(stage.whole[N_INDEX]):
            row[stage.whole[INDEX + i]] = stage.real[n + i]
        return code
    for i in range(m):
        row[stage.whole[INDEX + i]] = x[i]
    for i in range(m, n):
        extra[i - m] = x[i]
    return code


@inner
def first_iterations(stage, row, extra, counters):  # type: ignore[no-untyped-def]
    """The first iterations from the row in the data, by one kernel; mostly they are all.

    Returns CONVERGED (then the row is corrected), UNDER_WAY (x is where the update was), or DIVERGED if the elimination
    is not to be trusted.
    """
    nw, by_rows = stage.newton, stage.whole[BY_ROWS] == 1
    n, m, made = nw.whole[N], stage.whole[N_INDEX], nw.whole[AT_DX]
    behind = nw.whole[AT_LU] + nw.whole[N_LU]
    result = behind + 2 * n
    call_kernel(stage.whole[AT_ONCE], at(nw, AT_D), at(nw, AT_D), at(nw, AT_F))
    growth = nw.real[behind - 1]
    if not growth < TRUST_LIMIT:  # or no number
        forget(nw)
        return DIVERGED
    nw.real[FACTORIZED], nw.real[BY_LAPACK] = 1.0, 0.0
    counters[FACTORIZATIONS] += 1
    counters[RESIDUALS] += 1
    if by_rows:
        bounds, last = nw.real[behind + n : behind + 2 * n], result + m
        if rows_beyond(nw.real[nw.whole[AT_F] : made], bounds, 1.0) == 0:
            return CONVERGED  # before the first of them
        counters[RESIDUALS] += stage.whole[FIRST_ITERATIONS]
        counters[ITERATIONS] += stage.whole[FIRST_ITERATIONS]
        if rows_beyond(nw.real[last : last + n], bounds, 1.0) > 0:
            return UNDER_WAY
    else:
        counters[ITERATIONS] += 1
        if growth >= REFINE_LIMIT:
            refine(nw, counters)
            result = made = nw.whole[AT_X]
        total = 0.0
        for i in range(m):
            total += nw.real[result + i]
        if not np.isfinite(total):
            forget(nw)
            return DIVERGED
    for i in range(m):
        row[stage.whole[INDEX + i]] = nw.real[result + i]
    for i in range(m if stage.whole[MOVED] == 0 else n, n):
        extra[i - m] = nw.real[made + i]
    return CONVERGED


@inner
def refine(nw, counters):  # type: ignore[no-untyped-def]
    """A step of iterative refinement, into x, of what is where the update was."""
    x, made = unknowns(nw), nw.whole[AT_DX]
    for i in range(x.size):
        x[i] = nw.real[made + i]
    call_kernel(nw.whole[RESIDUAL], at(nw, AT_X), at(nw, AT_D), at(nw, AT_F))
    back_substitute(nw)
    counters[RESIDUALS] += 1
    counters[ITERATIONS] += 1
    for i in range(x.size):
        x[i] += nw.real[made + i]


@inner
def put_on_group(stage, row):  # type: ignore[no-untyped-def]
    """Replace stored numbers by those of the nearest element, in place; False if they are too far from any."""
    n, m = stage.newton.whole[N], stage.whole[N_INDEX]
    q = stage.real[n : n + m]
    better = stage.real[n + m : n + 2 * m]
    for i in range(m):
        q[i] = row[stage.whole[INDEX + i]]
    for _ in range(MOST_CORRECTIONS):
        call_kernel(stage.whole[CORRECT], q.ctypes.data, q.ctypes.data, better.ctypes.data)
        settled = True
        for i in range(m):
            settled = settled and abs(better[i] - q[i]) <= ELEMENT  # False for NaN
            row[stage.whole[INDEX + i]] = q[i] = better[i]
        if settled:
            return True
    return False


@inner
def project_estimate(stage, estimate):  # type: ignore[no-untyped-def]
    """Take the part normal to the constraints of the last `run_stage` out of an error estimate, in place."""
    n, m = stage.newton.whole[N], stage.whole[N_INDEX]
    for i in range(m):
        stage.real[n + i] = estimate[stage.whole[INDEX + i]]
    start = stage.real.ctypes.data + 8 * n
    code = call_kernel(stage.whole[TANGENT], start, at(stage.newton, AT_D), start + 8 * m)
    for i in range(m):
        estimate[stage.whole[INDEX + i]] = stage.real[n + m + i]
    return code
