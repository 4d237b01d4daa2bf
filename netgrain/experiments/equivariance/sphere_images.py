"""Digits on the sphere: a stereographic projection, band-limited, at the pole or turned by random rotations."""

from __future__ import annotations

import math
from functools import cache

import torch
from torch import Tensor, nn

from netgrain.equivariant.sphere import RotationTransform
from netgrain.experiments.equivariance.images import digit_images
from netgrain.groups.so3 import harmonics
from netgrain.groups.sphere import Sphere

PAIR = (0, 5)  # the authors' digits on the sphere
SAMPLED = 30  # bandwidth of the grid on which images are sampled, as in spherical CNNs


def on_the_sphere(images: Tensor, bandwidth: int) -> Tensor:
    """Images (count, m, m) as functions on the sphere: coefficients (count, B²), l < B.

    Seen from the south pole, the plane that touches the north pole is the northern hemisphere: r = tan(θ/2). The image
    is a square with its corners on the equator, bilinear between pixels, and zero outside.

    >>> on_the_sphere(torch.ones(2, 8, 8), 5).shape
    torch.Size([2, 25])
    """
    theta, phi, weighted = _sampling(bandwidth)
    r = torch.tan(theta / 2) * math.sqrt(2)  # corners of [−1, 1]² at θ = π/2
    places = torch.stack([r * phi.cos(), r * phi.sin()], -1)[None].expand(len(images), -1, -1, -1)
    values = torch.nn.functional.grid_sample(images[:, None].double(), places, align_corners=False)[:, 0]
    return values.flatten(1) @ weighted


@cache
def _sampling(bandwidth: int) -> tuple[Tensor, Tensor, Tensor]:
    """Angles of a fine grid, and the matrix from values on it to coefficients with l < B."""
    grid = Sphere(max(SAMPLED, bandwidth))
    theta, phi = torch.broadcast_tensors(*grid.angles)
    return theta, phi, (grid.weights[..., None] * harmonics(bandwidth, theta, phi)).flatten(0, 1)


def random_rotations(count: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Angles of uniformly distributed rotations."""
    u = torch.rand(3, count, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return 2 * math.pi * u[0], torch.arccos(1 - 2 * u[1]), 2 * math.pi * u[2]


def sphere_digits(
    source: str, bandwidth: int, count: int, seed: int, *, part: str = "train", rotated: bool = False
) -> tuple[Tensor, Tensor]:
    """`count` of each of two digits, (2·count, B²), and labels ∓1; the same images rotated or not.

    Divided by one number, the root of the mean square pixel of the training images, so that no image is scaled alone.
    """
    images, y, pixels = digit_images(source, PAIR, count, seed, part=part)
    X = on_the_sphere(images[:, 0], bandwidth) / float(pixels.double().square().mean().sqrt())
    if rotated:
        X = Sphere(bandwidth).rotate(X, *random_rotations(len(X), seed + (1 if part == "train" else 2) * 100_000))
    return X, y


class WithBias(nn.Module):
    """A network with one number added to its output."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net
        self.bias = nn.Parameter(torch.zeros((), dtype=torch.float64))

    def forward(self, f: Tensor) -> Tensor:
        return torch.as_tensor(self.net(f)) + self.bias


class GridCNN(nn.Module):
    """A planar CNN on feature maps over SO(3): 3 × 3 filters over (α, β) of the grid, γ and features as channels."""

    def __init__(self, bandwidth: int, features: int, channels: int, seed: int) -> None:
        super().__init__()
        self.features, self.turn = features, RotationTransform(bandwidth)
        around, nodes, _ = self.turn.grid
        generator = torch.Generator().manual_seed(seed)

        def drawn(*shape: int, fan: int) -> nn.Parameter:
            uniform = 2 * torch.rand(shape, generator=generator, dtype=torch.float64) - 1
            return nn.Parameter(uniform * math.sqrt(3 / fan))

        inputs = features * around
        self.first = drawn(channels, inputs, 3, 3, fan=9 * inputs)
        self.second = drawn(channels, channels, 3, 3, fan=9 * channels)
        self.readout = drawn(channels * around * nodes, fan=channels * around * nodes)

    def forward(self, f: Tensor) -> Tensor:
        values = self.turn(f.unflatten(1, (self.features, self.turn.n))).unflatten(-1, self.turn.grid)
        images = values.movedim(-1, 2).flatten(1, 2)  # (batch, features × γ, α, β)
        h = torch.relu(nn.functional.conv2d(images, self.first, padding=1))
        h = torch.relu(nn.functional.conv2d(h, self.second, padding=1))
        outputs: Tensor = h.flatten(1) @ self.readout
        return outputs


def centred(maps: Tensor, like: Tensor) -> Tensor:
    """Feature maps (count, features, n) without the mean degree 0 of `like`, scaled alike and flattened.

    Only a constant function is taken away, so that rotations of the maps stay rotations.
    """
    shifted = maps.clone()
    shifted[..., 0] -= like[..., 0].mean(0)
    return torch.flatten(shifted * (math.sqrt(maps.shape[-1]) / float(like.norm(dim=-1).mean())), 1)
