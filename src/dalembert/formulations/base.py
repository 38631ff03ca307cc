"""What a formulation is: unknowns and equations of a first-order DAE, written in terms of the model.

A formulation rewrites a `System` as F(t, x, x') = 0. It only says which unknowns there are and which equations they
obey; how x' is discretised is the integrator's business.

Scaling. With x' replaced by c0 x + (past), c0 = O(1/h), the iteration matrix stays well conditioned as h -> 0 if
column j is multiplied by c0^column and row i by c0^row; the powers are data of the unknowns and equations.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import casadi as ca
import numpy as np

from dalembert.model.point import Environment, Point
from dalembert.model.system import System
from dalembert.status import OptionError

At = Callable[[str], np.ndarray]  # a variable or an expression of the model at the initial state, as numbers


@dataclass(frozen=True)
class Unknown:
    """A block of unknowns.

    ``index`` is the number of differentiations after which the block would be given by an ODE, plus one for
    differential ones, as in Hairer & Wanner (Solving ODEs II, VII.7): the error of a block of index i is
    weighted by h^(i-1). ``controlled`` blocks take part in the error test.
    """

    name: str
    size: int
    differential: bool
    column: int = 0
    index: int = 1
    controlled: bool = True


@dataclass(frozen=True, eq=False)
class Equation:
    """A block of equations with its row scaling and the label used in messages.

    ``row``: a power for the block, or one for each of its equations, which may then depend on the formulation's data.
    """

    label: str
    expr: ca.SX
    row: int | ca.SX = 0


class Formulation(ABC):
    """A way of writing a constrained system as a first-order DAE."""

    name: ClassVar[str]
    summary: ClassVar[str]
    # the constraint levels that hold at the end of every step without projection
    satisfies: ClassVar[frozenset[str]] = frozenset()
    # report the step's own multipliers (True) or solve for those that belong to the reported q and v (False)
    own_multipliers: ClassVar[bool] = False
    # can be built from its name alone, without arguments that only the user knows
    self_contained: ClassVar[bool] = True
    # project by default
    projects: ClassVar[bool] = False
    # for configuration spaces that are groups, too
    on_groups: ClassVar[bool] = False

    @abstractmethod
    def unknowns(self, system: System) -> list[Unknown]:
        """Blocks of unknowns, positions first."""

    @abstractmethod
    def constraint_equations(self, point: Point) -> list[Equation]:
        """The equations that determine the multipliers."""

    def equations(
        self, env: Environment, t: ca.SX, x: Mapping[str, ca.SX], x_dot: Mapping[str, ca.SX]
    ) -> list[Equation]:
        """F(t, x, x') = 0 block by block."""
        a = self.acceleration(x, x_dot)
        point = env.at(t=t, a=a, **{n: x[n] for n in ("q", "v", "r", "w", "s", "lam", "mu")})
        return present(
            [
                *self.kinematics(env, point, x, x_dot),
                Equation("balance", point.balance, row=-1),
                *force_elements(point, x_dot),
                *self.constraint_equations(point),
                *self.additional_equations(env, point, x, x_dot),
            ]
        )

    # The same system without velocities as unknowns, for methods that discretise q' and q'' themselves. Powers of c0
    # are those of the first-order form, one more for unknowns and one less for equations: q instead of v is the
    # unknown of order 1, and q'' = O(c0^2) q.
    def second_order_unknowns(self, system: System) -> list[Unknown]:
        """Blocks of unknowns of the second-order form, positions first."""
        return [u for u in self.unknowns(system) if u.name != "v"]

    def second_order(
        self, env: Environment, t: ca.SX, x: Mapping[str, ca.SX], v: ca.SX, a: ca.SX, x_dot: Mapping[str, ca.SX]
    ) -> tuple[list[Equation], ca.SX]:
        """F(t, x, x', q'') = 0 block by block, and the velocities of the solution.

        ``v`` and ``a`` stand for q' and q'', ``x_dot`` for the derivatives of the other unknowns, algebraic ones too.
        """
        point = env.at(t=t, v=v, a=a, **{n: x[n] for n in SECOND_ORDER})
        rows = [
            Equation("balance", point.balance, row=-1),
            *force_elements(point, x_dot),
            *self.constraint_equations(point),
        ]
        return present(rows), v

    def kinematics(
        self, env: Environment, point: Point, x: Mapping[str, ca.SX], x_dot: Mapping[str, ca.SX]
    ) -> list[Equation]:
        """Equations for the rates of the positions (and whatever else is differential by definition)."""
        if not env.system.nq:
            return []
        return [Equation("kinematics", env.system.space.velocity(x["q"], x_dot["q"]) - self.velocity(point, x))]

    def acceleration(self, x: Mapping[str, ca.SX], x_dot: Mapping[str, ca.SX]) -> ca.SX:
        """What stands for v' in the equations of motion."""
        return x_dot["v"]

    def velocity(self, point: Point, x: Mapping[str, ca.SX]) -> ca.SX:
        """What stands for q' in the kinematic equations."""
        return x["v"]

    def additional_equations(
        self, env: Environment, point: Point, x: Mapping[str, ca.SX], x_dot: Mapping[str, ca.SX]
    ) -> list[Equation]:
        """Equations for the unknowns that a formulation adds."""
        return []

    @property
    def projection_options(self) -> dict[str, Any]:
        """Options of the projection that belongs to this formulation, where it projects by default."""
        return {}

    def start(self, system: System, at: At) -> dict[str, np.ndarray]:
        """Initial values of the unknowns that the formulation adds; refuses arguments that cannot work there.

        ``at(name)`` gives a variable ("t", "q", "v", "a", "p", ...) or an expression ("G", "K", "mass", ...).
        """
        return {}

    # Numbers that a formulation chooses at the start of a run and may choose anew when its monitor says so.
    def data_size(self, system: System) -> int:
        return 0

    def choose_data(self, system: System, C: np.ndarray) -> np.ndarray:
        """The numbers for the constraint matrix C = [G; K] (nlam + nmu, nv) of a state."""
        return np.zeros(0)

    def restate(self, system: System, data: np.ndarray, v: np.ndarray, a: np.ndarray) -> dict[str, np.ndarray]:
        """Past values of unknowns whose meaning depends on the data, for past velocities and accelerations (rows, nv).

        Where accelerations are not known they are zero; values made from them serve as first guesses only.
        """
        return {}

    def sample_data(self, system: System, C: np.ndarray) -> np.ndarray:
        """Numbers of the right kind for choosing pivots; C as above at a sample state, or NaN."""
        return np.random.default_rng(1743).uniform(-1, 1, self.data_size(system))

    @property
    def monitors(self) -> bool:
        """True if the data has to be watched during the run."""
        return False

    def monitor(self, env: Environment, point: Point) -> ca.SX:
        """[how good the data still is, from 1 down to 0; how fast it ages, per unit of time]."""
        return ca.SX([1, 0])

    def describe(self) -> str:
        """One line for people."""
        return self.name


SECOND_ORDER = ("q", "r", "w", "s", "lam", "mu")  # variables of the model that are unknowns of a second-order form


def force_elements(point: Point, x_dot: Mapping[str, ca.SX]) -> list[Equation]:
    """Equations of the dynamic, auxiliary and contact variables."""
    return [
        Equation("dynamics", x_dot["r"] - point.dynamics, row=-1),
        Equation("auxiliary", point.auxiliary, row=-1),
        Equation("contact", point.h),
    ]


def present(rows: list[Equation]) -> list[Equation]:
    """Without empty blocks."""
    return [row for row in rows if row.expr.numel()]


def mechanical_unknowns(system: System, velocity_index: int, multiplier_index: int) -> list[Unknown]:
    """The unknowns q, v, r, w, s, lam, mu."""
    return [
        Unknown("q", system.nq, True, column=-1),
        Unknown("v", system.nv, True, index=velocity_index),
        Unknown("r", system.nr, True),
        Unknown("w", system.nw, False, column=1, controlled=False),
        Unknown("s", system.ns, False, controlled=False),
        Unknown("lam", system.nlam, False, column=1, index=multiplier_index, controlled=False),
        Unknown("mu", system.nmu, False, column=1, index=min(multiplier_index, 2), controlled=False),
    ]


def check_rate(owner: str, name: str, value: Any, consequence: str) -> None:
    """Refuse a rate of damping that is not a number >= 0."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise OptionError(f"{owner}({name}={value!r}): give a number >= 0, a rate per unit of time.")
    if not np.isfinite(value):
        raise OptionError(f"{owner}({name}={value!r}): give a finite rate >= 0.")
    if value < 0:
        raise OptionError(f"{owner}({name}={value!r}): a negative rate makes {consequence}")


_REGISTRY: dict[str, type[Formulation]] = {}


def register(cls: type[Formulation]) -> type[Formulation]:
    """Class decorator: make a formulation known by its name."""
    _REGISTRY[cls.name] = cls
    return cls


def formulations() -> dict[str, type[Formulation]]:
    """Formulations by name."""
    return dict(_REGISTRY)


def as_formulation(given: str | Formulation | None, default: str) -> Formulation:
    """The formulation meant by the argument ``formulation`` of `solve`."""
    if isinstance(given, Formulation):
        return given
    name = default if given is None else given
    if name not in _REGISTRY:
        raise OptionError(f"formulation={given!r} is not known; there are {', '.join(sorted(_REGISTRY))}.")
    return _REGISTRY[name]()
