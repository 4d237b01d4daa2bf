"""Forms behind a first layer whose weights are standardised, so that every row of them adds up to zero.

The N weights of a row (C channels, K kernel entries) have covariance v·(I − 11ᵀ/N). With Q the second moment of the
gradients at the layer's output, S_Δ its index maps and U = Σ_Δ S_Δ,

    G = v · [I_C ⊗ Σ_Δ S_Δ Q S_Δᵀ − 1/N · 11ᵀ ⊗ U Q Uᵀ].

The mean over channels and the contrasts between them are eigenspaces of 11ᵀ: contrasts see Σ_Δ S_Δ Q S_Δᵀ as if the
weights were independent, and the mean sees that minus U Q Uᵀ / K, which hides constant images from the network.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from netgrain.families.convolution import ConvStem
from netgrain.geometry.forms import DENSE_LIMIT, MOST_PARTS, Dense, Factored, Form
from netgrain.geometry.probed import Probed, inner_by_products, part_products
from netgrain.geometry.products import Products
from netgrain.geometry.structured_forms import SPREAD_PARTS, Kronecker, Spread

SOME = 64  # rows at a time


@dataclass(frozen=True, eq=False)
class Centred(Form):
    """Σ_Δ S_Δ Q S_Δᵀ − U Q Uᵀ / K: what the mean over channels sees. The parts of `spread` are those of `source`."""

    spread: Form  # Σ_Δ S_Δ Q S_Δᵀ, held in any way
    source: Form  # Q, on the output positions
    stem: ConvStem

    @classmethod
    def of(cls, source: Form, stem: ConvStem) -> Centred:
        """From the second moment at the layer's output alone."""
        source = source.batched(SPREAD_PARTS)
        return cls(Spread(source, stem), source, stem)

    @property
    def size(self) -> int:
        return self.stem.size

    @property
    def counts(self) -> Tensor:
        return self.spread.counts

    @property
    def _kernel(self) -> int:
        return math.prod(self.stem.kernel)

    def part(self, i: int) -> Form:
        return Centred(self.spread.part(i), self.source.part(i), self.stem)

    def subset(self, indices: Sequence[int]) -> Form:
        return Centred(self.spread.subset(indices), self.source.subset(indices), self.stem)

    def matvec(self, V: Tensor) -> Tensor:
        V = V.double()
        return self.spread.matvec(V) - self.common(V)

    def common(self, V: Tensor) -> Tensor:
        """What is taken off, U Q Uᵀ v / K for every row v of V."""
        return self.stem.scattered_alike(self.source.matvec(self.stem.window_sums(V.double()))) / self._kernel

    def trace(self) -> float:
        return self.spread.trace() - trace_of_common(self.source, self.stem) / self._kernel

    def inner(self, other: Form) -> float:
        if self.size > DENSE_LIMIT:
            return inner_by_products(self, other)
        return Dense(self.dense()).inner(Dense(other.dense()))

    def scaled(self, factor: float) -> Centred:
        return Centred(self.spread.scaled(factor), self.source.scaled(factor), self.stem)

    def _dense(self) -> Tensor:
        maps = self.stem.scattered_alike(torch.eye(self.stem.out_size, dtype=torch.float64))  # (out, input)
        return self.spread.dense() - maps.T @ self.source.dense() @ maps / self._kernel


def trace_of_common(source: Form, stem: ConvStem) -> float:
    """tr(U Q Uᵀ), from rows where there are any, else from the entries that windows share."""
    if isinstance(source, Factored):
        squares = [float(stem.scattered_alike(rows).double().square().sum()) for rows in source.rows.split(SOME)]
        return sum(squares) * source.weight
    first, second, shared = stem.overlaps()
    return float(source.entries(first, second) @ shared)


