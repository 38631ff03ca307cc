"""Models: systems traced from functions, Lagrangians and Hessenberg forms."""

from dalembert.model.blackbox import black_box
from dalembert.model.hessenberg import Hessenberg
from dalembert.model.lagrangian import Lagrangian
from dalembert.model.system import System

__all__ = ["Hessenberg", "Lagrangian", "System", "black_box"]
