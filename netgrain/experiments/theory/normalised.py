"""Corollary A.4 on networks: one linear kernel, a batch norm with the statistics of data, the mean over positions.

With a norm for every position j (the corollary's), f = Σ_j θᵀM_jᵀx/σ_j(θ), σ_j the standard deviation of θᵀM_jᵀx over
the data, and G = Σ_j1 Σ_j2 M_j1 E[θθᵀ/(σ_j1 σ_j2)] M_j2ᵀ. So a pixel counts about as 1/variance of the patches around
it. The norm that people use, nn.BatchNorm2d, pools all positions into one σ, and there is no such re-weighting.
"""

from __future__ import annotations

import math
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from netgrain.experiments.claims import verdict
from netgrain.experiments.theory.material import Images, images
from netgrain.experiments.theory.statements import Job, Statement, compared, same
from netgrain.families.batch_statistics import data_statistics
from netgrain.families.gradients import gradients
from netgrain.families.members import Family, member
from netgrain.geometry.correlation import distinct_pairs
from netgrain.geometry.estimate import Estimate

KERNEL = 3
SIDE = 10
NORMS = {"a norm for every position": "position", "nn.BatchNorm2d": "channel", "no norm": None}
CLAIM = "normalisation re-weights the input elements by the variance of their patches"


def network(norm: str | None, side: int = SIDE) -> nn.Module:
    """One kernel, a norm of its answers by position or by channel, and their mean."""
    positions = (side - KERNEL + 1) ** 2
    conv = nn.Conv2d(1, 1, KERNEL, bias=False)
    nn.init.normal_(conv.weight)
    if norm == "position":
        between: list[nn.Module] = [nn.Flatten(), nn.BatchNorm1d(positions, eps=1e-8, affine=False)]
        return nn.Sequential(conv, *between, nn.Unflatten(1, (1, positions)), nn.AdaptiveAvgPool1d(1), nn.Flatten())
    between = [] if norm is None else [nn.BatchNorm2d(1, eps=1e-8, affine=False)]
    return nn.Sequential(conv, *between, nn.AdaptiveAvgPool2d(1), nn.Flatten())


def uneven(job: Job, side: int = SIDE) -> Images:
    """Images, each pixel with mean zero, whose columns get louder from left to right, one to three times."""
    data = images(job, job.pick(200, 1000), channels=1, size=job.pick(side, 16))
    X = data.X[:, :, :side, :side]
    X = X - X.mean(0)
    return Images(X * torch.linspace(1, 3, side), data.y, data.name + ", columns scaled by 1 to 3", data.real)


def rows_of(norm: str | None, data: Images, members: int, seed: int) -> Tensor:
    """∇ₓf of members with the statistics of these data, (members, d) float64; f is linear, so every x will do."""
    side = data.X.shape[-1]
    make: Family = partial(network, norm, side)
    if norm is not None:
        make = data_statistics(make, data.X)
    origin = torch.zeros(1, 1, side, side)
    return torch.cat([gradients(member(make, seed, i), origin).flatten(1).double() for i in range(members)])


def by_formula(data: Images, theta: Tensor, power: float) -> Tensor:
    """Σ_j M_jθ/σ_j^power for every kernel of theta (draws, p): the gradients of the corollary, (draws, d)."""
    X, side = data.X.double(), data.X.shape[-1]
    patches = F.unfold(X, KERNEL)  # (samples, p, positions)
    answers = torch.einsum("bp,spj->bsj", theta, patches)
    sigma = answers.var(1).sqrt()
    columns = theta[:, :, None] / sigma.pow(power)[:, None]
    return F.fold(columns, (side, side), KERNEL).flatten(1) / patches.shape[2]


