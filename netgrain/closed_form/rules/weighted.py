"""Layers with random weights: linear maps, convolutions. Here one stretch of the network ends and the next begins."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import torch

from netgrain.closed_form.channels import (
    BiasOnly,
    Channel,
    ConstantChannel,
    GaussianChannel,
    ObservedChannel,
    Points,
    moved_or_none,
    sum_or_none,
)
from netgrain.closed_form.computed_weights import row_sums, row_sums_back, seen_inputs, weight_law
from netgrain.closed_form.feature_maps import CHANNEL, Axes, ChannelBlock, FeatureMap, Term, arranged
from netgrain.closed_form.moments import Full, Moment, ones
from netgrain.closed_form.rules import Pass, arguments, followed_locally, per_axis, renumbered, rule
from netgrain.closed_form.rules.affine import only_bias
from netgrain.closed_form.rules.sums import stays_zero
from netgrain.closed_form.rules.token_mixing import mixed_tokens
from netgrain.families.convolution import Taps
from netgrain.families.initialisation import TensorLaw
from netgrain.families.trace import CONVOLUTION, TRANSPOSED, Other, Step, Unsupported, Weight


@rule("linear")
def _linear(step: Step, values: list[FeatureMap], run: Pass) -> FeatureMap:
    weight, bias = arguments(step, "weight", "bias")
    return linear_map(step, values[0], weight, bias, step.shapes[0][-1], run)


def linear_map(
    step: Step, x: FeatureMap, weight: Weight | Other, bias: Weight | Other | None, out: int, run: Pass
) -> FeatureMap:
    """W x + b along the last axis, W with `out` rows (or columns: the law is the same)."""
    if stays_zero(x, run):
        return only_bias(step, bias, len(x.axes) - 1, run)
    if x.channels > 1 and CHANNEL not in x.axes[-1]:
        return mixed_tokens(step, x, weight, bias, out, run)
    contracted = [k for k in x.axes[-1] if k != CHANNEL]
    kept = [k for k in range(len(x.sizes)) if k not in contracted]
    x = arranged(x, [[k] for k in (*contracted, *kept)], renumbered(x.axes, [*contracted, *kept]), step)
    count = len(contracted)
    axes = (*(tuple(k - count for k in axis) for axis in x.axes[:-1]), (CHANNEL,))
    return _weighted(step, x, axes, count, [], out, 1, weight, bias, run)


@rule("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def _convolution(step: Step, values: list[FeatureMap], run: Pass) -> FeatureMap:
    x = values[0]
    turned = "transpose" in step.name
    dims = len(x.axes) - 1
    order = ("weight", "bias", *(TRANSPOSED if turned else CONVOLUTION))
    given = dict(zip(order, step.args[1:], strict=False)) | step.kwargs
    weight, bias, groups = given["weight"], given.get("bias"), given.get("groups", 1)
    if stays_zero(x, run):
        return only_bias(step, bias, 0, run)
    stride, padding, dilation = given.get("stride", 1), given.get("padding", 0), given.get("dilation", 1)
    if not isinstance(weight, Weight | Other) or dims != int(step.name[-2]):
        raise Unsupported(f"{step.where} has weights that depend on the input, or no batch")
    kernel = (run.shape(weight) if isinstance(weight, Weight) else weight.shape)[2:]
    stride, dilation = per_axis(stride, dims), per_axis(dilation, dims)
    spatial_in, spatial_out = x.shape()[1:], step.shapes[0][2:]
    if padding == "same":
        # PyTorch puts the odd one after: only the part before decides which input an output meets
        padding = tuple(d * (k - 1) // 2 for d, k in zip(dilation, kernel, strict=True))
    elif padding == "valid":
        padding = (0,) * dims
    padding = per_axis(padding, dims)
    ends = (spatial_out, spatial_in) if turned else (spatial_in, spatial_out)
    taps = [Taps(n, m, k, s, p, d) for n, m, k, s, p, d in zip(*ends, kernel, stride, padding, dilation, strict=True)]
    contracted = [k for k in x.axes[0] if k != CHANNEL]
    spatial = [list(axis) for axis in x.axes[1:]]
    if any(CHANNEL in axis for axis in spatial):
        raise Unsupported(f"{step.where} slides over channels")
    _check_mixes_channels(x, x.axes[0], step)
    still = all(isinstance(b.channel, ConstantChannel) and b.channel.value == 0 for b in x.blocks)
    if groups > 1 and contracted and (CHANNEL in x.axes[0] or not still):
        raise Unsupported(f"{step.where} treats the channels of its input separately")
    count = len(contracted)
    new_axes = (
        tuple(CHANNEL if k == CHANNEL else contracted.index(k) for k in x.axes[0]),
        *((count + i,) for i in range(dims)),
    )
    x = arranged(x, [*([k] for k in contracted), *spatial], new_axes, step)
    axes = ((CHANNEL,), *((i,) for i in range(dims)))
    out = step.shapes[0][1]
    return _weighted(step, x, axes, count, [(t, turned) for t in taps], out, groups, weight, bias, run)


def _check_mixes_channels(x: FeatureMap, axis: tuple[int, ...], step: Step) -> None:
    if x.channels > 1 and CHANNEL not in axis:
        raise Unsupported(f"{step.where} mixes positions and shares its weights over channels")


def _weighted(
    step: Step,
    x: FeatureMap,  # positions: first `count` that are contracted, then the ones that remain
    axes: Axes,
    count: int,
    taps: list[tuple[Taps, bool]],  # along each remaining axis, and whether the convolution is transposed
    out: int,
    groups: int,
    weight: Weight | Other,
    bias: Weight | Other | None,
    run: Pass,
) -> FeatureMap:
    """y_o = Σ_c,r,t W_o,c,r,t x_c(r, …) + b_o with uncorrelated zero-mean weights."""

    def law_of(w: Weight) -> tuple[TensorLaw, tuple[int, ...]]:
        return run.use_weight(w, step), run.shape(w)

    weights = weight_law(weight, law_of, step.where)
    law, row = weights.law, weights.row
    if law.mean != 0 or law.variance == 0:
        what = "starts at zero, so the input gradient is zero" if law.mean == 0 else "does not have mean zero"
        name = weight.name if isinstance(weight, Weight) else "the weight"
        raise Unsupported(f"{step.where}: '{name}' {what}")
    if row and (any(turned for _, turned in taps) or len(x.blocks) > 1):
        raise Unsupported(f"{step.where} standardises its weights in a way that has no rule")
    bias_law = None if bias is None else weight_law(bias, law_of, step.where).law
    depthwise = groups > 1 and groups == x.channels
    if groups > 1 and not depthwise and len(x.blocks) > 1:
        followed_locally(step, "groups channels of different kinds", run)
    inside = x.sizes[:count]

    def forward(m: Moment) -> Moment:
        for k, (t, turned) in enumerate(taps):
            m = m.convolved(k, t, back=turned)
        return m

    def backward(m: Moment) -> Moment:
        moved, common = m, None
        if row:  # entries of a row add up to zero
            common = row_sums_back(m.scaled(-out / groups * law.variance / row), maps, inside)
        for k, (t, turned) in enumerate(taps):
            moved = moved.convolved(k, t, back=not turned)
        sent = _scaled(moved, m, out / groups * law.variance).with_identity(range(count), inside)
        return sent if common is None else sent.plus(common)

    maps = [seen_inputs(t) for t, _ in taps] if row else []
    sizes = forward(ones(x.sizes[count:])).sizes
    source = frozenset([step.index])
    per_block = out // groups if depthwise else 0
    blocks = []
    for part in [[b] for b in x.blocks] if depthwise else [list(x.blocks)]:
        width = math.prod(inside) * sum(b.channels for b in part) // groups
        if any(isinstance(b.channel, Points) for b in part):  # known numbers: every weight is a term of its own
            width *= math.prod(t.kernel for t, _ in taps)
            run.first_layer(law, width)
            if law.kind == "normal":  # a sum of known multiples of normal weights is normal
                width = 2**31
        shared = 0 if depthwise else groups  # a depthwise layer sums over no channels
        channel = _after_weights(part, forward, taps, sizes, count, law, bias_law, shared, width, run)
        if row and isinstance(channel, GaussianChannel):
            if channel.tangent is not None:
                run.leaves_out(f"{step.where} has standardised weights")
            met = 1.0 if depthwise else part[0].channels / groups
            less = row_sums(part[0].channel, maps, count, met).scaled(-law.variance / row)
            channel = replace(channel, covariance=channel.covariance.plus(less), cache={}, dependences={})
        narrow = step.where if depthwise and not isinstance(part[0].channel, ConstantChannel) else ""
        channels = part[0].channels * per_block if depthwise else out
        beneath = frozenset().union(*(b.ancestors for b in part if groups > 1))
        blocks.append(ChannelBlock(channels, channel, source, fresh=True, narrow=narrow, beneath=beneath))

    def collected(block: int, gradients: Moment) -> None:
        """Gradients by these weights at two samples: Σ_pp' B(p, p') A(p, p'), A the products of what they multiply."""
        if row or not isinstance(weight, Weight) or isinstance(bias, Other):
            raise Unsupported(f"{step.where} has computed weights, whose gradients have no rule")
        part = [x.blocks[block]] if depthwise else list(x.blocks)
        met = sum(b.channels for b in part)
        inputs = _convolved(part, met, forward, taps, count)[0]
        if inputs is not None:
            run.collect(weight, gradients, inputs.scaled(1 if depthwise else met / groups), blocks[block].channels)
        if bias is not None:
            run.collect(bias, gradients, None, blocks[block].channels)

    def send(block: int, term: Term) -> None:
        if term.factors:
            term = run.average(term)
        if run.collecting:
            collected(block, term.moment)
        sent = replace(term.moved(backward), averaged=False)
        for i in [block] if depthwise else range(len(x.blocks)):
            x.receive(i, sent)

    return FeatureMap(axes, sizes, tuple(blocks), step, send)


def _scaled(moved: Moment, m: Moment, factor: float) -> Moment:
    """factor · moved, in place if it is not m itself."""
    alone = isinstance(moved, Full) and not (isinstance(m, Full) and m.values is moved.values)
    return moved.scaled_in_place(factor) if alone else moved.scaled(factor)


def _after_weights(
    blocks: list[ChannelBlock],
    forward: Callable[[Moment], Moment],
    taps: list[tuple[Taps, bool]],
    sizes: tuple[int, ...],
    count: int,
    law: TensorLaw,
    bias: TensorLaw | None,
    groups: int,
    width: int,
    run: Pass,
) -> Channel:
    if run.observing:
        return ObservedChannel(torch.zeros(0), sizes)
    channels = sum(b.channels for b in blocks)
    second, tangent = _convolved(blocks, channels, forward, taps, count)
    if second is None:
        if bias is None or bias.variance == 0:
            return ConstantChannel(0.0 if bias is None else bias.mean, sizes)
        return BiasOnly(bias, sizes)
    factor = law.variance * (channels / groups if groups else 1)
    covariance = second.scaled(factor)
    if bias is not None and bias.variance > 0:
        covariance = covariance.plus(ones(sizes).scaled(bias.variance))
    along = None if tangent is None else tangent.scaled(factor)
    return GaussianChannel(covariance, 0.0 if bias is None else bias.mean, width, along)


def _convolved(
    blocks: list[ChannelBlock],
    channels: int,
    forward: Callable[[Moment], Moment],
    taps: list[tuple[Taps, bool]],
    count: int,
) -> tuple[Moment | None, Moment | None]:
    """The mean over channels of E[v v], traced over contracted axes and convolved, and its tangent; None: zero."""
    first = blocks[0].channel
    if isinstance(first, Points) and len(blocks) == 1 and taps and not any(turned for _, turned in taps):
        return first.convolved(count, [t for t, _ in taps])
    total: Moment | None = None
    tangent: Moment | None = None
    for b in blocks:
        if isinstance(b.channel, ConstantChannel) and b.channel.value == 0:
            continue
        m, t = b.channel.traced(list(range(count)))
        share = b.channels / channels
        total = sum_or_none(total, m.scaled(share))
        tangent = sum_or_none(tangent, None if t is None else t.scaled(share))
    return moved_or_none(forward, total), moved_or_none(forward, tangent)
