"""Positions joined (class tokens, stacks), and products with a weight that are written out (matmul, einsum, addmm)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from netgrain.closed_form.channels import BiasOnly, GaussianChannel, Points
from netgrain.closed_form.constants import Known
from netgrain.closed_form.feature_maps import CHANNEL, FeatureMap, renamed
from netgrain.closed_form.layouts import BATCH, Layout, piece
from netgrain.closed_form.rules import Pass, rule
from netgrain.closed_form.rules.affine import constant, nothing, shifted
from netgrain.closed_form.rules.positions import along_axes, eye
from netgrain.closed_form.rules.rearranging import laid_out
from netgrain.closed_form.rules.sums import added, joined_channels
from netgrain.closed_form.rules.weighted import linear_map
from netgrain.families.trace import Other, Ref, Step, Unsupported, Weight

# --- positions joined -------------------------------------------------------------------------------------------------


@rule("cat", "concat", "concatenate")
def _cat(step: Step, values: list[FeatureMap], run: Pass) -> FeatureMap:
    given = step.args[0] if step.args else step.kwargs["tensors"]
    dim = step.args[1] if len(step.args) > 1 else step.kwargs.get("dim", 0)
    first = values[0]
    axis = dim % (len(first.axes) + 1) - 1
    if axis < 0 or (len(values) == len(given) and CHANNEL in first.axes[axis]):
        return joined_channels(step, values, run)
    if CHANNEL in first.axes[axis]:
        raise Unsupported(f"{step.where} joins channels with something that is not computed from the input")
    left = list(values)
    parts = [left.pop(0) if isinstance(part, Ref) else _constant_tokens(step, part, first, run) for part in given]
    return _joined(step, parts, axis, run)


@rule("stack")
def _stack(step: Step, values: list[FeatureMap], run: Pass) -> FeatureMap:
    given = step.args[0] if step.args else step.kwargs["tensors"]
    dim = step.args[1] if len(step.args) > 1 else step.kwargs.get("dim", 0)
    axis = dim % len(step.shapes[0]) - 1
    if axis < 0 or len(values) != len(given):
        raise Unsupported(f"{step.where} joins along the batch, or with something that is not computed from the input")
    parts = [renamed(v, (*v.axes[:axis], (), *v.axes[axis:]), step) for v in values]
    return _joined(step, parts, axis, run)


def _joined(step: Step, parts: Sequence[FeatureMap], axis: int, run: Pass) -> FeatureMap:
    """Σ A_i x_i with A_i the places of x_i along the axis."""
    sizes = [part.shape()[axis] for part in parts]
    whole = eye(sum(sizes))
    placed, start = [], 0
    for part, n in zip(parts, sizes, strict=True):
        placed.append(along_axes(part, {axis: whole[:, start : start + n]}, step, run))
        start += n
    # what depends on the input comes first: the others have its layout
    placed.sort(key=lambda part: not any(b.sources for b in part.blocks))
    total = placed[0]
    for part in placed[1:]:
        total = added(step, total, part, 1.0, run)
    return total


def _constant_tokens(step: Step, value: Any, like: FeatureMap, run: Pass) -> FeatureMap:
    """Tokens that do not depend on the input (a class token, expanded to the batch), with their law."""
    by = constant(step, value, run)
    entries = by.entries
    if entries.dim() != len(like.axes) + 1 or not bool((entries == entries[:1]).all()):
        raise Unsupported(f"{step.where} joins a tensor that differs between samples")
    by = by.moved(lambda t: t[0])
    if any(isinstance(b.channel, Points) for b in like.blocks) and by.number != 0:
        raise Unsupported(f"{step.where} joins something with the input itself")
    channel_axis = next((k for k, axis in enumerate(like.axes) if axis == (CHANNEL,)), None)
    if channel_axis is None and like.channels > 1:
        raise Unsupported(f"{step.where} joins channels that were flattened with positions")
    return _with_law(step, shifted(step, nothing(tuple(by.entries.shape), channel_axis), by, run), by, run)


def _with_law(step: Step, tokens: FeatureMap, by: Known, run: Pass) -> FeatureMap:
    """One random number per channel is Gaussian among others that are, if it is normal."""
    (block,) = tokens.blocks
    if run.observing or not isinstance(block.channel, BiasOnly) or by.law is None or by.law.mean:
        return tokens
    if by.law.kind != "normal":
        run.note(step, "wide limit")
    gaussian = GaussianChannel(block.channel.second())
    return replace(tokens, blocks=(replace(block, channel=gaussian),))


# --- products with a weight -------------------------------------------------------------------------------------------


def times_weight(step: Step, x: FeatureMap, run: Pass) -> FeatureMap:
    """x @ W, or W @ x along the axis before the last."""
    first, second = step.args[:2] if step.name != "rmatmul" else reversed(step.args[:2])
    if isinstance(first, Ref):
        return _contracted(step, x, [len(x.whole().axes) - 1], second, _columns(step, second, run, 0), run)
    count = len(x.whole().axes)
    y = _contracted(step, x, [count - 2], first, _columns(step, first, run, 1), run)
    axes = y.whole().axes
    return laid_out(y, Layout((*axes[:-2], axes[-1], axes[-2]), y.whole().pieces), step, run)


def _columns(step: Step, weight: Any, run: Pass, contracted: int) -> int:
    """How many numbers a matrix makes of those that it sums over."""
    shape = _shape(step, weight, run)
    if len(shape) != 2:
        raise Unsupported(f"{step.where} multiplies with {len(shape)} axes of weights")
    return shape[1 - contracted]


def _shape(step: Step, weight: Any, run: Pass) -> tuple[int, ...]:
    if not isinstance(weight, Weight | Other):
        raise Unsupported(f"{step.where} has weights that depend on the input")
    return run.shape(weight) if isinstance(weight, Weight) else weight.shape


def _contracted(step: Step, x: FeatureMap, axes: Sequence[int], weight: Any, out: int, run: Pass) -> FeatureMap:
    """Σ over some tensor axes (the batch counted) with independent weights; the result is in the last axis."""
    layout = x.whole()
    inside = tuple(a for k in axes for a in layout.axes[k])
    if layout.pieces or BATCH in inside:
        raise Unsupported(f"{step.where} sums over the batch, or over channels that were split")
    kept = Layout((*(axis for k, axis in enumerate(layout.axes) if k not in axes), inside))
    moved = laid_out(x, kept, step, run)
    seen = FeatureMap(moved.axes, moved.sizes, moved.blocks, step, moved.receive)
    y = linear_map(step, seen, weight, None, out, run)
    found = kept.with_axes(y.axes)
    if found is None:
        raise Unsupported(f"{step.where} acts on a batch that was rearranged")
    return laid_out(y, found, step, run)


@rule("addmm", layouts=True)
def _addmm(step: Step, values: list[FeatureMap], run: Pass) -> FeatureMap:
    """b + x W."""
    bias, x, weight = step.args[:3]
    layout = values[0].whole()
    if (
        not isinstance(x, Ref)
        or len(values) != 1
        or step.kwargs.get("alpha", 1) != 1
        or step.kwargs.get("beta", 1) != 1
    ):
        raise Unsupported(f"{step.where} is called in a way that has no rule")
    if layout.pieces or BATCH in layout.axes[-1] or len(_shape(step, bias, run)) != 1:
        raise Unsupported(f"{step.where} acts on a batch or on channels that were rearranged")
    seen = FeatureMap(layout.without_batch(0), values[0].sizes, values[0].blocks, step, values[0].receive)
    y = linear_map(step, seen, weight, bias, _columns(step, weight, run, 0), run)
    found = layout.with_axes(y.axes)
    if found is None:
        raise Unsupported(f"{step.where} acts on a batch that was rearranged")
    return laid_out(y, found, step, run)


@rule("einsum", layouts=True)
def _einsum(step: Step, values: list[FeatureMap], run: Pass) -> FeatureMap:
    """A value and a weight, as in "bnc,cd->bnd"."""
    equation, *operands = step.args
    if len(operands) == 1 and isinstance(operands[0], list | tuple):
        operands = list(operands[0])
    unlike = Unsupported(f"{step.where} is no product of a value with a weight")
    if not isinstance(equation, str) or len(operands) != 2 or len(values) != 1 or "." in equation:
        raise unlike
    inputs, _, out = equation.replace(" ", "").partition("->")
    ours, theirs = inputs.split(",")
    weight = operands[1]
    if not isinstance(operands[0], Ref):
        ours, theirs, weight = theirs, ours, operands[0]
    summed = [c for c in ours if c in theirs]
    new = [c for c in theirs if c not in ours]
    kept = [c for c in ours if c not in theirs]
    clear = all(len(set(s)) == len(s) for s in (ours, theirs, out))
    if not summed or not new or not clear or set(out) != {*kept, *new} or not {*summed}.isdisjoint(out):
        raise unlike
    shape = dict(zip(theirs, _shape(step, weight, run), strict=True))
    count = 1
    for c in new:
        count *= shape[c]
    y = _contracted(step, values[0], [ours.index(c) for c in summed], weight, count, run)
    layout = y.whole()
    if len(new) > 1 and layout.axes[-1] != (CHANNEL,):
        raise unlike
    last = [layout.axes[-1]] if len(new) == 1 else [(piece(i),) for i in range(len(new))]
    axes = dict(zip((*kept, *new), (*layout.axes[:-1], *last), strict=True))
    pieces = layout.pieces if len(new) == 1 else tuple(shape[c] for c in new)
    return laid_out(y, Layout(tuple(axes[c] for c in out), pieces), step, run)
