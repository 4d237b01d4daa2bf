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

import torch
from torch import Tensor

from netgrain.closed_form.channels import (
    Channel,
    GaussianChannel,
    ObservedChannel,
    Points,
    moved_or_none,
    sum_or_none,
)
from netgrain.closed_form.gaussian_expectations import Activation
from netgrain.closed_form.layouts import BATCH, Layout
from netgrain.closed_form.layouts import CHANNEL as CHANNEL
from netgrain.closed_form.layouts import Axes as Axes
from netgrain.closed_form.moments import Moment
from netgrain.families.trace import Step, Unsupported

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
    beneath: frozenset[int] = frozenset()  # the same for channels that these are made of one by one, behind weights
    part: tuple[ChannelBlock, int, int] | None = None  # which channels of a block these are made of one by one

    @property
    def ancestors(self) -> frozenset[int]:
        """Steps whose weights make these channels random, or those that they are made of one by one."""
        return self.sources | self.beneath

    def apart_from(self, other: ChannelBlock) -> bool:
        """Whether channels of both are independent, given what the layers beneath make of the input."""
        common = self.ancestors & other.ancestors
        if not common:
            return True
        if self.part is None or other.part is None or self.part[0] is not other.part[0]:
            return False
        whole, *mine = self.part
        _, *theirs = other.part
        return common <= whole.ancestors and (mine[1] <= theirs[0] or theirs[1] <= mine[0])

    def cut(self, start: int, stop: int) -> ChannelBlock:
        """Some of these channels."""
        whole, first, _ = self.part or (self, 0, 0)
        return replace(self, channels=stop - start, part=(whole, first + start, first + stop))


@dataclass(eq=False)
class FeatureMap:
    """A tensor of the network: its axes (without the batch), its blocks of channels, and what flows back into it.

    Where it has a layout, `axes` are not those of the tensor, and only rules that know of layouts see it (`laid_out`).
    """

    axes: Axes
    sizes: tuple[int, ...]  # of the position atoms 0, 1, …
    blocks: tuple[ChannelBlock, ...]
    step: Step | None = None
    send: Callable[[int, Term], None] = lambda _block, _term: None  # to the values this one was made of
    holds: bool = False  # collects gradients until all have come; values inside one rule pass them on at once
    layout: Layout | None = None  # of the tensor, where the batch is not simply in front or the channel is split
    terms: list[list[Term]] = field(default_factory=list)
    parts: tuple[Part, ...] = ()  # this value as a sum of linear maps of those before it, where it is one
    pointwise: Pointwise | None = None  # this value as a function of another one, entry by entry, of real members

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

    @property
    def passes_samples(self) -> bool:
        """Whether several samples pass together, as the last atom, which is on no axis."""
        return len(self.sizes) - 1 not in {CHANNEL, *(a for axis in self.axes for a in axis)}

    def spans(self) -> Iterator[tuple[int, int]]:
        start = 0
        for b in self.blocks:
            yield start, start + b.channels
            start += b.channels

    def whole(self) -> Layout:
        """The layout of the tensor, with its batch."""
        return Layout(((BATCH,), *self.axes)) if self.layout is None else self.layout

    def fits(self, shape: tuple[int, ...]) -> bool:
        """Whether a tensor of this shape, batch and all, may be this one."""
        if self.layout is None:
            return self.shape() == shape[1:]
        batch, left = divmod(math.prod(shape), math.prod((self.channels, *self.sizes)))
        return left == 0 and self.layout.shape(batch, self.channels, self.sizes) == shape

    def observed(self, tensor: Tensor) -> list[ObservedChannel]:
        """A real tensor of this layout as channels, one per block."""
        flat = self.whole().read(tensor, self.channels, self.sizes)
        return [ObservedChannel(flat[:, a:b], self.sizes) for a, b in self.spans()]

    def beside(self, tensor: Tensor) -> list[Tensor]:
        """A tensor over the axes as (channels, positions), one per block."""
        (flat,) = Layout(((BATCH,), *self.axes)).read(tensor[None], self.channels, self.sizes)
        return [flat[a:b] for a, b in self.spans()]


@dataclass(frozen=True, eq=False)
class Part:
    """gain · A root, A a linear map along some position atoms."""

    root: FeatureMap
    gain: float = 1.0
    maps: tuple[tuple[int, Tensor], ...] = ()


