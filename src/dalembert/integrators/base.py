"""What an integrator is: coefficients as data, step equations in terms of the model, options that make sense."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import casadi as ca
import numpy as np

from dalembert.formulations.base import At, Formulation, Unknown, formulations
from dalembert.model.point import Environment
from dalembert.model.system import System
from dalembert.numerics.layout import Layout
from dalembert.numerics.projection import Projection
from dalembert.numerics.runstate import N_ORDERS
from dalembert.spaces import Space
from dalembert.status import OptionError

TIGHT = 1e-8  # tolerance up to which higher orders pay on groups, where errors of turning bodies add up


@dataclass(frozen=True, eq=False)
class StepData:
    """Symbols of a step: d = [t, h, c, first, second, last, p, data].

    ``c`` are the numbers of the coefficient function; ``first`` and ``second`` are its combinations of past rows (of
    the unknowns and what the method carries along). ``last`` is the last row (for multistep methods on groups, else
    empty; then ``first`` combines changes from it), ``predicted`` the extrapolated one, which only the start values may
    depend on.
    """

    t: ca.SX
    h: ca.SX
    c: ca.SX
    first: ca.SX
    second: ca.SX
    last: ca.SX
    p: ca.SX
    data: ca.SX
    predicted: ca.SX
    # (t, q, v, r, p) -> accelerations of the index-1 form and r', None if they do not follow from a linear system
    accelerate: Callable[[ca.SX, ca.SX, ca.SX, ca.SX, ca.SX], tuple[ca.SX, ca.SX]] | None = None
    # matrix -> (right side -> solution), for matrices like that of the equations for multipliers and accelerations (see
    # `numerics.multipliers`), rows of which may be taken at other states; None as above
    eliminate: Callable[[ca.SX], Callable[[ca.SX], ca.SX]] | None = None
    # (t, row, p, h) of states and steps that elimination is to serve
    samples: Sequence[tuple[float, np.ndarray, np.ndarray, float]] = ()
    corrected: bool = False  # positions that a step makes are put onto their group afterwards

    @property
    def d(self) -> ca.SX:
        return ca.vertcat(self.t, self.h, self.c, self.first, self.second, self.last, self.p, self.data)


@dataclass(frozen=True, eq=False)
class LanesNewton:
    """Simplified Newton's method for stages that are iterated all at once, see `numerics.sweeps`.

    ``jacobian``: derivatives of the rates in terms of d. ``factor``: factors of the complex matrix for one eigenvalue
    of the method, from (real and imaginary part of h times the eigenvalue) and these derivatives. ``solve``: solution
    from (factors, right side).
    """

    jacobian: ca.SX
    factor: tuple[ca.SX, ca.SX, ca.SX]  # arguments in lanes, others, result
    solve: tuple[ca.SX, ca.SX]


@dataclass(frozen=True, eq=False)
class StepEquations:
    """The equations of a step, with their scaling: rows of the residual and columns of the matrix.

    ``update``: the new row (unknowns first, then what is carried) in terms of x and d, if it is not x itself.
    ``start``: first guess of x in terms of d, if it is not the extrapolated row.
    ``error``: estimate of the local error of the row, if it is not made from past rows.
    ``jacobian``: of the residual with respect to x, if there is a shorter way to it than differentiation.
    ``response``: (dx, estimate). Then ``error`` is a right side F (scaled rows), dx the solution of J dx = -F with the
    matrix J of the step, and the estimate an expression of x, d and dx.
    ``every``: a fresh matrix in every iteration of Newton's method.
    ``cautious``: an old matrix is taken to contract no better than the worst one that is kept.
    ``lanes``: (arguments, rates) of one stage of a method whose stages are iterated all at once, see `numerics.sweeps`;
    the arguments are c, r, v, q - q_n (on groups q), the rates those of v and r (on groups of q, too).
    ``lanes_newton``: what their iteration by Newton's method needs besides.
    """

    labels: list[str]
    residual: ca.SX
    rows: ca.SX
    columns: ca.SX
    update: ca.SX | None = None
    start: ca.SX | None = None
    error: ca.SX | None = None
    response: tuple[ca.SX, ca.SX] | None = None
    every: bool = False
    cautious: bool = False
    jacobian: ca.SX | None = None
    lanes: tuple[ca.SX, ca.SX] | None = None
    lanes_newton: LanesNewton | None = None


@dataclass(frozen=True, eq=False)
class Model:
    """The model as numbers, for starting values.

    ``complete(t, row)`` solves for multipliers and accelerations, in place; 0 if it worked. ``at(name, t, row)`` is an
    expression of the model ("mass", "G", "dynamics", ...).
    """

    complete: Callable[[float, np.ndarray], int]
    at: Callable[[str, float, np.ndarray], np.ndarray]


class EveryFormulation:
    """Class attribute that reads as the names of all formulations registered."""

    def __get__(self, instance: object, owner: type) -> frozenset[str]:
        return frozenset(formulations())


class Integrator(ABC):
    """A method of integration."""

    name: ClassVar[str]
    summary: ClassVar[str]
    default_formulation: ClassVar[str]
    # names of the formulations it can integrate
    takes: ClassVar[Any] = EveryFormulation()

    # options that make another method of it, to be compared with others, too
    variants: ClassVar[tuple[Mapping[str, Any], ...]] = ()
    # rows kept back from the order: a method of order k on k + reserve past rows
    reserve: ClassVar[int] = 0
    # the unknowns are the first entries of the row
    in_row: ClassVar[bool] = True
    # the order does not depend on past rows
    one_step: ClassVar[bool] = False
    # a variable-step run of its own can make its starting values
    self_starting: ClassVar[bool] = True
    # number of stages of an explicit method: its unknowns are their start values
    explicit_stages: ClassVar[int] = 0
    # largest growth of explicit steps from one to the next; 0: the usual
    growth: ClassVar[float] = 0.0
    # order of the first step, for its size; one-step methods of high order need not begin with tiny ones
    start_order: int = 1
    # number of sweeps over the stages of a method that iterates them
    n_sweeps: ClassVar[int] = 0
    # for configuration spaces that are groups, too
    on_groups: ClassVar[bool] = False
    # report the multipliers of the step where the formulation does, not those of the reported q and v
    own_multipliers: ClassVar[bool] = True
    # its steps end on the constraints of the formulation, and on the group, to rounding: nothing to project there
    keeps_constraints: ClassVar[bool] = False
    # coefficients of constant steps: past rows are interpolated to a regular grid when the step changes
    regular: ClassVar[bool] = False
    # smallest tolerance of automatic steps that rounding errors allow
    smallest_rtol: ClassVar[float] = 0.0
    # smallest one that the errors of a run follow; runs below it have a warning
    faithful_rtol: ClassVar[float] = 0.0
    # order that dense output from both ends of a step has to have; None: the polynomial through past rows serves
    hermite_order: ClassVar[int | None] = None
    # error estimates of velocities are rounding errors below so many units in the last place of the largest of them
    rounding: ClassVar[float] = 0.0

    @property
    def label(self) -> str:
        """What tells it from its `variants`, where several are listed."""
        return self.name

    @property
    def equations_key(self) -> tuple[Any, ...]:
        """What the step equations depend on; options that only steer the run do not count."""
        return (type(self),)

    @property
    def ramps(self) -> bool:
        """With a fixed step: begin with orders 1, 2, ... instead of accurate starting values."""
        return self.one_step or getattr(self, "start", "accurate") == "ramp"

    def row_blocks(self, system: System, formulation: Formulation) -> list[Unknown]:
        """Blocks of the row that a step makes."""
        unknowns = self.unknowns(system, formulation) if self.in_row else []
        return [*unknowns, *self.carried(system, formulation)]

    def moves(self, system: System) -> bool:
        """True if steps reach the new position by a motion from the last one: they see changes from the last row."""
        return not (self.one_step or system.space.flat)

    def weight_map(self, system: System, layout: Layout, formulation: Formulation) -> np.ndarray | None:
        """(2, n): row entry in whose units each unknown is measured, and the power of h to multiply with.

        None: the unknowns are the first entries of the row.
        """
        return None

    def unknowns(self, system: System, formulation: Formulation) -> list[Unknown]:
        """Blocks of unknowns of a step."""
        return formulation.unknowns(system)

    def carried(self, system: System, formulation: Formulation) -> list[Unknown]:
        """Blocks of the row that are not unknowns but follow from them and are needed in later steps."""
        return []

    @abstractmethod
    def equations(
        self, formulation: Formulation, env: Environment, layout: Layout, x: ca.SX, data: StepData
    ) -> StepEquations:
        """F(x; d) = 0 for one step."""

    @abstractmethod
    def coefficient_function(self) -> int:
        """Address of a native function (k, nodes available, nodes, out) -> status; see `numerics.runstate`."""

    def formula(self) -> np.ndarray:
        """Numbers of a method whose stages are iterated, see `numerics.sweeps`."""
        return np.zeros(0)

    @abstractmethod
    def order_range(self, fixed: bool) -> tuple[int, int]:
        """Order of the first step and largest order."""

    def satisfies(self, formulation: Formulation) -> frozenset[str]:
        """The constraint levels that hold at the end of every step without projection."""
        return formulation.satisfies

    def projects(self, formulation: Formulation) -> bool:
        """True if states are projected by default."""
        return formulation.projects

    def own_projection(self, system: System, formulation: Formulation) -> Projection | None:
        """The projection that steps of this method want by default; None: what the formulation wants."""
        return None

    def gains(self, system: System, formulation: Formulation, projection: Projection | None) -> bool:
        """True if projected velocities are of higher order than those that the multipliers of the step belong to."""
        return False

    def check_projection(self, formulation: Formulation, given: Projection | None) -> None:
        """Refuse a projection given by the user (None: no projection) that the method cannot do with."""
        return

    def start_carried(self, system: System, formulation: Formulation, at: At) -> dict[str, np.ndarray]:
        """Initial values of what the method carries along besides the unknowns; ``at`` as in `Formulation.start`."""
        return {}

    def estimate_scale(
        self, system: System, formulation: Formulation, tolerance: float, projection: Projection | None = None
    ) -> float:
        """What error estimates are multiplied with before they are compared with the tolerance."""
        return 1.0

    def order_shares(self, tolerance: float) -> np.ndarray:
        """Weights (8,) of the estimates of orders 0 to 7 besides, once a run has its start behind it."""
        return np.ones(N_ORDERS)

    def as_starter(self) -> Integrator:
        """The method as the one that makes its own first points: few steps, whose errors hardly add up."""
        return self

    def newton_share(self, tolerance: float, projection: Projection | None = None) -> float:
        """Part of the error allowed in a step that Newton's method may leave."""
        return 0.02

    def check(self, system: System, formulation: Formulation) -> None:
        """Refuse combinations that make no sense, saying what would work."""
        if formulation.name not in self.takes:
            raise OptionError(
                f"method {self.name!r} cannot integrate the formulation {formulation.name!r}; "
                f"it takes {', '.join(sorted(self.takes))}."
            )
        if not system.space.flat:
            if not self.on_groups:
                raise OptionError(
                    f"method {self.name!r} needs a Euclidean configuration space; on {system.space} use "
                    f"{', '.join(sorted(name for name, cls in methods().items() if cls.on_groups))}."
                )
            if not formulation.on_groups:
                fit = sorted(name for name, cls in formulations().items() if cls.on_groups and name in self.takes)
                raise OptionError(
                    f"formulation {formulation.name!r} needs a Euclidean configuration space; on {system.space} use "
                    f"{', '.join(fit)}."
                )

    def for_run(self, fixed: bool, changing: bool = False) -> Integrator:
        """The method for prescribed steps (all equal or ``changing``), or for automatic ones.

        Refuses ways of running that it is not made for.
        """
        return self

    def for_space(self, space: Space, formulation: Formulation, tolerance: float) -> Integrator:
        """The method for automatic steps on a configuration space at a tolerance, if its options leave that open."""
        return self

    def weakness(self, system: System, formulation: Formulation) -> str:
        """What steps may fail of when nothing is wrong with the model, and what to use instead; '' if unknown."""
        return ""

    def check_steps(self, steps: np.ndarray, span: float) -> None:
        """Refuse prescribed step sizes (the last one is shortened to end at ``span``) that the method cannot use."""
        return

    def recalled(self) -> list[tuple[str, str, float]]:
        """Blocks of the row that hold another block at an earlier time: (block, other block, offset in steps).

        They are filled from the starting values of a fixed-step run; later the method carries them on itself.
        """
        return []

    def begin(
        self,
        system: System,
        formulation: Formulation,
        layout: Layout,
        t: float,
        h: float,
        row: np.ndarray,
        model: Model,
    ) -> None:
        """Change a complete initial row, in place, into the one that the first step (of size h) is to start from.

        What is reported at the start stays as it was.
        """
        return

    def describe(self) -> str:
        """One line for people."""
        return self.name


_REGISTRY: dict[str, type[Integrator]] = {}


def register(cls: type[Integrator]) -> type[Integrator]:
    """Class decorator: make a method known by its name."""
    _REGISTRY[cls.name] = cls
    return cls


def methods() -> dict[str, type[Integrator]]:
    """Methods by name."""
    return dict(_REGISTRY)


def as_method(given: str | Integrator) -> Integrator:
    """The method meant by the argument ``method`` of `solve`."""
    if isinstance(given, Integrator):
        return given
    if given not in _REGISTRY:
        raise OptionError(f"method={given!r} is not known; there are auto, {', '.join(sorted(_REGISTRY))}.")
    return _REGISTRY[given]()
