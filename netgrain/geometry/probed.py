"""A matrix whose parts are known by their products with a few fixed random vectors.

For vectors z of independent signs E[zᵀAᵀBz] = ⟨A, B⟩, so that squared norms, correlations and their errors over members
need no part of the matrix itself, only its products. The vectors depend on the size alone: two matrices of one
size have the same ones, and ratios of norms are far more precise than each of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from netgrain.geometry.forms import Form, no_counts

VECTORS = 8


def test_vectors(size: int) -> Tensor:
    """Random signs, (8, size) float32, the same for every matrix of a size.

    >>> test_vectors(3).shape, bool((test_vectors(3).abs() == 1).all())
    (torch.Size([8, 3]), True)
    """
    generator = torch.Generator().manual_seed(size)
    return torch.randint(2, (VECTORS, size), generator=generator).float() * 2 - 1


test_vectors.__test__ = False  # type: ignore[attr-defined]  # pytest takes its name for a test


@dataclass(frozen=True, eq=False)
class Probed(Form):
    """A form together with the products of its parts with the test vectors."""

    whole: Form
    products: Tensor  # (parts, vectors, size) float32 or float64
    traces: Tensor  # (parts,)
    per_part: Tensor = field(default_factory=no_counts)  # members behind each part

    @property
    def size(self) -> int:
        return self.whole.size

    @property
    def counts(self) -> Tensor:
        return self.per_part

    def subset(self, indices: Sequence[int]) -> Form:
        """The mean of some of the parts, of which only products are known."""
        chosen = list(indices)
        return Probed(self.whole, self.products[chosen], self.traces[chosen], self.per_part[chosen])

    @property
    def mean_products(self) -> Tensor:
        weights = self.per_part.double() / self.per_part.sum()
        return torch.einsum("p,pvs->vs", weights, self.products.double())

    def matvec(self, V: Tensor) -> Tensor:
        return self.whole.matvec(V)

    def trace(self) -> float:
        return float((self.traces * self.per_part).sum() / self.per_part.sum())

    def part_traces(self) -> Tensor:
        return self.traces

    def part_norms2(self) -> Tensor:
        return self.products.double().square().sum((1, 2)) / VECTORS

    def norm2(self) -> float:
        return float(self.mean_products.square().sum()) / VECTORS

    def part_inner(self, other: Form) -> Tensor:
        return torch.einsum("pvs,vs->p", self.products.double(), products_of(other)) / VECTORS

    def pairwise(self, other: Form) -> Tensor:
        return torch.einsum("pvs,qvs->pq", self.products.double(), part_products(other)) / VECTORS

    def inner(self, other: Form) -> float:
        return float((self.mean_products * products_of(other)).sum()) / VECTORS

    def scaled(self, factor: float) -> Form:
        return Probed(self.whole.scaled(factor), self.products * factor, self.traces * factor, self.per_part)

    def _dense(self) -> Tensor:
        return self.whole.dense()


def products_of(form: Form) -> Tensor:
    """The products of a matrix with the test vectors of its size, (vectors, size)."""
    return form.mean_products if isinstance(form, Probed) else form.matvec(test_vectors(form.size))


def part_products(form: Form) -> Tensor:
    """The same for every part of it, (parts, vectors, size)."""
    if isinstance(form, Probed):
        return form.products.double()
    return torch.stack([form.part(i).matvec(test_vectors(form.size)) for i in range(form.parts)])
