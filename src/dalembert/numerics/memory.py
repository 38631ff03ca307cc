"""Arrays of compiled functions as parts of blocks of memory.

Numba looks at each array among the arguments of a call anew, which takes 0.1 us (1 us in a tuple), and NumPy takes
0.3 us to make one. A run has a hundred of them: as much as the steps of a short run. So arrays that belong together are
parts of one block of 8-byte words. A block is copied from a template in one go; an entry point takes it with a table of
its parts, and puts the arrays and tuples together inside, where this costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core.typing.templates import Signature
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

from dalembert.numerics.native import merged

SMALL = 8192  # words: blocks up to this size are copied whole


class Parts:
    """Arrays of a (nested) tuple, as parts of a block that is laid out like them.

    Parameters
    ----------
    arrays
        Tuple of tuples and C-contiguous arrays of float64 or int64; what appears twice is one part. Members that its
        class names in ``OUTSIDE`` are not parts of the block.
    blank
        Arrays (by identity) with the number of their words at the beginning that have to be copied; others are copied
        as a whole.
    """

    def __init__(self, arrays: Any, blank: Collection[tuple[np.ndarray, int]] = ()) -> None:
        leaves = list(_leaves(arrays))
        self._arrays = arrays
        copied = {id(x): n for x, n in blank}
        begin, at, ranges = 0, {}, []
        for x in leaves:
            if id(x) not in at:
                at[id(x)] = begin
                ranges.append((begin, begin + copied.get(id(x), x.size)))
                begin += x.size
        self.template = np.zeros(begin)
        self.table = np.array([[at[id(x)], *x.shape, *[1] * (2 - x.ndim)] for x in leaves], dtype=np.int64)
        # of each: its words, and what makes them an array
        self._places = [
            (
                slice(at[id(x)], at[id(x)] + x.size),
                None if x.dtype == np.float64 else x.dtype,
                x.shape if x.ndim == 2 else None,
            )
            for x in leaves
        ]
        self._ranges = ranges if begin > SMALL else []
        for k, x in enumerate(leaves):
            self.view(self.template, k)[...] = x

    def fresh(self, template: np.ndarray | None = None) -> np.ndarray:
        """A block with the numbers of the template, or of another one."""
        source = self.template if template is None else template
        if not self._ranges:
            return source.copy()
        out = np.empty(source.size)
        for a, b in self._ranges:
            out[a:b] = source[a:b]
        return out

    def view(self, block: np.ndarray, k: int) -> np.ndarray:
        """Part k of a block, as an array."""
        words, dtype, shape = self._places[k]
        x = block[words]
        if dtype is not None:
            x = x.view(dtype)
        return x if shape is None else x.reshape(shape)

    def views(self, block: np.ndarray) -> Any:
        """The tuple with the parts of a block for its arrays."""
        counted = iter(range(len(self.table)))

        def made(x: Any) -> Any:
            if not isinstance(x, tuple):
                return self.view(block, next(counted))
            fields, outside = getattr(x, "_fields", ()), getattr(x, "OUTSIDE", ())
            members = [y if outside and fields[i] in outside else made(y) for i, y in enumerate(x)]
            return type(x)(*members) if fields else tuple(members)

        return made(self._arrays)


def _leaves(arrays: Any) -> Iterator[np.ndarray]:
    outside = getattr(arrays, "OUTSIDE", ())
    for i, x in enumerate(arrays):
        if isinstance(x, tuple):
            yield from _leaves(x)
        elif not outside or arrays._fields[i] not in outside:
            yield x


def block_entry(function: Callable[..., Any], signature: Signature) -> tuple[Callable[..., Any], Signature]:
    """The same function with (block, table, members outside) in place of every tuple, and its signature."""
    arguments: list[types.Type] = []
    space: dict[str, Any] = {"__name__": __name__, "function": merged(function)}
    lines: list[str] = []

    def argument(kind: types.Type) -> str:
        arguments.append(kind)
        return f"x{len(arguments) - 1}"

    def part(kind: types.Type, table: str, k: int) -> str:
        name = f"view{_KINDS.index(kind)}"
        space[name] = _VIEWS[_KINDS.index(kind)]
        return f"{name}(b{table} + 8 * {table}[{k}, 0], {table}[{k}, 1], {table}[{k}, 2])"

    def text(kind: Any, table: str, counted: Iterator[int]) -> str:  # Numba's classes get attributes in constructors
        named = isinstance(kind, types.BaseNamedTuple)
        outside = getattr(kind.instance_class, "OUTSIDE", ()) if named else ()
        made = ""
        for i, member in enumerate(kind.types):
            if isinstance(member, types.BaseTuple):
                made += text(member, table, counted)
            elif outside and kind.fields[i] in outside:
                made += argument(member)
            else:
                made += part(member, table, next(counted))
            made += ", "
        if not named:
            return f"({made})"
        space[kind.instance_class.__name__] = kind.instance_class
        return f"{kind.instance_class.__name__}({made})"

    given = []
    for kind in signature.args:
        if isinstance(kind, types.BaseTuple):
            block, table = argument(types.float64[::1]), argument(types.int64[:, ::1])
            lines.append(f"b{table} = {block}.ctypes.data")
            given.append(text(kind, table, iter(range(1000))))
        else:
            given.append(argument(kind))
    name = f"block{function.__name__}"
    body = "\n    ".join([*lines, f"return function({', '.join(given)})"])
    source = f"def {name}({', '.join(f'x{i}' for i in range(len(arguments)))}):\n    {body}\n"
    # with the name of this file Numba's cache has a place for it; its key is the name of the function
    exec(compile(source, __file__, "exec"), space)
    return space[name], signature.return_type(*arguments)


_KINDS = (types.float64[::1], types.int64[::1], types.float64[:, ::1], types.int64[:, ::1])


def _viewer(kind: Any) -> Any:
    """Intrinsic that makes an array of a kind at an address."""

    @intrinsic
    def view(typingctx, address, n, m):  # type: ignore[no-untyped-def]
        def code(context, builder, signature, args):  # type: ignore[no-untyped-def]
            place, n_, m_ = args
            array = context.make_array(kind)(context, builder)
            size = ir.Constant(ir.IntType(64), 8)
            flat = kind.ndim == 1
            populate_array(
                array,
                data=builder.inttoptr(place, array.data.type),
                shape=(n_,) if flat else (n_, m_),
                strides=(size,) if flat else (builder.mul(m_, size), size),
                itemsize=size,
                meminfo=None,
            )
            return array._getvalue()

        return kind(types.int64, types.int64, types.int64), code

    return view


_VIEWS = tuple(_viewer(kind) for kind in _KINDS)
