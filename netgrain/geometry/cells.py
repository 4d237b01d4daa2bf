"""A matrix over a grid that treats positions inside a cell alike, but for the phase of the strides behind it.

Pools and strided layers behind a first layer see its output in cells: two gradients far apart know of each other by the
cells that they lie in, and by their place in the windows of the first pool. The mean over all permutations of the
positions of a cell that have the same place keeps just this, and is as positive as the matrix itself. At 128 × 128
positions, cells of 16 × 16 in four phases are 324 classes in the place of 16,384 positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from netgrain.geometry.forms import DENSE_LIMIT, Form, no_counts
from netgrain.geometry.probed import inner_by_products


@dataclass(frozen=True)
class Partition:
    """Positions of a grid by their cell, and by their phase: the remainder modulo a stride.

    shift: positions by which the first cell reaches beyond the grid, along every axis.

    >>> Partition((6,), (4,), (2,), (1,)).labels.tolist()
    [0, 1, 0, 3, 2, 3]
    """

    grid: tuple[int, ...]
    cell: tuple[int, ...]
    phases: tuple[int, ...]
    shift: tuple[int, ...]

    @cached_property
    def labels(self) -> Tensor:
        """The class of every position, (positions,)."""
        found = torch.zeros(1, dtype=torch.int64)
        for n, cell, phases, shift in zip(self.grid, self.cell, self.phases, self.shift, strict=True):
            place = torch.arange(n)
            own = (place + shift) // cell * phases + place % phases
            found = (found[:, None] * (int(own.max()) + 1) + own).flatten()
        labels: Tensor = found.unique(return_inverse=True)[1]
        return labels

    @cached_property
    def sizes(self) -> Tensor:
        """Positions of every class, (classes,) float64."""
        return self.labels.bincount().double()

    def sums(self, V: Tensor) -> Tensor:
        """(batch, positions) → (batch, classes)."""
        return V.new_zeros(len(V), len(self.sizes)).index_add_(1, self.labels, V)


@dataclass(frozen=True, eq=False)
class Cells(Form):
    """The mean of ZᵀQZ over permutations of positions inside classes, from sums of Q over pairs of classes.

    Entries of a piece: its sums over pairs of classes, then its sums along the diagonal, (classes + 1, classes).
    """

    partition: Partition
    sums: Tensor  # (classes + 1, classes) float64
    pieces: Tensor | None = None  # (parts, classes + 1, classes)
    per_part: Tensor = field(default_factory=no_counts)

    @classmethod
    def from_pieces(cls, partition: Partition, pieces: Tensor, counts: Tensor) -> Cells:
        """The count-weighted mean of some pieces."""
        weights = (counts.double() / counts.sum()).reshape(-1, 1, 1)
        return cls(partition, (pieces.double() * weights).sum(0), pieces, counts)

    @staticmethod
    def piece(partition: Partition, rows: Tensor) -> Tensor:
        """What a member of some rows adds to its piece."""
        joined = partition.sums(rows)
        return torch.cat([joined.T @ joined, partition.sums(rows.square().sum(0, keepdim=True))])

    @property
    def size(self) -> int:
        return len(self.partition.labels)

    @property
    def counts(self) -> Tensor:
        return self.per_part

    def part(self, i: int) -> Form:
        assert self.pieces is not None
        return Cells(self.partition, self.pieces[i].double())

    def subset(self, indices: Sequence[int]) -> Form:
        assert self.pieces is not None
        chosen = list(indices)
        return Cells.from_pieces(self.partition, self.pieces[chosen], self.per_part[chosen])

    @cached_property
    def _entries(self) -> tuple[Tensor, Tensor]:
        """The entry for every pair of classes, of different positions, and what the diagonal has beside it."""
        n, between, own = self.partition.sizes, self.sums[:-1], self.sums[-1]
        entries = between / (n[:, None] * n)
        inside = (between.diagonal() - own) / (n * (n - 1)).clamp(min=1)
        entries.diagonal().copy_(inside)
        return entries, own / n - inside

    def matvec(self, V: Tensor) -> Tensor:
        entries, beside = self._entries
        V, labels = V.double(), self.partition.labels
        return (self.partition.sums(V) @ entries)[:, labels] + V * beside[labels]

    def diagonal(self) -> Tensor:
        entries, beside = self._entries
        return (entries.diagonal() + beside)[self.partition.labels]

    def entries(self, rows: Tensor, columns: Tensor) -> Tensor:
        entries, beside = self._entries
        labels = self.partition.labels
        return entries[labels[rows], labels[columns]] + torch.where(rows == columns, beside[labels[rows]], 0.0)

    def trace(self) -> float:
        return float(self.sums[-1].sum())

    def inner(self, other: Form) -> float:
        if self.size > DENSE_LIMIT:
            return inner_by_products(self, other)
        return float(torch.sum(self.dense() * other.dense()))

    def scaled(self, factor: float) -> Cells:
        return Cells(self.partition, self.sums * factor)

    def _dense(self) -> Tensor:
        entries, beside = self._entries
        labels = self.partition.labels
        return entries[labels][:, labels] + torch.diag(beside[labels])
