"""Rates of a constrained system at a state: how fast its constraints turn, how stiff it is.

[AP93] U. Ascher, L. Petzold, Stability of computational methods for constrained dynamics systems (1993), 1.3, 1.4, 3.1.

With C = [G; K] the constraint matrix, B = M^-1 G^T the way the multipliers accelerate the system, R B = 0 and
[R; C]^-1 = [S F], the coordinates u = R x obey an ODE of as many equations as degrees of freedom. It has a

    frozen-coefficient part    u^(m) = sum_j R A_j S u^(j-1)        reproduced by every discretisation
    variable-coefficient part  R' S, F C'                            treated explicitly by index-2 forms [AP93, (4.6)]

R is unique up to a factor. Here S has orthonormal columns that turn no more than they must, so that a large R'S is a
property of the system, not of an unlucky scaling. With N B_f = 0, B_f = M B the forces of unit multipliers:

    S = ker C,   R = (N M S)^-1 N M,   F = (I - S R) C^+,   R'S = -R S' = R C^+ C' S

None of these needs the inverse of M, so a singular mass matrix is allowed as long as the motion is determined.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np

from dalembert.model.symbols import NAMES
from dalembert.model.system import System

SINGULAR = 1e-12  # relative: smaller singular values count as zero
OSCILLATES = 0.1  # a mode with less than this share of critical damping is an oscillation


@dataclass(frozen=True)
class Rates:
    """Everything per unit of time.

    ``motion``: of the solution itself; ``turning``: of the constraint gradients; ``FC``, ``RS``: norms of F C' and R'S;
    ``frozen``: largest decay rate of the frozen-coefficient essential ODE; ``frequency``: largest rate of an
    oscillation of it that is hardly damped.
    """

    motion: float
    turning: float
    FC: float
    RS: float
    frozen: float
    frequency: float


@dataclass(frozen=True)
class Matrices:
    """A system linearised at a state: mass matrix M, constraints C and their rate, forces Bf of unit multipliers.

    Jq, Jv, Jr are the derivatives of M v' - f - R; Dq, Dv, Dr those of r'. Auxiliary variables and contact coordinates
    are eliminated.
    """

    M: np.ndarray
    C: np.ndarray
    C_dot: np.ndarray
    Bf: np.ndarray
    Jq: np.ndarray
    Jv: np.ndarray
    Jr: np.ndarray
    Dq: np.ndarray
    Dv: np.ndarray
    Dr: np.ndarray

    @property
    def gram(self) -> np.ndarray:
        """C B = G M^-1 G^T with rows and columns scaled to a unit diagonal.

        Where M is singular it is M + G^T G (suitably scaled), which leaves the motion as it is.
        """
        M, C = self.M, self.C
        if len(M) and np.linalg.cond(M) > 1 / SINGULAR:
            weight = np.abs(M).max() / max(float(np.abs(C).max(initial=0.0)) ** 2, 1e-300)
            M = M + weight * C.T @ C
        out = C @ np.linalg.lstsq(M, self.Bf, rcond=None)[0]
        d = np.sqrt(np.abs(np.diag(out)))
        d[d == 0] = 1.0
        return np.asarray(out / np.outer(d, d))

    @property
    def essential(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """R, S, F; C must have full rank."""
        n = len(self.M)
        if not len(self.C):
            return np.eye(n), np.eye(n), np.zeros((n, 0))
        S, N = _kernel(self.C), _kernel(self.Bf.T).T
        R = np.linalg.lstsq(N @ self.M @ S, N @ self.M, rcond=None)[0]
        return R, S, (np.eye(n) - S @ R) @ np.linalg.pinv(self.C)


def matrices(system: System, values: dict[str, Any]) -> Matrices:
    """The linearised system at a state (name -> numbers)."""
    coefficients = np.zeros(system.coefficients.numel())
    if system.calls:
        find = ca.Function("arguments", list(system.symbols.as_tuple()), [system.arguments])
        system.fill(np.asarray(find(*[values[n] for n in NAMES])).ravel(), coefficients)
    out = [np.asarray(x.full()) for x in _derivatives(system)(*[values[n] for n in NAMES], coefficients)]
    C, C_dot, balance, dynamics, algebraic = out
    edges = np.cumsum([0, system.nv, system.nlam + system.nmu, system.nv, system.nv, system.nr, system.nw, system.ns])
    if edges[-1] > edges[-3]:  # w and s follow from the other variables
        follow = -np.linalg.lstsq(algebraic[:, edges[-3] :], algebraic[:, : edges[-3]], rcond=None)[0]
        balance = balance[:, : edges[-3]] + balance[:, edges[-3] :] @ follow
        dynamics = dynamics[:, : edges[-3]] + dynamics[:, edges[-3] :] @ follow
    M, Bf, Jq, Jv, Jr = (balance[:, edges[i] : edges[i + 1]] for i in range(5))
    Dq, Dv, Dr = (dynamics[:, edges[i] : edges[i + 1]] for i in range(2, 5))
    return Matrices(M, C, C_dot, Bf, Jq, Jv, Jr, Dq, Dv, Dr)


def _derivatives(system: System) -> ca.Function:
    """Kept with the system, like its other functions."""
    cache: dict[str, ca.Function] = system.__dict__.setdefault("_functions", {})
    if "linearised" not in cache:
        x = system.symbols

        def by_everything(expr: ca.SX) -> ca.SX:
            blocks = [ca.jacobian(expr, y) for y in (x.a, ca.vertcat(x.lam, x.mu))]
            blocks.append(system.directional(expr))
            return ca.densify(ca.horzcat(*blocks, *[ca.jacobian(expr, y) for y in (x.v, x.r, x.w, x.s)]))

        cache["linearised"] = ca.Function(
            "linearised",
            [*x.as_tuple(), system.coefficients],
            [
                ca.densify(ca.vertcat(system.G, system.K)),
                ca.densify(ca.vertcat(system.G_dot, system.K_dot)),
                by_everything(system.balance),
                by_everything(system.dynamics),
                by_everything(ca.vertcat(system.auxiliary, system.h)),
            ],
        )
    return cache["linearised"]


def rates(m: Matrices, motion: float, order: int) -> Rates:
    """Rates of a system of order 1 or 2, linearised at a state of full rank."""
    R, S, F = m.essential
    eigenvalues = np.linalg.eigvals(_frozen(m, R, S, order))
    decay, swing = np.abs(eigenvalues.real), np.abs(eigenvalues.imag)
    undamped = swing[decay < OSCILLATES * swing]
    turning = FC = RS = 0.0
    if len(m.C):
        inverse = np.linalg.pinv(m.C)
        turning = _norm(inverse @ m.C_dot @ S)
        FC, RS = _norm(F @ m.C_dot), _norm(R @ inverse @ m.C_dot @ S)
    return Rates(
        motion=motion,
        turning=turning,
        FC=FC,
        RS=RS,
        frozen=float(max(0.0, -eigenvalues.real.min(initial=0.0))),
        frequency=float(undamped.max(initial=0.0)),
    )


def _frozen(m: Matrices, R: np.ndarray, S: np.ndarray, order: int) -> np.ndarray:
    """Matrix of the frozen-coefficient part as a first-order system in (u, u', r), order 1: in (u, r)."""
    k, nr = S.shape[1], len(m.Dr)
    N = _kernel(m.Bf.T).T if len(m.C) else np.eye(len(m.M))
    A1, A2, A3 = (-np.linalg.lstsq(N @ m.M @ S, N @ J, rcond=None)[0] for J in (m.Jq @ S, m.Jv @ S, m.Jr))
    if order == 1:
        return np.block([[A2, A3], [m.Dv @ S, m.Dr]])
    return np.block(
        [
            [np.zeros((k, k)), np.eye(k), np.zeros((k, nr))],
            [A1, A2, A3],
            [m.Dq @ S, m.Dv @ S, m.Dr],
        ]
    )


def _kernel(A: np.ndarray) -> np.ndarray:
    """Orthonormal columns that span the kernel of A."""
    _, s, Vt = np.linalg.svd(A)
    return np.asarray(Vt[int((s > SINGULAR * s.max(initial=0.0)).sum()) :].T)


def _norm(A: np.ndarray) -> float:
    return float(np.linalg.norm(A, 2)) if A.size else 0.0
