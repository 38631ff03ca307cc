"""CasADi instruction streams to LLVM IR.

The IR is written as text: that is several times quicker than building it object by object, and it is what one
wants to read when something is wrong.

A stream of CasADi instructions works on numbered slots. Here every value gets a name of its own (LLVM is in
static single assignment form) and the slots disappear. Long streams are cut into chunks, one LLVM function
each, because LLVM's time can grow faster than linearly with the length of a basic block. Values that
outlive their chunk travel through a work array, constants and inputs are simply fetched anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import casadi as ca

from .libm import declarations, external
from .operations import OPERATIONS, SUPPORT, literal, operation_name
from .spec import Instruction, Stream

#: Part of the cache key: raise it with every change that alters the code generated from the same
#: instructions.
LOWERING_VERSION: Final = 1
#: Instructions per LLVM function.
CHUNK: Final = 1000
#: Work arrays up to this many doubles live on the stack (threads other than the main one can have small
#: stacks).
STACK_DOUBLES: Final = 2048

_STRUCTURE: Final = {ca.OP_CONST, ca.OP_INPUT, ca.OP_OUTPUT}
_INPUTS: Final = ("%a", "%b")
_POINTERS: Final = "ptr noalias readonly %a, ptr noalias readonly %b, ptr noalias writeonly %out"


class UnsupportedOperation(ValueError):
    """An operation that LLVM code cannot be generated for."""


@dataclass(frozen=True)
class Value:
    """Something an instruction can refer to: a literal, an entry of an input vector, or a computed value.

    ``name`` is its text in the chunk that defines it, ``source`` the pointer expression it can be fetched
    from in other chunks, as (base, offset).
    """

    chunk: int
    name: str
    source: tuple[str, int] | None


def symbol(k: int) -> str:
    """The symbol of the k-th kernel of a module."""
    return f"kernel_{k}"


def unsupported_operations(stream: Stream) -> list[str]:
    """CasADi's names of the operations in a stream that cannot be compiled (calls of other functions)."""
    found = {instruction.op for instruction in stream} - OPERATIONS.keys() - _STRUCTURE
    return sorted(operation_name(op) for op in found)


def lower_module(streams: Sequence[Stream]) -> str:
    """One LLVM module with a kernel for each instruction stream.

    Parameters
    ----------
    streams : sequence of Stream
        Instructions of functions with two dense inputs and one dense output.

    Returns
    -------
    str
        LLVM IR. The k-th kernel is called ``symbol(k)``. Its output must not overlap its inputs: the pointers
        are declared ``noalias`` so that loads and stores may be reordered.
    """
    for stream in streams:
        names = ", ".join(unsupported_operations(stream))
        if names:
            raise UnsupportedOperation(
                f"CasADi operations that cannot be compiled to machine code: {names}; "
                "backend='vm' evaluates them on CasADi's virtual machine"
            )
    parts = [declarations(), SUPPORT]
    parts += [_Lowering(symbol(k), stream).run() for k, stream in enumerate(streams)]
    return "\n".join(parts)


