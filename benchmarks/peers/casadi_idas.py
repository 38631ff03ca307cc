"""SUNDIALS IDAS through CasADi: residual, Jacobian and linear solver all in C++, no Python inside the loop.

What was tried:

- ``suppress_algebraic``: needed. Without it a run at 1e-6 had not finished after five minutes.
- Linear solver: qr, symbolicqr, lapacklu and csparse differ by about 10 %; mumps takes five times as long;
  ldl refuses the unsymmetric matrix.
- ``nonlin_conv_coeff`` from 1e-2 to 1e-6: mixed. The smallest values give 3 to 10 times smaller errors at
  tolerances 1e-5 or 1e-6 for similar work, larger errors from 1e-7 on, and Newton failures at 1e-10. Default.
- ``newton_scheme="gmres"``: fewer steps, each twice as dear. ``max_multistep_order=4``: no gain.
- ``jit`` with the system's C compiler: no gain seen on a residual of this size.

CasADi's DAEs are semi-explicit, so the variant with integrated multipliers cannot be given to it.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
from typing import ClassVar

import numpy as np

from . import Peer, PeerFailed, Runner, RunResult
from .pendulum_ggl import GRAVITY, Q0, T_END, V0


class CasadiIdas(Peer):
    """IDAS on the form whose multipliers are unknowns."""

    name: ClassVar[str] = "IDAS (CasADi)"
    form: ClassVar[str] = "stabilized index 2"
    note: ClassVar[str] = "suppress_algebraic, direct Newton with sparse QR, exact Jacobian, order <= 5"

    def available(self) -> bool:
        return importlib.util.find_spec("casadi") is not None

    def version(self) -> str:
        return f"casadi {importlib.metadata.version('casadi')}"

    def prepare(self, rtol: float, atol: float) -> Runner:
        import casadi as ca

        q, v = ca.SX.sym("q", 2), ca.SX.sym("v", 2)
        lam, mu = ca.SX.sym("lam"), ca.SX.sym("mu")
        dae = {
            "x": ca.vertcat(q, v),
            "z": ca.vertcat(lam, mu),
            "ode": ca.vertcat(v - mu * q, -lam * q + ca.vertcat(0, -GRAVITY)),
            "alg": ca.vertcat((ca.dot(q, q) - 1) / 2, ca.dot(q, v)),
        }
        options = {
            "reltol": rtol,
            "abstol": atol,
            "suppress_algebraic": True,
            "newton_scheme": "direct",
            "linear_solver": "qr",
            "max_num_steps": 2_000_000,
        }
        integrator = ca.integrator("pendulum", "idas", dae, 0.0, T_END, options)
        x0 = ca.DM(np.concatenate([Q0, V0]))
        z0 = ca.DM([0.0, 0.0])

        def run() -> RunResult:
            try:
                end = integrator(x0=x0, z0=z0)
            except RuntimeError as error:
                raise PeerFailed(str(error).strip().splitlines()[-1]) from error
            x = np.asarray(end["xf"], dtype=float).ravel()
            return x[:2], x[2:], int(integrator.stats()["nsteps"])

        run()
        return run


PEERS: list[Peer] = [CasadiIdas()]
