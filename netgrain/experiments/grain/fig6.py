"""Figure 6: directions that carry much variance but little geometry can be taken out of images at a small loss.

Claim: with the leading eigenvectors of S v = λ (G + ε·tr(G)/D·I) v projected out of training and test images,
a network tests better than with random directions of the same share of the variance projected out. The last direction
is taken out in part, so that both remove exactly that share. The networks have no norms; G is that of the GELU family
at the origin (in closed form where there is one), the networks that are trained have ReLU. Gradients are clipped as in
the authors' code, without which a ViT diverges.
Cost: smoke seconds, laptop (2,000 images of CIFAR-2, 16 × 16) about 220 core-seconds at most, paper for a GPU.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from netgrain.experiments.claims import UNDECIDED, Claim, claim
from netgrain.experiments.grain.grains import (
    COLOURS,
    Grain,
    device_named,
    grains_of,
    images_found,
    make_of,
    model_config,
    pictures,
    until_decided,
)
from netgrain.experiments.grain.pruning import difference
from netgrain.geometry.covariance import data_covariance
from netgrain.geometry.estimate import Estimate, mean
from netgrain.geometry.scores import eliminate_variance, feature_basis, random_baseline
from netgrain.runtime.randomness import derived_seed
from netgrain.runtime.run_folder import Runner
from netgrain.runtime.units import Outcome
from netgrain.training.loop import accuracy
from netgrain.training.settings import Settings
from netgrain.training.trained_members import train_member

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COST = 208  # processor seconds at laptop scale
NETWORKS = ("LeNet", "ResNet18", "ViT")
METHODS = ("geometry", "random")
OTHER_EPSILON = 1e-4  # how much of the removed space depends on epsilon is told by comparison with this one


@dataclass(frozen=True)
class Config:
    networks: dict[str, dict[str, Any]]  # width, steps, shares of the variance that are taken out
    images: str
    size: int
    pool: int  # training images from which each seed draws; their S and G make the basis
    samples: int
    tests: int
    epsilon: float
    batch: int
    lr: float
    clip: float | None
    seeds: int  # to begin with
    most_seeds: int  # for networks whose claims are undecided
    whole_seeds: int  # seeds also trained with nothing taken out, for the figure
    device: str


PRESETS = {
    "smoke": Config(
        networks={"LeNet": {"width": 1.0, "steps": 20, "shares": [0.5, 0.9]}},
        images="digits", size=16, pool=400, samples=256, tests=100, epsilon=1e-6,
        batch=128, lr=0.1, clip=0.5, seeds=2, most_seeds=2, whole_seeds=1, device="cpu",
    ),
    "laptop": Config(
        networks={
            "LeNet": {"width": 1.0, "steps": 300, "shares": [0.5, 0.8, 0.9, 0.95]},
            "ResNet18": {"width": 1 / 8, "steps": 150, "shares": [0.8, 0.95]},
            "ViT": {"width": 1 / 4, "steps": 120, "shares": [0.8, 0.95]},
        },
        images="auto", size=16, pool=10_000, samples=2000, tests=5000, epsilon=1e-6,
        batch=128, lr=0.1, clip=0.5, seeds=3, most_seeds=5, whole_seeds=1, device="cpu",
    ),
    "paper": Config(
        networks={
            n: {"width": 1.0, "steps": 50 * 78, "shares": [0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99]} for n in NETWORKS
        },
        images="cifar10", size=32, pool=10_000, samples=10_000, tests=10_000, epsilon=1e-6,
        batch=128, lr=0.1, clip=0.5, seeds=5, most_seeds=5, whole_seeds=5, device="best",
    ),
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Result:
    config: Config
    images: str  # the set that was used
    accuracy: dict[str, dict[str, list[list[float]]]]  # network → method → per cent by seed and share
    whole: dict[str, list[float]]  # network → per cent with nothing taken out
    directions: dict[str, dict[str, list[list[int]]]]  # network → method → how many were taken out
    overlap: dict[str, list[float]]  # network → share of the removed space that another epsilon removes, too
    majority: float  # per cent of the test images in the larger class
    diverged: dict[str, int]  # network → seeds left out since a training of theirs diverged

    @property
    def networks(self) -> list[str]:
        return [n for n in NETWORKS if n in self.accuracy]

    def gains(self, network: str) -> list[list[float]]:
        """Geometry minus random in points, by seed and share."""
        by = self.accuracy[network]
        pairs = zip(by["geometry"], by["random"], strict=True)
        return [[g - r for g, r in zip(*pair, strict=True)] for pair in pairs]


def run(config: Config, runner: Runner) -> Result:
    name = images_found(runner, config.images)
    pool = {"name": name, "size": config.size, "samples": config.pool, "tests": config.tests, "two": True}
    networks = [n for n in NETWORKS if n in config.networks]
    grains = grains_of(runner, {n: _model(config, name, n, "gelu") for n in networks})
    units = [
        {
            "figure": 6,
            "part": "basis",
            "model": _model(config, name, n, "gelu"),
            "images": pool,
            "epsilons": [config.epsilon, OTHER_EPSILON],
            "shares": config.networks[n]["shares"],
        }
        for n in networks
    ]
    if not runner.has(units):
        pictures(**pool)  # read here, before processes are forked
    bases = dict(zip(networks, runner.map(partial(_basis, grains), units, "bases"), strict=True))
    return until_decided(
        runner,
        networks,
        seeds=config.seeds,
        most=config.most_seeds,
        units=partial(_units, config, pool),
        collect=partial(_collect, config, runner, pool, bases),
        undecided=lambda result: {c.subject for c in claims(result) if c.verdict == UNDECIDED},
        step=1,
    )


def _model(config: Config, images: str, network: str, activation: str) -> dict[str, Any]:
    shape = (1 if images == "digits" else 3, config.size, config.size)
    return model_config(network, shape, activation=activation, width=config.networks[network]["width"])


def _basis(grains: Mapping[str, Grain], unit: Mapping[str, Any]) -> Outcome:
    """The generalised eigenbasis, and how much of what it removes another epsilon removes as well."""
    G = grains[unit["model"]["network"]].geometry()
    S = data_covariance(pictures(**unit["images"]).train.X)
    basis, other = (feature_basis(G, S, epsilon=e) for e in unit["epsilons"])
    matrix = S.matrix()
    removed = [[b.flatten(1)[: needed(b, matrix, share)] for b in (basis, other)] for share in unit["shares"]]
    return Outcome({"overlap": [overlap(a, b) for a, b in removed]}, {"basis": basis})


def needed(basis: Tensor, S: Tensor, share: float) -> int:
    """How many directions of a basis it takes to explain a share of tr S.

    >>> needed(torch.eye(3), torch.diag(torch.tensor([5.0, 4.0, 1.0])), 0.8)
    2
    """
    rows = basis.flatten(1).to(S.dtype)
    explained = ((rows @ S) * rows).sum(1).cumsum(0) / S.trace()
    return int((explained < share * (1 - 1e-12)).sum()) + 1


def overlap(A: Tensor, B: Tensor) -> float:
    """Mean squared cosine between two subspaces with orthonormal rows: 1 for equal ones, 0 for orthogonal ones.

    >>> overlap(torch.eye(4)[:2], torch.eye(4)[1:3])
    0.5
    """
    return float((A @ B.T).square().sum()) / max(len(A), len(B))


def _cell(config: Config, network: str, seed: int) -> list[tuple[str, float]]:
    """What is trained for one network and seed: method and share, with nothing taken out for some seeds first."""
    whole = [("whole", 0.0)] if seed < config.whole_seeds else []
    return whole + [(m, share) for m in METHODS for share in config.networks[network]["shares"]]


def _units(config: Config, pool: Mapping[str, Any], seeds: Mapping[str, int]) -> list[dict[str, Any]]:
    return [
        {
            "figure": 6,
            "part": "training",
            "model": _model(config, pool["name"], network, "relu"),
            "geometry": "gelu",
            "images": dict(pool),
            "samples": config.samples,
            "epsilon": config.epsilon,
            "method": method,
            "share": share,
            "steps": config.networks[network]["steps"],
            "batch": config.batch,
            "lr": config.lr,
            "clip": config.clip,
            "device": config.device,
            "seed": seed,
        }
        for network in seeds
        for seed in range(seeds[network])
        for method, share in _cell(config, network, seed)
    ]


def _collect(
    config: Config, runner: Runner, pool: Mapping[str, Any], bases: Mapping[str, Outcome], seeds: Mapping[str, int]
) -> Result:
    units = _units(config, pool, seeds)
    if not runner.has(units):
        pictures(**pool)
    outcomes = runner.map(partial(_one, {n: o.arrays["basis"] for n, o in bases.items()}), units, "trainings")
    left = iter(outcomes)
    scores: dict[str, dict[str, list[list[float]]]] = {n: {m: [] for m in METHODS} for n in seeds}
    counts: dict[str, dict[str, list[list[int]]]] = {n: {m: [] for m in METHODS} for n in seeds}
    whole: dict[str, list[float]] = {n: [] for n in seeds}
    diverged = dict.fromkeys(seeds, 0)
    for network, count in seeds.items():
        for seed in range(count):
            cell = [(m, next(left).numbers) for m, _ in _cell(config, network, seed)]
            if any(one["diverged"] for _, one in cell):
                diverged[network] += 1  # methods are compared seed by seed, so a seed leaves as a whole
                continue
            whole[network] += [100 * one["test"] for m, one in cell if m == "whole"]
            for method in METHODS:
                scores[network][method].append([100 * one["test"] for m, one in cell if m == method])
                counts[network][method].append([one["directions"] for m, one in cell if m == method])
    overlaps = {n: bases[n].numbers["overlap"] for n in seeds}
    majority = 100 * outcomes[0].numbers["majority"]
    return Result(config, pool["name"], scores, whole, counts, overlaps, majority, diverged)


def _one(bases: Mapping[str, Tensor], unit: Mapping[str, Any]) -> Outcome:
    """Take directions out of training and test images, train, test."""
    seed, share = unit["seed"], unit["share"]
    images = pictures(**unit["images"])
    mine = torch.Generator().manual_seed(derived_seed(seed, "training images"))
    drawn = torch.randperm(len(images.train.y), generator=mine)[: unit["samples"]]
    X, y, test = images.train.X[drawn], images.train.y[drawn], images.test.X
    directions = 0
    if unit["method"] != "whole":
        S = data_covariance(X)
        basis = bases[unit["model"]["network"]]
        if unit["method"] == "random":
            basis, _ = random_baseline(S, share, seed=derived_seed(seed, "fig6"))
        directions = needed(basis, S.matrix(), share)
        X, test = (eliminate_variance(part, basis, S, share) for part in (X, test))
    make = make_of(unit["model"])
    settings = Settings(
        lr=unit["lr"], steps=unit["steps"], batch=unit["batch"], clip=unit["clip"], decay="linear"
    )  # momentum 0.9, no weight decay
    trained = train_member(make, X, y, settings, seed=seed, i=0, device=device_named(unit["device"]))
    ones = float((images.test.y == 1).double().mean())
    known = {"directions": directions, "majority": max(ones, 1 - ones)}
    if trained.diverged:
        return Outcome({"diverged": True, "test": None, "train": None, **known})
    right = accuracy(trained.model(make), test, images.test.y)
    return Outcome({"diverged": False, "test": right, "train": trained.train_accuracy, **known})


# --- claims and drawing -------------------------------------------------------------------------------------------


def claims(result: Result) -> list[Claim]:
    out = []
    for network in result.networks:
        shares, gains = result.config.networks[network]["shares"], result.gains(network)
        averaged = difference([sum(row) / len(row) for row in gains])
        told = ", ".join(f"{100 * s:g} %" for s in shares)
        out.append(_claim(result, network, "geometry loses less", f"averaged over {told} removed", averaged, None))
        if network == "LeNet":
            for i, share in enumerate(shares):
                kind, where = f"geometry loses less at {100 * share:g} %", f"with {100 * share:g} % removed"
                out.append(_claim(result, network, kind, where, difference([row[i] for row in gains]), i))
    return out


def _claim(result: Result, network: str, kind: str, where: str, value: Estimate, share: int | None) -> Claim:
    by, gone = result.accuracy[network], result.diverged[network]
    notes = []
    if by["random"]:
        rows = {m: [row if share is None else [row[share]] for row in by[m]] for m in METHODS}
        told = [f"{m} {mean([sum(r) / len(r) for r in rows[m]]).value:.1f} %" for m in METHODS]
        notes.append(f"{', '.join(told)} (larger class {result.majority:.0f} %) on {result.images}")
    same = result.overlap[network] if share is None else [result.overlap[network][share]]
    notes.append(
        f"ε {result.config.epsilon:g} and {OTHER_EPSILON:g} remove spaces that overlap by "
        + ", ".join(f"{s:.2f}" for s in same)
    )
    if gone:
        notes.append(f"{gone} diverged seeds left out")
    return claim(
        kind,
        f"test accuracy after geometry-based minus after random elimination of equal variance, {where}, is positive",
        value,
        low=0,
        paper="geometry-based elimination causes the smaller drop",
        note="; ".join(notes),
        subject=network,
    )


def figure(result: Result) -> Figure:
    from matplotlib.figure import Figure

    networks = result.networks
    figure = Figure(figsize=(1.0 + 3.6 * len(networks), 4.0), layout="constrained")
    grid: Sequence[Axes] = figure.subplots(1, len(networks), sharey=True, squeeze=False)[0]
    for ax, network in zip(grid, networks, strict=True):
        _panel(ax, result, network)
    grid[0].set_ylabel("test accuracy (%)")
    grid[0].legend(fontsize=8, loc="lower left")
    figure.suptitle("Variance taken out of the images, with the number of directions that it takes", fontsize=12)
    return figure


def _panel(ax: Axes, result: Result, network: str) -> None:
    shares = [100 * s for s in result.config.networks[network]["shares"]]
    looks: dict[str, dict[str, Any]] = {
        "geometry": {"color": COLOURS[network], "marker": "o", "label": "generalised eigenvectors"},
        "random": {"color": "#999999", "marker": "s", "ls": "--", "label": "random directions"},
    }
    curves = {m: [mean(list(c)) for c in zip(*result.accuracy[network][m], strict=True)] for m in METHODS}
    for method, look in looks.items():
        points, others = curves[method], curves["random" if method == "geometry" else "geometry"]
        if not points:
            continue
        errors = [0.0 if math.isnan(p.stderr) else p.stderr for p in points]
        ax.errorbar(shares, [p.value for p in points], yerr=errors, ms=5, capsize=3, lw=1.5, **look)
        counts = [mean(list(column)).value for column in zip(*result.directions[network][method], strict=True)]
        for x, point, other, count in zip(shares, points, others, counts, strict=True):
            place = (0, 8 if point > other or (point == other and method == "geometry") else -14)
            style = {"textcoords": "offset points", "fontsize": 7, "ha": "center", "color": look["color"]}
            ax.annotate(f"{count:.0f}", (x, point.value), place, **style)
    if result.whole[network]:
        ax.axhline(mean(result.whole[network]).value, color="#000000", lw=0.8, label="nothing taken out")
    ax.axhline(result.majority, color="#999999", lw=0.8, ls=":", label="larger class")
    ax.set_xticks(shares, [f"{s:g}" for s in shares])
    ax.set_xlabel("variance taken out (%)")
    ax.set_title(f"{network}, {len(result.accuracy[network]['random'])} seeds", fontsize=11)
    ax.margins(x=0.12, y=0.12)
