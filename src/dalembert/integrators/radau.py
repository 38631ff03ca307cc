"""Radau IIA methods for second-order systems.

[HW96] E. Hairer, G. Wanner, Solving Ordinary Differential Equations II, Springer 1996, IV.5, IV.8, VII.4, VII.6.
[W05]  L. Wunderlich, Numerical treatment of second order differential-algebraic systems (2005), chapter 6.

Stiffly accurate: the last stage is the end of the step, so constraints that the stages satisfy hold there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dalembert.formulations.base import Formulation
from dalembert.integrators.base import TIGHT, register
from dalembert.integrators.collocation import MOST_STAGES, CollocationMethod
from dalembert.integrators.tableaus import Tableau, radau_iia
from dalembert.spaces import Space


@register
@dataclass(frozen=True)
class Radau(CollocationMethod):
    """Radau IIA, order 2 s - 1 in q and v, and in lam on index 1 (lam of order s on index 2).

    On index 3 steps have v of order s and lam of s - 1, on stabilized index 2 (GGL) lam of order s; projected along
    M^-1 G^T, as they are by default, all have order 2 s - 1. Vibrations that are faster than the steps are damped; the
    error estimate of the index-3 form hardly sees them, that of index 2 and index 1 follows those larger than the
    tolerance.

    Parameters
    ----------
    stages
        1 to 5. None (default): 3, and 5 for automatic steps on a group at tolerances up to 1e-8.

    Examples
    --------
    >>> import dalembert as da
    >>> da.Radau(3).describe()
    'radau (3 stages)'
    """

    stages: int | None = None
    name: ClassVar[str] = "radau"
    summary: ClassVar[str] = "Radau IIA collocation, 1 to 5 stages, variable step"
    takes: ClassVar[frozenset[str]] = frozenset({
        "index-1", "index-2", "stabilized-index-2", "index-3", "baumgarte"
    })  # fmt: skip

    def __post_init__(self) -> None:
        if self.stages is not None:
            super().__post_init__()

    @property
    def tableau(self) -> Tableau:
        return radau_iia(self.count)

    def for_space(self, space: Space, formulation: Formulation, tolerance: float) -> Radau:
        # a turning body needs short steps of order 5: 9,000 where 600 of order 9 do
        fit = tolerance <= TIGHT and not space.flat
        return Radau(stages=MOST_STAGES) if fit and self.stages is None else self
