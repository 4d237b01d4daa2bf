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
    """Schatten (quasi-)norm of the Fourier coefficients.

    |β̂|_p = (Σ_ρ d_ρ Σ_k σ_k(β̂(ρ))^p)^{1/p}. For p = 2 it is √n |β|₂, for p = 1 a nuclear norm, for p < 1 a
    quasi-norm that rewards low rank.

    Parameters
    ----------
    group : Group or BlockTransform
        The group (or transform) whose Fourier transform is taken.
    beta : Tensor of shape (..., n)
        Vectors.
    p : float
        The power, above 0.

    Returns
    -------
    Tensor of shape (...)
        The norms, in double precision on the CPU.

    References
    ----------
    .. [1] Lawrence, Georgiev, Dienes, Kiani, "Implicit Bias of Linear Equivariant Networks", arXiv:2110.06084: the norm
       of the theorem, with p = 2/L.

    Examples
    --------
    The spectrum of the indicator of the identity is flat: n^{1/p}.

    >>> from netgrain.groups import cyclic
    >>> delta = torch.tensor([1.0, 0, 0, 0])
    >>> schatten(cyclic(4), delta, 1.0).item(), round(schatten(cyclic(4), delta, 2 / 3).item(), 9)
    (4.0, 8.0)
    """
    if not p > 0:
        raise NetgrainError(f"a Schatten norm expects p > 0, found p = {p:g}.")
    return as_transform(group).norm(beta, p)


def schatten_ratio(group: Group | BlockTransform, beta: Tensor, depth: int) -> Tensor:
    """Fourier ratio |β̂|_{2/L} / |β|₂.

    Between √n (one irrep of dimension one) and n^{L/2} (a flat spectrum): the quantity plotted in the paper (see
    `schatten`).

    Parameters
    ----------
    group : Group or BlockTransform
        The group (or transform) whose Fourier transform is taken.
    beta : Tensor of shape (..., n)
        Vectors.
    depth : int
        L.

    Returns
    -------
    Tensor of shape (...)
        The ratios, in double precision on the CPU.

    See Also
    --------
    real_ratio : The same of the entries themselves.

    Examples
    --------
    A constant has only the trivial irrep: √8.

    >>> from netgrain.groups import dihedral
    >>> constant = torch.ones(8)
    >>> round(schatten_ratio(dihedral(order=8), constant, depth=3).item() ** 2, 6)
    8.0
    """
    beta = torch.as_tensor(beta).cpu().double()
    return schatten(group, beta / torch.linalg.vector_norm(beta, dim=-1, keepdim=True), 2 / depth)


def schatten_objective(group: Group | BlockTransform, beta: Tensor, X: Tensor, y: Tensor, depth: int) -> Tensor:
    """Objective of the theorem, |β̂|_{2/L} at margin one.

    |β̂|_{2/L} / γ with γ = min_i y_i ⟨x_i, β⟩.

    Parameters
    ----------
    group : Group or BlockTransform
        The group (or transform) whose Fourier transform is taken.
    beta : Tensor of shape (..., n)
        Vectors.
    X : Tensor of shape (points, n)
        Data.
    y : Tensor of shape (points,)
        Labels, −1 or +1.
    depth : int
        L.

    Returns
    -------
    Tensor of shape (...)
        The objectives; infinite where β does not separate the data.

    Examples
    --------
    The constant β = (1, 1) has margin 1 on the first unit vector, and √2 |β|₂ = 2.

    >>> from netgrain.groups import cyclic
    >>> X, y = torch.tensor([[1.0, 0.0]]), torch.tensor([1.0])
    >>> round(schatten_objective(cyclic(2), torch.ones(2), X, y, depth=1).item(), 9)
    2.0
    """
    beta, X, y = (torch.as_tensor(v).cpu().double() for v in (beta, X, y))
    gamma = (beta @ (y[:, None] * X).T).amin(-1)
    found = schatten(group, beta, 2 / depth) / gamma
    return torch.where(gamma > 0, found, torch.inf)


