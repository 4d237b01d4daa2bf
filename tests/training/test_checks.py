"""Data, labels and member numbers before training: what is made of them, and what is refused."""

import pytest
import torch
from torch import nn

from netgrain.runtime.errors import NetgrainError
from netgrain.training.checks import checked, evaluating, member_numbers


@pytest.mark.quick
def test_members_as_a_count_or_as_numbers() -> None:
    assert member_numbers(3) == [0, 1, 2]
    assert member_numbers([4, 2]) == [4, 2]
    for bad in (0, -1, [], [1, 1], [0, -1]):
        with pytest.raises(NetgrainError, match="members as a count"):
            member_numbers(bad)


def test_data_take_the_precision_of_the_model() -> None:
    model = nn.Linear(2, 3).double()
    X, y = checked(model, torch.ones(2, 2), torch.tensor([0, 2], dtype=torch.uint8), "cross-entropy")
    assert (X.dtype, y.dtype, y.tolist()) == (torch.float64, torch.int64, [0, 2])
    _, numbers = checked(model, torch.ones(2, 2), torch.ones(2, 3), "sse")
    assert numbers.dtype == torch.float64
    with pytest.raises(NetgrainError, match="labels run from 0 to 3"):
        checked(model, torch.ones(2, 2), torch.tensor([0, 3]), "cross-entropy")


def test_every_module_gets_its_own_mode_back() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Dropout()).train()
    model[1].eval()
    seen = []

    def failing() -> None:
        with evaluating(model):
            seen.extend(module.training for module in model.modules())
            raise KeyError

    with pytest.raises(KeyError):
        failing()
    assert seen == [False, False, False]
    assert [module.training for module in model.modules()] == [True, True, False]
