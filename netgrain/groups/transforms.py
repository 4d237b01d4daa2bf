"""How a group is transformed: dense matrices, FFT, products and little groups (Mackey), behind one interface.

A transform turns n numbers into n numbers, the entries of all blocks. It computes them in an order of its own (`raw`)
and says where each belongs (`layout`); the permutation is applied once, at the end. No transform stores more than it
must: that of an abelian group stores nothing, a product its factors, a semidirect product of an abelian group a
permutation.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from netgrain.groups.axioms import Ints
from netgrain.groups.irreps import Complex


class Transform(ABC):
    """The transform of one group and its inverse.

    sizes:   (d, number of irreps of that dimension), d ascending.
    layout:  (n,), where in `raw` the entries of all blocks are, irrep by irrep, row by row.
    """

    order: int
    sizes: tuple[tuple[int, int], ...]
    layout: Ints

    @abstractmethod
    def raw(self, f: Tensor) -> Tensor:
        """Entries of Σ_g f(g) ρ(g) for all ρ: (..., n), real or complex, to (..., n) complex."""

    @abstractmethod
    def back(self, entries: Tensor) -> Tensor:
        """Σ_ρ (d/n) tr(block ρ(g)⁺): (..., n) complex, the inverse of raw."""

    @abstractmethod
    def characters(self, elements: Ints) -> list[Complex]:
        """For each size the characters at some elements, (count, elements)."""

    @abstractmethod
    def matrices(self, size: int, slot: int, elements: Ints) -> Complex:
        """ρ(g) at some elements of irrep `slot` among those of `sizes[size]`, (elements, d, d)."""


class _Permuted(torch.autograd.Function):
    """x permuted along one axis; its adjoint is the inverse permutation, far cheaper than a scatter."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, index: Tensor, back: Tensor, dim: int) -> Tensor:
        return x.index_select(dim, index)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        _, ctx.index, ctx.back, ctx.dim = inputs

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return permuted(grads[0], ctx.back, ctx.index, ctx.dim), None, None, None

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        return permuted(tangents[0], ctx.index, ctx.back, ctx.dim)


def permuted(x: Tensor, index: Tensor, back: Tensor, dim: int = -1) -> Tensor:
    """x[..., index] along axis dim < 0, where back[index[i]] = i."""
    return _Permuted.apply(x, index.to(x.device), back.to(x.device), dim)  # type: ignore[no-any-return, no-untyped-call]


def complex_dtype(dtype: torch.dtype) -> torch.dtype:
    return torch.complex64 if dtype in (torch.float32, torch.complex64) else torch.complex128


class Constant:
    """A complex array as a tensor of whatever type and device is asked for, converted once."""

    def __init__(self, values: Complex) -> None:
        self.values = torch.from_numpy(np.ascontiguousarray(values, dtype=np.complex128))
        self._kept: dict[tuple[torch.dtype, torch.device], Tensor] = {}

    def like(self, x: Tensor) -> Tensor:
        key = (complex_dtype(x.dtype), x.device)
        if key not in self._kept:
            self._kept[key] = self.values.to(dtype=key[0], device=key[1])
        return self._kept[key]

    def times(self, x: Tensor) -> Tensor:
        """x @ values, in real arithmetic if x is real."""
        W = self.like(x)
        if x.is_complex():
            return x @ W
        pairs = torch.view_as_real(W).flatten(-2)  # (n, 2m)
        return torch.view_as_complex((x @ pairs).unflatten(-1, (-1, 2)))


class DenseTransform(Transform):
    """Irreps as stored matrices: n² complex numbers in all."""

    def __init__(self, irreps: Sequence[Complex]) -> None:
        n = self.order = len(irreps[0])
        self.layout = np.arange(n)
        dimensions = [irrep.shape[-1] for irrep in irreps]
        self.sizes = tuple((d, dimensions.count(d)) for d in sorted(set(dimensions)))
        whole = np.empty((n, n), dtype=np.complex128)  # (elements, entries)
        self._stacked, start = [], 0  # (n, count, d, d) for every size: parts of the whole
        for d, k in self.sizes:
            part = whole[:, start : start + k * d * d].reshape(n, k, d, d)
            for slot, irrep in enumerate(r for r in irreps if r.shape[-1] == d):
                part[:, slot] = irrep
            self._stacked.append(part)
            start += k * d * d
        self._whole = Constant(whole)
        self._weights = Constant(np.concatenate([np.full(k * d * d, d / n) for d, k in self.sizes]))

    def raw(self, f: Tensor) -> Tensor:
        return self._whole.times(f)

    def back(self, entries: Tensor) -> Tensor:
        return (entries * self._weights.like(entries)) @ self._whole.like(entries).mH  # tr(B ρ⁺) = Σ_ij B_ij conj(ρ_ij)

    def characters(self, elements: Ints) -> list[Complex]:
        return [np.trace(s[elements], axis1=-2, axis2=-1).T for s in self._stacked]

    def matrices(self, size: int, slot: int, elements: Ints) -> Complex:
        return np.asarray(self._stacked[size][elements, slot])


def by_dimension(irreps: Sequence[Complex]) -> list[Complex]:
    """Irreps (n, d, d) of equal d side by side, (n, count, d, d), d ascending."""
    dimensions = sorted({irrep.shape[-1] for irrep in irreps})
    return [np.stack([r for r in irreps if r.shape[-1] == d], axis=1) for d in dimensions]


