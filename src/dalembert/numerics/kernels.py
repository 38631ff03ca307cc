"""Kernels of model expressions: native where the model was traced, through Python where it has black boxes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import casadi as ca
import numpy as np

from dalembert.compiler import Kernel, KernelSpec, compile_kernels, python_kernel
from dalembert.model.point import Environment


@dataclass(frozen=True, eq=False)
class Request:
    """A kernel wanted: ``out`` as a function of ``a`` and ``b``, evaluated in an environment.

    ``rare``: called a few times in a run, or as an exception. ``lanes``: at so many states at once. ``fused``: rounding
    may differ from CasADi's. See `KernelSpec`.
    """

    name: str
    a: ca.SX
    b: ca.SX
    out: ca.SX
    env: Environment | None = None
    rare: bool = False
    lanes: int = 1
    fused: bool = False

    @property
    def calls_python(self) -> bool:
        return bool(self.env and self.env.coefficients and ca.depends_on(self.out, ca.vertcat(*self.env.coefficients)))


def build_kernels(requests: Sequence[Request]) -> dict[str, Kernel]:
    """Compile all requests in one go.

    A kernel that needs black boxes becomes three: a native one for their arguments, the calls, and the native
    expression with the Taylor coefficients as additional inputs.
    """
    specs = []
    for r in requests:
        if r.calls_python:
            assert r.env is not None
            specs.append(KernelSpec(r.name, r.a, ca.vertcat(r.b, *r.env.coefficients), r.out))
            specs.append(KernelSpec(f"{r.name}:arguments", r.a, r.b, ca.vertcat(*r.env.arguments)))
        else:
            specs.append(KernelSpec(r.name, r.a, r.b, r.out, r.rare, r.lanes, r.fused))
    native = compile_kernels(specs)
    return {r.name: _through_python(r, native) if r.calls_python else native[r.name] for r in requests}


def _through_python(request: Request, native: dict[str, Kernel]) -> Kernel:
    env = request.env
    assert env is not None
    system = env.system
    expression, find_arguments = native[request.name], native[f"{request.name}:arguments"]
    n_arguments, n_coefficients = system.arguments.numel(), system.coefficients.numel()

    def evaluate(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> int:
        arguments = find_arguments(a, b)
        coefficients = np.empty(len(env.coefficients) * n_coefficients)
        for i in range(len(env.coefficients)):
            system.fill(
                arguments[i * n_arguments : (i + 1) * n_arguments],
                coefficients[i * n_coefficients : (i + 1) * n_coefficients],
            )
        out[:] = expression(a, np.concatenate([b, coefficients]))
        return 0

    return python_kernel(request.name, request.a.numel(), request.b.numel(), request.out.numel(), evaluate)
