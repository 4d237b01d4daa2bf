"""Moments that have sizes and no numbers: a dry pass finds out what a pass would do, and does not compute it.

Which steps have rules, whether members have to be observed and how many positions vary does not depend on numbers, as
long as the probe point is not a special one. `Unwritten` stands for the moment of what depends on the point.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from netgrain.closed_form.moments import Full, Moment
from netgrain.families.convolution import Taps


@dataclass(frozen=True, eq=False)
class Unwritten(Moment):
    """Some moment over positions of these sizes; to who asks for a common value of its entries it says one."""

    sizes: tuple[int, ...]
    has_numbers: ClassVar[bool] = False

    def scaled(self, factor: float | Tensor) -> Moment:
        return self

    def convolved(self, axis: int, taps: Taps, *, back: bool) -> Moment:
        return self._resized(axis, taps.size if back else taps.out)

    def mapped(self, axis: int, A: Tensor, other: Tensor | None = None) -> Moment:
        return self._resized(axis, len(A))

    def traced(self, axes: Sequence[int]) -> Moment:
        return Unwritten(tuple(n for k, n in enumerate(self.sizes) if k not in axes))

    def with_identity(self, axes: Sequence[int], sizes: Sequence[int]) -> Moment:
        every = list(self.sizes)
        for k, n in sorted(zip(axes, sizes, strict=True)):
            every.insert(k, n)
        return Unwritten(tuple(every))

    def permuted(self, order: Sequence[int]) -> Moment:
        return Unwritten(tuple(self.sizes[k] for k in order))

    def merged(self, axis: int, count: int) -> Moment:
        size = math.prod(self.sizes[axis : axis + count])
        return Unwritten((*self.sizes[:axis], size, *self.sizes[axis + count :]))

    def split(self, axis: int, sizes: Sequence[int]) -> Moment:
        return Unwritten((*self.sizes[:axis], *sizes, *self.sizes[axis + 1 :]))

    def full(self) -> Full:
        """Who needs all numbers gets ones, on as little memory as they take."""
        one = torch.ones(1, dtype=torch.float64)
        return Full(self.sizes, one.expand(1, *self.sizes, *self.sizes))

    def constant(self) -> Tensor | None:
        return torch.ones(1, dtype=torch.float64)

    def plus(self, other: Moment) -> Moment:
        return self

    def times(self, kernel: Moment) -> Moment:
        return self

    def _resized(self, axis: int, size: int) -> Moment:
        return Unwritten((*self.sizes[:axis], size, *self.sizes[axis + 1 :]))
