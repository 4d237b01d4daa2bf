"""Linear maps of positions: pools, pads, upsampling, turns."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import torch
from torch import Tensor
from torch.nn import functional as F

from netgrain.closed_form.feature_maps import CHANNEL, FeatureMap, Part, derived, one_atom, renamed
from netgrain.closed_form.moments import Moment
from netgrain.closed_form.rules import Pass, arguments, channels_first, per_axis, renumbered, rule
from netgrain.families.trace import Step, Unsupported


@rule("avg_pool1d", "avg_pool2d", "avg_pool3d")
def _average_pool(step: Step, values: list[FeatureMap], run: Pass) -> FeatureMap:
    x = channels_first(values[0], step)
    names = ("kernel_size", "stride", "padding", "ceil_mode", "count_include_pad", "divisor_override")
    kernel, stride, padding, ceil, include, divisor = arguments(
        step, *names, padding=0, ceil_mode=False, count_include_pad=True
    )
    spatial = x.shape()[1:]
    dims = len(spatial)
    kernel = per_axis(kernel, dims)
    stride = kernel if stride is None or stride == () else per_axis(stride, dims)
    padding = per_axis(padding, dims)
    maps = {}
    for k, n in enumerate(spatial):
        A = F.avg_pool1d(eye(n)[None], kernel[k], stride[k], padding[k], ceil, include or divisor is not None)[0].T
        maps[1 + k] = A if divisor is None else A * kernel[k] / (divisor if k == 0 else 1)
    return along_axes(x, maps, step, run)


@rule("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d")
def _adaptive_pool(step: Step, values: list[FeatureMap], run: Pass) -> FeatureMap:
    x = channels_first(values[0], step)
    sizes = zip(x.shape()[1:], step.shapes[0][2:], strict=True)
    maps = {1 + k: F.adaptive_avg_pool1d(eye(n)[None], m)[0].T for k, (n, m) in enumerate(sizes)}
    return along_axes(x, maps, step, run)


@rule("interpolate", "upsample")
def _interpolate(step: Step, values: list[FeatureMap], run: Pass) -> FeatureMap:
    x = channels_first(values[0], step)
    names = ("size", "scale_factor", "mode", "align_corners", "recompute_scale_factor", "antialias")
    _, scale, mode, corners, recompute, antialias = arguments(step, *names, mode="nearest", antialias=False)
    modes = {"nearest": "nearest", "nearest-exact": "nearest-exact", "area": "area"}
    modes |= dict.fromkeys(("linear", "bilinear", "trilinear"), "linear")
    if mode not in modes or antialias:
        raise Unsupported(f"{step.where} interpolates in mode '{mode}'")
    maps = {}
    for k, (n, m) in enumerate(zip(x.shape()[1:], step.shapes[0][2:], strict=True)):
        factor = None if scale is None else scale[k] if isinstance(scale, tuple) else scale
        size = {"size": m} if factor is None or recompute else {"scale_factor": factor}
        aligned = corners if modes[mode] == "linear" else None
        maps[1 + k] = F.interpolate(eye(n)[None], **size, mode=modes[mode], align_corners=aligned)[0].T
    return along_axes(x, maps, step, run)


@rule("pad")
def _pad(step: Step, values: list[FeatureMap], run: Pass) -> FeatureMap:
    x = values[0]
    amounts, mode, fill = arguments(step, "pad", "mode", "value", mode="constant")
    if mode == "constant" and fill not in (None, 0, 0.0):
        raise Unsupported(f"{step.where} pads with {fill}")
    maps: dict[int, Tensor] = {}
    for i in range(len(amounts) // 2):
        lo, hi = amounts[2 * i], amounts[2 * i + 1]
        if lo or hi:
            axis = len(x.axes) - 1 - i
            maps[axis] = F.pad(eye(x.shape()[axis])[None], (lo, hi), mode=mode)[0].T
    return along_axes(x, maps, step, run)


@rule("mean", "sum")
def _mean(step: Step, values: list[FeatureMap], run: Pass) -> FeatureMap:
    x = values[0]
    dims, keepdim = arguments(step, "dim", "keepdim", keepdim=False)
    if dims is None:
        raise Unsupported(f"{step.where} goes over the whole batch")
    chosen = [d % (len(x.axes) + 1) - 1 for d in ((dims,) if isinstance(dims, int) else dims)]
    if -1 in chosen:
        raise Unsupported(f"{step.where} goes over the batch")
    if x.channels > 1 and any(CHANNEL in x.axes[a] for a in chosen):
        raise Unsupported(f"{step.where} goes over channels")
    maps = {}
    for a in chosen:
        n = x.shape()[a]
        maps[a] = torch.full((1, n), 1 / n if step.name == "mean" else 1.0, dtype=torch.float64)
    y = along_axes(x, maps, step, run)
    return y if keepdim else without_axes(y, chosen, step)


@rule("flip", "roll")
def _turned(step: Step, values: list[FeatureMap], run: Pass) -> FeatureMap:
    x = values[0]
    if step.name == "flip":
        dims = arguments(step, "dims")[0]
        moves = dict.fromkeys((dims,) if isinstance(dims, int) else dims)
    else:
        shifts, dims = arguments(step, "shifts", "dims")
        pairs = ((shifts,), (dims,)) if isinstance(shifts, int) else (shifts, dims)
        moves = {d: n for n, d in zip(*pairs, strict=True)}
    maps = {}
    for dim, shift in moves.items():
        axis = dim % (len(x.axes) + 1) - 1
        still = eye(x.shape()[axis])
        maps[axis] = still.flip(0) if shift is None else still.roll(shift, 0)
    if -1 in maps:
        raise Unsupported(f"{step.where} moves samples of the batch")
    return along_axes(x, maps, step, run)


def eye(n: int) -> Tensor:
    return torch.eye(n, dtype=torch.float64)


def along_axes(x: FeatureMap, maps: dict[int, Tensor], step: Step, run: Pass) -> FeatureMap:
    """A linear map along some tensor axes (numbered without the batch)."""
    maps = {a: A for a, A in maps.items() if not torch.equal(A, eye(len(A)))}
    if not maps:
        return renamed(x, x.axes, step)
    if any(CHANNEL in x.axes[a] for a in maps):
        raise Unsupported(f"{step.where} acts on channels as if they were positions")
    x = one_atom(x, list(maps), step)
    atoms = {x.axes[a][0]: A for a, A in maps.items()}
    sizes = tuple(len(atoms[k]) if k in atoms else n for k, n in enumerate(x.sizes))

    def forward(m: Moment) -> Moment:
        return reduce(lambda m, atom: m.mapped(atom, atoms[atom]), atoms, m)

    def backward(m: Moment) -> Moment:
        return reduce(lambda m, atom: m.mapped(atom, atoms[atom].T), atoms, m)

    def on_points(values: Tensor) -> Tensor:
        for k, A in atoms.items():
            values = torch.tensordot(values, A, dims=([1 + k], [1])).movedim(-1, 1 + k)
        return values

    y = derived(x, step, x.axes, sizes, forward, backward, on_points, run.average)
    y.parts = (Part(x, 1.0, tuple(atoms.items())),)
    return y


def without_axes(x: FeatureMap, dropped: Sequence[int], step: Step) -> FeatureMap:
    """Remove tensor axes of size one."""
    gone = [k for a in dropped for k in x.axes[a]]
    axes = tuple(axis for a, axis in enumerate(x.axes) if a not in dropped)
    if CHANNEL in gone:
        if not axes:
            axes = ((),)
        axes = (*axes[:-1], (*axes[-1], CHANNEL))
        gone = [k for k in gone if k != CHANNEL]
    if not gone:
        return renamed(x, axes, step)
    kept = [k for k in range(len(x.sizes)) if k not in gone]
    sizes = tuple(x.sizes[k] for k in kept)
    return derived(
        x,
        step,
        renumbered(axes, kept),
        sizes,
        lambda m: m.traced(gone),
        lambda m: m.with_identity(gone, [1] * len(gone)),
        lambda values: values.reshape(len(values), *sizes),
        None,
    )
