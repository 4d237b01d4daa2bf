"""From second moments over input positions to the forms that a geometry is held in, with parts for error bars."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from netgrain.closed_form.moments import Full, Moment, Separable
from netgrain.geometry.forms import Dense, Form
from netgrain.geometry.structured_forms import Kronecker, Separated

PARTS = 32  # of which error bars are made
PARTS_MEMORY = 2**29  # bytes of those that are whole matrices


def form_of_moments(moments: list[Moment], counts: list[int], shape: tuple[int, ...]) -> Form:
    """Over the input coordinates; several moments become parts."""
    if len(moments) == 1 and isinstance(moments[0], Separable):
        m = moments[0].compressed()
        written = [k for k, f in enumerate(m.factors) if f is not None]
        core: Form = Separated(m.written_factors())
        if len(written) < 2 or core.size <= 64:
            core = Dense(core.dense())
    else:
        fulls = [m.full() for m in moments]
        written = fulls[0].written
        if any(f.written != written for f in fulls):
            fulls = [f.spelled_out() for f in fulls]
            written = fulls[0].written
        core = _of_parts([f.matrices()[0] for f in fulls], counts)
    hidden = [k for k in range(len(shape)) if k not in written]
    if not hidden:
        return core
    order = torch.arange(math.prod(shape)).reshape(shape).permute(*hidden, *written).flatten()
    return Kronecker(core, math.prod(shape[k] for k in hidden), order)


@dataclass(frozen=True, eq=False)
class PointMoments:
    """What passes without directions found, point after point."""

    shape: tuple[int, ...]
    moments: list[Moment] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)

    def add(self, moment: Moment, count: int) -> None:
        self.moments.append(moment)
        self.counts.append(count)

    def form(self) -> Form:
        return form_of_moments(self.moments, self.counts, self.shape)


class MatrixParts:
    """Whole matrices summed up in a few parts, as many as memory allows."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        d = math.prod(shape)
        self.sums = torch.zeros(max(4, min(PARTS, PARTS_MEMORY // (8 * d * d))), d, d, dtype=torch.float64)
        self.points = 0

    def add(self, matrix: Tensor) -> None:
        self.sums[self.points % len(self.sums)] += (matrix + matrix.T) / 2
        self.points += 1

    def form(self) -> Dense:
        return Dense(self.sums[0].clone()) if self.points == 1 else Dense.from_sums(self.sums, self.points)


def mean_over_points(moment: Moment) -> Moment:
    if isinstance(moment, Full) and len(moment.values) > 1:
        return Full(moment.sizes, moment.values.mean(0, keepdim=True), moment.eye)
    return moment


def _of_parts(matrices: list[Tensor], counts: list[int]) -> Dense:
    """The weighted mean of matrices, kept apart in at most PARTS parts."""
    if len(matrices) == 1:
        return Dense(matrices[0], matrices[0][None], torch.tensor(counts)) if counts[0] > 1 else Dense(matrices[0])
    edges = [round(i * len(matrices) / min(PARTS, len(matrices))) for i in range(min(PARTS, len(matrices)) + 1)]
    pieces, sizes = [], []
    for a, b in itertools.pairwise(edges):
        n = sum(counts[a:b])
        pieces.append(sum((m * (c / n) for m, c in zip(matrices[a:b], counts[a:b], strict=True)), torch.zeros(())))
        sizes.append(n)
    return Dense.from_pieces(torch.stack([torch.as_tensor(p) for p in pieces]), torch.tensor(sizes))


def without_parts(form: Form) -> Form:
    if isinstance(form, Kronecker):
        return form.around(without_parts(form.core))
    return Dense(form.dense())
