"""Products of means over products of means, with the error that the parts behind the means give."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from netgrain.geometry.estimate import Estimate


def ratio_of_means(above: Sequence[Tensor], below: Sequence[Tensor]) -> Estimate:
    """Product of the means of some vectors (parts,) over that of others, with its linearised standard error.

    NaN where a mean below is zero; the error is NaN where there is one part only.

    >>> ratio_of_means([torch.tensor([2.0, 4.0])], [torch.tensor([1.0, 2.0])])  # the same ratio in every part
    2 (exact)
    >>> ratio_of_means([torch.tensor([1.0, 3.0])], [torch.tensor([1.0, 1.0])])  # the error of a mean of two
    2.0 ± 1 (n = 2)
    """
    n = len(above[0])
    tops, bottoms = [t.double().mean() for t in above], [t.double().mean() for t in below]
    if any(float(b) == 0 for b in bottoms):
        return Estimate(math.nan, math.nan, n)
    value = float(math.prod(tops) / math.prod(bottoms))
    if value == 0 or n < 2:
        return Estimate(value, 0.0 if value == 0 else math.nan, n)
    relative = torch.zeros(n, dtype=torch.float64)
    for sign, vectors, means in ((1, above, tops), (-1, below, bottoms)):
        for t, m in zip(vectors, means, strict=True):
            relative = relative + sign * t.double() / m
    return Estimate(value, abs(value) * float(relative.std()) / math.sqrt(n), n)
