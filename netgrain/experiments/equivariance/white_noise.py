"""Products of white noise: the Fourier ratio before any training, in closed form."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from netgrain.groups.group import Group


def product_moment(d: int, factors: int, s: float) -> float:
    """E Σ_k σ_k^{2s} of a product of d × d complex Gaussian matrices with E|entry|² = 1.

    The squared singular values are a biorthogonal ensemble of λ^i and Meijer functions w_j with ∫ λ^s w_j =
    Γ(1+s)^{M−1} Γ(1+s+j) (Akemann, Kieburg and Wei 2013), so the moment is tr(A(0)⁻¹ A(s)), A_ij(s) = ∫ λ^{i+s} w_j.

    >>> product_moment(1, 3, 1.0), round(product_moment(3, 2, 1.0), 9)  # E|AB|² = d³
    (1.0, 27.0)
    """

    def table(shift: float) -> np.ndarray[Any, np.dtype[np.float64]]:
        rows = range(d)
        return np.array(
            [[math.gamma(1 + i + shift) ** (factors - 1) * math.gamma(1 + i + j + shift) for j in rows] for i in rows]
        )

    return float(np.trace(np.linalg.solve(table(0.0), table(s))))


def sampled_moment(d: int, factors: int, s: float, *, kind: int, draws: int = 4000) -> float:
    """The same for real (kind 1) and quaternionic (−1) Gaussian matrices, by a mean over draws."""
    rng = np.random.default_rng(d)
    product = np.broadcast_to(np.eye(d), (draws, d, d)).astype(complex)
    for _ in range(factors):
        if kind == 1:
            G = rng.standard_normal((draws, d, d)).astype(complex)
        else:
            half = (draws, d // 2, d // 2)
            A, B = ((rng.standard_normal(half) + 1j * rng.standard_normal(half)) / math.sqrt(2) for _ in range(2))
            G = np.concatenate([np.concatenate([A, B], 2), np.concatenate([-B.conj(), A.conj()], 2)], 1)
        product = product @ G
    return float((np.linalg.svd(product, compute_uv=False) ** (2 * s)).sum(1).mean())


def expected_ratio(group: Group, factors: int, depth: int = 3) -> float:
    """|β̂|_{2/L}/|β|₂ of β = a convolution of `factors` independent white noises, for a large group.

    The blocks of white noise of variance 1/n are Gaussian matrices with E|entry|² = 1/d, real, complex or quaternionic
    as ρ is, and then E|β|² = 1. Sums over many blocks are near their means; factors = 1 is the fully connected network.
    """
    p = 2 / depth
    kinds: dict[tuple[int, int], int] = {}
    for rho in group.irreps:
        key = (rho.dimension, rho.frobenius_schur)
        kinds[key] = kinds.get(key, 0) + 1
    total = 0.0
    for (d, kind), count in kinds.items():
        moment = product_moment(d, factors, p / 2) if kind == 0 else sampled_moment(d, factors, p / 2, kind=kind)
        total += count * d * moment * d ** (-factors * p / 2)
    return float(total ** (1 / p))
