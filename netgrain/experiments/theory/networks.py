"""The four networks that the conjectures are measured on, and their geometry at initialisation."""

from __future__ import annotations

import math
from functools import lru_cache, partial
from typing import Any

import torch
from torch import Tensor

from netgrain.experiments.theory.statements import Job
from netgrain.families.members import Family
from netgrain.families.probes import Gaussian
from netgrain.geometry.average import average_geometry
from netgrain.geometry.value import Geometry
from netgrain.models.lenet import LeNet
from netgrain.models.mlp import MLP
from netgrain.models.resnet import ResNet18
from netgrain.models.vit import ViT

NETWORKS = ("MLP", "LeNet", "ResNet18", "ViT")
CHANNELS = 3
PATCH = 8  # of ViT
PROBES = 8  # points per member


def side(job: Job) -> int:
    """Pixels along one side of the images."""
    return job.pick(16, 16, 32)


def shape(job: Job) -> tuple[int, int, int]:
    return CHANNELS, side(job), side(job)


def samples(job: Job) -> int:
    """Images in the training set."""
    return job.pick(16, 256, 1000)


def family(name: str, job: Job, *, width: float = 1.0, outputs: int = 1) -> Family:
    """ReLU, no normalisation; ResNet18 and ViT are narrow below paper scale."""
    options: dict[str, Any] = {"channels": CHANNELS, "image_size": side(job), "outputs": outputs}
    if name == "MLP":
        return partial(MLP, **options, width=width)
    if name == "LeNet":
        return partial(LeNet, **options)
    if name == "ResNet18":
        return partial(ResNet18, **options, width=job.pick(1 / 32, 1 / 8, 1.0))
    return partial(ViT, **options, width=job.pick(1 / 12, 1 / 4, 1.0))


@lru_cache(maxsize=8)
def geometry(name: str, job: Job) -> Geometry:
    """G over N(0, I) probes: the closed form, which ViT does not have and LeNet only at laptop scale for its cost.

    ViT's patches are exchangeable and so are the entries inside one, which leaves two numbers to estimate.
    """
    taken = partial(average_geometry, family(name, job), shape(job), probe=Gaussian(), seed=job.seed)
    sampled = name == "ViT" or (name == "LeNet" and job.scale != "laptop")
    if not sampled:
        return taken(method="closed-form")
    members = job.pick(4, 24, 10_000)
    G = taken(method="sampled", members=members, probes=PROBES, progress=False)
    return symmetrised(G, shape(job)) if name == "ViT" else G


def symmetrised(G: Geometry, input_shape: tuple[int, int, int]) -> Geometry:
    """G of a ViT averaged over channels, patches and the entries inside one."""
    channels, pixels = input_shape[0], input_shape[1] * input_shape[2]
    blocks = G.matrix().reshape(channels, pixels, channels, pixels).diagonal(dim1=0, dim2=2).mean(-1)
    whole = torch.kron(torch.eye(channels, dtype=torch.float64), exchangeable(blocks, PATCH))
    return Geometry.from_matrix(whole, input_shape)


def exchangeable(G: Tensor, patch: int) -> Tensor:
    """The nearest (aI + b 11ᵀ)_tokens ⊗ I: patches are exchangeable, and so are the pixels inside one."""
    side = math.isqrt(len(G))
    rows, columns = (g.flatten() for g in torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij"))
    token = (rows // patch) * (side // patch) + columns // patch
    inside = (rows % patch) * patch + columns % patch
    same_pixel, same_token = inside[:, None] == inside, token[:, None] == token
    own, across = same_pixel & same_token, same_pixel & ~same_token
    found = torch.zeros_like(G)
    found[own], found[across] = G[own].mean(), G[across].mean()
    return found
