"""How much of a change of the geometry lies inside a subspace, and what a random subspace would hold."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from netgrain.experiments.theory.statements import corrected
from netgrain.geometry.correlation import Deletions, applied, distinct_pairs
from netgrain.geometry.estimate import Estimate


def random_share(k: int, d: int, spread: float) -> float:
    """E‖PDP‖²/‖D‖² over uniform k-dimensional projections P of R^d, spread = (tr D)²/‖D‖².

    E[P_ab P_cd] = α δ_ab δ_cd + β(δ_ac δ_bd + δ_ad δ_bc), fixed by tr P = k and P² = P:
    α = k(k(d+1) − 2)/N, β = k(d − k)/N, N = d(d+2)(d−1); hence (α + β) + β·spread. It is (k/d)² only for D ∝ I.

    >>> random_share(3, 3, 1.0), round(random_share(2, 10, 10.0), 6)  # D = I: spread d, share k/d of the norm
    (1.0, 0.2)
    """
    scale = d * (d + 2) * (d - 1)
    alpha, beta = k * (k * (d + 1) - 2) / scale, k * (d - k) / scale
    return alpha + beta + beta * spread


@dataclass(frozen=True)
class Inside:
    share: Estimate  # of ‖change‖² that a projection on both sides keeps
    chance: float  # what a random subspace of the same dimension keeps
    excess: Estimate  # the difference, its error that of both


def inside_and_whole(rows: Tensor, among: Sequence[int], V: Tensor) -> list[Deletions]:
    """Σₜ of ‖PDP‖², ‖D‖² and (tr D)² for D = Gᵗ⁺¹ − Gᵗ over different members, P on the columns of V (d, k).

    rows (members, snapshots, probes, d) are gradients; t and t + 1 are neighbours in `among`.
    """
    members, _, probes, _ = rows.shape
    sign = torch.tensor([1.0, -1.0], dtype=torch.float64).repeat_interleave(probes) / probes
    weights = sign.repeat(members)
    kept, total, traces = (torch.zeros(members, members, dtype=torch.float64) for _ in range(3))
    for before, after in itertools.pairwise(among):
        g = torch.cat([rows[:, after], rows[:, before]], 1).double().flatten(0, 1)
        for sums, seen in ((kept, g @ V), (total, g)):
            gram = weights[:, None] * (seen @ seen.T).square() * weights
            sums += gram.reshape(members, 2 * probes, members, 2 * probes).sum((1, 3))
        trace = (weights * g.square().sum(1)).reshape(members, -1).sum(1)
        traces += trace[:, None] * trace
    n = torch.ones(members, dtype=torch.float64)
    return [distinct_pairs(P, n) for P in (kept, total, traces)]


def change_inside(rows: Tensor, among: Sequence[int], V: Tensor) -> Inside:
    """The share of Σₜ‖Gᵗ⁺¹ − Gᵗ‖² inside the span of V's columns, over the members of one training set."""
    parts = inside_and_whole(rows, among, V)
    chance = partial(random_share, V.shape[1], V.shape[0])
    spread = float(parts[2].whole / parts[1].whole)

    def excess(inside: Tensor, norm: Tensor, trace: Tensor) -> Tensor:
        lowest = chance(0.0)
        return inside / norm - lowest - (chance(1.0) - lowest) * trace / norm

    return Inside(corrected(applied(torch.divide, *parts[:2])), chance(spread), corrected(applied(excess, *parts)))


def pooled_share(found: Sequence[tuple[float, float, float]], shapes: Sequence[tuple[int, int]]) -> Inside:
    """The same over several training sets: a ratio of sums, its error the jackknife over sets.

    found: ‖PDP‖², ‖D‖² and (tr D)² of each set. shapes: (d, k) of its subspace.
    """
    inside, norm, trace = torch.tensor(found, dtype=torch.float64).T
    ends = [(random_share(k, d, 0.0), random_share(k, d, 1.0)) for d, k in shapes]
    lowest, highest = torch.tensor(ends, dtype=torch.float64).T
    expected = lowest * norm + (highest - lowest) * trace
    total = float(norm.sum())
    chance = float(expected.sum()) / total
    return Inside(_of_sums(inside, norm), chance, _of_sums(inside - expected, norm))


def _of_sums(above: Tensor, below: Tensor) -> Estimate:
    n = len(above)
    left = (above.sum() - above) / (below.sum() - below)
    error = math.sqrt((n - 1) / n * float((left - left.mean()).square().sum())) if n > 1 else math.nan
    return Estimate(float(above.sum() / below.sum()), error, n)


def leading(values: Tensor, share: float) -> int:
    """How many of the eigenvalues, in falling order, make up this share of their sum.

    >>> leading(torch.tensor([5.0, 3.0, 1.0, 1.0]), 0.8)
    2
    """
    return min(int((values.cumsum(0) < share * values.sum() * (1 - 1e-12)).sum()) + 1, len(values))
