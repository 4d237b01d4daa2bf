"""Families with submodules replaced: the rest is in test_swaps.py, through the door."""

import torch
from torch import nn

from netgrain.auditing.swapped import Swapped
from netgrain.families.members import member


def make() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))


def test_other_weights_are_those_of_the_same_member() -> None:
    family = Swapped(make, {"1": nn.Tanh(), "2": nn.Linear(4, 5)})
    before, after = member(make, 0, 3), member(family, 0, 3)
    assert torch.equal(before.get_parameter("0.weight"), after.get_parameter("0.weight"))
    assert after(torch.zeros(1, 3)).shape == (1, 5)
    assert family.changes == "1 → Tanh(), 2 → Linear(in_features=4, out_features=5, bias=True)"
