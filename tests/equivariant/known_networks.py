"""Small networks and data for the tests of this room."""

import numpy as np
import torch
from torch import Tensor

from netgrain.equivariant import CircularCNN, Diagonal, FullyConnected, GroupCNN, LinearNetwork
from netgrain.equivariant.parametrisation import Array
from netgrain.groups import dihedral

D8 = dihedral(order=8)


DEPTHS = [1, 2, 3, 4]


def networks(depth: int, relu: bool = False) -> list[LinearNetwork]:
    return [
        FullyConnected(8, depth, relu=relu, seed=1),
        FullyConnected(8, depth, width=3, relu=relu, seed=1),
        Diagonal(8, depth, relu=relu, seed=1),
        CircularCNN(8, depth, relu=relu, seed=1),
        GroupCNN(D8, depth, relu=relu, seed=1),
        GroupCNN(D8, depth, channels=3, relu=relu, seed=1),
    ]


def gaussian(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def close(a: Tensor | Array, b: Tensor | Array, tolerance: float = 1e-12) -> bool:
    return bool(np.abs(np.asarray(a) - np.asarray(b)).max() <= tolerance * (1 + np.abs(np.asarray(b)).max()))
