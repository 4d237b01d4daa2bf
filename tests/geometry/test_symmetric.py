"""Corr of plain matrices, and what cannot be compared."""

import math

import pytest
import torch

import netgrain as ng


@pytest.mark.quick
def test_zero_and_mismatched_matrices() -> None:
    with pytest.warns(ng.GrainWarning, match="zero matrix"):
        assert math.isnan(ng.corr(torch.zeros(2, 2), torch.eye(2)))
    with pytest.raises(ng.NetgrainError, match="dimensions 2 and 3"):
        ng.corr(torch.eye(2), torch.eye(3))
