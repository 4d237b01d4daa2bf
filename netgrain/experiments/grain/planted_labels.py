"""What figures 4, 10, 11 and 14 share: labels planted along one direction of the grain, and how well they are learnt.

A cell is one curve of a figure: one network, one labelling, the eigenvectors it is asked about. Every seed of a cell
has fresh data, weights and label noise, and a fresh direction where an eigenvector is free inside its block. Seeds
leave a cell as wholes when one of their trainings diverged, since the points of a curve are compared seed by seed.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from netgrain.auditing.label_relevance import relevance
from netgrain.complexity.sweeps import spearman
from netgrain.data.dataset import Dataset
from netgrain.data.synthetic import isotropic, planted
from netgrain.experiments.claims import UNDECIDED, Claim, claim
from netgrain.experiments.grain import grains as _grain
from netgrain.experiments.grain.grains import Grain
from netgrain.geometry.estimate import Estimate, mean
from netgrain.runtime.randomness import derived_seed
from netgrain.runtime.run_folder import Runner
from netgrain.runtime.units import Outcome
from netgrain.training.loop import accuracy
from netgrain.training.settings import Settings
from netgrain.training.trained_members import train_member

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GRID = (0, 10, 20, 40, 60, 80, 120, 240, 480, -1)  # eigenvector indices of the paper-like grid; −1 is the last
LABELS = ("linear", "quadratic", "sinusoidal")
SHADES = {"linear": "#0072b2", "quadratic": "#d55e00", "sinusoidal": "#009e73"}
STYLES = {"linear": "o-", "quadratic": "s--", "sinusoidal": "^:"}
CHANCE = 50.0
NULL = 1e-10  # a share of the largest eigenvalue below which nothing is left
POSITIVE = 1e-9  # what is called positive is at least this: no difference at all is none
LEARNT = 5.0  # points above chance below which a first accuracy is no yardstick for the others

Judged = tuple[Claim, tuple[str, ...]]  # a claim and the cells whose seeds can decide it


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


# --- trainings ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PlantedCurve:
    """One curve: plain values, which become the units of its trainings."""

    network: str
    labels: str
    model: Mapping[str, Any]
    data: Mapping[str, Any]  # {"epsilon": …} for isotropic data, {"images": …, "label_noise": …} for images
    indices: Sequence[int]
    settings: Mapping[str, Any]  # of training
    samples: int
    tests: int
    grain: str = ""  # name of the grain its directions come from (default: the network)
    about: Mapping[str, Any] = field(default_factory=dict)  # what else determines that grain
    audited: bool = False  # also ask an audit how difficult the training set is


@dataclass(frozen=True, eq=False)
class AccuracyCurve:
    """Test and train accuracy in per cent, one row per seed, one column per index."""

    indices: list[int]
    values: list[float]  # eigenvalues over the largest
    accuracy: dict[int, list[float]]  # seed → one number per index
    train: dict[int, list[float]]
    ceiling: dict[int, list[float]]  # what the planted rule itself scores: 100 without label noise
    left_out: int  # seeds in which a training diverged
    difficulty: dict[int, list[float]] = field(default_factory=dict)  # what an audit of the training set says


def units(cells: Mapping[str, PlantedCurve], seeds: Mapping[str, int], device: str) -> list[dict[str, Any]]:
    return [
        {
            "planted": cell.labels,
            "model": dict(cell.model),
            "data": dict(cell.data),
            "samples": cell.samples,
            "tests": cell.tests,
            "training": dict(cell.settings),
            "grain": {"name": cell.grain or cell.network, **cell.about},
            "index": int(index),
            "seed": seed,
            "device": device,
            "audited": cell.audited,
        }
        for name, cell in cells.items()
        for seed in range(seeds[name])
        for index in cell.indices
    ]


def curves(
    runner: Runner,
    cells: Mapping[str, PlantedCurve],
    grains: Mapping[str, Grain],
    *,
    seeds: int,
    most: int,
    device: str,
    judge: Callable[[dict[str, AccuracyCurve]], Iterable[Judged]],
    step: int = 1,
) -> dict[str, AccuracyCurve]:
    """Train every cell, with more seeds for those on which an undecided claim depends."""
    work = functools.partial(train_one, grains)

    def collect(count: Mapping[str, int]) -> dict[str, AccuracyCurve]:
        asked = units(cells, count, device)
        if not runner.has(asked):
            for images in (c.data["images"] for c in cells.values() if "images" in c.data):
                _grain.pictures(**images)  # read before workers are forked
        found = iter(runner.map(work, asked, "trainings"))
        return {
            name: curve(cell, [[next(found).numbers for _ in cell.indices] for _ in range(count[name])])
            for name, cell in cells.items()
        }

    def undecided(found: dict[str, AccuracyCurve]) -> set[str]:
        open_ = {name for c, names in judge(found) if c.verdict == UNDECIDED for name in names}
        # where not even the first index is learnt, more seeds decide nothing
        return {name for name in open_ if not unlearnt(found[name])}

    return _grain.until_decided(
        runner,
        cells,
        seeds=seeds,
        most=most,
        units=lambda count: units(cells, count, device),
        collect=collect,
        undecided=undecided,
        step=step,
    )


def curve(cell: PlantedCurve, rows: Sequence[Sequence[Mapping[str, Any]]]) -> AccuracyCurve:
    """The numbers of a cell's units, rows of seeds, as one curve."""
    kept = {seed: row for seed, row in enumerate(rows) if not any(n["diverged"] for n in row)}
    some = rows[0]
    return AccuracyCurve(
        list(cell.indices),
        [n["eigenvalue"] for n in some],
        {seed: [100 * n["accuracy"] for n in row] for seed, row in kept.items()},
        {seed: [100 * n["train_accuracy"] for n in row] for seed, row in kept.items()},
        {seed: [100 * n["ceiling"] for n in row] for seed, row in kept.items()},
        len(rows) - len(kept),
        {seed: [_or_nan(n.get("difficulty")) for n in row] for seed, row in kept.items()},
    )


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value


