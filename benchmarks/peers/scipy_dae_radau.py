"""scipy_dae: Radau IIA and BDF for F(t, y, y') = 0, in Python with NumPy, after SciPy's solve_ivp.

What was tried (on two periods): the variant with integrated multipliers needs no loose tolerance on them; it
makes Radau faster and leaves BDF as it is (plain, BDF fails with equal tolerances for all unknowns).
Radau with 5 stages (order 9) is better than with 3, and as good as with 7 or better. BDF of order 5 is better
than order 4. Compiled residual and exact Jacobians throughout.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
from typing import Any, ClassVar

from . import Peer, PeerFailed, Runner, RunResult
from .pendulum_ggl import T_END, Y0, YP0, jacobians_integrated, residual_integrated_new


class ScipyDaeRadau(Peer):
    """Radau IIA with five stages."""

    name: ClassVar[str] = "scipy_dae Radau (5 stages)"
    form: ClassVar[str] = "stabilized index 2, integrated multipliers"
    note: ClassVar[str] = "compiled residual and Jacobians, order 9"
    options: ClassVar[dict[str, Any]] = {"method": "Radau", "stages": 5}

    def available(self) -> bool:
        return importlib.util.find_spec("scipy_dae") is not None

    def version(self) -> str:
        return f"scipy_dae {importlib.metadata.version('scipy_dae')}"

    def prepare(self, rtol: float, atol: float) -> Runner:
        from scipy_dae.integrate import solve_dae

        def integrate(t_end: float, rtol: float, atol: float) -> Any:
            solution = solve_dae(
                residual_integrated_new,
                (0.0, t_end),
                Y0,
                YP0,
                rtol=rtol,
                atol=atol,
                jac=jacobians_integrated,
                **self.options,
            )
            if not solution.success:
                raise PeerFailed(f"{solution.message} (t = {solution.t[-1]:.4g})")
            return solution

        integrate(0.1, 1e-3, 1e-3)  # compiles

        def run() -> RunResult:
            solution = integrate(T_END, rtol, atol)
            y = solution.y[:, -1]
            return y[:2], y[2:4], len(solution.t) - 1

        return run


class ScipyDaeBdf(ScipyDaeRadau):
    """BDF of variable order."""

    name: ClassVar[str] = "scipy_dae BDF"
    note: ClassVar[str] = "compiled residual and Jacobians, order <= 5"
    options: ClassVar[dict[str, Any]] = {"method": "BDF", "max_order": 5}


PEERS: list[Peer] = [ScipyDaeRadau(), ScipyDaeBdf()]
