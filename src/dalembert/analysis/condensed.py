"""Linear differential-algebraic systems: condensed forms, characteristic quantities, strangeness index.

[KM94] P. Kunkel, V. Mehrmann, Canonical forms for linear differential-algebraic equations with variable coefficients,
       J. Comput. Appl. Math. 56 (1994) 225-251.
[MS06] V. Mehrmann, C. Shi, Transformation of high order linear differential-algebraic systems to first order,
       Numer. Algorithms 42 (2006) 281-307.
[W05]  L. Wunderlich, Numerical treatment of second order differential-algebraic systems (2005), sections 2.1, 3.1, 3.2.

Constant coefficients are reduced step by step: equations that are the algebraic form of a differential one are
differentiated and inserted there, until none is left. All bases are orthonormal. Coefficients that depend on time are
examined through the derivative array.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import casadi as ca
import numpy as np

from dalembert.analysis.derivative_array import examine, linear_array
from dalembert.analysis.ranks import TOLERANCE, Ranks
from dalembert.analysis.triples import Quantities2, reduce_triple, scaled_triple
from dalembert.status import ModelError, OptionError
from dalembert.tracing import Sym, to_sx

Matrix = Callable[[Any], Any] | Sequence[Any] | np.ndarray | ca.SX


class _Linear:
    """Matrices of one shape, constant or functions of t."""

    def __init__(self, **matrices: Matrix) -> None:
        self.t = ca.SX.sym("t")
        self.matrices: dict[str, ca.SX] = {}
        for name, given in matrices.items():
            if isinstance(given, ca.SX):
                self.matrices[name] = given
                continue
            value = given(Sym(self.t)) if callable(given) else given
            if np.ndim(value) != 2:
                raise ModelError(f"{name} has {np.ndim(value)} dimensions, expected a matrix.")
            self.matrices[name] = ca.densify(to_sx(value))
        shapes = {name: x.shape for name, x in self.matrices.items()}
        if len(set(shapes.values())) != 1:
            raise ModelError(f"the matrices differ in shape: {', '.join(f'{n} {s}' for n, s in shapes.items())}.")
        self.shape: tuple[int, int] = next(iter(shapes.values()))

    @property
    def constant(self) -> bool:
        return not any(ca.depends_on(x, self.t) for x in self.matrices.values())

    def at(self, t: float) -> list[np.ndarray]:
        """The matrices at an instant."""
        return [part[0] for part in self.taylor(t, 0)]

    def taylor(self, t: float, order: int) -> list[list[np.ndarray]]:
        """Taylor coefficients 0 .. order at t, matrix by matrix."""
        out = []
        for x in self.matrices.values():
            terms, flat = [], ca.vec(x)
            for i in range(order + 1):
                terms.append(flat)
                flat = ca.jacobian(flat, self.t) / (i + 1)
            values = ca.Function("taylor", [self.t], [ca.horzcat(*terms)])(t)
            arrays = [column.reshape(self.shape, order="F") for column in np.asarray(values.full()).T]
            if not all(np.all(np.isfinite(v)) for v in arrays):
                raise ModelError(f"a matrix or one of its first {order} derivatives is not finite at t = {t:g}.")
            out.append(arrays)
        return out

    def __repr__(self) -> str:
        kind = "constant" if self.constant else "variable"
        return f"{type(self).__name__}({self.shape[0]} equations, {self.shape[1]} unknowns, {kind} coefficients)"


class LinearDAE(_Linear):
    """E x' = A x + f; E and A are matrices or functions of t that return them."""

    def __init__(self, E: Matrix, A: Matrix) -> None:
        super().__init__(E=E, A=A)


class LinearDAE2(_Linear):
    """M x'' + D x' + K x = f; matrices or functions of t that return them."""

    def __init__(self, M: Matrix, D: Matrix, K: Matrix) -> None:
        super().__init__(M=M, D=D, K=K)


@dataclass(frozen=True)
class Quantities:
    """Local invariants of a pair (E, A) [W05, Theorem 2.1.6].

    Rank r, algebraic part a, strangeness s, differential part d = r - s; u unknowns that nothing determines, v
    equations without left-hand side (consistency conditions on f). The thesis has the letters u and v exchanged.
    """

    r: int
    a: int
    s: int
    d: int
    u: int
    v: int

    @property
    def strange(self) -> int:
        return self.s


Q = TypeVar("Q", Quantities, Quantities2)


