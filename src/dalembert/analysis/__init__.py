"""Analysis of systems: what they are and how to integrate them."""

from dalembert.analysis.compare import Comparison, compare
from dalembert.analysis.diagnose import Diagnosis, diagnose
from dalembert.analysis.reactions import Reactions, reactions

__all__ = ["Comparison", "Diagnosis", "Reactions", "compare", "diagnose", "reactions"]
