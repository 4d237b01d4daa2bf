"""Sets of features → one kernel: each set centred, its products divided by their mean diagonal, all added up."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

BLOCK = 128  # rows of a symmetric matrix that are computed at once
WIDTH = 4096  # columns that are held in float64 at a time
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
    count, others = 0, 0
    for features in sets:
        if total is None:
            others = len(features) - n
            total = torch.zeros(n, others or n, dtype=torch.float64)
        if (scaled := centred_set(features, n)) is not None:
            _add_products(total, scaled, n)
            count += 1
    assert total is not None
    return _finished(total, not others), count


def centred_set(features: Tensor, n: int) -> Tensor | None:
    """A set in float64, centred and with mean square 1 over its first n rows; None for one that is constant there.

    >>> centred_set(torch.tensor([[0.0], [2.0], [4.0]]), 2).tolist()
    [[-1.0], [1.0], [3.0]]
    """
    rows = features.to(torch.float64, copy=True)
    size = mean_square(rows[:n])
    rows -= rows[:n].mean(0)
    scale = mean_square(rows[:n])
    return rows.div_(scale**0.5) if scale > CONSTANT * size else None


def mean_square(rows: Tensor) -> float:
    """The mean of ‖φ(x)‖² in float64.

    >>> mean_square(torch.tensor([[1.0, 2.0], [0.0, 1.0]]))
    3.0
    """
    total = sum(float(part.double().flatten().square().sum()) for part in rows.split(WIDTH, 1))
    return total / max(1, len(rows))


def products(features: Tensor, n: int) -> Tensor:
    """φ(x)·φ(z) in float64, (n, samples − n or n); the first n rows are X and all others Z; without others Z = X.

    >>> products(torch.tensor([[1.0, 2.0], [0.0, 1.0]]), 2).tolist()
    [[5.0, 2.0], [2.0, 1.0]]
    """
    total = torch.zeros(n, (len(features) - n) or n, dtype=torch.float64)
    _add_products(total, features, n)
    return _finished(total, len(features) == n)


def _add_products(total: Tensor, features: Tensor, n: int) -> None:
    """Add φ(x)·φ(z) to a matrix; where Z = X to its upper half, in blocks of rows."""
    for part in features.split(WIDTH, 1):
        rows = part.double()
        if len(rows) > n:
            total.addmm_(rows[:n], rows[n:].T)
            continue
        for start in range(0, n, BLOCK):
            total[start : start + BLOCK, start:].addmm_(rows[start : start + BLOCK], rows[start:].T)


def _finished(total: Tensor, symmetric: bool) -> Tensor:
    """The lower half from the upper one where Z = X."""
    if symmetric:
        for start in range(0, len(total), BLOCK):
            stop = min(start + BLOCK, len(total))
            total[stop:, start:stop] = total[start:stop, stop:].T
    return total
