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
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from netgrain.experiments.claims import UNDECIDED, Claim, claim
from netgrain.experiments.grain.drawing import GREY, dotted, error_bars, panels
from netgrain.experiments.grain.grains import (
    COLOURS,
    Grain,
    grains_of,
    images_found,
    model_config,
    pictures,
    shape_in,
)
from netgrain.experiments.grain.trials import (
    Trials,
    difference,
    drawn,
    joined,
    left_out,
    trained_accuracy,
    until_decided,
)
from netgrain.geometry.estimate import mean
from netgrain.geometry.scores import prune
from netgrain.runtime.randomness import derived_seed
from netgrain.runtime.run_folder import Runner
from netgrain.runtime.units import Outcome
from netgrain.training.settings import Settings

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NETWORKS = ("LeNet", "ResNet18", "ViT")
METHODS = ("random", "score")
LEVELS = (10, 20, 30, 40, 50, 60, 70, 80, 90)


class Printed(NamedTuple):
    """A row of the paper's tables, by level."""

    accuracy: tuple[float, ...]
    error: tuple[float, ...]

    def at(self, level: int) -> float:
        return self.accuracy[LEVELS.index(level)]

    def as_text(self, level: int) -> str:
        return f"{self.at(level)}±{self.error[LEVELS.index(level)]}"


PAPER = {  # (network, method) → per cent of test accuracy at each level, with the paper's 68 % intervals
    ("LeNet", "random"): Printed(
        (65.0, 63.95, 61.7, 58.9, 56.6, 54.8, 52.4, 49.5, 45.1),
        (0.4, 0.3, 0.4, 0.4, 0.3, 0.3, 0.3, 0.2, 0.3),
    ),
    ("LeNet", "score"): Printed(
        (65.9, 65.1, 62.5, 60.9, 58.5, 56.4, 53.5, 50.8, 45.9),
        (0.5, 0.6, 0.2, 0.46, 0.4, 0.1, 0.3, 0.2, 0.2),
    ),
    ("ResNet18", "random"): Printed(
        (78.6, 76.8, 75.8, 73.9, 71.8, 68.8, 65.1, 60.3, 52.4),
        (0.2, 0.3, 0.6, 0.3, 0.4, 0.1, 0.3, 0.5, 0.4),
    ),
    ("ResNet18", "score"): Printed(
        (79.6, 78.4, 77.0, 75.9, 73.2, 70.0, 66.2, 61.5, 54.4),
        (0.2, 0.3, 0.2, 0.3, 0.4, 0.3, 0.3, 0.4, 0.2),
    ),
    ("ViT", "random"): Printed(
        (62.0, 60.0, 57.5, 54.6, 51.5, 48.7, 45.5, 41.3, 35.6),
        (0.1, 0.2, 0.1, 0.1, 0.1, 0.0, 0.1, 0.1, 0.1),
    ),
    ("ViT", "score"): Printed(
        (62.9, 60.6, 58.4, 55.4, 52.2, 49.7, 46.5, 42.1, 36.2),
        (0.1, 0.1, 0.1, 0.1, 0.2, 0.1, 0.1, 0.0, 0.1),
    ),
}


@dataclass(frozen=True, kw_only=True)
class Config:
    networks: dict[str, dict[str, Any]]  # width, and levels: per cent of the samples dropped
    images: str
    size: int
    pool: int  # training images from which each seed draws
    samples: int  # so many, before any are dropped
    tests: int
    epochs: int  # passes through the samples before any are dropped …
    fixed: str = (
        "iterations"  # … "iterations": as many steps after dropping; "epochs": as many passes through what is left
    )
    batch: int = 128
    lr: float = 0.2
    weight_decay: float = 5e-4
    clip: float | None = 0.5
    seeds: int  # to begin with
    most_seeds: int  # for undecided cells
    device: str = "cpu"


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
        for network in NETWORKS
        if network in config.networks
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
    name = images_found(runner, config.images)
    pool = {"name": name, "size": config.size, "samples": config.pool, "tests": config.tests}
    grains = grains_of(runner, {n: _model(config, pool, n, "gelu") for n in NETWORKS if n in config.networks})
    return until_decided(
        runner,
        partial(_one, grains),
        partial(_units, config, pool),
        dict.fromkeys(cells(config), (config.seeds, config.most_seeds)),
        result=partial(result_of, config, name),
        undecided=lambda result: {c.name for c in claims(result) if c.verdict == UNDECIDED},
        images=pool,
    )


def _model(config: Config, pool: Mapping[str, Any], network: str, activation: str) -> dict[str, Any]:
    width = config.networks[network]["width"]
    return model_config(network, shape_in(pool), activation=activation, width=width, outputs=10)


def _units(config: Config, pool: Mapping[str, Any], cell: str, seed: int) -> list[dict[str, Any]]:
    network, level = cells(config)[cell]
    shared = {
        "part": "pruning",
        "model": _model(config, pool, network, "relu"),
        "geometry": "gelu",
        "images": dict(pool),
        "samples": config.samples,
        "dropped": level,
        "epochs": config.epochs,
        "fixed": config.fixed,
        "batch": config.batch,
        "lr": config.lr,
        "weight_decay": config.weight_decay,
        "clip": config.clip,
        "device": config.device,
        "seed": seed,
    }
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
    seed, keep = unit["seed"], 1 - unit["dropped"] / 100
    images = pictures(**unit["images"])
    mine = drawn(images.train.y, unit["samples"], seed, "training images")
    X, y = images.train.X[mine], images.train.y[mine]
    if unit["method"] == "score":
        kept = prune(grains[unit["model"]["network"]].geometry(), X, y, keep=keep)
    else:
        kept = at_random(y, keep=keep, seed=seed)
    settings = Settings(
        lr=unit["lr"],
        weight_decay=unit["weight_decay"],
        clip=unit["clip"],
        batch=unit["batch"],
        decay="linear",
        steps=steps(len(y), len(kept), epochs=unit["epochs"], batch=unit["batch"], fixed=unit["fixed"]),
    )
    return Outcome(trained_accuracy(unit, X[kept], y[kept], settings, {"test": (images.test.X, images.test.y)}))


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
        paper=f"{printed_gain(network, level):+.1f}: random {PAPER[network, 'random'].as_text(level)}, "
        f"by score {PAPER[network, 'score'].as_text(level)}",
        note=joined(scores, left_out(result.diverged[network][level], "pairs")),
    )


def printed_gain(network: str, level: int) -> float:
    """Score minus random of the paper's table.

    >>> printed_gain("LeNet", 50)
    1.9
    """
    return round(PAPER[network, "score"].at(level) - PAPER[network, "random"].at(level), 2)


def draw(result: Result, *, title: str) -> Figure:
    """For each network its accuracy against the share dropped, and what scores gain next to what the paper prints."""
    networks = [n for n in NETWORKS if n in result.accuracy]
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
