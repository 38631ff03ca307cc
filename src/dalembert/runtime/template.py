"""What the runs of a method on an assembly have in common: their arrays, as they are before a run."""

from __future__ import annotations

from typing import Any

import numpy as np

from dalembert.formulations.base import Formulation
from dalembert.integrators.base import Integrator
from dalembert.integrators.positions import LOW
from dalembert.numerics import hermite, runstate, sweep_newton, sweeps
from dalembert.numerics.memory import Parts
from dalembert.numerics.newton import N_COUNTERS
from dalembert.runtime import singular
from dalembert.runtime.assembly import STAGE_TOLERANCE, Assembly
from dalembert.runtime.ingredients import kinked

# Updates that no longer shrink are rounding if they are this small, in units of the error allowed in a step. Fixed
# steps ask for FIXED_RTOL, which some unknowns (multipliers, accelerations) cannot resolve.
FREE_STALL, FIXED_STALL = 0.1, 100.0
FIXED_RTOL, FIXED_ATOL = 1e-11, 1e-12
NO_FORMULA = np.zeros(0)


def template(assembly: Assembly, method: Integrator, formulation: Formulation, fixed: bool, n_events: int) -> Parts:
    """What runs of a method on an assembly have in common; made once for each kind of run."""
    known: dict[Any, Parts] = assembly.__dict__.setdefault("_templates", {})
    key = method, formulation, fixed, n_events
    if key not in known:
        known[key] = _make_template(assembly, method, formulation, fixed, n_events)
    return known[key]


def _make_template(
    assembly: Assembly, method: Integrator, formulation: Formulation, fixed: bool, n_events: int
) -> Parts:
    system, layout, kernels, n = assembly.system, assembly.layout, assembly.kernels, assembly.layout.n
    first_order, max_order = method.order_range(fixed)
    real = np.zeros(runstate.N_REAL)
    real[runstate.REUSE] = _reuse(assembly)
    real[runstate.STAGE_TOLERANCE] = STAGE_TOLERANCE
    real[runstate.STALL] = FIXED_STALL if fixed else FREE_STALL
    real[runstate.MULTIPLIER_TOLERANCE] = assembly.multiplier_tolerance
    # fixed steps: nothing to control, Newton is to solve to rounding level
    real[runstate.MOST_RTOL], real[runstate.MOST_ATOL] = (FIXED_RTOL, FIXED_ATOL) if fixed else (np.inf, np.inf)
    real[runstate.SHARE :] = 1.0
    whole = np.zeros(runstate.N_WHOLE, dtype=np.int64)
    whole[runstate.ORDER], whole[runstate.MAX_ORDER] = first_order, max_order
    whole[runstate.FIXED], whole[runstate.N_EVENTS] = int(fixed), n_events
    whole[runstate.FORGETS] = 1
    whole[runstate.N_STAGES] = len(assembly.stages)
    own = formulation.own_multipliers and method.own_multipliers
    whole[runstate.OWN_MULTIPLIERS] = int(own and not method.gains(system, formulation, assembly.projection))
    whole[runstate.N_STEP] = assembly.n_step
    whole[runstate.PROJECT_ERROR] = int(bool(assembly.stages) and assembly.stages[0].metric is not None)
    whole[runstate.PROJECT_STEPS] = int(assembly.projects_steps)
    whole[runstate.COEFFICIENTS] = method.coefficient_function()
    whole[runstate.MONITOR] = kernels["monitor"].address if formulation.monitors else 0
    whole[runstate.N_PAST] = assembly.n_past
    whole[runstate.N_LAST] = assembly.n_last
    whole[runstate.EXPLICIT] = method.explicit_stages
    whole[runstate.RESERVE] = -max_order if method.one_step else method.reserve
    whole[runstate.REGULAR] = int(method.regular)
    whole[runstate.N_DENSE] = len(assembly.dense)
    places = _places(assembly, method)
    # the quintic of both ends serves short steps; r is known with its first derivative only
    if places[hermite.HERMITE] and ((method.one_step and (method.hermite_order or 0) > 3) or system.nr):
        whole[runstate.INNER_POINTS] = hermite.INNER
    parts = {
        runstate.START: "start", runstate.UPDATE: "update", runstate.ERROR: "error", runstate.RESPONSE: "response",
        runstate.LANE_KERNEL: "lanes", runstate.NEWTON_JACOBIAN: "lanes.jacobian",
        runstate.NEWTON_FACTOR: "lanes.factor", runstate.NEWTON_SOLVE: "lanes.solve",
    }  # fmt: skip
    for position, name in parts.items():
        whole[position] = kernels[name].address if name in kernels else 0
    line = not (fixed and method.ramps and not method.one_step)
    whole[runstate.LINE] = int(line)
    whole[runstate.NODES] = runstate.HISTORY if line and method.regular else 2 if line else 1
    formula, n_lanes = NO_FORMULA, 0
    if "lanes" in kernels:
        ambient = bool(system.nq) and not system.space.flat
        formula, n_data = method.formula(), int(assembly.step.d.numel())
        # what the method carries besides q, v and r
        n_own = assembly.n_past - system.nq - system.nv - system.nr
        n_lanes, whole[runstate.LANE_WORK] = sweeps.lanes_size(system.nq, system.nv, system.nr, n_own, ambient, n_data)
        n_lanes += formula.size
        if "lanes.solve" in kernels:
            n_jacobian, n_factors = (kernels[f"lanes.{name}"].n_out for name in ("jacobian", "factor"))
            n_solved = kernels["lanes.solve"].n_out // 2
            work = sweep_newton.newton_size(n_solved, n_jacobian, n_factors)
            whole[runstate.N_JACOBIAN], whole[runstate.N_FACTORS], whole[runstate.NEWTON_WORK] = (
                n_jacobian, n_factors, work
            )  # fmt: skip
            n_lanes += 2 * work  # for steps, and for points between them
        whole[runstate.SWEEPS], whole[runstate.N_MOVED], whole[runstate.AMBIENT] = method.n_sweeps, system.nq, ambient
        whole[runstate.N_OWN] = n_own
        whole[runstate.KINKED], whole[runstate.LANES_AT] = int(kinked(system)), -1
    opening = np.zeros((2, n), dtype=np.int64)
    if system.nq:  # numbers of a rotation count in absolute terms
        opening[0, layout.slice("q")] = ~system.space.unbounded
    # not where second differences need multipliers to the last digit, nor on prescribed steps, which are solved to it
    scaled = method.one_step or not (fixed or method.regular)
    for unknown in method.row_blocks(system, formulation):
        if scaled and not unknown.controlled and unknown.size:
            opening[1, layout.slice(unknown.name)] = opening[1].max() + 1
    coefficients = np.zeros(runstate.N_COEFFICIENTS + runstate.N_WORK)
    coefficients[runstate.GROWTH] = method.growth
    watched = np.zeros(3 + system.parameters.size + formulation.data_size(system))
    watched[0] = 1.0
    most = max(s.system.n for s in (*assembly.stages, *assembly.dense, assembly.multipliers))
    rank, ranked = singular.memory(assembly)
    power, controlled, source, weight_of = _tables(assembly, method, formulation)
    past, lanes = runstate.HISTORY + 1, np.zeros(n_lanes)
    arrays = runstate.RunArrays(
        real=real, whole=whole, nodes=np.zeros(past), rows=np.zeros((past, n)), slots=np.arange(past, dtype=np.int64),
        coefficients=coefficients, estimate=np.zeros(n), scratch=np.zeros((3, max(n, most))), rtol=np.zeros(n),
        atol=np.zeros(n), power=power, controlled=controlled, peak=np.zeros(n),
        weights=np.zeros((2, max(n, assembly.n_step))), weight_of=weight_of, source=source,
        orders=np.full(past, runstate.EXACT, dtype=np.int64), counters=np.zeros(N_COUNTERS, dtype=np.int64),
        event_values=np.zeros((runstate.EVENT_ROWS, 2 * n_events)), event_rules=np.zeros((2, n_events), dtype=np.int64),
        finished=np.zeros(n), watched=watched, dense=np.zeros((hermite.N_DENSE_ROWS, n)),
        places=places, rank=rank, ranked=ranked, formula=formula, lanes=lanes, opening=opening,
    )  # fmt: skip
    return Parts(arrays, [(x, 0) for x in (arrays.rows, arrays.scratch, arrays.finished, arrays.dense, lanes)])


