"""First-layer integration: sample everything but the first layer, whose average is taken exactly.

At the origin the forward pass does not depend on the first layer's weights W, so when they are centred, uncorrelated
and independent of the rest,

    G = Var(W) · Σ_Δ S_Δ Q S_Δᵀ,      Q = E[Σ_o g_o g_oᵀ],      g the gradient at the first layer's output.

Standardised weights, whose rows add up to zero, have one more term (`standardised_forms`).
Every condition is read off the module (families.reading); one that fails sends it back to plain sampling, with the
reason.

Away from the origin the formula is off by about one part in the number of weights that an output sees. That is much for
the small eigenvalue of a transformer, which Corr does not show. Where windows do not overlap and points are
N(0, σ²I), no formula is needed: changing the signs of entries of all patches, or their order, leaves the law of the
network as it is, so G = Q ⊗ I exactly, and the mean over entries of the gradients at the input themselves gives Q.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from netgrain.families.convolution import ConvStem
from netgrain.families.ends import Entry
from netgrain.families.gradients import POINTS_AT_ONCE, cut_at, gradients
from netgrain.families.outputs import Output
from netgrain.families.reading import Reading
from netgrain.families.reasons import Reason
from netgrain.families.side_by_side import gradients_of_members, rows_of_members
from netgrain.geometry.forms import Dense, Form
from netgrain.geometry.standardised_entry import standardised_entry
from netgrain.geometry.standardised_forms import behind_standardised
from netgrain.geometry.structured_forms import Kronecker, Spread


@dataclass(frozen=True, eq=False)
class FirstLayer(Entry):
    """Where and how x enters: everything that turns gradients at the first layer's output into a geometry."""

    exchangeable: bool = False  # the family declares that positions may be permuted
    transposed: Tensor | None = (
        None  # positions of the transposed image, where the family declares that it may be transposed
    )
    by_symmetry: bool = False  # rows are gradients at the input, through the layer's own weights: nothing is integrated

    @property
    def law_text(self) -> str:
        """The law of its weights in words."""
        if not self.row:
            return self.law.text
        return f"standardised rows of {self.row}, sd {math.sqrt(self.law.variance * (1 - 1 / self.row)):.4g}"

    @property
    def scale(self) -> float:
        """What the second moment of the rows is multiplied with."""
        if self.by_symmetry:
            return 1 / self.copies
        return self.law.variance / (1 if self.transposed is None else 2)

    def rows(
        self,
        model: nn.Module,
        points: Tensor,
        output: Output,
        call: Callable[[Tensor], Tensor] | None = None,
        at_once: int = POINTS_AT_ONCE,
    ) -> Tensor:
        """Gradients at the layer's output, (points · outputs · channels, positions); call: what the model is run by."""
        if self.by_symmetry:
            return self._by_copies(gradients(call or model, points, output, at_once=at_once))
        layer = model.get_submodule(self.name)
        found = gradients(model, points, output, at=lambda x: cut_at(call or model, layer, x), at_once=at_once)
        return self.as_rows(layer, found)

    def rows_of_members(self, models: Sequence[nn.Module], points: Tensor, output: Output) -> Tensor:
        """The same for several members side by side, (members, points · outputs · channels, positions)."""
        if self.by_symmetry:
            return torch.stack([self._by_copies(one) for one in rows_of_members(models, points, output)])
        g = gradients_of_members(models, points, output, at=self.name)
        layer = models[0].get_submodule(self.name)
        return torch.stack([self.as_rows(layer, one) for one in g])

    def _by_copies(self, g: Tensor) -> Tensor:
        """Gradients at the input, (any number · copies, positions)."""
        return g.flatten(1)[:, self.order.to(g.device)].reshape(-1, self.positions)

    def positions_last(self, layer: nn.Module, g: Tensor) -> Tensor:
        """Gradients at the layer's output as (points, channels, positions)."""
        if isinstance(layer, nn.modules.conv._ConvNd):
            return g.flatten(2)
        return g.reshape(len(g), self.positions, -1).mT

    def as_rows(self, layer: nn.Module, g: Tensor) -> Tensor:
        """Gradients at the layer's output as rows over positions, transposed ones after the others."""
        rows = self.positions_last(layer, g).flatten(0, 1)
        return rows if self.transposed is None else torch.cat([rows, rows[:, self.transposed.to(rows.device)]])

    @property
    def symmetric(self) -> bool:
        """Whether entries that meet at a position may be exchanged, or their signs changed, with the weights."""
        cut = self.law.cut
        centred = cut is None or cut[0] - cut[2] == cut[3] - cut[0]
        return self.stem is None and self.copies > 1 and self.law.kind in ("normal", "uniform", "truncated") and centred

    def form(self, source: Form) -> Form:
        """The geometry over inputs from the second moment Q at the layer's output."""
        if self.exchangeable and self.positions > 1:
            source = _exchanged(source)
        if self.row:
            return behind_standardised(source, self.stem, self.copies, self.order)
        core = source if self.stem is None else Spread(source, self.stem)
        return Kronecker(core, self.copies, self.order)


def _exchanged(source: Form) -> Form:
    """Average over permutations of the positions: each part becomes a·I + b·11ᵀ."""
    source = source.batched()
    size = source.size
    pieces = torch.empty(max(source.parts, 1), size, size, dtype=torch.float64)
    for i in range(len(pieces)):
        dense = source.part(i).dense() if source.parts else source.dense()
        diagonal = dense.diagonal().mean()
        off = (dense.sum() - dense.trace()) / (size * (size - 1))
        pieces[i] = off
        pieces[i].fill_diagonal_(float(diagonal))
    return Dense.from_pieces(pieces, source.counts) if source.parts else Dense(pieces[0])


def entry_of(reading: Reading) -> Entry | Reason:
    """The one layer through which x enters, also where its weights are standardised."""
    entry = reading.entry()
    return standardised_entry(reading) or entry if isinstance(entry, Reason) else entry


def first_layer_of(reading: Reading) -> FirstLayer | Reason:
    """The layer through which x enters, ready to be averaged over, or why it is not."""
    entry = entry_of(reading)
    if isinstance(entry, Reason):
        return entry
    exchangeable = bool(getattr(reading.model, "exchangeable_tokens", False))
    transposed = None if exchangeable else _transposed(reading.model, entry.stem, entry.order)
    return FirstLayer(**vars(entry), exchangeable=exchangeable, transposed=transposed)


def _transposed(model: nn.Module, stem: ConvStem | None, order: Tensor) -> Tensor | None:
    """Where the output positions go when the image is transposed, if the family declares that its law allows it."""
    if not getattr(model, "transposable_images", False) or stem is None or not stem.is_square:
        return None
    if not torch.equal(order, torch.arange(len(order))):
        return None  # x enters rearranged: the layer's axes may not be those of the image
    return torch.arange(stem.out_size).reshape(stem.out).T.flatten()
