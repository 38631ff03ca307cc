"""Starting values of generalized-alpha methods.

[ACB15] M. Arnold, A. Cardona, O. Bruels, Order reduction in time integration caused by velocity projection, J. Mech.
        Sci. Technol. 29 (2015).

a_n approximates v'(t_n + Delta h), Delta = alpha_m - alpha_f, hence a_0 = v0' + Delta h v0''. In the index-3 method
g(q_n) = 0 makes G v_n = h^2 G r in all later steps, with h^3 r the local error of positions. Starting with G v_0 = 0
excites an error of order 1 in lam; starting with h^2 G r does not. The sign of h G r in the error vector of [ACB15] is
that of errors taken as numerical minus exact; the rest of its recursion takes them the other way round, as here.
"""

from __future__ import annotations

import numpy as np

from dalembert.integrators.alpha_parameters import AlphaParameters
from dalembert.integrators.base import Model
from dalembert.integrators.positions import as_group
from dalembert.model.system import System
from dalembert.numerics.layout import Layout

# blocks of the row: rate, auxiliary rate a_n and mean slope of the rate over the last step, of v and of first-order
# states r
RATES = {"v": ("a", "_a", "_a_dot"), "r": ("_r_dot", "_r_aux", "_r_ddot")}


def start_row(
    c: AlphaParameters,
    system: System,
    layout: Layout,
    t: float,
    h: float,
    row: np.ndarray,
    model: Model,
    shifted: bool,
    perturbed: bool,
) -> None:
    """Complete a consistent row by what the first step of size h needs, in place.

    ``shifted``: a_0 = v'(t + Delta h), else v'(t). ``perturbed``: velocities as the steps of the index-3 method leave
    them.
    """
    part, space = layout.slice, system.space
    v, a = row[part("v")].copy(), row[part("a")].copy()
    r_dot = model.at("dynamics", t, row).ravel() if system.nr else np.zeros(0)
    row[part("_r_dot")] = r_dot
    sides = []
    for s in (h, -h):  # the motion to second order in s; what is left out cancels in the difference
        there = row.copy()
        there[part("q")] = space.move(row[part("q")], s * v + 0.5 * s**2 * a)
        there[part("v")] += s * a
        there[part("r")] += s * r_dot
        if model.complete(t + s, there) == 0:
            if system.nr:
                there[part("_r_dot")] = model.at("dynamics", t + s, there).ravel()
            sides.append((s, there))
    # a model need not exist before t, and a_0 gets along with a one-sided difference
    (s1, first), (s2, second) = [*sides, (0.0, row), (-h, row)][:2]
    for rate, auxiliary, slope in RATES.values():
        row[part(slope)] = (first[part(rate)] - second[part(rate)]) / (s1 - s2)
        row[part(auxiliary)] = row[part(rate)]
        if shifted:
            row[part(auxiliary)] += c.shift * h * row[part(slope)]
    if perturbed and system.nlam:
        r = c.position_error * row[part("_a_dot")]  # on a flat space
        if not space.flat:
            r = r + np.asarray(as_group(system).ad(v)) @ a / 12
        G = model.at("G", t, row)
        W = model.at("acceleration_by_lam", t, row)  # M^-1 G^T
        row[part("v")] = v + h**2 * W @ np.linalg.solve(G @ W, G @ r)
