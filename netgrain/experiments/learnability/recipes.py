"""Recipes of training: how far augmentation and SGD move what is reached with AdamW.

The accuracies of `validity`, and so the error of every prediction, are those of AdamW without augmentation. Here the
same networks are trained on the same samples with shifted (and, on CIFAR, mirrored) images, and with SGD and momentum.
Every recipe has the best rate of its own grid. Cost: smoke some seconds, laptop seven minutes on one core.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from netgrain.experiments.claims import Claim, claim
from netgrain.experiments.learnability.agreement import seed_variance
from netgrain.experiments.learnability.networks import family
from netgrain.experiments.learnability.pairs import Right
from netgrain.experiments.learnability.reaching import LARGEST, SMALLEST, AdamW, Momentum, Optimizer, Recipe
from netgrain.experiments.learnability.tasks import Task, TaskData, named, task_data
from netgrain.experiments.learnability.trainings import training_outcome
from netgrain.experiments.learnability.transformations import shifted
from netgrain.geometry.estimate import Estimate, mean
from netgrain.learning.prediction_errors import track_record
from netgrain.runtime.errors import known_name
from netgrain.runtime.randomness import generator_for
from netgrain.runtime.runners import Runner
from netgrain.runtime.threads import one_thread
from netgrain.runtime.units import Outcome

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COST = 400  # processor seconds at laptop scale
BOUND = 3.0  # points: the median error that `validity` allows a prediction
SHIFT = 2  # pixels
MIRRORED = ("cifar10",)  # sources whose images mean the same in a mirror
REFERENCE = "AdamW"
FIXED = "tasks, networks, grids, epochs and the bound were fixed before the run; tuning tasks"
UNFITTED = 0.95


@dataclass(frozen=True)
class TrainingRecipe:
    """A row of the table: optimiser, rates to begin with and their limits, and whether images are augmented."""

    says: str
    optimizer: Callable[[Sequence[Tensor]], Optimizer] = AdamW
    rates: tuple[float, ...] = (1e-3, 3.16e-3)
    limits: tuple[float, float] = (SMALLEST, LARGEST)
    augmented: bool = False


RECIPES: dict[str, TrainingRecipe] = {
    REFERENCE: TrainingRecipe("AdamW, as in validity"),
    "augmentation": TrainingRecipe("AdamW with shifted and mirrored images", augmented=True),
    "SGD": TrainingRecipe("SGD with momentum 0.9", Momentum, (1e-2, 3.16e-2), (1e-4, 10.0)),
}


@dataclass(frozen=True)
class Config:
    tasks: tuple[str, ...]
    networks: tuple[str, ...]
    seeds: int
    epochs: int
    patience: int = 5
    cooling: int = 3
    samples: int | None = None  # at most so many to train with
    tests: int | None = None


PRESETS = {
    "smoke": Config(("digits", "textures"), ("LeNet",), seeds=2, epochs=1, cooling=1, samples=100, tests=60),
    "laptop": Config(("MNIST", "CIFAR animal/vehicle", "textures"), ("LeNet", "ResNet"), seeds=2, epochs=30),
    "overnight": Config(
        ("MNIST", "MNIST, noisy", "CIFAR animal/vehicle", "CIFAR cat/dog", "CIFAR, ten classes", "textures"),
        ("MLP", "LeNet", "ResNet", "ViT"),
        seeds=3,
        epochs=80,
        patience=10,
    ),
}

Pair = tuple[str, str]  # task and network


@dataclass(frozen=True, eq=False)
class Result:
    """Which tests every seed gets right, by task, network and recipe."""

    config: Config
    right: dict[tuple[str, str, str], Right]  # (seeds, tests) each
    trained: dict[tuple[str, str, str], list[dict[str, Any]]]  # numbers of every seed

    @property
    def pairs(self) -> list[Pair]:
        return list(product(self.config.tasks, self.config.networks))

    def reached(self, pair: Pair, recipe: str) -> float:
        """Test accuracy in points, mean over seeds."""
        return 100 * float(self.right[*pair, recipe].mean())

    def difference(self, pair: Pair, recipe: str) -> Estimate:
        """Accuracy with a recipe minus that with AdamW, in points, on the same tests.

        Its variance is that over tests and that over seeds; the latter is pooled over recipes, because two seeds alone
        say little.
        """
        one, reference = self.right[*pair, recipe], self.right[*pair, REFERENCE]
        by_test = one.mean(0) - reference.mean(0)
        pooled = [seed_variance(self.right[*pair, name]) for name in RECIPES]
        variance = float(by_test.var(ddof=1)) / len(by_test) + 2 * math.fsum(pooled) / len(pooled)
        return Estimate(100 * float(by_test.mean()), 100 * math.sqrt(variance), len(by_test))

    def spread(self, recipes: Sequence[str]) -> Estimate:
        """Root mean square of the differences of some recipes in points, without what their own errors add.

        The error is upwards: the mean square may be larger by its own standard error over pairs of task and network.
        """
        squares = []
        for pair in self.pairs:
            found = [self.difference(pair, recipe) for recipe in recipes]
            squares.append(math.fsum(float(d) ** 2 - d.stderr**2 for d in found) / len(found))
        square = mean(squares)
        least = max(float(square), 0.0)
        return Estimate(math.sqrt(least), math.sqrt(least + square.stderr) - math.sqrt(least), len(squares))

    def note(self, pair: Pair, recipe: str) -> str:
        """What was reached, at which rate, and what limits it."""
        runs, reference = self.trained[*pair, recipe], self.trained[*pair, REFERENCE]
        train = [r["train"] or 0.0 for r in runs]
        parts = [
            f"{self.reached(pair, recipe):.1f} against {self.reached(pair, REFERENCE):.1f}",
            f"rates {runs[0]['rate']:g} and {reference[0]['rate']:g}",
            "the best rate is at the edge" if runs[0]["edge"] or reference[0]["edge"] else "",
            f"training accuracy {np.mean(train):.0%}" if np.mean(train) < UNFITTED else "",
        ]
        return "; ".join(filter(None, parts))


def run(config: Config, runner: Runner) -> Result:
    tasks = {name: named(name).smaller(config.samples, config.tests) for name in config.tasks}
    cells = [(t, n, r) for t in config.tasks for n in config.networks for r in RECIPES]

    def unit(cell: tuple[str, str, str], seed: int, rates: Sequence[float]) -> dict[str, Any]:
        task, network, recipe = cell
        how = {"epochs": config.epochs, "patience": config.patience, "cooling": config.cooling, "rates": list(rates)}
        row = tasks[task].as_dict()
        return {"experiment": "recipes", "task": row, "network": network, "recipe": recipe, "seed": seed, **how}

    searched = runner.map(_trained, [unit(cell, 0, RECIPES[cell[2]].rates) for cell in cells], "rates")
    again = [
        unit(cell, seed, [first.numbers["rate"]])
        for cell, first in zip(cells, searched, strict=True)
        for seed in range(1, config.seeds)
    ]
    others = iter(runner.map(_trained, again, "trainings"))
    found = {
        cell: [first, *(next(others) for _ in range(1, config.seeds))]
        for cell, first in zip(cells, searched, strict=True)
    }
    right = {
        cell: np.stack([o.arrays["right"].numpy().astype(bool) for o in outcomes]) for cell, outcomes in found.items()
    }
    return Result(config, right, {cell: [o.numbers for o in outcomes] for cell, outcomes in found.items()})


@one_thread()
def _trained(unit: Mapping[str, Any]) -> Outcome:
    task = Task(**unit["task"])
    data, row = task_data(task), RECIPES[known_name("recipe", unit["recipe"], RECIPES)]
    return training_outcome(
        family(unit["network"], data.shape, data.outputs),
        data,
        unit["rates"],
        Recipe(unit["epochs"], unit["patience"], unit["cooling"]),
        seed=unit["seed"],
        optimizer=row.optimizer,
        augment=augmentation(task, data) if row.augmented else None,
        limits=row.limits,
    )


def augmentation(task: Task, data: TaskData) -> Callable[[Tensor, tuple[int, int, int]], Tensor]:
    """What is done to the batches of a task: shifts, and mirrors where they leave the label alone."""
    return partial(augmented, zero=data.zero, mirrored=task.source in MIRRORED)


def augmented(X: Tensor, number: tuple[int, int, int], *, zero: Tensor, mirrored: bool) -> Tensor:
    """Images (batch, channels, size, size) shifted by up to two pixels, every other one mirrored by chance.

    number: seed, epoch and step, which are all that chance depends on. zero: what comes in at the edge.
    """
    generator = generator_for(number[0], "augmentation", *number[1:])
    moved, _ = shifted(X - zero, X, SHIFT, generator)
    if mirrored:
        flips = generator_for(number[0], "mirrors", *number[1:])
        turned = Tensor.new_empty(X, len(X)).bernoulli_(0.5, generator=flips).bool()
        moved = moved.where(~turned[:, None, None, None], moved.flip(3))
    return moved + zero


def claims(result: Result) -> list[Claim]:
    others = [name for name in RECIPES if name != REFERENCE]
    out = [
        claim(
            f"{recipe} minus {REFERENCE}, in points of accuracy",
            f"between −{BOUND:g} and {BOUND:g}",
            result.difference(pair, recipe),
            low=-BOUND,
            high=BOUND,
            subject=", ".join(pair),
            note=f"{result.note(pair, recipe)}; {FIXED}",
        )
        for recipe in others
        for pair in result.pairs
    ]
    for recipe in others:
        out.append(
            claim(
                f"{recipe} minus {REFERENCE}, mean over tasks and networks",
                f"between −{BOUND:g} and {BOUND:g} points",
                mean([float(result.difference(pair, recipe)) for pair in result.pairs]),
                low=-BOUND,
                high=BOUND,
                note=FIXED,
            )
        )
    model = 100 * track_record().kernel.standard
    for subject, some in [*((recipe, [recipe]) for recipe in others), ("both", others)]:
        out.append(
            claim(
                "spread over tasks and networks, in points",
                f"at most {model:.2g}, the model error of a prediction by kernels",
                result.spread(some),
                high=model,
                subject=subject,
                note=f"root mean square of the differences, without what their own errors add; {FIXED}",
            )
        )
    return out


def figure(result: Result) -> Figure:
    from matplotlib.figure import Figure

    from netgrain.geometry.plots import COLOURS, LARGE, MEDIUM, SMALL

    figure = Figure(figsize=(7.0, 1.4 + 0.45 * len(result.pairs)), layout="constrained")
    ax = figure.subplots()
    ax.axvline(0, color="#bbbbbb", lw=1, zorder=0)
    ax.axvspan(-BOUND, BOUND, color="#f2f2f2", zorder=-1)
    others = [name for name in RECIPES if name != REFERENCE]
    for j, recipe in enumerate(others):
        found = [result.difference(pair, recipe) for pair in result.pairs]
        rows = np.arange(len(found)) + 0.2 * (j - 0.5)
        ax.errorbar([float(d) for d in found], rows, xerr=[1.96 * d.stderr for d in found], fmt="o", ms=4,
                    color=COLOURS[j], label=RECIPES[recipe].says)  # fmt: skip
    ax.set_yticks(range(len(result.pairs)), [f"{task}, {network}" for task, network in result.pairs], fontsize=SMALL)
    ax.invert_yaxis()
    ax.tick_params(labelsize=SMALL)
    ax.set_xlabel("points of accuracy more than with AdamW (95 % intervals)", fontsize=MEDIUM)
    figure.legend(fontsize=SMALL, frameon=False, loc="outside lower center", ncols=2)
    ax.set_title("What another recipe changes", fontsize=LARGE)
    return figure
