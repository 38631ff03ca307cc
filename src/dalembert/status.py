"""How a run ended, what it cost, and the errors raised at the door.

Inside the compiled loop a failure is an integer; outside it is a member of `Status` whose text carries the
remedy. Bad input never gets that far: it is refused with one of the `ValueError` subclasses below.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Status(IntEnum):
    """Outcome of an integration. Values >= 0 are good; each member carries a message for people."""

    message: str
    ok: bool  # the run ended as asked: at the end or at a terminal event

    def __new__(cls, value: int, message: str) -> Status:
        member = int.__new__(cls, value)
        member._value_ = value
        member.message, member.ok = message, value in (0, 1)
        return member

    SUCCESS = 0, "The end of the time span was reached."
    EVENT = 1, "A terminal event occurred."
    RUNNING = 2, "The run is not finished."
    INTERRUPTED = -1, "Interrupted by the user; everything computed so far is kept."
    MAX_STEPS = -2, "max_steps was reached before the end. Raise max_steps, loosen rtol/atol, or shorten t_span."
    STEP_TOO_SMALL = (
        -3,
        (
            "The step size fell below the resolution of floating point. Near a kinematic singularity the constraints "
            "lose rank there; otherwise the right-hand side may be discontinuous or rtol/atol too tight."
        ),
    )
    SINGULAR = (
        -4,
        (
            "The constraints lose rank (kinematic singularity) or the mass matrix is singular on their kernel: "
            "accelerations and multipliers are not determined there. Stop before it, or change the model."
        ),
    )
    NEWTON_FAILED = (
        -5,
        (
            "Newton's method did not converge. With a fixed step, use a smaller h; a variable one was reduced as far "
            "as possible: look for discontinuities in the model."
        ),
    )
    PROJECTION_FAILED = (
        -6,
        (
            "The projection onto the constraints did not converge: the state is far from them or they lose rank. "
            "With a fixed step, use a smaller h."
        ),
    )
    NOT_FINITE = -7, "A model function returned NaN or infinity, and smaller steps did not avoid it."
    USER_ERROR = -8, "A Python function of the model raised an exception."
    MULTIPLIERS_FAILED = (
        -9,
        (
            "Accelerations and multipliers could not be solved for at an accepted state: the constraints lose rank or "
            "the force law has no solution there."
        ),
    )

    DATA_OUTDATED = (
        -10,
        (
            "The constraints turn further within one step than local coordinates can follow. With a fixed step, use a "
            "smaller h or a formulation without local coordinates."
        ),
    )
    CHATTERING = (
        -11,
        (
            "Events follow each other ever faster and would not end. Let one of them change the model when the motion "
            "has become small (apply= that engages a constraint), or make it terminal."
        ),
    )
    RESTART_FAILED = (
        -12,
        "The run could not be continued after an event, a discontinuity or a change of method.",
    )
    CONTRADICTION = (
        -13,
        (
            "A constraint that was redundant at the start does not follow from the others any more: the constraints "
            "contradict each other from here on. Check the model."
        ),
    )
    STALLED = (
        -14,
        (
            "Steps are so small that the end is out of reach. The right-hand side may jump at this state and push back "
            "to it from both sides (dry friction): let an event change the model there, take another method, or smooth "
            "the jump. If so many steps are meant, give max_steps."
        ),
    )

    @classmethod
    def of(cls, value: int) -> Status:
        """The member with this value."""
        return cls(value)  # type: ignore[call-arg]


@dataclass(frozen=True)
class SegmentStats:
    """One of the integrations that a run consists of: from t0 to t1, why it was started and how it ended."""

    t0: float
    t1: float
    reason: str
    status: str
    steps: int
    method: str
    formulation: str
    released: tuple[str, ...] = ()


@dataclass
class Stats:
    """What a run cost.

    Attributes
    ----------
    steps, rejected
        Accepted steps; steps repeated because the error estimate was too large.
    starting_steps
        Steps of another method that made the first points of a method on a regular grid. They are not among ``steps``:
        the points are.
    newton_failures
        Steps repeated because Newton, the projection or a model function failed.
    residuals, jacobians, factorizations, newton_iterations, projections
        Counts over the run. A Jacobian is always assembled together with its factorisation.
    lapack_factorizations
        Factorisations in which the compiled pivot sequence was refused by its guard and LAPACK took over.
    wall_time, compile_time
        Seconds in the integration, and in tracing, compiling or loading kernels before it.
    method, formulation, projection
        What was used, in words.
    switches
        Times at which a formulation chose its local coordinates anew.
    segments
        The integrations that the run consists of: more than one if events changed the model or its state, if
        discontinuities were declared, or if the method was changed on the way.
    redundant, undetermined
        Constraints that follow from others and were left out; those whose multipliers are therefore not unique.
    warnings
        What happened on the way that may matter, in words: redundant constraints, kinematic singularities passed.
    """

    steps: int = 0
    rejected: int = 0
    starting_steps: int = 0
    newton_failures: int = 0
    residuals: int = 0
    jacobians: int = 0
    factorizations: int = 0
    lapack_factorizations: int = 0
    newton_iterations: int = 0
    projections: int = 0
    wall_time: float = 0.0
    compile_time: float = 0.0
    method: str = ""
    formulation: str = ""
    projection: str = ""
    switches: tuple[float, ...] = ()
    segments: tuple[SegmentStats, ...] = ()
    redundant: tuple[str, ...] = ()
    undetermined: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


class ModelError(ValueError):
    """The model is not well formed: a shape, a name, a mass matrix."""


class OptionError(ValueError):
    """An argument of `solve` or of a method, formulation or projection makes no sense."""


class InconsistentError(ValueError):
    """The initial values violate the constraints; the message lists the residuals by constraint name."""


class RedundantError(ModelError):
    """Constraints depend on each other at the initial state; the message names them."""


class BlackBoxWarning(UserWarning):
    """A function of the model could not be traced and runs as a black box (slower, finite differences)."""
