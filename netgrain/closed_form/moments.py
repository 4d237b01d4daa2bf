"""Second moments over a grid of positions: E[v(p) v(p')], held as small as their structure allows.

`Separable` is a sum of Kronecker products, one factor per axis: what convolutions, pools and residual sums make of the
identity as long as no activation varies over positions. `Full` is the matrix itself, one for each probe point. An axis
on which a moment is the identity is never written out, in both. Positions² are counted before anything is made of them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from netgrain.closed_form.kronecker_sums import Factors, compressed, written_out
from netgrain.families.convolution import Taps, gathered, scattered
from netgrain.runtime.memory import ask, budget

MOST_TERMS = 48  # a longer sum of Kronecker products is compressed
COPIES = 12  # matrices of the largest size that a pass holds at a time, besides those that it keeps

_kept: ContextVar[int] = ContextVar("bytes that a pass keeps", default=0)


def largest() -> int:
    """Positions of the largest `Full` moment that the budget allows.

    >>> from netgrain.runtime.memory import within
    >>> with within("4 GB"):
    ...     largest()
    6454
    """
    return math.isqrt(budget() // (8 * COPIES))


@contextmanager
def one_pass() -> Iterator[None]:
    """Inside, nothing is kept yet."""
    before = _kept.set(0)
    try:
        yield
    finally:
        _kept.reset(before)


def keep(*moments: Moment) -> None:
    """Count moments that stay until the pass is over."""
    _kept.set(_kept.get() + sum(m.values.nbytes for m in moments if isinstance(m, Full)))


def check_room(positions: int, points: int = 1) -> None:
    """Refuse matrices over so many positions that would not fit, before they are made, with the number."""
    what = f"a closed form over {positions} positions" + (f" and {points} points" if points > 1 else "")
    ask(COPIES * 8 * points * positions**2 + _kept.get(), what)


class Moment(ABC):
    """A second moment over positions; sizes are those of the position axes, in order."""

    sizes: tuple[int, ...]
    has_numbers: ClassVar[bool] = True  # not so in a dry pass, see `unwritten`

    @abstractmethod
    def scaled(self, factor: float | Tensor) -> Moment:
        """factor · M; a tensor has one number per probe point."""

    @abstractmethod
    def convolved(self, axis: int, taps: Taps, *, back: bool) -> Moment:
        """Along one axis, from the inputs of a convolution to its outputs, or back."""

    @abstractmethod
    def mapped(self, axis: int, A: Tensor, other: Tensor | None = None) -> Moment:
        """A M Aᵀ along one axis; with another map A M Cᵀ."""

    @abstractmethod
    def traced(self, axes: Sequence[int]) -> Moment:
        """The partial trace over some axes, which disappear."""

    @abstractmethod
    def with_identity(self, axes: Sequence[int], sizes: Sequence[int]) -> Moment:
        """The adjoint of `traced`: new axes (their places in the result) on which the moment is the identity."""

    @abstractmethod
    def permuted(self, order: Sequence[int]) -> Moment: ...

    @abstractmethod
    def merged(self, axis: int, count: int) -> Moment:
        """`count` neighbouring axes become one (count 0: a new axis of size one)."""

    @abstractmethod
    def split(self, axis: int, sizes: Sequence[int]) -> Moment:
        """One axis becomes several; the inverse of `merged`."""

    @abstractmethod
    def full(self) -> Full:
        """The matrix itself."""

    @abstractmethod
    def constant(self) -> Tensor | None:
        """The common value of all entries, one per probe point, if they are all equal."""

    def scaled_in_place(self, factor: float) -> Moment:
        """factor · M by who made M just now and is alone in having it."""
        return self.scaled(factor)

    def plus(self, other: Moment) -> Moment:
        if not other.has_numbers:
            return other
        if isinstance(self, Separable) and isinstance(other, Separable):
            return self.joined(other)
        return self.full().combined(other.full(), torch.add)

    def times(self, kernel: Moment) -> Moment:
        """The entrywise product with a kernel over the same positions."""
        if (value := kernel.constant()) is not None:
            return self.scaled(value)
        if (value := self.constant()) is not None:
            return kernel.scaled(value)
        return self.full().combined(kernel.full(), torch.mul)


def ones(sizes: Sequence[int]) -> Separable:
    return Separable(
        tuple(sizes),
        torch.ones(1, dtype=torch.float64),
        tuple(torch.ones(1, n, n, dtype=torch.float64) for n in sizes),
    )


def identity(sizes: Sequence[int]) -> Separable:
    return Separable(tuple(sizes), torch.ones(1, dtype=torch.float64), (None,) * len(sizes))


@dataclass(frozen=True, eq=False)
class Separable(Moment):
    """Σ_r w_r · F_r1 ⊗ F_r2 ⊗ …; a factor None is the identity in every term."""

    sizes: tuple[int, ...]
    weights: Tensor  # (terms,)
    factors: tuple[Tensor | None, ...]  # (terms, n, n) per axis

    @property
    def terms(self) -> int:
        return len(self.weights)

    def _factor(self, axis: int) -> Tensor:
        factor = self.factors[axis]
        if factor is None:
            return torch.eye(self.sizes[axis], dtype=torch.float64).expand(self.terms, -1, -1)
        return factor

    def _replaced(self, axis: int, factor: Tensor, size: int) -> Separable:
        sizes = (*self.sizes[:axis], size, *self.sizes[axis + 1 :])
        return Separable(sizes, self.weights, (*self.factors[:axis], factor, *self.factors[axis + 1 :]))

    def scaled(self, factor: float | Tensor) -> Moment:
        if isinstance(factor, Tensor):
            if factor.numel() > 1:
                return self.full().scaled(factor)
            factor = float(factor)
        return Separable(self.sizes, self.weights * factor, self.factors)

    def convolved(self, axis: int, taps: Taps, *, back: bool) -> Moment:
        move, size = (scattered, taps.size) if back else (gathered, taps.out)
        if self.factors[axis] is None:  # the identity is the same in every term
            moved = move(torch.eye(self.sizes[axis], dtype=torch.float64), 0, 1, taps).expand(self.terms, -1, -1)
        else:
            moved = move(self._factor(axis), 1, 2, taps)
        return self._replaced(axis, moved, size)

    def mapped(self, axis: int, A: Tensor, other: Tensor | None = None) -> Moment:
        return self._replaced(axis, A @ self._factor(axis) @ (A if other is None else other).T, len(A))

    def traced(self, axes: Sequence[int]) -> Moment:
        weights = self.weights
        for k in axes:
            factor = self.factors[k]
            trace = self.sizes[k] if factor is None else factor.diagonal(dim1=1, dim2=2).sum(1)
            weights = weights * trace
        kept = [k for k in range(len(self.sizes)) if k not in axes]
        return Separable(tuple(self.sizes[k] for k in kept), weights, tuple(self.factors[k] for k in kept))

    def with_identity(self, axes: Sequence[int], sizes: Sequence[int]) -> Moment:
        all_sizes, factors = list(self.sizes), list(self.factors)
        for k, n in sorted(zip(axes, sizes, strict=True)):
            all_sizes.insert(k, n)
            factors.insert(k, None)
        return Separable(tuple(all_sizes), self.weights, tuple(factors))

    def with_samples(self, count: int) -> Separable:
        """With one more axis, the last, on which all entries are the same."""
        every = torch.ones(self.terms, count, count, dtype=torch.float64)
        return Separable((*self.sizes, count), self.weights, (*self.factors, every))

    def permuted(self, order: Sequence[int]) -> Moment:
        return Separable(tuple(self.sizes[k] for k in order), self.weights, tuple(self.factors[k] for k in order))

    def merged(self, axis: int, count: int) -> Moment:
        inside = range(axis, axis + count)
        size = math.prod(self.sizes[k] for k in inside)
        merged: Tensor | None = None
        if any(self.factors[k] is not None for k in inside):
            merged = torch.ones(self.terms, 1, 1, dtype=torch.float64)
            for k in inside:
                merged = torch.einsum("rab,rcd->racbd", merged, self._factor(k)).reshape(
                    self.terms, merged.shape[1] * self.sizes[k], -1
                )
        sizes = (*self.sizes[:axis], size, *self.sizes[axis + count :])
        return Separable(sizes, self.weights, (*self.factors[:axis], merged, *self.factors[axis + count :]))

    def split(self, axis: int, sizes: Sequence[int]) -> Moment:
        all_sizes = (*self.sizes[:axis], *sizes, *self.sizes[axis + 1 :])
        factor, weights = self.factors[axis], self.weights
        if factor is not None and len(sizes) != 1:
            if factor.shape[1:] != (1, 1):
                return self.full().split(axis, sizes)
            weights, factor = weights * factor[:, 0, 0], None
        return Separable(all_sizes, weights, (*self.factors[:axis], *(factor,) * len(sizes), *self.factors[axis + 1 :]))

    def joined(self, other: Separable) -> Separable:
        factors = tuple(
            None if a is b is None else torch.cat([self._factor(k), other._factor(k)])
            for k, (a, b) in enumerate(zip(self.factors, other.factors, strict=True))
        )
        total = Separable(self.sizes, torch.cat([self.weights, other.weights]), factors)
        return total.compressed() if total.terms > MOST_TERMS else total

    def compressed(self) -> Separable:
        """Fewer terms, the same sum up to rounding."""
        written = [k for k in range(len(self.sizes)) if self.factors[k] is not None]
        if not written or self.terms == 1:
            weights = self.weights.sum(0, keepdim=True)
            return Separable(self.sizes, weights, tuple(f if f is None else f[:1] for f in self.factors))
        small = compressed(self.written_factors())
        factors: list[Tensor | None] = [None] * len(self.sizes)
        for k, factor in zip(written, small, strict=True):
            factors[k] = factor
        return Separable(self.sizes, torch.ones(len(small[0]), dtype=torch.float64), tuple(factors))

    def written_factors(self) -> Factors:
        """The axes that are not the identity, with the weights."""
        written = [f for f in self.factors if f is not None]
        if not written:
            return (self.weights.sum().reshape(1, 1, 1),)
        return (written[0] * self.weights[:, None, None], *written[1:])

    def full(self) -> Full:
        written = tuple(k for k in range(len(self.sizes)) if self.factors[k] is not None)
        sizes = [self.sizes[k] for k in written]
        check_room(math.prod(sizes))
        dense = written_out(self.written_factors())
        eye = frozenset(range(len(self.sizes))) - set(written)
        return Full(self.sizes, dense.reshape(1, *sizes, *sizes), eye)

    def constant(self) -> Tensor | None:
        total = self.weights
        for k, factor in enumerate(self.factors):
            if factor is None:
                if self.sizes[k] > 1:
                    return None
                continue
            first = factor[:, :1, :1]
            if not bool((factor == first).all()):
                return None
            total = total * first[:, 0, 0]
        return total.sum(0, keepdim=True)


@dataclass(frozen=True, eq=False)
class Full(Moment):
    """The matrix over all axes that are not the identity, for each probe point."""

    sizes: tuple[int, ...]
    values: Tensor  # (points, *sizes of the written axes, *again)
    eye: frozenset[int] = frozenset()

    @property
    def written(self) -> list[int]:
        return [k for k in range(len(self.sizes)) if k not in self.eye]

    @property
    def positions(self) -> int:
        return math.prod(self.sizes[k] for k in self.written)

    def matrices(self) -> Tensor:
        """(points, positions, positions) over the written axes."""
        return self.values.reshape(len(self.values), self.positions, self.positions)

    def spelled_out(self) -> Full:
        """With no axis left implicit."""
        return self._writing(*sorted(self.eye))

    def _pair(self, axis: int) -> tuple[int, int]:
        place = self.written.index(axis)
        return 1 + place, 1 + len(self.written) + place

    def _writing(self, *axes: int) -> Full:
        """The same with these axes written out."""
        hidden = [k for k in axes if k in self.eye]
        if not hidden:
            return self
        n, core = len(self.values), self.positions
        copies = math.prod(self.sizes[k] for k in hidden)
        check_room(copies * core, n)
        out = self.values.new_zeros(n, copies, core, copies, core)
        out.diagonal(dim1=1, dim2=3).copy_(self.matrices()[..., None].expand(n, core, core, copies))
        order = [*hidden, *self.written]
        sizes = [self.sizes[k] for k in order]
        values = _permuted(out.reshape(n, *sizes, *sizes), [order.index(k) for k in sorted(order)])
        return Full(self.sizes, values, self.eye - set(hidden))

    def scaled(self, factor: float | Tensor) -> Moment:
        if isinstance(factor, Tensor):
            factor = factor.reshape(-1, *[1] * (self.values.dim() - 1))
        return Full(self.sizes, self.values * factor, self.eye)

    def scaled_in_place(self, factor: float) -> Moment:
        self.values.mul_(factor)
        return self

    def _resized(self, axis: int, values: Tensor, size: int) -> Full:
        return Full((*self.sizes[:axis], size, *self.sizes[axis + 1 :]), values, self.eye)

    def convolved(self, axis: int, taps: Taps, *, back: bool) -> Moment:
        here = self._writing(axis)
        if taps.does_nothing:
            return here
        move, size = (scattered, taps.size) if back else (gathered, taps.out)
        check_room(size * here.positions // here.sizes[axis], len(here.values))
        return here._resized(axis, move(here.values, *here._pair(axis), taps), size)

    def mapped(self, axis: int, A: Tensor, other: Tensor | None = None) -> Moment:
        here = self._writing(axis)
        a, b = here._pair(axis)
        check_room(len(A) * here.positions // here.sizes[axis], len(here.values))
        once = torch.tensordot(here.values, A, dims=([a], [1])).movedim(-1, a)
        values = torch.tensordot(once, A if other is None else other, dims=([b], [1])).movedim(-1, b)
        return here._resized(axis, values.contiguous(), len(A))

    def traced(self, axes: Sequence[int]) -> Moment:
        values = self.values
        factor = math.prod(self.sizes[k] for k in axes if k in self.eye)
        count = len(self.written)
        for place in sorted((self.written.index(k) for k in axes if k not in self.eye), reverse=True):
            values = values.diagonal(dim1=1 + place, dim2=1 + count + place).sum(-1)
            count -= 1
        kept = [k for k in range(len(self.sizes)) if k not in axes]
        eye = frozenset(i for i, k in enumerate(kept) if k in self.eye)
        return Full(tuple(self.sizes[k] for k in kept), values * factor, eye)

    def with_identity(self, axes: Sequence[int], sizes: Sequence[int]) -> Moment:
        labels = [(n, k in self.eye) for k, n in enumerate(self.sizes)]
        for k, n in sorted(zip(axes, sizes, strict=True)):
            labels.insert(k, (n, True))
        eye = frozenset(k for k, (_, hidden) in enumerate(labels) if hidden)
        return Full(tuple(n for n, _ in labels), self.values, eye)

    def permuted(self, order: Sequence[int]) -> Moment:
        sizes = tuple(self.sizes[k] for k in order)
        eye = frozenset(i for i, k in enumerate(order) if k in self.eye)
        return Full(sizes, _permuted(self.values, [self.written.index(k) for k in order if k not in self.eye]), eye)

    def merged(self, axis: int, count: int) -> Moment:
        inside = range(axis, axis + count)
        size = math.prod(self.sizes[k] for k in inside)
        sizes = (*self.sizes[:axis], size, *self.sizes[axis + count :])
        hidden = all(k in self.eye for k in inside)
        here = self if hidden else self._writing(*inside)
        eye = frozenset(k if k < axis else k - count + 1 for k in here.eye if k not in inside)
        if hidden:
            return Full(sizes, here.values, eye | {axis})
        written = [sizes[k] for k in range(len(sizes)) if k not in eye]
        return Full(sizes, here.values.reshape(-1, *written, *written), eye)

    def split(self, axis: int, sizes: Sequence[int]) -> Moment:
        all_sizes = (*self.sizes[:axis], *sizes, *self.sizes[axis + 1 :])
        grown = len(sizes) - 1
        eye = frozenset(k if k < axis else k + grown for k in self.eye if k != axis)
        if axis in self.eye:
            return Full(all_sizes, self.values, eye | set(range(axis, axis + len(sizes))))
        written = [n for k, n in enumerate(all_sizes) if k not in eye]
        return Full(all_sizes, self.values.reshape(-1, *written, *written), eye)

    def combined(self, other: Full, operation: Callable[[Tensor, Tensor], Tensor]) -> Full:
        """The entrywise sum or product."""
        a, b = self, other
        # identity ∘ kernel keeps only the kernel's diagonal, so a common implicit axis may stay implicit
        if a.eye != b.eye:
            a, b = a.spelled_out(), b.spelled_out()
        return Full(self.sizes, operation(a.values, b.values), a.eye)

    def full(self) -> Full:
        return self

    def constant(self) -> Tensor | None:
        if any(self.sizes[k] > 1 for k in self.eye):
            return None
        flat = self.values.reshape(len(self.values), -1)
        if flat.shape[1] > 1 and not bool((flat == flat[:, :1]).all()):
            return None
        return flat[:, 0]


def _permuted(values: Tensor, order: Sequence[int]) -> Tensor:
    """(points, *axes, *axes) with the axes in another order."""
    return values.permute(0, *(1 + k for k in order), *(1 + len(order) + k for k in order)).contiguous()
