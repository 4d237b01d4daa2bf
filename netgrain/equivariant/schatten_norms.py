"""Schatten norms of the Fourier coefficients: what the training of a linear equivariant network keeps small.

|β̂|_p = (Σ_ρ d_ρ Σ_k σ_k(β̂(ρ))^p)^{1/p} with p = 2/L for depth L: for L = 1 it is √n |β|₂, for L = 2 a nuclear norm, for
L ≥ 3 a quasi-norm that rewards low rank. Without any irrep it is the Schatten norm of the n×n matrix
C(β)[x, y] = β(x⁻¹ y). Between √n (one one-dimensional irrep) and n^{1/p} (a flat spectrum) for |β|₂ = 1.

Vectors are (..., n), results (...) in double precision on the CPU.
"""

from __future__ import annotations

import torch
from torch import Tensor

from netgrain.equivariant.penalties import RANK_THRESHOLD, BlockTransform, as_transform
from netgrain.groups.group import Group
from netgrain.runtime.errors import NetgrainError


def schatten(group: Group | BlockTransform, beta: Tensor, p: float) -> Tensor:
    """Schatten (quasi-)norm of the Fourier coefficients, |β̂|_p = R_p^{1/p}.

    >>> from netgrain.groups import cyclic
    >>> delta = torch.tensor([1.0, 0, 0, 0])  # its spectrum is flat: n^{1/p}
    >>> schatten(cyclic(4), delta, 1.0).item(), round(schatten(cyclic(4), delta, 2 / 3).item(), 9)
    (4.0, 8.0)
    """
    if not p > 0:
        raise NetgrainError(f"a Schatten norm expects p > 0, found p = {p:g}.")
    return as_transform(group).norm(beta, p)


def schatten_ratio(group: Group | BlockTransform, beta: Tensor, depth: int) -> Tensor:
    """|β̂|_{2/L} / |β|₂, between √n and n^{L/2}: the quantity in the authors' plots.

    >>> from netgrain.groups import dihedral
    >>> constant = torch.ones(8)  # only the trivial irrep
    >>> round(schatten_ratio(dihedral(order=8), constant, depth=3).item() ** 2, 6)
    8.0
    """
    beta = torch.as_tensor(beta).cpu().double()
    return schatten(group, beta / torch.linalg.vector_norm(beta, dim=-1, keepdim=True), 2 / depth)


def schatten_objective(group: Group | BlockTransform, beta: Tensor, X: Tensor, y: Tensor, depth: int) -> Tensor:
    """|β̂|_{2/L} / γ with γ = min_i y_i <x_i, β>: the theorem's objective, at margin one.

    Infinite where β does not separate the data.
    """
    beta, X, y = (torch.as_tensor(v).cpu().double() for v in (beta, X, y))
    gamma = (beta @ (y[:, None] * X).T).amin(-1)
    found = schatten(group, beta, 2 / depth) / gamma
    return torch.where(gamma > 0, found, torch.inf)


def real_ratio(beta: Tensor, depth: int) -> Tensor:
    """|β|_{2/L} / |β|₂ of the entries, between 1 and n^{(L-1)/2}: wide support in real space is large.

    >>> real_ratio(torch.tensor([1.0, 0, 0, 0]), depth=3).item(), round(real_ratio(torch.ones(4), depth=3).item(), 9)
    (1.0, 4.0)
    """
    beta = torch.as_tensor(beta).cpu().double()
    unit = beta / torch.linalg.vector_norm(beta, dim=-1, keepdim=True)
    found: Tensor = (unit.abs() ** (2 / depth)).sum(-1) ** (depth / 2)
    return found


def ranks(group: Group | BlockTransform, beta: Tensor, threshold: float = RANK_THRESHOLD) -> tuple[int, ...]:
    """Rank of β̂(ρ), irrep by irrep: singular values above `threshold` times the largest of all.

    >>> from netgrain.groups import dihedral
    >>> ranks(dihedral(order=8), torch.eye(8)[0])
    (1, 1, 1, 1, 2)
    """
    transform = as_transform(group)
    values = transform.per_block(transform.singular_values(beta))
    top = max(float(v.max()) for v in values)
    return tuple(int((v > threshold * top).sum()) for v in values)


def weighted_rank(group: Group | BlockTransform, beta: Tensor, threshold: float = RANK_THRESHOLD) -> int:
    """Σ_ρ d_ρ rank β̂(ρ) = rank of C(β), what R_p tends to as p → 0; at least n/|supp β| (Meshulam)."""
    transform = as_transform(group)
    weights = transform.per_block(
        [torch.full((len(o),), c) for o, c in zip(transform.order, transform.weights, strict=True)]
    )
    return round(sum(float(c) * r for c, r in zip(weights, ranks(transform, beta, threshold), strict=True)))


def stable_rank(group: Group | BlockTransform, beta: Tensor) -> Tensor:
    """Σ_ρ d_ρ |β̂(ρ)|_F² / max_ρ |β̂(ρ)|²: a rank without a threshold, (...).

    >>> from netgrain.groups import dihedral
    >>> round(stable_rank(dihedral(order=8), torch.eye(8)[0]).item(), 9)
    8.0
    """
    transform = as_transform(group)
    return transform.power_sum(beta, 2.0) / transform.operator_norm(beta) ** 2
