"""`System`: the equations of motion of a constrained mechanical system, traced from plain Python functions.

    M(t,q) v' = f(t,q,v,r,w,s,lam,mu) + R(t,q,lam) - K^T mu         q' = v
    r' = f_d(...)      0 = d(...)      0 = h(t,q,s)      0 = g(t,q,s)      0 = k(t,q,v)

with G = dg/dq (total: including the motion of the contact coordinates s(q)), K = dk/dv and R = -G^T lam unless
the user gives a constraint force of his own. All derivatives come from automatic differentiation.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import casadi as ca
import numpy as np

from dalembert.model.blackbox import BlackBox, Call, argument_names, black_box, numbers
from dalembert.model.symbols import MEANING, NAMES, Parameters, Variables, symbol
from dalembert.spaces import Space, as_names, as_space
from dalembert.status import BlackBoxWarning, ModelError
from dalembert.tracing import UFUNC_NAMES, Namespace, Sym, TraceError, to_sx, vector

ModelFunction = Callable[..., Any] | BlackBox | Sequence[Any] | np.ndarray | float | None

# which variables a function of the model may ask for
_EVERYTHING = NAMES
ALLOWED: dict[str, tuple[str, ...]] = {
    "mass": ("t", "q", "p"),
    "force": _EVERYTHING,
    "constraints": ("t", "q", "s", "p"),
    "velocity_constraints": ("t", "q", "v", "p"),
    "constraint_force": ("t", "q", "v", "s", "lam", "p"),
    "invariants": ("t", "q", "v", "r", "p"),
    "dynamics": _EVERYTHING,
    "auxiliary": _EVERYTHING,
    "contact": ("t", "q", "s", "p"),
    "energy": ("t", "q", "v", "r", "p"),
}


class System:
    """A constrained mechanical system.

    Functions ask for what they need BY NAME, any subset of ``t q v a r w s lam mu p`` in any order, and are written
    in plain NumPy. Anything that does not depend on the state may be given as a constant.

    Parameters
    ----------
    q
        Names of the coordinates, their number, or a `dalembert.spaces.Space`. On a Lie group functions receive an
        element with readable parts (``q.x``, ``q.R``), v is the velocity in q' = q v~, and G is defined by
        d/dt g(q(t)) = G(q) v.
    mass
        Mass matrix (nv, nv), its diagonal (nv,), or a function of ``t, q, p`` returning either.
    force
        Applied forces f (nv,).
    constraints
        Holonomic constraints g(t, q) = 0, a list or a dict from name to expression.
    velocity_constraints
        Nonholonomic constraints k(t, q, v) = 0, list or dict.
    constraint_force
        Force of the holonomic constraints R(t, q, lam) (nv,), default ``-G^T lam``; may be nonlinear in lam.
    invariants
        Functions phi(t, q, v, r) that the exact motion keeps constant (energy, momentum), list or dict. The value at
        the start is the one that is kept.
    r, dynamics
        Dynamic states and their rates r' = f_d(...).
    w, auxiliary
        Auxiliary algebraic variables and their equations 0 = d(...).
    s, contact
        Contact coordinates and their equations 0 = h(t, q, s), solvable for s.
    energy
        Total energy, for ``sol.energy``.
    parameters
        Name -> number or array; available as ``p.name``, changeable in every `solve` without recompiling.
    name
        Shown in plots and messages.

    Examples
    --------
    >>> import dalembert as da
    >>> pendulum = da.System(
    ...     q=["x", "y"],
    ...     mass=lambda p: [p.m, p.m],
    ...     force=lambda p: [0, -p.m * p.g],
    ...     constraints=lambda q, p: {"rod": q[0] ** 2 + q[1] ** 2 - p.L**2},
    ...     parameters={"m": 1.0, "g": 9.81, "L": 1.0},
    ... )
    >>> pendulum
    System(q=[x, y], constraints=[rod], parameters=[m, g, L])
    """

    # names under which a subclass lets functions ask for the variables, e.g. {"x": "q"}
    aliases: Mapping[str, str] = {}
    # of a system whose redundant constraints were left out: symbols by name -> lam and mu of all of them
    all_multipliers: Callable[[dict[str, ca.SX]], dict[str, ca.SX]] | None = None

    def __init__(
        self,
        q: int | Sequence[str] | Space,
        mass: ModelFunction,
        force: ModelFunction = None,
        constraints: ModelFunction = None,
        velocity_constraints: ModelFunction = None,
        constraint_force: ModelFunction = None,
        invariants: ModelFunction = None,
        *,
        r: int | Sequence[str] | None = None,
        dynamics: ModelFunction = None,
        w: int | Sequence[str] | None = None,
        auxiliary: ModelFunction = None,
        s: int | Sequence[str] | None = None,
        contact: ModelFunction = None,
        energy: ModelFunction = None,
        parameters: Mapping[str, Any] | None = None,
        name: str = "system",
    ) -> None:
        self.name = name
        self.space = as_space(q)
        if self.nv == 0:
            raise ModelError(
                f"q={q!r}: a system moves, so it has at least one coordinate. For dynamic states alone add one that "
                "rests: q=1, mass=[1.0]."
            )
        self.parameters = Parameters(parameters)
        self.names: dict[str, tuple[str, ...]] = {
            "q": self.space.names,
            "r": as_names("r", r, "r"),
            "w": as_names("w", w, "w"),
            "s": as_names("s", s, "s"),
        }
        self.calls: list[Call] = []
        self._probed: dict[str, tuple[str, ...]] = {}  # names of equations learnt by calling a black box
        self._coefficients: list[ca.SX] = []
        self._arguments: list[ca.SX] = []
        for states, equations in (("r", "dynamics"), ("w", "auxiliary"), ("s", "contact")):
            given = {"dynamics": dynamics, "auxiliary": auxiliary, "contact": contact}[equations]
            if (given is None) != (not self.names[states]):
                raise ModelError(f"{states}= and {equations}= belong together: give both or neither.")

        nv = self.nv
        self._symbols: dict[str, ca.SX] = {
            "t": symbol("t", 1),
            "q": symbol("q", self.nq),
            "v": symbol("v", nv),
            "a": symbol("a", nv),
            "r": symbol("r", self.nr),
            "w": symbol("w", self.nw),
            "s": symbol("s", self.ns),
            "p": symbol("p", self.parameters.size),
        }
        # constraints first: they tell how many multipliers there are
        self.g = self._equations("constraints", constraints, second=True)
        self._symbols["lam"] = symbol("lam", self.nlam)
        self.k = self._equations("velocity_constraints", velocity_constraints, second=True)
        self._symbols["mu"] = symbol("mu", self.nmu)
        self.names["lam"] = self.names["constraints"]
        self.names["mu"] = self.names["velocity_constraints"]

        self.h = self._vector("contact", contact, self.ns, second=True)
        self.mass = self._mass(mass)
        self.force = self._vector("force", force, nv)
        self.dynamics = self._vector("dynamics", dynamics, self.nr)
        self.auxiliary = self._vector("auxiliary", auxiliary, self.nw)
        self.phi = self._equations("invariants", invariants, second=True)
        self.energy = self._vector("energy", energy, 1) if energy is not None else None
        self._constraint_force = (
            self._vector("constraint_force", constraint_force, nv) if constraint_force is not None else None
        )
        if self._constraint_force is not None and self.nlam == 0:
            raise ModelError("constraint_force is given but there are no constraints; use force instead.")

    # ------------------------------------------------------------------ sizes
    @property
    def nq(self) -> int:
        """Stored position numbers."""
        return self.space.nq

    @property
    def nv(self) -> int:
        """Velocity components."""
        return self.space.nv

    @property
    def nr(self) -> int:
        return len(self.names["r"])

    @property
    def nw(self) -> int:
        return len(self.names["w"])

    @property
    def ns(self) -> int:
        return len(self.names["s"])

    @property
    def nlam(self) -> int:
        return len(self.names["constraints"])

    @property
    def nmu(self) -> int:
        return len(self.names["velocity_constraints"])

    @property
    def nphi(self) -> int:
        return len(self.names["invariants"])

    @cached_property
    def sizes(self) -> dict[str, int]:
        """Number of components of every variable."""
        return {name: int(self._symbols[name].numel()) for name in NAMES}

    @property
    def velocity_names(self) -> tuple[str, ...]:
        """Names of the velocity components."""
        return self.space.velocity_names

    @property
    def motion_names(self) -> tuple[str, ...]:
        """What to call the directions of motion: coordinates where each has its own velocity, else velocities."""
        return self.space.names if self.space.flat else self.velocity_names

    @cached_property
    def all_names(self) -> dict[str, tuple[str, ...]]:
        """Names of the components of all variables and equations."""
        return {**{kind: tuple(x) for kind, x in self.names.items()}, "v": tuple(self.velocity_names)}

    def initial_values(self, q0: Any, v0: Any, r0: Any = None, w0: Any = None, s0: Any = None) -> dict[str, Any]:
        """Which variables these arguments of `solve` set."""
        return {"q": q0, "v": v0, "r": r0, "w": w0, "s": s0}

    @property
    def black_boxes(self) -> list[str]:
        """Functions of the model that could not be traced (empty for a fully compiled model)."""
        return [call.role for call in self.calls]

    def __repr__(self) -> str:
        parts = [f"q=[{', '.join(self.space.names)}]"]
        for label in ("constraints", "velocity_constraints", "r", "w", "s", "invariants"):
            if self.names[label]:
                parts.append(f"{label}=[{', '.join(self.names[label])}]")
        if self.parameters.size:
            parts.append(f"parameters=[{', '.join(self.parameters.defaults)}]")
        if self.calls:
            parts.append(f"black boxes=[{', '.join(self.black_boxes)}]")
        return f"{type(self).__name__}({', '.join(parts)})"

    # ------------------------------------------------------------------ tracing
    def _trace(self, role: str, given: ModelFunction, *, shape: tuple[int, int] | None, second: bool = False) -> Any:
        """Value of a model function on symbols: what the function returned, or an SX for a black box."""
        if not callable(given) and not isinstance(given, BlackBox):
            return given
        box = given if isinstance(given, BlackBox) else None
        function = given.function if isinstance(given, BlackBox) else given
        asked = argument_names(function)
        names = [self.aliases.get(a, "") if self.aliases else a for a in asked]
        for original, name in zip(asked, names, strict=True):
            if name not in ALLOWED[role]:
                allowed = [a for a, n in self.aliases.items() if n in ALLOWED[role]] or list(ALLOWED[role])
                extra = f" ({MEANING[name]})" if name in MEANING and not self.aliases else ""
                raise ModelError(
                    f"{role} asks for {original!r}{extra}; the names it can ask for are {', '.join(allowed)}."
                )
        if box is None:
            try:
                return function(**{a: self._argument(n) for a, n in zip(asked, names, strict=True)})
            except (TypeError, AttributeError) as problem:
                if not _is_trace_problem(problem):
                    raise
                warnings.warn(
                    f"{role} cannot be traced: {problem}. It runs as a black box: slower, with finite-difference "
                    f"derivatives. Rewrite it, or say {role}=da.black_box(...) to make the choice explicit.",
                    BlackBoxWarning,
                    stacklevel=4,
                )
                box = black_box(function)
        return self._black_box(role, box, asked, names, shape, second)

    def _argument(self, name: str) -> Any:
        symbols = vector(self._symbols[name])
        if name == "t":
            return symbols[0]
        if name == "p":
            return Namespace(self.parameters.unflatten(symbols))
        return self.space.element(symbols) if name == "q" else symbols

    def _black_box(
        self,
        role: str,
        box: BlackBox,
        asked: Sequence[str],
        names: Sequence[str],
        shape: tuple[int, int] | None,
        second: bool,
    ) -> ca.SX:
        def values(flat: np.ndarray) -> Namespace:
            return Namespace(self.parameters.unflatten(flat))

        own = [(a, n) for a, n in zip(asked, names, strict=True) if n != "p"]
        sizes = tuple(int(self._symbols[n].numel()) for _, n in own)
        elements = {a: self.space.element for a, n in own if n == "q"}
        if shape is None and box.size is not None:
            shape = (box.size, 1)
        if shape is None:  # the size of constraints does not follow from the model: ask the function itself
            probe = Call(role, box, tuple(a for a, _ in own), sizes, (1, 1), False, values, elements)
            try:
                z = 0.1 + 0.01 * np.arange(probe.nz)
                if elements:
                    start = sum(sizes[: [n for _, n in own].index("q")])
                    z[start : start + self.nq] = self.space.project(z[start : start + self.nq])
                answer = box.function(**probe._arguments(z, values(self.parameters.vector())))
                out = numbers(answer)
            except Exception as problem:
                raise ModelError(
                    f"{role}: the black box could not be called to find its size ({problem}); "
                    f"write da.black_box(function, size=n)."
                ) from problem
            shape = (out.size, 1)
            if isinstance(answer, Mapping):
                self._probed[role] = _component_names({k: np.size(x) for k, x in answer.items()})
        call = Call(role, box, tuple(a for a, _ in own), sizes, shape, second, values, elements)
        arguments = ca.vertcat(*[self._symbols[n] for _, n in own])
        coefficients = symbol(f"blackbox_{role}", call.n_coefficients)
        self.calls.append(call)
        self._coefficients.append(coefficients)
        self._arguments.append(ca.vertcat(arguments, self._symbols["p"]))
        return call.surrogate(arguments, coefficients)

    def _vector(self, role: str, given: ModelFunction, n: int, *, second: bool = False) -> ca.SX:
        if given is None:
            return ca.SX.zeros(n, 1)
        out = self._to_sx(role, self._trace(role, given, shape=(n, 1), second=second))
        if out.shape != (n, 1):
            raise ModelError(f"{role} returned {_shape(out)}, expected {n} component{'s' if n != 1 else ''}.")
        return out

    def _mass(self, given: ModelFunction) -> ca.SX:
        nv = self.nv
        out = self._to_sx("mass", self._trace("mass", given, shape=(nv, nv)))
        if out.shape == (nv, 1) and nv != 1:
            out = ca.diag(out)
        if out.shape != (nv, nv):
            raise ModelError(f"mass returned {_shape(out)}, expected a diagonal ({nv},) or a matrix ({nv}, {nv}).")
        return ca.sparsify(out)

    def _equations(self, role: str, given: ModelFunction, *, second: bool) -> ca.SX:
        """Named equations: dict, list or a single expression."""
        prefix = {"constraints": "g", "velocity_constraints": "k", "invariants": "phi"}[role]
        if given is None:
            self.names[role] = ()
            return ca.SX.zeros(0, 1)
        value = self._trace(role, given, shape=None, second=second)
        names = self._probed.get(role, ())
        if isinstance(value, Mapping):
            parts = {label: self._to_sx(role, x) for label, x in value.items()}
            for label, part in parts.items():
                if part.shape[1] != 1:
                    raise ModelError(f"{role}[{label!r}] is {_shape(part)}, expected a list of expressions.")
            names = _component_names({label: int(part.numel()) for label, part in parts.items()})
            out = ca.vertcat(*[ca.vec(part) for part in parts.values()])
        else:
            out = self._to_sx(role, value)
            if out.shape[1] != 1:
                raise ModelError(f"{role} returned {_shape(out)}, expected a list of expressions.")
        twice = [label for label in names if names.count(label) > 1]
        if twice:
            raise ModelError(f"{role}: the name {twice[0]!r} is used twice; names must differ.")
        self.names[role] = names or tuple(f"{prefix}{i}" for i in range(out.numel()))
        return ca.densify(out)

    def _to_sx(self, role: str, value: Any) -> ca.SX:
        if isinstance(value, ca.SX):
            return value
        try:
            return to_sx(value)
        except (TraceError, TypeError, ValueError) as problem:
            kind = type(value).__name__
            raise ModelError(f"{role} returned {kind} that is not a list of numbers: {problem}.") from None

    # ------------------------------------------------------------------ derived expressions
    @cached_property
    def symbols(self) -> Variables:
        """The symbols all expressions of this system are written in."""
        return Variables(**{name: self._symbols[name] for name in NAMES})

    @cached_property
    def coefficients(self) -> ca.SX:
        """Taylor coefficients of all black boxes (symbols, empty if there are none)."""
        return ca.vertcat(*self._coefficients) if self._coefficients else ca.SX.zeros(0, 1)

    @cached_property
    def arguments(self) -> ca.SX:
        """Argument vectors [z; p] of all black boxes, one below the other."""
        return ca.vertcat(*self._arguments) if self._arguments else ca.SX.zeros(0, 1)

    def fill(self, arguments: np.ndarray, coefficients: np.ndarray) -> None:
        """Call all black boxes: ``arguments`` -> ``coefficients``, in place."""
        i = j = 0
        for call in self.calls:
            n = call.nz + self.parameters.size
            call.fill(arguments[i : i + n], coefficients[j : j + call.n_coefficients])
            i, j = i + n, j + call.n_coefficients

    def directional(self, expr: ca.SX) -> ca.SX:
        """Derivative of an expression along the configuration space, (n, nv).

        That is d expr(move(q, d)) / dd at d = 0, whose inner derivative is the (linear) map v -> rate(q, v).
        """
        x = self.symbols
        return ca.jacobian(expr, x.q) @ ca.sparsify(ca.jacobian(self.space.rate(x.q, x.v), x.v))

    def time_derivative(self, expr: ca.SX) -> ca.SX:
        """Total time derivative: q' = rate(q, v), v' = a, s' from the contact equations."""
        x = self.symbols
        state, rates = [x.t, x.q, x.v], [ca.SX(1), self.space.rate(x.q, x.v), x.a]
        if self.ns:
            state, rates = [*state, x.s], [*rates, self.contact_rate]
        # in one sweep: terms that derivatives with respect to t, q and v share are there once
        return ca.jtimes(expr, ca.vertcat(*state), ca.vertcat(*rates))

    @cached_property
    def contact_rate(self) -> ca.SX:
        """s' = -h_s^-1 (h_q v + h_t)."""
        x = self.symbols
        h_dot = ca.jtimes(self.h, ca.vertcat(x.t, x.q), ca.vertcat(1, self.space.rate(x.q, x.v)))
        return -ca.solve(ca.jacobian(self.h, x.s), h_dot)

    @cached_property
    def G(self) -> ca.SX:
        """dg/dq (nlam, nv), total."""
        G = self.directional(self.g)
        if self.ns and ca.depends_on(self.g, self.symbols.s):
            h_s = ca.jacobian(self.h, self.symbols.s)
            G = G - ca.jacobian(self.g, self.symbols.s) @ ca.solve(h_s, self.directional(self.h))
        return G

    @cached_property
    def K(self) -> ca.SX:
        """dk/dv (nmu, nv)."""
        return ca.jacobian(self.k, self.symbols.v)

    @cached_property
    def g_dot(self) -> ca.SX:
        """Velocity form of the constraints, G v + g_t."""
        return self.time_derivative(self.g)

    @cached_property
    def G_dot(self) -> ca.SX:
        """Time derivative of G along the motion (nlam, nv)."""
        return ca.reshape(self.time_derivative(ca.vec(ca.densify(self.G))), *self.G.shape)

    @cached_property
    def K_dot(self) -> ca.SX:
        """Time derivative of K along the motion (nmu, nv)."""
        return ca.reshape(self.time_derivative(ca.vec(ca.densify(self.K))), *self.K.shape)

    @cached_property
    def g_dot_q(self) -> ca.SX:
        """Derivative of the velocity form along the configuration space, (nlam, nv)."""
        return self.directional(self.g_dot)

    @cached_property
    def acceleration_by_lam(self) -> ca.SX:
        """How the multipliers accelerate the free system: -M^-1 d(f + R)/dlam (nv, nlam)."""
        return self._acceleration_by(self.symbols.lam)

    @cached_property
    def acceleration_by_lam_dot(self) -> ca.SX:
        """Its time derivative along the motion (nv, nlam)."""
        return ca.reshape(self.time_derivative(ca.vec(self.acceleration_by_lam)), self.nv, self.nlam)

    @cached_property
    def acceleration_by_mu(self) -> ca.SX:
        """-M^-1 d(f - K^T mu)/dmu (nv, nmu)."""
        return self._acceleration_by(self.symbols.mu)

    def _acceleration_by(self, multipliers: ca.SX) -> ca.SX:
        return ca.solve(ca.densify(self.mass), ca.densify(-ca.jacobian(self.force + self.reaction, multipliers)))

    @cached_property
    def g_ddot(self) -> ca.SX:
        """Acceleration form of the constraints, G v' - gamma.

        With contact coordinates: g'' = [g'' at s'' = 0] + g_s s'', s'' from 0 = h'' likewise. (To differentiate what
        was solved for s' would take twice as many operations.)
        """
        if not self.ns:
            return self.time_derivative(self.g_dot)
        x, s_dot = self.symbols, ca.SX.sym("s_dot", self.ns)
        state, rates = ca.vertcat(x.t, x.q, x.s), ca.vertcat(1, self.space.rate(x.q, x.v), s_dot)
        first = ca.jtimes(ca.vertcat(self.h, self.g), state, rates)
        second = ca.jtimes(first, ca.vertcat(state, x.v), ca.vertcat(rates, x.a))
        s_ddot = -ca.solve(ca.jacobian(self.h, x.s), second[: self.ns])
        g_ddot = second[self.ns :] + ca.jacobian(self.g, x.s) @ s_ddot
        return ca.substitute(g_ddot, s_dot, self.contact_rate)

    @cached_property
    def k_dot(self) -> ca.SX:
        """Acceleration form of the velocity constraints."""
        return self.time_derivative(self.k)

    @cached_property
    def reaction(self) -> ca.SX:
        """Force of all constraints on the system, R - K^T mu."""
        holonomic = -self.G.T @ self.symbols.lam if self._constraint_force is None else self._constraint_force
        return ca.densify(holonomic - self.K.T @ self.symbols.mu)

    @cached_property
    def pushes_along_constraints(self) -> bool:
        """True if the multipliers act through -G^T lam - K^T mu only: no friction, no other direction of reactions."""
        multipliers = ca.vertcat(self.symbols.lam, self.symbols.mu)
        others = ca.vertcat(self.force, self.auxiliary)
        return self._constraint_force is None and not ca.depends_on(others, multipliers)

    @cached_property
    def free_force(self) -> ca.SX:
        """Applied forces without what they owe to the multipliers, f at lam = mu = 0; not for black boxes."""
        x = self.symbols
        return ca.substitute(self.force, ca.vertcat(x.lam, x.mu), ca.SX.zeros(self.nlam + self.nmu, 1))

    @cached_property
    def balance(self) -> ca.SX:
        """M v' - f - R + K^T mu."""
        return self.mass @ self.symbols.a - self.force - self.reaction

    def function(self, name: str) -> ca.Function:
        """CasADi function of (t, q, v, a, r, w, s, lam, mu, p, coefficients) for one expression of the model."""
        cache: dict[str, ca.Function] = self.__dict__.setdefault("_functions", {})
        if name not in cache:
            inputs = [*self.symbols.as_tuple(), self.coefficients]
            cache[name] = ca.Function(name, inputs, [getattr(self, name)])
        return cache[name]


def _is_trace_problem(problem: BaseException) -> bool:
    """True if an exception says that symbols met code that needs numbers, not that the code itself is wrong."""
    if isinstance(problem, TraceError) or isinstance(problem.__cause__, TraceError):
        return True
    text = str(problem)
    if isinstance(problem, AttributeError):  # np.arctan2(1.0, x) on an object array asks the float for a method
        return any(text.endswith(f"has no attribute {name!r}") for name in UFUNC_NAMES)
    return any(sign in text for sign in (Sym.__name__, "loop of ufunc", "ufunc '", "dtype('O')"))


def _component_names(sizes: Mapping[str, int]) -> tuple[str, ...]:
    """Names of equations given as a dict: the key, with an index if there are several under one key."""
    return tuple(k if n == 1 else f"{k}[{i}]" for k, n in sizes.items() for i in range(n))


def _shape(x: ca.SX) -> str:
    n, m = x.shape
    return f"{n} component{'s' if n != 1 else ''}" if m == 1 else f"an array of shape ({n}, {m})"
