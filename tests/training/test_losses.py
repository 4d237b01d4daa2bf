"""Losses by hand: their values, their derivatives, and the form of their targets."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from netgrain.runtime.errors import NetgrainError
from netgrain.training.losses import (
    LOSSES,
    LossNotFinite,
    batch_loss,
    check_loss,
    checked_targets,
    class_targets,
    loss_of,
    number_targets,
)

f = torch.tensor([[1.0, 0.0], [0.0, 3.0]])
CLASSES = torch.tensor([0, 1])


@pytest.mark.quick
@pytest.mark.parametrize(
    ("name", "value", "slope"),
    [
        ("sse", 2.0, [[0.0, 0.0], [0.0, 2.0]]),  # one-hot targets: (1, 0) and (0, 1)
        (
            "cross-entropy",
            math.log(1 + math.exp(-1)) + math.log(1 + math.exp(-3)),
            [[-1 / (1 + math.e), 1 / (1 + math.e)], [1 / (1 + math.exp(3)), -1 / (1 + math.exp(3))]],
        ),
    ],
)
def test_sum_over_samples_and_its_derivative(name: str, value: float, slope: list[list[float]]) -> None:
    loss = loss_of(name)
    targets = checked_targets(CLASSES, 2, 2, loss, torch.float32)
    torch.testing.assert_close(float(loss.value(f, targets)), value)
    torch.testing.assert_close(loss.derivative(f, targets), torch.tensor(slope))


@pytest.mark.parametrize("name", list(LOSSES))
def test_training_sees_the_sum_or_its_mean(name: str) -> None:
    row = LOSSES[name]
    total = float(row.value(f, CLASSES))
    torch.testing.assert_close(float(batch_loss(name)(f, CLASSES)), total / 2 if row.mean else total)


def test_smooth_labels() -> None:
    smooth = batch_loss("cross-entropy", 0.2)(f, CLASSES)
    torch.testing.assert_close(smooth, F.cross_entropy(f, torch.tensor([[0.9, 0.1], [0.1, 0.9]])))


def test_one_logit_is_the_logistic_loss() -> None:
    loss, logit = loss_of("cross-entropy"), torch.tensor([[2.0], [-1.0]])
    targets = checked_targets(CLASSES, 2, 1, loss, torch.float32)
    torch.testing.assert_close(
        loss.value(logit, targets), F.binary_cross_entropy_with_logits(logit, torch.tensor([[0.0], [1.0]])) * 2
    )
    with pytest.raises(NetgrainError, match=r"labels 0 and 1 for cross-entropy on one output.*from 0 to 2"):
        checked_targets(torch.tensor([0, 2]), 2, 1, loss, torch.float32)


def test_targets_of_each_kind() -> None:
    assert checked_targets(CLASSES, 2, 3, loss_of("sse"), torch.float64).tolist() == [[1, 0, 0], [0, 1, 0]]
    assert checked_targets(CLASSES, 2, 3, loss_of("cross-entropy"), torch.float64).dtype == torch.int64
    assert number_targets(torch.tensor([1.0, 2.0]), 2, 1, torch.float64).tolist() == [[1.0], [2.0]]
    own = loss_of(lambda f, y: f.sum())
    assert checked_targets(torch.zeros(2, 5), 2, 3, own, torch.float64).dtype == torch.float64
    for call, message in (
        (lambda: checked_targets(CLASSES, 3, 2, own, torch.float32), "one label per sample, 3 of them"),
        (lambda: number_targets(torch.tensor([1.0, math.nan]), 2, 1, torch.float32), "expected finite targets"),
        (lambda: number_targets(torch.zeros(2, 3), 2, 2, torch.float32), r"found \(2, 3\)"),
        (lambda: class_targets(CLASSES, 2, 1), "two outputs or more, found 1"),
        (lambda: class_targets(torch.tensor([0, 5]), 2, 2), "labels run from 0 to 5"),
        (lambda: loss_of("mse"), "expects 'sse', 'cross-entropy' or a function"),
    ):
        with pytest.raises(NetgrainError, match=message):
            call()


def test_a_loss_of_ones_own_must_react_to_the_outputs() -> None:
    check_loss(loss_of(lambda f, y: f.square().sum()), CLASSES, 2, torch.float32)
    check_loss(loss_of(lambda f, y: f.sum() / 0), CLASSES, 2, torch.float32)  # need not be defined at random outputs
    with pytest.raises(NetgrainError, match="its gradient is zero"):
        check_loss(loss_of(lambda f, y: 0 * f.sum()), CLASSES, 2, torch.float32)
    with pytest.raises(NetgrainError, match="a function of"):
        loss_of(lambda f, y: torch.ones(())).derivative(f, CLASSES)
    with pytest.raises(NetgrainError, match=r"found shape \(2,\); sum it"):
        loss_of(lambda f, y: f.sum(1)).derivative(f, CLASSES)
    with pytest.raises(LossNotFinite, match="expected a finite number"):
        loss_of(lambda f, y: f.sum() / 0).derivative(f, CLASSES)

    def root(f: Tensor, y: Tensor) -> Tensor:
        return f.sqrt().sum()

    with pytest.raises(LossNotFinite, match="has NaN or Inf; use a loss that is smooth there"):
        loss_of(root).derivative(f, CLASSES)
