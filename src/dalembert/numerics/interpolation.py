"""Polynomials through nodes: weights for values, derivatives and divided differences."""

from __future__ import annotations

from dalembert.numerics.native import entry, inner


@entry
def lagrange_weights(t, nodes, first, count, out):  # type: ignore[no-untyped-def]
    """out[i]: weight of node first+i in the value at t of the polynomial through ``count`` nodes."""
    for i in range(count):
        x = nodes[first + i]
        weight = 1.0
        for j in range(count):
            if j != i:
                weight *= (t - nodes[first + j]) / (x - nodes[first + j])
        out[i] = weight


@inner
def difference_weights(nodes, count, out):  # type: ignore[no-untyped-def]
    """out[i]: weight of node i in the divided difference over the first ``count`` nodes."""
    for i in range(count):
        product = 1.0
        for j in range(count):
            if j != i:
                product *= nodes[i] - nodes[j]
        out[i] = 1.0 / product


@inner
def derivative_weights(nodes, count, first, second):  # type: ignore[no-untyped-def]
    """Weights of the nodes 0 .. count-1 in the first and second derivative, at nodes[0], of their polynomial.

    The Lagrange polynomial of node i > 0 is l_i = (x - x0)/(x_i - x0) prod_{m != i} (x - x_m)/(x_i - x_m) = (x - x0) s,
    so that l_i' = s and l_i'' = 2 s' at x0; node 0 follows because the derivatives of a constant vanish.
    """
    x0 = nodes[0]
    first[0], second[0] = 0.0, 0.0
    for i in range(1, count):
        slope = 1.0 / (nodes[i] - x0)
        curvature = 0.0
        for m in range(1, count):
            if m != i:
                slope *= (x0 - nodes[m]) / (nodes[i] - nodes[m])
                curvature += 1.0 / (x0 - nodes[m])
        first[i] = slope
        second[i] = 2.0 * slope * curvature
        first[0] -= slope
        second[0] -= second[i]


@inner
def stored_points(orders, last):  # type: ignore[no-untyped-def]
    """First and number of the stored points whose polynomial serves up to point ``last``.

    Order k: the last k+1 points. Order -m: seed m of a run that began, or began anew, with points of another method;
    these and the point before them lie on one polynomial.
    """
    if orders[last] >= 0:
        count = min(orders[last], last) + 1
        return last - count + 1, count
    first, count = last + orders[last], 1
    while first + count < orders.size and orders[first + count] == -count:
        count += 1
    return first, count
