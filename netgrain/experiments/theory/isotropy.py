"""Where G has no structure and where it gets one: Theorems A.2 and A.3, and what the mean gradient does not tell.

Theorem A.2 at a fixed x. The head's weights are independent with mean zero, so gradients at different units or
positions are uncorrelated given the layers below. A unit with weights w and bias b of a symmetric law passes
E[1{wᵀh + b > 0} wwᵀ] = E[wwᵀ]/2, as (w, b) and (−w, −b) are equally likely and exactly one of them is on. So each layer
turns a diagonal second moment into a diagonal one, at every width and every x: a multiple of I in an MLP, the number of
paths from a pixel to the head in a convolutional network.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from netgrain.experiments.claims import verdict
from netgrain.experiments.theory import statements
from netgrain.experiments.theory.material import smooth
from netgrain.experiments.theory.pooled import cosine, maps
from netgrain.experiments.theory.statements import Job, Statement, compared, same
from netgrain.families.gradients import gradients
from netgrain.families.members import Family, member
from netgrain.geometry.average import average_geometry
from netgrain.geometry.correlation import Deletions, applied, distinct_pairs
from netgrain.geometry.estimate import Estimate, mean_of
from netgrain.models.lenet import LeNet
from netgrain.models.mlp import MLP

SIDE = 8
Padding = Literal["zeros", "circular"]


def fixed_point(job: Job, size: int = SIDE) -> Tensor:
    """One image that is neither small nor centred: where a claim about every x is looked at."""
    x = smooth(8, 1, size, job.generator("fixed point", size))[:1]
    return x + 0.5


def rows_at(make: Family, x: Tensor, members: int, seed: int) -> Tensor:
    """∇ₓf of members at one x, (members, d) float64."""
    return torch.cat([gradients(member(make, seed, i), x).flatten(1).double() for i in range(members)])


def batched(rows: Tensor, size: int) -> Tensor:
    """Means of ggᵀ over batches of members, flattened: (batches, d²)."""
    parts = rows.reshape(-1, size, rows.shape[1])
    return (parts.mT @ parts / size).flatten(1)


# --- Theorem A.2 ------------------------------------------------------------------------------------------------------


def plain_cnn(padding: Padding, *, pooled: bool = False) -> nn.Module:
    """Two convolutions and a linear layer, with an average pooling between them if wanted."""
    parts: list[nn.Module] = [
        nn.Conv2d(1, 16, 3, padding=1, padding_mode=padding, bias=False),
        nn.ReLU(),
        nn.Conv2d(16, 16, 3, padding=1, padding_mode=padding, bias=False),
        nn.ReLU(),
    ]
    if pooled:
        parts.append(nn.AvgPool2d(4))
    side = SIDE // 4 if pooled else SIDE
    return nn.Sequential(*parts, nn.Flatten(), nn.Linear(16 * side**2, 1, bias=False))


def paths(layers: int, side: int = SIDE) -> Tensor:
    """Paths from every pixel through zero-padded 3 × 3 convolutions, (side²,): the diagonal of G.

    >>> paths(2)[0].item(), paths(2).max().item()  # (2 + 3)² and 9²
    (25.0, 81.0)
    """
    found = torch.ones(1, 1, side, side, dtype=torch.float64)
    for _ in range(layers):
        found = F.conv2d(found, torch.ones(1, 1, 3, 3, dtype=torch.float64), padding=1)
    return found.flatten()


def corner_share() -> float:
    """Paths from a corner through two zero-padded 3 × 3 convolutions over those from the middle: ((2 + 3)/9)²."""
    return float(paths(2)[0] / paths(2).max())


def _corner(rows: Tensor) -> Estimate:
    """Mean diagonal entry on the corners over that in the middle, by batches of members."""
    image = rows.square().reshape(-1, 10, SIDE, SIDE).mean(1)
    corner, middle = image[:, ::7, ::7].mean((1, 2)), image[:, 2:6, 2:6].mean((1, 2))
    value = float(corner.mean() / middle.mean())
    spread = (corner / corner.mean() - middle / middle.mean()).std() / math.sqrt(len(image))
    return Estimate(value, value * float(spread), len(image))


CLAIM_A2 = "MLPs and CNNs with ReLU, without pooling or skips: G(x) = c·I"


def theorem_a2(job: Job) -> list[Statement]:
    """G at one fixed x, diagonal and off-diagonal entries, for networks with and without pooling."""
    members = job.pick(240, 4000)
    x = fixed_point(job)
    I = torch.eye(SIDE**2, dtype=torch.float64)
    rows = {
        "MLP": rows_at(partial(MLP, channels=1, image_size=SIDE, outputs=1), x, members, job.seed),
        "CNN with zero padding": rows_at(partial(plain_cnn, "zeros"), x, members, job.seed),
        "CNN with circular padding": rows_at(partial(plain_cnn, "circular"), x, members, job.seed),
    }
    counted = torch.diag(paths(2))
    expected = {"MLP": I, "CNN with zero padding": counted, "CNN with circular padding": I}
    row = partial(compared, claim=CLAIM_A2)
    found = []
    for name, g in rows.items():
        truth = cosine(expected[name], I)
        about = f"{name}, ReLU, torch default weights, one fixed x with a mean, {members} members, 8 × 8"
        with_I = statements.corrected(_batch_corr(g, I))
        found += [
            row(
                f"Corr(G(x), I) at one x, {name}",
                with_I,
                assumptions=about,
                predicted=truth,
                printed=1.0,
                tolerance=0.01,
                paper=same(with_I, 1.0, tolerance=0.01),
            ),
            row(
                f"share of ‖G(x)‖² off the diagonal, {name}",
                statements.corrected(_batch_off_diagonal(g)),
                assumptions=about,
                predicted=0.0,
                printed=0.0,
                tolerance=0.05,
                note="E[1{wᵀh + b > 0} wwᵀ] = E[wwᵀ]/2 for symmetric laws; weights of the head are independent",
            ),
            row(
                f"xᵀG(x)x over the mean of the diagonal, |x| = 1, {name}",
                _along(g, x),
                assumptions=about,
                predicted=float((x.flatten().double() / x.double().norm()).square() @ expected[name].diagonal())
                / float(expected[name].diagonal().mean()),
                printed=1.0,
                note="the direction along which one unit's slope and gate depend on each other",
            ),
        ]
    zeros = _corner(rows["CNN with zero padding"])
    return [
        *found,
        row(
            "corner over middle of the diagonal of G(x), CNN with zero padding",
            zeros,
            assumptions="two 3 × 3 convolutions with zero padding, ReLU, flatten, linear; 8 × 8",
            predicted=corner_share(),
            printed=1.0,
            paper=same(zeros, 1.0),
            note="pixels at the border are read by fewer filter positions: constant only away from it",
        ),
        *_with_pooling(job, x, members),
    ]


def _batch_corr(g: Tensor, target: Tensor) -> Deletions:
    flat = batched(g, len(g) // 40)
    return statements.cosine(flat @ flat.T, flat @ target.flatten(), float(target.square().sum()))


def _batch_off_diagonal(g: Tensor) -> Deletions:
    """Share of ‖E ggᵀ‖² off the diagonal, over 40 batches of members."""
    flat = batched(g, len(g) // 40)
    diagonal = flat[:, :: SIDE**2 + 1]
    n = torch.ones(len(flat), dtype=torch.float64)
    whole, own = (distinct_pairs(a @ a.T, n) for a in (flat, diagonal))
    return applied(lambda a, b: 1 - a / b, own, whole)


def _along(g: Tensor, x: Tensor) -> Estimate:
    unit = x.flatten().double() / x.double().norm()
    ratio = (g @ unit).square() / g.square().mean()
    # the mean of the diagonal varies with the same members: the error is that of the difference
    spread = (
        (g @ unit).square() / g.square().mean() - float(ratio.mean()) * g.square().mean(1) / g.square().mean()
    ).std()
    return Estimate(float(ratio.mean()), float(spread) / math.sqrt(len(g)), len(g))


def _with_pooling(job: Job, x: Tensor, members: int) -> list[Statement]:
    """The control: with a pooling layer, which the theorem leaves out, G(x) has a structure."""
    g = rows_at(partial(plain_cnn, "circular", pooled=True), x, members, job.seed)
    share = statements.corrected(_batch_off_diagonal(g))
    return [
        compared(
            "share of ‖G(x)‖² off the diagonal, the CNN with an average pooling",
            share,
            claim="(without pooling layers or skip-connections)",
            assumptions=f"as above, circular padding, 4 × 4 average pooling before the head, {members} members",
            corrected=verdict(share, 0.1, None),
            note="the control: the same measurement where the theorem says nothing",
        )
    ]


# --- Theorem A.3 ------------------------------------------------------------------------------------------------------


def theorem_a3(job: Job) -> list[Statement]:
    """G of one linear kernel with global average pooling is σ² M Mᵀ; how much of it is off the diagonal."""
    size = 6

    def make() -> nn.Module:
        conv = nn.Conv2d(1, 1, 3, bias=False)
        nn.init.normal_(conv.weight)
        return nn.Sequential(conv, nn.AdaptiveAvgPool2d(1), nn.Flatten())

    G = average_geometry(make, (1, size, size), method="closed-form", seed=job.seed).matrix()
    M = maps(1, size)
    gap = Estimate(float((G - M @ M.T).norm() / G.norm()))
    share = Estimate(1 - float(G.diagonal().square().sum() / G.square().sum()))
    given = f"one 3 × 3 linear kernel on {size} × {size}, global average pooling; closed form"
    row = partial(compared, assumptions=given, tolerance=1e-5, printed=0.0)
    return [
        row("‖G − σ²MMᵀ‖ / ‖G‖", gap, claim="G ∝ Σ_j1 Σ_j2 M_j1 M_j2ᵀ", predicted=0.0),
        row(
            "share of ‖G‖² off the diagonal",
            share,
            claim="G ∝ Σ_j1 Σ_j2 I_{j1,j2} with I_{j1,j2} = M_j1 M_j2ᵀ diagonal: G is diagonal",
            predicted=1 - float((M @ M.T).diagonal().square().sum() / (M @ M.T).square().sum()),
            note="M_j1 M_j2ᵀ takes pixel q of patch j2 to pixel q of patch j1: diagonal only for j1 = j2",
        ),
    ]


# --- the mean gradient ------------------------------------------------------------------------------------------------


def with_mean(make: Callable[[], nn.Module], shift: float) -> nn.Module:
    """A network whose last layer has weights with this mean, in standard deviations of theirs."""
    model = make()
    last = [m for m in model.modules() if isinstance(m, nn.Linear)][-1]
    with torch.no_grad():
        last.weight.add_(shift * last.weight.std())
    return model


def mean_gradient(job: Job) -> list[Statement]:
    """‖E∇f‖² over E‖∇f‖² at one x: none of it for a head with mean zero, some of it for a head with a mean."""
    size, members = 16, job.pick(120, 2000)
    x = fixed_point(job, size)
    options: dict[str, Any] = {"channels": 1, "image_size": size, "outputs": 1}
    row = partial(
        compared,
        claim="where ∇f has mean zero over θ, E∇f holds no information about local changes of f; E[∇f∇fᵀ] does",
        assumptions=f"one fixed x, {members} members, ReLU, torch default weights",
    )
    found = []
    for name, kind in (("MLP", MLP), ("LeNet", LeNet)):
        make: Family = partial(kind, **options)
        for shift in (0.0, 1.0):
            rows = rows_at(partial(with_mean, make, shift), x, members, job.seed)
            share = mean_share(rows)
            if shift == 0:
                quantity = f"‖E∇f‖² / E‖∇f‖², {name}"
                found.append(row(quantity, share, predicted=0.0, printed=0.0, tolerance=0.02))
            else:
                found.append(
                    row(
                        f"the same with a head of mean one standard deviation, {name}",
                        share,
                        corrected=verdict(share, 0.02, None),
                        note="the control: with a mean, E∇f is part of what G holds",
                    )
                )
    return found


def mean_share(rows: Tensor) -> Estimate:
    """‖E g‖²/E‖g‖² from products of different members (40 batches)."""
    parts = rows.reshape(40, -1, rows.shape[1]).mean(1)
    n = torch.ones(len(parts), dtype=torch.float64)
    total = mean_of(rows.square().sum(1)).value
    found = distinct_pairs(parts @ parts.T, n)
    return statements.divided(statements.corrected(found), total)
