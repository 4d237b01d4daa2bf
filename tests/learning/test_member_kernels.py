"""Kernels of single members."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from netgrain.families.members import member
from netgrain.learning.member_kernels import MemberKernels, plan_for
from netgrain.runtime.errors import NetgrainError


class Broken(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(2, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x.sqrt())


@pytest.mark.quick
def test_a_member_is_a_function_of_its_number_and_features_must_be_finite() -> None:
    X = torch.tensor([[1.0, 4.0], [9.0, 16.0], [1.0, 1.0]])
    plan = plan_for("last", member(Broken, 0, 0), X, traced=True)
    kernels = MemberKernels(Broken, 0, "last", X, 3, plan, 2, False, torch.device("cpu"), None)
    one, two = (outcome.arrays["kernel"] for outcome in kernels.one_by_one(range(1, 3)))
    assert torch.equal(one, kernels.one_by_one(range(1, 2))[0].arrays["kernel"])
    assert two.tolist() == [[5, 11, 3], [11, 25, 7], [3, 7, 2]]
    negative = MemberKernels(Broken, 0, "last", -X, 3, plan, 2, False, torch.device("cpu"), None)
    with pytest.raises(NetgrainError, match="member 4 has features or gradients that are NaN"):
        negative.one_by_one(range(4, 5))
