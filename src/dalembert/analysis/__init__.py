"""Analysis of systems: what they are and how to integrate them."""

from dalembert.analysis.compare import Comparison, compare
from dalembert.analysis.diagnose import Diagnosis, diagnose

__all__ = ["Comparison", "Diagnosis", "compare", "diagnose"]
