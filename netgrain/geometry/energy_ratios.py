"""Sampled over estimated energy along directions that neither of the two was fitted to, with its error."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from netgrain.geometry.correlation import over_parts
from netgrain.geometry.estimate import Estimate
from netgrain.geometry.forms import Form
from netgrain.geometry.spectrum import decompose

LEADING = 8  # directions of the sample that are compared
PARTS = 16  # batches of members that error bars come from


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


def energy(form: Form, basis: Tensor, parts: int = PARTS) -> Estimate:
    """tr(U G Uᵀ) with its standard error over batches of members."""
    batches = form.batched(parts)

    def each() -> Tensor:
        return torch.stack([(basis * batches.part(i).matvec(basis)).sum() for i in range(batches.parts)])

    return over_parts(batches, float((basis * form.matvec(basis)).sum()), each)


def ratio_of(seen: Estimate, known: Estimate) -> Estimate:
    if known.value == 0:
        return Estimate(math.inf if seen.value else 1.0, 0.0, seen.n)
    ratio = seen.value / known.value
    relative = math.hypot(seen.stderr / seen.value if seen.value else 0.0, known.stderr / known.value)
    return Estimate(ratio, abs(ratio) * relative, seen.n)
