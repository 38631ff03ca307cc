"""What a generalized-alpha method does to oscillations and to errors of the multipliers.

[CH93]  J. Chung, G. M. Hulbert, J. Appl. Mech. 60 (1993) 371-375: amplification matrix, damping and dispersion.
[ACB15] M. Arnold, A. Cardona, O. Bruels (2015): recursion T_+ E_{n+1} = T_0 E_n of the errors of the index-3 method.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dalembert.integrators.alpha_parameters import AlphaParameters
from dalembert.integrators.generalized_alpha import GeneralizedAlpha
from dalembert.status import OptionError


def _parameters(given: Any) -> AlphaParameters:
    if isinstance(given, AlphaParameters):
        return given
    if isinstance(given, GeneralizedAlpha):
        return given.parameters
    return GeneralizedAlpha(given).parameters


def error_recursion(method: Any) -> np.ndarray:
    """T_+^-1 T_0 (3, 3): how the index-3 method carries on errors across the constraints, for h -> 0 [ACB15].

    Errors are those of (G v_n / h, G a_n, G v_n'), which g(q) = 0 couples from step to step:

        0 = e_v + (1/2 - beta) e_a + beta e_a1,   e_v1 = e_v + (1 - gamma) e_a + gamma e_a1,
        (1 - alpha_m) e_a1 + alpha_m e_a = (1 - alpha_f) e_v'1 + alpha_f e_v'.

    Parameters
    ----------
    method
        A `GeneralizedAlpha`, its parameters, or a number rho.

    Examples
    --------
    >>> bool(abs(abs(np.linalg.eigvals(error_recursion(0.5))).max() - 0.5) < 1e-4)
    True
    """
    c = _parameters(method)
    new = np.array([[0.0, c.nm_beta, 0.0], [1.0, -c.nm_gamma, 0.0], [0.0, 1 - c.alpha_m, -(1 - c.alpha_f)]])  # T_+
    old = np.array([[-1.0, c.nm_beta - 0.5, 0.0], [1.0, 1 - c.nm_gamma, 0.0], [0.0, -c.alpha_m, c.alpha_f]])  # T_0
    return np.linalg.solve(new, old)


def amplification(method: Any, h_omega: Any) -> np.ndarray:
    """The matrix (..., 3, 3) that carries (q, h q', h^2 a) of q'' = -omega^2 q over a step [CH93, (8)-(12)].

    Written with the auxiliary acceleration a: the acceleration of the equation of motion is -omega^2 q exactly.
    """
    c = _parameters(method)
    z = np.asarray(h_omega, dtype=float) ** 2
    zero, one = np.zeros_like(z), np.ones_like(z)

    def stack(rows: list[list[Any]]) -> np.ndarray:
        return np.stack([np.stack([one * x for x in row], axis=-1) for row in rows], axis=-2)

    # q1 - beta A1 = q + V + (1/2 - beta) A;  V1 - gamma A1 = V + (1 - gamma) A;
    # (1 - alpha_m) A1 + (1 - alpha_f) z q1 = -alpha_m A - alpha_f z q
    new = stack([[1.0, 0.0, -c.nm_beta], [0.0, 1.0, -c.nm_gamma], [(1 - c.alpha_f) * z, zero, 1 - c.alpha_m]])
    old = stack([[1.0, 1.0, 0.5 - c.nm_beta], [0.0, 1.0, 1 - c.nm_gamma], [-c.alpha_f * z, zero, -c.alpha_m]])
    return np.linalg.solve(new, old)


def spectral_radius(method: Any, h_omega: Any = np.inf) -> Any:
    """Largest modulus of the eigenvalues of the amplification matrix; of the error recursion for infinite h omega.

    Examples
    --------
    >>> bool(spectral_radius(0.9, 1e-3) > 0.9999)
    True
    """
    x = np.asarray(h_omega, dtype=float)
    if np.any(np.isnan(x)) or np.any(x < 0):
        raise OptionError(f"h_omega={h_omega!r}: give a step size times frequency, 0 or more.")
    c = _parameters(method)
    finite = np.where(np.isinf(x), 1.0, x)
    radius = np.abs(np.linalg.eigvals(amplification(c, finite))).max(axis=-1)
    out = np.where(np.isinf(x), c.radius, radius)
    return float(out) if out.ndim == 0 else out


def damping_and_period_error(method: Any, h_omega: Any) -> tuple[np.ndarray, np.ndarray]:
    """Algorithmic damping ratio and relative period error (T_numerical - T) / T of the principal roots [CH93].

    Parameters
    ----------
    method
        A `GeneralizedAlpha`, its parameters, or a number rho.
    h_omega
        Step size times angular frequency, positive; scalar or array. NaN is returned where the principal roots are no
        longer a conjugate pair, beyond which there is no oscillation to speak of.

    Examples
    --------
    >>> xi, stretch = damping_and_period_error(1.0, 0.1)
    >>> bool(abs(xi) < 1e-12), bool(abs(stretch - 0.1**2 / 12) < 1e-5)
    (True, True)
    """
    x = np.asarray(h_omega, dtype=float)
    if not np.all(x > 0) or not np.all(np.isfinite(x)):
        raise OptionError(f"h_omega={h_omega!r}: give finite numbers above 0.")
    roots = np.linalg.eigvals(amplification(method, x))
    # the principal root turns by about h omega; of a pair the one with positive imaginary part
    upper = np.where(roots.imag > 1e-12 * np.abs(roots), roots, np.nan)
    order = np.argmax(np.where(np.isnan(upper), -np.inf, np.abs(upper)), axis=-1)
    exponent = np.log(np.take_along_axis(upper, order[..., None], axis=-1)[..., 0])
    damping = -exponent.real / np.abs(exponent)
    return damping, x / exponent.imag - 1.0


def plot(methods: dict[str, Any] | None = None, h_omega: Any = None) -> Any:
    """Spectral radius, damping ratio and period error as functions of h / T; a matplotlib figure.

    Parameters
    ----------
    methods
        Label -> method, parameters or rho; by default some values of rho, HHT and the trapezoidal rule.
    """
    from matplotlib.figure import Figure

    if methods is None:
        methods = {f"rho = {rho:g}": rho for rho in (0.0, 0.5, 0.8, 0.9)}
        methods |= {"HHT, alpha = -0.3": GeneralizedAlpha.hht(-0.3), "trapezoidal": GeneralizedAlpha.newmark()}
    x = np.logspace(-2, 3, 400) if h_omega is None else np.asarray(h_omega, dtype=float)
    figure = Figure(figsize=(12.0, 3.6), layout="constrained")
    axes = figure.subplots(1, 3)
    for label, method in methods.items():
        axes[0].semilogx(x / (2 * np.pi), spectral_radius(method, x), label=label)
        low = x[x <= 0.4 * 2 * np.pi]
        damping, stretch = damping_and_period_error(method, low)
        axes[1].plot(low / (2 * np.pi), damping)
        axes[2].plot(low / (2 * np.pi), stretch)
    for axis, title in zip(axes, ("spectral radius", "damping ratio", "relative period error"), strict=True):
        axis.set_title(title, fontsize=10)
        axis.set_xlabel("h / T")
        axis.grid(True, color="#dddddd", linewidth=0.6)
        axis.spines[["top", "right"]].set_visible(False)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=6, fontsize=9, frameon=False)
    return figure
