"""Lobatto methods for second-order systems.

[HW96] E. Hairer, G. Wanner, Solving Ordinary Differential Equations II, Springer 1996, IV.5, VII.4, VII.6.
[J96]  L. O. Jay, Symplectic partitioned Runge-Kutta methods for constrained Hamiltonian systems, SIAM J. Numer. Anal.
       33 (1996) 368-387.

IIIC: stiffly accurate with an invertible A, for all levels of the constraints. IIIA: collocation, symmetric; its first
stage is the old state, so A is singular and the stages cannot be asked to satisfy constraints on positions or
velocities ([J96] pairs it with IIIB for that): index 1 only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from dalembert.integrators.base import register
from dalembert.integrators.collocation import CollocationMethod
from dalembert.integrators.tableaus import Tableau, lobatto_iiia, lobatto_iiic
from dalembert.status import OptionError

_FAMILIES = {"IIIC": lobatto_iiic, "IIIA": lobatto_iiia}


@register
@dataclass(frozen=True)
class Lobatto(CollocationMethod):
    """Lobatto IIIC or IIIA, order 2 s - 2.

    Parameters
    ----------
    stages
        2 to 5.
    family
        "IIIC" (default; damps, all formulations; on index 3 v has order s - 1, lam s - 2 if not projected) or "IIIA"
        (symmetric, no damping, index 1).

    Examples
    --------
    >>> import dalembert as da
    >>> da.Lobatto(3, family="IIIA").describe()
    'lobatto IIIA (3 stages)'
    """

    stages: int = 3
    family: Literal["IIIC", "IIIA"] = "IIIC"
    name: ClassVar[str] = "lobatto"
    summary: ClassVar[str] = "Lobatto IIIC (all forms) or IIIA (index 1), 2 to 5 stages, variable step"
    takes: ClassVar[frozenset[str]] = frozenset({
        "index-1", "index-2", "stabilized-index-2", "index-3", "baumgarte"
    })  # fmt: skip
    fewest: ClassVar[int] = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.family not in _FAMILIES:
            raise OptionError(f"Lobatto(family={self.family!r}): choose 'IIIC' or 'IIIA'.")

    @property
    def default_formulation(self) -> str:  # type: ignore[override]
        return "index-3" if self.family == "IIIC" else "index-1"

    @property
    def unfit(self) -> dict[str, str]:  # type: ignore[override]
        if self.family == "IIIC":
            return {}
        why = (
            "its first stage is the old state, which no unknown of the step can move onto a constraint (A is singular)."
            " Use formulation='index-1', or family='IIIC'."
        )
        return dict.fromkeys(("index-2", "stabilized-index-2", "index-3"), why)

    @property
    def equations_key(self) -> tuple[Any, ...]:
        return (*super().equations_key, self.family)

    @property
    def tableau(self) -> Tableau:
        return _FAMILIES[self.family](self.count)

    def describe(self) -> str:
        return super().describe().replace("lobatto", f"lobatto {self.family}")
