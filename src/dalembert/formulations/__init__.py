"""Formulations: ways of writing the same system, one file each."""

from dalembert.formulations.base import Formulation, formulations
from dalembert.formulations.baumgarte import Baumgarte
from dalembert.formulations.essential_ode import EssentialODE
from dalembert.formulations.index1 import Index1
from dalembert.formulations.index2 import Index2
from dalembert.formulations.index3 import Index3
from dalembert.formulations.minimal_extension import MinimalExtension
from dalembert.formulations.overdetermined import Overdetermined
from dalembert.formulations.projected_invariants import ProjectedInvariants
from dalembert.formulations.stabilized_index2 import StabilizedIndex2
from dalembert.formulations.state_space import StateSpace
from dalembert.formulations.underlying_ode import UnderlyingODE

__all__ = [
    "Baumgarte",
    "EssentialODE",
    "Formulation",
    "Index1",
    "Index2",
    "Index3",
    "MinimalExtension",
    "Overdetermined",
    "ProjectedInvariants",
    "StabilizedIndex2",
    "StateSpace",
    "UnderlyingODE",
    "formulations",
]
