"""Projection of a state onto its constraints and invariants.

[E93] E. Eich, Convergence results for a coordinate projection method applied to mechanical systems with algebraic
      constraints, SIAM J. Numer. Anal. 30 (1993) 1467-1482.

    minimise (y - y~)^T W (y - y~)   subject to   phi(y) = 0                                        [E93, (2.5), (2.6)]

joint: y = (q, v) at once, phi = (g, G v + g_t, k, invariants).
sequential: q onto g; then v onto (G v + g_t, k) at the new q; then, if there are invariants, (q, v) jointly onto all.

Gauss-Newton: H(y) anew in every iteration, converges to the orthogonal foot point. Simplified: H(y~) throughout, one
factorisation; the limit lies on the manifold, second-order close to the foot point.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import casadi as ca
import numpy as np

from dalembert.model.point import Point
from dalembert.numerics.nonlinear import Nonlinear, row_rounding
from dalembert.numerics.stage import StageData, StageSystem
from dalembert.spaces.group import Group
from dalembert.status import OptionError
from dalembert.tracing import to_sx

LEVELS = ("position", "velocity")


@dataclass(frozen=True)
class Projection:
    """How states are put back onto the constraints after every step.

    Parameters
    ----------
    coupling
        "sequential": positions first, then velocities (default). "joint": both in one minimisation.
    weight
        Metric of the minimisation: None (identity), "mass", or a symmetric positive definite (nv, nv) matrix, used
        for positions and velocities alike.
    levels
        Which levels to project onto, a subset of ("position", "velocity").
    invariants
        Project onto the system's invariants too.
    iteration
        "gauss-newton" (orthogonal foot point) or "simplified" (one factorisation).
    error
        "plain": the error test uses the estimate as it is. "projected": its part normal to the constraints, which the
        projection removes, is taken out first [E93, section 4.1].
    steps
        False: project only points between steps (dense output, events), not what the steps make.

    Examples
    --------
    >>> Projection(coupling="joint", weight="mass")
    Projection(coupling='joint', weight='mass', levels=('position', 'velocity'), invariants=True, ...)
    """

    coupling: Literal["sequential", "joint"] = "sequential"
    weight: Any = None
    levels: tuple[str, ...] = LEVELS
    invariants: bool = True
    iteration: Literal["gauss-newton", "simplified"] = "simplified"
    error: Literal["plain", "projected"] = "plain"
    steps: bool = True

    def __post_init__(self) -> None:
        for name, allowed in (
            ("coupling", ("sequential", "joint")),
            ("iteration", ("gauss-newton", "simplified")),
            ("error", ("plain", "projected")),
        ):
            if getattr(self, name) not in allowed:
                raise OptionError(f"Projection({name}={getattr(self, name)!r}): choose one of {', '.join(allowed)}.")
        levels = (self.levels,) if isinstance(self.levels, str) else tuple(self.levels)
        object.__setattr__(self, "levels", levels)
        unknown = [x for x in levels if x not in LEVELS]
        if unknown:
            raise OptionError(f"Projection(levels=...): {unknown[0]!r} is not a level; levels are {', '.join(LEVELS)}.")
        weight = self.weight
        if isinstance(weight, str) and weight != "mass":
            raise OptionError(f"Projection(weight={weight!r}): give None, 'mass' or a matrix.")
        if weight is not None and not isinstance(weight, str):
            try:
                matrix = np.asarray(weight, dtype=float)
            except (TypeError, ValueError):
                raise OptionError(f"Projection(weight={weight!r}): give None, 'mass' or a matrix of numbers.") from None
            if matrix.ndim == 1:
                matrix = np.diag(matrix)
            if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not np.allclose(matrix, matrix.T):
                raise OptionError("Projection(weight=...): the matrix must be square and symmetric.")
            if np.linalg.eigvalsh(matrix).min() <= 0:
                raise OptionError("Projection(weight=...): the matrix must be positive definite.")
            object.__setattr__(self, "weight", tuple(map(tuple, matrix.tolist())))

    def describe(self) -> str:
        """One line for people."""
        weight = {None: "identity", "mass": "mass"}.get(self.weight if isinstance(self.weight, str) else None, "user")
        if self.weight is not None and not isinstance(self.weight, str):
            weight = "user"
        return f"{self.coupling} ({', '.join(self.levels)}), {weight} weight, {self.iteration}"

    def metric(self, point: Point) -> ca.SX:
        """W (nv, nv) at a point."""
        nv = point.system.nv
        if self.weight is None:
            return ca.SX.eye(nv)
        if isinstance(self.weight, str):
            return point.mass
        matrix = to_sx(np.array(self.weight))
        if matrix.shape != (nv, nv):
            raise OptionError(f"Projection(weight=...): the matrix is {matrix.shape}, the system has {nv} velocities.")
        return ca.sparsify(matrix)

    def stages(self, data: StageData) -> list[StageSystem]:
        """The minimisations to run one after the other (possibly none)."""
        system = data.system
        position = "position" in self.levels and system.nlam > 0
        velocity = "velocity" in self.levels and system.nlam + system.nmu > 0
        invariants = self.invariants and system.nphi > 0
        blocks = [b for b in ("q", "v") if data.system.sizes[b]]
        if self.error == "projected" and system.calls:
            raise OptionError(
                "Projection(error='projected') needs a model without black boxes "
                f"({', '.join(system.black_boxes)} cannot be traced); use error='plain'."
            )
        out = []
        if not position and not system.space.flat:
            out.append(_stage("element", self, data, ["q"], lambda point, phi0: ca.SX.zeros(0, 1)))
        if self.coupling == "sequential":
            if position:
                out.append(_stage("position", self, data, ["q"], _positions))
            if velocity:
                out.append(_stage("velocity", self, data, ["v"], _velocities))
        if invariants or (self.coupling == "joint" and (position or velocity)):

            def conditions(point: Point, phi0: ca.SX) -> ca.SX:
                parts = [
                    _positions(point, phi0) if position else None,
                    _velocities(point, phi0) if velocity else None,
                    point.phi - phi0 if invariants else None,
                ]
                return ca.vertcat(*[x for x in parts if x is not None])

            if invariants and ca.depends_on(system.phi, system.symbols.r):
                blocks.append("r")
            out.append(_stage("joint", self, data, blocks, conditions))
        return out


def between_steps(projection: Projection | None, satisfied: frozenset[str]) -> Projection | None:
    """Projection of what lies between steps, given that of the steps and the levels that their equations satisfy.

    Onto all levels that hold at the steps, and velocities with positions. Step equations that keep positions on the
    constraints change velocities along M^-1 G^T: what they leave of that is taken out in the metric of the mass matrix.
    Constraints that the steps drift off from are left alone.
    """
    if not satisfied & set(LEVELS):
        return projection
    kept = satisfied | set(projection.levels if projection is not None else ())
    levels = LEVELS if "position" in kept else tuple(x for x in LEVELS if x in kept)
    base = Projection(invariants=False) if projection is None else projection
    return replace(base, levels=levels, weight="mass" if base.weight is None else base.weight, error="plain")


def _positions(point: Point, phi0: ca.SX) -> ca.SX:
    return point.g


def _velocities(point: Point, phi0: ca.SX) -> ca.SX:
    return ca.vertcat(point.g_dot, point.k)


Conditions = Callable[[Point, ca.SX], ca.SX]


def _on_space(conditions: Conditions) -> Conditions:
    """The conditions and those of being an element of the configuration space (none if it is Euclidean)."""
    return lambda point, phi0: ca.vertcat(conditions(point, phi0), point.system.space.equations(point.q))


def _metric(block: str, options: Projection, point: Point) -> ca.SX:
    """Metric of one block, in terms of the numbers that are stored.

    On a group, W measures tangent vectors d, and stored numbers move by B d, v -> B v being the rate. The columns of B
    are orthogonal with lengths that are the same at all elements, so that d = D^-1 B^T dq with D = B^T B at the
    identity. Directions normal to the group get weight one; the conditions forbid them.
    """
    system = point.system
    if block not in ("q", "v"):
        return ca.SX.eye(system.sizes[block])
    W = options.metric(point)
    if block == "v" or system.space.flat:
        return W
    v = ca.SX.sym("v", system.nv)
    B = ca.jacobian(system.space.rate(point.q, v), v)
    unit = ca.Function("unit", [point.q], [B])(system.space.identity)
    back = ca.diag(1 / ca.diag(unit.T @ unit)) @ B.T
    return ca.sparsify(back.T @ W @ back + ca.SX.eye(system.nq) - B @ back)


def _stage(name: str, options: Projection, data: StageData, blocks: list[str], conditions: Conditions) -> StageSystem:
    """One minimisation: W (y - y~) + H^T nu = 0, phi(y) = 0 for y = the given blocks.

    Contact coordinates s move along with q, held to h(t, q, s) = 0 by equations of their own.
    """
    system = data.system
    turns = isinstance(system.space, Group) and not system.space.flat and not system.ns and not system.calls
    if blocks == ["q"] and turns and options.iteration == "simplified" and options.error == "plain":
        return _stage_on_group(name, options, data, conditions)
    env = data.environment()
    old = data.old
    moving = [*blocks, "s"] if "q" in blocks and system.ns else list(blocks)
    y = {b: ca.SX.sym(b, system.sizes[b]) for b in moving}
    metric_point = env.at(t=data.t, **{b: old[b] for b in ("q", "v", "r", "w", "s")})
    new_point = env.at(t=data.t, **{b: y.get(b, old[b]) for b in ("q", "v", "r", "w", "s")})
    if "q" in blocks:  # stored positions are not free if the space is a group: they have to remain an element of it
        conditions = _on_space(conditions)
    phi = conditions(new_point, data.phi0)
    nu = ca.SX.sym("nu", phi.numel())
    contact = new_point.h if "s" in moving else ca.SX.zeros(0, 1)

    Y = ca.vertcat(*[y[b] for b in blocks])
    Y_old = ca.vertcat(*[old[b] for b in blocks])
    W = ca.diagcat(*[_metric(b, options, metric_point) for b in blocks])
    H = _jacobian(phi, Y, y, contact)
    if options.iteration == "simplified":
        start = ca.vertcat(*[old[b] for b in moving])
        H_used = ca.substitute(H, ca.vertcat(*[y[b] for b in moving]), start)
        if env.coefficients:  # black boxes: the same function at the old point
            old_phi = conditions(metric_point, data.phi0)
            H_used = _jacobian(old_phi, Y_old, {"s": old["s"]} if "s" in moving else {}, metric_point.h)
    else:
        H_used = H
    x = ca.vertcat(Y, y["s"] if "s" in moving else ca.SX.zeros(0, 1), nu)
    residual = ca.vertcat(W @ (Y - Y_old) + H_used.T @ nu, contact, phi)
    # Gauss-Newton: the curvature term nu^T phi_yy is left out of the matrix
    ns = y["s"].numel() if "s" in moving else 0
    n, m = Y.numel(), phi.numel()
    if ns:
        contact_Y, contact_s = ca.jacobian(contact, Y), ca.jacobian(contact, y["s"])
        phi_Y, phi_s = ca.jacobian(phi, Y), ca.jacobian(phi, y["s"])
        jacobian = ca.blockcat(
            [
                [W, ca.SX(n, ns), H_used.T],
                [contact_Y, contact_s, ca.SX(ns, m)],
                [phi_Y, phi_s, ca.SX(m, m)],
            ]
        )
    else:
        jacobian = ca.blockcat([[W, H_used.T], [H_used, ca.SX(m, m)]])
    rounding = row_rounding(ca.jacobian(ca.vertcat(contact, phi), x), x)
    tolerance = ca.vertcat(-ca.SX.ones(n, 1), rounding)  # the stationarity rows need no check
    linear = not ca.depends_on(ca.jacobian(residual, x), x)
    system_of_equations = Nonlinear(
        name=f"project-{name}",
        x=x,
        d=data.d,
        residual=ca.densify(residual),
        jacobian=ca.sparsify(jacobian),
        columns=ca.SX.ones(x.numel(), 1),
        row_tolerance=ca.densify(tolerance),
        env=env,
        linear=linear,
        every=options.iteration == "gauss-newton" and not linear,
    )
    return StageSystem(
        (*blocks, "s") if ns else tuple(blocks),
        system_of_equations,
        by_rows=True,
        keep=False,
        layout=data.layout,
        metric=W if options.error == "projected" else None,
    )


def _stage_on_group(name: str, options: Projection, data: StageData, conditions: Conditions) -> StageSystem:
    """The same for positions on a group, in terms of a tangent vector d: W d + G^T nu = 0, phi(q) = 0, q = q~ exp(d).

    These are fewer equations than those of the stored numbers, and the metric comes first in them: their pivots serve
    in every position, while entries of a rotation all become zero in some. q is q~ exp(d) to first order.
    """
    system, env, old, space = data.system, data.environment(), data.old, data.system.space
    assert isinstance(space, Group)

    def at(q: ca.SX) -> Point:
        return env.at(t=data.t, **{b: q if b == "q" else old[b] for b in ("q", "v", "r", "w", "s")})

    m, q = conditions(at(old["q"]), data.phi0).numel(), ca.SX.sym("q", system.nq)
    n = system.nv if m else 0  # nothing to solve for if any element will do
    d, nu = ca.SX.sym("d", n), ca.SX.sym("nu", m)
    x = ca.vertcat(d, nu)
    moved = ca.SX(space.retract(old["q"], d)) if m else old["q"]
    phi = conditions(at(moved), data.phi0)
    W, G = (options.metric(at(old["q"])), at(old["q"]).G) if m else (ca.SX(0, 0), ca.SX(0, 0))
    rounding = ca.substitute(row_rounding(ca.jacobian(conditions(at(q), data.phi0), q), q), q, old["q"])
    return StageSystem(
        ("q",),
        Nonlinear(
            name=f"project-{name}",
            x=x,
            d=data.d,
            residual=ca.densify(ca.vertcat(W @ d + G.T @ nu, phi)),
            jacobian=ca.sparsify(ca.blockcat([[W, G.T], [G, ca.SX(m, m)]])),
            columns=ca.SX.ones(n + m, 1),
            row_tolerance=ca.densify(ca.vertcat(-ca.SX.ones(n, 1), rounding)),
            env=env,
        ),
        by_rows=True,
        keep=False,
        layout=data.layout,
        moved=moved,
    )


def _jacobian(phi: ca.SX, Y: ca.SX, y: dict[str, ca.SX], contact: ca.SX) -> ca.SX:
    """dphi/dY along the contact equations (total derivative)."""
    H = ca.jacobian(phi, Y)
    if "s" in y:
        s_Y = -ca.solve(ca.jacobian(contact, y["s"]), ca.jacobian(contact, Y))
        H = H + ca.jacobian(phi, y["s"]) @ s_Y
    return H
