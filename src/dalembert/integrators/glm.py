"""General linear methods by name: Runge-Kutta, BDF, and the family between them.

[W05]  L. Wunderlich, Numerical treatment of second order differential-algebraic systems (2005), (6.15), appendix A.
[HW96] E. Hairer, G. Wanner, Solving Ordinary Differential Equations II, Springer 1996, V.3 (multistep collocation).

>>> import dalembert as da
>>> method = da.GeneralLinear(da.glm.multistep_radau(steps=2, stages=2))
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from scipy.optimize import root

from dalembert.integrators.glm_tableaus import Tableau, as_external, monomial
from dalembert.integrators.tableaus import radau_nodes
from dalembert.status import OptionError

__all__ = [
    "Tableau",
    "from_bdf",
    "from_runge_kutta",
    "multistep_collocation",
    "multistep_radau",
    "second_order_collocation",
]


def from_runge_kutta(A: Any, b: Any, c: Any, order: int | None = None, name: str = "Runge-Kutta") -> Tableau:
    """A Runge-Kutta method as [W05, (A.18)], that is (6.15): V from q'' by the method, Q from V by the method.

    Parameters
    ----------
    A, b, c
        (s, s), (s,), (s,).
    order
        Stage order that is claimed, the largest there is if it is left out: it bounds the order on index 3.
    """
    A, b, c = (np.array(x, dtype=float) for x in (A, b, c))
    one = np.ones((c.size, 1))
    given = {"A": [[1]], "B": [[1]], "D": b @ A, "E": [[1]], "F": b, "At": one, "Bt": c[:, None], "Dt": A @ A,
             "Et": one, "Ft": A}  # fmt: skip
    if order is not None:
        return Tableau.from_blocks(name, order, c, **given)
    found = Tableau.from_blocks(name, 1, c, **given)
    while True:
        try:
            found = Tableau.from_blocks(name, found.order + 1, c, **given)
        except OptionError:
            return found


def from_bdf(k: int, form: Literal["twice", "interpolant"] = "twice") -> Tableau:
    """BDF of order k for second-order systems.

    Parameters
    ----------
    k
        1 to 6 ("twice"), 1 to 5 ("interpolant").
    form
        "twice": BDF for q' = v and for v' = a (what `BDF` does on index 3 with a constant step). "interpolant":
        v_n = p'(t_n), a_n = p''(t_n) for the polynomial p through q_n, ..., q_{n-k-1} (`ModifiedBDF`).
    """
    largest = {"twice": 6, "interpolant": 5}
    if form not in largest:
        raise OptionError(f"from_bdf(form={form!r}): choose twice or interpolant.")
    if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= largest[form]:
        raise OptionError(f"from_bdf(k={k!r}, form={form!r}): give an order from 1 to {largest[form]}.")
    if form == "twice":
        return multistep_collocation(k, [1.0], f"BDF of order {k}, twice")
    positions = [(0, -j) for j in range(k + 1)]
    return second_order_collocation(positions, [1.0], f"BDF of order {k}, interpolant")


def multistep_collocation(steps: int, c: Any, name: str | None = None) -> Tableau:
    """Collocation of q' on k past values and s stages, and the same formula for q [HW96, V.3].

    The polynomial u of degree k+s-1 has u(t_n - j h) = v_{n-j} (j < k) and u'(t_n + c_i h) = A_i; stage velocities are
    its values. Positions follow from stage velocities by the same formula, as in [W05, (6.15)]. With one step it is
    a Runge-Kutta method, with one stage c = 1 it is BDF. Stage order k+s-1.

    Parameters
    ----------
    steps
        Past values k >= 1.
    c
        (s,) stage times, the last one 1.
    """
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
        raise OptionError(f"multistep_collocation(steps={steps!r}): give a whole number >= 1.")
    c = _stage_times("multistep_collocation", c)
    k, s = steps, c.size
    Et, Ft = _first_order(k, c)
    zero, shift = np.zeros((k - 1, s)), np.eye(k - 1, k)
    A = np.vstack([Et[-1], shift])
    return Tableau.from_blocks(
        name or f"collocation, {k} steps, {s} stages", k + s - 1, c,
        A=A, B=np.vstack([(Ft @ Et)[-1], np.zeros((k - 1, k))]), D=np.vstack([(Ft @ Ft)[-1], zero]),
        E=A, F=np.vstack([Ft[-1], zero]), At=Et, Bt=Ft @ Et, Dt=Ft @ Ft, Et=Et, Ft=Ft,
    )  # fmt: skip


def multistep_radau(steps: int, stages: int) -> Tableau:
    """Multistep collocation at the times that give order k + 2s - 2 for ODEs, the last one 1 [HW96, V.3].

    With one step this is Radau IIA, with one stage BDF.
    """
    for what, value in (("steps", steps), ("stages", stages)):
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 5:
            raise OptionError(f"multistep_radau({what}={value!r}): give a whole number from 1 to 5.")
    k, s = steps, stages
    name = f"multistep Radau, {k} step{'s' * (k > 1)}, {s} stage{'s' * (s > 1)}"

    def missed(inner: np.ndarray) -> np.ndarray:
        """Conditions of degrees k+s, ..., k+2s-2 for v_{n+1}, s-1 of them."""
        c = np.append(inner, 1.0)
        Et, Ft = _first_order(k, c)
        past, degrees = -np.arange(k, dtype=float), np.arange(k + s, k + 2 * s - 1)
        return np.array([Et[-1] @ past**m + Ft[-1] @ (m * c ** (m - 1)) - 1.0 for m in degrees])

    c = radau_nodes(s)
    if s > 1 and k > 1:
        found = root(missed, c[:-1], tol=1e-15)
        if np.abs(missed(found.x)).max() > 1e-11 or not np.all(np.diff([0.0, *found.x, 1.0]) > 1e-3):
            raise OptionError(f"multistep_radau(steps={k}, stages={s}): the stage times were not found.")
        c = np.append(found.x, 1.0)
    return multistep_collocation(k, c, name)


def second_order_collocation(external: Any, c: Any, name: str | None = None) -> Tableau:
    """Collocation of q itself: one polynomial through all external values, with q''(t_n + c_i h) = A_i.

    Parameters
    ----------
    external
        r pairs (derivative, offset): what the polynomial has to match. Position and velocity at t_n are carried along
        if they are not among them. Order r+s-2.
    c
        (s,) stage times, the last one 1.

    Examples
    --------
    >>> import dalembert as da
    >>> da.glm.second_order_collocation([(0, 0), (0, -1), (1, 0)], [0.5, 1]).order
    3
    """
    c = _stage_times("second_order_collocation", c)
    given = list(as_external("second-order collocation", external))
    everything = given + [pair for pair in ((0, 0.0), (1, 0.0)) if pair not in given]
    r, s, n = len(given), c.size, len(given) + c.size
    conditions = np.array(
        [[float(monomial(m, d, np.array(tau))) for m in range(n)] for d, tau in given]
        + [[float(monomial(m, 2, np.array(x))) for m in range(n)] for x in c]
    )
    if np.linalg.cond(conditions) > 1e12:
        raise OptionError(f"external={given}, c={c.tolist()}: no polynomial of degree {n - 1} is determined by these.")

    def read(derivative: int, x: Any) -> np.ndarray:
        """Weights (n,) of the values given in a derivative of the polynomial at x."""
        return np.linalg.solve(conditions.T, [float(monomial(m, derivative, np.array(x))) for m in range(n)])

    def spread(weights: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        w = np.array(weights)
        return np.hstack([w[:, :r], np.zeros((len(w), len(everything) - r))]), w[:, r:]

    q_past, q_stages = spread([read(0, x) for x in c])
    v_past, v_stages = spread([read(1, x) for x in c])
    y_past, y_stages = np.zeros((len(everything), len(everything))), np.zeros((len(everything), s))
    for i, (d, tau) in enumerate(everything):
        if (d, tau + 1.0) in everything:  # a past value that was there one step before
            y_past[i, everything.index((d, tau + 1.0))] = 1.0
        else:
            past, stages = spread([read(d, tau + 1.0)])
            y_past[i], y_stages[i] = past[0], stages[0]
    return Tableau(
        name or f"second-order collocation, {r} values, {s} stages", n - 2, c, everything, q_past, q_stages, v_past,
        v_stages, y_past, y_stages,
    )  # fmt: skip


def _first_order(k: int, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weights (s, k) of past values and (s, s) of stage derivatives in the stage values."""
    degrees = np.arange(k + c.size)
    values = (-np.arange(k, dtype=float))[:, None] ** degrees
    slopes = np.array([monomial(int(m), 1, c) for m in degrees]).T
    weights = np.linalg.solve(np.vstack([values, slopes]).T, (c[:, None] ** degrees).T).T
    return weights[:, :k], weights[:, k:]


def _stage_times(owner: str, c: Any) -> np.ndarray:
    try:
        x = np.array(c, dtype=float)
    except (TypeError, ValueError):
        raise OptionError(f"{owner}(c={c!r}): give a list of stage times.") from None
    if x.ndim != 1 or x.size == 0 or not np.all(np.isfinite(x)) or len(set(x.tolist())) < x.size:
        raise OptionError(f"{owner}(c={c!r}): give different finite stage times.")
    if x[-1] != 1.0:
        raise OptionError(f"{owner}(c={c!r}): the last stage time must be 1, the end of the step.")
    return x
