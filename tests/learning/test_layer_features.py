"""Features of every layer against those taken by hand."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from netgrain.families.members import member
from netgrain.learning.layer_features import HEAD, feature_plan, last_features, layer_features, summaries_of
from netgrain.runtime.errors import NetgrainError

X = torch.randn(7, 2, 9, 8, generator=torch.Generator().manual_seed(0))


class Mixed(nn.Module):
    """A module that overwrites, a functional activation, an activation of weights alone, and a sum before the head."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.act = nn.Conv2d(2, 3, 3), nn.ReLU(inplace=True)
        self.gate = nn.Parameter(torch.randn(6))
        self.second, self.head = nn.Linear(3, 6), nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        pooled = self.act(self.first(x)).mean((2, 3))
        h = torch.tanh(self.second(pooled)) * torch.sigmoid(self.gate)
        return self.head(h + 1)


@pytest.mark.quick
def test_activations_of_samples_and_the_input_of_the_head() -> None:
    model = member(Mixed, 0, 0)
    plan = feature_plan(model, X[:3])
    assert plan.names == ("relu in act (mean)", "relu in act (grid)", "tanh", HEAD)
    maps = model.first(X).relu()
    h = model.second(maps.mean((2, 3))).tanh()
    expected = [maps.mean((2, 3)), F.adaptive_avg_pool2d(maps, 4).flatten(1), h, h * model.gate.sigmoid() + 1]
    for batch in (7, 3):
        for found, by_hand in zip(layer_features(model, X, plan, batch), expected, strict=True):
            torch.testing.assert_close(found, by_hand)
    torch.testing.assert_close(last_features(model, X, 2), expected[-1])


def test_an_input_of_the_head_that_is_an_activation_counts_once() -> None:
    model = member(lambda: nn.Sequential(nn.Flatten(), nn.Linear(144, 5), nn.GELU(), nn.Linear(5, 1)), 0, 0)
    assert feature_plan(model, X[:3]).names == ("gelu in 2",)
    linear = member(lambda: nn.Sequential(nn.Flatten(), nn.Linear(144, 5)), 0, 0)
    plan = feature_plan(linear, X[:3])
    assert plan.names == (HEAD,)
    assert torch.equal(layer_features(linear, X, plan, 4)[0], X.flatten(1))


def test_calls_of_modules_where_activations_are_not_seen() -> None:
    model = member(lambda: nn.Sequential(nn.Flatten(), nn.Linear(144, 5), nn.Tanh(), nn.Linear(5, 1)), 0, 0)
    plan = feature_plan(model, X[:3], modules=True)
    assert plan.names == ("0", "1", "2", "3")  # what the head gets is the output of '2'
    assert torch.allclose(layer_features(model, X, plan, 4)[3], model(X), atol=1e-6)


def test_maps_tokens_vectors_and_windows() -> None:
    def shapes(t: Tensor, samples: int, last: bool) -> list[tuple[int, ...]]:
        return [tuple(s.shape) for _, s in summaries_of(t, samples, channels_last=last)]

    assert shapes(torch.zeros(2, 3), 2, False) == [(2, 3)]
    assert shapes(torch.zeros(2, 9, 3), 2, True) == [(2, 3)]  # tokens: their mean only
    assert shapes(torch.zeros(2, 3, 40), 2, False) == [(2, 3), (2, 48)]
    assert shapes(torch.zeros(2, 3, 2, 9), 2, False) == [(2, 3), (2, 24)]
    assert shapes(torch.zeros(2, 2, 9, 3), 2, True) == [(2, 3), (2, 24)]
    assert shapes(torch.zeros(2, 3, 1, 1), 2, False) == [(2, 3)]
    assert shapes(torch.zeros(8, 5, 3), 2, True) == [(2, 3)]
    assert shapes(torch.zeros(5, 3), 2, False) == []


def test_models_without_features() -> None:
    with pytest.raises(NetgrainError, match="found neither an activation nor a Linear layer"):
        feature_plan(member(lambda: nn.Conv2d(2, 1, 3), 0, 0), X[:3])
    with pytest.raises(NetgrainError, match="kind='last' expects a model that ends in a Linear layer"):
        last_features(member(lambda: nn.Conv2d(2, 1, 3), 0, 0), X, 4)
