"""A system, a formulation, a method and a projection, compiled together.

Built once per combination and kept with the system; parameters, initial values and tolerances are run-time data.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dalembert.compiler import Kernel
from dalembert.model.system import System
from dalembert.numerics import work
from dalembert.numerics.arnoldi import Krylov, krylov_space
from dalembert.numerics.compiled import correct, map_rows, settle
from dalembert.numerics.layout import Layout
from dalembert.numerics.memory import Parts
from dalembert.numerics.newton import AT_D, AT_LU, N_COUNTERS, N_DATA, N_MEMORY, PATTERN, Newton
from dalembert.numerics.nonlinear import Nonlinear
from dalembert.numerics.opening import N_BLOCKS, RATE, TURNING
from dalembert.numerics.projection import Projection
from dalembert.numerics.runstate import N_NUMBERS
from dalembert.numerics.screen import n_measures
from dalembert.numerics.stage import INDEX, Stage, StageSystem

STAGE_TOLERANCE = 1e-12  # of projections that are not judged by rows
SHOWN = ("q", "v", "a", "r", "w", "s", "lam", "mu")  # blocks of a row, in the order of a solution


@dataclass(frozen=True, eq=False)
class Assembly:
    """Everything compiled; holds no state of a run."""

    system: System
    layout: Layout
    kernels: dict[str, Kernel]
    step: Nonlinear
    stages: list[StageSystem]
    multipliers: StageSystem
    labels: list[str]
    n_past: int  # entries of the row that a step leaves behind for later ones
    n_last: int  # entries of the last row that a step sees as they are
    dense: list[StageSystem]  # projection of what lies between steps
    projects_steps: bool  # or only points between them
    weakness: str  # of the method with this formulation, for the message if steps fail
    matrix_entries: np.ndarray  # where the numbers of the kernel "matrices" stand in [vec(M); vec([G; K])]
    projection: Projection | None

    @cached_property
    def n_step(self) -> int:
        """Unknowns of a step: the row without the accelerations."""
        return self.step.n

    @cached_property
    def parameters_at(self) -> int:
        """Where the parameters begin in the data of the step."""
        return 2 + N_NUMBERS + 2 * self.n_past + self.n_last

    def workspace(self, p: np.ndarray) -> Workspace:
        """Fresh work space for one run with the parameters ``p``."""
        return Workspace(self, self.memory(p), p)

    def memory(self, p: np.ndarray) -> np.ndarray:
        """The block of memory of a fresh work space."""
        return self.parts.fresh(self.filled(p))

    def filled(self, p: np.ndarray) -> np.ndarray:
        """One to be copied."""
        key, filled = p.tobytes(), self.__dict__.get("_filled")
        if filled is None or filled[0] != key:
            template = self.parts.fresh()
            template[self._parameter_places] = p
            filled = self.__dict__["_filled"] = key, template
        return filled[1]

    @cached_property
    def parts(self) -> Parts:
        """Work space as it is before a run, without its parameters."""
        stages = self._bind(self.stages)
        dense = stages if self.dense is self.stages else self._bind(self.dense)
        step, multipliers = self.step.bind(self.kernels), self.multipliers.bind(self.kernels)
        all_stages = *stages, *dense, multipliers
        most, data = max(s.real.size for s in all_stages) + 1, np.zeros(1 + self.system.parameters.size)
        model = work.Model(
            sizes=self._sizes,
            blocks=self.blocks,
            differential=self.differential,
            data=data,
            parameters=data.copy(),
            screen=np.zeros(self._screen_size),
            trial=np.zeros((4, self.layout.n + most)),
            extra=np.zeros(most),
            counters=np.zeros(N_COUNTERS, dtype=np.int64),
        )
        # a matrix is not there before the first factorisation; the others are written to before they are read
        krylov = self._krylov
        solvers = step, *(s.newton for s in all_stages if s is not NO_STAGE)
        blank = [(x.real, int(x.whole[AT_LU])) for x in solvers]
        blank += [(x, 0) for x in (*(s.real for s in all_stages), model.screen, model.trial, model.extra, *krylov[1:])]
        return Parts(work.Work(step, stages, dense, multipliers, model, krylov), blank)

    @cached_property
    def _parameter_places(self) -> np.ndarray:
        """Words of a block (k, np) that hold parameters."""
        block, n = self.parts.template, self.system.parameters.size
        made: work.Work = self.parts.views(block)
        at = 1 + self.layout.n  # in the data of a stage
        stages = *made.stages[: len(self.stages)], *made.dense[: len(self.dense)], made.multipliers
        begins = [data_of(made.step)[self.parameters_at :], made.model.data[1:], made.model.parameters[1:]]
        begins += [data_of(s.newton)[at:] for s in stages]
        starts = [(x.ctypes.data - block.ctypes.data) // 8 for x in begins]
        return np.array(starts)[:, None] + np.arange(n)

    def _bind(self, systems: list[StageSystem]) -> tuple[Stage, Stage, Stage]:
        bound = [s.bind(self.kernels) for s in systems]
        bound += [NO_STAGE] * (work.MAX_STAGES - len(bound))
        return bound[0], bound[1], bound[2]

    # ------------------------------------------------------------------ what a solution shows of a row
    @cached_property
    def shown_blocks(self) -> tuple[tuple[str, slice], ...]:
        return tuple((name, self.layout.slice(name)) for name in SHOWN)

    @cached_property
    def further_blocks(self) -> tuple[tuple[str, slice], ...]:
        """Further unknowns of a formulation; past values that a method carries along are not shown."""
        further = [n for n, size in self.layout.blocks if size and n not in SHOWN and not n.startswith("_")]
        return tuple((name, self.layout.slice(name)) for name in further)

    # ------------------------------------------------------ what `numerics.screen` and `numerics.opening` want to know
    @cached_property
    def differential(self) -> np.ndarray:
        """Positions of q, v and r in a row."""
        return self.layout.indices(("q", "v", "r"))

    @cached_property
    def _sizes(self) -> np.ndarray:
        s, kernels = self.system, self.kernels
        measured = kernels["measures"].address if "measures" in kernels else 0
        defects = kernels.get("defects")
        on_group = (0, 0) if defects is None else (defects.address, defects.n_out)
        return np.array([s.nv, s.nlam + s.nmu, measured, *on_group])

    @cached_property
    def _screen_size(self) -> int:
        n_defects = self.kernels["defects"].n_out if "defects" in self.kernels else 0
        return max(n_measures(self.system.nv, self.system.nlam + self.system.nmu), n_defects)

    @cached_property
    def blocks(self) -> np.ndarray:
        out = np.zeros(N_BLOCKS, dtype=np.int64)
        out[:RATE] = [*(self.layout.slice(x).start for x in ("q", "v", "a")), self.system.nq, self.system.nv]
        out[RATE] = self.kernels["rate"].address if "rate" in self.kernels else 0
        out[TURNING] = int(not self.system.space.flat)
        return out

    @cached_property
    def _krylov(self) -> Krylov:
        s, layout = self.system, self.layout
        starts = [layout.slice(x).start if layout.has(x) else 0 for x in ("q", "v", "a", "r", "r_dot")]
        nr = s.nr if layout.has("r_dot") else 0  # their rates count if the row has them
        return krylov_space(starts, s.nq, s.nv if s.nq else 0, s.nv, nr, int(self.blocks[RATE]), layout.n)

    @cached_property
    def level_places(self) -> dict[str, slice]:
        """Where g, g', k and the invariants are in the output of the kernel "levels"."""
        s = self.system
        edges = np.cumsum([0, s.nlam, s.nlam, s.nmu, s.nphi]).tolist()
        return {name: slice(*edges[i : i + 2]) for i, name in enumerate(("g", "g_dot", "k", "phi"))}

    def evaluate(self, name: str, t: np.ndarray, rows: np.ndarray, p: np.ndarray) -> np.ndarray:
        """A kernel of (row, [t, p]) along a run: t (nt,), rows (nt, n) -> (nt, n_out)."""
        kernel = self.kernels[name]
        out = np.empty((len(t), kernel.n_out))
        map_rows()(kernel.address, np.ascontiguousarray(t), np.ascontiguousarray(rows), np.concatenate([[0.0], p]), out)
        error = self.take_error()
        if error is not None:
            raise error
        return out

    @cached_property
    def multiplier_tolerance(self) -> float:
        """Rounding level, or the noise of the difference quotients of black boxes."""
        return 1e-6 if self.system.calls else 1e-13

    def take_error(self) -> BaseException | None:
        """An exception raised by a Python function of the model during a run, if any."""
        errors = [e for e in (kernel.take_error() for kernel in self._in_python) if e is not None]
        return errors[0] if errors else None

    @cached_property
    def calls_python(self) -> bool:
        """True if a function of the model is evaluated by Python."""
        return bool(self._in_python)

    @cached_property
    def _in_python(self) -> list[Kernel]:
        """Kernels that can raise an exception."""
        return [kernel for kernel in self.kernels.values() if type(kernel) is not Kernel]