def train_one(grains: Mapping[str, Grain], unit: Mapping[str, Any]) -> Outcome:
    """Train one network on labels along one direction."""
    grain, seed = grains[unit["grain"]["name"]], unit["seed"]
    top = float(grain.values[0])
    numbers: dict[str, Any] = {
        "index": unit["index"],
        "eigenvalue": max(float(grain.values[unit["index"]]), 0.0) / top,
        "diverged": False,
        "accuracy": None,
        "train_accuracy": None,
        "ceiling": None,
    }
    train, test, ceiling = samples(grain, unit)
    if unit["audited"]:
        found = relevance(grain.axes(), train.X, train.y, seed=seed).difficulty.value
        numbers["difficulty"] = None if math.isnan(found) else found
    make = _grain.make_of(unit["model"])
    place = _grain.place(unit["device"])
    trained = train_member(make, train.X, train.y, Settings(**unit["training"]), seed=seed, i=0, device=place)
    if trained.diverged:
        return Outcome({**numbers, "diverged": True})
    right = accuracy(trained.model(make).to(place), test.X, test.y)
    return Outcome({**numbers, "accuracy": right, "train_accuracy": trained.train_accuracy, "ceiling": ceiling})


def samples(grain: Grain, unit: Mapping[str, Any]) -> tuple[Dataset, Dataset, float]:
    """Training and test set of a unit, and the accuracy of the planted rule itself on the test set."""
    u, seed, data, labels = grain.direction(unit["index"], unit["seed"]), unit["seed"], unit["data"], unit["planted"]
    if "images" not in data:
        train, test = (
            isotropic(u, unit[part], labels=labels, epsilon=data["epsilon"], seed=derived_seed(seed, "planted", part))
            for part in ("samples", "tests")
        )
        return train, test, 1.0
    split = _grain.pictures(**data["images"])
    X, others = (_some(split.train.X, unit["samples"], seed), _some(split.test.X, unit["tests"], seed))
    rule = functools.partial(planted, labels=labels, seed=derived_seed(seed, "label noise"))
    noise = data["label_noise"]
    test = rule(others, u, label_noise=noise, reference=X)
    clean = rule(others, u, label_noise=0.0, reference=X)
    return rule(X, u, label_noise=noise), test, float((clean.y == test.y).double().mean())


def _some(X: Tensor, n: int, seed: int) -> Tensor:
    """n images of the pool, others for every seed."""
    generator = torch.Generator().manual_seed(derived_seed(seed, "images of the pool"))
    return X[torch.randperm(len(X), generator=generator)[:n]]


