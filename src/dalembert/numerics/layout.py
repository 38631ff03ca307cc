"""Where everything is in the state row that the loop carries: the unknowns of a formulation, then accelerations.

row = [q, v, r, w, s, lam, mu, (what the formulation adds), a]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import casadi as ca
import numpy as np


@dataclass(frozen=True)
class Layout:
    """Names and sizes of the blocks of a row, in order."""

    blocks: tuple[tuple[str, int], ...]

    @cached_property
    def n(self) -> int:
        return sum(size for _, size in self.blocks)

    @cached_property
    def _places(self) -> dict[str, slice]:
        ends = np.cumsum([size for _, size in self.blocks]).tolist()
        out: dict[str, slice] = {}
        for (name, size), end in zip(self.blocks, ends, strict=True):
            out.setdefault(name, slice(end - size, end))
        return out

    def slice(self, name: str) -> slice:
        return self._places[name]

    def indices(self, names: Sequence[str]) -> np.ndarray:
        """Positions in the row of several blocks, in the order given; made once, not to be changed."""
        key = tuple(names)
        if key not in self._indices:
            parts = [np.arange(self.slice(n).start, self.slice(n).stop, dtype=np.int64) for n in key]
            self._indices[key] = np.concatenate([np.zeros(0, dtype=np.int64), *parts])
        return self._indices[key]

    @cached_property
    def _indices(self) -> dict[tuple[str, ...], np.ndarray]:
        return {}

    def split(self, row: ca.SX) -> dict[str, ca.SX]:
        """Block name -> part of a symbolic row (n,)."""
        return {name: row[self.slice(name)] for name, _ in self.blocks}

    def has(self, name: str) -> bool:
        return name in self._places
