"""Sums and concatenations of values that depend on the input."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from netgrain.closed_form.channels import (
    Channel,
    ConstantChannel,
    GaussianChannel,
    Moved,
    NeedsMembers,
    ObservedChannel,
    summed,
)
from netgrain.closed_form.feature_maps import (
    CHANNEL,
    ChannelBlock,
    FeatureMap,
    Gain,
    Part,
    Pointwise,
    Term,
    arranged,
    like_atoms,
    renamed,
)
from netgrain.closed_form.moments import Moment
from netgrain.closed_form.rules import Pass, followed_locally, renumbered
from netgrain.families.trace import Step, Unsupported


def added(step: Step, a: FeatureMap, b: FeatureMap, sign: float, run: Pass) -> FeatureMap:
    """a + sign · b."""
    for kept, gone in ((a, b), (b, a)):
        if stays_zero(gone, run) and kept.shape() == gone.shape() and (kept is a or sign == 1):
            return renamed(kept, kept.axes, step)
    a, b = with_channels([a, b], step, run)
    b = aligned(a, b, step)
    summands = (Part(a), Part(b, sign))
    tied = len(a.blocks) == len(b.blocks) == 1 and a.blocks[0].sources & b.blocks[0].sources
    if tied and (parts := _apart(summands)) is not None:
        made = _of_common_roots(step, a, parts, run)
        made.parts = summands
        return made
    if run.observing and (together := of_one_value(step, a, b, lambda _: (1.0, sign))) is not None:
        return together
    bounds = sorted({stop for v in (a, b) for _, stop in v.spans()})
    blocks: list[ChannelBlock] = []
    owners: list[tuple[int, int]] = []
    start = 0
    for stop in bounds:
        i, j = block_at(a, start), block_at(b, start)
        u, v = a.blocks[i], b.blocks[j]
        _check_apart(step, u, v, run)
        channel = u.channel if run.observing else summed(u.channel, v.channel.scaled(sign))
        blocks.append(
            ChannelBlock(stop - start, channel, u.sources | v.sources, u.fresh and v.fresh, u.narrow or v.narrow)
        )
        owners.append((i, j))
        start = stop

    def send(block: int, term: Term) -> None:
        for value, i in zip((a, b), owners[block], strict=True):
            share = blocks[block].channels / value.blocks[i].channels
            value.receive(i, term if share == 1 else run.average(term).scaled(share))

    return FeatureMap(a.axes, a.sizes, tuple(blocks), step, send, parts=summands)


def _check_apart(step: Step, u: ChannelBlock, v: ChannelBlock, run: Pass) -> None:
    """Gradients of two summands add up where one of them is centred given the other; else nearly so."""
    if u.sources & v.sources:
        followed_locally(step, "adds two functions of the same channels", run)
    fixed = all(isinstance(w.channel, ConstantChannel) for w in (u, v))
    if not (u.fresh or v.fresh) and not fixed and u.sources and v.sources:
        followed_locally(step, "adds a branch that ends in an activation", run)


def of_one_value(
    step: Step, a: FeatureMap, b: FeatureMap, slopes: Callable[[int], tuple[Tensor | float, Tensor | float]]
) -> FeatureMap | None:
    """A function of two values that both act on the entries of a third one: its slopes are added, not their squares.

    slopes: by a and by b, in a block of channels. None where there is no such third value.
    """
    one, other = Pointwise.of(a), Pointwise.of(b)
    root = one.root
    if root is not other.root or any(len(v.blocks) != len(root.blocks) or v.axes != root.axes for v in (a, b)):
        return None

    def together(block: int) -> Tensor:
        by_a, by_b = slopes(block)
        return one.slopes(block) * by_a + other.slopes(block) * by_b

    gains = [Gain(together(i), step) for i in range(len(root.blocks))]
    blocks = tuple(replace(block, fresh=False) for block in root.blocks)

    def send(block: int, term: Term) -> None:
        root.receive(block, term.through(gains[block]))

    return FeatureMap(
        root.axes, root.sizes, blocks, step, send, pointwise=Pointwise(root, lambda block: gains[block].values)
    )


def is_nothing(x: FeatureMap) -> bool:
    """Whether a value depends neither on the input nor on weights."""
    return not any(b.sources for b in x.blocks)


def stays_zero(x: FeatureMap, run: Pass) -> bool:
    """Whether a value is a known zero; of real members only that no gradient passes matters."""
    zero = all(isinstance(b.channel, ConstantChannel) and b.channel.value == 0 for b in x.blocks)
    return is_nothing(x) and (zero or run.observing)


def _apart(parts: Sequence[Part]) -> list[Part] | None:
    """The summands in terms of values that share no channels, or are one and the same; the nearest such ones."""
    found = list(parts)
    while tied := [
        p for p in found for q in found if p.root is not q.root and p.root.blocks[0].sources & q.root.blocks[0].sources
    ]:
        latest = max((p for p in tied if p.root.parts), key=lambda p: _index(p.root), default=None)
        if latest is None:
            return None
        new = [_composed(latest, part) for part in latest.root.parts]
        if any(len(p.root.blocks) > 1 or p.root.axes != parts[0].root.axes for p in new):
            return None
        found = [p for p in found if p is not latest] + new
    return found


def _index(value: FeatureMap) -> tuple[int, bool]:
    """Where a value was made; what a step makes on the way comes before its result."""
    return -1 if value.step is None else value.step.index, value.holds


def _composed(part: Part, inner: Part) -> Part:
    """A part of a part."""
    maps = dict(inner.maps)
    for atom, A in part.maps:
        maps[atom] = A @ maps[atom] if atom in maps else A
    return Part(inner.root, part.gain * inner.gain, tuple(maps.items()))


def _of_common_roots(step: Step, like: FeatureMap, parts: Sequence[Part], run: Pass) -> FeatureMap:
    """Σ gain · A root where a root comes more than once: the maps are added, not the moments."""
    roots = list({id(part.root): part.root for part in parts}.values())
    groups = [[part for part in parts if part.root is root] for root in roots]
    for i, root in enumerate(roots):
        for other in roots[:i]:
            _check_apart(step, root.blocks[0], other.blocks[0], run)

    def mapped(m: Moment, group: Sequence[Part], back: bool) -> Moment:
        total: Moment | None = None
        for p in group:
            for q in group:
                term = _between(m, p, q, back).scaled(p.gain * q.gain)
                total = term if total is None else total.plus(term)
        assert total is not None
        return total

    def send(_block: int, term: Term) -> None:
        for root, group in zip(roots, groups, strict=True):
            still = not any(part.maps for part in group)
            gain = sum(part.gain for part in group)
            if still and gain != 0:
                root.receive(0, term.scaled(gain**2))
            elif not still:
                root.receive(0, run.average(term).moved(partial(mapped, group=group, back=True)))

    def made(root: FeatureMap, group: Sequence[Part]) -> Channel:
        channel = root.blocks[0].channel
        if isinstance(channel, ObservedChannel):
            return ObservedChannel(channel.values[..., :0], like.sizes)
        if isinstance(channel, ConstantChannel) and channel.value == 0:
            return ConstantChannel(0.0, like.sizes)
        moved = mapped(channel.second(), group, False)
        tangent = channel.second_tangent()
        tangent = None if tangent is None else mapped(tangent, group, False)
        if isinstance(channel, GaussianChannel) and channel.centre == 0:
            return GaussianChannel(moved, 0.0, channel.width, tangent)
        return Moved(moved, tangent)

    channels = [made(root, group) for root, group in zip(roots, groups, strict=True)]
    channel = channels[0]
    for further in channels[1:]:
        channel = channel if run.observing else summed(channel, further)
    every = [root.blocks[0] for root in roots]
    block = ChannelBlock(
        every[0].channels,
        channel,
        frozenset().union(*(b.sources for b in every)),
        all(b.fresh for b in every),
        next((b.narrow for b in every if b.narrow), ""),
    )
    return FeatureMap(like.axes, like.sizes, (block,), step, send)


def _between(m: Moment, p: Part, q: Part, back: bool) -> Moment:
    """A_p M A_qᵀ, or from the gradients of the sum to those of the root."""
    left, right = dict(p.maps), dict(q.maps)
    for atom in sorted(left.keys() | right.keys()):
        some = left.get(atom, right.get(atom))
        assert some is not None
        A, C = (maps.get(atom) for maps in (left, right))
        A, C = (_square(M, some) for M in (A, C))
        m = m.mapped(atom, A.T if back else A, C.T if back else C)
    return m


def _square(M: Tensor | None, like: Tensor) -> Tensor:
    """A map, or the identity."""
    if M is not None:
        return M
    if len(like) != like.shape[1]:
        raise Unsupported("a sum of maps of different sizes")
    return like.new_ones(len(like)).diag()


def block_at(x: FeatureMap, channel: int) -> int:
    """Which block a channel belongs to."""
    return next(i for i, (start, stop) in enumerate(x.spans()) if start <= channel < stop)


def with_channels(values: Sequence[FeatureMap], step: Step, run: Pass) -> list[FeatureMap]:
    """The same, where the axis that holds the channels of some of them holds positions of the input in others."""
    axis = next((k for v in values for k, atoms in enumerate(v.axes) if atoms == (CHANNEL,)), None)
    if axis is None:
        return list(values)
    bare = [v.channels == 1 and axis < len(v.axes) and not any(CHANNEL in atoms for atoms in v.axes) for v in values]
    return [_as_channels(v, axis, step, run) if is_bare else v for v, is_bare in zip(values, bare, strict=True)]


def _as_channels(x: FeatureMap, axis: int, step: Step, run: Pass) -> FeatureMap:
    """The input with one of its axes as channels: what independent weights above send back differs between them."""
    (block,) = x.blocks
    atoms = x.axes[axis]
    kept = [k for k in range(len(x.sizes)) if k not in atoms]
    sizes = tuple(x.sizes[k] for k in kept)
    channel: Channel
    if run.observing:
        channel = ObservedChannel(torch.zeros(0), sizes)
    elif isinstance(block.channel, ConstantChannel):
        channel = ConstantChannel(block.channel.value, sizes)
    else:
        raise NeedsMembers(f"{step.where} meets the input itself")
    axes = renumbered(tuple((CHANNEL,) if k == axis else a for k, a in enumerate(x.axes)), kept)

    def send(_block: int, term: Term) -> None:
        sent = run.average(term).moved(lambda m: m.with_identity(atoms, [x.sizes[k] for k in atoms]))
        x.receive(0, replace(sent, averaged=False))

    count = math.prod(x.sizes[k] for k in atoms)
    return FeatureMap(axes, sizes, (ChannelBlock(count, channel, block.sources),), step, send)


def aligned(a: FeatureMap, b: FeatureMap, step: Step) -> FeatureMap:
    """b with its positions in a's order."""
    if a.shape() != b.shape():
        raise Unsupported(f"{step.where} combines shapes {a.shape()} and {b.shape()}")
    b = like_atoms(a, b, step)
    if any([k == CHANNEL for k in p] != [k == CHANNEL for k in q] for p, q in zip(a.axes, b.axes, strict=True)):
        raise Unsupported(f"{step.where} combines channels with positions")
    return _like_positions(a, b, step, "combines")


