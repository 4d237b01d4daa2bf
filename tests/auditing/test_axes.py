"""The axes of a geometry: which lead, how many are known from a sample, and all of them where there are many."""

from functools import partial

import pytest
import torch
from torch import nn

import netgrain as ng
from netgrain import NetgrainError
from netgrain.auditing.axes import axes_of, known_of
from netgrain.geometry.forms import Factored
from netgrain.geometry.provenance import Provenance
from netgrain.models import MLP


def test_leading_directions_carry_the_share_and_blocks_stay_whole(lenet_G: ng.Geometry) -> None:
    axes = axes_of(lenet_G)
    share = float(axes.values[: axes.leading].sum() / axes.values.sum())
    assert share >= 0.99
    assert axes.leading in [b for _, b in axes.blocks]
    start = next(a for a, b in axes.blocks if b == axes.leading)
    assert float(axes.values[:start].sum() / axes.values.sum()) < 0.99
    mlp = axes_of(ng.average_geometry(partial(MLP, channels=1, image_size=4, outputs=2), (1, 4, 4)))
    assert mlp.leading == 16
    with pytest.raises(NetgrainError, match="exactly zero"):
        axes_of(ng.Geometry.from_matrix(torch.zeros(3, 3)))


def test_eigenvalues_below_the_noise_of_a_sample_are_not_known() -> None:
    """Gaussian rows with a known covariance: too few leave the tail unknown, many confirm it, zeros stay zeros."""
    truth = torch.cat([torch.logspace(0, -2, 48), torch.zeros(16)])
    generator = torch.Generator().manual_seed(7)

    def sampled(members: int, rows: int) -> ng.Geometry:
        drawn = torch.randn(members, rows, 64, generator=generator) * truth.sqrt()
        return ng.Geometry(Factored.of_members(drawn, 1 / rows), (64,), Provenance("sampled", members=members))

    few, many = sampled(8, 3), sampled(400, 10)
    assert len(few.eigenvalues) == 24
    assert 0 < known_of(few) <= 24
    assert known_of(many) == 64
    axes = axes_of(few)
    assert axes.known == known_of(few)
    assert torch.allclose(axes.vectors @ axes.vectors.T, torch.eye(64, dtype=torch.float64), atol=1e-6)
    assert known_of(sampled(1, 100)) == 0  # nothing to compare with


@pytest.fixture
def small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if geometries of more than 100 entries were large, of which 8 directions are computed."""
    from netgrain.auditing import axes as room
    from netgrain.geometry import spectrum

    monkeypatch.setattr(room, "FULL_LIMIT", 100)
    monkeypatch.setattr(spectrum, "FULL_LIMIT", 100)
    monkeypatch.setattr(room, "FEW", 8)


@pytest.mark.usefixtures("small_limit")
def test_a_large_geometry_has_its_leading_directions_only() -> None:
    values = 0.7 ** torch.arange(200, dtype=torch.float64)
    Q = torch.linalg.qr(torch.randn(200, 200, generator=torch.Generator().manual_seed(8), dtype=torch.float64))[0]
    axes = axes_of(ng.Geometry.from_matrix((Q * values) @ Q.T))
    assert not axes.complete
    assert (axes.d, len(axes.values), axes.leading, axes.known) == (200, 8, 8, 8)
    torch.testing.assert_close(axes.values, values[:8])
    torch.testing.assert_close((axes.vectors @ Q[:, :8]).abs(), torch.eye(8, dtype=torch.float64), atol=1e-6, rtol=0)
    assert axes.trace == pytest.approx(float(values.sum()))
    assert axes.mean == pytest.approx(float(values.mean()))
    assert axes.leading_share == pytest.approx(float(values[:8].sum() / values.sum()))
    assert axes.directions_for(0.5) == 2  # 0.3 + 0.21
    assert axes.directions_for(0.99) is None
    with pytest.raises(NetgrainError, match="exactly zero"):
        axes_of(ng.Geometry.from_matrix(torch.zeros(200, 200)))


@pytest.mark.usefixtures("small_limit")
def test_copies_of_channels_and_the_noise_of_a_large_sample() -> None:
    """Three equal channels: each direction is there three times, at right angles; few rows tell few of them."""

    def make() -> nn.Module:
        return nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(4 * 36, 2))

    G = ng.average_geometry(make, (3, 8, 8))
    axes = axes_of(G)
    assert torch.allclose(axes.vectors @ axes.vectors.T, torch.eye(8, dtype=torch.float64), atol=1e-6)
    if not axes.measured_apart:
        torch.testing.assert_close((axes.vectors * G.matvec(axes.vectors)).sum(1), axes.values)
    drawn = torch.randn(6, 4, 120, generator=torch.Generator().manual_seed(1))
    sampled = ng.Geometry(Factored.of_members(drawn, 1 / 4), (120,), Provenance("sampled", members=6))
    assert axes_of(sampled).known == 0


@pytest.mark.usefixtures("small_limit")
def test_the_strength_of_the_leading_directions_of_a_large_sample_is_not_too_large() -> None:
    """Gaussian rows with a known covariance: the sample's own eigenvalues are too large, those of the axes are not."""
    truth = torch.full((400,), 0.5, dtype=torch.float64)
    truth[:4] = torch.tensor([40.0, 30.0, 20.0, 10.0])
    generator = torch.Generator().manual_seed(3)
    own, found, real = (torch.zeros(8, dtype=torch.float64) for _ in range(3))
    for _ in range(20):
        drawn = torch.randn(8, 6, 400, generator=generator) * truth.sqrt().float()
        G = ng.Geometry(Factored.of_members(drawn, 1 / 6), (400,), Provenance("sampled", members=8))
        axes = axes_of(G)
        assert axes.measured_apart
        assert bool((axes.values.diff() <= 0).all())
        own += G.eigenvalues[:8] / G.trace.value / 20
        found += axes.values / axes.trace / 20
        real += (axes.vectors.square() @ truth) / truth.sum() / 20  # of the same directions
    assert float(own.sum()) > 1.4 * float(truth.sort(descending=True).values[:8].sum() / truth.sum())
    assert float(found.sum()) == pytest.approx(float(real.sum()), rel=0.03)
    torch.testing.assert_close(found[:4], real[:4], rtol=0.15, atol=0.0)
