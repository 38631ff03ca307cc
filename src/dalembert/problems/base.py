"""Reference problems: a system, a start, a time span and, where known, the solution."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dalembert.model.system import System


@dataclass(frozen=True)
class Published:
    """Values printed by others, and how much of them independent computations confirm.

    Attributes
    ----------
    t
        Time of the values, or times (n,).
    values
        "q", "v", "lam", ... -> components (m,) at t, or (n, m) at several times; nan where nothing is printed.
    digits
        Significant digits that are confirmed, by the same names: one number, or one for each component.
    within
        Instead of digits, where they are limited by the rounding of a table: bound of the absolute error, by name.
    origin
        Who computed them, and how.

    Examples
    --------
    >>> value = Published(t=2.0, values={"q": [1.25, 40.0]}, digits={"q": 3}, origin="by hand")
    >>> value.error("q")
    array([0.00125, 0.04   ])
    """

    t: Any
    values: Mapping[str, Any]
    origin: str
    digits: Mapping[str, Any] = field(default_factory=dict)
    within: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if set(self.digits) | set(self.within) != set(self.values) or set(self.digits) & set(self.within):
            raise ValueError("published values need either digits or a bound of their error, for every name")

    def error(self, name: str) -> np.ndarray:
        """Bound of the absolute error of every value, in the shape of the values."""
        values = np.asarray(self.values[name], dtype=float)
        if name in self.digits:
            return np.asarray(10.0 ** -np.asarray(self.digits[name], dtype=float) * np.abs(values))
        return np.broadcast_to(np.asarray(self.within[name], dtype=float), values.shape)


@dataclass(frozen=True)
class Problem:
    """A problem of the collection.

    Attributes
    ----------
    name, description, source
        What it is and where it comes from.
    system, q0, v0, t_span
        Ready for ``solve(p.system, p.t_span, q0=p.q0, v0=p.v0, **p.options)``.
    reference
        Function t -> dict with any of "q", "v", "lam", "mu", "r", "s" (exact or published values), or None. Times for
        which it is known: any t in t_span if ``reference_times`` is None, else those listed.
    reference_digits
        How many significant digits of the reference can be trusted.
    options
        More initial values and guesses (r0, w0, s0) for `solve`.
    published
        What others printed about this problem. The reference may be more accurate.
    """

    name: str
    description: str
    source: str
    system: System
    q0: np.ndarray
    v0: np.ndarray | None
    t_span: tuple[float, float]
    reference: Callable[[float], Mapping[str, Any]] | None = None
    reference_times: tuple[float, ...] | None = None
    reference_digits: int = 15
    options: Mapping[str, Any] = field(default_factory=dict)
    published: Published | None = None


def at_listed_times(values: Mapping[float, Mapping[str, Any]]) -> Callable[[Any], dict[str, np.ndarray]]:
    """Reference from values at some times; the returned function takes one of these times, or several (n,)."""

    def reference(t: Any) -> dict[str, np.ndarray]:
        rows = [values[float(x)] for x in np.atleast_1d(t)]
        out = {name: np.array([row[name] for row in rows], dtype=float) for name in rows[0]}
        return {name: x[0] for name, x in out.items()} if np.ndim(t) == 0 else out

    return reference


_BUILDERS: dict[str, Callable[[], Problem]] = {}
_BUILT: dict[str, Problem] = {}


def register(name: str) -> Callable[[Callable[[], Problem]], Callable[[], Problem]]:
    """Decorator: make the problem built by a function known under a name."""

    def keep(builder: Callable[[], Problem]) -> Callable[[], Problem]:
        _BUILDERS[name] = builder
        return builder

    return keep


class Problems(Mapping[str, Problem]):
    """All problems by name; each is built when first asked for."""

    def __getitem__(self, name: str) -> Problem:
        if name not in _BUILDERS:
            raise KeyError(f"there is no problem {name!r}; there are {', '.join(sorted(_BUILDERS))}")
        if name not in _BUILT:
            _BUILT[name] = _BUILDERS[name]()
        return _BUILT[name]

    def __iter__(self) -> Any:
        return iter(sorted(_BUILDERS))

    def __len__(self) -> int:
        return len(_BUILDERS)


def problems() -> Problems:
    """The collection: mapping from name to `Problem`.

    Examples
    --------
    >>> import dalembert as da
    >>> da.problems()["pendulum"].t_span
    (0.0, 100.0)
    """
    return Problems()
