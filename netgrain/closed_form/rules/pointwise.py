"""What happens to each channel on its own: activations, maxima, sums, products with numbers."""

from __future__ import annotations

from dataclasses import replace

from netgrain.closed_form.channels import (
    ConstantChannel,
    NeedsMembers,
    Points,
    activated,
    summed,
)
from netgrain.closed_form.feature_maps import CHANNEL, ChannelBlock, Choice, FeatureMap, Slope, Term, arranged, renamed
from netgrain.closed_form.gaussian_expectations import Activation
from netgrain.closed_form.rules import Pass, affine_map, channels_first, rule
from netgrain.families.trace import Ref, Step, Unsupported, Weight


def elementwise(step: Step, x: FeatureMap, activation: Activation, run: Pass) -> FeatureMap:
    blocks = []
    for b in x.blocks:
        if isinstance(b.channel, Points):
            raise Unsupported(f"{step.where} is an activation of the input itself")
        channel = b.channel if run.observing else activated(activation, b.channel)
        if b.narrow and not isinstance(b.channel, ConstantChannel):
            raise Unsupported(f"{step.where} follows {b.narrow}, whose few weights per channel never become Gaussian")
        if not activation.continuous:
            run.leaves_out(f"{step.where} jumps, which gradients do not see")
        blocks.append(replace(b, channel=channel, fresh=False))

    def send(block: int, term: Term) -> None:
        of = x.blocks[block].channel
        if term.averaged and not isinstance(of, ConstantChannel):
            raise Unsupported(f"{step.where} lies below a pool with another activation above it and no weights between")
        x.receive(block, term.through(slopes[id(of)]))

    # one object per place, so that gradients that took the same way are recognised
    slopes = {id(b.channel): Slope(activation, b.channel, step) for b in x.blocks}
    return FeatureMap(x.axes, x.sizes, tuple(blocks), step, send)


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
            raise Unsupported(f"{step.where} lies below a pool with an activation above it and no weights between")
        x.receive(block, term.through(choices[block]))

    blocks = tuple(replace(b, fresh=False) for b in x.blocks)
    return FeatureMap(((CHANNEL,), *((i,) for i in range(len(sizes)))), tuple(sizes), blocks, step, send)


@rule("add", "radd", "iadd", "sub", "isub", "rsub")
def _add(step: Step, values: list[FeatureMap], run: Pass) -> FeatureMap:
    if step.kwargs.get("alpha", 1) != 1:
        raise Unsupported(f"{step.where} adds a multiple")
    if len(values) == 1:
        return _shifted(step, values[0], run)
    sign = -1.0 if "sub" in step.name else 1.0
    return _residual(step, values[0], values[1], sign, run)


def _number(step: Step, run: Pass) -> float | None:
    """The other operand, if it is one known number."""
    others = [a for a in step.args if not isinstance(a, Ref)]
    if len(others) == 1 and isinstance(others[0], int | float):
        return float(others[0])
    if len(others) == 1 and isinstance(others[0], Weight):
        law = run.use_weight(others[0], step)
        if law.variance == 0:
            return law.mean
    return None


def _shifted(step: Step, x: FeatureMap, run: Pass) -> FeatureMap:
    number = _number(step, run)
    if number is None:
        raise Unsupported(f"{step.where} adds something that is not a plain number")
    reverse = "sub" in step.name and not isinstance(step.args[0], Ref)
    gain, shift = (-1.0, number) if reverse or step.name == "rsub" else (1.0, -number if "sub" in step.name else number)
    if number == 0 and gain == 1:
        return renamed(x, x.axes, step)
    if any(isinstance(b.channel, Points) for b in x.blocks):
        points = x.blocks[0].channel
        assert isinstance(points, Points)
        block = replace(x.blocks[0], channel=points.mapped(lambda values: values * gain, shift))
        return FeatureMap(x.axes, x.sizes, (block,), step, x.receive)
    return affine_map(step, x, gain, shift, run)


@rule("mul", "rmul", "imul", "div", "truediv", "itruediv", "true_divide", "multiply", "neg")
def _multiply(step: Step, values: list[FeatureMap], run: Pass) -> FeatureMap:
    if len(values) > 1:
        raise Unsupported(f"{step.where} multiplies two things that both depend on the input")
    if step.name == "neg":
        return affine_map(step, values[0], -1.0, 0.0, run)
    number = _number(step, run)
    if number is None:
        raise Unsupported(f"{step.where} multiplies by something that is not a plain number")
    if "div" in step.name:
        if not isinstance(step.args[0], Ref):
            raise Unsupported(f"{step.where} divides by something that depends on the input")
        number = 1 / number
    return affine_map(step, values[0], number, 0.0, run)


def _residual(step: Step, a: FeatureMap, b: FeatureMap, sign: float, run: Pass) -> FeatureMap:
    b = _like(a, b, step)
    bounds = sorted({stop for v in (a, b) for _, stop in v.spans()})
    blocks: list[ChannelBlock] = []
    owners: list[tuple[int, int]] = []
    start = 0
    for stop in bounds:
        i, j = _block_at(a, start), _block_at(b, start)
        u, v = a.blocks[i], b.blocks[j]
        fixed = all(isinstance(w.channel, ConstantChannel) for w in (u, v))
        if u.sources & v.sources:
            raise Unsupported(f"{step.where} adds two functions of the same channels")
        if not (u.fresh or v.fresh) and not fixed:
            raise Unsupported(f"{step.where} adds a branch that ends in an activation")
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

    return FeatureMap(a.axes, a.sizes, tuple(blocks), step, send)


def _block_at(x: FeatureMap, channel: int) -> int:
    return next(i for i, (start, stop) in enumerate(x.spans()) if start <= channel < stop)


def _like(a: FeatureMap, b: FeatureMap, step: Step) -> FeatureMap:
    """b with its positions in a's order."""
    if a.shape() != b.shape():
        raise Unsupported(f"{step.where} combines shapes {a.shape()} and {b.shape()}")
    if any([k == CHANNEL for k in p] != [k == CHANNEL for k in q] for p, q in zip(a.axes, b.axes, strict=True)):
        raise Unsupported(f"{step.where} combines channels with positions")
    return _like_positions(a, b, step, "combines")


@rule("cat", "concat", "concatenate")
def _cat(step: Step, values: list[FeatureMap], run: Pass) -> FeatureMap:
    dim = step.args[1] if len(step.args) > 1 else step.kwargs.get("dim", 0)
    axis = dim % (len(values[0].axes) + 1) - 1
    if axis < 0 or len(values) != len(step.args[0]):
        raise Unsupported(f"{step.where} joins along the batch, or with something that is not computed from the input")
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
