"""What the experiment on probes is asked with, what it finds, and the claims that follow."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from netgrain.experiments.claims import Claim, claim
from netgrain.experiments.grain.trials import MORE
from netgrain.experiments.theory.networks import symmetrised
from netgrain.geometry.estimate import Estimate, mean
from netgrain.geometry.value import Geometry

SMALL = (1e-5, 1e-3)  # the paper's best range of σ
GOOD = 0.9  # "a relatively good approximation", chosen before any number was known
ACTIVATIONS = ("gelu", "relu")


@dataclass(frozen=True, kw_only=True)
class Config:
    network: str  # whose G is taken and which is trained
    size: int
    sigmas: Sequence[float]  # 0 is the origin
    points: int  # behind a closed form away from the origin
    members: int  # behind each sampled G
    seeds: int
    frequencies: Sequence[int]  # of the cosines along which LeNet is trained
    samples: int
    tests: int
    training: Mapping[str, Any]
    vit_width: float
    vit_members: int
    device: str = "cpu"


@dataclass(frozen=True, eq=False)
class Result:
    config: Config
    agreement: dict[str, list[list[float]]]  # activation → σ → seed: plug-in Corr(closed form, members)
    repeats: dict[str, list[list[float]]]  # the same of one half of the members with the other
    order: dict[str, list[list[float]]]  # rank correlation of uᵀGu of these members with accuracies of the same seed
    shuffled: list[float]  # that of GELU at the smallest σ with accuracies in another order
    at_origin: dict[str, list[float]]  # activation → σ: Corr(G(0), G_σ) of closed forms
    identity: dict[str, float]  # activation: Corr(I, G_σ) at the largest σ
    accuracy: list[list[float]]  # seed → direction, per cent
    train: list[list[float]]
    vit: dict[str, list[Tensor]]  # option → G of each seed


def cosine(A: Tensor, B: Tensor) -> float:
    """Corr as the paper takes it, from the matrices as they are."""
    return float((A * B).sum() / A.norm() / B.norm())


def two_blocks(found: Sequence[Tensor], size: int) -> Estimate:
    """Share of ‖G‖² in the form (aI + b·11ᵀ) ⊗ I of exchangeable patches, from products of different seeds.

    The error is over seeds, each left out in turn.
    """
    forms = [symmetrised(Geometry.from_matrix(G, (1, size, size)), (1, size, size)).matrix() for G in found]

    def share(kept: Sequence[int]) -> float:
        pairs = [(i, j) for i in kept for j in kept if i != j]
        above = sum(float((forms[i] * found[j]).sum()) for i, j in pairs)
        return above / sum(float((found[i] * found[j]).sum()) for i, j in pairs)

    n = len(found)
    everything = share(range(n))
    if n < 3:
        return Estimate(everything, math.nan, n)
    left = torch.tensor([share([k for k in range(n) if k != i]) for i in range(n)], dtype=torch.float64)
    return Estimate(everything, math.sqrt((n - 1) / n * float((left - left.mean()).square().sum())), n)


def block_ratio(G: Tensor, size: int) -> float:
    """Mean eigenvalue in the space of equal patches over that in its complement."""
    tokens, inside = (size // 8) ** 2, 64
    order = torch.arange(size**2).reshape(size // 8, 8, size // 8, 8).permute(0, 2, 1, 3).flatten()
    H = G[order][:, order].reshape(tokens, inside, tokens, inside)
    first = float(H.sum((0, 2)).diagonal().sum()) / tokens
    rest = float(G.trace()) - first
    return (first / inside) / (rest / (inside * (tokens - 1)))


def probe_claims(result: Result) -> list[Claim]:
    """Every remark, judged."""
    return [*_about_members(result), *_about_order(result), *_about_origin(result), *_about_vit(result)]


def _small(result: Result) -> list[int]:
    return [i for i, s in enumerate(result.config.sigmas) if SMALL[0] <= s <= SMALL[1]]


def _minus(a: Sequence[float], b: Sequence[float]) -> Estimate:
    return mean([x - y for x, y in zip(a, b, strict=True)])


def _over(rows: Sequence[Sequence[float]], chosen: Sequence[int]) -> list[float]:
    """Mean over some σ, by seed."""
    return [sum(rows[i][k] for i in chosen) / len(chosen) for k in range(len(rows[0]))]


def _about_members(result: Result) -> list[Claim]:
    chosen, one = _small(result), result.config.sigmas.index(max(result.config.sigmas))
    gelu, relu = (result.agreement[a] for a in ("gelu", "relu"))
    better, lower = "much better and accurate value when using GELU", "lower variance with a smaller standard deviation"
    name = result.config.network
    members = f"{result.config.members} members; plug-in, as the paper computes it"
    return [
        claim(
            "GELU at small σ against ReLU at σ = 1",
            "Corr of members with the closed form is higher for GELU with small σ than for ReLU with N(0, I)",
            _minus(_over(gelu, chosen), relu[one]), low=MORE, paper=better, subject=name, note=members,
        ),
        claim(
            "GELU against ReLU at the same small σ",
            "Corr of members with the closed form is higher for GELU",
            _minus(_over(gelu, chosen), _over(relu, chosen)), low=MORE, paper=better, subject=name, note=members,
        ),
        claim(
            "GELU against ReLU at σ = 1",
            "Corr of members with the closed form is higher for GELU",
            _minus(gelu[one], relu[one]), low=MORE, paper=better, subject=name, note=members,
        ),
        claim(
            "variance",
            "with GELU two halves of the members agree better for small σ than for σ = 1",
            _minus(_over(result.repeats["gelu"], chosen), result.repeats["gelu"][one]),
            low=MORE, paper=lower, subject=name, note=members,
        ),
    ]  # fmt: skip


def _about_order(result: Result) -> list[Claim]:
    chosen, one = _small(result), result.config.sigmas.index(max(result.config.sigmas))
    gelu, relu = (result.order[a] for a in ("gelu", "relu"))
    paper = "σ between 10⁻⁵ and 10⁻³ works best in terms of correlation with generalisation"
    fitted = mean([min(row) for row in result.train])
    note = f"{len(result.config.frequencies)} cosines; train accuracy at least {fitted.value:.0f} % on average"
    small, name = _over(gelu, chosen), result.config.network
    return [
        claim(
            "order at small σ", "uᵀGu orders the directions as their accuracies do: rank correlation at least 0.8",
            mean(small), low=0.8, paper="large eigenvalues generalise (figure 10)", subject=name, note=note,
        ),
        claim(
            "small σ against σ = 1", "the rank correlation with accuracies is higher for small σ than for σ = 1",
            _minus(small, gelu[one]), low=MORE, paper=paper, subject=name, note=note,
        ),
        claim(
            "GELU against ReLU, order", "the rank correlation is higher for G of GELU than of ReLU at small σ",
            _minus(small, _over(relu, chosen)), low=MORE, paper="GELU gives a better G", subject=name,
            note=note + "; the trained networks have GELU",
        ),
        claim(
            "control: other accuracies", "the rank correlation is higher than with accuracies in another order",
            _minus(small, result.shuffled), low=MORE, subject=name, note="a control",
        ),
    ]  # fmt: skip


def _about_origin(result: Result) -> list[Claim]:
    found = []
    sigmas, paper = result.config.sigmas, "G(0) is also a relatively good approximation"
    largest, name = sigmas.index(max(sigmas)), result.config.network
    for a in ACTIVATIONS:
        values = result.at_origin[a]
        smallest = min(values[i] for i in _small(result))
        found += [
            claim(
                "G(0) for small σ", f"Corr(G(0), G_σ) of closed forms is at least {GOOD}", Estimate(smallest),
                low=GOOD, paper=paper, subject=f"{name}, {a}", note="the smallest over the paper's range of σ",
            ),
            claim(
                "G(0) for σ = 1", f"Corr(G(0), G_σ) of closed forms is at least {GOOD}", Estimate(values[largest]),
                low=GOOD, paper=paper, subject=f"{name}, {a}", note=f"Corr(I, G_σ) is {result.identity[a]:.3f}",
            ),
            claim(
                "control: the identity", "G(0) is nearer to G_σ at σ = 1 than a multiple of the identity is",
                Estimate(values[largest] - result.identity[a]), low=MORE, subject=f"{name}, {a}", note="a control",
            ),
        ]  # fmt: skip
    return found


def _about_vit(result: Result) -> list[Claim]:
    size, found = result.config.size, []
    plain = [block_ratio(G, size) for G in result.vit["plain"]]
    paper = "the settings of Lee et al. for small-scale data"
    for name, matrices in result.vit.items():
        share = two_blocks(matrices, size)
        if name == "plain":
            statement = "the two blocks of exchangeable patches hold all of ‖G‖²"
            found.append(claim("two blocks", statement, share, low=0.99, subject=f"ViT, {name}", basis="identity"))
            continue
        ratios = [block_ratio(G, size) for G in matrices]
        note = f"first over second eigenvalue {mean(ratios).value:.2f}, plain {mean(plain).value:.2f}"
        found += [
            claim(
                "two blocks", f"the two blocks of the plain ViT hold at least {GOOD} of ‖G‖²", share, low=GOOD,
                paper=paper, subject=f"ViT, {name}", note=note, basis="derived",
            ),
            claim(
                "first block", "patterns that repeat in every patch are favoured: the log of the ratio is positive",
                mean([math.log(r) for r in ratios]), low=MORE, paper=paper, subject=f"ViT, {name}", note=note,
                basis="derived",
            ),
        ]  # fmt: skip
    return found