class Workspace:
    """The arrays of one run apart from its state, parts of one block of memory, and its parameters."""

    def __init__(self, assembly: Assembly, block: np.ndarray, p: np.ndarray) -> None:
        self.assembly, self.p, self.block = assembly, p, block

    @cached_property
    def arrays(self) -> work.Work:
        made: work.Work = self.assembly.parts.views(self.block)
        return made

    @property
    def n_stages(self) -> int:
        return len(self.assembly.stages)

    def data(self, t: float) -> np.ndarray:
        """[t, p], the second argument of kernels that evaluate the model."""
        self._data[0] = t
        return self._data

    @cached_property
    def _data(self) -> np.ndarray:
        return np.concatenate([[0.0], self.p])

    def set_invariants(self, phi0: np.ndarray) -> None:
        """Write the values of the invariants into the data of all stages: they are the end of it."""
        if not phi0.size:
            return
        stages, dense = self.arrays.stages[: self.n_stages], self.arrays.dense[: len(self.assembly.dense)]
        for stage in (*stages, *dense, self.arrays.multipliers):
            data_of(stage.newton)[1 + self.assembly.layout.n + self.p.size :] = phi0

    def set_data(self, values: np.ndarray) -> None:
        """Write the numbers of the formulation."""
        data_of(self.arrays.step)[self.assembly.parameters_at + self.p.size :] = values

    def levels(self, t: float, row: np.ndarray) -> dict[str, np.ndarray]:
        """Residuals g, g_dot, k and invariants phi at a row."""
        out = self.assembly.kernels["levels"](row, self.data(t))
        return {name: out[place] for name, place in self.assembly.level_places.items()}

    def matrices(self, t: float, row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mass matrix (nv, nv) and constraint matrix [G; K] (nlam + nmu, nv) at a row."""
        return self._dense(self.assembly.kernels["matrices"](row, self.data(t)))

    def matrices_along(self, t: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The same at several rows: t (k,), rows (k, n) -> (k, nv, nv), (k, nlam + nmu, nv)."""
        return self._dense(self.assembly.evaluate("matrices", t, rows, self.p))

    def _dense(self, entries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Both matrices from the entries (..., nnz) that are not zero by structure."""
        s = self.assembly.system
        nv, m = s.nv, s.nlam + s.nmu
        out = np.zeros((*entries.shape[:-1], nv * (nv + m)))
        out[..., self.assembly.matrix_entries] = entries
        mass = out[..., : nv**2].reshape(*entries.shape[:-1], nv, nv)  # column by column
        C = out[..., nv**2 :].reshape(*entries.shape[:-1], nv, m)
        return np.swapaxes(mass, -1, -2), np.swapaxes(C, -1, -2)

    def complete(self, t: float, row: np.ndarray) -> int:
        """Solve for multipliers and accelerations in place; a code of newton()."""
        return correct()(self.block, work.MULTIPLIERS, float(t), row, self.assembly.multiplier_tolerance)

    def project(self, t: float, row: np.ndarray) -> int:
        """Run the projection of the steps on a row in place; a code of newton()."""
        for i in range(self.n_stages):
            code = correct()(self.block, i, float(t), row, STAGE_TOLERANCE)
            if code != 0:
                return code
        return 0

    def settle(self, t: float, row: np.ndarray, allowed: float) -> int:
        """Complete a row to start from, in place, unless there is doubt: 0, or what is wrong, see `numerics.work`.

        Constraints are to be met within ``allowed`` and will be to rounding; negative: they are as they are.
        """
        tolerances = STAGE_TOLERANCE, self.assembly.multiplier_tolerance
        return settle()(self.block, self.n_stages, float(t), row, float(allowed), *tolerances)


NO_STAGE = Stage(
    Newton(np.zeros(PATTERN, dtype=np.int64), np.zeros(N_MEMORY)), np.zeros(INDEX, dtype=np.int64), np.zeros(0)
)


def data_of(newton: Newton) -> np.ndarray:
    """View of the data d of a nonlinear system."""
    start = newton.whole[AT_D]
    return newton.real[start : start + newton.whole[N_DATA]]
