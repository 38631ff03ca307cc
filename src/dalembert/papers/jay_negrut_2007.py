"""Jay & Negrut 2007: HHT-alpha for overdetermined systems and for velocity constraints.

[JN07] L. O. Jay, D. Negrut, Extensions of the HHT-alpha method to differential-algebraic equations in mechanics,
       Electron. Trans. Numer. Anal. 26 (2007) 190-208.

The paper prints no errors, only figures of them with the orders one sees: these are the "paper" column. Slopes are
measured between the two finest step sizes of a sweep. Variants that the paper mentions without a figure, and its
section 6, are measured likewise; the errors of both kinds are compared with those of an independent implementation of
the formulas (file data/jay_negrut_2007.json, five digits). Figures 5.5 (a drawing) and 5.6 (the angle over time) hold
no numbers; 5.6 is drawn, and the angle at t = 2 is compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.ticker import NullFormatter

from dalembert.driver import solve
from dalembert.integrators.hht import HHT
from dalembert.papers.base import Paper, Row, entry, published, register
from dalembert.papers.figures import BLACK, BLUE, GREEN, ORANGE, RED, panels, write
from dalembert.problems.base import problems

DATA = "jay_negrut_2007"
FIRST, ROD, KNIFE = "jay-negrut-5.1", "jay-negrut-5.2", "forced-knife-edge"
QUANTITIES = {"y": BLUE, "z": ORANGE, "a": GREEN, "lam": RED}
SLACK = 0.05


@dataclass(frozen=True)
class Sweep:
    """Runs of one method on one problem with more and more steps."""

    problem: str
    method: HHT
    pattern: tuple[float, ...] = (1.0,)
    formulation: str = "overdetermined"
    end: float = 1.0
    counts: tuple[int, ...] = (20, 40, 80, 160, 320)
    order: float = 2.0


_FINE = (160, 320, 640, 1280, 2560)
_ROD: dict[str, Any] = {"end": 2.0, "counts": (200, 400, 800, 1600, 3200)}
SWEEPS: dict[str, Sweep] = {
    "5.1": Sweep(FIRST, HHT(-0.15, 0.3)),
    "5.2": Sweep(FIRST, HHT(-0.15, 0.3, "explicit")),
    "5.3": Sweep(FIRST, HHT(-0.15, 0.3, rescale=False), (1.0, 2.0), counts=_FINE, order=1.0),
    "5.4": Sweep(FIRST, HHT(-0.15, 0.3), (1.0, 2.0)),
    "5.7": Sweep(ROD, HHT(0.0), **_ROD),
    "5.8": Sweep(ROD, HHT(-0.3), **_ROD),
    "1:4": Sweep(FIRST, HHT(-0.15, 0.3), (1.0, 4.0)),
    "b=0": Sweep(FIRST, HHT(-0.15)),
    "b=1": Sweep(FIRST, HHT(-0.15, 1.0)),
    "alpha=-1/3": Sweep(FIRST, HHT(-1 / 3, 0.3)),
    "midpoint": Sweep(FIRST, HHT(-0.15, variant="midpoint")),
    "midpoint-explicit": Sweep(FIRST, HHT(-0.15, variant="midpoint-explicit")),
    "index-2": Sweep(FIRST, HHT(-0.15), formulation="index-2"),
    "index-2 1:2": Sweep(FIRST, HHT(-0.15), (1.0, 2.0), "index-2"),
    "pendulum b=0.3": Sweep(ROD, HHT(-0.3, 0.3), **_ROD),
    "pendulum midpoint": Sweep(ROD, HHT(-0.3, variant="midpoint"), **_ROD),
    "pendulum 1:2": Sweep(ROD, HHT(-0.3), (1.0, 2.0), **_ROD),
    "pendulum lunk-simeon": Sweep(ROD, HHT(-0.3, 0.3, "lunk-simeon"), **_ROD),
    "nonholonomic alpha=0": Sweep(KNIFE, HHT(0.0)),
    "nonholonomic alpha=-0.15": Sweep(KNIFE, HHT(-0.15)),
    "nonholonomic alpha=-0.3": Sweep(KNIFE, HHT(-0.3)),
    "nonholonomic 1:2": Sweep(KNIFE, HHT(-0.3), (1.0, 2.0)),
    "nonholonomic 1:2, a not rescaled": Sweep(
        KNIFE, HHT(-0.3, rescale=False), (1.0, 2.0), counts=(1280, 2560, 5120, 10240, 20480), order=1.0
    ),
}
FIGURES = ("5.1", "5.2", "5.3", "5.4", "5.7", "5.8")


def free_acceleration(name: str, t: float) -> np.ndarray:
    """f = M^-1 F on the exact solution."""
    problem = problems()[name]
    system, x = problem.system, problem.reference(t) if problem.reference else {}
    p = system.parameters.vector(None)
    state = {n: np.zeros(size) for n, size in system.sizes.items()}
    given = [{**state, "t": t, "q": x["q"], "v": x["v"], "p": p}[n] for n in ("t", "q", "v", "a", "r", "w", "s")]
    more = [state["lam"], state["mu"], p, np.zeros(0)]
    mass, force = (np.asarray(system.function(n)(*given, *more).full()) for n in ("mass", "force"))
    return np.linalg.solve(mass, force.ravel())


@cache
def errors(label: str, n: int) -> dict[str, float]:
    """Errors at the end (2-norms): y, z, a against a(t_n + alpha h), and the multipliers reported."""
    sweep = SWEEPS[label]
    problem = problems()[sweep.problem]
    steps = np.resize(np.array(sweep.pattern), n)
    steps *= sweep.end / steps.sum()
    sol = solve(
        problem.system, (0.0, sweep.end), problem.q0, problem.v0, method=sweep.method, formulation=sweep.formulation,
        h=list(steps),
    )  # fmt: skip
    if not sol.success:
        raise RuntimeError(f"{label}, {n} steps: {sol.message}")
    assert problem.reference is not None
    exact = problem.reference(sweep.end)
    a = free_acceleration(sweep.problem, sweep.end + sweep.method.alpha * steps[-1])
    multiplier = "lam" if problem.system.nlam else "mu"
    pairs = {
        "y": sol.q[-1] - exact["q"],
        "z": sol.v[-1] - exact["v"],
        "a": sol.extra["a_alpha"][-1] - a,
        "lam": getattr(sol, multiplier)[-1] - exact[multiplier],
    }
    return {what: float(np.linalg.norm(x)) for what, x in pairs.items()}


def slopes(label: str) -> dict[str, float]:
    """Observed orders between the two finest step sizes."""
    coarse, fine = (errors(label, n) for n in SWEEPS[label].counts[-2:])
    return {what: float(np.log2(coarse[what] / fine[what])) for what in QUANTITIES}


def orders(label: str) -> list[Row]:
    """Slopes of one sweep, and its errors against those of the independent implementation."""
    sweep, data = SWEEPS[label], published(DATA)
    known, claim = data["sweeps"].get(label), data["claims"].get(label)
    table = f"figure {label}" if label in FIGURES else "without a figure"
    row = {"case": label, "method": sweep.method.describe(), "steps": f"{sweep.counts[-2]}, {sweep.counts[-1]}"}
    out = []
    for i, (what, slope) in enumerate(slopes(label).items()):
        expected = known["slopes"][i] if known and what != "lam" else sweep.order
        agrees, note = abs(slope - expected) <= SLACK, f"slope within {SLACK} of {expected:.2f} at these step sizes"
        paper = float(claim) if claim is not None and what != "lam" else None
        out.append(entry(table, row, f"order of {what}", paper, slope, agrees, note))
        if known and what != "lam":
            other = np.array(known["errors"])[:, i]
            ours = np.array([errors(label, n)[what] for n in sweep.counts])
            off = float(np.abs(ours / other - 1).max())
            note = "largest relative difference to an independent implementation, all step sizes; at most 2e-3"
            out.append(entry(table, row, f"errors of {what}", None, off, off <= 2e-3, note))
    return out


def angle() -> list[Row]:
    """The pendulum at t = 2 [JN07, Figs. 5.6 to 5.8]: the reference itself."""
    data = published(DATA)["pendulum_t2"]
    problem = problems()[ROD]
    assert problem.reference is not None
    x = problem.reference(2.0)
    rows = []
    for what, known, found in (
        ("theta", data["theta"], x["q"][2]),
        ("theta'", data["theta_dot"], x["v"][2]),
        ("lam_1", data["lam"][0], x["lam"][0]),
        ("lam_2", data["lam"][1], x["lam"][1]),
    ):
        note = f"reference of an independent computation {known:.9f}, to 1e-8"
        rows.append(entry("pendulum, t = 2", {"t": 2.0}, what, None, found, abs(found - known) <= 1e-8, note))
    return rows


def figures(folder: Path) -> list[Path]:
    """Figs. 5.1 to 5.4, 5.6, 5.7, 5.8 and one of the velocity constraints."""
    out = []
    groups = {
        "first_problem": ("5.1", "5.2", "5.3", "5.4"),
        "pendulum": ("5.7", "5.8"),
        "velocity_constraints": ("index-2", "nonholonomic alpha=-0.3"),
    }
    for name, labels in groups.items():
        figure, axes = panels(1, len(labels), 3.6, 3.4)
        for axis, label in zip(axes[0], labels, strict=True):
            _draw(axis, label)
        out.append(write(figure, folder / f"{DATA}_{name}.png"))
    return [*out, _draw_angle(folder)]


def _draw(axis: Any, label: str) -> None:
    sweep, found = SWEEPS[label], slopes(label)
    h = sweep.end / np.array(sweep.counts)
    for what, colour in QUANTITIES.items():
        e = np.array([errors(label, n)[what] for n in sweep.counts])
        axis.loglog(h, e, "o-", color=colour, markersize=4, label=f"{what}: {found[what]:.2f}")
    top = max(errors(label, sweep.counts[0]).values())
    axis.loglog(h, top * (h / h[0]) ** sweep.order, "--", color=BLACK, linewidth=0.8)
    where = f"Fig. {label}" if label in FIGURES else label
    axis.set_title(f"{where}: {sweep.method.describe()}", fontsize=8)
    axis.set_xlabel("mean step size")
    axis.xaxis.set_minor_formatter(NullFormatter())
    axis.legend(title="slope", fontsize=8, title_fontsize=8, frameon=False)


def _draw_angle(folder: Path) -> Path:
    problem = problems()[ROD]
    sol = solve(problem.system, (0.0, 4.0), problem.q0, problem.v0, method=HHT(), rtol=1e-5, atol=1e-5)
    figure, axes = panels(1, 1, 5.0, 3.2)
    axes[0, 0].plot(sol.t, sol.q[:, 2], color=BLUE)
    axes[0, 0].set_title("Fig. 5.6: angle of the pendulum", fontsize=9)
    axes[0, 0].set_xlabel("t")
    return write(figure, folder / f"{DATA}_angle.png")


def run(folder: Path | None) -> list[Row]:
    """Everything; given a folder, with figures."""
    rows = [row for label in SWEEPS for row in orders(label)] + angle()
    if folder is not None:
        figures(folder)
    return rows


register(
    Paper(
        name="jay-negrut-2007",
        title="L. O. Jay, D. Negrut, Extensions of the HHT-alpha method to differential-algebraic equations in "
        "mechanics, Electron. Trans. Numer. Anal. 26 (2007) 190-208",
        run=run,
        notes=(
            "The paper prints no error values; its figures show errors over the step size, with the orders stated in "
            "the captions.",
            "Figure 5.3 approaches its slope 1 slowly (0.73 to 0.80 between 160 and 320 steps, 0.97 to 0.98 between "
            "1280 and 2560): first- and second-order terms cancel in part when steps are long.",
            "Section 6 has no example; ours is the problem forced-knife-edge.",
            "L0 and L1 of (3.4) are of first order. The multipliers reported solve (3.2) and are of order 2.",
        ),
    )
)
