"""Assembly: a state that satisfies the constraints, from a guess that may be crude.

    minimise  (q - q0)^T W (q - q0)   subject to   g(t, q) = 0,   chosen coordinates fixed

and then the same for velocities. Two phases for the positions:

1. Onto the constraints: Levenberg-Marquardt with the damping mu = kappa |F|^2, which keeps quadratic convergence even
   where the Jacobian has no full rank [YF01]. The step comes from a singular value decomposition [GP73], so that
   redundant constraints do no harm. It ends at F = 0, or where J^T F = 0 and no small change helps: F then tells
   which constraints contradict each other.
2. Along them to the nearest point: the projected gradient of the distance, with the step lengths of [BB88], each step
   put back onto the constraints.

On a group q - q0 is the tangent vector d with q = q0 exp(d), and steps are moves along tangent vectors.

[YF01] N. Yamashita, M. Fukushima, On the rate of convergence of the Levenberg-Marquardt method, Computing Suppl. 15
       (2001) 239-249.
[GP73] G. H. Golub, V. Pereyra, The differentiation of pseudo-inverses and nonlinear least squares problems whose
       variables separate, SIAM J. Numer. Anal. 10 (1973) 413-432.
[BB88] J. Barzilai, J. M. Borwein, Two-point step size gradient methods, IMA J. Numer. Anal. 8 (1988) 141-148.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dalembert.model.system import System
from dalembert.numerics.layout import Layout
from dalembert.numerics.projection import LEVELS
from dalembert.runtime.levels import Levels, levels_of
from dalembert.runtime.start import RANK_TOLERANCE, evaluate, not_finite, point_values, solve_contact
from dalembert.runtime.wishes import Wishes
from dalembert.status import InconsistentError, ModelError, OptionError

EPS = float(np.finfo(float).eps)
ROUNDING = 8 * EPS  # of the terms that make up a residual
MET = 1e-9  # residuals of this relative size that no longer shrink count as rounding
STATIONARY = 1e-8  # |J^T F| / (|J| |F|) at a point where nothing more is to gain
PERTURBATIONS = (1e-3, 0.1, 0.3, 1.0, 1.0, 1.0)  # sizes of the guesses tried after the given one, relative
FOOT_STEPS = 300
CORNER = 1e-3  # relative singular value at which a position counts as singular


@dataclass(frozen=True, eq=False)
class _At:
    """Positions q, the residuals F there (rows scaled) and their matrix J in coordinates in which W is the identity."""

    q: np.ndarray
    F: np.ndarray
    J: np.ndarray
    met: bool  # F is rounding

    @property
    def size(self) -> float:
        return float(np.linalg.norm(self.F))


class _Search:
    """The state that is looked for; ``row`` is the guess."""

    def __init__(self, system: System, layout: Layout, p: np.ndarray, t: float, row: np.ndarray, wishes: Wishes):
        self.system, self.layout, self.p, self.t, self.row, self.wishes = system, layout, p, t, row.copy(), wishes
        self.q0 = row[layout.slice("q")].copy()
        self.flat = system.space.flat
        self.pinned = np.array(wishes.positions, dtype=int)
        stays = set(wishes.positions) if self.flat else set()
        self.free = np.array([i for i in range(system.nv) if i not in stays], dtype=int)
        values = point_values(system, layout, t, row, p)
        start = levels_of(system, values)
        if not start.finite:
            where = not_finite(system, layout, t, row, p) or "the constraints are not finite"
            raise ModelError(f"{where}, the initial values; check them and the function.")
        self.W = self._weight(values)
        self.spread = np.linalg.inv(np.linalg.cholesky(self.W[np.ix_(self.free, self.free)])).T
        self.scale = self._row_scale(start)

    def _weight(self, values: dict[str, Any]) -> np.ndarray:
        weight, n = self.wishes.weight, self.system.nv
        if weight is None:
            return np.eye(n)
        W = evaluate(self.system, "mass", values) if isinstance(weight, str) else np.asarray(weight, dtype=float)
        if np.linalg.eigvalsh(W).min() <= 1e-13 * np.abs(W).max():
            raise OptionError("weights='mass': the mass matrix is singular at the initial values; give weights=.")
        return W

    def _row_scale(self, start: Levels) -> np.ndarray:
        """1 / |row| of G at the guess; where it vanishes there, a little beside."""
        norms = np.linalg.norm(start.C[: self.system.nlam], axis=1)
        if np.any(norms < 1e-8):
            beside = np.asarray(self.system.space.move(self.q0, np.linspace(1e-2, 2e-2, self.system.nv)), dtype=float)
            around = np.linalg.norm(levels_of(self.system, self._values(beside.ravel())).C, axis=1)
            norms = np.maximum(norms, np.nan_to_num(around[: self.system.nlam]))
        return 1.0 / np.where(norms > 1e-12, norms, 1.0)

    def _values(self, q: np.ndarray) -> dict[str, Any]:
        """Numbers of the model with other positions; contact coordinates follow."""
        row = self.row.copy()
        row[self.layout.slice("q")] = q
        solve_contact(self.system, self.t, row, self.layout, self.p)
        return point_values(self.system, self.layout, self.t, row, self.p)

    # ------------------------------------------------------------------ positions
    def at(self, q: np.ndarray) -> _At:
        levels = levels_of(self.system, self._values(q))
        nlam = self.system.nlam
        G, F = levels.C[:nlam], self.scale * levels.g
        sizes = np.abs(G) @ np.abs(q) if self.flat else np.abs(G).sum(axis=1) * (1.0 + np.abs(q).max(initial=0.0))
        J, bound = self.scale[:, None] * G, self.scale * sizes
        if not self.flat and self.pinned.size:  # numbers of an element are not free: those that stay are conditions
            rate = np.array([self.system.space.rate(q, e) for e in np.eye(self.system.nv)]).T
            F = np.concatenate([F, (q - self.q0)[self.pinned]])
            J = np.vstack([J, rate[self.pinned]])
            bound = np.concatenate([bound, np.ones(self.pinned.size)])
        return _At(q, F, J[:, self.free] @ self.spread, bool(np.all(np.abs(F) <= ROUNDING * bound)))

    def moved(self, q: np.ndarray, y: np.ndarray) -> np.ndarray:
        d = np.zeros(self.system.nv)
        d[self.free] = self.spread @ y
        return np.asarray(self.system.space.move(q, d), dtype=float).ravel()

    def onto(self, q: np.ndarray) -> tuple[_At, str]:
        """Phase 1 from q: the point reached and how it ended, "met", "stationary" or "limit"."""
        here = self.at(q)
        reference, kappa = max(here.size, 1e-300), 1e-2
        for _ in range(self.wishes.max_iterations):
            if here.met:
                return here, "met"
            U, s, Vt = np.linalg.svd(here.J, full_matrices=False)
            c = U.T @ here.F
            kept = s > RANK_TOLERANCE * s.max(initial=0.0)
            small = here.size <= MET * max(1.0, np.abs(here.q).max(initial=0.0))
            if not small and np.linalg.norm(s * c) <= STATIONARY * max(s.max(initial=0.0), 1e-3) * here.size:
                return here, "stationary"
            there = None
            for _ in range(40):
                mu = 0.0 if small else kappa * (s.max() * here.size / reference) ** 2  # [YF01]
                factor = np.where(kept, s / np.where(kept, s**2 + mu, 1.0), 0.0)
                y = -Vt.T @ (factor * c)
                trial = self.at(self.moved(here.q, y))
                gain = here.size**2 - trial.size**2
                if np.isfinite(trial.size) and (gain > 1e-4 * (here.size**2 - np.sum(((1 - s * factor) * c) ** 2))):
                    there = trial
                    break
                if small:
                    break
                kappa = 4 * max(kappa, 1e-6)
            if there is None:
                return here, "met" if small else "stationary"
            kappa = max(kappa / 3, 1e-12)
            here = there
        return here, "met" if here.met else "limit"

    def positions(self) -> np.ndarray:
        """Both phases; raises if the constraints cannot be met."""
        random = np.random.default_rng(1743)
        best, ended = self.onto(self.q0)
        size = 1.0 + np.abs(self.q0).max(initial=0.0)
        for perturbation in PERTURBATIONS:
            if ended == "met" and _regularity(best.J)[1] >= CORNER:
                break
            y = np.linalg.solve(self.spread, random.uniform(-1, 1, self.free.size)) * perturbation * size
            other, how = self.onto(self.moved(self.q0, y))
            if ended == "met":  # in a corner: only a regular position is better
                better = how == "met" and _regularity(other.J)[1] >= CORNER
            else:
                better = how == "met" or other.size < (1 - 1e-6) * best.size
            if better:
                best, ended = other, how
        if ended == "met":
            return self.foot(best)
        raise InconsistentError(self.refusal(best, ended))

    def displacement(self, q: np.ndarray) -> np.ndarray:
        """q - q0 in the coordinates of J."""
        d = np.asarray(self.system.space.difference(self.q0, q), dtype=float).ravel()
        return np.linalg.solve(self.spread, d[self.free])

    def foot(self, here: _At) -> np.ndarray:
        """Phase 2: along the constraints to the point nearest to the guess.

        Branches of the motion cross where constraints lose rank, and the nearest point may be such a corner: it is
        approached, but not entered.
        """
        e = self.displacement(here.q)
        alpha, last, tangential = 1.0, np.inf, _along(here.J, e)
        rank, regular = _regularity(here.J)
        floor = 4 * EPS * (np.linalg.norm(e) + np.linalg.norm(self.q0))
        for _ in range(FOOT_STEPS):
            size = float(np.linalg.norm(tangential))
            if size <= floor or (size > 0.9 * last and size <= 1e-10 * np.linalg.norm(e)):
                break
            there, how = self.onto(self.moved(here.q, -alpha * tangential))
            e_new = self.displacement(there.q)
            corner = _regularity(there.J, rank)[1] < min(CORNER, regular)
            if how != "met" or corner or np.linalg.norm(e_new) > np.linalg.norm(e) * (1 + 8 * EPS):
                alpha /= 4
                if alpha < 1e-6:
                    break
                continue
            new = _along(there.J, e_new)
            change, bend = e_new - e, new - tangential
            curvature = float(change @ bend)
            alpha = float(np.clip(change @ change / curvature, 1e-2, 10.0)) if curvature > 0 else 1.0  # [BB88]
            here, e, tangential, last = there, e_new, new, size
        return here.q

    def refusal(self, best: _At, ended: str) -> str:
        """Which constraints cannot be met, and what would help."""
        system, nlam = self.system, self.system.nlam
        labels = [f"position constraint {n!r}" for n in system.names["constraints"]]
        residuals = np.concatenate([best.F[:nlam] / self.scale, best.F[nlam:]])
        if not self.flat:
            labels += [f"fixed coordinate {system.names['q'][i]!r}" for i in self.pinned]
        heavy = [i for i in np.argsort(-np.abs(best.F)) if abs(best.F[i]) > 1e-3 * np.abs(best.F).max()]
        left = "; ".join(f"{labels[i]}: residual {residuals[i]:.3g}" for i in heavy)
        q = ", ".join(f"{x:.4g}" for x in self.q0)
        text = f"no consistent state was found near q0 = [{q}]: {left}. "
        if ended == "limit":
            text += f"The search ended after max_iterations={self.wishes.max_iterations}; raise it"
        else:
            text += "No change of the free coordinates reduces these residuals any further: the constraints contradict"
            text += " each other there"
        if self.pinned.size:
            names = self.helpful(best)
            text += f"; release one of the fixed coordinates ({', '.join(names)})"
        return text + "; change the geometry (parameters), or start from a better guess."

    def helpful(self, best: _At) -> list[str]:
        """Fixed coordinates whose release would reduce the residuals (to first order); all of them if none would."""
        names = [self.system.names["q"][i] for i in self.pinned]
        if not self.flat:
            return names
        G = levels_of(self.system, self._values(best.q)).C[: self.system.nlam]
        slopes = np.abs((self.scale[:, None] * G).T @ best.F)[self.pinned]
        return [n for n, x in zip(names, slopes, strict=True) if x > 1e-6 * slopes.max()] or names

    # ------------------------------------------------------------------ velocities
    def velocities(self, q: np.ndarray, v0: np.ndarray) -> np.ndarray:
        """Velocities nearest to v0 that satisfy G v + g_t = 0 and k = 0 at q."""
        system = self.system
        free = np.array([i for i in range(system.nv) if i not in self.wishes.velocities], dtype=int)
        values = self._values(q)
        if isinstance(self.wishes.weight, str):
            self.W = self._weight(values)
        spread = np.linalg.inv(np.linalg.cholesky(self.W[np.ix_(free, free)])).T
        v, last = v0.copy(), np.inf
        for _ in range(self.wishes.max_iterations):
            levels = levels_of(system, {**values, "v": v})
            norms = np.linalg.norm(levels.C, axis=1)
            scale = 1.0 / np.where(norms > 0, norms, 1.0)
            F = scale * np.concatenate([levels.g_dot, levels.k])
            J = scale[:, None] * levels.C[:, free] @ spread
            size = np.abs(F).max(initial=0.0)
            bound = scale * (np.abs(levels.C) @ np.abs(v))
            if np.all(np.abs(F) <= ROUNDING * bound) or (size >= 0.5 * last and size <= MET * (1 + np.abs(v).max())):
                return v
            if size >= 0.99 * last:
                break
            last = size
            e = np.linalg.solve(spread, (v - v0)[free])
            v = v.copy()
            v[free] += spread @ (-_pseudo(J) @ F - _along(J, e))
        self._refuse_velocities(levels, F)
        return v

    def _refuse_velocities(self, levels: Levels, F: np.ndarray) -> None:
        names = self.system.names
        labels = [f"velocity form of constraint {n!r}" for n in names["constraints"]]
        labels += [f"velocity constraint {n!r}" for n in names["velocity_constraints"]]
        residuals = np.concatenate([levels.g_dot, levels.k])
        heavy = [i for i in np.argsort(-np.abs(F)) if abs(F[i]) > 1e-3 * np.abs(F).max()]
        left = "; ".join(f"{labels[i]}: residual {residuals[i]:.3g}" for i in heavy)
        text = f"no consistent velocities were found at t = {self.t:g}: {left}. "
        if self.wishes.velocities:
            fixed = ", ".join(self.system.velocity_names[i] for i in self.wishes.velocities)
            text += f"Release one of the fixed velocities ({fixed}), or change v0."
        else:
            text += "The constraints contradict each other there; change the model, or start elsewhere."
        raise InconsistentError(text)


def _along(J: np.ndarray, e: np.ndarray) -> np.ndarray:
    """The part of e in the kernel of J."""
    if not J.shape[0]:
        return e
    _, s, Vt = np.linalg.svd(J, full_matrices=False)
    V = Vt[s > RANK_TOLERANCE * max(s.max(initial=0.0), 1e-300)]
    return e - V.T @ (V @ e)


def _regularity(J: np.ndarray, rank: int | None = None) -> tuple[int, float]:
    """Rank, and the smallest singular value that makes it up relative to the largest."""
    s = np.linalg.svd(J, compute_uv=False)
    if not s.size or s[0] == 0.0:
        return 0, 1.0
    rank = int((s > RANK_TOLERANCE * s[0]).sum()) if rank is None else rank
    return rank, float(s[rank - 1] / s[0]) if rank else 1.0


def _pseudo(J: np.ndarray) -> np.ndarray:
    return np.linalg.pinv(J, rcond=RANK_TOLERANCE)


def nearest(
    system: System,
    layout: Layout,
    p: np.ndarray,
    t: float,
    row: np.ndarray,
    wishes: Wishes | None = None,
    levels: Sequence[str] = LEVELS,
) -> None:
    """Move a row to the nearest one that satisfies the constraints (positions, then velocities), in place."""
    if system.nlam + system.nmu == 0:
        return
    search = _Search(system, layout, p, t, row, wishes or Wishes())
    if system.nlam and "position" in levels:
        row[layout.slice("q")] = search.positions()
        solve_contact(system, t, row, layout, p)
    if "velocity" not in levels:
        return
    at = layout.slice("v")
    search.row = row.copy()
    row[at] = search.velocities(row[layout.slice("q")], row[at].copy())
