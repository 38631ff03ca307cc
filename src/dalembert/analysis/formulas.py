"""Second-order multistep formulas v_n = sum d_j q_{n-j} / h, a_n = sum e_j q_{n-j} / h^2: stability and errors.

[HW96] E. Hairer, G. Wanner, Solving Ordinary Differential Equations II, Springer 1996, chapter V.2: A(alpha)-stability.

The weights are those that runs use: they come from the compiled coefficient functions of `ModifiedBDF`, and the change
of the grid from the function that the loop calls. Damped oscillations z, conj(z) times 1/h stand for mechanical
systems: q'' = 2 Re(z) q'/h - |z|^2 q/h^2.
"""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import Literal

import numpy as np

from dalembert.integrators.modified_bdf import ModifiedBDF
from dalembert.numerics import runstate
from dalembert.numerics.native import call_coefficients, entry
from dalembert.numerics.regular import regrid

Variant = Literal["regular", "interpolant"]
RADII = np.logspace(-2.5, 3.0, 240)  # |z| at which roots are looked at
ON_CIRCLE = 1e-9  # roots that much outside the unit circle are rounding
ROWS = runstate.HISTORY


@entry
def _coefficients(address, k, nodes, orders, out):  # type: ignore[no-untyped-def]
    return call_coefficients(address, k, nodes.size - 1, nodes.ctypes.data, orders.ctypes.data, out.ctypes.data)


