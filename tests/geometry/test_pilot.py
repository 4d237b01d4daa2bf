"""A few dozen members judge an estimate."""

import math

import pytest
import torch
from torch import Tensor, nn

import netgrain as ng
from netgrain.geometry.estimate import Estimate
from netgrain.geometry.pilot import PilotComparison, decisive


def test_the_first_layer_is_integrated_where_members_show_that_it_may() -> None:
    """A pool in front of everything else: what integration leaves out is small, and plain sampling is not needed."""

    class Attending(nn.Module):
        """Tokens come from patches that overlap."""

        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Conv2d(1, 32, 4, stride=2)
            self.attention = nn.MultiheadAttention(32, 4, batch_first=True)
            self.last = nn.Linear(32, 10)

        def forward(self, x: Tensor) -> Tensor:
            tokens = self.embed(x).flatten(2).mT
            mixed, _ = self.attention(tokens, tokens, tokens, need_weights=False)
            out: Tensor = self.last((tokens + mixed).mean(1))
            return out

    G = ng.average_geometry(Attending, (1, 8, 8), method="sampled", probe=ng.Gaussian(0.5), tolerance=0.05, workers=1)
    assert "first layer integrated" in G.about.averaged
    plain = ng.average_geometry(
        Attending, (1, 8, 8), probe=ng.Gaussian(0.5), members=160, first_layer="never", workers=1, seed=1
    )
    same = ng.corr(G, plain)
    assert same.value > 0.95 - 2 * same.stderr


@pytest.mark.quick
def test_what_is_shown_and_what_is_left_open() -> None:
    """A tolerance of 0.02 leaves room for Corr 0.98 and √0.04 = 0.2 of the scale; 2 errors to accept, 3 to refuse."""
    corr = Estimate(0.99, 0.004)
    within = PilotComparison(24, corr, Estimate(1.1, 0.04))
    left_open = PilotComparison(24, corr, Estimate(1.15, 0.04))
    scale_off = PilotComparison(24, corr, Estimate(1.3, 0.03))
    corr_off = PilotComparison(24, Estimate(0.9, 0.02), Estimate(1.0, 0.01))
    found = [(seen.within(0.02), seen.outside(0.02)) for seen in (within, left_open, scale_off, corr_off)]
    assert found == [(True, False), (False, False), (False, True), (False, True)]
    assert decisive(iter([left_open, within, scale_off]), 0.02) is within
    assert decisive(iter([left_open, left_open]), 0.02) is left_open
    along = {"a": Estimate(1.5, 0.1), "b": Estimate(1.5, 0.2), "c": Estimate(1.05, 0.001)}
    assert PilotComparison(24, corr, corr, along).remarks == "; along a sampled over estimated is 1.50 ± 0.10"


def test_the_scale_of_a_local_closed_form_is_that_of_members() -> None:
    """Branches that end in activations: the shape is right, and the scale is that of members."""

    class Branches(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.other = nn.Linear(32, 32), nn.Linear(32, 32)

        def forward(self, x: Tensor) -> Tensor:
            return torch.tanh(self.one(x)) + torch.relu(self.other(x)) + x

    def make() -> nn.Sequential:
        return nn.Sequential(nn.Linear(6, 32), nn.GELU(), Branches(), nn.Linear(32, 40))

    G = ng.average_geometry(make, (6,), probe=ng.Gaussian(1.0), tolerance=0.05, workers=1)
    plain = ng.average_geometry(make, (6,), probe=ng.Gaussian(1.0), members=200, probes=4, seed=7, workers=1)
    assert G.method == "closed-form"
    assert "is measured on" in G.about.remarks[-1] or "within the tolerance" in G.about.remarks[-1]
    assert abs(G.trace.value - plain.trace.value) < 4 * math.hypot(G.trace.stderr, plain.trace.stderr)
    explicit = ng.average_geometry(make, (6,), probe=ng.Gaussian(1.0), method="closed-form")
    assert "not compared with sampled networks" in explicit.about.remarks[-1]


@pytest.mark.quick
def test_only_the_shape_counts_where_the_scale_is_measured() -> None:
    """What noise adds to Corr beyond 1 shows nothing."""
    scale_off = PilotComparison(24, Estimate(0.99, 0.004), Estimate(1.3, 0.03))
    noisy = PilotComparison(24, Estimate(1.05, 0.03), Estimate(1.0, 0.01))
    assert scale_off.shape_within(0.02)
    assert not scale_off.shape_outside(0.02)
    assert not noisy.shape_within(0.02)
    assert decisive(iter([noisy, scale_off]), 0.001, free_scale=True) is scale_off
    assert decisive(iter([scale_off, noisy]), 0.02, free_scale=True) is scale_off
