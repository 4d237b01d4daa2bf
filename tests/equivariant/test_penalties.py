"""What each network keeps small."""

import pytest
import torch

from netgrain.equivariant import predictor
from netgrain.equivariant.penalties import diagonal_transform, euclidean_transform, group_transform, matrix_transform
from netgrain.groups import cyclic
from tests.equivariant.known_networks import gaussian, networks


def test_penalties_of_the_other_networks() -> None:
    beta, p = gaussian(6), 2 / 3
    dft = torch.fft.fft(beta).abs()
    assert group_transform(cyclic(6)).norm(beta, p).item() == pytest.approx((dft**p).sum().item() ** 1.5)
    assert diagonal_transform(6).norm(beta, p).item() == pytest.approx((beta.abs() ** p).sum().item() ** 1.5)
    assert euclidean_transform(6).norm(beta, p).item() == pytest.approx(beta.norm().item())
    assert matrix_transform([1, 2], [1, 4]).norm(torch.tensor([1.0, 2, 0, 0, 2]), 1.0).item() == pytest.approx(
        1 + 4 * 2
    )


def test_the_variational_identity_bounds_random_weights() -> None:
    """½ Σ |w_l|² ≥ (L/2n) R_{2/L}(β) for any weights; equality at depth 1."""
    for net in networks(1) + networks(2) + networks(3):
        transform = net.transform()
        R = transform.power_sum(predictor(net).detach(), 2 / net.depth)
        bound = net.depth / transform.scale * R.item()
        squares = float((net.flat_weights() ** 2).sum())
        assert squares >= bound * (1 - 1e-12)
        if net.depth == 1:
            assert squares == pytest.approx(bound)
        else:
            assert squares > 1.001 * bound
