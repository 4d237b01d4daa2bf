"""Images that the checks use: CIFAR-2 where it is found, else smooth random images."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from netgrain.data.dataset import Dataset
from netgrain.data.images import load_split
from netgrain.experiments.theory.statements import Job
from netgrain.runtime.errors import NetgrainError


@dataclass(frozen=True, eq=False)
class Images:
    X: Tensor  # (samples, channels, size, size), standardised
    y: Tensor  # 0 or 1
    name: str
    real: bool = False  # photographs, not synthetic


def smooth(samples: int, channels: int, size: int, generator: torch.Generator) -> Tensor:
    """Gaussian images whose power falls as 1/(1 + |frequency|)³, each channel with variance 1."""
    noise = torch.fft.fft2(torch.randn(samples, channels, size, size, generator=generator))
    frequency = torch.fft.fftfreq(size) * size
    radius = (frequency[:, None].square() + frequency.square()).sqrt()
    X: Tensor = torch.fft.ifft2(noise / (1 + radius).pow(1.5)).real
    return torch.div(X - X.mean((0, 2, 3), keepdim=True), X.std((0, 2, 3), keepdim=True))


def images(job: Job, samples: int, *, channels: int, size: int, real: bool = True) -> Images:
    """real: CIFAR-2 at laptop scale where it is found; else, and always at smoke scale, synthetic images."""
    if job.laptop and real:
        try:
            train = _cifar(job.data_dir, samples, size, job.seed)
        except NetgrainError:
            if job.data_dir is not None:
                raise
        else:
            X = train.X
            if channels == 1:
                X = X.mean(1, keepdim=True)
                X = (X - X.mean()) / X.std()
            return Images(X, train.labels, f"CIFAR-2 {'grey ' if channels == 1 else ''}{size} × {size}", real=True)
    generator = job.generator("images", samples, channels, size)
    X = smooth(samples, channels, size, generator)
    along = torch.randn(X[0].numel(), generator=generator) / math.sqrt(X[0].numel())
    return Images(X, (X.flatten(1) @ along > 0).long(), f"smooth random images {size} × {size}")


def _cifar(data_dir: str | None, samples: int, size: int, seed: int) -> Dataset:
    return load_split("cifar2", data_dir, size=None if size == 32 else size, limit=(samples, 1), seed=seed).train
