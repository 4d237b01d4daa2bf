"""Feature maps during a pass: how tensor axes are made of channels and positions, and the gradients that meet there.

Every tensor axis is a product of *atoms*: the channel atom (whose entries are copies of one random function) and
position atoms. Reshaping, permuting and flattening only regroup atoms; convolutions, pools and slices act on one of
them. Where several samples pass together, for kernels over them, their atom is the last one and on no axis.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from torch import Tensor

from netgrain.closed_form.channels import Channel, ObservedChannel, Points, moved_or_none, sum_or_none
from netgrain.closed_form.gaussian_expectations import Activation
from netgrain.closed_form.moments import Moment
from netgrain.families.trace import Step, Unsupported

CHANNEL = -1
Axes = tuple[tuple[int, ...], ...]
StepKind = Literal["exact", "wide limit", "observed", "local"]  # how well a step is followed


@dataclass(frozen=True, eq=False)
class Slope:
    """A gradient was multiplied by φ' of this channel."""

    activation: Activation
    of: Channel
    step: Step


@dataclass(frozen=True, eq=False)
class Gain:
    """A gradient was multiplied by real numbers (a batch norm with data statistics, a gate)."""

    values: Tensor  # (points or 1, channels, positions or 1)
    step: Step


@dataclass(frozen=True, eq=False)
class Choice:
    """A gradient went to the winner of each window of a maximum."""

    winners: Tensor  # (points, channels, output positions) → input position
    sizes: tuple[int, ...]  # of the input positions
    step: Step


Factor = Slope | Gain | Choice


@dataclass(frozen=True, eq=False)
class Term:
    """Part of a gradient's second moment: E[g gᵀ] = E[D B D], D the product of the factors (last one lowest)."""

    moment: Moment
    factors: tuple[Factor, ...] = ()
    averaged: bool = False  # a random factor was already averaged over inside this stretch between two weight layers
    weights: Moment | None = (
        None  # of ∂ₓE[v(p) v(p')] in G v, one matrix per direction v (see `dependence`); None: zero
    )

    def moved(self, move: Callable[[Moment], Moment]) -> Term:
        """After a linear map of the positions, or a factor."""
        return replace(self, moment=move(self.moment), weights=moved_or_none(move, self.weights))

    def scaled(self, factor: float) -> Term:
        return self if factor == 1 else self.moved(lambda m: m.scaled(factor))

    def through(self, factor: Factor) -> Term:
        """Below one more factor."""
        return replace(self, factors=(*self.factors, factor))

    def times(self, kernel: Moment) -> Term:
        return self.moved(lambda m: m.times(kernel))


@dataclass(frozen=True, eq=False)
class ChannelBlock:
    """Channels that are copies of one random function."""

    channels: int
    channel: Channel
    sources: frozenset[int]  # steps whose weights make these channels random
    fresh: bool = False  # linear in zero-mean weights that nothing else here depends on
    narrow: str = ""  # a depthwise layer that keeps this channel from ever being Gaussian


