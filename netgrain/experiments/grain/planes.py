"""Planes and other orthonormal directions along a grain, and levels of noise that pilots choose.

Where the paper does not say how much noise there is, a pilot chooses it: networks with seeds of their own, which no
claim uses, and a rule that does not look at what the claims are about.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from netgrain.experiments.grain.grains import Grain
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.randomness import derived_seed

PLANES = {
    "A": "u₁ and u₂ lead the spectrum",
    "B": "u₂ is the last eigenvector",
    "C": "u₂ lies outside the leading eigenspace",
    "R": "u₁ and u₂ are random",
}
LEADING = 0.99  # of the trace of G, held by the leading eigenspace
TOO_SHORT = 1e-3  # a direction of which so little is left lies in the span of the others


def plane_axes(grain: Grain, plane: str, seed: int) -> Tensor:
    """The two axes (2, *input_shape) of a plane, orthonormal: A, B and C share the first, R is drawn anew by seed."""
    if plane == "R":
        first = randomly_combined(grain.directions, seed, "first axis")
        second = randomly_combined(grain.directions, seed, "second axis")
    else:
        first = grain.direction(0, seed)
        if plane == "C":
            second = randomly_combined(grain.directions[leading(grain.values) :], seed, "axis outside")
        else:
            second = grain.direction(1 if plane == "A" else -1, seed)
    return torch.stack([first, orthogonal(second, first)])


def leading(values: Tensor, share: float = LEADING) -> int:
    """The dimension of the leading eigenspace: how many eigenvalues, the largest first, hold a share of the trace.

    >>> leading(torch.tensor([6.0, 3.0, 1.0]), share=0.8)
    2
    """
    held = values.cumsum(0) / values.sum()
    return min(int((held < share * (1 - 1e-12)).sum()) + 1, len(values) - 1)


def randomly_combined(directions: Tensor, seed: int, label: str) -> Tensor:
    """A unit vector in the span of orthonormal directions, all of them equally likely."""
    generator = torch.Generator().manual_seed(derived_seed(seed, label))
    weights = torch.randn(len(directions), generator=generator, dtype=torch.float64)
    vector: Tensor = torch.tensordot(weights / weights.norm(), directions.double(), 1)
    return vector


def orthogonal(u: Tensor, *others: Tensor) -> Tensor:
    """The part of a direction at right angles to others (which are orthonormal), of unit norm."""
    for _ in range(2):  # twice, for the rounding of the first time
        for v in others:
            u = u - (u * v).sum() * v
        length = float(u.norm())
        if length < TOO_SHORT:
            raise NetgrainError("a direction lies in the span of the others, expected a new one; choose another index.")
        u = u / length
    return u


def seen_by(grain: Grain, axes: Tensor) -> Tensor:
    """G within the span of these axes, U G Uᵀ over the largest eigenvalue of G."""
    inside = axes.flatten(1).double() @ grain.directions.flatten(1).T
    return (inside * (grain.values / grain.values[0])) @ inside.T


def largest_passing(levels: Sequence[float], passes: Callable[[float], bool]) -> tuple[float, bool]:
    """The largest level that passes and True, by bisection; the smallest and False if none does.

    Levels that are smaller than one that passes are taken to pass as well.

    >>> largest_passing([0.1, 0.2, 0.3, 0.4, 0.5], lambda level: level < 0.35)
    (0.3, True)
    >>> largest_passing([0.1, 0.2, 0.3], lambda level: False)
    (0.1, False)
    """
    levels = sorted(levels)
    low, high = 0, len(levels)  # all below `low` pass, all from `high` on do not
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if passes(levels[middle]) else (low, middle)
    return levels[max(low - 1, 0)], low > 0
