"""Lines of LLVM IR for functions of vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from .literals import literal

# Adding this and subtracting it again leaves no places behind the point; the integer is in its last bits.
ROUNDING: Final = 1.5 * 2.0**52


class Writer:
    """Collects the lines of a function; every value that is put gets a name of its own."""

    def __init__(self, width: int) -> None:
        self.width, self.lines = width, list[str]()
        self.vector, self.integers, self.bits = (f"<{width} x {kind}>" for kind in ("double", "i64", "i1"))

    def constant(self, value: float) -> str:
        return "<" + ", ".join([f"double {literal(value)}"] * self.width) + ">"

    def words(self, value: int) -> str:
        return "<" + ", ".join([f"i64 {value}"] * self.width) + ">"

    def put(self, text: str) -> str:
        name = f"%t{len(self.lines)}"
        self.lines.append(f"  {name} = {text}")
        return name

    def op(self, what: str, a: str, b: str) -> str:
        return self.put(f"{what} {self.vector} {a}, {b}")

    def fma(self, a: str, b: str, c: str) -> str:
        vector = self.vector
        return self.put(f"call {vector} @llvm.fma.v{self.width}f64({vector} {a}, {vector} {b}, {vector} {c})")

    def minus(self, a: str) -> str:
        return self.put(f"fneg {self.vector} {a}")

    def rounded(self, function: str, *arguments: str) -> str:
        """One of LLVM's functions that IEEE 754 rounds exactly."""
        operands = ", ".join(f"{self.vector} {x}" for x in arguments)
        return self.put(f"call {self.vector} @llvm.{function}.v{self.width}f64({operands})")

    def word(self, what: str, a: str, b: str) -> str:
        """An operation on integers."""
        return self.put(f"{what} {self.integers} {a}, {b}")

    def as_words(self, a: str) -> str:
        return self.put(f"bitcast {self.vector} {a} to {self.integers}")

    def as_numbers(self, a: str) -> str:
        return self.put(f"bitcast {self.integers} {a} to {self.vector}")

    def compare(self, how: str, a: str, b: str) -> str:
        return self.put(f"fcmp {how} {self.vector} {a}, {b}")

    def either(self, a: str, b: str) -> str:
        return self.put(f"or {self.bits} {a}, {b}")

    def choose(self, condition: str, a: str, b: str) -> str:
        return self.put(f"select {self.bits} {condition}, {self.vector} {a}, {self.vector} {b}")

    def horner(self, z: str, coefficients: Sequence[float]) -> str:
        value = self.constant(coefficients[-1])
        for c in reversed(coefficients[:-1]):
            value = self.fma(value, z, self.constant(c))
        return value

    def guard(self, far: str) -> int:
        """Lanes where the function needs the library; what is put behind is for the others. For `function`."""
        mask = self.put(f"bitcast {self.bits} {far} to i{self.width}")
        self.put(f"icmp eq i{self.width} {mask}, 0")
        return len(self.lines)

    def function(self, head: str, near: int, end: str, elsewhere: str) -> str:
        """The function: its lines, and another way for all lanes if one of them is ``elsewhere``; 0: there is none."""

        def text(lines: Sequence[str]) -> str:
            return "\n".join(lines) + "\n"

        begin = f"define internal {head} noinline nounwind willreturn memory(none) {{\n"
        if near == 0:
            return f"{begin}{text([*self.lines, '  ' + end])}}}\n"
        branch = f"  br i1 %t{near - 1}, label %here, label %elsewhere\nhere:"
        lines = [*self.lines[:near], branch, *self.lines[near:], f"  {end}", "elsewhere:"]
        return f"{begin}{text(lines)}{text(['  ' + line for line in elsewhere.splitlines()])}}}\n"


def declaration(width: int) -> str:
    """What these functions need of LLVM, besides what is rounded exactly."""
    vector = f"<{width} x double>"
    return f"declare {vector} @llvm.fma.v{width}f64({vector}, {vector}, {vector})\n"
