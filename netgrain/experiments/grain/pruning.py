"""What Tables 1 and 2 share: networks trained on the samples that scores, or chance, have left.

The paper's text sorts all samples together and trains for a number of epochs, so that fewer samples mean fewer steps.
The authors' code ranks each class by itself and makes as many steps however many samples are dropped. Both are run, as
variants "text" and "code". A cell is a network, a share of dropped samples and a variant. Each seed draws its own
training images, its own weights (the same for both choices) and its own random choice, which drops as many samples as
the scores do (of every class where classes are ranked by themselves). Scores are those of the very images they choose.
A claim that would fail for networks with a lower accuracy on their training samples than the paper's have on the test
set is "not fitted". G is that of the GELU family at the origin, where the paper finds it accurate (in closed form where
there is one, in place of 10,000 networks); the networks that are trained have ReLU. That gradients are clipped and the
learning rate decays linearly is the code's, the text is silent.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

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
from netgrain.runtime.runners import Runner
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
class Variant:
    """How samples are ranked, and what dropping them leaves as it is."""

    per_class: bool
    fixed: str  # "iterations": as many steps after dropping; "epochs": as many passes through the rest


VARIANTS = {
    "text": Variant(per_class=False, fixed="epochs"),
    "code": Variant(per_class=True, fixed="iterations"),
}


@dataclass(frozen=True, kw_only=True)
class Config(ImagesConfig):
    # networks: width, levels (per cent of the samples dropped), and settings (seeds: first and most) that are their own
    epochs: int  # passes through the samples before any are dropped
    variants: Sequence[str] = tuple(VARIANTS)
    lr: float = 0.2
    weight_decay: float = 5e-4


class Cell(NamedTuple):
    network: str
    level: int
    variant: str

    @property
    def name(self) -> str:
        return f"{self.network}, {self.level} % dropped, {self.variant}"


@dataclass(frozen=True, eq=False)
class Result:
    config: Config
    images: str  # the set that was used
    accuracy: dict[Cell, dict[str, list[float]]]  # method → per cent, one per seed
    train: dict[Cell, dict[str, list[float]]]  # the same on the samples that were kept
    diverged: dict[Cell, int]  # pairs left out


def with_levels(networks: Mapping[str, Mapping[str, Any]], levels: Sequence[int]) -> dict[str, dict[str, Any]]:
    """These networks at these levels."""
    return {n: {**own, "levels": list(levels)} for n, own in networks.items()}


def cells(config: Config) -> list[Cell]:
    """In the order of the tables."""
    return [
        Cell(network, level, variant)
        for network in in_order(config.networks)
        for level in config.networks[network]["levels"]
        for variant in config.variants
    ]


def steps(samples: int, kept: int, *, epochs: int, batch: int, fixed: str) -> int:
    """Steps of a training after dropping: those of all samples, or as many passes through the kept ones.

    >>> [steps(5000, 500, epochs=10, batch=100, fixed=what) for what in ("iterations", "epochs")]
    [500, 50]
    """
    count = {"iterations": samples, "epochs": kept}[fixed]
    return epochs * max(1, count // batch)


def at_random(y: Tensor, *, keep: float, per_class: bool, seed: int) -> Tensor:
    """Indices, ascending, of a random choice that keeps as many samples (of each class) as `prune` does."""
    generator = torch.Generator().manual_seed(derived_seed(seed, "kept at random"))
    groups = [(y == label).nonzero()[:, 0] for label in y.unique()] if per_class else [torch.arange(len(y))]
    kept = []
    for group in groups:
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
        {c: tuple(config.networks[c.network].get("seeds", (config.seeds, config.most_seeds))) for c in cells(config)},
        result=partial(result_of, config, pool["name"]),
        undecided=lambda result: [c for c in result.accuracy if _claim(result, c).verdict == UNDECIDED],
        images=pool,
    )


def _units(config: Config, pool: Mapping[str, Any], cell: Cell, seed: int) -> list[dict[str, Any]]:
    own = {k: v for k, v in config.networks[cell.network].items() if k not in ("width", "levels", "seeds")}
    shared = {"part": "pruning", "dropped": cell.level, **asdict(VARIANTS[cell.variant])}
    shared |= {**config.some("epochs", "weight_decay"), **config.unit(pool, cell.network, seed), **own}
    return [{**shared, "method": method} for method in METHODS]


def result_of(config: Config, images: str, trials: Mapping[Cell, Trials]) -> Result:
    test, train = ({c: t.columns(name, METHODS) for c, t in trials.items()} for name in ("test", "train"))
    return Result(config, images, test, train, {c: t.left_out for c, t in trials.items()})


def _one(grains: Mapping[str, Grain], unit: Mapping[str, Any]) -> Outcome:
    """Drop samples by score or at random, train on the rest, test."""
    keep = 1 - unit["dropped"] / 100
    X, y, *test = images_of(unit)
    if unit["method"] == "score":
        kept = prune(grains[unit["model"]["network"]].geometry(), X, y, keep=keep, per_class=unit["per_class"])
    else:
        kept = at_random(y, keep=keep, per_class=unit["per_class"], seed=unit["seed"])
    count = steps(len(y), len(kept), epochs=unit["epochs"], batch=unit["batch"], fixed=unit["fixed"])
    settings = settings_of(unit, steps=count, weight_decay=unit["weight_decay"])
    return Outcome(trained_accuracy(unit, X[kept], y[kept], settings, {"test": (test[0], test[1])}))


# --- claims -------------------------------------------------------------------------------------------------------


def claims(result: Result) -> list[Claim]:
    """One claim for each cell: score-based minus random is positive."""
    return [_claim(result, cell) for cell in cells(result.config)]


def gains(result: Result, cell: Cell) -> list[float]:
    """Score minus random in points, one for each pair of trainings."""
    pair = result.accuracy[cell]
    return [s - r for s, r in zip(pair["score"], pair["random"], strict=True)]


def _claim(result: Result, cell: Cell) -> Claim:
    network, level, variant = cell
    pair, scores = result.accuracy[cell], ""
    if pair["random"]:
        both = ", ".join(f"{m} {mean(pair[m]).value:.1f} %" for m in METHODS)
        fitted = ", ".join(f"{mean(result.train[cell][m]).value:.0f} %" for m in METHODS)
        scores = f"{both} on {result.images} (on the kept samples {fitted})"
    how = "class by class, as many steps" if VARIANTS[variant].per_class else "of all classes together, as many epochs"
    return claim(
        cell.name,
        f"test accuracy with the lowest-scored samples dropped ({how}) minus that with random ones dropped is positive",
        difference(gains(result, cell)),
        low=0,
        paper=f"{printed_gain(network, level):+.1f}: random {printed(network, 'random', level)}, "
        f"by score {printed(network, 'score', level)}",
        note=joined(scores, left_out(result.diverged[cell], "pairs")),
        fitted=_fitted(result, cell),
    )


def _fitted(result: Result, cell: Cell) -> bool:
    """Whether networks do as well on what they were trained on as the paper's do on the test set."""
    train, least = result.train[cell], _number(printed(cell.network, "random", cell.level))
    return all(mean(train[m]) >= least for m in METHODS if train[m])


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
    random, score = (_number(printed(network, method, level)) for method in METHODS)
    return round(score - random, 2)


