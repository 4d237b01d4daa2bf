"""Samples and labels of every kind, as sections get them."""

import pytest
import torch
from torch import Tensor, nn

from netgrain import NetgrainError
from netgrain.auditing.measured_data import family_of, kind_of, measured_data


def make() -> nn.Module:
    return nn.Linear(3, 2)


X = torch.randn(50, 3, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("y", "target", "kind"),
    [
        (None, None, "none"),
        (torch.arange(50), None, "classes"),
        (torch.linspace(0, 1, 50), None, "numbers"),
        (torch.rand(50, 2), None, "numbers"),
        (torch.ones(50), None, "classes"),  # and refused there, unless somebody says what is meant
        (torch.ones(50), "numbers", "numbers"),
    ],
)
def test_kinds_of_labels(y: Tensor | None, target: str | None, kind: str) -> None:
    assert kind_of(y, target) == kind  # type: ignore[arg-type]


def test_numbers_are_grouped_in_fifths() -> None:
    found = measured_data(make, X, torch.linspace(0, 1, 50))
    assert torch.bincount(found.groups).tolist() == [10] * 5
    assert found.names[0] == "below 0.2"
    assert found.names[-1] == "0.8 and above"
    assert found.can_train is False  # two outputs, one number


def test_drawn_samples_keep_their_labels() -> None:
    y = (X[:, 0] > 0).long()
    found = measured_data(make, X, y, samples=32)
    assert found.rows is not None
    assert torch.equal(found.X, X[found.rows])
    assert found.y is not None
    assert torch.equal(found.y, y[found.rows])
    assert found.given == 50


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(NetgrainError, match="y holds 3 numbers for each sample, the network has 2 outputs"):
        measured_data(make, X, torch.rand(50, 3))
    with pytest.raises(NetgrainError, match="target expects"):
        measured_data(make, X, None, target="words")  # type: ignore[arg-type]


def test_a_class_that_no_drawn_sample_has_is_told() -> None:
    rare = torch.zeros(50, dtype=torch.int64)
    chosen = measured_data(make, X, None, samples=32).rows
    assert chosen is not None
    rare[next(i for i in range(50) if i not in chosen)] = 1
    with pytest.raises(NetgrainError, match="drawn from 50 are all the same or of one class"):
        measured_data(make, X, rare, samples=32)


def test_a_family_from_one_network() -> None:
    family, known = family_of(nn.Linear(3, 2))
    assert known
    assert not torch.equal(family().weight, family().weight)  # type: ignore[arg-type]
