"""A linear layer over positions, with weights that all channels share (MLP-Mixer)."""

from __future__ import annotations

from dataclasses import replace

import torch

from netgrain.closed_form.channels import Channel, ConstantChannel, GaussianChannel, ObservedChannel, moved_or_none
from netgrain.closed_form.computed_weights import weight_law
from netgrain.closed_form.feature_maps import FeatureMap, Term, arranged
from netgrain.closed_form.moments import Moment, ones
from netgrain.closed_form.rules import Pass
from netgrain.families.initialisation import TensorLaw
from netgrain.families.trace import Other, Step, Unsupported, Weight


def mixed_tokens(
    step: Step, x: FeatureMap, weight: Weight | Other, bias: Weight | Other | None, out: int, run: Pass
) -> FeatureMap:
    """y_c(o) = Σ_n W_on x_c(n) + b_o: K_y = (v tr K + Var b) I and B_x = v tr B · I along the axis that is mixed.

    Both are exact. Channels are no longer independent (they share W), which second moments of one channel do not see;
    that y is Gaussian, given what is mixed, is the limit of many positions.
    """

    def law_of(w: Weight) -> tuple[TensorLaw, tuple[int, ...]]:
        return run.use_weight(w, step), run.shape(w)

    found = weight_law(weight, law_of, step.where)
    law = found.law
    bias_law = None if bias is None else weight_law(bias, law_of, step.where).law
    if found.row or law.mean != 0 or law.variance == 0:
        raise Unsupported(f"{step.where} mixes positions with weights that are not centred and independent")
    mixed = list(x.axes[-1])
    kept = [k for k in range(len(x.sizes)) if k not in mixed]
    place = {k: i for i, k in enumerate(kept)}
    count = len(kept)
    axes = (*(tuple(place.get(k, k) for k in axis) for axis in x.axes[:-1]), (count,))
    x = arranged(x, [*([k] for k in kept), mixed], axes, step)
    inside = x.sizes[count]
    sizes = (*x.sizes[:count], out)

    def moved(m: Moment, size: int) -> Moment:
        return m.traced([count]).with_identity([count], [size]).scaled(law.variance)

    def made(channel: Channel) -> Channel:
        if run.observing:
            return ObservedChannel(torch.zeros(0), sizes)
        spread = 0.0 if bias_law is None else bias_law.variance
        centre = 0.0 if bias_law is None else bias_law.mean
        if isinstance(channel, ConstantChannel) and channel.value == 0 and spread == 0:
            return ConstantChannel(centre, sizes)
        covariance = moved(channel.second(), out)
        if spread:
            over = ones(sizes[:count]).with_identity([count], [out])
            covariance = covariance.plus(over.scaled(spread))
        tangent = moved_or_none(lambda m: moved(m, out), channel.second_tangent())
        return GaussianChannel(covariance, centre, inside, tangent)

    source = frozenset([step.index])
    blocks = tuple(
        replace(b, channel=made(b.channel), sources=source, fresh=True, narrow="", beneath=b.ancestors)
        for b in x.blocks
    )

    def send(block: int, term: Term) -> None:
        if term.factors:
            term = run.average(term)
        x.receive(block, replace(term.moved(lambda m: moved(m, inside)), averaged=False))

    return FeatureMap(axes, sizes, blocks, step, send)
