"""Leave-one-out in closed form against really leaving out; groups, features, ridges, bad kernels."""

import pytest
import torch
from torch import Tensor

from netgrain.geometry.estimate import Estimate
from netgrain.learning.decompositions import decomposed, decomposed_features
from netgrain.learning.leave_one_out import (
    RIDGES,
    at_whole_frequencies,
    groups_of,
    leave_one_out,
    predictions_at,
)
from netgrain.learning.targets import score_of, targets_of
from netgrain.runtime.errors import NetgrainError
from tests import naive


def problem(n: int = 40, d: int = 60, columns: int = 1, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Features and columns that depend on them."""
    g = torch.Generator().manual_seed(seed)
    F = torch.randn(n, d, generator=g, dtype=torch.float64) * torch.linspace(2, 0.2, d, dtype=torch.float64)
    noise = torch.randn(n, columns, generator=g, dtype=torch.float64)
    return F, F @ torch.randn(d, columns, generator=g, dtype=torch.float64) / 4 + noise + 3


@pytest.mark.parametrize("ridge", [1e-2, 1.0, 100.0])
@pytest.mark.parametrize("columns", [1, 10, 70])
def test_it_equals_really_leaving_out(ridge: float, columns: int) -> None:
    F, Y = problem(columns=columns)
    K = F @ F.T + 7  # a constant that the intercept takes
    found = leave_one_out(K, Y, ridges=(ridge,)).predictions
    slow = naive.leave_one_out(K, Y, ridge * decomposed(K).scale)
    assert float((found - slow).abs().max()) < 1e-12 * float(Y.abs().max()) * 10


def test_the_naive_loop_sees_a_wrong_answer() -> None:
    F, Y = problem()
    K = F @ F.T
    found = leave_one_out(K, Y, ridges=(1.0,)).predictions
    assert float((found - naive.leave_one_out(K, Y, 0.9 * decomposed(K).scale)).abs().max()) > 1e-4


def test_equal_rows_are_left_out_together() -> None:
    F, Y = problem()
    F[5], F[9], F[20], F[21] = F[3], F[3], F[30], F[31]
    groups = groups_of(F)
    assert int((torch.bincount(groups) == 3).sum()) == 1
    assert int((torch.bincount(groups) == 2).sum()) == 2
    K = F @ F.T
    found = leave_one_out(K, Y, groups=groups, ridges=(0.1,)).predictions
    slow = naive.leave_one_out(K, Y, 0.1 * decomposed(K).scale, groups)
    assert float((found - slow).abs().max()) < 1e-11
    alone = leave_one_out(K, Y, ridges=(0.1,)).predictions
    assert float((found - alone).abs().max()) > 0.01


def test_twins_do_not_give_the_answer_away() -> None:
    """Random labels, each sample twice: without groups they are predicted, with groups they are not."""
    F, _ = problem(n=60)
    g = torch.Generator().manual_seed(1)
    y = torch.randn(60, 1, generator=g, dtype=torch.float64).repeat(2, 1)
    F = F.repeat(2, 1)
    K = F @ F.T
    variance = float(y.var(unbiased=False))
    assert leave_one_out(K, y).squared_error < 0.3 * variance
    assert leave_one_out(K, y, groups=groups_of(F)).squared_error > 0.95 * variance


@pytest.mark.parametrize("duplicates", [False, True])
def test_features_give_the_same_as_their_kernel(duplicates: bool) -> None:
    F, Y = problem(n=70, d=12, columns=3)
    if duplicates:
        F[10:20] = F[:10]
    groups = groups_of(F)
    dense = leave_one_out(F @ F.T, Y, groups=groups)
    thin = leave_one_out(decomposed_features(F), Y, groups=groups)
    assert thin.ridge == dense.ridge
    assert float((thin.predictions - dense.predictions).abs().max()) < 1e-10
    assert thin.freedom == pytest.approx(dense.freedom)


def test_a_given_ridge_by_cholesky_is_the_same() -> None:
    F, Y = problem(columns=3)
    F[7] = F[8]
    K, groups = F @ F.T + 5, groups_of(F)
    for ridge in (1e-4, 1.0):
        whole = leave_one_out(K, Y, groups=groups, ridges=(ridge,)).predictions
        assert float((predictions_at(K, Y, ridge, groups) - whole).abs().max()) < 1e-9


def test_scale_of_the_kernel_and_order_of_samples_change_nothing() -> None:
    F, Y = problem(columns=2)
    K = F @ F.T
    order = torch.randperm(len(K), generator=torch.Generator().manual_seed(3))
    first, larger, moved = (
        leave_one_out(K, Y),
        leave_one_out(1e6 * K, Y),
        leave_one_out(K[order][:, order], Y[order]),
    )
    assert first.ridge == larger.ridge == moved.ridge
    assert torch.allclose(first.predictions, larger.predictions, rtol=1e-9)
    assert torch.allclose(first.predictions[order], moved.predictions, rtol=1e-9)


def test_the_ridge_has_the_least_squared_error() -> None:
    F, Y = problem()
    found = leave_one_out(F @ F.T, Y)
    slow = [naive.leave_one_out(F @ F.T, Y, ridge * decomposed(F @ F.T).scale) for ridge in RIDGES]
    errors = [float((p - Y).square().sum(1).mean()) for p in slow]
    assert found.ridge == RIDGES[errors.index(min(errors))]
    assert found.squared_error == pytest.approx(min(errors), rel=1e-9)
    assert RIDGES[0] == pytest.approx(1e-6)
    assert RIDGES[-1] == pytest.approx(100)
    assert len(RIDGES) == 17


def test_generalised_cross_validation_is_leave_one_out_for_circulant_kernels() -> None:
    n, ridge = 48, 0.03
    distance = torch.arange(n, dtype=torch.float64)
    row = torch.exp(torch.cos(2 * torch.pi * distance / n))
    K = torch.stack([row.roll(i) for i in range(n)])
    y = torch.randn(n, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = decomposed(K)
    inside = found.residuals(y, [ridge])
    gcv = float(inside.square().mean() / found.diagonal([ridge]).mean() ** 2)
    assert leave_one_out(K, y, ridges=(ridge,)).squared_error == pytest.approx(gcv, rel=1e-10)


def test_a_sample_that_decides_itself_drops_the_ridge() -> None:
    F, Y = problem(n=30, d=5)
    F = torch.cat([F, torch.zeros(30, 1, dtype=torch.float64)], 1)
    F[0, 5] = 1e3  # no other sample has this feature
    found = leave_one_out(F @ F.T, Y, ridges=(1e-10, 1.0))
    assert found.squared_errors[0] == float("inf")
    assert found.ridge == 1.0
    with pytest.raises(NetgrainError, match="decide its own prediction"):
        leave_one_out(F @ F.T, Y, ridges=(1e-10,))


@pytest.mark.parametrize(
    ("K", "said"),
    [
        (torch.ones(30, 30), "the same for all samples"),
        (torch.full((30, 30), torch.nan), "NaN or Inf"),
        (torch.ones(30, 3), r"shape \(samples, samples\)"),
        (torch.eye(31), "the labels 30"),
    ],
)
def test_bad_kernels_get_one_sentence(K: Tensor, said: str) -> None:
    with pytest.raises(NetgrainError, match=said):
        leave_one_out(K, torch.arange(30.0)[:, None])


def test_all_equal_rows_are_refused() -> None:
    F, Y = problem(n=30)
    with pytest.raises(NetgrainError, match="all samples are equal"):
        leave_one_out(F @ F.T, Y, groups=torch.zeros(30, dtype=torch.int64))


def test_negative_zero_is_zero() -> None:
    assert groups_of(torch.tensor([[0.0, 1.0], [-0.0, 1.0], [0.0, 2.0]])).tolist() == [0, 0, 1]


def right_share(K: Tensor, y: Tensor, groups: Tensor | None = None) -> Estimate:
    targets = targets_of(y)
    found = leave_one_out(K, targets.columns, groups=groups)
    return score_of(targets, at_whole_frequencies(found.predictions, targets.columns, groups)).value


@pytest.mark.parametrize("classes", [2, 4, 10])
def test_shuffled_labels_are_at_chance_in_nine_of_ten_seeds(classes: int) -> None:
    """Equal numbers in all classes: where the mean of the others decides, plain leave-one-out is always wrong."""
    F, _ = problem(n=200, d=10)
    found, inside, plain = decomposed(F @ F.T), 0, []
    for seed in range(10):
        y = torch.arange(200).remainder(classes)[torch.randperm(200, generator=torch.Generator().manual_seed(seed))]
        targets = targets_of(y)
        left = leave_one_out(found, targets.columns).predictions
        score = score_of(targets, at_whole_frequencies(left, targets.columns)).value
        inside += abs(float(score) - 1 / classes) < 2 * score.stderr
        plain.append(float(score_of(targets, left).value))
    assert inside >= 9
    assert sum(plain) / 10 < 0.95 / classes


def test_shuffled_labels_on_a_flat_kernel_are_at_chance_on_average() -> None:
    """Many equal modes: each pair of samples counts twice, so that a score varies up to √2 times its error."""
    F, _ = problem(n=200, d=300)
    found, scores = decomposed(F @ F.T), []
    for seed in range(20):
        y = torch.arange(200).remainder(4)[torch.randperm(200, generator=torch.Generator().manual_seed(seed))]
        targets = targets_of(y)
        left = leave_one_out(found, targets.columns).predictions
        scores.append(score_of(targets, at_whole_frequencies(left, targets.columns)).value)
    allowed = 2 * 2**0.5 * scores[0].stderr
    assert abs(sum(scores) / 20 - 0.25) < allowed / 20**0.5
    assert sum(abs(score - 0.25) < allowed for score in scores) >= 18


def test_groups_of_shuffled_labels_are_at_chance() -> None:
    F, _ = problem(n=100, d=300)
    F, inside = F.repeat_interleave(2, 0), 0
    for seed in range(10):
        y = torch.arange(100).remainder(2)[torch.randperm(100, generator=torch.Generator().manual_seed(seed))]
        score = right_share(F @ F.T, y.repeat_interleave(2), groups_of(F))
        inside += abs(float(score) - 0.5) < 2 * 2**0.5 * score.stderr  # 100 samples, each twice
    assert inside >= 9


def test_labels_along_the_first_mode_are_learnt() -> None:
    F, _ = problem(n=200, d=30)
    F[:, 0] *= 4
    K = F @ F.T
    assert right_share(K, (decomposed(K).vectors[:, 0] > 0).long()) > 0.95
