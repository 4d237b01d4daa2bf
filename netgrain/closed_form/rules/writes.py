"""Writes to a part of a tensor: x[key] = value, and the sums in place that end in one.

Entries that are written no longer depend on what x was there. Along channels the parts stand side by side; along
positions x' = M x + P value, M the places that were left alone and P those that were written, and maps of common
values are added before any square is taken. So x[:, :, :n] += y is as exact as a sum.
"""

from __future__ import annotations

from typing import Any

from netgrain.closed_form.channels import ConstantChannel
from netgrain.closed_form.feature_maps import CHANNEL, ChannelBlock, FeatureMap, cut_channels, renamed
from netgrain.closed_form.rules import Pass, rule
from netgrain.closed_form.rules.affine import constant, nothing
from netgrain.closed_form.rules.positions import along_axes, eye
from netgrain.closed_form.rules.sums import added, side_by_side
from netgrain.families.trace import Ref, Step, Unsupported


@rule("copy")
def _copy(step: Step, values: list[FeatureMap], run: Pass) -> FeatureMap:
    """x.copy_(value): nothing of x is left."""
    if not isinstance(step.args[1], Ref) or values[-1].shape() != step.shapes[0][1:]:
        raise Unsupported(f"{step.where} writes something that is repeated or does not depend on the input")
    return renamed(values[-1], values[-1].axes, step)


@rule("setitem")
def _setitem(step: Step, values: list[FeatureMap], run: Pass) -> FeatureMap:
    target, key, source = step.args
    left = list(values)
    x = left.pop(0) if isinstance(target, Ref) else None
    value = left.pop(0) if isinstance(source, Ref) else None
    written = _written(step, key)
    if value is None:
        if constant(step, source, run).number != 0:
            raise Unsupported(f"{step.where} writes numbers into a tensor")
    elif written is not None and isinstance(written[1], int):
        axis = written[0]
        value = renamed(value, (*value.axes[:axis], (), *value.axes[axis:]), step)
    if x is None:
        assert value is not None
        if constant(step, target, run).number != 0:
            raise Unsupported(f"{step.where} writes into a tensor of numbers that are not zero")
        x = nothing(step.shapes[0][1:], next((k for k, a in enumerate(value.axes) if a == (CHANNEL,)), None))
    if written is None:
        if value is None or value.shape() != x.shape():
            raise Unsupported(f"{step.where} writes something of another shape")
        return renamed(value, value.axes, step)
    axis, place = written
    n = x.shape()[axis]
    start, stop, stride = (slice(place % n, place % n + 1) if isinstance(place, int) else place).indices(n)
    expected = (*x.shape()[:axis], stop - start, *x.shape()[axis + 1 :])
    if stride != 1 or (value is not None and value.shape() != expected):
        raise Unsupported(f"{step.where} writes every {stride}th entry, or something that is repeated")
    if CHANNEL in x.axes[axis]:
        return _into_channels(step, x, value, axis, start, stop, run)
    left_alone, whole = eye(n), eye(n)
    left_alone[start:stop] = 0
    rest = along_axes(x, {axis: left_alone}, step, run)
    if value is None:
        return rest
    return added(step, rest, along_axes(value, {axis: whole[:, start:stop]}, step, run), 1.0, run)


def _written(step: Step, key: Any) -> tuple[int, int | slice] | None:
    """The one axis along which a part is written, without the batch, and which part; None: the whole tensor."""
    keys = list(key) if isinstance(key, tuple) else [key]
    if any(not (isinstance(k, int | slice) or k is Ellipsis) for k in keys):
        raise Unsupported(f"{step.where} writes to elements that are picked by a tensor or a list")
    if Ellipsis in keys:
        at = keys.index(Ellipsis)
        keys[at : at + 1] = [slice(None)] * (len(step.shapes[0]) - len(keys) + 1)
    parts = [(axis - 1, k) for axis, k in enumerate(keys) if k != slice(None)]
    if len(parts) > 1 or any(axis < 0 for axis, _ in parts):
        raise Unsupported(f"{step.where} writes to samples of the batch, or to parts of several axes")
    return parts[0] if parts else None


def _into_channels(
    step: Step, x: FeatureMap, value: FeatureMap | None, axis: int, start: int, stop: int, run: Pass
) -> FeatureMap:
    """Channels before, those that are written, channels behind."""
    if x.axes[axis] != (CHANNEL,):
        raise Unsupported(f"{step.where} writes to channels that were flattened with positions")
    if value is None:
        zeros = ChannelBlock(stop - start, ConstantChannel(0.0, x.sizes), frozenset())
        value = FeatureMap(x.axes, x.sizes, (zeros,), step)
    parts = [cut_channels(x, a, b, x.axes, step, run.average) for a, b in ((0, start), (stop, x.channels)) if a < b]
    return side_by_side(step, [*parts[: start > 0], value, *parts[start > 0 :]], axis, run)
