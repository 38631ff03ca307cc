"""Direct products of groups, and R^3 x SO(3)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from dalembert.spaces.euclidean import Euclidean
from dalembert.spaces.group import Group, MissingPart
from dalembert.spaces.so3 import SO3
from dalembert.spaces.space import Check
from dalembert.status import ModelError, OptionError


class Product(Group):
    """A x B x ...: elements side by side, every operation factor by factor.

    Parameters
    ----------
    *factors, **named
        Groups, unnamed (also written ``A * B``) or by name. The parts of an unnamed factor are parts of the product; a
        named factor is itself a part: ``q.upper.R``.

    Examples
    --------
    >>> G = Product(upper=R3xSO3(), lower=R3xSO3())
    >>> G.nq, G.nv, G.part_names
    (24, 12, ('upper', 'lower'))
    >>> (Euclidean(["s"]) * SO3()).part_names
    ('s', 'R')
    """

    def __init__(self, *factors: Group, **named: Group) -> None:
        labelled: list[tuple[str, Group]] = []
        for factor in factors:
            if isinstance(factor, Product) and not isinstance(factor, R3xSO3):
                labelled += zip(factor.labels, factor.factors, strict=True)  # (A * B) * C is A * B * C
            else:
                labelled.append(("", factor))
        labelled += named.items()
        for label, factor in labelled:
            if not isinstance(factor, Group):
                what = f"{factor.__name__} without parentheses" if isinstance(factor, type) else repr(factor)
                raise ModelError(f"Product: the factor {label or 'given'} is {what}; give groups such as SO3().")
        if not labelled:
            raise ModelError("Product: give at least one group.")
        self.labels: tuple[str, ...] = tuple(label for label, _ in labelled)
        self.factors: tuple[Group, ...] = tuple(factor for _, factor in labelled)
        self._q = np.cumsum([0, *(f.nq for f in self.factors)])
        self._v = np.cumsum([0, *(f.nv for f in self.factors)])
        self.names = self._distinct([f.names for f in self.factors])

    def _distinct(self, names: list[tuple[str, ...]]) -> tuple[str, ...]:
        """Names of components: with the label of the factor, or its number where they would collide."""
        plain = [n for label, part in zip(self.labels, names, strict=True) if not label for n in part]
        out: list[str] = []
        for i, (label, part) in enumerate(zip(self.labels, names, strict=True)):
            clash = any(plain.count(n) > 1 for n in part)
            prefix = f"{label}." if label else f"{i}." if clash else ""
            out += [prefix + n for n in part]
        return tuple(out)

    @property
    def _labelled(self) -> list[tuple[str, Group]]:
        return list(zip(self.labels, self.factors, strict=True))

    def __repr__(self) -> str:
        inner = [f"{label}={f}" if label else f"{f}" for label, f in self._labelled]
        return f"Product({', '.join(inner)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Product) and (self.labels, self.factors) == (other.labels, other.factors)

    def __hash__(self) -> int:
        return hash((self.labels, self.factors))

    @property
    def nq(self) -> int:
        return int(self._q[-1])

    @property
    def nv(self) -> int:
        return int(self._v[-1])

    @property
    def flat(self) -> bool:
        return all(f.flat for f in self.factors)

    @property
    def velocity_names(self) -> tuple[str, ...]:
        return self._distinct([f.velocity_names for f in self.factors])

    @property
    def identity(self) -> np.ndarray:
        return np.concatenate([f.identity for f in self.factors])

    # ------------------------------------------------------------------ parts
    @property
    def part_names(self) -> tuple[str, ...]:
        """Labels of named factors and the parts of unnamed ones, as far as they are unambiguous."""
        names = [n for label, f in self._labelled for n in ([label] if label else f.part_names)]
        return tuple(n for n in names if names.count(n) == 1)

    def part(self, q: Any, name: str) -> Any:
        """One readable part; ``factors`` is the tuple of all elements."""
        if name == "factors":
            return tuple(f.element(q[..., at]) for f, at in zip(self.factors, self._at(self._q), strict=True))
        if sum(name == label or (not label and name in f.part_names) for label, f in self._labelled) > 1:
            raise MissingPart(
                f"several factors of {self} have a part {name!r}: name the factors, as in "
                f"Product(first=SO3(), second=SO3()), or use q.factors."
            )
        return super().part(q, name)

    def _part(self, q: Any, name: str) -> Any:
        for (label, f), at in zip(self._labelled, self._at(self._q), strict=True):
            if label == name:
                return f.element(q[..., at])
            if not label and name in f.part_names:
                return f.part(q[..., at], name)
        raise KeyError(name)  # part() has made sure that there is one

    def _from_sequence(self, parts: list[Any], value: Any, label: str) -> Any:
        if len(parts) != len(self.factors):
            return value
        names = [name or f"{i}" for i, name in enumerate(self.labels)]
        return np.concatenate(
            [_stored(f, x, f"{label}[{n}]") for f, x, n in zip(self.factors, parts, names, strict=True)]
        )

    def _from_parts(self, parts: dict[str, Any], label: str) -> Any:
        out, left = [], dict(parts)
        for name, f in self._labelled:
            if name:
                mine = left.pop(name, None)
            else:
                mine = {n: left.pop(n) for n in f.part_names if n in left} or None
            if mine is None:
                raise OptionError(f"{label}: the part {name or ' or '.join(f.part_names)} is missing.")
            out.append(_stored(f, mine, f"{label}[{name!r}]" if name else label))
        if left:
            raise OptionError(
                f"{label}: there is no part {next(iter(left))!r}; parts are {', '.join(self.part_names)}."
            )
        return np.concatenate(out)

    # ------------------------------------------------------------------ operations
    @staticmethod
    def _at(edges: np.ndarray) -> Iterator[slice]:
        return (slice(a, b) for a, b in pairwise(edges))

    def _each(self, name: str, *arguments: tuple[Any, np.ndarray]) -> list[Any]:
        """An operation of every factor on its own slices of the arguments."""
        slices = zip(*(self._at(edges) for _, edges in arguments), strict=True)
        return [
            getattr(f, name)(*[x[..., at] for (x, _), at in zip(arguments, s, strict=True)])
            for f, s in zip(self.factors, slices, strict=True)
        ]

    def _join(self, name: str, *arguments: tuple[Any, np.ndarray]) -> Any:
        return np.concatenate(self._each(name, *arguments), axis=-1)

    def _diagonal(self, name: str, x: Any, edges: np.ndarray) -> Any:
        blocks = self._each(name, (x, edges))
        rows = []
        for i, block in enumerate(blocks):
            shape, n = block.shape[:-1], block.shape[-1]
            before, after = int(self._v[i]), self.nv - int(self._v[i]) - n
            rows.append(np.concatenate([np.zeros((*shape, before)), block, np.zeros((*shape, after))], axis=-1))
        return np.concatenate(rows, axis=-2)

    def _compose(self, a: Any, b: Any) -> Any:
        return self._join("_compose", (a, self._q), (b, self._q))

    def _inverse(self, q: Any) -> Any:
        return self._join("_inverse", (q, self._q))

    def _exp(self, v: Any) -> Any:
        return self._join("_exp", (v, self._v))

    def _log(self, q: Any) -> Any:
        return self._join("_log", (q, self._q))

    def _tangent(self, v: Any) -> Any:
        return self._diagonal("_tangent", v, self._v)

    def _tangent_inverse(self, v: Any) -> Any:
        return self._diagonal("_tangent_inverse", v, self._v)

    def _Ad(self, q: Any) -> Any:
        return self._diagonal("_Ad", q, self._q)

    def _ad(self, v: Any) -> Any:
        return self._diagonal("_ad", v, self._v)

    def _rate(self, q: Any, v: Any) -> Any:
        return self._join("_rate", (q, self._q), (v, self._v))

    def _retract(self, q: Any, d: Any) -> Any:
        return self._join("_retract", (q, self._q), (d, self._v))

    def _equations(self, q: Any) -> Any:
        return self._join("_equations", (q, self._q))

    def _defects(self, q: Any) -> Any:
        return self._join("_defects", (q, self._q))

    def _correct(self, q: Any) -> Any:
        return self._join("_correct", (q, self._q))

    def _project(self, q: Any) -> Any:
        return self._join("_project", (q, self._q))

    def _check(self, q: np.ndarray) -> Check:
        checks = [f._check(q[at]) for f, at in zip(self.factors, self._at(self._q), strict=True)]
        i = int(np.argmax([c.residual for c in checks]))
        many = len(self.factors) > 1 and checks[i].message and not isinstance(self, R3xSO3)
        return (
            Check(checks[i].residual, f"{self.labels[i] or f'factor {i}'}: {checks[i].message}") if many else checks[i]
        )


def _stored(factor: Group, value: Any, label: str) -> np.ndarray:
    """Stored numbers of one factor, of the right length or refused."""
    if isinstance(factor, Euclidean):
        if isinstance(value, dict):
            value = np.concatenate([np.ravel(value[n]) for n in factor.part_names if n in value])
        flat = np.atleast_1d(np.asarray(value, dtype=float))
    else:
        try:
            flat = np.atleast_1d(np.asarray(factor.flatten(value, label), dtype=float))
        except (TypeError, ValueError) as problem:
            if isinstance(problem, OptionError):
                raise
            raise OptionError(f"{label}={value!r} does not describe {factor}.") from None
    if flat.shape != (factor.nq,):
        raise OptionError(f"{label} has shape {flat.shape}; {factor} is given by {' or '.join(factor.part_names)}.")
    return flat


class R3xSO3(Product):
    """R^3 x SO(3): position x (3,) and rotation matrix R, row by row.

    Parts: ``x`` (3,), ``R`` (3, 3). Velocities v = (x', Omega): x' in the inertial frame, Omega in that of the body.

    Examples
    --------
    >>> R3xSO3().velocity_names
    ("x[0]'", "x[1]'", "x[2]'", 'Omega[0]', 'Omega[1]', 'Omega[2]')
    """

    def __init__(self) -> None:
        super().__init__(Euclidean(3), SO3())

    def __repr__(self) -> str:
        return "R3xSO3()"
