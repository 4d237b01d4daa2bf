"""Is a cheap estimate of G good enough? A few dozen plainly sampled members decide, within a tolerance.

Corr of the two is corrected for sampling noise, so that a few dozen members tell 0.99 from 1 although their own matrix
is far from G. The scale is judged with it; what is off along the mean of the points or along the leading directions of
the sample, although the whole is not, is reported.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field

import torch
from torch import Tensor

from netgrain.geometry.correlation import correlation, trace
from netgrain.geometry.estimate import Estimate
from netgrain.geometry.forms import Dense, Form, Kronecker
from netgrain.geometry.spectrum import decompose
from netgrain.runtime.errors import GrainWarning

STAGES = (24, 48, 96)  # members looked at, one after the other, until they decide
POINTS = 16  # of each
SURE = 2.0  # standard errors
FAR_OFF = 3.0  # standard errors at which an estimate, or a single direction of it, counts as wrong
WORTH_SAYING = 0.1  # relative error of a single direction that is reported
LEADING = 8  # directions of the sample that are compared
PARTS = 16  # batches of members that error bars come from


@dataclass(frozen=True)
class Agreement:
    """Sampled over estimated, with errors; `corr` of the two."""

    members: int
    corr: Estimate
    scale: Estimate
    along: dict[str, Estimate] = field(default_factory=dict)

    def within(self, tolerance: float) -> bool:
        """Shown to be within it: Corr ≥ 1 − tolerance, and the scale as far off as that allows."""
        room = math.sqrt(2 * tolerance)  # 1 − Corr = ε²/2 for a relative error ε
        sure = abs(self.scale.value - 1) + SURE * self.scale.stderr <= room
        return sure and self.corr.value - SURE * self.corr.stderr >= 1 - tolerance

    def outside(self, tolerance: float) -> bool:
        """Shown to be off by more."""
        room = math.sqrt(2 * tolerance)
        scale = abs(self.scale.value - 1) - FAR_OFF * self.scale.stderr > room
        return scale or self.corr.value + FAR_OFF * self.corr.stderr < 1 - tolerance

    @property
    def remarks(self) -> str:
        """Single directions that are off although the whole is not, to stand after "within the tolerance"; or ""."""
        off = {n: r for n, r in self.along.items() if abs(r.value - 1) > max(WORTH_SAYING, FAR_OFF * r.stderr)}
        return "".join(f"; along {n} sampled over estimated is {r.value:.2f} ± {r.stderr:.2f}" for n, r in off.items())

    @property
    def text(self) -> str:
        scale = f"{self.scale.value:.3f} ± {self.scale.stderr:.3f}"
        return f"Corr {self.corr.value:.4f} ± {self.corr.stderr:.4f}, scale {scale}"


def agreement(estimate: Form, plain: Form, *, centre: Tensor | None = None) -> Agreement:
    """Compare an estimate with plainly sampled members, other ones than it may be made of. centre: mean of the points.

    For Corr the estimate counts as it stands: its own noise is a part of its error.
    """
    if plain.trace() == 0 or estimate.trace() == 0:  # no direction to compare: both are zero, or one is wrong
        same = Estimate(float(plain.trace() == estimate.trace()), 0.0, plain.parts)
        return Agreement(plain.parts, same, same)
    fixed = _as_it_stands(estimate)
    along = {}
    if centre is not None and float(centre.norm()) > 0:
        along["the mean of the points"] = ratio_along(fixed, plain, (centre / centre.norm()).flatten()[None])
    if plain.parts >= 4:
        along["leading directions of the sample"] = leading_ratio(fixed, plain)
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", GrainWarning
        )  # a Corr that a few members leave undefined shows nothing, quietly
        corr = correlation(fixed, plain)
    return Agreement(plain.parts, corr, ratio_of(trace(plain), trace(estimate)), along)


def _as_it_stands(form: Form) -> Form:
    """Without its parts."""
    if isinstance(form, Kronecker):
        return Kronecker(_as_it_stands(form.core), form.copies, form.order)
    return Dense(form.dense()) if form.parts else form


def ratio_along(estimate: Form, plain: Form, basis: Tensor) -> Estimate:
    """tr(U G_plain Uᵀ) / tr(U G_estimate Uᵀ), rows of `basis` orthonormal."""
    return ratio_of(energy(plain, basis), energy(estimate, basis))


def leading_ratio(estimate: Form, plain: Form) -> Estimate:
    """The same for the leading directions of the sample: found on one half of the members, measured on the other."""
    halves = [range(i, plain.parts, 2) for i in (0, 1)]
    found = []
    for mine, others in (halves, halves[::-1]):
        basis = decompose(plain.subset(mine), LEADING).vectors[:LEADING]
        found.append(ratio_along(estimate, plain.subset(others), basis))
    return Estimate(
        sum(r.value for r in found) / 2, math.hypot(*(r.stderr for r in found)) / 2, sum(r.n for r in found)
    )


def energy(form: Form, basis: Tensor) -> Estimate:
    """tr(U G Uᵀ) with its standard error over batches of members."""
    value = float((basis * form.matvec(basis)).sum())
    batches = form.batched(PARTS)
    if batches.parts < 2:
        return Estimate(value, 0.0 if not batches.parts else math.nan, batches.parts)
    n = batches.counts.double()
    energies = torch.stack([(basis * batches.part(i).matvec(basis)).sum() for i in range(batches.parts)])
    spread = float((n * (energies - value).square()).sum())
    return Estimate(value, math.sqrt(spread / (batches.parts - 1) / float(n.sum())), batches.parts)


def ratio_of(seen: Estimate, known: Estimate) -> Estimate:
    if known.value == 0:
        return Estimate(math.inf if seen.value else 1.0, 0.0, seen.n)
    ratio = seen.value / known.value
    relative = math.hypot(seen.stderr / seen.value if seen.value else 0.0, known.stderr / known.value)
    return Estimate(ratio, abs(ratio) * relative, seen.n)
