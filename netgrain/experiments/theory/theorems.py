"""Linear regression, Proposition A.1, and the example of App. A.10."""

from __future__ import annotations

import copy
import math
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from netgrain.experiments.theory import statements
from netgrain.experiments.theory.statements import Job, Statement, compared, holds_if
from netgrain.families.members import member
from netgrain.families.probes import Data
from netgrain.geometry.average import average_geometry
from netgrain.geometry.estimate import Estimate, mean_of
from netgrain.geometry.value import Geometry
from netgrain.training.evolution import evolution_of

# --- linear regression ------------------------------------------------------------------------------------------------


def linear_regression(job: Job) -> list[Statement]:
    """f = wᵀx: ẇ = −S w + Σ y_μx_μ, so ẇwᵀ + wẇᵀ has the mean −2σ²S; the labels meet an odd moment of w."""
    generator = job.generator("linear-regression")
    X = torch.randn(12, 6, generator=generator, dtype=torch.float64) * torch.arange(1, 7)
    y = torch.randn(12, generator=generator, dtype=torch.float64)
    S, sigma = X.T @ X, 0.7
    w = sigma * torch.randn(job.pick(4000, 40_000), 6, generator=generator, dtype=torch.float64)
    moved = -(w @ X.T - y) @ X
    measured = mean_of(2 * torch.einsum("bi,ij,bj->b", moved, S, w) / (sigma**2 * S.square().sum()))
    deviation = statements.worst((moved[:, :, None] * w[:, None]).flatten(1), (-(sigma**2) * S).flatten())
    row = partial(compared, assumptions="f = θᵀx, θ ~ N(0, σ²I), SSE with labels")
    return [
        row(
            "⟨Δ, S⟩ / (σ²‖S‖²)",
            measured,
            claim="Δ = −σ²S",
            predicted=-2.0,
            printed=-1.0,
            note="the text drops the transpose of Δ = M + Mᵀ",
        ),
        row(
            "Δ against −2σ²S: largest deviation of an entry, in standard errors",
            deviation,
            claim="Δ ∝ S",
            predicted=0.0,
            printed=0.0,
            tolerance=statements.SIGMAS,
        ),
    ]


# --- Proposition A.1 --------------------------------------------------------------------------------------------------


class Arbitrary(nn.Module):
    """Convolutions, a skip, a normalisation, three outputs: only the last layer is as the proposition wants it."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(1, 3, 3, padding=1), nn.Conv2d(3, 3, 3, padding=1)
        self.norm, self.head = nn.LayerNorm(48), nn.Linear(48, 3)
        nn.init.normal_(self.head.weight, std=1 / math.sqrt(48))

    def forward(self, x: Tensor) -> Tensor:
        h = F.gelu(self.a(x))
        found: Tensor = self.head(self.norm((h + torch.sin(self.b(h))).flatten(1)))
        return found


def label_part(mean: float, pairs: int, seed: int) -> Estimate:
    """‖Δ(y) − Δ(0)‖/‖Δ(0)‖ over pairs of members whose heads are mean ± ω."""
    generator = torch.Generator().manual_seed(seed)
    X = torch.randn(6, 1, 4, 4, generator=generator, dtype=torch.float64)
    y = torch.randn(6, 3, generator=generator, dtype=torch.float64)
    models = []
    for i in range(pairs):
        for sign in (1, -1):
            model = copy.deepcopy(member(Arbitrary, seed, i).double())
            assert isinstance(model, Arbitrary)
            with torch.no_grad():
                weight = model.head.weight
                # half of the entries: the features are centred, and would not see a mean that all of them share
                weight.mul_(sign)[:, ::2].add_(mean)
            models.append(model)
    probe = Data(torch.randn(2, 1, 4, 4, generator=generator, dtype=torch.float64))
    labelled, plain = (evolution_of(models, X, t, probe, progress=False).matrix() for t in (y, torch.zeros_like(y)))
    return Estimate(float((labelled - plain).norm() / plain.norm()), 0.0, 2 * pairs)


def proposition_a1(job: Job) -> list[Statement]:
    zero, shifted = (label_part(mean, job.pick(2, 6), job.seed) for mean in (0.0, 0.3))
    row = partial(
        compared,
        assumptions="convolutions, a skip, layer norm, three outputs; float64; every member also with its head turned "
        "to −ω",
    )
    return [
        row(
            "‖Δ(y) − Δ(0)‖ / ‖Δ(0)‖, heads ±ω",
            zero,
            claim="with a zero-mean Gaussian classification layer and SSE, Δ does not depend on the labels",
            predicted=0.0,
            printed=0.0,
            tolerance=1e-12,
            note="the label terms are odd in ω: they vanish for every symmetric law, not only for Gaussians",
        ),
        row(
            "the same with heads 0.3 ± ω",
            shifted,
            claim="(the mean of the head must be zero)",
            corrected=holds_if(shifted > 1e-3),
            note="a head with a mean lets the labels in",
        ),
    ]


# --- App. A.10 --------------------------------------------------------------------------------------------------------

EXAMPLE = torch.tensor([[1.0, 1.0, 0.0], [1.0, 2.0, 1.0], [0.0, 1.0, 1.0]], dtype=torch.float64)


class Example(nn.Module):
    """A kernel of two weights ~ N(0, σ²) over three inputs, the mean of its two answers."""

    def __init__(self, sigma: float = 1.0) -> None:
        super().__init__()
        self.conv, self.pool = nn.Conv1d(1, 1, 2, bias=False), nn.AvgPool1d(2)
        nn.init.normal_(self.conv.weight, std=sigma)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.pool(self.conv(x)).flatten(1)
        return found


def example_geometry(seed: int = 0) -> Geometry:
    return average_geometry(Example, (1, 3), method="closed-form", seed=seed)


def example_a10(job: Job) -> list[Statement]:
    closed = example_geometry(job.seed).matrix()
    theta = job.normal((job.pick(4000, 100_000), 2), "example-a10")
    gradient = torch.stack([theta[:, 0], theta.sum(1), theta[:, 1]], 1) / 2
    deviation = statements.worst((gradient[:, :, None] * gradient[:, None]).flatten(1), (EXAMPLE / 4).flatten())
    values = torch.linalg.eigvalsh(closed).flip(0)
    row = partial(compared, assumptions="θ₁, θ₂ ~ N(0, σ²), average pooling of size 2")
    return [
        row(
            "G₁₁ / σ², sampled",
            mean_of(gradient[:, 0].square()),
            claim="G = (σ²/2)·[[1, 1, 0], [1, 2, 1], [0, 1, 1]]",
            predicted=0.25,
            printed=0.5,
            note=f"the closed form gives {float(closed[0, 0]):.6g}; the product of two means over two positions is 1/4",
        ),
        row(
            "G against (σ²/4)·[[1, 1, 0], [1, 2, 1], [0, 1, 1]]: largest deviation, in standard errors",
            deviation,
            claim="the same",
            predicted=0.0,
            corrected=holds_if(deviation < statements.SIGMAS and bool((closed - EXAMPLE / 4).abs().max() < 1e-5)),
        ),
        row(
            "ratio of the two eigenvalues of G",
            Estimate(float(values[0] / values[1])),
            claim="eigenvalues 3, 1, 0 with vectors (1, 2, 1), (−1, 0, 1), (1, −1, 1)",
            predicted=3.0,
            printed=3.0,
            tolerance=1e-5,
            note=f"the third is {abs(float(values[2])):.1g}: rank 2",
        ),
    ]
