"""From specifications to kernels: choose the backend, look in the cache, compile."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Sequence
from typing import Final, Literal

import casadi as ca

from . import cache
from .engine import LEVEL, LOCK, Library, build_object, identity, load_object
from .kernel import Kernel
from .lower import LOWERING_VERSION, lower_module, symbol, unsupported_operations
from .spec import KernelSpec, Stream
from .vm import VirtualMachineUnavailable, load_vm

#: A bundle with more instructions than this is not compiled as a whole: its rare kernels, then its largest
#: ones, run on the virtual machine. (At 60 us an instruction, that many take some 10 s to compile, once per
#: machine.)
AUTO_LIMIT: Final = 160_000


def compile_kernels(
    specs: Sequence[KernelSpec], *, backend: Literal["auto", "llvm", "vm"] = "auto"
) -> dict[str, Kernel]:
    """Make native kernels, all those of one problem at once.

    Parameters
    ----------
    specs : sequence of KernelSpec
        The kernels, with distinct names. They are compiled as one module and kept in the cache as one entry.
    backend : "auto", "llvm" or "vm"
        Machine code, CasADi's virtual machine (no compile time, some twenty times slower), or a choice:
        machine code, except for kernels with operations that cannot be compiled, and for the rare, then the
        largest kernels of a bundle with more than `AUTO_LIMIT` instructions.

    Returns
    -------
    dict of str to Kernel
        In the order of ``specs``. ``kernel.backend`` tells what was chosen.

    Raises
    ------
    ValueError
        If names are not distinct or the backend is unknown.
    UnsupportedOperation
        If an expression contains an operation that cannot be compiled and ``backend`` is "llvm".
    VirtualMachineUnavailable
        If ``backend`` is "vm" and libcasadi cannot be reached.
    """
    if backend not in ("auto", "llvm", "vm"):
        raise ValueError(f"backend must be 'auto', 'llvm' or 'vm', got {backend!r}")
    names = [spec.name for spec in specs]
    if len(set(names)) < len(names):
        repeated = sorted({name for name in names if names.count(name) > 1})
        raise ValueError(f"kernels must have distinct names; repeated: {', '.join(repeated)}")

    wide = [spec.name for spec in specs if spec.lanes > 1]
    if wide and backend == "vm":
        raise ValueError(f"backend 'vm' has no lanes: {', '.join(wide)}")
    interpreted = {"auto": _unsuitable(specs), "llvm": set(), "vm": set(names)}[backend]
    kernels: dict[str, Kernel] = {}
    on_vm = [spec for spec in specs if spec.name in interpreted]
    level = LEVEL
    if on_vm:
        try:
            kernels |= _kernels(on_vm, "vm", load_vm([spec.function for spec in on_vm]))
        except VirtualMachineUnavailable as error:
            if backend == "vm":
                raise
            warnings.warn(f"{error}; compiling without optimisation instead", RuntimeWarning, stacklevel=2)
            level = 0
    native = [spec for spec in specs if spec.name not in kernels]
    if native:
        kernels |= _kernels(native, "llvm", _load_llvm([spec.stream for spec in native], level))
    return {name: kernels[name] for name in names}


def _unsuitable(specs: Sequence[KernelSpec]) -> set[str]:
    """Names of the kernels not to be compiled: those that cannot be, and what is rare or large if there is too much."""
    choice = [spec for spec in specs if spec.lanes == 1]
    names = {spec.name for spec in choice if unsupported_operations(spec.stream)}
    rest = sum(spec.n_instructions for spec in specs if spec.name not in names)
    for spec in sorted(choice, key=lambda spec: (spec.rare, spec.n_instructions), reverse=True):
        if rest <= AUTO_LIMIT:
            break
        if spec.name not in names:
            names.add(spec.name)
            rest -= spec.n_instructions
    return names


def _kernels(specs: Sequence[KernelSpec], backend: Literal["llvm", "vm"], library: Library) -> dict[str, Kernel]:
    return {
        spec.name: Kernel(spec.name, (spec.n_a, spec.n_b, spec.n_out), backend, address, spec.n_instructions, library)
        for spec, address in zip(specs, library.addresses, strict=True)
    }


def _load_llvm(streams: Sequence[Stream], level: int) -> Library:
    """Machine code from the cache or, if it is not there, from the compiler."""
    key = _key(streams, level)
    code = cache.read(key)
    if code is None:
        with LOCK:
            code = build_object(lower_module(streams), level)
        cache.write(key, code)
    return load_object(code, [symbol(k) for k in range(len(streams))])


def _key(streams: Sequence[Stream], level: int) -> str:
    """Hash of all that the machine code depends on. It needs no IR, so that a hit costs next to nothing."""
    context = "\n".join([str(LOWERING_VERSION), str(level), ca.CasadiMeta.version(), identity()])
    digest = hashlib.sha256()
    for part in [context.encode(), *(stream.to_bytes() for stream in streams)]:
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()
