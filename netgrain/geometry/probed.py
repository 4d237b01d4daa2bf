"""A matrix whose parts are known by their products with a few fixed random vectors.

For vectors z of independent signs E[zᵀAᵀBz] = ⟨A, B⟩, so that squared norms, correlations and their errors over members
need no part of the matrix itself, only its products. The vectors depend on the size alone: two matrices of one
size have the same ones, and ratios of norms are far more precise than each of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from netgrain.geometry.forms import Form, no_counts

FEWEST = 8  # vectors of a large matrix, whose many directions average themselves
ENTRIES = 2**16  # of all vectors together, where the matrix is smaller
MANY_ENTRIES = 2**22  # the same for judging a projection
MOST_COST = 750  # vectors times the cost of each
EXACT = 512  # size up to which a basis takes the place of random vectors


def test_vectors(size: int) -> Tensor:
    """Vectors z with mean ‖Az‖² = ‖A‖², (vectors, size) float32, the same for every matrix of a size.

    Random signs; a basis, for which this is exact, where the matrix is small.

    >>> test_vectors(4).tolist() == (2 * torch.eye(4)).tolist(), test_vectors(10_000).shape
    (True, torch.Size([8, 10000]))
    """
    return _basis(size) if size <= EXACT else _signs(size, max(FEWEST, ENTRIES // size))


def many_vectors(size: int, cost: int = 1) -> Tensor:
    """More of them, those of `test_vectors` first, for judging small differences; cost: of a product with one.

    >>> many_vectors(8192).shape, many_vectors(8192, cost=49).shape
    (torch.Size([512, 8192]), torch.Size([15, 8192]))
    """
    least = len(test_vectors(size))
    return _basis(size) if size <= EXACT else _signs(size, max(least, min(MANY_ENTRIES // size, MOST_COST // cost)))


def _basis(size: int) -> Tensor:
    return torch.eye(size) * math.sqrt(size)


def _signs(size: int, count: int) -> Tensor:
    generator = torch.Generator().manual_seed(size)
    signs: Tensor = torch.randint(2, (count, size), generator=generator).float() * 2 - 1
    return signs


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
    def vectors(self) -> int:
        """Number of test vectors."""
        return self.products.shape[1]

    @property
    def counts(self) -> Tensor:
        return self.per_part

    def subset(self, indices: Sequence[int]) -> Form:
        """The mean of some of the parts; only their products are known where the matrix is not held part by part."""
        chosen = list(indices)
        whole = self.whole.subset(chosen) if self.holds_parts else self.whole
        return Probed(whole, self.products[chosen], self.traces[chosen], self.per_part[chosen])

    @property
    def holds_parts(self) -> bool:
        """Whether the matrix itself is held part by part, so that parts can be multiplied with further vectors."""
        return self.whole.parts == self.parts

    @property
    def mean_products(self) -> Tensor:
        weights = self.per_part.double() / self.per_part.sum()
        return torch.einsum("p,pvs->vs", weights, self.products.double())

    def matvec(self, V: Tensor) -> Tensor:
        return self.whole.matvec(V)

    def energies(self, V: Tensor) -> Tensor:
        return self.whole.energies(V)

    def trace(self) -> float:
        return float((self.traces * self.per_part).sum() / self.per_part.sum())

    def part_traces(self) -> Tensor:
        return self.traces

    def part_norms2(self) -> Tensor:
        return self.products.double().square().sum((1, 2)) / self.vectors

    def norm2(self) -> float:
        return float(self.mean_products.square().sum()) / self.vectors

    @property
    def norm_error(self) -> float:
        if self.size <= EXACT:
            return 0.0
        squares = self.mean_products.square().sum(1)  # of each vector
        return float(squares.std() / squares.mean()) / math.sqrt(self.vectors)

    def norm2_of(self, other: Form) -> float:
        return float(products_of(other).double().square().sum()) / self.vectors

    def part_inner(self, other: Form) -> Tensor:
        return torch.einsum("pvs,vs->p", self.products.double(), products_of(other)) / self.vectors

    def pairwise(self, other: Form) -> Tensor:
        return torch.einsum("pvs,qvs->pq", self.products.double(), part_products(other)) / self.vectors

    def inner(self, other: Form) -> float:
        return float((self.mean_products * products_of(other)).sum()) / self.vectors

    def scaled(self, factor: float) -> Form:
        return Probed(self.whole.scaled(factor), self.products * factor, self.traces * factor, self.per_part)

    def _dense(self) -> Tensor:
        return self.whole.dense()


def probed(form: Form, vectors: Tensor | None = None) -> Probed:
    """A sampled matrix by the products of its parts with vectors (vectors, size), the test vectors unless given."""
    form = form.batched()
    if vectors is None:
        return Probed(form, part_products(form), form.part_traces(), form.counts)
    products = torch.stack([form.part(i).matvec(vectors).float() for i in range(form.parts)])
    return Probed(form, products, form.part_traces(), form.counts)


def products_of(form: Form) -> Tensor:
    """The products of a matrix with the test vectors of its size, (vectors, size)."""
    return form.mean_products if isinstance(form, Probed) else form.matvec(test_vectors(form.size))


def inner_by_products(a: Form, b: Form) -> float:
    """⟨A, B⟩ of large matrices, from their products with the test vectors."""
    mine = products_of(a)
    return float((mine * products_of(b)).sum()) / len(mine)


def part_products(form: Form) -> Tensor:
    """The same for every part of it, (parts, vectors, size)."""
    if isinstance(form, Probed):
        return form.products.double()
    return torch.stack([form.part(i).matvec(test_vectors(form.size)) for i in range(form.parts)])
