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


def test_norms_of_something_with_a_mean() -> None:
    """ReLU, then a norm that takes the mean off: the limit of wide layers, and what it leaves out is told once."""

    def make() -> nn.Module:
        layers = [nn.Sequential(nn.Linear(n, 64), nn.ReLU(), nn.LayerNorm(64)) for n in (6, 64, 64)]
        return nn.Sequential(*layers, nn.Linear(64, 2))

    probe = ng.Gaussian(1.0)
    G = ng.average_geometry(make, (6,), method="closed-form", probe=probe, probes=8)
    assert {step.kind for step in G.about.steps} == {"exact", "wide limit"}
    assert any("and 2 more such steps" in text for text in G.about.leaves_out)
    plain = ng.average_geometry(make, (6,), probe=probe, members=64, first_layer="never", seed=3, workers=1)
    same = ng.corr(G, plain)
    assert same.value > 0.99 - 3 * same.stderr
    assert abs(G.trace.value / plain.trace.value - 1) < 0.25
