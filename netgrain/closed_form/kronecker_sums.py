"""Short sums of Kronecker products Σ_r A_r ⊗ B_r (⊗ C_r …): written out, and in fewer terms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce

import torch
from torch import Tensor

ROUNDING = 1e-14  # relative; factors that differ by less are equal

Factors = tuple[Tensor, ...]  # per axis (terms, n, n), the first axis slowest


def written_out(factors: Factors) -> Tensor:
    """The matrix itself, over Π n positions."""
    terms, axes = len(factors[0]), [F.shape[1] for F in factors]
    cut = min(range(1, len(axes) + 1), key=lambda k: math.prod(axes[:k]) + math.prod(axes[k:]))
    left, right = _joined(factors[:cut], terms), _joined(factors[cut:], terms)
    n, m = left.shape[1], right.shape[1]
    flat = right.flatten(1)
    whole = torch.empty(n, m, n, m, dtype=torch.float64)
    for i in range(n):  # one row of blocks at a time: no second copy of the whole
        whole[i] = (left[:, i].T @ flat).reshape(n, m, m).transpose(0, 1)
    return whole.reshape(n * m, n * m)


def compressed(factors: Factors, tolerance: float = 1e-14) -> Factors:
    """The same matrix in fewer terms, equal to about `tolerance` of its largest entry.

    Two axes: the operator Schmidt decomposition, which has the fewest terms possible (singular values below
    tolerance · largest are dropped). One axis: a single term. More axes: terms that share a factor along some
    axis are compressed together over the others. Symmetric factors stay symmetric.
    """
    if len(factors) == 1:
        return (factors[0].sum(0, keepdim=True),)
    if len(factors) == 2:
        return _schmidt(factors[0], factors[1], tolerance)
    for axis in range(len(factors)):
        factors = _compressed_along(factors, axis, tolerance)
    return factors


def _compressed_along(factors: Factors, axis: int, tolerance: float) -> Factors:
    rest = [F for k, F in enumerate(factors) if k != axis]
    pieces = []
    for shared, members, weights in _proportional(factors[axis]):
        first, *others = (F[members] for F in rest)
        merged = list(compressed((first * weights[:, None, None], *others), tolerance))
        merged.insert(axis, shared.expand(len(merged[0]), -1, -1))
        pieces.append(merged)
    return tuple(torch.cat(stack) for stack in zip(*pieces, strict=True))


def _joined(factors: Sequence[Tensor], terms: int) -> Tensor:
    """A_r ⊗ B_r ⊗ … of every term, (terms, Π n, Π n)."""

    def kron(a: Tensor, b: Tensor) -> Tensor:
        n = a.shape[1] * b.shape[1]
        return (a[:, :, None, :, None] * b[:, None, :, None, :]).reshape(terms, n, n)

    return reduce(kron, factors, torch.ones(terms, 1, 1, dtype=torch.float64))


def _proportional(stack: Tensor) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Groups of terms whose factors are multiples of one: (that one, indices of the terms, their multiples)."""
    flat = stack.flatten(1)
    groups: list[tuple[Tensor, Tensor, Tensor]] = []
    left = flat.abs().amax(1).nonzero().flatten()
    while len(left):
        top = flat[left[0]]
        at = top.abs().argmax()
        multiples = flat[left, at] / top[at]
        off = (flat[left] - multiples[:, None] * top).abs().amax(1)
        same = off <= ROUNDING * flat[left].abs().amax(1)
        groups.append((stack[left[0]], left[same], multiples[same]))
        left = left[~same]
    return groups or [(stack[0], torch.tensor([0]), torch.ones(1, dtype=torch.float64))]


def _schmidt(A: Tensor, B: Tensor, tolerance: float) -> tuple[Tensor, Tensor]:
    """Σ_r A_r ⊗ B_r = Σ_i s_i U_i ⊗ V_i with orthonormal U and V: the SVD of the matrix (n₁², n₂²) with these terms.

    Through QR of both stacks. Their Gram matrices would lose singular values below 1e-8 of the largest.
    """
    a, b = _coordinates(A), _coordinates(B)
    (qa, ra), (qb, rb) = torch.linalg.qr(a.T), torch.linalg.qr(b.T)
    u, s, vh = torch.linalg.svd(ra @ rb.T)
    keep = max(1, int((s > tolerance * s[0]).sum()))
    root = s[:keep].sqrt()
    return _matrices(u[:, :keep].T @ qa.T * root[:, None], A), _matrices(vh[:keep] @ qb.T * root[:, None], B)


def _coordinates(stack: Tensor) -> Tensor:
    """Matrices as rows with the same inner products; of symmetric ones the upper triangle, entries beside × √2."""
    upper, lower, weight, _ = _triangle(stack.shape[1])
    flat = stack.flatten(1)
    above, below = flat[:, upper], flat[:, lower]
    if (above - below).abs().max() > ROUNDING * above.abs().max():
        return flat
    return (above + below) * (weight / 2)


def _matrices(rows: Tensor, like: Tensor) -> Tensor:
    """Back from the coordinates of `like` to matrices (terms, n, n)."""
    n = like.shape[1]
    if rows.shape[1] == n * n:
        return rows.reshape(-1, n, n)
    _, _, weight, mirror = _triangle(n)
    return (rows / weight)[:, mirror].reshape(-1, n, n)


def _triangle(n: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Of a flat matrix: places above and below the diagonal, their weight, and which of them fills each entry."""
    i, j = torch.triu_indices(n, n)
    weight = torch.full((len(i),), math.sqrt(2), dtype=torch.float64)
    weight[i == j] = 1
    number = torch.zeros(n, n, dtype=torch.int64)
    number[i, j] = number[j, i] = torch.arange(len(i))
    return i * n + j, j * n + i, weight, number.flatten()
