"""Families of the conjectures: narrow below paper scale, three channels, exchangeable tokens."""

import pytest
import torch
from torch import Tensor

from netgrain.experiments.theory.networks import exchangeable, family, samples, shape, symmetrised
from netgrain.experiments.theory.statements import Job
from netgrain.geometry.value import Geometry


def _tokens() -> Tensor:
    """A 4 × 4 image with patches of 2: (2I + 0.5·11ᵀ) over patches, the identity inside one."""
    tokens = 2.0 * torch.eye(4).double() + 0.5
    G = torch.zeros(16, 16, dtype=torch.float64)
    place = [(r // 2 * 2 + c // 2, r % 2 * 2 + c % 2) for r in range(4) for c in range(4)]
    for i, (t, p) in enumerate(place):
        for j, (u, q) in enumerate(place):
            G[i, j] = tokens[t, u] * (p == q)
    return G


def test_exchangeable_tokens() -> None:
    G = _tokens()
    noise = torch.randn(16, 16, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    torch.testing.assert_close(exchangeable(G, 2), G)
    assert not torch.allclose(exchangeable(G + noise, 2), G + noise)


def test_symmetrised_over_channels() -> None:
    one = torch.randn(16 * 16, 16 * 16, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    one = exchangeable(one @ one.T, 8)
    unequal = torch.block_diag(one, 3 * one)
    found = symmetrised(Geometry.from_matrix(unequal, (2, 16, 16)), (2, 16, 16)).matrix()
    torch.testing.assert_close(found, torch.block_diag(2 * one, 2 * one))


@pytest.mark.parametrize("scale", ["smoke", "laptop", "paper"])
def test_only_paper_scale_is_at_full_width(scale: str) -> None:
    job = Job(scale)
    sizes = {name: sum(p.numel() for p in family(name, job)().parameters()) for name in ("ResNet18", "ViT")}
    assert (sizes["ResNet18"] > 10_000_000) == (scale == "paper")
    assert (sizes["ViT"] > 2_000_000) == (scale == "paper")
    assert shape(job) == ((3, 32, 32) if scale == "paper" else (3, 16, 16))
    assert (samples(job) >= 1000) == (scale == "paper")
