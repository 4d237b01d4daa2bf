"""What one channel of a feature map is, as a random function of position.

Channels of one layer are copies of one random function: independent weights make them so. A channel knows its second
moment E[v(p) v(p')]; how an activation's slope varies over it is asked by `slope_kernel`. Where Gaussian formulas end
(a sum with something that went through an activation, a maximum, statistics of data) it raises `NeedsMembers`, and the
pass is repeated with the channels of real members (`ObservedChannel`).

Where G is multiplied with directions, a channel also knows its `tangent`: the derivative of E[v(p) v(p')] in the input
behind p', along each of them (see `dependence`). None means zero: nothing here depends on the input.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from netgrain.closed_form.dependence import Dependence
from netgrain.closed_form.gaussian_expectations import Activation
from netgrain.closed_form.moments import Full, Moment, check_room, keep, ones
from netgrain.closed_form.unwritten import Unwritten
from netgrain.families.convolution import Taps, unfolded
from netgrain.families.initialisation import TensorLaw


class NeedsMembers(Exception):
    """The channel has no Gaussian formula here; its law has to be observed on members."""


def moved_or_none(move: Callable[[Moment], Moment], moment: Moment | None) -> Moment | None:
    return None if moment is None else move(moment)


def sum_or_none(a: Moment | None, b: Moment | None) -> Moment | None:
    return b if a is None else a if b is None else a.plus(b)


class Channel(ABC):
    """One channel over positions of the given sizes."""

    sizes: tuple[int, ...]

    @abstractmethod
    def second(self) -> Moment:
        """E[v(p) v(p')]."""

    def second_tangent(self) -> Moment | None:
        """Its derivative along directions of the input, one after the other in the place of points."""
        return None

    def traced(self, axes: list[int]) -> tuple[Moment, Moment | None]:
        """Both, traced over some axes."""
        return self.second().traced(axes), moved_or_none(lambda m: m.traced(axes), self.second_tangent())

    def mean(self) -> Tensor:
        """E[v(p)], shape (points or 1, positions)."""
        raise NeedsMembers("the mean of a channel")

    def slope_kernel(self, activation: Activation) -> Moment:
        """E[φ'(v(p)) φ'(v(p'))]."""
        raise NeedsMembers("an activation after a sum that already went through one")

    def moved(self, move: Callable[[Moment], Moment]) -> Channel:
        """After a linear map of the positions."""
        return Moved(move(self.second()), moved_or_none(move, self.second_tangent()))

    def scaled(self, factor: float) -> Channel:
        return self.moved(lambda m: m.scaled(factor))


@dataclass(frozen=True, eq=False)
class ConstantChannel(Channel):
    """The same known number at every channel and position."""

    value: float
    sizes: tuple[int, ...]

    def second(self) -> Moment:
        return ones(self.sizes).scaled(self.value**2)

    def mean(self) -> Tensor:
        return torch.full((1, 1), self.value, dtype=torch.float64)

    def slope_kernel(self, activation: Activation) -> Moment:
        slope = float(activation.derivative(torch.tensor(self.value, dtype=torch.float64)))
        return ones(self.sizes).scaled(slope**2)

    def moved(self, move: Callable[[Moment], Moment]) -> Channel:
        moved = move(ones(self.sizes))
        if self.value == 0:
            return ConstantChannel(0.0, moved.sizes)
        total = moved.constant()
        if total is None:
            return Moved(moved.scaled(self.value**2))
        return ConstantChannel(self.value * float(total) ** 0.5, moved.sizes)

    def scaled(self, factor: float) -> Channel:
        return ConstantChannel(self.value * factor, self.sizes)


@dataclass(frozen=True, eq=False)
class Points(Channel):
    """The input itself: known numbers at every position."""

    values: Tensor  # (points, *sizes) float64
    directions: Tensor | None = None  # (directions, *sizes): with one point only
    dry: bool = False  # moments are not written out (see `unwritten`)

    @property
    def sizes(self) -> tuple[int, ...]:  # type: ignore[override]
        return tuple(self.values.shape[1:])

    def second(self) -> Moment:
        return self._products(self.values, [])

    def second_tangent(self) -> Moment | None:
        return None if self.directions is None else self._products(self.directions, [])

    def traced(self, axes: list[int]) -> tuple[Moment, Moment | None]:
        return self._products(self.values, axes), (
            None if self.directions is None else self._products(self.directions, axes)
        )

    def _products(self, others: Tensor, axes: list[int]) -> Moment:
        """x(p) y(p') summed over some axes, without the matrix over them."""
        kept = [k for k in range(len(self.sizes)) if k not in axes]
        sizes = tuple(self.sizes[k] for k in kept)
        if self.dry:
            return Unwritten(sizes)
        check_room(math.prod(sizes), len(others))
        rows, columns = (
            x.permute(0, *(1 + k for k in axes), *(1 + k for k in kept)).reshape(len(x), -1, math.prod(sizes))
            for x in (self.values, others)
        )
        return Full(sizes, (rows.mT @ columns).reshape(len(others), *sizes, *sizes))

    def convolved(self, count: int, taps: Sequence[Taps]) -> tuple[Moment, Moment | None]:
        """Both traced over the first axes and after a convolution along the others, from patches: out², never in²."""
        patches = self.mapped(lambda x: _unfolded(x, count, taps))
        return patches.traced(list(range(count + len(taps))))

    def scaled(self, factor: float) -> Channel:
        return self.mapped(lambda x: x * factor)

    def mapped(self, linear: Callable[[Tensor], Tensor], shift: float = 0.0) -> Points:
        """After a linear map of (points, *sizes), and a shift."""
        directions = None if self.directions is None else linear(self.directions)
        return Points(linear(self.values) + shift, directions, self.dry)


def _unfolded(x: Tensor, count: int, taps: Sequence[Taps]) -> Tensor:
    """(points, first axes, kernel entries of each axis that windows slide along, its outputs, axes that remain)."""
    for k, along in enumerate(taps):
        x = unfolded(x, 1 + count + 2 * k, along)
    dims = range(1 + count, 1 + count + 2 * len(taps))
    return x.permute(*range(1 + count), *dims[::2], *dims[1::2], *range(dims.stop, x.dim()))


@dataclass(frozen=True, eq=False)
class GaussianChannel(Channel):
    """A Gaussian process with constant mean: what a wide layer's pre-activations become."""

    covariance: Moment
    centre: float = 0.0
    width: int = 2**31  # independent terms summed up by the layer that made it
    tangent: Moment | None = None
    cache: dict[int, tuple[Moment, Moment]] = field(default_factory=dict)
    dependences: dict[int, Dependence] = field(default_factory=dict)

    @property
    def sizes(self) -> tuple[int, ...]:  # type: ignore[override]
        return self.covariance.sizes

    def second(self) -> Moment:
        if self.centre == 0:
            return self.covariance
        return self.covariance.plus(ones(self.sizes).scaled(self.centre**2))

    def second_tangent(self) -> Moment | None:
        return self.tangent

    def dependence(self, activation: Activation) -> Dependence | None:
        """What ties slopes to gradients here; None where nothing depends on the input."""
        if self.tangent is None:
            return None
        if id(activation) not in self.dependences:
            made = Dependence(activation, self.covariance.full(), self.centre, self.tangent.full())
            self.dependences[id(activation)] = made
        return self.dependences[id(activation)]

    def mean(self) -> Tensor:
        return torch.full((1, 1), self.centre, dtype=torch.float64)

    def through(self, activation: Activation) -> tuple[Moment, Moment]:
        """E[φφ'] and E[φ'φ']; forward and backward pass ask for the same."""
        if id(activation) not in self.cache:
            self.cache[id(activation)] = self._through(activation)
            keep(self.covariance, *self.cache[id(activation)])
        return self.cache[id(activation)]

    def _through(self, activation: Activation) -> tuple[Moment, Moment]:
        if isinstance(self.covariance, Unwritten):
            return self.covariance, self.covariance
        flat = self.covariance.constant()
        if flat is not None:
            values, slopes = activation.moments(flat.reshape(-1, 1, 1), self.centre)
            every = ones(self.sizes)
            return every.scaled(values.flatten()), every.scaled(slopes.flatten())
        K = self.covariance.full().spelled_out()
        values, slopes = activation.moments(K.matrices(), self.centre)
        return Full(K.sizes, values.reshape(K.values.shape)), Full(K.sizes, slopes.reshape(K.values.shape))

    def variances(self) -> Tensor:
        """K(p, p), shape (points, positions)."""
        flat = self.covariance.constant()
        if flat is not None:
            return flat.reshape(-1, 1)
        return self.covariance.full().spelled_out().matrices().diagonal(dim1=1, dim2=2)

    def slope_kernel(self, activation: Activation) -> Moment:
        return self.through(activation)[1]

    def moved(self, move: Callable[[Moment], Moment]) -> Channel:
        if self.centre != 0:
            return super().moved(move)
        return GaussianChannel(move(self.covariance), 0.0, self.width, moved_or_none(move, self.tangent))

    def scaled(self, factor: float) -> Channel:
        tangent = moved_or_none(lambda m: m.scaled(factor**2), self.tangent)
        return GaussianChannel(self.covariance.scaled(factor**2), self.centre * factor, self.width, tangent)


@dataclass(frozen=True, eq=False)
class BiasOnly(Channel):
    """One random number per channel, the same at every position: a layer's bias where its input is zero.

    PyTorch's default bias is uniform, not Gaussian; its one-dimensional law is used as it is.
    """

    law: TensorLaw
    sizes: tuple[int, ...]
    factor: float = 1.0

    @cached_property
    def _nodes(self) -> tuple[Tensor, Tensor]:
        nodes, weights = self.law.quadrature()
        return nodes * self.factor, weights

    def second(self) -> Moment:
        return ones(self.sizes).scaled(self.factor**2 * (self.law.variance + self.law.mean**2))

    def mean(self) -> Tensor:
        return torch.full((1, 1), self.factor * self.law.mean, dtype=torch.float64)

    def through(self, activation: Activation) -> tuple[Moment, Moment]:
        _, square, slope = activation.expectation(*self._nodes)
        return ones(self.sizes).scaled(square), ones(self.sizes).scaled(slope)

    def slope_kernel(self, activation: Activation) -> Moment:
        return self.through(activation)[1]

    def moved(self, move: Callable[[Moment], Moment]) -> Channel:
        moved = move(ones(self.sizes))
        if (total := moved.constant()) is not None:
            return BiasOnly(self.law, moved.sizes, self.factor * float(total) ** 0.5)
        return Moved(moved.scaled(self.factor**2 * (self.law.variance + self.law.mean**2)))

    def scaled(self, factor: float) -> Channel:
        return BiasOnly(self.law, self.sizes, self.factor * factor)


@dataclass(frozen=True, eq=False)
class Moved(Channel):
    """Something of which only the second moment is known."""

    moment: Moment
    tangent: Moment | None = None

    @property
    def sizes(self) -> tuple[int, ...]:  # type: ignore[override]
        return self.moment.sizes

    def second(self) -> Moment:
        return self.moment

    def second_tangent(self) -> Moment | None:
        return self.tangent


@dataclass(frozen=True, eq=False)
class Activated(Channel):
    """φ of another channel."""

    activation: Activation
    of: GaussianChannel | BiasOnly

    @property
    def sizes(self) -> tuple[int, ...]:  # type: ignore[override]
        return self.of.sizes

    @cached_property
    def _second(self) -> Moment:
        return self.of.through(self.activation)[0]

    def second(self) -> Moment:
        return self._second

    def second_tangent(self) -> Moment | None:
        found = self.of.dependence(self.activation) if isinstance(self.of, GaussianChannel) else None
        return None if found is None else found.along()

    def mean(self) -> Tensor:
        if isinstance(self.of, BiasOnly):
            value = self.activation.expectation(*self.of._nodes)[0]
            return torch.full((1, 1), value, dtype=torch.float64)
        return self.activation.gaussian_mean(self.of.variances(), self.of.centre)


@dataclass(frozen=True, eq=False)
class ObservedChannel(Channel):
    """The channels of real members at real points: (points, channels, positions)."""

    values: Tensor
    sizes: tuple[int, ...]

    def second(self) -> Moment:
        raise AssertionError("observed passes carry no forward moments")


def activated(activation: Activation, channel: Channel) -> Channel:
    """The channel after an activation."""
    if isinstance(channel, ConstantChannel):
        return ConstantChannel(float(activation(torch.tensor(channel.value, dtype=torch.float64))), channel.sizes)
    if isinstance(channel, GaussianChannel | BiasOnly):
        return Activated(activation, channel)
    raise NeedsMembers("an activation of something that is not Gaussian")


def summed(a: Channel, b: Channel) -> Channel:
    """a + b for independent channels of which one is centred."""
    if isinstance(a, ConstantChannel):
        a, b = b, a
    if isinstance(b, ConstantChannel):
        if b.value == 0:
            return a
        if isinstance(a, ConstantChannel):
            return ConstantChannel(a.value + b.value, a.sizes)
        if isinstance(a, GaussianChannel):
            return GaussianChannel(a.covariance, a.centre + b.value, a.width, a.tangent)
    tangent = sum_or_none(a.second_tangent(), b.second_tangent())
    if isinstance(a, GaussianChannel) and isinstance(b, GaussianChannel):
        return GaussianChannel(a.covariance.plus(b.covariance), a.centre + b.centre, min(a.width, b.width), tangent)
    total = a.second().plus(b.second())
    if any(isinstance(p, GaussianChannel) and p.centre == 0 for p in (a, b)):
        return Moved(total, tangent)
    raise NeedsMembers("a sum of two things that both have a mean")
