"""dalembert: constrained mechanical systems without drift."""

__version__ = "0.1.0"
