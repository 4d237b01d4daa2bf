"""What figures 4, 10, 11 and 14 share: labels planted along one direction of the grain, and how well they are learnt.

A curve of such a figure belongs to one network and one labelling, and has a point for each eigenvector it is asked
about. Every seed has fresh data, weights and label noise, and a fresh direction where an eigenvector is free inside
its block. Seeds leave a curve as wholes when one of their trainings diverged, since its points are compared seed by
seed.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from torch import Tensor

from netgrain.data.dataset import Dataset
from netgrain.data.synthetic import Labels, isotropic, phase_spread, planted
from netgrain.experiments.claims import UNDECIDED, Claim
from netgrain.experiments.difficulty import difficulty
from netgrain.experiments.grain.grains import Grain, model_config, pictures
from netgrain.experiments.grain.trials import SeededConfig, Trials, drawn, trained_accuracy, until_decided
from netgrain.geometry.estimate import Estimate, mean
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.randomness import derived_seed
from netgrain.runtime.runners import Runner
from netgrain.runtime.units import Outcome
from netgrain.training.settings import Settings

GRID = (0, 10, 20, 40, 60, 80, 120, 240, 480, -1)  # eigenvector indices of the paper-like grid; −1 is the last
ENDS = (0, -1)
LABELS: tuple[Labels, ...] = ("linear", "quadratic", "sinusoidal")
CODE, SCALED = "sinusoidal, code", "sinusoidal, scaled"  # lines with another rule than the text's sin(x·u)
VARIANTS: dict[str, tuple[str, ...]] = {  # lines of a figure on isotropic data
    "text": LABELS,
    "code": (*LABELS[:2], CODE),
    "both": (*LABELS, CODE),
}
LABEL_NOISE = 0.2  # on images: variance over that of the channel
CHANCE = 50.0
FITTED = 99.0  # per cent: below it a network has not fitted its training samples as the paper's have
NULL = 1e-10  # a share of the largest eigenvalue below which nothing is left
LEARNT = 5.0  # points above chance below which a first accuracy is no yardstick for the others
R = TypeVar("R")


class CurveName(NamedTuple):
    """Where a curve is drawn: a panel of the figure and a line in it, such as "LeNet" and "linear"."""

    panel: str
    line: str

    def __str__(self) -> str:
        return f"{self.panel}, {self.line}"


Judged = tuple[Claim, tuple[CurveName, ...]]  # a claim and the curves whose seeds can decide it


# --- configurations -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class PlantedConfig(SeededConfig):
    """What all four figures have to know."""

    tests: int
    training: Mapping[str, Any]  # settings, in figures 4 and 10 by network
    members: int | None  # networks behind G where it is sampled
    variant: str = "both"  # sinusoidal labels on isotropic data: "text" sin(x·u), "code" sin(π α), or "both"

    def __post_init__(self) -> None:
        if self.variant not in VARIANTS:
            raise NetgrainError(f"variant expects one of {', '.join(VARIANTS)}, got {self.variant!r}.")

    @property
    def isotropic_lines(self) -> tuple[str, ...]:
        return VARIANTS[self.variant]


@dataclass(frozen=True, kw_only=True)
class NetworksConfig(PlantedConfig):
    """Figures 4 and 10: several networks, each on all labellings."""

    width: float | None  # of ResNet18 and ViT; None: that of laptop scale
    samples: Mapping[str, int]  # network → training samples
    grids: Mapping[str, Sequence[Sequence[int]]]  # network → indices for linear, quadratic, sinusoidal labels
    steps: Mapping[str, Sequence[int]]  # network → steps for linear, quadratic, sinusoidal labels
    twins: bool = False  # compare G of narrow families with that at full width

    def settings(self, network: str, labels: Labels) -> dict[str, Any]:
        """How this network is trained on these labels."""
        return {**self.training[network], "steps": self.steps[network][LABELS.index(labels)]}


@dataclass(frozen=True, kw_only=True)
class OneNetworkConfig(PlantedConfig):
    """Figures 11 and 14: one network on the same indices throughout."""

    samples: int
    labels: Sequence[str]  # of the three
    indices: Sequence[int]
    steps: Mapping[str, int]  # labelling → steps

    @property
    def isotropic_lines(self) -> tuple[str, ...]:
        return tuple(line for line in VARIANTS[self.variant] if kind_of(line) in self.labels)


# 10,000 samples in batches of 128 are 78 steps an epoch: in the authors' code 30 epochs, LeNet 50, sinusoidal labels 50
TWENTY, THIRTY, FIFTY = 20 * 78, 30 * 78, 50 * 78
PAPER_TRAINING = {"momentum": 0.0, "clip": 0.5, "batch": 128, "decay": "linear"}


def smoke_scale(networks: Sequence[str]) -> dict[str, Any]:
    """Figures 4 and 10 as small as they can be."""
    return {
        "size": 16, "width": 1 / 32, "samples": dict.fromkeys(networks, 64), "tests": 64,
        "grids": dict.fromkeys(networks, (ENDS,) * 3),
        "training": {key: {"lr": 0.1, "batch": 32, "decay": "linear"} for key in networks},
        "steps": dict.fromkeys(networks, (3, 3, 3)),
        "seeds": 2, "most_seeds": 2, "members": 4,
    }  # fmt: skip


def paper_scale(networks: Sequence[str]) -> dict[str, Any]:
    """Figures 4 and 10 with the settings of the paper."""
    return {
        "size": 32, "width": 1.0, "samples": dict.fromkeys(networks, 10_000), "tests": 10_000,
        "grids": dict.fromkeys(networks, (GRID,) * 3),
        "training": {key: {"lr": 0.5, **PAPER_TRAINING} for key in networks},
        "steps": {n: (FIFTY if n == "LeNet" else THIRTY,) * 2 + (FIFTY,) for n in networks},
        "seeds": 5, "most_seeds": 5, "members": 10_000, "device": "best",
    }  # fmt: skip


# --- trainings ----------------------------------------------------------------------------------------------------


def grid(wanted: Sequence[int], d: int, *, within: int | None = None) -> tuple[int, ...]:
    """The indices that exist in d dimensions (below `within`, where that is given) and the last one, asked for as −1.

    >>> grid((0, 10, 240, -1), 200)
    (0, 10, 199)
    >>> grid((0, 10, 120, -1), 200, within=61)
    (0, 10, 199)
    """
    return tuple(sorted({d - 1 if i == -1 else i for i in wanted if i < (within or d)}))


def room(grain: Grain, images: str) -> int:
    """How many eigenvectors of G S G there are to ask about: digits have 64 pixels, beyond their rank nothing is left.

    Photographs fill the space, so there all of it counts, as in the paper.
    """
    if images != "digits":
        return len(grain.values)
    return int((grain.values > NULL * grain.values[0]).sum())


def epsilon(labels: str, network: str) -> float:
    """Size of the labelled coordinate on isotropic data: the values of the paper's figure 10."""
    if labels == "sinusoidal":
        return 5.0 if network in ("ResNet18", "ViT") else 2.1
    return {"linear": 0.9, "quadratic": 2.0}[labels]


