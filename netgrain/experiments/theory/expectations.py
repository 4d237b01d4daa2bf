"""Lemmas A.5 to A.7, the moments inside the two proofs, Corollary A.4: expectations over Gaussian vectors."""

from __future__ import annotations

import math
from functools import partial

import torch
from torch import Tensor

from netgrain.experiments.theory.material import images
from netgrain.experiments.theory.relu import on_at_both, over_angles
from netgrain.experiments.theory.statements import Job, Statement, compared, divided, holds_if, same
from netgrain.geometry.estimate import mean_of

# --- Lemma A.5 --------------------------------------------------------------------------------------------------------


def both_on(cos: float) -> tuple[float, float]:
    """aᵀEb and q of E = E[1{δᵀa>0} 1{δᵀb>0} δδᵀ] for unit a, b at this cosine.

    By Stein's lemma E = q I + [sinθ(abᵀ + baᵀ) − sinθ cosθ (aaᵀ + bbᵀ)]/(2π sin²θ);
    at a right angle I/4 + (abᵀ + baᵀ)/(2π).

    >>> [round(v, 4) for v in both_on(0.0)]
    [0.1592, 0.25]
    """
    theta = math.acos(cos)
    q = on_at_both(theta)
    return q * cos + math.sin(theta) / (2 * math.pi), q


