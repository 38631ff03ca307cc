"""Kinematic singularities on the way: found where the watch of the compiled loop suspects one, passed or reported.

Between two rows that the watch has looked at positions are interpolated, C = [G; K] is sampled, and E = C_new C_old^+
(m, m) compared with the identity: for a short way without a loss of rank its eigenvalues stay near 1, and a sigma that
passes through zero turns one of them negative. The place is then found by bisection.

At such a point branches of the motion cross. The mechanical motion goes on along the branch in whose direction it
moves, since velocities are continuous; a step that has passed the point is accepted if its velocities changed by what
its accelerations say, h (a0 + a1) / 2, and the run is stopped if not: what follows is then not determined.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from dalembert.numerics import rank, runstate
from dalembert.runtime.assembly import Assembly, Workspace

PIECES = 8
EDGES = np.linspace(0, 1, PIECES + 1)
BISECTIONS = 50
LOST = 1e-3  # smallest singular value, relative to the largest, at the place found
CLOSE = 0.1  # the same, where a step that turns the vectors round is too long to tell
STEEP = 3.0  # changes from piece to piece that keep the value away from CLOSE
JUMP = 0.3  # of the velocity: a larger change that the accelerations do not explain is a jump to another branch
FAR, FIRST_REST = 1.0, 64  # rotation within a step that turns everything round; steps without a watch after it


@dataclass(frozen=True)
class Passage:
    """A position where the constraints lose rank: when, whether the run has to stop there, and what to say."""

    t: float
    stop: bool
    text: str

    def near(self, other: Passage) -> bool:
        """True if the other one is the same, seen from the next step."""
        return abs(self.t - other.t) <= 1e-6 * (1.0 + abs(self.t))


class Patience:
    """Bodies that spin far within every step raise false alarms: after one the watch takes a rest, longer each time."""

    def __init__(self) -> None:
        self.rest, self.until, self.watched = FIRST_REST, 0, 0

    def false_alarm(self, run: runstate.Run) -> None:
        self.watched, run.ranked[rank.COUNT] = int(run.ranked[rank.COUNT]), 0
        self.until = int(run.whole[runstate.STEPS]) + self.rest
        self.rest *= 2

    def resume(self, run: runstate.Run) -> None:
        """Go on after a rest; called whenever the loop is in Python."""
        if self.watched and run.whole[runstate.STEPS] >= self.until:
            run.ranked[rank.COUNT], self.watched = self.watched, 0
            rank.forget(run.rank, run.ranked, run.nodes[1], run.rows[run.slots[1]])


TOO_FAR = Passage(np.nan, False, "")  # what `inspect` says of such a step


def set_scale(run: runstate.Run, work: Workspace, t: float, row: np.ndarray) -> None:
    """Scales of the constraints, and the metric, for the watch where compiled code leaves them to us, in place."""
    m, nv = run.ranked.item(rank.COUNT), run.ranked.item(rank.N_V)
    at = rank.PARTS + 4 * m + nv
    mass, C = work.matrices(t, row)
    if run.ranked[rank.EUCLIDEAN]:
        run.rank[rank.PARTS : rank.PARTS + m] = _reciprocals(np.linalg.norm(C, axis=1))
        return
    run.rank[rank.PARTS : rank.PARTS + m] = scales(work, t, row)
    diagonal = np.abs(np.diag(mass))
    run.rank[at : at + nv] = np.maximum(diagonal, 1e-12 * diagonal.max(initial=0.0))


def scale_of(run: runstate.Run) -> np.ndarray:
    """What the rows of C are scaled by in a run."""
    return run.rank[rank.PARTS : rank.PARTS + _watched(run)].copy()


def _watched(run: runstate.Run) -> int:
    """Constraints, watched or resting."""
    return (run.rank.size - rank.PARTS - 2 * run.ranked.item(rank.N_V) - rank.SIGHTS * run.rows.shape[1]) // 4


def memory(assembly: Assembly) -> tuple[np.ndarray, np.ndarray]:
    """Memory of the watch, before the scales of the constraints are known.

    By the projection of velocities if every step is projected, else by the equations for accelerations.
    """
    system, n = assembly.system, assembly.layout.n
    # black boxes: a factorisation more would call them again
    m = 0 if system.calls else system.nlam + system.nmu
    for i, stage in enumerate(assembly.stages if assembly.projects_steps else ()):
        if stage.blocks == ("v",) and m:
            mass = assembly.projection is not None and assembly.projection.weight == "mass"
            return rank.memory(m, system.nv, n, stage=i, at_y=system.nv, at_x=0, euclidean=not mass)
    begin = system.nw + system.ns if m else 0
    return rank.memory(m, system.nv, n, stage=rank.MULTIPLIERS, at_y=begin, at_x=begin + m, euclidean=False)


def scales(work: Workspace, t: float, row: np.ndarray) -> np.ndarray:
    """Rows of C are scaled by their size, in the metric of the mass matrix, which may be singular."""
    mass, C = work.matrices(t, row)
    values, vectors = np.linalg.eigh((mass + mass.T) / 2)
    root = 1.0 / np.sqrt(np.maximum(values, 1e-12 * np.abs(values).max(initial=1e-300)))
    return _reciprocals(np.linalg.norm(C @ vectors * root, axis=1))


def _reciprocals(lengths: np.ndarray) -> np.ndarray:
    """1 where there is none."""
    return np.asarray(1.0 / np.where((lengths > 0) & np.isfinite(lengths), lengths, 1.0))


class _Way:
    """The way from one look to the next: C (rows scaled) at s in [0, 1]."""

    def __init__(self, work: Workspace, run: runstate.Run, age: int) -> None:
        self.work, self.layout, self.space = work, work.assembly.layout, work.assembly.system.space
        m = int(run.ranked[rank.COUNT])
        self.scale = run.rank[rank.PARTS : rank.PARTS + m].copy()
        sights = [rank.sight(run.rank, run.ranked, i) for i in (age + 1, age)]
        self.t = sights[0][0], sights[1][0]
        self.rows = sights[0][1], sights[1][1]
        self.known: dict[float, np.ndarray] = {}

    @cached_property
    def largest(self) -> float:
        """Singular value, of the ends."""
        return max(float(self.sigmas(s)[0]) for s in (0.0, 1.0))

    @cached_property
    def motion(self) -> np.ndarray:
        at = self.layout.slice("q")
        return np.asarray(self.space.difference(self.rows[0][at], self.rows[1][at]))

    def row(self, s: float) -> np.ndarray:
        return self.rows[int(s)] if s in (0.0, 1.0) else self.along(np.array([s]))[0]

    def along(self, s: np.ndarray) -> np.ndarray:
        """Rows (k, n) at s (k,)."""
        (left, right), at, h = self.rows, self.layout.slice("q"), self.t[1] - self.t[0]
        s = s[:, None]
        out: np.ndarray = (1 - s) * left + s * right
        if not left[at].size:
            return out
        if self.space.flat:  # cubic Hermite
            v0, v1 = (x[self.layout.slice("v")] for x in (left, right))
            out[:, at] = (left[at] + (3 - 2 * s) * s * s * (right[at] - left[at])
                          + h * s * (1 - s) * ((1 - s) * v0 - s * v1))  # fmt: skip
        else:
            for i in range(s.size):
                out[i, at] = self.space.move(left[at], s[i] * self.motion)
        return out

    def C(self, s: float) -> np.ndarray:
        return self.scale[:, None] * self.work.matrices(self.t[0] + s * (self.t[1] - self.t[0]), self.row(s))[1]

    def sigmas(self, s: float) -> np.ndarray:
        """Singular values."""
        if s not in self.known:
            self.known[s] = np.linalg.svd(self.C(s), compute_uv=False)
        return self.known[s]

    def relative(self, s: float) -> float:
        """Smallest singular value over the largest one, here or at an end of the step."""
        x = self.sigmas(s)
        return float(x[-1] / max(x[0], self.largest))

    def spins(self) -> bool:
        """True if a body rotates so far within the step that nothing can be told from how the vectors turn, and the
        singular values at its ends, alike and not small, say nothing either."""
        if self.space.flat:
            return False
        v = [x[self.layout.slice("v")] for x in self.rows]
        if abs(self.t[1] - self.t[0]) * max(np.abs(v[0]).max(), np.abs(v[1]).max()) < FAR:
            return False
        self._sample(EDGES[[0, -1]], np.array(self.rows))
        low, high = sorted((self.relative(0.0), self.relative(1.0)))
        return low > CLOSE and high < 1.5 * low

    def _sample(self, s: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Singular values (k, m) at s (k,), at once."""
        C = self.scale[:, None] * self.work.matrices_along(self.t[0] + s * (self.t[1] - self.t[0]), rows)[1]
        values = np.linalg.svd(C, compute_uv=False)
        self.known.update(zip(s.tolist(), values, strict=True))
        return np.asarray(values)

    def clear(self) -> bool:
        """True if the smallest singular value is far from zero everywhere, and hardly changes.

        One that passes through zero is less than its change from point to point away from it at one of them.
        """
        values = self._sample(EDGES, self.along(EDGES))
        smallest = values[:, -1] / np.maximum(values[:, 0], self.largest)
        return bool(smallest.min() > CLOSE + STEEP * np.abs(smallest[1:] - smallest[:-1]).max())

    def turns(self, a: float, b: float) -> bool:
        """True if E from a to b has a negative eigenvalue."""
        E = np.linalg.lstsq(self.C(a).T, self.C(b).T, rcond=1e-15)[0]
        values = np.linalg.eigvals(E)
        return bool(np.any((values.real < 0) & (np.abs(values.imag) <= 1e-6 * np.abs(values).max())))

    def crossing(self) -> tuple[float, float] | None:
        """Where a singular value passes zero, or close by, within the step, and how small it gets; None if none does.

        Constraints that turn far within a long step give negative eigenvalues, too, without any loss of rank.
        """
        for a, b in pairwise(EDGES.tolist()):
            if self.turns(a, b):
                low, high = a, b
                for _ in range(BISECTIONS):
                    middle = 0.5 * (low + high)
                    low, high = (low, middle) if self.turns(low, middle) else (middle, high)
                at = 0.5 * (low + high)
                return (at, 0.0) if self.relative(at) < LOST else self.smallest()
        return self.smallest()

    def smallest(self) -> tuple[float, float] | None:
        """Where the smallest singular value has its minimum, and how small it is; None if it is not close to zero."""
        from scipy.optimize import minimize_scalar

        edges = np.linspace(0, 1, 2 * PIECES + 1)
        i = int(np.argmin([self.relative(s) for s in edges]))
        a, b = edges[max(i - 1, 0)], edges[min(i + 1, edges.size - 1)]
        best = minimize_scalar(self.relative, bounds=(a, b), method="bounded", options={"xatol": 1e-12})
        return (float(best.x), 0.0 if best.fun < LOST else float(best.fun)) if best.fun < CLOSE else None

    def smooth(self) -> bool:
        """True if velocities changed by what accelerations say, and by no more."""
        at_v, at_a = self.layout.slice("v"), self.layout.slice("a")
        v, a = [], []
        for t, row in zip(self.t, self.rows, strict=True):
            trial = row.copy()
            if self.work.complete(t, trial) != 0:
                return False
            v.append(trial[at_v])
            a.append(trial[at_a])
        rest = v[1] - v[0] - 0.5 * (self.t[1] - self.t[0]) * (a[0] + a[1])
        size = max(float(np.linalg.norm(v[0])), float(np.linalg.norm(v[1])))
        return bool(np.linalg.norm(rest) <= JUMP * size)


