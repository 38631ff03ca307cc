"""The rules of the doctor: from rates to a case, and from a case to a formulation and a method.

[AP93] U. Ascher, L. Petzold, Stability of computational methods for constrained dynamics systems (1993), section 3.3
       (the four cases) and section 8 (what to use when).

All rates are taken relative to that of the motion. BDF at everyday tolerances (1e-4 to 1e-7) makes 10 to 50 steps while
the motion changes by its own size, whatever the form; a rate begins to cost steps of its own when it is beyond that.
On the paper's examples with a rate of 10 all forms need about equally many steps, at 30 the unsuitable ones up to 40
times more (benchmarks/formulations.py), so the line is drawn at 10.
"""

from __future__ import annotations

from dataclasses import dataclass

from dalembert.analysis.rates import Rates
from dalembert.formulations import Formulation, Index1, Index2, ProjectedInvariants, StabilizedIndex2
from dalembert.integrators import BDF, Integrator
from dalembert.model.system import System

FAST = 10.0  # a rate this many times that of the motion is fast

CASES = {
    0: "no constraints: an ordinary differential equation",
    1: "nothing is fast besides the motion itself",
    2: "the constraints turn fast compared with the motion",
    3: "stiff forces, slowly turning constraints",
    4: "stiffness from the geometry: the multipliers accelerate the system in directions that differ from the "
    "constraint gradients, and these turn",
}
PAPER = "Ascher & Petzold 1993"


@dataclass(frozen=True)
class Advice:
    """The case, and what to use."""

    case: int
    stiff: bool
    oscillates: bool
    reason: str
    formulation: Formulation
    method: Integrator
    because: str


def advise(system: System, rates: Rates) -> Advice:
    """Judge rates (the largest along the motion)."""
    line = FAST * rates.motion
    # a small R'S proves that index-2 forms are safe whatever F C' is, and so does a small F C' [AP93, 4.1]
    geometry = min(rates.RS, rates.FC) > line
    turning = rates.turning > line
    stiff = rates.frozen > line
    oscillates = rates.frequency > line
    constrained = system.nlam + system.nmu > 0
    case = 0 if not constrained else 4 if geometry else 2 if turning else 3 if stiff else 1
    formulation, because = _formulation(case, turning, system)
    if not system.space.flat and not formulation.on_groups:
        because = (
            f"{formulation.name} would suit ({because}), but is for Euclidean spaces; index 1, projected after every "
            "step, puts the state back onto the constraints, too"
        )
        formulation = Index1()
    reason = CASES[case]
    if stiff and case != 3:
        reason += "; the forces are stiff too" if constrained else "; stiff"
    return Advice(case, stiff, oscillates, reason, formulation, BDF(), because)


def _formulation(case: int, turning: bool, system: System) -> tuple[Formulation, str]:
    """Formulation for a case, with the reason and its reference."""
    if case == 4:
        return ProjectedInvariants(levels=2 if system.nlam else 1, balanced=bool(turning and system.nlam)), (
            "index-2 forms would treat the stiff part R'S explicitly; re-imposing the constraints along D = G^T does "
            f"not ({PAPER}, case 4 and (4.7), (4.14))"
        )
    if system.nphi:
        return Index1(), (
            "the projection that belongs to index 1 keeps the invariants, too (Eich 1993, coordinate projection)"
        )
    if case == 0:
        return Index1(), "there is nothing to reformulate"
    if case == 2 and system.nlam:
        return ProjectedInvariants(levels=2, balanced=True), (
            "where g' changes fast with the positions, Pc corrects both together; otherwise an error of the positions "
            f"comes back in the velocities multiplied by that rate ({PAPER}, case 2, (4.17) and Table 4.9)"
        )
    if not system.nlam:
        why = {
            1: "every form works, and index 2 is how the constraints are given",
            2: "R'S is small, so index 2 follows the turning constraints with steps of the motion",
            3: "the stiff part is reproduced by every discretisation, and index 2 is how the constraints are given",
        }[case]
        return Index2(), f"{why} ({PAPER}, case {case})"
    why = {
        1: "every form works; this one holds positions and velocities on the constraints without differentiating twice",
        3: "the stiff part is reproduced by every discretisation, so the form with the fewest differentiations will do",
    }[case]
    return StabilizedIndex2(), f"{why} ({PAPER}, case {case}; Gear, Leimkuhler & Gupta 1985)"
