"""The problems of the collection in the forms that other tools take, compiled.

Everything is derived from the expressions of the same `dalembert.System`, and compiled by the same compiler, so that
tools differ by what they do with the equations and not by how fast these are evaluated:

    ODE   y = (q, v):            q' = rate(q, v),  v' = a(t, q, v), accelerations from M a + G^T lam = f, G a = gamma
    GGL   y = (q, v, s, lam, mu):   q' = rate(q, v - G^T mu),  M v' = f - G^T lam,  0 = g,  0 = g',  0 = h
          (Gear, Gupta, Leimkuhler 1985: stabilized index 2), and a variant whose multipliers are derivatives of
          unknowns, for codes that take F(t, y, y') = 0: lam = y', mu = y'

On R^3 x SO(3) q holds the rotation matrix, q' = rate(q, v) being R' = R skew(v).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import casadi as ca
import numpy as np
from numba import njit
from scipy.integrate import solve_ivp

import dalembert as da
from dalembert.compiler.build import compile_kernels
from dalembert.compiler.kernel import Kernel
from dalembert.compiler.spec import KernelSpec
from dalembert.numerics.lu import plan_elimination

LARGEST_DENSE = 100


@dataclass(frozen=True, eq=False)
class Model:
    """A problem: system and start for dalembert, compiled functions for the others."""

    name: str
    system: da.System
    q0: np.ndarray
    v0: np.ndarray
    t_end: float
    reference: Callable[[], dict[str, np.ndarray]] | None = None
    stiff: bool = False
    s0: np.ndarray | None = None  # contact coordinates

    @cached_property
    def explicit(self) -> bool:
        """Accelerations can be written as a function of t, q and v; else there is no form as an ODE."""
        return not self.system.ns and self.system.pushes_along_constraints

    @property
    def large(self) -> bool:
        """Too large for tools that know dense matrices only."""
        return self.system.nv > LARGEST_DENSE

    # ------------------------------------------------------------------ expressions
    @cached_property
    def start(self) -> Any:
        """Consistent, with multipliers and accelerations."""
        return da.consistent(self.system, self.q0, self.v0, s0=self.s0)

    @property
    def algebraic0(self) -> np.ndarray:
        """Values of s, lam, mu."""
        return np.concatenate([self.start.s, self.start.lam, np.zeros(self.system.nlam)])

    def _numeric(self, expr: ca.SX) -> ca.SX:
        """Parameters by their values, no accelerations."""
        x = self.system.symbols
        return ca.substitute(expr, x.p, ca.DM(self.system.parameters.vector(None)))

    @property
    def t(self) -> ca.SX:
        return self.system.symbols.t

    @cached_property
    def y(self) -> ca.SX:
        x = self.system.symbols
        return ca.vertcat(x.q, x.v)

    @property
    def y0(self) -> np.ndarray:
        return np.concatenate([self.q0, self.v0])

    @cached_property
    def ode(self) -> ca.SX:
        """Right side of the ODE; the linear system is written out with pivots chosen at the start."""
        s, x = self.system, self.system.symbols
        n, m = s.nv, s.nlam
        no_a = ca.SX.zeros(n, 1)
        K = self._numeric(ca.sparsify(ca.blockcat(s.mass, s.G.T, s.G, ca.SX(m, m))))
        b = self._numeric(ca.vertcat(s.force, -ca.substitute(s.g_ddot, x.a, no_a)))
        values = ca.Function("K", [x.t, x.q, x.v], [ca.densify(K)])
        rng = np.random.default_rng(1)
        samples = []
        for scale in (0.0, 0.02, 0.1):  # pivots that serve near the start and away from it
            move = s.space.move(ca.DM(self.q0), ca.DM(scale * rng.standard_normal(n)))
            samples.append(np.array(values(0.0, ca.DM(move), self.v0)))
        plan = plan_elimination(K.sparsity(), samples)
        a = plan.solve(plan.factor(ca.vertcat(*K.nonzeros())), b)[:n]
        return ca.vertcat(s.space.rate(x.q, x.v), a)

    @cached_property
    def ggl(self) -> tuple[ca.SX, ca.SX, ca.SX, ca.SX]:
        """(q', residual of motion without M v', constraints (g, g', h), mu) of the stabilized index-2 form."""
        s, x = self.system, self.system.symbols
        mu = ca.SX.sym("mu", s.nlam)
        G = self._numeric(s.G)
        rate = self._numeric(s.space.rate(x.q, x.v - G.T @ mu))
        motion = self._numeric(-s.force - s.reaction)
        return rate, motion, self._numeric(ca.vertcat(s.g, s.g_dot, s.h)), mu

    # ------------------------------------------------------------------ compiled functions
    @cached_property
    def ode_kernel(self) -> Kernel:
        return self._compile("ode", ca.vertcat(self.t, self.y), ca.SX(0, 1), self.ode)

    def implicit(self, integrated: bool) -> Implicit:
        """F(t, s, s') = 0 of the stabilized index-2 form, with its matrices."""
        s, x = self.system, self.system.symbols
        rate, motion, constraints, mu = self.ggl
        nq, nv, m = s.nq, s.nv, s.nlam
        sizes = {"qd": nq, "vd": nv, "sd": s.ns, "ld": m, "md": m}
        q_dot, v_dot, s_dot, l_dot, m_dot = (ca.SX.sym(k, n) for k, n in sizes.items())
        state, slope = ca.vertcat(x.q, x.v, x.s, x.lam, mu), ca.vertcat(q_dot, v_dot, s_dot, l_dot, m_dot)
        F = ca.vertcat(q_dot - rate, self._numeric(s.mass) @ v_dot + motion, constraints)
        y0, states = np.concatenate([self.q0, self.v0, self.algebraic0]), nq + nv + s.ns
        q_rate = np.array(ca.Function("r", [x.q, x.v], [s.space.rate(x.q, x.v)])(self.q0, self.v0)).ravel()
        yp0 = np.concatenate([q_rate, self.start.a, np.zeros(s.ns + 2 * m)])
        if integrated:
            other_l, other_m = ca.SX.sym("il", m), ca.SX.sym("im", m)
            F = ca.substitute(F, ca.vertcat(x.lam, mu), ca.vertcat(l_dot, m_dot))
            state = ca.vertcat(x.q, x.v, x.s, other_l, other_m)
            y0[states:], yp0[states : states + m] = 0.0, self.start.lam
        cj = ca.SX.sym("cj")
        F_s, F_sp = ca.jacobian(F, state), ca.jacobian(F, slope)
        a, b = ca.vertcat(self.t, state), ca.vertcat(slope, cj)
        kind = "integrated" if integrated else "plain"

        def rows(matrix: ca.SX) -> ca.SX:
            return ca.vec(ca.densify(matrix).T)

        outs = {"F": F, "J": rows(F_s + cj * F_sp), "both": ca.vertcat(rows(F_s), rows(F_sp))}
        kernels = {k: self._compile(f"{kind}-{k}", a, b, out) for k, out in outs.items()}
        return Implicit(kernels, y0, yp0, states, 2 * m)

    def _compile(self, name: str, a: ca.SX, b: ca.SX, out: ca.SX) -> Kernel:
        return compile_kernels([KernelSpec(name, a, b, ca.densify(out))])[name]

    # ------------------------------------------------------------------ accuracy
    @cached_property
    def exact(self) -> dict[str, np.ndarray]:
        """End values: the reference of the collection, else DOP853 of SciPy on the ODE at 1e-13."""
        if self.reference is not None:
            return self.reference()
        kernel, nq = self.ode_kernel, self.system.nq
        run = solve_ivp(
            lambda t, y: kernel(np.append(t, y)), (0.0, self.t_end), self.y0, method="DOP853", rtol=1e-13, atol=1e-14
        )
        return {"q": run.y[:nq, -1], "v": run.y[nq:, -1]}

    def error(self, q: np.ndarray, v: np.ndarray) -> float:
        """Largest error of a component at the end, relative to the largest of its kind (at least 1)."""
        pairs = ((q, self.exact["q"]), (v, self.exact["v"]))
        return max(float(np.abs(x - e).max()) / max(1.0, float(np.abs(e).max())) for x, e in pairs)


@dataclass(frozen=True, eq=False)
class Implicit:
    """Compiled F(t, y, y') with start values; the last ``multipliers`` unknowns are multipliers."""

    kernels: dict[str, Kernel]
    y0: np.ndarray
    yp0: np.ndarray
    states: int
    multipliers: int

    @cached_property
    def residual(self) -> Any:
        """resfn(t, y, yp, out) for IDA."""
        f = self.kernels["F"]._native

        @njit
        def resfn(t, y, yp, out):  # type: ignore[no-untyped-def]
            n = y.size
            a, b = np.empty(n + 1), np.empty(n + 1)
            a[0], a[1:], b[:n], b[n] = t, y, yp, 0.0
            r = np.empty(n)
            f(a.ctypes.data, b.ctypes.data, r.ctypes.data)
            out[:] = r

        return resfn

    @cached_property
    def matrix(self) -> Any:
        """jacfn(t, y, yp, residual, cj, out) for IDA: dF/dy + cj dF/dy'."""
        f = self.kernels["J"]._native

        @njit
        def jacfn(t, y, yp, res, cj, out):  # type: ignore[no-untyped-def]
            n = y.size
            a, b = np.empty(n + 1), np.empty(n + 1)
            a[0], a[1:], b[:n], b[n] = t, y, yp, cj
            r = np.empty((n, n))
            f(a.ctypes.data, b.ctypes.data, r.ctypes.data)
            out[:, :] = r

        return jacfn

    @cached_property
    def functions(self) -> tuple[Any, Any]:
        """F(t, y, y') and its two Jacobians, returned in new arrays, for scipy_dae."""
        f, g = self.kernels["F"]._native, self.kernels["both"]._native

        @njit
        def residual(t, y, yp):  # type: ignore[no-untyped-def]
            n = y.size
            a, b, r = np.empty(n + 1), np.empty(n + 1), np.empty(n)
            a[0], a[1:], b[:n], b[n] = t, y, yp, 0.0
            f(a.ctypes.data, b.ctypes.data, r.ctypes.data)
            return r

        @njit
        def jacobians(t, y, yp):  # type: ignore[no-untyped-def]
            n = y.size
            a, b, r = np.empty(n + 1), np.empty(n + 1), np.empty((2, n, n))
            a[0], a[1:], b[:n], b[n] = t, y, yp, 0.0
            g(a.ctypes.data, b.ctypes.data, r.ctypes.data)
            return r[0], r[1]

        return residual, jacobians


def _of_collection(name: str, t_end: float | None = None, stiff: bool = False) -> Model:
    problem = da.problems()[name]
    end = problem.t_span[1] if t_end is None else t_end
    reference = problem.reference
    assert reference is not None
    v0 = np.zeros(problem.system.nv) if problem.v0 is None else problem.v0
    return Model(
        name, problem.system, np.array(problem.q0), np.array(v0), end, lambda: dict(reference(end)), stiff,
        problem.options.get("s0"),
    )  # fmt: skip


def chain(links: int = 10, t_end: float = 2.0) -> Model:
    """Rods of length 1/links with point masses 1/links at their ends, horizontal and at rest at first."""
    length = 1.0 / links

    def rods(q: Any) -> list[Any]:
        x, y = q[0::2], q[1::2]
        first = [(x[0] ** 2 + y[0] ** 2 - length**2) / 2]
        return first + [((x[i] - x[i - 1]) ** 2 + (y[i] - y[i - 1]) ** 2 - length**2) / 2 for i in range(1, links)]

    system = da.System(
        q=2 * links,
        mass=np.full(2 * links, length),
        force=np.tile([0.0, -9.81 * length], links),
        constraints=rods,
        name=f"chain-{links}",
    )
    q0 = np.zeros(2 * links)
    q0[0::2] = length * np.arange(1, links + 1)
    return Model(f"chain-{links}", system, q0, np.zeros(2 * links), t_end)


MODELS: dict[str, Callable[[], Model]] = {
    "pendulum": lambda: _of_collection("pendulum", 20.0),  # ten periods
    "slider-crank": lambda: _of_collection("slider-crank"),
    "andrews": lambda: _of_collection("andrews"),
    "car-axis": lambda: _of_collection("car-axis"),
    "heavy-top": lambda: _of_collection("heavy-top"),
    "four-bar": lambda: _of_collection("four-bar"),
    "truck": lambda: _of_collection("truck", stiff=True),
    "slider-crank-flexible": lambda: _of_collection("slider-crank-flexible", stiff=True),
    "chain-10": chain,
    "wheelset": lambda: _of_collection("wheelset", stiff=True),
    "four-bar-40": lambda: _of_collection("four-bar-40"),
}
