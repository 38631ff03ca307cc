"""Analysis of systems: what they are and how to integrate them."""

from dalembert.analysis.diagnose import Diagnosis, diagnose
from dalembert.analysis.reactions import Reactions, reactions

__all__ = ["Diagnosis", "Reactions", "diagnose", "reactions"]
