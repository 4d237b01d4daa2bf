"""What Tables 1 and 2 share: networks trained on the samples that scores, or chance, have left.

A cell is a network and a share of dropped samples. Each seed draws its own training images, its own weights (the same
for both choices) and its own random choice; both choices drop the same number of samples of every class. Scores are
those of the very images they choose. G is that of the GELU family at the origin, where the paper finds it accurate
(in closed form where there is one); the networks that are trained have ReLU.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from netgrain.experiments.claims import UNDECIDED, Claim, claim
from netgrain.experiments.grain.drawing import GREY, dotted, error_bars, panels
from netgrain.experiments.grain.grains import COLOURS, Grain, grains_of, in_order
from netgrain.experiments.grain.trials import (
    ImagesConfig,
    Trials,
    difference,
    images_of,
    joined,
    left_out,
    settings_of,
    trained_accuracy,
    until_decided,
)
from netgrain.geometry.estimate import mean
from netgrain.geometry.scores import prune
from netgrain.runtime.randomness import derived_seed
from netgrain.runtime.run_folder import Runner
from netgrain.runtime.units import Outcome

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NETWORKS = ("LeNet", "ResNet18", "ViT")
METHODS = ("random", "score")
LEVELS = (10, 20, 30, 40, 50, 60, 70, 80, 90)


PAPER = {  # the rows of the tables: per cent of test accuracy at each level, with the paper's 68 % intervals
    ("LeNet", "random"): "65.0±0.4 63.95±0.3 61.7±0.4 58.9±0.4 56.6±0.3 54.8±0.3 52.4±0.3 49.5±0.2 45.1±0.3",
    ("LeNet", "score"): "65.9±0.5 65.1±0.6 62.5±0.2 60.9±0.46 58.5±0.4 56.4±0.1 53.5±0.3 50.8±0.2 45.9±0.2",
    ("ResNet18", "random"): "78.6±0.2 76.8±0.3 75.8±0.6 73.9±0.3 71.8±0.4 68.8±0.1 65.1±0.3 60.3±0.5 52.4±0.4",
    ("ResNet18", "score"): "79.6±0.2 78.4±0.3 77.0±0.2 75.9±0.3 73.2±0.4 70.0±0.3 66.2±0.3 61.5±0.4 54.4±0.2",
    ("ViT", "random"): "62.0±0.1 60.0±0.2 57.5±0.1 54.6±0.1 51.5±0.1 48.7±0.0 45.5±0.1 41.3±0.1 35.6±0.1",
    ("ViT", "score"): "62.9±0.1 60.6±0.1 58.4±0.1 55.4±0.1 52.2±0.2 49.7±0.1 46.5±0.1 42.1±0.0 36.2±0.1",
}


@dataclass(frozen=True, kw_only=True)
class Config(ImagesConfig):
    # networks: width, and levels: per cent of the samples dropped
    epochs: int  # passes through the samples before any are dropped …
    fixed: str = "iterations"  # … "iterations": as many steps after dropping; "epochs": as many passes through the rest
    lr: float = 0.2
    weight_decay: float = 5e-4


@dataclass(frozen=True, eq=False)
class Result:
    config: Config
    images: str  # the set that was used
    accuracy: dict[str, dict[int, dict[str, list[float]]]]  # network → level → method → per cent, one per seed
    train: dict[str, dict[int, dict[str, list[float]]]]  # the same on the samples that were kept
    diverged: dict[str, dict[int, int]]  # pairs left out


def cells(config: Config) -> dict[str, tuple[str, int]]:
    """Cells by name, in the order of the tables."""
    return {
        f"{network}, {level} % dropped": (network, level)
        for network in in_order(config.networks)
        for level in config.networks[network]["levels"]
    }


def steps(samples: int, kept: int, *, epochs: int, batch: int, fixed: str) -> int:
    """Steps of a training after dropping: those of all samples, or as many passes through the kept ones.

    >>> [steps(5000, 500, epochs=10, batch=100, fixed=what) for what in ("iterations", "epochs")]
    [500, 50]
    """
    count = {"iterations": samples, "epochs": kept}[fixed]
    return epochs * max(1, count // batch)


def at_random(y: Tensor, *, keep: float, seed: int) -> Tensor:
    """Indices, ascending, of a random choice that keeps as many samples of each class as `prune` does."""
    generator = torch.Generator().manual_seed(derived_seed(seed, "kept at random"))
    kept = []
    for label in y.unique():
        group = (y == label).nonzero()[:, 0]
        count = max(1, round(keep * len(group)))
        kept.append(group[torch.randperm(len(group), generator=generator)[:count]])
    return torch.cat(kept).sort().values


# --- computing ----------------------------------------------------------------------------------------------------


def run(config: Config, runner: Runner) -> Result:
    """Both choices in every cell; seeds are added where score minus random is undecided."""
    pool = config.pool_of(runner)
    grains = grains_of(runner, {n: config.model(pool, n, "gelu") for n in in_order(config.networks)})
    return until_decided(
        runner,
        partial(_one, grains),
        partial(_units, config, pool),
        config.seeds_of(cells(config)),
        result=partial(result_of, config, pool["name"]),
        undecided=lambda result: {c.name for c in claims(result) if c.verdict == UNDECIDED},
        images=pool,
    )


def _units(config: Config, pool: Mapping[str, Any], cell: str, seed: int) -> list[dict[str, Any]]:
    network, level = cells(config)[cell]
    shared = {"part": "pruning", "dropped": level, **config.some("epochs", "fixed", "weight_decay")}
    shared |= config.unit(pool, network, seed)
    return [{**shared, "method": method} for method in METHODS]


def result_of(config: Config, images: str, trials: Mapping[str, Trials]) -> Result:
    def table(number: Callable[[Trials], Any]) -> dict[str, dict[int, Any]]:
        found: dict[str, dict[int, Any]] = {n: {} for n in config.networks}
        for name, (network, level) in cells(config).items():
            found[network][level] = number(trials[name])
        return found

    test, train = (table(partial(Trials.columns, name=name, among=METHODS)) for name in ("test", "train"))
    return Result(config, images, test, train, table(lambda t: t.left_out))


def _one(grains: Mapping[str, Grain], unit: Mapping[str, Any]) -> Outcome:
    """Drop samples by score or at random, train on the rest, test."""
    keep = 1 - unit["dropped"] / 100
    X, y, *test = images_of(unit)
    if unit["method"] == "score":
        kept = prune(grains[unit["model"]["network"]].geometry(), X, y, keep=keep)
    else:
        kept = at_random(y, keep=keep, seed=unit["seed"])
    count = steps(len(y), len(kept), epochs=unit["epochs"], batch=unit["batch"], fixed=unit["fixed"])
    settings = settings_of(unit, steps=count, weight_decay=unit["weight_decay"])
    return Outcome(trained_accuracy(unit, X[kept], y[kept], settings, {"test": (test[0], test[1])}))


# --- claims and drawing -------------------------------------------------------------------------------------------


def claims(result: Result) -> list[Claim]:
    """One claim for each cell: score-based minus random is positive."""
    return [_claim(result, name, *cell) for name, cell in cells(result.config).items()]


def gains(result: Result, network: str, level: int) -> list[float]:
    """Score minus random in points, one for each pair of trainings."""
    pair = result.accuracy[network][level]
    return [s - r for s, r in zip(pair["score"], pair["random"], strict=True)]


def _claim(result: Result, name: str, network: str, level: int) -> Claim:
    pair, scores = result.accuracy[network][level], ""
    if pair["random"]:
        both = ", ".join(f"{m} {mean(pair[m]).value:.1f} %" for m in METHODS)
        fitted = ", ".join(f"{mean(result.train[network][level][m]).value:.0f} %" for m in METHODS)
        scores = f"{both} on {result.images} (on the kept samples {fitted})"
    return claim(
        name,
        "test accuracy with the lowest-scored samples dropped minus that with random ones dropped is positive",
        difference(gains(result, network, level)),
        low=0,
        paper=f"{printed_gain(network, level):+.1f}: random {printed(network, 'random', level)}, "
        f"by score {printed(network, 'score', level)}",
        note=joined(scores, left_out(result.diverged[network][level], "pairs")),
    )


def printed(network: str, method: str, level: int) -> str:
    """What the paper's table says.

    >>> printed("LeNet", "score", 50)
    '58.5±0.4'
    """
    return PAPER[network, method].split()[LEVELS.index(level)]


def printed_gain(network: str, level: int) -> float:
    """Score minus random of the paper's table.

    >>> printed_gain("LeNet", 50)
    1.9
    """
    random, score = (float(printed(network, method, level).partition("±")[0]) for method in METHODS)
    return round(score - random, 2)


def draw(result: Result, *, title: str) -> Figure:
    """For each network its accuracy against the share dropped, and what scores gain next to what the paper prints."""
    networks = in_order(result.accuracy)
    figure, axes = panels(title, (9, 1.0 + 3.1 * len(networks)), rows=len(networks), columns=2)
    for left, right, network in zip(axes[::2], axes[1::2], networks, strict=True):
        _accuracies(left, result, network)
        _gains(right, result, network)
        for ax in (left, right):
            ax.set_xticks(sorted(result.accuracy[network]))
            ax.set_xlabel("samples dropped (%)")
    return figure


def _accuracies(ax: Axes, result: Result, network: str) -> None:
    rows = result.accuracy[network]
    levels = sorted(rows)
    looks: dict[str, dict[str, Any]] = {
        "random": {"color": GREY, "marker": "s", "ls": "--", "label": "random"},
        "score": {"color": COLOURS[network], "marker": "o", "label": "lowest scores"},
    }
    for method, look in looks.items():
        error_bars(ax, levels, [mean(rows[level][method]) for level in levels], ms=5, capsize=3, lw=1.5, **look)
    dotted(ax, 10)
    ax.set_ylabel("test accuracy (%)")
    ax.set_title(network, fontsize=11)
    ax.legend(fontsize=8, title="dropped", title_fontsize=8)


def _gains(ax: Axes, result: Result, network: str) -> None:
    levels, colour = sorted(result.accuracy[network]), COLOURS[network]
    points = [mean(gains(result, network, level)) for level in levels]
    error_bars(ax, levels, points, fmt="o", ms=6, capsize=3, color=colour, label="here")
    for level, point in zip(levels, points, strict=True):
        if not math.isnan(point.stderr):
            ax.plot([level, level], point.interval(0.95), color=colour, lw=0.8, alpha=0.5)
    printed = [printed_gain(network, level) for level in levels]
    ax.plot([level + 1.2 for level in levels], printed, "D", mfc="white", color="#000000", label="paper")
    dotted(ax, 0)
    ax.set(xlim=(levels[0] - 6, levels[-1] + 7), ylabel="by score minus random (points)")
    seeds = sorted({len(result.accuracy[network][level]["score"]) for level in levels})
    ax.set_title(
        f"± 1 standard error and 95 % interval, {' to '.join(map(str, seeds[:1] + seeds[1:][-1:]))} pairs", fontsize=9
    )
    ax.legend(fontsize=8)