class _Lowering:
    """State of the walk over one instruction stream."""

    def __init__(self, name: str, stream: Stream) -> None:
        self.name = name
        self.stream = stream
        self.size = -(-len(stream) // max(1, -(-len(stream) // CHUNK)))  # chunks of equal length
        self.crossing = _crossing(stream, self.size) if stream else set()
        # CasADi has reused its slots as far as possible; of these, number the ones that hold crossing values.
        used = sorted({stream[k].output for k in self.crossing})
        self.work = {slot: index for index, slot in enumerate(used)}
        self.chunks: list[list[str]] = []
        self.slots: dict[int, Value] = {}  # what each of CasADi's slots holds at this point of the stream
        self.fetched: dict[tuple[str, int], str] = {}  # what the current chunk has loaded already
        self.n_names = 0

    def run(self) -> str:
        for k, instruction in enumerate(self.stream):
            if k % self.size == 0:
                self.chunks.append([])
                self.fetched = {}
            self._emit(instruction, k in self.crossing)
        return self._assemble()

    def _emit(self, instruction: Instruction, crosses: bool) -> None:
        op, inputs, output, constant = instruction
        chunk = len(self.chunks) - 1
        lines = self.chunks[chunk]
        if op == ca.OP_CONST:
            self.slots[output] = Value(chunk, literal(constant), None)
        elif op == ca.OP_INPUT:
            self.slots[output] = Value(-1, "", (_INPUTS[inputs[0]], inputs[1]))
        elif op == ca.OP_OUTPUT:
            value = self._use(inputs[0], chunk)
            lines.append(_pointer(f"%o{output}", "%out", output))
            lines.append(f"store double {value}, ptr %o{output}")
        else:
            operation = OPERATIONS[op]
            operands = [self._use(slot, chunk) for slot in inputs[: operation.arity]]
            name = self._name()
            lines += operation.template.format(d=name, x=operands[0], y=operands[-1]).split("\n")
            source = None
            if crosses:
                source = ("%w", self.work[output])
                lines.append(_pointer(f"{name}.w", *source))
                lines.append(f"store double {name}, ptr {name}.w")
            self.slots[output] = Value(chunk, name, source)

    def _use(self, slot: int, chunk: int) -> str:
        """The text of a slot's value in the given chunk, fetched from memory if need be."""
        value = self.slots[slot]
        if value.source is None or value.chunk == chunk:
            return value.name
        # A work slot can be overwritten by a later value, so its key is the value's own name.
        key = (value.name, value.chunk) if value.source[0] == "%w" else value.source
        if key not in self.fetched:
            name = self._name()
            self.chunks[chunk].append(_pointer(f"{name}.p", *value.source))
            self.chunks[chunk].append(f"{name} = load double, ptr {name}.p")
            self.fetched[key] = name
        return self.fetched[key]

    def _name(self) -> str:
        self.n_names += 1
        return f"%v{self.n_names}"

    def _assemble(self) -> str:
        if len(self.chunks) <= 1:
            body = self.chunks[0] if self.chunks else []
            return _define(f"i64 @{self.name}({_POINTERS})", [*body, "ret i64 0"])
        functions = [
            _define(
                f"internal void @{self.name}.{c}({_POINTERS}, ptr noalias %w)",
                [*body, "ret void"],
                "noinline",
            )
            for c, body in enumerate(self.chunks)
        ]
        calls = [f"call void @{self.name}.{c}(ptr %a, ptr %b, ptr %out, ptr %w)" for c in range(len(self.chunks))]
        n_work = max(1, len(self.work))
        if n_work <= STACK_DOUBLES:
            body = [f"%w = alloca [{n_work} x double], align 64", *calls, "ret i64 0"]
        else:
            body = [
                f"%w = call ptr @{external('malloc')}(i64 {8 * n_work})",
                "%none = icmp eq ptr %w, null",
                "br i1 %none, label %failed, label %run",
                "failed:",
                "ret i64 -1",
                "run:",
                *calls,
                f"call void @{external('free')}(ptr %w)",
                "ret i64 0",
            ]
        return "\n".join([*functions, _define(f"i64 @{self.name}({_POINTERS})", body)])


def _pointer(name: str, base: str, offset: int) -> str:
    return f"{name} = getelementptr inbounds double, ptr {base}, i64 {offset}"


def _define(head: str, body: list[str], attributes: str = "") -> str:
    lines = "\n".join(f"  {line}" for line in body)
    return f"define {head} nounwind {attributes} {{\nentry:\n{lines}\n}}\n"


def _crossing(stream: Stream, size: int) -> set[int]:
    """Indices of the instructions whose value is used in a later chunk than their own."""
    # Slot -> defining instruction. Constants and inputs are left out: they are fetched anew instead.
    defined: dict[int, int] = {}
    crossing: set[int] = set()
    for k, (op, inputs, output, _) in enumerate(stream):
        if op in (ca.OP_CONST, ca.OP_INPUT):
            defined.pop(output, None)
            continue
        for slot in inputs:
            origin = defined.get(slot)
            if origin is not None and origin // size != k // size:
                crossing.add(origin)
        if op != ca.OP_OUTPUT:
            defined[output] = k
    return crossing
