"""A matrix over a grid that joins two positions only if their offset is a multiple of a period.

A convolution with independent weights carries the offset of a pair of gradients along, times its stride. Where nothing
else mixes positions, G(p, p') vanishes unless p − p' is a multiple of the network's total stride, so that G falls into
one block for each residue class of positions: at 224 × 224 and stride 32, 1,024 blocks of 49 × 49 in the place of a
matrix of 20 GB. A period as large as the grid leaves the diagonal alone.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from netgrain.families.convolution import ConvStem, Taps
from netgrain.geometry.forms import DENSE_LIMIT, Factored, Form, no_counts
from netgrain.geometry.probed import Probed, inner_by_products, part_products
from netgrain.geometry.structured_forms import Separated

ZERO = 1e-12  # entries below this part of the largest one are rounding
MOST_ENTRIES = 2**26  # of all blocks together


@dataclass(frozen=True)
class ResidueClasses:
    """Positions of a grid by their remainder modulo a period, along every axis.

    >>> ResidueClasses((4,), (2,)).members.tolist()
    [[0, 2], [1, 3]]
    """

    grid: tuple[int, ...]
    period: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of positions."""
        return math.prod(self.grid)

    @property
    def count(self) -> int:
        """Number of classes."""
        return math.prod(self.period)

    @property
    def each(self) -> tuple[int, ...]:
        """Positions of the largest class along each axis."""
        return tuple(math.ceil(n / s) for n, s in zip(self.grid, self.period, strict=True))

    @cached_property
    def members(self) -> Tensor:
        """Positions of every class, (classes, positions of the largest); `size` where a class has fewer."""
        axes = [
            torch.arange(s)[:, None] + s * torch.arange(m)[None] for s, m in zip(self.period, self.each, strict=True)
        ]
        flat, inside = torch.zeros(1, 1, dtype=torch.int64), torch.ones(1, 1, dtype=torch.bool)
        for n, axis in zip(self.grid, axes, strict=True):
            within = axis < n
            flat = (flat[:, None, :, None] * n + axis[None, :, None, :]).flatten(2).flatten(0, 1)
            inside = (inside[:, None, :, None] & within[None, :, None, :]).flatten(2).flatten(0, 1)
        return torch.where(inside, flat, self.size)

    def gathered(self, V: Tensor) -> Tensor:
        """(batch, positions) → (classes, batch, positions of a class), zeros where a class has fewer."""
        padded = torch.cat([V, V.new_zeros(len(V), 1)], 1)
        return padded[:, self.members].transpose(0, 1)

    def scattered(self, U: Tensor) -> Tensor:
        """The inverse of `gathered`."""
        out = U.new_zeros(U.shape[1], self.size + 1)
        out[:, self.members.flatten()] = U.transpose(0, 1).flatten(1)
        return out[:, : self.size]

    def grams(self, rows: Tensor) -> Tensor:
        """rowsᵀ rows inside each class, (classes, n, n)."""
        of_classes = self.gathered(rows)
        return of_classes.mT @ of_classes


