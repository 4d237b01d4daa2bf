"""Networks of the experiment: the built-in ones, a mixer and a depthwise network.

Tables come as images of one pixel with a channel for each feature, which only dense networks take.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from torch import Tensor, nn

from netgrain.families.members import Family
from netgrain.models.lenet import LeNet
from netgrain.models.mlp import MLP
from netgrain.models.resnet import ResNet18
from netgrain.models.vgg import VGG11
from netgrain.models.vit import ViT
from netgrain.runtime.errors import known_name


class MixerBlock(nn.Module):
    """x + mix over patches, then x + mix over channels, each a two-layer perceptron after a layer norm."""

    def __init__(self, tokens: int, width: int) -> None:
        super().__init__()
        self.norm_tokens, self.norm_channels = nn.LayerNorm(width), nn.LayerNorm(width)
        self.tokens = nn.Sequential(nn.Linear(tokens, 2 * tokens), nn.GELU(), nn.Linear(2 * tokens, tokens))
        self.channels = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.tokens(self.norm_tokens(x).transpose(1, 2)).transpose(1, 2)
        y: Tensor = x + self.channels(self.norm_channels(x))
        return y


class Mixer(nn.Module):
    """A mixer: patches of `patch` pixels, `depth` blocks, the mean over patches and a linear head."""

    def __init__(
        self, *, channels: int, image_size: int, outputs: int, patch: int = 4, width: int = 48, depth: int = 3
    ) -> None:
        super().__init__()
        self.embed = nn.Conv2d(channels, width, patch, stride=patch)
        tokens = (image_size // patch) ** 2
        self.blocks = nn.Sequential(*(MixerBlock(tokens, width) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, outputs)

    def forward(self, images: Tensor) -> Tensor:
        tokens = self.embed(images).flatten(2).transpose(1, 2)  # (batch, patches, width)
        logits: Tensor = self.head(self.norm(self.blocks(tokens)).mean(1))
        return logits


class DepthwiseCNN(nn.Module):
    """A depthwise network: a stem, then pairs of a 3 × 3 convolution per channel and a 1 × 1 one across channels."""

    def __init__(self, *, channels: int, image_size: int, outputs: int, width: int = 24) -> None:
        super().__init__()
        stack: list[nn.Module] = [nn.Conv2d(channels, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
        maps = width
        for stride, filters in ((1, 2 * width), (2, 2 * width), (1, 4 * width), (2, 4 * width)):
            stack += [nn.Conv2d(maps, maps, 3, stride=stride, padding=1, groups=maps), nn.BatchNorm2d(maps), nn.ReLU()]
            stack += [nn.Conv2d(maps, filters, 1), nn.BatchNorm2d(filters), nn.ReLU()]
            maps = filters
        self.features = nn.Sequential(*stack)
        self.pool = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.head = nn.Linear(maps, outputs)

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.head(self.pool(self.features(images)))
        return logits


@dataclass(frozen=True)
class Network:
    """A row of the table: what is built, with which arguments, and whether it takes tables."""

    build: Callable[..., nn.Module]
    arguments: Mapping[str, Any] = field(default_factory=dict)
    tables: bool = False


NETWORKS: dict[str, Network] = {
    "linear": Network(MLP, {"depth": 0}, tables=True),
    "MLP": Network(MLP, tables=True),
    "LeNet": Network(LeNet),
    "ResNet": Network(ResNet18, {"width": 1 / 8, "norm": "batch"}),
    "ResNet, layer norm": Network(ResNet18, {"width": 1 / 8, "norm": "layer"}),
    "VGG": Network(VGG11, {"width": 1 / 8, "norm": "batch"}),
    "ViT": Network(ViT, {"width": 1 / 3, "patch": 4, "depth": 4, "norm": "layer"}),
    "mixer": Network(Mixer),
    "depthwise": Network(DepthwiseCNN),
}


def family(name: str, shape: Sequence[int], outputs: int) -> Family:
    """The family of a network for samples of shape (channels, size, size)."""
    row = NETWORKS[known_name("network", name, NETWORKS)]
    return partial(row.build, channels=shape[0], image_size=shape[1], outputs=outputs, **row.arguments)
