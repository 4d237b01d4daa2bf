"""What is not linear: how strongly the projection of samples on single directions depends on their class.

Squared distance correlation with the class, above what permuted labels give. It sees every kind of dependence, but one
direction at a time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from netgrain.geometry.estimate import Estimate
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.randomness import generator_for

FOLDS = 8  # of the samples, for error bars
MOST_TESTED = 1024  # directions
NULLS = 4  # permutations of the labels, to know what chance gives
SURE = 2.0  # times the largest dependence that permuted labels show on any direction
MUCH = 3.0  # times the sum of dependences that permuted labels show


def distance_correlation(x: Tensor, y: Tensor) -> Tensor:
    """Squared distance correlation, bias-corrected, of every column of x (samples, columns) with labels y (samples,).

    Labels are at distance 0 or 1. Independent variables give 0 on average (single values may be negative), and only
    independent ones do in the limit: it sees what is not linear, too. Székely and Rizzo 2014.

    >>> x = torch.linspace(-2, 2, 40)[:, None]  # the label depends on |x|, so it is not correlated with x
    >>> bool(distance_correlation(x, (x[:, 0].abs() > 1).long()) > 0.05)
    True
    """
    n = len(x)
    if n < 4:
        raise NetgrainError(f"expected at least 4 samples for a distance correlation, found {n}.")
    columns = (x.double() - x.double().mean(0)).T.contiguous()  # what is sorted lies side by side
    rows, total = _row_sums(columns)
    labels, y = y.unique(return_inverse=True)
    counts = torch.bincount(y, minlength=len(labels)).double()
    same = torch.zeros_like(total)
    for c in range(len(labels)):
        same += _row_sums(columns[:, y == c])[1]
    b_rows = (n - counts)[y]
    b_total = b_rows.sum()
    squares = 2 * n * columns.square().sum(1)  # Σ (x_i − x_j)², the columns being centred
    across = _unbiased(total - same, rows @ b_rows, total * b_total, n)
    own = _unbiased(squares, rows.square().sum(1), total.square(), n)
    own_b = _unbiased(b_total, b_rows.square().sum(), b_total.square(), n)
    scale = own * own_b
    return torch.where(scale > 0, across / scale.clamp(min=1e-300).sqrt(), torch.zeros_like(across))


def _row_sums(columns: Tensor) -> tuple[Tensor, Tensor]:
    """Σ_j |x_i − x_j| for every column and i (columns, samples), and their sum: by sorting, without all pairs."""
    n = columns.shape[1]
    order = torch.from_numpy(np.argsort(columns.numpy(), axis=1))  # several times as fast as torch's
    ascending = columns.gather(1, order)
    place = torch.arange(n, dtype=torch.float64)
    sums = (2 * place + 2 - n) * ascending - 2 * ascending.cumsum(1) + ascending.sum(1, keepdim=True)
    return torch.empty_like(columns).scatter_(1, order, sums), sums.sum(1)


def _unbiased(pairs: Tensor, rows: Tensor, totals: Tensor, n: int) -> Tensor:
    """The inner product of two U-centred distance matrices, from Σ a_ij b_ij, Σ a_i. b_i. and a.. b.. ."""
    return (pairs - 2 * rows / (n - 2) + totals / ((n - 1) * (n - 2))) / (n * (n - 3))


@dataclass(frozen=True, eq=False)
class Dependence:
    """The dependence between label and single directions, and what it would be without parts of the samples."""

    tested: Tensor  # indices of directions
    weights: Tensor  # for how many directions each stands
    found: Tensor  # squared distance correlation above chance, 0 for independence
    without: list[Tensor]  # the same without each of FOLDS parts of the samples
    shown: bool  # whether it is more than permuted labels give

    @classmethod
    def nothing(cls) -> Dependence:
        """Where there are no classes."""
        return cls(torch.zeros(0, dtype=torch.int64), torch.zeros(0), torch.zeros(0, dtype=torch.float64), [], False)

    def located(self, values: Tensor, leading: int, mean: float) -> tuple[Estimate, Estimate]:
        """The share of the dependence in the leading directions, and the reaction; errors by the jackknife."""
        inside = (self.tested < leading).double()
        relative = values[self.tested] / mean

        def both(found: Tensor) -> tuple[float, float]:
            p = found * self.weights
            if not float(p.sum()) > 0:
                return math.nan, math.nan
            p = p / p.sum()
            return float((p * inside).sum()), float((p * relative).sum())

        value = both(self.found)
        deleted = torch.tensor([both(w) for w in self.without], dtype=torch.float64).reshape(-1, 2)  # (parts, 2)
        n = len(deleted)
        errors = ((n - 1) * deleted.var(0, correction=0)).sqrt().tolist()
        return Estimate(value[0], errors[0], n), Estimate(value[1], errors[1], n)


def directions_to_test(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """At most MOST_TESTED of so many directions: the leading half, which matters most, and a random choice of others.

    With them for how many directions each stands.
    """
    if count <= MOST_TESTED:
        return torch.arange(count), torch.ones(count, dtype=torch.float64)
    first = MOST_TESTED // 2
    rest = first + torch.randperm(count - first, generator=generator)[: MOST_TESTED - first].sort().values
    weights = torch.ones(MOST_TESTED, dtype=torch.float64)
    weights[first:] = (count - first) / (MOST_TESTED - first)
    return torch.cat([torch.arange(first), rest]), weights


def dependence(coordinates: Tensor, y: Tensor, *, seed: int = 0) -> Dependence:
    """Of classes y on coordinates (samples, directions), the samples being in random order."""
    generator = generator_for(seed, "probed directions")
    tested, weights = directions_to_test(coordinates.shape[1], generator)
    projected = coordinates[:, tested]
    found = distance_correlation(projected, y)
    nulls = torch.stack(
        [distance_correlation(projected, y[torch.randperm(len(y), generator=generator)]) for _ in range(NULLS)]
    )
    threshold = 2 * float(nulls.square().mean().sqrt())
    by_chance = (((nulls - threshold).clamp(min=0)) @ weights).max()
    above = (found - threshold).clamp(min=0)
    shown = float(found.max()) > SURE * max(float(nulls.max()), threshold) or float(above @ weights) > MUCH * float(
        by_chance + threshold
    )
    without = []
    for part in torch.arange(len(y)).chunk(FOLDS):
        kept = torch.ones(len(y), dtype=torch.bool)
        kept[part] = False
        # what chance gives falls as one over the number of samples
        chance = threshold * len(y) / int(kept.sum())
        without.append((distance_correlation(projected[kept], y[kept]) - chance).clamp(min=0))
    return Dependence(tested, weights, above, without, bool(shown))
