"""Small networks, data and an evolution that several files of this room are tested with."""

import torch
from torch import Tensor, nn

from netgrain.families.probes import Gaussian
from netgrain.training.delta import Evolution
from netgrain.training.evolution import average_evolution


def _random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def small(outputs: int = 2, activation: type[nn.Module] = nn.Tanh) -> nn.Module:
    return nn.Sequential(nn.Linear(4, 5), activation(), nn.Linear(5, 3), activation(), nn.Linear(3, outputs)).double()


X, Y = _random(6, 4, seed=1), _random(6, 2, seed=2)


POINTS = _random(3, 4, seed=3)


def _result(**options: object) -> Evolution:
    return average_evolution(small, X, Y, members=24, probe=Gaussian(1.0), **options)
