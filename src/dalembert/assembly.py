"""A system, a formulation, a method and a projection, compiled together.

Built once per combination and kept with the system; parameters, initial values and tolerances are run-time data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np

from dalembert.compiler import Kernel
from dalembert.formulations.base import Formulation
from dalembert.integrators.base import Integrator, StepData
from dalembert.model.point import Environment
from dalembert.model.system import System
from dalembert.numerics.compiled import single_stage
from dalembert.numerics.kernels import Request, build_kernels
from dalembert.numerics.layout import Layout
from dalembert.numerics.multipliers import multiplier_stage
from dalembert.numerics.newton import AT_D, N_COUNTERS, N_DATA, N_MEMORY, PATTERN, Newton
from dalembert.numerics.nonlinear import Nonlinear
from dalembert.numerics.projection import Projection
from dalembert.numerics.stage import INDEX, Stage, StageData, StageSystem

SAMPLES = 8  # states on which pivots are chosen
MAX_STAGES = 3


@dataclass(eq=False)
class Assembly:
    """Everything compiled that a run needs."""

    system: System
    layout: Layout
    kernels: dict[str, Kernel]
    step: Newton
    stages: tuple[Stage, Stage, Stage]
    n_stages: int
    multipliers: Stage
    labels: list[str]
    step_system: Nonlinear

    @property
    def n_step(self) -> int:
        """Unknowns of a step: the row without the accelerations."""
        return self.layout.n - self.system.nv

    def set_parameters(self, p: np.ndarray, phi0: np.ndarray) -> None:
        """Write parameters and the values of the invariants into the data of all systems."""
        _data(self.step)[3 + self.n_step :] = p
        for stage in (*self.stages[: self.n_stages], self.multipliers):
            _data(stage.newton)[1 + self.layout.n :] = np.concatenate([p, phi0])

    def residuals(self, t: float, row: np.ndarray, p: np.ndarray) -> dict[str, np.ndarray]:
        """g, g', k, phi and M, G, K at a row."""
        s = self.system
        out = self.kernels["levels"](row, np.concatenate([[t], p]))
        names = ["g", "g_dot", "k", "phi"]
        sizes = [s.nlam, s.nlam, s.nmu, s.nphi]
        edges = np.cumsum([0, *sizes])
        return {n: out[edges[i] : edges[i + 1]] for i, n in enumerate(names)}

    def matrices(self, t: float, row: np.ndarray, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mass matrix (nv, nv) and constraint matrix [G; K] (nlam + nmu, nv) at a row."""
        s = self.system
        out = self.kernels["matrices"](row, np.concatenate([[t], p]))
        mass = out[: s.nv**2].reshape(s.nv, s.nv, order="F")
        return mass, out[s.nv**2 :].reshape(s.nlam + s.nmu, s.nv, order="F")

    def complete(self, t: float, row: np.ndarray) -> int:
        """Solve for multipliers and accelerations in place; code of newton()."""
        counters = np.zeros(N_COUNTERS, dtype=np.int64)
        extra = np.zeros(max(1, self.layout.n))
        return single_stage()(self.multipliers, float(t), row, extra, 1e-13, counters)

    def project(self, t: float, row: np.ndarray, stages: Sequence[Stage] | None = None) -> int:
        """Run the projection stages on a row in place; code of newton()."""
        counters = np.zeros(N_COUNTERS, dtype=np.int64)
        extra = np.zeros(max(1, 3 * self.layout.n))
        for stage in self.stages[: self.n_stages] if stages is None else stages:
            code = single_stage()(stage, float(t), row, extra, 1e-12, counters)
            if code != 0:
                return code
        return 0

    def take_error(self) -> BaseException | None:
        """An exception raised by a Python function of the model during a run, if any."""
        for kernel in self.kernels.values():
            error = kernel.take_error()
            if error is not None:
                return error
        return None


def make_layout(system: System, formulation: Formulation) -> Layout:
    """The row of a formulation: its unknowns, then the accelerations."""
    blocks = [(u.name, u.size) for u in formulation.unknowns(system)]
    return Layout((*blocks, ("a", system.nv)))


def assemble(
    system: System, method: Integrator, formulation: Formulation, projection: Projection | None, start: dict[str, Any]
) -> Assembly:
    """Compile; ``start`` holds t, row, h, p of the first run, near which pivots are chosen."""
    layout = make_layout(system, formulation)
    data = StageData.make(system, layout)
    stage_systems = projection.stages(data) if projection is not None else []
    multiplier_system = multiplier_stage(data)
    step_system, labels = _step(system, method, formulation, layout)

    rows = _sample_rows(layout, start["row"])
    t, p, h = start["t"], start["p"], start["h"]
    phi0 = np.zeros(system.nphi)
    step_system = step_system.planned(
        [(row[: step_system.n], np.concatenate([[t, s, 1 / s], row[: step_system.n], p]))
         for row, s in zip(rows, np.resize(h * np.logspace(-3, 1, 5), len(rows)), strict=True)]
    )  # fmt: skip

    def planned(stage: StageSystem) -> StageSystem:
        index = layout.indices(stage.blocks)
        return stage.planned(
            [(np.concatenate([row[index], np.zeros(stage.system.n - index.size)]), np.concatenate([[t], row, p, phi0]))
             for row in rows]
        )  # fmt: skip

    stage_systems = [planned(s) for s in stage_systems]
    multiplier_system = planned(multiplier_system)

    requests = step_system.requests() + multiplier_system.requests() + _level_requests(system, layout)
    for s in stage_systems:
        requests += s.requests()
    kernels = build_kernels(requests)
    bound = [s.bind(kernels) for s in stage_systems]
    bound += [empty_stage() for _ in range(MAX_STAGES - len(bound))]
    return Assembly(
        system=system,
        layout=layout,
        kernels=kernels,
        step=step_system.bind(kernels),
        stages=(bound[0], bound[1], bound[2]),
        n_stages=len(stage_systems),
        multipliers=multiplier_system.bind(kernels),
        labels=labels,
        step_system=step_system,
    )


def _step(
    system: System, method: Integrator, formulation: Formulation, layout: Layout
) -> tuple[Nonlinear, list[str]]:
    sym = ca.SX.sym
    n = layout.n - system.nv
    data = StepData(sym("t"), sym("h"), sym("c0"), sym("past", n), sym("p", system.parameters.size))
    env = Environment(system, data.p)
    x = sym("x", n)
    equations = method.equations(formulation, env, layout, x, data)
    residual = equations.rows * equations.residual
    jacobian = ca.jacobian(residual, x) @ ca.diag(equations.columns)
    nonlinear = Nonlinear(
        name="step",
        x=x,
        d=data.d,
        residual=ca.densify(residual),
        jacobian=ca.sparsify(jacobian),
        columns=equations.columns,
        row_tolerance=ca.SX.zeros(n, 1),
        env=env,
    )
    return nonlinear, equations.labels


def _level_requests(system: System, layout: Layout) -> list[Request]:
    """Constraint levels, invariants, energy and matrices along a run."""
    row, t, p = ca.SX.sym("row", layout.n), ca.SX.sym("t"), ca.SX.sym("p", system.parameters.size)
    env = Environment(system, p)
    part = layout.split(row)
    point = env.at(t=t, **{n: part[n] for n in ("q", "v", "a", "r", "w", "s", "lam", "mu")})
    data = ca.vertcat(t, p)
    out = [
        Request("levels", row, data, ca.vertcat(point.g, point.g_dot, point.k, point.phi), env),
        Request("matrices", row, data, ca.vertcat(ca.vec(ca.densify(point.mass)),
                ca.vec(ca.densify(ca.vertcat(point.G, point.K)))), env),
    ]  # fmt: skip
    if system.energy is not None:
        out.append(Request("energy", row, data, point.energy, env))
    return out


def _sample_rows(layout: Layout, row0: np.ndarray) -> list[np.ndarray]:
    """The first row and states around it, the same ones in every process."""
    random = np.random.default_rng(1743)  # the year of the Traite de dynamique
    scale = np.ones(layout.n)
    for name, _ in layout.blocks:
        part = row0[layout.slice(name)]
        finite = np.abs(part[np.isfinite(part)])
        scale[layout.slice(name)] = max(finite.max(initial=0.0), 0.5)
    base = np.where(np.isfinite(row0), row0, 0.0)
    return [base] + [base + scale * random.uniform(-1, 1, layout.n) for _ in range(SAMPLES - 1)]


def empty_stage() -> Stage:
    """Stands where a run has fewer stages than there is room for; does nothing."""
    newton = Newton(np.zeros(PATTERN, dtype=np.int64), np.zeros(N_MEMORY))
    return Stage(newton, np.zeros(INDEX, dtype=np.int64), np.zeros(0))


def _data(newton: Newton) -> np.ndarray:
    """View of the data d of a nonlinear system."""
    start = newton.whole[AT_D]
    return newton.real[start : start + newton.whole[N_DATA]]
