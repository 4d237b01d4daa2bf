"""Predicted and reached accuracy: what is told before training, on many tasks and networks, and what training gives.

Predictions see the training samples alone, and nothing of what training gives. Every network is trained with AdamW
until it fits or stands still, at the best of several rates (compared on one seed by validation accuracy, with more
rates while the best is at the edge), and tested on samples that nobody saw. Cost: smoke some seconds, laptop 40 minutes
on the tuning tasks, overnight six hours on two cores for the verdict tasks, which are run once.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from netgrain.experiments.claims import Claim
from netgrain.experiments.learnability.agreement import as_array, fixed_ranking
from netgrain.experiments.learnability.networks import NETWORKS, family
from netgrain.experiments.learnability.pairs import Pairs
from netgrain.experiments.learnability.predictors import (
    COMBINED,
    OURS,
    SAYS,
    combined_of,
    pair_predictions,
    task_predictions,
)
from netgrain.experiments.learnability.reaching import Recipe
from netgrain.experiments.learnability.tasks import PARTS, Task, named, of_part, problem_with, task_data
from netgrain.experiments.learnability.trainings import training_outcome
from netgrain.experiments.learnability.verdicts import verdicts
from netgrain.runtime.errors import GrainWarning, NetgrainError, known_name
from netgrain.runtime.runners import Runner
from netgrain.runtime.threads import one_thread
from netgrain.runtime.units import Outcome

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COST = 4800  # processor seconds at laptop scale
RATES = (1e-3, 3.16e-3)  # to begin with
UNFITTED = 0.95  # training accuracy below it: the reached value may be too low


@dataclass(frozen=True)
class Config:
    part: str  # "tuning" or "verdict"
    networks: tuple[str, ...]
    seeds: int
    epochs: int
    patience: int = 10
    cooling: int = 3
    rates: tuple[float, ...] = RATES
    tasks: tuple[str, ...] = ()  # some of the part; empty: all
    samples: int | None = None  # at most so many to train with
    tests: int | None = None
    trial: bool = True  # whether predictions include the trial training

    def chosen(self) -> list[Task]:
        """The tasks, cut down to these sizes."""
        known_name("part", self.part, PARTS)
        tasks = [named(name) for name in self.tasks] or [
            t for part in PARTS if part == self.part for t in of_part(part)
        ]
        return [task.smaller(self.samples, self.tests) for task in tasks]


PRESETS = {
    "smoke": Config(
        part="tuning",
        networks=("linear", "MLP"),
        seeds=2,
        epochs=2,
        cooling=1,
        tasks=("digits", "Friedman"),
        samples=60,
        tests=60,
        trial=False,
    ),
    "laptop": Config(
        part="tuning", networks=("linear", "MLP", "LeNet", "ResNet", "ViT"), seeds=1, epochs=30, patience=5
    ),
    "overnight": Config(part="verdict", networks=tuple(NETWORKS), seeds=3, epochs=80),
}


@dataclass(frozen=True, eq=False)
class Result:
    """What figure and claims need."""

    config: Config
    pairs: Pairs
    skipped: dict[str, str]  # source → why it could not be read
    edges: int  # pairs whose best rate is the smallest or largest that is allowed

    @property
    def remarks(self) -> str:
        """What limits the values that were reached."""
        pairs = self.pairs
        total, unfitted = int(np.isfinite(pairs.reached).sum()), int((pairs.train < UNFITTED).sum())
        parts = [
            f"{len(pairs.tasks)} tasks, {total} pairs, {self.config.seeds} seeds",
            f"{unfitted} pairs with training accuracy below {UNFITTED:.0%}",
            f"{self.edges} with the best rate at the edge" if self.edges else "",
            f"left out for want of data: {', '.join(sorted(self.skipped))}" if self.skipped else "",
        ]
        return "; ".join(filter(None, parts))


def run(config: Config, runner: Runner) -> Result:
    tasks, skipped = _available(config, runner)
    networks = tuple(config.networks)
    pairs = [
        (t, n) for t in tasks for n in networks if NETWORKS[known_name("network", n, NETWORKS)].tables or not t.table
    ]
    recipe = {"epochs": config.epochs, "patience": config.patience, "cooling": config.cooling}
    searched = runner.map(
        _trained,
        [_unit("training", t, network=n, seed=0, rates=list(config.rates), **recipe) for t, n in pairs],
        "rates",
    )
    again = [
        _unit("training", t, network=n, seed=seed, rates=[found.numbers["rate"]], **recipe)
        for (t, n), found in zip(pairs, searched, strict=True)
        for seed in range(1, config.seeds)
    ]
    others = iter(runner.map(_trained, again, "trainings"))
    told = runner.map(_told, [_unit("prediction", t, network=n, trial=config.trial) for t, n in pairs], "predictions")
    plain = runner.map(_told_of_task, [_unit("task", t) for t in tasks], "tasks")
    trained = {
        (t.name, n): [found, *(next(others) for _ in range(1, config.seeds))]
        for (t, n), found in zip(pairs, searched, strict=True)
    }
    told_of = {(t.name, n): o.numbers for (t, n), o in zip(pairs, told, strict=True)}
    by_task = {t.name: o.numbers for t, o in zip(tasks, plain, strict=True)}
    return Result(
        config,
        _paired(tasks, networks, trained, told_of, by_task),
        skipped,
        edges=sum(bool(o.numbers["edge"]) for o in searched),
    )


def _available(config: Config, runner: Runner) -> tuple[list[Task], dict[str, str]]:
    """Tasks whose source is there, looked up once and kept; the others with the sentence that says why not."""
    tasks = config.chosen()
    sources = sorted({task.source for task in tasks})
    found = runner.map(_looked_for, [{"experiment": "validity", "source": s} for s in sources], "sources")
    skipped = {s: str(o.numbers["problem"]) for s, o in zip(sources, found, strict=True) if o.numbers["problem"]}
    kept = [task for task in tasks if task.source not in skipped]
    if not kept:
        raise NetgrainError(f"no task can be read: {'; '.join(skipped.values())}")
    for source, why in skipped.items():
        left = [task.name for task in tasks if task.source == source]
        warnings.warn(f"tasks on {source} are left out ({len(left)}): {why}", GrainWarning, stacklevel=2)
    return kept, skipped


def _unit(kind: str, task: Task, **values: Any) -> dict[str, Any]:
    return {"experiment": "validity", "kind": kind, "task": task.as_dict(), **values}


def _looked_for(unit: Mapping[str, Any]) -> Outcome:
    return Outcome({"problem": problem_with(unit["source"])})


@one_thread()
def _told(unit: Mapping[str, Any]) -> Outcome:
    data = task_data(Task(**unit["task"]))
    make = family(unit["network"], data.shape, data.outputs)
    return Outcome(pair_predictions(make, *data.train, trial=unit["trial"]))


@one_thread()
def _told_of_task(unit: Mapping[str, Any]) -> Outcome:
    return Outcome(dict(task_predictions(*task_data(Task(**unit["task"])).train)))


@one_thread()
def _trained(unit: Mapping[str, Any]) -> Outcome:
    """One seed of a network on a task, at the best of its rates; one rate is taken as it is."""
    data, recipe = task_data(Task(**unit["task"])), Recipe(unit["epochs"], unit["patience"], unit["cooling"])
    make = family(unit["network"], data.shape, data.outputs)
    return training_outcome(make, data, unit["rates"], recipe, seed=unit["seed"])


def _paired(
    tasks: Sequence[Task],
    networks: tuple[str, ...],
    trained: Mapping[tuple[str, str], Sequence[Outcome]],
    told: Mapping[tuple[str, str], Mapping[str, Any]],
    by_task: Mapping[str, Mapping[str, Any]],
) -> Pairs:
    """All outcomes as arrays (tasks, networks)."""

    def mean(task: Task, network: str, name: str) -> float:
        values = [o.numbers[name] for o in trained.get((task.name, network), ())]
        return math.nan if not values or None in values else sum(values) / len(values)

    def said(task: Task, network: str, name: str) -> float | None:
        numbers = told.get((task.name, network))
        if numbers is None:
            return None
        if name == COMBINED:
            return combined_of(numbers)
        found = by_task[task.name][name] if name in by_task[task.name] else numbers["numbers"].get(name)
        return None if found is None else float(found)

    reached = as_array([[mean(t, n, "test") for n in networks] for t in tasks])
    predicted = {name: as_array([[said(t, n, name) for n in networks] for t in tasks]) for name in SAYS}
    predicted["fixed ranking"] = fixed_ranking(reached)
    warned = [[(told.get((t.name, n)) or {}).get("warned") for n in networks] for t in tasks]
    right = {
        (t, j): np.stack([o.arrays["right"].numpy().astype(bool) for o in trained[task.name, n]])
        for t, task in enumerate(tasks)
        for j, n in enumerate(networks)
        if (task.name, n) in trained
    }
    train = as_array([[mean(t, n, "train") for n in networks] for t in tasks])
    return Pairs(tuple(tasks), networks, reached, right, train, predicted, as_array(warned))


def claims(result: Result) -> list[Claim]:
    return verdicts(result.pairs, result.remarks)


MARKERS = "osD^vPX*<>"


def figure(result: Result) -> Figure:
    from matplotlib.figure import Figure

    from netgrain.geometry.plots import COLOURS, LARGE, MARK, MEDIUM, SMALL

    pairs = result.pairs
    figure = Figure(figsize=(7.6, 5.4), layout="constrained")
    ax = figure.subplots()
    ax.plot([0, 100], [0, 100], color="#bbbbbb", lw=1, zorder=0)
    predicted = 100 * pairs.of(OURS)
    for j, network in enumerate(pairs.networks):
        colour, marker = COLOURS[j % len(COLOURS)], MARKERS[j % len(MARKERS)]
        ax.scatter(predicted[:, j], 100 * pairs.reached[:, j], s=26, marker=marker, color=colour, alpha=0.8,
                   label=network, linewidths=0)  # fmt: skip
    rung = pairs.warned == 1
    ax.scatter(predicted[rung], 100 * pairs.reached[rung], s=90, facecolors="none", edgecolors=MARK, linewidths=1.2,
               label="warned: features\nmust be learnt")  # fmt: skip
    low = 10 * math.floor(min(np.nanmin(predicted), 100 * np.nanmin(pairs.reached)) / 10)
    ax.set(xlim=(low, 101), ylim=(low, 101))
    ax.set_xlabel("accuracy predicted before training (%)", fontsize=MEDIUM)
    ax.set_ylabel("accuracy reached by training (%)", fontsize=MEDIUM)
    ax.tick_params(labelsize=SMALL)
    figure.legend(fontsize=SMALL, frameon=False, loc="outside right center")
    part = "verdict" if result.config.part == "verdict" else "tuning"
    count = int(np.isfinite(pairs.reached).sum())
    ax.set_title(f"{len(pairs.tasks)} {part} tasks, {len(pairs.networks)} networks, {count} pairs", fontsize=LARGE)
    return figure
