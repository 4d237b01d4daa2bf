"""The complexity of fresh networks: the mean over members, as computed one by one."""

import pytest
import torch
from torch import Tensor

import netgrain as ng
from netgrain.auditing.audits import Audit
from netgrain.families.members import member
from netgrain.runtime.randomness import derived_seed
from tests.auditing.conftest import small


def test_the_mean_over_members(samples: tuple[Tensor, Tensor], audited: Audit) -> None:
    generator = torch.Generator().manual_seed(derived_seed(0, "audit complexity"))
    points = samples[0][torch.randperm(120, generator=generator)[:64]]
    values = [ng.geometric_complexity(member(small, 0, i), points).value for i in range(4)]
    found = audited.report["complexity"]["initial"]
    assert found["value"] == pytest.approx(sum(values) / 4)
    assert found["stderr"] == pytest.approx(float(torch.tensor(values).std()) / 2)
    assert found["n"] == 4
