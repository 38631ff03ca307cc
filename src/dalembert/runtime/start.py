"""Initial values: checked, repaired or trusted, and completed with multipliers and accelerations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import casadi as ca
import numpy as np

from dalembert.compiler import KernelSpec, compile_kernels
from dalembert.model.symbols import MEANING, NAMES
from dalembert.model.system import System
from dalembert.runtime.assembly import Workspace
from dalembert.status import InconsistentError, ModelError, OptionError, RedundantError

LABELS = {name: f"{name}0" for name in NAMES}  # arguments of `solve`
REQUIRED = ("q0", "r0")  # the others have defaults
CONTACT_TOLERANCE = 1e-14  # of contact coordinates
RANK_TOLERANCE = 1e-10  # relative: smaller singular values of the (row-scaled) constraint matrix count as zero


def initial_row(system: System, layout: Any, **given: Any) -> np.ndarray:
    """The row of the initial values given; what is missing starts at zero."""
    row, sizes = np.zeros(layout.n), system.sizes
    # a first-order system has no positions: its q0 sets the velocity block
    labels = LABELS if "q" in given else {**LABELS, "v": "q0"}
    for name, value in given.items():
        if value is not None or (sizes[name] and labels[name] in REQUIRED):
            row[layout.slice(name)] = _numbers(system, name, labels[name], value)
    if not row.dot(row) < np.inf and not np.isfinite(row).all():  # the first is quicker
        name = next(name for name in given if not np.isfinite(row[layout.slice(name)]).all())
        x = row[layout.slice(name)].tolist()
        raise OptionError(f"{labels[name]}={x} contains NaN or infinity; give finite numbers.")
    return row


def _numbers(system: System, name: str, label: str, value: Any) -> np.ndarray:
    """Initial values of a variable as numbers, whatever they are given as."""
    size = system.sizes[name]
    if value is None:
        names = ", ".join(system.names["q" if label == "q0" else "r"])
        what = "positions" if label == "q0" else "dynamic states"
        raise OptionError(f"{label} is missing: give {size} initial {what} ({names}).")
    try:
        x = np.asarray(system.space.flatten(value, label) if name == "q" else value, dtype=float)
    except OptionError:
        raise
    except (TypeError, ValueError):
        raise OptionError(f"{label}={value!r} is not a list of numbers.") from None
    if x.shape != (size,) and not (x.ndim == 0 and size == 1):
        if size == 0:
            raise OptionError(f"{label} is given, but the system has no {MEANING[name]}; leave it out.")
        names = ", ".join(system.names.get(name, system.motion_names))
        raise OptionError(f"{label} has shape {x.shape}, expected ({size},): give one number for each of {names}.")
    return x


def put_on_space(system: System, layout: Any, row: np.ndarray, initial: str, tolerance: float) -> None:
    """Stored positions that are no element of the space are refused or replaced by the nearest element, in place."""
    if initial == "assume" or not system.nq or system.space.flat:  # any numbers are an element of a flat space
        return
    q = row[layout.slice("q")]
    check = system.space.check(q)
    if initial == "check" and not check.residual <= tolerance:
        raise OptionError(f"q0: {check.message}. Correct it, or use initial='project' to take the nearest element.")
    try:
        row[layout.slice("q")] = system.space.project(q) if check.residual else q
    except OptionError as problem:
        raise OptionError(f"q0: {problem}") from None


def solve_contact(system: System, t: float, row: np.ndarray, layout: Any, p: np.ndarray) -> None:
    """Contact coordinates s from 0 = h(t, q, s), starting at the guess in the row."""
    if not system.ns:
        return
    from scipy.optimize import root

    values, equations = point_values(system, layout, t, row, p), _contact_equations(system)
    guess = row[layout.slice("s")].copy()
    if _solved(*equations(values, guess), guess):
        return
    answer = root(lambda s: equations(values, s), guess, jac=True, tol=CONTACT_TOLERANCE)
    residual = np.abs(equations(values, answer.x)[0]).max()
    if not residual < 1e-8:
        names = ", ".join(system.names["s"])
        raise InconsistentError(
            f"the contact equations could not be solved for {names} at t = {t:g} (residual {residual:.2g}); "
            f"give a better guess with s0=."
        )
    row[layout.slice("s")] = answer.x


def _solved(h: np.ndarray, h_s: np.ndarray, s: np.ndarray) -> bool:
    """True if Newton's method would not move s."""
    try:
        step = np.linalg.solve(h_s, h)
    except np.linalg.LinAlgError:
        return False
    return bool((np.abs(step) <= CONTACT_TOLERANCE * (1.0 + np.abs(s))).all())


