"""Gauss methods for second-order systems.

[HW96] E. Hairer, G. Wanner, Solving Ordinary Differential Equations II, Springer 1996, IV.5, VII.4.
[W05]  L. Wunderlich, Numerical treatment of second order differential-algebraic systems (2005), chapter 6.

No stage is the end of the step: constraints that the stages satisfy do not hold there. On index 1 nothing is lost by
that, as accelerations and multipliers of the end follow from its positions and velocities (a last stage of weight 0),
and the projection onto the constraints keeps the order 2s.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dalembert.integrators.base import register
from dalembert.integrators.collocation import CollocationMethod
from dalembert.integrators.tableaus import Tableau, gauss

_INSTEAD = "Use formulation='index-1' (projected onto the constraints after every step), or Radau."


@register
@dataclass(frozen=True)
class Gauss(CollocationMethod):
    """Gauss, order 2 s in q, v and lam, on index 1; symmetric, no numerical damping.

    Parameters
    ----------
    stages
        1 to 5.

    Examples
    --------
    >>> import dalembert as da
    >>> da.Gauss(2).tableau.order
    4
    """

    stages: int = 2
    name: ClassVar[str] = "gauss"
    summary: ClassVar[str] = "Gauss collocation, 1 to 5 stages, order 2s on index 1, variable step"
    default_formulation: ClassVar[str] = "index-1"
    takes: ClassVar[frozenset[str]] = frozenset({"index-1", "baumgarte"})
    unfit: ClassVar[dict[str, str]] = {
        "index-2": "no stage is the end of the step, where the velocity constraints fail; the order of v falls from 2s "
        "to s (s even) or s+1 (s odd), that of lam to s-2 or s-1 [Hairer & Wanner, Solving ODEs II, VII.4, "
        f"Table 4.1]. {_INSTEAD}",
        "index-3": "no stage is the end of the step, where the constraints fail; the order of v falls from 2s to s-1 "
        "(s odd) or s-2 (s even), so that with one or two stages v does not converge and lam grows as h goes to 0 "
        f"(measured on Wunderlich 2005, example 2.4.7). {_INSTEAD}",
    }

    @property
    def tableau(self) -> Tableau:
        return gauss(self.count)
