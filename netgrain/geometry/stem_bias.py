"""What integrating the first layer away from the origin gets wrong, measured on the members themselves.

There the forward pass depends on the first layer's weights W, and an average over fresh weights is off by a term of
about one part in the number of weights that an output sees. A member gives both from one pass: its gradient at the
input, through W, and its gradient at the layer's output, from which the average and gradients through *other* weights
follow. The same pass behind both makes their ratios precise with a few members.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from netgrain.families.calls import with_output
from netgrain.families.members import Family, forward, member, model_dtype
from netgrain.families.probes import Probe
from netgrain.geometry.estimate import Estimate
from netgrain.geometry.first_layer import FirstLayer
from netgrain.geometry.forms import Factored, Form
from netgrain.geometry.random_head import RandomHead
from netgrain.geometry.structured_forms import Spread
from netgrain.runtime.local import Local
from netgrain.runtime.randomness import derived_seed
from netgrain.runtime.streams import MemberStream
from netgrain.runtime.units import Engine, Outcome

MEMBERS = 4
POINTS = 2  # of each
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


def stem_bias(
    make: Family,
    seed: int,
    shape: tuple[int, ...],
    probe: Probe,
    plan: FirstLayer,
    head: RandomHead | None,
    engine: Engine | None = None,
) -> StemBias:
    """Measure it on the first members of the family, at a few points of each."""

    def task(members: range) -> list[Outcome]:
        return [Outcome({}, _both(make, seed, i, shape, probe, plan, head)) for i in members]

    found = MemberStream(task, engine or Local(), 1, {"stem bias": plan.name, "seed": seed, "shape": shape})
    members = [outcome.arrays for outcome in found.map(range(MEMBERS), MEMBERS)]
    own, other, rows = ([m[k] for m in members] for k in ("own", "other", "rows"))
    squares = [torch.stack([g.square().sum() for g in found]) for found in (own, other)]
    # the trace through other weights is known on average
    expected = torch.tensor([_core(plan, [r]).trace() for r in rows], dtype=torch.float64) * plan.copies
    along = torch.zeros(2, MEMBERS, dtype=torch.float64)
    for i in range(MEMBERS):
        rest = _core(plan, rows[:i] + rows[i + 1 :])
        for k, found in enumerate((own, other)):
            along[k, i] = (found[i] * rest.matvec(found[i])).sum() / squares[k].sum()
    return StemBias(_ratio(squares[0], expected), _ratio(*along))


def _both(
    make: Family, seed: int, i: int, shape: tuple[int, ...], probe: Probe, plan: FirstLayer, head: RandomHead | None
) -> dict[str, Tensor]:
    """Gradients at the input through own and through other weights (points · copies, inputs of a copy) and rows at
    the layer's output, (points · channels, positions)."""
    model = member(make, seed, i)
    layer = model.get_submodule(plan.name)
    x = probe.points(shape, POINTS, derived_seed(seed, "probe", i)).to(model_dtype(model)).requires_grad_(True)
    call = model if head is None else head.on(model, derived_seed(seed, "head", i))
    kept: list[Tensor] = []

    def keep(out: Tensor) -> Tensor:
        kept.append(out)
        return out.clone()  # an activation in place may overwrite it

    generator = torch.Generator().manual_seed(derived_seed(seed, "stem", i))
    with torch.enable_grad():
        y = with_output(layer, lambda: forward(call, x), keep)
        signs = torch.randint(2, y.shape, generator=generator).to(y) * 2 - 1
        at_input, at_layer = torch.autograd.grad((y * signs).sum(), (x, kept[0]))
    rows = plan.positions_last(layer, at_layer.detach()).double()  # (points, channels, positions)
    own = at_input.detach().double().flatten(1)[:, plan.order].reshape(len(x) * plan.copies, -1)
    return {"own": own, "other": _through_other_weights(plan, rows, generator), "rows": rows.flatten(0, 1)}


def _through_other_weights(plan: FirstLayer, g: Tensor, generator: torch.Generator) -> Tensor:
    """The gradient at the input, had it come through fresh weights of the layer."""
    entries = 1 if plan.stem is None else math.prod(plan.stem.kernel)
    weights = torch.randn(g.shape[1], plan.copies, entries, generator=generator, dtype=torch.float64)
    moved = torch.einsum("oce,pon->pcen", weights * math.sqrt(plan.law.variance), g).flatten(0, 1)
    return moved[:, 0] if plan.stem is None else plan.stem.scatter(moved)


def _core(plan: FirstLayer, rows: list[Tensor]) -> Form:
    """What one copy of the input sees of the integrated geometry, summed over points."""
    source = Factored(torch.cat(rows), plan.law.variance)
    return source if plan.stem is None else Spread(source, plan.stem)


def _ratio(a: Tensor, b: Tensor) -> Estimate:
    """Σa / Σb with a jackknife over members."""
    without = (a.sum() - a) / (b.sum() - b)
    n = len(a)
    return Estimate(
        float(a.sum() / b.sum()), float(((n - 1) / n * (without - without.mean()).square().sum()).sqrt()), n
    )
