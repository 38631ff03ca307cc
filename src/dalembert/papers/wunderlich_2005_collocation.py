"""Wunderlich 2005, chapter 6: lam as a second-order variable of the collocation, and what its derivative is worth.

[W05] L. Wunderlich, Numerical treatment of second order differential-algebraic systems, diploma thesis, TU Berlin 2005.
[HW96] E. Hairer, G. Wanner, Solving Ordinary Differential Equations II, Springer 1996, VII.6.

[W05, (6.25)] treats lam as it treats q: the unknowns are L''_j, and with c = A 1

    L_i = lam_n + c_i h lam'_n + h^2 sum_j (A A)_ij L''_j,    lam'_{n+1} = lam'_n + h sum_j b_j L''_j.

With L'_i = lam'_n + h sum_j A_ij L''_j the first line is L = lam_n + h A L'; A is regular: L' = A^-1 (L - lam_n) / h.
Where the last stage is the end of the step (b is the last row of A: Radau IIA), lam_{n+1} = L_s and lam'_{n+1} = L'_s:

    lam'_{n+1} = sum_j (A^-1)_sj (L_j - lam_n) / h    (two stages: (2 lam_n - 9/2 L_1 + 5/2 L_2) / h),

the slope at the end of the parabola through lam_n, L_1, L_2. The stage multipliers L_j follow from the constraints, so
that lam' has no memory: neither lam'_n nor a start value, which [W05, (8.2)] does not give, has any influence on it, or
it on the motion. It is computed here from the unknowns of our step, the accelerations and multipliers of the stages.

Its order. Two-stage Radau IIA satisfies A c = c^2/2, but A A c = c^3/6 in the last stage only; d = c^3/6 - A A c =
(2/81, 0). Stages on the constraint need G (h c dv + h^2 A A dA) = d h^3 G q''' for the errors dv and dA of the old
velocity and of the stage accelerations across the constraint; dv_{n+1} = dv + h b dA then is -h^2/9 in every step (in
units of q''' there), and dA = h (2/9, -2/3). As G^T dL = -dA, with z = (G G^T)^-1 G q''' (M = 1)

    dL = (-2/9, 2/3) h z,    lam_n - lam = 2/3 h z,    lam'_n - lam' = (2 * 2/3 + 9/2 * 2/9 + 5/2 * 2/3) z = 4 z:

order 1 of lam [HW96, VII.6], and lam' does not converge. Where G q''' = 0, as in the steady motion on a circle of
example 8.1.1, both gain an order: 2 and 1.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import casadi as ca
import numpy as np

from dalembert.formulations.base import Formulation, Unknown
from dalembert.integrators.base import StepData, StepEquations
from dalembert.integrators.radau import Radau
from dalembert.integrators.stages import past_row, split_stages
from dalembert.model.point import Environment
from dalembert.model.system import System
from dalembert.numerics.layout import Layout
from dalembert.papers.base import Row, entry
from dalembert.papers.wunderlich_2005_runs import CIRCLE, INDEX_3, STEADY, integrate
from dalembert.problems.base import problems

SPAN = 0.5
COUNTS = (40, 80)
EXACT = {CIRCLE: lambda t: 8 * t, STEADY: lambda t: np.cos(2 * t)}  # lam' of 4 t^2 and of sin t cos t
EXPECTED = {CIRCLE: 0, STEADY: 1}  # see the head


class RadauWithRate(Radau):
    """Radau IIA that also leaves lam' of [W05, (6.25a)] in its row: ``sol.extra["lam_dot"]``, (nt, nlam).

    Examples
    --------
    >>> sol = integrate("particle-8.1.1", RadauWithRate(2), 0.5, h=0.01, formulation="index-3", projection=None)
    >>> bool(abs(sol.extra["lam_dot"][-1, 0] - np.cos(1.0)) < 0.02)
    True
    """

    def carried(self, system: System, formulation: Formulation) -> list[Unknown]:
        rate = Unknown("lam_dot", system.nlam, False, controlled=False)  # zero at the start: nothing reads it
        return [*super().carried(system, formulation), rate]

    def equations(
        self, formulation: Formulation, env: Environment, layout: Layout, x: ca.SX, data: StepData
    ) -> StepEquations:
        step = super().equations(formulation, env, layout, x, data)
        old, stage = past_row(layout, data.first), split_stages(env.system, x, self.count)
        last = np.linalg.inv(self.tableau.A)[-1]
        assert step.update is not None
        row = ca.SX(step.update)
        change = [float(w) * (z["lam"] - old["lam"]) for w, z in zip(last, stage, strict=True)]
        row[layout.slice("lam_dot")] = sum(change) / data.h
        return replace(step, update=ca.densify(row))


@cache
def rate_error(name: str, n: int) -> float:
    """Largest error of lam' in the second half of n equal steps."""
    t0 = problems()[name].t_span[0]
    sol = integrate(name, RadauWithRate(2), t0 + SPAN, h=[SPAN / n] * n, **INDEX_3)
    return float(np.abs(sol.extra["lam_dot"][:, 0] - EXACT[name](sol.t))[n // 2 :].max())


def orders_of_the_rate() -> list[Row]:
    """Observed orders of lam' beside those derived at the head."""
    rows = []
    for name, expected in EXPECTED.items():
        coarse, fine = (rate_error(name, n) for n in COUNTS)
        slope = float(np.log(coarse / fine) / np.log(COUNTS[1] / COUNTS[0]))
        row = {"method": "Radau IIA, 2 stages", "problem": name}
        note = f"slope within 0.3 of {expected}, as derived from the stage order; no number in the thesis"
        rows.append(entry("6.25", row, "order of lam_dot", None, slope, abs(slope - expected) <= 0.3, note))
    return rows
