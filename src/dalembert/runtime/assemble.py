"""From a system, a formulation, a method and a projection to what is compiled of them: layout, equations, pivots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import casadi as ca
import numpy as np

from dalembert.formulations.base import Formulation
from dalembert.integrators.base import Integrator, StepData, StepEquations
from dalembert.integrators.positions import lifted, local_form
from dalembert.model.point import Environment
from dalembert.model.system import System
from dalembert.numerics.kernels import Request, build_kernels
from dalembert.numerics.layout import Layout
from dalembert.numerics.multipliers import multiplier_stage
from dalembert.numerics.native import LANES
from dalembert.numerics.nonlinear import Nonlinear
from dalembert.numerics.projection import Projection, between_steps
from dalembert.numerics.runstate import N_NUMBERS
from dalembert.numerics.screen import measures
from dalembert.numerics.stage import StageData, StageSystem
from dalembert.runtime.assembly import Assembly
from dalembert.spaces.group import Group

SAMPLES = 8  # states on which pivots are chosen
LARGE = 300  # entries of a row: many bodies, of which some will turn to any direction


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
        system, method, formulation, layout, accelerate, eliminate, [(t, row, p, h) for row in rows], corrected
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
        requests.append(Request("lanes", arguments, step_system.d, rates, lanes=LANES, fused=True))
    if equations.lanes_newton is not None:
        newton, none = equations.lanes_newton, ca.SX(0, 1)
        requests += [
            Request("lanes.jacobian", none, step_system.d, newton.jacobian, fused=True),
            Request("lanes.factor", *newton.factor, lanes=LANES // 2, fused=True),
            Request("lanes.solve", newton.solve[0], none, newton.solve[1], lanes=LANES // 2, fused=True),
        ]
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
    samples: Sequence[tuple[float, np.ndarray, np.ndarray, float]] = (),
    corrected: bool = False,
) -> tuple[Nonlinear, StepEquations, int, ca.SX]:
    sym = ca.SX.sym
    n = sum(u.size for u in method.unknowns(system, formulation))
    n_past = sum(u.size for u in method.row_blocks(system, formulation))
    data = StepData(
        sym("t"), sym("h"), sym("c", N_NUMBERS), sym("first", n_past), sym("second", n_past),
        sym("last", _n_last(system, method, n_past)), sym("p", system.parameters.size),
        sym("data", formulation.data_size(system)), sym("predicted", n_past), accelerate, eliminate,
        samples, corrected,
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
    C, levels = ca.vertcat(point.G, point.K), ca.vertcat(point.g, point.g_dot, point.k, point.phi)
    both = ca.vertcat(ca.vec(point.mass), ca.vec(C))
    out = [
        Request("levels", row, data, levels, env),
        Request("matrices", row, data, both.nz[:], env, rare=True),
    ]
    q = part["q"] if system.space.flat and system.nq == system.nv else None
    measured = measures(point.mass, C, levels, system.nlam, q, part["v"])
    if measured is not None:
        out.append(Request("measures", row, data, measured, env, rare=True))
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
