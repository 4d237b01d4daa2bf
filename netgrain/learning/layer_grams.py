"""Sets of features → one kernel: each set centred, its products divided by their mean diagonal, all added up."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

BLOCK = 128  # rows of a symmetric matrix that are computed at once
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
        x = rows[:n]
        centre = x.mean(0)
        size = float(x.square().sum(1).mean())
        rows = rows - centre
        scale = float(rows[:n].square().sum(1).mean())
        if total is None:
            total = torch.zeros(n, (len(rows) - n) or n, dtype=torch.float64)
        if scale > CONSTANT * size:
            total.add_(products(rows, n), alpha=1 / scale)
            count += 1
    assert total is not None
    return total, count


def products(features: Tensor, n: int) -> Tensor:
    """φ(x)·φ(z) in float64, (n, samples − n or n); the first n rows are X and all others Z; without others Z = X.

    >>> products(torch.tensor([[1.0, 2.0], [0.0, 1.0]]), 2).tolist()
    [[5.0, 2.0], [2.0, 1.0]]
    """
    rows = features.double()
    if len(rows) > n:
        return rows[:n] @ rows[n:].T
    found = torch.empty(n, n, dtype=torch.float64)
    for start in range(0, n, BLOCK):  # the upper half alone
        stop = min(start + BLOCK, n)
        found[start:stop, start:] = rows[start:stop] @ rows[start:].T
        found[stop:, start:stop] = found[start:stop, stop:].T
    return found