# --- what is claimed ----------------------------------------------------------------------------------------------


def note_of(curve: AccuracyCurve, *more: str) -> str:
    """What a reader must know beside the number."""
    left = f"{curve.left_out} diverged seeds left out" if curve.left_out else ""
    return "; ".join(filter(None, (left, *more)))


def unlearnt(curve: AccuracyCurve) -> str:
    """A word of warning where not even the first index is learnt."""
    first = mean([row[0] for row in curve.accuracy.values()])
    return f"accuracy {first.value:.1f} % at the first index: not learnt" if first < CHANCE + LEARNT else ""


def per_seed(curve: AccuracyCurve, number: Callable[[list[float]], float]) -> Estimate:
    """The mean over seeds of a number of one row of test accuracies; seeds in which it does not exist are dropped."""
    found = [number(row) for row in curve.accuracy.values()]
    return mean([x for x in found if not math.isnan(x)])


def drop(row: Sequence[float]) -> float:
    """Mean of the first two minus mean of the last three (of two in a row of four, of one in a shorter one).

    >>> drop([98, 96, 70, 52, 50, 51])
    46.0
    """
    last = max(1, min(3, len(row) - 2))
    return sum(row[:2]) / len(row[:2]) - sum(row[-last:]) / last


def order(curve: AccuracyCurve, row: Sequence[float]) -> float:
    """Rank correlation between eigenvalue and test accuracy; what counts as null is tied."""
    return spearman([0.0 if v < NULL * max(curve.values) else v for v in curve.values], row)


def remaining(indices: Sequence[int], row: Sequence[float], at: Iterable[int]) -> float:
    """How much of its first accuracy above chance a curve keeps on average at these indices; NaN where none is learnt.

    >>> remaining([0, 10, 20], [90, 70, 50], [0, 10, 20])
    0.5
    """
    if row[0] - CHANCE < LEARNT:
        return math.nan
    kept = [(row[indices.index(i)] - CHANCE) / (row[0] - CHANCE) for i in at]
    return sum(kept) / len(kept)


def falls(name: str, curve: AccuracyCurve, paper: str) -> Judged:
    """The drop of at least 30 points with an interval above 20."""
    value = per_seed(curve, drop)
    return claim(
        f"{name}: falls",
        "mean accuracy of the first two indices minus the last three is at least 30 points, its interval above 20",
        value,
        low=20 if value >= 30 else 30,
        paper=paper,
        note=note_of(curve, unlearnt(curve)),
    ), (name,)


def ordered(name: str, curve: AccuracyCurve, *, matrix: str, paper: str, low: float = POSITIVE) -> Judged:
    least = f"at least {low:g}" if low > POSITIVE else "positive"
    return claim(
        f"{name}: predicted order",
        f"rank correlation between eigenvalue of {matrix} and test accuracy is {least}",
        per_seed(curve, lambda row: order(curve, row)),
        low=low,
        paper=paper,
        note=note_of(curve),
    ), (name,)


def audited(name: str, curve: AccuracyCurve) -> Judged:
    """What an audit of the training set, which knows G and the samples but no training, says about accuracy."""
    rows = [
        spearman([-x for x in curve.difficulty[seed]], row)
        for seed, row in curve.accuracy.items()
        if not any(map(math.isnan, curve.difficulty.get(seed, [math.nan])))
    ]
    return claim(
        f"{name}: difficulty of the audit",
        "rank correlation between test accuracy and minus the difficulty that netgrain audit gives is positive",
        mean([r for r in rows if not math.isnan(r)]),
        low=POSITIVE,
        note=note_of(curve),
    ), (name,)


def narrow(twins: Mapping[str, Estimate]) -> list[Claim]:
    """A narrow family has the geometry of the full one."""
    statement = "Corr(G of the narrow family, G at full width) is at least 0.95"
    return [claim(f"{n}: narrow as full", statement, t, low=0.95, paper="full width") for n, t in twins.items()]


def fitted(name: str, curve: AccuracyCurve) -> Judged:
    """Train accuracy, mean over all indices of a seed."""
    return claim(
        f"{name}: training samples are fitted",
        "train accuracy is at least 99 %, mean over all indices",
        mean([sum(row) / len(row) for row in curve.train.values()]),
        low=99,
        paper="100 %",
        note=note_of(curve),
    ), (name,)


