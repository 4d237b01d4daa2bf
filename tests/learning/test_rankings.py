"""Rankings: the best first, and who cannot be told apart from it."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from netgrain.geometry.estimate import Estimate
from netgrain.learning.prediction_errors import track_record
from netgrain.learning.predictions import learnability
from netgrain.learning.rankings import margin, ranked, ranking
from netgrain.learning.trials import Trial
from netgrain.runtime.errors import NetgrainError


def test_many_samples_leave_the_margin_of_the_record() -> None:
    assert margin(0.001, 0.001) == track_record().alike
    assert margin(0.03, 0.04) == pytest.approx(1.645 * 0.05)
    rows = [(name, Estimate(score, 0.1), 0.001, None) for name, score in (("a", 0.9), ("b", 0.871), ("c", 0.869))]
    assert [p.like_best for p in ranked(rows)] == [True, True, False]


def test_networks_within_their_errors_cannot_be_told_apart() -> None:
    X = torch.randn(40, 4, generator=torch.Generator().manual_seed(0))
    one = learnability(
        lambda: nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)),
        X,
        torch.arange(40) % 2,
        kinds=("last",),
        members=1,
        trial=False,
        grain=False,
    )
    by_samples = replace(one.error, samples=0.03)
    low, middle, high = (replace(one, score=Estimate(score, 0.2, 40), error=by_samples) for score in (0.5, 0.8, 0.85))
    places = ranking([low, high, middle], ["low", "high", "middle"])
    assert [p.name for p in places] == ["high", "middle", "low"]
    assert [p.like_best for p in places] == [True, True, False]
    tried = Trial(
        Estimate(0.7, 0.01, 20), "accuracy", "halves", 1e-3, {1e-3: 0.7}, 100, 20, 1.0, Estimate(0.1, 0.01, 20)
    )
    better = replace(low, trial=replace(tried, score=Estimate(0.95, 0.01, 20), gain=Estimate(0.4, 0.01, 20)))
    assert [p.name for p in ranking([better, high], ["better", "high"])] == ["high", "better"]  # one without a trial
    both = ranking([better, replace(high, trial=tried)], ["better", "high"])
    assert [p.name for p in both] == ["better", "high"]
    assert float(both[0].score) == pytest.approx(0.95 + 0.5 * (0.5 - 0.55))
    other = replace(one, about=replace(one.about, given=50))
    with pytest.raises(NetgrainError, match="the same samples and labels"):
        ranking([low, other])