@dataclass(frozen=True)
class PlantedCurve:
    """One curve before it is known: what its trainings have in common, and the indices it is asked about."""

    shared: Mapping[str, Any]
    indices: Sequence[int]

    def units(self, seed: int) -> list[dict[str, Any]]:
        return [{**self.shared, "index": int(index), "seed": seed} for index in self.indices]


@dataclass(frozen=True, eq=False)
class AccuracyCurve:
    """Test and train accuracy in per cent, one row per seed, one column per index."""

    indices: list[int]
    values: list[float]  # eigenvalues over the largest
    accuracy: dict[int, list[float]]  # seed → one number per index
    train: dict[int, list[float]]
    ceiling: dict[int, list[float]]  # what the planted rule itself scores: 100 without label noise
    left_out: int  # seeds in which a training diverged
    difficulty: dict[int, list[float]] = field(
        default_factory=dict
    )  # of the training set, from the reaction that an audit measures
    distance: dict[int, list[float]] = field(default_factory=dict)  # ‖θ_t − θ_0‖ at the end of training
    spread: dict[int, list[float]] = field(default_factory=dict)  # radians: standard deviation inside a sine
    to_fit: bool = True  # the paper's networks fit their training samples


def kind_of(line: str) -> Labels:
    """The labelling of a line, of which sinusoidal ones have variants.

    >>> kind_of("sinusoidal, code")
    'sinusoidal'
    """
    return next(labels for labels in LABELS if line.startswith(labels))