@dataclass(frozen=True, eq=False)
class Contrasts(Form):
    """(I − 11ᵀ/C) ⊗ contrast + 11ᵀ/C ⊗ mean on C channels, whose coordinates are listed by `order` (see Kronecker)."""

    contrast: Form
    mean: Form | None  # with the same parts; None: zero
    copies: int
    order: Tensor  # (copies · contrast.size,) int64

    @property
    def size(self) -> int:
        return self.copies * self.contrast.size

    @property
    def counts(self) -> Tensor:
        return self.contrast.counts

    @property
    def blocks(self) -> tuple[tuple[int, Form], ...]:
        """What stands on the eigenspaces of 11ᵀ, with their dimensions."""
        mean = () if self.mean is None else ((1, self.mean),)
        return ((self.copies - 1, self.contrast), *mean)

    @property
    def spaces(self) -> tuple[tuple[range, Form], ...]:
        """The same with the rows of `channel_basis` that span each eigenspace."""
        mean = () if self.mean is None else ((range(1), self.mean),)
        return (*mean, (range(1, self.copies), self.contrast))

    def around(self, contrast: Form, mean: Form | None) -> Contrasts:
        """Other blocks in the same layout."""
        return Contrasts(contrast, mean, self.copies, self.order)

    def part(self, i: int) -> Form:
        return self.around(self.contrast.part(i), None if self.mean is None else self.mean.part(i))

    def subset(self, indices: Sequence[int]) -> Form:
        return self.around(self.contrast.subset(indices), None if self.mean is None else self.mean.subset(indices))

    def batched(self, parts: int = MOST_PARTS) -> Contrasts:
        return self.around(self.contrast.batched(parts), None if self.mean is None else self.mean.batched(parts))

    @property
    def channels(self) -> Tensor:
        """An orthonormal basis of functions of the channel, as rows: the constant one, then contrasts."""
        return channel_basis(self.copies)

    def into_channels(self, V: Tensor) -> Tensor:
        """(batch, size) in input order → (copies, batch, core size): along the mean, then along contrasts."""
        apart = V[:, self.order].reshape(len(V), self.copies, -1)
        return torch.einsum("kc,bcs->kbs", self.channels.to(V.dtype), apart)

    def from_channels(self, U: Tensor) -> Tensor:
        """The inverse of `into_channels`."""
        flat = torch.einsum("kc,kbs->bcs", self.channels.to(U.dtype), U).reshape(U.shape[1], self.size)
        out = torch.empty_like(flat)
        out[:, self.order] = flat
        return out

    def matvec(self, V: Tensor) -> Tensor:
        along = self.into_channels(V.double())
        mean = torch.zeros_like(along[0]) if self.mean is None else self.mean.matvec(along[0])
        contrasts = self.contrast.matvec(along[1:].flatten(0, 1)).reshape(along[1:].shape)
        return self.from_channels(torch.cat([mean[None], contrasts]))

    def energies(self, V: Tensor) -> Tensor:
        along = self.into_channels(V.double())
        found = self.contrast.energies(along[1:].flatten(0, 1)).reshape(along.shape[0] - 1, -1).sum(0)
        return found if self.mean is None else found + self.mean.energies(along[0])

    def trace(self) -> float:
        return sum(n * form.trace() for n, form in self.blocks)

    def part_traces(self) -> Tensor:
        return torch.stack([n * form.part_traces() for n, form in self.blocks]).sum(0)

    def part_norms2(self) -> Tensor:
        return torch.stack([n * form.part_norms2() for n, form in self.blocks]).sum(0)

    def norm2(self) -> float:
        return sum(n * form.norm2() for n, form in self.blocks)

    @property
    def norm_error(self) -> float:
        """The blocks have the same test vectors, so that their errors add up."""
        norms = [(n * form.norm2(), form.norm_error) for n, form in self.blocks]
        return sum(norm * error for norm, error in norms) / (sum(norm for norm, _ in norms) or 1.0)

    def norm2_of(self, other: Form) -> float:
        if not isinstance(other, Contrasts | Kronecker) or self._blocks_of(other) is None:
            return super().norm2_of(other)
        theirs = other.blocks if isinstance(other, Contrasts) else ((other.copies - 1, other.core), (1, other.core))
        mine = [form for _, form in self.blocks]
        return sum(n * mine[min(k, len(mine) - 1)].norm2_of(form) for k, (n, form) in enumerate(theirs))

    def _blocks_of(self, other: Form) -> list[tuple[Form, Form, int]] | None:
        """Blocks of this matrix and of another one beside each other, where it has the same layout."""
        if isinstance(other, Contrasts):
            same = other.copies == self.copies and torch.equal(other.order, self.order)
            theirs = [form for _, form in other.blocks]
        elif isinstance(other, Kronecker):
            same = other.copies == self.copies and torch.equal(other.order, self.order)
            theirs = [other.core, other.core]
        else:
            return None
        # a zero block has no product with anything
        pairs = zip(self.blocks, theirs, strict=False)
        return [(mine, their, n) for (n, mine), their in pairs] if same else None

    def inner(self, other: Form) -> float:
        if (pairs := self._blocks_of(other)) is not None:
            return sum(n * mine.inner(theirs) for mine, theirs, n in pairs)
        if isinstance(other, Factored):
            return other.inner(self)
        if self.size > DENSE_LIMIT:
            return inner_by_products(self, other)
        return float(torch.sum(self.dense() * other.dense()))

    def part_inner(self, other: Form) -> Tensor:
        if (pairs := self._blocks_of(other)) is not None:
            return torch.stack([n * mine.part_inner(theirs) for mine, theirs, n in pairs]).sum(0)
        return super().part_inner(other)

    def pairwise(self, other: Form) -> Tensor:
        if (pairs := self._blocks_of(other)) is not None:
            return torch.stack([n * mine.pairwise(theirs) for mine, theirs, n in pairs]).sum(0)
        return super().pairwise(other)

    def scaled(self, factor: float) -> Contrasts:
        return self.around(self.contrast.scaled(factor), None if self.mean is None else self.mean.scaled(factor))

    def block_sum(self, copies: int, order: Tensor) -> Form:
        """In the same layout, every block is contrast − (contrast − mean) / C."""
        if copies != self.copies or not torch.equal(order, self.order):
            return super().block_sum(copies, order)
        return weighted_sum([(float(n), form) for n, form in self.blocks])

    def _dense(self) -> Tensor:
        contrast = self.contrast.dense()
        mean = torch.zeros_like(contrast) if self.mean is None else self.mean.dense()
        common = (mean - contrast) / self.copies
        apart = torch.kron(torch.eye(self.copies, dtype=torch.float64), contrast) + common.repeat([self.copies] * 2)
        out = torch.empty_like(apart)
        out[self.order[:, None], self.order] = apart
        return out


