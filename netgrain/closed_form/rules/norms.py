"""Normalisation layers: fresh, with the statistics of data, or over the channels of one sample."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from netgrain.closed_form.channels import Channel, GaussianChannel, Moved, NeedsMembers
from netgrain.closed_form.constants import Known
from netgrain.closed_form.dependence import OwnSpread
from netgrain.closed_form.feature_maps import CHANNEL, ChannelBlock, FeatureMap, Gain, Part, Term
from netgrain.closed_form.moments import Full, Moment, check_room, ones
from netgrain.closed_form.rules import Pass, affine_map, arguments, rule
from netgrain.closed_form.rules.affine import along_channels, constant, multiplied, nothing, shifted
from netgrain.closed_form.rules.sums import is_nothing
from netgrain.families.origin import NORMS
from netgrain.families.trace import Step, Unsupported, Weight


@rule("batch_norm")
def _batch_norm(step: Step, values: list[FeatureMap], run: Pass) -> FeatureMap:
    x = values[0]
    names = ("running_mean", "running_var", "weight", "bias", "training", "momentum", "eps")
    running_mean, running_var, weight, bias, training, _, eps = arguments(step, *names, eps=1e-5, training=False)
    if training or not isinstance(running_mean, Weight) or not isinstance(running_var, Weight):
        raise Unsupported(f"{step.where} uses the statistics of the batch")
    if is_nothing(x) and not any(CHANNEL in axis for axis in x.axes):
        x = nothing(x.shape(), channel_axis=0)
    if run.data_statistics:
        if not run.observing:
            raise NeedsMembers(f"{step.where} has statistics of data")
        _check_first_axis(x, step)
        gains = (run.real(running_var, step).double() + eps).rsqrt()[:, None]
        made = [Gain(gains[None, a:b], step) for a, b in x.spans()]
        inner = x

        def send(block: int, term: Term) -> None:
            inner.receive(block, term.through(made[block]))

        x = FeatureMap(x.axes, x.sizes, x.blocks, step, send)
    else:
        mean, variance = run.law(running_mean, step), run.law(running_var, step)
        if mean.variance or variance.variance or mean.mean:
            raise Unsupported(f"{step.where} has statistics that are not those of a fresh layer")
        x = affine_map(step, x, 1 / math.sqrt(variance.mean + eps), 0.0, run)
    return _affine(step, x, weight, bias, 0, run)


def _affine(step: Step, x: FeatureMap, weight: Any, bias: Any, axis: int, run: Pass) -> FeatureMap:
    """γ∘x + β of a normalisation; axis: where γ and β begin."""
    if weight is not None:
        gamma = along_channels(x, constant(step, weight, run), axis)
        x = multiplied(step, x, gamma, run, lambda: along_channels(x, Known(run.real(weight, step)), axis).entries)
    if bias is not None:
        x = shifted(step, x, along_channels(x, constant(step, bias, run), axis), run)
    return x


@rule("layer_norm", "group_norm", "rms_norm")
def _norm(step: Step, values: list[FeatureMap], run: Pass) -> FeatureMap:
    """In a wide layer the statistics over channels are those of one channel: a known scale at each position."""
    x = values[0]
    if is_nothing(x):
        return _of_nothing(step, x, run)
    names = NORMS[step.name]
    given = dict(zip(names, arguments(step, *names, eps=1e-5), strict=True))
    eps = torch.finfo(torch.float32).eps if given["eps"] is None else given["eps"]
    centred = step.name != "rms_norm"
    if step.name == "group_norm":
        _check_first_axis(x, step)
        first, normalised = 0, tuple(range(len(x.axes)))
        if given["num_groups"] > 1 and len(x.blocks) > 1:
            raise Unsupported(f"{step.where} groups channels of different kinds")
    else:
        first = len(x.axes) - len(given["normalized_shape"])
        normalised = tuple(range(first, len(x.axes)))
    atoms = [k for a in normalised for k in x.axes[a]]
    if CHANNEL not in atoms:
        raise Unsupported(f"{step.where} normalises positions without channels")
    inside = [k for k in atoms if k != CHANNEL]  # position atoms that are averaged over together with the channels
    run.note(step, "observed" if run.observing else "wide limit")
    run.normalises(x.channels // (given["num_groups"] if step.name == "group_norm" else 1))
    means, squares = _channel_statistics(step, x, run, centred)
    mean, square = (_spread_over(s, x.sizes, inside) for s in (means, squares))
    spread = square - mean**2 if centred else square
    if bool((spread <= eps).any()):
        raise Unsupported(f"'{step.module or step.name}' normalises a constant at a probe point")
    scale = 1 / (spread + eps).sqrt()  # (points, positions), constant over `inside`
    flat = bool((scale == scale[:, :1]).all())

    def gained(m: Moment) -> Moment:
        if flat:
            return m.scaled(scale[:, 0] ** 2)
        full = m.full().spelled_out()
        outer = scale[:, :, None] * scale[:, None, :]
        return replace(full, values=full.values * outer.reshape(-1, *x.sizes, *x.sizes))

    tied = _tied(step, x, run, scale, spread + eps, inside)

    def changed(b: ChannelBlock) -> Channel:
        if run.observing:
            return b.channel
        if tied is not None and isinstance(b.channel, GaussianChannel):
            return GaussianChannel(gained(b.channel.covariance), 0.0, b.channel.width, tied.along())
        if flat and len(scale) == 1 and not bool((mean != 0).any()):
            return b.channel.scaled(float(scale[0, 0]))
        if isinstance(b.channel, GaussianChannel) and b.channel.centre == 0:
            return GaussianChannel(gained(b.channel.covariance), 0.0, b.channel.width)
        own = b.channel.mean().expand(-1, math.prod(x.sizes))
        around = b.channel.second().plus(_less(own, mean, x.sizes))
        return Moved(gained(around))

    blocks = tuple(replace(b, channel=changed(b)) for b in x.blocks)

    def send(block: int, term: Term) -> None:
        if tied is None:
            x.receive(block, term.moved(gained))
            return
        term = run.average(term)  # slopes above see what this layer makes, not what it gets
        weights = tied.sent_back(term.moment.full(), None if term.weights is None else term.weights.full())
        x.receive(block, replace(term, moment=gained(term.moment), weights=weights))

    # given its statistics a norm is a multiple of what it gets; its mean over many channels does not matter
    linear = flat and len(scale) == 1 and tied is None
    parts = (Part(x, float(scale[0, 0])),) if linear else ()
    y = FeatureMap(x.axes, x.sizes, blocks, step, send, parts=parts)
    return _affine(step, y, given["weight"], given.get("bias"), first, run)


def _of_nothing(step: Step, x: FeatureMap, run: Pass) -> FeatureMap:
    """A norm whose weight is zero: only its bias is left."""
    names = NORMS[step.name]
    given = dict(zip(names, arguments(step, *names), strict=True))
    axis = 0 if step.name == "group_norm" else len(x.axes) - 1
    first = 0 if step.name == "group_norm" else len(x.axes) - len(given["normalized_shape"])
    return _affine(step, nothing(x.shape(), channel_axis=axis), given["weight"], given.get("bias"), first, run)


def _tied(step: Step, x: FeatureMap, run: Pass, scale: Tensor, spread: Tensor, inside: list[int]) -> OwnSpread | None:
    """How the scale depends on the input, where directions are followed."""
    if not run.tracking:
        return None
    block = x.blocks[0].channel
    if len(x.blocks) > 1 or not isinstance(block, GaussianChannel) or block.centre != 0:
        run.leaves_out(f"{step.where} normalises something that is not a centred Gaussian")
        return None
    if block.tangent is None:
        return None
    mean = _spread_over(torch.eye(math.prod(x.sizes), dtype=torch.float64), x.sizes, inside)
    positions = len(mean)
    return OwnSpread(
        block.covariance.full(),
        block.tangent.full(),
        scale[0].expand(positions),
        spread[0].expand(positions),
        mean,
    )


def _channel_statistics(step: Step, x: FeatureMap, run: Pass, centred: bool) -> tuple[Tensor, Tensor]:
    """Mean and mean square over channels at each position, (points, positions)."""
    if run.observing:
        seen = [p.values for p in x.observed(run.tensor(step.args[0]))]
        every = torch.cat(seen, 1)
        return every.mean(1), every.square().mean(1)
    means, squares = [], []
    positions = math.prod(x.sizes)
    for b in x.blocks:
        share = b.channels / x.channels
        m = b.channel.second()
        value = m.constant()
        diagonal = (
            value.reshape(-1, 1) if value is not None else m.full().spelled_out().matrices().diagonal(dim1=1, dim2=2)
        )
        squares.append(share * diagonal.expand(-1, positions))
        means.append(
            share * (b.channel.mean() if centred else torch.zeros(1, 1, dtype=torch.float64)).expand(-1, positions)
        )
    return sum(means[1:], means[0]), sum(squares[1:], squares[0])


def _less(own: Tensor, taken: Tensor, sizes: tuple[int, ...]) -> Moment:
    """What E[v v'] loses, E[v] = own, where `taken` is subtracted from v; (points, positions) each."""
    if bool((own == own[:, :1]).all()) and bool((taken == own).all()) and len(own) == 1:
        return ones(sizes).scaled(-(float(own[0, 0]) ** 2))
    check_room(own.shape[1], max(len(own), len(taken)))
    rest = own - taken
    less = rest[:, :, None] * rest[:, None] - own[:, :, None] * own[:, None]
    return Full(sizes, less.reshape(-1, *sizes, *sizes))


def _spread_over(values: Tensor, sizes: tuple[int, ...], inside: list[int]) -> Tensor:
    """Replace by the mean over some position atoms."""
    if not inside:
        return values
    shaped = values.reshape(-1, *sizes)
    return shaped.mean([1 + k for k in inside], keepdim=True).expand_as(shaped).reshape(values.shape)


def _check_first_axis(x: FeatureMap, step: Step) -> None:
    if not x.axes or x.axes[0] not in ((CHANNEL,), ()):
        raise Unsupported(f"{step.where} expects the channels in the first axis")