def _number(cell: str) -> float:
    return float(cell.partition("±")[0])


# --- drawing ------------------------------------------------------------------------------------------------------

LINES = {"text": "-", "code": "--"}


def draw(result: Result, *, title: str) -> Figure:
    """For each network its accuracy against the share dropped, and what scores gain next to what the paper prints."""
    networks = in_order({c.network for c in result.accuracy})
    figure, axes = panels(title, (9.5, 1.0 + 3.1 * len(networks)), rows=len(networks), columns=2)
    for left, right, network in zip(axes[::2], axes[1::2], networks, strict=True):
        _accuracies(left, result, network)
        _gains(right, result, network)
        for ax in (left, right):
            ax.set_xticks(_levels(result, network))
            ax.set_xlabel("samples dropped (%)")
    return figure


def _levels(result: Result, network: str) -> list[int]:
    return sorted({c.level for c in result.accuracy if c.network == network})


def _accuracies(ax: Axes, result: Result, network: str) -> None:
    levels = _levels(result, network)
    looks: dict[str, dict[str, Any]] = {
        "random": {"color": GREY, "marker": "s"},
        "score": {"color": COLOURS[network], "marker": "o"},
    }
    for variant, (method, look) in product(result.config.variants, looks.items()):
        points = [mean(result.accuracy[Cell(network, level, variant)][method]) for level in levels]
        label = f"{'lowest scores' if method == 'score' else 'random'}, {variant}"
        error_bars(ax, levels, points, ms=4.5, capsize=3, lw=1.4, ls=LINES[variant], label=label, **look)
    dotted(ax, 10)
    ax.set_ylabel("test accuracy (%)")
    ax.set_title(network, fontsize=11)
    ax.legend(fontsize=7.5, title="dropped", title_fontsize=8, handlelength=3.4)


def _gains(ax: Axes, result: Result, network: str) -> None:
    levels, pairs = _levels(result, network), set()
    for aside, variant in zip((-1.3, 1.3), result.config.variants, strict=False):
        own = [Cell(network, level, variant) for level in levels]
        points, x = [mean(gains(result, c)) for c in own], [level + aside for level in levels]
        pairs |= {len(result.accuracy[c]["score"]) for c in own}
        look: dict[str, Any] = {"color": COLOURS[network], "mfc": None if variant == "text" else "white"}
        error_bars(ax, x, points, fmt="o", ms=5.5, capsize=3, label=variant, **look)
        for place, point in zip(x, points, strict=True):
            if not math.isnan(point.stderr):
                ax.plot([place, place], point.interval(0.95), color=COLOURS[network], lw=0.8, alpha=0.5)
    printed = [printed_gain(network, level) for level in levels]
    ax.plot(levels, printed, "D", mfc="white", color="#000000", label="paper")
    dotted(ax, 0)
    ax.set(xlim=(levels[0] - 6, levels[-1] + 7), ylabel="by score minus random (points)")
    many = " to ".join(map(str, sorted({min(pairs), max(pairs)})))
    ax.set_title(f"± 1 standard error and 95 % interval, {many} pairs", fontsize=9)
    ax.legend(fontsize=8)
