"""What stands before a network, by hand and by its moments."""

import pytest
import torch

from netgrain.auditing.preprocessing import EvenContrast, LocalMean, Resized, standardising, whitening
from netgrain.data.dataset import Dataset
from netgrain.data.scaling import standardised
from netgrain.runtime.errors import NetgrainError


def samples(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("shape", [(50, 3, 4, 4), (50, 6), (50, 1, 12)])
def test_standardising_is_the_rule_of_all_data(shape: tuple[int, ...]) -> None:
    X = 3 + 2 * samples(*shape)
    expected = standardised(Dataset(X, torch.zeros(len(X)).long())).X
    assert torch.allclose(standardising(X)(X), expected, atol=1e-5)
    each = standardising(X, each=True)(X)
    assert each.std(0, correction=0).sub(1).abs().max() < 1e-4


def test_an_entry_that_is_constant_stays_finite() -> None:
    X = samples(20, 3)
    X[:, 1] = 7.0
    assert standardising(X, each=True)(X)[:, 1].abs().max() < 1e-5


def test_whitening_gives_the_identity_as_covariance_and_is_one_fixed_linear_map() -> None:
    mix = torch.tensor([[2.0, 0.5, 0.0], [0.0, 1.0, 0.3], [0.2, 0.0, 0.7]])
    X = samples(4000, 3) @ mix + 5
    module = whitening(X)
    out = module(X).double()
    assert torch.allclose(out.T.cov(), torch.eye(3).double(), atol=0.1)  # up to the ridge
    a, b = X[:1], X[1:2]
    assert torch.allclose(module((a + b) / 2), (module(a) + module(b)) / 2, atol=1e-5)
    # the inverse root of covariance plus ridge, by brute force
    C = (X.double() - X.double().mean(0)).T @ (X.double() - X.double().mean(0)) / len(X)
    w, V = torch.linalg.eigh(C + 0.01 * C.diagonal().mean() * torch.eye(3))
    brute = (X.double() - X.double().mean(0)) @ (V * w.rsqrt()) @ V.T
    assert torch.allclose(out, brute, atol=1e-4)
    with pytest.raises(NetgrainError, match="at least 2 samples"):
        whitening(X[:1])


def test_contrast_filters_and_sizes() -> None:
    X = samples(5, 1, 8, 8)
    assert torch.allclose(EvenContrast()(3 * X + 2), EvenContrast()(X), atol=1e-4)
    assert torch.allclose(LocalMean()(X) + LocalMean(high=False)(X), X)
    assert LocalMean(high=False)(samples(2, 1, 9)).shape == (2, 1, 9)
    assert Resized(4)(X).shape == (5, 1, 4, 4)
