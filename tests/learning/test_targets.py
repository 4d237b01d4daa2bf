"""Labels as columns, their scores, and one sentence for each bad input."""

import math
from typing import Any

import pytest
import torch

from netgrain.learning.targets import Targets, check_features, score_of, targets_of
from netgrain.runtime.errors import NetgrainError

N = 40


def test_classes_keep_their_names_and_counts() -> None:
    targets = targets_of([7, -1, 7, 3] * 10)
    assert targets.classes == ("-1", "3", "7")
    assert targets.counts == (10, 10, 20)
    assert targets.chance == 0.5
    assert targets.measure == "accuracy"
    assert torch.equal(targets.columns.sum(1), torch.ones(N, dtype=torch.float64))
    assert targets.columns[1].tolist() == [1, 0, 0]
    assert targets.of(torch.tensor([0, 1])).classes == targets.classes


def test_numbers_stay_numbers() -> None:
    y = torch.linspace(0, 1, N)
    for shaped in (y, y[:, None]):
        targets = targets_of(shaped)
        assert (targets.kind, targets.measure, targets.chance) == ("numbers", "R²", 0.0)
        assert torch.equal(targets.columns[:, 0], y.double())
    assert targets_of(torch.arange(N), target="numbers").kind == "numbers"
    assert targets_of(torch.stack([y, y * y], 1)).columns.shape == (N, 2)
    assert targets_of(y).variance == pytest.approx(float(y.double().var(unbiased=False)))


def test_one_hot_columns_of_a_thousand_classes() -> None:
    targets = targets_of(torch.arange(2000) % 1000)
    assert targets.columns.shape == (2000, 1000)
    score = score_of(targets, targets.columns)
    assert score.value == 1
    assert score.balanced is None  # two samples each: no class has a score of its own
    assert set(score.per_class.values()) == {None}


@pytest.mark.parametrize(
    ("y", "target", "said"),
    [
        ([0] * N, None, "all 40 samples have the label 0"),
        ([0.5] * N, "numbers", "the same target 0.5"),
        ([0, 1] * 9, None, "at least 20 samples, found 18"),
        ([0.0, 1.0] * 20, None, "only 2 different values, which may be classes or numbers"),
        ([[1.0, 0.0], [0.0, 1.0]] * 20, None, r"pass target='classes' \(after y.argmax\(1\)"),
        ([[1.0, 0.0], [0.0, 1.0]] * 20, "classes", r"pass y.argmax\(1\)"),
        ([0.1 * i for i in range(N - 1)] + [math.nan], None, "1 labels that are NaN or Inf, the first at index 39"),
        ([0, 1] * 20, "labels", "target expects 'classes', 'numbers' or None"),
        (list(range(N)), None, "40 different classes for 40 samples"),
        ([[[0]]] * N, None, r"y has shape \(40, 1, 1\)"),
        ([0, 1] * 30, None, r"y has shape \(60,\), expected 40 labels"),
        (torch.zeros(N, dtype=torch.complex64), None, "complex"),
        (None, None, "y is missing"),
        (["a"] * N, None, "np.unique"),
    ],
)
def test_bad_labels_get_one_sentence(y: Any, target: Any, said: str) -> None:
    with pytest.raises(NetgrainError, match=said) as found:
        targets_of(y, N if y is None or len(y) != 18 else None, target=target)
    assert "\n" not in str(found.value)


def test_floats_with_few_values_are_what_is_said() -> None:
    y = [0.0, 1.5] * 20
    assert targets_of(y, target="classes").classes == ("0", "1.5")
    assert targets_of(y, target="numbers").kind == "numbers"


def test_constant_features_get_one_sentence() -> None:
    with pytest.raises(NetgrainError, match="all 30 samples of X are the same"):
        check_features(torch.ones(30, 4))
    with pytest.raises(NetgrainError, match="not finite"):
        check_features(torch.tensor([[1.0, math.nan], [0.0, 1.0]]))
    assert check_features(torch.eye(3)).shape == (3, 3)


def test_scores_of_unequal_classes() -> None:
    """30 of the large class right, none of the small one: accuracy 30/40, balanced 1/2."""
    targets = Targets(torch.tensor([0] * 30 + [1] * 10 + [2] * 4), ("a", "b", "c"))
    always = torch.tensor([[1.0, 0.0, 0.0]]).repeat(44, 1)
    score = score_of(targets, always)
    assert float(score.value) == score.chance == 30 / 44
    assert score.balanced is not None
    assert float(score.balanced) == 0.5
    assert score.per_class["a"] == 1
    assert score.per_class["b"] == 0
    assert score.per_class["c"] is None
    assert score.value.stderr == pytest.approx(math.sqrt(30 / 44 * 14 / 44 / 44))


def test_r_squared_of_the_mean_of_the_others_is_zero() -> None:
    y = torch.randn(N, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    others = (y.sum(0) - y) / (N - 1)
    mean = score_of(Targets(y), others).value
    assert float(mean) == pytest.approx(0, abs=1e-12)
    assert mean.stderr < 1e-12  # it is zero for any sample
    assert float(score_of(Targets(y), y).value) == 1


def test_the_error_of_r_squared_is_its_spread_over_draws() -> None:
    g = torch.Generator().manual_seed(0)
    signal = torch.randn(400, 200, 1, generator=g, dtype=torch.float64)
    y = signal + torch.randn(400, 200, 1, generator=g, dtype=torch.float64)
    found = [score_of(Targets(b), a).value for a, b in zip(signal, y, strict=True)]
    spread = float(torch.tensor([float(f) for f in found]).std())
    assert sum(f.stderr for f in found) / 400 == pytest.approx(spread, rel=0.1)
    assert sum(found) / 400 == pytest.approx(0.5, abs=0.02)
