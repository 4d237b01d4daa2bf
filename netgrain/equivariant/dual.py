"""A certificate without a solver: any weights of the data bound the optimum from below.

For a probability vector q and z = Σ_i q_i y_i x_i, every b with margins ≥ 1 has <z, b> ≥ 1, so by duality of the norms

    |b̂|_1 ≥ scale / max_ρ |ẑ(ρ)|    and, for depth 1,    |b̂|_2 ≥ scale / (Σ_ρ d_ρ |ẑ(ρ)|_F²)^{1/2}.

The softmax weights of the training loss are such a q and become optimal at the limit. For depth L ≥ 3 the first bound
still holds, because |b̂|_{2/L} ≥ |b̂|_1, but the problem is not convex and the gap need not close.
"""

from __future__ import annotations

import torch

from netgrain.equivariant.parametrisation import Array
from netgrain.equivariant.penalties import BlockTransform


def lower_bound(transform: BlockTransform, q: Array, Z: Array, depth: int) -> float:
    """A number that min |b̂|_{2/L} subject to Z b ≥ 1 cannot be below, from weights q ≥ 0 of the points."""
    if not q.sum() > 0:
        return 0.0
    z = torch.from_numpy(q @ Z / q.sum())
    size = transform.norm(z, 2.0) if depth == 1 else transform.operator_norm(z)
    return float(transform.scale / size)
