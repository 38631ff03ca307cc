"""SUNDIALS IDA through scikit-sundae.

What was tried, and stays because it measured better:

- The residual and the Jacobian are Numba functions handed over as they are. scikit-sundae calls a Python
  object with arrays; a C pointer is not accepted, so part of the cost of a call is the wrapper's.
- Analytic Jacobian: 10-20 % less time than IDA's difference quotients.
- Multipliers are kept out of the error test. scikit-sundae does not offer IDASetSuppressAlg; a large
  absolute tolerance on them has the same effect. Without this, IDA fails or crawls (tried at 1e-4 and
  1e-6).
- The integrated variant with order at most 4 is by far the best that we found on this undamped oscillation:
  from 1e-6 on an end error 4 to 50 times smaller than order 5 in the plain form, in less time.
- One call to the end, without intermediate output. (IDA's Newton tolerance cannot be set from scikit-sundae.)
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from . import Peer, PeerFailed, Runner, RunResult
from .pendulum_ggl import (
    T_END,
    Y0,
    YP0,
    iteration_matrix,
    iteration_matrix_integrated,
    residual,
    residual_integrated,
)

MAX_STEPS = 2_000_000


class SundaeIDA(Peer):
    """IDA on the form whose multipliers are unknowns."""

    name: ClassVar[str] = "IDA (scikit-sundae)"
    form: ClassVar[str] = "stabilized index 2"
    note: ClassVar[str] = "compiled residual and Jacobian, multipliers out of the error test, order <= 5"
    max_order: ClassVar[int] = 5

    def available(self) -> bool:
        return importlib.util.find_spec("sksundae") is not None

    def version(self) -> str:
        return f"scikit-sundae {importlib.metadata.version('scikit-sundae')}"

    def options(self, atol: float) -> tuple[Callable[..., Any], dict[str, Any]]:
        """Residual and the options that depend on the form."""
        loose = np.array([atol] * 4 + [1e3, 1e3])
        return residual, {"jacfn": iteration_matrix, "atol": loose, "algebraic_idx": [4, 5]}

    def prepare(self, rtol: float, atol: float) -> Runner:
        from sksundae.ida import IDA

        resfn, options = self.options(atol)
        solver = IDA(resfn, rtol=rtol, max_order=self.max_order, max_num_steps=MAX_STEPS, **options)

        def integrate() -> Any:
            solver.init_step(0.0, Y0, YP0)
            end = solver.step(T_END)
            if not end.success:
                raise PeerFailed(f"{end.message} (t = {float(end.t):.4g})")
            return end

        integrate()  # compiles, and finds out whether the run gets through
        steps = _count_steps(solver)

        def run() -> RunResult:
            y = integrate().y
            return y[:2], y[2:4], steps

        return run


class SundaeIDAIntegrated(SundaeIDA):
    """IDA on the form whose multipliers are derivatives."""

    name: ClassVar[str] = "IDA (scikit-sundae), tuned"
    form: ClassVar[str] = "stabilized index 2, integrated multipliers"
    note: ClassVar[str] = "compiled residual and Jacobian, order <= 4"
    max_order: ClassVar[int] = 4

    def options(self, atol: float) -> tuple[Callable[..., Any], dict[str, Any]]:
        return residual_integrated, {"jacfn": iteration_matrix_integrated, "atol": atol}


def _count_steps(solver: Any) -> int:
    """Steps of the same run, taken one by one outside the clock: scikit-sundae does not report them."""
    solver.init_step(0.0, Y0, YP0)
    steps = 0
    while steps < MAX_STEPS:
        steps += 1
        now = solver.step(T_END, method="onestep")
        if not now.success:
            raise PeerFailed(f"{now.message} (t = {float(now.t):.4g})")
        if now.t >= T_END:
            break
    return steps


PEERS: list[Peer] = [SundaeIDA(), SundaeIDAIntegrated()]
