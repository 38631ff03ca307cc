"""A system, a formulation, a method and a projection, compiled together.

Built once per combination and kept with the system; parameters, initial values and tolerances are run-time data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import casadi as ca
import numpy as np

from dalembert.compiler import Kernel
from dalembert.formulations.base import Formulation
from dalembert.integrators.base import Integrator, StepData, StepEquations
from dalembert.integrators.positions import lifted, local_form
from dalembert.model.point import Environment
from dalembert.model.system import System
from dalembert.numerics import work
from dalembert.numerics.arnoldi import Krylov, krylov_space
from dalembert.numerics.compiled import correct, map_rows, settle
from dalembert.numerics.kernels import Request, build_kernels
from dalembert.numerics.layout import Layout
from dalembert.numerics.memory import Parts
from dalembert.numerics.multipliers import multiplier_stage
from dalembert.numerics.native import LANES
from dalembert.numerics.newton import AT_D, AT_LU, N_COUNTERS, N_DATA, N_MEMORY, PATTERN, Newton
from dalembert.numerics.nonlinear import Nonlinear
from dalembert.numerics.opening import N_BLOCKS, RATE, TURNING
from dalembert.numerics.projection import Projection, between_steps
from dalembert.numerics.runstate import N_NUMBERS
from dalembert.numerics.screen import work_size
from dalembert.numerics.stage import INDEX, Stage, StageData, StageSystem
from dalembert.spaces.group import Group

SAMPLES = 8  # states on which pivots are chosen
LARGE = 300  # entries of a row: many bodies, of which some will turn to any direction
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
        key, filled = p.tobytes(), self.__dict__.get("_filled")
        if filled is None or filled[0] != key:
            template = self.parts.fresh()
            template[self._parameter_places] = p
            filled = self.__dict__["_filled"] = key, template
        return self.parts.fresh(filled[1])

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
            entries=self.matrix_entries,
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
        s, layout, levels = self.system, self.layout, self.kernels["levels"]
        at_q = layout.slice("q").start if s.space.flat and s.nq == s.nv else -1
        addresses = levels.address, self.kernels["matrices"].address
        defects = self.kernels.get("defects")
        on_group = (0, 0) if defects is None else (defects.address, defects.n_out)
        return np.array([s.nv, s.nlam, s.nmu, levels.n_out, at_q, layout.slice("v").start, *addresses, *on_group])

    @cached_property
    def _screen_size(self) -> int:
        s = self.system
        n_defects = self.kernels["defects"].n_out if "defects" in self.kernels else 0
        return work_size(s.nv, s.nlam + s.nmu, self.kernels["levels"].n_out, n_defects)

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


def make_layout(system: System, method: Integrator, formulation: Formulation) -> Layout:
    """The row of a formulation: its unknowns, then what is solved for afterwards, accelerations last."""
    known: dict[Any, Layout] = system.__dict__.setdefault("_layouts", {})
    key = method.equations_key, formulation, method.hermite_order
    if key not in known:
        known[key] = _make_layout(system, method, formulation)
    return known[key]


def _make_layout(system: System, method: Integrator, formulation: Formulation) -> Layout:
    blocks = [(u.name, u.size) for u in method.row_blocks(system, formulation)]
    present = {name for name, _ in blocks}
    blocks += [(name, system.sizes[name]) for name in ("q", "v", "w", "s", "lam", "mu", "a") if name not in present]
    if method.hermite_order is not None:
        blocks.append(("r_dot", system.nr))
    return Layout(tuple(blocks))


def assemble(
    system: System, method: Integrator, formulation: Formulation, projection: Projection | None, start: dict[str, Any]
) -> Assembly:
    """Compile; ``start`` holds t, row, h, p of the first run, near which pivots are chosen."""
    layout = make_layout(system, method, formulation)
    data = StageData.make(system, layout)
    stage_systems = projection.stages(data) if projection is not None else []
    between = between_steps(projection, method.satisfies(formulation))
    dense_systems = between.stages(data) if between is not None and between != projection else []
    multiplier_system = multiplier_stage(data)
    rows = _sample_rows(layout, start["row"])
    t, p, h = start["t"], start["p"], start["h"]

    def planned(stage: StageSystem) -> StageSystem:
        return planned_stage(stage, t, start["row"], p)

    dense_systems = [planned(s.named(f"dense-{s.system.name}")) for s in dense_systems]
    multiplier_system = planned(multiplier_system)
    stage_systems = [planned(s) for s in stage_systems]
    eliminate = _elimination(multiplier_system) if method.explicit_stages else None
    accelerate = _accelerations(multiplier_system, data, eliminate) if eliminate is not None else None
    corrected = projection is not None and projection.steps and any(s.moved is not None for s in stage_systems)
    step_system, equations, n_past, predicted = _step(
        system, method, formulation, layout, accelerate, eliminate, corrected
    )
    n_last = _n_last(system, method, n_past)
    if (projection is None or not projection.steps) and method.satisfies(formulation) & {"position", "velocity"}:
        step_system = replace(step_system, polish=True)  # the step itself has to keep the constraints to rounding

    numbers = _sample_numbers(system, formulation, layout, t, rows, p)
    step_system = step_system.planned(
        [(np.resize(row, step_system.n),
          np.concatenate([[t, s, 1 / s, 1 / s**2], row[:n_past], row[:n_past], row[:n_last], p, own]))
         for row, s, own in zip(rows, np.resize(h * np.logspace(-3, 1, 5), len(rows)), numbers, strict=True)]
    )  # fmt: skip

    levels, both = _level_requests(system, layout)
    requests = step_system.requests() + multiplier_system.requests() + levels
    if formulation.monitors:
        requests.append(_monitor_request(system, formulation, layout))
    for s in (*stage_systems, *dense_systems):
        requests += s.requests()
    if equations.update is not None:
        requests.append(Request("update", step_system.x, step_system.d, equations.update))
    if equations.start is not None:
        requests.append(Request("start", step_system.d, predicted, equations.start))
    if equations.lanes is not None:
        arguments, rates = equations.lanes
        requests.append(Request("lanes", arguments, step_system.d, rates, lanes=LANES))
    if equations.error is not None:
        requests.append(Request("error", step_system.x, step_system.d, equations.error, step_system.env))
    if equations.response is not None:
        dx, estimate = equations.response
        # the loop keeps x, d, F and dx one behind the other
        behind_x = ca.vertcat(step_system.d, ca.SX.sym("F", step_system.n), dx)
        requests.append(Request("response", step_system.x, behind_x, estimate, step_system.env))
    if method.hermite_order is not None and not system.space.flat:
        requests += _chart_requests(system, layout)
    dense = stage_systems if between == projection else dense_systems
    kernels = build_kernels(requests)
    return Assembly(
        system, layout, kernels, step_system, stage_systems, multiplier_system, equations.labels, n_past, n_last,
        dense, projection is None or projection.steps, method.weakness(system, formulation),
        np.array(both.sparsity().row(), dtype=int), projection,
    )  # fmt: skip


def planned_stage(stage: StageSystem, t: float, row0: np.ndarray, p: np.ndarray) -> StageSystem:
    """With pivots chosen on states around a row; without, if there is no choice that serves them all."""
    invariants = np.zeros(int(stage.system.d.numel()) - 1 - row0.size - p.size)
    return stage.planned(
        [(stage.start(row), np.concatenate([[t], row, p, invariants]))
         for row in _sample_rows(stage.layout, row0)]
    )  # fmt: skip


Accelerate = Callable[[ca.SX, ca.SX, ca.SX, ca.SX, ca.SX], tuple[ca.SX, ca.SX]]
Eliminate = Callable[[ca.SX], Callable[[ca.SX], ca.SX]]


def _elimination(multipliers: StageSystem) -> Eliminate | None:
    """matrix -> (right side -> solution), if the equations for multipliers are linear and their pivots known."""
    equations = multipliers.system
    plan, pattern = equations.plan, equations.jacobian.sparsity()
    if not equations.linear or plan is None:
        return None

    def eliminate(matrix: ca.SX) -> Callable[[ca.SX], ca.SX]:
        if (matrix.sparsity() + pattern).nnz() != pattern.nnz():
            raise RuntimeError("the matrix has entries where the equations for the multipliers have none")
        lu = plan.factor(ca.project(matrix, pattern).nz[:])
        return lambda right: plan.solve(lu, ca.densify(right))

    return eliminate


def _accelerations(multipliers: StageSystem, data: StageData, eliminate: Eliminate) -> Accelerate:
    """Accelerations and r' in terms of (t, q, v, r, p)."""
    equations = multipliers.system
    zero = ca.SX.zeros(equations.n, 1)
    matrix, residual = (ca.substitute(e, equations.x, zero) for e in (equations.jacobian, equations.residual))
    x = eliminate(matrix)(-residual)
    before = multipliers.blocks[: multipliers.blocks.index("a")]
    start = int(data.layout.indices(before).size)
    behind = start + data.system.nv
    solve = ca.Function("accelerations", [equations.d], ca.vertsplit(x, [0, start, behind, x.numel()])[1:])

    def accelerate(t: ca.SX, q: ca.SX, v: ca.SX, r: ca.SX, p: ca.SX) -> tuple[ca.SX, ca.SX]:
        given = {"q": q, "v": v, "r": r}
        row = ca.vertcat(*[given.get(n, ca.SX.zeros(size, 1)) for n, size in data.layout.blocks])
        a, r_dot = solve(ca.vertcat(t, row, p, ca.SX.zeros(data.system.nphi, 1)))
        return a, r_dot

    return accelerate