def inspect(work: Workspace, run: runstate.Run) -> Passage | None:
    """What there is to a suspicion about the way to the last row looked at; None if nothing is.

    A minimum of the smallest singular value that is known from three looks may lie on either side of the middle one.
    """
    touches = run.ranked[rank.SUSPECT] == rank.TOUCHES
    for age in (1, 0) if touches else (0,):
        way = _Way(work, run, age)
        if way.spins():
            return TOO_FAR
        if way.clear():
            continue
        found = way.smallest() if touches else way.crossing()
        if found is not None and not (touches and found[1] > 0):
            return _passage(work, run, way, *found)
    return None


def _passage(work: Workspace, run: runstate.Run, way: _Way, at: float, sigma: float) -> Passage:
    t = way.t[0] + at * (way.t[1] - way.t[0])
    names = _involved(work, way.C(at))
    if not way.smooth():
        return Passage(t, True, f"At t = {t:.8g} the constraints {names} lose rank (kinematic singularity), and the "
                                f"velocities jump: which branch the motion takes is not determined. Use smaller steps, "
                                f"or change the model.")  # fmt: skip
    if sigma > 0:
        return Passage(t, False, f"at t = {t:.8g} the constraints {names} come close to a loss of rank (smallest "
                                 f"singular value {sigma:.1g}) within a single step, which may have jumped to another "
                                 f"branch of the motion: repeat with smaller steps.")  # fmt: skip
    more = ""
    if run.whole[runstate.FIXED] == 1:
        more = " The steps are fixed: repeat with smaller ones to be sure that it is no narrow gap."
    return Passage(t, False, f"at t = {t:.8g} the constraints {names} lose rank (kinematic singularity): passed with "
                             f"continuous velocities, on the branch of the motion. Other branches begin there, and "
                             f"reactions close to it lose digits.{more}")  # fmt: skip


def _involved(work: Workspace, C: np.ndarray) -> str:
    """The constraints that depend on each other, by name."""
    system = work.assembly.system
    labels = [*system.names["constraints"], *system.names["velocity_constraints"]]
    U, sigma, _ = np.linalg.svd(C)
    lost = np.linalg.norm(U[:, : sigma.size][:, sigma <= max(10 * LOST * sigma[0], 2 * sigma[-1])], axis=1)
    return ", ".join(repr(labels[i]) for i in np.flatnonzero(lost > 0.1))


def cut(run: runstate.Run, output: runstate.Output, t: float) -> None:
    """Take back what was stored beyond a time, in place."""
    forward = run.real[runstate.T_END] >= t
    while run.whole[runstate.STORED] > 1 and (output.t[run.whole[runstate.STORED] - 1] > t) == forward:
        run.whole[runstate.STORED] -= 1
    run.real[runstate.T] = t
