"""Analysis of systems: what they are and how to integrate them."""

from dalembert.analysis.diagnose import Diagnosis, diagnose

__all__ = ["Diagnosis", "diagnose"]
