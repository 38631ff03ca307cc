"""Structures of compiled functions: blocks of memory with many arrays in them, passed by address.

Numba passes an array as seven words, and a tuple of arrays as seven words each: two hundred for the state of a run, at
every call. From Python it looks at each of them anew, 0.1 us every time, and NumPy takes 0.3 us to make one. So arrays
that belong together are parts of one block of 8-byte words, made from those words of a template that have to be copied
(by compiled code on its way: `unfold`). A block begins with a descriptor of each part: how many words behind the
descriptor it begins, its rows, its columns. Compiled code knows a block, or the part of it that a tuple within the
tuple is, by the address of its descriptors alone. What a descriptor tells of may also lie outside of the block
(`refer`), and may be another block (`Reference`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.core.typing.templates import (
    AbstractTemplate,
    AttributeTemplate,
    Signature,
    infer_getattr,
    infer_global,
    signature,
)
from numba.extending import intrinsic, lower_builtin, lower_getattr_generic, models, register_model
from numba.np.arrayobj import populate_array

from dalembert.numerics.native import merged

SMALL = 8192  # words: blocks up to this size are copied whole
WORDS = 3  # of a descriptor
_WORD = ir.IntType(64)


# ---------------------------------------------------------------------- blocks, for Python
class Parts:
    """Arrays of a (nested) tuple, as parts of blocks that are laid out like them.

    Parameters
    ----------
    arrays
        Tuple of tuples and C-contiguous arrays of float64 or int64; what appears twice is one part.
    blank
        Arrays with the number of their words at the beginning that have to be copied; others are copied as a whole.
    """

    def __init__(self, arrays: Any, blank: Collection[tuple[np.ndarray, int]] = ()) -> None:
        self._arrays = arrays
        leaves, copied = list(_leaves(arrays)), {id(x): n for x, n in blank}
        begin, at = WORDS * len(leaves), {}
        ranges = [(0, begin)]
        # what is copied as a whole comes first, what is not copied last: few ranges have to be
        for x in sorted(leaves, key=lambda x: (copied.get(id(x), x.size) < x.size) + (copied.get(id(x)) == 0)):
            if id(x) not in at:
                at[id(x)], end = begin, begin + copied.get(id(x), x.size)
                if ranges[-1][1] == begin:
                    ranges[-1] = ranges[-1][0], end
                elif end > begin:
                    ranges.append((begin, end))
                begin += x.size
        self.template = np.zeros(begin)
        self.ranges = ranges  # of words that have to be copied
        # of each: its words, and what makes them an array
        self._places: list[tuple[slice, Any, Any]] = []
        heads = self.template.view(np.int64)
        for k, x in enumerate(leaves):
            words = slice(at[id(x)], at[id(x)] + x.size)
            self._places.append((words, None if x.dtype == np.float64 else x.dtype, x.shape if x.ndim == 2 else None))
            heads[WORDS * k : WORDS * (k + 1)] = _descriptor(words.start - WORDS * k, x.shape)
            self.view(self.template, k)[...] = x

    def fresh(self, template: np.ndarray | None = None) -> np.ndarray:
        """A block with the numbers of the template, or of another one."""
        return duplicate(self.template if template is None else template, self.ranges)

    def view(self, block: np.ndarray, k: int) -> np.ndarray:
        """Part k of a block, as an array."""
        words, dtype, shape = self._places[k]
        x = block[words]
        if dtype is not None:
            x = x.view(dtype)
        return x if shape is None else x.reshape(shape)

    def views(self, block: np.ndarray) -> Any:
        """The tuple with the parts of a block for its arrays."""
        counted = iter(range(len(self._places)))

        def made(x: Any) -> Any:
            if not isinstance(x, tuple):
                return self.view(block, next(counted))
            members = [made(y) for y in x]
            return type(x)(*members) if hasattr(x, "_fields") else tuple(members)

        return made(self._arrays)


def duplicate(block: np.ndarray, ranges: Collection[tuple[int, int]]) -> np.ndarray:
    """Another block with the same words, in these ranges at least."""
    if block.size <= SMALL:
        return block.copy()
    out = np.empty(block.size)
    for a, b in ranges:
        out[a:b] = block[a:b]
    return out


def refer(block: np.ndarray, first: int, arrays: Sequence[np.ndarray]) -> None:
    """Let descriptors of a block, from so many on, tell of arrays elsewhere, which have to live as long as it."""
    from dalembert.numerics.compiled import address

    find, words = address(), list[int]()
    at = find(block) + 8 * WORDS * first
    for x in arrays:
        words += _descriptor((find(x) - at) // 8, x.shape)
        at += 8 * WORDS
    block.view(np.int64)[WORDS * first : WORDS * first + len(words)] = words


def _descriptor(words: int, shape: tuple[int, ...]) -> tuple[int, int, int]:
    return words, shape[0], shape[1] if len(shape) == 2 else 1


class Bundle:
    """Arrays, or blocks, side by side in one block, which begins with their descriptors.

    Parameters
    ----------
    shapes
        Of arrays of 8-byte numbers.
    ranges
        By the position of an array: those of its words that have to be copied; others are copied as a whole.
    """

    def __init__(self, shapes: Sequence[tuple[int, ...]], ranges: Mapping[int, Collection[tuple[int, int]]]) -> None:
        begin = WORDS * len(shapes)
        self.places: list[slice] = []
        self.ranges = [(0, begin)]
        self._heads: list[int] = []
        for k, shape in enumerate(shapes):
            n = prod(shape)
            self.places.append(slice(begin, begin + n))
            self._heads += _descriptor(begin - WORDS * k, shape)
            self.ranges += [(begin + a, begin + b) for a, b in ranges.get(k, [(0, n)]) if b > a]
            begin += n
        self.size = begin

    def folded(self, arrays: Sequence[np.ndarray | None]) -> np.ndarray:
        """What `unfold` makes a block with these numbers from; None: it does not matter which."""
        block = np.zeros(self.size)
        block.view(np.int64)[: len(self._heads)] = self._heads
        for place, x in zip(self.places, arrays, strict=True):
            if x is not None and x.size:
                block[place] = x
        parts = [block[a:b] for a, b in self.ranges]
        return np.concatenate([[len(parts)], np.ravel(self.ranges), *parts])


def unfold(folded, block):  # type: ignore[no-untyped-def]
    """Words of a block: how many ranges of it are given, where each begins and ends, and then what is there."""
    n = int(folded[0])
    at = 1 + 2 * n
    for k in range(n):
        begin, end = int(folded[1 + 2 * k]), int(folded[2 + 2 * k])
        words, given = block[begin:end], folded[at : at + end - begin]
        for i in range(end - begin):
            words[i] = given[i]
        at += end - begin


def _leaves(arrays: Any) -> Iterator[np.ndarray]:
    for x in arrays:
        if isinstance(x, tuple):
            yield from _leaves(x)
        else:
            yield x


# ---------------------------------------------------------------------- their types, for Numba
class Record(types.Type):
    """A named tuple of arrays and tuples: the address of its descriptors."""

    def __init__(self, kind: type[NamedTuple], members: Collection[types.Type]) -> None:
        self.members = dict(zip(kind._fields, members, strict=True))
        super().__init__(name=f"Record({kind.__name__})")

    @property
    def words(self) -> int:
        """Of its descriptors."""
        return sum(_words(x) for x in self.members.values())

    def begin(self, name: str) -> int:
        """Where those of a member begin."""
        names = list(self.members)
        return sum(_words(self.members[x]) for x in names[: names.index(name)])


class Several(types.Type):
    """A tuple of so many records of one kind."""

    def __init__(self, record: Record, count: int) -> None:
        self.record, self.count = record, count
        super().__init__(name=f"Several({record.name}, {count})")


class Reference(types.Type):
    """A record of another block: one descriptor, which says where its own begin."""

    def __init__(self, record: Record) -> None:
        self.record = record
        super().__init__(name=f"Reference({record.name})")


def _words(kind: Any) -> int:
    if isinstance(kind, Several):
        return kind.count * kind.record.words
    return kind.words if isinstance(kind, Record) else WORDS


class _Address(models.PrimitiveModel):
    def __init__(self, dmm: Any, fe_type: Any) -> None:
        super().__init__(dmm, fe_type, _WORD)


register_model(Record)(_Address)
register_model(Several)(_Address)


@infer_getattr
class _Members(AttributeTemplate):
    key = Record

    def generic_resolve(self, record: Any, name: str) -> Any:  # type: ignore[override]
        kind = record.members.get(name)
        return kind.record if isinstance(kind, Reference) else kind


@lower_getattr_generic(Record)
def _member(context, builder, record, address, name):  # type: ignore[no-untyped-def]
    kind = record.members[name]
    place = builder.add(address, ir.Constant(_WORD, 8 * record.begin(name)))
    if isinstance(kind, Reference):
        return builder.add(place, builder.mul(_load(builder, place, 0), ir.Constant(_WORD, 8)))
    return place if isinstance(kind, (Record, Several)) else _array(context, builder, kind, place)


@infer_global(operator.getitem)
class _Choice(AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        if isinstance(args[0], Several) and isinstance(args[1], types.Integer):
            return signature(args[0].record, args[0], types.intp)
        return None


@lower_builtin(operator.getitem, Several, types.intp)
def _chosen(context, builder, sig, args):  # type: ignore[no-untyped-def]
    size = ir.Constant(_WORD, 8 * sig.args[0].record.words)
    return builder.add(args[0], builder.mul(args[1], size))


def _load(builder, place, k):  # type: ignore[no-untyped-def]
    """Word k of a descriptor. They never change: whatever is stored, they need not be loaded again."""
    word = builder.add(place, ir.Constant(_WORD, 8 * k))
    value = builder.load(builder.inttoptr(word, _WORD.as_pointer()))
    value.set_metadata("invariant.load", builder.module.add_metadata([]))
    return value


def _array(context, builder, kind, place):  # type: ignore[no-untyped-def]
    """The array of a descriptor."""

    def load(k):  # type: ignore[no-untyped-def]
        return _load(builder, place, k)

    array = context.make_array(kind)(context, builder)
    size, flat = ir.Constant(_WORD, 8), kind.ndim == 1
    shape = (load(1),) if flat else (load(1), load(2))
    populate_array(
        array,
        data=builder.inttoptr(builder.add(place, builder.mul(load(0), size)), array.data.type),
        shape=shape,
        strides=(size,) if flat else (builder.mul(shape[1], size), size),
        itemsize=size,
        meminfo=None,
    )
    return array._getvalue()


# ---------------------------------------------------------------------- entry points
def block_entry(function: Callable[..., Any], given: Signature) -> tuple[Callable[..., Any], Signature]:
    """The same function with a block in place of every record, and its signature."""
    space: dict[str, Any] = {"__name__": __name__, "function": merged(function)}
    made, arguments = [], []
    for i, kind in enumerate(given.args):
        made.append(f"x{i}")
        arguments.append(kind)
        if isinstance(kind, Record):
            space[f"record{i}"] = record_at(kind)
            made[i], arguments[i] = f"record{i}(x{i}.ctypes.data)", types.float64[::1]
    name = f"block{function.__name__}"
    names = ", ".join(f"x{i}" for i in range(len(made)))
    source = f"def {name}({names}):\n    return function({', '.join(made)})\n"
    # with the name of this file Numba's cache has a place for it; its key is the name of the function
    exec(compile(source, __file__, "exec"), space)
    return space[name], given.return_type(*arguments)


def record_at(kind: Record) -> Any:
    """A function that makes a record of an address. What was written there before it is called is seen in it."""

    @intrinsic
    def record(typingctx, address):  # type: ignore[no-untyped-def]
        def code(context, builder, sig, args):  # type: ignore[no-untyped-def]
            place = args[0]
            place = builder.ptrtoint(place, _WORD) if isinstance(place.type, ir.PointerType) else place
            # Descriptors never change, see `_load`, but here they may just have been made: no instruction, only the
            # same address as if it were another one.
            same = ir.FunctionType(_WORD, [_WORD])
            return builder.asm(same, "", "=r,0,~{memory}", [place], True)

        return kind(address), code

    return record
