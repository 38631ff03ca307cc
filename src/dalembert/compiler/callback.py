"""Python functions as kernels.

The native entry is a few instructions of LLVM code around CPython's C interface rather than a ctypes
callback. The reason is Ctrl-C: an interrupt that arrived while compiled code was running is raised at the
very entry of the next Python function, before any ``try`` in it. A ctypes callback prints that exception,
drops it and goes on as if nothing had happened. Here every exception, from wherever, is kept by the kernel.
"""

from __future__ import annotations

import ctypes
import operator
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from .engine import build_object, load_object
from .kernel import Kernel

PythonFunction = Callable[[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]], "int | None"]

_C_API: Final = (
    "PyGILState_Ensure",
    "PyGILState_Release",
    "PyObject_CallFunction",
    "PyLong_AsLongLong",
    "PyErr_Occurred",
    "PyErr_Fetch",
    "PyErr_NormalizeException",
    "PyErr_Clear",
    "PyException_SetTraceback",
    "PyList_Append",
    "Py_DecRef",
)


class PythonKernel(Kernel):
    """A kernel that calls a Python function; see `python_kernel`."""

    def __init__(self, name: str, shape: tuple[int, int, int], function: PythonFunction) -> None:
        self._errors: list[BaseException] = []
        entry = _entry(function, shape)
        library = load_object(build_object(_trampoline(entry, self._errors), level=0), ["python_kernel"])
        super().__init__(name, shape, "python", library.addresses[0], 0, (library, entry))

    @property
    def error(self) -> BaseException | None:
        return self._errors[0] if self._errors else None

    def take_error(self) -> BaseException | None:
        error = self.error
        self._errors.clear()
        return error


def python_kernel(name: str, n_a: int, n_b: int, n_out: int, function: PythonFunction) -> Kernel:
    """A kernel that calls a Python function.

    Parameters
    ----------
    name : str
        Name for messages.
    n_a, n_b, n_out : int
        Lengths of the vectors.
    function : callable ``function(a, b, out) -> int or None``
        Gets ``a``, shape (n_a,), and ``b``, shape (n_b,), both read-only, and ``out``, shape (n_out,), to be
        filled. They are views of the caller's memory, valid during the call only: copy what is to be kept.
        Returns the status, None meaning 0.

    Returns
    -------
    Kernel
        If the function raises (KeyboardInterrupt included), the kernel returns the status -1 and holds the
        exception:
        ``kernel.error``, ``kernel.take_error()``. The GIL is taken for the call, so that code which released
        it may call the kernel.
    """
    if not callable(function):
        raise TypeError(f"python kernel {name!r}: function must be callable, got {type(function).__name__}")
    shape = (operator.index(n_a), operator.index(n_b), operator.index(n_out))
    if min(shape) < 0:
        raise ValueError(f"python kernel {name!r}: n_a, n_b and n_out must not be negative, got {shape}")
    return PythonKernel(name, shape, function)


def _array_types(shape: tuple[int, int, int]) -> list[Any]:  # Any: NumPy's stubs do not know ctypes buffers
    return [ctypes.c_double * n for n in shape]


def _entry(function: PythonFunction, shape: tuple[int, int, int]) -> Callable[[int, int, int], int]:
    """The Python side: addresses to arrays, result to status. It need not catch anything."""
    a_type, b_type, out_type = _array_types(shape)
    n_a, n_b, n_out = shape
    nothing = np.empty(0)  # np.frombuffer refuses empty buffers

    def entry(a: int, b: int, out: int) -> int:
        a_view = np.frombuffer(a_type.from_address(a)) if n_a else nothing
        b_view = np.frombuffer(b_type.from_address(b)) if n_b else nothing
        out_view = np.frombuffer(out_type.from_address(out)) if n_out else nothing
        a_view.flags.writeable = False
        b_view.flags.writeable = False
        status = function(a_view, b_view, out_view)
        return 0 if status is None else operator.index(status)

    return entry


def _trampoline(entry: object, errors: list[BaseException]) -> str:
    """The native side. It contains the addresses of the two objects, which must live as long as it does."""
    api = {}
    for function in _C_API:
        address = ctypes.cast(getattr(ctypes.pythonapi, function), ctypes.c_void_p).value
        api[function] = f"inttoptr (i64 {address} to ptr)"
    return f"""
@format = internal constant [4 x i8] c"KKK\\00"

define i64 @python_kernel(ptr %a, ptr %b, ptr %out) {{
entry:
  %type = alloca ptr
  %value = alloca ptr
  %traceback = alloca ptr
  %gil = call i32 {api["PyGILState_Ensure"]}()
  %result = call ptr (ptr, ptr, ...) {api["PyObject_CallFunction"]}(
      ptr inttoptr (i64 {id(entry)} to ptr), ptr @format, ptr %a, ptr %b, ptr %out)
  %raised = icmp eq ptr %result, null
  br i1 %raised, label %store, label %convert
convert:
  %status = call i64 {api["PyLong_AsLongLong"]}(ptr %result)
  call void {api["Py_DecRef"]}(ptr %result)
  %overflow = call ptr {api["PyErr_Occurred"]}()
  %fine = icmp eq ptr %overflow, null
  br i1 %fine, label %leave, label %store
store:
  call void {api["PyErr_Fetch"]}(ptr %type, ptr %value, ptr %traceback)
  call void {api["PyErr_NormalizeException"]}(ptr %type, ptr %value, ptr %traceback)
  %t = load ptr, ptr %type
  %v = load ptr, ptr %value
  %tb = load ptr, ptr %traceback
  %bare = icmp eq ptr %tb, null
  br i1 %bare, label %append, label %trace
trace:
  %set = call i32 {api["PyException_SetTraceback"]}(ptr %v, ptr %tb)
  br label %append
append:
  %appended = call i32 {api["PyList_Append"]}(ptr inttoptr (i64 {id(errors)} to ptr), ptr %v)
  call void {api["PyErr_Clear"]}()
  call void {api["Py_DecRef"]}(ptr %t)
  call void {api["Py_DecRef"]}(ptr %v)
  call void {api["Py_DecRef"]}(ptr %tb)
  br label %leave
leave:
  %code = phi i64 [ %status, %convert ], [ -1, %append ]
  call void {api["PyGILState_Release"]}(i32 %gil)
  ret i64 %code
}}
"""
