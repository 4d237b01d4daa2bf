"""The axes of a geometry: which lead, how many are known from a sample, and all of them where there are many."""

from functools import partial

import pytest
import torch

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


def test_all_directions_of_a_geometry_too_large_for_its_whole_spectrum(monkeypatch: pytest.MonkeyPatch) -> None:
    from netgrain.auditing import axes as room
    from netgrain.geometry import spectrum

    for module in (spectrum, room):
        monkeypatch.setattr(module, "FULL_LIMIT", 100)
    A = torch.randn(300, 200, generator=torch.Generator().manual_seed(8), dtype=torch.float64)
    axes = axes_of(ng.Geometry.from_matrix(A.T @ A))
    assert torch.allclose(axes.values, torch.linalg.eigvalsh(A.T @ A).flip(0))
    assert float(axes.values[-1]) > 0
