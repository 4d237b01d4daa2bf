"""Products of white noise against their closed form."""

import math

import numpy as np
import pytest
import torch

from netgrain.equivariant import schatten_ratio
from netgrain.experiments.equivariance import images, white_noise
from netgrain.groups import cyclic


def test_moments_of_products_of_gaussian_matrices() -> None:
    assert white_noise.product_moment(1, 3, 1 / 3) == pytest.approx(math.gamma(4 / 3) ** 3)
    for d, factors in ((2, 1), (3, 2), (4, 3)):
        assert white_noise.product_moment(d, factors, 1.0) == pytest.approx(d ** (factors + 1))
        assert white_noise.product_moment(d, factors, 0.0) == pytest.approx(d)
    rng = np.random.default_rng(0)
    for d, factors in ((2, 3), (4, 2)):
        product = np.eye(d)
        for _ in range(factors):
            G = rng.standard_normal((20_000, d, d)) + 1j * rng.standard_normal((20_000, d, d))
            product = product @ (G / math.sqrt(2))
        values = (np.linalg.svd(product, compute_uv=False) ** (2 / 3)).sum(1)
        error = values.std() / math.sqrt(len(values))
        assert abs(values.mean() - white_noise.product_moment(d, factors, 1 / 3)) < 4 * error
        assert abs(1.02 * values.mean() - white_noise.product_moment(d, factors, 1 / 3)) > 4 * error  # it can be missed


def test_sampled_moments_have_their_exact_second_moment() -> None:
    assert white_noise.sampled_moment(3, 2, 1.0, kind=1) == pytest.approx(27, rel=0.05)
    assert white_noise.sampled_moment(4, 1, 1.0, kind=-1) == pytest.approx(16, rel=0.05)
    one = 2 ** (1 / 3) * math.gamma(5 / 6) / math.sqrt(math.pi)  # E|N|^{2/3}
    assert white_noise.sampled_moment(1, 1, 1 / 3, kind=1) == pytest.approx(one, rel=0.02)


def test_the_epoch_0_levels_of_the_authors_group() -> None:
    groups = images.image_groups(28)
    assert white_noise.expected_ratio(groups["direct"], 3) == pytest.approx(289_000, rel=0.01)
    assert white_noise.expected_ratio(groups["semidirect"], 3) == pytest.approx(249_000, rel=0.01)
    assert white_noise.expected_ratio(groups["direct"], 1) == pytest.approx(410_000, rel=0.01)


def test_white_noise_on_a_large_cyclic_group_has_the_expected_ratio() -> None:
    group = cyclic(4001)
    noise = torch.randn(20, 4001, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    found = schatten_ratio(group, noise, 3)
    assert float(found.mean()) == pytest.approx(white_noise.expected_ratio(group, 1), rel=0.01)
