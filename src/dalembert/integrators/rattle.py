"""RATTLE: the symmetric and symplectic method for constrained conservative systems, and its compositions.

[A83]   H. C. Andersen, RATTLE: a velocity version of the SHAKE algorithm, J. Comput. Phys. 52 (1983) 24-34.
[HLW06] E. Hairer, C. Lubich, G. Wanner, Geometric Numerical Integration, Springer 2006, VII.1.4 (any mass matrix),
        II.4, V.3.2 (compositions).
[Y90]   H. Yoshida, Construction of higher order symplectic integrators, Phys. Lett. A 150 (1990) 262-268.

With the momentum p = M v and the force F = f + (dM/dt) v, so that p' = F - G^T lam  [HLW06, VII.(1.26)]:

    p- = p_0 + h/2 (F(q_0, v_a) - G(q_0)^T lam),   v_a = M(q_0)^-1 p-,   v_b = M(q_1)^-1 p-
    q_1 = q_0 + h/2 (v_a + v_b),   0 = g(q_1)
    p_1 = p- + h/2 (F(q_1, v_b) - G(q_1)^T nu),    0 = g'(q_1, v_1)

Order 2. A step of order 4 or 6 is a symmetric composition of 3 or 7 such steps of sizes gamma_i h. On groups the
substep is that of `lie_rattle`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import casadi as ca
import numpy as np

from dalembert.formulations.base import Formulation, Unknown
from dalembert.integrators.base import Integrator, StepData, StepEquations, register
from dalembert.integrators.lie_rattle import PARTS as LIE_PARTS
from dalembert.integrators.lie_rattle import check_mass, lie_guess, lie_substep
from dalembert.integrators.stages import last_row_function
from dalembert.model.point import Environment, Point
from dalembert.model.system import System
from dalembert.numerics.layout import Layout
from dalembert.status import OptionError

_CUBE = 2 ** (1 / 3)
_A = np.array([0.784513610477560, 0.235573213359357, -1.17767998417887])  # [Y90], solution A
# sizes of the substeps; they sum to 1, and the sums of their 3rd (and 5th) powers vanish [HLW06, V.(3.4), (3.11)]
GAMMA = {
    2: np.array([1.0]),
    4: np.array([1.0, -_CUBE, 1.0]) / (2 - _CUBE),
    6: np.concatenate([_A, [1 - 2 * _A.sum()], _A[::-1]]),
}
PARTS = ("va", "vb", "q", "lam", "v", "nu")


def check_composition(gamma: np.ndarray, order: int) -> None:
    """Refuse sizes of substeps that do not have the order claimed, as far as sums of powers tell."""
    sums = {p: float(np.sum(gamma**p)) for p in range(1, order, 2)}
    if abs(sums.pop(1) - 1) > 1e-13 or any(abs(x) > 1e-12 for x in sums.values()):
        raise ValueError(f"the substeps {gamma} do not compose to order {order}")


for _order, _gamma in GAMMA.items():
    check_composition(_gamma, _order)


@register
@dataclass(frozen=True)
class Rattle(Integrator):
    """Constant steps for long runs of conservative systems: the energy error stays bounded.

    Parameters
    ----------
    order
        2, 4 or 6.
    """

    order: int = 2
    name: ClassVar[str] = "rattle"
    summary: ClassVar[str] = "symmetric, symplectic; orders 2, 4 and 6, constant steps, for conservative systems"
    default_formulation: ClassVar[str] = "index-3"
    takes: ClassVar[frozenset[str]] = frozenset({"index-3"})
    in_row: ClassVar[bool] = False
    one_step: ClassVar[bool] = True
    own_multipliers: ClassVar[bool] = False
    on_groups: ClassVar[bool] = True
    keeps_constraints: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.order not in GAMMA or isinstance(self.order, bool):
            raise OptionError(f"Rattle(order={self.order!r}): there are compositions of order 2, 4 and 6.")

    @property
    def equations_key(self) -> tuple[Any, ...]:
        return (type(self), self.order)

    @property
    def hermite_order(self) -> int:  # type: ignore[override]
        return self.order

    def order_range(self, fixed: bool) -> tuple[int, int]:
        return self.order, self.order

    def satisfies(self, formulation: Formulation) -> frozenset[str]:
        return frozenset({"position", "velocity"})

    def describe(self) -> str:
        return f"RATTLE (order {self.order})"

    def for_run(self, fixed: bool, changing: bool = False) -> Rattle:
        if not fixed:
            raise OptionError(
                "Rattle keeps the energy because its steps are constant: give the step size with h=. With error "
                "control use Explicit, BDF or Radau."
            )
        return self

    def check(self, system: System, formulation: Formulation) -> None:
        super().check(system, formulation)
        for size, what in ((system.nr, "dynamic states r"), (system.nw, "auxiliary variables w"),
                           (system.ns, "contact coordinates s"), (system.nmu, "velocity constraints")):  # fmt: skip
            if size:
                raise OptionError(f"Rattle is for conservative systems with constraints g(q) = 0; this one has {what}.")
        if not system.nq:
            raise OptionError("Rattle integrates second-order systems; this one is of first order. Use BDF.")
        if not system.space.flat:
            check_mass(system)

    def unknowns(self, system: System, formulation: Formulation) -> list[Unknown]:
        parts = _sizes(system).items()
        return [Unknown(f"{name}{i}", size, False) for i in range(len(GAMMA[self.order])) for name, size in parts]

    def carried(self, system: System, formulation: Formulation) -> list[Unknown]:
        return [u for u in formulation.unknowns(system) if u.name in ("q", "v", "r", "lam")]

    def weight_map(self, system: System, layout: Layout, formulation: Formulation) -> np.ndarray:
        index = {n: layout.indices((b,)) for n, b in
                 {"va": "v", "vb": "v", "q": "q", "v": "v", "lam": "lam", "nu": "lam"}.items()}  # fmt: skip
        index["y"] = index["q"][system.space.measured_by]  # motions count in the units of the numbers they change
        each = np.concatenate([index[name] for name in _sizes(system)])
        rows = np.tile(each, len(GAMMA[self.order]))
        return np.ascontiguousarray([rows, np.zeros_like(rows)], dtype=np.int64)

    def equations(
        self, formulation: Formulation, env: Environment, layout: Layout, x: ca.SX, data: StepData
    ) -> StepEquations:
        system, flat, sizes = env.system, env.system.space.flat, _sizes(env.system)
        q, v, lam = (data.first[layout.slice(n)] for n in ("q", "v", "lam"))
        t, end = data.t - data.h, q
        labels: list[str] = []
        residuals, columns = [], []
        start: list[ca.SX] = []
        position = 0
        # multiplier columns are scaled by 1/h, those of positions by h; all rows are in units of momenta or velocities
        scales = {"q": data.h, "y": data.h, "lam": 1 / data.h, "nu": 1 / data.h}
        for gamma in GAMMA[self.order]:
            h = float(gamma) * data.h
            part = {}
            for name, size in sizes.items():
                part[name] = ca.reshape(x[position : position + size], size, 1)
                position += size
            blocks = (_substep if flat else lie_substep)(env, t, h, q, v, part)
            for label, expr in blocks:
                labels += [label] * int(expr.numel())
                residuals.append(expr)
            columns += [ca.SX.ones(size, 1) * scales.get(n, 1.0) for n, size in sizes.items()]
            guess = {"va": v, "vb": v, "v": v, "lam": lam, "nu": lam}
            guess |= {"q": q + h * v} if flat else lie_guess(system, q, h * v)
            before = ca.vertcat(*start, ca.SX.zeros(x.numel() - _length(start), 1))
            start += [ca.substitute(guess[n], x, before) for n in sizes]
            # on a group the new position is an element to rounding, however far Newton went
            end = part["q"] if flat else ca.SX(system.space.move(end, part["y"]))
            q, v, t = part["q"], part["v"], t + h
        residual = ca.densify(ca.vertcat(*residuals))
        return StepEquations(
            labels=labels,
            residual=residual,
            rows=ca.SX.ones(residual.numel(), 1),
            columns=ca.vertcat(*columns),
            update=ca.densify(ca.vertcat(end, v, part["nu"])),
            start=ca.densify(ca.vertcat(*start)),
        )

    def coefficient_function(self) -> int:
        return last_row_function()


def _sizes(system: System) -> dict[str, int]:
    """Unknowns of a substep, with their sizes, in their order."""
    sizes = {"va": system.nv, "vb": system.nv, "v": system.nv, "y": system.nv, "q": system.nq, "lam": system.nlam,
             "nu": system.nlam}  # fmt: skip
    return {name: sizes[name] for name in (PARTS if system.space.flat else LIE_PARTS)}


def _substep(
    env: Environment, t: ca.SX, h: ca.SX, q: ca.SX, v: ca.SX, part: dict[str, ca.SX]
) -> list[tuple[str, ca.SX]]:
    """Equations of one substep, see the head."""
    first = env.at(t=t, q=q, v=part["va"])
    last = env.at(t=t + h, q=part["q"], v=part["vb"])
    end = env.at(t=t + h, q=part["q"], v=part["v"])
    return [
        ("half kick", first.mass @ (part["va"] - v) - h / 2 * _force(env, first, part["lam"])),
        ("momentum", last.mass @ part["vb"] - first.mass @ part["va"]),
        ("drift", (part["q"] - q) / h - (part["va"] + part["vb"]) / 2),
        ("constraints", last.g / h),
        ("half kick", last.mass @ (part["v"] - part["vb"]) - h / 2 * _force(env, last, part["nu"])),
        ("constraints'", end.g_dot),
    ]


def _force(env: Environment, point: Point, lam: ca.SX) -> ca.SX:
    """f - G^T lam + (dM/dt) v at a point."""
    t, q, v = ca.SX.sym("t"), ca.SX.sym("q", point.q.numel()), ca.SX.sym("v", point.v.numel())
    direction = ca.SX.sym("direction", point.v.numel())
    momentum = env.at(t=t, q=q).mass @ v
    change = ca.jtimes(momentum, q, direction) + ca.jtimes(momentum, t, ca.SX(1))
    before = ca.vertcat(t, q, v, direction)
    change = ca.substitute(change, before, ca.vertcat(point.t, point.q, point.v, point.v))
    here = env.at(t=point.t, q=point.q, v=point.v, a=ca.SX.zeros(point.v.shape), lam=lam)
    return change - here.balance  # the balance M a - f + G^T lam at a = 0


def _length(parts: list[ca.SX]) -> int:
    return sum(int(p.numel()) for p in parts)
