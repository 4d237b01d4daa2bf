"""Batch norms with the statistics of data, by hand; everything else about the model stays."""

import pytest
import torch
from torch import nn

from netgrain.families.batch_statistics import data_statistics
from netgrain.runtime.errors import NetgrainError

X = torch.tensor([[0.0, 1.0], [2.0, 5.0]])


def norm() -> nn.Module:
    model = nn.Sequential(nn.BatchNorm1d(2, momentum=0.3), nn.Dropout(0.9))
    model[1].eval()
    return model


@pytest.mark.quick
def test_mean_and_variance_of_two_samples() -> None:
    model = data_statistics(norm, X)()
    assert model[0].running_mean.tolist() == [1.0, 3.0]
    assert model[0].running_var.tolist() == [2.0, 8.0]
    assert model[0].momentum == 0.3
    assert [m.training for m in model.modules()] == [True, True, False]


def test_a_second_norm_sees_what_the_first_one_makes() -> None:
    """Normalised by the batch, two samples are at ±1: mean 0, and variance 2 over n − 1."""
    model = data_statistics(lambda: nn.Sequential(nn.BatchNorm1d(2, eps=1e-9), nn.BatchNorm1d(2)), X)()
    assert model[1].running_mean.tolist() == pytest.approx([0.0, 0.0], abs=1e-6)
    assert model[1].running_var.tolist() == pytest.approx([2.0, 2.0])


def test_what_has_no_statistics_is_refused() -> None:
    with pytest.raises(NetgrainError, match="found none"):
        data_statistics(lambda: nn.Linear(2, 2), X)()
    with pytest.raises(NetgrainError, match=r"at least two finite .* found \(1, 2\)"):
        data_statistics(norm, X[:1])
