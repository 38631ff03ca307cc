"""The kernel cache: hit, miss, damage, and places that cannot be written."""

import os
import subprocess
import sys
import warnings
from pathlib import Path

import casadi as ca
import pytest

import dalembert.compiler.build as build
from dalembert.compiler import KernelSpec, cache_directory, cache_info, clear_cache, compile_kernels


def spec(name: str = "x", factor: float = 2.0) -> KernelSpec:
    x = ca.SX.sym(name, 2)
    return KernelSpec("f", x, ca.SX(), factor * ca.sin(x))


@pytest.fixture
def compiler_calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The steps of compilation that have been run, in order."""
    calls: list[str] = []
    for step in ("lower_module", "build_object"):
        original = getattr(build, step)

        def recorded(*args: object, step: str = step, original: object = original) -> object:
            calls.append(step)
            return original(*args)  # type: ignore[operator]

        monkeypatch.setattr(build, step, recorded)
    return calls


def test_hit_builds_nothing(compiler_calls: list[str]) -> None:
    first = compile_kernels([spec()])["f"]
    assert compiler_calls == ["lower_module", "build_object"]
    second = compile_kernels([spec()])["f"]
    assert compiler_calls == ["lower_module", "build_object"]
    assert first.address != second.address
    assert first([1.0, 2.0]).tolist() == second([1.0, 2.0]).tolist()


def test_key_is_the_content(compiler_calls: list[str]) -> None:
    compile_kernels([spec("x")])
    compile_kernels([spec("other_name")])
    assert len(compiler_calls) == 2, "names do not matter"
    compile_kernels([spec("x", factor=2.0 + 4e-16)])
    assert len(compiler_calls) == 4, "the last bit of a constant does"
    a = ca.SX.sym("a", 2)
    compile_kernels([KernelSpec("f", a[0], a[1], 2 * ca.sin(a))])
    assert len(compiler_calls) == 6, "so does the vector that an input is in"
    assert cache_info().entries == 3


@pytest.mark.parametrize("damage", [b"", b"nonsense", None])
def test_damaged_entries_are_compiled_anew(compiler_calls: list[str], damage: bytes | None) -> None:
    compile_kernels([spec()])
    (entry,) = (cache_directory() / "kernels").iterdir()
    content = entry.read_bytes()
    entry.write_bytes(content[:-20] + b"\0" * 20 if damage is None else damage)
    kernel = compile_kernels([spec()])["f"]
    assert len(compiler_calls) == 4
    assert kernel([0.0, 0.0]).tolist() == [0.0, 0.0]
    assert entry.read_bytes() == content, "the entry has been repaired"


def test_unwritable_directory_warns_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("DALEMBERT_CACHE_DIR", str(tmp_path / "file"))
    with pytest.warns(RuntimeWarning, match="DALEMBERT_CACHE_DIR"):
        kernel = compile_kernels([spec()])["f"]
    assert kernel([0.0, 0.0]).tolist() == [0.0, 0.0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compile_kernels([spec()])
    assert cache_info().entries == 0


def test_cache_can_be_turned_off(monkeypatch: pytest.MonkeyPatch, compiler_calls: list[str]) -> None:
    monkeypatch.setenv("DALEMBERT_CACHE", "0")
    compile_kernels([spec()])
    compile_kernels([spec()])
    assert len(compiler_calls) == 4
    assert not cache_directory().exists()


def test_info_and_clear(own_cache: Path) -> None:
    assert cache_info().entries == cache_info().bytes == 0
    kernel = compile_kernels([spec()])["f"]
    info = cache_info()
    assert (info.directory, info.entries) == (own_cache / "kernels", 1)
    assert info.bytes > 500
    assert clear_cache() == 1
    assert cache_info().entries == 0
    assert kernel([0.0, 0.0]).tolist() == [0.0, 0.0], "what is loaded stays"


def test_directory_follows_the_platform(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DALEMBERT_CACHE_DIR")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("LOCALAPPDATA", "/appdata")
    for platform, tail in {
        "linux": Path.home() / ".cache",
        "darwin": Path.home() / "Library" / "Caches",
        "win32": Path("/appdata"),
    }.items():
        monkeypatch.setattr(sys, "platform", platform)
        assert cache_directory() == tail / "dalembert"


SCRIPT = """
import sys
import casadi as ca
import numpy as np
from numba import njit, types
import dalembert.compiler.build as build
from dalembert.compiler import KERNEL_TYPE, KernelSpec, compile_kernels

vector = types.float64[::1]

@njit(types.int64(KERNEL_TYPE, vector, vector, vector), cache=True, nogil=True)
def call(kernel, a, b, out):
    return kernel(a.ctypes.data, b.ctypes.data, out.ctypes.data)

if sys.argv[1] == "second":
    def refuse(*args):
        raise SystemExit("compiled again")
    build.lower_module = build.build_object = refuse

x, y = ca.SX.sym("x", 2), ca.SX.sym("y")
factor = float(sys.argv[2])
kernel = compile_kernels([KernelSpec("f", x, y, ca.cos(x) * y)])["f"]
other = compile_kernels([KernelSpec("f", x, y, factor * x)], backend="vm")["f"]
out = np.empty(2)
assert call(kernel.first_class, np.array([0.0, 1.0]), np.array([3.0]), out) == 0
assert out.tolist() == [3.0, 3.0 * np.cos(1.0)], out
assert call(other.first_class, np.array([1.0, 2.0]), np.array([3.0]), out) == 0
assert out.tolist() == [factor, 2 * factor]
print("numba cache hits:", sum(call.stats.cache_hits.values()))
"""


def test_second_process_finds_kernels_and_numba_code(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "numba")}

    def run(*arguments: str) -> str:
        process = subprocess.run(
            [sys.executable, str(script), *arguments],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert process.returncode == 0, process.stderr
        return process.stdout.strip()

    assert run("first", "5.0") == "numba cache hits: 0"
    # Another model through the same Numba function: its compiled code does not depend on the kernels.
    assert run("second", "7.0") == "numba cache hits: 1"