def _tables(
    assembly: Assembly, method: Integrator, formulation: Formulation
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """What the loop knows of the entries of a row: power, controlled, source, weight_of."""
    system, layout, n = assembly.system, assembly.layout, assembly.layout.n
    power, controlled = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    source = np.array([np.arange(n), np.zeros(n), np.full(n, -1)], dtype=np.int64)
    if method.reserve:  # velocities follow from positions, and so do their errors
        source[0, layout.slice("v")] = layout.indices(("q",))[system.space.measured_by]
        source[1, layout.slice("v")] = 1
    if layout.has(LOW):
        for block in ("q", "v"):
            source[2, layout.slice(block)] = layout.indices((LOW,))
        source[1, layout.slice(LOW)] = 2
    for unknown in method.row_blocks(system, formulation):
        part = layout.slice(unknown.name)
        power[part] = unknown.index - 1
        controlled[part] = int(unknown.controlled)
    weight_of = method.weight_map(system, layout, formulation)
    if weight_of is None:
        weight_of = np.array([np.arange(assembly.n_step), np.zeros(assembly.n_step)], dtype=np.int64)
    projection = assembly.projection
    if method.one_step and projection is not None and projection.error == "projected":
        # what made velocities count less is taken out of their errors; Newton's updates still have it
        v = layout.slice("v")
        of_v = (weight_of[0] >= v.start) & (weight_of[0] < v.stop)
        weight_of[1, of_v] += power[v.start]
        power[v] = 0
    return power, controlled, source, weight_of


def _places(assembly: Assembly, method: Integrator) -> np.ndarray:
    """Where v is, and where the dense output finds the others, if it is made from the ends of steps.

    For methods whose past rows are as good, the polynomial through these serves. On a group q'' is not a: there are
    kernels that lead to coordinates where it is, and back.
    """
    system, layout, kernels = assembly.system, assembly.layout, assembly.kernels
    out = np.zeros(hermite.N_PLACES, dtype=np.int64)
    out[hermite.AT_V], out[hermite.N_V] = layout.slice("v").start, system.nv
    if method.hermite_order is not None:
        at = (layout.slice(name).start for name in ("q", "v", "a"))
        chart = (kernels[name].address if name in kernels else 0 for name in ("lift", "local"))
        out[:] = [1, *at, system.nv, layout.slice("r").start, layout.slice("r_dot").start, system.nr, *chart]
    return out


def _reuse(assembly: Assembly) -> float:
    """How bad the contraction may get before the matrix is renewed: cheap factorisations are renewed every step."""
    kernels = assembly.kernels
    if assembly.step.polish:  # with an old matrix the constraints would not get to rounding level
        return 0.0
    if "step.factor" not in kernels:
        return 0.3
    factor = kernels["step.factor"].n_instructions
    iteration = kernels["step.residual"].n_instructions + kernels["step.solve"].n_instructions
    return 0.0 if factor < 4 * iteration else 0.1
