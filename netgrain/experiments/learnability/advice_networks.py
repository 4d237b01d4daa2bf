"""Networks and tasks of the experiment `advice`: networks that do poorly, and what makes a task hard for them."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from netgrain.auditing.edits import Edited, scaled
from netgrain.experiments.learnability.made_up_tasks import RULES, SIZE, Made
from netgrain.experiments.learnability.tasks import Task, TaskData, task_data
from netgrain.families.members import Family
from netgrain.models.lenet import LeNet
from netgrain.models.mlp import MLP
from netgrain.models.vgg import VGG11
from netgrain.models.vit import ViT
from netgrain.runtime.errors import NetgrainError, known_name
from netgrain.runtime.randomness import generator_for

LIST = Path(__file__).with_name("advice_pairs.toml")
LENGTH = 128  # values of a signal
Part = Literal["tuning", "verdict"]


@dataclass(frozen=True)
class Pair:
    """A row of ``advice_pairs.toml``: a task, what is done to its inputs, and a network."""

    name: str
    part: Part
    network: str
    task: Mapping[str, Any]
    image: bool
    damage: str = ""

    def data(self, samples: int | None = None, tests: int | None = None) -> TaskData:
        """Its samples, at most so many."""
        row = Task(name=self.name, part="tuning", **self.task)
        return damaged(made(row.smaller(samples, tests)), self.damage, row.seed)


@cache
def listed() -> dict[str, Pair]:
    """All pairs by name."""
    stored = tomllib.loads(LIST.read_text(encoding="utf-8"))
    pairs = [Pair(part=part, **row) for part in ("tuning", "verdict") for row in stored[part]]
    found = {pair.name: pair for pair in pairs}
    if len(found) < len(pairs):
        raise NetgrainError(f"{LIST.name} expects pairs with names of their own, found {len(pairs)} with {len(found)}.")
    return found


def named(name: str) -> Pair:
    """The pair of a name."""
    return listed()[known_name("pair", name, listed())]


# --- samples that are made up -----------------------------------------------------------------------------------------


def blots(n: int, generator: torch.Generator) -> Made:
    """A ring or a cross of 5 × 5 pixels anywhere in noise."""
    y = torch.randint(2, (n,), generator=generator)
    ring = torch.ones(5, 5)
    ring[1:4, 1:4] = 0
    cross = torch.eye(5) + torch.eye(5).flip(1)
    X = 0.7 * torch.randn(n, 1, SIZE, SIZE, generator=generator)
    places = torch.randint(SIZE - 4, (n, 2), generator=generator).tolist()
    for x, label, (a, b) in zip(X, y.tolist(), places, strict=True):
        x[0, a : a + 5, b : b + 5] += 1.5 * (cross.clamp(max=1) if label else ring)
    return X, y


def checks(n: int, generator: torch.Generator) -> Made:
    """A chessboard, stripes across or stripes along, each of single pixels and of either sign, in noise."""
    y = torch.randint(3, (n,), generator=generator)
    sign = (-1.0) ** torch.arange(SIZE)
    patterns = torch.stack([sign[:, None] * sign, sign[:, None].expand(SIZE, SIZE), sign.expand(SIZE, SIZE)])
    turned = torch.randint(2, (n, 1, 1), generator=generator) * 2 - 1
    X = 0.4 * turned * patterns[y] + torch.randn(n, SIZE, SIZE, generator=generator)
    return X[:, None], y


def saws(n: int, generator: torch.Generator) -> Made:
    """A tooth of 16 values that rises and drops, or jumps and falls, anywhere in a signal of 128 values with noise."""
    y = torch.randint(2, (n,), generator=generator)
    tooth = torch.linspace(-1, 1, 16)
    X = 0.5 * torch.randn(n, 1, LENGTH, generator=generator)
    for x, label, a in zip(X, y.tolist(), torch.randint(LENGTH - 15, (n,), generator=generator).tolist(), strict=True):
        x[0, a : a + 16] += 1.5 * (tooth.flip(0) if label else tooth)
    return X, y


def ridges(n: int, generator: torch.Generator) -> Made:
    """Twelve normal features; the label is the third in which sin(2 x₁) + x₂² − |x₃| lies."""
    x = torch.randn(n, 12, generator=generator)
    value = (2 * x[:, 0]).sin() + x[:, 1].square() - x[:, 2].abs() + 0.2 * torch.randn(n, generator=generator)
    return x, torch.bucketize(value, value.quantile(torch.tensor([1 / 3, 2 / 3])))


def folds(n: int, generator: torch.Generator) -> Made:
    """Eight normal features; the label is the sign of x₁ x₂ + x₃ / 2 with a little noise."""
    x = torch.randn(n, 8, generator=generator)
    return x, (x[:, 0] * x[:, 1] + x[:, 2] / 2 + 0.1 * torch.randn(n, generator=generator) > 0).long()


OWN_RULES: dict[str, Callable[[int, torch.Generator], Made]] = {
    rule.__name__: rule for rule in (blots, checks, saws, ridges, folds)
}


def made(task: Task) -> TaskData:
    """The samples of a task; made-up ones have mean 0 and deviation 1 in every entry of a table, or in all."""
    if task.rule not in OWN_RULES:
        data = task_data(task)
        if task.rule in RULES and data.shape[1:] == (1, 1):  # a table as a table
            parts = [(X.flatten(1), y) for X, y in (data.train, data.validation, data.test)]
            return TaskData(parts[0], parts[1], parts[2], data.zero.flatten())
        return data
    sizes = (task.samples, task.validation, task.tests)
    X, y = OWN_RULES[task.rule](sum(sizes), generator_for(task.seed, "task", task.name))
    parts = list(zip(X.split(sizes), y.split(sizes), strict=True))
    return TaskData(parts[0], parts[1], parts[2], torch.zeros_like(X[0]))


def damaged(data: TaskData, how: str, seed: int) -> TaskData:
    """Inputs as nobody should give them to a network; what is done is the same for all parts of a task."""
    if not how:
        return data
    known_name("damage", how, DAMAGES)
    parts = [
        (DAMAGES[how](X, generator_for(seed, "damage", str(i))), y)
        for i, (X, y) in enumerate((data.train, data.validation, data.test))
    ]
    return TaskData(parts[0], parts[1], parts[2], data.zero)


def scales(X: Tensor, _: torch.Generator) -> Tensor:
    """Every channel or feature times its own factor, from 0.01 to 100 and in an order that repeats."""
    factors = 10.0 ** torch.tensor([-2.0, 2.0, -1.0, 0.5])[torch.arange(X.shape[1]) % 4]
    return X * factors.reshape(-1, *(1,) * (X.dim() - 2))


def lamps(X: Tensor, generator: torch.Generator) -> Tensor:
    """Every image times a strength from 0.02 to 2 and under a ramp of light from any side."""
    n, side = len(X), X.shape[-1]
    strength = 10 ** (2 * torch.rand(n, 1, 1, 1, generator=generator) - 1.7)
    angle = 2 * math.pi * torch.rand(n, 1, 1, generator=generator)
    r = torch.linspace(-1, 1, side)
    ramp = angle.cos() * r[:, None] + angle.sin() * r
    return strength * (X + 3 * ramp[:, None])


def bright(X: Tensor, _: torch.Generator) -> Tensor:
    """Images far from zero, as whole numbers of a camera are."""
    return 60 * X + 120


DAMAGES: dict[str, Callable[[Tensor, torch.Generator], Tensor]] = {"scales": scales, "lamps": lamps, "bright": bright}

# --- networks ---------------------------------------------------------------------------------------------------------


class Strided(nn.Sequential):
    """Two convolutions, of which the first skips `stride` positions, an average pool and a linear layer."""

    def __init__(self, *, shape: tuple[int, ...], outputs: int, stride: int) -> None:
        dims = len(shape) - 1
        conv: Any = nn.Conv2d if dims == 2 else nn.Conv1d
        pool: Any = nn.AvgPool2d if dims == 2 else nn.AvgPool1d
        side = -(-shape[-1] // stride) // 2
        super().__init__(
            conv(shape[0], 16, 3, stride=stride, padding=1),
            nn.ReLU(),
            conv(16, 32, 3, padding=1),
            nn.ReLU(),
            pool(2),
            nn.Flatten(),
            nn.Linear(32 * side**dims, outputs),
        )


def _of_images(build: Callable[..., nn.Module], shape: tuple[int, ...], outputs: int, **options: Any) -> Family:
    """A built-in model; tables and signals as images of one pixel, which dense networks flatten."""
    square = len(shape) == 3 and shape[1] == shape[2]
    sizes = (
        {"channels": shape[0], "image_size": shape[1]} if square else {"channels": math.prod(shape), "image_size": 1}
    )
    return partial(build, **sizes, outputs=outputs, **options)


def _times(factor: float, shape: tuple[int, ...], outputs: int) -> Family:
    plain = _of_images(MLP, shape, outputs)
    return Edited(plain, {name: partial(scaled, factor=factor) for name in ("layers.1", "layers.3", "layers.5")})


def _strided(stride: int, shape: tuple[int, ...], outputs: int) -> Family:
    return partial(Strided, shape=shape, outputs=outputs, stride=stride)


@dataclass(frozen=True)
class Network:
    """A row of the table: what is built from the shape of a sample and the number of classes."""

    build: Callable[..., Family]
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def family(self, shape: tuple[int, ...], outputs: int) -> Family:
        return self.build(shape=shape, outputs=outputs, **self.arguments)


NETWORKS: dict[str, Network] = {
    "MLP": Network(partial(_of_images, MLP)),
    "MLP, tanh": Network(partial(_of_images, MLP), {"activation": "tanh"}),
    "MLP, weak weights": Network(partial(_times, 0.1)),
    "MLP, strong weights": Network(partial(_times, 20.0)),
    "deep sigmoids": Network(partial(_of_images, MLP), {"activation": "sigmoid", "depth": 5}),
    "dense on signals": Network(partial(_of_images, MLP)),
    "LeNet": Network(partial(_of_images, LeNet)),
    "LeNet, tanh": Network(partial(_of_images, LeNet), {"activation": "tanh"}),
    "VGG": Network(partial(_of_images, VGG11), {"width": 0.125}),
    "ViT, patches of 8": Network(partial(_of_images, ViT), {"width": 1 / 3, "patch": 8, "depth": 3}),
    "stride 4": Network(partial(_strided, 4)),
    "stride 8 on signals": Network(partial(_strided, 8)),
}


def family(name: str, shape: tuple[int, ...], outputs: int) -> Family:
    """The family of a network for samples of a shape."""
    return NETWORKS[known_name("network", name, NETWORKS)].family(shape, outputs)
