"""What integrating the first layer away from the origin gets wrong, measured on the members themselves.

There the forward pass depends on the first layer's weights W, and an average over fresh weights is off by a term of
about one part in the number of weights that an output sees. A member gives both from one pass: its gradient at the
input, through W, and its gradient at the layer's output, from which the average and gradients through *other* weights
follow. The same pass behind both makes their ratios precise with a few members.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from netgrain.families.calls import with_output
from netgrain.families.members import forward, member, model_dtype
from netgrain.geometry.estimate import Estimate
from netgrain.geometry.first_layer import FirstLayer
from netgrain.geometry.forms import Factored
from netgrain.geometry.gradient_rows import Rows
from netgrain.geometry.large_spectrum import times_spread
from netgrain.geometry.standardised_forms import behind_standardised
from netgrain.geometry.structured_forms import Spread
from netgrain.runtime.randomness import derived_seed
from netgrain.runtime.units import Outcome

STAGES = (4, 12)  # members looked at: along a single leading direction, four may all lie on one side
POINTS = 2  # of each
OTHERS = 4  # members that stand for G along which another one is measured
SURE = 2.0  # standard errors


@dataclass(frozen=True)
class StemBias:
    """Gradients through the weights of the forward pass over those through other weights.

    Parameters
    ----------
    scale : Estimate
        Ratio of the traces.
    along : Estimate
        Ratio of ⟨·, G⟩, the part along the integrated G itself, over that of the traces.
    """

    scale: Estimate
    along: Estimate

    def within(self, tolerance: float) -> bool:
        """Whether Corr is off by less than the tolerance, as far as these ratios tell.

        1 − Corr = ε²/2 for a relative error ε: each ratio may be off by √(2 · tolerance).
        """
        room = math.sqrt(2 * tolerance)
        return all(abs(r.value - 1) <= room + SURE * r.stderr for r in (self.scale, self.along))

    @property
    def text(self) -> str:
        """The ratios in words."""
        return (
            f"through its own weights the trace is {self.scale.value:.3f} ± {self.scale.stderr:.3f} times, along G "
            f"{self.along.value:.2f} ± {self.along.stderr:.2f} times that"
        )


@dataclass(frozen=True, eq=False)
class StemRows(Rows):
    """Rows of a member as sampling asks for them, and "own": its gradient through the first layer's own weights,
    (points · copies, inputs of a copy), from the same backward pass."""

    def one(self, i: int) -> Outcome:
        assert self.plan is not None
        assert self.head is not None
        model = member(self.make, self.seed, i, self.device)
        layer = model.get_submodule(self.plan.name)
        points = self.points(i).to(self.device, model_dtype(model))
        call = self.head.on(model, derived_seed(self.seed, "head", i))
        found = [_at_both(call, layer, x) for x in points.split(self.at_once)]
        at_input, at_layer = (torch.cat(pieces) for pieces in zip(*found, strict=True))
        rows = self._outcome(i, self.plan.as_rows(layer, at_layer))
        own = at_input.float().cpu().flatten(1)[:, self.plan.order].reshape(len(points) * self.plan.copies, -1)
        return Outcome(rows.numbers, {**rows.arrays, "own": own})


def _at_both(call: Callable[[Tensor], Tensor], layer: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients at the input and at the output of a layer."""
    kept: list[Tensor] = []

    def keep(out: Tensor) -> Tensor:
        kept.append(out)
        return out.clone()  # an activation in place may overwrite it

    with torch.enable_grad():
        x = x.detach().requires_grad_(True)
        y = with_output(layer, lambda: forward(call, x), keep)
        at_input, at_layer = torch.autograd.grad(y.sum(), (x, kept[0]))
    return at_input.detach(), at_layer.detach()


def stem_bias(plan: FirstLayer, seed: int, members: Sequence[Outcome]) -> StemBias:
    """Measure it on some members, as `StemRows` gives them."""
    own, rows = [], []
    for m in members:
        points = len(m.arrays["own"]) // plan.copies
        kept = min(POINTS, points)
        channels = len(m.arrays["rows"]) // points // (1 if plan.transposed is None else 2)
        own.append(m.arrays["own"][: kept * plan.copies])
        rows.append(m.arrays["rows"][: kept * channels])
    unit = max(float(r.abs().max()) for r in rows) or 1.0  # gradients of 1e-17 or 1e9 are squared in float32
    own, rows = [g / unit for g in own], [r / unit for r in rows]
    other = [
        through_other_weights(plan, r, len(g) // plan.copies, derived_seed(seed, "stem", i))
        for i, (r, g) in enumerate(zip(rows, own, strict=True))
    ]
    squares = [torch.stack([g.double().square().sum() for g in found]) for found in (own, other)]
    # the trace through other weights is known on average
    expected = torch.tensor([_trace(plan, r) for r in rows], dtype=torch.float64)
    along = torch.zeros(2, len(members), dtype=torch.float64)
    for i in range(len(members)):
        rest = torch.cat([*rows[i + 1 :], *rows[:i]][:OTHERS])
        for k, found in enumerate((own, other)):
            along[k, i] = along_geometry(plan, rest, found[i]) / squares[k].sum()
    return StemBias(_ratio(squares[0], expected), _ratio(*along))


def through_other_weights(plan: FirstLayer, rows: Tensor, points: int, seed: int) -> Tensor:
    """The gradient at the input, had it come through fresh weights of the layer; rows: (points · channels, size)."""
    g = rows.reshape(points, -1, rows.shape[1])
    generator = torch.Generator().manual_seed(seed)
    entries = 1 if plan.stem is None else math.prod(plan.stem.kernel)
    weights = torch.randn(g.shape[1], plan.copies, entries, generator=generator)
    if plan.row:
        weights -= weights.mean((1, 2), keepdim=True)
    moved = torch.einsum("oce,pon->pcen", weights * math.sqrt(plan.law.variance), g).flatten(0, 1)
    return moved[:, 0] if plan.stem is None else plan.stem.scatter(moved)


def _trace(plan: FirstLayer, rows: Tensor) -> float:
    """Of the integrated geometry, summed over points."""
    source = Factored(rows, plan.law.variance)
    if plan.row:
        return behind_standardised(source, plan.stem, plan.copies, plan.order).trace()
    return plan.copies * (source if plan.stem is None else Spread(source, plan.stem)).trace()


def along_geometry(plan: FirstLayer, rows: Tensor, g: Tensor) -> Tensor:
    """Σ gᵀGg for the integrated G of some rows, up to the variance of weights; g: (points · copies, inputs of one)."""
    independent = (g * times_spread(rows, plan.stem, g)).double().sum()
    if not plan.row:
        return independent
    common = g.reshape(-1, plan.copies, g.shape[1]).sum(1)
    seen = common if plan.stem is None else plan.stem.window_sums(common)
    return independent - (seen @ rows.T).double().square().sum() / plan.row


def _ratio(a: Tensor, b: Tensor) -> Estimate:
    """Σa / Σb with a jackknife over members."""
    without = (a.sum() - a) / (b.sum() - b)
    n = len(a)
    return Estimate(
        float(a.sum() / b.sum()), float(((n - 1) / n * (without - without.mean()).square().sum()).sqrt()), n
    )
