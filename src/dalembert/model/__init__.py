"""Models: systems traced from functions, Lagrangians and Hessenberg forms."""

from dalembert.model.blackbox import black_box
from dalembert.model.system import System

__all__ = ["System", "black_box"]
