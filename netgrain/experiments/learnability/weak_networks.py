"""Pairs of the experiment `weak-directions`: a task, and a network with a stem that weakens or loses directions.

Ordinary networks have gains between 0.005 and 30 of an average direction on these images. Two stems reach further: a
fixed blur takes a pattern's gain down to 1e-10, and a halving (the mean of 2 × 2 pixels, or every other pixel) loses
patterns altogether.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from netgrain.data.resizing import area_resized
from netgrain.experiments.learnability.tasks import TaskData, named, task_data
from netgrain.families.members import Family
from netgrain.models.layers import map_norm
from netgrain.models.lenet import LeNet
from netgrain.models.mlp import MLP
from netgrain.models.resnet import ResNet18
from netgrain.models.vgg import VGG11
from netgrain.models.vit import ViT
from netgrain.runtime.errors import known_name

DAMPING = 7.5  # of the blur: a cosine of k half periods across the image keeps exp(−DAMPING (k / size)²) of itself


class Blur(nn.Module):
    """A fixed Gaussian blur, mirrored at the edges: cosine (a, b) is multiplied by exp(−DAMPING (a² + b²) / size²).

    >>> blur = Blur(8)
    >>> torch.allclose(blur(torch.ones(1, 1, 8, 8)), torch.ones(1, 1, 8, 8))
    True
    """

    matrix: Tensor

    def __init__(self, size: int) -> None:
        super().__init__()
        k = torch.arange(size, dtype=torch.float64)
        cosines = torch.cos(math.pi / size * k[:, None] * (k + 0.5)) * math.sqrt(2 / size)
        cosines[0] /= math.sqrt(2)
        kept = torch.exp(-DAMPING * (k / size).square())
        self.register_buffer("matrix", (cosines.T @ (kept[:, None] * cosines)).float())

    def forward(self, images: Tensor) -> Tensor:
        return self.matrix @ images @ self.matrix.T


class SmallCNN(nn.Module):
    """Three convolutions of 3 × 3, the last two with a stride of 2, and a linear head."""

    def __init__(self, *, channels: int, image_size: int, outputs: int, norm: str | None, width: int = 16) -> None:
        super().__init__()
        stack: list[nn.Module] = []
        maps, side = channels, image_size
        for filters, stride in ((width, 1), (2 * width, 2), (2 * width, 2)):
            stack += [nn.Conv2d(maps, filters, 3, stride=stride, padding=1), *map_norm(norm, filters), nn.ReLU()]
            maps, side = filters, (side - 1) // stride + 1
        self.layers = nn.Sequential(*stack, nn.Flatten(), nn.Linear(maps * side**2, outputs))

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.layers(images)
        return logits


class MaxLeNet(LeNet):
    """LeNet with max pooling."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        for name, module in self.layers.named_children():
            if isinstance(module, nn.AvgPool2d):
                setattr(self.layers, name, nn.MaxPool2d(2))


@dataclass(frozen=True)
class Body:
    """A row of the table: what is built behind the stem, its kind, and its normalisation where it has one."""

    build: Callable[..., nn.Module]
    kind: str  # as netgrain.auditing.words calls it
    norm: str = "batch"
    arguments: Mapping[str, Any] = field(default_factory=dict)


BODIES: dict[str, Body] = {
    "LeNet": Body(LeNet, "convolutional"),
    "LeNet, max pool": Body(MaxLeNet, "convolutional"),
    "ResNet18": Body(ResNet18, "convolutional", arguments={"width": 1 / 8}),
    "ResNet18, layer norm": Body(ResNet18, "convolutional", "layer", {"width": 1 / 8}),
    "VGG11": Body(VGG11, "convolutional", arguments={"width": 1 / 8, "pool": "avg"}),
    "CNN": Body(SmallCNN, "convolutional"),
    "ViT": Body(ViT, "attention", "layer", {"width": 1 / 4, "depth": 1, "patch": 4}),
    "ViT, patch 2": Body(ViT, "attention", "layer", {"width": 1 / 4, "depth": 1, "patch": 2}),
    "MLP": Body(MLP, "dense"),
}


@dataclass(frozen=True)
class Stem:
    """What stands before the body: a module for images of some channels and size, the maps it makes, how it shrinks."""

    build: Callable[[int, int], nn.Module] | None = None
    maps: int | None = None
    shrinks: int = 1


STEMS: dict[str, Stem] = {
    "plain": Stem(),
    "a blur": Stem(lambda channels, size: Blur(size)),
    "means of 2 x 2": Stem(lambda channels, size: nn.AvgPool2d(2), shrinks=2),
    "every other pixel": Stem(lambda channels, size: nn.Conv2d(channels, 12, 1, stride=2), maps=12, shrinks=2),
}


@dataclass(frozen=True)
class Pair:
    """A task at some size, and the body and stem of the network that is trained on it."""

    task: str  # a tuning task of `validity`
    size: int
    body: str
    stem: str = "plain"

    @property
    def network(self) -> str:
        return self.body if self.stem == "plain" else f"{self.body} behind {self.stem}"


PAIRS: dict[str, Pair] = {
    f"{p.task}, {p.size} px: {p.network}": p
    for p in (
        Pair("digits", 8, "MLP", "a blur"),
        Pair("digits", 8, "CNN", "every other pixel"),
        Pair("digits", 8, "MLP", "means of 2 x 2"),
        Pair("CIFAR animal/vehicle", 8, "ViT, patch 2", "every other pixel"),
        Pair("CIFAR ship/truck", 8, "CNN", "means of 2 x 2"),
        Pair("CIFAR animal/vehicle", 8, "MLP", "every other pixel"),
        Pair("MNIST", 8, "ViT, patch 2", "means of 2 x 2"),
        Pair("digits", 8, "CNN", "a blur"),
        Pair("MNIST", 16, "LeNet"),
        Pair("digits", 8, "ViT", "a blur"),
        Pair("MNIST", 8, "ResNet18", "means of 2 x 2"),
        Pair("CIFAR ship/truck", 16, "LeNet, max pool"),
        Pair("MNIST", 8, "MLP", "a blur"),
        Pair("MNIST", 8, "VGG11", "means of 2 x 2"),
        Pair("digits", 8, "ResNet18"),
        Pair("CIFAR animal/vehicle", 8, "ResNet18, layer norm"),
        Pair("MNIST", 8, "ViT"),
        Pair("MNIST", 8, "CNN", "a blur"),
    )
}


def built(pair: Pair, shape: tuple[int, ...], outputs: int, normed: bool) -> nn.Module:
    """A fresh network of a pair."""
    body, stem = BODIES[known_name("body", pair.body, BODIES)], STEMS[known_name("stem", pair.stem, STEMS)]
    channels, size, *_ = shape
    inner = body.build(
        channels=stem.maps or channels,
        image_size=size // stem.shrinks,
        outputs=outputs,
        norm=body.norm if normed else None,
        **body.arguments,
    )
    return inner if stem.build is None else nn.Sequential(stem.build(channels, size), inner)


def family(pair: Pair, shape: tuple[int, ...], outputs: int, *, normed: bool) -> Family:
    """The networks of a pair, with their normalisation or without any."""
    return partial(built, pair, shape, outputs, normed)


def pair_data(pair: Pair, samples: int, tests: int) -> TaskData:
    """The samples of a pair at its size."""
    data = task_data(named(pair.task).smaller(samples, tests))
    train, validation, test = ((area_resized(X, pair.size), y) for X, y in (data.train, data.validation, data.test))
    return TaskData(train, validation, test, area_resized(data.zero[None], pair.size)[0])
