"""Numbers in LLVM IR."""

from __future__ import annotations

import struct


def literal(value: float) -> str:
    """The LLVM literal of a double: hexadecimal, since a decimal one is refused unless it is exact."""
    return "0x" + struct.pack(">d", value).hex().upper()
