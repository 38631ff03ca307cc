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


LANES = 8
_CONTRACT = ("contract",)  # multiply and add in one where the processor can


def _lanes(builder, address):  # type: ignore[no-untyped-def]
    """The numbers at an address as a vector."""
    kind = ir.VectorType(ir.DoubleType(), LANES)
    return builder.load(builder.inttoptr(address, kind.as_pointer()), align=8)


def _spread(builder, number):  # type: ignore[no-untyped-def]
    """One number in all lanes."""
    kind = ir.VectorType(ir.DoubleType(), LANES)
    one = builder.insert_element(ir.Constant(kind, ir.Undefined), number, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES))


@intrinsic
def mix(typingctx, values, matrix, base, slope, nodes, scale, out):  # type: ignore[no-untyped-def]
    """out[j] = base + slope nodes[j] + scale sum_k values[k] matrix[k, j], all of them vectors of lanes at addresses."""

    def code(context, builder, signature, args):  # type: ignore[no-untyped-def]
        at_values, at_matrix, base_, slope_, at_nodes, scale_, at_out = args
        total = None
        for k in range(LANES):
            at = builder.add(at_values, ir.Constant(_WORD, 8 * k))
            number = builder.load(builder.inttoptr(at, ir.DoubleType().as_pointer()))
            row = _lanes(builder, builder.add(at_matrix, ir.Constant(_WORD, 8 * LANES * k)))
            product = builder.fmul(_spread(builder, number), row, flags=_CONTRACT)
            total = product if total is None else builder.fadd(total, product, flags=_CONTRACT)
        line = builder.fmul(_spread(builder, slope_), _lanes(builder, at_nodes), flags=_CONTRACT)
        line = builder.fadd(line, _spread(builder, base_), flags=_CONTRACT)
        product = builder.fmul(total, _spread(builder, scale_), flags=_CONTRACT)
        result = builder.fadd(line, product, flags=_CONTRACT)
        builder.store(result, builder.inttoptr(at_out, result.type.as_pointer()), align=8)
        return context.get_dummy_value()

    word, real = types.intp, types.float64
    return types.void(word, word, real, real, word, real, word), code


@intrinsic
def lane_dot(typingctx, x, y):  # type: ignore[no-untyped-def]
    """Sum of the products of two vectors of lanes at addresses."""

    def code(context, builder, signature, args):  # type: ignore[no-untyped-def]
        products = builder.fmul(_lanes(builder, args[0]), _lanes(builder, args[1]), flags=_CONTRACT)
        parts = [builder.extract_element(products, ir.Constant(ir.IntType(32), j)) for j in range(LANES)]
        while len(parts) > 1:  # in pairs
            parts = [builder.fadd(parts[i], parts[i + 1]) for i in range(0, len(parts), 2)]
        return parts[0]

    return types.float64(types.intp, types.intp), code


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