def channel_basis(channels: int) -> Tensor:
    """An orthonormal basis as rows, (channels, channels) float64, the constant function first.

    >>> channel_basis(4)[0].tolist()
    [0.5, 0.5, 0.5, 0.5]
    """
    basis = torch.zeros(channels, channels, dtype=torch.float64)
    basis[0] = channels**-0.5
    for k in range(1, channels):  # the first k channels against the next one
        basis[k, :k], basis[k, k] = 1.0, -k
        basis[k] /= math.sqrt(k * (k + 1))
    return basis


def weighted_sum(terms: Sequence[tuple[float, Form]]) -> Form:
    """Σ w·F without its parts, by products with test vectors where the matrices are large."""
    forms = [form for _, form in terms]

    def product(V: Tensor) -> Tensor:
        return torch.stack([w * form.matvec(V) for w, form in terms]).sum(0)

    if forms[0].size <= DENSE_LIMIT:
        return Dense(torch.stack([w * form.dense() for w, form in terms]).sum(0))
    if all(isinstance(form, Probed) for form in forms):
        products = torch.stack([w * part_products(form) for w, form in terms]).sum(0)
        traces = torch.stack([w * form.part_traces() for w, form in terms]).sum(0)
        return Probed(Products(forms[0].size, product), products, traces, forms[0].counts)
    return Products(forms[0].size, product)


def behind_standardised(source: Form, stem: ConvStem | None, copies: int, order: Tensor) -> Form:
    """G from the second moment Q at the output of a standardised layer, up to the variance of its weights."""
    if stem is None:  # no window overlaps: every entry of a row is a channel of its own
        return Contrasts(source, None, copies, order)
    source = source.batched(SPREAD_PARTS)
    spread = Spread(source, stem)
    return joined_channels(spread, Centred(spread, source, stem), copies, order)


def joined_channels(contrast: Form, mean: Form | None, copies: int, order: Tensor) -> Form:
    """Both blocks in one matrix; a single channel is its own mean."""
    if copies == 1 and mean is not None:
        return Kronecker(mean, 1, order)
    return Contrasts(contrast, mean, copies, order)
