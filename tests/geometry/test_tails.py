"""Traces that a few networks make up are noticed, whatever the number of networks."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import nn

import netgrain as ng
from netgrain.families.members import member
from netgrain.geometry.tails import Tails


def log_normal(spread: float) -> nn.Module:
    """A linear map times exp(spread · N(0, 1)): the mean trace is e^(2·spread²) times its median."""
    net = nn.Linear(6, 3, bias=False)
    with torch.no_grad():
        net.weight.mul_(torch.exp(spread * torch.randn(())))
    return net


@pytest.mark.quick
def test_heavy_or_not() -> None:
    generator = torch.Generator().manual_seed(0)
    assert Tails.of(torch.ones(7)) is None
    calm = Tails.of(1 + torch.rand(50, generator=generator))
    assert calm is not None
    assert not calm.heavy
    # squares of one normal number scatter widely, but no few of them make up the sum
    for n in (50, 20_000):
        chi2 = Tails.of(torch.randn(n, generator=generator).square())
        assert chi2 is not None
        assert not chi2.heavy
    alone = Tails.of(torch.cat([torch.ones(199), torch.tensor([202.0])]))
    assert alone is not None
    assert alone.heavy
    assert alone.trimmed == 1.0
    dead = Tails.of(torch.cat([torch.zeros(30), torch.ones(10)]))
    assert dead is not None
    assert not dead.heavy


def test_a_family_with_log_normal_gains() -> None:
    def make() -> nn.Module:
        return log_normal(2.0)

    with pytest.warns(ng.GrainWarning, match=r"heavy tails: the largest of 60 traces is .* times the median"):
        G = ng.average_geometry(make, (6,), method="sampled", members=60, first_layer="never")
    traces = torch.stack([member(make, 0, i).weight.double().square().sum() for i in range(60)]).sort().values
    assert G.about.tails is not None
    assert G.tails == G.about.tails
    assert G.tails.median == pytest.approx(float((traces[29] + traces[30]) / 2), rel=1e-6)
    assert G.tails.trimmed == pytest.approx(float(traces[6:54].mean()), rel=1e-6)
    assert G.tails.mean == pytest.approx(G.trace.value, rel=1e-6)
    assert "heavy tails" in repr(G)
    assert any("heavy tails" in note for note in G.about.notes)


def test_a_calm_family_says_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", ng.GrainWarning)
        G = ng.average_geometry(lambda: log_normal(0.1), (6,), method="sampled", members=60, first_layer="never")
    assert G.about.tails is None
    assert G.tails is not None
    assert not G.tails.heavy
    assert "heavy" not in repr(G)
