"""Bad input, each with its message."""

import casadi as ca
import pytest

from dalembert.compiler import KernelSpec, compile_kernels

x, y, z = (ca.SX.sym(name) for name in "xyz")


def test_free_symbols_are_named() -> None:
    with pytest.raises(ValueError, match=r"'f'.*neither a nor b: y, z"):
        KernelSpec("f", x, ca.SX(), x * y + z)


@pytest.mark.parametrize(
    ("a", "b", "out", "message"),
    [
        (x + 1, ca.SX(), x, "a must consist of symbols"),
        (x, ca.SX([1.0]), x, "b must consist of symbols"),
        (x, x, x, "occurs twice"),
        (ca.vertcat(x, x), ca.SX(), x, "occurs twice"),
        (ca.SX.sym("m", 2, 2), ca.SX(), x, "a must be a column vector"),
        (x, ca.SX(), ca.horzcat(x, x), "out must be a column vector"),
    ],
)
def test_refused(a: ca.SX, b: ca.SX, out: ca.SX, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        KernelSpec("f", a, b, out)


def test_mx_is_refused() -> None:
    with pytest.raises(TypeError, match=r"casadi\.SX column, got MX"):
        KernelSpec("f", ca.MX.sym("x"), ca.SX(), ca.SX(1))


def test_repeated_names_are_refused() -> None:
    specs = [KernelSpec("f", x, y, x), KernelSpec("f", x, y, y)]
    with pytest.raises(ValueError, match="repeated: f"):
        compile_kernels(specs)


def test_unknown_backend_is_refused() -> None:
    with pytest.raises(ValueError, match="'gpu'"):
        compile_kernels([KernelSpec("f", x, y, x)], backend="gpu")


def test_shapes_are_checked() -> None:
    kernel = compile_kernels([KernelSpec("f", x, ca.vertcat(y, z), x + y + z)])["f"]
    assert kernel([1], [2, 3]) == [6.0]
    with pytest.raises(ValueError, match=r"a must have shape \(1,\), got \(2,\)"):
        kernel([1, 2], [1, 2])
    with pytest.raises(ValueError, match=r"b must have shape \(2,\), got \(0,\)"):
        kernel([1])
