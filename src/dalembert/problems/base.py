"""Reference problems: a system, a start, a time span and, where known, the solution."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dalembert.model.system import System


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
