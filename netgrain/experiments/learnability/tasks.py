"""Tasks of the experiment: read from the file that lists them, and their samples.

``tasks.toml`` is the list, written before the first run; this file only reads it and draws what it says.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from netgrain.data.dataset import Dataset
from netgrain.data.images import load_split
from netgrain.data.scaling import standardised
from netgrain.experiments.learnability.made_up_tasks import RULES, SIZE, TABLE_RULES
from netgrain.experiments.learnability.transformations import transformed
from netgrain.runtime.errors import NetgrainError, known_name
from netgrain.runtime.randomness import generator_for

LIST = Path(__file__).with_name("tasks.toml")
Part = Literal["tuning", "verdict"]
PARTS: tuple[Part, ...] = ("tuning", "verdict")
IMAGES = {"digits": None, "mnist": (26_000, 10_000), "fashion-mnist": (26_000, 10_000), "cifar10": (26_000, 10_000)}
TABLES = ("breast_cancer", "wine", "diabetes")  # that come with scikit-learn
POOL_SEED = 2029  # of the images that are read, and of their halves


@dataclass(frozen=True)
class Task:
    """A row of ``tasks.toml``.

    Attributes
    ----------
    name, source, part, classes, rule, transform, samples, validation, tests, seed, features
        As the head of that file says.
    """

    name: str
    source: str
    part: Part
    samples: int
    validation: int
    tests: int
    seed: int
    classes: tuple[tuple[int, ...], ...] = ()
    rule: str = ""
    transform: tuple[str, ...] = ()
    features: bool = False

    def __post_init__(self) -> None:
        # lists, as JSON gives them back, are as good as tuples
        object.__setattr__(self, "classes", tuple(tuple(group) for group in self.classes))
        object.__setattr__(self, "transform", tuple(self.transform))

    @property
    def table(self) -> bool:
        """Whether samples are rows of a table, which only dense networks take."""
        return self.source in TABLES or self.rule in TABLE_RULES

    @property
    def drawn(self) -> int:
        """Rows that are drawn from the source: pairs need two each, and some are dropped."""
        total = self.samples + self.validation + self.tests
        return 5 * total // 2 if "larger-of-two" in self.transform else total

    def as_dict(self) -> dict[str, Any]:
        """Plain values for a unit; ``Task(**values)`` gives it back."""
        found = asdict(self)
        return {**found, "classes": [list(group) for group in self.classes], "transform": list(self.transform)}

    def smaller(self, samples: int | None, tests: int | None) -> Task:
        """The same with at most so many samples and tests."""
        most = self.samples if samples is None else min(samples, self.samples)
        fewer = self.tests if tests is None else min(tests, self.tests)
        validation = self.validation if samples is None else min(self.validation, max(20, most // 2))
        return replace(self, samples=most, validation=validation, tests=fewer)


@dataclass(frozen=True, eq=False)
class TaskData:
    """Samples of a task, standardised with the statistics of those that train.

    zero: a sample of zeros, standardised like the others, (*shape): what comes in where an image is shifted.
    """

    train: tuple[Tensor, Tensor]
    validation: tuple[Tensor, Tensor]
    test: tuple[Tensor, Tensor]
    zero: Tensor

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.train[0].shape[1:])

    @property
    def outputs(self) -> int:
        """Number of classes."""
        return int(max(int(y.max()) for _, y in (self.train, self.validation, self.test))) + 1


@cache
def listed() -> dict[str, Task]:
    """Every task of the file by name, tuning tasks first."""
    stored = tomllib.loads(LIST.read_text(encoding="utf-8"))
    tasks = [Task(part=part, **row) for part in PARTS for row in stored[part]]
    found = {task.name: task for task in tasks}
    if len(found) < len(tasks):
        raise NetgrainError(f"{LIST.name} expects tasks with names of their own, found {len(tasks)} with {len(found)}.")
    return found


def named(name: str) -> Task:
    """The task of a name."""
    return listed()[known_name("task", name, listed())]


def of_part(part: Part) -> list[Task]:
    """All tuning tasks, or all verdict tasks."""
    return [task for task in listed().values() if task.part == part]


def problem_with(source: str) -> str:
    """Why a source cannot be read here, in a sentence; empty if it can."""
    try:
        if source in IMAGES:
            load_split(source, limit=1, standardise=False)
        elif source in TABLES:
            _table(source)
    except NetgrainError as e:
        return str(e)
    return ""


def task_data(task: Task) -> TaskData:
    """The samples of a task: a function of its row alone."""
    generator = generator_for(task.seed, "task", task.name)
    X, y = _raw(task, generator)
    for how in task.transform:
        X, y = transformed(X, y, how, generator)
    counts = (task.samples, task.validation, task.tests)
    if len(X) < sum(counts):
        raise NetgrainError(f"{task.name} asks for {sum(counts)} samples, and its source {task.source} has {len(X)}.")
    X, y = X[: sum(counts)].float(), y[: sum(counts)].long()
    parts = [Dataset(*part) for part in zip(X.split(counts), y.split(counts), strict=True)]
    scaled = [standardised(part, like=parts[0]) for part in parts]
    train, validation, test = ((part.X, part.labels) for part in scaled)
    zero = standardised(Dataset(torch.zeros_like(X[:1]), y[:1]), like=parts[0]).X[0]
    return TaskData(train, validation, test, zero)


def _raw(task: Task, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Samples in random order before transformations."""
    if task.rule:
        known_name("rule", task.rule, RULES)
        return RULES[task.rule](task.drawn, generator)
    X, y = _half(task.source, task.part) if task.source in IMAGES else _table(task.source)
    rows = torch.randperm(len(X), generator=generator)
    if task.classes:
        labels = torch.full((int(y.max()) + 1,), -1)
        for label, group in enumerate(task.classes):
            labels[list(group)] = label
        y = labels[y]
        rows = rows[y[rows] >= 0]
    rows = rows[: task.drawn]
    return X[rows], y[rows]


@cache
def _pool(source: str) -> tuple[Tensor, Tensor]:
    """Images of a set at 16 × 16, training and test part together, in one random order."""
    split = load_split(source, standardise=False, size=SIZE, limit=IMAGES[source], seed=POOL_SEED)
    X, y = torch.cat([split.train.X, split.test.X]), torch.cat([split.train.labels, split.test.labels])
    order = torch.randperm(len(X), generator=generator_for(POOL_SEED, "pool", source))
    return X[order], y[order]


def _half(source: str, part: Part) -> tuple[Tensor, Tensor]:
    """Tuning tasks have the first half of the images, verdict tasks the second."""
    X, y = _pool(source)
    middle = len(X) // 2
    return (X[:middle], y[:middle]) if part == "tuning" else (X[middle:], y[middle:])


@cache
def _table(source: str) -> tuple[Tensor, Tensor]:
    """A table of scikit-learn with a label or a number for each row."""
    try:
        from sklearn import datasets
    except ImportError as e:
        raise NetgrainError(
            f"the table {source} comes with scikit-learn, which is not installed; install netgrain[oracle]."
        ) from e
    known_name("source", source, (*IMAGES, *TABLES))
    found: Mapping[str, Any] = getattr(datasets, f"load_{source}")()
    X = torch.as_tensor(found["data"], dtype=torch.float32)
    return X[:, :, None, None], torch.as_tensor(found["target"])
