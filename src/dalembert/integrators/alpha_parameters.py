"""Parameters of the generalized-alpha family, validated when built.

[CH93]  J. Chung, G. M. Hulbert, A time integration algorithm for structural dynamics with improved numerical
        dissipation: the generalized-alpha method, J. Appl. Mech. 60 (1993) 371-375.
[HHT77] H. Hilber, T. Hughes, R. Taylor, Improved numerical dissipation for time integration algorithms in structural
        dynamics, Earthquake Eng. Struct. Dyn. 5 (1977) 283-292.
[N59]   N. Newmark, A method of computation for structural dynamics, ASCE J. Eng. Mech. Div. 85 (1959) 67-94.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from dalembert.status import OptionError

ROUNDING = 1e-12


@dataclass(frozen=True)
class AlphaParameters:
    """alpha_m, alpha_f and Newmark's beta and gamma of a method that damps and does not grow.

    Examples
    --------
    >>> AlphaParameters.chung_hulbert(0.9).order
    2
    """

    alpha_m: float
    alpha_f: float
    nm_beta: float
    nm_gamma: float

    def __post_init__(self) -> None:
        m, f, beta, gamma = self.alpha_m, self.alpha_f, self.nm_beta, self.nm_gamma
        for name in ("alpha_m", "alpha_f", "nm_beta", "nm_gamma"):
            number(name, getattr(self, name))
        # unconditionally stable [CH93, (18)], [HHT77]; beyond it constraints make the method unstable at every step
        if not m <= f + ROUNDING or not f <= 0.5 + ROUNDING:
            raise OptionError(f"alpha_m={m:g}, alpha_f={f:g} are unstable: alpha_m <= alpha_f <= 1/2 is needed.")
        least = 0.5 + f - m
        if not gamma >= least - ROUNDING:
            raise OptionError(f"nm_gamma={gamma:g} is unstable: take at least 1/2 + alpha_f - alpha_m = {least:g}.")
        least = 0.25 + 0.5 * (f - m) if self.order == 2 else 0.5 * gamma
        if not beta >= least - ROUNDING:
            raise OptionError(f"nm_beta={beta:g} is unstable with the other parameters: take at least {least:g}.")

    @property
    def shift(self) -> float:
        """Delta = alpha_m - alpha_f: the auxiliary acceleration a_n approximates v'(t_n + Delta h)."""
        return self.alpha_m - self.alpha_f

    @property
    def order(self) -> int:
        """2 if gamma = 1/2 + alpha_f - alpha_m [CH93, (17)], else 1."""
        return 2 if abs(self.nm_gamma - 0.5 + self.shift) <= ROUNDING else 1

    @property
    def position_error(self) -> float:
        """C with the local error C h^3 v'' of positions, exact minus numerical, on a flat space."""
        return 1.0 / 6.0 - self.nm_beta - 0.5 * self.shift

    @property
    def velocity_error(self) -> float:
        """C with the local error C h^3 v''' of velocities, exact minus numerical.

        The recursion of a_n keeps a_n = v' + Delta h v'' + kappa h^2 v''' with kappa = Delta (alpha_m - 1/2).
        """
        return self.shift**2 - self.shift * (self.alpha_m - 0.5) - 1.0 / 12.0

    @property
    def radius(self) -> float:
        """Spectral radius for h omega -> infinity, which is that of the errors across the constraints of index 3.

        The roots are -alpha_f / (1 - alpha_f) and those of beta r^2 + (gamma + 1/2 - 2 beta) r + (beta - gamma + 1/2).
        """
        half = (self.nm_gamma + 0.5 - 2 * self.nm_beta) / (2 * self.nm_beta)
        product = (self.nm_beta - self.nm_gamma + 0.5) / self.nm_beta
        discriminant = half**2 - product
        if abs(discriminant) < 1e-14:  # a double root: rounding would split it by 1e-8
            discriminant = 0.0
        root = abs(half) + math.sqrt(discriminant) if discriminant >= 0 else math.sqrt(product)
        return max(root, abs(self.alpha_f / (1 - self.alpha_f)))

    @staticmethod
    def chung_hulbert(rho: float) -> AlphaParameters:
        """The most damping at high frequencies, factor ``rho`` a step, for the least at low ones [CH93, (25), (26)]."""
        alpha_m, alpha_f = (2 * rho - 1) / (rho + 1), rho / (rho + 1)
        return AlphaParameters.second_order(alpha_m, alpha_f)

    @staticmethod
    def second_order(alpha_m: float, alpha_f: float, nm_beta: float | None = None) -> AlphaParameters:
        """With gamma = 1/2 + alpha_f - alpha_m and beta = (1 + alpha_f - alpha_m)^2 / 4 [CH93, (17), (20)]."""
        delta = alpha_f - alpha_m
        return AlphaParameters(alpha_m, alpha_f, (1 + delta) ** 2 / 4 if nm_beta is None else nm_beta, 0.5 + delta)


def number(name: str, value: Any) -> float:
    """A finite number, or a refusal."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise OptionError(f"{name}={value!r}: give a finite number.")
    return float(value)
