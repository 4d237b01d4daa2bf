"""What Tables 1 and 2 share: networks trained on the samples that scores, or chance, have left.

A cell is a network and a share of dropped samples. Each seed draws its own training images, its own weights (the same
for both choices) and its own random choice; both choices drop the same number of samples of every class. Scores are
those of the very images they choose. G is that of the GELU family at the origin, where the paper finds it accurate
(in closed form where there is one); the networks that are trained have ReLU.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

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
from netgrain.geometry.estimate import Estimate, mean
from netgrain.geometry.scores import prune
from netgrain.runtime.randomness import derived_seed
from netgrain.runtime.run_folder import Runner
from netgrain.runtime.units import Outcome
from netgrain.training.loop import accuracy
from netgrain.training.settings import Settings
from netgrain.training.trained_members import train_member

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


@dataclass(frozen=True)
class Config:
    networks: dict[str, dict[str, Any]]  # width, and levels: per cent of the samples dropped
    images: str
    size: int
    pool: int  # training images from which each seed draws
    samples: int  # so many, before any are dropped
    tests: int
    epochs: int  # passes through the samples before any are dropped …
    fixed: str  # … "iterations": as many steps after dropping; "epochs": as many passes through what is left
    batch: int
    lr: float
    weight_decay: float
    clip: float | None
    seeds: int  # to begin with
    most_seeds: int  # for undecided cells
    device: str


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


def difference(values: Sequence[float]) -> Estimate:
    """The mean over seeds of a paired difference; differences that are all exactly zero say nothing about its sign.

    >>> difference([1.0, 3.0]), difference([0.0, 0.0]).stderr
    (2.0 ± 1 (n = 2), nan)
    """
    average = mean(values)
    return Estimate(0.0, math.nan, average.n) if average.value == average.stderr == 0 else average


# --- computing ----------------------------------------------------------------------------------------------------


def study(config: Config, runner: Runner) -> Result:
    """Both choices in every cell; seeds are added where score minus random is undecided."""
    name = images_found(runner, config.images)
    pool = {"name": name, "size": config.size, "samples": config.pool, "tests": config.tests}
    models = {n: _model(config, name, n, "gelu") for n in NETWORKS if n in config.networks}
    grains = grains_of(runner, models)
    return until_decided(
        runner,
        cells(config),
        seeds=config.seeds,
        most=config.most_seeds,
        units=partial(_units, config, pool),
        collect=partial(_collect, config, runner, pool, grains),
        undecided=lambda result: {c.name for c in judge(result) if c.verdict == UNDECIDED},
        step=1,
    )


def _model(config: Config, images: str, network: str, activation: str) -> dict[str, Any]:
    shape = (1 if images == "digits" else 3, config.size, config.size)
    width = config.networks[network]["width"]
    return model_config(network, shape, activation=activation, width=width, outputs=10)


def _units(config: Config, pool: Mapping[str, Any], seeds: Mapping[str, int]) -> list[dict[str, Any]]:
    named = cells(config)
    return [
        {
            "part": "pruning",
            "model": _model(config, pool["name"], named[cell][0], "relu"),
            "geometry": "gelu",
            "images": dict(pool),
            "samples": config.samples,
            "dropped": named[cell][1],
            "method": method,
            "epochs": config.epochs,
            "fixed": config.fixed,
            "batch": config.batch,
            "lr": config.lr,
            "weight_decay": config.weight_decay,
            "clip": config.clip,
            "device": config.device,
            "seed": seed,
        }
        for cell in seeds
        for seed in range(seeds[cell])
        for method in METHODS
    ]


def _collect(
    config: Config, runner: Runner, pool: Mapping[str, Any], grains: Mapping[str, Grain], seeds: Mapping[str, int]
) -> Result:
    units = _units(config, pool, seeds)
    if not runner.has(units):
        pictures(**pool)  # read here, before processes are forked
    outcomes = iter(runner.map(partial(_one, grains), units, "trainings"))
    named = cells(config)
    test: dict[str, dict[int, dict[str, list[float]]]] = {n: {} for n, _ in named.values()}
    train: dict[str, dict[int, dict[str, list[float]]]] = {n: {} for n in test}
    diverged: dict[str, dict[int, int]] = {n: {} for n in test}
    for cell, count in seeds.items():
        network, level = named[cell]
        test[network][level], train[network][level] = {m: [] for m in METHODS}, {m: [] for m in METHODS}
        diverged[network][level] = 0
        for _ in range(count):
            pair = {m: next(outcomes).numbers for m in METHODS}
            if any(one["diverged"] for one in pair.values()):
                diverged[network][level] += 1
                continue
            for method, one in pair.items():
                test[network][level][method].append(100 * one["test"])
                train[network][level][method].append(100 * one["train"])
    return Result(config, pool["name"], test, train, diverged)


def _one(grains: Mapping[str, Grain], unit: Mapping[str, Any]) -> Outcome:
    """Drop samples by score or at random, train on the rest, test."""
    seed, keep = unit["seed"], 1 - unit["dropped"] / 100
    images = pictures(**unit["images"])
    mine = torch.Generator().manual_seed(derived_seed(seed, "training images"))
    drawn = torch.randperm(len(images.train.y), generator=mine)[: unit["samples"]]
    X, y = images.train.X[drawn], images.train.y[drawn]
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
    make = make_of(unit["model"])
    device = device_named(unit["device"])
    trained = train_member(make, X[kept], y[kept], settings, seed=seed, i=0, device=device)
    if trained.diverged:
        return Outcome({"diverged": True, "test": None, "train": None})
    right = accuracy(trained.model(make), images.test.X, images.test.y)
    return Outcome({"diverged": False, "test": right, "train": trained.train_accuracy})


# --- claims and drawing -------------------------------------------------------------------------------------------


def judge(result: Result) -> list[Claim]:
    """One claim for each cell: score-based minus random is positive."""
    return [_claim(result, name, *cell) for name, cell in cells(result.config).items()]


def gains(result: Result, network: str, level: int) -> list[float]:
    """Score minus random in points, one for each pair of trainings."""
    pair = result.accuracy[network][level]
    return [s - r for s, r in zip(pair["score"], pair["random"], strict=True)]


def _claim(result: Result, name: str, network: str, level: int) -> Claim:
    pair, gone = result.accuracy[network][level], result.diverged[network][level]
    notes = [f"{gone} diverged pairs left out"] if gone else []
    if pair["random"]:
        both = [f"{m} {mean(pair[m]).value:.1f} %" for m in METHODS]
        fitted = ", ".join(f"{mean(result.train[network][level][m]).value:.0f} %" for m in METHODS)
        notes = [f"{', '.join(both)} on {result.images} (on the kept samples {fitted})", *notes]
    return claim(
        name,
        "test accuracy with the lowest-scored samples dropped minus that with random ones dropped is positive",
        difference(gains(result, network, level)),
        low=0,
        paper=f"{printed_gain(network, level):+.1f}: random {PAPER[network, 'random'].as_text(level)}, "
        f"by score {PAPER[network, 'score'].as_text(level)}",
        note="; ".join(notes),
    )


def printed_gain(network: str, level: int) -> float:
    """Score minus random of the paper's table.

    >>> printed_gain("LeNet", 50)
    1.9
    """
    return round(PAPER[network, "score"].at(level) - PAPER[network, "random"].at(level), 2)


def draw(result: Result, title: str) -> Figure:
    """For each network its accuracy against the share dropped, and what scores gain next to what the paper prints."""
    from matplotlib.figure import Figure

    networks = [n for n in NETWORKS if n in result.accuracy]
    figure = Figure(figsize=(9, 1.0 + 3.1 * len(networks)), layout="constrained")
    for (left, right), network in zip(figure.subplots(len(networks), 2, squeeze=False), networks, strict=True):
        _accuracies(left, result, network)
        _gains(right, result, network)
    figure.suptitle(title, fontsize=12)
    return figure


def _accuracies(ax: Axes, result: Result, network: str) -> None:
    rows = result.accuracy[network]
    levels = sorted(rows)
    looks: dict[str, dict[str, Any]] = {
        "random": {"color": "#999999", "marker": "s", "ls": "--", "label": "random"},
        "score": {"color": COLOURS[network], "marker": "o", "label": "lowest scores"},
    }
    for method, look in looks.items():
        points = [mean(rows[level][method]) for level in levels]
        errors = [0.0 if math.isnan(p.stderr) else p.stderr for p in points]
        ax.errorbar(levels, [p.value for p in points], yerr=errors, ms=5, capsize=3, lw=1.5, **look)
    ax.axhline(10, color="#999999", lw=0.8, ls=":")
    ax.set_xticks(levels)
    ax.set_xlabel("samples dropped (%)")
    ax.set_ylabel("test accuracy (%)")
    ax.set_title(network, fontsize=11)
    ax.legend(fontsize=8, title="dropped", title_fontsize=8)


def _gains(ax: Axes, result: Result, network: str) -> None:
    levels = sorted(result.accuracy[network])
    points = [mean(gains(result, network, level)) for level in levels]
    errors = [0.0 if math.isnan(p.stderr) else p.stderr for p in points]
    ax.errorbar(
        levels, [p.value for p in points], yerr=errors, fmt="o", ms=6, capsize=3, color=COLOURS[network], label="here"
    )
    for level, point in zip(levels, points, strict=True):
        if not math.isnan(point.stderr):
            ax.plot([level, level], point.interval(0.95), color=COLOURS[network], lw=0.8, alpha=0.5)
    beside = [level + 1.2 for level in levels]
    ax.plot(
        beside, [printed_gain(network, level) for level in levels], "D", mfc="white", color="#000000", label="paper"
    )
    ax.axhline(0, color="#999999", lw=0.8, ls=":")
    ax.set_xticks(levels)
    ax.set_xlim(levels[0] - 6, levels[-1] + 7)
    ax.set_xlabel("samples dropped (%)")
    ax.set_ylabel("by score minus random (points)")
    seeds = sorted({len(result.accuracy[network][level]["score"]) for level in levels})
    ax.set_title(
        f"± 1 standard error and 95 % interval, {' to '.join(map(str, seeds[:1] + seeds[1:][-1:]))} pairs", fontsize=9
    )
    ax.legend(fontsize=8)
