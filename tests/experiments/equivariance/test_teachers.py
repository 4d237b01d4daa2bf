"""Functions of known structure: rank by irreps, angles by sampling."""

import numpy as np
import pytest
import torch

from netgrain.equivariant import weighted_rank
from netgrain.experiments.equivariance.teachers import dense, disagreement, low_rank, sparse, support
from netgrain.groups import parse


@pytest.mark.parametrize("name", ["C12", "D12", "Q8", "A4", "C5xC5:Q8"])
def test_functions_of_low_rank_are_real_and_of_that_rank(name: str) -> None:
    """The construction knows no irreps, the rank is counted in them; Q8 has equal singular values in pairs."""
    group, rng = parse(name), np.random.default_rng(0)
    for _ in range(5):
        f = low_rank(group, 4, rng)
        assert f.dtype == torch.float64
        assert float(f.norm()) == pytest.approx(1)
        assert 0 < weighted_rank(group, f, 1e-9) <= 4
    assert weighted_rank(group, low_rank(group, group.order, rng), 1e-9) == group.order


def test_sparse_and_dense_functions() -> None:
    rng = np.random.default_rng(0)
    f = sparse(20, 3, rng)
    assert support(f, 0.5) == int((f != 0).sum()) == 3
    assert float(f.norm()) == pytest.approx(1)
    assert support(dense(20, rng), 1e-9) == 20
    assert support(torch.tensor([1.0, 1e-4, 0.0, -0.5]), 1e-3) == 2


def test_disagreement_is_the_share_of_points_with_other_signs() -> None:
    rng = np.random.default_rng(1)
    a, b = dense(5, rng), dense(5, rng)
    x = torch.from_numpy(rng.standard_normal((200_000, 5)))
    share = float((torch.sign(x @ a) != torch.sign(x @ b)).double().mean())
    assert disagreement(a, b) == pytest.approx(share, abs=4 * 0.5 / 200_000**0.5)
    assert disagreement(a, 3 * a) == pytest.approx(0, abs=1e-12)
    assert disagreement(a, -a) == pytest.approx(1)
