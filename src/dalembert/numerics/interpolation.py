"""Polynomials through nodes: weights for values, derivatives and divided differences."""

from __future__ import annotations

from dalembert.numerics.native import inner


@inner
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
