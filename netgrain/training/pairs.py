"""A sampled symmetric matrix that may have eigenvalues of both signs, held as pairs of rows.

    Δ = scale/n · Σ (a bᵀ + b aᵀ)

The time derivative of a geometry is of this kind: a an input gradient, b its rate of change.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from netgrain.geometry.forms import DENSE_LIMIT, MOST_PARTS, Dense, Factored, Form, members_in_turn
from netgrain.runtime.errors import NetgrainError

ROWS_MEMORY = 512 * 2**20  # bytes of rows, a and b together, kept before they are condensed
PIECES_MEMORY = 1024 * 2**20  # bytes of dense batches
PRODUCTS = 5e10  # multiplications between all rows, beyond which dense batches are faster
CONDENSED_LIMIT = 4096  # larger matrices are not held as dense batches
SLICE = 2**24  # numbers in a float64 copy of some rows


@dataclass(frozen=True, eq=False)
class SymmetricPairs(Form):
    """Δ = scale/n · Σ (a bᵀ + b aᵀ) over the stacked rows of n members; parts and scale are those of `left`.

    >>> a, b = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 2.0]])
    >>> SymmetricPairs(Factored(a), b).dense().tolist()
    [[0.0, 2.0], [2.0, 0.0]]
    """

    left: Factored  # rows a; on its own the form scale/n · Σ a aᵀ
    right: Tensor  # rows b, (rows, size)

    @property
    def size(self) -> int:
        return self.left.size

    @property
    def counts(self) -> Tensor:
        return self.left.counts

    def _slices(self) -> Iterator[tuple[Tensor, Tensor]]:
        each = max(1, min(4096, SLICE // self.size))
        for a, b in zip(self.left.rows.split(each), self.right.split(each), strict=True):
            yield a.double(), b.double()

    def _of_part(self, i: int) -> slice:
        return slice(self.left._starts[i], self.left._starts[i + 1])

    def part(self, i: int) -> Form:
        left = self.left.part(i)
        assert isinstance(left, Factored)
        return SymmetricPairs(left, self.right[self._of_part(i)])

    def subset(self, indices: Sequence[int]) -> Form:
        left = self.left.subset(indices)
        assert isinstance(left, Factored)
        return SymmetricPairs(left, torch.cat([self.right[self._of_part(i)] for i in indices]))

    def batched(self, parts: int = MOST_PARTS) -> SymmetricPairs:
        return SymmetricPairs(self.left.batched(parts), self.right)

    def scaled(self, factor: float) -> SymmetricPairs:
        """factor · Δ, without its parts."""
        return SymmetricPairs(Factored(self.left.rows, self.left.weight * factor), self.right)

    def block_sum(self, copies: int, order: Tensor) -> SymmetricPairs:
        """Σ of the `copies` diagonal blocks on the coordinates of `order`: all that I ⊗ H sees of Δ."""
        a, b = (rows[:, order].reshape(-1, self.size // copies) for rows in (self.left.rows, self.right))
        return SymmetricPairs(Factored(a, self.left.weight), b)

    def matvec(self, V: Tensor) -> Tensor:
        V = V.double()
        out = torch.zeros_like(V)
        for a, b in self._slices():
            out += (V @ a.T) @ b + (V @ b.T) @ a
        return out * self.left.weight

    def _per_row(self) -> Tensor:
        return torch.cat([2 * (a * b).sum(1) for a, b in self._slices()])

    def trace(self) -> float:
        return float(self._per_row().sum()) * self.left.weight

    def part_traces(self) -> Tensor:
        if not self.parts:
            return torch.zeros(0, dtype=torch.float64)
        return self.left._row_sums(self._per_row()) * self.left.scale / self.counts

    def part_norms2(self) -> Tensor:
        norms = []
        for i in range(self.parts):
            a, b = self.left.rows[self._of_part(i)].double(), self.right[self._of_part(i)].double()
            if len(a) > self.size:
                half = a.T @ b
                norms.append((half + half.T).square().sum())
            else:
                across = a @ b.T
                norms.append(2 * ((a @ a.T) * (b @ b.T) + across * across.T).sum())
        return torch.stack(norms) * (self.left.scale / self.counts.double()).square()

    def _along(self, other: Form) -> Tensor:
        return torch.cat([2 * (a * other.matvec(b)).sum(1) for a, b in self._slices()])

    def part_inner(self, other: Form) -> Tensor:
        return self.left._row_sums(self._along(other)) * self.left.scale / self.counts

    def inner(self, other: Form) -> float:
        if len(self.right) > self.size and self.size <= DENSE_LIMIT:
            return Dense(self.dense()).inner(other)
        return float(self._along(other).sum()) * self.left.weight

    def pairwise(self, other: Form) -> Tensor:
        theirs = other if isinstance(other, Factored) else other.left if isinstance(other, SymmetricPairs) else None
        if theirs is None or len(self.right) * len(theirs.rows) > self.size**2 * MOST_PARTS:
            return super().pairwise(other)
        c = theirs.rows.double()
        d = other.right.double() if isinstance(other, SymmetricPairs) else None
        sums = []
        for a, b in zip(self.left.rows.split(1024), self.right.split(1024), strict=True):
            a, b = a.double(), b.double()
            ac, bc = a @ c.T, b @ c.T
            # ⟨abᵀ + baᵀ, ccᵀ⟩ = 2 (a·c)(b·c), ⟨abᵀ + baᵀ, cdᵀ + dcᵀ⟩ = 2 (a·c)(b·d) + 2 (a·d)(b·c)
            products = 2 * ac * bc if d is None else 2 * (ac * (b @ d.T) + (a @ d.T) * bc)
            sums.append(theirs._row_sums(products))
        both = self.left._row_sums(torch.cat(sums).T).T
        return both * (self.left.scale / self.counts.double())[:, None] * (theirs.scale / theirs.counts.double())

    def half(self) -> Tensor:
        """M = scale/n · Σ b aᵀ, so that Δ = M + Mᵀ; (size, size)."""
        if self.size > DENSE_LIMIT:
            raise NetgrainError(f"M would be a dense {self.size} x {self.size} matrix (the limit is {DENSE_LIMIT}).")
        total = torch.zeros(self.size, self.size, dtype=torch.float64)
        for a, b in self._slices():
            total.addmm_(b.T, a)
        return total * self.left.weight

    def _dense(self) -> Tensor:
        half = self.half()
        return half + half.T


class PairRows:
    """Members arrive in order, each with rows a and b: both G = mean of Σ a aᵀ and Δ come out of them.

    While they fit, and products of all of them are cheap, the rows are kept; then they are added up in dense batches,
    one matrix for G and one for M each.
    """

    def __init__(self, size: int, scale: float, memory: int = ROWS_MEMORY) -> None:
        self.size, self.scale, self.memory = size, scale, memory
        self.members = 0
        self._rows: list[tuple[Tensor, Tensor]] = []
        self._bytes = self._count = 0
        self._pieces: tuple[Tensor, Tensor] | None = None  # Σ a aᵀ and Σ b aᵀ, (batches, size, size)

    def expect(self, members: int, a: Tensor) -> None:
        """Refuse before the work begins what will not fit at its end; a: the rows of one member."""
        needed = 2 * members * a.numel() * a.element_size()
        if self.size > CONDENSED_LIMIT and needed > self.memory:
            fit = max(1, self.memory // (2 * a.numel() * a.element_size()))
            raise NetgrainError(
                f"the rows of {members} members over {self.size} coordinates take {needed / 2**30:.1f} GiB "
                f"(the limit is {self.memory / 2**30:.1f}); take at most {fit} members, fewer probes, or one output."
            )

    def add(self, a: Tensor, b: Tensor) -> None:
        """A whole member: (rows, size) each."""
        self.members += 1
        if self._pieces is not None:
            self._into_pieces(self.members - 1, a, b)
            return
        self._rows.append((a, b))
        self._bytes += 2 * a.numel() * a.element_size()
        self._count += len(a)
        if self.size <= CONDENSED_LIMIT and (self._bytes > self.memory or self._count**2 * self.size > PRODUCTS):
            batches = max(6, min(MOST_PARTS, PIECES_MEMORY // (16 * self.size**2)))
            G, M = (torch.zeros(batches, self.size, self.size, dtype=torch.float64) for _ in range(2))
            self._pieces = G, M
            kept, self._rows = self._rows, []
            for i, rows in enumerate(kept):
                self._into_pieces(i, *rows)

    def _into_pieces(self, i: int, a: Tensor, b: Tensor) -> None:
        assert self._pieces is not None
        G, M = self._pieces
        for x, y in zip(a.split(1024), b.split(1024), strict=True):  # short sums in the precision of the rows
            G[i % len(G)] += x.T @ x
            M[i % len(M)] += y.T @ x

    def forms(self) -> tuple[Form, Form, Tensor | None]:
        """G and Δ so far with their parts, and M where it cannot be had from Δ's rows."""
        if self._pieces is not None:
            counts = members_in_turn(self.members, len(self._pieces[0]))
            per_member = self.scale / counts.double()[:, None, None]
            G, M = (pieces[: len(counts)] * per_member for pieces in self._pieces)
            whole = (M * (counts.double() / counts.sum())[:, None, None]).sum(0)
            return Dense.from_pieces(G, counts), Dense.from_pieces(M + M.mT, counts), whole
        a, b = (torch.cat([pair[k] for pair in self._rows]) for k in range(2))
        counts = torch.ones(self.members, dtype=torch.int64)
        left = Factored(a, self.scale, counts, tuple(len(rows) for rows, _ in self._rows))
        return left, SymmetricPairs(left, b), None
