"""Step size and order control: the one controller of the package.

After an accepted step of order k the local errors of orders k-1, k and k+1 are known; the order that allows the
largest next step is taken, with a bias towards staying (Hindmarsh et al., SUNDIALS, ACM TOMS 31 (2005) 363-396).
"""

from __future__ import annotations

import numpy as np

from dalembert.numerics.native import inner

# h_new = h (BIAS err)^(-1/(k+1))
BIAS_DOWN, BIAS_SAME, BIAS_UP = 8.0, 8.0, 12.0
GROW_LIMIT = 2.0  # largest increase of the step
GROW_LEAST = 1.1  # smaller increases are not worth a change of the coefficients
SHRINK_LIMIT = 0.2
RETRY_SAFETY = 0.9
NEWTON_SHRINK = 0.25


@inner
def weighted_norm(e, weights, first, n):  # type: ignore[no-untyped-def]
    """Root mean square of e_i weights_i over the components with positive weight."""
    total = 0.0
    count = 0
    for i in range(n):
        if weights[first + i] > 0.0:
            x = e[i] * weights[first + i]
            total += x * x
            count += 1
    return np.sqrt(total / count) if count > 0 else 0.0


@inner
def factor_for(error, order, bias):  # type: ignore[no-untyped-def]
    """Ratio of the next step to this one if the step is to have error 1/bias at this order."""
    return 1.0 / ((bias * error) ** (1.0 / (order + 1)) + 1e-6)
