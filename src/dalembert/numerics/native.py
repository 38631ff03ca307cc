"""Calling native code by address from Numba.

Addresses are plain integers in run-time data, so that compiled loops know nothing of a particular model and can be
kept on disk for all of them.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
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
def mix(typingctx, n, values, matrix, scale, bases, constant, slope, nodes, out):  # type: ignore[no-untyped-def]
    """out[i, j] = bases[i] (constant + slope nodes[j]) + scale sum_k values[i, k] matrix[k, j] for i < n.

    Rows of ``values``, ``matrix`` and ``out`` and ``nodes`` are vectors of lanes; all arrays are given by address.
    """

    def code(context, builder, signature, args):  # type: ignore[no-untyped-def]
        count, at_values, at_matrix, scale_, at_bases, constant_, slope_, at_nodes, at_out = args
        real, row_size = ir.DoubleType(), ir.Constant(_WORD, 8 * LANES)

        def number(address):  # type: ignore[no-untyped-def]
            return _spread(builder, builder.load(builder.inttoptr(address, real.as_pointer()), align=8))

        def plus(a, b, c):  # type: ignore[no-untyped-def]
            return builder.fadd(c, builder.fmul(a, b, flags=_CONTRACT), flags=_CONTRACT)

        # what stays in registers
        factor = _spread(builder, scale_)
        rows = [_lanes(builder, builder.add(at_matrix, ir.Constant(_WORD, 8 * LANES * k))) for k in range(LANES)]
        rows = [builder.fmul(row, factor) for row in rows]
        line = plus(_spread(builder, slope_), _lanes(builder, at_nodes), _spread(builder, constant_))
        with cgutils.for_range(builder, count, intp=_WORD) as loop:
            start = builder.add(at_values, builder.mul(loop.index, row_size))
            base = number(builder.add(at_bases, builder.mul(loop.index, ir.Constant(_WORD, 8))))
            parts = [builder.fmul(base, line, flags=_CONTRACT), None]
            for k in range(LANES):
                value = number(builder.add(start, ir.Constant(_WORD, 8 * k)))
                product = builder.fmul(value, rows[k], flags=_CONTRACT)
                before = parts[k % 2]
                parts[k % 2] = product if before is None else builder.fadd(before, product, flags=_CONTRACT)
            result = builder.fadd(*parts)
            place = builder.add(at_out, builder.mul(loop.index, row_size))
            builder.store(result, builder.inttoptr(place, result.type.as_pointer()), align=8)
        return context.get_dummy_value()

    word, real = types.intp, types.float64
    return types.void(word, word, word, real, word, real, real, word, word), code


@intrinsic
def lagrange_lanes(typingctx, ratio, nodes, barycentric, out):  # type: ignore[no-untyped-def]
    """out[k, j] = l_k(1 + ratio nodes[j]), Lagrange's polynomials of the nodes; rows are vectors of lanes."""

    def code(context, builder, signature, args):  # type: ignore[no-untyped-def]
        ratio_, at_nodes, at_barycentric, at_out = args
        real, apart, before = ir.DoubleType(), [], []

        def number(address, k):  # type: ignore[no-untyped-def]
            place = builder.inttoptr(builder.add(address, ir.Constant(_WORD, 8 * k)), real.as_pointer())
            return _spread(builder, builder.load(place, align=8))

        step = builder.fmul(_spread(builder, ratio_), _lanes(builder, at_nodes))
        one = _spread(builder, ir.Constant(real, 1.0))
        x = builder.fadd(step, one)
        for k in range(LANES):  # products of what lies before and behind each factor: quicker than divisions
            apart.append(builder.fsub(x, number(at_nodes, k)))
            before.append(one if k == 0 else builder.fmul(before[k - 1], apart[k - 1]))
        behind = None
        for k in reversed(range(LANES)):
            row = builder.fmul(before[k], number(at_barycentric, k))
            row = row if behind is None else builder.fmul(row, behind)
            behind = apart[k] if behind is None else builder.fmul(behind, apart[k])
            place = builder.add(at_out, ir.Constant(_WORD, 8 * LANES * k))
            builder.store(row, builder.inttoptr(place, row.type.as_pointer()), align=8)
        return context.get_dummy_value()

    word = types.intp
    return types.void(types.float64, word, word, word), code


