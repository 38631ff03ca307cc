"""The compiled kernel and its faces: native address, Numba first-class function, Python call."""

from __future__ import annotations

import ctypes
from typing import Final, Literal, NoReturn

import numba.experimental.function_type  # noqa: F401  registers first-class functions with Numba
import numpy as np
from numba import types
from numba.core.typing.templates import Signature
from numpy.typing import ArrayLike, NDArray

#: Signature of every kernel: addresses of a, b and out; status.
SIGNATURE: Final = types.int64(types.uintp, types.uintp, types.uintp)
#: Numba's type of a kernel, for the signatures of eagerly compiled functions.
KERNEL_TYPE: Final = types.FunctionType(SIGNATURE)

_PROTOTYPE: Final = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_size_t)


class FirstClass(types.WrapperAddressProtocol):
    """A kernel as an argument of a Numba function whose signature says `KERNEL_TYPE`."""

    # Numba reads the type here instead of asking `signature`: a call with six kernels takes 20 us instead of
    # 100.
    _numba_type_ = KERNEL_TYPE

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel  # keeps the machine code alive for as long as Numba may call it

    def __wrapper_address__(self) -> int:
        return self._kernel.address

    def signature(self) -> Signature:
        return SIGNATURE


class Kernel:
    """A native function of two vectors: ``int64 kernel(const double* a, const double* b, double* out)``.

    The status is 0 if all went well, positive for a recoverable failure, negative for a fatal one. Kernels
    hold no state and may be called from several threads at once. ``out`` must not overlap ``a`` or ``b``.

    Attributes
    ----------
    name : str
    n_a, n_b, n_out : int
        Lengths of the vectors.
    backend : "llvm", "vm" or "python"
        What computes: machine code, CasADi's virtual machine, or a Python function.
    address : int
        Address of the native function. Valid as long as the kernel lives.
    n_instructions : int
        Length of the CasADi instruction stream behind it (0 for a Python function).
    first_class : FirstClass
        The kernel for Numba; inside, call it as ``kernel(a.ctypes.data, b.ctypes.data, out.ctypes.data)``.
    """

    def __init__(
        self,
        name: str,
        shape: tuple[int, int, int],
        backend: Literal["llvm", "vm", "python"],
        address: int,
        n_instructions: int,
        keep_alive: object,
    ) -> None:
        self.name = name
        self.n_a, self.n_b, self.n_out = shape
        self.backend = backend
        self.address = address
        self.n_instructions = n_instructions
        self._keep_alive = keep_alive
        self._native = _PROTOTYPE(address)

    def __call__(self, a: ArrayLike, b: ArrayLike = ()) -> NDArray[np.float64]:
        """Evaluate the kernel, conveniently rather than quickly.

        Parameters
        ----------
        a, b : array_like, shapes (n_a,) and (n_b,)

        Returns
        -------
        ndarray, shape (n_out,)

        Raises
        ------
        ValueError
            If an input has the wrong shape.
        ArithmeticError
            If the kernel reports a failure. The exception of a Python function behind it is raised as it is.
        """
        vector_a = self._vector("a", a, self.n_a)
        vector_b = self._vector("b", b, self.n_b)
        out = np.empty(self.n_out)
        status = self._native(*(x.__array_interface__["data"][0] for x in (vector_a, vector_b, out)))
        if status != 0:
            self._raise(status)
        return out

    @property
    def first_class(self) -> FirstClass:
        """The kernel for Numba. It keeps the kernel alive."""
        # Made on demand: stored, it would form a reference cycle and delay the release of the machine code.
        return FirstClass(self)

    @property
    def error(self) -> BaseException | None:
        """The exception that a Python function behind the kernel raised and that nobody has taken yet."""
        return None

    def take_error(self) -> BaseException | None:
        """Return that exception and forget it."""
        return None

    def _raise(self, status: int) -> NoReturn:
        error = self.take_error()
        if error is not None:
            raise error
        kind = "recoverable" if status > 0 else "fatal"
        raise ArithmeticError(f"kernel {self.name!r} reported a {kind} failure (status {status})")

    def _vector(self, label: str, value: ArrayLike, length: int) -> NDArray[np.float64]:
        vector = np.ascontiguousarray(value, dtype=np.float64)
        if vector.shape != (length,):
            raise ValueError(f"kernel {self.name!r}: {label} must have shape ({length},), got {np.shape(value)}")
        return vector

    def __repr__(self) -> str:
        return (
            f"Kernel({self.name!r}, a[{self.n_a}], b[{self.n_b}] -> out[{self.n_out}], {self.backend}, "
            f"{self.n_instructions} instructions)"
        )