@dataclass(frozen=True)
class Strangeness(Generic[Q]):
    """What `strangeness` found.

    Attributes
    ----------
    steps
        Characteristic quantities before the first reduction and after each one; for variable coefficients those at the
        instant only.
    strangeness_index
        Number of reductions until nothing strange is left, or None where it could not be determined.
    differentiation_index
        Of a regular system (as many equations as unknowns, nothing undetermined), else None. For a second-order system
        that of the first-order system in which only those first derivatives that need it become unknowns.
    degrees_of_freedom
        Initial values that can be chosen freely (components of x, and of x' for second-order equations).
    algebraic, undetermined, conditions
        Algebraic equations of the reduced system; free components of the solution; conditions on f.
    margin
        How clear the rank decisions were, see `Ranks`; doubt results with a margin below 10.
    """

    steps: tuple[Q, ...]
    strangeness_index: int | None
    differentiation_index: int | None
    degrees_of_freedom: int | None
    algebraic: int | None
    undetermined: int | None
    conditions: int | None
    margin: float


def strangeness(
    system: LinearDAE | LinearDAE2, t: float = 0.0, *, tolerance: float = TOLERANCE, max_index: int | None = None
) -> Strangeness[Any]:
    """Characteristic quantities and index of a linear system at t.

    Parameters
    ----------
    system
        `LinearDAE` or `LinearDAE2`.
    tolerance
        Singular values smaller than this, relative to the size of the matrices, count as zero.
    max_index
        Largest strangeness index looked for with variable coefficients, default the number of unknowns.

    Examples
    --------
    >>> found = strangeness(LinearDAE(E=[[0, 1], [0, 0]], A=[[-1, 0], [0, -1]]))
    >>> found.strangeness_index, found.differentiation_index
    (1, 2)
    """
    if isinstance(system, LinearDAE):
        return _first(system, t, tolerance, max_index)
    if isinstance(system, LinearDAE2):
        return _second(system, t, tolerance, max_index)
    raise OptionError(f"strangeness takes a LinearDAE or a LinearDAE2, not {type(system).__name__}.")


def _scaled(matrix: np.ndarray) -> tuple[np.ndarray, float]:
    size = float(np.linalg.norm(matrix, 2)) if matrix.size else 0.0
    return (matrix / size, size) if size > 0 else (matrix, 1.0)


def _differentiation(mu: int, a: int, u: int, v: int) -> int | None:
    """[W05, end of section 2.1]: nu = mu + 1, or 0 for an ODE; not defined for singular systems."""
    if u or v:
        return None
    return 0 if mu == 0 and a == 0 else mu + 1


# ---------------------------------------------------------------------- first order
def _first(system: LinearDAE, t: float, tolerance: float, max_index: int | None) -> Strangeness[Quantities]:
    ranks = Ranks(tolerance)
    if not system.constant:
        return _variable(system, t, ranks, max_index)
    E, A = (_scaled(matrix)[0] for matrix in system.at(t))
    steps = []
    while True:
        found, E, A = _reduce(E, A, ranks)
        steps.append(found)
        if not found.s:
            break
    mu = len(steps) - 1
    nu = _differentiation(mu, found.a, found.u, found.v)
    return Strangeness(tuple(steps), mu, nu, found.d, found.a, found.u, found.v, ranks.margin)


def _reduce(E: np.ndarray, A: np.ndarray, ranks: Ranks) -> tuple[Quantities, np.ndarray, np.ndarray]:
    """Quantities of (E, A) [W05, Theorem 2.1.6] and the pair after one step [W05, (2.14)]."""
    m, n = E.shape
    r, U, sigma, V = ranks.svd(E)
    Z, T, T1 = U[:, r:], V[:, r:], V[:, :r]
    B = Z.T @ A  # 0 = B x + ...
    a = ranks.rank(B @ T)
    Y = ranks.range((ranks.corange(B @ T).T @ B @ T1).T)  # the algebraic equations in x_1 = T1^T x alone
    s = Y.shape[1]
    found = Quantities(r=r, a=a, s=s, d=r - s, u=n - r - a, v=m - r - a - s)
    # E = U1 diag(sigma) T1^T. The rows Y^T T1^T x' of the differential equations are known from the algebraic ones.
    C = ranks.range(Y / sigma[:r, None])
    keep = ranks.corange(C)
    E1, A1 = U[:, :r].T @ E, U[:, :r].T @ A
    E = np.vstack([keep.T @ E1, np.zeros((m - r + s, n))])
    A = np.vstack([keep.T @ A1, C.T @ A1, B])
    return found, E, A


