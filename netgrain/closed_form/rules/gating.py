"""Products of two values that both depend on the input: squeeze-and-excitation, gated linear units, spatial gates.

For y = a·s with gradients of second moment B at y,

    B_a = B∘E[s(p) s(p')],      B_s = B∘E[a(p) a(p')],      averaged over channels,

summed over the positions or channels along which one of the two is repeated. Cross terms vanish where one of the two is
centred given the other, as a gate behind weights of its own is. Where a is a known zero nothing flows into s and the
rule is exact. Where channels of a and s are independent (two layers, or two parts of one: gated linear units, gMLP) the
second moment of y is the product of theirs, which is the limit of wide layers; what is tied there is followed along
directions, by ∂ₓE[aa']·∂_z E[ss'] + ∂_z E[aa']·∂ₓE[ss']. Else the values of real members stand in for a and s, and the
step counts as local.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F

from netgrain.closed_form.activations import with_moments
from netgrain.closed_form.channels import (
    Activated,
    BiasOnly,
    Channel,
    ConstantChannel,
    Moved,
    NeedsMembers,
    moved_or_none,
    sum_or_none,
)
from netgrain.closed_form.constants import Known
from netgrain.closed_form.feature_maps import CHANNEL, ChannelBlock, FeatureMap, Gain, Term, cut_channels, derived
from netgrain.closed_form.moments import Moment
from netgrain.closed_form.rules import Pass, affine_map, arguments, renumbered, rule
from netgrain.closed_form.rules.affine import constant, multiplied
from netgrain.closed_form.rules.pointwise import elementwise
from netgrain.closed_form.rules.sums import aligned, block_at, of_one_value, with_channels
from netgrain.families.activations import activation_of
from netgrain.families.trace import Ref, Step, Unsupported, refs_in


@rule("mul", "rmul", "imul", "div", "truediv", "itruediv", "true_divide", "multiply", "neg")
def _multiply(step: Step, values: list[FeatureMap], run: Pass) -> FeatureMap:
    if len(values) > 1:
        return product(step, values[0], values[1], run, divides="div" in step.name)
    if step.name == "neg":
        return affine_map(step, values[0], -1.0, 0.0, run)
    value = step.args[1] if isinstance(step.args[0], Ref) else step.args[0]
    by = constant(step, value, run)
    if "div" in step.name:
        if not isinstance(step.args[0], Ref):
            raise Unsupported(f"{step.where} divides by something that depends on the input")
        if by.numbers is None:
            raise Unsupported(f"{step.where} divides by random numbers")
        by = Known(1 / by.numbers)
    return multiplied(step, values[0], by, run, lambda: run.real(value, step).double())


@rule("glu")
def _glu(step: Step, values: list[FeatureMap], run: Pass) -> FeatureMap:
    """a · σ(b), a and b the halves of one tensor."""
    x = values[0]
    (dim,) = arguments(step, "dim", dim=-1)
    axis = dim % (len(x.axes) + 1) - 1
    if axis < 0 or x.axes[axis] != (CHANNEL,):
        raise Unsupported(f"{step.where} splits something else than channels")
    half = x.channels // 2
    a, b = (cut_channels(x, i * half, (i + 1) * half, x.axes, step, run.average) for i in range(2))
    seen: list[Tensor] = []
    if run.observing:
        first, second = run.tensor(step.args[0]).chunk(2, dim)
        a.blocks, b.blocks = (
            tuple(replace(block, channel=c) for block, c in zip(v.blocks, v.observed(t), strict=True))
            for v, t in ((a, first), (b, second))
        )
        seen = [first, second.sigmoid()]
    call = activation_of(F.sigmoid, (torch.zeros(1),))
    assert call is not None
    return product(step, a, elementwise(step, b, with_moments(call), run), run, seen=seen)


def product(
    step: Step, a: FeatureMap, b: FeatureMap, run: Pass, *, divides: bool = False, seen: Sequence[Tensor] = ()
) -> FeatureMap:
    """a · b, or a / b; each may be repeated along axes where it has size one.

    seen: the real factors, where they are not the arguments of the step.
    """
    if len(a.axes) != len(b.axes):
        raise Unsupported(f"{step.where} combines shapes {a.shape()} and {b.shape()}")
    a, b = with_channels([a, b], step, run)
    exact = not divides and all(_known(block.channel) for v in (a, b) for block in v.blocks)
    limit = not divides and a.channels == b.channels
    a, b = _repeated(a, b, step, run), _repeated(b, a, step, run)
    b = aligned(a, b, step)
    bounds = sorted({stop for v in (a, b) for _, stop in v.spans()})
    starts = [0, *bounds[:-1]]
    owners = [(block_at(a, start), block_at(b, start)) for start in starts]
    pairs = [(a.blocks[i], b.blocks[j]) for i, j in owners]
    counts = [stop - start for start, stop in zip(starts, bounds, strict=True)]
    if run.observing:
        blocks = [_observed_block(u, v, n) for (u, v), n in zip(pairs, counts, strict=True)]
    elif exact and all(_is_zero(u) or _is_zero(v) for u, v in pairs):
        blocks = [_of_zero(u, v, n) for (u, v), n in zip(pairs, counts, strict=True)]
    elif limit and all(u.apart_from(v) for u, v in pairs):
        run.note(step, "wide limit")
        run.varies_over(math.prod(a.sizes))
        blocks = [_independent_block(u, v, n) for (u, v), n in zip(pairs, counts, strict=True)]
    else:
        raise NeedsMembers(f"{step.where} multiplies two things that both depend on the input")
    y = FeatureMap(a.axes, a.sizes, tuple(blocks), step)

    def sent_to(value: FeatureMap, i: int, block: int, term: Term) -> None:
        share = counts[block] / value.blocks[i].channels
        value.receive(i, term if share == 1 else run.average(term).scaled(share))

    if not run.observing:

        def send_moments(block: int, term: Term) -> None:
            for value, i, own, other in _each_way((a, b), owners[block], pairs[block]):
                # what a known zero multiplies does not change the product
                if not _is_zero(other):
                    sent_to(value, i, block, _beside(term, own.channel, other.channel, run))

        y.send = send_moments
        return y
    first, second = (_seen(y, t, step) for t in seen or [run.tensor(ref) for ref in _factors(step)])
    gains = [_slopes(p, q, divides) for p, q in zip(first, second, strict=True)]
    if (together := of_one_value(step, a, b, lambda block: gains[block])) is not None:
        return together
    run.note(step, "local")
    factors = [tuple(Gain(g, step) for g in pair) for pair in gains]

    def send(block: int, term: Term) -> None:
        for k, (value, i, _, _) in enumerate(_each_way((a, b), owners[block], pairs[block])):
            sent_to(value, i, block, term.through(factors[block][k]))

    y.send = send
    return y


def _beside(term: Term, own: Channel, other: Channel, run: Pass) -> Term:
    """What one of two independent factors gets."""
    tangent = other.second_tangent()
    if tangent is None or own.second_tangent() is None:
        return term.times(other.second())
    term = run.average(term) if term.factors else term
    return replace(
        term.times(other.second()),
        weights=sum_or_none(moved_or_none(lambda m: m.times(other.second()), term.weights), term.moment.times(tangent)),
    )


def _each_way(
    values: tuple[FeatureMap, FeatureMap], owners: tuple[int, int], pair: tuple[ChannelBlock, ChannelBlock]
) -> list[tuple[FeatureMap, int, ChannelBlock, ChannelBlock]]:
    """Both factors, each with its block and the block of the other one."""
    return [(values[k], owners[k], pair[k], pair[1 - k]) for k in range(2)]


def _is_zero(block: ChannelBlock) -> bool:
    return isinstance(block.channel, ConstantChannel) and block.channel.value == 0


def _of_zero(u: ChannelBlock, v: ChannelBlock, count: int) -> ChannelBlock:
    """The product with a known zero."""
    return ChannelBlock(count, (u if _is_zero(u) else v).channel, u.sources | v.sources)


def _independent_block(u: ChannelBlock, v: ChannelBlock, count: int) -> ChannelBlock:
    """The product of independent channels."""
    channel = _product_channel(u.channel, v.channel)
    return ChannelBlock(
        count, channel, u.sources | v.sources, u.fresh or v.fresh, u.narrow or v.narrow, u.beneath | v.beneath
    )


def _product_channel(a: Channel, b: Channel) -> Channel:
    for zero in (a, b):
        if isinstance(zero, ConstantChannel) and zero.value == 0:
            return zero
    second = a.second().times(b.second())
    sides = [moved_or_none(p.second().times, q.second_tangent()) for p, q in ((a, b), (b, a))]
    return Moved(second, sum_or_none(*sides))


def _known(channel: Channel) -> bool:
    """Whether the second moment of a channel is exact: that of a number, or of what biases make."""
    inner = channel.of if isinstance(channel, Activated) else channel
    return isinstance(inner, ConstantChannel | BiasOnly)


def _observed_block(u: ChannelBlock, v: ChannelBlock, count: int) -> ChannelBlock:
    fresh = (u.fresh or v.fresh) and not u.sources & v.sources
    return ChannelBlock(count, u.channel, u.sources | v.sources, fresh, u.narrow or v.narrow, u.beneath | v.beneath)


def _factors(step: Step) -> list[Ref]:
    return list(refs_in((step.args, step.kwargs)))


def _seen(y: FeatureMap, tensor: Tensor, step: Step) -> list[Tensor]:
    """The real numbers of one factor beside y, (points, channels, positions or 1) for each block."""
    wide = tensor.double().expand(len(tensor), *step.shapes[0][1:])
    found = [channel.values for channel in y.observed(wide)]
    return [t[..., :1] if bool((t == t[..., :1]).all()) else t for t in found]


def _slopes(a: Tensor, b: Tensor, divides: bool) -> tuple[Tensor, Tensor]:
    """The derivatives of a · b, or of a / b, by both."""
    return (1 / b, -a / b.square()) if divides else (b, a)


# --- factors that are repeated -------------------------------------------------------------------------------------


def _repeated(x: FeatureMap, like: FeatureMap, step: Step, run: Pass) -> FeatureMap:
    """x with the axes of size one repeated where the other factor has more."""
    wider = [k for k, (n, m) in enumerate(zip(x.shape(), like.shape(), strict=True)) if n == 1 and m > 1]
    if not wider:
        return x
    channels = 1
    for k in wider:
        if CHANNEL in like.axes[k]:
            if x.channels > 1:
                raise Unsupported(f"{step.where} repeats channels")
            channels = like.channels
    return _over_positions(_over_channels(x, channels, wider, like, run), wider, like, step, run)


def _over_channels(x: FeatureMap, channels: int, wider: list[int], like: FeatureMap, run: Pass) -> FeatureMap:
    """One channel for many: gradients of all of them add up, and those of different ones are independent."""
    if channels == 1:
        return x
    place = next(k for k in wider if CHANNEL in like.axes[k])
    bare = [tuple(atom for atom in axis if atom != CHANNEL) for axis in x.axes]
    axes = tuple((CHANNEL, *axis) if k == place else axis for k, axis in enumerate(bare))
    blocks = tuple(replace(b, channels=channels) for b in x.blocks)

    def send(block: int, term: Term) -> None:
        x.receive(block, run.average(term).scaled(channels))

    return FeatureMap(axes, x.sizes, blocks, x.step, send)


def _over_positions(x: FeatureMap, wider: list[int], like: FeatureMap, step: Step, run: Pass) -> FeatureMap:
    """One position for many: gradients of all of them are added."""
    gone = [atom for k in wider for atom in x.axes[k] if atom != CHANNEL]
    kept = [atom for atom in range(len(x.sizes)) if atom not in gone]
    added = [like.sizes[atom] for k in wider for atom in like.axes[k] if atom != CHANNEL]
    if not added and not gone:
        return x
    first, number = len(kept), iter(range(len(kept), len(kept) + len(added)))
    axes = list(renumbered(tuple(tuple(a for a in axis if a not in gone) for axis in x.axes), kept))
    for k in wider:
        axes[k] = tuple(CHANNEL if atom == CHANNEL else next(number) for atom in like.axes[k])
    ones = [torch.ones(n, 1, dtype=torch.float64) for n in added]

    def forward(m: Moment) -> Moment:
        m = m.traced(gone)
        for k, A in enumerate(ones):
            m = m.merged(first + k, 0).mapped(first + k, A)
        return m

    def backward(m: Moment) -> Moment:
        for k, A in enumerate(ones):
            m = m.mapped(first + k, A.T)
        return m.traced(range(first, first + len(ones))).with_identity(gone, [1] * len(gone))

    def on_points(values: Tensor) -> Tensor:
        raise NeedsMembers(f"{step.where} repeats the input itself")

    sizes = (*(x.sizes[k] for k in kept), *added)
    return derived(x, step, tuple(axes), sizes, forward, backward, on_points, run.average)
