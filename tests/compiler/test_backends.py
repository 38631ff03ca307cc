"""Whole graphs: LLVM against the virtual machine against CasADi's ordinary evaluation."""

import gc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import casadi as ca
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dalembert.compiler.build as build
import dalembert.compiler.lower as lower
import dalembert.compiler.vm as vm
from dalembert.compiler import KernelSpec, UnsupportedOperation, compile_kernels
from dalembert.compiler.operations import OPERATIONS

Bits = Callable[[object, object], bool]
Chain = Callable[[int], tuple[ca.SX, ca.SX, ca.SX]]

SMOOTH = sorted(set(OPERATIONS) - {ca.OP_PRINTME, ca.OP_ASSIGN, ca.OP_LIFT})
steps = st.lists(st.tuples(st.sampled_from(SMOOTH), st.integers(0, 999), st.integers(0, 999)), min_size=1, max_size=60)
numbers = st.floats(-50, 50) | st.sampled_from([0.0, -0.0, 1.0, np.inf, np.nan])


def graph(program: list[tuple[int, int, int]]) -> tuple[ca.SX, ca.SX, ca.SX]:
    """An expression graph in which each node refers to earlier ones."""
    a, b = ca.SX.sym("a", 2), ca.SX.sym("b", 1)
    nodes = [a[0], a[1], b[0], ca.SX(0.37), ca.SX(-2.0)]
    for op, i, j in program:
        x, y = nodes[i % len(nodes)], nodes[j % len(nodes)]
        nodes.append(ca.SX.unary(op, x) if OPERATIONS[op].arity == 1 else ca.SX.binary(op, x, y))
    return a, b, ca.vertcat(*nodes[-20:])


def reference(a: ca.SX, b: ca.SX, out: ca.SX, values: list[float]) -> np.ndarray:
    return np.array(ca.Function("f", [a, b], [out])(values[: a.numel()], values[a.numel() :])).ravel()


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(program=steps, values=st.lists(numbers, min_size=3, max_size=3), chunk=st.sampled_from([1, 5, 1000]))
def test_random_graphs(
    program: list[tuple[int, int, int]],
    values: list[float],
    chunk: int,
    same_bits: Bits,
) -> None:
    a, b, out = graph(program)
    expected = reference(a, b, out, values)
    spec = KernelSpec("f", a, b, out)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DALEMBERT_CACHE", "0")
        patch.setattr(lower, "CHUNK", chunk)  # even the shortest chunks must hand over all values
        patch.setattr(lower, "STACK_DOUBLES", 3)  # and the work array must come from stack or heap
        native = compile_kernels([spec], backend="llvm")["f"]
    interpreted = compile_kernels([spec], backend="vm")["f"]
    assert same_bits(native(values[:2], values[2:]), expected)
    assert same_bits(interpreted(values[:2], values[2:]), expected)


@pytest.mark.parametrize("backend", ["llvm", "vm"])
def test_model_function(backend: str, pendulum_chain: Chain, same_bits: Bits) -> None:
    a, b, out = pendulum_chain(4)
    kernel = compile_kernels([KernelSpec("f", a, b, out)], backend=backend)["f"]
    assert (kernel.backend, kernel.n_a, kernel.n_b, kernel.n_out) == (backend, 8, 2, 20)
    rng = np.random.default_rng(0)
    for _ in range(20):
        values = [*rng.normal(size=8), 1.3, 9.81]
        assert same_bits(kernel(values[:8], values[8:]), reference(a, b, out, values))


def test_long_graph_in_chunks(pendulum_chain: Chain, same_bits: Bits) -> None:
    a, b, out = pendulum_chain(14)
    spec = KernelSpec("f", a, b, out)
    assert spec.n_instructions > 2 * lower.CHUNK
    assert lower.lower_module([spec.stream]).count("define internal void @kernel_0.") >= 3
    values = [*np.random.default_rng(0).normal(size=28), 1.3, 9.81]
    kernel = compile_kernels([spec])["f"]
    assert kernel.backend == "llvm"
    assert same_bits(kernel(values[:28], values[28:]), reference(a, b, out, values))


def test_large_work_arrays_come_from_the_heap(same_bits: Bits) -> None:
    """All values are computed before the first is used again: thousands are alive at once."""
    n = lower.STACK_DOUBLES + 500
    a = ca.SX.sym("a", 2)
    values = [(a[0] + k) ** 2 for k in range(n)]
    out = a[1]
    for value in values:
        out = ca.fmax(out, value / values[0])
    for backend in ("llvm", "vm"):
        kernel = compile_kernels([KernelSpec("f", a, ca.SX(), out)], backend=backend)["f"]
        assert same_bits(kernel([0.5, 2.0]), reference(a, ca.SX(0, 1), out, [0.5, 2.0]))


