"""The difficulty of labels whose place is known."""

import math

import pytest
import torch

import netgrain as ng
from netgrain.auditing.axes import axes_of
from netgrain.experiments.difficulty import difficulty


def planted(index: int) -> tuple[torch.Tensor, torch.Tensor]:
    X = torch.randn(600, 1, 2, 2, generator=torch.Generator().manual_seed(0))
    return X, (X.flatten(1)[:, index] > 0).long()


def test_labels_along_one_axis_of_a_known_geometry() -> None:
    """Eigenvalues 10, 1, 1 and 0.1 with mean 3.025: the difficulty is −log₁₀ of the label's own over that."""
    axes = axes_of(ng.Geometry.from_matrix(torch.diag(torch.tensor([10.0, 1.0, 1.0, 0.1])), (1, 2, 2)))
    for index, value in ((0, 10.0), (1, 1.0), (3, 0.1)):
        assert difficulty(axes, *planted(index)) == pytest.approx(-math.log10(value / 3.025), abs=0.02)


def test_no_direction_carries_a_random_label() -> None:
    axes = axes_of(ng.Geometry.from_matrix(torch.eye(4), (1, 2, 2)))
    X = torch.arange(4).repeat(40, 1).float() + torch.arange(40).div(2, rounding_mode="floor")[:, None]
    assert math.isnan(difficulty(axes, X.reshape(40, 1, 2, 2), torch.arange(40) % 2))  # each sample once in each class
