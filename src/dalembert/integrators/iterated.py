"""Radau IIA by iteration: eight stages at once, in the lanes of vector registers.

[HS90] P. J. van der Houwen, B. P. Sommeijer, Parallel iteration of high-order Runge-Kutta methods with stepsize
       control, J. Comput. Appl. Math. 29 (1990) 111-127.
[HW96] E. Hairer, G. Wanner, Solving Ordinary Differential Equations II, Springer 1996, IV.5.

    V_i = v + h sum_j a_ij A_j,   Q_i = q + h c_i v + h^2 sum_jk a_ij a_jk A_k
    [M G^T; G 0] (A_i, L_i) = (f, gamma)(t + c_i h, Q_i, V_i)

on the index-1 form. Stages do not wait for each other: all of them are evaluated in one pass, which takes little longer
than one of them. Sweeps start from the polynomial through the accelerations of the last step. That makes errors of
order 8 in the accelerations, and every sweep gains one: with m sweeps positions, velocities and multipliers are of
order 8 + m, at most 15, that of Radau IIA with eight stages. (Gauss would be of order 16; but Radau's last stage is the
end of the step, so that no force that begins to act there goes unnoticed.)

For stiff systems sweeps are iterations of Newton's method instead, with derivatives at the beginning of the step, or of
one of the last steps while sweeps contract well. In terms of eigenvectors of the matrix (a_ij) there is one linear
system for each of four pairs of eigenvalues [HW96, IV.8], and these are solved in lanes, too. A step then costs about
twice as much, and is L-stable, of order 15; so that fast modes have to be followed only if they are larger than the
tolerance. (Where nothing is stiff, the derivatives of another state are no help:
sweeps contract faster without them.)

Where accelerations do not follow from a linear system, because friction depends on multipliers, or forces on auxiliary
variables or points of contact, these are unknowns of every stage, too, and sweeps do not solve for them: they make one
iteration of Newton's method for everything.

On a group the numbers that q is stored in are integrated, q' = rate(q, v), which needs no exponentials and takes
polynomials on from step to step; what leaves the group, an error of the step, is then removed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import casadi as ca
import numpy as np
from numpy.polynomial import Legendre, legendre

from dalembert.formulations.base import Formulation, Unknown
from dalembert.integrators import explicit_stages
from dalembert.integrators.base import Integrator, LanesNewton, StepData, StepEquations, register
from dalembert.integrators.stages import last_row_function
from dalembert.integrators.tableaus import radau_nodes
from dalembert.model.point import Environment
from dalembert.model.system import System
from dalembert.numerics import complex_elimination as elimination
from dalembert.numerics.layout import Layout
from dalembert.numerics.lu import SingularMatrix, plan_elimination
from dalembert.numerics.multipliers import BLOCKS, acceleration_equations, implicit_accelerations
from dalembert.numerics.native import LANES
from dalembert.numerics.projection import Projection
from dalembert.numerics.sweep_formula import BEGINNING, END, G4, G5, G6, G7
from dalembert.spaces.group import Group
from dalembert.spaces.space import Space
from dalembert.status import OptionError

# More than the most would not raise the order. On groups rates of positions depend on positions, and every sweep gains
# one order of them; elsewhere two, since positions are two integrations away (times: benchmarks/iterated.py)
MOST_SWEEPS, USUAL_SWEEPS = 7, 5
# Steps for looser tolerances would be so long that sweeps hardly contract, and cost as much.
LOOSEST = 1e-2
# Steps for tolerances looser than this one are as long as sweeps contract, and more accurate than they have to be. For
# errors to follow the tolerance from there on, local ones have to fall a little faster, by these powers: in runs of ten
# long steps, as Newton's method makes them, errors fall less than what is estimated of them.
FREE, FOLLOW, FOLLOW_NEWTON = 1e-4, 0.01, 0.1
LARGEST_NEWTON = 24  # unknowns of a stage: the elimination is written out
CORRECTIONS = 4  # of numbers off a group, each squares how far they are


@cache
def radau_formula() -> np.ndarray:
    """c, barycentric weights, A, A^2, and what makes the end of a step, as `numerics.sweep_formula` takes them.

    By the discrete orthogonality of Legendre's polynomials at Radau's nodes, which loses no digits:
    l_k(x) = b_k sum_n (2n + 1) P_n(c_k) P_n(x), shifted to [0, 1].
    """
    c = radau_nodes(LANES)
    f = Legendre.basis(LANES) - Legendre.basis(LANES - 1)
    c[:-1] -= 0.5 * f(2 * c[:-1] - 1) / f.deriv()(2 * c[:-1] - 1)  # to the last digit: b is to sum to 1
    P = legendre.legvander(2 * c - 1, LANES)  # (nodes, degrees 0 .. LANES)
    degrees = 2 * np.arange(LANES) + 1
    b = 1 / (P[:, :LANES] ** 2 @ degrees)  # of the kernel sum_n (2n + 1) P_n(c_k)^2, by that orthogonality
    integrals = np.empty((LANES, LANES))  # of P_n from 0 to c_i
    integrals[:, 0] = c
    for n in range(1, LANES):
        integrals[:, n] = (P[:, n + 1] - P[:, n - 1]) / (2 * (2 * n + 1))
    A = integrals @ (degrees[:, None] * P[:, :LANES].T * b)
    barycentric = 1 / np.array([np.prod(c[k] - np.delete(c, k)) for k in range(LANES)])
    for q in range(1, LANES + 1):  # C(s) [HW96, IV (5.2)]
        if not np.allclose(A @ c ** (q - 1), c**q / q, atol=1e-15, rtol=1e-14):
            raise ValueError(f"stage condition C({q}) is violated")
    end = np.zeros((LANES, LANES))
    end[:, 0], end[:, 1] = b, b @ A
    for lane, n in zip((G7, G6, G5, G4), (7, 6, 5, 4), strict=True):
        end[:, lane] = (2 * n + 1) * b * P[:, n]
    end[:, BEGINNING] = b * (P[:, :LANES] @ (degrees * (-1.0) ** np.arange(LANES)))  # l_k(0): P_n is (-1)^n there
    return np.concatenate([c, barycentric, A.T.ravel(), (A @ A).T.ravel(), end.ravel()])


@cache
def newton_formula() -> np.ndarray:
    """Eigenvalues of A, what leads to coordinates in terms of its eigenvectors and back, and Legendre coefficients: see
    `numerics.sweep_formula`."""
    A = radau_formula()[2 * LANES : 2 * LANES + LANES * LANES].reshape(LANES, LANES).T
    values, T = np.linalg.eig(A)
    inverse, one = np.linalg.inv(T), np.flatnonzero(values.imag > 0)  # of each pair; none is real
    there = np.concatenate([inverse[one].real, inverse[one].imag]).T
    back = np.concatenate([2 * T[:, one].real, -2 * T[:, one].imag], axis=1).T
    c, b = radau_formula()[:LANES], radau_formula()[END::LANES]
    analysis = b[:, None] * legendre.legvander(2 * c - 1, LANES - 1) * (2 * np.arange(LANES) + 1)
    return np.concatenate([values[one].real, values[one].imag, there.ravel(), back.ravel(), analysis.ravel()])


@register
@dataclass(frozen=True)
class Iterated(Integrator):
    """Radau IIA with eight stages, iterated: the fastest of the methods for nonstiff systems, and for small stiff ones.

    Constraints are projected after every step. Accelerations of all stages are computed at once, by vector
    instructions. Automatic steps make fewer iterations where these suffice, and a few more where that saves a step.

    Parameters
    ----------
    sweeps
        Iterations of a step, 1 to 7; the order is 8 + ``sweeps``. Default: 5; 7 on groups, if steps are automatic, and
        with ``newton``.
    newton
        True: by Newton's method, for stiff systems of up to 24 velocities (and dynamic states) in Euclidean spaces, and
        for those whose accelerations are implicit, with friction, auxiliary variables or contact coordinates (which
        then count as well, and so do multipliers). Steps are as long as the motion allows, of order 15, and L-stable.

    Examples
    --------
    >>> import dalembert as da
    >>> problem = da.problems()["pendulum"]
    >>> sol = da.solve(problem.system, (0, 1), problem.q0, problem.v0, method=da.Iterated(), rtol=1e-10, atol=1e-10)
    >>> sol.stats.method
    'iterated Radau (8 stages, order 13)'
    """

    sweeps: int | None = None
    newton: bool = False
    name: ClassVar[str] = "iterated"
    summary: ClassVar[str] = "Radau IIA of 8 stages at once, iterated (stiff: by Newton's method), variable step"
    default_formulation: ClassVar[str] = "index-1"
    takes: ClassVar[frozenset[str]] = frozenset({"index-1", "overdetermined"})
    in_row: ClassVar[bool] = False
    one_step: ClassVar[bool] = True
    on_groups: ClassVar[bool] = True
    variants: ClassVar[tuple[Mapping[str, Any], ...]] = ({"newton": True},)
    growth: ClassVar[float] = 1.7  # polynomials are extrapolated

    def __post_init__(self) -> None:
        n = self.n_sweeps
        if not isinstance(self.newton, bool):
            raise OptionError(f"Iterated(newton={self.newton!r}): give True or False.")
        if not (isinstance(n, int) and 1 <= n <= MOST_SWEEPS) or isinstance(n, bool):
            raise OptionError(f"Iterated(sweeps={self.sweeps!r}): give a whole number from 1 to {MOST_SWEEPS}.")

    @property
    def n_sweeps(self) -> int:  # type: ignore[override]
        usual = MOST_SWEEPS if self.newton else USUAL_SWEEPS
        return usual if self.sweeps is None else self.sweeps

    @property
    def label(self) -> str:
        return f"{self.name} (Newton)" if self.newton else self.name

    @property
    def order(self) -> int:
        return 2 * LANES - 1 if self.newton else LANES + self.n_sweeps

    def check(self, system: System, formulation: Formulation) -> None:
        super().check(system, formulation)
        if self.newton and not system.space.flat:
            raise OptionError(
                f"Iterated(newton=True) needs a Euclidean configuration space; on {system.space} use da.Radau() or "
                "da.BDF() for stiff systems."
            )
        if self.newton and newton_unknowns(system) > LARGEST_NEWTON:
            raise OptionError(
                f"Iterated(newton=True) eliminates all {newton_unknowns(system)} rates of velocities and dynamic "
                "states (where accelerations are implicit: and multipliers, auxiliary variables and contact "
                f"coordinates) at once, which pays for up to {LARGEST_NEWTON}; use da.Radau() or da.BDF()."
            )
        if self.newton and system.calls:
            raise explicit_stages.implicit_accelerations(self.name)

    def for_space(self, space: Space, formulation: Formulation, tolerance: float) -> Iterated:
        more = self.sweeps is None and not space.flat and not self.newton  # which is refused there
        return Iterated(MOST_SWEEPS) if more else self

    @property
    def equations_key(self) -> tuple[Any, ...]:
        return type(self), self.newton

    @property
    def explicit_stages(self) -> int:  # type: ignore[override]
        return LANES

    @property
    def hermite_order(self) -> int:  # type: ignore[override]
        return self.order

    @property
    def start_order(self) -> int:  # type: ignore[override]
        return self.order

    def order_range(self, fixed: bool) -> tuple[int, int]:
        """The order of the error estimate."""
        return self.order - 1, self.order - 1

    def estimate_scale(
        self, system: System, formulation: Formulation, tolerance: float, projection: Projection | None = None
    ) -> float:
        if self.newton:
            return max(1.0, (FREE / tolerance) ** FOLLOW_NEWTON)
        return max(1.0, tolerance / LOOSEST, (FREE / tolerance) ** FOLLOW)

    def describe(self) -> str:
        if self.newton:
            return f"radau ({LANES} stages at once)"
        return f"iterated Radau ({LANES} stages, order {self.order})"

    def formula(self) -> np.ndarray:
        return np.concatenate([radau_formula(), newton_formula()]) if self.newton else radau_formula()

    def unknowns(self, system: System, formulation: Formulation) -> list[Unknown]:
        """What the sweeps compute: the changes of q, v and r, and their errors."""
        sizes = {"dq": system.nq, "dv": system.nv, "dr": system.nr}
        changes = [Unknown(f"{of}{name}", size, False) for of in ("", "error_") for name, size in sizes.items()]
        return [*changes, *self._own(system)]

    def carried(self, system: System, formulation: Formulation) -> list[Unknown]:
        return [*(u for u in formulation.unknowns(system) if u.name in ("q", "v", "r")), *self._own(system)]

    def _own(self, system: System) -> list[Unknown]:
        """What sweeps compute, and begin with, where accelerations are implicit."""
        if not (self.newton and implicit_accelerations(system)):
            return []
        return [Unknown(name, system.sizes[name], False, controlled=False) for name in BLOCKS]

    def weight_map(self, system: System, layout: Layout, formulation: Formulation) -> np.ndarray:
        return np.zeros((2, sum(u.size for u in self.unknowns(system, formulation))), dtype=np.int64)

    def equations(
        self, formulation: Formulation, env: Environment, layout: Layout, x: ca.SX, data: StepData
    ) -> StepEquations:
        system, h = env.system, data.h
        own = [u.name for u in self._own(system)]
        if data.accelerate is None and not own:
            raise explicit_stages.implicit_accelerations(self.name)
        sizes = [u.size for u in self.unknowns(system, formulation)]
        dq, dv, dr, *others = ca.vertsplit(x, np.cumsum([0, *sizes]).tolist())
        errors, found = others[:3], dict(zip(own, others[3:], strict=True))
        old = {u.name: data.first[layout.slice(u.name)] for u in self.carried(system, formulation)}
        q_new = old["q"] + dq
        q_new = q_new if data.corrected else on_space(system, q_new)
        new = {"q": q_new, "v": old["v"] + dv, "r": old["r"] + dr, **found}

        c, r, v, q = (ca.SX.sym(n, k) for n, k in zip("crvq", [1, *reversed(sizes[:3])], strict=True))
        flat = system.space.flat or not system.nq
        t, at_q, arguments = data.t - h + c * h, old["q"] + q if flat else q, ca.vertcat(c, r, v, q)
        at_start = ca.vertcat(0, old["r"], old["v"], ca.SX.zeros(system.nq, 1))
        newton = None
        if own or data.accelerate is None:
            y = {name: ca.SX.sym(name, system.sizes[name]) for name in own} | {"r_dot": ca.SX.sym("r_dot", system.nr)}
            z = ca.vertcat(y["a"], y["r_dot"], *[y[name] for name in own if name != "a"])
            F = acceleration_equations(env, {"t": t, "q": at_q, "v": v, "r": r}, y)
            at_start = ca.vertcat(at_start, old["a"], ca.SX.zeros(system.nr, 1), *[old[n] for n in own if n != "a"])
            arguments, rates = ca.vertcat(arguments, z), [z - F]
        else:
            z, rates = ca.SX(0, 1), [*data.accelerate(t, at_q, v, r, data.p)]
        if self.newton:
            derivatives = [-ca.jacobian(ca.vertcat(*rates), by) for by in (v, q, r)]
            first = ca.jacobian(F, z) if own else ca.SX.eye(system.nv + system.nr)
            if own:
                # Rows g'' = 0, k' = 0 contract without what is not G a, K a: no stiff forces, but second derivatives
                # of the constraints, which would be half of all operations.
                levels = slice(system.nw + system.ns, system.nw + system.ns + system.nlam + system.nmu)
                first = _without(first, levels, slice(system.nv, None))
                derivatives = [_without(x, levels, slice(None)) for x in derivatives]

            def begin(expression: ca.SX) -> ca.SX:
                return ca.substitute(expression, arguments, at_start)

            order = _pivots(first, derivatives, arguments, data, layout, own)
            newton = _newton(begin(first), [begin(x) for x in derivatives], order)
        if not flat:
            rates.append(ca.SX(system.space.rate(q, v)))

        def row(parts: dict[str, ca.SX]) -> ca.SX:
            return ca.densify(ca.vertcat(*[parts[u.name] for u in self.carried(system, formulation)]))

        return StepEquations(
            labels=["stages"] * int(x.numel()),
            residual=x,  # nothing to solve: the sweeps compute it
            rows=ca.SX.ones(x.numel(), 1),
            columns=ca.SX.ones(x.numel(), 1),
            update=row(new),
            error=row({**dict(zip("qvr", errors, strict=True)), **{n: ca.SX.zeros(x.shape) for n, x in found.items()}}),
            lanes=(arguments, ca.densify(ca.vertcat(*rates))),
            lanes_newton=newton,
        )

    def coefficient_function(self) -> int:
        return last_row_function()


def _without(matrix: ca.SX, rows: slice, columns: slice) -> ca.SX:
    """A matrix with zeros there."""
    out = ca.SX(matrix)
    out[rows, columns] = 0
    return ca.sparsify(out)


def newton_unknowns(system: System) -> int:
    """Of a stage: rates of velocities and of dynamic states, and, if they are implicit, what they depend on."""
    others = system.nw + system.ns + system.nlam + system.nmu
    return system.nv + system.nr + (others if implicit_accelerations(system) else 0)


Order = tuple[Sequence[int], Sequence[int]]  # rows and columns of pivots


def _newton(first: ca.SX, derivatives: Sequence[ca.SX], order: Order) -> LanesNewton:
    """Simplified Newton's method for the rates of all stages, by eigenvectors of the formula [HW96, IV.8].

    ``first``, ``derivatives``: of what is to vanish, with respect to the unknowns, which are the rates of v and r, and
    others; and with respect to v, q and r. With z = h times an eigenvalue, changes d of the rates change v and r by z
    d, and q by z^2 d_v.
    """
    n, nv = first.shape[0], derivatives[0].shape[1]
    zr, zi = ca.SX.sym("zr"), ca.SX.sym("zi")
    powers = ((ca.SX(1.0), ca.SX(0.0)), (zr, zi), (zr * zr - zi * zi, 2 * zr * zi), (zr, zi))
    matrix: elimination.Matrix = [[None] * n for _ in range(n)]
    numbers, symbols = [], []
    for k, block in enumerate((first, *derivatives)):
        for i, j in zip(*block.sparsity().get_triplet(), strict=True):
            y = block[i, j]
            if not y.is_constant():
                numbers.append(y)
                y = ca.SX.sym("y")
                symbols.append(y)
            column = j + nv if k == 3 else j
            before = matrix[i][column] or (ca.SX(0.0), ca.SX(0.0))
            matrix[i][column] = before[0] + y * powers[k][0], before[1] + y * powers[k][1]
    rows, columns = order
    factors = elimination.factor([[matrix[i][j] for j in columns] for i in rows])
    known, names = elimination.like(factors, "f")
    right = [(ca.SX.sym("br"), ca.SX.sym("bi")) for _ in range(n)]
    solved = dict(zip(columns, elimination.solve(known, [right[i] for i in rows]), strict=True))
    return LanesNewton(
        ca.densify(ca.vertcat(*numbers)),
        (ca.vertcat(zr, zi), ca.vertcat(*symbols), elimination.stacked(elimination.entries(factors))),
        (ca.vertcat(names, elimination.stacked(right)), elimination.stacked([solved[i] for i in range(n)])),
    )


def _pivots(
    first: ca.SX, derivatives: Sequence[ca.SX], arguments: ca.SX, data: StepData, layout: Layout, own: Sequence[str]
) -> Order:
    """Rows and columns of pivots that serve near the start of a run, for all sizes of steps."""
    nv, z = derivatives[0].shape[1], ca.SX.sym("z")
    by_v, by_q, by_r = derivatives
    n, nr = first.shape[0], by_r.shape[1]
    of_v = z * by_v + z * z * by_q if by_q.numel() else z * by_v  # velocities may be all there is
    matrix = first + ca.horzcat(of_v, z * by_r, ca.SX(n, n - nv - nr))
    find = ca.Function("matrix", [z, arguments, data.t, data.h, data.first, data.p], [matrix])
    samples = []
    for t, row, p, h in data.samples:
        part = {name: row[layout.slice(name)] for name, _ in layout.blocks}
        further = [part["a"], part["r_dot"], *[part[name] for name in own if name != "a"]] if own else []
        at = np.concatenate([[0.0], part["r"], part["v"], 0 * part["q"], *further])
        for size in h * np.logspace(-4, 0, 5):
            samples.append(find(size, at, t, size, row[: data.first.numel()], p).full())
    samples = [x for x in samples if np.all(np.isfinite(x))]
    try:
        plan = plan_elimination(matrix.sparsity(), samples) if samples else None
    except SingularMatrix:
        plan = None
    if plan is None:
        raise OptionError(
            "Iterated(newton=True) finds no order of pivots for accelerations, and what they depend on, that serves "
            "near the initial values, where they may not be unique; use da.BDF()."
        )
    return plan.rows, plan.columns


def on_space(system: System, q: ca.SX) -> ca.SX:
    """The element of a group that numbers close to it mean: Newton's method for the nearest one."""
    if isinstance(system.space, Group):
        for _ in range(CORRECTIONS):
            q = ca.SX(system.space.correct(q))
    return q
