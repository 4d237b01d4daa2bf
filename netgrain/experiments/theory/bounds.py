"""The theoretical arguments behind geometric complexity: every inequality measured, with how tight it is.

A bound is a quotient, bound over truth, that must be at least 1 for every network; the number is its geometric mean
over networks, the note has the smallest. Each inequality stands beside a case in which it is an equality, or beside a
version that is wrong and must be seen to break. Networks are perceptrons and small convolutional networks on digits, at
the start and trained. docs/complexity.md says where the inequalities come from.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

import torch
from torch import Tensor, nn

from netgrain.complexity.estimators import geometric_complexity
from netgrain.complexity.lipschitz import LipschitzProfile, lipschitz_profile
from netgrain.complexity.mlp_bounds import norm_bounds, transfer_inequality
from netgrain.experiments.heuristics.networks import ConvNet, Perceptron
from netgrain.experiments.heuristics.protocol import material
from netgrain.experiments.theory.statements import SIGMAS, Job, Statement, compared, holds_if
from netgrain.families.members import Family, member
from netgrain.geometry.estimate import Estimate, mean
from netgrain.training.settings import Settings
from netgrain.training.trained_members import train_member

SIZES = (64, 32, 32, 10)  # of perceptrons
ROUNDING = 1e-6  # by which a quotient of an equality may lie below 1
KINDS = ("at the start", "trained")


@dataclass(frozen=True, eq=False)
class Subjects:
    """Networks of one kind, and the digits on which they are measured."""

    perceptrons: list[nn.Module]
    convolutional: list[nn.Module]
    X: Tensor  # (points, 1, 8, 8)


@lru_cache(maxsize=8)
def subjects(job: Job, kind: str) -> Subjects:
    X, y, *_ = material("digits", 300, False)
    count = job.pick(3, 10)
    settings = Settings(lr=0.1, momentum=0.0, batch=32, steps=job.pick(50, 1000))
    flat: Family = partial(Perceptron, SIZES)
    conv: Family = partial(ConvNet, (1, 8, 8), 10, width=4)

    def made(make: Family, inputs: Tensor) -> list[nn.Module]:
        if kind == "at the start":
            return [member(make, job.seed, i) for i in range(count)]
        return [train_member(make, inputs, y, settings, seed=job.seed, i=i).model(make) for i in range(count)]

    return Subjects(made(flat, X.flatten(1)), made(conv, X), X[: job.pick(20, 100)])


def clear() -> None:
    """Forget the networks of earlier calls."""
    subjects.cache_clear()
    profiles.cache_clear()


def bound(quantity: str, ratios: Sequence[float], *, claim: str, assumptions: str, sampling: float = 0.0) -> Statement:
    """A row for a quotient that must be at least 1 in every network; the number is the geometric mean.

    sampling: relative standard error of a quotient that compares expectations by samples; four of them are allowed.
    """
    logs = mean([math.log(r) for r in ratios])
    value = math.exp(logs.value)
    return compared(
        quantity,
        Estimate(value, value * logs.stderr, logs.n),
        claim=claim,
        assumptions=assumptions,
        predicted=1.0,
        corrected=holds_if(min(ratios) >= 1 - max(ROUNDING, SIGMAS * sampling)),
        note=f"at least 1 is predicted{_up_to(sampling)}; the smallest of {len(ratios)} is {min(ratios):.4g}",
    )


def _up_to(sampling: float) -> str:
    return f" up to {SIGMAS:g} standard errors of {sampling:.2g}" if sampling else ""


def _equality(quantity: str, ratio: float, predicted: float, *, claim: str, assumptions: str) -> Statement:
    """A row for a case in which a quotient is known."""
    value = Estimate(ratio, 0.0, 1)
    return compared(
        quantity, value, claim=claim, assumptions=assumptions, predicted=predicted, tolerance=1e-5 * predicted
    )


# --- norms of the weights -------------------------------------------------------------------------------------------


def parameter_norm(job: Job) -> list[Statement]:
    """GC ≤ Π‖W‖_F² ≤ ((1/L) Σ‖W‖_F²)^L: why weight decay lowers complexity."""
    rows = []
    for kind in KINDS:
        there = subjects(job, kind)
        found = [norm_bounds(net, there.X.flatten(1)) for net in there.perceptrons]
        row = partial(bound, assumptions=f"ReLU perceptrons 64-32-32-10 {kind}")
        rows += [
            row(f"Π‖W‖² / GC, {kind}", [b.frobenius / b.gc for b in found], claim="GC ≤ Π‖W‖²"),
            row(
                f"(Σ‖W‖²/L)^L / Π‖W‖², {kind}",
                [b.mean_power / b.frobenius for b in found],
                claim="Π‖W‖² ≤ ((1/L) Σ‖W‖²)^L",
            ),
        ]
    u = torch.nn.functional.normalize(job.normal((8,), "rank one").float(), dim=0)
    aligned = _linear([torch.outer(u, u), 2 * torch.outer(u, u)])
    tight = norm_bounds(aligned, torch.eye(8))
    claim = "equality for layers of rank one along each other"
    return [*rows, _equality("Π‖W‖² / GC, tight", tight.frobenius / tight.gc, 1.0, claim=claim, assumptions=claim)]


def spectral_norm(job: Job) -> list[Statement]:
    """GC ≤ min n · Πσ²: why spectral norms lower complexity; without the width it is wrong."""
    rows = []
    for kind in KINDS:
        there = subjects(job, kind)
        found = [norm_bounds(net, there.X.flatten(1)) for net in there.perceptrons]
        ratios = [b.spectral / b.gc for b in found]
        assumed = f"ReLU perceptrons 64-32-32-10 {kind}"
        rows.append(bound(f"min n Πσ² / GC, {kind}", ratios, claim="GC ≤ min n Πσ²", assumptions=assumed))
    turns = [torch.linalg.qr(job.normal((8, 8), "turn", j)).Q.float() for j in range(2)]
    b = norm_bounds(_linear(turns), torch.eye(8))
    row = partial(_equality, assumptions="two orthogonal 8 × 8 layers")
    return [
        *rows,
        row("min n Πσ² / GC, tight", b.spectral / b.gc, 1.0, claim="equality for orthogonal layers"),
        row("Πσ² / GC, no width", b.spectral / 8 / b.gc, 1 / 8, claim="without the width the bound breaks"),
    ]


def _linear(matrices: Sequence[Tensor]) -> nn.Sequential:
    """A chain of linear maps with these weights."""
    layers = [nn.Linear(W.shape[1], W.shape[0], bias=False) for W in matrices]
    for layer, W in zip(layers, matrices, strict=True):
        layer.weight.data.copy_(W)
    return nn.Sequential(*layers)


# --- Lipschitz constants --------------------------------------------------------------------------------------------


@lru_cache(maxsize=8)
def profiles(job: Job, kind: str) -> dict[str, list[LipschitzProfile]]:
    there = subjects(job, kind)
    flat = [lipschitz_profile(net, there.X.flatten(1), progress=False) for net in there.perceptrons]
    conv = [lipschitz_profile(net, there.X, progress=False) for net in there.convolutional]
    return {"perceptron": flat, "ConvNet": conv}


def lipschitz_below(job: Job) -> list[Statement]:
    """mean ‖J‖² ≤ GC ≤ min(d, k) max ‖J‖²: complexity between the mean and the largest slope at data."""
    rows = []
    for kind in KINDS:
        for name, found in profiles(job, kind).items():
            row = partial(bound, assumptions=f"{name} on digits {kind}, ‖J‖ by singular values")
            least = [p.gc.value / float(p.norms.square().mean()) for p in found]
            most = [10 * p.lower_max**2 / p.gc.value for p in found]
            rows += [
                row(f"GC / mean ‖J‖², {name} {kind}", least, claim="mean ‖J‖² ≤ GC"),
                row(f"min(d, k) max ‖J‖² / GC, {name} {kind}", most, claim="GC ≤ min(d, k) Lip²"),
            ]
    return rows


def product(job: Job) -> list[Statement]:
    """max ‖J‖ ≤ Lip ≤ the product of the constants of the layers."""
    rows = []
    for kind in KINDS:
        for name, found in profiles(job, kind).items():
            ratios = [p.upper_product / p.lower_max for p in found if p.upper_product is not None]
            assumed = f"{name} on digits {kind}; singular values of layers from above"
            rows.append(
                bound(f"product bound / max ‖J‖, {name} {kind}", ratios, claim="Lip ≤ Π‖layer‖", assumptions=assumed)
            )
    turns = [torch.linalg.qr(job.normal((8, 8), "turn", j)).Q.float() for j in range(2)]
    tight = lipschitz_profile(_linear([turns[0], 3 * turns[1]]), torch.eye(8), progress=False)
    ratio = (tight.upper_product or math.nan) / tight.lower_max
    claim = "equality for orthogonal layers"
    return [*rows, _equality("product bound / max ‖J‖, tight", ratio, 1.0, claim=claim, assumptions=claim)]


# --- flatness -------------------------------------------------------------------------------------------------------


def transfer(job: Job) -> list[Statement]:
    """Flat in the weights, flat in the input: ‖J‖² Σ (1 + ‖h‖²)/(‖W‖²‖∂h/∂x‖²) ≤ ‖∂f/∂θ‖²."""
    rows = []
    for kind in KINDS:
        there = subjects(job, kind)
        slacks = [transfer_inequality(net, there.X.flatten(1)).slack for net in there.perceptrons]
        ratios = [float(r) for slack in slacks for r in slack]
        rows.append(
            bound(
                f"‖∂f/∂θ‖² / (‖J‖² Σ …), {kind}",
                ratios,
                claim="‖J‖² Σ (1 + ‖h‖²)/(‖W‖²‖∂h/∂x‖²) ≤ ‖∂f/∂θ‖²",
                assumptions=f"ReLU perceptrons 64-32-32-10 {kind}, every point",
            )
        )
    torch_line = member(partial(nn.Linear, 5, 1), job.seed, 0)
    line = transfer_inequality(torch_line, job.normal((4, 5), "line").float())
    claim = "equality for one linear layer with one output"
    return [
        *rows,
        _equality("‖∂f/∂θ‖² / (‖J‖² Σ …), tight", float(line.slack.max()), 1.0, claim=claim, assumptions=claim),
    ]


# --- outputs --------------------------------------------------------------------------------------------------------


def softmax(job: Job) -> list[Statement]:
    """GC of softmax(f) ≤ GC/4, and GC of centred logits ≤ GC."""
    rows = []
    for kind in KINDS:
        there = subjects(job, kind)
        found = {
            of: [geometric_complexity(n, there.X.flatten(1), of=of, progress=False).value for n in there.perceptrons]
            for of in ("logits", "softmax", "centred")
        }
        assumed = f"ReLU perceptrons 64-32-32-10 {kind}"
        quarter = [g / 4 / s for g, s in zip(found["logits"], found["softmax"], strict=True)]
        centred = [g / s for g, s in zip(found["logits"], found["centred"], strict=True)]
        rows += [
            bound(f"(GC/4) / GC of softmax, {kind}", quarter, claim="GC(softmax) ≤ GC/4", assumptions=assumed),
            bound(f"GC / centred GC, {kind}", centred, claim="GC(centred) ≤ GC", assumptions=assumed),
        ]
    even = _linear([torch.tensor([[1.0, 2.0], [-1.0, -2.0]])])
    x = torch.tensor([[2.0, -1.0]])  # both outputs are zero, so both classes have probability ½
    logits, p = (geometric_complexity(even, x, of=of, progress=False).value for of in ("logits", "softmax"))
    claim = "equality for two opposite outputs at even odds"
    return [*rows, _equality("(GC/4) / GC of softmax, tight", logits / 4 / p, 1.0, claim=claim, assumptions=claim)]
