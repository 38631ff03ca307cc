"""The tools on the models: each one in the best form and with the best settings that were found.

``prepare(model, tol)`` does what a user would do once (compile, build the solver) and returns a function that only
integrates. A run that does not reach the end raises `ToolFailed` with the tool's own message.

What was tried: IDA runs on Andrews' mechanism only with multipliers out of the error test (an absolute tolerance of
1e6 on them; scikit-sundae has no IDASetSuppressAlg), or in the form where they are derivatives of unknowns. IDAS
through CasADi has one absolute tolerance for all; multipliers in very large units do the same. Without, it fails on
Andrews' mechanism and at tight tolerances; on other problems it is better off without, so that both are run. CVODES
with Adams formulas and functional iteration needs half the time of BDF with Newton on nonstiff problems; stiff ones get
both. CasADi compiles its functions with gcc where there is one (on Andrews' mechanism 1.8 times faster than its virtual
machine). heyoka's compact mode halves the time of its compilation and does not slow down its steps.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np

import dalembert as da

from . import exudyn_alpha
from .heyoka_expressions import equations
from .models import Implicit, Model

End = tuple[np.ndarray, np.ndarray, Callable[[], float] | None]
#: positions and velocities at the end, and what to ask for the seconds of the integration alone if the tool tells
Runner = Callable[[], End]
MAX_STEPS = 200_000  # an ODE that has drifted too far may take any number


def jit(model: Model) -> dict[str, Any]:
    """Options of CasADi: gcc takes minutes to optimise the functions of large models fully."""
    flags = ["-O1" if model.large else "-O3"]
    return {"jit": True, "compiler": "shell", "jit_options": {"flags": flags}} if shutil.which("gcc") else {}


LOOSE = 1e6  # absolute tolerance of multipliers that are to stay out of the error test


class ToolFailed(RuntimeError):
    """The tool stopped before the end; the text is its own message."""


@dataclass(frozen=True, eq=False)
class Tool:
    """One tool in one setting. ``keeps``: it keeps the constraints and returns multipliers."""

    name: str
    package: str
    form: str
    keeps: bool
    prepare: Callable[[Model, float], Runner]
    tolerances: tuple[float, ...] = tuple(10.0**-k for k in range(13))
    suits: Callable[[Model], bool] = lambda model: True
    ours: bool = False
    warm: bool = False  # prepared so that the first run does not compile anything
    rebuilds: bool = False  # a run builds the model anew: only its integration is timed

    def available(self) -> bool:
        return importlib.util.find_spec(self.package) is not None

    def version(self) -> str:
        names = importlib.metadata.packages_distributions().get(self.package, [self.package])
        return f"{names[0]} {importlib.metadata.version(names[0])}"


# ---------------------------------------------------------------------- dalembert
def ours(method: Any, formulation: str | None = None) -> Callable[[Model, float], Runner]:
    def prepare(model: Model, tol: float) -> Runner:
        integrate = da.prepare(
            model.system, (0.0, model.t_end), method=method, formulation=formulation, rtol=tol, atol=tol,
            t_eval=[model.t_end], max_steps=MAX_STEPS,
        )  # fmt: skip

        further = {} if model.s0 is None else {"s0": model.s0}

        def run() -> End:
            sol = integrate(model.q0, model.v0, **further)
            if not sol.success:
                raise ToolFailed(sol.message)
            return sol.q[-1], sol.v[-1], lambda: sol.stats.wall_time  # statistics are no part of the call

        return run

    return prepare


# ---------------------------------------------------------------------- codes for DAEs
_implicit: dict[tuple[str, bool], Implicit] = {}


def _form(model: Model, integrated: bool) -> Implicit:
    key = (model.name, integrated)
    if key not in _implicit:
        _implicit[key] = model.implicit(integrated)
    return _implicit[key]


def _split(model: Model, y: np.ndarray) -> End:
    nq, nv = model.system.nq, model.system.nv
    return y[:nq], y[nq : nq + nv], None


def sundae_ida(integrated: bool) -> Callable[[Model, float], Runner]:
    def prepare(model: Model, tol: float) -> Runner:
        from sksundae.ida import IDA

        form = _form(model, integrated)
        contacts = list(range(model.y0.size, form.states))
        options: dict[str, Any] = {"atol": tol, "max_order": 4, "algebraic_idx": contacts or None}
        if not integrated:
            atol = np.concatenate([np.full(form.states, tol), np.full(form.multipliers, LOOSE)])
            indices = list(range(model.y0.size, form.states + form.multipliers))
            options = {"atol": atol, "algebraic_idx": indices, "max_order": 5}
        solver = IDA(form.residual, jacfn=form.matrix, rtol=tol, max_num_steps=MAX_STEPS, **options)

        def run() -> End:
            solver.init_step(0.0, form.y0, form.yp0)
            end = solver.step(model.t_end)
            if not end.success:
                raise ToolFailed(f"{end.message} (t = {float(end.t):.4g})")
            return _split(model, end.y)

        return run

    return prepare


def casadi_idas(scaled: bool) -> Callable[[Model, float], Runner]:
    def prepare(model: Model, tol: float) -> Runner:
        s, x = model.system, model.system.symbols
        rate, motion, constraints, mu = model.ggl
        mass = model._numeric(s.mass)
        v_dot = -motion / ca.diag(mass) if mass.sparsity().is_diag() else -ca.solve(mass, ca.densify(motion))
        z = ca.SX.sym("z", s.ns + 2 * s.nlam)  # in these units; those of multipliers are large
        units = np.ones(s.ns + 2 * s.nlam)
        units[s.ns :] = LOOSE / tol if scaled else 1.0

        def of_z(expr: ca.SX) -> ca.SX:
            return ca.substitute(expr, ca.vertcat(x.s, x.lam, mu), units * z)

        dae = {"t": x.t, "x": model.y, "z": z, "ode": of_z(ca.vertcat(rate, v_dot)), "alg": of_z(constraints)}
        options = {"reltol": tol, "abstol": tol, "suppress_algebraic": True, "newton_scheme": "direct",
                   "linear_solver": "qr", "max_num_steps": MAX_STEPS, "show_eval_warnings": False,
                   "calc_ic": scaled, **jit(model)}  # fmt: skip
        integrator = ca.integrator("peer", "idas", dae, 0.0, model.t_end, options)
        start = {"x0": ca.DM(model.y0), "z0": ca.DM(model.algebraic0 / units)}
        return _casadi_runner(model, integrator, start)

    return prepare


ADAMS = {"linear_multistep_method": "adams", "nonlinear_solver_iteration": "functional", "max_multistep_order": 12}
NEWTON = {"linear_multistep_method": "bdf", "newton_scheme": "direct", "linear_solver": "qr"}


def casadi_cvodes(formulas: dict[str, Any]) -> Callable[[Model, float], Runner]:
    def prepare(model: Model, tol: float) -> Runner:
        dae = {"t": model.t, "x": model.y, "ode": model.ode}
        options = {"reltol": tol, "abstol": tol, "max_num_steps": MAX_STEPS, "show_eval_warnings": False,
                   **formulas, **jit(model)}  # fmt: skip
        integrator = ca.integrator("peer", "cvodes", dae, 0.0, model.t_end, options)
        return _casadi_runner(model, integrator, {"x0": ca.DM(model.y0)})

    return prepare


def _casadi_runner(model: Model, integrator: Any, start: dict[str, Any]) -> Runner:
    def run() -> End:
        try:
            end = integrator(**start)
        except RuntimeError as error:
            raise ToolFailed(str(error).strip().splitlines()[-1]) from error
        return _split(model, np.asarray(end["xf"], dtype=float).ravel())

    return run


def scipy_dae(**options: Any) -> Callable[[Model, float], Runner]:
    def prepare(model: Model, tol: float) -> Runner:
        from scipy_dae.integrate import solve_dae

        form = _form(model, True)
        residual, jacobians = form.functions
        residual(0.0, form.y0, form.yp0), jacobians(0.0, form.y0, form.yp0)  # compiles

        def run() -> End:
            sol = solve_dae(
                residual, (0.0, model.t_end), form.y0, form.yp0, rtol=tol, atol=tol, jac=jacobians, **options
            )
            if not sol.success:
                raise ToolFailed(f"{sol.message} (t = {sol.t[-1]:.4g})")
            return _split(model, sol.y[:, -1])

        return run

    return prepare


def exudyn(model: Model, tol: float) -> Runner:
    """Fixed steps: ``tol`` stands for t_end / number of steps."""
    steps = round(1.0 / tol)
    top = da.problems()["heavy-top"]
    builders = {
        "chain-10": lambda: exudyn_alpha.chain(10),
        "heavy-top": lambda: exudyn_alpha.heavy_top(
            15.0, np.diag([0.234375, 0.46875, 0.234375]), np.array([0.0, 1.0, 0.0]), np.asarray(top.v0)[3:]
        ),
    }

    def run() -> End:
        seconds, q, v = exudyn_alpha.run_with_velocities(builders[model.name](), model.t_end, steps)
        if model.name == "heavy-top":
            return *exudyn_alpha.top_state(q, v), lambda: seconds
        return q + model.q0, v, lambda: seconds  # displacements from the reference configuration

    return run


# ---------------------------------------------------------------------- codes for ODEs
def heyoka(model: Model, tol: float) -> Runner:
    import heyoka as hy

    solver = hy.taylor_adaptive(equations(model.t, model.y, model.ode), model.y0, tol=tol, compact_mode=True)

    def run() -> End:
        solver.time = 0.0
        solver.state[:] = model.y0
        outcome = solver.propagate_until(model.t_end)[0]
        if outcome != hy.taylor_outcome.time_limit:
            raise ToolFailed(str(outcome))
        return _split(model, solver.state.copy())

    return run


def numbalsoda(which: str) -> Callable[[Model, float], Runner]:
    def prepare(model: Model, tol: float) -> Runner:
        import numbalsoda as nl
        from numba import carray, cfunc

        f, n = model.ode_kernel._native, model.y0.size

        @cfunc(nl.lsoda_sig)  # type: ignore[misc]
        def rhs(t, u, du, p):  # type: ignore[no-untyped-def]
            y, out = carray(u, n), carray(du, n)
            a = np.empty(n + 1)
            a[0], a[1:] = t, y
            r = np.empty(n)
            f(a.ctypes.data, a.ctypes.data, r.ctypes.data)
            out[:] = r

        integrate = getattr(nl, which)
        times = np.array([0.0, model.t_end])
        extra = {"mxstep": MAX_STEPS}

        def run() -> End:
            y, success = integrate(rhs.address, model.y0, times, rtol=tol, atol=tol, **extra)
            if not success:
                raise ToolFailed(f"numbalsoda {which} did not reach the end")
            return _split(model, y[-1])

        run.keep = rhs  # type: ignore[attr-defined]
        return run

    return prepare


INDEX2 = "stabilized index 2"
COARSE = tuple(10.0**-k for k in (0, 1, 2, 3, 5, 7, 9, 11))
HALVED = tuple(10.0 ** (-k / 2) for k in range(6, 13))
SMALL = lambda model: not model.large  # noqa: E731
EXPLICIT = lambda model: model.explicit  # noqa: E731
WRITTEN_OUT = lambda model: model.explicit and not model.large  # noqa: E731  (minutes to compile at every tolerance)
STIFF = lambda model: model.stiff and model.explicit  # noqa: E731
TOOLS = [
    Tool("dalembert Iterated", "dalembert", "constraints projected", True, ours(da.Iterated()), suits=EXPLICIT,
         ours=True),
    Tool("dalembert Iterated(4)", "dalembert", "constraints projected", True, ours(da.Iterated(4)),
         tuple(10.0**-k for k in range(10)), suits=EXPLICIT, ours=True),
    Tool("dalembert Explicit(8)", "dalembert", "constraints projected", True, ours(da.Explicit(8)),
         suits=lambda model: model.explicit and not model.large, ours=True),
    Tool("dalembert Explicit(5)", "dalembert", "constraints projected", True, ours(da.Explicit(5)),
         tuple(10.0**-k for k in range(9)), suits=lambda model: model.explicit and not model.large, ours=True),
    Tool("dalembert BDF", "dalembert", "constraints projected", True, ours(da.BDF()), ours=True),
    Tool("dalembert Radau(3)", "dalembert", "index 2", True, ours(da.Radau(stages=3), "index-2"), suits=SMALL,
         ours=True),
    Tool("dalembert Radau(3), index 1", "dalembert", "constraints projected", True,
         ours(da.Radau(stages=3), "index-1"), suits=lambda model: not model.explicit, ours=True),
    Tool("dalembert Radau(8)", "dalembert", "constraints projected", True, ours(da.Iterated(newton=True)),
         suits=lambda model: model.stiff or not model.explicit, ours=True),
    Tool("dalembert Gauss(4)", "dalembert", "constraints projected", True, ours(da.Gauss(stages=4)),
         suits=lambda model: model.system.nv + model.system.nlam <= 6, ours=True),
    Tool("IDA", "sksundae", INDEX2, True, sundae_ida(False), suits=SMALL),
    Tool("IDA, tuned", "sksundae", f"{INDEX2}, integrated multipliers", True, sundae_ida(True), suits=SMALL),
    Tool("IDAS (CasADi)", "casadi", INDEX2, True, casadi_idas(False)),
    Tool("IDAS (CasADi), scaled", "casadi", f"{INDEX2}, multipliers in units of 1e6/tol", True, casadi_idas(True)),
    Tool("scipy_dae Radau(5)", "scipy_dae", f"{INDEX2}, integrated multipliers", True,
         scipy_dae(method="Radau", stages=5), COARSE, suits=SMALL),  # derives its coefficients at first
    Tool("scipy_dae BDF", "scipy_dae", f"{INDEX2}, integrated multipliers", True, scipy_dae(method="BDF"), COARSE,
         suits=SMALL, warm=True),
    Tool("Exudyn", "exudyn", "index 3, generalized-alpha", True, exudyn, HALVED,
         lambda model: model.name in ("chain-10", "heavy-top"), warm=True, rebuilds=True),
    Tool("CVODES (CasADi)", "casadi", "ODE, drifting", False, casadi_cvodes(ADAMS), COARSE, suits=WRITTEN_OUT),
    Tool("CVODES (CasADi), BDF", "casadi", "ODE, drifting", False, casadi_cvodes(NEWTON), COARSE, suits=STIFF),
    Tool("heyoka", "heyoka", "ODE, drifting", False, heyoka, tuple(10.0**-k for k in (2, 4, 6, 8, 10, 12)),
         suits=WRITTEN_OUT),
    Tool("numbalsoda dop853", "numbalsoda", "ODE, drifting", False, numbalsoda("dop853"), suits=EXPLICIT),
    Tool("numbalsoda lsoda", "numbalsoda", "ODE, drifting", False, numbalsoda("lsoda"), suits=EXPLICIT),
]  # fmt: skip
