"""Coefficients of general linear methods for second-order systems: data, checked when built.

[W05] L. Wunderlich, Numerical treatment of second order differential-algebraic systems (2005), appendix A.
[S97] S. Schneider, Convergence of general linear methods on differential-algebraic systems of index 3, BIT 37 (1997).
[HNW] E. Hairer, S. Norsett, G. Wanner, Solving Ordinary Differential Equations I, Springer 1993, III.10.

External vector y, entry j standing for h^d_j q^(d_j)(t_n + tau_j h) (the correct value function of [W05, A]);
stage accelerations A_j at t_n + c_j h:

    Q_i   = sum_j q_past_ij y_j + h^2 sum_j q_stages_ij A_j         stage positions
    h V_i = sum_j v_past_ij y_j + h^2 sum_j v_stages_ij A_j         stage velocities
    y+_i  = sum_j y_past_ij y_j + h^2 sum_j y_stages_ij A_j         the external vector one step later

[W05, (A.17)] is the case of k positions and k velocities in which velocities do not depend on past positions
(`Tableau.from_blocks`); without that restriction formulas like q'' = p''(t_n) are contained as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dalembert.integrators.powers import power_bounded, spectral_radius
from dalembert.status import OptionError

KINDS = ("position", "velocity", "acceleration")
MATRICES = ("q_past", "q_stages", "v_past", "v_stages", "y_past", "y_stages")
TOLERANCE = 1e-9  # of order conditions, relative to the sum of the magnitudes of their terms
LONGEST = 10  # steps that an external vector may look back: past rows are kept for a few more


@dataclass(frozen=True, eq=False, repr=False)
class Tableau:
    """A general linear method with s stages and r external quantities.

    Parameters
    ----------
    name
        For people.
    order
        Order p that is claimed: position formulas exact for q of degree p, velocity and acceleration formulas for q'
        of degree p.
    c
        (s,) stage times in steps from t_n.
    external
        r pairs (derivative 0, 1 or 2; offset <= 0 in steps): what the entries of the external vector stand for. Must
        contain (0, 0) and (1, 0), position and velocity at t_n.
    q_past, q_stages
        (s, r) and (s, s): stage positions.
    v_past, v_stages
        (s, r) and (s, s): stage velocities, times h.
    y_past, y_stages
        (r, r) and (r, s): the external vector one step later.

    Examples
    --------
    Backward Euler: V = v + h A, Q = q + h V.

    >>> import dalembert as da
    >>> euler = da.glm.Tableau(
    ...     "Euler", order=1, c=[1], external=[(0, 0), (1, 0)], q_past=[[1, 1]], q_stages=[[1]], v_past=[[0, 1]],
    ...     v_stages=[[1]], y_past=[[1, 1], [0, 1]], y_stages=[[1], [1]],
    ... )
    >>> euler.radius_at_infinity < 1e-6
    True
    """

    name: str
    order: int
    c: Any
    external: Any
    q_past: Any
    q_stages: Any
    v_past: Any
    v_stages: Any
    y_past: Any
    y_stages: Any

    def __post_init__(self) -> None:
        self._check_external()
        s, r = np.size(self.c), len(self.external)
        shapes = {"c": (s,), "q_past": (s, r), "q_stages": (s, s), "v_past": (s, r), "v_stages": (s, s),
                  "y_past": (r, r), "y_stages": (r, s)}  # fmt: skip
        for field, shape in shapes.items():
            try:
                x = np.array(getattr(self, field), dtype=float)
            except (TypeError, ValueError):
                raise self._refusal(f"{field}={getattr(self, field)!r} is not an array of numbers.") from None
            if x.shape != shape:
                raise self._refusal(f"{field} has shape {x.shape}, expected {shape} for {s} stages and {r} externals.")
            if not np.all(np.isfinite(x)):
                raise self._refusal(f"{field} contains NaN or infinity; give finite numbers.")
            x.setflags(write=False)
            object.__setattr__(self, field, x)
        if isinstance(self.order, bool) or not isinstance(self.order, int) or self.order < 1:
            raise self._refusal(f"order={self.order!r}: give the order, a whole number >= 1.")
        if s == 0:
            raise self._refusal("c is empty: give at least one stage.")
        self._check_order()
        parasites = self._parasites(self.y_past, 2)
        if not power_bounded(parasites):
            raise self._refusal(
                f"not zero-stable: the propagation matrix without its principal part has spectral radius "
                f"{spectral_radius(parasites):.6g} and powers that are not bounded. Choose other stage times or fewer "
                "past values."
            )

    def __repr__(self) -> str:
        return f"Tableau({self.name!r}, order={self.order}, {self.stages} stages, external={self.external})"

    def _refusal(self, what: str) -> OptionError:
        return OptionError(f"Tableau {self.name!r}: {what}")

    def _check_external(self) -> None:
        pairs = as_external(self.name, self.external)
        if not {(0, 0.0), (1, 0.0)} <= set(pairs):
            raise self._refusal(
                "external must contain (0, 0) and (1, 0), position and velocity at t_n (columns of zeros if unused)."
            )
        object.__setattr__(self, "external", pairs)

    # ------------------------------------------------------------------ order
    def residuals(self, degree: int) -> dict[str, np.ndarray]:
        """By how much the formulas miss q = ((t - t_n)/h)^degree, relative to their terms."""
        y, a = self._values(degree, 0.0), monomial(degree, 2, self.c)
        exact = {"q": monomial(degree, 0, self.c), "v": monomial(degree, 1, self.c), "y": self._values(degree, 1.0)}
        out = {}
        for which, value in exact.items():
            past, stages = getattr(self, f"{which}_past"), getattr(self, f"{which}_stages")
            size = np.abs(past) @ np.abs(y) + np.abs(stages) @ np.abs(a) + np.abs(value) + 1e-300
            out[which] = (past @ y + stages @ a - value) / np.maximum(size, 1.0)
        return out

    def _values(self, degree: int, shift: float) -> np.ndarray:
        """The correct value function for q = x^degree, ``shift`` steps after t_n."""
        return np.array([monomial(degree, d, np.array(tau + shift)) for d, tau in self.external], dtype=float)

    def _check_order(self) -> None:
        kinds = [d for d, _ in self.external]
        for degree in range(self.order + 2):
            missed = self.residuals(degree)
            formulas = [(0, f"position of stage {i + 1}", e) for i, e in enumerate(missed["q"])]
            formulas += [(1, f"velocity of stage {i + 1}", e) for i, e in enumerate(missed["v"])]
            formulas += [
                (d, f"external {KINDS[d]} {j + 1}", e) for j, (d, e) in enumerate(zip(kinds, missed["y"], strict=True))
            ]
            for d, what, error in formulas:
                # position formulas have to be exact up to degree p, formulas for derivatives up to p + 1
                if degree <= self.order + (d > 0) and abs(error) > TOLERANCE:
                    remedy = f"claim order {degree - 1 - (d > 0)}" if degree - (d > 0) > 1 else "it is not consistent"
                    raise self._refusal(
                        f"the {what} is not exact for q = t^{degree} (relative residual {error:.3g}), which order "
                        f"{self.order} needs. Correct the coefficients; or {remedy}."
                    )

    # ------------------------------------------------------------------ stability
    def _parasites(self, propagation: np.ndarray, principal: int) -> np.ndarray:
        """The propagation matrix on the quotient by what every consistent method has: constants, linear functions.

        These make an eigenvalue 1 with a block of size 2, the linear growth of positions [HNW, III.10].
        """
        known = np.stack([self._values(degree, 0.0) for degree in range(principal)], axis=1)
        basis = np.linalg.qr(known, mode="complete")[0][:, principal:]
        return np.asarray(basis.T @ propagation @ basis)

    def at_infinity(self) -> np.ndarray | None:
        """Propagation (r, r) of what position constraints hold fixed, Q_i = 0; None if ``q_stages`` is singular.

        The counterpart of M(infinity) = A - B B~^-1 A~ in [W05, definition A.0.5] for second-order systems.
        """
        if np.linalg.cond(self.q_stages) > 1e12:
            return None
        return np.asarray(self.y_past - self.y_stages @ np.linalg.solve(self.q_stages, self.q_past))

    @property
    def radius_at_infinity(self) -> float:
        """Spectral radius of `at_infinity`; below 1 (strictly stable at infinity) multipliers of index 3 converge."""
        matrix = self.at_infinity()
        return np.inf if matrix is None else spectral_radius(matrix)

    @property
    def stable_for_velocity_constraints(self) -> bool:
        """True if what velocity constraints hold fixed, V_i = 0, stays bounded but for a constant position."""
        if np.linalg.cond(self.v_stages) > 1e12:
            return False
        matrix = self.y_past - self.y_stages @ np.linalg.solve(self.v_stages, self.v_past)
        return power_bounded(self._parasites(matrix, 1))

    @property
    def parasitic_radius(self) -> float:
        """Largest eigenvalue of the propagation matrix besides the principal ones."""
        return spectral_radius(self._parasites(self.y_past, 2))

    # ------------------------------------------------------------------ structure
    @property
    def stages(self) -> int:
        return int(self.c.size)

    @property
    def steps_back(self) -> int:
        """Grid points before t_n that the external vector reaches to."""
        return int(np.ceil(max(-tau for _, tau in self.external) - 1e-9))

    @property
    def ends_with_a_stage(self) -> bool:
        """The last stage is the end of the step (stiffly accurate, [W05, definition A.0.7] for q and v at t_n)."""
        if abs(self.c[-1] - 1.0) > 1e-12:
            return False
        q, v = self.external.index((0, 0.0)), self.external.index((1, 0.0))
        pairs = [("q", q), ("v", v)]
        return all(
            np.allclose(getattr(self, f"{w}_{of}")[-1], getattr(self, f"y_{of}")[j], atol=1e-12)
            for w, j in pairs
            for of in ("past", "stages")
        )

    @property
    def first_order_part(self) -> bool:
        """Velocities (and their external values) do not depend on past positions or accelerations."""
        kinds = np.array([d for d, _ in self.external])
        rows = np.concatenate([self.v_past, self.y_past[kinds == 1]])
        return not np.any(kinds == 2) and not np.any(rows[:, kinds == 0])

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal for equal coefficients."""
        return (self.external, self.c.tobytes(), *(getattr(self, name).tobytes() for name in MATRICES))

    @classmethod
    def from_blocks(
        cls, name: str, order: int, c: Any, A: Any, B: Any, D: Any, E: Any, F: Any,
        At: Any, Bt: Any, Dt: Any, Et: Any, Ft: Any,
    ) -> Tableau:  # fmt: skip
        """The form [W05, (A.17)] with k past positions and velocities at t_n, t_n - h, ..., t_n - (k-1) h.

        A, B, E (k, k) and D, F (k, s) make the new external values; At, Bt, Et (s, k) and Dt, Ft (s, s), written with
        a tilde there, the stages. For k = 1, D and F are rows (one entry a stage).
        """
        try:
            A, B, D, E, F, At, Bt, Dt, Et, Ft = (
                np.atleast_2d(np.array(x, dtype=float)) for x in (A, B, D, E, F, At, Bt, Dt, Et, Ft)
            )
            k, zero = A.shape[0], np.zeros_like
            return cls(
                name, order, c, [(d, -j) for d in (0, 1) for j in range(k)],
                q_past=np.block([At, Bt]), q_stages=Dt, v_past=np.block([zero(At), Et]), v_stages=Ft,
                y_past=np.block([[A, B], [zero(A), E]]), y_stages=np.block([[D], [F]]),
            )  # fmt: skip
        except OptionError:
            raise
        except (TypeError, ValueError) as error:
            raise OptionError(f"Tableau {name!r}: the blocks do not fit together ({error}).") from None


def as_external(name: str, given: Any) -> tuple[tuple[int, float], ...]:
    """Pairs (derivative, offset), checked."""
    what = f"Tableau {name!r}: external"
    try:
        pairs = tuple((float(d), float(tau)) for d, tau in given)
    except (TypeError, ValueError):
        raise OptionError(f"{what}={given!r}: give pairs (derivative, offset).") from None
    for d, tau in pairs:
        if d not in (0.0, 1.0, 2.0) or not -LONGEST <= tau <= 0:
            raise OptionError(
                f"{what} contains ({d:g}, {tau:g}): give derivatives 0, 1 or 2 and offsets from -{LONGEST} to 0."
            )
    if len(set(pairs)) < len(pairs):
        raise OptionError(f"{what}={pairs} names a value twice.")
    return tuple((int(d), tau) for d, tau in pairs)


def monomial(degree: int, derivative: int, x: np.ndarray) -> np.ndarray:
    """Derivative of x^degree."""
    if derivative > degree:
        return np.zeros_like(x, dtype=float)
    factor = np.prod(np.arange(degree - derivative + 1, degree + 1, dtype=float))
    return np.asarray(factor * np.asarray(x, dtype=float) ** (degree - derivative))
