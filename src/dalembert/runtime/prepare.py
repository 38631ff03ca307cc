"""What one integration needs before its first step: compiled systems, a complete start, a first step size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from dalembert.formulations.base import At, Formulation
from dalembert.formulations.index1 import Index1
from dalembert.integrators.base import Integrator
from dalembert.integrators.bdf import BDF
from dalembert.integrators.explicit import Explicit
from dalembert.integrators.iterated import LARGEST_NEWTON, newton_unknowns
from dalembert.model.system import System
from dalembert.numerics import compiled
from dalembert.numerics.multipliers import implicit_accelerations, multiplier_stage
from dalembert.numerics.projection import LEVELS, Projection
from dalembert.numerics.screen import DOUBTS
from dalembert.numerics.stage import StageData
from dalembert.runtime import arguments
from dalembert.runtime.assemble import assemble, make_layout, planned_stage
from dalembert.runtime.assembly import Assembly, Workspace
from dalembert.runtime.consistency import nearest
from dalembert.runtime.run import Options, Starter, translate
from dalembert.runtime.start import (
    check_model,
    evaluate,
    not_finite,
    point_values,
    put_on_space,
    refuse_violations,
    solve_contact,
    violations,
)
from dalembert.runtime.wishes import Wishes
from dalembert.status import ModelError, OptionError

Initial = Literal["check", "project", "assume"]
# unknowns of the equations for accelerations: their elimination is written out for every stage, or once if stages are
# iterated
LARGEST_EXPLICIT, LARGEST_ITERATED = 120, 1000
# Steps of starters of automatic runs: where nothing is stiff, the first points need 3 to 6 explicit ones, or 60 of BDF
EXPLICIT_STEPS, BDF_STEPS = (8, 24), (150,)


def as_projection(
    given: str | Projection | None, system: System, formulation: Formulation, method: Integrator
) -> Projection | None:
    """The projection meant by the argument ``projection`` of `solve`."""
    if given is None or isinstance(given, Projection):
        method.check_projection(formulation, given)
        return given
    if given == "default":
        own = method.own_projection(system, formulation)
        if own is not None:
            return own
        # On a regular grid velocities are of one order more than those of the step equations, and not quite on the
        # constraints. Differences along M^-1 G^T are those of rounding errors, and of nothing that stays; those along
        # M^-1 K^T are errors of positions, too, which nothing puts back.
        counts = system.nmu > 0 or system.nv + system.nlam > LARGEST_EXPLICIT or bool(system.calls)
        options: dict[str, Any] = {"error": "projected", "weight": "mass"} if method.regular and not counts else {}
        if method.regular and formulation.satisfies & set(LEVELS):
            # moving positions onto invariants would disturb differences that no equation of the velocities smooths
            return Projection(levels=("velocity",), invariants="velocity" in formulation.satisfies, **options)
        kept = method.satisfies(formulation)
        if method.projects(formulation) and not kept >= set(LEVELS):
            # the numbers of a rotation and of a translation have no common measure but the mass: by others steps that
            # follow both well lose a digit or more
            if not system.space.flat:
                options["weight"] = "mass"
            return Projection(**(options | formulation.projection_options))
        if system.space.flat:
            return None
        # what the steps keep themselves; points between them have to be put back onto the group
        levels = tuple(x for x in LEVELS if x in kept)
        return Projection(levels=levels, invariants=False, steps=not method.keeps_constraints)
    raise OptionError(f"projection={given!r}: give 'default', None or da.Projection(...).")


def check_pair(system: System, method: Integrator, formulation: Formulation) -> None:
    """Refuse combinations that make no sense; asked once."""
    known: set[Any] = system.__dict__.setdefault("_checked", set())
    key = method, formulation
    if key not in known:
        method.check(system, formulation)
        known.add(key)


def assembly_for(
    system: System,
    method: Integrator,
    formulation: Formulation,
    projection: Projection | None,
    t0: float,
    t1: float,
    row: np.ndarray,
    p: np.ndarray,
) -> Assembly:
    """Compiled once per combination and kept with the system."""
    known = known_assembly(system, method, formulation, projection)
    if known is None:
        start = {"t": t0, "row": row, "h": 1e-3 * (t1 - t0), "p": p}
        known = assemble(system, method, formulation, projection, start)
        system.__dict__["_assemblies"][method.equations_key, formulation, projection] = known
    return known


def known_assembly(
    system: System, method: Integrator, formulation: Formulation, projection: Projection | None
) -> Assembly | None:
    """The assembly for a combination, if it has been compiled."""
    cache: dict[Any, Assembly] = system.__dict__.setdefault("_assemblies", {})
    return cache.get((method.equations_key, formulation, projection))


def starts_better(method: Integrator, formulation: Formulation, options: Options) -> bool:
    """True if another method is to make the first points: for methods on a regular grid, and for fixed steps.

    The multipliers of index-2 and index-3 forms are differences of rounded values divided by h or h^2, and the tiny
    first steps of a variable-step start leave little of them.
    """
    if options.steps is None:
        return method.regular
    return not method.ramps and not (method.self_starting and formulation.projects)


def make_starter(work: Workspace, formulation: Formulation, options: Options, row: np.ndarray) -> Starter:
    """A method on the index-1 form, projected, that starts itself and whose rows satisfy all constraints.

    For automatic steps an explicit one of order 8, whose steps are about as long as those that follow, where it can be
    used and the system is not stiff; else BDF.
    """
    system, p = work.assembly.system, work.p

    def bdf_row() -> np.ndarray:
        return translate(row[None], work.assembly.layout, make_layout(system, BDF(), Index1()))[0]

    def bdf() -> Starter:
        return _starter(work, formulation, options, row, BDF().as_starter(), BDF_STEPS)

    large = system.nv + system.nlam + system.nmu > LARGEST_EXPLICIT
    if options.steps is not None or system.nr or large or not_explicit(system, options.t0, bdf_row, p):
        return bdf()
    return replace(_starter(work, formulation, options, row, Explicit(8).as_starter(), EXPLICIT_STEPS), otherwise=bdf)


def not_explicit(system: System, t: float, row: Callable[[], np.ndarray], p: np.ndarray) -> str:
    """Why the accelerations cannot be computed stage by stage; empty if they can. ``row`` makes one of BDF, index 1."""
    cache: dict[str, str] = system.__dict__.setdefault("_not_explicit", {})
    if "why" not in cache:
        cache["why"] = _not_explicit(system, t, row(), p)
    return cache["why"]


def _not_explicit(system: System, t: float, row: np.ndarray, p: np.ndarray) -> str:
    if system.calls:
        return "black boxes"
    if implicit_accelerations(system):
        return "friction, auxiliary variables or contact coordinates make the accelerations implicit"
    n = system.nv + system.nlam + system.nmu + system.nw + system.ns
    if n > LARGEST_ITERATED:
        return f"a large system ({n} accelerations and multipliers)"
    return "" if not n or _pivots_serve(system, t, row, p) else "no order of pivots serves near the initial values"


def newton_in_lanes(system: System, t: float, row: Callable[[], np.ndarray], p: np.ndarray) -> bool:
    """True if stages of a system whose accelerations are implicit can be iterated all at once. ``row`` as above."""
    cache: dict[str, bool] = system.__dict__.setdefault("_not_explicit", {})
    if "newton" not in cache:
        fit = bool(system.nq) and system.space.flat and not system.calls
        fit = fit and newton_unknowns(system) <= LARGEST_NEWTON
        cache["newton"] = fit and _pivots_serve(system, t, row(), p)
    return cache["newton"]


def _pivots_serve(system: System, t: float, row: np.ndarray, p: np.ndarray) -> bool:
    """True if there is an order of pivots for accelerations and multipliers near a row of BDF, index 1."""
    stage = multiplier_stage(StageData.make(system, make_layout(system, BDF(), Index1())))
    return planned_stage(stage, t, row, p).system.plan is not None


def _starter(
    work: Workspace, formulation: Formulation, options: Options, row: np.ndarray, first: Integrator,
    steps: tuple[int, ...],
) -> Starter:  # fmt: skip
    system, p, form = work.assembly.system, work.p, Index1()
    own = make_layout(system, first, form)
    begin = translate(row[None], work.assembly.layout, own)[0]
    its = assembly_for(system, first, form, Projection(), options.t0, options.t1, begin, p).workspace(p)
    if system.nphi:
        its.set_invariants(its.levels(options.t0, begin)["phi"])

    def finish(t: float, row: np.ndarray) -> None:
        start_formulation(work, formulation, t, row)

    return Starter(its, first, form, finish, steps)


def prepare_start(
    work: Workspace, t: float, row: np.ndarray, initial: Initial, tolerance: float, wishes: Wishes | None = None
) -> None:
    """Check or repair an initial row and complete it, in place."""
    system, layout = work.assembly.system, work.assembly.layout
    if initial == "project" or system.ns:  # else a look at it is a part of `settle`
        put_on_space(system, layout, row, initial, tolerance)
    solve_contact(system, t, row, layout, work.p)
    if initial == "project":  # a guess may be singular, what is made of it must not
        nearest(system, layout, work.p, t, row, wishes)
    code = work.settle(t, row, tolerance if initial == "check" else -1.0)
    if code in DOUBTS:
        put_on_space(system, layout, row, initial, tolerance)
        check_model(work, t, row)
        if initial == "check":
            refuse_violations(violations(work, t, row, tolerance))
            work.project(t, row)  # from within the tolerance to rounding level
        code = work.complete(t, row)
    error = work.assembly.take_error()
    if error is not None:
        raise error
    if code != 0:
        where = not_finite(system, layout, t, row, work.p)
        reason = where or f"the equations for accelerations and multipliers have no unique solution at t = {t:g}"
        raise ModelError(f"{reason}, the initial values; check them and the model.")
    if system.nphi:
        work.set_invariants(work.levels(t, row)["phi"])


def start_formulation(work: Workspace, formulation: Formulation, t: float, row: np.ndarray) -> None:
    """Initial values of the unknowns that a formulation adds, in place; refuses what cannot work at the start."""
    system, layout = work.assembly.system, work.assembly.layout
    for name, x in formulation.start(system, values_at(work, t, row)).items():
        if layout.has(name):  # the first- and second-order forms of a formulation need not add the same
            row[layout.slice(name)] = x


def start_method(work: Workspace, method: Integrator, formulation: Formulation, t: float, row: np.ndarray) -> None:
    """Initial values of what a method carries along, in place."""
    for name, x in method.start_carried(work.assembly.system, formulation, values_at(work, t, row)).items():
        row[work.assembly.layout.slice(name)] = x


def values_at(work: Workspace, t: float, row: np.ndarray) -> At:
    """Variables and expressions of the model at a row, by name."""
    system = work.assembly.system

    def at(name: str) -> np.ndarray:
        values = point_values(system, work.assembly.layout, t, row, work.p)
        return np.asarray(values[name] if name in values else evaluate(system, name, values))

    return at


def first_step(given: float | None, work: Workspace, method: Integrator, row: np.ndarray, options: Options) -> float:
    """First step, signed: the one given, or one that the second derivatives suggest."""
    span = options.t1 - options.t0
    if given is not None:
        return float(np.sign(span) * min(arguments.positive("first_step", given), abs(span)))
    out = compiled.first_step()(
        work.block, options.t0, span, options.max_step, method.start_order, row, options.rtol, options.atol,
        work.assembly.multiplier_tolerance,
    )  # fmt: skip
    work.assembly.take_error()  # of a trial that led nowhere
    return out