def _step(
    system: System,
    method: Integrator,
    formulation: Formulation,
    layout: Layout,
    accelerate: Accelerate | None = None,
    eliminate: Eliminate | None = None,
    corrected: bool = False,
) -> tuple[Nonlinear, StepEquations, int, ca.SX]:
    sym = ca.SX.sym
    n = sum(u.size for u in method.unknowns(system, formulation))
    n_past = sum(u.size for u in method.row_blocks(system, formulation))
    data = StepData(
        sym("t"), sym("h"), sym("c", N_NUMBERS), sym("first", n_past), sym("second", n_past),
        sym("last", _n_last(system, method, n_past)), sym("p", system.parameters.size),
        sym("data", formulation.data_size(system)), sym("predicted", n_past), accelerate, eliminate,
        corrected,
    )  # fmt: skip
    env = Environment(system, data.p, data.data)
    x = sym("x", n)
    equations = method.equations(formulation, env, layout, x, data)
    sizes = {"residual": n, "start": n, "update": n_past, "error": n_past if equations.response is None else n}
    for name, size in sizes.items():  # the loop hands out addresses: a kernel of another size would write beyond
        made = getattr(equations, name)
        if made is not None and made.shape != (size, 1):
            raise RuntimeError(f"method {method.name!r}: {name} of its step equations is {made.shape}, not ({size}, 1)")
    residual = equations.rows * equations.residual
    jacobian = ca.jacobian(residual, x)
    if equations.jacobian is not None:
        jacobian = ca.diag(equations.rows) @ equations.jacobian
    jacobian = jacobian @ ca.diag(equations.columns)
    nonlinear = Nonlinear(
        name="step",
        x=x,
        d=data.d,
        residual=ca.densify(residual),
        jacobian=ca.sparsify(jacobian),
        columns=equations.columns,
        row_tolerance=ca.SX.zeros(n, 1),
        env=env,
        linear=not env.coefficients and not ca.depends_on(jacobian, x),
        every=equations.every,
        cautious=equations.cautious,
    )
    return nonlinear, equations, n_past, data.predicted


