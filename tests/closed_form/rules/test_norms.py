"""Normalisation layers against wide sampled networks."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import netgrain as ng
from tests.closed_form.networks import closed_form, deviation, gaussian, images


@pytest.mark.quick
def test_normalisation_follows_its_own_spread() -> None:
    """A layer norm between two wide layers, against wide sampled networks; without its terms it is far off."""

    def plain(width: int = 192) -> nn.Sequential:
        return nn.Sequential(
            *(nn.Conv2d(1, width, 3, padding=1), nn.GroupNorm(1, width), nn.Tanh()),
            *(nn.Conv2d(width, width, 3, padding=1), nn.GroupNorm(1, width), nn.Tanh()),
            *(nn.Flatten(), nn.Linear(16 * width, 10)),
        )

    x = images((1, 4, 4))
    make = gaussian(plain)
    closed = closed_form(make, (1, 4, 4), probe=ng.Data(x))
    assert not closed.about.leaves_out
    sampled = ng.average_geometry(make, (1, 4, 4), probe=ng.Data(x), members=160, method="sampled", workers=1)
    directions = (x[0], torch.ones(1, 4, 4), torch.randn(1, 4, 4, generator=torch.Generator().manual_seed(5)))
    assert all(abs(deviation(closed, sampled, v)) < 4 for v in directions)
