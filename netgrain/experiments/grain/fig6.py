"""Figure 6: directions that carry much variance but little geometry can be taken out of images at a small loss.

Claim: with the leading eigenvectors of S v = λ (G + ε·tr(G)/D·I) v projected out of training and test images,
a network tests better than with random directions of the same share of the variance projected out. The last direction
is taken out in part, so that both remove exactly that share. The networks have no norms; G is that of the GELU family
at the origin (in closed form where there is one), the networks that are trained have ReLU. Gradients are clipped as in
the authors' code, without which a ViT diverges.
Cost: smoke seconds, laptop (2,000 images of CIFAR-2, 16 × 16) about 220 core-seconds at most, paper for a GPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from torch import Tensor

from netgrain.experiments.claims import Claim, claim
from netgrain.experiments.grain.drawing import GREY, dotted, error_bars, panels
from netgrain.experiments.grain.grains import COLOURS, Grain, grains_of, in_order, pictures
from netgrain.experiments.grain.trials import (
    ImagesConfig,
    Trials,
    curve_of,
    difference,
    images_of,
    joined,
    left_out,
    open_subjects,
    settings_of,
    trained_accuracy,
    until_decided,
)
from netgrain.geometry.covariance import data_covariance
from netgrain.geometry.estimate import Estimate, mean
from netgrain.geometry.scores import eliminate_variance, feature_basis, random_baseline
from netgrain.runtime.randomness import derived_seed
from netgrain.runtime.run_folder import Runner
from netgrain.runtime.units import Outcome

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COST = 208  # processor seconds at laptop scale
NETWORKS = ("LeNet", "ResNet18", "ViT")
METHODS = ("geometry", "random")
OTHER_EPSILON = 1e-4  # how much of the removed space depends on epsilon is told by comparison with this one


@dataclass(frozen=True, kw_only=True)
class Config(ImagesConfig):
    # networks: width, steps, and the shares of the variance that are taken out; S and G of the pool make the basis
    epsilon: float = 1e-6
    whole_seeds: int = 1  # seeds also trained with nothing taken out, for the figure


PRESETS = {
    "smoke": Config(
        networks={"LeNet": {"width": 1.0, "steps": 20, "shares": [0.5, 0.9]}},
        images="digits", size=16, pool=400, samples=256, tests=100, seeds=2, most_seeds=2,
    ),
    "laptop": Config(
        networks={
            "LeNet": {"width": 1.0, "steps": 300, "shares": [0.5, 0.8, 0.9, 0.95]},
            "ResNet18": {"width": 1 / 8, "steps": 150, "shares": [0.8, 0.95]},
            "ViT": {"width": 1 / 4, "steps": 120, "shares": [0.8, 0.95]},
        },
        images="auto", size=16, pool=10_000, samples=2000, tests=5000, seeds=3, most_seeds=5,
    ),
    "paper": Config(
        networks={
            n: {"width": 1.0, "steps": 50 * 78, "shares": [0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99]} for n in NETWORKS
        },
        images="cifar10", size=32, pool=10_000, samples=10_000, tests=10_000,
        seeds=5, most_seeds=5, whole_seeds=5, device="best",
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

    def gains(self, network: str) -> list[list[float]]:
        """Geometry minus random in points, by seed and share."""
        by = self.accuracy[network]
        pairs = zip(by["geometry"], by["random"], strict=True)
        return [[g - r for g, r in zip(*pair, strict=True)] for pair in pairs]


def run(config: Config, runner: Runner) -> Result:
    pool = {**config.pool_of(runner), "two": True}
    models = {n: config.model(pool, n, "gelu") for n in in_order(config.networks)}
    grains = grains_of(runner, models)
    shared = {"figure": 6, "part": "basis", "images": pool, "epsilons": [config.epsilon, OTHER_EPSILON]}
    units = [{**shared, "model": model, "shares": config.networks[n]["shares"]} for n, model in models.items()]
    if not runner.has(units):
        pictures(**pool)  # read here, before processes are forked
    bases = dict(zip(models, runner.map(partial(_basis, grains), units, "bases"), strict=True))
    return until_decided(
        runner,
        partial(_one, {n: o.arrays["basis"] for n, o in bases.items()}),
        partial(_units, config, pool),
        config.seeds_of(models),
        result=partial(result_of, config, pool["name"], {n: o.numbers["overlap"] for n, o in bases.items()}),
        undecided=lambda result: open_subjects(claims(result)),
        images=pool,
    )


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

    >>> import torch
    >>> needed(torch.eye(3), torch.diag(torch.tensor([5.0, 4.0, 1.0])), 0.8)
    2
    """
    rows = basis.flatten(1).to(S.dtype)
    explained = ((rows @ S) * rows).sum(1).cumsum(0) / S.trace()
    return int((explained < share * (1 - 1e-12)).sum()) + 1


def overlap(A: Tensor, B: Tensor) -> float:
    """Mean squared cosine between two subspaces with orthonormal rows: 1 for equal ones, 0 for orthogonal ones.

    >>> import torch
    >>> overlap(torch.eye(4)[:2], torch.eye(4)[1:3])
    0.5
    """
    return float((A @ B.T).square().sum()) / max(len(A), len(B))


def _units(config: Config, pool: Mapping[str, Any], network: str, seed: int) -> list[dict[str, Any]]:
    """One training for each method and share, before them one with nothing taken out for some seeds."""
    settings = config.networks[network]
    shared = {"figure": 6, "part": "training", "epsilon": config.epsilon, "steps": settings["steps"]}
    shared |= config.unit(pool, network, seed)
    whole = [("whole", 0.0)] if seed < config.whole_seeds else []
    cell = whole + [(m, share) for m in METHODS for share in settings["shares"]]
    return [{**shared, "method": method, "share": share} for method, share in cell]