@dataclass(eq=False)
class FeatureMap:
    """A tensor of the network: its axes (without the batch), its blocks of channels, and what flows back into it."""

    axes: Axes
    sizes: tuple[int, ...]  # of the position atoms 0, 1, …
    blocks: tuple[ChannelBlock, ...]
    step: Step | None = None
    send: Callable[[int, Term], None] = lambda _block, _term: None  # to the values this one was made of
    holds: bool = False  # collects gradients until all have come; values inside one rule pass them on at once
    terms: list[list[Term]] = field(default_factory=list)
    parts: tuple[Part, ...] = ()  # this value as a sum of linear maps of those before it, where it is one

    def __post_init__(self) -> None:
        self.terms = [[] for _ in self.blocks]

    @property
    def channels(self) -> int:
        return sum(b.channels for b in self.blocks)

    def receive(self, block: int, term: Term) -> None:
        """Gradients that took the same way are added at once."""
        if not self.holds:
            self.send(block, term)
            return
        here = self.terms[block]
        for i, other in enumerate(here):
            if other.factors == term.factors and other.averaged == term.averaged:
                weights = sum_or_none(other.weights, term.weights)
                here[i] = Term(other.moment.plus(term.moment), term.factors, term.averaged, weights)
                return
        here.append(term)

    def size(self, atom: int) -> int:
        return self.channels if atom == CHANNEL else self.sizes[atom]

    def shape(self) -> tuple[int, ...]:
        return tuple(math.prod(self.size(a) for a in axis) for axis in self.axes)

    def spans(self) -> Iterator[tuple[int, int]]:
        start = 0
        for b in self.blocks:
            yield start, start + b.channels
            start += b.channels

    def observed(self, tensor: Tensor) -> list[ObservedChannel]:
        """A real tensor (points, *shape) as channels, one per block."""
        n = len(tensor)
        atoms = [a for axis in self.axes for a in axis]
        split = tensor.double().reshape(n, *(self.size(a) for a in atoms))
        has_channel = CHANNEL in atoms
        order = [1 + atoms.index(CHANNEL)] if has_channel else []
        order += [1 + atoms.index(k) for k in range(len(self.sizes))]
        flat = split.permute(0, *order).reshape(n, self.channels if has_channel else 1, -1)
        return [ObservedChannel(flat[:, a:b], self.sizes) for a, b in self.spans()]


@dataclass(frozen=True, eq=False)
class Part:
    """gain · A root, A a linear map along some position atoms."""

    root: FeatureMap
    gain: float = 1.0
    maps: tuple[tuple[int, Tensor], ...] = ()


def where(step: Step | None) -> str:
    return "the input" if step is None else step.where


def derived(
    value: FeatureMap,
    step: Step,
    axes: Axes,
    sizes: tuple[int, ...],
    forward: Callable[[Moment], Moment],
    backward: Callable[[Moment], Moment],
    on_points: Callable[[Tensor], Tensor],
    averager: Callable[[Term], Term] | None,
) -> FeatureMap:
    """A linear map of positions, the same for every channel. averager: needed where the map mixes positions."""

    def moved(channel: Channel) -> Channel:
        if isinstance(channel, ObservedChannel):
            return ObservedChannel(channel.values[..., :0], sizes)  # the real numbers are filled in by the pass
        return channel.mapped(on_points) if isinstance(channel, Points) else channel.moved(forward)

    blocks = tuple(replace(b, channel=moved(b.channel)) for b in value.blocks)

    def send(block: int, term: Term) -> None:
        if term.factors and averager is not None:
            term = averager(term)
        value.receive(block, term.moved(backward))

    return FeatureMap(axes, sizes, blocks, step, send)


