"""What a kernel computes: its CasADi expressions, and the stream of instructions they become."""

from __future__ import annotations

import functools
from array import array
from dataclasses import dataclass, field
from typing import NamedTuple

import casadi as ca


class Instruction(NamedTuple):
    """One step of CasADi's evaluation.

    ``inputs`` and ``output`` are numbers of work slots, except that an ``OP_INPUT`` has the number of the
    vector and the index in it as inputs, and an ``OP_OUTPUT`` the index in the output vector as output.
    """

    op: int
    inputs: tuple[int, ...]
    output: int
    constant: float


class Stream(tuple[Instruction, ...]):
    """All instructions of a function, in order; for numbers, or for vectors of so many lanes."""

    lanes: int
    fused: bool

    @classmethod
    def of(cls, function: ca.Function, lanes: int = 1, fused: bool = False) -> Stream:
        """Read the instructions of an SX function with one output."""
        instructions = []
        for k in range(function.n_instructions()):
            op = function.instruction_id(k)
            constant = function.instruction_constant(k) if op == ca.OP_CONST else 0.0
            # The last number is the slot or, for an output, the index of the entry; calls may have several.
            output = function.instruction_output(k)[-1]
            instructions.append(Instruction(op, tuple(function.instruction_input(k)), output, constant))
        stream = cls(instructions)
        stream.lanes, stream.fused = lanes, fused
        return stream

    def to_bytes(self) -> bytes:
        """Everything that matters for the code and nothing else (no names), for the content key."""
        numbers = array("q", [self.lanes, self.fused])
        for instruction in self:
            numbers.extend((instruction.op, len(instruction.inputs), *instruction.inputs, instruction.output))
        return numbers.tobytes() + array("d", (i.constant for i in self)).tobytes()


@dataclass(frozen=True, eq=False)  # SX compares elementwise; identity is what is meant
class KernelSpec:
    """A kernel to be compiled: ``out`` as a function of ``a`` and ``b``.

    Parameters
    ----------
    name : str
        Name under which `compile_kernels` returns the kernel.
    a, b : casadi.SX, shapes (n_a, 1) and (n_b, 1)
        Dense columns of symbols, possibly of length 0.
    out : casadi.SX, shape (n_out, 1)
        Expressions in those symbols. Entries that are structurally zero are written as zeros.
    rare : bool
        Called so seldom that, where not everything is compiled, this one need not be.
    lanes : int
        Evaluate at so many states at once: ``a`` and ``out`` are then matrices of so many columns, stored row by row;
        ``b`` is common to all states. Always machine code.
    fused : bool
        Digits may differ from CasADi's in the last place, for speed: products and sums are rounded once where the
        processor does both in one, sines and cosines of sums follow from those of their terms, and in lanes all sines
        and cosines are right to 1.6 units in the last place instead of 0.8, and most other functions to 3.

    Raises
    ------
    ValueError
        If ``a`` or ``b`` contain anything but distinct symbols, if ``out`` is not a column, or if it depends
        on symbols that are in neither.
    """

    name: str
    a: ca.SX
    b: ca.SX
    out: ca.SX
    rare: bool = False
    lanes: int = 1
    fused: bool = False
    function: ca.Function = field(init=False, repr=False)

    def __post_init__(self) -> None:
        for label in ("a", "b", "out"):
            try:
                value = ca.SX(getattr(self, label))
            except NotImplementedError as error:
                raise TypeError(
                    f"kernel {self.name!r}: {label} must be a casadi.SX column, "
                    f"got {type(getattr(self, label)).__name__}"
                ) from error
            if value.numel() == 0:
                value = ca.SX(0, 1)
            if not value.is_column():
                raise ValueError(
                    f"kernel {self.name!r}: {label} must be a column vector, got shape {value.shape}; use casadi.vec"
                )
            object.__setattr__(self, label, ca.densify(value) if label == "out" else value)
        self._check_symbols()
        # Common subexpressions are merged here, once for both backends; the values do not change.
        function = ca.Function("kernel", [self.a, self.b], [self.out], {"cse": True, "allow_free": True})
        if function.has_free():
            names = ", ".join(sorted(set(function.get_free())))
            raise ValueError(f"kernel {self.name!r}: out depends on symbols that are in neither a nor b: {names}")
        object.__setattr__(self, "function", function)

    def _check_symbols(self) -> None:
        for label in ("a", "b"):
            value = getattr(self, label)
            if not (value.is_dense() and value.is_valid_input()):
                raise ValueError(f"kernel {self.name!r}: {label} must consist of symbols, got {value}")
        symbols = ca.vertcat(self.a, self.b)
        if len(ca.symvar(symbols)) < symbols.numel():  # SX.has_duplicates would leave marks on the symbols
            raise ValueError(f"kernel {self.name!r}: a symbol occurs twice in a and b: {symbols}")

    @functools.cached_property
    def stream(self) -> Stream:
        """The instructions of the kernel."""
        return Stream.of(self.function, self.lanes, self.fused)

    @property
    def n_a(self) -> int:
        """Length of the first input vector."""
        return int(self.a.numel()) * self.lanes

    @property
    def n_b(self) -> int:
        """Length of the second input vector."""
        return int(self.b.numel())

    @property
    def n_out(self) -> int:
        """Length of the output vector."""
        return int(self.out.numel()) * self.lanes

    @property
    def n_instructions(self) -> int:
        """Length of the instruction stream."""
        return int(self.function.n_instructions())
