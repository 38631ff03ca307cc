"""Radau IIA methods for second-order systems.

[HW96] E. Hairer, G. Wanner, Solving Ordinary Differential Equations II, Springer 1996, IV.5, IV.8, VII.4.
[W05]  L. Wunderlich, Numerical treatment of second order differential-algebraic systems (2005), chapter 6.

Stiffly accurate: the last stage is the end of the step, so constraints that the stages satisfy hold there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dalembert.integrators.base import register
from dalembert.integrators.collocation import CollocationMethod
from dalembert.integrators.tableaus import Collocation, collocation, radau_nodes
from dalembert.status import OptionError


@register
@dataclass(frozen=True)
class Radau(CollocationMethod):
    """Radau IIA with 1 to 5 stages, order 2 s - 1 for ODEs.

    Parameters
    ----------
    stages
        1 to 5.
    """

    stages: int = 3
    name: ClassVar[str] = "radau"
    summary: ClassVar[str] = "Radau IIA collocation, 1 to 5 stages, variable step"

    def __post_init__(self) -> None:
        if isinstance(self.stages, bool) or not isinstance(self.stages, int) or not 1 <= self.stages <= 5:
            raise OptionError(f"Radau(stages={self.stages!r}): give 1 to 5 stages.")

    @property
    def tableau(self) -> Collocation:
        return collocation(radau_nodes(self.stages), 2 * self.stages - 1)
