"""Kernels: CasADi expressions as machine code.

`compile_kernels` turns symbolic functions into native ones, all of a problem at once, and keeps the machine
code on disk. `python_kernel` gives a Python function the same native signature. The native signature is
always ``int64 kernel(const double* a, const double* b, double* out)``, status 0 meaning success, a positive
one a recoverable and a negative one a fatal failure.
"""

from .build import compile_kernels
from .cache import CacheInfo, cache_directory, cache_info, clear_cache
from .callback import python_kernel
from .kernel import KERNEL_TYPE, Kernel
from .lower import UnsupportedOperation
from .spec import KernelSpec
from .vm import VirtualMachineUnavailable

__all__ = [
    "KERNEL_TYPE",
    "CacheInfo",
    "Kernel",
    "KernelSpec",
    "UnsupportedOperation",
    "VirtualMachineUnavailable",
    "cache_directory",
    "cache_info",
    "clear_cache",
    "compile_kernels",
    "python_kernel",
]
