"""The two small networks of the sweeps: a perceptron and a convolutional network whose parts can be exchanged."""

from __future__ import annotations

import itertools
import math
from typing import Literal

import torch
from torch import Tensor, nn

GAINS = {"he": 2.0, "lecun": 1.0, "torch": 1 / 3}  # variance of a weight times its fan-in


class Perceptron(nn.Sequential):
    """A ReLU network d → h → … → k with normal weights of a named variance times scale², and zero biases.

    scheme: "he" 2/fan_in, "lecun" 1/fan_in, "glorot" 2/(fan_in + fan_out), "torch" 1/(3 fan_in), PyTorch's own.
    """

    def __init__(self, sizes: tuple[int, ...], scale: float = 1.0, scheme: str = "he") -> None:
        layers: list[nn.Module] = []
        for inputs, outputs in itertools.pairwise(sizes):
            layers += [drawn(nn.Linear(inputs, outputs), scheme, scale), nn.ReLU()]
        super().__init__(*layers[:-1])


class ConvNet(nn.Sequential):
    """A small convolutional ReLU network: two rounds of convolutions and pooling, and one linear layer.

    Every round begins with a 3 × 3 convolution to `width` or 2 `width` channels, followed by `depth` further ones of
    the same width, and halves the image. Weights and biases are drawn as those of `Perceptron`.
    """

    def __init__(
        self,
        shape: tuple[int, ...],  # of an image, (channels, side, side)
        classes: int,
        *,
        width: int = 8,
        depth: int = 0,
        skip: bool = False,  # around each of the further convolutions
        norm: Literal["batch", "layer"] | None = None,  # between a convolution and its activation
        pool: Literal["average", "max", "stride"] = "average",  # stride: the round's first convolution leaves out half
        scale: float = 1.0,
        scheme: str = "he",
    ) -> None:
        def convolution(inputs: int, outputs: int, stride: int = 1) -> nn.Module:
            layer = drawn(nn.Conv2d(inputs, outputs, 3, padding=1, stride=stride), scheme, scale)
            return nn.Sequential(layer, *_norm(norm, outputs), nn.ReLU())

        layers: list[nn.Module] = []
        inputs, side = shape[0], shape[1]
        for outputs in (width, 2 * width):
            layers.append(convolution(inputs, outputs, 2 if pool == "stride" else 1))
            further = [convolution(outputs, outputs) for _ in range(depth)]
            layers += [Skip(layer) for layer in further] if skip else further
            if pool != "stride":
                layers.append(nn.AvgPool2d(2) if pool == "average" else nn.MaxPool2d(2))
            inputs, side = outputs, side // 2
        super().__init__(*layers, nn.Flatten(), drawn(nn.Linear(inputs * side**2, classes), scheme, scale))


class Skip(nn.Module):
    """x + branch(x)."""

    def __init__(self, branch: nn.Module) -> None:
        super().__init__()
        self.branch = branch

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = x + self.branch(x)
        return out


def _norm(name: str | None, channels: int) -> list[nn.Module]:
    if name is None:
        return []
    return [nn.BatchNorm2d(channels) if name == "batch" else nn.GroupNorm(1, channels)]


def drawn(layer: nn.Linear | nn.Conv2d, scheme: str, scale: float) -> nn.Module:
    """The layer with normal weights of the scheme's variance times scale², and zero biases."""
    outputs, inputs = layer.weight.shape[:2]
    taps = math.prod(layer.weight.shape[2:])
    nn.init.normal_(layer.weight, std=scale * math.sqrt(weight_variance(scheme, inputs * taps, outputs * taps)))
    assert isinstance(layer.bias, torch.Tensor)
    nn.init.zeros_(layer.bias)
    return layer


def weight_variance(scheme: str, inputs: int, outputs: int) -> float:
    return 2 / (inputs + outputs) if scheme == "glorot" else GAINS[scheme] / inputs