def real_ratio(beta: Tensor, depth: int) -> Tensor:
    """Real ratio |β|_{2/L} / |β|₂ of the entries.

    Between 1 (one entry) and n^{(L−1)/2} (all entries alike): wide support is large.

    Parameters
    ----------
    beta : Tensor of shape (..., n)
        Vectors.
    depth : int
        L.

    Returns
    -------
    Tensor of shape (...)
        The ratios, in double precision on the CPU.

    Examples
    --------
    >>> real_ratio(torch.tensor([1.0, 0, 0, 0]), depth=3).item(), round(real_ratio(torch.ones(4), depth=3).item(), 9)
    (1.0, 4.0)
    """
    beta = torch.as_tensor(beta).cpu().double()
    unit = beta / torch.linalg.vector_norm(beta, dim=-1, keepdim=True)
    found: Tensor = (unit.abs() ** (2 / depth)).sum(-1) ** (depth / 2)
    return found


def ranks(group: Group | BlockTransform, beta: Tensor, threshold: float = RANK_THRESHOLD) -> tuple[int, ...]:
    """Ranks of the blocks β̂(ρ), irrep by irrep.

    Parameters
    ----------
    group : Group or BlockTransform
        The group (or transform) whose Fourier transform is taken.
    beta : Tensor of shape (n,)
        A vector.
    threshold : float, default 1e-3
        Count singular values above this share of the largest one of all blocks.

    Returns
    -------
    tuple of int
        One rank per irrep.

    Examples
    --------
    The indicator of the identity has full rank everywhere.

    >>> from netgrain.groups import dihedral
    >>> ranks(dihedral(order=8), torch.eye(8)[0])
    (1, 1, 1, 1, 2)
    """
    transform = as_transform(group)
    values = transform.per_block(transform.singular_values(beta))
    top = max(float(v.max()) for v in values)
    return tuple(int((v > threshold * top).sum()) for v in values)


def weighted_rank(group: Group | BlockTransform, beta: Tensor, threshold: float = RANK_THRESHOLD) -> int:
    """Rank Σ_ρ d_ρ rank β̂(ρ) of the matrix C(β)[x, y] = β(x⁻¹y).

    The limit of the power sum R_p as p → 0, and at least n/|supp β|.

    Parameters
    ----------
    group : Group or BlockTransform
        The group (or transform) whose Fourier transform is taken.
    beta : Tensor of shape (n,)
        A vector.
    threshold : float, default 1e-3
        Count singular values above this share of the largest one of all blocks.

    Returns
    -------
    int
        The rank.

    References
    ----------
    .. [1] Meshulam, "An uncertainty inequality for groups of order pq", European J. Combinatorics 13 (1992): support
       times rank is at least the order.

    Examples
    --------
    Equality holds for indicators of subgroups: rank 8/2 for {e, s}.

    >>> from netgrain.groups import dihedral
    >>> weighted_rank(dihedral(order=8), torch.tensor([1.0, 1, 0, 0, 0, 0, 0, 0]))
    4
    """
    transform = as_transform(group)
    weights = transform.per_block(
        [torch.full((len(o),), c) for o, c in zip(transform.order, transform.weights, strict=True)]
    )
    return round(sum(float(c) * r for c, r in zip(weights, ranks(transform, beta, threshold), strict=True)))


def stable_rank(group: Group | BlockTransform, beta: Tensor) -> Tensor:
    """Rank without a threshold, Σ_ρ d_ρ |β̂(ρ)|_F² / max_ρ |β̂(ρ)|².

    Parameters
    ----------
    group : Group or BlockTransform
        The group (or transform) whose Fourier transform is taken.
    beta : Tensor of shape (..., n)
        Vectors.

    Returns
    -------
    Tensor of shape (...)
        The stable ranks, between 1 and n.

    Examples
    --------
    >>> from netgrain.groups import dihedral
    >>> round(stable_rank(dihedral(order=8), torch.eye(8)[0]).item(), 9)
    8.0
    """
    transform = as_transform(group)
    return transform.power_sum(beta, 2.0) / transform.operator_norm(beta) ** 2
