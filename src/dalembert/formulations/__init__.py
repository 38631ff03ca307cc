"""Formulations: ways of writing the same system, one file each."""

from dalembert.formulations.base import Formulation, formulations
from dalembert.formulations.index1 import Index1
from dalembert.formulations.index2 import Index2
from dalembert.formulations.index3 import Index3

__all__ = ["Formulation", "Index1", "Index2", "Index3", "formulations"]
