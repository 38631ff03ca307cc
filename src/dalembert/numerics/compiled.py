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
from dalembert.numerics.dense import _evaluate, _interpolate
from dalembert.numerics.loop import _advance
from dalembert.numerics.memory import block_entry
from dalembert.numerics.memory import unfold as _unfold
from dalembert.numerics.native import OPTIONS, call_kernel
from dalembert.numerics.opening import _first_step, _open
from dalembert.numerics.runstate import RUN_TYPE
from dalembert.numerics.screen import _resolvable
from dalembert.numerics.stiffness import judge as _judge
from dalembert.numerics.stiffness import rate_of_motion as _rate_of_motion
from dalembert.numerics.work import WORK_TYPE, _correct, _settle

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


def compile_with_blocks(function: Callable[..., Any], signature: Any) -> Any:
    """An entry point that takes tuples as blocks of memory, see `numerics.memory`."""
    entry, signature = block_entry(function, signature)
    return compile_cached(njit, signature, entry, **OPTIONS)


_f8, _m8, _i8 = types.float64[::1], types.float64[:, ::1], types.int64[::1]
_word, _real = types.int64, types.float64


@cache
def integrate() -> Callable[..., int]:
    """The integration loop: (block of a call, the same folded, positions, velocities); see `UNDER_WAY`.

    It takes them for what they are to be, C-contiguous arrays of float64: to find that out would take 0.2 us.
    """
    signature = _word(_f8, _f8, _f8, _f8)
    made: Callable[..., int] = compile_cached(njit, signature, _advance, **OPTIONS).get_overload(signature.args)
    return made


@cache
def unfold() -> Callable[..., None]:
    """Make a block: (folded, block)."""
    return compile_cached(njit, types.void(_f8, _f8), _unfold, **OPTIONS)


@cache
def correct() -> Callable[..., int]:
    """Run one stage on one row: (work, which, t, row, tolerance)."""
    return compile_with_blocks(_correct, _word(WORK_TYPE, _word, _real, _f8, _real))


@cache
def settle() -> Callable[..., int]:
    """Make an initial row complete: (work, stages, t, row, what constraints may be off, two tolerances)."""
    return compile_with_blocks(_settle, _word(WORK_TYPE, _word, _real, _f8, _real, _real, _real))


@cache
def judge() -> Callable[..., int]:
    """Is a run stiff? (run, work, slow, size of eigenvalues that matter, accelerations are known)."""
    return compile_with_blocks(_judge.py_func, _word(RUN_TYPE, WORK_TYPE, _real, _real, _word))


@cache
def rate_of_motion() -> Callable[..., float]:
    """How fast the motion is: (run, work)."""
    return compile_with_blocks(_rate_of_motion.py_func, _real(RUN_TYPE, WORK_TYPE))


@cache
def evaluate() -> Callable[..., int]:
    """Dense output of a run: (run, work, nodes, rows, orders, times, out)."""
    return compile_with_blocks(_evaluate, _word(RUN_TYPE, WORK_TYPE, _f8, _m8, _i8, _f8, _m8))


@cache
def interpolate() -> Callable[..., int]:
    """Dense output of stored rows, without the model."""
    return compile_cached(njit, _word(_i8, _f8, _m8, _i8, _f8, _f8, _m8), _interpolate, **OPTIONS)


def _address(x):  # type: ignore[no-untyped-def]
    return x.ctypes.data


@cache
def address() -> Callable[..., int]:
    """Where an array begins; NumPy takes five times as long to tell."""
    return compile_cached(njit, [_word(kind) for kind in (_f8, _i8, _m8)], _address, **OPTIONS)


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
    return compile_cached(njit, _word(_word, _f8, _m8, _f8, _m8), _map_rows, **OPTIONS)


@cache
def resolvable() -> Callable[..., int]:
    """Can floating point resolve these tolerances?"""
    return compile_cached(njit, _word(_f8, _f8, _f8, _i8, _real), _resolvable, **OPTIONS)


@cache
def open_run() -> Callable[..., int]:
    """What a run starts from: (run, work, h, row, row of the method, rtol, atol, scale)."""
    return compile_with_blocks(_open, _word(RUN_TYPE, WORK_TYPE, _real, _f8, _f8, _f8, _f8, _f8))


@cache
def first_step() -> Callable[..., float]:
    """A first step size: (work, t, span, largest, order, row, rtol, atol, tolerance)."""
    signature = _real(WORK_TYPE, _real, _real, _real, _word, _f8, _f8, _f8, _real)
    return compile_with_blocks(_first_step, signature)
