"""Formulas of modified BDF: the weights of v_n and a_n, predictor and error estimates of its three variants.

[W05] L. Wunderlich, Numerical treatment of second order differential-algebraic systems, diploma thesis, TU Berlin 2005,
      chapter 3 (method idea: J. Sand).

What the variants are is told in modified_bdf.py. Angles of stability, error constants and limits for growing steps
are computed from these functions by `analysis.formulas`.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import carray, cfunc

from dalembert.numerics.compiled import COEFFICIENT_SIGNATURE, compile_cached
from dalembert.numerics.interpolation import derivative_weights, difference_weights, lagrange_weights
from dalembert.numerics.native import inner
from dalembert.numerics.runstate import (
    ESTIMATE,
    FIRST,
    GROWTH,
    HISTORY,
    N_COEFFICIENTS,
    PREDICTOR,
    REFINE,
    SECOND,
    VELOCITY,
)

HIGHEST = 6


def _series(first_terms: np.ndarray, second_terms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weights of nabla^m q, m = 0 .. 12, in h v_n and h^2 a_n for orders 0 .. 6: (7, 13) each.

    Order k needs the first terms of -log(1 - nabla) and of its square; the others are free.
    """
    exact = np.zeros(HISTORY + 1)
    exact[1:] = 1.0 / np.arange(1.0, HISTORY + 1)
    squared = np.convolve(exact, exact)
    first, second = np.zeros((2, HIGHEST + 1, HISTORY + 1))
    for k in range(1, HIGHEST + 1):
        first[k, 1 : k + 1] = exact[1 : k + 1]
        second[k, 2 : k + 2] = squared[2 : k + 2]
        if k < HIGHEST:
            second[k, : 2 * k + 1] = np.convolve(first[k, : k + 1], first[k, : k + 1])
    first[HIGHEST, HIGHEST + 1 :], second[HIGHEST, HIGHEST + 2 :] = first_terms, second_terms
    for k in range(1, HIGHEST + 1):
        if not np.allclose(second[k, : k + 2], squared[: k + 2]):
            raise ValueError(f"the formula of order {k} has another order")
    return first, second


# Free terms of order 6: nabla^7 .. nabla^12 of v_n, nabla^8 .. nabla^12 of a_n. Found by a search for a large angle of
# stability with parasitic roots below 0.78 for small steps (BDF twice of order 5: 0.71) and an error constant of 0.57.
# benchmarks/order_six.py verifies all this and has such a search.
FIRST_SERIES, SECOND_SERIES = _series(
    np.array([-0.005861, 0.005824, 0.006304, 0.005151, 0.001083, 0.000231]),
    np.array([0.075176, 0.209024, 0.219337, -0.077432, 0.062468]),
)
LEADING = np.vstack([FIRST_SERIES.sum(axis=1), SECOND_SERIES.sum(axis=1)])  # of q_n in h v_n and h^2 a_n

# Largest growth of the step for k = 0 .. 6: repeated every k+1 steps, it leaves the parasitic solutions of "regular"
# bounded. `analysis.formulas.growth_limit` computes the limits: 2.0, 1.50, 1.57, 1.43, 1.23, 1.16 for k = 1 .. 6.
GROWTH_LIMITS = np.array([2.0, 1.9, 1.4, 1.5, 1.4, 1.2, 1.15])


def _regular(k, available, nodes_address, orders_address, out_address):  # type: ignore[no-untyped-def]
    nodes = carray(nodes_address, (HISTORY + 1,), np.float64)
    out = carray(out_address, (N_COEFFICIENTS,), np.float64)
    out[:] = 0.0
    h = nodes[0] - nodes[1]
    if h == 0.0:
        return 1
    for m in range(1, HISTORY + 1):  # sums of weights times nabla^m q, and what makes v that of BDF_{k+1}
        d, e = FIRST_SERIES[k, m] / h, SECOND_SERIES[k, m] / h**2
        refine = (1.0 / (m * h) if m <= k + 1 else 0.0) - d
        binomial = 1.0
        for i in range(m + 1):
            if i == 0:
                out[0] += d
                out[1] += e
            else:
                out[FIRST + i - 1] += binomial * d
                out[SECOND + i - 1] += binomial * e
            out[REFINE + i] += binomial * refine
            binomial *= -(m - i) / (i + 1.0)
    binomial = 1.0  # predictor of degree k+1: the new point makes nabla^(k+2) q vanish
    for i in range(1, k + 3):
        binomial *= -(k + 3.0 - i) / i
        out[PREDICTOR + i - 1] = -binomial
    for which in range(3):
        j = k - 1 + which
        if j < 1 or j > HIGHEST:
            continue
        # error of a_n by BDF twice: 2/(j+1) nabla^(j+2) q / h^2; a step adds h times as much to v, and divided by the
        # leading coefficient it is the error of q_n. Order 6 is taken to be one of them: its constant is twice as large
        scale = 2.0 / (j + 1.0) / LEADING[1, j]
        binomial = 1.0
        for i in range(j + 3):
            out[ESTIMATE + which * (HISTORY + 1) + i] = scale * binomial
            binomial *= -(j + 2.0 - i) / (i + 1.0)
        out[VELOCITY + which] = LEADING[1, j] / h
    out[GROWTH] = GROWTH_LIMITS[k]
    return 0


