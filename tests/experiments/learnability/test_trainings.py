"""One seed at the best of its rates."""

import pytest
import torch
from torch import nn

from netgrain.experiments.learnability.reaching import Momentum, Recipe, train_until
from netgrain.experiments.learnability.tasks import TaskData
from netgrain.experiments.learnability.trainings import training_outcome


def data(n: int = 60) -> TaskData:
    X = torch.randn(3 * n, 4, generator=torch.Generator().manual_seed(0))
    y = (X[:, 0] > 0).long()
    train, validation, test = zip(X.split(n), y.split(n), strict=True)
    return TaskData(train, validation, test, torch.zeros(4))


def make() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))


def test_the_best_rate_by_validation_is_tested() -> None:
    found = training_outcome(make, data(), [1e-3, 3.16e-3], Recipe(3, cooling=1), seed=0)
    rates = {float(rate): score for rate, score in found.numbers["rates"].items()}
    assert len(rates) >= 3  # the best of two is at the edge
    rate = found.numbers["rate"]
    assert rates[rate] == max(rates.values())
    alone = train_until(make, *data().train, rate, Recipe(3, cooling=1), seed=0)
    assert torch.equal(found.arrays["right"].bool(), alone.right(*data().test))
    assert found.numbers["test"] == pytest.approx(float(alone.right(*data().test).double().mean()))
    assert rates[rate] == pytest.approx(float(alone.right(*data().validation).double().mean()))


def test_a_single_rate_is_taken_and_the_optimiser_is_the_one_asked_for() -> None:
    found = training_outcome(make, data(), [0.05], Recipe(2), seed=1, optimizer=Momentum)
    assert list(found.numbers["rates"]) == ["0.05"]
    assert not found.numbers["edge"]
    alone = train_until(make, *data().train, 0.05, Recipe(2), seed=1, optimizer=Momentum)
    assert found.numbers["train"] == alone.train
    adamw = train_until(make, *data().train, 0.05, Recipe(2), seed=1)
    assert not torch.equal(adamw.model[0].weight, alone.model[0].weight)


def test_limits_of_rates_and_trainings_that_diverge() -> None:
    far = TaskData(*((X * 1e30, y) for X, y in (data().train, data().validation, data().test)), torch.zeros(4))
    found = training_outcome(make, far, [1e30, 3e30], Recipe(5), seed=0, limits=(1e29, 1e31))
    assert found.numbers["end"] == "diverged"
    assert found.numbers["train"] is None
    assert set(found.numbers["rates"].values()) == {None}
    near = training_outcome(make, data(), [1e-3, 3.16e-3], Recipe(3, cooling=1), seed=0, limits=(1e-3, 3.16e-3))
    assert list(near.numbers["rates"]) == ["0.001", "0.00316"]
    assert near.numbers["edge"]