def planted_curve(
    config: PlantedConfig,
    line: str,
    model: Mapping[str, Any],
    grain: Grain,
    *,
    about: Mapping[str, Any],
    indices: Sequence[int],
    samples: int,
    settings: Mapping[str, Any],
    images: Mapping[str, Any] | None = None,
    scale: float | None = None,
    audited: bool = False,
) -> PlantedCurve:
    """A curve on isotropic noise, or on images (arguments of `pictures`) with label noise.

    about: the name of the grain, and what determines it beside the members. settings: of training. scale: radians of
    the line of scaled sinusoidal labels on images. audited: also measure how difficult the training set is.
    """
    labels = kind_of(line)
    data: dict[str, Any] = {"images": images, "label_noise": LABEL_NOISE, "scale": scale if line == SCALED else None}
    if images is None:
        data = {"epsilon": epsilon(labels, model["network"]), "frequency": math.pi if line == CODE else None}
    shared = {
        "planted": labels,
        "model": dict(model),
        "data": data,
        "samples": samples,
        "training": dict(settings),
        "grain": {"members": config.members, **about},
        "audited": audited,
        **config.some("tests", "device"),
    }
    within = None if images is None else room(grain, images["name"])
    return PlantedCurve(shared, grid(indices, len(grain.values), within=within))


def models_of(
    config: NetworksConfig, networks: Sequence[str], shape: Sequence[int], *, normed: bool = False
) -> dict[str, dict[str, Any]]:
    """The networks of figures 4 and 10, of which ResNet18 and ViT may be narrow."""
    widths = {n: config.width if n in ("ResNet18", "ViT") else 1.0 for n in networks}
    return {n: model_config(n, shape, activation="gelu", normed=normed, width=widths[n]) for n in networks}


def curves_by_network(
    config: NetworksConfig,
    models: Mapping[str, Mapping[str, Any]],
    grains: Mapping[str, Grain],
    *,
    lines: Sequence[str],
    images: Mapping[str, Any] | None = None,
    scales: Mapping[str, float] | None = None,
    audited: Collection[str] = (),
) -> dict[CurveName, PlantedCurve]:
    """The curves of figures 4 and 10: a panel for each network, a line for each labelling and its variants."""
    return {
        CurveName(n, line): planted_curve(
            config,
            line,
            models[n],
            grains[n],
            about={"name": n} if images is None else {"name": n, "images": images},
            indices=config.grids[n][LABELS.index(kind_of(line))],
            samples=config.samples[n],
            settings=config.settings(n, kind_of(line)),
            images=images,
            scale=(scales or {}).get(n),
            audited=n in audited,
        )
        for n in models
        for line in lines
    }


def twins_of(grains: Mapping[str, Grain]) -> dict[str, Estimate]:
    """Corr(G narrow, G full) of the narrow networks that were compared."""
    return {n: g.twin for n, g in grains.items() if g.twin is not None}


def train_curves(
    runner: Runner,
    config: PlantedConfig,
    cells: Mapping[CurveName, PlantedCurve],
    grains: Mapping[str, Grain],
    result: Callable[[dict[CurveName, AccuracyCurve]], R],
    judged: Callable[[R], Iterable[Judged]],
) -> R:
    """Train the networks of every curve, with more seeds for those on which an undecided claim depends."""
    known: dict[CurveName, AccuracyCurve] = {}

    def collect(trials: Mapping[CurveName, Trials]) -> R:
        known.update({name: curve(cells[name].indices, t) for name, t in trials.items()})
        return result(dict(known))

    def undecided(found: R) -> set[CurveName]:
        open_ = {name for c, names in judged(found) if c.verdict == UNDECIDED for name in names}
        # where not even the first index is learnt, more seeds decide nothing
        return {name for name in open_ if not unlearnt(known[name])}

    return until_decided(
        runner,
        functools.partial(train_one, grains),
        lambda name, seed: cells[name].units(seed),
        config.seeds_of(cells),
        result=collect,
        undecided=undecided,
        images=next((c.shared["data"]["images"] for c in cells.values() if "images" in c.shared["data"]), None),
    )


