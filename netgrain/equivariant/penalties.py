"""What each linear network penalises: the singular values of its predictor, in the blocks of its own transform.

A `BlockTransform` maps β to blocks with weights c_b so that <f, h> = (1/scale) Σ_b c_b Re tr(f̂_bᴴ ĥ_b), and

    R_p(β) = Σ_b c_b Σ_k σ_k(β̂_b)^p,    min {½ Σ_l |w_l|² : network(w) = β} = (L/(2·scale)) R_{2/L}(β).

| network | blocks | c | scale |
| --- | --- | --- | --- |
| group CNN | β̂(ρ) = Σ_g β(g) ρ(g), d_ρ × d_ρ | d_ρ | order |
| circular CNN | the DFT, 1 × 1 | 1 | n |
| diagonal | the entries, 1 × 1 | 1 | 1 |
| fully connected | β itself, 1 × n | 1 | 1 |
| spherical, l < B | β̂(l), (2l+1) × (2l+1) | 2l + 1 | 1 |
| sphere, l < B | β_l/√(2l+1), a column | 2l + 1 | 1 |
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from netgrain.groups.group import Group
from netgrain.runtime.errors import NetgrainError

RANK_THRESHOLD = 1e-3  # singular values below this share of the largest count as zero


@dataclass(frozen=True, eq=False)
class BlockTransform:
    """A linear map of vectors into blocks whose singular values are measured.

    ⟨f, h⟩ = (1/scale) Σ_b c_b Re tr(f̂_bᴴ ĥ_b). Equal blocks are stacked in families: f (..., n) becomes one
    (..., count, a, b) per family. For a group the blocks are f̂(ρ), c = d_ρ and scale = order.

    Parameters
    ----------
    name : str
        Name of the transform.
    n : int
        Length of the vectors.
    weights : tuple of float
        c, one per family.
    scale : float
        The scale of the inner product.
    into_blocks : callable
        Maps a Tensor (..., n) to a list of families.
    order : tuple of tuples of int
        The places of the blocks of each family in the list of all blocks.

    See Also
    --------
    spherical_transform : The transform of band-limited functions on SO(3).
    """

    name: str
    n: int
    weights: tuple[float, ...]  # c, one per family
    scale: float
    into_blocks: Callable[[Tensor], list[Tensor]]
    order: tuple[tuple[int, ...], ...]  # the places of the blocks of each family in the list of all blocks

    def __repr__(self) -> str:
        return f"BlockTransform({self.name}, {sum(map(len, self.order))} blocks)"

    def blocks(self, f: Tensor) -> list[Tensor]:
        """Blocks f̂_b of vectors, family by family.

        Parameters
        ----------
        f : Tensor of shape (..., n)
            The vectors.

        Returns
        -------
        list of Tensor of shape (..., count, a, b)
            The blocks, in double precision on the CPU, wherever f is.
        """
        f = torch.as_tensor(f).cpu()
        if f.shape[-1] != self.n:
            raise NetgrainError(f"{self.name} expects vectors of length {self.n}, found {f.shape[-1]}.")
        return self.into_blocks(f.to(torch.float64))

    def singular_values(self, f: Tensor) -> list[Tensor]:
        """Singular values of the blocks, descending.

        Parameters
        ----------
        f : Tensor of shape (..., n)
            The vectors.

        Returns
        -------
        list of Tensor of shape (..., count, min(a, b))
            One per family.
        """
        return [_singular_values(block) for block in self.blocks(f)]

    def power_sum(self, f: Tensor, p: float) -> Tensor:
        """Power sum of the singular values, R_p = Σ_b c_b Σ_k σ_k^p.

        Parameters
        ----------
        f : Tensor of shape (..., n)
            The vectors.
        p : float
            The power.

        Returns
        -------
        Tensor of shape (...)
            R_p of every vector.
        """
        sums = [c * (s**p).sum((-1, -2)) for c, s in zip(self.weights, self.singular_values(f), strict=True)]
        return torch.stack(sums).sum(0)

    def norm(self, f: Tensor, p: float) -> Tensor:
        """Schatten norm R_p^{1/p} of the blocks; a quasi-norm for p < 1.

        Parameters
        ----------
        f : Tensor of shape (..., n)
            The vectors.
        p : float
            The power.

        Returns
        -------
        Tensor of shape (...)
            The norm of every vector.
        """
        return self.power_sum(f, p) ** (1 / p)

    def operator_norm(self, f: Tensor) -> Tensor:
        """Largest singular value of all blocks.

        Parameters
        ----------
        f : Tensor of shape (..., n)
            The vectors.

        Returns
        -------
        Tensor of shape (...)
            The norm of every vector.
        """
        return torch.stack([s.amax((-1, -2)) for s in self.singular_values(f)]).amax(0)

    def per_block(self, families: Sequence[Tensor]) -> list[Tensor]:
        """Stacked families as a list of all blocks.

        Parameters
        ----------
        families : sequence of Tensor of shape (count, ...)
            One per family.

        Returns
        -------
        list of Tensor
            One entry per block, in the order of the irreps.
        """
        found: dict[int, Tensor] = {}
        for places, family in zip(self.order, families, strict=True):
            found |= dict(zip(places, family.unbind(0), strict=True))
        return [found[i] for i in range(len(found))]


def group_transform(group: Group) -> BlockTransform:
    """The Fourier transform of a finite group: c = d_ρ, scale = order.

    >>> from netgrain.groups import cyclic
    >>> group_transform(cyclic(4)).norm(torch.tensor([1.0, 0, 0, 0]), 1.0).item()  # a flat spectrum of four ones
    4.0
    """
    stacks = group.fourier(torch.zeros(group.order, dtype=torch.float64)).stacks
    starts = [0, *itertools.accumulate(stack.shape[-3] for stack in stacks)]
    return BlockTransform(
        f"the group {group.name}",
        group.order,
        tuple(float(stack.shape[-1]) for stack in stacks),
        group.order,
        lambda f: list(group.fourier(f).stacks),
        tuple(tuple(range(a, b)) for a, b in itertools.pairwise(starts)),
    )


def diagonal_transform(n: int) -> BlockTransform:
    """The entries themselves: R_p = Σ |β_i|^p."""
    return BlockTransform("the diagonal network", n, (1.0,), 1.0, lambda f: [f[..., :, None, None]], (tuple(range(n)),))


def euclidean_transform(n: int) -> BlockTransform:
    """One block, the vector: R_p = |β|₂^p."""
    return BlockTransform("the fully connected network", n, (1.0,), 1.0, lambda f: [f[..., None, None, :]], ((0,),))


def matrix_transform(sizes: Sequence[int], weights: Sequence[float], name: str = "the block network") -> BlockTransform:
    """Square real blocks in isometric coordinates: f = (√c_b f̂_b)_b flattened, <f, h> the plain inner product."""
    ends = [0, *itertools.accumulate(size * size for size in sizes)]

    def transform(f: Tensor) -> list[Tensor]:
        parts = [f[..., a:b] / math.sqrt(c) for (a, b), c in zip(itertools.pairwise(ends), weights, strict=True)]
        return [v.reshape(*f.shape[:-1], 1, d, d) for v, d in zip(parts, sizes, strict=True)]

    return BlockTransform(
        name, ends[-1], tuple(map(float, weights)), 1.0, transform, tuple((i,) for i in range(len(sizes)))
    )


def column_transform(sizes: Sequence[int], weights: Sequence[float], name: str) -> BlockTransform:
    """Columns in isometric coordinates: f = (√c_b f̂_b)_b, each f̂_b a vector, whose singular value is its length."""

    def transform(f: Tensor) -> list[Tensor]:
        parts = f.split(list(sizes), -1)
        return [v[..., None, :, None] / math.sqrt(c) for v, c in zip(parts, weights, strict=True)]

    return BlockTransform(
        name, sum(sizes), tuple(map(float, weights)), 1.0, transform, tuple((i,) for i in range(len(sizes)))
    )


def as_transform(group: Group | BlockTransform) -> BlockTransform:
    return group if isinstance(group, BlockTransform) else group_transform(group)


def _singular_values(block: Tensor) -> Tensor:
    values: Tensor
    if 1 in block.shape[-2:]:
        values = torch.linalg.vector_norm(block, dim=(-2, -1))[..., None]
    else:
        values = torch.linalg.svdvals(block)
    return values