@dataclass(frozen=True, eq=False)
class Pointwise:
    """A function of each entry of `root`, and its slopes in a block of channels: (points or 1, channels, positions)."""

    root: FeatureMap
    slopes: Callable[[int], Tensor]

    @classmethod
    def of(cls, x: FeatureMap) -> Pointwise:
        return cls(x, lambda _: torch.ones(1, 1, 1, dtype=torch.float64)) if x.pointwise is None else x.pointwise

    def then(self, slopes: Callable[[int], Tensor | float]) -> Pointwise:
        """With one more function behind it."""
        return Pointwise(self.root, lambda block: self.slopes(block) * slopes(block))


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
    """A linear map of positions, the same for every channel.

    averager: needed where the map mixes positions; without it they are only arranged anew, and factors with them.
    """
    arranged_factors: dict[int, tuple[Factor, Factor]] = {}  # by the factor before, which is kept alive

    def moved(channel: Channel) -> Channel:
        if isinstance(channel, ObservedChannel):
            return ObservedChannel(channel.values[..., :0], sizes)  # the real numbers are filled in by the pass
        return channel.mapped(on_points) if isinstance(channel, Points) else channel.moved(forward)

    blocks = tuple(replace(b, channel=moved(b.channel)) for b in value.blocks)

    def send(block: int, term: Term) -> None:
        if term.factors and averager is not None:
            term = averager(term)
        for f in term.factors:
            if id(f) not in arranged_factors:
                arranged_factors[id(f)] = f, _arranged_factor(f, value.sizes, step, backward, on_points)
        term = replace(term, factors=tuple(arranged_factors[id(f)][1] for f in term.factors))
        value.receive(block, term.moved(backward))

    return FeatureMap(axes, sizes, blocks, step, send)


def _arranged_factor(
    factor: Factor,
    sizes: tuple[int, ...],
    step: Step,
    backward: Callable[[Moment], Moment],
    on_points: Callable[[Tensor], Tensor],
) -> Factor:
    """A factor at positions that were arranged anew, at those from before."""

    def back(values: Tensor) -> Tensor:  # (points, channels, positions or 1)
        if values.shape[-1] == 1:
            return values
        places = on_points(torch.arange(math.prod(sizes), dtype=torch.float64).reshape(1, *sizes)).flatten().long()
        found = torch.empty_like(values)
        found[..., places] = values
        return found

    if isinstance(factor, Choice):
        raise Unsupported(f"{step.where} rearranges positions below a maximum")
    if isinstance(factor, Gain):
        return replace(factor, values=back(factor.values))
    of = factor.of
    if isinstance(of, ObservedChannel):
        return replace(factor, of=ObservedChannel(back(of.values), sizes))
    if isinstance(of, GaussianChannel):
        tangent = moved_or_none(backward, of.tangent)
        return replace(factor, of=GaussianChannel(backward(of.covariance), of.centre, of.width, tangent))
    return replace(factor, of=of.moved(backward))


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
    same = Pointwise.of(value) if parts else None
    return FeatureMap(axes, value.sizes, value.blocks, step, value.receive, parts=parts, pointwise=same)


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


def one_atom(x: FeatureMap, axes: Sequence[int], step: Step) -> FeatureMap:
    """The same value with exactly one position atom behind each of these tensor axes."""
    if all(len(x.axes[a]) == 1 for a in axes):
        return x
    chosen = {a: x.axes[a] for a in axes}
    groups: list[tuple[int, ...]] = []
    new_axes: list[tuple[int, ...]] = []
    for a, axis in enumerate(x.axes):
        if a in chosen:
            new_axes.append((len(groups),))
            groups.append(axis)
            continue
        numbered = []
        for k in axis:
            if k == CHANNEL:
                numbered.append(CHANNEL)
            else:
                numbered.append(len(groups))
                groups.append((k,))
        new_axes.append(tuple(numbered))
    return arranged(x, groups, tuple(new_axes), step)


def like_atoms(a: FeatureMap, b: FeatureMap, step: Step) -> FeatureMap:
    """b of the same shape, with as many position atoms behind each axis as a has, where b has one or a has one."""
    pairs = list(zip(a.axes, b.axes, strict=True))
    finer = [p if len(p) > 1 and len(q) == 1 and CHANNEL not in p + q else () for p, q in pairs]
    if any(finer):
        sizes = [[a.size(k) for k in p] or [n] for p, n in zip(finer, b.shape(), strict=True)]
        whole = reshaped(b, [n for part in sizes for n in part], step)
        axes = iter(whole.axes)
        b = renamed(whole, tuple(tuple(k for _ in part for k in next(axes)) for part in sizes), step)
    coarser = [i for i, (p, q) in enumerate(pairs) if len(p) == 1 and len(q) > 1 and CHANNEL not in p + q]
    return one_atom(b, coarser, step) if coarser else b


def cut_channels(
    value: FeatureMap, start: int, stop: int, axes: Axes, step: Step, averager: Callable[[Term], Term]
) -> FeatureMap:
    """Some of the channels, as they are."""
    kept: list[tuple[int, ChannelBlock]] = []
    for i, ((a, b), block) in enumerate(zip(value.spans(), value.blocks, strict=True)):
        first, last = max(a, start) - a, min(b, stop) - a
        if first < last:
            kept.append((i, block.cut(first, last)))

    def send(block: int, term: Term) -> None:
        # spread over all channels of the block: their average is what the layers below see
        i, part = kept[block]
        share = part.channels / value.blocks[i].channels
        if term.factors:
            term = averager(term)
        value.receive(i, term.scaled(share))

    return FeatureMap(axes, value.sizes, tuple(b for _, b in kept), step, send)