def curve(indices: Sequence[int], trials: Trials) -> AccuracyCurve:
    """What the trainings of a curve found."""
    return AccuracyCurve(
        list(indices),
        [o.numbers["eigenvalue"] for o in trials.rows[0]],
        trials.per_cent("accuracy"),
        trials.per_cent("train_accuracy"),
        trials.per_cent("ceiling"),
        trials.left_out,
        difficulty=_by_seed(trials, "difficulty"),
        distance=_by_seed(trials, "distance"),
        spread=_by_seed(trials, "spread"),
    )


def _by_seed(trials: Trials, name: str) -> dict[int, list[float]]:
    """A number of every unit, NaN where there is none."""
    known = {seed: [o.numbers.get(name) for o in row] for seed, row in trials.kept.items()}
    return {seed: [math.nan if value is None else float(value) for value in row] for seed, row in known.items()}


def train_one(grains: Mapping[str, Grain], unit: Mapping[str, Any]) -> Outcome:
    """Train one network on labels along one direction."""
    grain, index = grains[unit["grain"]["name"]], unit["index"]
    eigenvalue = max(float(grain.values[index]), 0.0) / float(grain.values[0])
    train, test, ceiling = samples(grain, unit)
    found = trained_accuracy(
        unit, train.X, train.labels, Settings(**unit["training"]), {"accuracy": (test.X, test.labels)}
    )
    found["train_accuracy"] = found.pop("train")
    found["ceiling"] = None if found["diverged"] else ceiling
    found["spread"] = spread(unit, train, grain.direction(index, unit["seed"]))
    if unit["audited"]:
        hard = difficulty(grain.axes(), train.X, train.labels, seed=unit["seed"])
        found["difficulty"] = None if math.isnan(hard) else hard
    return Outcome({"index": index, "eigenvalue": eigenvalue, **found})


def samples(grain: Grain, unit: Mapping[str, Any]) -> tuple[Dataset, Dataset, float]:
    """Training and test set of a unit, and the accuracy of the planted rule itself on the test set."""
    u, seed, data, labels = grain.direction(unit["index"], unit["seed"]), unit["seed"], unit["data"], unit["planted"]
    if "images" not in data:
        train, test = (
            isotropic(u, unit[part], labels=labels, seed=derived_seed(seed, "planted", part), **data)
            for part in ("samples", "tests")
        )
        return train, test, 1.0
    split = pictures(**data["images"])
    X, others = (
        part[drawn(part, n, seed, "images of the pool")]
        for part, n in ((split.train.X, unit["samples"]), (split.test.X, unit["tests"]))
    )
    rule = functools.partial(planted, labels=labels, seed=derived_seed(seed, "label noise"))
    if data["scale"] is not None:
        rule = functools.partial(rule, scale=data["scale"])
    noise = data["label_noise"]
    test = rule(others, u, label_noise=noise, reference=X)
    clean = rule(others, u, label_noise=0.0, reference=X)
    return rule(X, u, label_noise=noise), test, float((clean.labels == test.labels).double().mean())


def spread(unit: Mapping[str, Any], train: Dataset, u: Tensor) -> float | None:
    """Standard deviation of what the sine of sinusoidal labels is taken of, in radians; None for other labels."""
    if unit["planted"] != "sinusoidal":
        return None
    data = unit["data"]
    if "images" in data:
        return phase_spread(train.X, u) if data["scale"] is None else float(data["scale"])
    return float(data["epsilon"] if data["frequency"] is None else data["frequency"])


# --- what a curve says about itself -------------------------------------------------------------------------------


def unlearnt(curve: AccuracyCurve) -> str:
    """A word of warning where not even the first index is learnt."""
    first = mean([row[0] for row in curve.accuracy.values()])
    return f"accuracy {first.value:.1f} % at the first index: not learnt" if first < CHANCE + LEARNT else ""