@cache
def weights(variant: Variant, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Weights d and e, each (13,), of order k for steps of size 1; index 0 is the new point.

    Examples
    --------
    >>> d, e = weights("regular", 1)
    >>> d[:3], e[:3]
    (array([ 1., -1.,  0.]), array([ 1., -2.,  1.]))
    """
    nodes = -np.arange(ROWS + 1.0)
    out = np.zeros(runstate.N_COEFFICIENTS)
    orders = np.full(ROWS + 1, k, dtype=np.int64)
    _coefficients(ModifiedBDF(k, variant=variant).coefficient_function(), k, nodes, orders, out)
    first, second = runstate.FIRST, runstate.SECOND
    return np.append(out[0], out[first : first + ROWS]), np.append(out[1], out[second : second + ROWS])


def error_constants(variant: Variant, k: int) -> tuple[float, float]:
    """C_v and C_a: v_n - q' = C_v h^k q^(k+1), a_n - q'' = C_a h^k q^(k+2) up to higher powers of h.

    Examples
    --------
    >>> error_constants("regular", 1)
    (-0.5, -1.0)
    """
    d, e = weights(variant, k)
    past = -np.arange(ROWS + 1.0)
    return float(d @ past ** (k + 1)) / _factorial(k + 1), float(e @ past ** (k + 2)) / _factorial(k + 2)


def _factorial(n: int) -> float:
    return float(np.prod(np.arange(1.0, n + 1.0)))


def moduli(d: np.ndarray, e: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Moduli (n, degree) of the solutions q_n = zeta^n for oscillations z (n,), of the formula with weights d and e."""
    degree = int(np.flatnonzero(e)[-1])
    polynomials = e[None, : degree + 1] - 2 * z.real[:, None] * d[None, : degree + 1]
    polynomials[:, 0] += np.abs(z) ** 2
    companions = np.zeros((z.size, degree, degree))
    companions[:, 0] = -polynomials[:, 1:] / polynomials[:, :1]
    companions[:, 1:, :-1] = np.eye(degree - 1)
    return np.asarray(np.abs(np.linalg.eigvals(companions)))


def parasitic_roots(e: np.ndarray) -> np.ndarray:
    """Moduli, largest first, of the roots for q'' = 0 besides the double root 1: below 1 if a formula is zero-stable.

    Examples
    --------
    >>> parasitic_roots(weights("regular", 2)[1])
    array([0.33333333, 0.33333333])
    """
    polynomial = np.trim_zeros(e, "b")
    for _ in range(2):  # divided by 1 - zeta, without remainder: e annihilates 1 and n
        polynomial = np.cumsum(polynomial)[:-1]
    return np.asarray(np.sort(np.abs(np.roots(polynomial)))[::-1])


@cache
def angle(variant: Variant, k: int) -> float:
    """Largest alpha in degrees such that all oscillations with |arg(-z)| <= alpha decay [HW96]; to 0.01.

    NaN if there is none, not even on the negative axis.
    """
    return angle_of(*weights(variant, k))


def angle_of(d: np.ndarray, e: np.ndarray) -> float:
    """The angle of the formula with weights d and e."""

    def stable(degrees: float) -> bool:
        z = -RADII * np.exp(1j * np.deg2rad(degrees))
        return bool(moduli(d, e, z).max() <= 1.0 + ON_CIRCLE)

    steps = np.arange(0.0, 91.0, 5.0)
    first = next((i for i, degrees in enumerate(steps) if not stable(degrees)), None)
    if first is None:
        return 90.0
    if first == 0:
        return float("nan")
    low, high = steps[first - 1], steps[first]
    while high - low > 0.005:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if stable(middle) else (low, middle)
    return float(low)


@cache
def grid_change(k: int, ratio: float) -> np.ndarray:
    """The matrix (12, 12) that makes past rows a step apart from past rows a step apart when the step changes."""
    run = SimpleNamespace(
        real=np.zeros(64), whole=np.zeros(128, dtype=np.int64), nodes=-np.arange(-1.0, ROWS),
        rows=np.vstack([np.zeros(ROWS), np.eye(ROWS)]), slots=np.arange(ROWS + 1),
        coefficients=np.zeros(runstate.N_COEFFICIENTS + runstate.N_WORK),
        source=np.array([np.arange(ROWS), np.zeros(ROWS), np.full(ROWS, -1)], dtype=np.int64),
    )  # fmt: skip
    run.real[runstate.SPACING], run.whole[runstate.GRID_ORDER] = 1.0, -1
    run.whole[runstate.N_PAST] = ROWS
    regrid.py_func(run, ratio, k)
    return np.asarray(run.rows[1:])


def parasitic_radius(k: int, ratio: float, constrained: bool = False, e: np.ndarray | None = None) -> float:
    """Growth of what is no solution when the step changes by a ratio, k + 1 steps are taken, and so on.

    Parameters
    ----------
    k, ratio
        Order, and new step over old step.
    constrained
        False: coordinates that move freely, q'' = 0, where the linear functions, which are its solutions, do not count.
        True: coordinates that constraints prescribe, where every new point is exact.
    e
        Weights of a_n (13,), if not those of order k.
    """
    step = np.eye(ROWS, k=-1)
    if not constrained:
        e = weights("regular", k)[1] if e is None else e
        step[0] = -e[1:] / e[0]
    cycle = np.linalg.matrix_power(step, k + 1) @ grid_change(k, ratio)
    rows = _rows_that_matter(cycle, max(2 * k, k + 3))
    cycle = cycle[np.ix_(rows, rows)]
    if not constrained:
        linear = np.column_stack([np.ones(rows.size), rows])
        basis = np.linalg.qr(np.column_stack([linear, np.eye(rows.size)[:, 2:]]))[0]
        cycle = (basis.T @ cycle @ basis)[2:, 2:]  # modulo linear functions, which the cycle maps to linear functions
    return float(np.abs(np.linalg.eigvals(cycle)).max())


def _rows_that_matter(cycle: np.ndarray, read: int) -> np.ndarray:
    """The rows that formula, predictor and estimates read, those that they are made from, and so on.

    Old rows that nothing is made from may grow as they like.
    """
    matter = np.arange(ROWS) < read
    while True:
        more = matter | (cycle[matter] != 0.0).any(axis=0)
        if np.array_equal(more, matter):
            return np.flatnonzero(matter)
        matter = more


@cache
def growth_limit(k: int, largest: float = 3.0) -> float:
    """Smallest ratio above 1 at which parasitic solutions grow, to 0.001; ``largest`` if none does below it."""
    return growth_limit_of(weights("regular", k)[1], k, largest)


def growth_limit_of(e: np.ndarray, k: int, largest: float = 3.0) -> float:
    """The limit of a formula of order k with the weights e of a_n."""

    def bounded(ratio: float) -> bool:
        return all(parasitic_radius(k, ratio, c, e) <= 1.0 + ON_CIRCLE for c in (False, True))

    ratios = np.arange(1.01, largest, 0.01)
    first = next((r for r in ratios if not bounded(r)), None)
    if first is None:
        return largest
    low, high = first - 0.01, first
    while high - low > 5e-4:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if bounded(middle) else (low, middle)
    return float(low)
