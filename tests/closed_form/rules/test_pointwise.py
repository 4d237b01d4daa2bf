"""Sums and activations of channels against wide sampled networks."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import netgrain as ng
from tests.closed_form.networks import closed_form, deviation, images


class PreActivation(nn.Module):
    """Sums of Gaussians: skips carry pre-activations."""

    def __init__(self, width: int = 128) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, width, 3, padding=1)
        self.branch = nn.Conv2d(width, width, 3, padding=1)
        self.last = nn.Linear(16 * width, 10)
        for layer in (self.stem, self.branch, self.last):
            nn.init.normal_(layer.weight, std=(1.5 / layer.weight[0].numel()) ** 0.5)

    def forward(self, x: Tensor) -> Tensor:
        h = self.stem(x)
        h = h + self.branch(torch.tanh(h))
        out: Tensor = self.last(torch.tanh(h).flatten(1))
        return out


@pytest.mark.quick
def test_a_skip_of_pre_activations() -> None:
    x = images((1, 4, 4))
    closed = closed_form(PreActivation, (1, 4, 4), probe=ng.Data(x))
    assert not closed.about.leaves_out
    sampled = ng.average_geometry(PreActivation, (1, 4, 4), probe=ng.Data(x), members=160, method="sampled", workers=1)
    for v in (x[0], torch.ones(1, 4, 4), torch.randn(1, 4, 4, generator=torch.Generator().manual_seed(5))):
        assert abs(deviation(closed, sampled, v)) < 4
