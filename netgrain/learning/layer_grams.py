"""Sets of features → one kernel: each set centred, its products divided by their mean diagonal, all added up."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

CONSTANT = 1e-10  # share of the mean square below which what is left after centring is rounding


def layer_gram(sets: Iterable[Tensor], n: int) -> tuple[Tensor, int]:
    """Σ over sets of φ(x)·φ(z)/c in float64, (n, samples − n or n), and how many sets are not constant.

    The first n rows of a set are X and all others Z; without others Z = X. Centre and c, the mean of ‖φ(x)‖², are
    those of X.

    >>> gram, count = layer_gram([torch.tensor([[0.0], [2.0]]), torch.ones(2, 3)], 2)
    >>> gram.tolist(), count
    ([[1.0, -1.0], [-1.0, 1.0]], 1)
    """
    total: Tensor | None = None
    count = 0
    for features in sets:
        rows = features.double()
        x, z = rows[:n], rows[n:]
        centre = x.mean(0)
        size = float(x.square().sum(1).mean())
        x = x - centre
        scale = float(x.square().sum(1).mean())
        other = x if not len(z) else z - centre
        if total is None:
            total = torch.zeros(n, len(other), dtype=torch.float64)
        if scale > CONSTANT * size:
            total.addmm_(x, other.T, alpha=1 / scale)
            count += 1
    assert total is not None
    return total, count


def feature_gram(features: Tensor, n: int) -> Tensor:
    """φ(x)·φ(z) in float64, as they are."""
    rows = features.double()
    x, z = rows[:n], rows[n:]
    return x @ (z if len(z) else x).T
