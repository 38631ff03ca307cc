"""dalembert: constrained mechanical systems without drift."""

__version__ = "0.1.0"

from dalembert import spaces
from dalembert.analysis import Diagnosis, Reactions, diagnose, reactions
from dalembert.driver import consistent, prepare, solve
from dalembert.formulations import (
    Baumgarte,
    EssentialODE,
    Index1,
    Index2,
    Index3,
    MinimalExtension,
    Overdetermined,
    ProjectedInvariants,
    StabilizedIndex2,
    StateSpace,
    UnderlyingODE,
    formulations,
)
from dalembert.integrators import (
    BDF,
    HHT,
    BackwardEuler,
    Explicit,
    Gauss,
    GeneralizedAlpha,
    GeneralLinear,
    HalfExplicit,
    Iterated,
    Lobatto,
    ModifiedBDF,
    Radau,
    Rattle,
    glm,
    methods,
)
from dalembert.model import Hessenberg, Lagrangian, System, black_box
from dalembert.numerics.projection import Projection
from dalembert.prepared import Prepared
from dalembert.problems import problems
from dalembert.runtime.event import Event
from dalembert.runtime.eventstate import EventState, Jump
from dalembert.solution import Solution, State
from dalembert.storage import load

__all__ = [
    "BDF",
    "HHT",
    "BackwardEuler",
    "Baumgarte",
    "Diagnosis",
    "EssentialODE",
    "Event",
    "EventState",
    "Explicit",
    "Gauss",
    "GeneralLinear",
    "GeneralizedAlpha",
    "HalfExplicit",
    "Hessenberg",
    "Index1",
    "Index2",
    "Index3",
    "Iterated",
    "Jump",
    "Lagrangian",
    "Lobatto",
    "MinimalExtension",
    "ModifiedBDF",
    "Overdetermined",
    "Prepared",
    "ProjectedInvariants",
    "Projection",
    "Radau",
    "Rattle",
    "Reactions",
    "Solution",
    "StabilizedIndex2",
    "State",
    "StateSpace",
    "System",
    "UnderlyingODE",
    "black_box",
    "consistent",
    "diagnose",
    "formulations",
    "glm",
    "load",
    "methods",
    "prepare",
    "problems",
    "reactions",
    "solve",
    "spaces",
]  # fmt: skip
