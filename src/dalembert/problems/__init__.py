"""Reference problems with published or exact solutions, one file each."""

from dalembert.problems import pendulum as pendulum
from dalembert.problems.base import Problem, problems

__all__ = ["Problem", "problems"]