@inner
def shared(k, available, nodes, out):  # type: ignore[no-untyped-def]
    """Predictor and error estimates, for both variants."""
    t = nodes[0]
    lagrange_weights(t, nodes, 1, min(k + 2, available), out[PREDICTOR:])
    for which in range(3):
        j = k - 1 + which
        if j < 1 or j + 2 > available:
            continue
        # error of a_n: q[t_n, ..., t_{n-j-2}] 2 prod tau sum 1/tau over the nodes 1 .. j+1; divided by the leading
        # coefficient 2 sum_{a<b} 1/(tau_a tau_b) it is that of q_n, times sum 1/tau that of v_n
        start = ESTIMATE + which * (HISTORY + 1)
        difference_weights(nodes, j + 3, out[start:])
        product, s1, s2 = 1.0, 0.0, 0.0
        for i in range(1, j + 2):
            tau = t - nodes[i]
            product *= tau
            s2 += s1 / tau
            s1 += 1.0 / tau
        for i in range(j + 3):
            out[start + i] *= product * s1 / s2
        out[VELOCITY + which] = s1


def _interpolant(k, available, nodes_address, orders_address, out_address):  # type: ignore[no-untyped-def]
    nodes = carray(nodes_address, (HISTORY + 1,), np.float64)
    out = carray(out_address, (N_COEFFICIENTS,), np.float64)
    out[:] = 0.0
    first, second = np.zeros(HISTORY + 1), np.zeros(HISTORY + 1)
    derivative_weights(nodes, k + 2, first, second)
    out[0], out[1] = first[0], second[0]
    for i in range(1, k + 2):
        out[FIRST + i - 1] = first[i]
        out[SECOND + i - 1] = second[i]
    shared(k, available, nodes, out)
    return 0


def _thesis(k, available, nodes_address, orders_address, out_address):  # type: ignore[no-untyped-def]
    nodes = carray(nodes_address, (HISTORY + 1,), np.float64)
    orders = carray(orders_address, (HISTORY + 1,), np.int64)
    out = carray(out_address, (N_COEFFICIENTS,), np.float64)
    out[:] = 0.0
    first, second = np.zeros(HISTORY + 1), np.zeros(HISTORY + 1)
    derivative_weights(nodes, k + 1, first, second)
    out[0] = first[0]
    for i in range(1, k + 1):
        out[FIRST + i - 1] = first[i]
    # weights b of a_n = sum_j b_j v_{n-j}: sum_j b_j V[p, j] = 2 for p = 2, else 0
    scale = nodes[0] - nodes[k]
    tau = (nodes - nodes[0]) / scale
    V = np.zeros((k + 1, k + 2))
    V[1, k + 1] = 2.0
    for j in range(k + 1):
        made_by = orders[j]
        for p in range(1, k + 2):
            if made_by >= p:
                V[p - 1, j] = p * tau[j] ** (p - 1)
            else:  # what BDF of that order makes of tau^p
                derivative_weights(tau[j:], made_by + 1, first, second)
                total = 0.0
                for i in range(made_by + 1):
                    total += first[i] * tau[j + i] ** p
                V[p - 1, j] = total
    for column in range(k + 1):  # Gauss with row pivoting
        pivot = column
        for i in range(column + 1, k + 1):
            if abs(V[i, column]) > abs(V[pivot, column]):
                pivot = i
        if abs(V[pivot, column]) < 1e-12:
            return 1  # a pole of the coefficients
        for i in range(column, k + 2):
            V[column, i], V[pivot, i] = V[pivot, i], V[column, i]
        for i in range(k + 1):
            if i != column:
                factor = V[i, column] / V[column, column]
                for m in range(column, k + 2):
                    V[i, m] -= factor * V[column, m]
    out[1] = V[0, k + 1] / V[0, 0] / scale
    for j in range(1, k + 1):
        out[SECOND + j - 1] = V[j, k + 1] / V[j, j] / scale
    shared(k, available, nodes, out)
    return 0


@cache
def _compiled(variant: str) -> Any:
    functions = {"regular": _regular, "interpolant": _interpolant, "thesis": _thesis}
    return compile_cached(cfunc, COEFFICIENT_SIGNATURE, functions[variant])


def coefficient_address(variant: str) -> int:
    """Address of the coefficient function of a variant, see `Integrator.coefficient_function`."""
    return int(_compiled(variant).address)
