"""Whether a spectrum is flat: no direction leads, and pictures of leading ones would be pictures of noise.

Two things must hold. The effective rank, corrected for sampling noise, is more than half of d. And no direction reacts
several times as strongly as the average one: the largest eigenvalue where G is exact; where it was sampled, directions
that one half of the members reacts to most, measured on the other half, because noise spreads a spectrum out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from netgrain.geometry.estimate import Estimate
from netgrain.geometry.forms import Form
from netgrain.geometry.standardised_forms import Contrasts
from netgrain.geometry.structured_forms import Kronecker

RANK = 0.5  # share of d that the effective rank of a flat spectrum exceeds
LEADS = 4.0  # times the average direction: one that reacts so strongly leads
ERRORS = 2.0  # standard errors by which either must be shown
TRIED, ROUNDS = 8, 20  # directions of a half that are measured on the other one, and products to find them
WHOLE = 1024  # up to here, all eigenvalues of an exact matrix


@dataclass(frozen=True)
class FlatSpectrum:
    """A spectrum in which no direction leads.

    Parameters
    ----------
    d : int
        Dimension of the input space.
    rank : Estimate
        Effective rank: the size of the block of nearly equal eigenvalues.
    mean : Estimate
        The average eigenvalue, tr G / d.
    largest : Estimate
        The strongest direction, in average ones, with its sampling error.
    """

    d: int
    rank: Estimate
    mean: Estimate
    largest: Estimate

    def __str__(self) -> str:
        return (
            f"no direction leads: a block of about {_rounded(self.rank)} of {self.d} directions is nearly alike "
            f"(eigenvalue {_short(self.mean)}), and the strongest is {_short(self.largest)} times the average"
        )


def flat_spectrum(form: Form, trace: Estimate, rank: Estimate, *, kept: bool = False) -> FlatSpectrum | None:
    """The block of nearly equal eigenvalues, if no direction leads; kept: only leading directions are in the form."""
    d = form.size
    if not (trace.value > 0 and d > 1):
        return None
    mean = Estimate(trace.value / d, trace.stderr / d, trace.n)
    if not kept:
        least = rank.value - ERRORS * rank.stderr if form.parts else rank.value
        if not least > max(RANK * d, math.sqrt(d)):  # NaN, where the sample cannot tell, is no proof
            return None
    core = form.core if isinstance(form, Kronecker) else form
    if isinstance(form, Contrasts):
        core = form.contrast  # the mean over channels sees less
    largest = _strongest(core.batched(), trace.value / d)
    # what was kept of a sketch has no parts, and noise only makes its largest eigenvalue larger: rank ≥ d / largest
    most = min(1 / RANK if kept else LEADS, d**0.25)  # of a few directions each is seen by itself
    if largest is None or not largest.value - ERRORS * largest.stderr < most:
        return None
    return FlatSpectrum(d, rank, mean, largest)


def _strongest(core: Form, mean: float) -> Estimate | None:
    """The strongest direction in average ones; None where a sample is too small to tell."""
    if not core.parts:
        return Estimate(_largest(core) / mean)
    if core.parts < 4:
        return None
    first, second = core.subset(range(0, core.parts, 2)), core.subset(range(1, core.parts, 2))
    vectors = _subspace(first, TRIED)
    along = torch.stack(
        [(vectors * part.matvec(vectors)).sum(1) for part in (second.part(i) for i in range(second.parts))]
    )
    weights = second.counts.double() / second.counts.sum()
    values = (weights[:, None] * along).sum(0)
    spread = (weights[:, None] * (along - values).square()).sum(0) / max(second.parts - 1, 1)
    errors = spread.sqrt()
    best = int((values - ERRORS * errors).argmax())
    return Estimate(float(values[best]) / mean, float(errors[best]) / mean, core.parts)


def _largest(form: Form) -> float:
    if form.size <= WHOLE:
        return float(torch.linalg.eigvalsh(form.dense())[-1])
    vectors = _subspace(form, TRIED)
    return float((vectors * form.matvec(vectors)).sum(1).max())


def _subspace(form: Form, k: int) -> Tensor:
    """Directions that the form reacts to most, (k, size), by subspace iteration: one that leads by far is found."""
    k = min(k, form.size)
    vectors = torch.randn(k, form.size, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for _ in range(ROUNDS):
        vectors = torch.linalg.qr(form.matvec(torch.linalg.qr(vectors.T)[0].T).T)[0].T
    within = vectors @ form.matvec(vectors).T
    mixing = torch.linalg.eigh((within + within.T) / 2)[1].flip(1)
    found: Tensor = mixing.T @ vectors
    return found


def _rounded(rank: Estimate) -> str:
    error = f" ± {max(rank.stderr, 1):.0f}" if rank.stderr > 0 else ""
    return f"{rank.value:.0f}{error}"


def _short(x: Estimate) -> str:
    return f"{x.value:.3g} ± {x.stderr:.1g}" if x.stderr > 0 else f"{x.value:.3g}"
