"""From second moments over input positions to the forms that a geometry is held in, with parts for error bars."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from netgrain.closed_form.moments import Full, Moment, Separable
from netgrain.families.ends import Entry
from netgrain.geometry.forms import Dense, Form
from netgrain.geometry.structured_forms import Kronecker, Separated, Spread
from netgrain.runtime.memory import ask, budget

PARTS = 32  # of which error bars are made
FEWEST = 4


def form_of_moments(
    moments: list[Moment], counts: list[int], shape: tuple[int, ...], entry: Entry | None = None
) -> Form:
    """Over the input coordinates; several moments become parts. entry: the layer at whose output they are taken."""
    if entry is not None:
        at_stem = _of_parts([m.full().spelled_out().matrices()[0] for m in moments], counts)
        within = at_stem if entry.stem is None else Spread(at_stem, entry.stem)
        return Kronecker(within, entry.copies, entry.order)
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


class PointMoments:
    """What passes without directions found, point after point, in as many parts as memory allows."""

    def __init__(self, shape: tuple[int, ...], entry: Entry | None = None) -> None:
        self.shape, self.entry = shape, entry
        self.moments: list[Moment] = []  # sums over points
        self.counts: list[int] = []
        self._next = 0

    def add(self, moment: Moment, count: int, *, at_entry: bool = False) -> None:
        """The mean over `count` points."""
        if not at_entry:
            self.entry = None
        summed = moment.scaled(count)
        if len(self.moments) < most_parts(moment):
            self.moments.append(summed)
            self.counts.append(count)
            return
        i = self._next % len(self.moments)
        self.moments[i] = self.moments[i].plus(summed)
        self.counts[i] += count
        self._next += 1

    def form(self) -> Form:
        means = [m.scaled(1 / n) for m, n in zip(self.moments, self.counts, strict=True)]
        return form_of_moments(means, self.counts, self.shape, self.entry)


def most_parts(moment: Moment) -> int:
    """Parts of this size that a quarter of the budget holds, at most PARTS; four at least, or a shortage."""
    if not isinstance(moment, Full):
        return PARTS
    ask(4 * FEWEST * moment.values.nbytes, f"a matrix over {moment.positions} positions in {FEWEST} parts")
    return max(FEWEST, min(PARTS, budget() // (4 * moment.values.nbytes)))


class MatrixParts:
    """Whole matrices summed up in a few parts, as many as memory allows."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        d = math.prod(shape)
        ask(2 * FEWEST * 8 * d**2, f"a matrix over {d} inputs in {FEWEST} parts")
        parts = max(FEWEST, min(PARTS, budget() // (8 * 8 * d * d)))
        self.sums = torch.zeros(parts, d, d, dtype=torch.float64)
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
    """The weighted mean of matrices, which are its parts."""
    if len(matrices) == 1:
        return Dense(matrices[0], matrices[0][None], torch.tensor(counts)) if counts[0] > 1 else Dense(matrices[0])
    return Dense.from_pieces(torch.stack(matrices), torch.tensor(counts))


def without_parts(form: Form) -> Form:
    """The same matrix as one that was not sampled."""
    if isinstance(form, Kronecker):
        return form.around(without_parts(form.core))
    if isinstance(form, Spread):
        return Spread(without_parts(form.source), form.stem)
    return Dense(form.dense()) if form.parts else form


def scaled_with_parts(form: Form, factor: float) -> Form:
    """factor · G with the parts that its error bars are made of."""
    if isinstance(form, Kronecker):
        return form.around(scaled_with_parts(form.core, factor))
    if isinstance(form, Spread):
        return Spread(scaled_with_parts(form.source, factor), form.stem)
    if isinstance(form, Dense) and form.pieces is not None:
        return Dense(form.matrix * factor, form.pieces * factor, form.per_part)
    return form.scaled(factor)
