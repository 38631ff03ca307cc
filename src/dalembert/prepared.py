"""A run that is set up once and made as often as one likes: what `prepare` returns, and what `solve` is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, cast

import numpy as np

from dalembert.certificate import Context
from dalembert.formulations.base import Formulation, as_formulation
from dalembert.formulations.index1 import Index1
from dalembert.initial import redundancy
from dalembert.integrators.base import Integrator, as_method
from dalembert.integrators.bdf import BDF
from dalembert.integrators.radau import Radau
from dalembert.joined import make_solution, solution_of
from dalembert.model.released import chosen, with_released
from dalembert.model.system import System
from dalembert.numerics.compiled import integrate
from dalembert.numerics.projection import Projection
from dalembert.runtime import arguments
from dalembert.runtime.automatic import Automatic
from dalembert.runtime.direct import Direct, direct
from dalembert.runtime.event import as_events
from dalembert.runtime.jumps import Jumps
from dalembert.runtime.plan import Plan
from dalembert.runtime.prepare import as_projection, check_pair
from dalembert.runtime.progress import progress_bar
from dalembert.runtime.redundancy import refusal
from dalembert.runtime.restore import restore
from dalembert.runtime.segments import Follow, Segment, Start, in_turn, run_segments
from dalembert.solution import Drift, Solution
from dalembert.status import OptionError, RedundantError

FIXED_AGAIN, SMALLEST_AGAIN = (1e-7, 1e-9), 1e-12  # tolerances of second runs, see `_again`


class Prepared:
    """Runs of a system that differ in their initial values and parameters only; `dalembert.prepare` makes it.

    Call it with initial values: ``run(q0, v0, parameters=...)``. What is asked for is what `dalembert.solve` would
    return, number by number. From the second call on everything is compiled and checked, and as much as possible is one
    call of compiled code. Several threads may call it at once, unless the model has functions that Python evaluates.

    Attributes
    ----------
    system : System
    t_span : tuple of float
    options : dict
        The options that it was made with, by the names that `dalembert.solve` has for them.
    """

    def __init__(self, system: System, t_span: Sequence[float], options: dict[str, Any]) -> None:
        arguments.check_common(system, options["initial"])
        self.system, self.options = system, options
        self.t_span = t0, t1 = arguments.times(t_span)
        method, formulation, h = options["method"], options["formulation"], options["h"]
        arguments.check_choice("method", method, Integrator, "da.BDF()")
        if formulation is not None:
            arguments.check_choice("formulation", formulation, Formulation, "da.Index1()")
        projection = options["projection"]
        if not (projection is None or isinstance(projection, (str, Projection))):
            raise OptionError(f"projection={projection!r}: give 'default', None or da.Projection(...).")
        n = system.nq + system.nv + system.nr
        rtol = arguments.tolerance("rtol", options["rtol"], n)
        atol = arguments.tolerance("atol", options["atol"], n)
        self._p = system.parameters.vector(options["parameters"])
        arguments.check_redundant(options["redundant"])
        self._loosest = max(rtol.tolist() + atol.tolist())
        self._method: tuple[Integrator, Formulation, Projection | None] | None = None  # chosen by hand
        if not (isinstance(method, str) and method == "auto"):
            by_hand = as_method(method)
            self._method = self._fitting(by_hand, as_formulation(formulation, by_hand.default_formulation))
        first_step, released = options["first_step"], options["released"]
        self._first_step = first_step if first_step is None else arguments.positive("first_step", first_step)
        self._plan = Plan(
            t0=t0,
            t1=t1,
            rtol=rtol,
            atol=atol,
            max_step=arguments.positive("max_step", options["max_step"]),
            max_steps=arguments.max_steps(options["max_steps"]),
            h=copy(h),
            t_eval=arguments.t_eval(options["t_eval"], t0, t1),
            events=as_events(options["events"]),
            discontinuities=arguments.discontinuities(options["discontinuities"], t0, t1),
        )
        self._begins_with = with_released(system, chosen(system, released) if len(released) else ())
        self._direct: Direct | None = None

    def __call__(
        self,
        q0: Any = None,
        v0: Any = None,
        *,
        parameters: Mapping[str, Any] | None = None,
        r0: Any = None,
        w0: Any = None,
        s0: Any = None,
    ) -> Solution:
        """The run from these initial values.

        Parameters
        ----------
        q0, v0, r0, w0, s0
            As for `dalembert.solve`.
        parameters
            Values that differ from those that it was prepared with.
        """
        system, plan, p = self.system, self._plan, self._p
        if parameters is not None:
            p = system.parameters.vector({**system.parameters.as_dict(p), **parameters})
        given = q0, v0, r0, w0, s0
        if self._method is not None and self._direct is not None:
            ran = self._direct.run(given, p)
            if ran is not None:
                return solution_of(ran, plan, self._context)
        values = system.initial_values(*given)
        automatic, reason, chosen_now = None, "start", self._method
        if chosen_now is None:
            projection, fixed = self.options["projection"], plan.h is not None
            automatic = Automatic(
                system, self.options["formulation"], projection, min(plan.rtol.tolist()), fixed, self._loosest
            )
            choice = automatic.first(plan.t0, values, p)
            chosen_now, reason = self._fitting(choice.method, choice.formulation), choice.reason
        method, formulation, the_projection = chosen_now
        watch: dict[str, Any] = {} if automatic is None else automatic.watch(method, formulation)
        start = Start(
            self._begins_with, method, formulation, the_projection, p, plan.t0, values, self.options["initial"],
            self._first_step, reason=reason, **watch,
        )  # fmt: skip
        known = self._in_one_call(start)
        ran = None if known is None else known.run(given, p, start)
        if ran is not None and ran.over:
            return solution_of(ran, plan, self._context, start)
        try:
            return self._by_segments(start if ran is None else ran.segment(start), automatic)
        except RedundantError:  # before the first step
            return self._without_surplus(p, q0, v0, {"r": r0, "w": w0, "s": s0})

    def __repr__(self) -> str:
        t0, t1 = self.t_span
        return f"Prepared({self.system.name}, t = {t0:g} .. {t1:g}, method={self.options['method']!r})"

    def _fitting(self, method: Integrator, formulation: Formulation) -> tuple[Integrator, Formulation, Any]:
        """The method for this kind of steps, refused if it does not suit, the formulation and the projection.

        Found out once: later runs get the same objects, which are quicker to find than equal ones.
        """
        system, projection, h = self.system, self.options["projection"], self.options["h"]
        if h is None and not system.space.flat:
            method = method.for_space(system.space, formulation, self._loosest)
        known: dict[Any, tuple[Integrator, Formulation, Projection | None]] = system.__dict__.setdefault("_choices", {})
        key = method, formulation, projection, h is not None, h is not None and np.ndim(h) > 0
        if key not in known:
            the_method = method.for_run(*key[3:])
            check_pair(system, the_method, formulation)
            known[key] = the_method, formulation, as_projection(projection, system, formulation, the_method)
        return known[key]

    def _in_one_call(self, start: Start) -> Direct | None:
        """How to make runs that start like this one in one call, once everything is compiled."""
        if self.options["progress"]:
            return None
        last = self._direct
        if last is None or (last.start.method, last.start.formulation) != (start.method, start.formulation):
            self._direct = direct(start, self._plan)
        return self._direct

    def _by_segments(self, start: Start | Segment, automatic: Automatic | None) -> Solution:
        """The run with Python's help, or the rest of it behind the first segment."""
        plan, jumps = self._plan, Jumps(self._plan)
        follow: Follow = jumps.follow if automatic is None else in_turn(jumps.follow, automatic.follow)
        integrate()  # compiled once per machine: not part of the run's time
        with progress_bar(self.options["progress"], plan.t0, plan.t1, self.system.name) as tick:
            story = run_segments(start, plan, follow, tick, jumps.begin)
        return make_solution(story, plan, jumps, self._context)

    def _without_surplus(self, p: np.ndarray, q0: Any, v0: Any, more: dict[str, Any]) -> Solution:
        """The run without constraints that follow from others, and then with their share of the reactions."""
        system, options = self.system, self.options
        found = redundancy(system, self.t_span, q0, v0, more, p, options["initial"], float(self._plan.atol.max()))
        if found is None or options["released"]:
            raise
        if options["redundant"] == "refuse":
            raise RedundantError(refusal(found[0])) from None
        reduced = Prepared(found[0].reduced, self.t_span, {**options, "parameters": system.parameters.as_dict(p)})
        sol = reduced(*found[1], **{f"{name}0": x for name, x in more.items()})
        out = cast(Solution, restore(found[0], sol, p, Drift))
        if sol.context is not None:
            out.context = replace(sol.context, system=system, redundancy=found[0])
        return out

    def _context(self, first: Segment) -> Context:
        """What a check of a run needs to know of it, and how to make it again."""
        plan, start = self._plan, first.start
        return Context(start.system, start.p, plan.rtol, plan.atol, plan.h is not None, self._again(first))

    def _again(self, first: Segment) -> Callable[[float], Solution]:
        """The same run by another family of methods, at a fraction of the tolerance (of FIXED_AGAIN for fixed steps).

        It does not hold the first solution, which holds it: a cycle would keep both until Python looks for such.
        """
        system, plan, options, one_step = self.system, self._plan, self.options, first.start.method.one_step
        begin = {name: first.part(name, first.row0) for name in ("q", "v", "r", "w", "s")}
        q0, v0 = (begin["q"], begin["v"]) if system.nq else (begin["v"], None)
        more: dict[str, Any] = {f"{name}0": begin[name] if begin[name].size else None for name in ("r", "w", "s")}
        parameters = system.parameters.as_dict(first.start.p)

        def again(t1: float) -> Solution:
            # errors add up more in BDF, which makes the second runs of one-step methods
            part = 1e-3 if one_step else 1e-2
            rtol, atol = (plan.rtol, plan.atol) if plan.h is None else FIXED_AGAIN
            tolerances = {
                "rtol": np.maximum(part * rtol, SMALLEST_AGAIN),
                "atol": np.maximum(part * atol, 1e-2 * SMALLEST_AGAIN),
            }
            other = {
                **options, **tolerances, "method": BDF() if one_step else Radau(stages=5), "formulation": Index1(),
                "projection": "default", "h": None, "t_eval": None, "events": None, "first_step": None,
                "max_step": np.inf, "max_steps": None, "parameters": parameters, "progress": False,
                "initial": "assume" if options["initial"] == "assume" else "project", "redundant": "resolve",
            }  # fmt: skip
            return Prepared(system, (plan.t0, t1), other)(q0, v0, **more)

        return again
