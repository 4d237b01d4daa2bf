"""Figure 6: directions that carry much variance but little geometry can be taken out of images at a small loss.

Claim: with the first k eigenvectors of S v = λ (G + ε·tr(G)/D·I) v projected out of training and test images, a network
tests better than with random directions of the same variance projected out. The last random direction is taken out in
part, so that both remove exactly the same share of the variance. Accuracies are drawn against the index k, as in the
paper, and against that share. The networks have no norms; G is that of the GELU family at the origin (in closed form
where there is one, in place of 10,000 networks), the networks that are trained have ReLU. Gradients are clipped and the
learning rate decays as in the authors' code, without which a ViT diverges; the text is silent. Indices at laptop scale
are quarters of D and say nothing about where a network does well.
Cost: smoke seconds, laptop (2,000 images of CIFAR-2, 16 × 16) about 240 core-seconds, paper for a GPU.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from torch import Tensor

from netgrain.experiments.claims import Claim, claim
from netgrain.experiments.grain.drawing import GREY, dotted, error_bars, legend_below, panels
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
from netgrain.geometry.scores import eliminate, eliminate_variance, explained_variance, feature_basis, random_baseline
from netgrain.runtime.randomness import derived_seed
from netgrain.runtime.runners import Runner
from netgrain.runtime.units import Outcome

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COST = 449  # processor seconds at laptop scale, on a busy machine
COVERS = (40,)
NETWORKS = ("LeNet", "ResNet18", "ViT")
METHODS = ("geometry", "random")
OTHER_EPSILON = 1e-4  # how much of the removed space depends on epsilon is told by comparison with this one


@dataclass(frozen=True, kw_only=True)
class Config(ImagesConfig):
    # networks: width, steps, and indices: how many directions are taken out; S and G of the pool make the basis
    epsilon: float = 1e-6
    whole_seeds: int = 1  # seeds also trained with nothing taken out, for the figure


PRESETS = {
    "smoke": Config(
        networks={"LeNet": {"width": 1.0, "steps": 20, "indices": [64, 192]}},
        images="digits", size=16, pool=400, samples=256, tests=100, seeds=2, most_seeds=2,
    ),
    "laptop": Config(
        networks={
            "LeNet": {"width": 1.0, "steps": 300, "indices": [192, 384, 576, 672]},
            "ResNet18": {"width": 1 / 8, "steps": 150, "indices": [192, 384, 576]},
            "ViT": {"width": 1 / 4, "steps": 120, "indices": [192, 384, 576]},
        },
        images="auto", size=16, pool=10_000, samples=2000, tests=5000, seeds=3, most_seeds=5,
    ),
    "paper": Config(
        networks={n: {"width": 1.0, "steps": 50 * 78, "indices": [*range(256, 3072, 256)]} for n in NETWORKS},
        images="cifar10", size=32, pool=10_000, samples=10_000, tests=10_000,
        seeds=5, most_seeds=5, whole_seeds=5, device="best",
    ),
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Result:
    config: Config
    images: str  # the set that was used
    accuracy: dict[str, dict[str, list[list[float]]]]  # network → method → per cent by seed and index
    whole: dict[str, list[float]]  # network → per cent with nothing taken out
    directions: dict[str, dict[str, list[list[int]]]]  # network → method → how many were taken out
    shares: dict[str, list[list[float]]]  # network → per cent of the variance that was taken out, by seed and index
    overlap: dict[str, list[float]]  # network → share of the removed space that another epsilon removes, too
    majority: float  # per cent of the test images in the larger class
    diverged: dict[str, int]  # network → seeds left out since a training of theirs diverged

    def gains(self, network: str) -> list[list[float]]:
        """Geometry minus random in points, by seed and index."""
        by = self.accuracy[network]
        pairs = zip(by["geometry"], by["random"], strict=True)
        return [[g - r for g, r in zip(*pair, strict=True)] for pair in pairs]


def run(config: Config, runner: Runner) -> Result:
    pool = {**config.pool_of(runner), "two": True}
    models = {n: config.model(pool, n, "gelu") for n in in_order(config.networks)}
    grains = grains_of(runner, models)
    shared = {"figure": 6, "part": "basis", "images": pool, "epsilons": [config.epsilon, OTHER_EPSILON]}
    units = [{**shared, "model": model, "indices": config.networks[n]["indices"]} for n, model in models.items()]
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
    removed = [[b.flatten(1)[:k] for b in (basis, other)] for k in unit["indices"]]
    return Outcome({"overlap": [overlap(a, b) for a, b in removed]}, {"basis": basis})


def overlap(A: Tensor, B: Tensor) -> float:
    """Mean squared cosine between two subspaces with orthonormal rows: 1 for equal ones, 0 for orthogonal ones.

    >>> import torch
    >>> overlap(torch.eye(4)[:2], torch.eye(4)[1:3])
    0.5
    """
    return float((A @ B.T).square().sum()) / max(len(A), len(B))


def _units(config: Config, pool: Mapping[str, Any], network: str, seed: int) -> list[dict[str, Any]]:
    """One training for each method and index, before them one with nothing taken out for some seeds."""
    settings = config.networks[network]
    shared = {"figure": 6, "part": "training", "epsilon": config.epsilon, "steps": settings["steps"]}
    shared |= config.unit(pool, network, seed)
    whole = [("whole", 0)] if seed < config.whole_seeds else []
    cell = whole + [(m, index) for m in METHODS for index in settings["indices"]]
    return [{**shared, "method": method, "index": index} for method, index in cell]


def result_of(config: Config, images: str, overlap: dict[str, list[float]], trials: Mapping[str, Trials]) -> Result:
    scores, counts, shares, whole = {}, {}, {}, {}
    for network, t in trials.items():
        n = len(config.networks[network]["indices"])
        parts = {"geometry": slice(-2 * n, -n), "random": slice(-n, None)}
        tests, rows = t.per_cent("test").values(), t.kept.values()
        scores[network] = {m: [row[part] for row in tests] for m, part in parts.items()}
        counts[network] = {
            m: [[o.numbers["directions"] for o in row[part]] for row in rows] for m, part in parts.items()
        }
        shares[network] = [[100 * o.numbers["share"] for o in row[parts["geometry"]]] for row in rows]
        whole[network] = [test for row in tests for test in row[: -2 * n]]
    some = next(iter(trials.values())).rows[0][0]
    gone = {n: t.left_out for n, t in trials.items()}
    return Result(config, images, scores, whole, counts, shares, overlap, 100 * some.numbers["majority"], gone)


def _one(bases: Mapping[str, Tensor], unit: Mapping[str, Any]) -> Outcome:
    """Take directions out of training and test images, train, test."""
    X, y, test, y_test = images_of(unit)
    directions, share = unit["index"], 0.0
    if unit["method"] != "whole":
        S, basis = data_covariance(X), bases[unit["model"]["network"]]
        share = min(explained_variance(S, basis, unit["index"]), 1.0)
        if unit["method"] == "random":
            others, directions = random_baseline(S, share, seed=derived_seed(unit["seed"], "fig6"))
            X, test = (eliminate_variance(part, others, S, share) for part in (X, test))
        else:
            X, test = (eliminate(part, basis, unit["index"]) for part in (X, test))
    ones = float((y_test == 1).double().mean())
    known = {"directions": directions, "share": share, "majority": max(ones, 1 - ones)}
    settings = settings_of(unit, steps=unit["steps"])
    return Outcome({**trained_accuracy(unit, X, y, settings, {"test": (test, y_test)}), **known})


# --- claims and drawing -------------------------------------------------------------------------------------------


def claims(result: Result) -> list[Claim]:
    out = []
    for network in in_order(result.accuracy):
        indices, gains = result.config.networks[network]["indices"], result.gains(network)
        averaged = difference([mean(row) for row in gains])
        where = f"averaged over k = {', '.join(map(str, indices))}"
        out.append(_claim(result, network, "geometry loses less", where, averaged, None))
        for i, index in enumerate(indices):
            kind = f"geometry loses less at k = {index}"
            out.append(_claim(result, network, kind, f"k = {index}", difference([row[i] for row in gains]), i))
    return out


def _claim(result: Result, network: str, kind: str, where: str, value: Estimate, at: int | None) -> Claim:
    by, those = result.accuracy[network], slice(None) if at is None else slice(at, at + 1)
    scores = ""
    if by["random"]:
        told = [f"{m} {mean([mean(row[those]) for row in by[m]]).value:.1f} %" for m in METHODS]
        gone = ", ".join(f"{p.value:.1f}" for p in curve_of(result.shares[network])[those])
        scores = (
            f"{', '.join(told)} (larger class {result.majority:.0f} %) on {result.images}, {gone} % of the variance"
        )
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
    networks = in_order(result.accuracy)
    title = "Directions taken out of the images\n(beside each point: how many)"
    figure, axes = panels(title, (1.0 + 3.6 * len(networks), 7.2), rows=2, columns=len(networks), sharey=True)
    for above, below, network in zip(axes[: len(networks)], axes[len(networks) :], networks, strict=True):
        indices = result.config.networks[network]["indices"]
        _panel(above, result, network, indices)
        above.set_xticks(indices)
        above.set_xlabel("index k of the last direction taken out")
        above.set_title(f"{network}, {len(result.accuracy[network]['random'])} seeds", fontsize=11)
        _panel(below, result, network, [p.value for p in curve_of(result.shares[network])])
        below.set_xlabel("variance taken out (%)")
    for ax in (axes[0], axes[len(networks)]):
        ax.set_ylabel("test accuracy (%)")
    handles, _ = axes[0].get_legend_handles_labels()
    legend_below(figure, handles, columns=2 if len(networks) == 1 else 4)
    return figure


def _panel(ax: Axes, result: Result, network: str, places: Sequence[float]) -> None:
    looks: dict[str, dict[str, Any]] = {
        "geometry": {"color": COLOURS[network], "marker": "o", "label": "generalised eigenvectors"},
        "random": {"color": GREY, "marker": "s", "ls": "--", "label": "random directions"},
    }
    curves = {m: curve_of(result.accuracy[network][m]) for m in METHODS}
    for method, look in looks.items():
        points, others = curves[method], curves["random" if method == "geometry" else "geometry"]
        if not points:
            continue
        error_bars(ax, places, points, ms=5, capsize=3, lw=1.5, **look)
        counts = curve_of(result.directions[network][method])
        for x, point, other, count in zip(places, points, others, counts, strict=True):
            place = (0, 8 if point > other or (point == other and method == "geometry") else -14)
            style = {"textcoords": "offset points", "fontsize": 7, "ha": "center", "color": look["color"]}
            ax.annotate(f"{count.value:.0f}", (x, point.value), place, **style)
    if result.whole[network]:
        ax.axhline(mean(result.whole[network]).value, color="#000000", lw=0.8, label="nothing taken out")
    dotted(ax, result.majority, label="larger class")
    ax.margins(x=0.12, y=0.12)