def sooner(network: str, linear: tuple[str, AccuracyCurve], harder: tuple[str, AccuracyCurve], labels: str) -> Judged:
    """Harder labels keep less of their first accuracy, at the indices both curves have."""
    a, b = linear[1], harder[1]
    at = [i for i in a.indices if i in b.indices and i != a.indices[0]]
    seeds = [s for s in a.accuracy if s in b.accuracy]
    pairs = [remaining(a.indices, a.accuracy[s], at) - remaining(b.indices, b.accuracy[s], at) for s in seeds]
    known = [p for p in pairs if not math.isnan(p)]
    lost = f"{len(pairs) - len(known)} seeds in which nothing was learnt at the first index" * (len(known) < len(pairs))
    left = f"{a.left_out + b.left_out} diverged seeds left out" * (a.left_out + b.left_out > 0)
    return claim(
        f"{network}, {labels}: falls sooner than linear",
        "share of the first accuracy above chance that is kept at the other indices: linear minus this is positive",
        mean(known),
        low=POSITIVE,
        paper="sharper for more complex labels",
        note="; ".join(filter(None, (lost, left))),
    ), ()  # told with the seeds there are: two curves would have to grow for it


def spaces(name: str, curve: AccuracyCurve, inside: Sequence[bool], *, paper: str, note: str = "") -> Judged:
    """Directions in the first of the two eigenspaces of a ViT's G (inside) against those in the second."""

    def gap(row: list[float]) -> float:
        a = [x for x, top in zip(row, inside, strict=True) if top]
        b = [x for x, top in zip(row, inside, strict=True) if not top]
        return sum(a) / len(a) - sum(b) / len(b) if a and b else math.nan

    return claim(
        f"{name}: first eigenspace",
        "mean accuracy in the first eigenspace of G minus that in the second is positive",
        per_seed(curve, gap),
        low=POSITIVE,
        paper=paper,
        note=note_of(curve, note),
    ), (name,)


def beyond_noise(name: str, curve: AccuracyCurve) -> Judged:
    """Label noise alone would make late directions harder, too: they are harder than that."""
    gaps = []
    for seed, row in curve.accuracy.items():
        missed = [best - found for best, found in zip(curve.ceiling[seed], row, strict=True)]
        gaps.append(-drop(missed))
    return claim(
        f"{name}: more than label noise",
        "points below what the planted rule itself scores: last three indices minus the first two is positive",
        mean(gaps),
        low=POSITIVE,
        paper="not looked at",
        note=note_of(curve),
    ), (name,)


# --- pictures -----------------------------------------------------------------------------------------------------


def draw(ax: Axes, curve: AccuracyCurve, *, label: str, colour: str, style: str = "o-", ceiling: bool = False) -> None:
    """Mean test accuracy against index with bars of one standard error (68 %)."""
    places = list(range(len(curve.indices)))
    rows = list(curve.accuracy.values())
    if not rows:
        return
    points = [mean([row[k] for row in rows]) for k in places]
    bars = [0.0 if math.isnan(p.stderr) else p.stderr for p in points]
    x = [i + 1 for i in curve.indices]
    ax.errorbar(x, [p.value for p in points], yerr=bars, fmt=style, color=colour, ms=4, lw=1.4, capsize=2, label=label)
    if ceiling:
        best = [mean([row[k] for row in curve.ceiling.values()]).value for k in places]
        ax.plot(x, best, color="#444444", lw=0.8, ls=(0, (1, 2)), label="the rule itself, under label noise")


def finish(ax: Axes, title: str, *, matrix: str, indices: Iterable[int]) -> None:
    """Axes as all these figures have them: logarithmic index (counted from one), chance, the ticks of the grid."""
    ticks = sorted(set(indices))
    ax.axhline(CHANCE, color="#888888", lw=0.8, ls="--")
    ax.set_xscale("log")
    shown = [i for k, i in enumerate(ticks) if k == 0 or (i + 1) / (ticks[k - 1] + 1) > 1.25]
    ax.set_xticks([i + 1 for i in shown], [str(i) for i in shown], fontsize=8)
    ax.set_xticks([], minor=True)
    ax.set_ylim(40, 102)
    ax.set_title(title, fontsize=10.5)
    ax.set_xlabel(f"index of the eigenvector of {matrix}")
