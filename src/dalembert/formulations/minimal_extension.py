"""Minimal extension: a strangeness-free system (index 1) that keeps all levels of the constraints.

[KM04] P. Kunkel, V. Mehrmann, Index reduction for differential-algebraic equations by minimal extension, Z. Angew.
       Math. Mech. 84 (2004) 579-597.
[W05]  L. Wunderlich, Numerical treatment of second order differential-algebraic systems (2005), 7.1.2 and 7.2.2.

The equations of motion, g, g' and g'' together have too many equations. Coordinates are split into q1 and as many
dependent ones q2 as constraints, G = [G_1 G_2] with G_2 regular. The derivatives of q2 follow from g' = 0 and g'' = 0,
so they need not be discretised: new algebraic variables stand for them.

First order [W05, (7.13)]:     q1' = v1,  w1 = v2,  M [v1'; w2] = f - G^T lam,   0 = g, g', g''
Second order [W05, (7.31)]:    M [q1''; w2] = f(q, [q1'; w1], lam) - G^T lam,    0 = g, g', g''

Velocities of the solution are v and [q1'; w1]; only the "thesis" variant of modified BDF has to remember its difference
quotients instead, so that w1 has the velocities that satisfy g' = 0.

"full" is this system. "reduced" omits the equations that do nothing but define w1 and w2, with the unknowns
themselves: in the first-order form both go, so that q, v, lam remain [W05, (8.10)]; in the second-order form w2 goes,
but w1 stays, as it is the velocity of q2 wherever f and g'' mention one. With a mass matrix that is not diagonal the
equations are multiplied by M^-1 first: then the rows of w2 are those of q2. Both variants have the same solution.

g'' is evaluated at the acceleration that M, f and lam give, as printed in (7.14); in the "full" variant at [v1'; w2],
which is the same and needs no M^-1. Velocity constraints k with multipliers mu make nmu more velocities dependent,
whose derivatives belong to w2.

Which coordinates are dependent is run-time data: a 0/1 matrix T (nlam + nmu, nv), row j of which marks the coordinate
that constraint j determines. Coordinate i has its differential equation if no row marks it, else "its" constraint:

    (1 - T^T 1) o (q' - v) + T^T g = 0,

n equations with the powers of c0 of either kind, so that q and v stay the unknowns, the diagonal stays different from
zero, and a new choice of T needs no change of variables. How T is chosen: see `dependent`. It is chosen anew when an
exchange of two coordinates would enlarge |det G_2| by 1 / RENEW_QUALITY = 1.4: G_2 is never near singular, and every
new choice is a different one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import casadi as ca
import numpy as np

from dalembert.formulations.base import (
    SECOND_ORDER,
    At,
    Equation,
    Formulation,
    Unknown,
    force_elements,
    mechanical_unknowns,
    present,
    register,
)
from dalembert.formulations.dependent import choose_dependent, largest_gain
from dalembert.formulations.directions import SINGULAR, turning_rate, unit
from dalembert.model.point import Environment, Point
from dalembert.model.system import System
from dalembert.status import OptionError


@register
@dataclass(frozen=True)
class MinimalExtension(Formulation):
    """Constraints at all three levels, with the derivatives of dependent coordinates as algebraic variables.

    Parameters
    ----------
    variant
        "reduced" (default): without the equations that define the additional variables; "full": with them.
    dependent
        None: the dependent coordinates are chosen at the start and anew before they become a bad choice. A list of
        names (or numbers) of coordinates, one for each constraint: kept for the whole run.

    Examples
    --------
    >>> import dalembert as da
    >>> problem = da.problems()["pendulum"]
    >>> sol = da.solve(problem.system, (0, 1), [1, 0], [0, 0], formulation=da.MinimalExtension())
    >>> sol.success
    True
    """

    variant: Literal["reduced", "full"] = "reduced"
    dependent: Sequence[str | int] | None = None
    name: ClassVar[str] = "minimal-extension"
    summary: ClassVar[str] = "all levels of the constraints; derivatives of dependent coordinates not discretised"
    satisfies: ClassVar[frozenset[str]] = frozenset({"position", "velocity", "acceleration"})
    own_multipliers: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.variant not in ("reduced", "full"):
            raise OptionError(f"MinimalExtension(variant={self.variant!r}): choose reduced or full.")
        if self.dependent is None:
            return
        given = self.dependent
        if isinstance(given, str) or not all(
            isinstance(x, (str, int, np.integer)) and not isinstance(x, bool) for x in given
        ):
            raise OptionError(
                f"MinimalExtension(dependent={given!r}): give a list of coordinates by name or number, one for each "
                "constraint."
            )
        object.__setattr__(self, "dependent", tuple(x if isinstance(x, str) else int(x) for x in given))

    def describe(self) -> str:
        return f"minimal-extension ({self.variant}{', dependent coordinates given' if self.dependent else ''})"

    # ------------------------------------------------------------------ unknowns
    def _added(self, system: System) -> tuple[Unknown, Unknown]:
        return (
            Unknown("w1", system.nlam, False, controlled=False),
            Unknown("w2", system.nlam + system.nmu, False, column=1, controlled=False),
        )

    def unknowns(self, system: System) -> list[Unknown]:
        added = self._added(system) if self.variant == "full" else ()
        return [*mechanical_unknowns(system, velocity_index=1, multiplier_index=1), *added]

    def second_order_unknowns(self, system: System) -> list[Unknown]:
        w1, w2 = self._added(system)
        added = (w1, w2) if self.variant == "full" else (w1,)
        known = mechanical_unknowns(system, velocity_index=1, multiplier_index=1)
        return [*(u for u in known if u.name != "v"), *added]

    def start(self, system: System, at: At) -> dict[str, np.ndarray]:
        if self.variant == "reduced":
            self._check_reducible(system, at("mass"))
        C = np.vstack([at("G").reshape(system.nlam, system.nv), at("K").reshape(system.nmu, system.nv)])
        T = self._choose(system, C)
        return {"w1": T[: system.nlam] @ at("v"), "w2": T @ at("a")}

    def _check_reducible(self, system: System, mass: np.ndarray) -> None:
        scale = np.sqrt(np.abs(np.diag(mass)))
        if np.any(scale == 0.0) or np.linalg.cond(mass / np.outer(scale, scale)) > 1e12:
            raise OptionError(
                "MinimalExtension(variant='reduced') multiplies by M^-1, but mass is singular at the initial values; "
                "use variant='full'."
            )

    # ------------------------------------------------------------------ the choice of dependent coordinates
    def data_size(self, system: System) -> int:
        return int((system.nlam + system.nmu) * system.nv)

    @property
    def monitors(self) -> bool:
        return self.dependent is None

    def choose_data(self, system: System, C: np.ndarray) -> np.ndarray:
        return self._choose(system, C).ravel(order="F")

    def restate(self, system: System, data: np.ndarray, v: np.ndarray, a: np.ndarray) -> dict[str, np.ndarray]:
        """Equations are linear in w2 but not in w1: extrapolating w1 across a choice would cost steps."""
        T = data.reshape(system.nlam + system.nmu, system.nv, order="F")
        return {"w1": v @ T[: system.nlam].T, "w2": a @ T.T}

    def sample_data(self, system: System, C: np.ndarray) -> np.ndarray:
        """The choice that would be made there: pivots have to serve all choices."""
        try:
            return self.choose_data(system, C)
        except (OptionError, ValueError):  # not finite or singular there
            return np.eye(system.nlam + system.nmu, system.nv).ravel(order="F")

    def _choose(self, system: System, C: np.ndarray) -> np.ndarray:
        """T (nlam + nmu, nv) for the constraint matrix C = [G; K]."""
        allowed = self._given(system, C) if self.dependent is not None else np.arange(system.nv)
        return choose_dependent(C, system.nlam, allowed)

    def _given(self, system: System, C: np.ndarray) -> np.ndarray:
        """Numbers of the coordinates that the user wants to be dependent."""
        assert self.dependent is not None
        names = list(system.space.names)
        if len(self.dependent) != len(C):
            raise OptionError(
                f"MinimalExtension(dependent={list(self.dependent)}) names {len(self.dependent)} coordinates, expected "
                f"{len(C)}: one for each constraint."
            )
        for x in self.dependent:
            if x not in names and x not in range(system.nv):
                raise OptionError(
                    f"MinimalExtension(dependent=...): there is no coordinate {x!r}; there are {', '.join(names)}."
                )
        index = np.array([names.index(x) if isinstance(x, str) else x for x in self.dependent], dtype=int)
        s = np.linalg.svd(unit(C)[:, index], compute_uv=False)
        if len(set(index.tolist())) < len(index) or (len(s) and not s[-1] > SINGULAR):
            raise OptionError(
                f"MinimalExtension(dependent={list(self.dependent)}): the constraints do not determine these "
                "coordinates at the start (G_2 is singular). Choose others, or leave dependent out."
            )
        return index

    def _selection(self, env: Environment) -> tuple[ca.SX, ca.SX, ca.SX]:
        """T as an expression, and which coordinates have dependent positions (nv,) and velocities (nv,)."""
        system = env.system
        T = ca.reshape(env.data, system.nlam + system.nmu, system.nv)
        return T, ca.sum1(T[: system.nlam, :]).T, ca.sum1(T).T

    def monitor(self, env: Environment, point: Point) -> ca.SX:
        """[1 / largest gain of |det G_2| by an exchange of coordinates, rate of turning of the constraints]."""
        C = ca.vertcat(point.G, point.K)
        if not C.shape[0]:
            return super().monitor(env, point)
        largest = largest_gain(ca.densify(C), self._selection(env)[0], env.system.nlam)
        return ca.vertcat(1 / largest, turning_rate(C, ca.vertcat(point.G_dot, point.K_dot)))

    # ------------------------------------------------------------------ equations
    def constraint_equations(self, point: Point) -> list[Equation]:
        """The levels that do not take the place of a differential equation."""
        return [Equation("constraints''", point.g_ddot, row=-1), Equation("velocity constraints'", point.k_dot, row=-1)]

    def equations(
        self, env: Environment, t: ca.SX, x: Mapping[str, ca.SX], x_dot: Mapping[str, ca.SX]
    ) -> list[Equation]:
        """[W05, (7.13)]"""
        system = env.system
        T, dependent_q, dependent_v = self._selection(env)
        T_q = T[: system.nlam, :]
        given = {n: x[n] for n in ("q", "v", "r", "w", "s", "lam", "mu")}
        full = self.variant == "full"
        a = (1 - dependent_v) * x_dot["v"] + T.T @ x["w2"] if full else _acceleration(env, t=t, **given)
        point = env.at(t=t, a=a, **given)
        velocities = ca.vertcat(point.g_dot, point.k)
        rows = []
        if system.nq:  # q1' = v1, 0 = g
            expr = (1 - dependent_q) * (x_dot["q"] - x["v"]) + T_q.T @ point.g
            rows.append(Equation("kinematics and constraints", expr, row=dependent_q))
        if full:
            rows += [
                Equation("w1", x["w1"] - T_q @ x["v"]),
                Equation("balance", point.balance, row=-1),
                Equation("constraints' and velocity constraints", velocities),
            ]
        else:  # v1' = a1, 0 = g', 0 = k
            expr = (1 - dependent_v) * (x_dot["v"] - a) + T.T @ velocities
            rows.append(Equation("balance and constraints'", expr, row=dependent_v - 1))
        return present([*rows, *force_elements(point, x_dot), *self.constraint_equations(point)])

    def second_order(
        self, env: Environment, t: ca.SX, x: Mapping[str, ca.SX], v: ca.SX, a: ca.SX, x_dot: Mapping[str, ca.SX]
    ) -> tuple[list[Equation], ca.SX]:
        """[W05, (7.31)]"""
        system = env.system
        T, dependent_q, dependent_v = self._selection(env)
        T_q, T_k = T[: system.nlam, :], T[system.nlam :, :]
        given = {n: x[n] for n in SECOND_ORDER}
        velocity = (1 - dependent_q) * v + T_q.T @ x["w1"]
        if self.variant == "full":
            point = env.at(t=t, v=velocity, a=(1 - dependent_v) * a + T.T @ x["w2"], **given)
            rows = [
                Equation("balance", point.balance, row=-1),
                Equation("constraints", point.g, row=1),
                Equation("velocity constraints", point.k),
            ]
        else:  # q1'' = a1, 0 = g, 0 = k
            own = _acceleration(env, t=t, v=velocity, **given)
            point = env.at(t=t, v=velocity, a=own, **given)
            expr = (1 - dependent_v) * (a - own) + T_q.T @ point.g + T_k.T @ point.k
            rows = [Equation("balance and constraints", expr, row=dependent_q + dependent_v - 1)]
        rows += [Equation("constraints'", point.g_dot), *force_elements(point, x_dot)]
        return present([*rows, *self.constraint_equations(point)]), velocity


def _acceleration(env: Environment, **given: ca.SX) -> ca.SX:
    """M^-1 (f - G^T lam - K^T mu)."""
    system = env.system
    if ca.depends_on(system.force, system.symbols.a):
        raise OptionError(
            "MinimalExtension(variant='reduced') eliminates the accelerations, but force asks for a; "
            "use variant='full'."
        )
    point = env.at(**given)
    return ca.solve(point.mass, ca.densify(point.force + point.reaction))