class FFT(Transform):
    """An abelian group C_{m₁} × C_{m₂} × …, with ρ_k(g) = exp(−2πi Σ kᵢgᵢ/mᵢ): the transform is fftn itself."""

    def __init__(self, moduli: tuple[int, ...]) -> None:
        self.moduli = moduli
        self.order = int(np.prod(moduli))
        self.sizes = ((1, self.order),)
        self.layout = np.arange(self.order)
        self._roots = [np.exp(-2j * np.pi * np.arange(m) / m) for m in moduli]

    def along(self, f: Tensor, dim: int, *, back: bool = False) -> Tensor:
        """fftn (or its inverse) over one axis of length n, in place of it."""
        split = f.unflatten(dim, self.moduli)
        dims = tuple(range(dim - len(self.moduli) + 1, dim + 1))  # dim is negative
        done = torch.fft.ifftn(split, dim=dims) if back else torch.fft.fftn(split, dim=dims)
        flat: Tensor = done.flatten(dims[0], dims[-1])
        return flat

    def raw(self, f: Tensor) -> Tensor:
        return self.along(f, -1)

    def back(self, entries: Tensor) -> Tensor:
        return self.along(entries, -1, back=True)

    def values(self, frequencies: Ints, elements: Ints) -> Complex:
        """ψ_k(g), (frequencies, elements), with the exact arguments of the roots of unity."""
        out = np.ones((len(frequencies), len(elements)), dtype=np.complex128)
        ks, gs = np.unravel_index(frequencies, self.moduli), np.unravel_index(elements, self.moduli)
        for k, g, m, roots in zip(ks, gs, self.moduli, self._roots, strict=True):
            out *= roots[np.outer(k, g) % m]
        return out

    def characters(self, elements: Ints) -> list[Complex]:
        return [self.values(np.arange(self.order), elements)]

    def matrices(self, size: int, slot: int, elements: Ints) -> Complex:
        return np.asarray(self.values(np.array([slot]), elements)[0][:, None, None])


class Gathered(Transform):
    """A transform whose irreps come in pieces; pieces of equal dimension stand together."""

    def _arrange(self, places: Sequence[Ints]) -> None:
        """places: for every piece where in `raw` its entries are, (count, d, d)."""
        self._counts = [len(p) for p in places]
        dimensions = sorted({p.shape[-1] for p in places})
        self._members = [[i for i, p in enumerate(places) if p.shape[-1] == d] for d in dimensions]
        self.sizes = tuple(
            (d, sum(len(places[i]) for i in members)) for d, members in zip(dimensions, self._members, strict=True)
        )
        self.layout = np.concatenate([places[i].ravel() for members in self._members for i in members])

    def _joined(self, pieces: Sequence[Complex]) -> list[Complex]:
        return [np.concatenate([pieces[i] for i in members]) for members in self._members]

    def _piece(self, size: int, slot: int) -> tuple[int, int]:
        """Piece and place in it of an irrep."""
        for i in self._members[size]:
            if slot < self._counts[i]:
                return i, slot
            slot -= self._counts[i]
        raise IndexError(slot)


class Product(Gathered):
    """A direct product: its irreps are tensor products, its transform one transform along each axis."""

    def __init__(self, left: Transform, right: Transform) -> None:
        self.left, self.right = left, right
        self.order = left.order * right.order
        self._pairs = [(i, j) for i in range(len(left.sizes)) for j in range(len(right.sizes))]
        lefts, rights = entries_by_size(left), entries_by_size(right)
        # (k, a, a') and (l, b, b') are entry (ab, a'b') of irrep kl
        both = [
            lefts[i][:, None, :, None, :, None] * right.order + rights[j][None, :, None, :, None, :]
            for i, j in self._pairs
        ]
        self._arrange([b.reshape(len(b) * b.shape[1], b.shape[2] * b.shape[3], -1) for b in both])

    def raw(self, f: Tensor) -> Tensor:
        g = self.right.raw(f.unflatten(-1, (self.left.order, self.right.order)))
        if isinstance(self.left, FFT):
            return self.left.along(g, -2).flatten(-2)
        return self.left.raw(g.mT).mT.flatten(-2)

    def back(self, entries: Tensor) -> Tensor:
        g = entries.unflatten(-1, (self.left.order, self.right.order))
        g = self.left.along(g, -2, back=True) if isinstance(self.left, FFT) else self.left.back(g.mT).mT
        return self.right.back(g).flatten(-2)

    def characters(self, elements: Ints) -> list[Complex]:
        left = self.left.characters(elements // self.right.order)
        right = self.right.characters(elements % self.right.order)
        return self._joined([(left[i][:, None] * right[j][None]).reshape(-1, len(elements)) for i, j in self._pairs])

    def matrices(self, size: int, slot: int, elements: Ints) -> Complex:
        piece, place = self._piece(size, slot)
        i, j = self._pairs[piece]
        k, l = divmod(place, self.right.sizes[j][1])
        A = self.left.matrices(i, k, elements // self.right.order)
        B = self.right.matrices(j, l, elements % self.right.order)
        d = A.shape[-1] * B.shape[-1]
        return np.asarray(np.einsum("gij,gkl->gikjl", A, B).reshape(len(elements), d, d))


def entries_by_size(transform: Transform) -> list[Ints]:
    """The layout of a transform, (count, d, d) for every size."""
    ends = np.cumsum([k * d * d for d, k in transform.sizes])
    return [
        part.reshape(k, d, d)
        for part, (d, k) in zip(np.split(transform.layout, ends[:-1]), transform.sizes, strict=True)
    ]