def test_bundle_shares_one_library(pendulum_chain: Chain) -> None:
    a, b, out = pendulum_chain(2)
    kernels = compile_kernels([KernelSpec("force", a, b, out[:2]), KernelSpec("mass", a, b, out[2:])])
    assert list(kernels) == ["force", "mass"]
    assert kernels["force"]._keep_alive is kernels["mass"]._keep_alive


def test_empty_vectors() -> None:
    x = ca.SX.sym("x")
    for backend in ("llvm", "vm"):
        kernels = compile_kernels(
            [
                KernelSpec("no input", ca.SX(), ca.SX(0, 1), ca.SX([1.5, 2])),
                KernelSpec("no output", x, ca.SX(), ca.SX(0, 1)),
                KernelSpec("only b", ca.SX.sym("n", 0), x, 2 * x),
                KernelSpec("structural zeros", x, ca.SX(), ca.SX(3, 1)),
            ],
            backend=backend,
        )
        assert kernels["no input"]([]).tolist() == [1.5, 2.0]
        assert kernels["no output"]([1.0]).shape == (0,)
        assert kernels["only b"]([], [3.0]).tolist() == [6.0]
        assert kernels["structural zeros"]([1.0]).tolist() == [0.0, 0.0, 0.0]
    assert compile_kernels([]) == {}


def test_auto_sends_only_the_largest_to_the_vm(monkeypatch: pytest.MonkeyPatch, pendulum_chain: Chain) -> None:
    a, b, out = pendulum_chain(3)
    specs = [
        KernelSpec("small", a, b, out[:1]),
        KernelSpec("large", a, b, out),
        KernelSpec("tiny", a, b, a[:1]),
    ]
    monkeypatch.setattr(build, "AUTO_LIMIT", specs[0].n_instructions + specs[2].n_instructions)
    kernels = compile_kernels(specs)
    assert {name: kernel.backend for name, kernel in kernels.items()} == {
        "small": "llvm",
        "large": "vm",
        "tiny": "llvm",
    }


def test_auto_sends_rare_kernels_to_the_vm_first(monkeypatch: pytest.MonkeyPatch, pendulum_chain: Chain) -> None:
    a, b, out = pendulum_chain(3)
    specs = [KernelSpec("rare", a, b, out[:1], rare=True), KernelSpec("large", a, b, out)]
    monkeypatch.setattr(build, "AUTO_LIMIT", specs[1].n_instructions)
    assert {name: k.backend for name, k in compile_kernels(specs).items()} == {"rare": "vm", "large": "llvm"}
    monkeypatch.setattr(build, "AUTO_LIMIT", specs[1].n_instructions - 1)
    assert {k.backend for k in compile_kernels(specs).values()} == {"vm"}


def test_calls_of_other_functions_go_to_the_vm() -> None:
    x = ca.SX.sym("x", 2)
    inner = ca.Function("inner", [x], [ca.sin(x)], {"never_inline": True})
    spec = KernelSpec("f", x, ca.SX(), inner(x) + 1)
    with pytest.raises(UnsupportedOperation, match="OP_CALL"):
        compile_kernels([spec], backend="llvm")
    kernel = compile_kernels([spec])["f"]
    assert kernel.backend == "vm"
    np.testing.assert_array_equal(kernel([1.0, 2.0]), np.sin([1.0, 2.0]) + 1)


def test_without_vm_auto_compiles_and_says_so(monkeypatch: pytest.MonkeyPatch, pendulum_chain: Chain) -> None:
    def unreachable(functions: object) -> None:
        raise vm.VirtualMachineUnavailable("libcasadi is not there")

    monkeypatch.setattr(build, "load_vm", unreachable)
    monkeypatch.setattr(build, "AUTO_LIMIT", 10)
    spec = KernelSpec("f", *pendulum_chain(2))
    with pytest.warns(RuntimeWarning, match="libcasadi is not there; compiling without optimisation"):
        kernel = compile_kernels([spec])["f"]
    assert kernel.backend == "llvm"
    with pytest.raises(vm.VirtualMachineUnavailable):
        compile_kernels([spec], backend="vm")


@pytest.mark.parametrize("backend", ["llvm", "vm"])
def test_reentrant(backend: str, pendulum_chain: Chain, same_bits: Bits) -> None:
    a, b, out = pendulum_chain(6)
    kernel = compile_kernels([KernelSpec("f", a, b, out)], backend=backend)["f"]
    states = np.random.default_rng(0).normal(size=(400, 12))
    expected = [kernel(state, [1.0, 9.81]) for state in states]
    with ThreadPoolExecutor(4) as pool:  # ctypes releases the GIL: the calls do overlap
        actual = list(pool.map(lambda state: kernel(state, [1.0, 9.81]), states))
    assert same_bits(np.concatenate(actual), np.concatenate(expected))


def test_kernel_outlives_its_bundle() -> None:
    x = ca.SX.sym("x")
    first_class = compile_kernels([KernelSpec("f", x, ca.SX(), x + 1)])["f"].first_class
    gc.collect()
    assert first_class._kernel([1.0]) == [2.0]
