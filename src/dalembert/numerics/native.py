"""Calling native code by address from Numba.

Addresses are plain integers in run-time data, so that compiled loops know nothing of a particular model and can be
kept on disk for all of them.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.extending import get_cython_function_address, intrinsic

# How the inner functions are compiled: no reference counting of array views (their owners are held by the caller, and
# the atomic counters cost more than a small kernel), hence no allocation either; division by zero gives inf.
OPTIONS: dict[str, Any] = {"nogil": True, "_nrt": False, "error_model": "numpy"}
entry = njit(**OPTIONS)
# Most are called from compiled code only; an entry for Python would unpack hundreds of words, for nothing.
_INNER = {**OPTIONS, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
# Options that are not given are those of the first caller: what inlined functions call is inlined, too. With
# forceinline=False here a tenth of the compilation would be saved, and steps of small systems would take half as long
# again.
inner = njit(**_INNER)
# An array is passed as seven words, the state of a run as two hundred: on the way of every step there are no calls.
# Only there: what is inlined is compiled anew at every place that calls it.
inlined = njit(forceinline=True, **_INNER)
view = njit(inline="always", **_INNER)  # functions that return a slice: without counting, slices cannot cross calls
merged = view  # functions with one caller: compiled as a part of it, not once more by themselves

_WORD = ir.IntType(64)


def _caller(n: int, returns: bool) -> Any:
    """Intrinsic that calls a C function of ``n`` pointer-sized arguments at an address."""

    def code(context, builder, signature, args):  # type: ignore[no-untyped-def]
        kind = ir.FunctionType(_WORD if returns else ir.VoidType(), [_WORD] * n)
        function = builder.inttoptr(args[0], kind.as_pointer())
        words = [builder.ptrtoint(a, _WORD) if isinstance(a.type, ir.PointerType) else a for a in args[1:]]
        result = builder.call(function, words)
        return result if returns else context.get_dummy_value()

    return code, (types.int64 if returns else types.void)


@intrinsic
def call_kernel(typingctx, address, a, b, out):  # type: ignore[no-untyped-def]
    """int64 kernel(const double* a, const double* b, double* out)."""
    code, result = _caller(3, True)
    return result(address, a, b, out), code


@intrinsic
def call_coefficients(typingctx, address, k, available, nodes, orders, out):  # type: ignore[no-untyped-def]
    """int64 coefficients(int64 k, int64 available, const double* nodes, const int64* orders, double* out)."""
    code, result = _caller(5, True)
    return result(address, k, available, nodes, orders, out), code


@intrinsic
def call_getrf(typingctx, address, m, n, a, lda, pivots, info):  # type: ignore[no-untyped-def]
    """LAPACK dgetrf."""
    code, result = _caller(6, False)
    return result(address, m, n, a, lda, pivots, info), code


@intrinsic
def call_getrs(typingctx, address, trans, n, nrhs, a, lda, pivots, b, ldb, info):  # type: ignore[no-untyped-def]
    """LAPACK dgetrs."""
    code, result = _caller(9, False)
    return result(address, trans, n, nrhs, a, lda, pivots, b, ldb, info), code


def lapack_address(name: str) -> int:
    """Address of a routine in SciPy's LAPACK."""
    return int(get_cython_function_address("scipy.linalg.cython_lapack", name))