def _contact_equations(system: System) -> Callable[[dict[str, Any], np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """h and its derivatives with respect to s, at the other variables and at s."""
    n, x, cache = system.ns, system.symbols, system.__dict__
    if "_contact" not in cache:
        jacobian = ca.jacobian(system.h, x.s)
        if system.calls:
            cache["_contact"] = ca.Function("contact", [*x.as_tuple(), system.coefficients], [system.h, jacobian])
        else:
            spec = KernelSpec("contact", x.s, ca.vertcat(x.t, x.q, x.p), ca.vertcat(system.h, ca.vec(jacobian)))
            cache["_contact"] = compile_kernels([spec])["contact"]
    find = cache["_contact"]

    def through_casadi(values: dict[str, Any], s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        h, h_s = _called(system, find, {**values, "s": s})
        return h.ravel(), h_s

    def compiled(values: dict[str, Any], s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        out = find(s, np.concatenate([[values["t"]], values["q"], values["p"]]))
        return out[:n], out[n:].reshape(n, n).T

    return through_casadi if system.calls else compiled


def point_values(system: System, layout: Any, t: float, row: np.ndarray, p: np.ndarray) -> dict[str, Any]:
    """Variable name -> numbers at a row."""
    out: dict[str, Any] = {n: row[layout.slice(n)] for n in NAMES if n not in ("t", "p")}
    return {**out, "t": t, "p": p}


def evaluate(system: System, name: str, values: dict[str, Any]) -> np.ndarray:
    """An expression of the model at numbers, through CasADi itself."""
    return _called(system, system.function(name), values)[0]


def _called(system: System, function: ca.Function, values: dict[str, Any]) -> list[np.ndarray]:
    """What a function of the variables of a model and of what its black boxes return is at numbers."""
    coefficients = np.zeros(system.coefficients.numel())
    if system.calls:
        find = ca.Function("arguments", list(system.symbols.as_tuple()), [system.arguments])
        arguments = np.asarray(find(*[values[n] for n in NAMES])).ravel()
        system.fill(arguments, coefficients)
    found = function.call([*[values[n] for n in NAMES], coefficients])
    return [np.asarray(x.full(), dtype=float) for x in found]


def not_finite(system: System, layout: Any, t: float, row: np.ndarray, p: np.ndarray) -> str:
    """Which function of the model returns NaN or infinity here, in words ('' if none)."""
    values = point_values(system, layout, t, row, p)
    roles = {
        "mass": "mass", "force": "force", "g": "constraints", "k": "velocity_constraints", "phi": "invariants",
        "dynamics": "dynamics", "auxiliary": "auxiliary", "h": "contact", "reaction": "constraint_force",
        "g_dot": "a derivative of the constraints", "g_ddot": "a second derivative of the constraints",
    }  # fmt: skip
    components = {"g": "constraints", "k": "velocity_constraints", "force": "q", "phi": "invariants", "dynamics": "r"}
    for expression, role in roles.items():
        out = evaluate(system, expression, values).ravel()
        bad = np.flatnonzero(~np.isfinite(out))
        if bad.size:
            i = int(bad[0])
            component = components.get(expression, "")
            names: Sequence[str] = system.motion_names if component == "q" else system.names.get(component, ())
            label = f" ({names[i]})" if i < len(names) else ""
            return f"{role} is {out[i]} in component {i}{label} at t = {t:.6g}"
    return ""


def check_model(work: Workspace, t: float, row: np.ndarray) -> None:
    """Refuse a mass matrix or constraints that do not determine the motion at this state."""
    system = work.assembly.system
    mass, C = work.matrices(t, row)
    levels = np.concatenate(list(work.levels(t, row).values()))
    if not (np.all(np.isfinite(mass)) and np.all(np.isfinite(C)) and np.all(np.isfinite(levels))):
        where = not_finite(system, work.assembly.layout, t, row, work.p)
        raise ModelError(f"{where or 'the model is not finite'}, the initial values; check them and the function.")
    size = np.abs(mass).max(initial=0.0)
    skew = np.abs(mass - mass.T)
    if skew.max(initial=0.0) > 1e-10 * size:
        i, j = (int(x) for x in np.unravel_index(int(skew.argmax()), skew.shape))
        names = system.motion_names
        raise ModelError(
            f"mass is not symmetric: entry ({names[i]}, {names[j]}) is {mass[i, j]:.6g}, "
            f"({names[j]}, {names[i]}) is {mass[j, i]:.6g} at the initial values."
        )
    labels = [*system.names["constraints"], *system.names["velocity_constraints"]]
    norms = np.linalg.norm(C, axis=1)
    small = len(norms) and not norms.min() > 1e-6 * norms.max()
    _, around = work.matrices(t, _nearby(work, row)) if small else (mass, C)  # rounding hides an exact zero
    for i, norm in enumerate(norms):
        if small and norm <= 1e-12 * np.nan_to_num(np.linalg.norm(around[i])):
            raise RedundantError(
                f"constraint {labels[i]!r} has a zero gradient at the initial values: it does not restrict the motion "
                f"there (a squared distance, or a singular configuration). Rewrite or remove it."
            )
    if len(labels):
        dependent, surplus = dependent_rows(C / norms[:, None])
        if dependent:
            names_of = ", ".join(repr(labels[i]) for i in dependent)
            raise RedundantError(
                f"redundant constraints: {names_of} depend on each other at the initial values, so their multipliers "
                f"are not determined. Remove {surplus} of them."
            )
    _check_mass(system, mass, C)


def _nearby(work: Workspace, row: np.ndarray) -> np.ndarray:
    """Another state close by; its positions are an element of the space, too."""
    system, at = work.assembly.system, work.assembly.layout.slice("q")
    out = row + 1e-3 * (1.0 + np.abs(row))
    if not system.space.flat:
        out[at] = system.space.move(row[at], np.linspace(1e-3, 2e-3, system.nv))
    return out


def dependent_rows(C: np.ndarray) -> tuple[list[int], int]:
    """Rows of a row-normalised matrix that take part in a linear dependence, and how many are too many."""
    U, s, _ = np.linalg.svd(C, full_matrices=True)
    rank = int((s > RANK_TOLERANCE * s[0]).sum())
    surplus = C.shape[0] - rank
    if surplus == 0:
        return [], 0
    return [int(i) for i in np.flatnonzero(np.abs(U[:, rank:]).max(axis=1) > 1e-6)], surplus


def _check_mass(system: System, mass: np.ndarray, C: np.ndarray) -> None:
    """A singular mass matrix is fine as long as it is regular on the kernel of the constraints."""
    kernel = np.eye(system.nv)
    if len(C):
        _, s, Vt = np.linalg.svd(C)
        kernel = Vt[len(s) :].T
    if kernel.shape[1] == 0:
        return
    scale = np.sqrt(np.abs(np.diag(mass)))
    scale[scale == 0.0] = 1.0
    reduced = kernel.T @ (mass / np.outer(scale, scale)) @ kernel
    values, vectors = np.linalg.eigh(reduced)
    if values.min() < -1e-12 * max(np.abs(values).max(), 1.0):
        direction = np.abs(kernel @ vectors[:, 0])
        names = [n for n, x in zip(system.motion_names, direction, strict=False) if x > 1e-6]
        raise ModelError(f"mass is negative along {', '.join(names)} at the initial values; inertia must be positive.")
    if np.abs(values).min() <= 1e-12 * max(np.abs(values).max(), 1.0):
        direction = np.abs(kernel @ vectors[:, int(np.abs(values).argmin())])
        names = [n for n, x in zip(system.motion_names, direction, strict=False) if x > 1e-6]
        what = " on the motions that the constraints allow" if len(C) else ""
        raise ModelError(
            f"mass is singular{what} at the initial values: no inertia along {', '.join(names)}. Give these "
            f"coordinates mass, or remove them (a massless coordinate can be an auxiliary variable w)."
        )


def violations(work: Workspace, t: float, row: np.ndarray, tolerance: float) -> list[str]:
    """Constraints not met by more than the tolerance (relative to the size of their terms), in words."""
    layout = work.assembly.layout
    _, C = work.matrices(t, row)
    q, v = row[layout.slice("q")], row[layout.slice("v")]
    return violated(work.assembly.system, work.levels(t, row), C, q, v, tolerance)


def violated(
    system: System, levels: Mapping[str, np.ndarray], C: np.ndarray, q: np.ndarray, v: np.ndarray, tolerance: float
) -> list[str]:
    """The same from residuals g, g_dot, k and the matrix C = [G; K]."""
    nlam = system.nlam
    out = []
    if system.space.flat and q.size == C.shape[1]:
        q_size = np.abs(C[:nlam]) @ np.abs(q)
    else:
        q_size = np.abs(C[:nlam]).sum(axis=1)
    v_size = np.abs(C) @ np.abs(v)
    for i, name in enumerate(system.names["constraints"]):
        if not abs(levels["g"][i]) <= tolerance * max(1.0, q_size[i]):
            out.append(f"position constraint {name!r}: residual {levels['g'][i]:.3g}")
    for i, name in enumerate(system.names["constraints"]):
        if not abs(levels["g_dot"][i]) <= tolerance * max(1.0, v_size[i]):
            out.append(f"velocity form of constraint {name!r}: residual {levels['g_dot'][i]:.3g}")
    for i, name in enumerate(system.names["velocity_constraints"]):
        if not abs(levels["k"][i]) <= tolerance * max(1.0, v_size[nlam + i]):
            out.append(f"velocity constraint {name!r}: residual {levels['k'][i]:.3g}")
    return out


def refuse_violations(wrong: list[str]) -> None:
    """Raise if there are any."""
    if wrong:
        raise InconsistentError(
            "the initial values are not consistent: " + "; ".join(wrong) + ". Correct them, or use "
            "initial='project' to move to the nearest consistent state."
        )
