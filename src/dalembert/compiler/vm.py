"""Kernels that run on CasADi's virtual machine.

For graphs too large to compile in reasonable time. The virtual machine needs a few nanoseconds per
instruction and no compile time. It is reached through the C interface of libcasadi (``casadi_c.h``), by a
small piece of LLVM code that gives it the native signature of a kernel, so that no Python is involved in a
call.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import casadi as ca

from .engine import LOCK, Library, build_object, load_object
from .libm import declarations, external
from .lower import STACK_DOUBLES

# Functions handed to libcasadi, by content: it keeps them until the process ends, so each goes there once
# only.
_loaded: Final[dict[bytes, int]] = {}


class VirtualMachineUnavailable(RuntimeError):
    """libcasadi's C interface cannot be reached."""


@functools.cache
def _libcasadi() -> ctypes.CDLL:
    """The libcasadi that the casadi package ships (the one in this process already)."""
    directory = Path(ca.__file__).parent
    patterns = {"win32": ["libcasadi.dll", "casadi.dll"], "darwin": ["libcasadi.*dylib"]}.get(
        sys.platform, ["libcasadi.so*"]
    )
    candidates = [path for pattern in patterns for path in sorted(directory.glob(pattern))]
    failures = []
    for path in candidates:
        try:
            library = ctypes.CDLL(str(path))
            library.casadi_c_eval_id  # noqa: B018  raises AttributeError if the interface is missing
        except (OSError, AttributeError) as error:
            failures.append(f"{path.name}: {error}")
        else:
            library.casadi_c_push_file.argtypes = [ctypes.c_char_p]
            return library
    reason = "; ".join(failures) or f"no {' or '.join(patterns)} in {directory}"
    raise VirtualMachineUnavailable(f"CasADi's virtual machine cannot be reached ({reason})")


def load_vm(functions: Sequence[ca.Function]) -> Library:
    """Native entry points for functions on the virtual machine.

    Parameters
    ----------
    functions : sequence of casadi.Function
        SX functions with two dense inputs and one dense output.

    Raises
    ------
    VirtualMachineUnavailable
        If libcasadi's C interface cannot be reached.
    """
    with LOCK:
        library = _libcasadi()
        entries = [_entry(library, f"vm_{k}", function) for k, function in enumerate(functions)]
        code = build_object("\n".join([declarations(), *entries]))
        return load_object(code, [f"vm_{k}" for k in range(len(functions))])


def _push(library: ctypes.CDLL, function: ca.Function) -> int:
    """Hand a function over to libcasadi, by way of a file, and return its number there."""
    content = function.serialize().encode()
    key = hashlib.sha256(content).digest()
    if key not in _loaded:
        number = library.casadi_c_n_loaded()
        handle, path = tempfile.mkstemp(suffix=".casadi")
        os.close(handle)
        try:
            function.save(path)
            failed = library.casadi_c_push_file(os.fsencode(path))
        finally:
            os.unlink(path)
        if failed or library.casadi_c_n_loaded() != number + 1:
            raise VirtualMachineUnavailable("libcasadi does not accept a function that CasADi has saved")
        _loaded[key] = number
    return _loaded[key]


def _address(library: ctypes.CDLL, function: str) -> str:
    return f"inttoptr (i64 {ctypes.cast(getattr(library, function), ctypes.c_void_p).value} to ptr)"


def _entry(library: ctypes.CDLL, name: str, function: ca.Function) -> str:
    """LLVM code of one entry point: set up the argument, result and work arrays, call the virtual machine.

    All memory belongs to the call, including the memory object that libcasadi checks out, hence it is
    reentrant.
    """
    number = _push(library, function)
    n_arg, n_res = max(2, function.sz_arg()), max(1, function.sz_res())
    n_iw, n_w = function.sz_iw(), function.sz_w()
    on_heap = n_iw + n_w > STACK_DOUBLES
    size = max(1, n_iw + n_w)  # both arrays have entries of eight bytes: casadi_int is long long
    memory = (
        f"%work = call ptr @{external('malloc')}(i64 {8 * size})"
        if on_heap
        else f"%work = alloca [{size} x double], align 16"
    )
    return f"""
define i64 @{name}(ptr %a, ptr %b, ptr %out) {{
entry:
  %arg = alloca [{n_arg} x ptr]
  %res = alloca [{n_res} x ptr]
  {memory}
  %none = icmp eq ptr %work, null
  br i1 %none, label %failed, label %run
failed:
  ret i64 -1
run:
  store [{n_arg} x ptr] zeroinitializer, ptr %arg
  store [{n_res} x ptr] zeroinitializer, ptr %res
  store ptr %a, ptr %arg
  %arg1 = getelementptr ptr, ptr %arg, i64 1
  store ptr %b, ptr %arg1
  store ptr %out, ptr %res
  %w = getelementptr double, ptr %work, i64 {n_iw}
  %mem = call i32 {_address(library, "casadi_c_checkout_id")}(i32 {number})
  %status = call i32 {_address(library, "casadi_c_eval_id")}(
      i32 {number}, ptr %arg, ptr %res, ptr %work, ptr %w, i32 %mem)
  call void {_address(library, "casadi_c_release_id")}(i32 {number}, i32 %mem)
  {f"call void @{external('free')}(ptr %work)" if on_heap else ""}
  %bad = icmp ne i32 %status, 0
  %code = sext i1 %bad to i64
  ret i64 %code
}}
"""
