"""Answers by hand on a few samples; calibration of a network that is as sure as it should be."""

import math

import pytest
import torch
from torch import nn

from netgrain.auditing.answers import Answers, explained, outputs_at


def test_three_samples_by_hand() -> None:
    """Right with 3/4, wrong with 9/10, right with 3/4: bins 7 and 9 miss by |3/4 − 1| twice and |9/10 − 0|."""
    p = torch.tensor([[0.75, 0.25], [0.1, 0.9], [0.25, 0.75]], dtype=torch.float64)
    found = Answers(p.log(), torch.tensor([0, 0, 1]))
    assert found.said.tolist() == [0, 1, 1]
    assert found.accuracy == pytest.approx(2 / 3)
    assert found.accuracy.stderr == pytest.approx(math.sqrt((2 / 3) * (1 / 3) / 2))
    assert found.chance == pytest.approx(2 / 3)
    assert found.calibration_error == pytest.approx((2 * 0.25 + 0.9) / 3)
    assert found.overconfidence == pytest.approx((0.75 + 0.9 + 0.75) / 3 - 2 / 3)
    (mistake,) = found.mistakes()
    assert (mistake.true, mistake.said, mistake.count) == (0, 1, 1)
    assert mistake.share == pytest.approx(1 / 2)


def test_one_output_says_class_one_above_zero() -> None:
    found = Answers(torch.tensor([[2.0], [-1.0]]).double(), torch.tensor([1, 1]))
    assert found.said.tolist() == [1, 0]
    assert found.probabilities[0, 1] == pytest.approx(1 / (1 + math.exp(-2)))


def test_a_calibrated_network_is_not_overconfident() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(4000, 3, generator=generator).double()
    y = torch.multinomial(logits.softmax(1), 1, generator=generator)[:, 0]
    found, sure = Answers(logits, y), Answers(3 * logits, y)
    assert abs(found.overconfidence) < 4 * found.overconfidence.stderr
    assert found.calibration_error < 0.03
    assert sure.overconfidence > 10 * sure.overconfidence.stderr


def test_explained_variance() -> None:
    y = torch.randn(2000, generator=torch.Generator().manual_seed(0))
    f = y + 0.5 * torch.randn(2000, generator=torch.Generator().manual_seed(1))
    found = explained(f[:, None], y)
    assert found == pytest.approx(0.75, abs=4 * found.stderr)
    assert 0.005 < found.stderr < 0.02
    assert explained(y.mean().expand(2000, 1), y) == pytest.approx(0, abs=1e-6)
    assert math.isnan(explained(f[:, None], torch.ones(2000)))


def test_outputs_do_not_depend_on_batches() -> None:
    net, X = nn.Linear(3, 2), torch.randn(10, 3)
    assert torch.allclose(outputs_at(net, X), outputs_at(net, X, at_once=3))
    assert not outputs_at(net, X).requires_grad
