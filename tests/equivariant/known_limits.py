"""Problems of which the limit is known."""

import numpy as np
import torch
from torch import Tensor

from netgrain.equivariant.parametrisation import Array
from netgrain.groups import dihedral

D8, D60 = dihedral(order=8), dihedral(order=60)


OPTIMA = (8.345881, 13.236606, 9.423076)  # cvxpy at depth 2, spec 5.6, seeds 0, 1, 2


def teacher(n: int, points: int, seed: int) -> tuple[Tensor, Tensor]:
    """As in spec 5.6."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((points, n))
    return torch.from_numpy(X), torch.from_numpy(np.sign(X @ rng.standard_normal(n)))


def signed(X: Tensor, y: Tensor) -> Array:
    Z: Array = (y[:, None] * X).numpy()
    return Z