def reshaped(value: FeatureMap, shape: Sequence[int], step: Step) -> FeatureMap:
    """Regroup atoms for a new shape (without the batch); a position atom may have to be split."""
    if not shape and not value.sizes:
        return renamed(value, (), step)  # one output, without an axis of its own
    unlike = Unsupported(f"{step.where} makes a shape that does not follow its channels and positions")
    queue = [(a, value.size(a)) for axis in value.axes for a in axis]
    splits: dict[int, list[int]] = {}
    groups: list[list[tuple[int, int]]] = []  # (old atom, which part of it)
    for target in shape:
        group: list[tuple[int, int]] = []
        product = 1
        while product < target or (queue and queue[0][1] == 1 and product == target and len(groups) + 1 == len(shape)):
            if not queue:
                raise unlike
            atom, size = queue.pop(0)
            need = target // product
            taken = min(size, need) if size > 1 else 1
            if max(size, need) % taken:
                raise unlike
            if taken < size:
                if atom == CHANNEL:
                    raise Unsupported(f"{step.where} splits channels into groups")
                queue.insert(0, (atom, size // need))
            parts = splits.setdefault(atom, [])
            group.append((atom, len(parts)))
            parts.append(taken)
            product *= taken
        if product != target:
            raise unlike
        groups.append(group)
    for atom, size in queue:  # left over: only atoms of size one
        if size != 1:
            raise unlike
        splits.setdefault(atom, []).append(1)
        groups[-1 if groups else 0 :][0].append((atom, len(splits[atom]) - 1))
    return _regrouped(value, groups, splits, step)


def _regrouped(
    value: FeatureMap, groups: list[list[tuple[int, int]]], splits: dict[int, list[int]], step: Step
) -> FeatureMap:
    number: dict[tuple[int, int], int] = {}
    sizes: list[int] = []
    for k in range(len(value.sizes)):
        for part, size in enumerate(splits.get(k, [value.sizes[k]])):
            number[k, part] = len(sizes)
            sizes.append(size)
    number[CHANNEL, 0] = CHANNEL
    axes = tuple(tuple(number[key] for key in group) for group in groups)
    cut = [(k, splits[k]) for k in range(len(value.sizes)) if len(splits.get(k, [0])) > 1]

    def forward(m: Moment) -> Moment:
        for k, parts in reversed(cut):
            m = m.split(k, parts)
        return m

    def backward(m: Moment) -> Moment:
        for k, parts in cut:
            m = m.merged(k, len(parts))
        return m

    if not cut:
        return renamed(value, axes, step)
    return derived(value, step, axes, tuple(sizes), forward, backward, lambda x: x.reshape(len(x), *sizes), None)


def renamed(value: FeatureMap, axes: Axes, step: Step | None) -> FeatureMap:
    """The same positions under other tensor axes."""
    parts = (Part(value),) if axes == value.axes else ()
    return FeatureMap(axes, value.sizes, value.blocks, step, value.receive, parts=parts)


def arranged(value: FeatureMap, groups: Sequence[Sequence[int]], axes: Axes, step: Step) -> FeatureMap:
    """One position atom per group of the present ones, in that order; axes are in the new numbering.

    Atoms that are in no group, those of samples, stay at the end.
    """
    named = {k for group in groups for k in group}
    groups = [*groups, *([k] for k in range(len(value.sizes)) if k not in named)]
    flat = [k for group in groups for k in group]
    if flat == list(range(len(value.sizes))) and all(len(group) == 1 for group in groups):
        return renamed(value, axes, step)
    back = [flat.index(k) for k in range(len(flat))]
    sizes = tuple(math.prod(value.sizes[k] for k in group) for group in groups)

    def forward(m: Moment) -> Moment:
        m = m.permuted(flat)
        for i, group in enumerate(groups):
            if len(group) != 1:
                m = m.merged(i, len(group))
        return m

    def backward(m: Moment) -> Moment:
        for i in reversed(range(len(groups))):
            if len(groups[i]) != 1:
                m = m.split(i, [value.sizes[k] for k in groups[i]])
        return m.permuted(back)

    def on_points(x: Tensor) -> Tensor:
        return x.permute(0, *(1 + k for k in flat)).reshape(len(x), *sizes)

    return derived(value, step, axes, sizes, forward, backward, on_points, None)


def cut_channels(
    value: FeatureMap, start: int, stop: int, axes: Axes, step: Step, averager: Callable[[Term], Term]
) -> FeatureMap:
    """Some of the channels, as they are."""
    kept: list[tuple[int, ChannelBlock]] = []
    for i, ((a, b), block) in enumerate(zip(value.spans(), value.blocks, strict=True)):
        count = min(b, stop) - max(a, start)
        if count > 0:
            kept.append((i, replace(block, channels=count)))

    def send(block: int, term: Term) -> None:
        # spread over all channels of the block: their average is what the layers below see
        i, part = kept[block]
        share = part.channels / value.blocks[i].channels
        if term.factors:
            term = averager(term)
        value.receive(i, term.scaled(share))

    return FeatureMap(axes, value.sizes, tuple(b for _, b in kept), step, send)
