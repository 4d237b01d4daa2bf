"""What moves entries and changes none: reshapes, permutations, slices, copies, PixelShuffle, Unfold.

The batch may be moved, and multiplied with positions (windows); channels may be split (heads). Such a tensor has a
`Layout`. Rules that act on each entry alone, or along the last axis, see it through `inside_layout`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from netgrain.closed_form.channels import Channel, ConstantChannel, GaussianChannel, Moved, ObservedChannel
from netgrain.closed_form.feature_maps import (
    CHANNEL,
    Axes,
    FeatureMap,
    Term,
    arranged,
    cut_channels,
    derived,
    renamed,
    reshaped,
)
from netgrain.closed_form.layouts import BATCH, FIRST_PIECE, Layout, is_channel, piece
from netgrain.closed_form.moments import Full, Moment, check_room
from netgrain.closed_form.rules import Pass, arguments, channels_first, per_axis, rule
from netgrain.closed_form.rules.positions import along_axes, eye, without_axes
from netgrain.families.nested import every
from netgrain.families.trace import Other, Step, Unsupported, Weight

EACH_ENTRY = {"contiguous", "clone", "to", "float", "double", "dropout", "identity", "positive", "type_as", "neg"}
SUMS = {"add", "radd", "iadd", "sub", "isub", "rsub"}
PRODUCTS = {"mul", "rmul", "imul", "div", "truediv", "itruediv", "true_divide", "multiply"}
LAST_AXIS = {"linear", "layer_norm", "rms_norm"}


# --- layouts ----------------------------------------------------------------------------------------------------------


def laid_out(value: FeatureMap, layout: Layout, step: Step, run: Pass) -> FeatureMap:
    """The same channels and positions in a tensor of another layout."""
    whole = layout.together()
    axes, count = whole.standard(), len(value.sizes)
    if whole is not layout and not layout.in_order():
        if len(value.blocks) > 1:
            raise Unsupported(f"{step.where} reorders channels of different kinds")

        def send(block: int, term: Term) -> None:  # factors know channels by their number
            value.receive(block, run.average(term) if term.factors else term)

        seen = whole.without_batch(count) if axes is None else axes
        return FeatureMap(seen, value.sizes, value.blocks, step, send, layout=whole if axes is None else None)
    if axes is not None:
        return renamed(value, axes, step)
    return FeatureMap(whole.without_batch(count), value.sizes, value.blocks, step, value.receive, layout=whole)


def inside_layout(
    step: Step,
    values: list[FeatureMap],
    rule_of: Callable[[list[FeatureMap]], FeatureMap | list[FeatureMap]],
    run: Pass,
    *,
    entrywise: bool = False,
) -> FeatureMap:
    """Apply a rule that needs no layout to values that have one; refused where it might misread their axes."""
    layout = values[0].layout
    alike = all(v.layout == layout and v.sizes == values[0].sizes for v in values)
    if layout is None or not alike or not (entrywise or _sees_its_axes(step, layout, len(values), run)):
        raise Unsupported(f"{step.where} acts on a batch or on channels that were rearranged")
    made = rule_of(values)
    if isinstance(made, list):
        raise Unsupported(f"{step.where} splits a batch or channels that were rearranged")
    same = made.axes == values[0].axes and made.sizes == values[0].sizes
    again = layout if same else layout.with_axes(made.axes)
    if again is None:
        raise Unsupported(f"{step.where} acts on a batch or on channels that were rearranged")
    return replace(made, layout=again)


def _sees_its_axes(step: Step, layout: Layout, count: int, run: Pass) -> bool:
    """Whether a rule acts on each entry alone or along the last axis, and reads tensors beside the value rightly."""
    if step.name in EACH_ENTRY:
        return True
    if step.name in LAST_AXIS:
        one = step.name == "linear" or len(arguments(step, "normalized_shape")[0]) == 1
        return one and not layout.pieces and BATCH not in layout.axes[-1]
    if step.name not in SUMS | PRODUCTS:
        return False
    shapes = [o.shape for o in every((step.args, step.kwargs), Other)]
    shapes += [run.shape(w) for w in every((step.args, step.kwargs), Weight)]
    shapes = [shape for shape in shapes if math.prod(shape) > 1]
    # tensors are read along the last axes: none of them may be that of the batch
    after = len(layout.axes) - 1 - next(i for i, axis in enumerate(layout.axes) if BATCH in axis)
    return not shapes or (count == 1 and not layout.pieces and all(len(shape) <= after for shape in shapes))


def _split_atoms(x: FeatureMap, shape: tuple[int, ...], step: Step) -> tuple[list[list[tuple[int, int]]], Any]:
    """Which parts of which atoms make up each axis of a new shape: groups of (atom, part), and sizes of the parts."""
    unlike = Unsupported(f"{step.where} makes a shape that does not follow its channels and positions")
    batch, left = divmod(math.prod(shape), math.prod((x.channels, *x.sizes)))
    if left or not batch:
        raise Unsupported(f"{step.where} changes the size of the batch or repeats values")
    layout = x.whole()
    queue = [(a, layout.size(a, batch, x.channels, x.sizes)) for a in layout.atoms]
    queue = [(a, n) for a, n in queue if n > 1 or a == BATCH]
    parts: dict[int, list[int]] = {}
    groups: list[list[tuple[int, int]]] = []
    for target in shape:
        group: list[tuple[int, int]] = []
        product = 1
        while product < target or (queue and queue[0][1] == 1 and not group and target == 1):
            if not queue:
                raise unlike
            atom, size = queue.pop(0)
            need = target // product
            taken = min(size, need)
            if taken < 1 or size % taken or target % (product * taken) or (atom == BATCH and taken < size):
                raise unlike
            if taken < size:
                queue.insert(0, (atom, size // taken))
            group.append((atom, len(parts.setdefault(atom, []))))
            parts[atom].append(taken)
            product *= taken
        if product != target:
            raise unlike
        groups.append(group)
    if queue:
        raise unlike
    return groups, parts


def regrouped(x: FeatureMap, shape: tuple[int, ...], step: Step, run: Pass) -> FeatureMap:
    """Other axes for the same entries; positions and channels may have to be split."""
    groups, parts = _split_atoms(x, shape, step)
    number: dict[tuple[int, int], int] = {(BATCH, 0): BATCH}
    sizes: list[int] = []
    for k, n in enumerate(x.sizes):
        for i, size in enumerate(parts.get(k, [n])):
            number[k, i] = len(sizes)
            sizes.append(size)
    mine = sorted((a for a in parts if is_channel(a)), reverse=True)
    pieces = [(a, i, size) for a in mine for i, size in enumerate(parts[a])]
    for j, (a, i, _) in enumerate(pieces):
        number[a, i] = piece(j) if len(pieces) > 1 else CHANNEL
    axes = [tuple(number[key] for key in group) for group in groups]
    # atoms of size one stand nowhere yet
    lost = [number[k, 0] for k, n in enumerate(x.sizes) if n == 1]
    if x.channels == 1 and any(is_channel(a) for a in x.whole().atoms):
        lost.append(CHANNEL)
    axes[-1] = (*axes[-1], *lost)
    layout = Layout(tuple(axes), tuple(size for _, _, size in pieces) if len(pieces) > 1 else ())
    cut = [(k, parts[k]) for k in range(len(x.sizes)) if len(parts.get(k, [0])) > 1]
    if cut:
        x = _cut_positions(x, cut, tuple(sizes), step)
    return laid_out(x, layout, step, run)


def _cut_positions(x: FeatureMap, cut: list[tuple[int, list[int]]], sizes: tuple[int, ...], step: Step) -> FeatureMap:
    def forward(m: Moment) -> Moment:
        for k, parts in reversed(cut):
            m = m.split(k, parts)
        return m

    def backward(m: Moment) -> Moment:
        for k, parts in cut:
            m = m.merged(k, len(parts))
        return m

    return derived(x, step, canonical(len(sizes)), sizes, forward, backward, lambda v: v.reshape(len(v), *sizes), None)


def canonical(count: int) -> Axes:
    """The channel, then every position."""
    return ((CHANNEL,), *((k,) for k in range(count)))


def bare(x: FeatureMap) -> FeatureMap:
    """The same channels and positions as (channel, position, position, …), to be mapped and laid out anew."""
    return FeatureMap(canonical(len(x.sizes)), x.sizes, x.blocks, x.step, x.receive)


# --- reshapes and permutations ----------------------------------------------------------------------------------------


@rule("flatten", "reshape", "view", "unflatten", "squeeze", "unsqueeze", "view_as", "reshape_as", layouts=True)
def _reshape(step: Step, values: list[FeatureMap], run: Pass) -> FeatureMap:
    x, shape = values[0], step.shapes[0]
    if x.layout is None and shape[0] == math.prod(shape) // math.prod(x.shape()):
        try:
            return reshaped(x, shape[1:], step)
        except Unsupported:
            if x.channels == 1 or x.passes_samples:
                raise
    return regrouped(x, shape, step, run)


@rule("permute", "transpose", "swapaxes", "movedim", "moveaxis", "t", "T", "mT", layouts=True)
def _permute(step: Step, values: list[FeatureMap], run: Pass) -> FeatureMap:
    """Where the axes go is read off a small tensor with one distinct size per axis."""
    x = values[0]
    layout = x.whole()
    sizes = tuple(range(2, 2 + len(layout.axes)))
    moved = step.function(torch.empty(sizes, device="meta"), *step.args[1:], **step.kwargs).shape
    return laid_out(x, Layout(tuple(layout.axes[n - 2] for n in moved), layout.pieces), step, run)


@rule("contiguous", "clone", "to", "float", "double", "detach", "dropout", "dropout1d", "dropout2d", "dropout3d")
@rule("alpha_dropout", "feature_dropout", "identity", "positive", "type_as", "data", "feature_alpha_dropout")
def _unchanged(step: Step, values: list[FeatureMap], run: Pass) -> FeatureMap:
    if "dropout" in step.name and arguments(step, "p", "training", training=True)[1]:
        raise Unsupported(f"{step.where} is active; put the module in eval mode")
    if step.name in ("detach", "data"):
        raise Unsupported(f"{step.where} stops gradients")
    return renamed(values[0], values[0].axes, step)


# --- parts of a tensor ------------------------------------------------------------------------------------------------


@rule("getitem", "select", "narrow", layouts=True)
def _getitem(step: Step, values: list[FeatureMap], run: Pass) -> FeatureMap:
    x = values[0]
    if step.name == "select":
        dim, index = arguments(step, "dim", "index")
        return _indexed(step, x, _along(x, dim, index), run)
    if step.name == "narrow":
        dim, start, length = arguments(step, "dim", "start", "length")
        return _indexed(step, x, _along(x, dim, slice(start, start + length)), run)
    return _indexed(step, x, step.args[1] if isinstance(step.args[1], tuple) else (step.args[1],), run)


def _along(x: FeatureMap, dim: int, index: int | slice) -> tuple[int | slice, ...]:
    """The key that indexes one axis, the batch counted."""
    return *(slice(None),) * (dim % len(x.whole().axes)), index


def _indexed(step: Step, x: FeatureMap, key: tuple[Any, ...], run: Pass) -> FeatureMap:
    if any(not (isinstance(k, int | slice) or k is None or k is Ellipsis) for k in key):
        raise Unsupported(f"{step.where} picks elements by a tensor or a list")
    used = sum(k is not None and k is not Ellipsis for k in key)
    if Ellipsis in key:
        at = key.index(Ellipsis)
        key = (*key[:at], *(slice(None),) * (len(x.whole().axes) - used), *key[at + 1 :])
    if x.layout is not None:
        return _indexed_in_layout(step, x, key, run)
    if not key or not isinstance(key[0], slice) or key[0] != slice(None):
        raise Unsupported(f"{step.where} picks samples of the batch")
    maps: dict[int, Tensor] = {}
    dropped, added, axis = [], [], 0
    for k in key[1:]:
        if k is None:
            added.append(axis)
            continue
        n = x.shape()[axis]
        if isinstance(k, int):
            dropped.append(axis)
            k = slice(k % n, k % n + 1)
        if k != slice(None):
            if x.axes[axis] == (CHANNEL,):
                x = cut_channels(x, *_range(step, k, n), x.axes, step, run.average)
            else:
                maps[axis] = eye(n)[k]
        axis += 1
    y = along_axes(x, maps, step, run)
    axes = list(y.axes)
    for a in reversed(added):
        axes.insert(a, ())
        dropped = [d + (d >= a) for d in dropped]
    y = renamed(y, tuple(axes), step)
    return without_axes(y, dropped, step)


@rule("chunk", "split", "unbind", "tensor_split", layouts=True)
def _split(step: Step, values: list[FeatureMap], run: Pass) -> list[FeatureMap]:
    x = values[0]
    if step.name == "unbind":
        (dim,) = arguments(step, "dim", dim=0)
        return [_indexed(step, x, _along(x, dim, i), run) for i in range(len(step.shapes))]
    _, dim = arguments(step, "size", "dim", dim=0)
    stops = list(accumulate((shape[dim] for shape in step.shapes), initial=0))
    return [_indexed(step, x, _along(x, dim, slice(a, b)), run) for a, b in pairwise(stops)]


def _indexed_in_layout(step: Step, x: FeatureMap, key: tuple[Any, ...], run: Pass) -> FeatureMap:
    """Slices of a tensor whose batch was moved or whose channels are split."""
    layout = x.whole()
    key = (*key, *(slice(None),) * (len(layout.axes) - sum(k is not None for k in key)))
    maps: dict[int, Tensor] = {}
    sizes = list(layout.pieces)
    axes: list[tuple[int, ...]] = []
    kept = list(layout.axes)
    gone: set[int] = set()
    for k in key:
        if k is None:
            axes.append(())
            continue
        axis = kept.pop(0)
        if k != slice(None):
            if len(axis) != 1 or axis[0] == BATCH or (axis[0] == CHANNEL and isinstance(k, int)):
                raise Unsupported(f"{step.where} picks from a batch or from channels that were rearranged")
            (atom,) = axis
            n = layout.size(atom, 0, x.channels, x.sizes)
            if isinstance(k, int):
                gone.add(atom)
                k = slice(k % n, k % n + 1)
            if not is_channel(atom):
                maps[atom] = eye(n)[k]
            elif atom == CHANNEL:
                x = cut_channels(bare(x), *_range(step, k, n), canonical(len(x.sizes)), step, run.average)
            else:
                count = len(range(n)[k])
                x = _some_channels(step, x, count / n, run)
                sizes[FIRST_PIECE - atom] = count
        if axis != () and axis[0] in gone:
            continue
        axes.append(axis)
    y = along_axes(bare(x), {1 + atom: A for atom, A in maps.items()}, step, run)
    return _without_atoms(y, axes, sizes, gone, step, run)


def _range(step: Step, k: slice, n: int) -> tuple[int, int]:
    start, stop, stride = k.indices(n)
    if stride != 1:
        raise Unsupported(f"{step.where} picks every {stride}th channel")
    return start, stop


def _some_channels(step: Step, x: FeatureMap, share: float, run: Pass) -> FeatureMap:
    if len(x.blocks) > 1:
        raise Unsupported(f"{step.where} picks channels of different kinds")
    return cut_channels(bare(x), 0, round(x.channels * share), canonical(len(x.sizes)), step, run.average)


def _without_atoms(
    y: FeatureMap, axes: list[tuple[int, ...]], pieces: list[int], gone: set[int], step: Step, run: Pass
) -> FeatureMap:
    """Laid out without some atoms of size one."""
    positions = sorted(a for a in gone if a >= 0)
    left = [k for k in range(len(y.sizes)) if k not in positions]
    number = {k: i for i, k in enumerate(left)} | {BATCH: BATCH, CHANNEL: CHANNEL}
    left_pieces = [j for j in range(len(pieces)) if piece(j) not in gone]
    number |= {piece(j): piece(i) if len(left_pieces) > 1 else CHANNEL for i, j in enumerate(left_pieces)}
    sizes = tuple(pieces[j] for j in left_pieces) if len(left_pieces) > 1 else ()
    y = without_axes(y, [1 + k for k in positions], step)
    found = [tuple(number[a] for a in axis) for axis in axes]
    if pieces and not left_pieces:  # one channel is left
        found[-1] = (*found[-1], CHANNEL)
    return laid_out(y, Layout(tuple(found), sizes), step, run)


# --- copies -----------------------------------------------------------------------------------------------------------


@rule("expand", "expand_as", "repeat", "tile", "broadcast_to")
def _repeated(step: Step, values: list[FeatureMap], run: Pass) -> FeatureMap:
    """Gradients of copies add up."""
    x, shape = values[0], step.shapes[0][1:]
    if x.layout is not None or len(shape) != len(x.axes):
        raise Unsupported(f"{step.where} repeats the batch, or values of a rearranged one")
    maps = {}
    for a, (n, m) in enumerate(zip(x.shape(), shape, strict=True)):
        if n != m:
            if m % n:
                raise Unsupported(f"{step.where} makes a shape that does not follow its channels and positions")
            maps[a] = eye(n).repeat(m // n, 1)
    return along_axes(x, maps, step, run)


# --- channels and positions exchanged ---------------------------------------------------------------------------------


@rule("pixel_unshuffle")
def _pixel_unshuffle(step: Step, values: list[FeatureMap], run: Pass) -> FeatureMap:
    """The places of a cell stand beside the channels."""
    x = values[0]
    (r,) = arguments(step, "downscale_factor")
    channels, height, width = x.shape()
    split = reshaped(x, (channels, height // r, r, width // r, r), step)
    a = split.axes
    return renamed(split, ((*a[0], *a[2], *a[4]), a[1], a[3]), step)


@rule("pixel_shuffle")
def _pixel_shuffle(step: Step, values: list[FeatureMap], run: Pass) -> FeatureMap:
    """The channels of a cell become its places: K(q, q') at the same place, nothing but means between two places."""
    x = channels_first(values[0], step)
    (r,) = arguments(step, "upscale_factor")
    channels, height, width = x.shape()
    if x.axes[0] != (CHANNEL,):
        split = reshaped(x, (channels // r**2, r, r, height, width), step)
        a = split.axes
        return renamed(split, (a[0], (*a[3], *a[1]), (*a[4], *a[2])), step)
    if any(b.channels % r**2 for b in x.blocks):
        raise Unsupported(f"{step.where} joins channels of different kinds in one cell")
    h, w = (list(x.axes[k]) for k in (1, 2))
    x = arranged(x, [h, w], ((CHANNEL,), (0,), (1,)), step)
    sizes = (height, r, width, r)  # positions: row of the cell, place in it, column of the cell, place in it
    blocks = tuple(replace(b, channels=b.channels // r**2, channel=_apart(b.channel, sizes)) for b in x.blocks)

    def send(block: int, term: Term) -> None:
        if term.factors:
            term = run.average(term)
        x.receive(block, term.moved(lambda m: m.traced([1, 3]).scaled(1 / r**2)))

    return FeatureMap(((CHANNEL,), (0, 1), (2, 3)), sizes, blocks, step, send)


def _apart(channel: Channel, sizes: tuple[int, ...]) -> Channel:
    """Independent copies of a channel at the new places 1 and 3."""
    if isinstance(channel, ConstantChannel):
        return ConstantChannel(channel.value, sizes)
    if isinstance(channel, ObservedChannel):
        return ObservedChannel(channel.values[..., :0], sizes)

    def copied(m: Moment) -> Moment:
        return m.with_identity([1, 3], [sizes[1], sizes[3]])

    tangent = channel.second_tangent()
    along = None if tangent is None else copied(tangent)
    if isinstance(channel, GaussianChannel):
        return GaussianChannel(copied(channel.covariance), channel.centre, channel.width, along)
    second, mean = channel.second(), channel.mean()
    if not bool(mean.any()):
        return Moved(copied(second), along)
    # between two places only the means are common
    n = len(mean)
    means = mean.expand(-1, sizes[0] * sizes[2]).reshape(n, sizes[0], 1, sizes[2], 1)
    below = (means[:, :, 0, :, 0].reshape(n, -1, 1) * means.reshape(n, 1, -1)).reshape(n, *(sizes[0], sizes[2]) * 2)
    check_room(math.prod(sizes), n)
    every_place = means.expand(-1, *sizes).reshape(n, -1)
    outer = Full(sizes, (every_place[:, :, None] * every_place[:, None]).reshape(n, *sizes, *sizes))
    around = second.plus(Full((sizes[0], sizes[2]), -below))
    return Moved(copied(around).plus(outer), along)


@rule("unfold")
def _unfold(step: Step, values: list[FeatureMap], run: Pass) -> FeatureMap:
    """Patches side by side: F.unfold (beside the channels), or Tensor.unfold (in a new last axis)."""
    x = values[0]
    if step.function is not F.unfold:
        dim, size, stride = arguments(step, "dimension", "size", "step")
        axis = dim % (len(x.axes) + 1) - 1
        if x.layout is not None or axis < 0:
            raise Unsupported(f"{step.where} goes over the batch, or over a rearranged one")
        n = x.shape()[axis]
        windows = torch.arange(n).unfold(0, size, stride)  # (windows, size)
        y = along_axes(x, {axis: eye(n)[windows.flatten()]}, step, run)
        shape = list(x.shape())
        shape[axis : axis + 1] = windows.shape
        split = reshaped(y, shape, step)
        axes = list(split.axes)
        return renamed(split, (*axes[: axis + 1], *axes[axis + 2 :], axes[axis + 1]), step)
    names = ("kernel_size", "dilation", "padding", "stride")
    options = {name: per_axis(v, 2) for name, v in zip(names, arguments(step, *names), strict=True) if v is not None}
    channels, height, width = x.shape()
    x = reshaped(x, (channels, height * width), step)
    points = height * width
    patches = F.unfold(eye(points).reshape(points, 1, height, width), **options)  # (inputs, entries, patches)
    entries, count = patches.shape[1:]
    check_room(entries * count)
    y = along_axes(x, {1: patches.reshape(points, -1).T.contiguous()}, step, run)
    split = reshaped(y, (channels, entries, count), step)
    a = split.axes
    return renamed(split, ((*a[0], *a[1]), a[2]), step)
