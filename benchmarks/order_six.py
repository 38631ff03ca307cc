"""The formula of order 6 of modified BDF: what its coefficients satisfy, and a search that finds such formulas.

    python benchmarks/order_six.py [--search] [--out DIRECTORY]

Writes order_six.md and order_six.json.

- Formulas: computed from the coefficients that runs use, orders 1 to 6; and BDF of order 6 applied twice beside them.
  Largest residual of the order conditions (d is exact for polynomials of degree k, e for degree k + 1, in h v_n =
  sum d_j q_{n-j} and h^2 a_n = sum e_j q_{n-j}), the next one, which must not vanish (that is, the error constants C_v
  and C_a), angle of A(alpha)-stability, largest parasitic root for q'' = 0 (below 1: zero-stable), and the growth of
  the step every k + 1 steps that leaves parasitic solutions bounded.
- Search (--search): order 6 over 12 past points leaves 11 terms free, nabla^7 .. nabla^12 of v_n and nabla^8 ..
  nabla^12 of a_n. From BDF twice on, the bound for parasitic roots is lowered to 0.78, and then the angle is raised
  degree by degree, with bounds for the error constants and for what growing steps do. Each of these is a problem of
  inequalities, solved by least squares of what they are violated by; the search ends where one is not solved. It is a
  search, not an optimum: other ways may lead further.
"""

# ruff: noqa: E402  (thread counts have to be set before NumPy is imported)

from __future__ import annotations

import os

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import argparse
import json
from collections.abc import Sequence
from math import comb, factorial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import least_squares

from dalembert.analysis import formulas
from dalembert.integrators.modified_bdf_formulas import GROWTH_LIMITS, HIGHEST
from dalembert.table import markdown_table, print_table

POINTS = formulas.ROWS
K = HIGHEST
EXACT = np.array([0.0, *(1.0 / m for m in range(1, POINTS + 1))])  # -log(1 - nabla) = h d/dt
SQUARED = np.convolve(EXACT, EXACT)[: POINTS + 1]
NABLA = np.array([[(-1.0) ** j * comb(m, j) for j in range(POINTS + 1)] for m in range(POINTS + 1)])  # of points
FREE = (POINTS - K, POINTS - K - 1)  # terms of v_n and of a_n

RADII = np.logspace(-1.5, 2.5, 100)
ROOT = 0.78  # bound for parasitic roots
ERROR = 0.573  # bound for |C_a|
VELOCITY = 0.15  # bound for |C_v|
GROWING, SHRINKING = 0.95, 0.5  # bounds for the parasitic radius under growing and shrinking steps
RATIOS = (0.3, 0.6, 0.9)
BEGIN, STEP, SOLVED = 15.0, 3.0, 1e-10
FINE = np.logspace(-2.5, 3.0, 4000)  # to look for narrow bands of instability


