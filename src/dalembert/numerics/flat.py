"""Compiled entry points that take every array by itself.

Numba looks into the tuples among the arguments of a call anew each time, which takes about 1 us an array; plain arrays
take 0.05 us. The arrays of a run, sixty in tuples within tuples, would cost as much as the steps of a short run. So an
entry point takes them one by one and puts the tuples together inside, where this costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from numba import types
from numba.core.typing.templates import Signature

from dalembert.numerics.native import merged


def flatten(*arguments: Any) -> tuple[Any, ...]:
    """The arguments of a flat entry point: (nested) tuples taken apart."""
    return tuple(_leaves(arguments))


def _leaves(arguments: Any) -> Iterator[Any]:
    for x in arguments:
        if isinstance(x, tuple):
            yield from _leaves(x)
        else:
            yield x


def flat_entry(function: Callable[..., Any], signature: Signature) -> tuple[Callable[..., Any], Signature]:
    """The same function with the members of its tuples as arguments of their own, and its signature."""
    leaves: list[types.Type] = []
    space: dict[str, Any] = {"__name__": __name__, "function": merged(function)}

    def text(kind: types.Type) -> str:
        tuple_type: Any = kind  # Numba's classes get these attributes in their constructors
        if isinstance(kind, types.BaseTuple):
            made = ", ".join(text(member) for member in tuple_type.types) + ","
            if not isinstance(kind, types.BaseNamedTuple):
                return f"({made})"
            name = tuple_type.instance_class.__name__
            space[name] = tuple_type.instance_class
            return f"{name}({made})"
        leaves.append(kind)
        return f"x{len(leaves) - 1}"

    body = ", ".join(text(kind) for kind in signature.args)
    name = f"flat{function.__name__}"
    source = f"def {name}({', '.join(f'x{i}' for i in range(len(leaves)))}):\n    return function({body})\n"
    # with the name of this file Numba's cache has a place for it; its key is the name of the function
    exec(compile(source, __file__, "exec"), space)
    return space[name], signature.return_type(*leaves)
