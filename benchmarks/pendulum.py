"""Work and precision on 50 periods of a pendulum: dalembert beside its peers.

    python benchmarks/pendulum.py [--tolerances 1e-6 1e-8] [--budget SECONDS] [--out DIRECTORY]

Writes pendulum.md, pendulum.json and pendulum.png. See benchmarks/README.md for how to read them.
"""

# ruff: noqa: E402  (thread counts have to be set before NumPy is imported)

from __future__ import annotations

import os

# Six unknowns: a threaded BLAS only adds noise.
for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import argparse
import importlib.metadata
import importlib.util
import json
import math
import platform
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from peers import Peer, PeerFailed, Runner, RunResult, all_peers
from peers.pendulum_ggl import GRAVITY, Q0, T_END, V0, end_error

OURS = "dalembert BDF"
TOLERANCES = tuple(10.0**-k for k in range(4, 12))
# Beyond this the end state has lost its phase: the run says nothing about accuracy.
MEANINGFUL_ERROR = 0.5
MIN_ROUNDS, MAX_ROUNDS = 3, 7
LONG_RUN = 3.0  # seconds


class Dalembert(Peer):
    """dalembert's BDF with coordinate projection; not a peer, but measured by the same rules."""

    name: ClassVar[str] = OURS
    form: ClassVar[str] = "constrained equations of motion, projected"
    note: ClassVar[str] = 'method="bdf", everything else default'

    def available(self) -> bool:
        if importlib.util.find_spec("dalembert") is None:
            return False
        import dalembert as da

        return hasattr(da, "solve") and hasattr(da, "problems")

    def version(self) -> str:
        try:
            return f"dalembert {importlib.metadata.version('dalembert')}"
        except importlib.metadata.PackageNotFoundError:
            return "dalembert (not installed)"

    def prepare(self, rtol: float, atol: float) -> Runner:
        import dalembert as da

        problem = da.problems()["pendulum"]
        if not (np.allclose(problem.q0, Q0, atol=0) and np.allclose(problem.v0, V0, atol=0)):
            raise PeerFailed(
                f"the problem 'pendulum' starts at q0={problem.q0}, v0={problem.v0}, not at rest at (1, 0)"
            )
        parameters = getattr(problem.system, "parameters", None)
        overrides = None
        if isinstance(parameters, Mapping) and "g" in parameters and float(parameters["g"]) != GRAVITY:
            overrides = {"g": GRAVITY}

        def run() -> RunResult:
            solution = da.solve(
                problem.system,
                (0.0, T_END),
                q0=problem.q0,
                v0=problem.v0,
                method="bdf",
                rtol=rtol,
                atol=atol,
                t_eval=[T_END],
                parameters=overrides,
            )
            if not solution.success:
                raise PeerFailed(str(solution.message))
            return np.asarray(solution.q[-1]), np.asarray(solution.v[-1]), int(solution.stats.steps)

        run()  # compiles
        return run


@dataclass
class Measurement:
    """One tool at one tolerance; ``failure`` is its message if it did not reach the end."""

    tool: str
    form: str
    tol: float
    error: float | None = None
    steps: int | None = None
    seconds: float | None = None
    repeats: int = 0
    failure: str | None = None

    @property
    def microseconds_per_step(self) -> float | None:
        if self.seconds is None or not self.steps:
            return None
        return 1e6 * self.seconds / self.steps


@dataclass
class Ratio:
    """How much longer ``peer`` takes for the end error that dalembert reached at ``tol``.

    ``bound`` is "" for an interpolated value, ">" where the peer never got as accurate (its most accurate
    run is taken), "<" where even its cheapest run is more accurate (that run is taken).
    """

    tol: float
    error: float
    seconds: float
    peer: str
    peer_seconds: float
    ratio: float
    bound: str


def measure(tools: Sequence[Peer], tol: float, budget: float) -> list[Measurement]:
    """Run every tool at one tolerance.

    The tools take turns, so that a busy moment of the machine hits all of them, and the fastest turn
    counts. A tool stops when it has used up ``budget`` seconds, but not before `MIN_ROUNDS` turns unless
    its runs are long.
    """
    results = [Measurement(tool.name, tool.form, tol) for tool in tools]
    runners: list[Runner | None] = []
    for tool, result in zip(tools, results, strict=True):
        try:
            runners.append(tool.prepare(tol, tol))
        except Exception as error:  # whatever a tool throws is its result, and the others go on
            runners.append(None)
            result.failure = _message(error)

    used = [0.0] * len(tools)
    for _ in range(MAX_ROUNDS):
        for i, (runner, result) in enumerate(zip(runners, results, strict=True)):
            if runner is None or result.failure:
                continue
            if used[i] > budget and (result.repeats >= MIN_ROUNDS or used[i] > LONG_RUN * result.repeats):
                continue
            start = time.perf_counter()
            try:
                q, v, steps = runner()
            except Exception as error:  # as above
                result.failure = _message(error)
                continue
            elapsed = time.perf_counter() - start
            used[i] += elapsed
            result.repeats += 1
            result.seconds = elapsed if result.seconds is None else min(result.seconds, elapsed)
            result.error, result.steps = end_error(q, v), steps
    return results


