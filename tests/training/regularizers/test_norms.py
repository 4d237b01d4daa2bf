"""Penalties on the weights."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from netgrain.training.regularizers.base import Regularizer
from netgrain.training.regularizers.norms import L2, SpectralNorm


def net(seed: int = 0, outputs: int = 3) -> nn.Sequential:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, outputs)).double()


def batch(n: int = 16) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(n, 5, generator=generator, dtype=torch.float64), torch.arange(n) % 3


def gradient(regularizer: Regularizer, model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    model.zero_grad()
    regularizer.backward(F.cross_entropy, model, x, y)
    return torch.cat(
        [torch.zeros_like(p).flatten() if p.grad is None else p.grad.flatten() for p in model.parameters()]
    )


def of(model: nn.Module, value: Tensor) -> Tensor:
    """The gradient of a scalar with respect to all parameters, plainly."""
    found = torch.autograd.grad(value, list(model.parameters()), allow_unused=True, retain_graph=True)
    pairs = zip(model.parameters(), found, strict=True)
    return torch.cat([torch.zeros_like(p).flatten() if g is None else g.flatten() for p, g in pairs])


@pytest.mark.quick
def test_l2_is_the_sum_of_squares() -> None:
    model, (x, y) = net(), batch()
    want = of(model, F.cross_entropy(model(x), y) + 0.01 * sum(p.square().sum() for p in model.parameters()))
    torch.testing.assert_close(gradient(L2(0.01), model, x, y), want)


def test_spectral_norm_is_that_of_a_singular_value_decomposition() -> None:
    model, (x, y) = net(), batch()
    regularizer = SpectralNorm(0.3)
    for _ in range(200):  # power iteration goes on from call to call
        found = regularizer.penalty(model, x)
    want = 0.15 * sum(torch.linalg.matrix_norm(p, 2) ** 2 for p in model.parameters() if p.dim() == 2)
    torch.testing.assert_close(found, want)
    torch.testing.assert_close(gradient(regularizer, model, x, y), of(model, F.cross_entropy(model(x), y) + want))


def test_power_iteration_is_persistent() -> None:
    """Two singular values one per cent apart need hundreds of steps, which the calls share."""
    layer = nn.Linear(6, 6, bias=False).double()
    with torch.no_grad():
        layer.weight.copy_(torch.diag(torch.tensor([1.0, 0.99, 0.98, 0.5, 0.2, 0.1])))
    regularizer = SpectralNorm(2.0)
    gaps = [1 - regularizer.penalty(layer, torch.zeros(1, 6)).item() for _ in range(600)]
    assert gaps[0] > 1e-3
    assert gaps[-1] < 1e-6
    assert all(g > -1e-12 for g in gaps)  # never above the truth


def test_filters_are_matrices_of_outputs_and_the_rest() -> None:
    conv = nn.Conv2d(2, 3, 3).double()
    regularizer = SpectralNorm(2.0)
    for _ in range(300):
        found = regularizer.penalty(conv, torch.zeros(1, 2, 5, 5, dtype=torch.float64))
    torch.testing.assert_close(found, torch.linalg.matrix_norm(conv.weight.flatten(1), 2) ** 2)
