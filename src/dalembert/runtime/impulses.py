"""Velocity jumps by the balance of impulse and momentum.

[PG96] F. Pfeiffer, C. Glocker, Multibody Dynamics with Unilateral Contacts, Wiley 1996, chapter 8 (Newton's law of
       impacts, with the impulses of the joints).

    M (v+ - v-) = N^T P - C^T Lambda        C = [G; K]
    C v+ + c_t  = 0                                            the constraints hold after the jump
    N v+ + n_t  = -e (N v- + n_t)                              restitution along the normal N of a gap n(t, q) = 0

Positions do not move during an impact, forces that stay finite do not matter.
"""

from __future__ import annotations

import numpy as np

from dalembert.runtime.assembly import Workspace
from dalembert.status import ModelError

MOST_ITERATIONS = 10  # of Newton, for velocity constraints that are not linear in v
BLOCKED = 1e-12  # mobility along a normal, relative to that without constraints, that counts as none


def onto_constraints(work: Workspace, t: float, row: np.ndarray) -> np.ndarray:
    """Give a row the velocities that its constraints allow, by impulses of these, in place.

    Returns
    -------
    numpy.ndarray (nlam + nmu,)
        The impulses Lambda: integrals of the multipliers over the jump.
    """
    at = work.assembly.layout.slice("v")
    impulses = np.zeros(work.assembly.system.nlam + work.assembly.system.nmu)
    for _ in range(MOST_ITERATIONS if impulses.size else 0):
        levels = work.levels(t, row)
        residual = np.concatenate([levels["g_dot"], levels["k"]])
        if not np.all(np.isfinite(residual)):
            raise ModelError(f"the constraints are not finite at t = {t:.6g}")
        M, C = work.matrices(t, row)
        change, more = _solve(M, C, np.zeros(M.shape[0]), -residual)
        row[at] += change
        impulses += more
        if np.abs(change).max() <= 1e-15 * max(1.0, np.abs(row[at]).max()):
            break
    return impulses


def impact(
    work: Workspace, t: float, row: np.ndarray, normal: np.ndarray, by_t: float, restitution: float, label: str
) -> tuple[float, np.ndarray]:
    """Reverse the rate of a gap whose derivative along the velocities is ``normal`` (nv,), in place.

    Returns
    -------
    (float, numpy.ndarray (nlam + nmu,))
        The impulse P of the contact and the impulses Lambda of the constraints.
    """
    at = work.assembly.layout.slice("v")
    M, C = work.matrices(t, row)
    response, share = _solve(M, C, normal, np.zeros(C.shape[0]))
    mobility = float(normal @ response)
    if not mobility > BLOCKED * float(normal @ normal) / max(np.abs(np.diag(M)).max(), 1e-300):
        raise ModelError(f"event {label!r}: the constraints do not let the gap open; there is no impact along it")
    P = -(1.0 + restitution) * (float(normal @ row[at]) + by_t) / mobility
    row[at] += P * response
    return P, P * share


def _solve(M: np.ndarray, C: np.ndarray, b: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """M x + C^T y = b, C x = c."""
    n, m = M.shape[0], C.shape[0]
    matrix = np.block([[M, C.T], [C, np.zeros((m, m))]])
    try:
        out = np.linalg.solve(matrix, np.concatenate([b, c]))
    except np.linalg.LinAlgError:
        raise ModelError("the constraints are redundant: their impulses are not determined") from None
    return out[:n], out[n:]
