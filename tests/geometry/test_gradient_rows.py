"""Gradient rows of members: those of a linear network are its weights, alone and side by side."""

import math

import pytest
import torch
from torch import nn

from netgrain.families.members import member
from netgrain.families.probes import Gaussian
from netgrain.geometry.gradient_rows import Rows, check_rows
from netgrain.runtime.errors import NetgrainError


def linear() -> nn.Module:
    return nn.Linear(3, 2)


def dead() -> nn.Module:
    net = nn.Linear(3, 2)
    nn.init.zeros_(net.weight)
    return net


@pytest.mark.quick
def test_rows_of_a_linear_network_are_its_weights() -> None:
    rows = Rows(linear, 5, (3,), Gaussian(1), 4, "all", None, torch.device("cpu"))
    assert rows.why_one_by_one() is None
    for found in (rows.one_by_one(range(2, 5)), rows.side_by_side(range(2, 5))):
        for i, outcome in zip(range(2, 5), found, strict=True):
            weights = member(linear, 5, i).weight
            torch.testing.assert_close(outcome.arrays["rows"], weights.repeat(4, 1))  # two outputs at each of 4 points
            assert outcome.numbers == {"zero": False}


def test_zero_is_said_and_nan_is_refused() -> None:
    outcome = Rows(dead, 0, (3,), Gaussian(1), 4, "all", None, torch.device("cpu")).one(0)
    assert outcome.numbers == {"zero": True}
    with pytest.raises(NetgrainError, match="the input gradient of member 3 has NaN or Inf"):
        check_rows(torch.tensor([[1.0, math.nan]]), "member 3")
