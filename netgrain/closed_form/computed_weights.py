"""Weights of a layer that are computed from parameters: moved, scaled, or standardised row by row.

A standardised row of N entries, g·(w − mean)/sd, has covariance g²·N/(N−1)·(I − 11ᵀ/N): independent entries, and a
term of rank one over taps and channels. Gradients meet it as the sum over all pairs of taps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from netgrain.closed_form.channels import Channel, NeedsMembers, Points
from netgrain.closed_form.constants import MOVES, Known, LawOf, known
from netgrain.closed_form.moments import Full, Moment
from netgrain.families.convolution import Taps
from netgrain.families.initialisation import TensorLaw
from netgrain.families.trace import Computed, Other, Unsupported, Weight


@dataclass(frozen=True, eq=False)
class WeightLaw:
    """Law of one entry; rows: entries of one row that add up to zero (0: all are independent)."""

    law: TensorLaw
    row: int = 0


def weight_law(value: Any, law_of: LawOf, where: str) -> WeightLaw:
    """The law of the weights of a layer.

    Raises Unsupported where they are computed in another way.
    """
    if isinstance(value, Weight):
        return WeightLaw(law_of(value)[0])
    if not isinstance(value, Other):
        raise Unsupported(f"{where} has weights that depend on the input")
    if (made := _standardisation(value)) is not None:
        return _standardised(made, law_of, where)
    found = known(value, law_of, where)
    if found.numbers is not None:
        number = found.number
        if number is None:
            raise Unsupported(f"{where} has weights that are not random")
        return WeightLaw(TensorLaw(number, 0.0, "constant"))
    assert found.law is not None
    if len(found.entries.unique()) < found.entries.numel():
        raise Unsupported(f"{where} uses one random number several times")
    return WeightLaw(found.law)


def _standardisation(value: Other) -> Computed | None:
    """The batch norm in training mode that a weight went through, as timm's StdConv2d and ScaledStdConv2d have it."""
    made = value.made
    while made is not None and made.name in MOVES:
        first = made.args[0]
        made = first.made if isinstance(first, Other) else None
    return made if made is not None and made.name == "batch_norm" else None


def _standardised(made: Computed, law_of: LawOf, where: str) -> WeightLaw:
    names = ("input", "running_mean", "running_var", "weight", "bias", "training", "momentum", "eps")
    given = {"eps": 1e-5, "training": False, **dict(zip(names, made.args, strict=False)), **made.kwargs}
    source = known(given["input"], law_of, where)
    unlike = given.get("bias") is not None or given.get("running_mean") is not None or not given["training"]
    shape = source.entries.shape
    gain = Known(torch.ones((), dtype=torch.float64))
    if given.get("weight") is not None:
        gain = known(given["weight"], law_of, where)
    if unlike or source.law is None or len(shape) < 3 or shape[0] != 1 or gain.number is None:
        raise Unsupported(f"{where} standardises its weights in a way that has no rule")
    n = math.prod(shape[2:])
    spread = source.law.variance * (n - 1) / n
    variance = gain.number**2 * spread / (spread + given["eps"])
    return WeightLaw(TensorLaw(0.0, variance * n / (n - 1), "drawn", error=source.law.error), n)


def seen_inputs(taps: Taps) -> Tensor:
    """A[q, p]: whether output q sees input p through some tap."""
    seen = torch.zeros(taps.out, taps.size, dtype=torch.float64)
    for outputs, inputs in taps.windows():
        seen[range(*outputs.indices(taps.out)), range(*inputs.indices(taps.size))] = 1
    return seen


def row_sums_back(m: Moment, maps: Sequence[Tensor], inside: Sequence[int]) -> Moment:
    """What the term of rank one sends back: Σ over all pairs of taps, the same for all pairs of `inside`."""
    for axis, A in enumerate(maps):
        m = m.mapped(axis, A.T)
    for k, size in enumerate(inside):
        m = m.merged(k, 0).mapped(k, torch.ones(size, 1, dtype=torch.float64))
    return m


def row_sums(channel: Channel, maps: Sequence[Tensor], count: int, channels: float) -> Moment:
    """E[(Σ x)(Σ x)'] over the channels and taps that one row meets."""
    if isinstance(channel, Points):
        values = channel.values.sum(tuple(range(1, 1 + count)))
        for axis, A in enumerate(maps):
            values = torch.tensordot(values, A, dims=([1 + axis], [1])).movedim(-1, 1 + axis)
        return Points(values).second()
    if count:
        raise NeedsMembers("standardised weights on a flattened map")
    m = channel.second()
    mean = channel.mean()
    if bool((mean != 0).any()):  # (Σ_c x_c)² has c² − c products of different channels
        positions = math.prod(channel.sizes)
        wide = mean.expand(-1, positions)
        outer = wide[:, :, None] * wide[:, None, :]
        means = Full(channel.sizes, outer.reshape(-1, *channel.sizes, *channel.sizes))
        m = m.scaled(channels).plus(means.scaled(channels**2 - channels))
    else:
        m = m.scaled(channels)
    for axis, A in enumerate(maps):
        m = m.mapped(axis, A)
    return m
