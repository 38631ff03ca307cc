"""The state at an event, as a user's function sees and changes it, and the record of what was changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dalembert.model.released import constraint_names, full_system, released_names, widen
from dalembert.model.system import System
from dalembert.status import OptionError
from dalembert.tracing import Namespace


class EventState:
    """The state at an event, as the function ``apply`` of it sees and changes it.

    Attributes
    ----------
    t : float
        Time.
    q, v, r : numpy.ndarray
        Positions, velocities, dynamic states: to be changed in place or replaced.
    a, w, s, lam, mu : numpy.ndarray
        Accelerations, auxiliary variables, contact coordinates and multipliers before the event, for information.
    p
        Parameters by name, to be changed: ``state.p.stiffness = 0``.
    released : frozenset of str
        Names of the constraints that are released now; change it with `release` and `engage`.
    """

    def __init__(self, system: System, t: float, values: Mapping[str, np.ndarray], p: np.ndarray) -> None:
        self._full = full_system(system)
        self.t = t
        self.q = self._full.space.element(values["q"].copy())
        self.v, self.r = values["v"].copy(), values["r"].copy()
        self.a, self.w, self.s = values["a"].copy(), values["w"].copy(), values["s"].copy()
        self.lam, self.mu = (widen(system, kind, values[kind]).copy() for kind in ("lam", "mu"))
        self.p = Namespace({k: np.copy(x) if np.ndim(x) else x for k, x in system.parameters.unflatten(p).items()})
        self.released = released_names(system)

    def release(self, name: str) -> None:
        """Stop enforcing a constraint: a joint breaks or unlocks. A group ("pin" for "pin[0]", ...) goes together."""
        self.released |= constraint_names(self._full, name)

    def engage(self, name: str) -> None:
        """Enforce a constraint that was released: a joint locks. Velocities jump by its impulse."""
        self.released -= constraint_names(self._full, name)

    def _update(self, changes: Mapping[str, Any], label: str) -> None:
        """Take over what ``apply`` returned."""
        for name, value in changes.items():
            key = self._full.aliases.get(name, name)
            if key == "p":
                for parameter, x in dict(value).items():
                    setattr(self.p, parameter, x)
            elif key in ("q", "v", "r"):
                setattr(self, key, value)
            else:
                raise OptionError(f"event {label!r}: apply returned {name!r}; it can change q, v, r and p.")


@dataclass(frozen=True)
class Jump:
    """What happened at an instant at which events changed the state or the model.

    Attributes
    ----------
    t, events
        When, and the names of the events.
    lam, mu
        Impulses of the constraints: integrals of their multipliers over the jump.
    contact
        Impulses of impacts by the name of the event (along the gradient of the gap).
    parameters
        Parameters that changed, with their new values.
    released
        Constraints that are released afterwards.
    moved
        Largest change of a stored position, by the event itself or by what the constraints made of it.
    """

    t: float
    events: tuple[str, ...]
    lam: tuple[float, ...] = ()
    mu: tuple[float, ...] = ()
    contact: dict[str, float] = field(default_factory=dict)
    parameters: dict[str, Any] = field(default_factory=dict)
    released: tuple[str, ...] = ()
    moved: float = 0.0
