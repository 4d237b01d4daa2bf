"""How a matrix is held in memory: what every form can do, and the two without structure, dense and factored.

A form is a positive semi-definite operator on R^size that is the mean of independent *parts* A_i (one member of the
ensemble, or a batch of members), each an unbiased estimate of the true matrix. Parts are what error bars and
bias-corrected correlations are made of; a form that was not sampled has none.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from netgrain.runtime.errors import NetgrainError

DENSE_LIMIT = 8192  # a float64 matrix of this size takes 512 MiB
MOST_PARTS = 64  # error bars need all pairs of parts; more members than this are joined into batches
SLICE = 2**25  # numbers in a float64 copy of some rows


class Form(ABC):
    """One interface for all ways to hold a matrix. Everything returned is float64 on the CPU."""

    @property
    @abstractmethod
    def size(self) -> int:
        """The matrix is size × size."""

    @property
    def counts(self) -> Tensor:
        """Members behind each part, shape (parts,); empty when nothing was sampled."""
        return no_counts()

    @property
    def parts(self) -> int:
        return len(self.counts)

    def part(self, i: int) -> Form:
        """Part i alone."""
        return self.subset([i])

    def subset(self, indices: Sequence[int]) -> Form:
        """The mean of some of the parts."""
        raise NetgrainError(f"a {type(self).__name__} matrix has no parts: nothing was sampled.")

    @abstractmethod
    def matvec(self, V: Tensor) -> Tensor:
        """G v for every row v of V, shapes (batch, size)."""

    def energies(self, V: Tensor) -> Tensor:
        """vᵀGv for every row v of V, shape (batch,)."""
        V = V.double()
        return (V * self.matvec(V)).sum(1)

    @abstractmethod
    def trace(self) -> float: ...

    @abstractmethod
    def inner(self, other: Form) -> float:
        """⟨G, H⟩ = tr(GᵀH)."""

    def diagonal(self) -> Tensor:
        """The entries G_pp, shape (size,)."""
        return self.dense().diagonal()

    def entries(self, rows: Tensor, columns: Tensor) -> Tensor:
        """The entries G_pq at some pairs of positions, shape (pairs,)."""
        return self.dense()[rows, columns]

    def part_traces(self) -> Tensor:
        """tr A_i, shape (parts,)."""
        return torch.tensor([self.part(i).trace() for i in range(self.parts)], dtype=torch.float64)

    @abstractmethod
    def _dense(self) -> Tensor: ...

    @cached_property
    def _dense_once(self) -> Tensor:
        return self._dense()

    def dense(self) -> Tensor:
        """The whole matrix, (size, size); refused where it would not fit."""
        if self.size > DENSE_LIMIT:
            raise NetgrainError(
                f"a dense {self.size} x {self.size} matrix would take {self.size**2 * 8 / 2**30:.1f} GiB "
                f"(the limit is {DENSE_LIMIT}); use directions(k), matvec(v) or eigenvalues instead."
            )
        return self._dense_once

    def part_norms2(self) -> Tensor:
        """‖A_i‖²_F, shape (parts,)."""
        return torch.tensor([(p := self.part(i)).inner(p) for i in range(self.parts)], dtype=torch.float64)

    def part_inner(self, other: Form) -> Tensor:
        """⟨A_i, H⟩, shape (parts,)."""
        return torch.tensor([self.part(i).inner(other) for i in range(self.parts)], dtype=torch.float64)

    def pairwise(self, other: Form) -> Tensor:
        """⟨A_i, B_j⟩, shape (parts, parts of the other)."""
        theirs = torch.stack([other.part(j).dense().flatten() for j in range(other.parts)])
        return torch.stack([theirs @ self.part(i).dense().flatten() for i in range(self.parts)])

    def batched(self, parts: int = MOST_PARTS) -> Form:
        """The same matrix with neighbouring members joined, so that there are at most `parts` parts."""
        return self

    def norm2(self) -> float:
        """‖G‖²_F as it stands (plug-in)."""
        return self.inner(self)

    @property
    def norm_error(self) -> float:
        """Relative standard error of `norm2`, where that comes from random vectors."""
        return 0.0

    def norm2_of(self, other: Form) -> float:
        """‖H‖²_F of another matrix, by the vectors that ⟨G, H⟩ comes from, if any: their errors cancel in Corr."""
        return other.norm2()

    def scaled(self, factor: float) -> Form:
        """factor · G, without its parts."""
        return Dense(self.dense() * factor)

    def block_sum(self, copies: int, order: Tensor) -> Form:
        """Σ of the `copies` diagonal blocks on the coordinates of `order` (see Kronecker): all that I ⊗ H sees of G."""
        s = self.size // copies
        blocks = self.dense()[order][:, order].reshape(copies, s, copies, s)
        return Dense(blocks.diagonal(dim1=0, dim2=2).sum(-1))


def no_counts() -> Tensor:
    """The counts of a form without parts."""
    return torch.zeros(0, dtype=torch.int64)


def members_in_turn(members: int, batches: int) -> Tensor:
    """How many members each batch has that is not empty, where member i belongs to batch i modulo their number."""
    return torch.tensor([len(range(i, members, batches)) for i in range(min(members, batches))])


def in_slices(rows: Tensor) -> tuple[Tensor, ...]:
    """Rows (n, size) in slices whose float64 copies take at most 256 MiB each."""
    return torch.split(rows, max(1, min(4096, SLICE // max(1, rows.shape[1]))))


@dataclass(frozen=True, eq=False)
class Dense(Form):
    """A matrix, and optionally its independent pieces (their count-weighted mean is the matrix)."""

    matrix: Tensor  # (size, size) float64
    pieces: Tensor | None = None  # (parts, size, size)
    per_part: Tensor = field(default_factory=no_counts)

    @classmethod
    def from_pieces(cls, pieces: Tensor, counts: Tensor) -> Dense:
        weights = counts.double() / counts.sum()
        matrix = torch.zeros(pieces.shape[1:], dtype=torch.float64)
        for w, piece in zip(weights, pieces, strict=True):
            matrix.add_(piece.double(), alpha=float(w))
        return cls(matrix, pieces, counts)

    @classmethod
    def from_sums(cls, sums: Tensor, members: int, scale: float = 1.0) -> Dense:
        """scale times the mean of members that were added in turn to the sums, (batches, size, size)."""
        counts = members_in_turn(members, len(sums))
        return cls.from_pieces(sums[: len(counts)] * scale / counts[:, None, None], counts)

    @property
    def size(self) -> int:
        return self.matrix.shape[0]

    @property
    def counts(self) -> Tensor:
        return self.per_part

    def part(self, i: int) -> Form:
        assert self.pieces is not None
        return Dense(self.pieces[i].double())

    def subset(self, indices: Sequence[int]) -> Form:
        assert self.pieces is not None
        chosen = list(indices)
        return Dense.from_pieces(self.pieces[chosen], self.per_part[chosen])

    def matvec(self, V: Tensor) -> Tensor:
        return V.double() @ self.matrix

    def trace(self) -> float:
        return float(self.matrix.trace())

    def part_traces(self) -> Tensor:
        if self.pieces is None:
            return super().part_traces()
        return self.pieces.diagonal(dim1=1, dim2=2).double().sum(1)

    def _dense(self) -> Tensor:
        return self.matrix

    def inner(self, other: Form) -> float:
        if isinstance(other, Dense):
            return float(torch.sum(self.matrix * other.matrix))
        return other.inner(self)


@dataclass(frozen=True, eq=False)
class Factored(Form):
    """G = scale/n · AᵀA, A the stacked gradient rows of n members; the d × d matrix is formed only on request.

    ``per_part`` (members) and ``rows_per_part`` say which consecutive rows belong to which part. Without them the
    rows are data, not a sample: there are no parts, and n is 1.
    """

    rows: Tensor  # (rows, size), float32 or float64
    scale: float = 1.0
    per_part: Tensor = field(default_factory=no_counts)
    rows_per_part: tuple[int, ...] = ()

    @classmethod
    def of_members(cls, rows: Tensor, scale: float = 1.0) -> Factored:
        """rows: (members, rows of each, size); every member is a part."""
        n, r, _ = rows.shape
        return cls(rows.flatten(0, 1), scale, torch.ones(n, dtype=torch.int64), (r,) * n)

    @property
    def size(self) -> int:
        return self.rows.shape[1]

    @property
    def counts(self) -> Tensor:
        return self.per_part

    @property
    def members(self) -> int:
        return int(self.counts.sum()) if len(self.counts) else 1

    @property
    def weight(self) -> float:
        return self.scale / self.members

    @cached_property
    def _starts(self) -> list[int]:
        starts = [0]
        for r in self.rows_per_part:
            starts.append(starts[-1] + r)
        return starts

    def part(self, i: int) -> Form:
        rows = self.rows[self._starts[i] : self._starts[i + 1]]
        return Factored(rows, self.scale / int(self.counts[i]))

    def subset(self, indices: Sequence[int]) -> Form:
        rows = torch.cat([self.rows[self._starts[i] : self._starts[i + 1]] for i in indices])
        return Factored(rows, self.scale, self.per_part[list(indices)], tuple(self.rows_per_part[i] for i in indices))

    def batched(self, parts: int = MOST_PARTS) -> Factored:
        if self.parts <= parts:
            return self
        edges = [round(i * self.parts / parts) for i in range(parts + 1)]
        spans = list(itertools.pairwise(edges))
        counts = torch.stack([self.counts[a:b].sum() for a, b in spans])
        return Factored(self.rows, self.scale, counts, tuple(sum(self.rows_per_part[a:b]) for a, b in spans))

    def matvec(self, V: Tensor) -> Tensor:
        V = V.double()
        if self.size <= min(DENSE_LIMIT, len(V) // 2):  # fewer operations, and no matrix of vectors times rows
            return V @ self.dense()
        out = torch.zeros_like(V)
        for rows in in_slices(self.rows):
            rows = rows.double()
            out += (V @ rows.T) @ rows
        return out * self.weight

    def energies(self, V: Tensor) -> Tensor:
        V = V.double()
        if self.size <= min(DENSE_LIMIT, len(V) // 2):
            return (V * (V @ self.dense())).sum(1)
        total = torch.zeros(len(V), dtype=torch.float64)
        for rows in in_slices(self.rows):
            total += (V @ rows.double().T).square().sum(1)
        return total * self.weight

    def _row_sums(self, values: Tensor) -> Tensor:
        """Sum the last axis, one number per row, over the rows of each part."""
        owner = torch.repeat_interleave(torch.arange(self.parts), torch.tensor(self.rows_per_part))
        out = torch.zeros((*values.shape[:-1], self.parts), dtype=torch.float64)
        return out.index_add_(-1, owner, values)

    def _row_norms2(self) -> Tensor:
        return torch.cat([rows.double().square().sum(1) for rows in in_slices(self.rows)])

    def trace(self) -> float:
        return float(self._row_norms2().sum()) * self.weight

    def diagonal(self) -> Tensor:
        squares = torch.zeros(self.size, dtype=torch.float64)
        for rows in in_slices(self.rows):
            squares += rows.double().square().sum(0)
        return squares * self.weight

    def part_traces(self) -> Tensor:
        if not self.parts:
            return super().part_traces()
        return self._row_sums(self._row_norms2()) * self.scale / self.counts

    def part_norms2(self) -> Tensor:
        factor = (self.scale / self.counts.double()).square()
        if all(r == 1 for r in self.rows_per_part):
            return self._row_norms2().square() * factor
        norms = []
        for i in range(self.parts):
            rows = self.rows[self._starts[i] : self._starts[i + 1]].double()
            gram = rows @ rows.T if len(rows) <= self.size else rows.T @ rows
            norms.append(gram.square().sum())
        return torch.stack(norms) * factor

    def part_inner(self, other: Form) -> Tensor:
        products = [(rows.double() * other.matvec(rows)).sum(1) for rows in in_slices(self.rows)]
        return self._row_sums(torch.cat(products)) * self.scale / self.counts

    def pairwise(self, other: Form) -> Tensor:
        if not isinstance(other, Factored) or len(self.rows) * len(other.rows) > self.size**2 * MOST_PARTS:
            return super().pairwise(other)
        theirs = other.rows.double()
        block_sums = [other._row_sums((rows.double() @ theirs.T).square()) for rows in self.rows.split(1024)]
        sums = self._row_sums(torch.cat(block_sums).T).T
        return sums * (self.scale / self.counts)[:, None] * (other.scale / other.counts)

    def inner(self, other: Form) -> float:
        if len(self.rows) > self.size and self.size <= DENSE_LIMIT:
            return Dense(self.dense()).inner(other)
        total = 0.0
        for rows in in_slices(self.rows):
            total += float((rows.double() * other.matvec(rows)).sum())
        return total * self.weight

    def scaled(self, factor: float) -> Factored:
        return Factored(self.rows, self.weight * factor)

    def block_sum(self, copies: int, order: Tensor) -> Factored:
        return Factored(self.rows[:, order].reshape(-1, self.size // copies), self.weight)

    def _dense(self) -> Tensor:
        total = torch.zeros(self.size, self.size, dtype=torch.float64)
        for rows in in_slices(self.rows):
            rows = rows.double()
            total.addmm_(rows.T, rows)
        return total * self.weight
