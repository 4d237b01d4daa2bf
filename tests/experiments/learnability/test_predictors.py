"""Every predictor has its number where it is defined, and sees the training samples alone."""

import pytest
import torch
from torch import nn

from netgrain.experiments.learnability import proxies
from netgrain.experiments.learnability.predictors import (
    COMBINED,
    OURS,
    SAYS,
    SCORES,
    combined_of,
    pair_predictions,
    proxy_numbers,
    task_predictions,
)
from netgrain.families.members import member
from netgrain.learning.predictions import learnability

X = torch.randn(60, 4, generator=torch.Generator().manual_seed(0))
Y = (X[:, 0] > 0).long()


def make() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


def test_numbers_are_those_of_learnability_and_the_proxies() -> None:
    found = pair_predictions(make, X, Y)
    numbers = found["numbers"]
    assert set(numbers) | {COMBINED, "linear rule", "neighbours", "fixed ranking"} == set(SAYS)
    direct = learnability(make, X, Y, grain=False, trial=True, progress=False)
    assert direct.trial is not None
    assert direct.combined is not None
    assert numbers[OURS] == float(direct.score)
    assert numbers[OURS] == numbers[found["taken"]]
    assert numbers["trial"] == float(direct.trial.score)
    assert combined_of(found) == float(direct.combined)
    assert found["warned"] == direct.features_learnt
    assert numbers["gradient norm"] == proxies.gradient_norm(member(make, 0, 0), X, Y)
    assert all(0 <= numbers[name] <= 1 for name in SCORES if name in numbers)


def test_what_is_not_defined_is_none() -> None:
    assert proxy_numbers(lambda: nn.Linear(4, 2), X, Y, 0)["NASWOT"] is None
    untried = pair_predictions(make, X, Y, trial=False)
    assert untried["numbers"]["trial"] is None
    assert combined_of(untried) is None


def test_tasks_by_themselves() -> None:
    found = task_predictions(X, Y)
    assert found["neighbours"] == pytest.approx(proxies.neighbours(X, Y))
    assert found["linear rule"] is not None
    assert found["linear rule"] > 0.85
