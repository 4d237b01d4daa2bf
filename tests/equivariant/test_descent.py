"""Gradient descent on the exponential loss."""

import math

import pytest
import torch

from netgrain.equivariant import Diagonal, GroupCNN, exponential_descent
from netgrain.groups import cyclic
from netgrain.runtime.errors import NetgrainError
from tests.equivariant.known_networks import D8, close, gaussian


def test_plain_descent_is_that_of_torch() -> None:
    """Three epochs of ours against autograd on mean exp(−y NN(x))."""
    X, y = gaussian(5, 8), torch.tensor([1.0, -1, 1, -1, 1], dtype=torch.float64)
    ours, theirs = GroupCNN(D8, 3, relu=True, seed=0), GroupCNN(D8, 3, relu=True, seed=0)
    exponential_descent(ours, X, y, group=D8, epochs=3, lr=0.1)
    parameters = list(theirs.parameters())
    for _ in range(3):
        slopes = torch.autograd.grad(torch.exp(-y * theirs(X)).mean(), parameters)
        with torch.no_grad():
            for p, slope in zip(parameters, slopes, strict=True):
                p -= 0.1 * slope
    assert close(ours.flat_weights(), theirs.flat_weights())


def test_learning_rate_grows_every_hundred_epochs() -> None:
    X, y = torch.ones(1, 1, dtype=torch.float64), torch.ones(1)
    net = Diagonal(1, 1, seed=0)
    w = net.flat_weights()[0]
    for epoch in range(201):
        w += 0.01 * 1.1 ** (epoch // 100) * math.exp(-w)
    exponential_descent(net, X, y, group=cyclic(1), epochs=201, lr=0.01)
    assert net.flat_weights()[0] == pytest.approx(w)


def test_normalised_descent_goes_where_exponentials_underflow() -> None:
    X, y = gaussian(4, 8), torch.tensor([1.0, -1, 1, -1])
    net = GroupCNN(D8, 3, seed=0)
    found = exponential_descent(net, X, y, group=D8, method="ngd", epochs=4000, margin=760)
    assert found.margins[-1] >= 760  # exp(−760) is zero in float64
    assert found.losses[-1] == 0
    assert found.fourier_ratios[-1] < 0.8 * found.fourier_ratios[0]
    assert "dead" in repr(found)


def test_divergence_is_said() -> None:
    X, y = gaussian(3, 8), torch.tensor([1.0, -1, 1])
    with pytest.raises(NetgrainError, match="diverged at epoch"):
        exponential_descent(GroupCNN(D8, 3, seed=0), 10 * X, y, group=D8, epochs=2000, lr=1e6)


def test_an_unknown_method_is_refused() -> None:
    with pytest.raises(NetgrainError, match="'sgd' or 'ngd', found 'adam'"):
        exponential_descent(Diagonal(8), gaussian(2, 8), torch.ones(2), group=D8, method="adam")