@dataclass(frozen=True, eq=False)
class Lattice(Form):
    """Blocks over the residue classes of a grid, and optionally their independent pieces."""

    classes: ResidueClasses
    blocks: Tensor  # (classes, n, n) float64
    pieces: Tensor | None = None  # (parts, classes, n, n)
    per_part: Tensor = field(default_factory=no_counts)

    @classmethod
    def from_pieces(cls, classes: ResidueClasses, pieces: Tensor, counts: Tensor) -> Lattice:
        """The count-weighted mean of some pieces."""
        weights = (counts.double() / counts.sum()).reshape(-1, 1, 1, 1)
        return cls(classes, (pieces.double() * weights).sum(0), pieces, counts)

    @property
    def size(self) -> int:
        return self.classes.size

    @property
    def counts(self) -> Tensor:
        return self.per_part

    def part(self, i: int) -> Form:
        assert self.pieces is not None
        return Lattice(self.classes, self.pieces[i].double())

    def subset(self, indices: Sequence[int]) -> Form:
        assert self.pieces is not None
        chosen = list(indices)
        return Lattice.from_pieces(self.classes, self.pieces[chosen], self.per_part[chosen])

    def matvec(self, V: Tensor) -> Tensor:
        return self.classes.scattered(self.classes.gathered(V.double()) @ self.blocks)

    def diagonal(self) -> Tensor:
        return self.classes.scattered(self.blocks.diagonal(dim1=1, dim2=2)[:, None])[0]

    def entries(self, rows: Tensor, columns: Tensor) -> Tensor:
        count, n = self.classes.members.shape
        places = torch.empty(self.size + 1, dtype=torch.int64)
        places[self.classes.members.flatten()] = torch.arange(count * n)
        mine, theirs = places[rows], places[columns]
        found = self.blocks[mine // n, mine % n, theirs % n]
        return torch.where(mine // n == theirs // n, found, 0.0)

    def trace(self) -> float:
        return float(self.blocks.diagonal(dim1=1, dim2=2).sum())

    def part_traces(self) -> Tensor:
        if self.pieces is None:
            return super().part_traces()
        return self.pieces.diagonal(dim1=2, dim2=3).double().sum((1, 2))

    def part_norms2(self) -> Tensor:
        if self.pieces is None:
            return super().part_norms2()
        return self.pieces.double().square().sum((1, 2, 3))

    def inner(self, other: Form) -> float:
        if isinstance(other, Lattice) and other.classes == self.classes:
            return float(torch.sum(self.blocks * other.blocks))
        if isinstance(other, Factored | Probed):
            return other.inner(self)
        if self.size > DENSE_LIMIT:
            return inner_by_products(self, other)
        return float(torch.sum(self.dense() * other.dense()))

    def part_inner(self, other: Form) -> Tensor:
        if self.pieces is None or not (isinstance(other, Lattice) and other.classes == self.classes):
            return super().part_inner(other)
        return self.pieces.double().flatten(1) @ other.blocks.flatten()

    def pairwise(self, other: Form) -> Tensor:
        if isinstance(other, Lattice) and other.classes == self.classes:
            assert self.pieces is not None
            assert other.pieces is not None
            return self.pieces.double().flatten(1) @ other.pieces.double().flatten(1).T
        if self.size > DENSE_LIMIT:
            mine = part_products(self)
            return torch.einsum("pvs,qvs->pq", mine, part_products(other)) / mine.shape[1]
        return super().pairwise(other)

    def scaled(self, factor: float) -> Lattice:
        return Lattice(self.classes, self.blocks * factor)

    def _dense(self) -> Tensor:
        out = torch.zeros(self.size + 1, self.size + 1, dtype=torch.float64)
        for where, block in zip(self.classes.members, self.blocks, strict=True):
            out[where[:, None], where] = block
        return out[: self.size, : self.size]

    def spread(self, stem: ConvStem) -> Lattice:
        """Σ_Δ S_Δ Q S_Δᵀ over the inputs of a convolution: a lattice of stride times the period (see Spread)."""
        period = tuple(min(s * p, n) for s, p, n in zip(stem.stride, self.classes.period, stem.spatial, strict=True))
        wanted = ResidueClasses(stem.spatial, period)
        pieces = self.blocks[None] if self.pieces is None else self.pieces
        out = torch.zeros(len(pieces), wanted.count, *[math.prod(wanted.each) + 1] * 2, dtype=pieces.dtype)
        for class_of, place in _landing(stem, self.classes, wanted):
            for piece, sums in zip(pieces, out, strict=True):
                sums.index_put_((class_of[:, None, None], place[:, :, None], place[:, None, :]), piece, accumulate=True)
        out = out[:, :, :-1, :-1]
        if self.pieces is None:
            return Lattice(wanted, out[0].double())
        return Lattice.from_pieces(wanted, out.contiguous(), self.per_part)

    def leading(self, k: int) -> tuple[Tensor, Tensor]:
        """The k largest eigenvalues and their eigenvectors (k, size), of all blocks together."""
        values, vectors = torch.linalg.eigh(self.blocks)
        chosen = values.flatten().topk(min(k, values.numel()))
        n = values.shape[1]
        out = torch.zeros(len(chosen.indices), self.size + 1, dtype=torch.float64)
        for row, index in zip(out, chosen.indices.tolist(), strict=True):
            row[self.classes.members[index // n]] = vectors[index // n, :, index % n]
        return chosen.values, out[:, : self.size]

    def eigenvalues(self) -> Tensor:
        """All of them, descending."""
        padding = self.classes.members == self.size
        values: Tensor = torch.linalg.eigvalsh(self.blocks).flatten().sort(descending=True).values.clamp(min=0)
        return values[: values.numel() - int(padding.sum())]


def _landing(stem: ConvStem, source: ResidueClasses, wanted: ResidueClasses) -> list[tuple[Tensor, Tensor]]:
    """For every kernel entry: the input class of each output class, (classes,), and the place in it of each of its
    positions, (classes, n); positions that fall outside the image have the place after the last."""
    taps = [
        Taps(n, m, k, s, lo, d)
        for n, m, k, s, (lo, _), d in zip(
            stem.spatial, stem.out, stem.kernel, stem.stride, stem.padding, stem.dilation, strict=True
        )
    ]
    grids = torch.meshgrid(*[torch.arange(n) for n in stem.out], indexing="ij")
    outputs = [torch.cat([g.flatten(), torch.tensor([-(10**6)])])[source.members] for g in grids]
    outside = math.prod(wanted.each)
    found = []
    for entry in itertools.product(*(range(t.kernel) for t in taps)):
        inputs = [t.stride * q + t.dilation * e - t.padding for t, q, e in zip(taps, outputs, entry, strict=True)]
        inside = torch.stack([(p >= 0) & (p < t.size) for t, p in zip(taps, inputs, strict=True)]).all(0)
        if not bool(inside.any()):
            continue
        class_of = torch.zeros(source.count, dtype=torch.int64)
        place = torch.zeros_like(source.members)
        first = inside.to(torch.int8).argmax(1, keepdim=True)  # any position of the class that lands inside
        for p, s, m in zip(inputs, wanted.period, wanted.each, strict=True):
            class_of = class_of * s + p.gather(1, first).flatten() % s
            place = place * m + p // s
        found.append((class_of, torch.where(inside, place, outside)))
    return found


def lattice_of(form: Separated) -> Lattice | None:
    """The same matrix by residue classes, where its factors join no other offsets than multiples of a period.

    >>> F = torch.eye(4, dtype=torch.float64)[None] + torch.eye(4, dtype=torch.float64).roll(2, 0)[None]
    >>> found = lattice_of(Separated((F, F)))
    >>> found.classes.period, torch.equal(found.dense(), Separated((F, F)).dense())
    ((2, 2), True)
    """
    largest = [F.abs().amax((1, 2)) for F in form.factors]
    weight = torch.stack(largest).prod(0)  # of each term
    period = tuple(
        _period(F, weight / weight.max() / of.clamp(min=1e-300)) for F, of in zip(form.factors, largest, strict=True)
    )
    classes = ResidueClasses(form.axes, period)
    if classes.count == 1 or classes.count * math.prod(classes.each) ** 2 > MOST_ENTRIES:
        return None
    own = []  # of every axis, (terms, residues, n, n)
    for F, s, n in zip(form.factors, period, classes.each, strict=True):
        padded = torch.nn.functional.pad(F, (0, n * s - F.shape[2], 0, n * s - F.shape[1]))
        own.append(padded.reshape(-1, n, s, n, s).diagonal(dim1=2, dim2=4).movedim(-1, 1))
    total = torch.zeros(classes.count, *[math.prod(classes.each)] * 2, dtype=torch.float64)
    for first, *others in zip(*own, strict=True):
        blocks = first
        for other in others:
            joined = torch.einsum("xab,ycd->xyacbd", blocks, other)
            blocks = joined.reshape(len(blocks) * len(other), *[blocks.shape[1] * other.shape[1]] * 2)
        total += blocks
    return Lattice(classes, total)


def _period(factors: Tensor, scale: Tensor) -> int:
    """The greatest common divisor of the offsets that factors (terms, n, n) join; n if they are diagonal."""
    joined = (factors.abs() * scale[:, None, None] > ZERO).any(0)
    rows, columns = joined.nonzero().T
    return math.gcd(*(rows - columns).abs().unique().tolist()) or factors.shape[1]
