"""LLVM: optimise modules, emit object code, load object code."""

from __future__ import annotations

import functools
import sys
import threading
from dataclasses import dataclass
from typing import Final

import llvmlite
import llvmlite.binding as llvm

from .libm import register_symbols

#: Optimisation level of kernels. On straight-line arithmetic, levels 2 and 3 make no faster code (measured on
#: mechanisms and LU factorisations of 100 to 65,000 instructions) and take half as long again to compile.
#: Vectorising (SLP) gains nothing on small kernels and up to 10 % on large ones, for two to four times the
#: compile time. Level 0 compiles five times faster and makes code about two times slower.
LEVEL: Final = 1

# Building and loading go through LLVM's global state.
LOCK: Final = threading.RLock()


@functools.cache
def _initialize() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    register_symbols()


@functools.cache
def host() -> tuple[str, str, str]:
    """Target triple, processor name and processor features of this machine."""
    features = llvm.get_host_cpu_features()
    return llvm.get_process_triple(), llvm.get_host_cpu_name(), features.flatten() if features else ""


@functools.cache
def fuses() -> bool:
    """True if this machine multiplies and adds in one instruction, rounding once."""
    return host()[0].startswith(("aarch64", "arm64")) or bool((llvm.get_host_cpu_features() or {}).get("fma"))


def identity() -> str:
    """What, besides the source, object code depends on."""
    return "\n".join([llvmlite.__version__, str(llvm.llvm_version_info), *host()])


def _target_machine(level: int) -> llvm.TargetMachine:
    triple, cpu, features = host()
    target = llvm.Target.from_triple(triple)
    # Windows on x86-64 wants position independent code from MCJIT, the others decide for themselves.
    reloc = "pic" if sys.platform == "win32" else "default"
    return target.create_target_machine(
        cpu=cpu, features=features, opt=level, reloc=reloc, codemodel="jitdefault", jit=True
    )


def build_object(ir: str, level: int = LEVEL) -> bytes:
    """Compile LLVM IR to relocatable object code for this machine.

    Parameters
    ----------
    ir : str
        A module in LLVM's assembly language.
    level : int
        Optimisation level, 0 to 3.
    """
    with LOCK:
        _initialize()
        module = llvm.parse_assembly(ir)
        module.verify()
        machine = _target_machine(level)
        module.triple = machine.triple
        module.data_layout = str(machine.target_data)
        if level > 0:
            options = llvm.create_pipeline_tuning_options(speed_level=level)
            builder = llvm.create_pass_builder(machine, options)
            builder.getModulePassManager().run(module, builder)
        return bytes(machine.emit_object(module))


@dataclass(frozen=True)
class Library:
    """Loaded machine code. It stays valid as long as this object lives.

    Attributes
    ----------
    addresses : tuple of int
        Entry points, in the order of the symbols asked for.
    """

    addresses: tuple[int, ...]
    engine: llvm.ExecutionEngine


def load_object(code: bytes, symbols: list[str]) -> Library:
    """Load object code and look up symbols, which it must define."""
    with LOCK:
        _initialize()
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _target_machine(0))
        engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        engine.finalize_object()
        return Library(tuple(engine.get_function_address(s) for s in symbols), engine)
