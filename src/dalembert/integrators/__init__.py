"""Integrators: one file a method."""

from dalembert.integrators import glm
from dalembert.integrators.backward_euler import BackwardEuler
from dalembert.integrators.base import Integrator, methods
from dalembert.integrators.bdf import BDF
from dalembert.integrators.explicit import Explicit
from dalembert.integrators.gauss import Gauss
from dalembert.integrators.general_linear import GeneralLinear
from dalembert.integrators.generalized_alpha import GeneralizedAlpha
from dalembert.integrators.half_explicit import HalfExplicit
from dalembert.integrators.hht import HHT
from dalembert.integrators.iterated import Iterated
from dalembert.integrators.lobatto import Lobatto
from dalembert.integrators.modified_bdf import ModifiedBDF
from dalembert.integrators.radau import Radau
from dalembert.integrators.rattle import Rattle

__all__ = [
    "BDF",
    "HHT",
    "BackwardEuler",
    "Explicit",
    "Gauss",
    "GeneralLinear",
    "GeneralizedAlpha",
    "HalfExplicit",
    "Integrator",
    "Iterated",
    "Lobatto",
    "ModifiedBDF",
    "Radau",
    "Rattle",
    "glm",
    "methods",
]