def formula(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weights d and e, each (13,), of order 6 with the free terms x (11,)."""
    first = np.concatenate([EXACT[: K + 1], x[: FREE[0]]])
    second = np.concatenate([SQUARED[: K + 2], x[FREE[0] :]])
    return first @ NABLA, second @ NABLA


def twice() -> np.ndarray:
    """The free terms of BDF of order 6 applied twice."""
    return np.concatenate([np.zeros(FREE[0]), np.convolve(EXACT[: K + 1], EXACT[: K + 1])[K + 2 :]])


# ---------------------------------------------------------------------- what a formula satisfies
def moments(weights: np.ndarray, highest: int) -> np.ndarray:
    """sum_j w_j (-j)^m / m! for m = 0 .. highest: 1 for the derivative that is meant, 0 for others."""
    past = -np.arange(weights.size, dtype=float)
    return np.array([weights @ past**m / factorial(m) for m in range(highest + 1)])


def angle_checked(d: np.ndarray, e: np.ndarray) -> float | None:
    """The angle, if a closer look at its inside finds no band of instability; else None."""
    angle = formulas.angle_of(d, e)
    if np.isnan(angle):
        return None
    inside = np.linspace(0.0, angle - 0.01, 5)
    largest = [formulas.moduli(d, e, -FINE * np.exp(1j * np.deg2rad(a))).max() for a in inside]
    return angle if max(largest) <= 1.0 + formulas.ON_CIRCLE else None


def properties(name: str, k: int, d: np.ndarray, e: np.ndarray) -> dict[str, Any]:
    """Order conditions, error constants, stability."""
    first, second = moments(d, k + 1), moments(e, k + 2)
    residual = max(np.abs(first[:-1] - np.eye(k + 1)[1]).max(), np.abs(second[:-1] - np.eye(k + 2)[2]).max())
    return {
        "formula": name, "k": k, "residual": float(residual), "C_v": float(first[-1]), "C_a": float(second[-1]),
        "angle": angle_checked(d, e), "parasitic": float(formulas.parasitic_roots(e).max(initial=0.0)),
        "growth": formulas.growth_limit_of(e, k),
    }  # fmt: skip


# ---------------------------------------------------------------------- search
def violations(x: np.ndarray, angle: float, root: float) -> np.ndarray:
    """By how much the bounds are exceeded; zero where they hold."""
    d, e = formula(x)
    z = np.concatenate([-RADII * np.exp(1j * np.deg2rad(a)) for a in (angle, 0.7 * angle, 0.3 * angle, 0.0)])
    largest = np.sort(formulas.moduli(d, e, z), axis=1)[:, -3:].ravel()
    C_v, C_a = x[0] - EXACT[K + 1], x[FREE[0]] - SQUARED[K + 2]
    changes = [formulas.parasitic_radius(K, float(GROWTH_LIMITS[K]), False, e) - GROWING]
    changes += [formulas.parasitic_radius(K, ratio, False, e) - SHRINKING for ratio in RATIOS]
    roots = formulas.parasitic_roots(e) - root
    return np.maximum(
        0.0, np.concatenate([10 * (largest - 1 + 1e-5), roots, [abs(C_a) - ERROR, abs(C_v) - VELOCITY], changes])
    )


def solved(x: np.ndarray, *bounds: float) -> np.ndarray | None:
    """Free terms within the bounds, from x or, if that does not lead there, from points near it."""
    rng = np.random.default_rng(6)
    for spread in (0.0, 1e-3, 1e-2, 1e-1):
        found = least_squares(violations, x + spread * rng.standard_normal(x.size), args=bounds, max_nfev=150)
        if found.cost < SOLVED:
            return np.asarray(found.x)
    return None


def search() -> np.ndarray:
    """Free terms (11,) with as large an angle as is found."""
    x = twice()
    path = [(BEGIN, root) for root in (*np.arange(0.87, ROOT + 0.005, -0.01), ROOT)]
    path += [(angle, ROOT) for angle in np.arange(BEGIN + STEP, 90.0, STEP)]
    for angle, root in path:
        better = solved(x, float(angle), float(root))
        print(
            f"angle {angle:g}, parasitic roots to {root:g}: {'found' if better is not None else 'not found'}",
            flush=True,
        )
        if better is None:
            break
        x = better
    return x


# ---------------------------------------------------------------------- results
HEADER = ["formula", "k", "order conditions", "C_v", "C_a", "angle", "parasitic root", "growth limit"]


def line(row: dict[str, Any]) -> list[Any]:
    return [
        row["formula"], row["k"], f"{row['residual']:.0e}", f"{row['C_v']:.4f}", f"{row['C_a']:.4f}",
        "unstable" if row["angle"] is None else f"{row['angle']:.2f}", f"{row['parasitic']:.3f}",
        f"{row['growth']:.3f}",
    ]  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Verify, search, print, write."""
    parser = argparse.ArgumentParser(description="The formula of order 6 of modified BDF.")
    parser.add_argument("--search", action="store_true", help="look for formulas of order 6 (minutes)")
    parser.add_argument("--out", type=Path, default=Path(__file__).resolve().parent / "results")
    options = parser.parse_args(arguments)
    rows = [properties("in use", k, *formulas.weights("regular", k)) for k in range(1, K + 1)]
    rows.append(properties("BDF twice", K, *formula(twice())))
    if options.search:
        x = search()
        rows.append({**properties("search", K, *formula(x)), "terms": x.tolist()})
    table = [line(row) for row in rows]
    print_table("Formulas of modified BDF on a regular grid", HEADER, table)
    text = ["# The formula of order 6 of modified BDF", "", "Made by `benchmarks/order_six.py`; its head says how.", ""]
    text.append(markdown_table(HEADER, table))
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "order_six.md").write_text("\n".join(text) + "\n", encoding="utf-8")
    (options.out / "order_six.json").write_text(json.dumps(rows, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