def result_of(config: Config, images: str, overlap: dict[str, list[float]], trials: Mapping[str, Trials]) -> Result:
    scores, counts, whole = {}, {}, {}
    for network, t in trials.items():
        n = len(config.networks[network]["shares"])
        parts = {"geometry": slice(-2 * n, -n), "random": slice(-n, None)}
        tests, rows = t.per_cent("test").values(), t.kept.values()
        scores[network] = {m: [row[part] for row in tests] for m, part in parts.items()}
        counts[network] = {
            m: [[o.numbers["directions"] for o in row[part]] for row in rows] for m, part in parts.items()
        }
        whole[network] = [test for row in tests for test in row[: -2 * n]]
    some = next(iter(trials.values())).rows[0][0]
    gone = {n: t.left_out for n, t in trials.items()}
    return Result(config, images, scores, whole, counts, overlap, 100 * some.numbers["majority"], gone)


def _one(bases: Mapping[str, Tensor], unit: Mapping[str, Any]) -> Outcome:
    """Take directions out of training and test images, train, test."""
    seed, share = unit["seed"], unit["share"]
    X, y, test, y_test = images_of(unit)
    directions = 0
    if unit["method"] != "whole":
        S = data_covariance(X)
        basis = bases[unit["model"]["network"]]
        if unit["method"] == "random":
            basis, _ = random_baseline(S, share, seed=derived_seed(seed, "fig6"))
        directions = needed(basis, S.matrix(), share)
        X, test = (eliminate_variance(part, basis, S, share) for part in (X, test))
    ones = float((y_test == 1).double().mean())
    known = {"directions": directions, "majority": max(ones, 1 - ones)}
    settings = settings_of(unit, steps=unit["steps"])
    return Outcome({**trained_accuracy(unit, X, y, settings, {"test": (test, y_test)}), **known})


# --- claims and drawing -------------------------------------------------------------------------------------------


def claims(result: Result) -> list[Claim]:
    out = []
    for network in in_order(result.accuracy):
        shares, gains = result.config.networks[network]["shares"], result.gains(network)
        averaged = difference([mean(row) for row in gains])
        told = ", ".join(f"{100 * s:g} %" for s in shares)
        out.append(_claim(result, network, "geometry loses less", f"averaged over {told} removed", averaged, None))
        if network == "LeNet":
            for i, share in enumerate(shares):
                kind, where = f"geometry loses less at {100 * share:g} %", f"with {100 * share:g} % removed"
                out.append(_claim(result, network, kind, where, difference([row[i] for row in gains]), i))
    return out


def _claim(result: Result, network: str, kind: str, where: str, value: Estimate, share: int | None) -> Claim:
    by, those = result.accuracy[network], slice(None) if share is None else slice(share, share + 1)
    scores = ""
    if by["random"]:
        told = [f"{m} {mean([mean(row[those]) for row in by[m]]).value:.1f} %" for m in METHODS]
        scores = f"{', '.join(told)} (larger class {result.majority:.0f} %) on {result.images}"
    same = ", ".join(f"{s:.2f}" for s in result.overlap[network][those])
    overlap = f"ε {result.config.epsilon:g} and {OTHER_EPSILON:g} remove spaces that overlap by {same}"
    return claim(
        kind,
        f"test accuracy after geometry-based minus after random elimination of equal variance, {where}, is positive",
        value,
        low=0,
        paper="geometry-based elimination causes the smaller drop",
        note=joined(scores, overlap, left_out(result.diverged[network])),
        subject=network,
    )


def figure(result: Result) -> Figure:
    title = "Variance taken out of the images, with the number of directions that it takes"
    columns = len(result.accuracy)
    figure, axes = panels(title, (1.0 + 3.6 * columns, 4.0), rows=1, columns=columns, sharey=True)
    for ax, network in zip(axes, in_order(result.accuracy), strict=True):
        _panel(ax, result, network)
    axes[0].set_ylabel("test accuracy (%)")
    axes[0].legend(fontsize=8, loc="lower left")
    return figure


def _panel(ax: Axes, result: Result, network: str) -> None:
    shares = [100 * s for s in result.config.networks[network]["shares"]]
    looks: dict[str, dict[str, Any]] = {
        "geometry": {"color": COLOURS[network], "marker": "o", "label": "generalised eigenvectors"},
        "random": {"color": GREY, "marker": "s", "ls": "--", "label": "random directions"},
    }
    curves = {m: curve_of(result.accuracy[network][m]) for m in METHODS}
    for method, look in looks.items():
        points, others = curves[method], curves["random" if method == "geometry" else "geometry"]
        if not points:
            continue
        error_bars(ax, shares, points, ms=5, capsize=3, lw=1.5, **look)
        counts = curve_of(result.directions[network][method])
        for x, point, other, count in zip(shares, points, others, counts, strict=True):
            place = (0, 8 if point > other or (point == other and method == "geometry") else -14)
            style = {"textcoords": "offset points", "fontsize": 7, "ha": "center", "color": look["color"]}
            ax.annotate(f"{count.value:.0f}", (x, point.value), place, **style)
    if result.whole[network]:
        ax.axhline(mean(result.whole[network]).value, color="#000000", lw=0.8, label="nothing taken out")
    dotted(ax, result.majority, label="larger class")
    ax.set_xticks(shares, [f"{s:g}" for s in shares])
    ax.set_xlabel("variance taken out (%)")
    ax.set_title(f"{network}, {len(result.accuracy[network]['random'])} seeds", fontsize=11)
    ax.margins(x=0.12, y=0.12)
