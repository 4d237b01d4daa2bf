"""Forms with structure: equal blocks (Kronecker), spread by a convolution (Spread), sums of products (Separated).

Copies of an input channel, windows of a first convolution and axes of an image make large matrices out of small ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from netgrain.closed_form.kronecker_sums import compressed, written_out
from netgrain.families.convolution import ConvStem
from netgrain.geometry.forms import DENSE_LIMIT, MOST_PARTS, Dense, Factored, Form
from netgrain.runtime.errors import NetgrainError

SPREAD_PARTS = 32  # parts of a spread form are formed densely one by one
WINDOWS = 2**24  # numbers in the windows that a first convolution sees of some vectors
ROWS = 1024  # rows that those windows are multiplied with at a time
BUFFER = 2**20  # numbers in one buffer of a product: 8 MiB stay in the cache, where the matrix products are fastest


@dataclass(frozen=True, eq=False)
class Separated(Form):
    """G = Σ_r A_r ⊗ B_r (⊗ C_r …) on a grid of n_1 × n_2 (× n_3 …) positions, the first axis slowest.

    factors: per axis a float64 tensor (terms, n_k, n_k). It has no parts: nothing was sampled. Over 224 × 224
    positions the matrix would take 18.8 GiB, 20 terms take 15 MiB. G v costs 2 · terms · size · Σ n_k operations,
    whatever the order of the axes.

    >>> A = torch.tensor([[[2.0, 0.0], [0.0, 1.0]]], dtype=torch.float64)
    >>> Separated((A, A)).dense().diagonal().tolist()
    [4.0, 2.0, 2.0, 1.0]
    """

    factors: tuple[Tensor, ...]  # per axis (terms, n, n)

    def __post_init__(self) -> None:
        shapes = [tuple(F.shape) for F in self.factors]
        whole = all(len(s) == 3 and s[1] == s[2] and s[0] == shapes[0][0] and 0 not in s for s in shapes)
        if not shapes or not whole or any(F.dtype != torch.float64 for F in self.factors):
            found = [f"{F.dtype} {s}" for F, s in zip(self.factors, shapes, strict=True)]
            raise NetgrainError(
                f"expected float64 factors (terms, n, n) with equal terms for every axis, found {found}."
            )

    @cached_property
    def axes(self) -> tuple[int, ...]:
        """Positions along each axis."""
        return tuple(F.shape[1] for F in self.factors)

    @property
    def terms(self) -> int:
        return len(self.factors[0])

    @property
    def size(self) -> int:
        return math.prod(self.axes)

    def matvec(self, V: Tensor) -> Tensor:
        V = V.double()
        if self._small:
            return V @ self.dense().T
        slices = V.split(max(1, BUFFER // self.size))
        return torch.cat([self._product(v) for v in slices])

    @property
    def _small(self) -> bool:
        """The dense matrix is small, and a product with it takes no more operations."""
        return self.size**2 <= 4 * BUFFER and self.terms * sum(self.axes) >= self.size

    def _product(self, V: Tensor) -> Tensor:
        if len(self.axes) == 1:
            return V @ self.factors[0].sum(0).T
        batch, first, last, others = len(V), self.axes[0], self.axes[-1], self.size // self.axes[0]
        # (first axis, batch, other axes): the first and the last axis are then one matrix product each, nothing moves
        moving = V.reshape(batch, first, others).transpose(0, 1).reshape(first, batch * others)
        total = torch.zeros(moving.numel() // last, last, dtype=torch.float64)
        for head, *middle, tail in zip(*self.factors, strict=True):
            moved = head @ moving
            for k, factor in enumerate(middle, start=1):
                moved = factor @ moved.reshape(-1, self.axes[k], math.prod(self.axes[k + 1 :]))
            total.addmm_(moved.reshape(-1, last), tail.T)
        return total.reshape(first, batch, others).transpose(0, 1).reshape(batch, self.size)

    def trace(self) -> float:
        traces = [F.diagonal(dim1=1, dim2=2).sum(1) for F in self.factors]
        return float(torch.stack(traces).prod(0).sum())

    def inner(self, other: Form) -> float:
        if isinstance(other, Separated) and other.axes == self.axes:
            # ⟨A ⊗ B, A' ⊗ B'⟩ = ⟨A, A'⟩ ⟨B, B'⟩
            pairs = [F.flatten(1) @ H.flatten(1).T for F, H in zip(self.factors, other.factors, strict=True)]
            return float(torch.stack(pairs).prod(0).sum())
        if isinstance(other, Factored | Kronecker):
            return other.inner(self)
        return float(torch.sum(self.dense() * other.dense()))

    def scaled(self, factor: float) -> Separated:
        return Separated((self.factors[0] * factor, *self.factors[1:]))

    def block_sum(self, copies: int, order: Tensor) -> Form:
        """Summing the blocks along one axis of the grid replaces that axis by its traces."""
        grid = torch.arange(self.size).reshape(self.axes)
        for k, n in enumerate(self.axes):
            if n == copies and len(self.axes) > 1 and torch.equal(grid.movedim(k, 0).flatten(), order):
                weights = self.factors[k].diagonal(dim1=1, dim2=2).sum(1)
                first, *others = (F for j, F in enumerate(self.factors) if j != k)
                return Separated((first * weights[:, None, None], *others))
        return super().block_sum(copies, order)

    def _dense(self) -> Tensor:
        return written_out(self.factors)

    def compressed(self, tolerance: float = 1e-14) -> Separated:
        """The same matrix in fewer terms, equal to about `tolerance` of its largest entry."""
        return Separated(compressed(self.factors, tolerance))


@dataclass(frozen=True, eq=False)
class Spread(Form):
    """Σ_Δ S_Δ Q S_Δᵀ: the second moment Q at a convolution's output, carried to its input (families.convolution)."""

    source: Form  # Q, on the output positions
    stem: ConvStem

    @property
    def size(self) -> int:
        return self.stem.size

    @property
    def counts(self) -> Tensor:
        return self._batched.counts

    @cached_property
    def _batched(self) -> Form:
        return self.source.batched(SPREAD_PARTS)

    def part(self, i: int) -> Form:
        return Spread(self._batched.part(i), self.stem)

    def subset(self, indices: Sequence[int]) -> Form:
        return Spread(self._batched.subset(indices), self.stem)

    def matvec(self, V: Tensor) -> Tensor:
        if len(V) > self.size // 8 and self.size <= DENSE_LIMIT:
            return V.double() @ self.dense()
        return torch.cat([self._product(some) for some in V.split(self._at_once)]) if len(V) else V.double()

    def _product(self, V: Tensor) -> Tensor:
        seen = self.stem.gather(V.double())
        batch, entries, positions = seen.shape
        moved = self.source.matvec(seen.reshape(batch * entries, positions))
        return self.stem.scatter(moved.reshape(batch, entries, positions))

    def energies(self, V: Tensor) -> Tensor:
        source = self.source
        if self.size <= DENSE_LIMIT or not isinstance(source, Factored):
            return super().energies(V)
        # half of a product, and in the precision of the rows: what they do not see stays below 1e-12 of the rest
        total = torch.zeros(len(V), dtype=torch.float64)
        for start in range(0, len(V), self._at_once):
            here = slice(start, start + self._at_once)
            seen = self.stem.gather(V[here].to(source.rows.dtype)).flatten(0, 1)
            for rows in source.rows.split(ROWS):
                along = torch.linalg.vector_norm(seen @ rows.T, dim=1, dtype=torch.float64).square()
                total[here] += along.reshape(len(total[here]), -1).sum(1)
        return total * source.weight

    @property
    def _at_once(self) -> int:
        """Vectors whose windows take at most 128 MiB."""
        return max(1, WINDOWS // (math.prod(self.stem.kernel) * self.stem.out_size))

    @cached_property
    def _cover(self) -> Tensor:
        """How many kernel entries of an output position fall inside the image (zero padding counts for nothing)."""
        ones = torch.ones(1, self.stem.size, dtype=torch.float64)
        return self.stem.gather(ones).sum((0, 1))

    def trace(self) -> float:
        # tr Σ_Δ S_Δ Q S_Δᵀ = Σ_q Q_qq · (entries of window q inside the image)
        return float(self.source.diagonal() @ self._cover)

    def part_inner(self, other: Form) -> Tensor:
        return self._batched.part_inner(Dense(self.stem.pull(other.dense())))

    def inner(self, other: Form) -> float:
        if isinstance(other, Spread) and other.stem == self.stem:  # ⟨push P, push Q⟩ = ⟨P, pull push Q⟩
            theirs = self.stem.pushed_and_pulled(other.source.dense())
            return float(torch.sum(self.source.dense() * theirs))
        return Dense(self.dense()).inner(Dense(other.dense()))

    def pairwise(self, other: Form) -> Tensor:
        if not isinstance(other, Spread) or other.stem != self.stem:
            return super().pairwise(other)
        mine, theirs = self._batched, other._batched
        rows = []
        for j in range(theirs.parts):
            seen = self.stem.pushed_and_pulled(theirs.part(j).dense())
            rows.append([float(torch.sum(mine.part(i).dense() * seen)) for i in range(mine.parts)])
        return torch.tensor(rows, dtype=torch.float64).T

    def scaled(self, factor: float) -> Spread:
        return Spread(self.source.scaled(factor), self.stem)

    def _dense(self) -> Tensor:
        return self.stem.push(self.source.dense())


@dataclass(frozen=True, eq=False)
class Kronecker(Form):
    """`copies` equal diagonal blocks: I ⊗ core on the coordinates listed by `order`.

    order: the d input coordinates, copy after copy, so that x[order].reshape(copies, core.size) has one copy per row.
    I_C ⊗ G_s of a convolution has order = arange(d); T ⊗ I of a patch embedding interleaves.
    """

    core: Form
    copies: int
    order: Tensor  # (copies · core.size,) int64

    @property
    def size(self) -> int:
        return self.copies * self.core.size

    @property
    def counts(self) -> Tensor:
        return self.core.counts

    def around(self, core: Form) -> Kronecker:
        """Another core in the same layout."""
        return Kronecker(core, self.copies, self.order)

    def part(self, i: int) -> Form:
        return self.around(self.core.part(i))

    def subset(self, indices: Sequence[int]) -> Form:
        return self.around(self.core.subset(indices))

    def into_copies(self, V: Tensor) -> Tensor:
        """(batch, size) in input order → (batch · copies, core size)."""
        return V[:, self.order].reshape(-1, self.core.size)

    def from_copies(self, U: Tensor) -> Tensor:
        """(batch · copies, core size) → (batch, size) in input order."""
        flat = U.reshape(-1, self.size)
        out = torch.empty_like(flat)
        out[:, self.order] = flat
        return out

    def matvec(self, V: Tensor) -> Tensor:
        return self.from_copies(self.core.matvec(self.into_copies(V.double())))

    def energies(self, V: Tensor) -> Tensor:
        return self.core.energies(self.into_copies(V)).reshape(len(V), self.copies).sum(1)

    def trace(self) -> float:
        return self.copies * self.core.trace()

    def part_traces(self) -> Tensor:
        return self.copies * self.core.part_traces()

    def part_norms2(self) -> Tensor:
        return self.copies * self.core.part_norms2()

    @property
    def norm_error(self) -> float:
        return self.core.norm_error

    def norm2_of(self, other: Form) -> float:
        if isinstance(other, Kronecker) and self.same_layout(other):
            return self.copies * self.core.norm2_of(other.core)
        return super().norm2_of(other)

    def norm2(self) -> float:
        return self.copies * self.core.norm2()

    def batched(self, parts: int = MOST_PARTS) -> Kronecker:
        return self.around(self.core.batched(parts))

    def pairwise(self, other: Form) -> Tensor:
        if isinstance(other, Kronecker) and self.same_layout(other):
            return self.copies * self.core.pairwise(other.core)
        if self.size > DENSE_LIMIT and not isinstance(other, Kronecker):
            return other.pairwise(self).T
        return super().pairwise(other)

    def same_layout(self, other: Form) -> bool:
        return (
            isinstance(other, Kronecker)
            and other.copies == self.copies
            and other.core.size == self.core.size
            and torch.equal(other.order, self.order)
        )

    def scaled(self, factor: float) -> Kronecker:
        return self.around(self.core.scaled(factor))

    def _seen_of(self, other: Form) -> Form:
        """What the core sees of another matrix: the sum of its blocks in this layout."""
        if isinstance(other, Kronecker) and self.same_layout(other):
            return other.core.scaled(float(self.copies))
        return other.block_sum(self.copies, self.order)

    def part_inner(self, other: Form) -> Tensor:
        return self.core.part_inner(self._seen_of(other))

    def inner(self, other: Form) -> float:
        return self.core.inner(self._seen_of(other))

    def _dense(self) -> Tensor:
        out = torch.zeros(self.size, self.size, dtype=torch.float64)
        core = self.core.dense()
        for index in self.order.reshape(self.copies, self.core.size):
            out[index[:, None], index] = core
        return out