def lemma_a5(job: Job) -> list[Statement]:
    """aᵀEb and the mean of an entry of E − qI."""
    D, draws = 64, job.pick(40_000, 200_000)
    delta = job.normal((draws, D), "lemma-a5")
    a = torch.ones(D, dtype=torch.float64) / math.sqrt(D)
    b = a * torch.tensor([1.0, -1.0], dtype=torch.float64).repeat(D // 2)
    on = ((delta @ a > 0) & (delta @ b > 0)).double()
    entry = mean_of(on * (delta[:, 0] * delta[:, 2]))  # a₀b₂ + a₂b₀ = 2/D
    row = partial(
        compared,
        claim="E[1{δᵀa>0} 1{δᵀb>0} δδᵀ] ≈ E[1{δᵀa>0} 1{δᵀb>0}] I for large D and non-sparse a, b, at the rate √D",
    )
    return [
        row(
            "aᵀ E[1·1 δδᵀ] b for a ⟂ b, D = 64",
            mean_of(on * (delta @ a) * (delta @ b)),
            assumptions="δ ~ N(0, I); a, b orthogonal, all entries ±1/√D",
            predicted=both_on(0.0)[0],
            printed=0.0,
            note="as a matrix E = I/4 + (abᵀ + baᵀ)/(2π) at every D; this term is the 4/(π²D) of Theorem 3.1",
        ),
        row(
            "entry (0, 2) of E[1·1 δδᵀ], D = 64",
            entry,
            assumptions="the same",
            predicted=1 / (math.pi * D),
            printed="→ 0",
            tolerance=0.02,
            paper=holds_if(abs(entry) < 1 / math.sqrt(D)),
            note="entry by entry the lemma holds: 2·(1/D)/(2π)",
        ),
    ]


# --- Lemma A.6 --------------------------------------------------------------------------------------------------------


def second_moment(D: int) -> float:
    """E q² over a uniform direction.

    >>> round(second_moment(2), 6) == round(1 / 12, 6)
    True
    """
    return over_angles(lambda t: on_at_both(t) ** 2, D)


def lemma_a6(job: Job) -> list[Statement]:
    row = partial(
        compared,
        claim="q = E_δ[1{δᵀa>0} 1{δᵀb>0}] is uniform on [0, 1] for a ~ N(0, I): mean 1/2, second moment 1/3",
        assumptions="a, δ ~ N(0, I)",
    )
    found = []
    for D in (2, 64):
        a = job.normal((job.pick(20_000, 100_000), D), "lemma-a6", D)
        q = on_at_both(torch.arccos((a[:, 0] / a.norm(dim=1)).clamp(-1, 1)))
        found += [
            row(
                f"mean of q, D = {D}",
                mean_of(q),
                predicted=0.25,
                printed=0.5,
                note="q = (π − angle)/(2π) is at most 1/2; the angle concentrates at π/2",
            ),
            row(
                f"second moment of q, D = {D}",
                mean_of(q.square()),
                predicted=second_moment(D),
                printed=1 / 3,
                note=f"1/12 at D = 2, 1/16 + 1/(4π²D) = {1 / 16 + 1 / (4 * math.pi**2 * D):.5f} for large D",
            ),
        ]
    return found


# --- Lemma A.7 and moments --------------------------------------------------------------------------------------------


def lemma_a7(job: Job) -> list[Statement]:
    D = 9
    delta = job.normal((job.pick(20_000, 100_000), D), "lemma-a7")
    unit = delta / delta.norm(dim=1, keepdim=True)
    diagonal = mean_of(unit[:, 0].square())
    row = partial(compared, claim="E[δδᵀ/|δ|²] = I/D", assumptions="δ ~ N(0, I), D = 9")
    return [
        row("diagonal entry", diagonal, predicted=1 / D, printed="1/9", paper=same(diagonal, 1 / D)),
        row(
            "off-diagonal entry",
            mean_of(unit[:, 0] * unit[:, 1]),
            predicted=0.0,
            printed=0.0,
            tolerance=0.01,
            note="true; the printed proof fixes |δ|² to δ_i² + δ_j² + D − 2, but the sign symmetry alone suffices",
        ),
    ]


def moments(job: Job) -> list[Statement]:
    """The fourth moments that both proofs use, in units of σ⁴."""
    phi = job.normal((job.pick(40_000, 200_000), 5), "moments")  # x is the first axis
    row = partial(
        compared,
        claim="E[(φᵀx)²φφᵀ] = σ⁴(xxᵀ + |x|²I) (proofs of Theorems 3.1 and 3.2)",
        assumptions="φ ~ N(0, σ²I), |x| = 1",
    )
    return [
        row(
            "xᵀE[(φᵀx)²φφᵀ]x / σ⁴",
            mean_of(phi[:, 0].square() * phi[:, 0].square()),
            predicted=3.0,
            printed=2.0,
            note="Isserlis: three pairings of (φx)(φx)φφᵀ, two of them give xxᵀ: σ⁴(2xxᵀ + |x|²I)",
        ),
        row(
            "yᵀE[(φᵀx)²φφᵀ]y / σ⁴, y ⟂ x",
            mean_of(phi[:, 0].square() * phi[:, 1].square()),
            predicted=1.0,
            printed=1.0,
        ),
        row(
            "E ω⁴ / σ⁴",
            mean_of(phi[:, 2].pow(4)),
            claim="σ_ω⁴ stands for E[ω_i²ω_j²], also for i = j",
            assumptions="ω ~ N(0, σ²)",
            predicted=3.0,
            printed=1.0,
            note="changes terms of order n only: the limits survive, the constants do not",
        ),
    ]


# --- Corollary A.4 ----------------------------------------------------------------------------------------------------


def normalised_second_moment(values: Tensor) -> Tensor:
    """Eigenvalues of E[θθᵀ/(θᵀΣθ)], θ ~ N(0, I), for Σ with these eigenvalues, by one integral each.

    1/s = ∫₀^∞ e^(−ts) dt and a Gaussian integral give ∫₀^∞ Π_k (1 + 2tλ_k)^(−1/2) / (1 + 2tλ_i) dt, here with t = e^u.

    >>> normalised_second_moment(torch.ones(4, dtype=torch.float64)).round(decimals=8).tolist()
    [0.25, 0.25, 0.25, 0.25]
    """
    u = torch.linspace(-30, 30, 6001, dtype=torch.float64) - float(values.log().mean())
    t = u.exp()[:, None]
    terms = (1 + 2 * t * values).rsqrt().prod(1, keepdim=True) / (1 + 2 * t * values) * t
    return torch.trapezoid(terms, u, dim=0)


def bounds(first: Tensor, second: Tensor) -> tuple[float, float]:
    """Printed lower and upper bound, from the eigenvalues of the two patch covariances; ours are these over p."""
    return float((first.max() * second.max()).rsqrt()), float((first.min() * second.min()).rsqrt())


def corollary_a4(job: Job) -> list[Statement]:
    """Eigenvalues of E[θθᵀ/(σ_j1 σ_j2)] on patches of images, against the printed and the corrected bounds."""
    data = images(job, job.pick(400, 2000), channels=1, size=16)
    k, p = 3, 9
    at = ((2, 2), (10, 9))
    patches = [data.X[:, 0, r : r + k, c : c + k].flatten(1).double() for r, c in at]
    covariances = [(P - P.mean(0)).T @ (P - P.mean(0)) / len(P) for P in patches]
    spectra = [torch.linalg.eigvalsh(S) for S in covariances]
    theta = job.normal((job.pick(20_000, 100_000), p), "corollary-a4")
    deviations = [torch.einsum("bp,pq,bq->b", theta, S, theta).sqrt() for S in covariances]
    found = []
    for i, j in ((0, 0), (0, 1)):
        weighted = theta / (deviations[i] * deviations[j]).sqrt()[:, None]
        E = weighted.T @ weighted / len(theta)
        vectors = torch.linalg.eigh(E).eigenvectors
        low, high = bounds(spectra[i], spectra[j])
        smallest = mean_of((weighted @ vectors[:, 0]).square())
        largest = mean_of((weighted @ vectors[:, -1]).square())
        inside = low / p <= smallest + 4 * smallest.stderr and largest - 4 * largest.stderr <= high / p
        violated = smallest + 4 * smallest.stderr < low
        truth = float(normalised_second_moment(spectra[i])[-1]) if i == j else None
        which = "one patch" if i == j else "two patches"
        found.append(
            compared(
                f"least eigenvalue of E[θθᵀ/(σσ')] over the printed bound, {which}",
                divided(smallest, low),
                claim="(λmin λmin')^(−½) I ⪰ E[θθᵀ/(σ_j1 σ_j2)] ⪰ (λmax λmax')^(−½) I",
                assumptions=f"{data.name}, 3 × 3 patches, σ_j the standard deviation of θᵀ(patch j), θ ~ N(0, I)",
                predicted=truth / low if truth is not None else None,
                printed="≥ 1",
                paper=holds_if(not violated),
                corrected=holds_if(inside),
                note=f"eigenvalues {smallest.value:.3f} to {largest.value:.3f}; printed bounds {low:.3f} to {high:.3g}"
                f", corrected by 1/p {low / p:.4f} to {high / p:.3g}",
            )
        )
    return [*found, _printed_scale(theta, covariances[0], spectra[0], data.name)]


def _printed_scale(theta: Tensor, covariance: Tensor, spectrum: Tensor, name: str) -> Statement:
    """With σ_j the variance, as printed, the middle depends on the scale of θ and the bounds do not."""
    quadratic = torch.einsum("bp,pq,bq->b", theta, covariance, theta)
    half = mean_of((theta @ torch.linalg.eigh(covariance).eigenvectors[:, -1]).square() / quadratic.square())
    low, _ = bounds(spectrum, spectrum)
    return compared(
        "vᵀE[θθᵀ/(σσ)]v over the printed lower bound, σ the variance, θ ~ N(0, 4I)",
        divided(half, 4 * low),
        claim="σ_j(θ) = Var(θᵀM_jᵀx)",
        assumptions=f"{name}; v the leading eigenvector of the patch covariance",
        printed="≥ 1",
        paper=holds_if(not (half / 4 + half.stderr < low)),
        note="scaling θ by 2 divides the middle by 4 and leaves the bounds: σ_j must be the standard deviation",
    )
