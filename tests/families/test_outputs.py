"""Which outputs of a network count."""

import pytest
import torch
from torch import nn

import netgrain as ng
from netgrain.families.gradients import gradients
from netgrain.families.members import member
from netgrain.families.outputs import select
from tests import naive


def small() -> nn.Module:
    return nn.Sequential(nn.Linear(12, 8), nn.GELU(), nn.Linear(8, 3))


@pytest.mark.quick
@pytest.mark.parametrize(
    ("output", "weights"),
    [("mean", [1 / 3, 1 / 3, 1 / 3]), (1, [0, 1, 0]), (2, [0, 0, 1]), (("diff", 0, 2), [1, 0, -1])],
)
def test_chosen_outputs(output: object, weights: list[float]) -> None:
    model = member(small, 0, 0)
    X = torch.randn(2, 12)
    expected = torch.stack([torch.tensor(weights, dtype=torch.float64) @ naive.jacobian(model, x) for x in X])
    torch.testing.assert_close(gradients(model, X, output).double(), expected, rtol=1e-5, atol=1e-6)
    for bad in (3, -1, ("diff", 0, 3), ("diff", 1, 1), "sum", ("difference", 0, 1), True):
        with pytest.raises(ng.NetgrainError, match="output"):
            select(torch.zeros(2, 3), bad)
