"""How the elements of a group multiply, without a table where the construction makes one unnecessary.

An element is its index 0..n-1; index 0 is the identity. A product of groups of orders n and m numbers (a, b) as
a·m + b.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from netgrain.groups.axioms import Ints, generators


@dataclass(frozen=True, eq=False)
class Table:
    """A bare multiplication table, (n, n)."""

    table: Ints

    @property
    def order(self) -> int:
        return len(self.table)

    def multiply(self, a: Ints, b: Ints) -> Ints:
        return np.asarray(self.table[a, b])

    @cached_property
    def inverse(self) -> Ints:
        return np.asarray(np.argmin(self.table, axis=1))  # the column of the 0 in every row

    @cached_property
    def generators(self) -> list[int]:
        return generators(self.order, self.multiply)


@dataclass(frozen=True, eq=False)
class Abelian:
    """C_{m₁} × C_{m₂} × …: coordinates add, each modulo its own size; the last runs fastest."""

    moduli: tuple[int, ...]

    @property
    def order(self) -> int:
        return math.prod(self.moduli)

    def coordinates(self, a: Ints) -> Ints:
        """(..., number of factors)."""
        return np.stack(np.unravel_index(a, self.moduli), axis=-1)

    def index(self, coordinates: Ints) -> Ints:
        wrapped = np.moveaxis(coordinates % np.array(self.moduli), -1, 0)
        return np.asarray(np.ravel_multi_index(tuple(wrapped), self.moduli))

    def multiply(self, a: Ints, b: Ints) -> Ints:
        return self.index(self.coordinates(a) + self.coordinates(b))

    @cached_property
    def inverse(self) -> Ints:
        return self.index(-self.coordinates(np.arange(self.order)))

    @cached_property
    def generators(self) -> list[int]:
        steps = [math.prod(self.moduli[i + 1 :]) for i in range(len(self.moduli))]
        return [step for step, size in zip(steps, self.moduli, strict=True) if size > 1]


@dataclass(frozen=True, eq=False)
class Direct:
    """Pairs (a, b), each half by itself."""

    left: AnyStructure
    right: AnyStructure

    @property
    def order(self) -> int:
        return self.left.order * self.right.order

    def multiply(self, a: Ints, b: Ints) -> Ints:
        m = self.right.order
        return self.left.multiply(a // m, b // m) * m + self.right.multiply(a % m, b % m)

    @cached_property
    def inverse(self) -> Ints:
        return (self.left.inverse[:, None] * self.right.order + self.right.inverse).ravel()

    @cached_property
    def generators(self) -> list[int]:
        return [g * self.right.order for g in self.left.generators] + self.right.generators


@dataclass(frozen=True, eq=False)
class Semidirect:
    """Pairs with (n, h)(n′, h′) = (n · h(n′), hh′); action[h, n] = h(n)."""

    normal: AnyStructure
    acting: AnyStructure
    action: Ints  # (|H|, |N|)

    @property
    def order(self) -> int:
        return self.normal.order * self.acting.order

    def multiply(self, a: Ints, b: Ints) -> Ints:
        m = self.acting.order
        moved = self.action[a % m, b // m]
        return self.normal.multiply(a // m, moved) * m + self.acting.multiply(a % m, b % m)

    @cached_property
    def inverse(self) -> Ints:
        back = self.acting.inverse  # (n, h)⁻¹ = (h⁻¹(n⁻¹), h⁻¹)
        return (self.action[back][:, self.normal.inverse].T * self.acting.order + back).ravel()

    @cached_property
    def generators(self) -> list[int]:
        return [g * self.acting.order for g in self.normal.generators] + self.acting.generators


AnyStructure = Table | Abelian | Direct | Semidirect
