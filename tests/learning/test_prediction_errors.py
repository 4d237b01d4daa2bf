"""The three parts of a standard error: members against the spread over really drawn families, the stored record."""

import math

import pytest
import torch

from netgrain.learning.learning_curves import loo_score
from netgrain.learning.leave_one_out import leave_one_out
from netgrain.learning.prediction_errors import PredictionError, member_error, track_record
from netgrain.learning.targets import targets_of


def test_the_total_is_the_root_of_the_squares() -> None:
    assert PredictionError(0.01, None, 0.04).total == pytest.approx(math.hypot(0.01, 0.04))
    assert PredictionError(0.02, 0.03, 0.06).total == pytest.approx(0.07)


def test_the_record_makes_ninety_per_cent_intervals() -> None:
    record = track_record()
    assert 1.645 * record.kernel.standard == pytest.approx(0.1)
    assert record.kernel.worst == 0.278
    assert "chose nothing" in record.kernel.source
    assert max(record.combined.standard, record.trial.standard) < record.kernel.standard


def test_other_recipes_are_one_more_part() -> None:
    """In `any_recipe` and in words, and not in the total."""
    record, error = track_record(), PredictionError(0.01, None, 0.04)
    assert error.any_recipe == pytest.approx(math.sqrt(0.01**2 + 0.04**2 + record.recipes.spread**2))
    assert 0.005 < record.recipes.spread < record.kernel.standard
    assert record.recipe.startswith("no augmentation")
    assert "augmentation or SGD with momentum moved what was reached by 1.9 points" in record.recipe


def test_the_jackknife_is_the_spread_over_families() -> None:
    """Kernels of single members see the label through random features; the score of eight varies as the error says."""
    g = torch.Generator().manual_seed(0)
    X = torch.randn(150, 10, generator=g, dtype=torch.float64)
    targets = targets_of(X[:, 0] + 0.5 * X[:, 1])
    scores, errors = [], []
    for _ in range(25):
        W = torch.randn(8, 10, 3, generator=g, dtype=torch.float64)
        features = (X @ W).tanh()
        parts = features @ features.mT
        K = parts.mean(0)
        scores.append(float(loo_score(K, targets)))
        ridge = leave_one_out(K, targets.columns).ridge
        error = member_error(parts, targets, ridge)
        assert error is not None
        errors.append(error)
    spread = float(torch.tensor(scores).std())
    assert 0.6 < sum(errors) / len(errors) / spread < 1.8


def test_one_network_has_no_member_error() -> None:
    targets = targets_of(torch.arange(30) % 2)
    assert member_error(None, targets, 1.0) is None
    assert member_error(torch.eye(30)[None], targets, 1.0) is None
    twice = member_error(torch.eye(30).repeat(2, 1, 1), targets, 1.0)
    assert twice == pytest.approx(0)