def _n_last(system: System, method: Integrator, n_past: int) -> int:
    """A multistep method whose steps are motions needs the last position itself, to move on from it."""
    return n_past if method.moves(system) else 0


def _level_requests(system: System, layout: Layout) -> tuple[list[Request], ca.SX]:
    """Constraint levels, invariants, energy and matrices along a run; and [vec(M); vec([G; K])], sparse."""
    row, t, p = ca.SX.sym("row", layout.n), ca.SX.sym("t"), ca.SX.sym("p", system.parameters.size)
    env = Environment(system, p)
    part = layout.split(row)
    point = env.at(t=t, **{n: part[n] for n in ("q", "v", "a", "r", "w", "s", "lam", "mu")})
    data = ca.vertcat(t, p)
    both = ca.vertcat(ca.vec(point.mass), ca.vec(ca.vertcat(point.G, point.K)))
    out = [
        Request("levels", row, data, ca.vertcat(point.g, point.g_dot, point.k, point.phi), env),
        Request("matrices", row, data, both.nz[:], env, rare=True),
    ]
    if system.nq and not system.space.flat:
        out.append(Request("rate", row, data, ca.densify(ca.SX(system.space.rate(part["q"], part["v"]))), env))
    if isinstance(system.space, Group) and system.nq and not system.space.flat:
        out.append(Request("defects", row, data, ca.densify(ca.SX(system.space.defects(part["q"]))), env, rare=True))
    if system.energy is not None:
        out.append(Request("energy", row, data, point.energy, env))
    return out, both