def _variable(system: LinearDAE, t: float, ranks: Ranks, max_index: int | None) -> Strangeness[Quantities]:
    m, n = system.shape
    limit = n if max_index is None else max_index
    E, A = system.taylor(t, limit)
    local = _reduce(_scaled(E[0])[0], _scaled(A[0])[0], Ranks(ranks.tolerance))[0]
    _, size_E = _scaled(E[0])
    _, size_A = _scaled(A[0])
    unit = size_E / size_A  # of time
    E = [part * unit**i / size_E for i, part in enumerate(E)]
    A = [part * unit**i / size_A for i, part in enumerate(A)]
    corank = 0
    for order in range(limit + 1):
        level, corank = examine(*linear_array(E, A, order), (m, n), corank, ranks)
        if level.strangeness_free:
            nu = _differentiation(order, level.a, level.u, level.v)
            return Strangeness((local,), order, nu, level.d, level.a, level.u, level.v, ranks.margin)
    return Strangeness((local,), None, None, None, None, None, None, ranks.margin)


# ---------------------------------------------------------------------- second order
def _second(system: LinearDAE2, t: float, tolerance: float, max_index: int | None) -> Strangeness[Quantities2]:
    ranks = Ranks(tolerance)
    first = _first(order_reduction(system), t, tolerance, max_index)
    nu = first.differentiation_index
    M, D, K = scaled_triple(*system.at(t))
    if not system.constant:  # counts that do not depend on how the order was reduced, except the number of steps
        local = reduce_triple(M, D, K, ranks)[0]
        margin = min(ranks.margin, first.margin)
        return Strangeness(
            (local,), None, nu, first.degrees_of_freedom, None, first.undetermined, first.conditions, margin
        )
    steps = []
    while True:
        found, M, D, K = reduce_triple(M, D, K, ranks)
        steps.append(found)
        if not found.strange:
            break
    margin = min(ranks.margin, first.margin)
    free = 2 * found.d2 + found.d1
    return Strangeness(tuple(steps), len(steps) - 1, nu, free, found.a, found.u, found.v, margin)


def order_reduction(system: LinearDAE2, derivatives: str | Sequence[int] = "needed") -> LinearDAE:
    """First-order system in y = [x_i' for i in derivatives; x].

    Parameters
    ----------
    derivatives
        Components whose first derivative becomes an unknown: "needed", those with a second derivative; "all", the
        classical transformation, which can raise the index [W05, Example 3.2.1]; or a list of components.

    Examples
    --------
    >>> system = LinearDAE2(M=[[1, 0], [0, 0]], D=[[1, 0], [0, 0]], K=[[0, 1], [1, 0]])
    >>> [strangeness(order_reduction(system, which)).strangeness_index for which in ("needed", "all")]
    [2, 3]
    """
    n = system.shape[1]
    M, D, K = (ca.densify(system.matrices[name]) for name in "MDK")
    needed = [i for i in range(n) if not ca.simplify(M[:, i]).is_zero()]
    if isinstance(derivatives, str):
        if derivatives not in ("needed", "all"):
            raise OptionError(f"derivatives={derivatives!r}: give 'needed', 'all' or a list of components.")
        chosen = needed if derivatives == "needed" else list(range(n))
    else:
        chosen = sorted({int(i) for i in derivatives})
        wrong = [i for i in chosen if not 0 <= i < n]
        if wrong:
            raise OptionError(f"derivatives: there is no component {wrong[0]}; there are {n}.")
        missing = [i for i in needed if i not in chosen]
        if missing:
            raise OptionError(
                f"derivatives: component {missing[0]} has a second derivative; its first must be included."
            )
    k = len(chosen)
    rest = ca.SX(D)
    for i in chosen:
        rest[:, i] = 0
    pick = ca.SX.zeros(k, n)
    for row, i in enumerate(chosen):
        pick[row, i] = 1
    E = ca.vertcat(ca.horzcat(M @ pick.T, rest), ca.horzcat(ca.SX.zeros(k, k), pick))
    A = ca.vertcat(ca.horzcat(-D @ pick.T, -K), ca.horzcat(ca.SX.eye(k), ca.SX.zeros(k, n)))
    out = LinearDAE(E, A)
    out.t = system.t
    return out


__all__ = [
    "LinearDAE", "LinearDAE2", "Quantities", "Quantities2", "Strangeness", "order_reduction", "strangeness",
]  # fmt: skip
