"""A pretrained network is a family of one: predicted and reached accuracy on classes it was not trained on.

A network is trained on five classes of CIFAR-10. What it will reach on the other five is predicted from a few hundred
samples, and compared with a linear head trained on its frozen features and with training all of its weights further.
Beside it stand the prediction for fresh networks of the family and what one of them reaches. Cost: smoke some seconds,
laptop ten minutes on one core.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from netgrain.experiments.claims import Claim, claim
from netgrain.experiments.learnability.networks import family
from netgrain.experiments.learnability.reaching import AT_ONCE, Recipe, train_until
from netgrain.experiments.learnability.tasks import Task, TaskData, task_data
from netgrain.experiments.learnability.trainings import training_outcome
from netgrain.families.members import Family, member
from netgrain.geometry.estimate import Estimate, mean
from netgrain.learning.layer_features import last_features
from netgrain.learning.predictions import learnability
from netgrain.runtime.errors import known_name
from netgrain.runtime.runners import Runner
from netgrain.runtime.threads import one_thread
from netgrain.runtime.units import Outcome
from netgrain.training.checks import evaluating

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COST = 590  # processor seconds at laptop scale
SPLITS: dict[str, tuple[int, ...]] = {
    "first": (0, 1, 2, 3, 4),
    "even": (0, 2, 4, 6, 8),
    "animals": (2, 3, 4, 5, 6),
    "mixed": (0, 3, 5, 6, 9),
}  # classes that a network is pretrained on; those of the task are the other five
RATE = 3.16e-3  # of the pretraining
RATES = (1e-3, 3.16e-3)  # of trainings on the task, to begin with
HEAD, TUNED, SCRATCH = "linear head", "fine-tuned", "from scratch"
BOUND, TUNED_BOUND = 3.0, 6.0  # points
FIXED = "splits, networks, sizes, trainings and the bound were fixed before the run; images of tuning tasks"
NORMAL_90 = 1.645


@dataclass(frozen=True)
class Config:
    source: str
    networks: tuple[str, ...]
    splits: tuple[str, ...]
    before: int  # samples of the pretraining
    samples: int  # of the task
    validation: int
    tests: int
    seeds: int
    pretraining: int  # its epochs
    epochs: int
    patience: int = 5
    cooling: int = 3


PRESETS = {
    "smoke": Config("digits", ("LeNet",), ("first", "even"), before=100, samples=60, validation=30, tests=40, seeds=2,
                    pretraining=1, epochs=1, cooling=1),
    "laptop": Config("cifar10", ("LeNet", "ResNet"), tuple(SPLITS), before=5000, samples=600, validation=300,
                     tests=2000, seeds=2, pretraining=8, epochs=30),
    "overnight": Config("cifar10", ("LeNet", "ResNet", "ViT"), tuple(SPLITS), before=6000, samples=1000, validation=400,
                        tests=2000, seeds=3, pretraining=30, epochs=80, patience=10),
}  # fmt: skip

Case = tuple[str, str]  # split and network


@dataclass(frozen=True, eq=False)
class Result:
    """Predictions and what was reached, by split and network."""

    config: Config
    told: dict[tuple[str, str, bool], dict[str, Any]]  # by case and whether for the pretrained network
    reached: dict[tuple[str, str, str], list[dict[str, Any]]]  # by case and way, numbers of every seed
    before: dict[Case, dict[str, Any]]  # the pretraining

    @property
    def cases(self) -> list[Case]:
        return list(product(self.config.splits, self.config.networks))

    def predicted(self, case: Case, *, given: bool = True) -> Estimate:
        """Predicted accuracy in points, with its whole error."""
        found = self.told[*case, given]
        return Estimate(100 * found["score"], 100 * found["error"], self.config.samples)

    def accuracy(self, case: Case, way: str) -> Estimate:
        """Test accuracy in points, mean over seeds; its error is of tests and seeds."""
        found = [run["test"] for run in self.reached[*case, way]]
        over_seeds = mean(found)
        a = float(over_seeds)
        variance = a * (1 - a) / self.config.tests + (over_seeds.stderr**2 if len(found) > 1 else 0.0)
        return Estimate(100 * a, 100 * math.sqrt(variance), self.config.tests)

    def errors(self, way: str, *, given: bool = True) -> list[float]:
        """Predicted minus reached in points, case by case."""
        return [float(self.predicted(c, given=given)) - float(self.accuracy(c, way)) for c in self.cases]

    def covered(self, way: str) -> Estimate:
        """Share of cases whose 90 % interval has what was reached; one more success and failure in its error."""
        inside = [
            abs(e) <= NORMAL_90 * self.predicted(c).stderr for c, e in zip(self.cases, self.errors(way), strict=True)
        ]
        n = len(inside)
        p = (sum(inside) + 1) / (n + 2)
        return Estimate(sum(inside) / n, math.sqrt(p * (1 - p) / n), n)

    def table(self) -> str:
        """Markdown: a row for each case, in points of accuracy."""

        def cell(value: Estimate) -> str:
            return f"{float(value):.1f} ± {value.stderr:.1f}"

        names = ("predicted", "by the last layer", HEAD, TUNED, "fresh: predicted", SCRATCH)
        rows = [f"| pretrained on, network | {' | '.join(names)} |", "| --- |" + " ---: |" * len(names)]
        for case in self.cases:
            told, fresh = (cell(self.predicted(case, given=given)) for given in (True, False))
            head, tuned, scratch = (cell(self.accuracy(case, name)) for name in (HEAD, TUNED, SCRATCH))
            last = f"{100 * self.told[*case, True]['last']:.1f}"
            rows.append(f"| {', '.join(case)} | {' | '.join((told, last, head, tuned, fresh, scratch))} |")
        return "\n".join(rows)


def tasks_of(config: Config, split: str) -> tuple[Task, Task]:
    """The task of the pretraining and the task itself: five classes each, of the images of tuning tasks."""
    first = SPLITS[known_name("split", split, SPLITS)]
    rest = tuple(c for c in range(10) if c not in first)

    def task(name: str, classes: Sequence[int], samples: int, validation: int, tests: int) -> Task:
        groups = tuple((c,) for c in classes)
        return Task(
            name, config.source, "tuning", samples=samples, validation=validation, tests=tests, seed=0, classes=groups
        )

    return (
        task(f"pretraining, {split}", first, config.before, 1, config.tests // 4),
        task(f"other classes, {split}", rest, config.samples, config.validation, config.tests),
    )


def run(config: Config, runner: Runner) -> Result:
    cases = list(product(config.splits, config.networks))
    tasks = {split: tasks_of(config, split) for split in config.splits}

    def unit(case: Case, **values: Any) -> dict[str, Any]:
        split, network = case
        before, task = tasks[split]
        how = {"pretraining": config.pretraining, "cooling": config.cooling}
        rows = {"before": before.as_dict(), "task": task.as_dict()}
        return {"experiment": "pretrained", "split": split, "network": network, **rows, **how, **values}

    first = runner.map(_pretrained, [unit(case, kind="pretraining") for case in cases], "pretrainings")
    states = {"/".join(case): outcome.arrays for case, outcome in zip(cases, first, strict=True)}
    asked = [(*case, given) for case in cases for given in (True, False)]
    told = runner.map(
        partial(_told, states), [unit((s, n), kind="prediction", given=given) for s, n, given in asked], "predictions"
    )
    ways = [(*case, way) for case in cases for way in (HEAD, TUNED, SCRATCH)]
    how = {"kind": "training", "epochs": config.epochs, "patience": config.patience}
    work = partial(_reached, states)
    searched = runner.map(
        work, [unit((s, n), way=way, seed=0, rates=list(RATES), **how) for s, n, way in ways], "rates"
    )
    again = [
        unit((s, n), way=way, seed=seed, rates=[found.numbers["rate"]], **how)
        for (s, n, way), found in zip(ways, searched, strict=True)
        for seed in range(1, config.seeds)
    ]
    others = iter(runner.map(work, again, "trainings"))
    return Result(
        config,
        {key: o.numbers for key, o in zip(asked, told, strict=True)},
        {
            key: [found.numbers, *(next(others).numbers for _ in range(1, config.seeds))]
            for key, found in zip(ways, searched, strict=True)
        },
        {case: o.numbers for case, o in zip(cases, first, strict=True)},
    )


@one_thread()
def _pretrained(unit: Mapping[str, Any]) -> Outcome:
    """The weights and buffers of a network trained on the first five classes."""
    data = task_data(Task(**unit["before"]))
    make = family(unit["network"], data.shape, data.outputs)
    recipe = Recipe(unit["pretraining"], cooling=unit["cooling"])
    reached = train_until(make, *data.train, RATE, recipe, seed=0)
    test = float(reached.right(*data.test).double().mean())
    numbers = {"train": reached.train, "test": test, "epochs": reached.epochs, "end": reached.end}
    return Outcome(numbers, {name: t.detach().clone() for name, t in reached.model.state_dict().items()})


def _given(states: Mapping[str, Mapping[str, Tensor]], unit: Mapping[str, Any], data: TaskData) -> nn.Module:
    """The pretrained network; it has as many outputs as the task has classes."""
    model = member(family(unit["network"], data.shape, data.outputs), 0, 0)
    model.load_state_dict(dict(states[f"{unit['split']}/{unit['network']}"]))
    return model


@one_thread()
def _told(states: Mapping[str, Mapping[str, Tensor]], unit: Mapping[str, Any]) -> Outcome:
    data = task_data(Task(**unit["task"]))
    fresh = family(unit["network"], data.shape, data.outputs)
    make = _given(states, unit, data) if unit["given"] else fresh
    found = learnability(make, *data.train, target="classes", grain=False, trial=False, progress=False)
    kernels = {kind: float(score.score) for kind, score in found.kernels.items()}
    last = learnability(make, *data.train, target="classes", kinds=("last",), grain=False, trial=False, progress=False)
    kernels["last"] = float(last.score)
    return Outcome({"score": float(found.score), "error": found.score.stderr, "taken": found.kernel, **kernels})


@one_thread()
def _reached(states: Mapping[str, Mapping[str, Tensor]], unit: Mapping[str, Any]) -> Outcome:
    """One seed of one way to learn the task."""
    data, way = task_data(Task(**unit["task"])), unit["way"]
    make: Family = family(unit["network"], data.shape, data.outputs)
    if way == HEAD:
        data = read_out(_given(states, unit, data), data)
        make = partial(nn.Linear, data.shape[0], data.outputs)
    elif way == TUNED:
        make = partial(with_new_head, _given(states, unit, data))
    recipe = Recipe(unit["epochs"], unit["patience"], unit["cooling"])
    return training_outcome(make, data, unit["rates"], recipe, seed=unit["seed"])


def read_out(model: nn.Module, data: TaskData) -> TaskData:
    """Features below the head in the place of samples, standardised like those that train."""

    def features(X: Tensor) -> Tensor:
        with evaluating(model), torch.no_grad():
            return last_features(model, X, AT_ONCE).float()

    seen = features(data.train[0])
    centre, scale = seen.mean(0), seen.std(0).clamp(min=1e-6 * float(seen.std()))

    def scaled(X: Tensor) -> Tensor:
        return (X - centre) / scale

    (Xv, yv), (Xt, yt) = data.validation, data.test
    parts = (scaled(seen), data.train[1]), (scaled(features(Xv)), yv), (scaled(features(Xt)), yt)
    return TaskData(*parts, zero=torch.zeros_like(centre))


def with_new_head(model: nn.Module) -> nn.Module:
    """A copy of a network whose last linear layer is drawn anew."""
    found = copy.deepcopy(model).requires_grad_(True)
    head = [module for module in found.modules() if isinstance(module, nn.Linear)][-1]
    head.reset_parameters()
    return found


def claims(result: Result) -> list[Claim]:
    out = []
    for way, bound in ((HEAD, BOUND), (TUNED, TUNED_BOUND)):
        errors = result.errors(way)
        signed = f"predicted minus reached: {', '.join(f'{e:+.1f}' for e in errors)}"
        out.append(
            claim(
                "error of the prediction for a pretrained network, in points",
                f"at most {bound:g} on average over splits and networks",
                mean([abs(e) for e in errors]),
                high=bound,
                subject=f"against {way}",
                note=f"{signed}; {FIXED}",
            )
        )
        out.append(
            claim(
                "bias of the prediction for a pretrained network, in points",
                f"between −{BOUND:g} and {BOUND:g}",
                mean(errors),
                low=-BOUND,
                high=BOUND,
                subject=f"against {way}",
                note=FIXED,
            )
        )
        out.append(
            claim(
                "cases inside their own 90 % interval",
                "at least 80 %",
                result.covered(way),
                low=0.8,
                subject=f"against {way}",
                note=FIXED,
            )
        )
    last = [100 * result.told[*c, True]["last"] - float(result.accuracy(c, HEAD)) for c in result.cases]
    out.append(
        claim(
            "error of the last layer's kernel for a pretrained network, in points",
            f"at most {BOUND:g} on average over splits and networks",
            mean([abs(e) for e in last]),
            high=BOUND,
            subject=f"against {HEAD}",
            note="the kernel of the features that the head sees; added after the head of one split had been seen while "
            "the run was timed; " + FIXED,
        )
    )
    return [*out, *_compared(result)]


def _compared(result: Result) -> list[Claim]:
    """The prediction for the pretrained network against that for fresh ones."""
    given, fresh = result.errors(TUNED), result.errors(TUNED, given=False)
    nearer = [abs(f) - abs(g) for g, f in zip(given, fresh, strict=True)]
    gains = [
        float(result.predicted(c)) - float(result.predicted(c, given=False))
        - float(result.accuracy(c, TUNED)) + float(result.accuracy(c, SCRATCH))
        for c in result.cases
    ]  # fmt: skip
    reached = [float(result.accuracy(c, TUNED)) - float(result.accuracy(c, SCRATCH)) for c in result.cases]
    return [
        claim(
            "nearer to the fine-tuned network than the prediction for fresh ones, in points",
            "the errors of the latter minus those of the former are positive",
            mean(nearer),
            low=0.0,
            note=FIXED,
        ),
        claim(
            "predicted minus reached gain by pretraining, in points",
            f"between −{BOUND:g} and {BOUND:g}",
            mean(gains),
            low=-BOUND,
            high=BOUND,
            note=f"reached gain {mean(reached).with_error}; {FIXED}",
        ),
        claim(
            "error of the prediction for fresh networks, in points",
            f"at most {BOUND:g} on average over splits and networks",
            mean([abs(e) for e in result.errors(SCRATCH, given=False)]),
            high=BOUND,
            subject=f"against {SCRATCH}",
            note=FIXED,
        ),
    ]


def figure(result: Result) -> Figure:
    from matplotlib.figure import Figure

    from netgrain.geometry.plots import COLOURS, LARGE, MEDIUM, SMALL

    figure = Figure(figsize=(5.6, 5.0), layout="constrained")
    ax = figure.subplots()
    shown = ((HEAD, True, "o"), (TUNED, True, "s"), (SCRATCH, False, "D"))
    values = []
    for j, (way, given, marker) in enumerate(shown):
        told = [result.predicted(c, given=given) for c in result.cases]
        found = [result.accuracy(c, way) for c in result.cases]
        ax.errorbar([float(t) for t in told], [float(f) for f in found], xerr=[t.stderr for t in told],
                    yerr=[f.stderr for f in found], fmt=marker, ms=4, lw=0.8, color=COLOURS[j], label=way)  # fmt: skip
        values += [float(v) for v in (*told, *found)]
    low, high = 10 * math.floor(min(values) / 10), min(10 * math.ceil(max(values) / 10), 100)
    ax.plot([low, high], [low, high], color="#bbbbbb", lw=1, zorder=0)
    ax.set_xlabel("accuracy predicted before training (%)", fontsize=MEDIUM)
    ax.set_ylabel("accuracy reached on five new classes (%)", fontsize=MEDIUM)
    ax.tick_params(labelsize=SMALL)
    ax.legend(fontsize=SMALL, frameon=False, loc="upper left")
    ax.set_title("A pretrained network, and a fresh one", fontsize=LARGE)
    return figure