def joined_channels(step: Step, values: list[FeatureMap], run: Pass) -> FeatureMap:
    dim = step.args[1] if len(step.args) > 1 else step.kwargs.get("dim", 0)
    axis = dim % (len(values[0].axes) + 1) - 1
    if axis < 0 or len(values) != len(step.args[0]):
        raise Unsupported(f"{step.where} joins along the batch, or with something that is not computed from the input")
    return side_by_side(step, values, axis, run)


def side_by_side(step: Step, values: Sequence[FeatureMap], axis: int, run: Pass) -> FeatureMap:
    """The channels of several values one after the other, along this axis."""
    values = with_channels(values, step, run)
    first = values[0]
    if any(v.axes[axis] != (CHANNEL,) for v in values):
        raise Unsupported(f"{step.where} joins positions")
    parts = [first]
    for v in values[1:]:
        shape = list(v.shape())
        shape[axis] = first.shape()[axis]
        if tuple(shape) != first.shape():
            raise Unsupported(f"{step.where} joins shapes {first.shape()} and {v.shape()}")
        parts.append(_like_positions(first, v, step, "joins"))
    blocks = tuple(b for v in parts for b in v.blocks)
    owners = [(v, i) for v in parts for i in range(len(v.blocks))]

    def send(block: int, term: Term) -> None:
        value, i = owners[block]
        value.receive(i, term)

    return FeatureMap(first.axes, first.sizes, blocks, step, send)


def _like_positions(a: FeatureMap, b: FeatureMap, step: Step, does: str) -> FeatureMap:
    """b with its positions in a's order, whatever its channels."""
    if a.axes == b.axes and a.sizes == b.sizes:
        return b
    alike = [len(p) for p in a.axes] == [len(q) for q in b.axes]
    pairs = zip((k for axis in a.axes for k in axis), (k for axis in b.axes for k in axis), strict=alike)
    order = {k: m for k, m in pairs if k != CHANNEL}
    if not alike or len(order) != len(a.sizes) or any(a.sizes[k] != b.sizes[m] for k, m in order.items()):
        raise Unsupported(f"{step.where} {does} different positions")
    return arranged(b, [[order[k]] for k in range(len(a.sizes))], a.axes, step)
