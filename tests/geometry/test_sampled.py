"""Sampled geometry: known matrices, the origin and its limits, zero gradients."""

import math
from functools import partial

import pytest
import torch
from torch import Tensor, nn

import netgrain as ng
from netgrain.geometry.provenance import Integration
from netgrain.models import MLP, LeNet, ResNet18
from tests import naive

A10 = torch.tensor([[1.0, 1.0, 0.0], [1.0, 2.0, 1.0], [0.0, 1.0, 1.0]], dtype=torch.float64)
SIGMA = 0.7


def two_taps() -> nn.Module:
    """Appendix A.10: one filter of two taps, then the mean of two neighbours."""
    net = nn.Sequential(nn.Conv1d(1, 1, 2, bias=False), nn.AvgPool1d(2), nn.Flatten())
    nn.init.normal_(net[0].weight, std=SIGMA)
    return net


def within(found: ng.Geometry, truth: torch.Tensor, errors: float = 4.5) -> None:
    """Every entry within so many standard errors (over members) of the truth."""
    parts = torch.stack([found.form.part(i).dense() for i in range(found.form.parts)])
    stderr = parts.std(0) / math.sqrt(len(parts))
    worst = float(((found.matrix() - truth).abs() / (stderr + 1e-12 * float(truth.abs().max()))).max())
    assert worst < errors, f"an entry is {worst:.1f} standard errors away"


def test_within_rejects_a_wrong_matrix() -> None:
    G = ng.average_geometry(two_taps, (1, 3), members=400, first_layer="never")
    with pytest.raises(AssertionError, match="standard errors away"):
        within(G, SIGMA**2 / 2 * A10)


def test_appendix_a10_by_sampling_and_by_hand() -> None:
    by_hand = SIGMA**2 / 4 * A10  # the paper prints σ²/2
    plain = ng.average_geometry(two_taps, (1, 3), members=600, first_layer="never")
    within(plain, by_hand)
    exact = ng.average_geometry(two_taps, (1, 3), members=2)
    assert "first layer integrated exactly" in exact.about.averaged
    # the variance of the two taps is read from the initialisation
    torch.testing.assert_close(exact.matrix(), by_hand.double(), rtol=1e-6, atol=1e-9)
    assert exact.trace.stderr == 0
    ratios = exact.eigenvalues / exact.eigenvalues[1]
    torch.testing.assert_close(ratios, torch.tensor([3.0, 1.0, 0.0], dtype=torch.float64), rtol=1e-6, atol=1e-6)


def test_an_mlp_has_no_grain() -> None:
    make = partial(MLP, channels=1, image_size=4, outputs=3)
    plain = ng.average_geometry(make, (1, 4, 4), members=300, first_layer="never")
    integrated = ng.average_geometry(make, (1, 4, 4), members=100)
    identity = torch.eye(16, dtype=torch.float64)
    within(plain, identity * integrated.trace.value / 16)
    found = ng.corr(plain, identity)
    assert abs(found - 1) < 4 * found.stderr
    assert [b.size for b in integrated.blocks()] == [16]
    assert naive.corr(integrated.matrix(), identity) == pytest.approx(1)


# --- the origin -------------------------------------------------------------------------------------------------------


def test_the_origin_is_itself_where_the_network_is_smooth_and_a_limit_at_a_kink() -> None:
    free = partial(ResNet18, channels=1, image_size=8, width=1 / 32, outputs=1)
    smooth = ng.average_geometry(partial(free, activation="gelu"), (1, 8, 8), members=3)
    assert str(smooth.about.probe) == "origin"
    kink = ng.average_geometry(partial(free, activation="relu"), (1, 8, 8), members=3)
    assert str(kink.about.probe) == "origin limit (gaussian:1)"
    assert "positively homogeneous" in kink.about.notes[0]
    assert kink.trace > 0
    biased = ng.average_geometry(partial(LeNet, channels=1, image_size=16, outputs=1), (1, 16, 16), members=3)
    assert str(biased.about.probe) == "origin"

    def pooled() -> nn.Module:
        return nn.Sequential(nn.Conv2d(1, 3, 3), nn.MaxPool2d(2), nn.Tanh(), nn.Flatten(), nn.Linear(12, 1))

    ties = ng.average_geometry(pooled, (1, 6, 6), members=200)
    assert str(ties.about.probe) == "origin limit (gaussian:0.001)"
    tiny = ng.average_geometry(pooled, (1, 6, 6), members=200, probe=ng.Gaussian(1e-4), seed=1)
    assert abs(ng.corr(ties, tiny) - 1) < 0.05


def test_a_normalisation_of_nothing_has_no_origin() -> None:
    make = partial(ResNet18, channels=1, image_size=8, width=1 / 32, outputs=1, norm="layer")
    with pytest.raises(ng.NetgrainError, match="no limit for this model"):
        ng.average_geometry(make, (1, 8, 8), members=2, probe=ng.Origin())
    G = ng.average_geometry(make, (1, 8, 8), members=2)
    assert str(G.about.probe) == "gaussian:1"
    assert "not defined here" in G.about.notes[0]


# --- how many ---------------------------------------------------------------------------------------------------------


@pytest.mark.quick
def test_zero_gradients_are_said() -> None:
    def dead() -> nn.Module:
        net = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 1))
        nn.init.zeros_(net[1].weight)
        return net

    with pytest.warns(ng.GrainWarning, match="exactly zero for all 5 members"):
        G = ng.average_geometry(dead, (4,), members=5)
    assert G.about.zero_share == 1
    assert "zero" in repr(G)

    def sometimes() -> nn.Module:
        net = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 1))
        with torch.no_grad():
            net[1].weight *= float(torch.rand(()) < 0.5)
        return net

    G = ng.average_geometry(sometimes, (4,), members=40)
    assert 0.2 < G.about.zero_share < 0.8
    assert "zero gradient" in repr(G)


def test_a_large_input_of_a_module_that_cannot_be_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first convolution is still integrated, over a grid that no trace has shown."""

    class Looks(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem, self.head = nn.Conv2d(1, 4, 3, 2, 1, bias=False), nn.Linear(4 * 16, 2)

        def forward(self, x: Tensor) -> Tensor:
            h = self.stem(x).tanh()
            return self.head(h.flatten(1)) * (1.0 if bool((h <= 1).all()) else 0.0)

    monkeypatch.setattr("netgrain.geometry.sampled.FULL_LIMIT", 32)
    G = ng.average_geometry(Looks, (1, 8, 8), members=12, workers=1, progress=False)
    assert isinstance(G.about.integration, Integration)
    monkeypatch.undo()
    H = ng.average_geometry(Looks, (1, 8, 8), members=64, workers=1, progress=False)
    assert ng.corr(G, H).value > 0.95


def test_members_end_where_their_rows_do_not_fit() -> None:
    """Rows of 4 points · 4 channels · 36² positions take 83 kB, so that a third of 12 MB holds 48 members."""

    def make() -> nn.Module:
        stem, second = nn.Conv2d(1, 4, 3, 2, 1, bias=False), nn.Conv2d(4, 8, 3, 2, 1, bias=False)
        return nn.Sequential(
            stem, nn.ReLU(), second, nn.ReLU(), nn.AdaptiveAvgPool2d(3), nn.Flatten(), nn.Linear(72, 3)
        )

    with pytest.warns(ng.GrainWarning, match="not reached with 48 members"):
        G = ng.average_geometry(make, (1, 72, 72), tolerance=0.0005, memory="12 MB", engine="local")
    assert (G.members, G.full_trace, G.about.reached) == (48, None, False)
