"""Products and sums with tensors that do not depend on the input: LayerScale, position embeddings, affine norms.

y = γ∘x multiplies B and K by E[γ(p) γ(p')] over channels, y = x + β adds the second moment of β to K. Where the
channel is a known number this is exact; a random channel times random numbers is no longer Gaussian, and what reacts
to it is observed on members. What is multiplied by a known zero is never looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from torch import Tensor

from netgrain.closed_form.channels import (
    BiasOnly,
    Channel,
    ConstantChannel,
    GaussianChannel,
    Moved,
    NeedsMembers,
    Points,
    moved_or_none,
)
from netgrain.closed_form.computed_weights import weight_law
from netgrain.closed_form.constants import Known, LawOf, known
from netgrain.closed_form.feature_maps import CHANNEL, ChannelBlock, FeatureMap, Gain, Pointwise, renamed
from netgrain.closed_form.moments import Moment, identity, ones
from netgrain.closed_form.rules import Pass, affine_map, rule
from netgrain.closed_form.rules.sums import added
from netgrain.families.initialisation import TensorLaw
from netgrain.families.trace import WEIGHTED, Other, Ref, Step, Unsupported, Weight, refs_in

NORM_WEIGHTS = {"batch_norm": 3, "layer_norm": 2, "group_norm": 2, "rms_norm": 2}  # place of the weight
FACTORS = {"mul", "rmul", "imul", "multiply"}


def constant(step: Step, value: Any, run: Pass) -> Known:
    """What is known of an argument that does not depend on x."""

    def law_of(weight: Weight) -> tuple[TensorLaw, tuple[int, ...]]:
        return run.use_weight(weight, step), run.shape(weight)

    return known(value, law_of, step.where)


def live_refs(step: Step, run: Pass) -> list[Ref]:
    """The values that a step depends on: all but those that a known zero multiplies."""
    refs = list(refs_in((step.args, step.kwargs)))
    dead: list[Any] = []
    if step.name in NORM_WEIGHTS:
        place = NORM_WEIGHTS[step.name]
        weight = step.args[place] if len(step.args) > place else step.kwargs.get("weight")
        dead = refs if isinstance(weight, Weight) and _is_zero(step, weight, run) else []
    elif step.name in FACTORS and len(step.args) == 2 and len(refs) == 1:
        factor = step.args[1] if isinstance(step.args[0], Ref) else step.args[0]
        dead = refs if _is_zero(step, factor, run) else []
    elif step.name == "addcmul" and len(step.args) == 3:
        pair = step.args[1:]
        dead = list(pair) if any(_is_zero(step, a, run) for a in pair if not isinstance(a, Ref)) else []
    elif step.name in WEIGHTED and len(step.args) > 1:
        dead = refs if _has_zero_weights(step, run) else []
    return [ref for ref in refs if not any(ref is d for d in dead)]


def _has_zero_weights(step: Step, run: Pass) -> bool:
    """Whether a linear layer or a convolution starts at zero."""
    try:
        law = weight_law(step.args[1], _reader(step, run), step.where).law
    except Unsupported:
        return False
    return law.mean == 0 and law.variance == 0


def _reader(step: Step, run: Pass) -> LawOf:
    """Laws of parameters that are only looked at, not used."""
    return lambda weight: (run.law(weight, step), run.shape(weight))


def _is_zero(step: Step, value: Any, run: Pass) -> bool:
    if not isinstance(value, Weight | Other | int | float):
        return False
    try:
        return known(value, _reader(step, run), step.where).number == 0
    except Unsupported:
        return False


def per_block(x: FeatureMap, tensor: Tensor, step: Step) -> list[Tensor]:
    """A constant beside x, (channels, positions) for each block of channels."""
    if tensor.dim() > len(x.axes) and len(tensor) == 1:
        tensor = tensor[0]
    try:
        wide = tensor.expand(x.shape())
    except RuntimeError as e:
        raise Unsupported(f"{step.where} combines shapes {x.shape()} and {tuple(tensor.shape)}") from e
    return x.beside(wide)


def _products(values: Tensor, by: Known, sizes: tuple[int, ...], step: Step) -> Moment:
    """E[γ(p) γ(p')], averaged over the channels of a block."""
    still = bool((values == values[:, :1]).all())
    if by.numbers is not None:
        if still:
            return ones(sizes).scaled(float(values[:, 0].square().mean()))
        every = ones(sizes).full()  # refuses what would not fit
        return replace(every, values=(values.T @ values / len(values)).reshape(every.values.shape))
    assert by.law is not None
    square = by.law.mean**2
    if still:
        return ones(sizes).scaled(square + by.law.variance)
    if all(len(row.unique()) == len(row) for row in values):
        return ones(sizes).scaled(square).plus(identity(sizes).scaled(by.law.variance))
    raise Unsupported(f"{step.where} repeats random numbers over positions")


def multiplied(step: Step, x: FeatureMap, by: Known, run: Pass, real: Callable[[], Tensor]) -> FeatureMap:
    """y = γ∘x. real: the γ of the member that is observed."""
    if (number := by.number) is not None and not any(isinstance(b.channel, Points) for b in x.blocks):
        return affine_map(step, x, number, 0.0, run)
    parts = per_block(x, by.entries, step)
    if run.observing:
        gains = [Gain(g[None], step) for g in (parts if by.numbers is not None else per_block(x, real(), step))]
        return FeatureMap(x.axes, x.sizes, x.blocks, step, lambda i, term: x.receive(i, term.through(gains[i])))
    products = [_products(g, by, x.sizes, step) for g in parts]
    blocks = tuple(
        replace(b, channel=_multiplied_channel(b, g, m, by)) for b, g, m in zip(x.blocks, parts, products, strict=True)
    )
    return FeatureMap(x.axes, x.sizes, blocks, step, lambda i, term: x.receive(i, term.times(products[i])))


def _multiplied_channel(block: ChannelBlock, gains: Tensor, products: Moment, by: Known) -> Channel:
    channel = block.channel
    if isinstance(channel, ConstantChannel) and channel.value == 0:
        return channel
    alike = by.numbers is not None and bool((gains == gains[:1]).all())
    if alike and isinstance(channel, Points):
        return channel.mapped(lambda x: x * gains[0].reshape(channel.sizes))
    tangent = moved_or_none(lambda m: m.times(products), channel.second_tangent())
    if alike and isinstance(channel, GaussianChannel) and channel.centre == 0:
        return GaussianChannel(channel.covariance.times(products), 0.0, channel.width, tangent)
    return Moved(channel.second().times(products), tangent)


def shifted(step: Step, x: FeatureMap, by: Known, run: Pass, sign: float = 1.0) -> FeatureMap:
    """y = sign · x + β."""
    number = by.number
    if number == 0 and sign == 1:
        return renamed(x, x.axes, step)
    if number is not None and any(isinstance(b.channel, Points) for b in x.blocks):
        points = x.blocks[0].channel
        assert isinstance(points, Points)
        block = replace(x.blocks[0], channel=points.mapped(lambda values: values * sign, number))
        along = Pointwise.of(x).then(lambda _: sign)
        return FeatureMap(x.axes, x.sizes, (block,), step, x.receive, pointwise=along)
    if number is not None:
        return affine_map(step, x, sign, number, run)
    if sign != 1:
        x = affine_map(step, x, sign, 0.0, run)
    centred = by.law is not None and by.law.mean == 0
    parts = per_block(x, by.entries, step)
    blocks = tuple(
        replace(b, channel=_shifted_channel(step, b, p, by, run), fresh=b.fresh and centred)
        for b, p in zip(x.blocks, parts, strict=True)
    )
    return FeatureMap(x.axes, x.sizes, blocks, step, x.receive, pointwise=Pointwise.of(x))


def _shifted_channel(step: Step, block: ChannelBlock, entries: Tensor, by: Known, run: Pass) -> Channel:
    channel, law = block.channel, by.law
    if run.observing:
        return channel
    if law is None:
        raise NeedsMembers(f"{step.where} adds numbers that differ")
    still = bool((entries == entries[:, :1]).all())
    if still and isinstance(channel, ConstantChannel):
        return BiasOnly(law.affine(1.0, channel.value), channel.sizes)
    spread = _products(entries, by, channel.sizes, step)
    around = ones(channel.sizes).scaled(-(law.mean**2))
    variance = spread.plus(around) if law.mean else spread
    if isinstance(channel, ConstantChannel):
        if law.kind != "normal":
            run.note(step, "wide limit")
        return GaussianChannel(variance, channel.value + law.mean)
    if isinstance(channel, GaussianChannel):
        return GaussianChannel(
            channel.covariance.plus(variance), channel.centre + law.mean, channel.width, channel.tangent
        )
    if law.mean:
        raise NeedsMembers(f"{step.where} adds something that has a mean")
    return Moved(channel.second().plus(variance), channel.second_tangent())


def along_channels(x: FeatureMap, by: Known, axis: int) -> Known:
    """One number per channel, or per entry of the last axes, as a tensor beside x; axis: where it begins."""
    after = len(x.axes) - axis - by.entries.dim()
    return by.moved(lambda t: t.reshape(*t.shape, *(1,) * after))


@rule("addcmul")
def _addcmul(step: Step, values: list[FeatureMap], run: Pass) -> FeatureMap:
    """start + value · first · second with one factor that depends on the input."""
    start, first, second = step.args
    factor = step.kwargs.get("value", 1)
    if isinstance(first, Ref) and isinstance(second, Ref):
        raise Unsupported(f"{step.where} multiplies two things that both depend on the input")
    if not isinstance(first, Ref) and not isinstance(second, Ref):
        raise Unsupported(f"{step.where} multiplies two constants")
    other = second if isinstance(first, Ref) else first
    by = constant(step, other, run).affine(factor)
    product = multiplied(step, values[-1], by, run, lambda: run.real(other, step).double() * factor)
    if isinstance(start, Ref):
        return added(step, values[0], product, 1.0, run)
    return shifted(step, product, constant(step, start, run), run)


def only_bias(step: Step, bias: Any, axis: int, run: Pass) -> FeatureMap:
    """What a layer makes of zeros; axis: that of its channels."""
    x = nothing(step.shapes[0][1:], channel_axis=axis)
    return x if bias is None else shifted(step, x, along_channels(x, constant(step, bias, run), axis), run)


def nothing(shape: tuple[int, ...], channel_axis: int | None = None) -> FeatureMap:
    """What a known zero multiplies: nobody looks at it, and no gradient comes back."""
    if channel_axis is None:
        axes, sizes = tuple((k,) for k in range(len(shape))), shape
    else:
        others = [k for k in range(len(shape)) if k != channel_axis]
        axes = tuple((CHANNEL,) if k == channel_axis else (others.index(k),) for k in range(len(shape)))
        sizes = tuple(shape[k] for k in others)
    count = 1 if channel_axis is None else shape[channel_axis]
    return FeatureMap(axes, sizes, (ChannelBlock(count, ConstantChannel(0.0, sizes), frozenset()),))
