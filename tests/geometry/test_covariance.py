"""The second moment of data against sums of outer products and numpy."""

import numpy as np
import pytest
import torch

from netgrain.geometry.covariance import data_covariance

X = torch.randn(7, 2, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64) + 1


@pytest.mark.quick
def test_it_is_the_sum_of_outer_products() -> None:
    S = data_covariance(X)
    by_hand = sum(torch.outer(x.flatten(), x.flatten()) for x in X)
    torch.testing.assert_close(S.matrix(), by_hand)
    assert (S.method, S.exact, S.input_shape) == ("data", True, (2, 3))


def test_centred_and_normalised_is_the_covariance_of_numpy() -> None:
    S = data_covariance(X, centred=True, normalised=True).matrix()
    np.testing.assert_allclose(S, np.cov(X.flatten(1).T.numpy(), bias=True))


def test_samples_are_left_as_they_were() -> None:
    before = X.clone()
    data_covariance(X, centred=True)
    assert torch.equal(X, before)