def normalised_networks(job: Job) -> list[Statement]:
    """G of the three networks: against the corollary's formula, and how a pixel's weight depends on its variance."""
    data, members = uneven(job), job.pick(200, 4000)
    theta = job.normal((job.pick(400, 4000), KERNEL**2), "corollary-a4 network")
    about = f"{data.name}, {data.X.shape[-1]} × {data.X.shape[-1]}, one 3 × 3 kernel, {members} members"
    rows = {name: rows_of(norm, data, members, job.seed) for name, norm in NORMS.items()}
    per_position = rows["a norm for every position"]
    found = []
    for power, which in ((1.0, "the standard deviation"), (2.0, "the variance, as printed")):
        measured = _corr(per_position, by_formula(data, theta, power))
        printed = power == 2.0
        found.append(
            compared(
                f"Corr(G of the network, the formula with σ {which})",
                measured,
                claim="G ∝ Σ_j1 Σ_j2 M_j1 E[θθᵀ/(σ_j1 σ_j2)] M_j2ᵀ",
                assumptions=about + "; other draws of θ in the formula",
                predicted=None if printed else 1.0,
                printed=1.0 if printed else "",
                tolerance=0.01,
                paper=same(measured, 1.0, tolerance=0.01) if printed else "",
            )
        )
    return found + [
        _reweighting(name, g, rows["no norm"], data, about) for name, g in rows.items() if name != "no norm"
    ]


def _corr(rows: Tensor, others: Tensor) -> Estimate:
    """Corr(E ggᵀ, E hhᵀ) of independent draws, debiased, by batches."""
    pieces = [_batches(g) for g in (rows, others)]
    n = torch.ones(len(pieces[0]), dtype=torch.float64)
    own = [distinct_pairs(a @ a.T, n) for a in pieces]
    across = pieces[0] @ pieces[1].T
    value = float(across.mean()) / math.sqrt(float(own[0].whole * own[1].whole))
    left = torch.stack(
        [
            (across.sum(1).sum() - across.sum(1)) / (len(n) - 1) / len(n) / (own[0].one * own[1].whole).sqrt(),
            (across.sum(0).sum() - across.sum(0)) / (len(n) - 1) / len(n) / (own[0].whole * own[1].one).sqrt(),
        ]
    )
    spread = (len(n) - 1) / len(n) * (left - left.mean(1, keepdim=True)).square().sum()
    return Estimate(value, math.sqrt(float(spread)), len(n))


def _batches(rows: Tensor, parts: int = 40) -> Tensor:
    split = rows.reshape(parts, -1, rows.shape[1])
    return (split.mT @ split / split.shape[1]).flatten(1)


def _reweighting(name: str, rows: Tensor, plain: Tensor, data: Images, about: str) -> Statement:
    """Slope of log G_pp, over that without a norm, against the log of the variance around the pixel."""
    side = data.X.shape[-1]
    variance = F.avg_pool2d(data.X.double().var(0)[None], KERNEL, stride=1, padding=1, count_include_pad=False)
    at = variance[0, 0, 2:-2, 2:-2].flatten().log()
    at = at - at.mean()
    slopes = []
    for g, h in zip(rows.reshape(20, -1, side, side), plain.reshape(20, -1, side, side), strict=True):
        ratio = (g.square().mean(0) / h.square().mean(0))[2:-2, 2:-2].flatten().log()
        slopes.append(float((at * ratio).sum() / at.square().sum()))
    values = torch.tensor(slopes, dtype=torch.float64)
    slope = Estimate(float(values.mean()), float(values.std()) / math.sqrt(len(values)), len(values))
    position = name != "nn.BatchNorm2d"
    return compared(
        f"slope of log G_pp against log variance around the pixel, {name}",
        slope,
        claim=CLAIM,
        assumptions=about + "; relative to the network without a norm, pixels at least two from the border",
        predicted=None if position else 0.0,
        printed="negative" if position else "",
        paper=verdict(slope, None, 0.0) if position else "",
        tolerance=0.05,
        note="a pixel counts as 1/variance of the patches that read it: about −1"
        if position
        else "the control and the usual norm: one σ per channel scales all pixels alike",
    )
