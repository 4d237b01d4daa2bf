"""Functions on a group with a known structure: of low rank in Fourier space, sparse, or neither."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from netgrain.groups.group import Group

EQUAL = 1e-6  # singular values that agree to this share belong together


def low_rank(group: Group, rank: int, rng: np.random.Generator) -> Tensor:
    """A random real function with 0 < Σ_ρ d_ρ rank f̂(ρ) ≤ rank, of unit length.

    The singular values of C[x, y] = f(x⁻¹y) are those of all f̂(ρ), each d_ρ times, and setting some of them to zero
    gives the matrix of another real function if equal ones share their fate. Of white noise the largest are kept, as
    many as fit; if a block in use is larger than `rank`, the trivial irrep, which always fits, remains.
    """
    f = torch.from_numpy(rng.standard_normal(group.order))
    U, s, V = torch.linalg.svd(f[group.cayley[group.inverse]])
    kept, used, at = torch.zeros_like(s), 0, 0
    while at < len(s):
        size = int((s[at:] > s[at] * (1 - EQUAL)).sum())
        if used + size <= rank:
            kept[at : at + size] = s[at : at + size]
            used += size
        at += size
    return _unit(((U * kept) @ V)[0])


def sparse(order: int, entries: int, rng: np.random.Generator) -> Tensor:
    """A function with this many entries ±1, else zero, of unit length."""
    f = torch.zeros(order, dtype=torch.float64)
    places = torch.from_numpy(rng.choice(order, entries, replace=False))
    f[places] = torch.from_numpy(rng.choice([-1.0, 1.0], entries))
    return _unit(f)


def dense(order: int, rng: np.random.Generator) -> Tensor:
    """White noise of unit length."""
    return _unit(torch.from_numpy(rng.standard_normal(order)))


def _unit(f: Tensor) -> Tensor:
    return torch.nn.functional.normalize(f, dim=0, eps=0.0)


def disagreement(a: Tensor, b: Tensor) -> float:
    """P(sign⟨x, a⟩ ≠ sign⟨x, b⟩) for x ~ N(0, I): the angle between them over π, exactly.

    >>> round(disagreement(torch.tensor([1.0, 0.0]), torch.tensor([1.0, 1.0])), 6)
    0.25
    """
    u, v = _unit(a.double()), _unit(b.double())
    return 2 * math.atan2(float((u - v).norm()), float((u + v).norm())) / math.pi


def support(beta: Tensor, threshold: float) -> int:
    """The number of entries above this share of the largest one."""
    return int((beta.abs() > threshold * beta.abs().max()).sum())