def front(runs: Sequence[Measurement]) -> list[tuple[float, float]]:
    """(error, seconds) of the runs worth having: no other run of the tool is faster and more accurate."""
    points: list[tuple[float, float]] = []
    usable = [(r.error, r.seconds) for r in runs if r.error is not None and r.seconds is not None and not r.failure]
    for error, seconds in sorted(usable, key=lambda point: point[1]):
        if error < MEANINGFUL_ERROR and (not points or error < points[-1][0]):
            points.append((max(error, 1e-16), seconds))
    return points


def seconds_for_error(points: Sequence[tuple[float, float]], error: float) -> tuple[float, str]:
    """Time on the work-precision curve at ``error`` (log-log) and the mark of `Ratio.bound`."""
    errors = [math.log(e) for e, _ in points]
    seconds = [math.log(s) for _, s in points]
    wanted = math.log(max(error, 1e-16))
    if wanted > errors[0]:
        return points[0][1], "<"
    if wanted < errors[-1]:
        return points[-1][1], ">"
    # np.interp wants ascending abscissae; the front has descending errors
    return math.exp(float(np.interp(wanted, errors[::-1], seconds[::-1]))), ""


def compare(measurements: Sequence[Measurement]) -> list[Ratio]:
    """Every meaningful dalembert run against the curve of every peer."""
    ours = [m for m in measurements if m.tool == OURS and not m.failure]
    ratios: list[Ratio] = []
    for peer in dict.fromkeys(m.tool for m in measurements if m.tool != OURS):
        points = front([m for m in measurements if m.tool == peer])
        if not points:
            continue
        for run in ours:
            if run.error is None or run.seconds is None or run.error >= MEANINGFUL_ERROR:
                continue
            peer_seconds, bound = seconds_for_error(points, run.error)
            ratio = peer_seconds / run.seconds
            ratios.append(Ratio(run.tol, run.error, run.seconds, peer, peer_seconds, ratio, bound))
    return ratios


def machine(tools: Sequence[Peer]) -> str:
    """Processor, cores, load and versions, in one line."""
    cpu = platform.processor() or platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                cpu = line.split(":", 1)[1].strip()
                break
    except OSError:
        pass
    packages = [f"{p} {importlib.metadata.version(p)}" for p in ("numpy", "scipy", "numba")]
    parts = [
        f"{cpu}, {os.cpu_count()} cores",
        platform.platform(),
        f"Python {platform.python_version()}",
        *packages,
    ]
    if hasattr(os, "getloadavg"):
        parts.append(f"load {os.getloadavg()[0]:.1f} at the end")
    return "; ".join(dict.fromkeys(parts + [tool.version() for tool in tools]))


