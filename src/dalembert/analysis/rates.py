"""Rates of a constrained system at a state: how fast it moves, how fast its constraints turn, how stiff it is.

[AP93] U. Ascher, L. Petzold, Stability of computational methods for constrained dynamics systems (1993), 1.3, 1.4, 3.1.

With C the constraint matrix, B how the multipliers accelerate the system, R B = 0, [R; C]^-1 = [S F]:

    frozen-coefficient part    u^(m) = sum_j R A_j S u^(j-1)        reproduced by every discretisation
    variable-coefficient part  R' S, F C'                            treated explicitly by index-2 forms
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np

from dalembert.model.symbols import NAMES
from dalembert.model.system import System
from dalembert.runtime.start import evaluate


@dataclass(frozen=True)
class Rates:
    """Everything per unit of time.

    ``motion``: of the solution itself; ``turning``: of the constraint gradients; ``FC``: norm of F C'; ``RS``: norm of
    R'S for the R that turns least; ``frozen``: largest decay rate of the frozen-coefficient essential ODE;
    ``frequency``: largest oscillation rate of it.
    """

    motion: float
    turning: float
    FC: float
    RS: float
    frozen: float
    frequency: float


@dataclass(frozen=True)
class Matrices:
    """Mass matrix M, constraint matrix C, multiplier matrix B, state matrices A1, A2 (of q and v) at a state."""

    M: np.ndarray
    C: np.ndarray
    B: np.ndarray
    A1: np.ndarray
    A2: np.ndarray


def matrices(system: System, values: dict[str, Any]) -> Matrices:
    """The matrices of the linearised system at a state (name -> numbers)."""
    M = evaluate(system, "mass", values)
    C = np.vstack([evaluate(system, "G", values), evaluate(system, "K", values)])
    x = system.symbols
    derivatives = ca.Function(
        "derivatives",
        [*x.as_tuple(), system.coefficients],
        [
            ca.jacobian(system.balance, ca.vertcat(x.lam, x.mu)),
            system.directional(system.balance),
            ca.jacobian(system.balance, x.v),
        ],
    )
    coefficients = np.zeros(system.coefficients.numel())
    if system.calls:
        find = ca.Function("arguments", list(x.as_tuple()), [system.arguments])
        system.fill(np.asarray(find(*[values[n] for n in NAMES])).ravel(), coefficients)
    by_multipliers, by_q, by_v = (d.full() for d in derivatives(*[values[n] for n in NAMES], coefficients))
    # a singular mass matrix has no inverse; the least-squares one is enough for an estimate of rates
    m, n = by_multipliers.shape[1], system.nv
    solved = np.linalg.lstsq(M, np.hstack([by_multipliers, -by_q, -by_v]), rcond=1e-12)[0]
    return Matrices(M, C, solved[:, :m], solved[:, m : m + n], solved[:, m + n :])


def rates(before: Matrices, here: Matrices, after: Matrices, dt: float, motion: float, order: int) -> Rates:
    """Rates at the middle of three states that lie ``dt`` apart."""
    C, B = here.C, here.B
    n, m = C.shape[1], C.shape[0]
    if m == 0:
        eigenvalues = _eigenvalues(here.A1, here.A2, order)
        return Rates(motion, 0.0, 0.0, 0.0, _decay(eigenvalues), _frequency(eigenvalues))
    C_dot, B_dot = (after.C - before.C) / (2 * dt), (after.B - before.B) / (2 * dt)
    F = B @ np.linalg.pinv(C @ B)
    L = np.linalg.qr(C.T)[1].T  # C = L Q with orthonormal rows Q
    turning = np.linalg.norm(np.linalg.pinv(L) @ C_dot @ (np.eye(n) - np.linalg.pinv(C) @ C), 2)
    FC = np.linalg.norm(F @ C_dot, 2)
    _, s, Vt = np.linalg.svd(B.T)
    R = Vt[int((s > 1e-12 * s[0]).sum()) :]
    if not len(R):
        return Rates(motion, float(turning), float(FC), 0.0, 0.0, 0.0)
    S = np.linalg.pinv(np.vstack([R, C]))[:, : len(R)]
    R_dot = -R @ B_dot @ np.linalg.pinv(B)  # of the smooth R that turns least, R' R^T = 0
    eigenvalues = _eigenvalues(R @ here.A1 @ S, R @ here.A2 @ S, order)
    return Rates(
        motion=motion,
        turning=float(turning),
        FC=float(FC),
        RS=float(np.linalg.norm(R_dot @ S, 2)),
        frozen=_decay(eigenvalues),
        frequency=_frequency(eigenvalues),
    )


def _eigenvalues(A1: np.ndarray, A2: np.ndarray, order: int) -> np.ndarray:
    if order == 1:
        return np.linalg.eigvals(A2)
    k = len(A1)
    return np.linalg.eigvals(np.block([[np.zeros((k, k)), np.eye(k)], [A1, A2]]))


def _decay(eigenvalues: np.ndarray) -> float:
    return float(max(0.0, -eigenvalues.real.min(initial=0.0)))


def _frequency(eigenvalues: np.ndarray) -> float:
    return float(np.abs(eigenvalues.imag).max(initial=0.0))
