"""Tables about generalized-alpha and HHT-alpha."""

import numpy as np

from dalembert.papers import (
    arnold_cardona_bruels_2015,
    jay_negrut_2007,
)
from tables.common import example, table


def hht_orders():
    """Slopes of Jay & Negrut 2007: paper, and measured for y, z, a and the multipliers."""
    rows = []
    for label, sweep in jay_negrut_2007.SWEEPS.items():
        found = jay_negrut_2007.slopes(label)
        n = sweep.counts[-1]
        cells = [f"{found[what]:.2f}" for what in jay_negrut_2007.QUANTITIES]
        name = f"Fig. {label}" if label in jay_negrut_2007.FIGURES else label
        rows.append([name, sweep.problem, sweep.method.describe(), n, f"{sweep.order:.0f}", *cells])
    return table(["case", "problem", "method", "steps", "claim", "y", "z", "a", "lam or mu"], rows)


def hht_tolerances():
    """Automatic steps: what they cost and how far from the solution they end, in units of the tolerance."""
    measure = example("hht")["measure"]
    rows = []
    for name in ("jay-negrut-5.1", "jay-negrut-5.2", "slider-crank"):
        for tol in (1e-3, 1e-5, 1e-7):
            steps, errors = measure(name, tol)
            rows.append([f"`{name}`", f"{tol:.0e}", steps, *[f"{e / tol:.2f}" for e in errors]])
    return table(["problem", "tolerance", "steps", "error/tol of q", "of v", "of lam"], rows)


def alpha_methods():
    """Observed orders of generalized-alpha on the heavy top from h = 1e-3 and 5e-4: largest errors over the run."""
    acb = arnold_cardona_bruels_2015
    rows = []
    for variant in acb.VARIANTS:
        cells = []
        for first in (None, acb.FIRST):
            coarse, fine = (acb.largest(n, variant, first) for n in (1000, 2000))
            names = acb.QUANTITIES if first is None else ("lam",)
            cells += [f"{np.log2(coarse[name] / fine[name]):.2f}" for name in names]
        residual = acb.run_top(2000, variant).drift.largest["velocity"]
        rows.append([variant, *cells, f"{acb.largest(2000, variant)['lam']:.1e}", f"{residual:.0e}"])
    header = ["method", "x", "R", "u", "Omega", "lam", "lam, first ten steps", "error of lam", "largest |G v|"]
    return table(header, rows)


TABLES = {
    "hht-orders": hht_orders,
    "hht-tolerances": hht_tolerances,
    "alpha-methods": alpha_methods,
}