def report(tools: Sequence[Peer], measurements: Sequence[Measurement], ratios: Sequence[Ratio], where: str) -> str:
    """The Markdown report."""
    lines = [
        "# Pendulum, 50 periods",
        "",
        f"x'' = -lam x, y'' = -lam y - g, x^2 + y^2 = 1, g = {GRAVITY:.15g} (period exactly 2), released at",
        f"rest from (1, 0), integrated to t = {T_END:g} with rtol = atol = tol, end value only. End error:",
        "largest error of a component of position or velocity at the end. Time: fastest of several warm runs",
        f"(of one where a run takes more than {LONG_RUN:g} s), set-up and compilation not counted.",
        "",
        f"Machine: {where}",
        "",
        "| tool | form | tol | end error | steps | ms | us/step |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for tool in tools:
        for m in (m for m in measurements if m.tool == tool.name):
            if m.failure:
                text = m.failure.replace("|", "/")
                lines.append(f"| {m.tool} | {m.form} | {m.tol:.0e} | failed: {text} | | | |")
            elif m.seconds is not None:
                per_step = m.microseconds_per_step
                lines.append(
                    f"| {m.tool} | {m.form} | {m.tol:.0e} | {m.error:.1e} | {m.steps} | "
                    f"{1e3 * m.seconds:.2f} | {'' if per_step is None else format(per_step, '.2f')} |"
                )
    lines += ["", "Settings:", ""]
    lines += [f"- {tool.name}: {tool.note}." for tool in tools]
    lines += ["", "## Times faster at equal end error", ""]
    if not ratios:
        lines.append("No dalembert runs to compare.")
        return "\n".join(lines) + "\n"
    peers = list(dict.fromkeys(r.peer for r in ratios))
    lines += [
        "Time that the peer needs for the end error dalembert reached, over dalembert's time. Interpolated",
        "on the peer's work-precision curve (log-log, best runs only). `>`: the peer reached this error at",
        "no tolerance, its most accurate run is taken. `<`: even the peer's cheapest run is more accurate,",
        "that run is taken. Below 1 the peer is faster.",
        "",
        "| tol | end error | ms | " + " | ".join(peers) + " |",
        "|---:|---:|---:|" + "---:|" * len(peers),
    ]
    for tol in dict.fromkeys(r.tol for r in ratios):
        row = {r.peer: r for r in ratios if r.tol == tol}
        first = next(iter(row.values()))
        cells = [f"{row[p].bound}{row[p].ratio:.3g}" if p in row else "" for p in peers]
        lines.append(f"| {tol:.0e} | {first.error:.1e} | {1e3 * first.seconds:.2f} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def draw(tools: Sequence[Peer], measurements: Sequence[Measurement], path: Path) -> None:
    """The work-precision figure."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8.5, 6.5), layout="constrained")
    markers = "osD^vP*X"
    for i, tool in enumerate(tools):
        runs = [m for m in measurements if m.tool == tool.name and not m.failure and m.seconds and m.error is not None]
        if not runs:
            continue
        own = tool.name == OURS
        axes.loglog(
            [1e3 * (m.seconds or 0.0) for m in runs],
            [max(m.error or 0.0, 1e-16) for m in runs],
            marker=markers[i % len(markers)],
            markersize=7 if own else 5,
            linewidth=2.5 if own else 1.3,
            color="black" if own else f"C{i}",
            label=f"{tool.name}: {tool.form}",
            zorder=3 if own else 2,
        )
        for m in (runs[0], runs[-1]):
            axes.annotate(
                f"{m.tol:.0e}",
                (1e3 * (m.seconds or 0.0), max(m.error or 0.0, 1e-16)),
                textcoords="offset points",
                xytext=(5, 5),
                fontsize=7,
                color="black" if own else f"C{i}",
            )
    axes.axhline(MEANINGFUL_ERROR, color="0.6", linewidth=0.8, linestyle=":")
    axes.set_xlabel("wall time for 100 s of motion [ms]")
    axes.set_ylabel("end error (max norm of position and velocity)")
    axes.set_title("Pendulum, 50 periods: lower left is better (labels: tolerance)")
    axes.grid(True, which="major", alpha=0.3)
    figure.legend(fontsize=7, loc="outside lower center", ncols=2, columnspacing=1.0)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _message(error: Exception) -> str:
    text = str(error).strip() or type(error).__name__
    if not isinstance(error, PeerFailed):
        text = f"{type(error).__name__}: {text}"
    return " ".join(text.split())[:200]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, compare, write."""
    parser = argparse.ArgumentParser(description="Pendulum benchmark: dalembert and its peers.")
    parser.add_argument("--tolerances", type=float, nargs="+", default=list(TOLERANCES), metavar="TOL")
    parser.add_argument("--budget", type=float, default=2.0, help="seconds of repeats per tool and tolerance")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args(arguments)

    tools: list[Peer] = []
    for tool in [Dalembert(), *all_peers()]:
        if tool.available():
            tools.append(tool)
        else:
            print(f"not available, left out: {tool.name}", file=sys.stderr)

    measurements: list[Measurement] = []
    for tol in options.tolerances:
        for m in measure(tools, tol, options.budget):
            measurements.append(m)
            if m.failure or m.seconds is None:
                print(f"{m.tol:.0e}  {m.tool:28s} failed: {m.failure}", flush=True)
            else:
                print(
                    f"{m.tol:.0e}  {m.tool:28s} error {m.error:.1e}  {m.steps:7d} steps  "
                    f"{1e3 * m.seconds:9.2f} ms  {m.microseconds_per_step or math.nan:8.2f} us/step  "
                    f"(min of {m.repeats})",
                    flush=True,
                )

    ratios = compare(measurements)
    for r in ratios:
        print(f"{r.tol:.0e}  error {r.error:.1e}: {r.bound}{r.ratio:.3g} times faster than {r.peer}")

    where = machine(tools)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "pendulum.md").write_text(report(tools, measurements, ratios, where), encoding="utf-8")
    data: dict[str, Any] = {
        "machine": where,
        "runs": [asdict(m) | {"us_per_step": m.microseconds_per_step} for m in measurements],
        "ratios": [asdict(r) for r in ratios],
    }
    (options.out / "pendulum.json").write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    draw(tools, measurements, options.out / "pendulum.png")
    print(f"written: {', '.join(f'pendulum.{e}' for e in ('md', 'json', 'png'))} in {options.out}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
