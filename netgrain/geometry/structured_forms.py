"""A second-moment matrix over a grid of positions as a short sum of Kronecker products, one factor per spatial axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NoReturn

import torch
from torch import Tensor

from netgrain.closed_form.kronecker_sums import compressed, written_out
from netgrain.geometry.forms import Factored, Form, Kronecker, no_counts
from netgrain.runtime.errors import NetgrainError

SLICE = 2**20  # numbers in one buffer of a product: 8 MiB stay in the cache, where the matrix products are fastest


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

    @property
    def counts(self) -> Tensor:
        return no_counts()

    def part(self, i: int) -> NoReturn:
        raise NetgrainError("a separated matrix has no parts: nothing was sampled.")

    def subset(self, indices: Sequence[int]) -> NoReturn:
        raise NetgrainError("a separated matrix has no parts: nothing was sampled.")

    def part_traces(self) -> Tensor:
        return torch.zeros(0, dtype=torch.float64)

    def matvec(self, V: Tensor) -> Tensor:
        V = V.double()
        if self._small:
            return V @ self.dense().T
        slices = V.split(max(1, SLICE // self.size))
        return torch.cat([self._product(v) for v in slices])

    @property
    def _small(self) -> bool:
        """The dense matrix is small, and a product with it takes no more operations."""
        return self.size**2 <= 4 * SLICE and self.terms * sum(self.axes) >= self.size

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
