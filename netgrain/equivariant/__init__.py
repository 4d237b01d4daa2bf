"""Linear and ReLU networks over groups, what their training minimises, and where it ends.

>>> import torch
>>> from netgrain.equivariant import limit
>>> from netgrain.groups import dihedral
>>> X = torch.tensor([[1.0, 1, -1, -1, 1, 1, -1, -1], [1, -1, -1, 1, 1, -1, -1, 1]])  # two characters
>>> found = limit(dihedral(order=8), X, torch.tensor([-1.0, 1.0]), depth=2)
>>> round(found.objective, 4), found.weighted_rank
(2.0, 2)
"""

from netgrain.equivariant.dual import lower_bound
from netgrain.equivariant.limit import NETS, limit, make_network
from netgrain.equivariant.networks import (
    CircularCNN,
    Diagonal,
    FullyConnected,
    GroupCNN,
    Linearisation,
    LinearNetwork,
    linearisation,
    predictor,
)
from netgrain.equivariant.schatten import (
    ranks,
    real_ratio,
    schatten,
    schatten_objective,
    schatten_ratio,
    stable_rank,
    weighted_rank,
)
from netgrain.equivariant.separable import check_separable, support_vector
from netgrain.equivariant.solution import METHODS, Limit, Trajectory
from netgrain.equivariant.spectra import (
    Spectrum,
    block_spectrum,
    diagonal_spectrum,
    euclidean_spectrum,
    group_spectrum,
)
from netgrain.equivariant.spherical import SphericalNetwork, block_limit, spherical_limit, spherical_spectrum
from netgrain.equivariant.stationarity import Stationarity, parameter_residual, stationarity
from netgrain.equivariant.training import Training, train

__all__ = [
    "METHODS",
    "NETS",
    "CircularCNN",
    "Diagonal",
    "FullyConnected",
    "GroupCNN",
    "Limit",
    "LinearNetwork",
    "Linearisation",
    "Spectrum",
    "SphericalNetwork",
    "Stationarity",
    "Training",
    "Trajectory",
    "block_limit",
    "block_spectrum",
    "check_separable",
    "diagonal_spectrum",
    "euclidean_spectrum",
    "group_spectrum",
    "limit",
    "linearisation",
    "lower_bound",
    "make_network",
    "parameter_residual",
    "predictor",
    "ranks",
    "real_ratio",
    "schatten",
    "schatten_objective",
    "schatten_ratio",
    "spherical_limit",
    "spherical_spectrum",
    "stable_rank",
    "stationarity",
    "support_vector",
    "train",
    "weighted_rank",
]
