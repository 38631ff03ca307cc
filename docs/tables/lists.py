"""Lists: methods, formulations, problems, outcomes, messages, and what the first example prints."""

import contextlib
import io
import runpy

import numpy as np

import dalembert as da
from dalembert.status import Status
from tables.common import EXAMPLES, table


def example_output():
    """What examples/pendulum.py prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        runpy.run_path(str(EXAMPLES / "pendulum.py"), run_name="__main__")
    return f"```\n{out.getvalue().rstrip()}\n```"


def registry(entries):
    return table(["name", "what it is"], [[f"`{name}`", entry.summary] for name, entry in sorted(entries.items())])


def problems():
    rows = [[f"`{name}`", p.description, p.source] for name, p in da.problems().items()]
    return table(["name", "what it is", "source"], rows)


def statuses():
    return table(["status", "value", "message"], [[f"`{s.name}`", s.value, s.message] for s in Status])


def messages():
    """What is said when something is wrong: provoked here, quoted as it comes."""
    start = {"q0": [1, 0], "v0": [0, 0]}
    model = {"q": ["x", "y"], "mass": [1.0, 1.0], "force": [0, -9.81]}

    def rod(q):
        return {"rod": q @ q - 1}

    def pendulum(**change):
        return da.System(**{**model, "constraints": rod, **change})

    def rods(t, q):  # two circles that part at t = 1
        return {"left rod": q @ q - 1, "right rod": (q[0] - 1 - t) ** 2 + q[1] ** 2 - 1}

    def twice(q):
        return {"rod": q @ q - 1, "again": 2 * (q @ q) - 2}

    def squared(q):
        return {"rod": (q @ q - 1) ** 2}

    ball = da.System(**model)
    floor = da.Event(lambda q: q[1] + 1, restitution=0.5, name="floor")

    def weakening(t):
        return np.array([0, -9.81 + np.sqrt(0.5 - t)])

    cases = {
        "q0 off the constraint": lambda: da.solve(pendulum(), (0, 1), [1.1, 0], [0, 0]),
        "q0 of the wrong length": lambda: da.solve(pendulum(), (0, 1), [1, 0, 0], [0, 0]),
        'the same constraint twice, `redundant="refuse"`': lambda: da.solve(
            pendulum(constraints=twice), (0, 1), **start, redundant="refuse"
        ),
        "a squared constraint": lambda: da.solve(pendulum(constraints=squared), (0, 1), **start),
        "an argument that does not exist": lambda: pendulum(force=lambda x: [0, 0]),
        "a method that does not exist": lambda: da.solve(pendulum(), (0, 1), **start, method="rk4"),
        "too few steps allowed": lambda: da.solve(pendulum(), (0, 100), **start, max_steps=100),
        "a force that turns NaN": lambda: da.solve(pendulum(force=weakening), (0, 1), **start),
        "impacts without end": lambda: da.solve(ball, (0, 5), **start, method="radau", events=floor),
        "bodies that overlap at the start": lambda: da.solve(ball, (0, 5), [0, -2], [0, 0], events=floor),
        "a kinematic singularity": lambda: da.solve(
            pendulum(constraints=rods), (0, 2), q0=[0.5, -np.sqrt(0.75)], initial="project"
        ),
    }
    rows = []
    for name, case in cases.items():
        try:
            sol = case()
            rows.append([name, f"`{sol.status.name}`", sol.message])
        except ValueError as error:
            rows.append([name, f"`{type(error).__name__}`", error])
    return table(["what is wrong", "error or status", "message"], rows)


TABLES = {
    "example-output": example_output,
    "methods": lambda: registry(da.methods()),
    "formulations": lambda: registry(da.formulations()),
    "problems": problems,
    "status": statuses,
    "messages": messages,
}
