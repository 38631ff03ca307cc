"""Python functions as kernels, called from compiled code that has released the GIL."""

import gc
import os
import signal
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numba import njit, types
from numpy.typing import NDArray

from dalembert.compiler import KERNEL_TYPE, python_kernel

Vector = NDArray[np.float64]
vector = types.float64[::1]


@njit(types.int64(KERNEL_TYPE, vector, vector, vector, types.int64, types.int64), nogil=True)
def repeat(kernel, a, b, out, n, spin):  # type: ignore[no-untyped-def]
    """Call the kernel n times or until it fails, with some work of its own in between."""
    value = 1.0
    for _ in range(n):
        for _ in range(spin):
            value = np.sqrt(value + 1e-3)
        status = kernel(a.ctypes.data, b.ctypes.data, out.ctypes.data)
        if status != 0:
            return status
    return 0 if value > 0 else 1


def scale(a: Vector, b: Vector, out: Vector) -> None:
    out[:] = b[0] * a


def test_zero_copy_and_shapes() -> None:
    kernel = python_kernel("scale", 3, 1, 3, scale)
    assert (kernel.backend, kernel.n_a, kernel.n_b, kernel.n_out, kernel.n_instructions) == (
        "python",
        3,
        1,
        3,
        0,
    )
    assert kernel([1, 2, 3], [2.0]).tolist() == [2.0, 4.0, 6.0]
    seen = []

    def look(a: Vector, b: Vector, out: Vector) -> None:
        seen.append((a.ctypes.data, a.flags.writeable, b.shape, out.ctypes.data, out.flags.writeable))

    a, out = np.ones(2), np.empty(1)
    assert repeat(python_kernel("look", 2, 0, 1, look).first_class, a, a, out, 1, 0) == 0
    assert seen == [(a.ctypes.data, False, (0,), out.ctypes.data, True)]


def test_status_is_passed_on() -> None:
    def status(a: Vector, b: Vector, out: Vector) -> int:
        return int(a[0])

    kernel = python_kernel("status", 1, 0, 0, status)
    for value in (0, 3, -4):
        assert repeat(kernel.first_class, np.array([value + 0.0]), np.empty(0), np.empty(0), 1, 0) == value
    with pytest.raises(ArithmeticError, match=r"'status'.*recoverable.*status 3"):
        kernel([3.0])
    assert kernel.error is None


@pytest.mark.parametrize("exception", [ValueError("no"), KeyboardInterrupt(), SystemExit(3)], ids=repr)
def test_exceptions_are_kept(exception: BaseException, capfd: pytest.CaptureFixture[str]) -> None:
    def fail(a: Vector, b: Vector, out: Vector) -> None:
        raise exception

    kernel = python_kernel("fail", 1, 0, 1, fail)
    assert kernel.error is None
    a = np.ones(1)
    assert repeat(kernel.first_class, a, a, np.empty(1), 5, 0) == -1
    assert kernel.error is exception
    assert kernel.error.__traceback__ is not None
    assert kernel.take_error() is exception
    assert kernel.take_error() is None
    with pytest.raises(type(exception)):
        kernel([1.0])
    assert kernel.error is None
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "")


@pytest.mark.parametrize("result", ["text", 1.5, 2**70])
def test_what_is_no_status_is_an_error(result: object) -> None:
    kernel = python_kernel("odd", 0, 0, 0, lambda a, b, out: result)  # type: ignore[arg-type,return-value]
    with pytest.raises((TypeError, OverflowError)):
        kernel([])
    assert kernel.error is None


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT to oneself")
@pytest.mark.parametrize("spin", [0, 100_000], ids=["mostly in Python", "mostly in compiled code"])
def test_interrupt_from_outside(spin: int, capfd: pytest.CaptureFixture[str]) -> None:
    """An interrupt during compiled code is raised at the entry of the next Python call; it is not lost."""
    kernel = python_kernel("scale", 1, 1, 1, scale)
    a = np.ones(1)
    timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        status = repeat(kernel.first_class, a, a, np.empty(1), 10**7, spin)
    finally:
        timer.join()
    assert status == -1
    assert isinstance(kernel.take_error(), KeyboardInterrupt)
    assert capfd.readouterr().err == ""


def test_threads() -> None:
    kernel = python_kernel("scale", 1, 1, 1, scale)

    def work(k: int) -> float:
        out = np.empty(1)
        assert repeat(kernel.first_class, np.array([k + 0.0]), np.array([2.0]), out, 50, 10) == 0
        return float(out[0])

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(40))) == [2.0 * k for k in range(40)]


def test_nested_kernels() -> None:
    """A Python function may itself call compiled code that calls Python."""
    inner = python_kernel("inner", 1, 1, 1, scale)

    def outer(a: Vector, b: Vector, out: Vector) -> None:
        out[:] = inner(a, b) + 1

    assert python_kernel("outer", 1, 1, 1, outer)([3.0], [2.0]) == [7.0]


def test_bad_arguments() -> None:
    with pytest.raises(TypeError, match="must be callable, got int"):
        python_kernel("f", 1, 1, 1, 3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="must not be negative"):
        python_kernel("f", 1, -1, 1, scale)


def test_released_with_its_kernel() -> None:
    class Function:
        def __call__(self, a: Vector, b: Vector, out: Vector) -> None:
            out[:] = a

    function = Function()
    alive = weakref.ref(function)
    kernel = python_kernel("f", 1, 0, 1, function)
    assert kernel([2.0]) == [2.0]
    del function, kernel
    gc.collect()
    assert alive() is None
