"""What happens to each channel on its own: activations, maxima, sums."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from netgrain.closed_form.channels import ConstantChannel, NeedsMembers, ObservedChannel, Points, activated
from netgrain.closed_form.feature_maps import CHANNEL, Choice, FeatureMap, Pointwise, Slope, Term
from netgrain.closed_form.gaussian_expectations import Activation
from netgrain.closed_form.rules import Pass, channels_first, followed_locally, rule
from netgrain.closed_form.rules.affine import constant, shifted
from netgrain.closed_form.rules.sums import added
from netgrain.families.trace import Ref, Step, Unsupported


def elementwise(step: Step, x: FeatureMap, activation: Activation, run: Pass) -> FeatureMap:
    blocks = []
    for b in x.blocks:
        if isinstance(b.channel, Points):
            raise Unsupported(f"{step.where} is an activation of the input itself")
        channel = b.channel if run.observing else activated(activation, b.channel)
        if b.narrow and not isinstance(b.channel, ConstantChannel):
            followed_locally(step, f"follows {b.narrow}, whose few weights per channel never become Gaussian", run)
        if not activation.continuous:
            run.leaves_out(f"{step.where} jumps, which gradients do not see")
        blocks.append(replace(b, channel=channel, fresh=False))

    def send(block: int, term: Term) -> None:
        of = x.blocks[block].channel
        if term.averaged and not isinstance(of, ConstantChannel):
            followed_locally(step, "lies below a pool with another activation above it and no weights between", run)
        x.receive(block, term.through(slopes[id(of)]))

    def slope(block: int) -> Tensor:
        of = x.blocks[block].channel
        assert isinstance(of, ObservedChannel)
        return activation.derivative(of.values)

    # one object per place, so that gradients that took the same way are recognised
    slopes = {id(b.channel): Slope(activation, b.channel, step) for b in x.blocks}
    return FeatureMap(x.axes, x.sizes, tuple(blocks), step, send, pointwise=Pointwise.of(x).then(slope))


@rule("max_pool1d", "max_pool2d", "max_pool3d", "adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d")
def _max_pool(step: Step, values: list[FeatureMap], run: Pass) -> FeatureMap:
    x = channels_first(values[0], step)
    if len(step.shapes) > 1:
        raise Unsupported(f"{step.where} returns the places of its maxima")
    sizes = step.shapes[0][2:]
    if not run.observing:
        raise NeedsMembers(f"{step.where} has no closed form")
    seen = run.tensor(step.args[0])
    kwargs = {**step.kwargs, "return_indices": True}
    _, winners = step.function(seen, *step.args[1:], **kwargs)
    winners = winners.flatten(2)
    choices = [Choice(winners[:, a:b], x.sizes, step) for a, b in x.spans()]

    def send(block: int, term: Term) -> None:
        if term.averaged:
            followed_locally(step, "lies below a pool with an activation above it and no weights between", run)
        x.receive(block, term.through(choices[block]))

    blocks = tuple(replace(b, fresh=False) for b in x.blocks)
    return FeatureMap(((CHANNEL,), *((i,) for i in range(len(sizes)))), tuple(sizes), blocks, step, send)


@rule("add", "radd", "iadd", "sub", "isub", "rsub")
def _add(step: Step, values: list[FeatureMap], run: Pass) -> FeatureMap:
    alpha = step.kwargs.get("alpha", 1)
    subtracts, turned = "sub" in step.name, step.name == "rsub"
    if len(values) == 2:
        a, b = reversed(values) if turned else values
        return added(step, a, b, -alpha if subtracts else alpha, run)
    if alpha != 1:
        raise Unsupported(f"{step.where} adds a multiple")
    first = isinstance(step.args[0], Ref)
    number = constant(step, step.args[1] if first else step.args[0], run)
    if subtracts and first and not turned:
        return shifted(step, values[0], number.affine(-1.0), run)
    return shifted(step, values[0], number, run, -1.0 if subtracts else 1.0)