def _chart_requests(system: System, layout: Layout) -> list[Request]:
    """Dense output on a group: rows out of and into the chart of a step, whose origin and guess of y are rows too."""
    row, origin, guess = (ca.SX.sym(name, layout.n) for name in ("row", "origin", "guess"))
    part, q0, at = layout.split(row), origin[layout.slice("q")], layout.slice("q").start
    place = slice(at, at + system.nv)  # y stands where q begins
    out = lifted(system, q0, {"q": row[place], "v": part["v"], "a": part["a"]})
    local = local_form(system, q0, {n: part[n] for n in ("q", "v", "a")}, guess[place])
    local["q"] = ca.vertcat(local["q"], ca.SX.zeros(system.nq - system.nv, 1))

    def whole(made: dict[str, ca.SX]) -> ca.SX:
        return ca.densify(ca.vertcat(*[made.get(name, part[name]) for name, _ in layout.blocks]))

    return [
        Request("lift", row, ca.vertcat(origin, guess), whole(out)),
        Request("local", row, ca.vertcat(origin, guess), whole(local)),
    ]


def _monitor_request(system: System, formulation: Formulation, layout: Layout) -> Request:
    """What watches the data of a formulation: (row, [t, p, data]) -> [quality, rate of ageing]."""
    row, t, p = ca.SX.sym("row", layout.n), ca.SX.sym("t"), ca.SX.sym("p", system.parameters.size)
    data = ca.SX.sym("data", formulation.data_size(system))
    env = Environment(system, p, data)
    part = layout.split(row)
    point = env.at(t=t, **{n: part[n] for n in ("q", "v", "a", "r", "w", "s", "lam", "mu")})
    return Request("monitor", row, ca.vertcat(t, p, data), formulation.monitor(env, point), env)


def _sample_rows(layout: Layout, row0: np.ndarray) -> list[np.ndarray]:
    """The first row and states around it, the same ones in every process."""
    random = np.random.default_rng(1743)  # the year of the Traite de dynamique
    scale = np.ones(layout.n)
    for name, _ in layout.blocks:
        part = row0[layout.slice(name)]
        finite = np.abs(part[np.isfinite(part)])
        scale[layout.slice(name)] = max(finite.max(initial=0.0), 0.5)
    base = np.where(np.isfinite(row0), row0, 0.0)
    rows = [base] + [base + scale * random.uniform(-1, 1, layout.n) for _ in range(SAMPLES - 1)]
    if layout.n > LARGE:
        # Coordinates exchanged in turn: what lay along the first axis lies along the second. An entry that is zero in
        # either position, as gradients of rods along an axis are, makes no good pivot; somewhere it would be used.
        rows[-1] = base.copy()
        rows[-1][layout.slice("q")] = np.roll(base[layout.slice("q")], 1)
    return rows


def _sample_numbers(
    system: System, formulation: Formulation, layout: Layout, t: float, rows: list[np.ndarray], p: np.ndarray
) -> list[np.ndarray]:
    """Numbers of the formulation for the sample rows."""
    unknown = np.full((system.nlam + system.nmu, system.nv), np.nan)
    if not formulation.data_size(system) or system.calls:
        return [formulation.sample_data(system, unknown)] * len(rows)
    levels, both = _level_requests(system, layout)
    find = ca.Function("matrices", [levels[0].a, levels[0].b], [both])
    C = [np.asarray(find(row, np.concatenate([[t], p])).full())[system.nv**2 :] for row in rows]
    return [formulation.sample_data(system, x.reshape(unknown.shape, order="F")) for x in C]


# stands where a run has fewer stages than there is room for; nothing reads or writes it
NO_STAGE = Stage(
    Newton(np.zeros(PATTERN, dtype=np.int64), np.zeros(N_MEMORY)), np.zeros(INDEX, dtype=np.int64), np.zeros(0)
)


def data_of(newton: Newton) -> np.ndarray:
    """View of the data d of a nonlinear system."""
    start = newton.whole[AT_D]
    return newton.real[start : start + newton.whole[N_DATA]]
