"""CasADi instruction streams to LLVM IR.

The IR is written as text: that is several times quicker than building it object by object, and it is what one
wants to read when something is wrong.

A stream of CasADi instructions works on numbered slots. Here every value gets a name of its own (LLVM is in
static single assignment form) and the slots disappear, see `arrange`. Long streams are cut into chunks, one LLVM
function each, because LLVM's time can grow faster than linearly with the length of a basic block. Values that
outlive their chunk travel through a work array, constants and inputs are simply fetched anew.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import casadi as ca

from . import elementary, trigonometry, writer
from . import lanes as vectors
from .arrange import Batch, arranged
from .engine import fuses
from .libm import declarations, external
from .operations import CUBE_ROOT, OPERATIONS, OWN_OPERATIONS, SUPPORT, operation_name
from .spec import Instruction, Stream

#: Part of the cache key: raise it with every change that alters the code generated from the same
#: instructions.
LOWERING_VERSION: Final = 8
#: Instructions per LLVM function.
CHUNK: Final = 1000
#: Work arrays up to this many doubles live on the stack (threads other than the main one can have small
#: stacks).
STACK_DOUBLES: Final = 2048

_STRUCTURE: Final = {ca.OP_CONST, ca.OP_INPUT, ca.OP_OUTPUT}
# Products and sums that may be rounded together; but what goes into these functions is rounded by itself: x x - x x is
# to be zero there, not less.
_FUSED: Final = {
    ca.OP_ADD: "fadd", ca.OP_SUB: "fsub", ca.OP_MUL: "fmul", ca.OP_SQ: "fmul", ca.OP_TWICE: "fmul"
}  # fmt: skip
_BOUNDED: Final = {
    ca.OP_SQRT, ca.OP_LOG, ca.OP_LOG1P, ca.OP_POW, ca.OP_CONSTPOW, ca.OP_ASIN, ca.OP_ACOS, ca.OP_ACOSH, ca.OP_ATANH,
    ca.OP_ERFINV, CUBE_ROOT,
}  # fmt: skip
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
    for width in {trigonometry.WIDTH, *(stream.lanes for stream in streams)} - {1}:
        parts.append(vectors.declarations(width))
        if fuses():
            parts += [writer.declaration(width), trigonometry.definition(width)]
    if fuses():
        quick = [stream for stream in streams if stream.fused and stream.lanes > 1]
        parts += [trigonometry.definition(width, quick=True) for width in {stream.lanes for stream in quick}]
        own = {(x.op, stream.lanes) for stream in quick for x in stream if x.op in elementary.OWN}
        own |= {(CUBE_ROOT, lanes) for op, lanes in own if op in (ca.OP_POW, ca.OP_CONSTPOW)}  # some become that
        parts += [elementary.definition(*function) for function in sorted(own)]
    parts += [_Lowering(symbol(k), stream).run() for k, stream in enumerate(streams)]
    return "\n".join(parts)


class _Lowering:
    """State of the walk over one instruction stream."""

    def __init__(self, name: str, stream: Stream) -> None:
        self.name = name
        self.lanes, self.kind, self.fused = stream.lanes, vectors.kind(stream.lanes), stream.fused
        self.stream = arranged(stream, fuses())
        self.apart = _rounded_apart(self.stream) if stream.fused else frozenset[int]()
        self.size = -(-len(self.stream) // max(1, -(-len(self.stream) // CHUNK)))  # chunks of equal length
        self.work = _work(self.stream, self.size)
        self.chunks: list[list[str]] = []
        self.values: dict[int, Value] = {}
        self.fetched: dict[tuple[str, int], str] = {}  # what the current chunk has loaded already
        self.n_names = 0

    def run(self) -> str:
        for k, instruction in enumerate(self.stream):
            if k % self.size == 0:
                self.chunks.append([])
                self.fetched = {}
            if isinstance(instruction, Batch):
                self._emit_batch(instruction)
            else:
                self._emit(instruction)
        return self._assemble()

    def _emit(self, instruction: Instruction) -> None:
        op, inputs, output, constant = instruction
        chunk = len(self.chunks) - 1
        lines = self.chunks[chunk]
        if op == ca.OP_CONST:
            self.values[output] = Value(chunk, vectors.constant(self.lanes, constant), None)
        elif op == ca.OP_INPUT:
            base = _INPUTS[inputs[0]]
            self.values[output] = Value(-1, "", (base, inputs[1] if base == "%b" else self.lanes * inputs[1]))
        elif op == ca.OP_OUTPUT:
            value = self._use(inputs[0], chunk)
            lines.append(_pointer(f"%o{output}", "%out", self.lanes * output))
            lines.append(f"store {self.kind} {value}, ptr %o{output}, align 8")
        else:
            operation = OPERATIONS[op] if op in OPERATIONS else OWN_OPERATIONS[op]
            operands = [self._use(number, chunk) for number in inputs[: operation.arity]]
            name = self._name()
            if self.fused and self.lanes > 1 and op in elementary.OWN and fuses():
                made = [elementary.call(op, name, operands, self.lanes)]
            else:
                made = vectors.lines_of(operation, self.lanes, name, operands)
            if self.fused and op in _FUSED and output not in self.apart:
                made = [line.replace(_FUSED[op], f"{_FUSED[op]} contract", 1) for line in made]
            lines += made
            self._keep(output, name)

    def _emit_batch(self, batch: Batch) -> None:
        chunk = len(self.chunks) - 1
        angles = [self._use(number, chunk) for number in batch.angles]
        if self.lanes > 1:
            for angle, sine in zip(angles, batch.sines, strict=True):
                name = self._name()
                self.chunks[chunk] += trigonometry.call_vector(name, angle, self.lanes, self.fused)
                self._keep(sine, f"{name}.s")
                self._keep(sine + 1, f"{name}.c")
            return
        name = self._name()
        self.chunks[chunk] += trigonometry.call(name, angles)
        for j, sine in enumerate(batch.sines):
            for part, number in (("s", sine), ("c", sine + 1)):  # the optimiser drops those that nobody uses
                result = self._name()
                self.chunks[chunk].append(trigonometry.one_of(result, name, part, j))
                self._keep(number, result)

    def _keep(self, number: int, name: str) -> None:
        """Note where a value is found, and store it if other chunks use it."""
        chunk, source = len(self.chunks) - 1, None
        if number in self.work:
            source = ("%w", self.lanes * self.work[number])
            self.chunks[chunk].append(_pointer(f"{name}.w", *source))
            self.chunks[chunk].append(f"store {self.kind} {name}, ptr {name}.w, align 8")
        self.values[number] = Value(chunk, name, source)

    def _use(self, number: int, chunk: int) -> str:
        """The text of a value in the given chunk, fetched from memory if need be."""
        value = self.values[number]
        if value.source is None or value.chunk == chunk:
            return value.name
        # A work slot can be overwritten by a later value, so its key is the value's own name.
        key = (value.name, value.chunk) if value.source[0] == "%w" else value.source
        if key not in self.fetched:
            name, lines = self._name(), self.chunks[chunk]
            lines.append(_pointer(f"{name}.p", *value.source))
            if self.lanes > 1 and value.source[0] == "%b":
                lines.append(f"{name}.b = load double, ptr {name}.p")
                lines += vectors.spread(name, self.lanes, f"{name}.b")
            else:
                lines.append(f"{name} = load {self.kind}, ptr {name}.p, align 8")
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
        n_work = self.lanes * (1 + max(self.work.values(), default=0))
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


def _rounded_apart(stream: Sequence[Instruction | Batch]) -> frozenset[int]:
    """Values that go into functions that are not defined everywhere."""
    plain = (x for x in stream if not isinstance(x, Batch))
    return frozenset(number for x in plain if x.op in _BOUNDED for number in x.inputs)


def _work(stream: Sequence[Instruction | Batch], size: int) -> dict[int, int]:
    """Places in the work array of the values that are used in a later chunk than their own; reused after the last use.

    Constants and inputs have none: they are fetched anew instead.
    """
    defined: dict[int, int] = {}  # number -> defining instruction
    last: dict[int, int] = {}  # of the values that cross: number -> last instruction that uses it
    for k, instruction in enumerate(stream):
        if not isinstance(instruction, Batch) and instruction.op in (ca.OP_CONST, ca.OP_INPUT):
            continue
        for number in instruction.angles if isinstance(instruction, Batch) else instruction.inputs:
            origin = defined.get(number)
            if origin is not None and (number in last or origin // size != k // size):
                last[number] = k
        if isinstance(instruction, Batch):
            defined.update(dict.fromkeys(instruction.results, k))
        elif instruction.op != ca.OP_OUTPUT:
            defined[instruction.output] = k
    places: dict[int, int] = {}
    free: list[int] = []
    ending: list[tuple[int, int]] = []  # (last use, place), a heap
    used = 0
    for number in sorted(last, key=lambda i: defined[i]):
        while ending and ending[0][0] < defined[number]:
            heapq.heappush(free, heapq.heappop(ending)[1])
        if free:
            places[number] = heapq.heappop(free)
        else:
            places[number], used = used, used + 1
        heapq.heappush(ending, (last[number], places[number]))
    return places
