"""Other tools, set up as well as we know how, running the same problem as dalembert.

A peer is one tool in one setting. ``prepare(rtol, atol)`` does everything a user would do once (compile,
build the solver, count steps where the tool does not report them) and returns a function that only
integrates; that function is what gets timed. A run that does not reach the end raises :class:`PeerFailed`
with the tool's own message.

To add a peer: one file here with subclasses of :class:`Peer`, and its module name in ``_MODULES``.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
#: position at the end, velocity at the end, accepted steps
RunResult = tuple[Vector, Vector, int]
Runner = Callable[[], RunResult]

_MODULES = ("sundae_ida", "casadi_idas", "scipy_dae_radau")


class PeerFailed(RuntimeError):
    """The tool stopped before the end of the interval; the text is its own message."""


class Peer(ABC):
    """One tool in one setting.

    Attributes
    ----------
    name : str
        Short name, used in tables and figure legends.
    form : str
        The form of the equations of motion that the tool integrates.
    note : str
        Settings that matter, in one sentence.
    """

    name: ClassVar[str]
    form: ClassVar[str]
    note: ClassVar[str]

    @abstractmethod
    def available(self) -> bool:
        """Whether the tool can be imported here."""

    @abstractmethod
    def version(self) -> str:
        """Name and version of the package."""

    @abstractmethod
    def prepare(self, rtol: float, atol: float) -> Runner:
        """Set up everything that is not integration; the returned function integrates to the end."""


def all_peers() -> list[Peer]:
    """Every peer of this directory, installed or not, in the order of the tables."""
    peers: list[Peer] = []
    for module in _MODULES:
        peers += importlib.import_module(f"{__name__}.{module}").PEERS
    return peers
