"""Flatness: the norm of the gradient, and the gradient uphill."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from netgrain.training.regularizers.base import Regularizer
from netgrain.training.regularizers.flatness import SAM, GradientNorm
from netgrain.training.regularizers.noise import InputNoise


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


def test_gradient_norm_by_finite_differences() -> None:
    model, (x, y) = net(), batch()

    def objective(theta: Tensor) -> Tensor:
        nn.utils.vector_to_parameters(theta, model.parameters())
        loss = F.cross_entropy(model(x), y)
        return (loss + 0.4 * of(model, loss).square().sum()).detach()

    theta = nn.utils.parameters_to_vector(model.parameters()).detach().clone()
    found = gradient(GradientNorm(0.4), model, x, y)
    generator = torch.Generator().manual_seed(0)
    for _ in range(3):
        u = torch.randn(len(theta), generator=generator, dtype=torch.float64)
        slope = (objective(theta + 1e-5 * u) - objective(theta - 1e-5 * u)) / 2e-5
        torch.testing.assert_close(found @ u, slope, rtol=1e-6, atol=1e-8)


@pytest.mark.quick
def test_sam_is_the_gradient_uphill() -> None:
    model, (x, y) = net(), batch()
    g = of(model, F.cross_entropy(model(x), y))
    other = copy.deepcopy(model)
    theta = nn.utils.parameters_to_vector(other.parameters()).detach()
    nn.utils.vector_to_parameters(theta + 0.2 * g / g.norm(), other.parameters())
    want = of(other, F.cross_entropy(other(x), y))
    before = [p.detach().clone() for p in model.parameters()]
    torch.testing.assert_close(gradient(SAM(0.2), model, x, y), want)
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


def test_sam_sees_the_same_noise_twice() -> None:
    """With noise of its own in the second pass the two directions would differ."""
    model, (x, y) = net(), batch()
    noisy = x + 0.5 * torch.randn(x.shape, generator=torch.Generator().manual_seed(9))
    torch.testing.assert_close(
        gradient(SAM(0.2) + InputNoise(0.5, seed=9), model, x, y), gradient(SAM(0.2), model, noisy, y)
    )


def test_sam_counts_a_batch_once_in_running_statistics() -> None:
    def made() -> nn.Sequential:
        return nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 3)).double().train()

    a, b = made(), made()
    b.load_state_dict(a.state_dict())
    x, y = batch()
    SAM(0.1).backward(F.cross_entropy, a, x, y)
    F.cross_entropy(b(x), y).backward()
    for name, buffer in a.named_buffers():
        torch.testing.assert_close(buffer, dict(b.named_buffers())[name])
