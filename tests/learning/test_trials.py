"""Trial trainings on tasks with a known answer; both designs, groups, edges of the grid, the cost model."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from netgrain.families.reading import read
from netgrain.geometry.estimate import Estimate
from netgrain.learning.leave_one_out import LeaveOneOut, leave_one_out
from netgrain.learning.targets import targets_of
from netgrain.learning.trials import FEW_RATES, RATES, STEPS, Trial, rates_and_steps, trial_training
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.randomness import generator_for


def trial(*args: Any, **options: Any) -> Trial:
    return trial_training(*args, **options).trial


def mlp(outputs: int = 2) -> nn.Module:
    return nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, outputs))


def samples(n: int = 300) -> Tensor:
    return torch.randn(n, 6, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("design", ["80:20", "halves"])
def test_a_linear_label_is_learnt_and_a_shuffled_one_is_not(design: str) -> None:
    X = samples()
    y = (X[:, 0] > 0).long()
    learnt = trial(mlp, X, targets_of(y), design=design, rates=(1e-3, 1e-2), steps=150)  # type: ignore[arg-type]
    assert learnt.score > 0.9
    assert learnt.fitted
    assert learnt.trained_on == (240 if design == "80:20" else 150)
    shuffled = targets_of(y[torch.randperm(300, generator=torch.Generator().manual_seed(1))])
    lost = trial(mlp, X, shuffled, design=design, rates=(1e-3, 1e-2), steps=150)  # type: ignore[arg-type]
    assert abs(lost.score - 0.5) < 3 * lost.score.stderr


@pytest.mark.parametrize("design", ["80:20", "halves"])
def test_numbers_are_learnt_on_their_own_scale(design: str) -> None:
    X = samples()
    y = 1000 + 30 * X[:, 0].relu()
    found = trial(lambda: mlp(1), X, targets_of(y), design=design, rates=(1e-2,), steps=300)  # type: ignore[arg-type]
    assert found.measure == "R²"
    assert found.score > 0.9


def test_it_sees_what_must_be_learnt() -> None:
    """The product of two signs among six features: a training finds it, and more steps find it better."""
    X = samples(400)
    targets = targets_of((X[:, 0] * X[:, 1] > 0).long())
    long = trial(mlp, X, targets, rates=(1e-2,), steps=300)
    short = trial(mlp, X, targets, rates=(1e-2,), steps=2)
    assert long.score > 0.85
    assert long.score > short.score
    assert not short.fitted
    assert "training accuracy" in short.remarks[-1]


def test_the_same_seed_gives_the_same_trial_and_equal_rows_stay_together() -> None:
    X, y = samples(100).repeat(2, 1), (torch.arange(100) % 2).repeat(2)  # labels that mean nothing, each sample twice
    groups = torch.arange(100).repeat(2)
    first = trial(mlp, X, targets_of(y), rates=(1e-2,), steps=200, groups=groups)
    again = trial(mlp, X, targets_of(y), rates=(1e-2,), steps=200, groups=groups)
    assert first == again
    assert first.score < 0.72
    together = trial(mlp, X, targets_of(y), design="80:20", rates=(1e-2,), steps=400)
    assert together.score > 0.75  # without groups a twin has told the answer


def made_trial(rate: float, train_score: float = 1.0) -> Trial:
    return Trial(
        Estimate(0.8, 0.02, 100), "accuracy", "halves", rate, {0.001: 0.7, 0.01: 0.8, 0.1: None}, 100, 50, train_score
    )


def test_edges_of_the_grid_and_misfits_are_named() -> None:
    assert made_trial(0.01).remarks == ()
    assert "smallest" in made_trial(0.001).remarks[0]
    assert "largest" in made_trial(0.1).remarks[0]
    assert "too small for these samples" in made_trial(0.01, 0.6).remarks[0]


def test_the_cost_sets_rates_and_steps() -> None:
    assert rates_and_steps(read(mlp, (6,))) == (RATES, STEPS)
    wide = read(lambda: nn.Sequential(nn.Linear(6, 4000), nn.ReLU(), nn.Linear(4000, 4000), nn.Linear(4000, 2)), (6,))
    step = 50 * (6 * (6 * 4000 + 4000 * 4000 + 8000) + 3e5)
    assert rates_and_steps(wide, 2e12) == (FEW_RATES, int(2e12 / step / 2))
    assert rates_and_steps(wide, 1200 * step) == (RATES, STEPS)


def test_the_gain_is_against_the_kernel_on_the_same_samples() -> None:
    """A linear kernel reads out of the other half what ridge regression with each sample left out does."""
    X = samples(200)
    targets = targets_of((X[:, 0] > 0).long())
    K = (X @ X.T).double()
    found = trial(mlp, X, targets, rates=(1e-2,), steps=200, kernel=K)
    assert found.gain is not None
    place = torch.randperm(200, generator=generator_for(0, "trial training"))
    rest = (place >= 100).nonzero()[:, 0]
    hits = []
    for i in rest.tolist():  # really left out, at the ridge that leave-one-out chose
        others = rest[rest != i]
        hits.append(ridge_hit(X, targets.columns, others, i, leave_one_out(K[rest][:, rest], targets.columns[rest])))
    expected = float(found.score) - sum(hits) / len(hits)
    assert float(found.gain) == pytest.approx(expected, abs=0.021)  # ties of frequencies: two samples of a hundred
    assert 0 < found.gain.stderr < math.hypot(found.score.stderr, 0.05)


def ridge_hit(X: Tensor, columns: Tensor, others: Tensor, i: int, chosen: LeaveOneOut) -> bool:
    """Whether ridge regression on the other samples gets sample i right."""
    mean, labels = X[others].double().mean(0), columns[others]
    A = X[others].double() - mean
    scale = float((A @ A.T).diagonal().mean())
    weights = torch.linalg.solve(
        A.T @ A / scale + chosen.ridge * torch.eye(6).double(), A.T @ (labels - labels.mean(0))
    )
    predicted = labels.mean(0) + (X[i].double() - mean) @ weights / scale
    return bool(predicted.argmax() == columns[i].argmax())


def test_bad_trials_get_one_sentence() -> None:
    X, targets = samples(60), targets_of(torch.arange(60) % 3)
    with pytest.raises(NetgrainError, match="design expects"):
        trial(mlp, X, targets, design="third")  # type: ignore[arg-type]
    with pytest.raises(NetgrainError, match="labels run from 0 to 2, but the model has 2 outputs"):
        trial(mlp, X, targets, rates=(1e-3,), steps=2)
    with pytest.raises(NetgrainError, match="diverged at every rate"):
        trial(lambda: mlp(3), X, targets, rates=(1e30,), steps=20)
