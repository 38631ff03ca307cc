"""The functions of the C library that kernels call, made known to LLVM under private names."""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
import sys
from collections.abc import Iterator
from typing import Final

import llvmlite.binding as llvm

# fmt: off
UNARY: Final = (
    "exp", "log", "log1p", "expm1", "sin", "cos", "tan", "asin", "acos", "atan",
    "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf",
)
# fmt: on
BINARY: Final = ("pow", "atan2", "fmod", "remainder", "hypot")
#: Further functions of the C library: name -> declaration with the name left open.
OTHERS: Final = {
    "printf": "declare i32 @{}(ptr, ...)",
    "malloc": "declare noalias ptr @{}(i64)",
    "free": "declare void @{}(ptr)",
}
#: LLVM's functions for what IEEE 754 rounds exactly: name -> number of arguments.
ROUNDED: Final = {"sqrt": 1, "fabs": 1, "floor": 1, "ceil": 1, "copysign": 2}
# Pure functions: identical calls may be merged and unused ones dropped. (errno is not looked at by anyone.)
_PURE: Final = "nounwind willreturn memory(none)"


def external(function: str) -> str:
    """The private symbol under which a C library function is known to the modules we compile."""
    return f"dalembert_{function}"


def declarations() -> str:
    """LLVM declarations of all functions."""
    lines = [f"declare double @{external(f)}(double) {_PURE}" for f in UNARY]
    lines += [f"declare double @{external(f)}(double, double) {_PURE}" for f in BINARY]
    lines += [declaration.format(external(f)) for f, declaration in OTHERS.items()]
    for f, arguments in ROUNDED.items():
        lines.append(f"declare double @llvm.{f}.f64({', '.join(['double'] * arguments)})")
    return "\n".join(lines) + "\n"


def _libraries() -> Iterator[ctypes.CDLL]:
    """The places where C library functions are looked up, best first."""
    if sys.platform == "win32":
        # ucrtbase has all of C99's mathematics but (its printf being inline) no printf; msvcrt has that.
        names: list[str | None] = ["ucrtbase", "msvcrt"]
    else:
        # CasADi's own libm comes first in the process (None); the others serve static interpreters.
        names = [None, ctypes.util.find_library("m"), ctypes.util.find_library("c")]
    for k, name in enumerate(names):
        if name is None and k > 0:
            continue
        try:
            yield ctypes.CDLL(name)
        except OSError:
            continue


def _address(function: str, libraries: list[ctypes.CDLL]) -> int:
    for library in libraries:
        try:
            pointer = ctypes.cast(getattr(library, function), ctypes.c_void_p).value
        except AttributeError:
            continue
        if pointer:
            return pointer
    raise RuntimeError(f"the C library of this system has no function {function!r}, which kernels may call")


@functools.cache
def register_symbols() -> None:
    """Tell LLVM the addresses of all functions (once a process)."""
    libraries = list(_libraries())
    for function in (*UNARY, *BINARY, *OTHERS):
        llvm.add_symbol(external(function), _address(function, libraries))
    if sys.platform == "win32":  # the stack probe that LLVM inserts in functions with large frames
        llvm.add_symbol("__chkstk", _address("__chkstk", [ctypes.CDLL("ntdll")]))
