"""The compiled entry points of the package, each built once per machine and then loaded from disk.

Numba's own cache looks only at the file of the function it compiles; these functions pull in code from several
files, so the cache directory is named after a hash of all of them.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba import njit, types

from dalembert.compiler import cache_directory
from dalembert.compiler.cache import cache_enabled
from dalembert.numerics.arnoldi import _arnoldi
from dalembert.numerics.dense import _evaluate, _interpolate
from dalembert.numerics.flat import flat_entry
from dalembert.numerics.loop import SIGNATURE, STAGES_TYPE, _integrate
from dalembert.numerics.native import OPTIONS, call_kernel
from dalembert.numerics.opening import _first_step, _lay_out, _motion_rate
from dalembert.numerics.runstate import RUN_TYPE
from dalembert.numerics.screen import _fit, _resolvable, _row_scales
from dalembert.numerics.stage import STAGE_TYPE, run_stage

# (order, nodes available, times newest first, orders of the rows, what to write)
COEFFICIENT_SIGNATURE = types.int64(
    types.int64, types.int64, types.CPointer(types.float64), types.CPointer(types.int64), types.CPointer(types.float64)
)


def _fingerprint() -> str:
    digest = hashlib.sha256()
    package = Path(__file__).resolve().parent.parent
    for path in sorted([*package.glob("numerics/*.py"), *package.glob("integrators/*.py"), package / "status.py"]):
        digest.update(path.read_bytes())
    for name in ("numba", "llvmlite", "numpy"):
        digest.update(importlib.metadata.version(name).encode())
    return digest.hexdigest()[:16]


def compile_cached(decorator: Callable[..., Any], signature: Any, function: Callable[..., Any], **options: Any) -> Any:
    """``decorator(signature, cache=True)(function)`` with the cache in the package's own directory."""
    if not cache_enabled():
        return decorator(signature, **options)(function)
    directory = cache_directory() / "numba" / _fingerprint()
    config: Any = numba.config
    previous = config.CACHE_DIR
    try:
        directory.mkdir(parents=True, exist_ok=True)
        config.CACHE_DIR = str(directory)
        return decorator(signature, cache=True, **options)(function)
    except OSError:
        config.CACHE_DIR = previous
        return decorator(signature, **options)(function)  # read-only machine: compile anew
    finally:
        config.CACHE_DIR = previous


def compile_flat(function: Callable[..., Any], signature: Any) -> Any:
    """An entry point that takes the members of its tuples one by one, see `numerics.flat`."""
    entry, signature = flat_entry(function, signature)
    return compile_cached(njit, signature, entry, **OPTIONS)


@cache
def integrate() -> Callable[..., int]:
    """The integration loop; flat."""
    return compile_flat(_integrate, SIGNATURE)


def _single_stage(stage, t, row, extra, tolerance, counters):  # type: ignore[no-untyped-def]
    return run_stage(stage, t, row, extra, tolerance, 0.0, counters)


@cache
def single_stage() -> Callable[..., int]:
    """Run one stage on one row; flat."""
    f8, i8 = types.float64[::1], types.int64[::1]
    signature = types.int64(STAGE_TYPE, types.float64, f8, f8, types.float64, i8)
    return compile_flat(_single_stage, signature)


@cache
def arnoldi() -> Callable[..., int]:
    """A basis and a small matrix whose eigenvalues are the largest ones of the linearised motion; flat."""
    f8, m8, i8 = types.float64[::1], types.float64[:, ::1], types.int64[::1]
    word, real = types.int64, types.float64
    signature = word(STAGE_TYPE, real, m8, m8, i8, i8, word, f8, real, real, word, real, f8, i8, m8, m8)
    return compile_flat(_arnoldi, signature)


@cache
def evaluate() -> Callable[..., int]:
    """Dense output of a run; flat."""
    f8, m8, i8 = types.float64[::1], types.float64[:, ::1], types.int64[::1]
    signature = types.int64(RUN_TYPE, STAGES_TYPE, STAGE_TYPE, f8, m8, i8, f8, m8)
    return compile_flat(_evaluate, signature)


@cache
def interpolate() -> Callable[..., int]:
    """Dense output of stored rows, without the model."""
    f8, m8, i8 = types.float64[::1], types.float64[:, ::1], types.int64[::1]
    return compile_cached(njit, types.int64(i8, f8, m8, i8, f8, f8, m8), _interpolate, **OPTIONS)


def _map_rows(address, times, rows, data, out):  # type: ignore[no-untyped-def]
    """out[i] = kernel(rows[i], [times[i], p]); data is [., p]."""
    for i in range(times.size):
        data[0] = times[i]
        code = call_kernel(address, rows[i].ctypes.data, data.ctypes.data, out[i].ctypes.data)
        if code < 0:
            return code
    return 0


@cache
def map_rows() -> Callable[..., int]:
    """Evaluate a kernel along a run."""
    f8, m8 = types.float64[::1], types.float64[:, ::1]
    return compile_cached(njit, types.int64(types.int64, f8, m8, f8, m8), _map_rows, **OPTIONS)


@cache
def fit() -> Callable[..., int]:
    """Is a row fit to start from?"""
    f8, i8, word = types.float64[::1], types.int64[::1], types.int64
    return compile_cached(njit, word(word, word, i8, i8, f8, f8, types.float64, f8), _fit, **OPTIONS)


@cache
def row_scales() -> Callable[..., int]:
    """Sizes of constraints, in the metric of the mass matrix."""
    f8, i8, word = types.float64[::1], types.int64[::1], types.int64
    return compile_cached(njit, word(word, i8, i8, f8, f8, f8, f8), _row_scales, **OPTIONS)


@cache
def resolvable() -> Callable[..., int]:
    """Can floating point resolve these tolerances?"""
    f8, i8 = types.float64[::1], types.int64[::1]
    return compile_cached(njit, types.int64(f8, f8, f8, i8, types.float64), _resolvable, **OPTIONS)


@cache
def lay_out() -> Callable[..., float]:
    """What a run starts from."""
    f8, m8, i8, real = types.float64[::1], types.float64[:, ::1], types.int64[::1], types.float64
    signature = real(
        real, real, types.int64, f8, f8, f8, i8, f8, f8, i8, i8, i8, f8, f8, m8, f8, f8, f8,
    )  # fmt: skip
    return compile_cached(njit, signature, _lay_out, **OPTIONS)


@cache
def motion_rate() -> Callable[..., float]:
    """How fast the motion is."""
    f8, m8, i8, word = types.float64[::1], types.float64[:, ::1], types.int64[::1], types.int64
    return compile_cached(njit, types.float64(m8, i8, f8, word, word, word, word), _motion_rate, **OPTIONS)


@cache
def first_step() -> Callable[..., float]:
    """A first step size; flat."""
    f8, m8, i8, real = types.float64[::1], types.float64[:, ::1], types.int64[::1], types.float64
    signature = real(STAGE_TYPE, real, real, real, types.int64, f8, f8, f8, f8, i8, i8, real, i8, m8)
    return compile_flat(_first_step, signature)