@intrinsic
def squares_of_lanes(typingctx, n, values, weights, out):  # type: ignore[no-untyped-def]
    """out[j] = sum_i (weights[i] values[i, j])^2 for i < n, of vectors of lanes; all arrays are given by address."""

    def code(context, builder, signature, args):  # type: ignore[no-untyped-def]
        count, at_values, at_weights, at_out = args
        real = ir.DoubleType()
        total = cgutils.alloca_once_value(builder, _spread(builder, ir.Constant(real, 0.0)))
        with cgutils.for_range(builder, count, intp=_WORD) as loop:
            place = builder.add(at_weights, builder.mul(loop.index, ir.Constant(_WORD, 8)))
            weight = builder.load(builder.inttoptr(place, real.as_pointer()), align=8)
            row = _lanes(builder, builder.add(at_values, builder.mul(loop.index, ir.Constant(_WORD, 8 * LANES))))
            x = builder.fmul(row, _spread(builder, weight))
            square = builder.fmul(x, x, flags=_CONTRACT)
            builder.store(builder.fadd(builder.load(total), square, flags=_CONTRACT), total)
        result = builder.load(total)
        builder.store(result, builder.inttoptr(at_out, result.type.as_pointer()), align=8)
        return context.get_dummy_value()

    word = types.intp
    return types.void(word, word, word, word), code


@intrinsic
def legendre_lanes(typingctx, ratio, nodes, kept, out):  # type: ignore[no-untyped-def]
    """out[n, j] = P_n(1 + 2 ratio nodes[j]) for n < kept, the others are 0; rows are vectors of lanes."""

    def code(context, builder, signature, args):  # type: ignore[no-untyped-def]
        ratio_, at_nodes, kept_, at_out = args
        real = ir.DoubleType()

        def number(value):  # type: ignore[no-untyped-def]
            return _spread(builder, ir.Constant(real, value))

        step = builder.fmul(_spread(builder, ratio_), _lanes(builder, at_nodes))
        x = builder.fadd(number(1.0), builder.fadd(step, step))
        rows = [number(1.0), x]
        for n in range(1, LANES - 1):  # (n + 1) P_(n+1) = (2 n + 1) x P_n - n P_(n-1)
            ahead = builder.fmul(builder.fmul(number((2 * n + 1) / (n + 1)), x), rows[n])
            rows.append(builder.fsub(ahead, builder.fmul(number(n / (n + 1)), rows[n - 1])))
        for n, row in enumerate(rows):
            wanted = builder.icmp_signed("<", ir.Constant(_WORD, n), kept_)
            row = builder.select(wanted, row, number(0.0))
            place = builder.add(at_out, ir.Constant(_WORD, 8 * LANES * n))
            builder.store(row, builder.inttoptr(place, row.type.as_pointer()), align=8)
        return context.get_dummy_value()

    word = types.intp
    return types.void(types.float64, word, word, word), code


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


@intrinsic
def call_geev(  # type: ignore[no-untyped-def]
    typingctx, address, left, right, n, a, lda, real, imaginary, vl, ldvl, vr, ldvr, work, lwork, info
):
    """LAPACK dgeev."""
    code, result = _caller(14, False)
    return result(address, left, right, n, a, lda, real, imaginary, vl, ldvl, vr, ldvr, work, lwork, info), code


def lapack_address(name: str) -> int:
    """Address of a routine in SciPy's LAPACK."""
    return int(get_cython_function_address("scipy.linalg.cython_lapack", name))
